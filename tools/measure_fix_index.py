#!/usr/bin/env python3
"""Measure knowledge/fix-index/ anew: the changes that mend something, the functions they touch, the releases with them.

Usage: measure_fix_index.py --git REPOSITORY=GITDIR ... [--check]

GITDIR is a clone with tags (vllm-project/vllm-ascend, xLLM-AI/xllm, Ascend/pytorch), or one of Ascend/torchair or
Ascend/op-plugin, whose releases are those of torch_npu by the commits in knowledge/source-map.tsv. A title is cited as
the history has it; of a message's text only names and symptom words are kept, for the search. --check writes nothing
and exits 1 when an index is not what the sources say.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from npu_graph import cli
from npu_graph.fix_index import INDEX_FOLDER, INDEX_SUFFIX, pack_releases, parts_of
from npu_graph.framework_map import version_key
from npu_graph.source_map import SourceMap

KNOWLEDGE = Path(__file__).resolve().parents[1] / "knowledge"
FOLDER = KNOWLEDGE / INDEX_FOLDER


class Project(NamedTuple):
    """Whose history is read.

    `head` is the branch that goes on; `scope` are the folders and files that run. A change older than `since` (a day,
    before the oldest release) is in all of them, whatever a branch calls it.
    """

    name: str
    repository: str
    head: str
    oldest: str
    since: str
    scope: tuple[str, ...]


PROJECTS = (
    Project("vllm-ascend", "vllm-project/vllm-ascend", "main", "0.9.1", "2025-05-01", ("vllm_ascend/", "csrc/")),
    Project("xllm", "xLLM-AI/xllm", "main", "0.6.0", "2025-08-01", ("xllm/",)),
    Project(
        "torch_npu",
        "Ascend/pytorch",
        "master",
        "",
        "2024-11-01",
        (
            *(
                "torch_npu/npu/",
                "torch_npu/_inductor/",
                "torch_npu/dynamo/",
                "torch_npu/utils/",
                "torch_npu/__init__.py",
            ),
            *(
                "torch_npu/csrc/core/npu/",
                "torch_npu/csrc/npu/",
                "torch_npu/csrc/aten/common/",
                "torch_npu/csrc/distributed/",
            ),
            *("torch_npu/csrc/framework/", "torch_npu/_afd/", "torch_npu/profiler/", "torch_npu/multiprocessing/"),
        ),
    ),
    Project(
        "torchair", "Ascend/torchair", "master", "", "2024-11-01", ("python/", "npu_graph_engine/", "torchair/", "tng/")
    ),
    Project("op-plugin", "Ascend/op-plugin", "master", "", "2024-11-01", ("op_plugin/",)),
)
# Whose releases are torch_npu's, and where the source map names their commit.
OF_TORCH_NPU = {"torch_npu": "commit", "torchair": "torchair", "op-plugin": "op_plugin"}
# A subject that mends something.
_MENDS = re.compile(
    r"fix|\bbugs?\b|bug\b|repair|revert|correct|resolv|avoid|prevent|hang|dead ?lock|crash|garbl"
    r"|accuracy|\boom\b|leak|\brace\b|wrong|overflow|mismatch|修复|修正|修改.{0,20}问题|解决|规避|回退|异常|错误|失败|卡死|精度",
    re.IGNORECASE,
)
# Work on tests, texts and machines mends nothing that a user runs.
_OTHER_WORK = re.compile(
    r"^\W{0,2}(?:doc|docs|ci|ut|e2e|test|tests|testcase)\b|\bclean ?code\b|codecheck|\btypos?\b|\blint\b|\breadme\b"
    r"|\bcodespell\b|\buts?\b|门禁|测试用例|用例修复",
    re.IGNORECASE,
)
# Words of a message that a report may share with it.
_NAME = re.compile(
    r"\b(?:[A-Za-z]+_[A-Za-z0-9_]{2,50}|[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]+)+|[A-Z]{2,}[a-z]\w{2,30}|\d{6}|[A-Z]{2}\d{4})\b"
)
_SYMPTOM = re.compile(
    r"\b(?:hangs?|hung|stuck|deadlock|timeout|crash(?:es|ed)?|segfault|core ?dump|oom|leak|garbled|gibberish|accuracy|"
    r"precision|nan|inf|overflow|mismatch|race|stale|replay|capture|aclgraph|npugraph|fullgraph|full_decode_only|piecewise|padding|padded|"
    r"dummy_run|eagle3?|mtp|mla|sfa|dsa|pcp|dcp|moe|eplb|lora|prefill|decode|stream|event|workspace|recompile|slow|regression|"
    r"multi[- ]?stream|speculative|acceptance|sleep|wake_up|quant\w{0,8}|dtype|shape|contiguous)\b",
    re.IGNORECASE,
)
_MESSAGE_END = re.compile(
    r"^(?:signed-off-by|co-authored-by|### how was this|### does this pr introduce|how was this patch|- vllm version|"
    r"created-by|see merge request)",
    re.IGNORECASE | re.MULTILINE,
)
_ISSUE = re.compile(r"(?:fix(?:es|ed)?|clos(?:es|ed)|resolv(?:es|ed))\s{1,2}(?:issue\s)?#(\d{2,6})", re.IGNORECASE)
_BOILERPLATE = frozenset(
    ("signed_off_by", "co_authored_by", "what_this_pr", "vllm_ascend", "vllm_version", "user_facing")
)
MOST_WORDS = 16
MOST_FILES = 8
MOST_FUNCTIONS = 6
TITLE_KEPT = 160
# A shorter title names no change of its own on another branch.
OWN_TITLE = 16
# Tests, examples, and parts for other hardware.
_NOT_RUN = re.compile(
    r"(?:^|/)(?:tests?|examples?|benchmarks?)/|_test\.\w{1,4}$|/(?:cuda|dcu|mlu|ilu|musa)(?:_graph|/)"
)
_FUNCTION = re.compile(r"\b(?:async def|def|class) ([A-Za-z_]\w*)")
_CPP_FUNCTION = re.compile(r"\b([A-Za-z_]\w*)(?:<[^>]{0,40}>)?\(")
_NO_FUNCTION = frozenset(
    ("if", "for", "while", "switch", "return", "sizeof", "defined", "catch", "TORCH_CHECK", "NPU_CHECK_ERROR")
)
# What a merge adds to a subject: whose branch it came from.
MERGED_FROM = re.compile(r"\s*(?:Merge pull request !\d+ from \S.*|!\d+ merge \S+ into \S+.*)$")
_RECORD = "\x01"


class Change(NamedTuple):
    """One commit as the history has it."""

    commit: str
    date: str
    title: str
    message: str
    places: tuple[tuple[str, tuple[str, ...]], ...]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=900,
        check=True,
    )
    return done.stdout


def read_changes(project: Project, folder: Path, refs: Sequence[str]) -> Iterator[Change]:
    """Yield the mending changes in a project's scope that are reachable from refs."""
    with tempfile.NamedTemporaryFile("w", suffix=".attributes") as attributes:
        attributes.write("*.py diff=python\n*.cpp diff=cpp\n*.h diff=cpp\n*.hpp diff=cpp\n*.cc diff=cpp\n")
        attributes.flush()
        text = _git(
            folder,
            *(
                "-c",
                f"core.attributesFile={attributes.name}",
                "-c",
                "core.quotepath=off",
                "log",
                "-p",
                "-U0",
                "--no-renames",
            ),
            *("--no-merges", f"--format={_RECORD}%H%x02%cs%x02%s%x02%b%x02", *refs, "--", *project.scope),
        )
    for record in text.split(_RECORD)[1:]:
        commit, date, title, message, patch = record.split("\x02", 4)
        bare = subject_of(title)
        if _MENDS.search(bare) and not _OTHER_WORK.search(bare):
            places = tuple(_places_in(patch))
            if places:
                yield Change(commit, date, _cited(title, message), message, places)


def subject_of(title: str) -> str:
    """Return a subject without what a merge puts around it, and not longer than is kept."""
    return re.sub(r"^!\d+ ", "", MERGED_FROM.sub("", " ".join(title.split())))[:TITLE_KEPT].strip()


def _cited(title: str, message: str) -> str:
    """Return a subject with the number of its merge request at the end, as GitHub writes it by itself."""
    number = re.match(r"!(\d+) ", title) or re.search(r"^See merge request: \S+!(\d+)$", message, re.MULTILINE)
    bare = subject_of(title)
    return f"{bare} (!{number.group(1)})" if number else bare


def _places_in(patch: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (file, functions) of a patch, without tests."""
    found = 0
    for part in patch.split("\ndiff --git ")[1:]:
        file = part.split(" b/", 1)[1].split("\n", 1)[0] if " b/" in part else ""
        if not file.endswith((".py", ".cpp", ".h", ".hpp", ".cc", ".yaml")) or _NOT_RUN.search(file):
            continue
        if found == MOST_FILES:
            return
        found += 1
        yield file, tuple(dict.fromkeys(_functions_in(part, file.endswith(".py"))))[:MOST_FUNCTIONS]


def _functions_in(part: str, is_python: bool) -> Iterator[str]:
    for line in part.split("\n"):
        if line.startswith("@@ "):
            head = line.split("@@", 2)[2]
        elif line[:1] in "+-" and re.match(r"[+-]\s*(?:async def|def|class) ", line) and is_python:
            head = line
        else:
            continue
        match = (_FUNCTION if is_python else _CPP_FUNCTION).search(head)
        if match and match.group(1) not in _NO_FUNCTION:
            yield match.group(1)


def words_of(message: str, title: str) -> list[str]:
    """Return names and symptom words of a message that its title has not, issues it closes, and parts of names."""
    end = _MESSAGE_END.search(message)
    own = message[: end.start()] if end else message
    known = title.lower()
    found = dict.fromkeys(f"#{number}" for number in _ISSUE.findall(message))
    for expression in (_SYMPTOM, _NAME):
        for word in expression.findall(own):
            low = word if expression is _NAME else word.lower()
            if low.lower() not in known and low.lower() not in _BOILERPLATE and not low.startswith("http"):
                found.setdefault(low, None)
    return list(dict.fromkeys([*list(found)[:MOST_WORDS], *parts_of(title)]))


def title_key(title: str) -> str:
    """Return what the titles of one change on several branches have in common."""
    bare = re.sub(r"\([#!]\d+\)|cherry[- ]?pick\w*", " ", subject_of(title))
    bare = re.sub(r"^(?:\s*[\[【][^\]】]{0,40}[\]】])+", " ", bare)
    return re.sub(r"[\W_]+", " ", bare).strip().lower()


def releases_of(project: Project, folder: Path) -> list[tuple[str, str]]:
    """Return (release, ref) of a project, oldest first; torch_npu's parts have its releases."""
    if project.oldest:
        tags = [
            tag
            for tag in _git(folder, "tag", "--list", "v*").split()
            if version_key(tag[1:]) >= version_key(project.oldest)
        ]
        return sorted(((tag[1:], tag) for tag in tags), key=lambda item: version_key(item[0]))
    ref = OF_TORCH_NPU[project.name]
    releases = SourceMap.load([KNOWLEDGE]).releases.values()
    return [(release.id, getattr(release, ref)) for release in releases if getattr(release, ref) not in ("", "-")]


def measure(project: Project, folder: Path) -> tuple[str, int]:
    """Return the text of an index and how many changes it holds."""
    releases = [(name, ref) for name, ref in releases_of(project, folder) if _has(folder, ref)]
    inside = [_subjects(folder, ref) for _, ref in releases]
    first: dict[str, Change] = {}
    for change in read_changes(project, folder, [project.head, *(ref for _, ref in releases)]):
        key = title_key(change.title)
        if change.date >= project.since:  # the log goes back in time: of one change on several branches the first stays
            first[key if len(key) >= OWN_TITLE else change.commit] = change
    rows = []
    for key, change in sorted(first.items(), key=lambda item: (item[1].date, item[1].commit)):
        held = {index for index, keys in enumerate(inside) if key in keys or change.commit in keys}
        if len(held) < len(releases):
            rows.append((change, held))
    read_at = _git(folder, "log", "-1", "--format=%h %cs", project.head).strip()
    out = [
        f"# Changes of {project.repository} that mend something, and the releases that hold them: measured by"
        " tools/measure_fix_index.py; do not edit.",
        f"repository\t{project.name}\t{project.repository}\t{read_at}",
        *(f"release\t{name}" for name, _ in releases),
        *("\t".join(_row(change, held)) for change, held in rows),
    ]
    return "\n".join(out) + "\n", len(rows)


def _subjects(folder: Path, ref: str) -> set[str]:
    """Return the commits of a release and what their titles have in common with those of other branches."""
    found = set()
    for line in _git(folder, "log", "--format=%H %s", ref).splitlines():
        commit, _, subject = line.partition(" ")
        key = title_key(subject)
        found.update((commit, key) if len(key) >= OWN_TITLE else (commit,))
    return found


def _row(change: Change, held: Iterable[int]) -> Iterator[str]:
    places = ";".join(f"{file}:{','.join(functions)}" if functions else file for file, functions in change.places)
    yield from ("fix", change.commit[:10], change.date, pack_releases(held), change.title.replace("\t", " "), places)
    yield " ".join(words_of(change.message, change.title))


def _has(folder: Path, ref: str) -> bool:
    done = subprocess.run(
        ["git", "-C", str(folder), "cat-file", "-e", f"{ref}^{{commit}}"], capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--git", action="append", default=[], metavar="REPOSITORY=GITDIR")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    clones = dict(item.partition("=")[::2] for item in options.git)
    measured = 0
    differs = []
    for project in PROJECTS:
        if project.repository not in clones:
            continue
        text, count = measure(project, Path(clones[project.repository]))
        measured += count
        path = FOLDER / f"{project.name}{INDEX_SUFFIX}"
        if not options.check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            differs.append(project.name)
        print(f"{project.name}: {count} changes, {len(text)} characters")
    if not measured:
        print("no history given: nothing was measured", file=sys.stderr)
        return cli.NO_INPUT
    if differs:
        print(f"differs from the sources: {', '.join(differs)}")
    return cli.NEGATIVE if differs else cli.DONE


if __name__ == "__main__":
    sys.exit(main())
