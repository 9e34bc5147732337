"""How every command of kb.py takes its --output option and answers."""

from __future__ import annotations

import argparse
from typing import Any, Callable, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.case_format import Case


class Command(NamedTuple):
    """A command: its name, purpose and examples, its options, and what it does."""

    name: str
    purpose: str
    examples: Sequence[str]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def no_options(parser: argparse.ArgumentParser) -> None:
    """For a command that has --output only."""


def answer(arguments: argparse.Namespace, record: dict[str, Any], text: str, whole: bool = False) -> None:
    """Print the answer in the form asked for, bounded unless it is to be `whole`."""
    if arguments.output == "json":
        cli.write_json({"schema": f"npu-graph/{arguments.command}/1", **record})
    else:
        cli.write_text(text if whole else cli.bound_output(text))


def table(arguments: argparse.Namespace, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a heading, as Markdown or aligned; nothing when there are none."""
    if not rows:
        return ""
    if arguments.output == "md":
        lines = [head, ["---"] * len(head), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head) - 1)]
    aligned = ([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]] for row in [head, *rows])
    return "".join("  ".join(cells).rstrip() + "\n" for cells in aligned)


def notes_text(notes: Sequence[str]) -> str:
    """Return notes of the store, one a line."""
    return "".join(f"note: {note}\n" for note in notes)


def case_as_json(case: Case) -> dict[str, str]:
    """Return every field of a case."""
    return {"id": case.id, "title": case.title, **case.values()}
