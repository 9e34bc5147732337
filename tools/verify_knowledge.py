#!/usr/bin/env python3
"""Say whether the bundle's knowledge is still true: anchors, lines, names, codes, references, examples.

Usage: verify_knowledge.py [--wheels V,V] [--cache DIR] [--checkout OWNER/NAME=DIR ...] [--report FILE --date DAY]

Without sources it checks what needs none: codes, references, patterns, and names against known_names.tsv. With
torch_npu wheels (downloaded by version, read as zip, never imported) it opens Python anchors and lines; with checkouts
(clones, read at the revision that a fact names) everything else. --learn looks up names that the table lacks, drops
those that nothing mentions, and writes it.
Prints one line a check, then the faults. Exit codes: 0 everything holds, 1 a fault, 2 usage, 3 a check looked at
nothing, 4 a wheel or checkout cannot be had.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

TOOLS = Path(__file__).resolve().parent
sys.path[:0] = [str(TOOLS.parent), str(TOOLS)]

from knowledge_checks import (
    anchors,
    call_chains,
    codes_named,
    examples,
    fix_rows,
    framework_lines,
    issues,
    known_issue_rows,
    map_lines,
    names,
    names_search,
)
from knowledge_checks.findings import Outcome
from knowledge_checks.report import render
from knowledge_checks.sources import SourceError, Sources

from npu_graph import cli
from npu_graph.source_map import SourceMap

ROOT = TOOLS.parent
MAX_FAULTS = 60
NOTHING, SOURCES, CHECKOUTS = "nothing", "sources", "checkouts"


class Check(NamedTuple):
    """A check and what it needs to look at anything."""

    needs: str
    run: Callable[[Path, Sources, SourceMap], Outcome]


CHECKS: dict[str, Check] = {
    "patterns": Check(NOTHING, lambda root, sources, source_map: examples.check(root)),
    "issues": Check(NOTHING, lambda root, sources, source_map: issues.check(root)),
    "codes": Check(NOTHING, lambda root, sources, source_map: codes_named.check_named(root)),
    "names": Check(NOTHING, lambda root, sources, source_map: names.check(root, sources)),
    "anchors": Check(SOURCES, anchors.check),
    "map": Check(SOURCES, lambda root, sources, source_map: map_lines.check(sources, source_map)),
    "table": Check(CHECKOUTS, lambda root, sources, source_map: codes_named.check_rows(root, sources)),
    "frameworks": Check(SOURCES, lambda root, sources, source_map: framework_lines.check(root, sources)),
    "fixes": Check(CHECKOUTS, fix_rows.check),
    "known": Check(CHECKOUTS, lambda root, sources, source_map: known_issue_rows.check(root, sources)),
    "chains": Check(CHECKOUTS, lambda root, sources, source_map: call_chains.check(root, sources)),
}


def verify(root: Path, sources: Sources, wanted: Sequence[str]) -> list[Outcome]:
    """Run the wanted checks for which there is material; see Outcome.passed for the verdict of each."""
    source_map = SourceMap.load([root / "knowledge"])
    given = {NOTHING}
    if sources.repositories:
        given |= {SOURCES, CHECKOUTS}
    if sources.torch_npu:
        given.add(SOURCES)
    return [CHECKS[name].run(root, sources, source_map) for name in wanted if CHECKS[name].needs in given]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    if not outcomes or any(not outcome.checked for outcome in outcomes):
        return cli.NO_INPUT
    return cli.DONE if all(outcome.passed for outcome in outcomes) else cli.NEGATIVE


def as_text(outcomes: Sequence[Outcome]) -> str:
    lines = []
    for outcome in outcomes:
        verdict = "looked at nothing" if not outcome.checked else f"{len(outcome.faults)} faults"
        lines.append(f"{outcome.name:14} {outcome.checked:6} checked  {verdict}")
        lines += [f"    left out {count}: {why}" for why, count in sorted(outcome.left_out.items())]
        lines += [f"    note: {note}" for note in outcome.notes]
    for outcome in outcomes:
        lines += [f"{fault.file}:{fault.line}: {fault.text}" for fault in outcome.faults[:MAX_FAULTS]]
        if len(outcome.faults) > MAX_FAULTS:
            lines.append(f"... and {len(outcome.faults) - MAX_FAULTS} more of {outcome.name} (--output json has all)")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser(
        "Say whether the bundle's knowledge is still true.",
        (
            "python3 tools/verify_knowledge.py --wheels 2.10.0,2.12.0",
            "python3 tools/verify_knowledge.py --wheels 2.12.0 --checkout Ascend/pytorch=../pytorch --only anchors,map",
        ),
    )
    cache = Path(tempfile.gettempdir()) / "npu-graph-wheels"
    parser.add_argument("--wheels", default="", metavar="V,V", help="torch_npu versions to read, downloaded with pip")
    parser.add_argument("--cache", type=Path, default=cache, metavar="DIR", help="where wheels are kept")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="OWNER/NAME=DIR", help="a clone (repeatable)"
    )
    parser.add_argument("--only", default=",".join(CHECKS), metavar="NAME,NAME", help=f"some of {', '.join(CHECKS)}")
    parser.add_argument("--learn", action="store_true", help="look up names that known_names.tsv lacks, and write it")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the result as a Markdown page")
    parser.add_argument("--date", default="", metavar="YYYY-MM-DD", help="the day that --report shows")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    wanted = [name for name in options.only.split(",") if name]
    unknown = [name for name in wanted if name not in CHECKS]
    if unknown or not wanted:
        raise cli.CommandError(f"--only: unknown check {unknown}; expected some of {', '.join(CHECKS)}")
    if options.report and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", options.date):
        raise cli.CommandError("--report needs the day as --date YYYY-MM-DD")
    sources = _open_sources(options.checkout, [v for v in options.wheels.split(",") if v], options.cache)
    if options.learn:
        _learn(sources)
    outcomes = verify(ROOT, sources, wanted)
    if not outcomes:
        raise cli.CommandError(f"nothing to look at for {options.only}: give --wheels or --checkout", cli.NO_INPUT)
    if options.report:
        options.report.write_text(render(outcomes, sources, options.date), encoding="utf-8")
    if options.output == "json":
        cli.write_json({"schema": "npu-graph/verified/1", "checks": [_as_record(outcome) for outcome in outcomes]})
    else:
        cli.write_text(as_text(outcomes))
    return exit_code(outcomes)


def _open_sources(checkouts: Sequence[str], wheels: list[str], cache: Path) -> Sources:
    sources = Sources()
    try:
        for argument in checkouts:
            sources.add_checkout(argument)
        sources.add_wheels(wheels, cache)
    except SourceError as error:
        raise cli.CommandError(str(error), cli.ABSENT) from None
    return sources


def _learn(sources: Sources) -> None:
    anchors.check(ROOT, sources, SourceMap.load([ROOT / "knowledge"]))  # the revisions that facts name are searched too
    absent = names.load_absent()
    wanted = {(mention.kind, mention.name) for mention in names.find_mentions(ROOT) if mention.name not in absent}
    found, missing = names_search.learn(wanted, sources)
    print(f"{found} names found, {len(missing)} not: {missing}", file=sys.stderr)


def _as_record(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.name,
        "checked": outcome.checked,
        "passed": outcome.passed,
        "faults": [fault._asdict() for fault in outcome.faults],
        "left_out": outcome.left_out,
        "notes": outcome.notes,
    }


if __name__ == "__main__":
    cli.run(main)
