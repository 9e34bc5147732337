"""What every submodule gave: copied by hooks in eager mode and into a capture, saved by torch_npu in a compiled graph."""
# ruff: noqa: E501 (texts)

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable

from .tensors import flatten, snapshot

# Why no submodule is named, in English and Chinese.
REASONS = {
    "no_module": (
        "no nn.Module is known: with --module NAME the first submodule that differs is looked for",
        "不知道是哪个 nn.Module：给出 --module NAME 才能查找第一个不同的子模块",
    ),
    "unstable": (
        "not looked for, since eager itself varies",
        "Eager 本身就不稳定，没有查找",
    ),
    "cannot_save": (
        "submodules inside a torch.compile graph are seen only where torch_npu saves tensors in the graph (torch.ops.npu.save_npugraph_tensor, from 26.1.0 on), which this one does not: compare with --graph npugraph",
        "torch.compile 的图里，只有 torch_npu 能在图内保存张量（torch.ops.npu.save_npugraph_tensor，26.1.0 起）时才看得到子模块，当前版本不能：请用 --graph npugraph 比较",
    ),
    "fails": (
        "the run that watches the submodules fails: {error}",
        "观察子模块的那次运行失败：{error}",
    ),
    "none_seen": (
        "no submodule ran in both modes: the graph is made from other code than the module that is watched",
        "没有子模块在两种模式下都运行过：图不是由所观察的模块得到的",
    ),
    "all_agree": (
        "every submodule agrees in the run that watches them: the difference arises outside them, or goes away when their outputs are copied (memory of the pool reused, missing order)",
        "在观察子模块的运行里各子模块都一致：差别出在它们之外，或者一拷贝输出就消失（内存池被复用、缺少先后约束）",
    ),
}


def can_save_in_graph() -> bool:
    """Say whether this torch_npu has the operator that saves a tensor from inside a graph.

    Source: Ascend/pytorch@v2.9.0-26.1.0 torch_npu/npu/graphs.py:383 save_npugraph_tensor; absent in v2.9.0-26.0.0.
    """
    import torch

    return hasattr(torch.ops.npu, "save_npugraph_tensor")


class ModuleWatch:
    """Forward hooks that copy each submodule's output at once, so that later in-place work does not reach the copy.

    In a capture the copy is part of the graph. It goes to a buffer that the warm-up made outside the graph's pool, so
    every replay fills it and the pool's memory is used as without hooks; without a warm-up it lies in the pool.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handles: list[Any] = []
        self._buffers: dict[str, Any] = {}
        self._seen: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, int] | None = None  # within one call of the root

    def __enter__(self) -> ModuleWatch:
        if self._module is not None:
            self._handles.append(self._module.register_forward_pre_hook(self._begin))
            for name, child in self._module.named_modules():
                self._handles.append(child.register_forward_hook(self._hook(name or "(root)")))
            self._handles.append(self._module.register_forward_hook(self._end))
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def before_eager(self) -> None:
        """Forget what the step before gave."""
        self._seen.clear()

    def before_replay(self) -> None:
        """Nothing: a replay runs no hook, it fills the buffers."""

    def values(self) -> dict[str, Any]:
        """Return the outputs by module, on the host, in the order in which the modules ended."""
        return snapshot({leaf: tensor for outputs in self._seen.values() for leaf, tensor in outputs.items()})

    def _begin(self, *_: Any) -> None:
        self._seen.clear()
        self._calls = {}

    def _end(self, *_: Any) -> None:
        self._calls = None

    def _hook(self, module: str) -> Callable[..., None]:
        def keep(_: Any, __: Any, output: Any) -> None:
            name = module
            if self._calls is not None:
                self._calls[module] = self._calls.get(module, 0) + 1
                if self._calls[module] > 1:
                    name = f"{module} (call {self._calls[module]})"
            self._seen.pop(name, None)
            self._seen[name] = {leaf: self._store(leaf, tensor) for leaf, tensor in flatten(output, name).items()}

        return keep

    def _store(self, leaf: str, tensor: Any) -> Any:
        value, buffer = tensor.detach(), self._buffers.get(leaf)
        if buffer is None or (buffer.shape, buffer.dtype, buffer.device) != (value.shape, value.dtype, value.device):
            self._buffers[leaf] = value.clone()
        else:
            buffer.copy_(value)
        return self._buffers[leaf]


class SavedModules:
    """Hooks that Dynamo traces into a compiled graph: torch_npu writes each submodule's output to a file, every replay."""

    _FILE = re.compile(r"m(\d{1,6})(?:_(\d{1,6}))?(?:_device_\d{1,4})?\.pt\Z")

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handles: list[Any] = []
        self._names: list[str] = []
        self._folder = Path()

    def __enter__(self) -> SavedModules:
        self._folder = Path(tempfile.mkdtemp(prefix="npu-graph-modules-"))
        for number, (name, child) in enumerate(self._module.named_modules()):
            self._names.append(name or "(root)")
            self._handles.append(child.register_forward_hook(_saving_hook(str(self._folder / f"m{number}"))))
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def before_replay(self) -> None:
        """Forget what the step before saved."""
        for path in self._folder.iterdir():
            path.unlink()

    def values(self) -> dict[str, Any]:
        """Return the saved outputs by module; of a module that ran more than once, the last."""
        import torch

        torch.npu.synchronize()
        found: dict[str, Any] = {}
        for path in self._folder.iterdir():
            match = self._FILE.match(path.name)
            if match:
                name = self._names[int(match.group(1))] + (f"[{match.group(2)}]" if match.group(2) else "")
                found[name] = torch.load(path, weights_only=True, map_location="cpu")
        return found


def _saving_hook(stem: str) -> Callable[..., None]:
    """Return a hook so plain that Dynamo traces it: no state, constant file names."""
    import torch

    save = torch.ops.npu.save_npugraph_tensor

    def keep(_: Any, __: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            save(output, save_path=f"{stem}.pt", overwrite=True)
        elif isinstance(output, (tuple, list)):
            for index, item in enumerate(output):
                if isinstance(item, torch.Tensor):
                    save(item, save_path=f"{stem}_{index}.pt", overwrite=True)

    return keep
