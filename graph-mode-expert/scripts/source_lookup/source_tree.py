"""Sources at hand: finds torch_npu's files in a checkout or in site-packages, and reads lines, never importing."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from npu_graph.plain_files import open_plain
from npu_graph.source_map import Place, Release, SourceMap

MAX_SOURCE_BYTES = 4 * 1024 * 1024
CONTEXT = 3
# Shorter words occur in a file more than once; more places than this tell nothing new.
MIN_NEEDLE = 16
MAX_OWN_PLACES = 60

# The files that reading on from a graph-mode failure needs; without one of them a checkout is of little use.
KEY_FILES = (
    "torch_npu/npu/graphs.py",
    "torch_npu/npu/_graph_tree.py",
    "torch_npu/csrc/core/npu/NPUGraph.cpp",
    "torch_npu/csrc/npu/Graph.cpp",
)
# Where operator sources lie: in the submodule of Ascend/pytorch, or in a checkout of op-plugin itself.
OPERATOR_FOLDERS = ("third_party/op-plugin/op_plugin/ops", "op_plugin/ops")
TORCHAIR_FOLDERS = ("third_party/torchair/torchair/python/torchair", "python/torchair")
SPARSE_FOLDERS = (
    *("torch_npu/npu", "torch_npu/csrc/core/npu", "torch_npu/csrc/npu", "torch_npu/csrc/aten"),
    *("torch_npu/csrc/framework", "torch_npu/utils", "torch_npu/dynamo", "torch_npu/_inductor"),
)
PYTORCH_URL = "https://github.com/Ascend/pytorch.git"
# Where .gitmodules of Ascend/pytorch points: not every commit that a release names is in the GitHub copies.
OP_PLUGIN_URL = "https://gitcode.com/ascend/op-plugin.git"
TORCHAIR_URL = "https://gitcode.com/ascend/torchair.git"
OPERATORS = "op_plugin/ops (op-plugin)"

CHECKOUT, INSTALLED, NOTHING = "checkout", "site-packages", "nothing"


class Tree(NamedTuple):
    """A folder with torch_npu's files: `root` holds torch_npu/, or is a checkout of a neighbour repository."""

    root: Path
    kind: str
    version: str
    commit: str


class Shown(NamedTuple):
    """Lines read from a file. `line` is where the site stands there, which need not be where the map says."""

    path: str
    line: int
    first: int
    lines: list[str]
    agrees: bool


def open_tree(folder: Path) -> Tree:
    """Return what the folder is: a checkout, an installation, or nothing usable. The package folder itself will do."""
    root = folder.parent if folder.name == "torch_npu" and (folder / "npu").is_dir() else folder
    installed = root / "torch_npu" / "version.py"
    if installed.is_file():
        text = _read(installed)
        return Tree(root, INSTALLED, _assigned(text, "__version__"), _assigned(text, "git_version")[:9])
    known = (root / "torch_npu" / "npu").is_dir() or (root / "torch_npu" / "csrc").is_dir()
    if known or any((root / folder_).is_dir() for folder_ in (*OPERATOR_FOLDERS, *TORCHAIR_FOLDERS)):
        version = _read(root / "version.txt").strip()
        return Tree(root, CHECKOUT, "" if "\n" in version else version, _head_commit(root))
    return Tree(root, NOTHING, "", "")


def open_package(root: Path, package: str) -> Tree:
    """Return the folder that holds a package, with the version that its `_version.py` or `version.py` says."""
    for name in ("_version.py", "version.py"):
        version = _assigned(_read(root / package / name), "__version__")
        if version:
            return Tree(root, INSTALLED, version, "")
    return Tree(root, CHECKOUT, "", _head_commit(root))


def find_installed() -> Tree | None:
    """Return the torch_npu that Python would import from here, found on disk only."""
    folders = [Path(entry) for entry in sys.path if entry]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(variable)
        if prefix:
            folders += sorted(Path(prefix).glob("lib/python3*/site-packages"))
    for folder in folders:
        if (folder / "torch_npu" / "version.py").is_file():
            return open_tree(folder)
    return None


def release_of(tree: Tree, source_map: SourceMap) -> tuple[list[Release], str]:
    """Return the releases a tree can be, and by what: its commit, branch, the lines in its files, or its version."""
    by_commit = [r for r in source_map.releases.values() if r.commit and tree.commit.startswith(r.commit)]
    if by_commit:
        return by_commit, f"commit {by_commit[0].commit}"
    branch = _head_branch(tree.root)
    if branch:
        found, _ = source_map.find_release(branch)
        if found:
            return found, f"branch {branch}"
    places = _own_places(tree, source_map)
    inferred = source_map.infer_release(places) if places else None
    if inferred and inferred.ids and not inferred.against:
        return [
            source_map.releases[i] for i in inferred.ids
        ], f"the lines of {len(inferred.evidence)} sites in its files"
    if tree.version:
        found, _ = source_map.find_release(tree.version)
        if found:
            return found, f"version {tree.version}"
    return [], ""


def read_site(tree: Tree, file: str, line: int, message: str) -> Shown | None:
    """Return the lines around a site; when the file has it elsewhere, there. None when the file is not in the tree."""
    path = next((path for path in _candidates(tree, file) if path.is_file()), None)
    if path is None:
        return None
    lines = _read(path).splitlines()
    wanted = _needle(message)
    at = line if 1 <= line <= len(lines) else 0
    agrees = bool(at) and (not wanted or wanted in _statement(lines, at))
    if not agrees and wanted:
        near = [number for number in range(1, len(lines) + 1) if wanted in _folded(lines[number - 1])]
        at = min(near, key=lambda number: abs(number - line), default=at)
    if not at:
        return None
    first = max(1, at - CONTEXT)
    shown = str(path.relative_to(tree.root)).replace("\\", "/")
    return Shown(shown, at, first, [text[:240] for text in lines[first - 1 : at + CONTEXT]], agrees)


def missing_files(tree: Tree) -> list[str]:
    """Return the key files (and op-plugin's ops folder) that the tree does not hold."""
    missing = [file for file in KEY_FILES if not (tree.root / file).is_file()]
    if not any((tree.root / folder).is_dir() for folder in OPERATOR_FOLDERS):
        missing.append(OPERATORS)
    return missing


def clone_commands(release: Release) -> list[str]:
    """Return the commands that fetch the sources of a release: torch_npu, operators and torchair, nothing else."""
    if not release.ref:
        return []
    commands = [
        f"git clone --depth 1 --filter=blob:none --sparse -b {release.ref} {PYTORCH_URL} ascend-pytorch",
        f"git -C ascend-pytorch sparse-checkout set {' '.join(SPARSE_FOLDERS)}",
    ]
    neighbours = (
        ("op-plugin", OP_PLUGIN_URL, release.op_plugin),
        ("torchair/torchair", TORCHAIR_URL, release.torchair),
    )
    for submodule, url, commit in neighbours:
        if commit:
            name = f"ascend-pytorch/third_party/{submodule}"
            commands.append(
                f"git clone --filter=blob:none --no-checkout {url} {name} && git -C {name} checkout {commit}"
            )
    return commands


def _own_places(tree: Tree, source_map: SourceMap) -> list[Place]:
    """Return where the tree's own files have the sites of the key files, as places of a stack."""
    places: list[Place] = []
    for file in KEY_FILES:
        path = tree.root / file
        if not path.is_file():
            continue
        lines = [_folded(text) for text in _read(path).splitlines()]
        rows = [row for row in source_map.rows if row.file == file and row.kind != "frame"]
        for row in rows:
            needle = _needle(row.message)
            if len(needle) < MIN_NEEDLE or any(needle in r.message and r.printed != row.printed for r in rows):
                continue
            found = [number for number, text in enumerate(lines, 1) if needle in text]
            start = _start_of(lines, found[0], row.kind) if len(found) == 1 else 0
            if start:
                places.append(Place(row.printed, file, start, "", ""))
    return places[:MAX_OWN_PLACES]


def _start_of(lines: list[str], at: int, kind: str) -> int:
    """Return the line on which the check or raise around a text starts, 0 when it is not within a few lines."""
    word = f"{kind}(" if not kind.startswith("raise") else "raise "
    return next((number for number in range(at, max(0, at - 4), -1) if word in lines[number - 1]), 0)


def _candidates(tree: Tree, file: str) -> list[Path]:
    paths = [tree.root / file]
    for part in ("torch_npu/dynamo/torchair/", "torch_npu/dynamo/npugraph_ex/"):
        if file.startswith(part):
            paths += [tree.root / folder / file[len(part) :] for folder in TORCHAIR_FOLDERS]
    return paths


def _statement(lines: list[str], at: int) -> str:
    """Return the statement that starts at a line, folded (a check's text often stands on its second line)."""
    return _folded(" ".join(lines[at - 1 : at + 3]).replace('" "', "").replace('"  "', ""))


def _needle(message: str) -> str:
    """Return what of a message stands on one source line: a call's name, or the first words of the text."""
    if "(" in message and "::" in message and " " not in message.partition("(")[0]:
        return message.partition("(")[0] + "("
    piece = max(message.split("{}"), key=len) if message else ""
    return _folded(piece)[:24].strip()


def _folded(text: str) -> str:
    return " ".join(text.split())


def _read(path: Path) -> str:
    try:
        with open_plain(path) as source:
            return source.read(MAX_SOURCE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _assigned(text: str, name: str) -> str:
    found = re.search(rf"^{name}\s?=\s?['\"]([\w.+-]{{1,60}})['\"]", text, re.MULTILINE)
    return found.group(1) if found else ""


def _git_folder(root: Path) -> Path:
    git = root / ".git"
    if git.is_file():  # a work tree or submodule points to its folder
        target = _read(git).partition("gitdir:")[2].strip()
        return (root / target) if target else git
    return git


def _head_branch(root: Path) -> str:
    return _read(_git_folder(root) / "HEAD").strip().partition("ref: refs/heads/")[2]


def _head_commit(root: Path) -> str:
    head = _read(_git_folder(root) / "HEAD").strip()
    if not head.startswith("ref: "):
        return head if re.fullmatch(r"[0-9a-f]{40}", head) else ""
    reference = head[len("ref: ") :]
    if ".." in reference:
        return ""
    commit = _read(_git_folder(root) / reference).strip()
    if not commit:
        packed = re.search(
            rf"^([0-9a-f]{{40}}) {re.escape(reference)}$", _read(_git_folder(root) / "packed-refs"), re.M
        )
        commit = packed.group(1) if packed else ""
    return commit
