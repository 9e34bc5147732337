"""The fix index: changes of the frameworks and of torch_npu that mend something, by function and by release.

The data is knowledge/fix-index/*.tsv (graph-mode-expert/references/source_reading.md explains it), measured by
tools/measure_fix_index.py from the public histories. A title is what the history says of a change, not a proof that it
mends the failure at hand.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Collection, Iterable, NamedTuple

from npu_graph.expressions import compile_on_use
from npu_graph.framework_map import version_key
from npu_graph.plain_files import read_first
from npu_graph.source_map import Release, SourceMap

INDEX_FOLDER = "fix-index"
INDEX_SUFFIX = ".tsv"
INDEXES = ("vllm-ascend", "xllm", "torch_npu", "torchair", "op-plugin")
MAX_VERSION = 40
MAX_INDEX_BYTES = 4 << 20
# What is read of a report.
MAX_QUERY = 64 * 1024
_NONE = "-"
_WORD = compile_on_use(r"[A-Za-z_][A-Za-z0-9_]{2,80}|\d{5,6}|#\d{2,6}|[\u4e00-\u9fff]{2,40}")
_LOW_WORD = compile_on_use(r"[a-z_][a-z0-9_]{2,80}|\d{5,6}|#\d{2,6}")
_CHINESE = compile_on_use(r"[\u4e00-\u9fff]{2,40}")
_NUMBER = re.compile(r"[0-9]{1,3}$")
_NUMBER_BEHIND = re.compile(r"\s*\([#!]\d+\)$")
_PART = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])|\d{2,}")
# Words that most titles have: they tell nothing.
_COMMON_WORDS = """
    fix fixes fixed fixing bug bugs bugfix issue issues error errors problem support add remove update use when with and
    the for not that this from into after before main branch cherry pick revert patch some mode model models npu ascend
    vllm torch python file line self site packages usr local lib def return none true false info warning
    has have had does did was were are its can cannot could should would will been but not you our get got set new old
    exception traceback recent call last object attribute runtime runtimeerror valueerror importerror
    modulenotfounderror
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class Fix(NamedTuple):
    """One change. `held` are the indexes of the releases that hold it; places are (file, functions)."""

    commit: str
    date: str
    held: frozenset[int]
    title: str
    places: tuple[tuple[str, tuple[str, ...]], ...]
    words: tuple[str, ...]


class Query(NamedTuple):
    """What a change is looked for by.

    Attributes:
        failure: the text of the first cause.
        report: the whole text.
        frames: (file, function) of the failing stack, deepest first.
    """

    failure: str
    report: str
    frames: tuple[tuple[str, str], ...]


class Found(NamedTuple):
    """A change with its score and what of it the query has; `rare` counts the shared words that few changes have."""

    fix: Fix
    score: float
    functions: tuple[str, ...]
    words: tuple[str, ...]
    rare: int


def pack_releases(held: Iterable[int]) -> str:
    """Return indexes of releases as ranges: `0,6-28`; `-` for none."""
    spans: list[list[int]] = []
    for index in sorted(held):
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans) or _NONE


@lru_cache(maxsize=1 << 10)
def unpack_releases(text: str) -> frozenset[int]:
    """Return the indexes that pack_releases wrote; none of a text that it did not write."""
    held: set[int] = set()
    for span in text.split(",") if text != _NONE else ():
        first, _, last = span.partition("-")
        if _NUMBER.match(first) and _NUMBER.match(last or first):
            held.update(range(int(first), int(last or first) + 1))
    return frozenset(held)


class FixIndex:
    """One project's index, read once. Look-ups never raise, whatever the text holds."""

    def __init__(self, text: str = "") -> None:
        self.name = self.repository = self.read_at = ""
        self.releases: list[str] = []
        self._rows: list[str] = []  # split when asked for
        for line in text.splitlines():
            kind, _, rest = line.partition("\t")
            if kind == "fix" and rest.count("\t") == _CELLS - 1:
                self._rows.append(rest)
            elif kind == "release":
                self.releases.append(rest)
            elif kind == "repository" and rest.count("\t") == 2:
                self.name, self.repository, self.read_at = rest.split("\t")

    @classmethod
    def load(cls, name: str, folders: Iterable[Path]) -> FixIndex:
        """Read a project's index from the first folder that holds it; an empty one when none does."""
        return cls(read_first(folders, f"{INDEX_FOLDER}/{name}{INDEX_SUFFIX}", MAX_INDEX_BYTES))

    @property
    def fixes(self) -> list[Fix]:
        return [_fix(row) for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def find_release(self, version: str) -> tuple[tuple[str, ...], bool]:
        """Return the release that a version means and whether it is that itself, else the newest before; () if none."""
        text = re.sub(r"(?<=\d)[.-](?=rc)", "", version.strip()[:MAX_VERSION].lower().lstrip("v").partition("+")[0])
        text += ".0" if re.fullmatch(r"\d{1,4}\.\d{1,4}", text) else ""
        is_own = text in self.releases
        return (text,) if is_own else self.newest_before(text), is_own

    def releases_for(self, base: str) -> list[str]:
        """Return the releases for a version of what the project is built on: 0.13.0rc1 to 0.13.0 for vLLM 0.13.0.

        The release before the first of them stands for the branch, which many install, between the two.
        """
        numbers = version_key(base)[0]
        own = [index for index, release in enumerate(self.releases) if version_key(release)[0] == numbers]
        return self.releases[max(0, own[0] - 1) : own[-1] + 1] if own else []

    def known_release(self, release: Release, source_map: SourceMap) -> str:
        """Return the release of the index for one of torch_npu: itself, its base, else one before it; '' if none."""
        base = source_map.releases.get(release.base)
        for release_id in (release.id, release.base, base.base if base is not None else ""):
            if release_id in self.releases:
                return release_id
        order = list(source_map.releases)
        at = order.index(release.id) if release.id in order else len(order)
        before = [item for item in order[:at] if item in self.releases]
        same = [item for item in before if item.partition("/")[2] == release.pytorch]
        return (same or before or [""])[-1]

    def newest_before(self, version: str) -> tuple[str, ...]:
        """Return the newest release up to a version that no release has, one for each PyTorch where it has several.

        It begins with the same number: 99.0, or the version of another project, is near to none.
        """
        wanted = version_key(version)
        keys = {release: version_key(release.partition("/")[0]) for release in self.releases}
        newest = max((key for key in keys.values() if key <= wanted and key[0][0] == wanted[0][0]), default=None)
        return tuple(release for release, key in keys.items() if key == newest)

    def is_newer(self, version: str) -> bool:
        """Say whether a version is newer than every release of the index."""
        return all(version_key(version) > version_key(release.partition("/")[0]) for release in self.releases)

    def holds(self, fix: Fix, releases: Collection[str]) -> bool:
        """Say whether every one of some releases holds a change; no for none."""
        own = {index for index, release in enumerate(self.releases) if release in releases}
        return bool(own) and own <= fix.held

    def is_later(self, fix: Fix, releases: Collection[str]) -> bool:
        """Say whether a change came after releases: not all of them hold it, and no older one alone does."""
        own = {index for index, release in enumerate(self.releases) if release in releases}
        if not own:
            return not releases  # what is no release of the index says nothing about what it holds
        return not (own <= fix.held or (fix.held and max(fix.held) < min(own)))

    def first_release(self, fix: Fix, releases: Collection[str] = ()) -> str:
        """Return the first release with a change after those given that lack it, for their PyTorch if any.

        Where none comes after them, the first of all that hold it; '' for a change that no release holds.
        """
        own = [index for index, release in enumerate(self.releases) if release in releases]
        after = max((index for index in own if index not in fix.held), default=-1)
        known = [index for index in sorted(fix.held) if index < len(self.releases)]
        later = [self.releases[index] for index in known if index > after] or [self.releases[index] for index in known]
        lines = {release.partition("/")[2] for release in releases}
        return next((release for release in later if release.partition("/")[2] in lines), later[0] if later else "")

    def search(
        self, query: Query, releases: Collection[str] = (), most: int = 5, touching: Collection[str] = ()
    ) -> list[Found]:
        """Return the changes nearest to a report, best first.

        Args:
            query: what is looked for.
            releases: those that the report can be about; only what came after them is returned.
            most: how many at most.
            touching: names of functions; only changes that touch one of them are returned.
        """
        asked = _asked(query)
        frames = {(_base(file), function): depth for depth, (file, function) in reversed(list(enumerate(query.frames)))}
        tokens = [_row_tokens(row) for row in self._rows]
        shared = [asked.keys() & row_tokens for row_tokens in tokens]
        counts: dict[str, int] = {}
        for words in shared:
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        told = {word: weight * _rarity(counts.get(word, 0), len(self._rows)) for word, weight in asked.items()}
        functions = {function.lower() for _, function in frames}
        scored = []
        for row, words, row_tokens in zip(self._rows, shared, tokens):
            score = sum(map(told.__getitem__, words)) / math.sqrt(TITLE_LENGTH + len(row_tokens))
            own = _functions_of(row, frames) if functions & row_tokens else {}
            for name, depth in own.items():
                score += FRAME_WEIGHT * _rarity(counts.get(name.lower(), 1), len(self._rows)) / (1 + depth / 2)
            if score:
                scored.append((score, row, words, own))
        scored.sort(key=lambda item: (-item[0], item[1]))
        found: dict[tuple[str, tuple[str, ...]], Found] = {}
        held: set[tuple[str, tuple[str, ...]]] = set()
        least = 0.0
        for score, row, words, own in scored:
            fix = _fix(row)
            same = (_NUMBER_BEHIND.sub("", fix.title).lower(), tuple(file for file, _ in fix.places))
            if same in held or self.holds(fix, releases):
                held.add(same)
                found.pop(same, None)
                continue
            if len(found) == most and same not in found:
                if score < least * TWIN_SCORE:
                    break
                continue
            touched = {name for _, names in fix.places for name in names} if touching else set()
            if self.is_later(fix, releases) and (not touching or touched & set(touching)):
                telling = sorted(words, key=lambda word: (-told[word], word))
                rare = sum(counts[word] <= RARE * len(self._rows) for word in words)
                item = Found(fix, score, tuple(own), tuple(telling[:MAX_SHARED]), rare)
                if same not in found or self._is_nearer(fix, found[same].fix, releases):
                    found[same] = item._replace(score=found[same].score) if same in found else item
                least = found[same].score
        return list(found.values())

    def _is_nearer(self, fix: Fix, other: Fix, releases: Collection[str]) -> bool:
        """Say whether of two picks of one change the first alone is in a release for the user's PyTorch."""
        lines = {release.partition("/")[2] for release in releases}
        own, others = (self.first_release(item, releases).partition("/")[2] for item in (fix, other))
        return own in lines and others not in lines


# How much a function of the failing stack counts, how many times as much a word of the first cause as one of the
# report, how much a long row is worth less, and how much a part of a name and a whole name with underscores count.
# On 87 reports whose mending change is known, half or twice of each changed the first place of one report in twenty.
FRAME_WEIGHT = 0.5
FAILURE_WEIGHT = 2.0
TITLE_LENGTH = 12
PART_WEIGHT = 0.35
NAME_WEIGHT = 1.6
MAX_SHARED = 6
# One change that was picked for several PyTorch lines has a row for each where its title is too short to tell it from
# others: they score almost alike.
TWIN_SCORE = 0.9
# A word that more changes have (of all, as a share) is one of most reports.
RARE = 0.03
# commit, day, releases, title, places, words
_CELLS = 6
_BEFORE_TITLE = 3


def _rarity(count: int, rows: int) -> float:
    """Return how much a word tells that so many rows have."""
    return math.log(1 + rows / max(1, count))


def _asked(query: Query) -> dict[str, float]:
    """Return the words of a query with their weights; the part of a name that is no word of its own weighs less."""
    asked: dict[str, float] = {}
    for text, weight in ((query.report, 1.0), (query.failure, FAILURE_WEIGHT)):
        for word in dict.fromkeys(_WORD.findall(text[:MAX_QUERY])):
            whole = (word.lower(), word.lower().strip("_"))
            for token in _split(word):
                own = weight if token in whole or token[0] >= "\u4e00" else weight * PART_WEIGHT
                own *= NAME_WEIGHT if token in whole and "_" in token else 1.0
                asked[token] = max(own, asked.get(token, 0.0))
    return asked


def _row_tokens(row: str) -> set[str]:
    """Return the words of a row from its title on; parts of names stand in its last cell."""
    tail = row.split("\t", _BEFORE_TITLE)[_BEFORE_TITLE].lower()
    tokens = set(_LOW_WORD.findall(tail))
    if not tail.isascii():
        for word in _CHINESE.findall(tail):
            tokens.update(_split(word))
    return tokens


def _functions_of(row: str, frames: dict[tuple[str, str], int]) -> dict[str, int]:
    """Return the functions of the stack that a row's change touches, with their depth in it."""
    return {
        name: frames[_base(file), name]
        for file, names in _fix(row).places
        for name in names
        if (_base(file), name) in frames
    }


def tokens_in(text: str) -> list[str]:
    """Return the words of a text in lower case, names also in their parts, Chinese in pairs of characters."""
    return list(dict.fromkeys(token for word in _WORD.findall(text) for token in _split(word)))


@lru_cache(maxsize=1 << 14)
def _split(word: str) -> tuple[str, ...]:
    if word[0] >= "\u4e00":
        return tuple(word[start : start + 2] for start in range(len(word) - 1))
    if word.lower() in _COMMON:
        return ()
    found = [word.lower(), word.lower().strip("_")]
    if "_" in word or not (word.islower() or word.isupper()):
        found += [part for part in map(str.lower, _PART.findall(word)) if len(part) > 2]
    return tuple(item for item in dict.fromkeys(found) if item not in _COMMON)


def parts_of(text: str) -> list[str]:
    """Return the parts of the names in a text that do not stand in it as words: what a row keeps for its title."""
    words = set(_LOW_WORD.findall(text.lower()))
    return [token for token in tokens_in(text) if token not in words and token[0].isalpha() and token.isascii()]


def _base(file: str) -> str:
    """Return a file with its folder: what a path in site-packages and one in a repository have in common."""
    return "/".join(file.split("/")[-2:])


def _fix(row: str) -> Fix:
    commit, date, held, title, places, words = row.split("\t")
    split = (item.partition(":") for item in places.split(";"))
    return Fix(
        commit,
        date,
        unpack_releases(held),
        title,
        tuple((file, tuple(names.split(",")) if names else ()) for file, _, names in split),
        tuple(words.split()),
    )
