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


def examine(wanted):
    import torch
    import torch_npu  # noqa: F401

    print("@@STAGE count devices", flush=True)
    available = bool(torch.npu.is_available())
    total = int(torch.npu.device_count())
    result = {"available": available, "count": total, "names": [], "versions": cann_versions()}
    if not total:
        return result
    result["names"] = [str(torch.npu.get_device_name(at)) for at in range(total)]
    if wanted >= total:
        return result
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
    return result


try:
    result = examine(int(sys.argv[1]))
except BaseException as error:
    result = {"error": {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}}
print("@@RESULT " + json.dumps(result), flush=True)
# Libraries of a half-initialised accelerator may crash at exit; the answer is out, so leave without them.
sys.stdout.flush()
os._exit(0)
