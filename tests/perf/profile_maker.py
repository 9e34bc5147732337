"""Writes profiles with a known answer: kernels placed to the nanosecond, in the files and columns the profilers use."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple

EAGER = 4294967295
# A start in 2026, in ns: today's size is what breaks floats.
EPOCH = 1_790_000_000_000_000_000

LEVEL1 = [
    "Step Id",
    "Device_id",
    "Model ID",
    "Task ID",
    "Stream ID",
    "Name",
    "Type",
    "OP State",
    "Accelerator Core",
    "Start Time(us)",
    "Duration(us)",
    "Wait Time(us)",
    "Block Num",
    "Mix Block Num",
    "HF32 Eligible",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
    "Context ID",
]
LEVEL0 = [
    "Device_id",
    "Name",
    "Type",
    "Accelerator Core",
    "Start Time(us)",
    "Duration(us)",
    "Wait Time(us)",
    "Block Num",
]


class Kernel(NamedTuple):
    start: int
    duration: int
    type: str
    core: str = "AI_VECTOR_CORE"
    model: int = EAGER
    stream: str = "46"
    task: int = 0
    shapes: str = "1,896;896,896"
    formats: str = "ND;ND"
    step: int | None = None
    submitted: int | None = None
    """When the host handed the kernel over (ns), for the trace."""


def us(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


class Profile:
    """Kernels and host calls of one run; times are ns after EPOCH."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.replay_calls: list[int] = []
        self.control: list[Kernel] = []
        self.apis: dict[str, int] = {}
        self.marks: list[tuple[int, int, int]] = []
        self.launches: list[tuple[int, int]] = []
        self._task = 0

    def eager(self, start: int, duration: int, type_: str = "Add", **more: object) -> None:
        self._task += 1
        self.kernels.append(Kernel(start, duration, type_, task=5000 + self._task, **more))  # type: ignore[arg-type]

    def replay(
        self, start: int, kernels: list[tuple[str, int, int]], model: int = 35, stream: str = "98", **more: object
    ) -> int:
        """Place one replay; kernels are (type, gap before, duration). Returns its end."""
        self.replay_calls.append(start - 20_000)
        time = start
        for task, (type_, gap, duration) in enumerate(kernels):
            time += gap
            self.kernels.append(Kernel(time, duration, type_, model=model, stream=stream, task=task, **more))  # type: ignore[arg-type]
            time += duration
        return time

    def write(self, folder: Path, level: int = 1, apis: bool = True, trace: bool = False) -> Path:
        output = folder / "worker_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True)
        self._write_kernels(output / "kernel_details.csv", level)
        if apis:
            self._write_apis(output / "api_statistic.csv")
        if trace:
            self.write_trace(output / "trace_view.json")
        return folder

    def _write_kernels(self, path: Path, level: int) -> None:
        columns = list(LEVEL1) if level else list(LEVEL0)
        if not any(kernel.step is not None for kernel in self.kernels) and level:
            columns.remove("Step Id")
        with path.open("w", newline="", encoding="utf-8") as target:
            writer = csv.DictWriter(target, columns, restval="N/A", extrasaction="ignore")
            writer.writeheader()
            for kernel in sorted(self.kernels):
                writer.writerow(
                    {
                        "Step Id": kernel.step,
                        "Device_id": 0,
                        "Model ID": kernel.model,
                        "Task ID": kernel.task if kernel.core != "HCCL" else "N/A",
                        "Stream ID": kernel.stream if kernel.core != "HCCL" else "N/A",
                        "Name": "aclnn" + kernel.type,
                        "Type": kernel.type if level else "N/A",
                        "Accelerator Core": kernel.core if level else "N/A",
                        "Start Time(us)": us(EPOCH + kernel.start) + "\t",
                        "Duration(us)": us(kernel.duration),
                        "Wait Time(us)": "0.000000",
                        "Block Num": 8,
                        "Input Shapes": f'"{kernel.shapes}"' if kernel.shapes else "N/A",
                        "Input Formats": kernel.formats if kernel.shapes else "N/A",
                    }
                )

    def _write_apis(self, path: Path) -> None:
        counts = {"aclmdlRIExecuteAsync": len(self.replay_calls), "aclrtMemcpyAsync": 1, **self.apis}
        rows = ["Device_id,Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance"]
        for name, count in counts.items():
            if count:
                level = "node" if name == "launch" else "acl"
                rows.append(f"host,{level},{name},{10 * count}.000,{count},10,9,12,0")
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")

    def write_trace(self, path: Path) -> None:
        events: list[dict] = []
        for pid, name in ((7, "Python"), (8, "CANN"), (9, "Ascend Hardware")):
            events.append({"name": "process_name", "pid": pid, "tid": 0, "ph": "M", "args": {"name": name}})
        for start, end, number in self.marks:
            events.append(self._event(f"ProfilerStep#{number}", 7, start, end - start))
        for number, start in enumerate(self.replay_calls):
            event = self._event("AscendCL@aclmdlRIExecuteAsync", 8, start, 10_000)
            events.append({**event, "args": {"connection_id": 9000 + number}})
            task = Kernel(start + 15_000, 2_000, "MODEL_EXECUTE", "MODEL_EXECUTE")
            hardware = self._hardware(task)
            hardware["args"]["connection_id"] = 9000 + number
            events.append(hardware)
        events += [self._event("Node@launch", 8, start, duration) for start, duration in self.launches]
        for number, kernel in enumerate(sorted(self.kernels) + self.control):
            events.append(self._hardware(kernel))
            if kernel.submitted is not None:
                flow = {"name": f"HostToDevice{number}", "cat": "HostToDevice", "id": str(number), "tid": 1}
                events.append({**flow, "ph": "s", "pid": 8, "ts": us(EPOCH + kernel.submitted)})
                events.append({**flow, "ph": "f", "pid": 9, "ts": us(EPOCH + kernel.start), "bp": "e"})
        path.write_text(json.dumps(events), encoding="utf-8")

    @staticmethod
    def _event(name: str, pid: int, start: int, duration: int) -> dict:
        return {"name": name, "pid": pid, "tid": 1, "ph": "X", "ts": us(EPOCH + start), "dur": duration / 1000}

    def _hardware(self, kernel: Kernel) -> dict:
        arguments = {
            "Model Id": kernel.model,
            "Task Type": kernel.core if kernel.core.isupper() else "KERNEL_AIVEC",
            "Physic Stream Id": int(kernel.stream),
            "Task Id": kernel.task,
            "Batch Id": 0,
            "Subtask Id": EAGER,
            "connection_id": 1,
        }
        return {
            **self._event(kernel.type, 9, kernel.start, kernel.duration),
            "tid": int(kernel.stream),
            "args": arguments,
        }


def eager_steps(steps: int = 8, kernels: int = 10, duration: int = 5_000, gap: int = 95_000, **more: object) -> Profile:
    """Kernels launched one by one, each followed by a gap."""
    profile = Profile()
    time = 0
    for step in range(steps):
        for number in range(kernels):
            profile.eager(time, duration, ("MatMulV2", "Add", "SwiGlu")[number % 3], step=step, **more)
            time += duration + gap
    return profile


def graph_steps(
    steps: int = 8, kernels: int = 10, duration: int = 5_000, inside: int = 20, entry: int = 2_000, size: int = 16
) -> Profile:
    """One whole-step graph per step."""
    profile = Profile()
    time = 0
    for step in range(steps):
        body = [(("MatMulV2", "Add", "SwiGlu")[n % 3], inside if n else 0, duration) for n in range(kernels)]
        time = profile.replay(time, body, step=step, shapes=f"{size},896;896,896") + entry
    return profile
