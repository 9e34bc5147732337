#!/usr/bin/env python3
"""Measure knowledge/framework-maps/ anew: functions, raises and warnings of the frameworks, and their lines by release.

Usage: measure_framework_maps.py [--git FRAMEWORK=GITDIR ...] [--archive FILE ...] [--check]

FRAMEWORK is a name of FRAMEWORKS or its repository. GITDIR is a clone whose tags v* are the releases (vllm-ascend); an
archive is a source distribution or a wheel as PyPI has it (vllm-0.18.0.tar.gz, sglang-0.5.9-py3-none-any.whl). A
framework is measured when one of its sources is given, and then all of them must be. --check writes nothing and exits 1
when a map is not what the sources say.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tarfile
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Dict, Iterable, Iterator, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from commit_history import run_git
from measured_files import read_clones, replace_file
from source_sites import Site, failure_sites_of, function_spans, streamed_sites_of

from npu_graph import cli
from npu_graph.framework_map import DEFINITION, DEPRECATED, MAP_FOLDER, MAP_SUFFIX, MIN_MESSAGE, VARIABLE, version_key
from npu_graph.framework_rows import Packer

FOLDER = Path(__file__).resolve().parents[1] / "knowledge" / MAP_FOLDER


# Where a framework lists the environment variables that it reads.
_VARIABLE_FILES = ("/envs.py", "/environ.py")
_VARIABLE_NAME = re.compile(r"(?:VLLM|SGLANG|SGL|ASCEND|HCCL|USE|DYNAMIC)_[A-Z0-9_]{3,80}")


class Framework(NamedTuple):
    """Whose sources are mapped. `scope` are the parts of the package that graph mode passes through."""

    name: str
    repository: str
    package: str
    oldest: str
    scope: tuple[str, ...]


FRAMEWORKS = (
    Framework(
        "vllm-ascend",
        "vllm-project/vllm-ascend",
        "vllm_ascend/",
        "0.9.1",
        (
            *("compilation/", "worker/", "attention/", "spec_decode/", "xlite/", "_310p/", "torchair/", "patch/"),
            *("platform.py", "ascend_config.py", "ascend_forward_context.py", "utils.py", "envs.py"),
        ),
    ),
    Framework(
        "vllm",
        "vllm-project/vllm",
        "vllm/",
        "0.9.1",
        (
            *("compilation/", "config/compilation.py", "forward_context.py", "v1/cudagraph_dispatcher.py"),
            *("v1/worker/gpu_model_runner.py", "v1/worker/gpu_worker.py", "v1/worker/gpu/model_runner.py"),
            *("v1/worker/gpu/cudagraph_utils.py", "v1/worker/gpu_ubatch_wrapper.py", "v1/spec_decode/", "envs.py"),
        ),
    ),
    Framework(
        "sglang",
        "sgl-project/sglang",
        "sglang/",
        "0.4.10",
        (
            *("srt/hardware_backend/npu/", "srt/model_executor/", "srt/speculative/", "srt/compilation/"),
            *("srt/layers/attention/ascend", "srt/layers/attention/npu", "srt/utils/npu", "srt/environ.py"),
        ),
    ),
    Framework(
        "xllm",
        "xLLM-AI/xllm",
        "xllm/",
        "0.6.0",
        (
            *("core/runtime/", "core/platform/npu/", "core/kernels/npu/", "core/scheduler/profile/graph_warmup"),
            *("models/llm/npu/llm_model_base.h", "models/llm/npu/mtp_model_base.h", "core/layers/npu_torch/"),
        ),
    ),
)
# The parts of torch_npu that torch.compile passes through; knowledge/source-map.tsv has its graph core. The converters
# of dynamo/torchair/_ge_concrete_graph are left out: they make graphs for GE.
COMPILE_PARTS = Framework(
    "torch_npu",
    "Ascend/pytorch",
    "torch_npu/",
    "2.1.0",
    (
        *("_inductor/", "dynamo/__init__.py", "dynamo/npugraph_ex/", "npu/_graph_tree.py", "op_plugin/meta/"),
        *("utils/_dynamo.py", "utils/_inductor.py", "utils/_graph_tree.py", "utils/_dynamo_device.py"),
        *("dynamo/torchair/_acl_concrete_graph/", "dynamo/torchair/_utils/", "dynamo/torchair/configs/"),
        *("dynamo/torchair/core/", "dynamo/torchair/patterns/", "dynamo/torchair/inference/"),
        *("dynamo/torchair/npu_fx_compiler.py", "dynamo/torchair/npu_export.py", "dynamo/torchair/fx_summary.py"),
        *("dynamo/torchair/fx_dumper.py", "dynamo/torchair/__init__.py", "dynamo/torchair/ops/"),
    ),
)
# xLLM keeps the same parts for other hardware beside those for the NPU; elsewhere such names mean the shared code.
_HARDWARE_OF = "xllm"
_OTHER_HARDWARE = re.compile(r"/(?:cuda|dcu|mlu|ilu|musa)(?:_graph|/)")


class Key(NamedTuple):
    """What makes two places of two releases the same site."""

    file: str
    kind: str
    function: str
    message: str


Lines = Dict[str, "tuple[int, ...]"]


def sites_of(path: str, text: str) -> list[tuple[str, str, str, int]]:
    """Return (kind, function, message, line) of a Python file: definitions, raises, asserts, warnings, variables."""
    if not path.endswith(".py"):
        found = [(DEFINITION, name.replace("::", "."), "", line) for name, line, _ in function_spans(text)]
        return found + _with_text(streamed_sites_of(text))
    text = text.lstrip("\ufeff")  # a byte order mark is no Python
    tree = ast.parse(text)
    if path.endswith(_VARIABLE_FILES):
        return [(VARIABLE, name, message, line) for name, message, line in _variables(tree)]
    found = [(DEFINITION, name, "", line) for name, line in _definitions(tree, ())]
    return found + _with_text(failure_sites_of(text))


def _with_text(sites: Iterable[Site]) -> list[tuple[str, str, str, int]]:
    """Return the sites whose own text is long enough to be known again."""
    return [
        (site.kind, site.function.replace("::", "."), site.message, site.line)
        for site in sites
        if len(site.message.replace("{}", "").strip()) >= MIN_MESSAGE
    ]


def _variables(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Yield (name, DEPRECATED or '', line) of the variables a settings file defines, in a table or a class."""
    old_tables = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and "DEPRECATED" in ast.unparse(node).partition("=")[0]
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and _VARIABLE_NAME.fullmatch(key.value):
                    yield key.value, DEPRECATED if node in old_tables else "", key.lineno
        elif isinstance(node, ast.ClassDef):
            for child in [child for child in node.body if isinstance(child, ast.Assign)]:
                target = child.targets[0]
                if isinstance(target, ast.Name) and _VARIABLE_NAME.fullmatch(target.id):
                    is_old = isinstance(child.value, ast.Call) and "Deprecated" in ast.unparse(child.value.func)
                    yield target.id, DEPRECATED if is_old else "", target.lineno


def _definitions(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        inner = names
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = (*names, child.name)
            yield ".".join(inner), child.lineno
        yield from _definitions(child, inner)


class Sources:
    """The files of each release of one framework, each text read once however many releases share it."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._sites: dict[str, list[tuple[str, str, str, int]]] = {}
        self.lines: dict[Key, Lines] = defaultdict(dict)
        self.releases: dict[str, str] = {}

    def add_git(self, folder: Path) -> None:
        """Read every tag of a clone."""
        for tag in run_git(folder, "tag", "--list", "v*").split():
            version = tag[1:]
            if version_key(version) < version_key(self._framework.oldest):
                continue
            self.releases[version] = f"tag {tag}, commit {run_git(folder, 'rev-list', '-n', '1', tag).strip()[:9]}"
            for row in run_git(folder, "ls-tree", "-r", tag, self._framework.package).splitlines():
                head, _, path = row.partition("\t")
                blob = head.split()[2]
                if self._is_wanted(path):
                    if blob not in self._sites:
                        self._sites[blob] = sites_of(path, run_git(folder, "cat-file", "blob", blob))
                    self._add(version, path, self._sites[blob])

    def add_archive(self, path: Path) -> None:
        """Read a source distribution or a wheel."""
        version = re.sub(r"\.tar\.gz$", "", path.name.split("-")[1])
        self.releases[version] = f"PyPI {path.name}"
        for name, data in _members(path):
            if self._is_wanted(name):
                text = data.decode("utf-8")
                if text not in self._sites:
                    self._sites[text] = sites_of(name, text)
                self._add(version, name, self._sites[text])

    def _is_wanted(self, path: str) -> bool:
        package = self._framework.package
        in_scope = path.startswith(tuple(package + part for part in self._framework.scope))
        other = self._framework.name == _HARDWARE_OF and _OTHER_HARDWARE.search(path) is not None
        return in_scope and path.endswith((".py", ".cpp", ".h")) and not other

    def _add(self, version: str, path: str, sites: Iterable[tuple[str, str, str, int]]) -> None:
        found: dict[Key, set[int]] = defaultdict(set)
        for kind, function, message, line in sites:
            found[Key(path, kind, function, message)].add(line)
        for key, lines in found.items():
            self.lines[key][version] = tuple(sorted(lines))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(".py"):
                    yield name, wheel.read(name)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            # The first folder is the distribution's; some projects keep the package in python/.
            name = member.name.partition("/")[2]
            opened = archive.extractfile(member) if name.endswith(".py") and member.isfile() else None
            if opened is not None:
                yield re.sub(r"^python/", "", name), opened.read()


def write_map(framework: Framework, sources: Sources) -> str:
    """Return the text of a map; graph-mode-expert/references/source_reading.md explains it."""
    releases = sorted(sources.releases, key=version_key)
    out = [
        f"# Functions, raises and warnings of {framework.name} by release: measured by tools/measure_framework_maps.py;"
        " do not edit.",
        f"framework\t{framework.name}\t{framework.repository}\t{framework.package}",
        *(f"release\t{version}\t{sources.releases[version]}" for version in releases),
    ]
    file, packer = "", Packer(releases)
    for key in sorted(sources.lines, key=lambda key: (key.file, *_first_place(sources.lines[key], releases), key)):
        if key.file != file:
            file, packer = key.file, Packer(releases)
            out.append(f"file\t{file}")
        out.append("\t".join((key.kind, key.function, key.message, packer.pack(sources.lines[key]))))
    return "\n".join(out) + "\n"


def _first_place(lines: Lines, releases: Sequence[str]) -> tuple[int, int]:
    """Return a site's place in its newest release, which orders the map as the file is read."""
    newest = max(index for index, release in enumerate(releases) if release in lines)
    return (-newest, lines[releases[newest]][0])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--git", action="append", default=[], metavar="FRAMEWORK=GITDIR")
    parser.add_argument("--archive", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    clones = read_clones(options.git, {framework.name: framework.repository for framework in FRAMEWORKS})
    measured = 0
    differs = []
    for framework in (*FRAMEWORKS, COMPILE_PARTS):
        sources = Sources(framework)
        if framework.name in clones:
            sources.add_git(clones[framework.name])
        for path in options.archive:
            if path.name.split("-")[0].replace("_", "-") == framework.name.replace("_", "-"):
                sources.add_archive(path)
        if not sources.releases:
            continue
        text = write_map(framework, sources)
        measured += len(sources.lines)
        same = replace_file(FOLDER / f"{framework.name}{MAP_SUFFIX}", text, options.check)
        differs += [] if same else [framework.name]
        print(f"{framework.name}: {len(sources.releases)} releases, {len(sources.lines)} sites, {len(text)} characters")
    if not measured:
        raise cli.CommandError("no source is given: nothing was measured", cli.NO_INPUT)
    if options.check and differs:
        print(f"differs from the sources: {', '.join(differs)}")
    return cli.NEGATIVE if options.check and differs else cli.DONE


if __name__ == "__main__":
    cli.run(main)
