#!/usr/bin/env python3
"""Look environment variables up: effect on graph mode, values, default, versions and source, or that none reads it.

Usage: lookup_variable.py NAME [NAME ...] [--output text|json|md] [--lang en|zh]

Reads data/variables.tsv. A name that no release reads is said to be so, with the real one; an unknown
name lists near ones, and the patterns that name it.
Exit codes: 0 every name is a real variable, 1 at least one is not, 2 wrong usage, 5 internal error.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Any, Sequence

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from health.tables import read_table

from npu_graph import bundle, cli
from npu_graph.framework_map import DEPRECATED, FRAMEWORKS, FrameworkMap, span
from npu_graph.markdown import code_span
from npu_graph.patterns import load_patterns

SCHEMA = "npu-graph/variables/1"
MAX_NAMES = 50
MAX_LENGTH = 200
MAX_NAMED = 8
# Shorter words stand in many sentences without being a variable.
SHORTEST_NAME = 5
# How a variable is pasted: `export X=1`, `-e X=1`.
_BARE = re.compile(r"^(?:export|set|setenv|-e|--env)\s+")
# The kind of a row whose name is in circulation and is read by no release.
ABSENT = "absent"
EXAMPLES = (
    "python3 lookup_variable.py TASK_QUEUE_ENABLE",
    "python3 lookup_variable.py ASCEND_LAUNCH_BLOCKING=1 HCCL_OP_EXPANSION_MODE --lang zh",
)
WORDS = {
    "en": {
        "effect": "effect",
        "values": "values",
        "default": "default",
        "versions": "versions",
        "source": "source",
        "real": "a variable",
        "absent": "exists in no source",
        "framework": "a variable of {} (its effect is not in this bundle)",
        "releases": "releases that list it",
        "gone": "not in {} and newer",
        "deprecated": "deprecated",
        "unknown": "not in the table",
        "near": "near",
        "spelling": "spelled {}; the case counts: the spelling asked for sets nothing",
        "named_in": "named in patterns (kb.py show ID)",
    },
    "zh": {
        "effect": "作用",
        "values": "取值",
        "default": "默认值",
        "versions": "版本",
        "source": "来源",
        "real": "真实变量",
        "absent": "任何源码中都不存在",
        "framework": "{} 的变量（本工具包没有它的作用说明）",
        "releases": "列出该变量的版本",
        "gone": "{} 及更新的版本没有",
        "deprecated": "已弃用",
        "unknown": "不在表中",
        "near": "相近",
        "spelling": "正确写法是 {}；区分大小写，所查的写法不起作用",
        "named_in": "以下模式提到它（kb.py show ID）",
    },
}


def look_up(name: str, rows: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return what is known of one name; `NAME=value` is taken as NAME."""
    bare = _BARE.sub("", name.strip()).partition("=")[0].strip("`'\" $").strip("{}")[:MAX_LENGTH]
    row = next((row for row in rows if row["name"].upper() == bare.upper()), None)
    if row is None:
        of_framework = find_in_frameworks(bare)
        if of_framework is not None:
            return {"query": bare, "status": "framework", **of_framework, "named_in": find_in_patterns(bare)}
        names = [row["name"] for row in rows if row["kind"] != ABSENT] + framework_variables()
        near = difflib.get_close_matches(bare.upper(), names, 5, 0.6)
        return {"query": bare, "status": "unknown", "near": near, "named_in": find_in_patterns(bare)}
    return {"query": bare, "status": "absent" if row["kind"] == ABSENT else "real", **row}


def find_in_frameworks(name: str) -> dict[str, Any] | None:
    """Return which framework lists a variable, in which releases, and where; None when none does."""
    for framework in FRAMEWORKS:
        framework_map = FrameworkMap.load(framework, bundle.knowledge_folders())
        sites = framework_map.variables().get(name.upper(), [])
        listed = {
            release: (site, framework_map.lines_in(site, release)[0])
            for site in sorted(sites, key=lambda site: site.message == DEPRECATED)  # what is said last stands
            for release in framework_map.releases
            if framework_map.lines_in(site, release)
        }
        if listed:
            releases = [release for release in framework_map.releases if release in listed]
            site, line = listed[releases[-1]]
            return {
                "name": site.name,
                "framework": framework,
                "releases": span(releases, framework_map.releases),
                "deprecated": site.message == DEPRECATED,
                "gone_since": next(iter(framework_map.releases[framework_map.releases.index(releases[-1]) + 1 :]), ""),
                "source": f"{framework_map.repository} {releases[-1]} {site.file}:{line}",
            }
    return None


def framework_variables() -> list[str]:
    """Return the names of all variables that the frameworks list."""
    folders = bundle.knowledge_folders()
    return [name for framework in FRAMEWORKS for name in FrameworkMap.load(framework, folders).variables()]


def find_in_patterns(name: str) -> list[str]:
    """Return the ids of the patterns that name a variable: a framework's own often stand there and in no table."""
    if len(name) < SHORTEST_NAME:
        return []
    whole = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", re.IGNORECASE)
    patterns = load_patterns(bundle.knowledge_folders()).patterns
    return [pattern.id for pattern in patterns if any(whole.search(text) for text in pattern.fields.values())][
        :MAX_NAMED
    ]


def render(answer: dict[str, Any], language: str, markdown: bool) -> str:
    """Return one answer as text or Markdown."""
    words = WORDS[language]
    said = words[answer["status"]].format(answer.get("framework", ""))
    if answer.get("deprecated"):
        said += f", {words['deprecated']}"
    query = code_span(answer["query"]) if markdown else answer["query"]
    head = f"{query}: {said}"
    rows = [f"## {head}" if markdown else head]
    if answer.get("name", answer["query"]) != answer["query"]:
        rows.append(f"  {words['spelling'].format(answer['name'])}")
    if answer["status"] == "unknown":
        if answer["near"]:
            rows.append(f"  {words['near']}: {', '.join(answer['near'])}")
        if answer["named_in"]:
            rows.append(f"  {words['named_in']}: {', '.join(answer['named_in'])}")
        return "\n".join(rows)
    if answer["status"] == "framework":
        gone = f" ({words['gone'].format(answer['gone_since'])})" if answer["gone_since"] else ""
        rows.append(f"  {words['releases']}: {answer['releases']}{gone}")
        rows.append(f"  {words['source']}: {answer['source']}")
        rows += [f"  {words['named_in']}: {', '.join(answer['named_in'])}"] if answer["named_in"] else []
        return "\n".join(rows)
    effect = (answer["effect_zh"] if language == "zh" else "") or answer["effect"]
    rows.append(f"  {words['effect']}: {effect}")
    rows += [
        f"  {words[key]}: {answer[key]}"
        for key in ("values", "default", "versions", "source")
        if answer[key] not in ("", "-")
    ]
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Look environment variables of graph mode up.", EXAMPLES)
    parser.add_argument("names", nargs="+", metavar="NAME", help="variables, as NAME or NAME=value")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="form of the answer")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the answer")
    options = parser.parse_args(argv)
    if len(options.names) > MAX_NAMES:
        raise cli.CommandError(f"{len(options.names)} names were given; give at most {MAX_NAMES}")
    rows = read_table("variables")
    answers = [look_up(cli.one_line(name, MAX_LENGTH), rows) for name in options.names]
    if options.output == "json":
        cli.write_json({"schema": SCHEMA, "results": answers})
    else:
        cli.write_text("\n\n".join(render(answer, options.lang, options.output == "md") for answer in answers))
    return cli.DONE if all(answer["status"] in ("real", "framework") for answer in answers) else cli.NEGATIVE


if __name__ == "__main__":
    cli.run(main)
