#!/usr/bin/env python3
"""Find later changes that may mend a failure: commits of vllm-ascend, xllm, torch_npu, torchair and op-plugin by words.

What the release notes list as a known issue of the release, if all that marks it is among the words, stands first.

Usage: find_fix.py WORDS ... [--project NAME[==VERSION]] [--function NAME] [--most N] [--output text|json|md]

WORDS are those of the failure: names, error text, what goes wrong. --project limits the search to a project (several
times for several) and, with a version, to changes that came after it; torch_npu's version also stands for torchair and
op-plugin. A title is what the history says of a change: read the change before you rely on it.

Exit codes: 0 changes or known issues were found, 1 none was, 2 wrong usage, 4 the index is missing, 5 internal error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import bundle, cli
from npu_graph.diagnosis.report import code_span
from npu_graph.fix_index import INDEXES, MAX_VERSION, FixIndex, Query
from npu_graph.framework_map import DEFINITION, FRAMEWORKS, FrameworkMap
from npu_graph.known_issues import KnownIssues, issue_record, issue_text
from npu_graph.source_map import SourceMap

SCHEMA = "npu-graph/fixes/1"
MAX_WORDS = 4000
MOST = 10
MOST_OF_ALL = 100
SHOWN_PLACES = 3
SHOWN_FUNCTIONS = 4
# Whose releases are those of torch_npu.
OF_TORCH_NPU = ("torch_npu", "torchair", "op-plugin")
EXAMPLES = (
    "python3 find_fix.py update_stream deadlock draft --project vllm-ascend==0.18.0",
    'python3 find_fix.py "cannot access local variable decode_metadata" --function build_for_graph_capture',
)
WORDS = {
    "en": {
        "in": "first in {}",
        "branch": "in no release that was read (branch read at {})",
        "touches": "touches",
        "lines": "touches (lines are those of the release asked for)",
        "shares": "shares",
        "none": "no later change has these words: this says nothing about whether it is mended",
        "read": "Titles as the histories have them, nearest first; none was checked against the failure.",
        "nearest": "{} is not in the index of {}; taken as {}",
        "listed": "Known issue in the release notes: ",
        "do": ". Do: ",
    },
    "zh": {
        "in": "首次包含于 {}",
        "branch": "已读取的版本均不包含（分支读于 {}）",
        "touches": "涉及",
        "lines": "涉及（行号为所查版本中的位置）",
        "shares": "共有",
        "none": "没有后续修改含有这些词；这并不说明问题是否已修复",
        "read": "标题取自提交历史，按接近程度排列；均未与故障核对。",
        "nearest": "{} 不在 {} 的索引中，按 {} 处理",
        "listed": "发行说明中的已知问题：",
        "do": "。处理：",
    },
}


class Asked(NamedTuple):
    """A project's history, the version that was asked for, the releases that it means, and where functions stand."""

    history: FixIndex
    version: str
    releases: tuple[str, ...]
    map: FrameworkMap


def read_projects(given: Sequence[str], folders: Sequence[Path]) -> list[Asked]:
    """Return the indexes to search, all of them when none is named.

    Raises:
        CommandError: an unknown project or version, or no index at all.
    """
    asked = []
    for item in given or INDEXES:
        name, _, version = item.partition("==")
        name = name.strip().lower().replace("torch-npu", "torch_npu").replace("vllm_ascend", "vllm-ascend")
        if name not in INDEXES:
            raise cli.CommandError(f"--project {item}: expected one of {', '.join(INDEXES)}, then ==VERSION")
        index = FixIndex.load(name, folders)
        if not len(index):
            raise cli.CommandError(f"the index of {name} is not in the bundle: install it again", cli.ABSENT)
        version = cli.one_line(version.strip(), MAX_VERSION)
        releases = _releases(index, name, version, folders)
        has_lines = name in FRAMEWORKS and len(releases) == 1
        framework = FrameworkMap.load(name, folders) if has_lines else FrameworkMap()
        asked.append(Asked(index, version, releases, framework))
    return asked


def _releases(index: FixIndex, name: str, version: str, folders: Sequence[Path]) -> tuple[str, ...]:
    if not version:
        return ()
    if name in OF_TORCH_NPU:
        source_map = SourceMap.load(folders)
        found, _ = source_map.find_release(version)
        known = dict.fromkeys(index.known_release(release, source_map) for release in found)
        near = index.newest_before(version.lstrip("v")) if not found and version.lstrip("v")[:1].isdigit() else ""
        releases = tuple(release for release in (*known, near) if release)
    else:
        near = index.find_release(version)
        releases = (near,) if near else ()
    if not releases:
        raise cli.CommandError(
            f"--project {name}=={version}: no such release; the index has {index.releases[0]} to {index.releases[-1]}"
        )
    return releases


def _names(version: str, release: str) -> bool:
    """Say whether a version is the release itself: 0.18.0, or 7.3.0 and 7.3.0/2.7.1."""
    return version.lstrip("v") in (release, release.partition("/")[0])


def _place(file: str, names: Sequence[str], asked: Asked) -> dict[str, Any]:
    """Return a file with its functions, and their lines in the release that was asked for where a map has them."""
    lines: dict[str, list[int]] = {}
    for site in asked.map.sites_in(file):
        if site.kind == DEFINITION and site.last_name in names:
            lines.setdefault(site.last_name, []).extend(asked.map.lines_in(site, asked.releases[0]))
    return {"file": file, "functions": list(names), "lines": lines}


def find_fixes(words: str, functions: Sequence[str], asked: Sequence[Asked], most: int) -> list[dict[str, Any]]:
    """Return the changes nearest to the words, best first."""
    results = []
    wanted = [name.rpartition(".")[2].rpartition("::")[2] for name in functions]
    for item in asked:
        query = Query(f"{words} {' '.join(functions)}", "", ())
        for found in item.history.search(query, item.releases, most, wanted):
            fix = found.fix
            results.append(
                {
                    "repo": item.history.repository,
                    "commit": fix.commit,
                    "date": fix.date,
                    "title": fix.title,
                    "first_release": item.history.first_release(fix, item.releases),
                    "read_at": item.history.read_at,
                    "places": [_place(file, names, item) for file, names in fix.places],
                    "shared": list(found.words),
                    "score": round(found.score, 1),
                }
            )
    results.sort(key=lambda item: -item["score"])
    return results[:most]


def find_issues(words: str, asked: Sequence[Asked], folders: Sequence[Path], language: str) -> list[dict[str, Any]]:
    """Return the known issues that the words mark, of the releases asked for."""
    return [
        issue_record(issue, notes, language)
        for item in asked
        for notes in [KnownIssues.load(item.history.name, folders)]
        for issue in notes.search(words, item.releases, item.history.releases)
    ]


def render(answer: dict[str, Any], language: str, markdown: bool) -> str:
    """Return the answer as text or Markdown."""
    words = WORDS[language]
    results = answer["results"]
    rows = [*answer["notes"], *(words["listed"] + issue_text(item, words["do"]) for item in answer["known_issues"])]
    rows.append(words["read"] if results else words["none"])
    mark = code_span if markdown else str
    for item in results:
        title = mark(item["title"])
        first = item["first_release"]
        where = words["in"].format(first) if first else words["branch"].format(item["read_at"])
        rows.append(f"- {item['date']} {item['repo']} {item['commit']}: {title}")
        rows.append(f"  {where}; {words['shares']}: {mark(', '.join(item['shared']))}")
        places = [_shown(place) for place in item["places"][:SHOWN_PLACES]]
        label = words["lines" if any(place["lines"] for place in item["places"]) else "touches"]
        rows.append(f"  {label}: {mark('; '.join(places))}")
    return "\n".join(rows)


def _shown(place: dict[str, Any]) -> str:
    """Return a place as `file (function:line, function)`."""
    names = [
        f"{name}:{place['lines'][name][0]}" if len(place["lines"].get(name, ())) == 1 else name
        for name in place["functions"][:SHOWN_FUNCTIONS]
    ]
    return place["file"] + (f" ({', '.join(names)})" if names else "")


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Find later changes that may mend a failure.", EXAMPLES)
    parser.add_argument("words", nargs="+", metavar="WORDS", help="words of the failure")
    parser.add_argument(
        "--project", action="append", default=[], metavar="NAME[==VERSION]", help="whose history; repeatable"
    )
    parser.add_argument(
        "--function", action="append", default=[], metavar="NAME", help="only changes that touch it; repeatable"
    )
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"at most so many (default {MOST})")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the answer")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the answer")
    options = parser.parse_args(argv)
    if not 1 <= options.most <= MOST_OF_ALL:
        raise cli.CommandError(f"--most {options.most}: expected 1 to {MOST_OF_ALL}")
    folders = bundle.knowledge_folders()
    asked = read_projects(options.project, folders)
    notes = [
        WORDS[options.lang]["nearest"].format(item.version, item.history.name, ", ".join(item.releases))
        for item in asked
        if item.releases and not any(_names(item.version, release) for release in item.releases)
    ]
    words = " ".join(options.words)[:MAX_WORDS]
    answer = {
        "schema": SCHEMA,
        "notes": notes,
        "known_issues": find_issues(words, asked, folders, options.lang),
        "results": find_fixes(words, options.function, asked, options.most),
    }
    if options.output == "json":
        cli.write_json(answer)
    else:
        cli.write_text(render(answer, options.lang, options.output == "md"))
    return cli.DONE if answer["results"] or answer["known_issues"] else cli.NEGATIVE


if __name__ == "__main__":
    cli.run(main)
