"""Call chains: what each public graph API calls, from Python down to CANN, with the line in a release.

The data is data/call_chains.tsv (references/source_reading.md explains it); its lines are packed as in the source map.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.source_map import Release, Row, SourceMap

from . import source_tree

DATA = Path(__file__).resolve().parents[2] / "data" / "call_chains.tsv"
# CANN's lines are those of this public commit; a binary installation of CANN shows no lines.
CANN, CANN_SOURCE = "CANN", "hicann/runtime@681ef7610"
MAX_NEAREST = 5
NEAR = (
    "C++ lines as in {} (this wheel's own sources are not public)",
    "C++ 行号取自 {}（该 wheel 源码未公开）",
)
# A question in words is searched for names up to here.
MAX_QUESTION = 400
_BARE = re.compile(r"[A-Za-z_][\w.:]{1,120}(?:\(\s?\))?")
_WORD = re.compile(r"[A-Za-z_][\w.:]{2,120}")
# Packages and namespaces that may stand before a name.
_PREFIX = re.compile(r"^(?:c10_npu\.|acl\.|torch_npu\._c\.|torch_npu\.npu\.|torch\.npu\.|npu\.|torch_npu\.)+")


class Step(NamedTuple):
    """One line of a chain: where it stands, the text on that line, what it does, its packed lines per release."""

    layer: str
    file: str
    function: str
    text: str
    en: str
    zh: str
    where: str


class See(NamedTuple):
    """The chain that a chain goes on with, and when."""

    name: str
    en: str
    zh: str


class Chains:
    """The chains by name, read once."""

    def __init__(self, text: str = "") -> None:
        self.parts: dict[str, list[Step | See]] = {}
        self.other_names: dict[str, list[str]] = {}
        for line in text.splitlines():
            kind, _, rest = line.partition("\t")
            cells = rest.split("\t")
            if kind == "chain" and len(cells) == 2:
                self.parts[cells[0]] = []
                self.other_names[cells[0]] = [name for name in cells[1].split(" ") if name != "-"]
            elif kind == "step" and len(cells) == 8:
                self.parts[cells[0]].append(Step(*cells[1:]))
            elif kind == "see" and len(cells) == 4:
                self.parts[cells[0]].append(See(*cells[1:]))

    @classmethod
    def load(cls, path: Path = DATA) -> Chains:
        """Read the table; no chains when the bundle lacks it."""
        try:
            return cls(path.read_text(encoding="utf-8"))
        except OSError:
            return cls()

    def find(self, text: str) -> list[str]:
        """Return the chains that a bare name means: the API itself, else every chain that passes through it."""
        if not _BARE.fullmatch(text.strip()):
            return []
        wanted = fold(text)
        own = [name for name, others in self.other_names.items() if wanted in map(fold, (name, *others))]
        return own or [
            name
            for name, parts in self.parts.items()
            if any(
                isinstance(part, Step) and wanted in map(fold, (part.function, _last(part.function))) for part in parts
            )
        ]

    def find_in_question(self, text: str) -> list[str]:
        """Return the chains that a sentence names; plain words such as pool do not count."""
        words = dict.fromkeys(word.rstrip(".:") for word in _WORD.findall(text[:MAX_QUESTION]))
        marked = [word for word in words if "_" in word or "." in word or "::" in word or word[1:] != word[1:].lower()]
        return list(dict.fromkeys(name for word in marked for name in self.find(word)))

    def nearest(self, text: str, more_names: Sequence[str] = ()) -> list[str]:
        """Return the known names nearest to an unknown bare name, best first."""
        if not _BARE.fullmatch(text.strip()):
            return []
        names = {fold(other): other for name in self.parts for other in self.other_names[name]}
        names.update({fold(name): name for name in more_names})
        names.update({fold(name): name for name in self.parts})
        return [names[near] for near in difflib.get_close_matches(fold(text), list(names), MAX_NEAREST, 0.6)]

    def expanded(self, names: Sequence[str]) -> list[tuple[str, See | None, list[Step]]]:
        """Return (chain, how it is reached, its steps) for the names and for the chains they go on with, each once."""
        queue: list[tuple[str, See | None]] = [(name, None) for name in names]
        done: dict[str, tuple[str, See | None, list[Step]]] = {}
        while queue:
            name, reached = queue.pop(0)
            if name in done or name not in self.parts:
                continue
            parts = self.parts[name]
            done[name] = (name, reached, [part for part in parts if isinstance(part, Step)])
            queue += [(part.name, part) for part in parts if isinstance(part, See)]
        return list(done.values())


def fold(name: str) -> str:
    """Return a name without packages, brackets and case, so that torch.npu.graph and npu.graph() are one."""
    return _PREFIX.sub("", name.strip().rstrip("() ").replace("::", ".").lower()) or name


def records(
    chains: Chains,
    names: Sequence[str],
    source_map: SourceMap,
    releases: Sequence[Release],
    tree: source_tree.Tree | None,
) -> list[dict[str, Any]]:
    """Return the `chains` part of a result; a step that the release does not have is left out."""
    return [
        {
            "name": name,
            "from": {"en": reached.en, "zh": reached.zh} if reached else None,
            "steps": [
                record
                for record in (_step_record(step, source_map, releases, tree) for step in steps)
                if record["line"] or not releases
            ],
        }
        for name, reached, steps in chains.expanded(names)
    ]


def _step_record(
    step: Step, source_map: SourceMap, releases: Sequence[Release], tree: source_tree.Tree | None
) -> dict[str, Any]:
    row = Row(step.file, step.function, "", "", "", "", step.where)
    release = releases[0] if releases else None
    of_cann = step.layer == CANN
    line = int(step.where) if of_cann else None
    near, shown = "", None
    if release is not None and not of_cann:
        lines = source_map.lines_in(row, release.id)
        line = lines[0] if lines else None
        near = "" if source_map.is_measured(row, release) else release.base
        if tree is not None and line:
            shown = source_tree.read_site(tree, step.file, line, step.text)
    return {
        "layer": step.layer,
        "repo": CANN_SOURCE if of_cann else "Ascend/pytorch",
        "file": step.file,
        "function": step.function,
        "line": line,
        "near": near,
        "text": step.text,
        "does": {"en": step.en, "zh": step.zh},
        "lines_by_release": {} if of_cann else _by_release(row, source_map),
        "source": shown._asdict() if shown else None,
    }


def _by_release(row: Row, source_map: SourceMap) -> dict[str, list[int]]:
    """Return the lines in each final release, several where its PyTorch lines differ.

    A patch release is there only when it differs from the release it follows.
    """
    lines: dict[str, set[int]] = {}
    roots: dict[str, str] = {}
    for release in source_map.releases.values():
        if release.status == "final":
            lines.setdefault(release.release, set()).update(source_map.lines_in(row, release.id)[:1])
            roots[release.release] = source_map.root(release.id)
    return {
        name: sorted(found)
        for name, found in lines.items()
        if found and (roots[name] == name or not found <= lines.get(roots[name], set()))
    }


def render(chain_records: Sequence[dict[str, Any]], zh: bool, mark: Any) -> list[str]:
    """Return the lines of an answer: a heading for each function, below it each line with what it does."""
    lines = []
    for chain in chain_records:
        reached = f" ({chain['from']['zh' if zh else 'en']})" if chain["from"] else ""
        layers = list(dict.fromkeys(step["layer"] for step in chain["steps"]))
        lines.append(
            f"  {mark(chain['name'])}{reached}: {' → '.join(layers) or ('该版本没有' if zh else 'not in this release')}"
        )
        heading = ""
        for step in chain["steps"]:
            repository = f"{step['repo']} " if step["layer"] == CANN else ""
            here = f"    {step['layer']:8}{mark(repository + step['file'] + '  ' + step['function'])}"
            if here != heading:
                lines.append(here)
                heading = here
            lines += _step_lines(step, zh, mark)
    near = next((step["near"] for chain in chain_records for step in chain["steps"] if step["near"]), "")
    if near:
        lines.append("    " + NEAR[zh].format(near))
    return lines


def _step_lines(step: dict[str, Any], zh: bool, mark: Any) -> list[str]:
    does = step["does"]["zh" if zh else "en"]
    lines = [f"      {step['line'] or '':>5}  {does}"]
    if not step["line"]:
        by_release = ", ".join(
            f"{name} {'/'.join(map(str, found))}" for name, found in step["lines_by_release"].items()
        )
        lines.append(f"             {'行' if zh else 'line'}: {by_release}")
    source = step["source"]
    if source:
        code = source["lines"][source["line"] - source["first"]].strip()
        at = f"{source['line']}: " if source["line"] != step["line"] else ""
        lines.append(f"             > {mark(cli.one_line(at + code, 160))}")
    return lines


def _last(name: str) -> str:
    return re.split(r"::|\.", name)[-1]
