"""The rows of a framework map: sites of one file, and their lines by release.

A line is written as its distance to the site above in the same release: most rows then say one number for all
releases, however much a file moved. `0:12 5:- 7:14`: from release 0 (as counted) on 12 lines below the site above, from
5 on gone, from 7 on 14 below. `3+9` are two places.
"""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence

_GONE = "-"
_CELLS = 4
MAX_RELEASES = 1000


class Site(NamedTuple):
    """A place in a framework's sources. `changes` are (index of the release, lines from it on)."""

    file: str
    kind: str
    function: str
    message: str
    changes: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def name(self) -> str:
        """The function as its language writes it: `Class.method`, in C++ `Class::method`."""
        return self.function if self.file.endswith(".py") else self.function.replace(".", "::")

    @property
    def last_name(self) -> str:
        return self.function.rpartition(".")[2]


class Packer:
    """Writes the lines of the sites of one file, in their order."""

    def __init__(self, releases: Sequence[str]) -> None:
        self._releases = releases
        self._above = [0] * len(releases)

    def pack(self, lines: Mapping[str, Sequence[int]]) -> str:
        """Return the cell of the next site: release -> its lines, sorted; a release without it is not named."""
        cells: list[str] = []
        before: tuple[int, ...] = ()
        for index, release in enumerate(self._releases):
            own = lines.get(release, ())
            value = tuple(line - self._above[index] for line in own)
            if value != before:
                cells.append(f"{index}:{'+'.join(map(str, value)) or _GONE}")
                before = value
            if own:
                self._above[index] = own[0]
        return " ".join(cells)


def read_sites(file: str, rows: Sequence[str], releases: int) -> list[Site | None]:
    """Return the sites of a file's rows, None for a row that nobody wrote; never raises.

    Args:
        file: as installed.
        rows: kind, function, message and lines, tab-separated.
        releases: how many there are.
    """
    above = [0] * min(releases, MAX_RELEASES)
    return [_read_site(file, row, above) for row in rows]


def _read_site(file: str, row: str, above: list[int]) -> Site | None:
    cells = row.split("\t")
    if len(cells) != _CELLS:
        return None
    try:
        changes = tuple(_changes(cells[3], above))
    except ValueError:
        return None
    kind, function, message, _ = cells
    return Site(file, kind, function, message, changes)


def _changes(packed: str, above: list[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (index of the release, lines from it on), and leave in `above` where the site stands."""
    steps = [item.partition(":") for item in packed.split(" ")]
    starts = [int(start) for start, _, _ in steps] + [len(above)]
    last: tuple[int, ...] = ()
    for (_, _, value), start, end in zip(steps, starts, starts[1:]):
        distances = () if value == _GONE else tuple(int(part) for part in value.split("+"))
        for index in range(max(0, start), min(end, len(above))):
            lines = tuple(above[index] + distance for distance in distances)
            above[index] = lines[0] if lines else above[index]
            if lines != last:
                yield index, lines
                last = lines
