"""From cases that fail alike to a new pattern: signature lines generalised, and tried on everything else."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.case_features import ERROR_LINE, text_features
from npu_graph.case_format import Case, clean_line
from npu_graph.case_record import without_log_prefix
from npu_graph.case_store import add_pattern, replace_case
from npu_graph.patterns import PATTERN_FILE, Pattern, check_pattern, lower, parse_patterns
from npu_graph.regex_safety import MAX_LENGTH, regex_problem

# Stage -> the group of a pattern id.
ID_GROUPS = {
    "capture": "CAP",
    "replay": "REP",
    "memory": "MEM",
    "update": "UPD",
    "compile": "CMP",
    "accuracy": "ACC",
    "performance": "PERF",
    "env": "ENV",
    "not_graph": "ENV",
    "unknown": "ENV",
}
# A team's own patterns count from here, so that no shipped one ever gets the same id.
FIRST_LOCAL_NUMBER = 901
LAST_NUMBER = 999
# A signature needs this many letters of fixed text, else it would fit anything.
LEAST_LETTERS = 18
MOST_SIGNATURES = 4
MAX_LINES = 60
# What stands between two fixed parts of a line.
GAP = ".{0,80}"

_FRAME = 'File "'
_PUBLIC_REPORT = re.compile(r"github\.com/([\w.-]{1,39}/[\w.-]{1,100})/(?:issues|pull)/(\d{1,7})")
# torch_npu prints this line under every failed call, whatever failed.
_WRAPPER = re.compile(r"ERR\d{5} PTA ")
# Up to the class of the exception, or else the rank, process and time in front of a message.
_LEADING = re.compile(r"^.{0,400}?(?=\b\w{1,60}(?:error|exception) ?:)|^(?:[\[(][^\])]{0,80}[\])]:? {0,4})+")
_TOKEN = re.compile(r"[a-z_][a-z0-9_]*|[^\sa-z0-9_]|[0-9]+|\s+")
_VARIABLE = re.compile(
    r"\[[a-z]+(?:-[a-z]+)*-\d+\]|(?:[a-z]:)?(?:[\w.~+-]{0,100}[/\\]){1,30}[\w.+-]{0,120}|0x[0-9a-f]+|\d[\d.:,-]*"
)


class Proposal(NamedTuple):
    """A pattern as it would be written, and the signature lines that were dropped, with the reason."""

    identity: str
    text: str
    signature: list[str]
    dropped: list[str]


def propose_pattern(cases: Sequence[Case], patterns: Sequence[Pattern], others: Iterable[Case]) -> Proposal:
    """Propose a pattern for cases that share a signature.

    Args:
        cases: at least two confirmed cases.
        patterns: every known pattern; the new signature must not fit their symptoms.
        others: every other case; the new signature must not fit theirs.

    Raises:
        cli.CommandError: exit code 1 when the cases share no line that fits them alone.
    """
    texts = [lower(case.symptom) for case in cases]
    foreign = [(case.id, lower(case.symptom)) for case in others]
    foreign += [(pattern.id, lower(pattern.fields.get("Symptom", ""))) for pattern in patterns]
    kept: list[str] = []
    dropped: list[str] = []
    for expression in shared_expressions([case.symptom for case in cases]):
        reason = regex_problem(expression) or _misfit(expression, texts, foreign)
        if reason:
            dropped.append(f"{expression}: {reason}")
        elif len(kept) < MOST_SIGNATURES:
            kept.append(expression)
    if not kept:
        why = f"; dropped: {dropped[0]}" if dropped else ""
        raise cli.CommandError(f"these cases share no line that fits them and no other{why}", cli.NEGATIVE)
    identity = next_id(cases[0].stage, patterns)
    return Proposal(identity, render_pattern(identity, cases, kept), kept, dropped)


def shared_expressions(texts: Sequence[str]) -> list[str]:
    """Return expressions for lines that occur, but for what varies, in every text; the longest first."""
    found: dict[str, int] = {}
    first, *rest = [_telling_lines(text) for text in texts]
    for line in first:
        parts = _fixed_parts(line)
        for lines in rest:
            parts = max((_common_parts(parts, other) for other in lines), key=_letters, default=[])
        while parts and len(_expression(parts)) > MAX_LENGTH:
            parts = parts[:-1]
        if _letters(parts) >= LEAST_LETTERS:
            found.setdefault(_expression(parts), _letters(parts))
    return sorted(found, key=lambda expression: (-found[expression], expression))


def _telling_lines(text: str) -> list[str]:
    """Return the lower-cased lines that say what failed: no frames, no quoted code, no wrapper every report has."""
    telling: list[str] = []
    in_frame = False
    for line in text.split("\n"):
        quotes_code = in_frame and line.startswith("    ")
        in_frame = _FRAME in line
        says_something = any(name.startswith("m:") for name in text_features(line))
        if says_something and not quotes_code and not in_frame and not _WRAPPER.search(line):
            telling.append(_LEADING.sub("", lower(line)))
    return telling[:MAX_LINES]


def next_id(stage: str, patterns: Sequence[Pattern]) -> str:
    """Return the next free id of a team's own patterns in the group of a stage."""
    group = ID_GROUPS.get(stage, "ENV")
    used = {pattern.id for pattern in patterns}
    for number in range(FIRST_LOCAL_NUMBER, LAST_NUMBER + 1):
        if f"P-{group}-{number}" not in used:
            return f"P-{group}-{number}"
    raise cli.CommandError(
        f"all ids P-{group}-{FIRST_LOCAL_NUMBER} to {LAST_NUMBER} are used; retire patterns first", cli.NEGATIVE
    )


def render_pattern(identity: str, cases: Sequence[Case], signature: Sequence[str]) -> str:
    """Return the pattern in the grammar of known-patterns.md, filled from the cases."""
    owners = dict.fromkeys(case.owner for case in cases if case.owner)
    sources = dict.fromkeys(line for case in cases for line in case.sources.split("\n") if line)
    symptom = next((line for line in cases[0].symptom.split("\n") if _is_error(line)), cases[0].symptom)
    # Each case names its pattern; what others can open is the public report.
    seen = dict.fromkeys("#".join(found) for source in sources for found in _PUBLIC_REPORT.findall(source))
    fields = {
        "Stage": cases[0].stage,
        "Layer": cases[0].layer,
        "Owner": ", ".join(owners) or "framework",
        "Versions": _first(cases, "environment"),
        "Symptom": without_log_prefix(symptom),
        "Cause": _first(cases, "direct_cause"),
        "Trigger": _first(cases, "trigger"),
        "Fix now": _first(cases, "fix_now"),
        "Fix for good": _first(cases, "fix_for_good"),
        "Verify": _first(cases, "verification"),
        "Source": "; ".join(source.replace(";", ",") for source in sources) or "; ".join(case.id for case in cases),
        "Seen in": "; ".join(seen or (case.id for case in cases)),
    }
    lines = [f"### {identity} — {clean_line(cases[0].title, 150)}", ""]
    lines += [f"- {name}: {clean_line(value, 500)}" for name, value in fields.items()]
    lines += ["", "```signature", *(f"any: {expression}" for expression in signature), "```", ""]
    return "\n".join(lines)


def write_pattern(folder: Path, proposal: Proposal, cases: Sequence[Case]) -> Path:
    """Append the pattern to the folder's known-patterns.md and name it in its cases."""
    parsed = parse_patterns(proposal.text, PATTERN_FILE)
    faults = parsed.problems + [fault for pattern in parsed.patterns for fault in check_pattern(pattern)]
    if faults or len(parsed.patterns) != 1:
        raise cli.CommandError(f"not written: {faults[0].message if faults else 'not one pattern'}", cli.INTERNAL)
    path = add_pattern(folder, proposal.text)
    for case in cases:
        replace_case(folder, case._replace(pattern=proposal.identity))
    return path


def _first(cases: Sequence[Case], name: str) -> str:
    return next((getattr(case, name) for case in cases if getattr(case, name)), "not recorded")


def _is_error(line: str) -> bool:
    return any(name.startswith("m:") and weight >= ERROR_LINE for name, weight in text_features(line).items())


def _misfit(expression: str, texts: Sequence[str], foreign: Iterable[tuple[str, str]]) -> str | None:
    compiled = re.compile(expression)
    if not all(compiled.search(text) for text in texts):
        return "does not fit every one of the cases"
    hits = [name for name, text in foreign if compiled.search(text)]
    return f"also fits {', '.join(hits[:3])}" if hits else None


def _fixed_parts(line: str) -> list[list[str]]:
    """Split a lower-cased line at what varies; each part is a list of tokens."""
    marked = _VARIABLE.sub("\0", line)
    return [part for part in (_TOKEN.findall(piece) for piece in marked.split("\0")) if part]


def _common_parts(parts: list[list[str]], line: str) -> list[list[str]]:
    """Return what of the parts also stands, in this order, in another line."""
    separator = "\0"
    first = [token for part in parts for token in [*part, separator]]
    second = [token for part in _fixed_parts(line) for token in [*part, separator]]
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    common: list[list[str]] = []
    for block in matcher.get_matching_blocks():
        run: list[str] = []
        for token in [*first[block.a : block.a + block.size], separator]:
            if token != separator:
                run.append(token)
            elif run:
                common.append(run)
                run = []
    return [part for part in common if any(len(token) > 2 and token.isidentifier() for token in part)]


def _letters(parts: list[list[str]]) -> int:
    return sum(len(token) for part in parts for token in part if token.isidentifier())


def _expression(parts: list[list[str]]) -> str:
    pieces = []
    for part in parts:
        text = "".join(part).strip()
        pieces.append(re.sub(r"(?:\\ )+", " ", re.escape(text)))
    return GAP.join(piece for piece in pieces if piece)
