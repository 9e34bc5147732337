"""Device state from `npu-smi info`: busy with a kernel, or idle while the host waits."""

from __future__ import annotations

import re
from typing import NamedTuple

# A running kernel that never ends keeps the cores near 100 %; a stream that waits for an event leaves them at 0.
# Between the two (vllm-ascend issue 13688 reports AIVector 8-16 % in a communication deadlock) neither is claimed.
BUSY_FROM, IDLE_TO = 90, 1

_CARD = re.compile(r"\| (\d{1,3})\s{1,10}(\S.{0,30}?)\s*\| (\S{1,20})\s*\|")
_CHIP = re.compile(
    r"\| (\d{1,3})\s{1,8}(\d{0,3})\s*\| [0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s*\| (\d{1,3})\b"
)
_PROCESS = re.compile(r"\| (\d{1,3})\s{1,8}(\d{1,3})\s*\| (\d{1,10})\s*\|")


class Chip(NamedTuple):
    """One chip: its place, its health as printed, AI Core load in per cent, pids on it."""

    card: int
    chip: int
    physical: int
    health: str
    load: int
    pids: tuple[int, ...]
    source: str
    line: int


def read_chips(source: str, text: str) -> list[Chip]:
    """Return the chips of an `npu-smi info` table; none when the text holds no such table."""
    if "AICore(%)" not in text:
        return []
    chips: list[Chip] = []
    card: tuple[int, str] | None = None
    for number, line in enumerate(text[:1_000_000].split("\n"), 1):
        chip = _CHIP.match(line)
        if chip and card is not None:
            index, physical = int(chip.group(1)), chip.group(2)
            place = int(physical) if physical else card[0]
            chips.append(Chip(card[0], index, place, card[1], int(chip.group(3)), (), source, number))
            card = None
            continue
        process = _PROCESS.match(line)
        if process and chips:
            where = (int(process.group(1)), int(process.group(2)))
            chips = [
                item._replace(pids=(*item.pids, int(process.group(3)))) if (item.card, item.chip) == where else item
                for item in chips
            ]
            continue
        found = _CARD.match(line)
        if found:
            card = (int(found.group(1)), found.group(3))
    return chips
