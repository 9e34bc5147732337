#!/usr/bin/env python3
"""Measure knowledge/fix-index/ anew: the changes that mend something, the functions they touch, the releases with them.

Usage: measure_fix_index.py --git PROJECT=GITDIR ... [--check]

PROJECT is a name of PROJECTS or its repository. GITDIR is a clone with tags (vllm-ascend, xllm, torch_npu), or one of
torchair or op-plugin, whose releases are those of torch_npu by the commits in knowledge/source-map.tsv. A title is
cited as the history has it; of a message's text only names and symptom words are kept, for the search. --check writes
nothing and exits 1 when an index is not what the sources say.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from commit_history import (
    Change,
    Twins,
    ambiguous_keys,
    has_commit,
    held_by,
    read_changes,
    read_log,
    read_patches,
    run_git,
    subject_of,
)
from measured_files import read_clones, replace_file

from npu_graph import cli
from npu_graph.fix_index import INDEX_FOLDER, INDEX_SUFFIX, pack_releases, parts_of
from npu_graph.framework_map import version_key
from npu_graph.source_map import FINAL, SourceMap

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
    r"(?<![a-z])fix|(?:bug|hot|quick)-?fix|\bbugs?\b|bug\b|repair|revert|\bcorrect|resolv|avoid|prevent|\bhang"
    r"|dead ?lock|crash|garbl|accuracy|\boom\b|leak|\brace\b|wrong|overflow|mismatch"
    r"|修复|修正|修改.{0,20}问题|解决|规避|回退|异常|错误|失败|卡死|精度",
    re.IGNORECASE,
)
# Work on tests, texts and machines mends nothing that a user runs.
_OTHER_WORK = re.compile(
    r"^\W{0,2}(?:doc|docs|ci|ut|e2e|test|tests|testcase)\b|\bclean ?code\b|codecheck|\btypos?\b|\blint\b|\breadme\b"
    r"|\bcodespell\b|\buts?\b|test ?cases?\b|\bci bug|clang[- ]?(?:format|tidy)|static check|门禁|测试用例|用例修复",
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


def mends(change: Change) -> bool:
    """Say whether a change says that it mends something, and touches what runs."""
    subject = subject_of(change.subject)
    return bool(change.places) and _MENDS.search(subject) is not None and _OTHER_WORK.search(subject) is None


def cited_title(change: Change) -> str:
    """Return a subject with the number of its merge request at the end, as GitHub writes it by itself."""
    number = re.match(r"!(\d+) ", change.subject) or re.search(
        r"^See merge request: \S+!(\d+)$", change.message, re.MULTILINE
    )
    bare = subject_of(change.subject)
    return f"{bare} (!{number.group(1)})" if number else bare


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


def releases_of(project: Project, folder: Path) -> list[tuple[str, str]]:
    """Return (release, ref) of a project, oldest first; torch_npu's parts have its releases, without branch heads."""
    if project.oldest:
        tags = run_git(folder, "tag", "--list", "v*").split()
        tags = [tag for tag in tags if version_key(tag[1:]) >= version_key(project.oldest)]
        return sorted(((tag[1:], tag) for tag in tags), key=lambda item: version_key(item[0]))
    ref = OF_TORCH_NPU[project.name]
    releases = [item for item in SourceMap.load([KNOWLEDGE]).releases.values() if item.status in (FINAL, "pre")]
    return [(item.id, getattr(item, ref)) for item in releases if getattr(item, ref) not in ("", "-")]


class Group:
    """One change with its picks on other branches: by the first of its commits, and the marks of all."""

    def __init__(self, change: Change, marks: set[str]) -> None:
        self.change, self.marks = change, marks

    def add(self, change: Change, marks: set[str]) -> None:
        self.marks |= marks
        if (change.date, change.commit) < (self.change.date, self.change.commit):
            self.change = change


def measure(project: Project, folder: Path) -> tuple[str, int]:
    """Return the text of an index and how many changes it holds."""
    releases = [(name, ref) for name, ref in releases_of(project, folder) if has_commit(folder, ref)]
    refs = [project.head, *(ref for _, ref in releases)]
    patches = read_patches(folder, refs, project.since, project.scope)
    head_log = read_log(folder, project.head)
    ambiguous = ambiguous_keys(head_log, patches)
    on_head = held_by(head_log, patches, ambiguous)
    inside = [held_by(read_log(folder, ref), patches, ambiguous) for _, ref in releases]
    changes = (change for change in read_changes(folder, refs, project.since, project.scope) if mends(change))
    twins = Twins((read_log(folder, ref) for ref in refs), patches, ambiguous)
    groups = _grouped(changes, patches, twins)
    rows = []
    for group in sorted(groups, key=lambda item: (item.change.date, item.change.commit)):
        held = {index for index, marks in enumerate(inside) if marks & group.marks}
        # What was taken back everywhere mends nothing.
        if len(held) < len(releases) and (held or on_head & group.marks):
            rows.append((group.change, held))
    read_at = run_git(folder, "log", "-1", "--format=%h %cs", project.head).strip()
    out = [
        f"# Changes of {project.repository} that mend something, and the releases that hold them: measured by"
        " tools/measure_fix_index.py; do not edit.",
        f"repository\t{project.name}\t{project.repository}\t{read_at}",
        *(f"release\t{name}" for name, _ in releases),
        *("\t".join(_row(change, held)) for change, held in rows),
    ]
    return "\n".join(out) + "\n", len(rows)


def _grouped(changes: Iterable[Change], patches: dict[str, str], twins: Twins) -> list[Group]:
    groups: list[Group] = []
    by_mark: dict[str, Group] = {}
    for change in changes:
        marks = {change.commit} | twins.marks_of(change.subject, patches.get(change.commit, ""))
        known = [by_mark[mark] for mark in sorted(marks) if mark in by_mark]
        if known:
            known[0].add(change, marks)
        else:
            groups.append(Group(change, set(marks)))
        for mark in marks:
            by_mark[mark] = known[0] if known else groups[-1]
    return groups


def _row(change: Change, held: Iterable[int]) -> Iterator[str]:
    places = ";".join(f"{file}:{','.join(functions)}" if functions else file for file, functions in change.places)
    title = cited_title(change)
    yield from ("fix", change.commit[:10], change.date, pack_releases(held), title, places)
    yield " ".join(words_of(change.message, title))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--git", action="append", default=[], metavar="PROJECT=GITDIR")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    clones = read_clones(options.git, {project.name: project.repository for project in PROJECTS})
    if not clones:
        raise cli.CommandError("no history is given: nothing was measured", cli.NO_INPUT)
    differs = []
    for project in PROJECTS:
        if project.name in clones:
            text, count = measure(project, clones[project.name])
            same = replace_file(FOLDER / f"{project.name}{INDEX_SUFFIX}", text, options.check)
            differs += [] if same else [project.name]
            print(f"{project.name}: {count} changes, {len(text)} characters")
    if options.check and differs:
        print(f"differs from the sources: {', '.join(differs)}")
    return cli.NEGATIVE if options.check and differs else cli.DONE


if __name__ == "__main__":
    cli.run(main)
