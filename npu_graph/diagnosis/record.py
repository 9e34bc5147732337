"""Build the diagnosis record of design section 5 from pasted text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from npu_graph.case_format import Case
from npu_graph.cases import SIMILAR_FROM, similar_cases
from npu_graph.cli import InputText, one_line
from npu_graph.codes import CodeBook
from npu_graph.diagnosis.anchors import LookUp, find_anchors
from npu_graph.diagnosis.classification import PHASES
from npu_graph.diagnosis.environment import find_releases
from npu_graph.diagnosis.error_lines import CodeMention, sentences_of, words_of
from npu_graph.diagnosis.first_cause import Failure, FirstCause, SetAside
from npu_graph.diagnosis.framework_places import find_named, read_compile_parts, read_frameworks, release_records
from npu_graph.diagnosis.later_fixes import find_histories, find_known_issues, find_later_fixes
from npu_graph.diagnosis.located import Located, locate
from npu_graph.diagnosis.missing import as_records
from npu_graph.diagnosis.report import compose_report
from npu_graph.expressions import compile_on_use
from npu_graph.knowledge import Knowledge
from npu_graph.patterns import Evidence, Match
from npu_graph.source_map import POSSIBLE, SourceMap, find_places

SCHEMA = "npu-graph/diagnosis/1"
MAX_CASES = 3
MAX_CODES = 20
MAX_REASON = 200
MAX_SAID = 2
_SAYS_WHERE = compile_on_use(r"(?:at \d{1,6}:\d{1,6}:?)?\s*")
# What the team found then saves the reader a second command; a long one is read with kb.py show.
_TOLD_OF_CASE = ("direct_cause", "fix_now", "fix_for_good", "sources")
MAX_CASE_TEXT = 400
_ERROR_NAME = compile_on_use(r"\b[A-Z][a-z]\w{0,60}(?:Error|Exception|Failed)\b")


def classify(inputs: Sequence[InputText], language: str, knowledge: Knowledge) -> dict[str, Any]:
    """Return the part of the record that says what failed: without places, releases, later changes and report."""
    return _classification(locate(inputs, language, knowledge), knowledge)


def diagnose(
    inputs: Sequence[InputText],
    language: str = "",
    folders: Sequence[Path] | None = None,
    knowledge: Knowledge | None = None,
) -> dict[str, Any]:
    """Diagnose pasted text.

    Args:
        inputs: the texts, in order.
        language: 'en', 'zh', or '' to follow the input.
        folders: knowledge folders, by default the bundle's seed and its overlays.
        knowledge: what was read of them already.

    Returns:
        The record of design section 5, plus `input` (what was left out, language), `later_fixes` and `known_issues`.
    """
    knowledge = knowledge or Knowledge(folders)
    found = locate(inputs, language, knowledge)
    text, primary = found.text, found.cause.failure
    pattern = found.known.pattern if found.known is not None else None
    source_map = SourceMap.load(knowledge.folders)
    places = find_places(text)
    environment = dict(found.environment)
    releases, environment["torch_npu_inferred"] = find_releases(environment, places, source_map)
    frameworks = read_frameworks("\n".join(item.text for item in inputs), places, knowledge.folders)
    parts = read_compile_parts(text, places, environment, releases, knowledge.folders)
    readings = [*frameworks, parts] if parts is not None else frameworks
    environment["framework_releases"] = release_records(readings)
    named = find_named(readings, text, f"{primary.type}: {primary.text}" if primary is not None else "", places)
    if parts is not None and not releases:
        releases = [release for wheel in parts.releases for release in source_map.find_release(wheel)[0]]
    histories = find_histories(text, frameworks, releases, source_map, knowledge.folders)
    # What the user's code, settings, CANN or driver have to mend is in no history that was read.
    is_mended_by_user = pattern is not None and found.owner.value in ("user_code", "environment", "cann", "driver")
    record: dict[str, Any] = {
        "schema": SCHEMA,
        **_classification(found, knowledge),
        "anchors": find_anchors(found, LookUp(_version_of_lines(environment), source_map, releases, readings), named),
        "environment": environment,
        "missing": as_records(found.missing, found.language),
        "report": {},
        "input": {
            "language": found.language,
            "lines": len(found.report.lines),
            "left_out": found.report.left_out,
            "error_named": _named_error(text) if primary is None else "",
        },
        "later_fixes": [] if is_mended_by_user else find_later_fixes(text, primary, histories),
        "known_issues": find_known_issues(text, histories, knowledge.folders, found.language),
    }
    record["report"] = compose_report(record, pattern, [match.pattern for match in found.matches], found.language)
    return record


def _classification(found: Located, knowledge: Knowledge) -> dict[str, Any]:
    stage, layer, owner = found.stage, found.layer, found.owner
    return {
        "verdict": found.verdict,
        "stage": {
            "value": stage.value,
            "phase": PHASES[stage.value],
            "confidence": stage.confidence,
            "evidence": _evidence(stage.evidence),
        },
        "layer": {"value": layer.value, "confidence": layer.confidence, "evidence": _evidence(layer.evidence)},
        "owner": {"value": owner.value, "confidence": owner.confidence},
        "first_cause": _first_cause_record(found.cause.failure, found.cause.wrapped_by, found.language),
        "error_codes": _code_records(found.codes, found.cause, knowledge.codes),
        "patterns": [_pattern_record(match, found.language) for match in found.matches],
        "cases": _case_records(found.text, found.codes, found.cause.failure, knowledge.folders),
    }


def _named_error(text: str) -> str:
    """Return the first exception that prose names ("causes `AssertionError in get_kernel`"), or an empty text."""
    found = _ERROR_NAME.search(text)
    return found.group(0) if found else ""


def _version_of_lines(environment: dict[str, Any]) -> str | None:
    """Return the version that the stack's line numbers belong to: the stated one, else the one the lines point to."""
    inferred = environment["torch_npu_inferred"]
    if environment["torch_npu"] or not inferred or inferred["sure"] == POSSIBLE:
        stated: str | None = environment["torch_npu"]
        return stated
    return inferred["value"] or None


def _evidence(items: Sequence[Evidence]) -> list[dict[str, Any]]:
    return [{"line": item.line, "text": item.text} for item in items]


def _first_cause_record(primary: Failure | None, aside: Sequence[SetAside], language: str) -> dict[str, Any] | None:
    if primary is None:
        return None
    frame = primary.frames[-1] if primary.frames else None
    return {
        "type": primary.type,
        "message": _full_message(primary)[:1000],
        "said": [words for words in sentences_of(primary.text) if words not in primary.message][:MAX_SAID],
        "line": primary.line,
        "frame": {"file": frame.file, "line": frame.line, "function": frame.function} if frame else None,
        "wrapped_by": [
            {
                "type": item.failure.type,
                "message": item.failure.message[:200],
                "line": item.failure.line,
                "why": item.why.zh if language == "zh" else item.why.en,
            }
            for item in aside[:10]
        ],
    }


def _full_message(primary: Failure) -> str:
    """Return the message; one that only says where (`at 9:21:`) with the last line of its text, which says what."""
    if not _SAYS_WHERE.fullmatch(primary.message):
        return primary.message
    rest = [line.strip() for line in primary.text.split("\n")[1:] if line.strip(" ^~")]
    return f"{primary.message} … {rest[-1]}" if rest else primary.message


def _code_records(codes: Sequence[CodeMention], cause: FirstCause, book: CodeBook) -> list[dict[str, Any]]:
    """Return the codes once each; those of the first cause are primary."""
    primary = cause.failure
    inside: set[int] = set()
    if primary is not None:
        inside.update(range(primary.order, primary.order + primary.text.count("\n") + 1))
    records: dict[str, dict[str, Any]] = {}
    for mention in codes:
        entries = book.find(mention.code)
        if not entries and not mention.code.startswith(("0x", "E")):
            continue  # a number that no table knows is more likely a count than a code
        role = "primary" if mention.order in inside else "secondary"
        earlier = records.get(mention.code)
        if earlier is None:
            records[mention.code] = {
                "code": mention.code,
                "symbol": entries[0].symbol if entries else "",
                "meaning": entries[0].meaning if entries else "not in the table of codes",
                "role": role,
                "line": mention.line,
                "reason": one_line(words_of(mention.text), MAX_REASON),
            }
        elif role == "primary" and earlier["role"] == "secondary":
            earlier.update(role="primary", line=mention.line)
    ordered = sorted(records.values(), key=lambda item: item["role"] != "primary")
    return ordered[:MAX_CODES]


def _pattern_record(match: Match, language: str) -> dict[str, Any]:
    pattern = match.pattern
    # What to look for where no measurement is written down: the pattern's trigger in the user's code or settings.
    trigger = pattern.text("Trigger", language)
    signature = pattern.signature
    confirm = list((signature.confirm_zh if language == "zh" else ()) or signature.confirm) or (
        [trigger] if trigger else []
    )
    return {
        "id": pattern.id,
        "title": pattern.title_in(language),
        "score": round(match.score, 2),
        "evidence": _evidence(match.evidence),
        "confirm": confirm,
    }


def _case_records(
    text: str, codes: Sequence[CodeMention], primary: Failure | None, folders: Sequence[Path]
) -> list[dict[str, Any]]:
    functions = [frame.function for frame in primary.frames[-8:]] if primary is not None else []
    found = similar_cases(text, [item.code for item in codes], functions, folders, limit=MAX_CASES)
    return [_case_record(case, score) for case, score in found if score >= SIMILAR_FROM]


def _case_record(case: Case, score: float) -> dict[str, Any]:
    told = {name: getattr(case, name)[:MAX_CASE_TEXT] for name in _TOLD_OF_CASE}
    return {"id": case.id, "title": case.title, "score": round(score, 2), "status": case.status, **told}
