"""Codes for the heads of torch_npu's lines, one per second: the look-up that tells the format tells the second too."""

from __future__ import annotations

from typing import Sequence, Tuple

from npu_graph.logs.stamps import Clock

# Codes of a byte, above those of entries. A block of a busy log spans a few seconds.
FIRST_SECOND, LAST_SECOND = 192, 255
# With fewer codes left, all are given anew.
_LEAST_LEFT = 32
# (index behind the last line of a second, the second in microseconds) for all seconds of a block, in order.
Seconds = Sequence[Tuple[int, int]]


class SecondCodes:
    """Gives codes to seconds; when they run out, further seconds have the code of their level until `start_over`.

    Args:
        clock: reads the stamps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heads: list[bytes] = []
        self._levels: list[int] = []
        self._us: list[int] = []

    def code(self, head: bytes, level: int) -> int:
        """Return the code for a head such as `V1203 11:20:42`; `level` is the code where there is none."""
        code = FIRST_SECOND + len(self._heads)
        stamp = self._clock.glog(head[1:] + b".000000") if code <= LAST_SECOND else None
        if stamp is None:
            return level
        self._heads.append(head)
        self._levels.append(level)
        self._us.append(stamp.us)
        return code

    @property
    def is_short(self) -> bool:
        """Whether so few codes are left that a block may need more."""
        return FIRST_SECOND + len(self._heads) + _LEAST_LEFT > LAST_SECOND

    def start_over(self) -> list[bytes]:
        """Take all codes back; returns the heads that had one."""
        heads, self._heads, self._levels, self._us = self._heads, [], [], []
        return heads

    def present(self, codes: bytes) -> list[tuple[int, int]]:
        """Return the codes of seconds that occur among these, with the codes of their levels."""
        return [(code, level) for code, level in enumerate(self._levels, FIRST_SECOND) if code in codes]

    def in_order(self, codes: bytes, present: Sequence[tuple[int, int]]) -> Seconds | None:
        """Return the seconds of a block's lines, None where lines of a second stand between those of another."""
        found = sorted((codes.find(code), codes.rfind(code), code) for code, _ in present)
        if any(one[1] > other[0] for one, other in zip(found, found[1:])):
            return None
        return [(last + 1, self._us[code - FIRST_SECOND]) for _, last, code in found]
