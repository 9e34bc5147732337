"""Reads the tables of facts in graph-mode-expert/data; every row of them has its source in the last column."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from npu_graph.cli import ABSENT, CommandError

from . import versions

DATA = Path(__file__).resolve().parents[2] / "data"


def read_table(name: str, folder: Path = DATA) -> list[dict[str, str]]:
    """Return the rows of a tab-separated table by column name; `-` stands for nothing.

    Raises:
        CommandError: the table is missing or a row does not fit its header.
    """
    path = folder / f"{name}.tsv"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise CommandError(f"{path} cannot be read; copy the whole bundle again", ABSENT) from None
    header, rows = lines[0].split("\t"), []
    for number, text in enumerate(lines[1:], 2):
        cells = text.split("\t")
        if len(cells) != len(header):
            raise CommandError(f"{path}:{number} has {len(cells)} columns, {len(header)} were expected", ABSENT)
        rows.append({column: "" if cell == "-" else cell for column, cell in zip(header, cells)})
    return rows


class Release(NamedTuple):
    """One torch_npu wheel of data/torch_npu_releases.tsv."""

    wheel: str
    torch: str
    release: str
    cann: str
    python: str
    note: str
    source: str

    @property
    def pythons(self) -> list[str]:
        return self.python.split(",") if self.python else []


def releases() -> list[Release]:
    """Return the torch_npu wheels that are known, newest first."""
    rows = [Release(**row) for row in read_table("torch_npu_releases")]
    return sorted(rows, key=lambda row: versions.key(row.wheel), reverse=True)


def find_release(wheel: str) -> Release | None:
    """Return the row of exactly this wheel."""
    wanted = versions.key(wheel)
    return next((row for row in releases() if versions.key(row.wheel) == wanted), None)


class ApiEntry(NamedTuple):
    """One name of data/graph_api.tsv with the wheels whose sources define it so."""

    name: str
    signature: str
    wheels: list[str]


def api_entries() -> list[ApiEntry]:
    """Return the graph-mode names of every torch_npu wheel read, one row for each signature that a name has had."""
    return [ApiEntry(row["name"], row["signature"], row["wheels"].split(",")) for row in read_table("graph_api")]


def api_wheels() -> list[str]:
    """Return the wheels of the API table, oldest first."""
    return sorted({wheel for entry in api_entries() for wheel in entry.wheels}, key=versions.key)


def nearest_wheel(version: str) -> str:
    """Return the wheel of the API table to compare a torch_npu version with, or nothing.

    The same wheel if it was read; else the newest one of the same torch that is not newer; else the oldest of it.
    """
    wanted = versions.key(versions.public(version))
    same = [wheel for wheel in api_wheels() if versions.key(wheel)[0] == wanted[0]]
    older = [wheel for wheel in same if versions.key(wheel) <= wanted]
    return older[-1] if older else (same[0] if same else "")


def api_of(wheel: str) -> dict[str, str]:
    """Return name -> signature as the given wheel has it."""
    return {entry.name: entry.signature for entry in api_entries() if wheel in entry.wheels}


def probed_names() -> list[str]:
    """Return the names of the API table that can be reached by importing."""
    names = {entry.name for entry in api_entries()}
    return sorted(name for name in names if name.startswith(("torch.npu.", "torch.compiler.", "torch_npu.")))
