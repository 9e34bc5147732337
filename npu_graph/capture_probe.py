"""Two lines around any piece of code that name what would break a capture of it (needs torch when it is entered).

    from npu_graph.capture_probe import probe
    with probe():
        output = model(*inputs)

The report goes to stderr at the end of the block. Frozen branches and moved addresses need two runs with different
inputs, which scripts/probe_capture.py of graph-mode-diagnostics makes; this block sees one run only.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Iterator, TextIO

from npu_graph.bundle import ROOT

# The probe itself belongs to the sub-skill that its command line stands in; this is the way in from user code.
_SCRIPTS = ROOT / "graph-mode-diagnostics" / "scripts"


class ProbeResult:
    """Filled at the end of the block: `record` is the record of schema npu-graph/probe/1."""

    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.record.get("findings", [])
        return found


@contextlib.contextmanager
def probe(name: str = "block", device: str = "", stream: TextIO | None = None) -> Iterator[ProbeResult]:
    """Record the operators inside the block and report those that would break or spoil a capture.

    Args:
        name: what to call the block in the report.
        device: device type of the graph; by default npu where it is available, else cpu.
        stream: where the report goes, stderr by default.

    Raises:
        ImportError: torch is absent.
    """
    torch = importlib.import_module("torch")
    if str(_SCRIPTS) not in sys.path:
        sys.path.append(str(_SCRIPTS))
    recorder_module = importlib.import_module("capture_probe.recorder")
    record_module = importlib.import_module("capture_probe.record")
    report_module = importlib.import_module("capture_probe.report")
    npu = getattr(torch, "npu", None)
    chosen = device or ("npu" if npu is not None and npu.is_available() else "cpu")
    result = ProbeResult()
    with recorder_module.Recorder(chosen).recording() as run:
        yield result
    result.record = record_module.build_record(name, chosen, [run], takes_inputs=False)
    print(report_module.render(result.record), file=stream or sys.stderr, end="")
