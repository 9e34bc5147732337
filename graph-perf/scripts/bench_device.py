"""Runs a workload eager and as a graph on the device that is there: the only part of a measurement that needs torch."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import cli
from npu_graph.user_callables import need_torch

Run = Callable[[], Any]

# Settings that change launch or replay times. Values go into the record, so no other variable is read.
VARIABLES = (
    "TASK_QUEUE_ENABLE",
    "ASCEND_LAUNCH_BLOCKING",
    "PER_STREAM_QUEUE",
    "STREAMS_PER_DEVICE",
    "PYTORCH_NPU_ALLOC_CONF",
    "MULTI_STREAM_MEMORY_REUSE",
    "HCCL_OP_EXPANSION_MODE",
    "CPU_AFFINITY_CONF",
    "OMP_NUM_THREADS",
)
# torch's switch that keeps device backends from loading with it.
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
# The library of npu_sim (npu_sim/build.py), which only Linux loads.
SIMULATOR_LIBRARY = "libnpu_sim.so"
# Names of a capture made by this script; any other name is a torch.compile backend.
NPUGRAPH = "npugraph"
_WARM_UP_BEFORE_CAPTURE = 3


class Workload(NamedTuple):
    """A call without arguments, and how to make its graph: a function that captures and returns the replaying call."""

    eager: Run
    capture: Callable[[], Run]


@contextlib.contextmanager
def users_code(what: str, hint: str) -> Iterator[None]:
    """Turn whatever the user's code raises into one line; CANN's own texts run over many.

    An exit() in that code must not end the script as if the measurement had gone well.
    """
    try:
        yield
    except cli.CommandError:
        raise
    except (Exception, SystemExit) as error:
        reason = cli.one_line(f"{type(error).__name__}: {error}", 240)
        raise cli.CommandError(f"{what}: {reason}; {hint}", cli.NO_INPUT) from error


class Device:
    """The device the workload runs on: npu when torch_npu is there, else the CPU (for trying things out)."""

    def __init__(self) -> None:
        if importlib.util.find_spec("torch") is None:
            raise cli.CommandError("torch is not installed here; run this where the model runs", cli.ABSENT)
        self.torch = need_torch("bench_graph.py")
        self.npu: Any = None
        if _load_torch_npu() and self.torch.npu.is_available():
            self.npu = self.torch.npu
        self.name = "npu" if self.npu else "cpu"
        self.simulator = "npu_sim" if self.npu and _runs_on_simulator() else None

    def synchronize(self) -> None:
        if self.npu:
            self.npu.synchronize()

    def time_us(self, run: Run, calls: int) -> float:
        """Return the time of one call (us), over `calls` calls between two device events and a synchronisation."""
        if self.npu:
            start, end = self.npu.Event(enable_timing=True), self.npu.Event(enable_timing=True)
            self.npu.synchronize()
            start.record()
            for _ in range(calls):
                run()
            end.record()
            self.npu.synchronize()
            return float(start.elapsed_time(end)) * 1000 / calls
        began = time.perf_counter_ns()
        for _ in range(calls):
            run()
        return (time.perf_counter_ns() - began) / 1000 / calls

    def memory(self) -> dict[str, int] | None:
        """Return bytes allocated and reserved by the device allocator, and the peak since the last reset."""
        if not self.npu:
            return None
        return {
            "allocated": int(self.npu.memory_allocated()),
            "reserved": int(self.npu.memory_reserved()),
            "peak": int(self.npu.max_memory_allocated()),
        }

    def reset_peak(self) -> None:
        if self.npu:
            self.npu.reset_peak_memory_stats()

    def environment(self) -> dict[str, Any]:
        """Return what a later reader must know to compare: versions, device, variables that change times."""
        return {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "torch": str(self.torch.__version__),
            "torch_npu": _module_version("torch_npu"),
            "device": self.name,
            "simulator": self.simulator,
            "soc": _quietly(lambda: str(self.npu.get_device_name())) if self.npu else None,
            "cann": _quietly(_cann_version) if self.npu else None,
            "driver": _driver_version(),
            "variables": {name: os.environ[name][:200] for name in VARIABLES if name in os.environ},
        }


def _load_torch_npu() -> bool:
    """Import torch_npu, which registers torch.npu.

    Raises:
        CommandError: exit code 4 when it is installed and does not load: a time of the CPU in its place would mislead.
    """
    if importlib.util.find_spec("torch_npu") is None:
        return False
    try:
        importlib.import_module("torch_npu")
    except Exception as error:
        if os.environ.get(AUTOLOAD) == "0":
            return False  # the user wants the CPU
        reason = cli.one_line(f"{type(error).__name__}: {error}", 200)
        hint = f"source CANN's set_env.sh, or set {AUTOLOAD}=0 to measure on the CPU"
        raise cli.CommandError(f"torch_npu does not load ({reason}); {hint}", cli.ABSENT) from None
    return True


def _runs_on_simulator() -> bool:
    """Say whether npu_sim stands in for CANN here: its library is in the process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as source:  # noqa: PTH123
            return any(SIMULATOR_LIBRARY in line for line in source)
    except OSError:
        return False


def load_workload(target: str, script: str | None, backend: str, device: Device) -> Workload:
    """Return the workload that `module:function` (or a function of a script file) describes.

    The function takes no argument and returns one of: a call without arguments; `(call, args)`; or a dict with `eager`
    (a call) and `capture` (a function that captures and returns the replaying call).

    Raises:
        CommandError: exit code 3 when it cannot be loaded or returns something else.
    """
    made = _call_target(target, script)
    if isinstance(made, dict):
        if not callable(made.get("eager")) or not callable(made.get("capture")):
            raise cli.CommandError("the dict of the target needs callables 'eager' and 'capture'", cli.NO_INPUT)
        return Workload(made["eager"], made["capture"])
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        # A tensor is iterable too: taken apart, its rows would be measured as the arguments.
        if not isinstance(made[1], (tuple, list)):
            kind = type(made[1]).__name__
            raise cli.CommandError(f"the target's arguments are a {kind}; return (call, (x,)), a tuple", cli.NO_INPUT)
        function, arguments = made[0], tuple(made[1])
    elif callable(made):
        function, arguments = made, ()
    else:
        raise cli.CommandError(
            f"the target returned {type(made).__name__}; expected a call, (call, args), or a dict of eager and capture",
            cli.NO_INPUT,
        )

    def eager() -> Any:
        return function(*arguments)

    if backend == NPUGRAPH:
        return Workload(eager, lambda: _capture_npugraph(eager, device))
    return Workload(eager, lambda: _compile(function, arguments, backend, device))


def _call_target(target: str, script: str | None) -> Any:
    module_name, _, function_name = target.partition(":")
    with users_code(f"the target {target} failed", "run it alone first"):
        if script is not None:
            path = Path(script)
            if not path.is_file():
                raise cli.CommandError(f"{script} is no file; give a Python file that defines the target", cli.NO_INPUT)
            spec = importlib.util.spec_from_file_location("bench_target", path)
            if spec is None or spec.loader is None:
                raise cli.CommandError(f"{script} is no Python file", cli.NO_INPUT)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            function_name = target
        else:
            sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(module_name)
        return getattr(module, function_name)()


def _capture_npugraph(eager: Run, device: Device) -> Run:
    """Capture one call with torch.npu.graph, after a warm-up on a side stream, and return its replay."""
    if not device.npu:
        raise cli.CommandError(
            "an NPUGraph needs torch_npu and a device; choose --backend for torch.compile", cli.ABSENT
        )
    side = device.npu.Stream()
    side.wait_stream(device.npu.current_stream())
    with device.npu.stream(side):
        for _ in range(_WARM_UP_BEFORE_CAPTURE):
            eager()
    device.npu.current_stream().wait_stream(side)
    device.npu.synchronize()
    graph = device.npu.NPUGraph()
    with device.npu.graph(graph):
        eager()
    return graph.replay  # type: ignore[no-any-return]


def _compile(function: Callable[..., Any], arguments: tuple[Any, ...], backend: str, device: Device) -> Run:
    """Compile with torch.compile and run once, so that compilation and capture lie in the measured cost."""
    compiled = device.torch.compile(function, backend=backend, fullgraph=True, dynamic=False)
    compiled(*arguments)
    return lambda: compiled(*arguments)


def _module_version(name: str) -> str | None:
    module = sys.modules.get(name)
    return str(getattr(module, "__version__", "unknown")) if module else None


def _cann_version() -> str:
    utils = importlib.import_module("torch_npu.npu.utils")
    return str(utils.get_cann_version())


def _driver_version() -> str | None:
    """The driver package's own version file; absent on machines without a driver."""
    try:
        with open("/usr/local/Ascend/driver/version.info", encoding="utf-8", errors="replace") as source:  # noqa: PTH123
            for line in source.read(4096).splitlines():
                name, _, value = line.partition("=")
                if name.strip().lower() == "version":
                    return value.strip()[:40]
    except OSError:
        pass
    return None


def _quietly(read: Callable[[], str]) -> str | None:
    """A missing version must not stop a measurement."""
    try:
        return read()
    except Exception:
        return None
