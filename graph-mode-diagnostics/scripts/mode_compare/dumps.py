"""Read two folders of saved tensors and pair them by step and name."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from npu_graph import cli

from .running import Trace
from .tensors import flatten

MAX_FILES = 20_000
MAX_BYTES = 8 << 30
_SUFFIXES = (".pt", ".pth", ".npy", ".npz")
_STEP = re.compile(r"(?:^|[/_.-])(?:step|iter|iteration)[_.-]?(\d{1,9})(?=$|[/_.-])", re.IGNORECASE)
# torch.npu's in-graph save numbers the calls at the end: NAME_device_0_3.pt (torch_npu/npu/graphs.py
# _build_save_npugraph_tensor_path, release 26.1.0 for torch 2.13).
_COUNTER = re.compile(r"_(\d{1,9})$")


def read_pair(eager: str, graph: str) -> tuple[Trace, Trace, list[str], list[str]]:
    """Return (eager, graph, names of steps, what is on one side only).

    Raises:
        CommandError: exit code 3 when a folder has no tensor file or the two share no name.
    """
    left, right = _read(eager), _read(graph)
    common = sorted(left.keys() & right.keys())
    alone = [f"{key[1]} of step {key[0]}: eager only" for key in sorted(left.keys() - right.keys())]
    alone += [f"{key[1]} of step {key[0]}: graph only" for key in sorted(right.keys() - left.keys())]
    if not common:
        raise cli.CommandError(
            "the two folders share no step and name; name files alike, such as step_1/layer.0.pt", cli.NO_INPUT
        )
    steps = sorted({step for step, _ in common})
    traces = (Trace([], []), Trace([], []))
    for step in steps:
        names = [name for at, name in common if at == step]
        for trace, files in zip(traces, (left, right)):
            loaded: dict[str, Any] = {}
            for name in names:
                loaded.update(flatten(_load(files[(step, name)]), name))
            trace.outputs.append(loaded)
            trace.modules.append({})
    return traces[0], traces[1], [str(step) for step in steps], alone


def _read(name: str) -> dict[tuple[int, str], Path]:
    root = Path(name)
    if not root.is_dir():
        raise cli.CommandError(f"{name} is not a folder; give the folder of saved tensors", cli.NO_INPUT)
    files = [path for path in sorted(root.rglob("*")) if path.suffix in _SUFFIXES and path.is_file()]
    if not files:
        raise cli.CommandError(f"{name} holds no {', '.join(_SUFFIXES)} file", cli.NO_INPUT)
    if len(files) > MAX_FILES:
        raise cli.CommandError(f"{name} holds {len(files)} tensor files; give at most {MAX_FILES}")
    return {_key(path.relative_to(root)): path for path in files}


def _key(path: Path) -> tuple[int, str]:
    """Return (step, name): the step from `step_3` in the path, else from a counter at the end of the name."""
    text = path.with_suffix("").as_posix()
    found = _STEP.search(text)
    if found:
        rest = (text[: found.start()] + text[found.end() :]).strip("/_.-")
        return int(found.group(1)), rest or "tensor"
    counter = _COUNTER.search(text)
    if counter:
        return int(counter.group(1)), text[: counter.start()]
    return 0, text


def _unpacked(path: Path) -> int:
    """Return the bytes that a packed file unfolds to: .npz and .pt are zips, and a few MB can hold many GB of zeros."""
    try:
        with zipfile.ZipFile(str(path)) as archive:
            return sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return 0


def _load(path: Path) -> Any:
    """Load without running code: weights_only for torch files, allow_pickle=False for numpy files."""
    import torch

    if max(path.stat().st_size, _unpacked(path)) > MAX_BYTES:
        raise cli.CommandError(f"{path} is larger than {MAX_BYTES} bytes; save fewer tensors in a file")
    try:
        if path.suffix in (".pt", ".pth"):
            return torch.load(str(path), map_location="cpu", weights_only=True)
        import numpy as np

        loaded = np.load(str(path), allow_pickle=False)
        if path.suffix == ".npz":
            return {name: torch.from_numpy(loaded[name]) for name in loaded.files}
        return torch.from_numpy(loaded)
    except ImportError:
        raise cli.CommandError(
            f"{path} needs numpy; install it with: python3 -m pip install numpy", cli.ABSENT
        ) from None
    except Exception as error:
        reason = cli.one_line(f"{type(error).__name__}: {error}", 160)
        raise cli.CommandError(f"{path} cannot be loaded as plain tensors: {reason}", cli.NO_INPUT) from None
