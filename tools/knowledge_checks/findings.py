"""What a check found: how much it looked at, what is wrong, and what could not be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """A fact that is not so, by file and line (1-based; 0 where the file has no lines)."""

    file: str
    line: int
    text: str


def rows_of(path: Path, kind: str) -> dict[str, int]:
    """Return second cell -> number of the line, of the rows of a table that begin with a word; the first of several."""
    found: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = line.split("\t", 2)
        if cells[0] == kind and len(cells) > 1:
            found.setdefault(cells[1], number)
    return found


class Outcome:
    """The result of one check. A check that looked at nothing has failed, unless its material was not given."""

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what
        self.checked = 0
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        # Why items were not looked at, and how many: "no checkout of vllm-project/vllm".
        self.left_out: dict[str, int] = {}

    def fault(self, file: str, line: int, text: str) -> None:
        self.faults.append(Fault(file, line, text))

    def leave_out(self, why: str, count: int = 1) -> None:
        self.left_out[why] = self.left_out.get(why, 0) + count

    @property
    def passed(self) -> bool:
        return self.checked > 0 and not self.faults
