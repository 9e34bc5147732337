"""Probe: import torch_npu and say which graph-mode names it offers, with their signatures."""

import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback

sys.path.pop(0)  # the folder of this script; its names must not hide a package
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"


def reach(name):
    """Return the object that a dotted public name stands for; AttributeError when there is none."""
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for at, part in enumerate(parts[1:], 1):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[: at + 1]))
        found = getattr(found, part)
    return found


def shape(found, is_class_call):
    """Return parameters and their plain defaults, without self."""
    target = found.__init__ if is_class_call else found
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return None
    shown, starred = [], False
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
            shown.append("*" + parameter.name)
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            shown.append("*")
        prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        shown.append(prefix + parameter.name + default)
    return "(" + ", ".join(shown) + ")"


def backends():
    try:
        from torch._dynamo.backends.registry import list_backends

        return sorted(list_backends(exclude_tags=()))
    except Exception as error:
        return ["unknown: " + str(error)]


def examine(names):
    print("@@STAGE import torch", flush=True)
    import torch

    print("@@STAGE import torch_npu", flush=True)
    import torch_npu

    print("@@STAGE read the API", flush=True)
    api = {}
    for name in names:
        try:
            if name.startswith("torch_npu."):  # a module: that it is there counts, not what importing it needs
                if importlib.util.find_spec(name):
                    api[name] = ""
                continue
            found = reach(name)
        except Exception:
            continue
        signature = shape(found, name == "torch.npu.graph") if callable(found) else ""
        api[name] = "" if inspect.isclass(found) and name != "torch.npu.graph" else signature
    return {
        "version": str(torch_npu.__version__),
        "torch": str(torch.__version__),
        "git_version": str(getattr(torch_npu.version, "git_version", "")),
        "folder": str(torch_npu.__path__[0]),
        "api": api,
        "backends": backends(),
    }


try:
    result = examine(sys.argv[1:])
except BaseException as error:
    result = {"error": {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}}
print("@@RESULT " + json.dumps(result), flush=True)
# Libraries of a half-initialised accelerator may crash at exit; the answer is out, so leave without them.
sys.stdout.flush()
os._exit(0)
