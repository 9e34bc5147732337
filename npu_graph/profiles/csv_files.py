"""The profiler's CSV tables, read by column name, because names, order and number of columns differ by version."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Iterator, NamedTuple

from npu_graph import cli
from npu_graph.profiles.tasks import UNKNOWN, Task, TaskTable
from npu_graph.profiles.timestamps import to_int, to_ns

# One meaning, the names it has had. kernel_details (torch_npu), op_summary and task_time (msprof).
COLUMNS: dict[str, tuple[str, ...]] = {
    "device": ("Device_id", "Device ID", "device_id"),
    "step": ("Step Id", "Step ID", "Step"),
    "model": ("Model ID", "Model Id"),
    "task": ("Task ID", "task_id"),
    "stream": ("Stream ID", "stream_id"),
    "name": ("Name", "Op Name", "kernel_name"),
    "type": ("Type", "OP Type", "kernel_type"),
    "state": ("OP State",),
    "core": ("Accelerator Core", "Task Type", "kernel_type"),
    "start": ("Start Time(us)", "Task Start Time(us)", "task_start(us)"),
    "duration": ("Duration(us)", "Task Duration(us)", "task_time(us)"),
    "shapes": ("Input Shapes",),
    "formats": ("Input Formats",),
    "context": ("Context ID",),
}
# No kernel runs for a day; a longer duration is a broken number, and one of them would be the whole profile.
_LONGEST_KERNEL_NS = 24 * 3600 * 10**9
# A row with thousands of inputs is real; a field of megabytes is not.
_MAX_FIELD = 1 << 20
_MAX_LINE = 4 << 20
_MAX_STATISTIC_ROWS = 100_000


class TableInfo(NamedTuple):
    """What a table of kernels holds: rows read, rows without a usable time, and which meanings have a column.

    `broken` says why reading stopped before the end; empty when it did not.
    """

    rows: int
    bad_rows: int
    columns: frozenset[str]
    broken: str = ""


def read_tasks(path: Path, table: TaskTable) -> TableInfo:
    """Add every row of kernel_details, op_summary or task_time to `table`.

    Raises:
        CommandError: exit code 3 when the file has no column for name, start or duration.
    """
    rows = _rows(path)
    header = [name.strip().lstrip("﻿") for name in next(rows, [])]
    where = _column_places(header)
    needed = [key for key in ("name", "start", "duration") if key not in where]
    if needed:
        raise cli.CommandError(
            f"{path.name}: no column for {', '.join(needed)} (found: {', '.join(header[:12]) or 'nothing'}); "
            "expected a kernel_details, op_summary or task_time table",
            cli.NO_INPUT,
        )
    count = bad = 0
    broken = ""
    try:
        for row in rows:
            if not row:
                continue
            count += 1
            task = _task(row, where)
            if task is None:
                bad += 1
            else:
                table.add(task)
    except cli.CommandError as error:
        if not count:
            raise
        broken = str(error)
    return TableInfo(count, bad, frozenset(where), broken)


def _task(row: list[str], where: dict[str, int]) -> Task | None:
    def cell(key: str) -> str:
        place = where.get(key)
        if place is None or place >= len(row):
            return ""
        value = row[place].strip()
        return "" if value == "N/A" else value

    def number(key: str) -> int:
        value = to_int(cell(key))
        return UNKNOWN if value is None else value

    start, duration = to_ns(cell("start")), to_ns(cell("duration"))
    if start is None or duration is None or not 0 <= duration <= _LONGEST_KERNEL_NS or start < 0:
        return None
    shapes = cell("shapes").strip('"')
    return Task(
        start,
        duration,
        cell("name"),
        cell("type") or cell("name"),
        cell("core"),
        cell("stream"),
        number("model"),
        number("task"),
        cell("context"),
        shapes,
        cell("formats").strip('"'),
        number("step"),
        cell("device"),
    )


def _column_places(header: list[str]) -> dict[str, int]:
    places = {name: place for place, name in reversed(list(enumerate(header)))}
    where = {}
    for key, names in COLUMNS.items():
        for name in names:
            if name in places:
                where[key] = places[name]
                break
    return where


def read_statistic(path: Path) -> list[dict[str, str]]:
    """Return the rows of a small table (op_statistic, api_statistic, step_trace_time) as dicts by column name."""
    rows = _rows(path)
    header = [name.strip().lstrip("﻿") for name in next(rows, [])]
    records = []
    for row in rows:
        if row:
            records.append({name: value.strip() for name, value in zip(header, row)})
        if len(records) >= _MAX_STATISTIC_ROWS:
            break
    return records


def _rows(path: Path) -> Iterator[list[str]]:
    csv.field_size_limit(_MAX_FIELD)
    try:
        with path.open("rb") as source:
            text = io.TextIOWrapper(source, encoding="utf-8", errors="replace", newline="")
            yield from csv.reader(_bounded_lines(text))
    except csv.Error as error:
        raise cli.CommandError(f"{path.name} is no CSV table: {error}", cli.NO_INPUT) from None
    except OSError as error:
        raise cli.CommandError(f"{path} cannot be read: {error.strerror}", cli.NO_INPUT) from None


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    while True:
        line = text.readline(_MAX_LINE)
        if not line:
            return
        yield line.replace("\0", "")
