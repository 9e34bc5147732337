"""Failure patterns: read from known-patterns.md, and matched against a cleaned report."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.regex_safety import needed_literals, regex_problem

PATTERN_FILE = "known-patterns.md"
STAGES = (
    "capture",
    "replay",
    "memory",
    "update",
    "compile",
    "accuracy",
    "performance",
    "env",
    "not_graph",
    "unknown",
)
LAYERS = ("L0", "L1", "L2", "L3", "L4", "L5")
OWNERS = (
    "user_code",
    "framework",
    "environment",
    "torch_npu",
    "op_plugin",
    "torch_compile",
    "npugraph_ex",
    "cann",
    "hccl",
    "driver",
)
FIELDS = (
    "Stage",
    "Layer",
    "Owner",
    "Versions",
    "Symptom",
    "Cause",
    "Trigger",
    "Fix now",
    "Fix for good",
    "Verify",
    "Source",
    "Seen in",
)
# Fields a report in Chinese shows; the English text stands in where one is absent.
CHINESE_FIELDS = ("Cause (zh)", "Trigger (zh)", "Fix now (zh)", "Fix for good (zh)", "Verify (zh)")
_KNOWN_FIELDS = frozenset(f"- {name}" for name in (*FIELDS, *CHINESE_FIELDS))
# `hint` lines are symptom words: they suggest a pattern, never establish it.
SIGNATURE_KEYS = ("any", "all", "not", "hint", "confirm", "confirm (zh)", "frame")

ID_FORM = compile_on_use(r"P-(?:CAP|REP|MEM|UPD|CMP|ACC|PERF|ENV|HANG)-\d{3}")
_HEADING = compile_on_use(r"### (\S+) — (.{1,200})")
_FIELD = compile_on_use(r"- ([A-Z][A-Za-z ]{0,20}(?: \(zh\))?): ?(.*)")

# Scores. A text signature on the first cause establishes a pattern; elsewhere in the report it only suggests it.
SCORE_ESTABLISHED = 0.9
SCORE_ELSEWHERE = 0.75
SCORE_ON_ECHO = 0.5
KNOWN_FROM = 0.7
CANDIDATE_FROM = 0.3
# Each needed line that is there makes a pattern more specific than one with fewer.
_SPECIFIC_STEP, _SPECIFIC_MOST = 0.02, 0.06
# Symptom words add up, and count more when they are a larger share of what the pattern lists. One word alone stays
# below the threshold of a candidate: measured on new reports, a single word suggested the wrong pattern.
_HINT_BASE, _HINT_STEP, _HINT_SHARE, _HINT_MOST = 0.05, 0.16, 0.08, 0.65
MAX_EVIDENCE = 4
# How many places of one expression are looked at for one outside a bare question.
MAX_QUESTIONS = 4
# In the title of a pattern that says no more than what is wrong.
OPEN_CAUSE = "cause not established"
# A line that quotes an error text and does not report one: a manual, a denial, a commit, a passed test, a comment.
_QUOTED = compile_on_use(
    r"\b(?:faq|docs?|documentation|manual|readme|wiki|guide|changelog|release notes?) (?:says?|states?|mentions?|:)"
    r"|\bdocs?:|\b(?:do|does|did|is|was) ?n[o']t (?:see|get|saw|hit|the)|\bgit log\b|\bfix(?:es|ed)?: "
    r"|\bpassed\b|expected (?:message|error)"
    r"|^\s{0,40}(?:#|//)|文档(?:里|中)?(?:说|写|提到)|没有?(?:看到|出现)"
)


# Words of a question: Latin words, numbers and ids, and pairs of Chinese characters.
_TERM = compile_on_use(r"[a-z0-9_][a-z0-9_.-]+|[\u4e00-\u9fff]{2}")
_COMMON_TERMS = frozenset(
    ("the", "and", "for", "with", "not", "from", "what", "how", "why", "does")
    + ("error", "code", "is", "in", "on", "of", "to", "npu", "graph")
)
_SEARCHED_FIELDS = ("Symptom", "Cause", "Trigger", "Cause (zh)", "Trigger (zh)")


class Problem(NamedTuple):
    """Something wrong in a knowledge file, by line (1-based)."""

    file: str
    line: int
    message: str


class Signature(NamedTuple):
    """The regular expressions of one pattern, as written; all are matched on lower-cased text."""

    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    hint: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    confirm_zh: tuple[str, ...] = ()
    frame: tuple[str, ...] = ()


class Pattern(NamedTuple):
    """One entry of known-patterns.md."""

    id: str
    title: str
    fields: dict[str, str]
    signature: Signature
    file: str
    line: int

    @property
    def stage(self) -> str:
        return self.fields.get("Stage", "unknown")

    @property
    def layer(self) -> str:
        return self.fields.get("Layer", "")

    @property
    def owner(self) -> str:
        """The owner when the report itself does not decide otherwise: the first of those listed."""
        return self.owners[0] if self.owners else ""

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.fields.get("Owner", "").split(",") if part.strip())

    @property
    def sources(self) -> list[str]:
        return _split_list(self.fields.get("Source", ""))

    @property
    def seen_in(self) -> list[str]:
        return _split_list(self.fields.get("Seen in", ""))

    def text(self, field: str, language: str) -> str:
        """Return a field in the language asked for ('en' or 'zh'), English where there is no Chinese."""
        if language == "zh":
            return self.fields.get(f"{field} (zh)") or self.fields.get(field, "")
        return self.fields.get(field, "")

    def title_in(self, language: str) -> str:
        """Return the half of a `English · 中文` title in that language."""
        english, _, chinese = self.title.partition(" · ")
        return (chinese or english) if language == "zh" else english


class PatternSet(NamedTuple):
    """All patterns of the seed and its overlays, and what was wrong in the files."""

    patterns: list[Pattern]
    problems: list[Problem]


class Evidence(NamedTuple):
    """A line of the report that supports a claim (1-based line number in the input)."""

    line: int
    text: str


class Match(NamedTuple):
    """A pattern found in a report."""

    pattern: Pattern
    score: float
    evidence: list[Evidence]


def load_patterns(folders: Iterable[Path]) -> PatternSet:
    """Read known-patterns.md of each folder; a later folder's pattern replaces an earlier one with the same id."""
    by_id: dict[str, Pattern] = {}
    problems: list[Problem] = []
    for order, folder in enumerate(folders):
        path = Path(folder) / PATTERN_FILE
        if not path.is_file():
            continue
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(str(path), 0, f"cannot be read: {type(error).__name__}"))
            continue
        found = parse_patterns(text, str(path))
        problems += found.problems
        for pattern in found.patterns:
            if order:
                # Overlays are other people's files: a faulty expression would stop, or stall, every diagnosis.
                faults = _signature_faults(pattern)
                problems += [Problem(pattern.file, pattern.line, f"{pattern.id}: {fault}") for fault in faults]
                if faults:
                    continue
            by_id[pattern.id] = pattern
    return PatternSet(list(by_id.values()), problems)


def parse_patterns(text: str, file: str) -> PatternSet:
    """Parse the text of a known-patterns.md; a faulty entry is reported and left out, the rest is kept."""
    patterns: list[Pattern] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for start, lines in _entries(text):
        heading = _HEADING.fullmatch(lines[0].rstrip())
        if heading is None or not ID_FORM.fullmatch(heading.group(1)):
            problems.append(Problem(file, start, f"not a pattern heading: {lines[0][:80]!r}"))
            continue
        pattern, faults = _parse_entry(heading.group(1), heading.group(2), lines, start, file)
        problems += faults
        if pattern.id in seen:
            problems.append(Problem(file, start, f"{pattern.id} is already defined at line {seen[pattern.id]}"))
            continue
        seen[pattern.id] = start
        signature = pattern.signature
        if signature.any or signature.all or signature.hint:
            patterns.append(pattern)
    return PatternSet(patterns, problems)


def check_pattern(pattern: Pattern) -> list[Problem]:
    """Return every breach of the grammar of design section 6 in one pattern."""
    faults = [f"field '{name}' is missing or empty" for name in FIELDS if not pattern.fields.get(name)]
    if pattern.stage not in STAGES:
        faults.append(f"stage {pattern.stage!r} is not one of {', '.join(STAGES)}")
    faults += [f"layer {layer!r} is not L0 to L5" for layer in [pattern.layer] if layer not in LAYERS]
    faults += [f"owner {owner!r} is not one of {', '.join(OWNERS)}" for owner in pattern.owners if owner not in OWNERS]
    if not (pattern.signature.any or pattern.signature.all or pattern.signature.hint):
        faults.append("the signature has no any, all or hint line")
    faults += _signature_faults(pattern)
    return [Problem(pattern.file, pattern.line, f"{pattern.id}: {fault}") for fault in faults]


def _signature_faults(pattern: Pattern) -> list[str]:
    faults = []
    for key, expressions in zip(SIGNATURE_KEYS, pattern.signature):
        for expression in () if key.startswith("confirm") else expressions:
            reason = regex_problem(expression)
            if reason:
                faults.append(f"signature line '{key}: {expression[:60]}' {reason}")
    return faults


def match_patterns(
    patterns: Sequence[Pattern],
    text: str,
    line_of: Sequence[int],
    primary: str,
    echoes: str,
    frame: Evidence | None = None,
    with_candidates: bool = True,
) -> list[Match]:
    """Score every pattern against a report, best first.

    Args:
        patterns: what to look for.
        text: the cleaned report, lines joined by newlines.
        line_of: input line number of each line of `text`.
        primary: the text of the first cause: a signature found there counts most.
        echoes: the lines set aside as consequences: a signature found only there counts least.
        frame: the first cause's frame that raised, None when it has none.
        with_candidates: also return patterns that symptom words alone suggest.
    """
    lowered, lowered_primary = lower(text), lower(primary)
    echo_lines = {line for line in lower(echoes).split("\n") if line.strip()}
    searcher = _Searcher(lowered, text, line_of)
    at = lower(frame.text) if frame is not None else ""
    matches = []
    for pattern in patterns:
        if not all(re.search(item, at, re.ASCII) for item in pattern.signature.frame):
            continue
        match = _match_one(pattern, searcher, lowered_primary, echo_lines, with_candidates)
        if match is not None:
            shown = [frame, *match.evidence] if frame is not None and pattern.signature.frame else match.evidence
            matches.append(match._replace(evidence=sorted(shown)[:MAX_EVIDENCE]))
    return sorted(matches, key=_rank)


def _rank(match: Match) -> tuple[bool, float, str]:
    """Best first; what names no cause of its own stands behind every candidate that does."""
    is_open = match.score < KNOWN_FROM and OPEN_CAUSE in match.pattern.title
    return is_open, -match.score, match.pattern.id


def search_patterns(patterns: Sequence[Pattern], words: str, limit: int = 5) -> list[Pattern]:
    """Return the patterns whose title, symptom, cause or trigger hold most of the words asked for, best first.

    For questions in words; a report is matched by its signature with `match_patterns`.
    """
    terms = set(_TERM.findall(lower(words[:2000])))
    wanted = [term for term in terms if term not in _COMMON_TERMS]
    scored = []
    for pattern in patterns:
        title = lower(f"{pattern.id} {pattern.title}")
        body = lower(" ".join(value for name, value in pattern.fields.items() if name in _SEARCHED_FIELDS))
        points = sum(2 if term in title else 1 for term in wanted if term in title or term in body)
        if points and points * 2 > len(wanted):
            scored.append((-points, pattern.id, pattern))
    return [pattern for _, _, pattern in sorted(scored, key=lambda item: item[:2])[:limit]]


def lower(text: str) -> str:
    """Lower-case without changing the length, so that offsets stay valid."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low) == 1 else char for char, low in ((char, char.lower()) for char in text))


class _Searcher:
    """Finds expressions in one report; an expression is compiled only when a text that it needs occurs."""

    def __init__(self, lowered: str, text: str, line_of: Sequence[int]) -> None:
        self.lowered = lowered
        self._text = text
        self._line_of = line_of

    def find(self, expression: str) -> tuple[int, str, str] | None:
        """Return (input line, line as written, lower-cased line) of the first match, or None."""
        literals = needed_literals(expression)
        if literals and not any(literal in self.lowered for literal in literals):
            return None
        found = self._first(expression)
        if found is None:
            return None
        start = self._text.rfind("\n", 0, found.start()) + 1
        end = self._text.find("\n", found.start())
        end = len(self._text) if end < 0 else end
        row = self._text.count("\n", 0, start)
        line = self._line_of[row] if row < len(self._line_of) else 0
        return line, self._text[start:end], self.lowered[start:end]

    def _first(self, expression: str) -> re.Match[str] | None:
        """Return the first match, but one in a bare question ("what is wrong here?") only when there is no other."""
        tried = itertools.islice(re.finditer(expression, self.lowered, re.ASCII), MAX_QUESTIONS)
        first = None
        for found in tried:
            first = first or found
            line = self.lowered[self.lowered.rfind("\n", 0, found.start()) + 1 :].split("\n", 1)[0].rstrip()
            if not line.endswith(("?", "？")):
                return found
        return first


def _match_one(
    pattern: Pattern, searcher: _Searcher, primary: str, echo_lines: set[str], with_candidates: bool
) -> Match | None:
    signature = pattern.signature
    hits = [hit for hit in map(searcher.find, signature.any) if hit]
    needed = [searcher.find(expression) for expression in signature.all]
    all_met = all(needed)
    established = all_met and (bool(hits) if signature.any else bool(signature.all))
    hints: list[tuple[int, str, str]] = []
    if not established:
        if not signature.hint or not with_candidates:
            return None
        hints = [hit for hit in map(searcher.find, signature.hint) if hit]
        if not hints:
            return None
    if any(searcher.find(expression) for expression in signature.no):
        return None
    found = hits + [hit for hit in needed if hit] if established else hints
    evidence = _distinct(found)
    if not established:
        share = _HINT_SHARE * len(hints) / len(signature.hint)
        return Match(pattern, min(_HINT_BASE + _HINT_STEP * len(hints) + share, _HINT_MOST), evidence)
    deciding = hits or [hit for hit in needed if hit]
    if any(low.strip() and low.strip() in primary for _, _, low in deciding):
        score = SCORE_ESTABLISHED
    elif all(low in echo_lines or _QUOTED.search(low) for _, _, low in deciding):
        score = SCORE_ON_ECHO
    else:
        score = SCORE_ELSEWHERE
    score += min(_SPECIFIC_STEP * len(signature.all), _SPECIFIC_MOST)
    return Match(pattern, score, evidence)


def _distinct(hits: Sequence[tuple[int, str, str]]) -> list[Evidence]:
    seen: dict[int, Evidence] = {}
    for line, written, _ in hits:
        seen.setdefault(line, Evidence(line, written.strip()[:300]))
    return sorted(seen.values())[:MAX_EVIDENCE]


def _entries(text: str) -> list[tuple[int, list[str]]]:
    """Split into (line number, lines) per `### ` heading; a heading inside a fence does not count."""
    entries: list[tuple[int, list[str]]] = []
    fenced = False
    kept: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        first = line[:1]
        if first == "`" and line.startswith("```"):
            fenced = not fenced
        if first == "#" and not fenced and line.startswith(("# ", "## ", "### ")):
            kept = [line] if line.startswith("### ") else []
            entries.append((number, kept))
        elif kept:
            kept.append(line)
    return [(number, lines) for number, lines in entries if lines]


def _parse_entry(identity: str, title: str, lines: list[str], start: int, file: str) -> tuple[Pattern, list[Problem]]:
    fields: dict[str, str] = {}
    signature: dict[str, list[str]] = {key: [] for key in SIGNATURE_KEYS}
    problems: list[Problem] = []
    in_signature = False
    name = ""
    for offset, line in enumerate(lines[1:], 1):
        number = start + offset
        if line.startswith("```"):
            in_signature = line.strip() == "```signature"
            name = ""
        elif in_signature:
            key, _, value = line.partition(":")
            if key in signature and value.strip():
                signature[key].append(value.strip())
            elif line.strip():
                problems.append(Problem(file, number, f"{identity}: not a signature line: {line[:60]!r}"))
        elif line.startswith("  ") and name:
            fields[name] = f"{fields[name]} {line.strip()}".strip()
        elif line:
            # Nearly all lines are known fields: asking for those first halves the time.
            begun, colon, value = line.partition(":")
            if colon and begun in _KNOWN_FIELDS:
                name = begun[2:]
                fields[name] = value.strip()
                continue
            field = _FIELD.fullmatch(line)
            if field:
                name = field.group(1)
                if name not in FIELDS and name not in CHINESE_FIELDS:
                    problems.append(Problem(file, number, f"{identity}: unknown field {name!r}"))
                fields[name] = field.group(2).strip()
            elif line.strip():
                problems.append(Problem(file, number, f"{identity}: unexpected line: {line[:60]!r}"))
    built = Signature(*(tuple(signature[key]) for key in SIGNATURE_KEYS))
    pattern = Pattern(identity, title.strip(), fields, built, file, start)
    return pattern, problems


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]
