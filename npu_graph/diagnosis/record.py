"""Build the diagnosis record of design section 5 from pasted text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph.case_format import Case
from npu_graph.cases import SIMILAR_FROM, similar_cases
from npu_graph.cli import InputText, one_line
from npu_graph.codes import CodeBook
from npu_graph.diagnosis.anchors import find_anchors
from npu_graph.diagnosis.classification import (
    GRAPH_WORDS,
    PHASES,
    Finding,
    decide_layer,
    decide_owner,
    decide_stage,
    is_about_graph,
    is_ruled_out,
    raising_frame,
)
from npu_graph.diagnosis.environment import find_environment, find_releases
from npu_graph.diagnosis.error_lines import (
    CallSite,
    CodeMention,
    find_call_sites,
    find_codes,
    find_log_errors,
    find_told_errors,
    words_of,
)
from npu_graph.diagnosis.first_cause import IN_A_LOG, Failure, FirstCause, SetAside, find_first_cause
from npu_graph.diagnosis.framework_places import find_named, read_frameworks, release_records
from npu_graph.diagnosis.later_fixes import find_histories, find_known_issues, find_later_fixes
from npu_graph.diagnosis.missing import Item, as_records, find_missing
from npu_graph.diagnosis.reading import Report, read_report
from npu_graph.diagnosis.report import compose_report
from npu_graph.diagnosis.tracebacks import find_exceptions
from npu_graph.expressions import compile_on_use
from npu_graph.knowledge import Knowledge
from npu_graph.patterns import CANDIDATE_FROM, KNOWN_FROM, Evidence, Match, Pattern, match_patterns
from npu_graph.source_map import POSSIBLE, SourceMap, find_places

SCHEMA = "npu-graph/diagnosis/1"
MAX_PATTERNS = 5
MAX_CASES = 3
MAX_NEAREST = 3
_RULED_OUT_SCORE = 0.5
# Below the threshold of a candidate: a code alone is shared by several causes.
_NEAR_BY_CODE = 0.29
MAX_CODES = 20
MAX_REASON = 200
_SAYS_WHERE = compile_on_use(r"(?:at \d{1,6}:\d{1,6}:?)?\s*")
# Where a table of versions stands: near the head of a report.
MAX_TABLE = 64 * 1024
_CHINESE_SHARE = 0.02
_CHINESE_LINE = 0.4
EDGE_LINES = 3
# What the team found then saves the reader a second command; a long one is read with kb.py show.
_TOLD_OF_CASE = ("direct_cause", "fix_now", "fix_for_good", "sources")
MAX_CASE_TEXT = 400
_ERROR_NAME = compile_on_use(r"\b[A-Z][a-z]\w{0,60}(?:Error|Exception|Failed)\b")


class Located(NamedTuple):
    """What a report says of its failure by its text alone.

    Attributes:
        report: what was read, cleaned; `text` is all its lines.
        language: 'en' or 'zh'.
        codes: the codes in it.
        sites: the calls that its log lines name.
        cause: the first cause, and what was set aside.
        matches: patterns, best first.
        known: the pattern that is established, None when none is.
        verdict: of the record.
        stage, layer, owner: each with confidence and evidence.
        missing: what to ask for.
        environment: versions and variables.
    """

    report: Report
    text: str
    language: str
    codes: list[CodeMention]
    sites: list[CallSite]
    cause: FirstCause
    matches: list[Match]
    known: Match | None
    verdict: str
    stage: Finding
    layer: Finding
    owner: Finding
    missing: list[Item]
    environment: dict[str, Any]


def locate(inputs: Sequence[InputText], language: str, knowledge: Knowledge) -> Located:
    """Find first cause, pattern, stage, layer and owner; `language` '' follows the input."""
    report = read_report(inputs)
    text = report.text
    codes = find_codes(report.lines)
    sites = find_call_sites(report.lines)
    cause = find_first_cause(report.lines, find_exceptions(report.lines), sites, codes, find_log_errors(report.lines))
    if cause.failure is None or _only_names_a_code(cause.failure):
        told = find_first_cause(report.lines, [], [], [], find_told_errors(report.lines))
        cause = _with_code(told, cause)
    primary = cause.failure
    echoes = "\n".join(item.failure.text for item in cause.wrapped_by)
    matches = _best_matches(report, primary, echoes, knowledge.patterns)
    best = matches[0] if matches else None
    known = best if best is not None and best.score >= KNOWN_FROM else None
    pattern = known.pattern if known is not None else None
    score = known.score if known is not None else 0.0

    stage = decide_stage(report.lines, primary, pattern, score)
    layer = decide_layer(report.lines, primary, pattern, score)
    owner = decide_owner(text, primary, pattern, layer.value)
    # Tables and columns of versions are read as pasted: a head like `| torch_npu |` looks like a log's prefix.
    as_pasted = find_environment("\n".join(item.text for item in inputs)[:MAX_TABLE])
    environment = {key: value or as_pasted[key] for key, value in find_environment(text).items()}
    missing = find_missing(text, primary, environment, stage.value, known is not None)
    if stage.value == "not_graph":
        missing = []
    verdict = _verdict(known, best, primary, stage, missing, text)
    if verdict == "unknown":
        matches = _nearest(primary, codes, knowledge.patterns)
    if known is None and best is not None and verdict == "candidate" and primary is None:
        # Words without an error: the nearest pattern says more about the stage than single words do.
        stage = stage._replace(value=best.pattern.stage, confidence=round(best.score * 0.9, 2))
        owner = decide_owner(text, primary, best.pattern, layer.value)._replace(confidence=round(best.score * 0.8, 2))
    if not stage.evidence:
        stage = stage._replace(evidence=best.evidence if best else [])
    if not layer.evidence:
        layer = layer._replace(evidence=known.evidence if known else [])
    return Located(
        report,
        text,
        language or detect_language(text),
        codes,
        sites,
        cause,
        matches,
        known,
        verdict,
        stage,
        layer,
        owner,
        missing,
        environment,
    )


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
        The record of design section 5, plus `input` (what was left out, language) .
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
    environment["framework_releases"] = release_records(frameworks)
    named = find_named(frameworks, text, f"{primary.type}: {primary.text}" if primary is not None else "", places)
    histories = find_histories(text, frameworks, releases, source_map, knowledge.folders)
    # What the user's own code or settings have to mend is in no project's history.
    is_mended_by_user = pattern is not None and found.owner.value in ("user_code", "environment", "cann", "driver")
    record: dict[str, Any] = {
        "schema": SCHEMA,
        **_classification(found, knowledge),
        "anchors": find_anchors(
            primary, found.sites, pattern, _version_of_lines(environment), source_map, releases, frameworks, named
        ),
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


# A code in a sentence of the reporter's (`the op reports **error 561002**.`), not in a line of a log.
_PROSE = compile_on_use(r"[*`]|\b(?:reports?|with|and|the|an?|我们|报)\b|[\u4e00-\u9fff]")


def _with_code(told: FirstCause, cause: FirstCause) -> FirstCause:
    """Return the told error, with the sentence that names its code behind it; the cause as it was when none is told."""
    if told.failure is None or cause.failure is None:
        return cause if told.failure is None else told
    text = f"{told.failure.text}\n{cause.failure.text}"
    return told._replace(failure=told.failure._replace(text=text))


def _only_names_a_code(failure: Failure) -> bool:
    """Say whether the failure is no more than a code that somebody's sentence names."""
    return failure.type == "code" and _PROSE.search(failure.text) is not None and IN_A_LOG.search(failure.text) is None


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


def detect_language(text: str) -> str:
    """Return 'zh' when the people's part of the text is Chinese, else 'en'."""
    sample = text[:20000]
    chinese = _count_chinese(sample)
    if chinese >= 8 and chinese > len(sample) * _CHINESE_SHARE:
        return "zh"
    # A question stands before or after a pasted log, whatever the log is in.
    written = [line for line in text.split("\n") if line.strip()]
    edges = written[:EDGE_LINES] + written[-EDGE_LINES:]
    return "zh" if any(8 <= _count_chinese(line) > len(line) * _CHINESE_LINE for line in edges) else "en"


def _count_chinese(text: str) -> int:
    return sum(1 for character in text if "一" <= character <= "鿿")


def _best_matches(report: Report, primary: Failure | None, echoes: str, patterns: Sequence[Pattern]) -> list[Match]:
    numbers = [line.number for line in report.lines]
    first = f"{primary.type}: {primary.text}" if primary is not None else ""
    deepest = raising_frame(primary) if primary is not None else None
    frame = None
    if deepest is not None:
        frame = Evidence(deepest.at, f'File "{deepest.file}", line {deepest.line}, in {deepest.function}')
    matches = match_patterns(patterns, report.text, numbers, first, echoes, frame)
    if is_ruled_out(report.text.lower()) and not is_about_graph(first.lower()):
        # The reporter says that graph mode plays no part: a graph pattern may be listed, and is not claimed.
        matches = [match._replace(score=min(match.score, _RULED_OUT_SCORE)) for match in matches]
    if primary is not None and matches and matches[0].score >= KNOWN_FROM:
        # With the cause established, symptom words of other patterns are noise.
        matches = [match for match in matches if match.score >= 0.5]
    return [match for match in matches if match.score >= CANDIDATE_FROM][:MAX_PATTERNS]


def _nearest(primary: Failure | None, codes: Sequence[CodeMention], patterns: Sequence[Pattern]) -> list[Match]:
    """Return what an unknown failure is nearest to: patterns whose symptom names its code.

    Single words are no use here: measured on new reports, none of them named the right pattern.
    """
    if primary is None:
        return []
    inside = {mention.code: mention for mention in codes if mention.code in primary.text and mention.code[0].isdigit()}
    by_code = [
        Match(pattern, _NEAR_BY_CODE, [Evidence(mention.line, mention.text)])
        for code, mention in inside.items()
        for pattern in patterns
        if code in pattern.fields.get("Symptom", "")
    ]
    return by_code[:MAX_NEAREST]


def _verdict(
    known: Match | None,
    best: Match | None,
    primary: Failure | None,
    stage: Finding,
    missing: Sequence[Item],
    text: str,
) -> str:
    if known is not None:
        return "not_graph" if known.pattern.stage == "not_graph" else "known"
    if stage.value == "not_graph":
        return "not_graph"
    if best is not None:
        return "candidate"
    if primary is None and (missing or not GRAPH_WORDS.search(text.lower())):
        return "insufficient"
    return "unknown"


def _evidence(items: Sequence[Evidence]) -> list[dict[str, Any]]:
    return [{"line": item.line, "text": item.text} for item in items]


def _first_cause_record(primary: Failure | None, aside: Sequence[SetAside], language: str) -> dict[str, Any] | None:
    if primary is None:
        return None
    frame = primary.frames[-1] if primary.frames else None
    return {
        "type": primary.type,
        "message": _full_message(primary)[:1000],
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
