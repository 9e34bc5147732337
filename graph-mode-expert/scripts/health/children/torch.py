"""Probe: import torch alone, with the loading of torch_npu by torch switched off."""

import json
import os
import sys
import traceback

sys.path.pop(0)  # the folder of this script; its names must not hide a package
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"


def examine():
    print("@@STAGE import torch", flush=True)
    import torch

    print("@@STAGE compute on the CPU", flush=True)
    works = float(torch.ones(4).sum()) == 4.0
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda or "",
        "hip": getattr(torch.version, "hip", None) or "",
        "cxx11_abi": bool(torch.compiled_with_cxx11_abi()),
        "folder": str(torch.__path__[0]),
        "computes": works,
    }


try:
    result = examine()
except BaseException as error:
    result = {"error": {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}}
print("@@RESULT " + json.dumps(result), flush=True)
# Libraries of a half-initialised accelerator may crash at exit; the answer is out, so leave without them.
sys.stdout.flush()
os._exit(0)
