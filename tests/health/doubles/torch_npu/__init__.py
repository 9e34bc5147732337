"""A stand-in for torch_npu 2.5.1 that captures and replays the operators of the torch beside it.

FAKE_DEVICES, FAKE_SOC, FAKE_SUM, FAKE_FREE_MB: what the device shows. FAKE_REPLAY=stale|wrong and FAKE_UPDATE=lost|wrong: what
goes wrong without an error. FAKE_WITHOUT: names of torch.npu to leave out.
"""

import os
import types

import torch
from torch import fault

fault("import_torch_npu")

__version__ = os.environ.get("FAKE_TORCH_NPU_VERSION", "2.5.1")
version = types.SimpleNamespace(git_version="0" * 40)

from torch_npu import npu

torch.npu = npu
for name in filter(None, os.environ.get("FAKE_WITHOUT", "").split(",")):
    delattr(npu, name)
