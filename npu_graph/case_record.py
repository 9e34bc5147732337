"""From a diagnosis or from fields to a case worth keeping: filling in, refusing, redacting, spotting duplicates."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from npu_graph.case_features import fold_line
from npu_graph.case_format import FIELDS, MAX_TITLE, Case, clean_case, clean_line
from npu_graph.cases import similar_cases
from npu_graph.patterns import ID_FORM as PATTERN_ID
from npu_graph.patterns import KNOWN_FROM, Pattern, match_patterns
from npu_graph.redaction import Redactor

DIAGNOSIS_SCHEMA = "npu-graph/diagnosis/1"
# From here two symptoms are taken for the same failure (measured on public reports: two runs of one failure score
# above 0.9, two failures of a kind below 0.6).
DUPLICATE_FROM = 0.8
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
    if not case.title:
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
    if not case.symptom.strip():
        missing.append("symptom: the error text as it appeared (--symptom-file FILE, or --symptom TEXT)")
    if case.stage in ("", "unknown"):
        missing.append("stage: at which stage it failed (--stage)")
    if not case.layer:
        missing.append("layer: where the error was raised (--layer L0 to L5)")
    if not (verified or case.sources.strip() or draft.evidence):
        missing.append("evidence: how it was verified (--verify TEXT), or where it can be read (--source URL)")
    elif case.status == "confirmed" and not (verified or case.sources.strip()):
        missing.append("a confirmed case needs --verify TEXT with the result, or --source URL; else --status suspected")
    return missing


def redact_case(case: Case, redactor: Redactor) -> Case:
    """Return the case with secrets and identities hidden in every field that holds free text."""
    hidden = {
        field.name: redactor.apply(getattr(case, field.name), field.label)
        for field in FIELDS
        if field.name not in _NOT_REDACTED
    }
    return case._replace(title=redactor.apply(case.title, "Title"), **hidden)


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
    for place in (frame, *map(_dict, _list(record.get("anchors")))):
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
    return clean_line((errors[-1:] or lines[:1] or [""])[0], 120)


def _folded(symptom: str) -> list[str]:
    return [line for line in map(fold_line, symptom.split("\n")) if line]
