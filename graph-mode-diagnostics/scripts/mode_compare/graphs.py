"""Make the graph form of a callable: an NPUGraph, a compile backend, or what the user's own factory returns."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from npu_graph import cli

Replay = Callable[..., Any]
Factory = Callable[[Callable[..., Any], "tuple[Any, ...]", "dict[str, Any]"], Replay]
WARM_UP_CALLS = 3
BACKENDS = ("npugraphs", "npugraph_ex")


def built_in(name: str) -> Factory:
    """Return the factory of a built-in graph mode.

    Raises:
        CommandError: exit code 4 when there is no NPU to run it on.
    """
    import torch

    npu = getattr(torch, "npu", None)
    if npu is None or not npu.is_available():
        raise cli.CommandError(
            f"--graph {name} needs torch_npu and an NPU; without one give your own --graph MODULE:FACTORY, "
            "or run this script under npu_sim/run.py",
            cli.ABSENT,
        )
    return _npugraph if name == "npugraph" else Compiled(name)


def _npugraph(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay:
    """Capture with static inputs, as the manual of torch.npu.graph says; replays copy into them."""
    import torch

    static_args, static_kwargs = _clone(args), _clone(kwargs)
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        for _ in range(WARM_UP_CALLS):
            call(*static_args, **static_kwargs)
    torch.npu.current_stream().wait_stream(side)
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = call(*static_args, **static_kwargs)

    def replay(*new_args: Any, **new_kwargs: Any) -> Any:
        _refill(static_args, new_args, "argument")
        _refill(static_kwargs, new_kwargs, "argument")
        graph.replay()
        torch.npu.synchronize()
        return output

    return replay


class Compiled(NamedTuple):
    """The factory of a torch.compile backend: what happens inside a module is then seen by the compiler only."""

    backend: str

    def __call__(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Replay:
        import torch

        torch.compiler.reset()  # Dynamo would take the graph made before the hooks: it guards none
        compiled = torch.compile(call, backend=self.backend, dynamic=False)
        for _ in range(WARM_UP_CALLS):
            compiled(*args, **kwargs)
        return compiled  # type: ignore[no-any-return,unused-ignore]


def _clone(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_clone(item) for item in value) if type(value) in (tuple, list) else value
    return value


def _refill(static: Any, new: Any, name: str) -> None:
    import torch

    if isinstance(static, torch.Tensor):
        if static.shape != new.shape:
            raise cli.CommandError(
                f"{name} has shape {list(new.shape)}, the graph was captured with {list(static.shape)}; "
                "make inputs of one size, or give your own --graph factory that pads"
            )
        static.copy_(new)
    elif isinstance(static, dict):
        for key in static:
            _refill(static[key], new[key], f"{name}.{key}")
    elif isinstance(static, (tuple, list)):
        for index, item in enumerate(static):
            _refill(item, new[index], f"{name}[{index}]")
    elif static != new:
        raise cli.CommandError(f"{name} is {new!r}, the graph was captured with {static!r}; a graph keeps host values")
