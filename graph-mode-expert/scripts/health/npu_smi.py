"""Reads the tables of `npu-smi info`, whatever their columns: A2, A3 and 310P print different ones.

A device takes two rows: the first is headed `NPU Name | Health | ...`, the second `Chip ... | Bus-Id | ...`. The
headings say which numbers follow, so a column that a release adds or leaves out does no harm.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Errors that npu-smi prints instead of a table, and what they mean.
ERRORS = (
    ("-8005", "in_use"),  # vllm-project/vllm-ascend#2698: another container holds the device
    ("-8020", "in_use"),  # Ascend/cann-container-image#46: "because the device is used"
    ("dcmi model initialized failed", "driver"),
    ("dcmi module initialize failed", "driver"),
    ("cannot open shared object file", "libraries"),
    ("permission denied", "permission"),
)
_VERSION = re.compile(r"npu-smi\s{1,4}(\S{1,40})\s{1,80}Version:\s{0,4}(\S{1,40})")
_USAGE = re.compile(r"(\d{1,9})\s{0,8}/\s{0,8}(\d{1,9})")
_IDLE = re.compile(r"No running processes found in NPU\s{1,4}(\d{1,4})")
MAX_LINES = 4000


class Chip(NamedTuple):
    """One chip as npu-smi shows it; sizes in MB, None where this product prints none."""

    npu: int
    chip: int
    physical: int | None
    name: str
    health: str
    bus: str
    used: int | None
    total: int | None
    utilisation: str


class Process(NamedTuple):
    """One process on a chip; memory in MB."""

    npu: int
    chip: int
    pid: int
    name: str
    memory: int | None


class Report(NamedTuple):
    """What `npu-smi info` said."""

    version: str
    chips: list[Chip]
    processes: list[Process]
    error: str


def parse(text: str) -> Report:
    """Read the output of `npu-smi info`."""
    version = _VERSION.search(text[:4000])
    chips: list[Chip] = []
    processes: list[Process] = []
    headings: tuple[str, str] = ("", "")
    first: list[str] = []
    in_processes = False
    for line in text.splitlines()[:MAX_LINES]:
        cells = _cells(line)
        if not cells:
            continue
        if "Process id" in line:
            in_processes, first = True, []
        elif re.match(r"\|\s*NPU\s+Name", line):
            in_processes, headings = False, (line, "")
        elif re.match(r"\|\s*Chip\b", line):
            headings = (headings[0], line)
        elif in_processes:
            found = _process(cells)
            processes += [found] if found else []
        elif not first:
            first = cells if re.match(r"\d{1,4}\s+\S", cells[0]) else []
        else:
            found_chip = _chip(first, cells, headings[1])
            chips += [found_chip] if found_chip else []
            first = []
    return Report(version.group(2) if version else "", chips, processes, "" if chips else _error(text))


def _cells(line: str) -> list[str]:
    text = line.strip()
    if not text.startswith("|") or not text.endswith("|"):
        return []
    return [cell.strip() for cell in text.strip("|").split("|")]


def _chip(first: list[str], second: list[str], heading: str) -> Chip | None:
    names = first[0].split()
    numbers = second[0].split()
    if len(first) < 3 or len(second) < 3 or len(names) < 2 or not numbers or not numbers[0].isdigit():
        return None
    used, total = _memory(second[2], heading)
    physical = int(numbers[1]) if len(numbers) > 1 and numbers[1].isdigit() else None
    return Chip(
        npu=int(names[0]),
        chip=int(numbers[0]),
        physical=physical,
        name=" ".join(names[1:]),
        health=first[1],
        bus=second[1],
        used=used,
        total=total,
        utilisation=second[2].split()[0] if second[2].split() else "",
    )


def _memory(cell: str, heading: str) -> tuple[int | None, int | None]:
    """Return used and total of the device memory: the HBM column where there is one, else Memory-Usage."""
    columns = re.findall(r"(HBM|Memory)-Usage", heading)
    usages = _USAGE.findall(cell)
    wanted = "HBM" if "HBM" in columns else "Memory"
    for column, usage in zip(columns, usages):
        if column == wanted and int(usage[1]) > 0:
            return int(usage[0]), int(usage[1])
    return (int(usages[-1][0]), int(usages[-1][1])) if usages else (None, None)


def _process(cells: list[str]) -> Process | None:
    place = cells[0].split()
    if len(cells) < 4 or not place or not place[0].isdigit() or not cells[1].isdigit():
        return None
    memory = int(cells[3]) if cells[3].isdigit() else None
    chip = int(place[1]) if len(place) > 1 and place[1].isdigit() else 0
    return Process(int(place[0]), chip, int(cells[1]), cells[2], memory)


def _error(text: str) -> str:
    low = text.lower()
    return next((kind for mark, kind in ERRORS if mark in low), "unreadable" if text.strip() else "empty")


# npu-smi names and get_device_name names, the SoC family that the operator packages are built for, and whether it
# can capture. The gate of torch_npu is IsCaptureSupported (csrc/core/npu/NPUGraphsUtils): 910B1 up to but not 310B1,
# 910_9391 and newer, and 310P from the 2.7.1 line on; products in hicann/runtime docs/zh/api_ref/15_*.md.
FAMILIES = (
    (re.compile(r"310P", re.I), "ascend310p", "310P"),
    (re.compile(r"310B", re.I), "ascend310b", "310B"),
    (re.compile(r"910_93", re.I), "ascend910_93", "A3"),
    (re.compile(r"910B\d", re.I), "ascend910b", "A2"),
    (re.compile(r"910(?:A|Pro|Premium|$)", re.I), "ascend910", "910A"),
    (re.compile(r"950", re.I), "ascend950", "950"),
    (re.compile(r"310$", re.I), "ascend310", "310"),
)
CAN_CAPTURE = ("A2", "A3", "310P", "950")


class Soc(NamedTuple):
    """A chip name in the terms of the operator packages and of the product line."""

    name: str
    folder: str
    product: str


def family(name: str, chips: list[Chip] | None = None) -> Soc:
    """Return the SoC family of a chip name.

    A3 shows plain `Ascend910` with two chips to each NPU; the training card 910 (A) shows names such as 910ProB, and
    one chip. Where neither can be told, folder and product are empty.
    """
    plain = name.strip()
    if re.fullmatch(r"(?:Ascend)?910", plain, re.I):
        per_npu: dict[int, int] = {}
        for chip in chips or []:
            per_npu[chip.npu] = per_npu.get(chip.npu, 0) + 1
        if any(count > 1 for count in per_npu.values()):
            return Soc(plain, "ascend910_93", "A3")
        return Soc(plain, "", "")
    for expression, folder, product in FAMILIES:
        if expression.search(plain):
            return Soc(plain, folder, product)
    return Soc(plain, "", "")
