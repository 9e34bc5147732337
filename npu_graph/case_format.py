"""The form of a case: its fields, how it is written as Markdown, and how it is read back.

Text inside a case never becomes structure: a symptom stands in a fence longer than any run of backticks in it,
other values are escaped, and characters that cannot be seen are written out as \\u{hex}.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.patterns import LAYERS, OWNERS, STAGES, Problem

STATUSES = ("confirmed", "suspected", "retired")
ID_FORM = r"C-\d{8}-[0-9a-f]{8,32}"
MAX_TITLE = 160
# A heading needs some text: what is left of a title of colour codes or blanks is none.
NO_TITLE = "(no title)"
MAX_LINE = 600
MAX_PROSE = 6000
MAX_SYMPTOM_BYTES = 64 * 1024

LINE, PROSE, BLOCK = "line", "prose", "block"


class Field(NamedTuple):
    """One field of a case: the attribute, its label in the file, and the form of its value."""

    name: str
    label: str
    form: str


# The order in which a case is written, and the whole list of what CASE_TEMPLATE.md explains.
FIELDS = (
    Field("date", "Date", LINE),
    Field("status", "Status", LINE),
    Field("stage", "Stage", LINE),
    Field("layer", "Layer", LINE),
    Field("location", "Location", LINE),
    Field("owner", "Owner", LINE),
    Field("pattern", "Pattern", LINE),
    Field("environment", "Environment", PROSE),
    Field("symptom", "Symptom", BLOCK),
    Field("first_cause", "First cause", PROSE),
    Field("direct_cause", "Direct cause", PROSE),
    Field("trigger", "Trigger", PROSE),
    Field("scope", "Scope", PROSE),
    Field("fix_now", "Fix now", PROSE),
    Field("fix_for_good", "Fix for good", PROSE),
    Field("verification", "Verification", PROSE),
    Field("sources", "Sources", PROSE),
    Field("seen_again", "Seen again", PROSE),
    Field("retired_because", "Retired because", PROSE),
)
_BY_LABEL = {field.label: field for field in FIELDS}
REQUIRED = ("date", "status", "stage", "layer", "symptom")


class Case(NamedTuple):
    """One case. Every value is text; an absent one is empty. `sources` and `seen_again` hold one entry a line."""

    id: str
    title: str
    date: str = ""
    status: str = ""
    stage: str = ""
    layer: str = ""
    location: str = ""
    owner: str = ""
    pattern: str = ""
    environment: str = ""
    symptom: str = ""
    first_cause: str = ""
    direct_cause: str = ""
    trigger: str = ""
    scope: str = ""
    fix_now: str = ""
    fix_for_good: str = ""
    verification: str = ""
    sources: str = ""
    seen_again: str = ""
    retired_because: str = ""

    def values(self) -> dict[str, str]:
        """Return every field by its attribute name, in the order of the file."""
        return {field.name: str(getattr(self, field.name)) for field in FIELDS}


class Entry(NamedTuple):
    """A case as found in a file, with the line of its heading."""

    case: Case
    file: str
    line: int


class Parsed(NamedTuple):
    """The entries of one text, and what was wrong in it."""

    entries: list[Entry]
    problems: list[Problem]


# --- cleaning -------------------------------------------------------------------------------------------------------

_ANSI = compile_on_use(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# C0 and C1 controls, format and direction marks, tag characters and lone surrogates: a reader would not see them,
# or would see something else than what stands there.
_UNSEEN = compile_on_use(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e01ef]"
)


def clean_text(text: str) -> str:
    """Return text with line ends unified, colour codes dropped and unseen characters written out as \\u{hex}."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _ANSI.sub("", text)
    return _UNSEEN.sub(lambda found: f"\\u{{{ord(found.group()):x}}}", text)


_LEFT_OUT = compile_on_use(r"\[\.\.\. (\d{1,15}) bytes left out \.\.\.\]")


def shorten(text: str, limit: int = MAX_SYMPTOM_BYTES) -> str:
    """Return the head and tail of a text too long to keep whole: still twice what clean_block keeps of it.

    Redaction comes between the two, so that nothing is cut in half before it has been looked at.
    """
    if len(text) <= 2 * limit:
        return text
    left_out = len(text[limit:-limit].encode("utf-8", "replace"))
    return f"{text[:limit]}\n[... {left_out} bytes left out ...]\n{text[-limit:]}"


def clean_line(text: str, limit: int = MAX_LINE) -> str:
    """Return text folded to one line of at most `limit` characters."""
    folded = " ".join(clean_text(text[: limit * 8]).split())
    return folded if len(folded) <= limit else folded[: limit - 1].rstrip() + "…"


def clean_prose(text: str, limit: int = MAX_PROSE) -> str:
    """Return text of one or more lines: no blank lines, no trailing blanks, at most `limit` characters."""
    lines = [line.rstrip() for line in clean_text(text[: limit * 8]).expandtabs(4).split("\n")]
    kept = "\n".join(line for line in lines if line).strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + "…"


def clean_block(text: str, limit: int = MAX_SYMPTOM_BYTES) -> str:
    """Return text as quoted in a fence: at most `limit` bytes, head and tail kept, with a note of the rest."""
    lines = [line.rstrip() for line in clean_text(shorten(text)).split("\n")]
    filled = [number for number, line in enumerate(lines) if line]
    cleaned = "\n".join(lines[filled[0] : filled[-1] + 1]) if filled else ""
    data = cleaned.encode("utf-8")
    if len(data) <= limit:
        return cleaned
    half = (limit - 80) // 2
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    dropped = data[len(head.encode("utf-8")) : len(data) - len(tail.encode("utf-8"))]
    # What was left out before stands there as a note; its number counts, the note itself does not.
    notes = list(_LEFT_OUT.finditer(dropped.decode("utf-8", "ignore")))
    left_out = len(dropped) + sum(int(note.group(1)) - len(note.group()) for note in notes)
    return f"{head.rstrip()}\n[... {left_out} bytes left out ...]\n{tail}".rstrip()


_CLEAN = {LINE: clean_line, PROSE: clean_prose, BLOCK: clean_block}


def clean_case(case: Case) -> Case:
    """Return the case as it can be stored: reading what was written then gives exactly this."""
    cleaned = {field.name: _CLEAN[field.form](getattr(case, field.name)) for field in FIELDS}
    return Case(id=case.id, title=clean_line(case.title, MAX_TITLE) or NO_TITLE, **cleaned)


# --- escaping -------------------------------------------------------------------------------------------------------

_PUNCTUATION = r"!-/:-@\[-`{-~"
# A backslash that would escape something, a tag or entity, a link or image: each gets a backslash before it.
_INLINE = compile_on_use(rf"\\(?=[{_PUNCTUATION}]|$)|<|&(?=#?\w)|\](?=\()|(?<=!)\[")
_ESCAPED = compile_on_use(rf"\\([{_PUNCTUATION}])")
# At the start of a line these open a heading, quote, list, table, fence, rule or link definition.
_OPENING = compile_on_use(r"^( *)([#>|=~+*`_\[-])")
_NUMBERED = compile_on_use(r"^( *\d{1,9})([.)])")


def escape_line(line: str, opening: bool) -> str:
    """Escape one line of a value; `opening` says that it stands at the start of a line of the file."""
    escaped = _INLINE.sub(lambda found: "\\" + found.group(), line)
    if opening:
        escaped = _NUMBERED.sub(r"\1\\\2", _OPENING.sub(r"\1\\\2", escaped))
    return escaped


def unescape_line(line: str) -> str:
    """Undo escape_line."""
    return _ESCAPED.sub(r"\1", line)


# --- writing --------------------------------------------------------------------------------------------------------


def render_case(case: Case) -> str:
    """Return the entry as Markdown, ending in one newline. The case must be clean (clean_case)."""
    title = re.sub(r"(#+)$", r"\\\1", escape_line(case.title, opening=False))
    parts = [f"## {case.id} — {title}\n"]
    for field in FIELDS:
        value = str(getattr(case, field.name))
        if not value:
            continue
        if field.form == BLOCK:
            fence = fence_for(value)
            parts.append(f"- {field.label}:\n\n{fence}text\n{value}\n{fence}\n")
        else:
            first, *rest = value.split("\n")
            parts.append(f"- {field.label}: {escape_line(first, opening=False)}")
            parts += [f"  {escape_line(line, opening=True)}" for line in rest]
    return _join(parts)


def _join(parts: Sequence[str]) -> str:
    return "\n".join(parts).rstrip("\n") + "\n"


def fence_for(text: str) -> str:
    """Return a run of backticks longer than any in the text."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))


# --- reading --------------------------------------------------------------------------------------------------------

_HEADING = compile_on_use(rf"## ({ID_FORM}) — (.{{1,1000}})")
_FIELD_LINE = compile_on_use(r"- ([A-Z][A-Za-z ]{0,30}):(?: (.*))?")
_FENCE_LINE = compile_on_use(r"(`{3,})[A-Za-z]{0,20}\s*")


def parse_cases(text: str, file: str) -> Parsed:
    """Read every entry of a text; a fault is reported by line, and what can be read still is."""
    lines = text.replace("\r\n", "\n").split("\n")
    entries: list[Entry] = []
    problems: list[Problem] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.startswith("## "):
            index += 1
            continue
        heading = _HEADING.fullmatch(line.rstrip())
        if heading is None:
            problems.append(Problem(file, index + 1, f"not a case heading (## C-yyyymmdd-hex — title): {line[:80]!r}"))
            index += 1
            while index < len(lines) and not lines[index].startswith("## "):
                index += 1
            continue
        reader = _EntryReader(lines, index, file)
        entry = reader.read(heading.group(1), unescape_line(heading.group(2).strip()))
        entries.append(entry)
        problems += reader.problems
        index = reader.index
    return Parsed(entries, problems)


class _EntryReader:
    """Reads one entry, from the line after its heading up to the next heading."""

    def __init__(self, lines: list[str], start: int, file: str) -> None:
        self.lines, self.start, self.file = lines, start, file
        self.index = start + 1
        self.problems: list[Problem] = []
        self._values: dict[str, str] = {}
        self._open = ""

    def read(self, identity: str, title: str) -> Entry:
        while self.index < len(self.lines) and not self.lines[self.index].startswith("## "):
            self._take_line(self.lines[self.index])
        case = Case(id=identity, title=title, **self._values)
        self.problems += [Problem(self.file, self.start + 1, f"{identity}: {fault}") for fault in case_faults(case)]
        return Entry(case, self.file, self.start + 1)

    def _take_line(self, line: str) -> None:
        fence = _FENCE_LINE.fullmatch(line)
        field = _FIELD_LINE.fullmatch(line)
        if fence:
            self._take_block(fence.group(1))
            return
        if field:
            self._take_field(field.group(1), field.group(2) or "")
        elif line.startswith("  ") and self._open:
            value = unescape_line(line[2:].rstrip())
            self._values[self._open] = f"{self._values[self._open]}\n{value}".strip("\n")
        elif line.strip():
            self._report("not part of a field; start the line with two spaces to continue the field above")
        self.index += 1

    def _take_field(self, label: str, value: str) -> None:
        field = _BY_LABEL.get(label)
        self._open = ""
        if field is None:
            self._report(f"unknown field {label!r}; expected one of {', '.join(_BY_LABEL)}")
        elif field.name in self._values:
            self._report(f"field {label!r} is given twice; the first is used")
        elif field.form == BLOCK:
            if value.strip():
                self._report(f"the value of {label!r} belongs in a fence (```text) below the field")
            self._values[field.name] = unescape_line(value.strip())
        else:
            self._values[field.name] = unescape_line(value.strip())
            self._open = field.name

    def _take_block(self, fence: str) -> None:
        opened = self.index
        end = opened + 1
        while end < len(self.lines) and not self._closes(self.lines[end], fence):
            end += 1
        if end == len(self.lines):
            self._report("the fence opened here is not closed")
            end = opened + 1
            while end < len(self.lines) and not _HEADING.fullmatch(self.lines[end].rstrip()):
                end += 1
            self.index = end
        else:
            self.index = end + 1
        text = "\n".join(self.lines[opened + 1 : end]).strip("\n")
        if self._values.get("symptom"):
            self.problems.append(
                Problem(self.file, opened + 1, "a second fence in one case; only the symptom is fenced")
            )
        else:
            self._values["symptom"] = text
        self._open = ""

    def _closes(self, line: str, fence: str) -> bool:
        bare = line.rstrip()
        return len(bare) >= len(fence) and not bare.strip("`")

    def _report(self, message: str) -> None:
        self.problems.append(Problem(self.file, self.index + 1, message))


_DATE = compile_on_use(r"\d{4}-\d{2}-\d{2}")


def case_faults(case: Case) -> list[str]:
    """Return what breaks the form of a case: missing fields and words outside the agreed ones."""
    labels = {field.name: field.label for field in FIELDS}
    faults = [f"field {labels[name]!r} is missing or empty" for name in REQUIRED if not getattr(case, name)]
    words = (("status", STATUSES), ("stage", STAGES), ("layer", LAYERS), ("owner", OWNERS))
    for name, allowed in words:
        value = getattr(case, name)
        if value and value not in allowed:
            faults.append(f"{name} {value[:40]!r} is not one of {', '.join(allowed)}")
    if case.date and not _DATE.fullmatch(case.date):
        faults.append(f"date {case.date[:40]!r} is not yyyy-mm-dd")
    return faults
