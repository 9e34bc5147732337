"""One profile in memory: device tasks from the best file at hand, host facts from the trace, the profiler's sums."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from npu_graph import cli
from npu_graph.profiles.csv_files import TableInfo, read_statistic, read_tasks
from npu_graph.profiles.sources import ProfileFiles, find_profile
from npu_graph.profiles.tasks import COMMUNICATION, COMPUTE, UNKNOWN, TaskTable
from npu_graph.profiles.timestamps import to_int, to_ns
from npu_graph.profiles.trace_file import CAPTURE_BEGIN, LAUNCH, REPLAY_CALLS, TraceFacts, read_trace

# communication.json is read whole; a larger one is left out and said so.
_MAX_COMMUNICATION_BYTES = 48 << 20


@dataclass
class ApiCall:
    """One row of api_statistic: how often a host call ran and for how long (ns)."""

    level: str
    name: str
    count: int
    total: int


@dataclass
class Profile:
    """Everything the analysis reads. `task_source` names the file kind that gave the tasks."""

    files: ProfileFiles
    table: TaskTable
    task_source: str
    info: TableInfo | None
    trace: TraceFacts | None
    apis: list[ApiCall] = field(default_factory=list)
    step_rows: list[dict[str, str]] = field(default_factory=list)
    operators: list[dict[str, str]] = field(default_factory=list)
    communication: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    table_columns: frozenset[str] = frozenset()
    executes: int = 0

    @property
    def has_models(self) -> bool:
        """Say whether tasks carry a Model ID, without which graph and eager look the same."""
        return any(model != UNKNOWN for model in self.table.model)

    def api_count(self, *names: str) -> int | None:
        """Return how often host calls of these names ran, from the trace or api_statistic; None if neither is there."""
        if self.apis:
            return sum(call.count for call in self.apis if call.name in names)
        if self.trace is not None and self.trace.has_host_calls:
            return sum(self.trace.host_totals.get("AscendCL@" + name, (0, 0))[0] for name in names)
        return None

    def api_total(self, *names: str) -> int:
        """Return the summed time (ns) of host calls of these names."""
        if self.apis:
            return sum(call.total for call in self.apis if call.name in names)
        if self.trace is not None:
            return sum(self.trace.host_totals.get("AscendCL@" + name, (0, 0))[1] for name in names)
        return 0

    @property
    def replay_calls(self) -> int | None:
        return self.api_count(*REPLAY_CALLS)

    @property
    def replayed(self) -> bool:
        """Say whether anything proves that graphs were replayed."""
        return bool(self.replay_calls or self.executes)

    @property
    def captures(self) -> int | None:
        return self.api_count(CAPTURE_BEGIN)

    @property
    def launches(self) -> tuple[int, int] | None:
        """Return count and time (ns) of kernel launches by the host (msprof node level `launch`), or None."""
        rows = [call for call in self.apis if call.name == "launch" and call.level in ("node", "")]
        if rows:
            return sum(call.count for call in rows), sum(call.total for call in rows)
        if self.trace is not None and LAUNCH in self.trace.host_totals:
            return self.trace.host_totals[LAUNCH]
        return None


def load_profile(root: str, read_trace_file: bool = True) -> Profile:
    """Read the profile at or below `root`.

    Raises:
        CommandError: exit code 3 when there is no profile, or it holds no device task.
    """
    found = find_profile(root)
    table, source, info = TaskTable(), "", None
    warnings: list[str] = []
    if found.others:
        names = ", ".join(folder.name for folder in found.others[:3])
        warnings.append(f"{len(found.others)} more profiles below {root} not read ({names}); name one to read it")
    refused: list[cli.CommandError] = []
    for kind in ("kernel_details", "op_summary"):
        if kind in found.files and info is None:
            info = _read_table(found.files[kind], table, refused)
            source = kind if info else ""
    columns = info.columns if info else frozenset()
    named = [model for model in table.model if model != UNKNOWN]
    trace = None
    trace_tasks = TaskTable() if not named else None
    if read_trace_file and "trace_view" in found.files:
        try:
            trace = read_trace(found.files["trace_view"], trace_tasks)
        except cli.CommandError as error:
            refused.append(error)
        if trace is not None and trace.truncated:
            warnings.append(f"{found.files['trace_view'].name} ends early: read {trace.events} events")
        if trace is not None and trace_tasks is not None and _kernel_count(trace_tasks) and trace.device_tasks:
            table, source, info = trace_tasks, "trace_view", None
    if not len(table) and "task_time" in found.files:
        info = _read_table(found.files["task_time"], table, refused)
        source = "task_time" if info else ""
    if refused and not len(table):
        raise refused[0]
    warnings += [f"a file was left out: {error}" for error in refused]
    if table.dropped:
        warnings.append(f"{table.dropped} device tasks beyond {len(table)} were not read; profile fewer steps")
    if info is not None and info.bad_rows:
        warnings.append(f"{info.bad_rows} of {info.rows} rows of {source} have no usable time and were left out")
    if info is not None and info.broken:
        warnings.append(f"only the first {info.rows} rows of {source} were read: {info.broken}")
    profile = Profile(found, table, source, info, trace, warnings=warnings, table_columns=columns)
    profile.executes = _count_executes(table, trace)
    _keep_one_device(profile)
    _read_statistics(profile)
    if not _kernel_count(profile.table) and not (profile.apis or profile.step_rows or profile.operators):
        raise cli.CommandError(f"the profile below {root} holds no device task; was the device active?", cli.NO_INPUT)
    return profile


def _read_table(path: Path, table: TaskTable, refused: list[cli.CommandError]) -> TableInfo | None:
    """Add a table's rows; one that is no such table is remembered, because another file may still answer."""
    try:
        return read_tasks(path, table)
    except cli.CommandError as error:
        refused.append(error)
        return None


def _count_executes(table: TaskTable, trace: TraceFacts | None) -> int:
    """Return how many MODEL_EXECUTE tasks ran: one per replay, on the stream that launched it."""
    names = [i for i, text in enumerate(table.texts.values) if text == "MODEL_EXECUTE"]
    in_table = sum(1 for i in range(len(table)) if table.number_of("core", i) in names)
    return max(in_table, len(trace.model_executes) if trace else 0)


def _kernel_count(table: TaskTable) -> int:
    return sum(1 for kind in table.kind if kind in (COMPUTE, COMMUNICATION))


def _keep_one_device(profile: Profile) -> None:
    """Busy and idle are properties of one device: with several in a table, keep the busiest and say so."""
    table = profile.table
    counts: dict[str, int] = {}
    for index in range(len(table)):
        device = table.text("device", index)
        counts[device] = counts.get(device, 0) + 1
    counts.pop("", None)
    if len(counts) < 2 or profile.task_source == "trace_view":
        return
    keep = max(sorted(counts), key=lambda device: counts[device])
    kept = TaskTable()
    for index in range(len(table)):
        if table.text("device", index) in (keep, ""):
            kept.add(table.row(index))
    profile.table = kept
    profile.warnings.append(f"devices {', '.join(sorted(counts))} in one table; analysed device {keep}")


def _read_statistics(profile: Profile) -> None:
    files = profile.files.files
    if "api_statistic" in files:
        for row in read_statistic(files["api_statistic"]):
            count = to_int(row.get("Count", ""))
            total = to_ns(row.get("Time(us)", ""))
            if count is not None and total is not None:
                profile.apis.append(
                    ApiCall(row.get("Level", ""), row.get("API Name", row.get("Name", "")), count, total)
                )
    if "step_trace_time" in files:
        profile.step_rows = read_statistic(files["step_trace_time"])
    if "op_statistic" in files:
        profile.operators = read_statistic(files["op_statistic"])
    if "communication" in files:
        profile.communication = _read_communication(files["communication"], profile.warnings)


def _read_communication(path: Path, warnings: list[str]) -> dict[str, float]:
    """Return summed elapse, transit and wait time (ms) of the collectives in communication.json."""
    try:
        if path.stat().st_size > _MAX_COMMUNICATION_BYTES:
            warnings.append(f"{path.name} is larger than {_MAX_COMMUNICATION_BYTES >> 20} MB and was not read")
            return {}
        record = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        warnings.append(f"{path.name} could not be read as JSON")
        return {}
    totals = {"elapse_ms": 0.0, "transit_ms": 0.0, "wait_ms": 0.0, "count": 0.0}
    names = {"Elapse Time(ms)": "elapse_ms", "Transit Time(ms)": "transit_ms", "Wait Time(ms)": "wait_ms"}
    # step -> collective | p2p -> operator -> {"Communication Time Info": {...}}; one more level in a merged file.
    level = [record]
    for _ in range(6):
        following = []
        for node in level:
            if not isinstance(node, dict):
                continue
            info = node.get("Communication Time Info")
            if isinstance(info, dict):
                totals["count"] += 1
                for name, key in names.items():
                    value = info.get(name)
                    if isinstance(value, (int, float)):
                        totals[key] += value
                continue
            # The profiler adds sums of its own under these names; counting them again would double every time.
            following += [child for name, child in node.items() if not str(name).startswith("Total Op Info")]
        level = following
    return {key: round(value, 3) for key, value in totals.items()} if totals["count"] else {}
