"""Source map: which file, function and line of which release an error text or frame comes from, and the reverse.

The data is knowledge/source-map.tsv (graph-mode-expert/references/source_reading.md explains it). Line numbers are
those of a release, because users run releases: a branch moves on after its release was built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterable, NamedTuple, Sequence, Tuple

from npu_graph.expressions import compile_on_use
from npu_graph.plain_files import open_plain

MAP_NAME = "source-map.tsv"
MAX_MAP_BYTES = 8 * 1024 * 1024
# An error text is a few lines; more than this is a log, and only its head is compared with messages.
MAX_TEXT = 16 * 1024
MAX_PLACES = 200
# A shorter piece of a message occurs by chance in other text.
MIN_PIECE = 12
# aarch64 builds up to release 7.3.0 print this in place of the file's name; the line is the real file's.
LOST_NAME = "compiler_depend.ts"

FINAL, PRE, WHEEL, HEAD = "final", "pre", "wheel", "head"
CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"

Lines = Dict[str, Tuple[int, ...]]


class Release(NamedTuple):
    """One release for one PyTorch line, `id` = release/pytorch.

    `base` is the release whose lines hold where this one has none of its own (patch releases, unpublished wheels).
    """

    id: str
    base: str
    wheel: str
    cann: str
    ref: str
    commit: str
    torchair: str
    op_plugin: str
    status: str

    @property
    def release(self) -> str:
        return self.id.partition("/")[0]

    @property
    def pytorch(self) -> str:
        return self.id.partition("/")[2]

    @property
    def wheel_only(self) -> bool:
        """True where no public commit is known: Python lines come from the wheel, C++ lines from `base`."""
        return self.status == WHEEL


class Wheel(NamedTuple):
    """A version of torch_npu as pip names it, the release it was built from, and how that is known."""

    version: str
    id: str
    exact: bool
    why: str


class Row(NamedTuple):
    """One site. `printed` is the function name that a message shows, `where` the packed lines per release."""

    file: str
    function: str
    printed: str
    kind: str
    message: str
    meaning: str
    where: str


class Meaning(NamedTuple):
    """What a site usually means: stage (design words), and the sentence in both languages."""

    stage: str
    en: str
    zh: str


class Place(NamedTuple):
    """A function:file:line in a text. `file` is '' when its name is lost; `call` is the text of the failed call."""

    function: str
    file: str
    line: int
    call: str
    text: str


class Match(NamedTuple):
    """A row found for a text. `line` is that of the asked release, None when the site is not in it."""

    row: Row
    line: int | None
    score: float


class Inference(NamedTuple):
    """Which release a stack's lines belong to. `value` is '' when several final releases fit equally."""

    value: str
    sure: str
    ids: list[str]
    evidence: list[str]
    against: list[str]


class SourceMap:
    """The map, read once; rows are split on first use. Look-ups never raise, whatever the text holds."""

    def __init__(self, text: str = "") -> None:
        self.head: list[str] = []
        self.releases: dict[str, Release] = {}
        self.wheels: dict[str, Wheel] = {}
        self.meanings: dict[str, Meaning] = {}
        self._raw: list[str] = []
        self._rows: list[Row] | None = None
        for line in text.splitlines():
            kind, _, rest = line.partition("\t")
            if kind == "site":
                self._raw.append(rest)
                continue
            self.head.append(line)
            cells = rest.split("\t")
            if kind == "release" and len(cells) == 9:
                self.releases[cells[0]] = Release._make("" if cell == "-" else cell for cell in cells)
            elif kind == "wheel" and len(cells) == 4:
                self.wheels[cells[0]] = Wheel(cells[0], cells[1], cells[2] == "exact", cells[3])
            elif kind == "meaning" and len(cells) == 4:
                self.meanings[cells[0]] = Meaning(*cells[1:])

    @classmethod
    def load(cls, folders: Iterable[Path]) -> SourceMap:
        """Read the first folder that holds the map; an empty map when none does."""
        for folder in folders:
            try:
                with open_plain(Path(folder) / MAP_NAME) as source:
                    return cls(source.read(MAX_MAP_BYTES).decode("utf-8", "replace"))
            except OSError:
                continue
        return cls()

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            cells = (raw.split("\t") for raw in self._raw)
            self._rows = [Row._make(row) for row in cells if len(row) == 7]
        return self._rows

    def lines_in(self, row: Row, release_id: str) -> tuple[int, ...]:
        """Return the row's lines in a release, () when it is not there."""
        return _lines_in(parse_lines(row.where), release_id, self.releases)

    def is_measured(self, row: Row, release: Release) -> bool:
        """Say whether the row's line was read in that release itself: an unpublished wheel shows only its Python."""
        return not release.wheel_only or row.file.endswith(".py")

    def meaning_of(self, row: Row) -> Meaning:
        return self.meanings.get(row.meaning, Meaning("unknown", "", ""))

    # --- versions ------------------------------------------------------------------------------------------------

    def find_release(self, version: str, pytorch: str = "") -> tuple[list[Release], bool]:
        """Return the releases that a version can mean, and whether that is exact.

        Args:
            version: a wheel's version (2.10.0, 2.7.1.post2), a release (7.3.0), release and line (26.0.0/2.9.0), a tag
                (v26.0.0-pytorch2.9.0) or a branch (v2.9.0-26.0.0).
            pytorch: the PyTorch version, which chooses among the lines of a release.
        """
        text = version.strip().lower().lstrip("v").partition("+")[0]
        if text in self.releases:
            return [self.releases[text]], True
        branch = re.fullmatch(r"(\d+\.\d+\.\d+)-(\d[\w.-]*)", text)  # v2.10.0-26.0.0, a branch name
        if branch and f"{branch.group(2)}/{branch.group(1)}" in self.releases:
            return [self.releases[f"{branch.group(2)}/{branch.group(1)}"]], True
        tag = re.fullmatch(r"(\d[\w.-]*)-pytorch(\d+\.\d+\.\d+)", text)  # v26.0.0-pytorch2.10.0
        if tag and f"{tag.group(1)}/{tag.group(2)}" in self.releases:
            return [self.releases[f"{tag.group(1)}/{tag.group(2)}"]], True
        wheel = self.wheels.get(text) or self.wheels.get(f"{text}.0")
        if wheel and wheel.id in self.releases:
            return [self.releases[wheel.id]], wheel.exact
        of_release = [release for release in self.releases.values() if release.release == text]
        line = ".".join(pytorch.partition("+")[0].split(".")[:3])
        chosen = [release for release in of_release if release.pytorch == line]
        return chosen or of_release, bool(of_release)

    def root(self, release_id: str) -> str:
        """Return the release that a patch release or an unpublished wheel follows; any other is its own."""
        release = self.releases.get(release_id)
        if release is None or not release.base or release.status not in (FINAL, WHEEL):
            return release_id.partition("/")[0]
        return self.root(release.base)

    # --- text to place -------------------------------------------------------------------------------------------

    def match_text(self, text: str, release_id: str = "") -> list[Match]:
        """Return the sites whose message or call stands in the text, best first."""
        folded = " ".join(text[:MAX_TEXT].split())
        fragment = fragment_of(folded)
        matches: list[Match] = []
        for row in self.rows:
            if row.kind == "frame":
                continue
            score = message_score(row.message, folded)
            score = score or fragment_score(fragment, row.message)
            if score:
                lines = self.lines_in(row, release_id) if release_id else ()
                # One site of several that print the same: the function printed beside the message decides.
                near = 0.5 if f"{row.printed}:" in folded or f"function {row.printed})" in folded else 0.0
                matches.append(Match(row, lines[0] if lines else None, score + near + (0.25 if lines else 0.0)))
        matches.sort(key=lambda item: -item.score)
        best = matches[0].score if matches else 0.0
        return [item for item in matches if item.score >= best * 0.75][:20]

    def match_place(self, place: Place, release_id: str = "") -> list[Match]:
        """Return the sites at a place, those whose line is right in the release first; [] when nothing is known."""
        matches = []
        for row in self._rows_named(place):
            lines = parse_lines(row.where)
            here = _lines_in(lines, release_id, self.releases) if release_id else ()
            if place.line in here:
                matches.append(Match(row, place.line, 3.0))
            elif any(place.line in _lines_in(lines, other, self.releases) for other in self.releases):
                matches.append(Match(row, here[0] if here else None, 2.0))
            elif place.call and _same_call(place.call, row.message):
                matches.append(Match(row, here[0] if here else None, 1.0))
        matches.sort(key=lambda item: (-item.score, item.row.kind == "frame"))
        best = matches[0].score if matches else 0.0
        return [item for item in matches if item.score == best]

    def releases_at(self, place: Place) -> list[str] | None:
        """Return the ids of the releases that have a site at this place; None when no site bears its name."""
        rows = self._rows_named(place)
        if not rows:
            return None
        parsed = [parse_lines(row.where) for row in rows]
        return [
            release_id
            for release_id in self.releases
            if any(place.line in _lines_in(lines, release_id, self.releases) for lines in parsed)
        ]

    def _rows_named(self, place: Place) -> list[Row]:
        file, function = own_path(place.file), place.function.rpartition("::")[2]
        if (not function and not file) or ("/" in file and not file.startswith("torch_npu/")):
            return []  # no name at all, or another package's file
        rows = [
            row
            for row in self.rows
            if (not file or row.file == file or ("/" not in file and row.file.endswith("/" + file)))
            and (file or not row.file.endswith(".py"))
            and (not function or function == row.printed)
        ]
        if place.call:
            rows = [row for row in rows if _same_call(place.call, row.message)] or rows
        return rows

    # --- place to release ----------------------------------------------------------------------------------------

    def infer_release(self, places: Sequence[Place], pytorch: str = "") -> Inference | None:
        """Say which release the places of one stack belong to; None when no place says anything."""
        votes: dict[str, int] = {}
        evidence: list[str] = []
        against: list[str] = []
        line = ".".join(pytorch.partition("+")[0].split(".")[:3])
        for place in dict.fromkeys(place._replace(text="") for place in places[:MAX_PLACES]):
            ids = self.releases_at(place)
            if ids is None:
                continue
            shown = f"{place.function or '?'} at {Path(own_path(place.file)).name or LOST_NAME}:{place.line}"
            if not ids:
                against.append(shown)
                continue
            evidence.append(shown)
            for release_id in ids:
                votes[release_id] = votes.get(release_id, 0) + 1
        if not votes:
            return Inference("", POSSIBLE, [], [], against) if against else None
        most = max(votes.values())
        best = [release_id for release_id, count in votes.items() if count == most]
        best = [release_id for release_id in best if self.releases[release_id].pytorch == line] or best
        published = [release_id for release_id in best if self.releases[release_id].status == FINAL]
        roots = list(dict.fromkeys(self.root(release_id) for release_id in published or best))
        value = roots[0] if len(roots) == 1 else ""
        agree = most == len(evidence) and not against
        only = len({self.root(release_id) for release_id in best}) == 1
        sure = POSSIBLE if not value or not agree else CERTAIN if only and most >= 2 else LIKELY
        return Inference(value, sure, sorted(best, key=list(self.releases).index), evidence, against)


def infer_release(pairs: Iterable[tuple[str, int]], source_map: SourceMap, pytorch: str = "") -> Inference | None:
    """Say which release (function or ACL call, line) pairs belong to, e.g. [("AclmdlRICaptureEnd", 209)]."""
    places = []
    for name, line in pairs:
        of_call = name.startswith(("Acl", "acl"))
        printed = {row.printed for row in source_map.rows if of_call and f"::{name.lower()}(" in row.message.lower()}
        own = name.rpartition("::")[2]
        files = {row.file for row in source_map.rows if row.printed == own and row.file.endswith(".py")}
        options = [Place(function, "", line, f"{name}(", "") for function in sorted(printed)]
        options = options or [Place(name, file, line, "", "") for file in ("", *sorted(files))]
        places.append(next((place for place in options if source_map.releases_at(place)), options[0]))
    return source_map.infer_release(places, pytorch)


# --- reading places ----------------------------------------------------------------------------------------------

_AT = compile_on_use(r"(\.(?:cpp|cc|h|ts|py))\"?(?::|\", line |, line | line |\":)(\d{1,6})(?!\d)")
_FILE_BEFORE = compile_on_use(r"[\w./\\~+-]{1,240}$")
_NAME_BEFORE = compile_on_use(r"([A-Za-z_~][\w:~]{0,80}?(?:\(\))?|operator\(\)):\"?$")
_FROM_BEFORE = compile_on_use(r"raised from ([A-Za-z_~][\w:~]{0,80}(?:\(\))?) at \"?$")
_NAME_AFTER = compile_on_use(r"[\])\",:]{0,3} {0,3}(?:in |function )?\(?([A-Za-z_<~][\w:~<>]{0,80}(?:\(\))?)")
_WARNED_IN = compile_on_use(r"\(function ([A-Za-z_~][\w:~]{0,80}(?:\(\))?)\)")
_CALL_AFTER = compile_on_use(r"(?:(?:NPU|OPS|HCCL) function error|NPU warning): ?([\w:]{1,120}\()")
_EXCEPTION = compile_on_use(r"^(?:[A-Za-z_][\w.]{0,80}(?:Error|Exception|Warning): ?){1,3}")
# What may follow a line number without being the function's name.
_NOT_NAMES = frozenset(["Warning", "NPU", "OPS", "HCCL", "please", "in", "at", "function", "error", "most", "recent"])


def find_places(text: str) -> list[Place]:
    """Return every function:file:line of a text, in order: torch_npu errors and warnings, asserts, Python frames."""
    places = []
    for line in text.splitlines():
        for found in _AT.finditer(line[:4000]):
            before, after = line[: found.start()], line[found.end() : found.end() + 700]
            file = _FILE_BEFORE.search(before[-240:])
            if not file:
                continue
            extension = found.group(1)
            name = file.group() + extension
            function = _function_near(before[: len(before) - len(file.group())], after, is_python=extension == ".py")
            call = _CALL_AFTER.search(after)
            lost = name.endswith(LOST_NAME)
            places.append(
                Place(
                    function,
                    "" if lost else name,
                    int(found.group(2)),
                    call.group(1) if call else "",
                    line.strip()[:300],
                )
            )
            if len(places) >= MAX_PLACES:
                return places
    return places


def _function_near(before: str, after: str, is_python: bool) -> str:
    warned = None if is_python else _WARNED_IN.search(after)
    if warned:
        return warned.group(1)
    if not is_python:
        for expression in (_NAME_BEFORE, _FROM_BEFORE):
            found = expression.search(before[-120:])
            if found:
                return found.group(1)
    found = _NAME_AFTER.match(after)
    return found.group(1) if found and found.group(1).rstrip(":") not in _NOT_NAMES else ""


def own_path(file: str) -> str:
    """Return a path from its package on (torch_npu/npu/graphs.py), or as it is where it has none."""
    path = file.replace("\\", "/")
    at = path.rfind("torch_npu/")
    return path[at:] if at >= 0 else path


# --- lines and messages ------------------------------------------------------------------------------------------


def parse_lines(where: str) -> Lines:
    """Unpack `209@7.2.0,7.3.0/2.8.0+2.9.0 12+40@26.0.0 -@7.2.0.1` to lines by release or release/pytorch."""
    lines: Lines = {}
    for group in where.split(" "):
        numbers, _, names = group.partition("@")
        value = tuple(int(number) for number in numbers.split("+") if number.isdigit())
        for name in names.split(","):
            release, _, versions = name.partition("/")
            for version in versions.split("+"):
                lines[f"{release}/{version}" if version else release] = value
    return lines


def format_lines(lines: Lines, releases: dict[str, Release]) -> str:
    """Pack lines: a release that has the same as its base is left out, one whose PyTorch lines agree is named once."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for release_id, release in releases.items():
        value = lines.get(release_id)
        if value is None:
            continue
        inherited = _lines_of_base(lines, release, releases)
        if value != inherited:
            groups.setdefault(value, []).append(release_id)
    packed = []
    for value, ids in groups.items():
        names = []
        for named in dict.fromkeys(releases[release_id].release for release_id in ids):
            whole = [other for other in releases.values() if other.release == named]
            part = [other.pytorch for other in whole if other.id in ids]
            names.append(named if len(part) == len(whole) else f"{named}/{'+'.join(part)}")
        packed.append(("+".join(map(str, value)) or "-") + "@" + ",".join(names))
    return " ".join(packed)


def _lines_of_base(lines: Lines, release: Release, releases: dict[str, Release]) -> tuple[int, ...]:
    while release.base:
        release = releases[release.base]
        if release.id in lines:
            return lines[release.id]
    return ()


def _lines_in(lines: Lines, release_id: str, releases: dict[str, Release]) -> tuple[int, ...]:
    release = releases.get(release_id)
    while release is not None:
        for name in (release.id, release.release):
            if name in lines:
                return lines[name]
        release = releases.get(release.base)
    return ()


def fragment_of(folded: str) -> str:
    """Return a text without the names of exceptions before it, to be looked for inside messages."""
    return _EXCEPTION.sub("", folded).strip(" .\"'`")


def fragment_score(fragment: str, message: str) -> float:
    """Return how much of a message a text is that stands inside it, 0 when it is no part of it."""
    inside = MIN_PIECE <= len(fragment) < len(message) and fragment in message
    return 0.4 + 0.4 * len(fragment) / len(message) if inside else 0.0


def message_score(message: str, folded: str) -> float:
    """Return how much of the message stands in the text (in letters, at most 1), 0 when a piece is missing."""
    if "(" in message and "::" in message and " " not in message.partition("(")[0]:
        # A call: printed whole, but the arguments may be cut off by a log's line limit.
        return 0.9 if _call_name(message) + "(" in folded else 0.0
    at, length = 0, 0
    for piece in message.split("{}"):
        text = piece.strip()
        if len(text) < 3:
            continue
        found = folded.find(text, at)
        if found < 0:
            # A log may cut the message after its first sentence.
            first = message.partition(". ")[0]
            return 0.45 if len(first) >= 2 * MIN_PIECE and "{}" not in first and first in folded else 0.0
        at, length = found + len(text), length + len(text)
    return min(1.0, 0.5 + length / 200) if length >= MIN_PIECE else 0.0


def _same_call(call: str, message: str) -> bool:
    return _call_name(call).rpartition("::")[2].lower() == _call_name(message).rpartition("::")[2].lower()


def _call_name(text: str) -> str:
    return text.partition("(")[0].strip()
