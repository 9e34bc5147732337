"""Which functions a CANN version lacks: hidden from the libraries, so that torch_npu reports them as on a real host."""

from __future__ import annotations

import re
from typing import Iterable

# (first version that has them, functions). Sources: hicann/runtime tags v8.5.0, v9.0.0, v9.1.0, include/external/acl;
# for 8.1: hiascend "canncommercial/81RC1" page aclcppdevg_03_1782, which publishes aclmdlRICapture* for the first time.
ADDED: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    (
        (8, 1),
        (
            "aclmdlRICaptureBegin",
            "aclmdlRICaptureEnd",
            "aclmdlRICaptureGetInfo",
            "aclmdlRICaptureTaskGrpBegin",
            "aclmdlRICaptureTaskGrpEnd",
            "aclmdlRICaptureTaskUpdateBegin",
            "aclmdlRICaptureTaskUpdateEnd",
            "aclmdlRICaptureThreadExchangeMode",
            "aclmdlRIExecuteAsync",
            "aclmdlRIDestroy",
            "aclmdlRIDebugPrint",
        ),
    ),
    ((8, 5), ("aclmdlRIDebugJsonPrint", "aclrtSetStreamAttribute", "aclrtValueWait", "aclrtValueWrite")),
    (
        (9, 1),
        (
            "aclmdlRIGetId",
            "aclmdlRICondHandleCreate",
            "aclmdlRICondHandleGetCondPtr",
            "aclmdlRIAddCondTask",
            "aclmdlRICaptureToModelRIBegin",
        ),
    ),
)


def parse_version(text: str) -> tuple[int, int]:
    """Return (major, minor) of "8.1.RC1", "9.1.0" and the like.

    Raises:
        ValueError: the text does not begin with two numbers.
    """
    found = re.match(r"(\d{1,3})\.(\d{1,3})(\.|$)", text)
    if not found:
        raise ValueError(text)
    return int(found.group(1)), int(found.group(2))


def missing_functions(version: str) -> list[str]:
    """Return the functions that are newer than `version`, sorted."""
    have = parse_version(version)
    return sorted(name for first, names in ADDED if have < first for name in names)


def version_script(hidden: Iterable[str]) -> str:
    """Return a linker version script that keeps `hidden` out of the dynamic symbols."""
    local = "".join(f" {name};" for name in hidden)
    return "{\n global: *;\n local:%s\n};\n" % (local or " npu_sim_nothing_hidden;")
