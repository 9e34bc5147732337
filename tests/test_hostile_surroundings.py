"""What surrounds a run may be broken: overlays, standard streams, the working directory, file names."""

from __future__ import annotations

import json
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO on this system")
class TestPipesWhereFilesAreExpected:
    """Opening a pipe waits for a writer that never comes."""

    KB = ROOT / "knowledge/scripts/kb.py"

    @pytest.mark.parametrize("name", ["known-patterns.md", "error-code-map.md", "history.md"])
    @pytest.mark.parametrize("script", ["diagnose", "lookup_code", "kb"])
    def test_in_a_folder_of_knowledge(self, name: str, script: str, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / name)
        command = {
            "diagnose": (DIAGNOSE, str(EXAMPLE)),
            "lookup_code": (ROOT / "graph-mode-expert/scripts/lookup_code.py", "107027"),
            "kb": (self.KB, "list"),
        }[script]
        assert run(*command, NPU_GRAPH_KNOWLEDGE=str(tmp_path)).returncode == 0

    def test_named_as_a_case(self, tmp_path: Path) -> None:
        (tmp_path / "cases").mkdir()
        os.mkfifo(tmp_path / "cases" / "C-20261130-aaaaaaaaaa.md")
        done = run(self.KB, "check", NPU_GRAPH_KNOWLEDGE=str(tmp_path))
        assert done.returncode == 1 and b"not a regular file" in done.stdout

    @pytest.mark.parametrize("name", ["version.txt", "torch_npu/version.py", "torch_npu/npu/graphs.py"])
    def test_in_a_tree_of_sources(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "torch_npu/npu").mkdir(parents=True)
        os.mkfifo(tmp_path / name)
        script = ROOT / "graph-mode-expert/scripts/locate_source.py"
        for words in (("torch_npu/npu/graphs.py:100", "--source", str(tmp_path)), ("--check", str(tmp_path))):
            assert run(script, *words).returncode in (0, 1)

    def test_in_a_folder_to_lint(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.py")
        done = run(ROOT / "graph-mode-diagnostics/scripts/lint_capture.py", str(tmp_path))
        assert done.returncode == 3 and b"a.py is not a regular file" in done.stderr


# Interrupts itself when the module is asked for, as a user does who presses Ctrl-C at once.
INTERRUPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("module", ["npu_graph.diagnosis.record", "npu_graph.patterns"])
def test_an_interrupt_while_the_script_loads_is_one_line(module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    done = run(DIAGNOSE, str(EXAMPLE), PYTHONPATH=str(tmp_path), INTERRUPT_AT=module)
    assert done.stderr == b"diagnose.py: interrupted\n" and done.returncode != 0


def test_a_program_that_imports_the_package_keeps_its_own_hook(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nbefore = sys.excepthook\n"
        "import npu_graph.cli\nassert sys.excepthook is before\n"
    )
    assert run(program).returncode == 0


def test_a_reader_that_goes_away_is_no_fault_of_the_measurement(tmp_path: Path) -> None:
    case = {"id": "a", "input": "x", "input_kind": "log", "confidence": "", "expected": {"stage": "env", "owner": []}}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case))
    command = f"{sys.executable} tools/measure_cases.py {tmp_path / 'cases.jsonl'} | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
