"""A stand-in for torch 2.5.1: as much arithmetic as the probes use, and faults where FAKE_FAULT asks for them.

FAKE_FAULT is `place=kind` or `place=kind:text`: at that place the process hangs, crashes, is killed, floods its output
or raises. Places: import_torch, import_torch_npu, count, open, capture, replay, task_group, update.
"""

import os
import signal
import time
import types

__version__ = os.environ.get("FAKE_TORCH_VERSION", "2.5.1+cpu")
float32 = "float32"
version = types.SimpleNamespace(cuda=os.environ.get("FAKE_CUDA") or None, hip=None)
compiler = types.SimpleNamespace()
recording = None  # the graph that operators are recorded into


def fault(place):
    """Do what FAKE_FAULT asks for at this place."""
    wanted, _, what = os.environ.get("FAKE_FAULT", "").partition("=")
    kind, _, text = what.partition(":")
    if wanted != place:
        return
    if kind == "hang":
        time.sleep(3600)
    elif kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "flood":
        while True:
            print("x" * 4096)
    elif kind == "import":
        raise ImportError(text)
    elif kind == "module":
        raise ModuleNotFoundError(f"No module named {text!r}")
    else:
        raise RuntimeError(text)


fault("import_torch")


class Tensor:
    def __init__(self, data, shape):
        self.data, self.shape = list(data), tuple(shape)

    def reshape(self, *shape):
        return Tensor(self.data, shape)

    def to(self, device):
        return self

    def cpu(self):
        return Tensor(self.data, self.shape)

    clone = cpu

    def copy_(self, other):
        self.data[:] = other.data
        return self

    def __add__(self, other):
        return run(lambda a, b: [x + y for x, y in zip(a, b)], self, other)

    def __sub__(self, other):
        return run(lambda a, b: [x - y for x, y in zip(a, b)], self, other)

    def __mul__(self, other):
        return run(lambda a, b: [x * y for x, y in zip(a, b)], self, other)

    def __truediv__(self, other):
        return run(lambda a, b: [x / y for x, y in zip(a, b)], self, other)

    def abs(self):
        return Tensor([abs(x) for x in self.data], self.shape)

    def max(self):
        return max(self.data)

    def sum(self):
        wrong = os.environ.get("FAKE_SUM") if len(self.data) == 4 and self.data[0] == 2.0 else None
        return Tensor([float(wrong or sum(self.data))], (1,))

    def __getitem__(self, at):
        return self.data[at]

    def __float__(self):
        return float(self.data[0])


def run(function, first, second=None, out=None, shape=None):
    """Compute, or while a graph records: note what to compute at each replay."""
    target = out or Tensor([0.0] * len(first.data), shape or first.shape)

    def compute():
        other = second.data if isinstance(second, Tensor) else [second] * len(first.data)
        target.data[:] = function(first.data, other)

    if recording is None:
        compute()
    else:
        recording.append(compute)
    return target


def arange(count, dtype=None):
    return Tensor([float(at) for at in range(count)], (count,))


def ones(count, device=None):
    return Tensor([1.0] * count, (count,))


def zeros(count, device=None):
    return Tensor([0.0] * count, (count,))


def eye(count):
    return Tensor([float(row == column) for row in range(count) for column in range(count)], (count, count))


def matmul(a, b):
    rows, columns = a.shape[0], b.shape[1]

    def product(x, y):
        inner = len(x) // rows
        return [
            sum(x[row * inner + at] * y[at * columns + column] for at in range(inner))
            for row in range(rows)
            for column in range(columns)
        ]

    return run(product, a, b, shape=(rows, columns))


def relu(a):
    return run(lambda x, _: [max(item, 0.0) for item in x], a, 0.0)


def mul(a, b, out=None):
    return run(lambda x, y: [p * q for p, q in zip(x, y)], a, b, out)


def equal(a, b):
    return a.data == b.data


def allclose(a, b, rtol=0.0, atol=0.0):
    return all(abs(x - y) <= atol + rtol * abs(y) for x, y in zip(a.data, b.data))


def device(kind, index):
    return f"{kind}:{index}"


def compiled_with_cxx11_abi():
    return False
