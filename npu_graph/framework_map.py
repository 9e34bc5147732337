"""Framework maps: in which file, function and line of which release of a framework something stands.

The data is knowledge/framework-maps/*.tsv (graph-mode-expert/references/source_reading.md explains it): definitions,
raises, asserts and warnings of the parts that graph mode passes through, of serving frameworks by their releases and of
torch_npu by its wheels, measured by tools/measure_framework_maps.py.
"""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.framework_rows import Site, read_sites
from npu_graph.plain_files import read_first
from npu_graph.source_map import Place, fragment_of, fragment_score, message_score

MAP_FOLDER = "framework-maps"
MAP_SUFFIX = ".tsv"
MAX_MAP_BYTES = 8 << 20
MAX_STATED = 4
# A shorter message stands in other text by chance.
MIN_MESSAGE = 16
DEFINITION, VARIABLE = "def", "env"
# The message of a variable that is read only to tell its successor.
DEPRECATED = "deprecated"
# What a text must hold for a framework's map to be read; vLLM-Ascend's stacks pass through vLLM.
MENTIONED = {
    "vllm-ascend": compile_on_use(r"vllm[-_ ]ascend", re.IGNORECASE),
    "vllm": compile_on_use(r"\bvllm\b|EngineCore", re.IGNORECASE),
    "sglang": compile_on_use(r"\bsglang|\bsgl_", re.IGNORECASE),
    "xllm": compile_on_use(r"\bxllm\b|\bacl_graph_(?:executor_impl|persistent_param)\.cpp", re.IGNORECASE),
}
_VERSION = r"v?(\d\.\d{1,3}\.\d{1,3}(?:\.\d)?(?:[-.]?rc\d{1,3}|\.?post\d{1,3}|\.dev\d{1,8}){0,2})(?!\.?\d)"
# Between a name and its version, on one line: `==`, `|`, columns of pip list, `版本：`, ` (main with v`, `镜像版本为`.
_BETWEEN = (
    r"(?:\s{1,2}Version: |(?:[ \t*`'\"():=|@：，（,\-versionmaigtwhf版本号由从为是的]"
    r"|branch|releases?/|image|tag|镜像|分支|代码|使用){0,80}?)"
)
_NAMES = {
    "vllm-ascend": r"\bvllm[-_ ]ascend",
    "vllm": r"\bvllm(?![-_ ]ascend)",
    "sglang": r"\bsglang",
    "xllm": r"\bxllm",
}
FRAMEWORKS = tuple(_NAMES)
# The map of the parts of torch_npu that torch.compile passes through.
COMPILE_PARTS = "torch_npu"
_STATED = {name: compile_on_use(word + _BETWEEN + _VERSION, re.IGNORECASE) for name, word in _NAMES.items()}
# What is to be installed, is asked for, holds a fix, or ran before, is not what ran.
_NOT_RUN = compile_on_use(
    r"\b(?:pip3?|conda|uv)\b.{0,60}\b(?:install|add)\b|\b[Rr]equires?\b|>=|<=|[Ff]ixed (?:in|by)|修复于"
    r"|\bplanned\b|\bwanted\b|[Pp]lease upgrade to\s*$|(?:请|建议|计划|准备).{0,6}(?:升级|安装)|需要升级[到至]\s*$"
    r"|[Uu]pgrad\w{1,4} from\s*$|\b(?:[Pp]reviously|[Ee]arlier)\b|以前|之前|从\s*$|由\s*$"
)
_NOT_RUN_AFTER = compile_on_use(r"\+(?!\w)|\s*(?:升级|更新)|\s?(?:->|→)\s?(?:[A-Za-z_-]{2,20}[ =]{1,2})?v?\d")
# What works, or was to be installed: it is what ran only where no other version is stated.
_DOUBTFUL = compile_on_use(
    r"(?<!no longer )(?<!not )(?<!n't )(?<!othing )[Ww]orks? (?:fine |well )?(?:with|in|on)\s*$"
    r"|[Uu]pgrade to\s*$|\bFROM\b"
)
_DOUBTFUL_AFTER = compile_on_use(r"\s*(?:上|下|版本)?\s*(?:正常|可以|没问题|works?\b|worked\b|is fine|was fine)")
_CLAUSE_END = compile_on_use(r"[.,;] |[，；。]")
# A second version without a name: where the first was left for it, or where it is the one that fails.
_MOVED = compile_on_use(
    r"(?:[Uu]pgrad\w{1,4} (?:it )?to|升级[到至]|更新[到至]|->|→|[Ff]ails? (?:with|on|in)"
    r"|[Bb]reaks? (?:with|on|in)|\b[Nn]ow on|现在用?的?是|升级后[（(]?|^\s?to)\s?"
    + _VERSION
    + r"|[,，;；]\s?(?:on |with |in |在)?"
    + _VERSION
    + r"\s?(?:上)?(?:fails?|breaks?|hangs?|失败|报错|异常|卡)"
)
_NUMBERS = compile_on_use(r"\d+|[a-z]+")
_PACKAGE = compile_on_use(r"(?:^|.*/)((?:vllm_ascend|vllm|sglang|xllm|torch_npu)/[\w./-]+\.(?:py|cpp|h))$")
# A pre-release stands before its release, a post-release behind it.
_ORDER = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "post": 1}
# Parts of a framework for one kind of hardware or an older engine, and the word by which a report speaks of them: they
# define the usual names again.
OTHER_PARTS = (("/_310p/", "310p"), ("/xlite/", "xlite"), ("/torchair/", "torchair"))


class FrameworkMap:
    """One framework's map, read once. Look-ups never raise, whatever the text holds."""

    def __init__(self, text: str = "") -> None:
        self.name = self.repository = self.package = ""
        self.releases: list[str] = []
        self.origins: dict[str, str] = {}
        self._rows: dict[str, list[str]] = {}  # file -> its rows, split when asked for
        self._sites: dict[str, list[Site | None]] = {}  # file -> its sites, once asked for
        self._files: dict[str, list[str]] = {}  # last part of a definition's name -> the files that have one
        rows: list[str] = []
        file = ""
        for line in text.splitlines():
            kind, _, rest = line.partition("\t")
            if kind == "file":
                rows = self._rows.setdefault(rest, [])
                file = rest
            elif kind == DEFINITION:
                rows.append(line)
                name = rest.partition("\t")[0]
                files = self._files.setdefault(name.rpartition(".")[2], [])
                if not files or files[-1] != file:
                    files.append(file)
            elif kind == "framework" and rest.count("\t") == 2:
                self.name, self.repository, self.package = rest.split("\t")
            elif kind == "release":
                release, _, origin = rest.partition("\t")
                self.releases.append(release)
                self.origins[release] = origin
            elif line[:1] != "#":
                rows.append(line)

    @classmethod
    def load(cls, name: str, folders: Iterable[Path]) -> FrameworkMap:
        """Read a framework's map from the first folder that holds it; an empty one when none does."""
        return cls(read_first(folders, f"{MAP_FOLDER}/{name}{MAP_SUFFIX}", MAX_MAP_BYTES))

    @property
    def files(self) -> list[str]:
        return list(self._rows)

    def sites_in(self, file: str) -> list[Site]:
        """Return the sites of a file, named as installed (vllm_ascend/worker/model_runner_v1.py)."""
        return [site for site in self._read(file) if site is not None]

    def _read(self, file: str) -> list[Site | None]:
        if file not in self._sites:
            self._sites[file] = read_sites(file, self._rows.get(file, ()), len(self.releases))
        return self._sites[file]

    def named(self, name: str) -> list[Site]:
        """Return the definitions called so: by last name (`_dummy_run`), or with the class before it."""
        name = name.replace("::", ".")
        last = name.rpartition(".")[2]
        return [
            site
            for file in self._files.get(last, ())
            for site in self.sites_in(file)
            if site.kind == DEFINITION and (site.function == name or site.function.endswith("." + name))
        ]

    def members(self, site: Site) -> list[Site]:
        """Return the methods that a class defines itself, and the functions inside a function."""
        return [
            other
            for other in self.sites_in(site.file)
            if other.kind == DEFINITION and other.function.rpartition(".")[0] == site.function
        ]

    def variables(self) -> dict[str, list[Site]]:
        """Return the environment variables that the framework lists, by name; several where one became deprecated."""
        found: dict[str, list[Site]] = {}
        for file in self._rows:
            if file.endswith(("/envs.py", "/environ.py")):
                for site in self.sites_in(file):
                    if site.kind == VARIABLE:
                        found.setdefault(site.function, []).append(site)
        return found

    def is_name(self, word: str) -> bool:
        return word in self._files

    def match_text(self, text: str) -> list[tuple[Site, float]]:
        """Return the raises, asserts and warnings whose message stands in the text, and scores up to 1, best first."""
        folded = " ".join(text[: 16 * 1024].split())
        fragment = fragment_of(folded)
        fragment = fragment if len(fragment) >= MIN_MESSAGE else ""
        found = []
        for file in self._rows:
            for number, row in enumerate(self._rows[file]):
                if row.startswith((DEFINITION + "\t", VARIABLE + "\t")):
                    continue
                cells = row.split("\t")
                message = cells[2] if len(cells) == 4 else ""
                score = message_score(message, folded) or fragment_score(fragment, message)
                if score:
                    site = self._read(file)[number]
                    if site is not None:
                        found.append((site, score))
        found.sort(key=lambda item: -item[1])
        return [item for item in found if item[1] >= found[0][1] * 0.75][:20]

    def lines_in(self, site: Site, release: str) -> tuple[int, ...]:
        """Return a site's lines in a release of the map, () when it is not there."""
        index = self.releases.index(release) if release in self.releases else -1
        lines: tuple[int, ...] = ()
        for start, value in site.changes:
            if start > index:
                break
            lines = value
        return lines

    def find_release(self, version: str) -> tuple[str, bool]:
        """Return the release that a version means and whether that is exact; '' when none is near.

        A development or local version (0.18.0rc2.dev3+g12ab) is taken for the newest release of the map that is not
        newer and has the same three numbers.
        """
        text = re.sub(r"(?<=\d)[.-](?=rc)", "", version.strip().lower().lstrip("v").partition("+")[0])
        if text in self.releases:
            return text, True
        numbers = re.match(r"\d+\.\d+\.\d+", text)
        if numbers is None:
            return "", False
        same = re.compile(re.escape(numbers.group()) + r"(?![\d.])")
        near = [item for item in self.releases if same.match(item) and version_key(item) <= version_key(text)]
        return (near[-1], False) if near else ("", False)

    def releases_at(self, place: Place) -> list[str] | None:
        """Return the releases in which a frame's line lies inside its function; None when that is not known.

        A line of a C++ log names no function (`executor.cpp:921] text`): a check or log must stand on it.
        """
        file = self.file_of(place)
        if not file or place.function.startswith("<"):
            return None
        sites = [site for site in self.sites_in(file) if site.kind == DEFINITION]
        own = [site for site in sites if site.last_name == place.function]
        if not sites:
            return None
        if own or file.endswith(".py"):
            return [release for release in self.releases if self._is_inside(place.line, own, sites, release)]
        printed = self.printing_at(place)
        fits = {release for site in printed for release in self.releases if place.line in self.lines_in(site, release)}
        return [release for release in self.releases if release in fits] if printed else None

    def file_of(self, place: Place) -> str:
        """Return the mapped file of a place, '' when there is none; a C++ log gives the file's name alone."""
        path = own_path(place.file)
        if path in self._rows:
            return path
        named = [file for file in self._rows if file.endswith("/" + place.file) and not file.endswith(".py")]
        return named[0] if len(named) == 1 and "/" not in place.file else ""

    def printing_at(self, place: Place) -> list[Site]:
        """Return the checks and logs of a C++ file that stand on a place's line in some release."""
        if place.file.endswith(".py"):
            return []  # a Python frame names its function
        return [
            site
            for site in self.sites_in(self.file_of(place))
            if site.kind not in (DEFINITION, VARIABLE) and any(place.line in lines for _, lines in site.changes)
        ]

    def _is_inside(self, line: int, own: Sequence[Site], sites: Sequence[Site], release: str) -> bool:
        for site in own:
            for start in self.lines_in(site, release):
                if start <= line and not any(
                    start < other <= line
                    for item in sites
                    if not item.function.startswith(site.function + ".")
                    for other in self.lines_in(item, release)
                ):
                    return True
        return False


class Fit(NamedTuple):
    """Which releases of a framework have the lines of a stack.

    Attributes:
        releases: those that have every line of `evidence`; [] when no frame is of any release.
        evidence: the frames that are of one release.
        unknown: frames that no release has: of a patched file.
        elsewhere: frames that other releases have.
    """

    releases: list[str]
    evidence: list[Place]
    unknown: list[Place]
    elsewhere: list[Place]

    @property
    def against(self) -> list[Place]:
        """The frames that `releases` do not have."""
        return [*self.unknown, *self.elsewhere]


def mentioned(text: str) -> list[str]:
    """Return the frameworks that a text speaks of."""
    return [name for name, expression in MENTIONED.items() if expression.search(text)]


# How far before and behind a version the words stand that say whether it ran.
_SENTENCE_MOST = 80


class Ran(IntEnum):
    """Whether a stated version is that of what ran."""

    YES = 0
    DOUBTFUL = 1
    NO = 2


def ran(text: str, start: int, end: int) -> Ran:
    """Say of a version at start:end of a text whether it ran, by the words on its line."""
    line = max(text.rfind("\n", 0, start) + 1, start - 2 * _SENTENCE_MOST)
    stop = text.find("\n", end, end + _SENTENCE_MOST)
    after = text[end : stop if stop >= 0 else end + _SENTENCE_MOST]
    clause = _CLAUSE_END.split(text[line:start][-_SENTENCE_MOST:])[-1]
    if _NOT_RUN.search(clause) or _NOT_RUN_AFTER.match(after):
        return Ran.NO
    return Ran.DOUBTFUL if _DOUBTFUL.search(clause) or _DOUBTFUL_AFTER.match(after) else Ran.YES


def stated_versions(text: str, name: str) -> list[str]:
    """Return the versions of a framework that ran by the words of a text, each once, in order."""
    found: dict[Ran, list[str]] = {Ran.YES: [], Ran.DOUBTFUL: [], Ran.NO: []}
    for match in _STATED[name].finditer(text):
        stop = text.find("\n", match.end(), match.end() + _SENTENCE_MOST)
        moved = _MOVED.search(text[match.end() : stop if stop >= 0 else match.end() + _SENTENCE_MOST])
        if moved is not None:
            found[Ran.YES].append(next(version for version in moved.groups() if version))
        else:
            found[ran(text, match.start(), match.end())].append(match.group(1))
    told = found[Ran.YES] or found[Ran.DOUBTFUL]
    return list(dict.fromkeys(version.rstrip(".-") for version in told))[:MAX_STATED]


def span(releases: Sequence[str], known: Sequence[str]) -> str:
    """Return releases as words; neighbours in `known` are joined, so that no span holds one that is not among them."""
    runs: list[list[str]] = []
    for release in releases:
        at = known.index(release)
        if runs and known.index(runs[-1][-1]) == at - 1:
            runs[-1].append(release)
        else:
            runs.append([release])
    shown = [", ".join(run) if len(run) <= 2 else f"{run[0]} to {run[-1]}" for run in runs]
    return ", ".join(shown)


def fit_releases(places: Sequence[Place], framework_map: FrameworkMap) -> Fit | None:
    """Return the releases whose sources have the stack's lines; None when no frame is of the mapped files.

    Of frames of different releases the first ones decide.
    """
    releases: list[str] = []
    evidence: list[Place] = []
    unknown: list[Place] = []
    elsewhere: list[Place] = []
    for place in dict.fromkeys(place._replace(text="", call="") for place in places):
        fits = framework_map.releases_at(place)
        if fits is None:
            continue
        here = place._replace(file=framework_map.file_of(place))
        both = [release for release in releases or fits if release in fits]
        if both:
            releases = both
        (evidence if both else elsewhere if fits else unknown).append(here)
    return Fit(releases, evidence, unknown, elsewhere) if evidence or unknown else None


def own_path(file: str) -> str:
    """Return a path from the framework's package on, '' when it is none's."""
    # What stands before site-packages is a folder of the installation, whatever it is called.
    path = file.replace("\\", "/").rpartition("-packages/")[2]
    found = _PACKAGE.match(path) if "/lib/python3." not in path else None
    return found.group(1) if found else ""


def version_key(version: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Return what versions are ordered by: 0.18.0rc1 < 0.18.0 < 0.18.0.post1 < 0.18.1."""
    head = re.match(r"[\d.]*\d", version)
    numbers = tuple(int(part) for part in (head.group() if head else "0").split(".") if part)
    rest = _NUMBERS.findall(version[head.end() :] if head else "")
    if not rest:
        return (numbers, (0, 0))
    count = int(rest[1]) if len(rest) > 1 and rest[1].isdigit() else 0
    return (numbers, (_ORDER.get(rest[0], 0), count))
