"""Find what failed: first cause, pattern, stage, layer and owner of a report, by its text alone."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from npu_graph.cli import InputText
from npu_graph.diagnosis.classification import (
    GRAPH_WORDS,
    Finding,
    decide_layer,
    decide_owner,
    decide_stage,
    is_about_graph,
    is_ruled_out,
    raising_frame,
)
from npu_graph.diagnosis.environment import find_environment
from npu_graph.diagnosis.error_lines import (
    CallSite,
    CodeMention,
    find_call_sites,
    find_codes,
    find_log_errors,
    find_told_errors,
)
from npu_graph.diagnosis.first_cause import IN_A_LOG, Failure, FirstCause, find_first_cause
from npu_graph.diagnosis.missing import Item, find_missing
from npu_graph.diagnosis.reading import Report, read_report
from npu_graph.diagnosis.tracebacks import Frame, find_cut_frames, find_exceptions
from npu_graph.expressions import compile_on_use
from npu_graph.knowledge import Knowledge
from npu_graph.language import detect_language
from npu_graph.patterns import CANDIDATE_FROM, KNOWN_FROM, Evidence, Match, Pattern, match_patterns

MAX_PATTERNS = 5
MAX_NEAREST = 3
_RULED_OUT_SCORE = 0.5
# Below the threshold of a candidate: a code alone is shared by several causes.
_NEAR_BY_CODE = 0.29
# Where a table of versions stands: near the head of a report.
MAX_TABLE = 64 * 1024


class Located(NamedTuple):
    """What a report says of its failure by its text alone.

    Attributes:
        report: what was read, cleaned; `text` is all its lines.
        language: 'en' or 'zh'.
        codes: the codes in it.
        sites: the calls that its log lines name.
        cause: the first cause, and what was set aside.
        frames: of the first cause, without one those of a traceback whose exception was cut off.
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
    frames: list[Frame]
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
    raised = find_exceptions(report.lines)
    cause = find_first_cause(report.lines, raised, sites, codes, find_log_errors(report.lines))
    if cause.failure is None or _only_names_a_code(cause.failure):
        told = find_first_cause(report.lines, [], [], [], find_told_errors(report.lines))
        cause = _with_code(told, cause)
    cut = find_cut_frames(report.lines) if not raised else []
    if cause.failure is not None and cut:
        # A line of a log before a traceback whose exception was not copied: the frames say where.
        cause = cause._replace(failure=cause.failure._replace(frames=cut))
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
        primary.frames if primary is not None else cut,
        matches,
        known,
        verdict,
        stage,
        layer,
        owner,
        missing,
        environment,
    )


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
