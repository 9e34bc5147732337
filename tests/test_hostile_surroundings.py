"""What surrounds a run may be broken: overlays, standard streams, the working directory, file names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

DIAGNOSE = ROOT / "graph-mode-diagnostics/scripts/diagnose.py"
LOGS = ROOT / "graph-log-analyzer/scripts/parse_npu_logs.py"
EXAMPLE = ROOT / "graph-mode-diagnostics/examples/default_stream.txt"
PATTERN = """### P-CAP-900 — A pattern of the team

- Stage: capture
- Layer: L2
- Owner: user_code

```signature
{line}
```
"""


def run(script: Path, *words: str, data: bytes = b"", **env: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, **env}
    return subprocess.run(
        [sys.executable, str(script), *words], input=data, capture_output=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("line", ["any: (unclosed", "any: (?:a+)+b$"])
def test_a_faulty_signature_of_an_overlay_stops_no_diagnosis(line: str, tmp_path: Path) -> None:
    (tmp_path / "known-patterns.md").write_text(PATTERN.format(line=line), encoding="utf-8")
    report = EXAMPLE.read_bytes() + b"a" * 60 + b"\n"
    done = run(DIAGNOSE, "-", data=report, NPU_GRAPH_KNOWLEDGE=str(tmp_path))
    assert done.returncode == 0
    assert b"P-CAP-003" in done.stdout


@pytest.mark.parametrize("folder", ["~nosuchuser/x", "x" * 5000])
def test_a_knowledge_folder_that_cannot_be_is_left_out(folder: str) -> None:
    done = run(DIAGNOSE, str(EXAMPLE), NPU_GRAPH_KNOWLEDGE=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "data", [EXAMPLE.read_text().encode("utf-16"), bytes(100_000), EXAMPLE.read_bytes().replace(b"\n", b"\r")]
)
def test_a_log_that_cannot_be_read_has_not_passed(data: bytes, tmp_path: Path) -> None:
    assert run(LOGS, "-", data=data).returncode == 3
    log = tmp_path / "service.log"
    log.write_bytes(data)
    assert run(LOGS, str(log)).returncode == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_under_the_error_stream_keeps_the_exit_code() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, str(DIAGNOSE), "no-such-file"], stderr=full, check=False, timeout=60)
    assert done.returncode == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_under_the_answer_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, str(DIAGNOSE), str(EXAMPLE)], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert done.returncode == 5
    assert b"cannot be written" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="a working directory can be deleted on Linux")
def test_a_deleted_working_directory_is_no_fault(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} {DIAGNOSE} {EXAMPLE}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO on this system")
def test_a_fifo_named_as_a_partial_result_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part.json")
    done = run(LOGS, "--merge", str(tmp_path / "part.json"))
    assert done.returncode in (2, 3)
