"""Source anchors: `owner/name@ref path:line function` in pages still say where the thing is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, NamedTuple

from knowledge_checks.findings import Outcome
from knowledge_checks.functions import spans_named, spans_of
from knowledge_checks.sources import TORCH_NPU_REPO, Repository, Sources
from knowledge_checks.texts import PROSE, page_lines, pages, relative
from npu_graph.source_map import SourceMap

_REPO = r"[A-Za-z0-9][\w.-]*/[\w.-]+@[\w./-]*\w"
_PATH = r"[\w./+-]*\w\.(?:py|cpp|cc|cxx|h|hpp|hh|md|rst|json|txt|toml|yaml|yml|ini)(?!\w)"
_LINES = r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*"
_NAME = r"(?:[A-Za-z_][\w]*(?:::|\.))*~?[A-Za-z_]\w*"
# `PT = Ascend/pytorch@v2.12.0` or `RTH` = `hicann/runtime@681ef7610 include/...h`, and D2 = a file beside D1's.
_DEFINED = re.compile(rf"`?\b([A-Z][A-Z0-9]{{1,4}})`? = `?({_REPO})(?: ({_PATH}|[\w/.-]+))?`?")
_DEFINED_BY = re.compile(rf"\b(D\d) = (?:([A-Z]{{2}}) )?({_PATH}|docs/[\w/.-]+)")
# Words that follow a path without being a function's name.
_WORDS = r"(?:section|limit|and|or|for|in|table|of|to|says|on|the|at|with|from|by|has|is|are)\b"
_PLACE = rf"(?::(?P<lines>{_LINES}))?(?: (?!{_WORDS})(?P<name>{_NAME}))?"
# `owner/name@ref` or, in tables, `owner/name ref`.
_AT = r"[A-Za-z0-9][\w.-]*/[\w.-]+ (?:v\d[\w.-]*|master|main|[0-9a-f]{7,40})"
_ANCHOR = re.compile(
    rf"(?<![\w/.@-])(?P<repo>{_REPO}|{_AT}|[A-Z][A-Z0-9]{{1,4}})(?P<joint>[ /:])(?P<path>{_PATH}|{_LINES}){_PLACE}"
)
# Further files of the same revision: `repo@ref a/b.py, c.py:12 f and d/e.cpp`.
_NEXT = re.compile(rf"(?:,|;|,? and) (?P<path>{_PATH}){_PLACE}")


class Anchor(NamedTuple):
    """One place that a page names. `name` is '' where no function is given; `lines` are (first, last) pairs."""

    file: str
    at: int
    repo: str
    ref: str
    path: str
    lines: list[tuple[int, int]]
    name: str


class Shown(NamedTuple):
    """What a wheel shows of a file; `exact` when it was built from the revision that the anchor names."""

    text: str | None
    exact: bool


def find_anchors(root: Path) -> list[Anchor]:
    """Return the anchors of every page, abbreviations written out."""
    return [anchor for page in pages(root) for anchor in _of_page(root, page)]


def check(root: Path, sources: Sources, source_map: SourceMap) -> Outcome:
    """Open every anchor that the sources at hand can show."""
    outcome = Outcome("anchors", "source anchors of patterns, cases, tables and references")
    for anchor in find_anchors(root):
        repository = sources.repositories.get(anchor.repo)
        if repository is None:
            _check_in_package(anchor, sources, source_map, outcome)
        elif repository.resolve(anchor.ref):
            _judge(anchor, _read(repository, anchor), outcome)
        else:
            outcome.checked += 1
            outcome.fault(anchor.file, anchor.at, f"{anchor.repo} has no revision {anchor.ref}")
    return outcome


def _check_in_package(anchor: Anchor, sources: Sources, source_map: SourceMap, outcome: Outcome) -> None:
    shown = _from_wheel(anchor, sources, source_map) or _from_package(anchor, sources)
    if shown is None:
        outcome.leave_out(f"no checkout of {anchor.repo}")
    elif shown.exact:
        _judge(anchor, shown.text, outcome)
    elif _names_something(anchor, shown.text):
        _judge(anchor._replace(lines=[]), shown.text, outcome)
    else:
        outcome.leave_out("not in the wheel of the same PyTorch line; the named revision decides")


def _judge(anchor: Anchor, text: str | None, outcome: Outcome) -> None:
    outcome.checked += 1
    problems = ["no such file"] if text is None else problems_in(anchor, text)
    for problem in problems:
        outcome.fault(anchor.file, anchor.at, f"{anchor.repo}@{anchor.ref} {anchor.path}: {problem}")


def problems_in(anchor: Anchor, text: str) -> Iterator[str]:
    """Yield what is wrong with an anchor whose file is at hand."""
    count = text.count("\n") + 1
    for first, last in anchor.lines:
        if not 1 <= first <= last <= count:
            yield f"line {first} to {last} is outside the file ({count} lines)"
            return
    if not anchor.name:
        return
    rows = text.splitlines()
    if anchor.lines:
        short = re.split(r"::|\.", anchor.name)[-1]
        if any(_has_word(short, "\n".join(rows[first - 1 : last])) for first, last in anchor.lines):
            return
    spans = spans_named(spans_of(anchor.path, text), anchor.name)
    if not spans:
        if not _names_something(anchor, text):
            yield f"nothing is named {anchor.name}"
        elif anchor.lines and not anchor.path.endswith(".md"):
            yield f"{anchor.name} does not stand at line {anchor.lines[0][0]}"
        return
    for first, last in anchor.lines:
        if not any(span.first <= first and last <= span.last for span in spans):
            where = ", ".join(f"{span.first}-{span.last}" for span in spans[:3])
            yield f"line {first} is not in {anchor.name} (lines {where})"


def _of_page(root: Path, page: Path) -> Iterator[Anchor]:
    short: dict[str, tuple[str, str, str]] = {}
    for number, paragraph in _paragraphs(root, page):
        defined = _define(paragraph, short)
        text = _blanked(paragraph, defined)
        for found in _ANCHOR.finditer(text):
            anchor = _anchor(found, short, relative(root, page), number)
            if anchor:
                yield anchor
                further = _NEXT.match(text, found.end())
                while further and further.group("path").partition("/")[0] not in short:
                    lines, name = _pairs(further.group("lines") or ""), _function(further.group("name"))
                    yield anchor._replace(path=further.group("path"), lines=lines, name=name)
                    further = _NEXT.match(text, further.end())
        for repo, ref, path in (short[name] for name in defined if re.search(r"\.\w{1,4}$", short[name][2])):
            yield Anchor(relative(root, page), number, repo, ref, path, [], "")


def _paragraphs(root: Path, page: Path) -> Iterator[tuple[int, str]]:
    """Yield (first line, text) of each paragraph, list item and table row."""
    first, text = 0, ""
    for line in page_lines(root, page):
        starts = re.match(r"[|#]|\s*[-*] |\s*$", line.text) or line.kind != PROSE
        if starts and text:
            yield first, text
            text = ""
        if line.kind == PROSE and line.text.strip():
            first, text = (line.number, line.text) if not text else (first, f"{text} {line.text.strip()}")
    if text:
        yield first, text


def _define(text: str, short: dict[str, tuple[str, str, str]]) -> list[str]:
    """Take up the abbreviations that a line defines; return their names."""
    names = []
    for found in _DEFINED.finditer(text):
        repo, _, ref = found.group(2).partition("@")
        short[found.group(1)] = (repo, ref, (found.group(3) or "").strip("`"))
        names.append(found.group(1))
    last = short.get("D1")
    for found in _DEFINED_BY.finditer(text):
        name, base, path = found.groups()
        if base in short:
            short[name] = (*short[base][:2], path)
        elif last:
            short[name] = (*last[:2], path if "/" in path else f"{last[2].rpartition('/')[0]}/{path}")
        else:
            continue
        last = short[name]
        names.append(name)
    return names


def _blanked(text: str, defined: list[str]) -> str:
    for name in defined:
        text = re.sub(rf"`?\b{name}`? = `?(?:{_REPO}|[A-Z]{{2}} )?(?: ?[\w/.-]+)?`?", "", text)
    return text


def _anchor(found: re.Match[str], short: dict[str, tuple[str, str, str]], file: str, at: int) -> Anchor | None:
    repo, path, lines = found.group("repo"), found.group("path"), found.group("lines")
    prefix = ""
    if "@" in repo or " " in repo:
        repo, ref = re.split(r"[@ ]", repo, maxsplit=1)
    elif repo in short:
        repo, ref, prefix = short[repo]
    else:
        return None
    if re.fullmatch(_LINES, path):  # PTN:148-153
        if found.group("joint") != ":" or not prefix:
            return None
        path, lines = prefix, path
    elif prefix and found.group("joint") == "/":
        path = f"{prefix}/{path}"
    elif found.group("joint") == ":":
        return None
    return Anchor(file, at, repo, ref.rstrip("."), path, _pairs(lines or ""), _function(found.group("name")))


def _function(name: str | None) -> str:
    """Return a function's name; a word of the sentence that follows a path is none."""
    return name if name and not (name.isalpha() and name.islower() and len(name) < 6) else ""


def _pairs(lines: str) -> list[tuple[int, int]]:
    pairs = [part.partition("-") for part in lines.split(",") if part]
    return [(int(first), int(last or first)) for first, _, last in pairs]


def _read(repository: Repository, anchor: Anchor) -> str | None:
    text = repository.read(anchor.ref, anchor.path)
    if text is not None:
        return text
    # A page may leave out the folders of a file whose name is unique.
    paths = repository.list(anchor.ref)
    same = [path for path in paths if path.endswith("/" + anchor.path)]
    return repository.read(anchor.ref, same[0]) if len(same) == 1 else None


def _from_wheel(anchor: Anchor, sources: Sources, source_map: SourceMap) -> Shown | None:
    """Return (text, exact) from a torch_npu wheel of the anchor's revision, or of its PyTorch line; None: no wheel."""
    if anchor.repo != TORCH_NPU_REPO or not anchor.path.endswith(".py"):
        return None
    line = re.match(r"v(\d+\.\d+\.\d+)", anchor.ref)
    for version, wheel in sources.torch_npu.items():
        known = source_map.wheels.get(version)
        release = source_map.releases.get(known.id) if known and known.exact else None
        exact = release is not None and (
            anchor.ref in (release.ref, f"v{release.pytorch}-{release.release}")
            or (release.commit != "" and anchor.ref.startswith(release.commit))
        )
        if exact:
            return Shown(wheel.read(anchor.path), True)
        if line and version.startswith(line.group(1)) and wheel.read(anchor.path) is not None:
            return Shown(wheel.read(anchor.path), False)
    return None


def _from_package(anchor: Anchor, sources: Sources) -> Shown | None:
    """Return the text from another package's wheel (`pytorch/pytorch=torch-2.13.0.whl`) of the anchor's tag."""
    wheel = sources.packages.get((anchor.repo, anchor.ref[1:]))
    if wheel is None:
        return None
    # A repository may keep its package in python/; the wheel has it at its root.
    own = anchor.path[len("python/") :] if anchor.path.startswith("python/") else anchor.path
    return Shown(wheel.read(anchor.path) or wheel.read(own), True)


def _names_something(anchor: Anchor, text: str | None) -> bool:
    return text is not None and (not anchor.name or _has_word(re.split(r"::|\.", anchor.name)[-1], text))


def _has_word(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
