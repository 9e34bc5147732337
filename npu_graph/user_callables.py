"""Load the user's callable and input maker by name, for the scripts that run them (they need torch)."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from npu_graph import cli

DEFAULT_MAKER = "make_inputs"
# Data under a Python name: compiling it would take minutes and gigabytes.
MAX_FILE_BYTES = 8 << 20


class Target(NamedTuple):
    """The callable, the function that makes its inputs (None: it takes none), and the name to show."""

    call: Callable[..., Any]
    make_inputs: Callable[..., Any] | None
    name: str


class Inputs(NamedTuple):
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def need_torch(script: str) -> Any:
    """Import torch.

    Raises:
        CommandError: exit code 4 with the install line when it is absent, or when it does not load.
    """
    try:
        return importlib.import_module("torch")
    except ImportError:
        hint = "python3 -m pip install torch --index-url https://download.pytorch.org/whl/cpu"
        raise cli.CommandError(
            f"{script} needs torch, which this Python does not have; install it with: {hint}", cli.ABSENT
        ) from None
    except Exception as error:  # a backend (torch_npu without CANN) that fails while torch loads it
        reason = cli.one_line(f"{type(error).__name__}: {error}", 200)
        hint = "source CANN's set_env.sh, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to run on the CPU alone"
        raise cli.CommandError(f"torch does not load ({reason}); {hint}", cli.ABSENT) from None


def load_target(name: str, maker: str, folders: Sequence[str]) -> Target:
    """Load `module:function` or `file.py:function`; a dotted function reaches attributes.

    The input maker is `maker` (same form; a bare name is looked up beside the callable), else `make_inputs` of the
    callable's module where it has one.

    Raises:
        CommandError: exit code 2 for a name that is not of that form or leads nowhere.
    """
    for folder in reversed([*folders, str(Path.cwd())]):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    module, call = _resolve(name)
    if maker:
        full = maker if ":" in maker else f"{name.rpartition(':')[0]}:{maker}"
        return Target(call, _resolve(full)[1], name)
    return Target(call, getattr(module, DEFAULT_MAKER, None), name)


def make(target: Target, seed: int) -> Inputs:
    """Call the input maker with a seed (when it takes one) and return the arguments.

    A tuple or list is the positional arguments, a dict the keyword arguments, anything else one argument.
    """
    if target.make_inputs is None:
        return Inputs((), {})
    takes_seed = bool(inspect.signature(target.make_inputs).parameters)
    made = target.make_inputs(seed) if takes_seed else target.make_inputs()
    if isinstance(made, dict):
        return Inputs((), made)
    if isinstance(made, (tuple, list)):
        return Inputs(tuple(made), {})
    return Inputs((made,), {})


def _resolve(name: str) -> tuple[Any, Callable[..., Any]]:
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise cli.CommandError(f"{name} is not of the form module:function or file.py:function")
    try:
        module = _load_file(Path(place)) if place.endswith((".py", ".ipynb")) else importlib.import_module(place)
    except cli.CommandError:
        raise
    except ModuleNotFoundError as error:
        raise cli.CommandError(f"{place} cannot be imported ({error}); name a file.py or add --path DIR") from None
    except (Exception, SystemExit) as error:
        reason = cli.one_line(f"{type(error).__name__}: {error}", 200)
        raise cli.CommandError(
            f"{place} fails while it is imported: {reason}; run it alone first", cli.NO_INPUT
        ) from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise cli.CommandError(f"{place} has no {attribute}; name a function or callable object in it")
        found = getattr(found, part)
    if not callable(found):
        raise cli.CommandError(f"{name} is a {type(found).__name__}, not a callable")
    return module, found


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise cli.CommandError(f"{path} does not exist; name a Python file", cli.NO_INPUT)
    if path.suffix == ".ipynb":
        how = f"export it to a script first (jupyter nbconvert --to script {path.name})"
        raise cli.CommandError(f"{path} is a notebook; {how}", cli.NO_INPUT)
    if path.stat().st_size > MAX_FILE_BYTES:
        size = f"{path.stat().st_size >> 20} MiB"
        raise cli.CommandError(
            f"{path} has {size}, too much for Python code; name the file of the function", cli.NO_INPUT
        )
    spec = importlib.util.spec_from_file_location(path.stem, str(path.resolve()))
    if spec is None or spec.loader is None:
        raise cli.CommandError(f"{path} cannot be loaded as a Python module")
    if path.stem in sys.modules and getattr(sys.modules[path.stem], "__file__", None) == str(path.resolve()):
        return sys.modules[path.stem]
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise cli.CommandError(f"{where} is not Python: {error.msg}", cli.NO_INPUT) from None
    return module
