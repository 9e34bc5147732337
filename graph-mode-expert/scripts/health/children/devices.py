"""Probe: what torch_npu says of the devices: count, names, memory, and the versions that the libraries report."""

import json
import os
import sys
import traceback

sys.path.pop(0)  # the folder of this script; its names must not hide a package
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"


def cann_versions():
    found = {}
    try:
        from torch_npu.npu.utils import get_cann_version
    except Exception:  # releases before it do without
        return found
    for module in ("CANN", "DRIVER"):
        try:
            found[module.lower()] = str(get_cann_version(module))
        except Exception:
            continue
    return found


def tell(result):
    """Say what is known so far: the last thing said counts, also when the process dies after it."""
    print("@@RESULT " + json.dumps(result), flush=True)


def examine(wanted, result):
    import torch
    import torch_npu  # noqa: F401

    print("@@STAGE count devices", flush=True)
    result["available"] = bool(torch.npu.is_available())
    result["count"] = int(torch.npu.device_count())
    result["names"] = [str(torch.npu.get_device_name(at)) for at in range(result["count"])]
    result["versions"] = cann_versions()
    tell(result)
    if wanted >= result["count"]:
        return
    print(f"@@STAGE open device {wanted}", flush=True)
    torch.npu.set_device(wanted)
    probe = torch.ones(4, device=f"npu:{wanted}")
    print(f"@@STAGE compute on device {wanted}", flush=True)
    result["computes"] = float((probe + probe).sum().cpu()) == 8.0
    print(f"@@STAGE read memory of device {wanted}", flush=True)
    try:
        free, size = torch.npu.mem_get_info(wanted)
        result["free"], result["total"] = int(free), int(size)
    except Exception as error:
        result["memory_error"] = str(error)
    result["reserved"] = int(torch.npu.memory_reserved(wanted))


found = {"names": []}
try:
    examine(int(sys.argv[1]), found)
except BaseException as error:
    found["error"] = {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
tell(found)
# Libraries of a half-initialised accelerator may crash at exit; the answer is out, so leave without them.
sys.stdout.flush()
os._exit(0)
