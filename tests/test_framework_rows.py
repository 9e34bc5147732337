"""Lines of a framework map survive writing and reading, whatever the sites do from release to release."""

from __future__ import annotations

from typing import Dict, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_graph.framework_rows import Packer, Site, read_sites

RELEASES = ("1.0", "1.1", "1.2", "2.0")
Lines = Dict[str, Tuple[int, ...]]


def lines_in(site: Site, index: int) -> tuple[int, ...]:
    lines: tuple[int, ...] = ()
    for start, value in site.changes:
        if start <= index:
            lines = value
    return lines


def written(sites: list[Lines]) -> list[str]:
    packer = Packer(RELEASES)
    return [f"def\tf{number}\t\t{packer.pack(lines)}" for number, lines in enumerate(sites)]


def test_a_site_that_moves_with_the_one_above_has_one_number() -> None:
    first: Lines = {"1.0": (10,), "1.1": (30,), "1.2": (31,), "2.0": (90,)}
    second: Lines = {release: (line + 5,) for release, (line,) in first.items()}
    assert written([first, second])[1].split("\t")[3] == "0:5"


def test_what_is_gone_moves_nothing_below_it() -> None:
    rows = written([{"1.0": (10,), "2.0": (12,)}, {"1.0": (20,), "1.1": (21,), "2.0": (22,)}])
    assert [row.split("\t")[3] for row in rows] == ["0:10 1:- 3:12", "0:10 1:21 2:- 3:10"]
    _, second = read_sites("a.py", rows, len(RELEASES))
    assert second is not None and [lines_in(second, index) for index in range(4)] == [(20,), (21,), (), (22,)]


site = st.dictionaries(
    st.sampled_from(RELEASES),
    st.lists(st.integers(1, 5000), min_size=1, max_size=3, unique=True).map(lambda found: tuple(sorted(found))),
    min_size=1,
)


@given(st.lists(site, max_size=6))
def test_every_line_is_read_as_it_was_written(sites: list[Lines]) -> None:
    found = read_sites("a.py", written(sites), len(RELEASES))
    assert [[lines_in(item, index) for index in range(4)] for item in found if item is not None] == [
        [lines.get(release, ()) for release in RELEASES] for lines in sites
    ]


@pytest.mark.parametrize("cell", ["", "x:1", "0:x", "0", "0:1+", ":-", "9:1", "-3:4", "0:1 0:1", "99999999999:1"])
def test_a_row_that_nobody_wrote_never_raises(cell: str) -> None:
    above, below = read_sites("a.py", [f"def\tf\t\t{cell}", "def\tg\t\t0:7"], len(RELEASES))
    assert below is not None and (above is None or isinstance(above, Site))


def test_so_many_releases_that_nobody_has_cost_nothing() -> None:
    (found,) = read_sites("a.py", ["def\tf\t\t0:1"], 10**9)
    assert found is not None and found.changes == ((0, (1,)),)
