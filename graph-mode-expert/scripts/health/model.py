"""What a check says: its outcome, how grave it is, the evidence, and the group it belongs to."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

PASS, FAIL, WARN, SKIP = "PASS", "FAIL", "WARN", "SKIP"
# The gravest status of a group's checks is the status of the group.
_GRAVITY = (FAIL, WARN, PASS, SKIP)

# Groups in the order in which they are run and shown: what a later one needs, an earlier one has looked at.
GROUPS = {
    "cann": ("CANN and driver", "CANN 与驱动"),
    "torch": ("PyTorch", "PyTorch"),
    "torch_npu": ("torch_npu and versions", "torch_npu 与版本配套"),
    "devices": ("Devices", "设备"),
    "api": ("NPUGraph API", "NPUGraph 接口"),
    "variables": ("Environment variables and logs", "环境变量与日志"),
    "capture": ("Capture and replay", "捕获与重放"),
    "memory": ("Memory and stream budget", "内存与流预算"),
}

MAX_EVIDENCE_LINE = 400


class Check(NamedTuple):
    """One check.

    Attributes:
        name: `group.subject`; with `outcome` it names the row of data/health_texts.tsv that explains it.
        outcome: what was found, in one word.
        status: PASS, FAIL, WARN or SKIP.
        critical: a FAIL with which no graph can be captured or replayed at all.
        evidence: what was seen, one line each.
        values: what the texts of the row are filled with.
    """

    name: str
    outcome: str
    status: str
    critical: bool
    evidence: list[str]
    values: dict[str, Any]

    @property
    def group(self) -> str:
        return self.name.split(".")[0]


def check(name: str, outcome: str, status: str, evidence: Sequence[object] = (), /, **values: Any) -> Check:
    """Make a check that is not critical."""
    return Check(name, outcome, status, False, [_line(item) for item in evidence], values)


def critical(name: str, outcome: str, evidence: Sequence[object] = (), /, **values: Any) -> Check:
    """Make a FAIL with which graph mode cannot work at all."""
    return Check(name, outcome, FAIL, True, [_line(item) for item in evidence], values)


def group_status(checks: Sequence[Check]) -> str:
    """Return the gravest status among the checks of one group (SKIP when there are none)."""
    present = {item.status for item in checks}
    return next((status for status in _GRAVITY if status in present), SKIP)


def count(checks: Sequence[Check]) -> dict[str, int]:
    """Return how many checks passed, failed, are critical (also counted as failed), warn and were skipped."""
    return {
        "passed": sum(item.status == PASS for item in checks),
        "failed": sum(item.status == FAIL for item in checks),
        "critical": sum(item.critical for item in checks),
        "warnings": sum(item.status == WARN for item in checks),
        "skipped": sum(item.status == SKIP for item in checks),
    }


def _line(item: object) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in str(item)).split())
    return text if len(text) <= MAX_EVIDENCE_LINE else text[: MAX_EVIDENCE_LINE - 1] + "…"
