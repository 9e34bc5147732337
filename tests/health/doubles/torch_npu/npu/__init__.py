"""torch.npu of the stand-in, with the signatures of torch_npu 2.5.1."""

import contextlib
import os
import types

import torch
from torch import fault

utils = types.SimpleNamespace()
_updates = []
_FREE, _TOTAL = int(os.environ.get("FAKE_FREE_MB", "60000")) << 20, 65536 << 20


class NPUGraph:
    def capture_begin(self, pool=None, capture_error_mode="global"):
        self.tasks, torch.recording = [], None
        fault("capture")
        torch.recording = self.tasks

    def capture_end(self):
        torch.recording = None

    def replay(self):
        fault("replay")
        stale = os.environ.get("FAKE_REPLAY") == "stale" and getattr(self, "replayed", False)
        self.replayed = True
        for task in [] if stale else self.tasks:
            task()
        if os.environ.get("FAKE_REPLAY") == "wrong":
            self.tasks[-1].__closure__ and _spoil(self.tasks[-1])

    def reset(self):
        self.tasks = []

    def pool(self):
        return (0, 1)


def _spoil(task):
    for cell in task.__closure__:
        if isinstance(cell.cell_contents, torch.Tensor):
            cell.cell_contents.data[:] = [item + 1.0 for item in cell.cell_contents.data]


class graph:  # noqa: N801
    def __init__(self, npu_graph, pool=None, stream=None, capture_error_mode="global"):
        assert isinstance(npu_graph, NPUGraph), "graph() needs the graph to capture into"
        assert stream is not None, "the default stream cannot be captured"
        self.npu_graph = npu_graph

    def __enter__(self):
        self.npu_graph.capture_begin()

    def __exit__(self, *_):
        self.npu_graph.capture_end()


class Stream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, other):
        pass


class ExternalEvent:
    pass


class MemPool:
    pass


def graph_pool_handle():
    return (0, 1)


def is_current_stream_capturing():
    return torch.recording is not None


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    raise NotImplementedError


def graph_task_group_begin(stream):
    fault("task_group")


def graph_task_group_end(stream):
    return len(torch.recording) - 1, torch.recording


def graph_task_update_begin(stream, handle):
    fault("update")
    _updates.append(handle)
    torch.recording = []


def graph_task_update_end(stream):
    at, tasks = _updates.pop()
    kind = os.environ.get("FAKE_UPDATE")
    new, torch.recording = torch.recording, None
    if kind != "lost":
        tasks[at] = new[0]
    if kind == "wrong":
        tasks.append(lambda: _spoil(new[0]))


def use_mem_pool(pool, device=None):
    raise NotImplementedError


def is_available():
    return device_count() > 0


def device_count():
    fault("count")
    return int(os.environ.get("FAKE_DEVICES", "2"))


def get_device_name(device=None):
    return os.environ.get("FAKE_SOC", "Ascend910B3")


def set_device(device):
    fault("open")


def mem_get_info(device=None):
    return _FREE, _TOTAL


def memory_reserved(device=None):
    return 0


def current_stream(device=None):
    return Stream()


@contextlib.contextmanager
def stream(stream):
    yield


def synchronize():
    pass


def empty_cache():
    pass
