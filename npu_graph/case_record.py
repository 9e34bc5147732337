"""From a diagnosis or from fields to a case worth keeping: filling in, refusing, redacting, spotting duplicates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from npu_graph import bundle, cli
from npu_graph.case_features import fold_line
from npu_graph.case_files import knowledge_folder_of
from npu_graph.case_format import (
    FIELDS,
    ID_FORM,
    MAX_TITLE,
    Case,
    Entry,
    case_faults,
    clean_block,
    clean_case,
    clean_line,
    clean_text,
    shorten,
)
from npu_graph.case_store import append_case, new_case_id, replace_case, today
from npu_graph.cases import find_case, read_cases, similar_cases
from npu_graph.diagnosis.reading import clean_line as read_line
from npu_graph.patterns import ID_FORM as PATTERN_ID
from npu_graph.patterns import KNOWN_FROM, Pattern, load_patterns, match_patterns
from npu_graph.redaction import Redactor

DIAGNOSIS_SCHEMA = "npu-graph/diagnosis/1"
# From here two symptoms are taken for the same failure. Measured on 291 texts (public reports, cases, examples of the
# patterns): another run of the same failure inside a log of 120 other lines reaches it in 97 of 100, two different
# public reports score 0.59 at most. A wrong guess costs the user one --force, a missed one a second case.
DUPLICATE_FROM = 0.7
# From here two cases may share one signature.
SAME_SIGNATURE_FROM = 0.5
CASES_FOR_A_PATTERN = 2
_ENVIRONMENT_KEYS = ("torch", "torch_npu", "cann", "driver", "soc", "python")
# Fields that hold agreed words or ids: nothing to hide in them, and a placeholder would break them.
_NOT_REDACTED = ("date", "status", "stage", "layer", "owner", "pattern")


class Draft(NamedTuple):
    """A case being put together, and the lines of the report that support it."""

    case: Case
    evidence: list[str]


class Advice(NamedTuple):
    """Whether known-patterns.md should get a new pattern, why, and which cases speak for it."""

    is_needed: bool
    reason: str
    cases: list[str]


# --- filling in -----------------------------------------------------------------------------------------------------


def draft_from_diagnosis(record: Any) -> Draft:
    """Fill a case from the JSON of diagnose.py; what the record lacks stays empty.

    Raises:
        ValueError: it is not such a record.
    """
    if not isinstance(record, dict) or record.get("schema") != DIAGNOSIS_SCHEMA:
        raise ValueError(f"not a diagnosis: expected a JSON object with schema {DIAGNOSIS_SCHEMA!r}")
    first = _dict(record.get("first_cause"))
    report = _dict(record.get("report"))
    fix = _dict(report.get("fix"))
    evidence = _evidence_lines(record)
    error = ": ".join(part for part in (_text(first.get("type")), _text(first.get("message"))) if part)
    steps = [_text(step) for step in _list(report.get("verify"))]
    case = Case(
        id="",
        title=clean_line(error or _text(report.get("overview")), MAX_TITLE),
        stage=_text(_dict(record.get("stage")).get("value")),
        layer=_text(_dict(record.get("layer")).get("value")),
        owner=_text(_dict(record.get("owner")).get("value")),
        location=_location(record),
        pattern=_matched_pattern(record),
        environment=_environment(_dict(record.get("environment"))),
        symptom=_text(record.get("input")) or "\n".join(dict.fromkeys([*evidence, error])).strip(),
        first_cause=error,
        direct_cause=_text(report.get("root_cause")),
        fix_now=_text(fix.get("short_term")),
        fix_for_good=_text(fix.get("long_term")),
        verification="Not run yet; to do: " + "; ".join(steps) if steps else "",
    )
    return Draft(case, evidence)


def with_fields(draft: Draft, fields: Mapping[str, str]) -> Draft:
    """Return the draft with the given fields over those it has; empty ones change nothing."""
    given = {name: value for name, value in fields.items() if value.strip()}
    case = draft.case._replace(**given)
    if not clean_line(case.title):
        case = case._replace(title=_title_from(case.symptom))
    return Draft(case, draft.evidence)


def missing_parts(draft: Draft, verified: bool) -> list[str]:
    """Return what a case still needs before it may be kept: symptom, level, evidence. Empty when it has all.

    Args:
        draft: the case.
        verified: a verification was given (the steps that a diagnosis proposes are not one).
    """
    case = draft.case
    missing = []
    if not clean_block(case.symptom):
        missing.append("symptom: the error text as it appeared (--symptom-file FILE, or --symptom TEXT)")
    if case.stage in ("", "unknown"):
        missing.append("stage: at which stage it failed (--stage)")
    if case.layer in ("", "unknown"):
        missing.append("layer: where the error was raised (--layer L0 to L5)")
    if not (verified or case.sources.strip() or draft.evidence):
        missing.append("evidence: how it was verified (--verify TEXT), or where it can be read (--source URL)")
    elif case.status == "confirmed" and not (verified or case.sources.strip()):
        missing.append("a confirmed case needs --verify TEXT with the result, or --source URL; else --status suspected")
    return missing


def redact_case(case: Case, redactor: Redactor) -> Case:
    """Return the case with secrets and identities hidden in every field that holds free text.

    Cleaned first: a colour code between a name and its value would hide the value from the rules.
    """
    hidden = {
        field.name: redactor.apply(clean_text(shorten(getattr(case, field.name))), field.label)
        for field in FIELDS
        if field.name not in _NOT_REDACTED
    }
    return case._replace(title=redactor.apply(clean_text(shorten(case.title)), "Title"), **hidden)


# --- what is already there ------------------------------------------------------------------------------------------


def near_duplicates(case: Case, folders: Sequence[Path]) -> list[tuple[Case, float]]:
    """Return recorded cases that look like the same failure, best first."""
    folded = _folded(case.symptom)
    found = []
    for other, points in similar_cases(case.symptom, folders=folders, limit=10, seconds=None):
        likeness = 1.0 if folded and _folded(other.symptom) == folded else points
        if likeness >= DUPLICATE_FROM:
            found.append((other, likeness))
    return sorted(found, key=lambda item: (-item[1], item[0].id))


def merge_case(existing: Case, new: Case, date: str) -> Case:
    """Return the existing case with another sighting: its empty fields filled, sources united, one line more."""
    filled = {
        name: value
        for name, value in new.values().items()
        if value and not getattr(existing, name) and name != "retired_because"
    }
    sources = dict.fromkeys([*existing.sources.split("\n"), *new.sources.split("\n")])
    sighting = "; ".join(part for part in (date, clean_line(new.environment), clean_line(new.verification)) if part)
    status = "confirmed" if "confirmed" in (existing.status, new.status) else existing.status
    return clean_case(
        existing._replace(
            **{
                **filled,
                "status": status,
                "sources": "\n".join(source for source in sources if source),
                "seen_again": f"{existing.seen_again}\n{sighting}".strip(),
            }
        )
    )


def matching_patterns(symptom: str, patterns: Sequence[Pattern]) -> list[str]:
    """Return the ids of patterns whose signature a symptom carries."""
    lines = symptom.count("\n") + 1
    matches = match_patterns(patterns, symptom, range(1, lines + 1), symptom, "")
    return [match.pattern.id for match in matches if match.score >= KNOWN_FROM]


def pattern_advice(case: Case, patterns: Sequence[Pattern], folders: Sequence[Path]) -> Advice:
    """Say whether known-patterns.md should get a pattern for this case."""
    known = {pattern.id for pattern in patterns}
    if case.pattern in known:
        return Advice(False, f"{case.pattern} covers it", [])
    matched = matching_patterns(case.symptom, patterns)
    if matched:
        return Advice(False, f"{matched[0]} matches its symptom", [])
    sharing = [case.id] if case.status == "confirmed" else []
    for other, points in similar_cases(case.symptom, folders=folders, limit=20, seconds=None):
        if other.id == case.id or other.status != "confirmed" or points < SAME_SIGNATURE_FROM:
            continue
        if other.pattern not in known and not matching_patterns(other.symptom, patterns):
            sharing.append(other.id)
    if len(sharing) >= CASES_FOR_A_PATTERN:
        return Advice(True, f"{len(sharing)} confirmed cases share a signature that no pattern covers", sharing)
    return Advice(True, "no pattern matches its symptom; write one when the cause is confirmed", sharing)


# --- reading a record whose shape is not to be trusted --------------------------------------------------------------


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _evidence_lines(record: Mapping[str, Any]) -> list[str]:
    groups: list[Any] = [record.get("stage"), record.get("layer"), *_list(record.get("patterns"))]
    rows: list[tuple[int, str]] = []
    for group in groups:
        for item in _list(_dict(group).get("evidence")):
            line, text = _dict(item).get("line"), _text(_dict(item).get("text")).strip()
            if text:
                rows.append((line if isinstance(line, int) else 0, text))
    return list(dict.fromkeys(text for _, text in sorted(rows)))


def _location(record: Mapping[str, Any]) -> str:
    frame = _dict(_dict(record.get("first_cause")).get("frame"))
    # Only what the reporter's own stack or release gives: a pattern's source is where to read, not where it failed.
    exact = [anchor for anchor in map(_dict, _list(record.get("anchors"))) if anchor.get("exact") is True]
    for place in (frame, *exact):
        function, file, line = _text(place.get("function")), _text(place.get("file")), place.get("line")
        if file:
            where = f"{file}:{line}" if isinstance(line, int) else file
            return f"{function} ({where})" if function else where
    return ""


def _matched_pattern(record: Mapping[str, Any]) -> str:
    for item in map(_dict, _list(record.get("patterns"))):
        identity, points = _text(item.get("id")), item.get("score")
        if PATTERN_ID.fullmatch(identity) and isinstance(points, (int, float)) and points >= KNOWN_FROM:
            return identity
    return ""


def _environment(environment: Mapping[str, Any]) -> str:
    parts = [f"{key} {environment[key]}" for key in _ENVIRONMENT_KEYS if isinstance(environment.get(key), str)]
    framework = _dict(environment.get("framework"))
    name = " ".join(part for part in (_text(framework.get("name")), _text(framework.get("version"))) if part)
    parts += [name] if name else []
    variables = _dict(environment.get("variables"))
    parts += [f"{key}={value}" for key, value in variables.items() if isinstance(value, (str, int, float))]
    return "; ".join(parts)


def _title_from(symptom: str) -> str:
    lines = [line.strip() for line in symptom.split("\n") if line.strip()]
    errors = [line for line in lines if "Error" in line or "error code" in line or "rror:" in line]
    return clean_line(without_log_prefix((errors[-1:] or lines[:1] or [""])[0]), 120)


def without_log_prefix(line: str) -> str:
    """Return a line as its program wrote it: no process, time and place of the logger in front."""
    cleaned = read_line(1, line)
    return (cleaned[0].text.strip() if cleaned else "") or line


def _folded(symptom: str) -> list[str]:
    return [line for line in map(fold_line, symptom.split("\n")) if line]


# --- keeping --------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What became of a draft.

    `case` is the case as written, or as it would be. `path` is None when nothing was written; then `alike` says why.
    `alike` holds recorded cases that look like the same failure, best first (not looked for when forced).
    """

    case: Case
    path: Path | None
    alike: list[tuple[Case, float]]
    advice: Advice | None
    notes: list[str]


def prepare_case(draft: Draft, verified: bool, redactor: Redactor) -> Case:
    """Return the case to be written: complete, redacted, clean, with a new id.

    Raises:
        cli.CommandError: exit code 2, naming what is missing or is no agreed word.
    """
    missing = missing_parts(draft, verified)
    if missing:
        raise cli.CommandError("not recorded; missing: " + "; ".join(missing), cli.USAGE)
    case = clean_case(redact_case(draft.case, redactor)._replace(id=new_case_id()))
    faults = case_faults(case)
    if faults:
        raise cli.CommandError("not recorded; " + "; ".join(faults), cli.USAGE)
    return case


def record_case(case: Case, force: bool = False) -> Outcome:
    """Write a prepared case, unless one is recorded that looks like the same failure and `force` is off."""
    alike = [] if force else near_duplicates(case, bundle.knowledge_folders())
    if alike:
        return Outcome(case, None, alike, None, [])
    written = append_case(bundle.writable_knowledge_folder(), case)
    return Outcome(case, written.path, alike, _advice_now(case), written.notes)


def merge_into(identity: str, case: Case) -> Outcome:
    """Add a prepared case to a recorded one as another sighting.

    Raises:
        cli.CommandError: exit code 1 when there is no such case, 2 when it is retired.
    """
    entry = named_case(identity)
    if entry.case.status == "retired":
        why = clean_line(entry.case.retired_because, 80)
        raise cli.CommandError(f"{entry.case.id} is retired ({why}); record a new case with --force")
    merged = merge_case(entry.case, case, today())
    written = replace_case(folder_to_change(entry), merged)
    return Outcome(merged, written.path, [], _advice_now(merged), written.notes)


def retire_case(identity: str, why: str, redactor: Redactor) -> Outcome:
    """Take a case out of the search; it stays readable, with the reason.

    Raises:
        cli.CommandError: exit code 1 when there is no such case, 2 when the reason is empty.
    """
    reason = clean_line(why)
    if not reason:
        raise cli.CommandError("the reason is empty; say in a line why the case is retired")
    entry = named_case(identity)
    retired = clean_case(
        entry.case._replace(status="retired", retired_because=redactor.apply(reason, "Retired because"))
    )
    written = replace_case(folder_to_change(entry), retired)
    return Outcome(retired, written.path, [], None, written.notes)


def named_case(name: str) -> Entry:
    """Return the case with this id, or the only one whose id begins so.

    Raises:
        cli.CommandError: exit code 1 when there is none, or several.
    """
    folders = bundle.knowledge_folders()
    exact = find_case(name, folders) if re.fullmatch(ID_FORM, name) else None
    if exact is not None:
        return exact
    found = [entry for identity, entry in read_cases(folders).entries.items() if name and identity.startswith(name)]
    if len(found) == 1:
        return found[0]
    shown = clean_line(name, 40)
    if found:
        some = ", ".join(entry.case.id for entry in found[:5])
        raise cli.CommandError(f"{len(found)} cases begin with {shown}: {some}; give more of the id", cli.NEGATIVE)
    raise cli.CommandError(f"no case {shown}; kb.py list shows the ids", cli.NEGATIVE)


def folder_to_change(entry: Entry) -> Path:
    """Return where a changed case is written: where it lies; a shipped or read-only one goes where new cases go."""
    own = knowledge_folder_of(Path(entry.file))
    is_shipped = own.resolve() == bundle.SEED_KNOWLEDGE.resolve()
    return own if not is_shipped and bundle.is_writable(own) else bundle.writable_knowledge_folder()


def _advice_now(case: Case) -> Advice:
    # Asked again: the overlay may have come into being with this case.
    folders = bundle.knowledge_folders()
    return pattern_advice(case, load_patterns(folders).patterns, folders)
