#!/usr/bin/env python3
"""Find later changes that may mend a failure: commits of vllm-ascend, xllm, torch_npu, torchair and op-plugin by words.

What the release notes list as a known issue of the release, if all that marks it is among the words, stands first.

Usage: find_fix.py WORDS ... | - [--project NAME[==VERSION]] [--function NAME] [--most N] [--output text|json|md]

WORDS are those of the failure: names, error text, what goes wrong; - reads standard input. --project limits the search
to a project (several times for several) and, with a version, to changes that came after it; torch_npu's version also
stands for torchair and op-plugin. A title is what the history says of a change: read the change before you rely on it.

Exit codes: 0 changes or known issues were found, 1 none was, 2 wrong usage, 3 no words, 4 the index is missing,
5 internal error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import bundle, cli
from npu_graph.fix_index import INDEXES, MAX_VERSION, FixIndex, Query
from npu_graph.framework_map import COMPILE_PARTS, DEFINITION, FRAMEWORKS, FrameworkMap
from npu_graph.known_issues import KnownIssues, issue_record, issue_text
from npu_graph.language import has_chinese
from npu_graph.markdown import code_span
from npu_graph.source_map import SourceMap

SCHEMA = "npu-graph/fixes/1"
MAX_WORDS = 4000
MOST = 10
MOST_OF_ALL = 100
SHOWN_PLACES = 3
SHOWN_FUNCTIONS = 4
# Whose releases are those of torch_npu.
OF_TORCH_NPU = ("torch_npu", "torchair", "op-plugin")
_VERSION = re.compile(r"[vV]?\d[\w.+/-]*")
_PROJECT_NAMES = {name.replace("_", "-"): name for name in INDEXES}
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
        "newer": "{} is newer than what was read of {}; taken as {}",
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
        "newer": "{} 比已读取的 {} 版本都新，按 {} 处理",
        "listed": "发行说明中的已知问题：",
        "do": "。处理：",
    },
}


class Asked(NamedTuple):
    """A project's history and what was asked for.

    Attributes:
        history: the project's index.
        version: as given, '' for none.
        releases: those that it means.
        exact: whether they are the version itself, and not the nearest to it.
        map: where the project's functions stand.
        map_release: as the map calls the release; '' when no map has it.
    """

    history: FixIndex
    version: str
    releases: tuple[str, ...]
    exact: bool
    map: FrameworkMap
    map_release: str


def read_projects(given: Sequence[str], folders: Sequence[Path]) -> list[Asked]:
    """Return the indexes to search, all of them when none is named.

    Raises:
        CommandError: an unknown project or version, or no index at all.
    """
    asked: list[Asked] = []
    for item in dict.fromkeys(given) or INDEXES:
        name, _, version = item.partition("==")
        name = _PROJECT_NAMES.get(name.strip().lower().replace("_", "-"), "")
        if not name:
            raise cli.CommandError(f"--project {item}: expected one of {', '.join(INDEXES)}, then ==VERSION")
        if name in (one.history.name for one in asked):
            raise cli.CommandError(f"--project {name} is given twice; ask for each version in a call of its own")
        index = FixIndex.load(name, folders)
        if not len(index):
            raise cli.CommandError(f"the index of {name} is not in the bundle: install it again", cli.ABSENT)
        version = cli.one_line(version.strip(), MAX_VERSION)
        releases, exact = find_releases(index, version, folders) if version else ((), True)
        asked.append(Asked(index, version, releases, exact, *_find_map(name, releases, folders)))
    return asked


def _find_map(name: str, releases: Sequence[str], folders: Sequence[Path]) -> tuple[FrameworkMap, str]:
    """Return where a project's functions stand, and the release as that map calls it; of torch_npu the wheel."""
    if len(releases) != 1 or name not in (*FRAMEWORKS, COMPILE_PARTS):
        return FrameworkMap(), ""
    release = releases[0]
    if name == COMPILE_PARTS:
        release = SourceMap.load(folders).releases[release].wheel
    return FrameworkMap.load(name, folders), release


def find_releases(index: FixIndex, version: str, folders: Sequence[Path]) -> tuple[tuple[str, ...], bool]:
    """Return the releases of an index that a version means, and whether they are that version itself.

    Raises:
        CommandError: no release is near.
    """
    if index.name in OF_TORCH_NPU:
        source_map = SourceMap.load(folders)
        found, exact = source_map.find_release(version)
        known = dict.fromkeys(index.known_release(release, source_map) for release in found)
        exact = exact and all(release.id in index.releases for release in found)
        releases = tuple(release for release in known if release) or index.newest_before(version.lstrip("vV"))
    else:
        releases, exact = index.find_release(version)
    if not releases or not _VERSION.fullmatch(version):
        raise cli.CommandError(
            f"--project {index.name}=={version}: no such release; the index has {index.releases[0]} to "
            f"{index.releases[-1]}"
        )
    return releases, exact


def _taken_as(asked: Asked, language: str) -> str:
    """Return the note that the version asked for is not one that was read."""
    note = WORDS[language]["newer" if asked.history.is_newer(asked.version) else "nearest"]
    return note.format(asked.version, asked.history.name, ", ".join(asked.releases))


def read_words(given: Sequence[str]) -> str:
    """Return the words of the failure.

    Raises:
        CommandError: there are none.
    """
    words = [cli.read_inputs(["-"])[0].text if item == "-" else item for item in given]
    text = " ".join(words)[:MAX_WORDS]
    if not text.strip():
        raise cli.CommandError("WORDS are empty; give names and error text of the failure", cli.NO_INPUT)
    return text


def _place(file: str, names: Sequence[str], asked: Asked) -> dict[str, Any]:
    """Return a file with its functions, and their lines in the release that was asked for where a map has them."""
    lines: dict[str, list[int]] = {}
    for site in asked.map.sites_in(file):
        if site.kind == DEFINITION and site.last_name in names:
            lines.setdefault(site.last_name, []).extend(asked.map.lines_in(site, asked.map_release))
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
    parser.add_argument("words", nargs="+", metavar="WORDS", help="words of the failure, or - for standard input")
    parser.add_argument(
        "--project", action="append", default=[], metavar="NAME[==VERSION]", help="whose history; repeatable"
    )
    parser.add_argument(
        "--function", action="append", default=[], metavar="NAME", help="only changes that touch it; repeatable"
    )
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"at most so many (default {MOST})")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the answer")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language (default: that of WORDS)")
    parser.add_argument("--all", action="store_true", help="do not shorten a long answer")
    options = parser.parse_args(argv)
    if not 1 <= options.most <= MOST_OF_ALL:
        raise cli.CommandError(f"--most {options.most}: expected 1 to {MOST_OF_ALL}")
    words = read_words(options.words)
    language = options.lang or ("zh" if has_chinese(words) else "en")
    folders = bundle.knowledge_folders()
    asked = read_projects(options.project, folders)
    answer = {
        "schema": SCHEMA,
        "notes": [_taken_as(item, language) for item in asked if not item.exact],
        "known_issues": find_issues(words, asked, folders, language),
        "results": find_fixes(words, options.function, asked, options.most),
    }
    if options.output == "json":
        cli.write_json(answer)
    else:
        text = render(answer, language, options.output == "md") + "\n"
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.DONE if answer["results"] or answer["known_issues"] else cli.NEGATIVE


if __name__ == "__main__":
    cli.run(main)
