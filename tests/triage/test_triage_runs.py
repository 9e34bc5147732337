"""A triage run: stops at the first failure, resumes, ends what hangs, keeps secrets out, and never needs torch itself.

The launcher here is a stand-in that reads which variant it is given and fails as the test says; the layers of the real
torch are in test_layers.py.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from support import ROOT, run_script

SCRIPT = "graph-mode-diagnostics/scripts/triage_compile.py"
REPRO = 'import torch\nmodel = torch.compile(net, backend="npugraph_ex", options={"a": 1})\n'
# Runs a "variant": finds its backend, counts the run, and fails where FAIL_AT says so.
STAND_IN = """\
import os, pathlib, sys, time
text = pathlib.Path(sys.argv[1]).read_text()
step = "eager" if "disable=True" in text else "force_eager" if "force_eager" in text else (
    "aot_eager" if '"aot_eager"' in text else "backend_eager" if '"eager"' in text else "original")
with open(os.environ["RUNS"], "a") as runs:
    print(step, *sys.argv[2:], file=runs)
print("running", step, os.environ.get("EXTRA", ""))
if step == os.environ.get("HANG_AT"):
    if os.fork() == 0:
        time.sleep(300)
    time.sleep(300)
if step == os.environ.get("FAIL_AT"):
    print(os.environ.get("FAIL_TEXT", "RuntimeError: boom"))
    sys.exit(3)
"""


class Bench:
    """A project with a script, a stand-in launcher, and the runs that were made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "my project"
        self.folder.mkdir()
        self.script = self.folder / "repro.py"
        self.script.write_text(REPRO)
        (self.folder / "helper.py").write_text("")
        self.launcher = folder / "launch.py"
        self.launcher.write_text(STAND_IN)
        self.runs = folder / "runs.txt"
        self.workdir = folder / "work"

    def run(self, *options: str, variables: dict[str, str] | None = None, code: int = 0) -> dict:
        arguments = (
            str(self.script),
            "--launcher",
            f"{sys.executable} {self.launcher}",
            "--workdir",
            str(self.workdir),
        )
        environment = {**os.environ, "RUNS": str(self.runs), **(variables or {})}
        result = run_script(SCRIPT, *arguments, "--output", "json", *options, env=environment)
        assert result.returncode == code, result.stderr.decode()
        return json.loads(result.stdout)

    def made(self) -> list[str]:
        return self.runs.read_text().splitlines() if self.runs.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("step", "part"),
    [
        ("eager", "model"),
        ("backend_eager", "dynamo"),
        ("aot_eager", "aot_autograd"),
        ("force_eager", "npugraph_ex_compile"),
        ("original", "npugraph_ex_capture"),
    ],
)
def test_it_stops_at_the_first_step_that_fails_and_names_the_part(bench: Bench, step: str, part: str) -> None:
    record = bench.run(variables={"FAIL_AT": step})
    order = ["eager", "backend_eager", "aot_eager", "force_eager", "original"]
    assert (record["verdict"], record["failed_step"], record["part"]) == ("located", step, part)
    assert bench.made() == order[: order.index(step) + 1]
    assert record["not_run"] == order[order.index(step) + 1 :]
    assert len(record["ruled_out"]) == order.index(step)
    assert record["next"]


def test_every_run_has_its_folder(bench: Bench) -> None:
    record = bench.run(variables={"FAIL_AT": "aot_eager"})
    folder = Path(record["folder"])
    assert json.loads((folder / "result.json").read_text())["part"] == "aot_autograd"
    for number, name in ((1, "eager"), (2, "backend_eager"), (3, "aot_eager")):
        step = folder / f"{number}_{name}"
        assert {item.name for item in step.iterdir()} == {
            "code",
            "env.txt",
            "stdout_stderr.log",
            "plog",
            "compile_debug",
            "result.json",
        }
        assert f"running {name}" in (step / "stdout_stderr.log").read_text()
        assert f"ASCEND_PROCESS_LOG_PATH={step}" in (step / "env.txt").read_text().replace(os.sep, "/")
        assert (step / "code" / "helper.py").exists()


def test_the_users_folder_is_not_written_to(bench: Bench) -> None:
    bench.run(variables={"FAIL_AT": "original"})
    assert sorted(item.name for item in bench.folder.iterdir()) == ["helper.py", "repro.py"]
    assert bench.script.read_text() == REPRO


def test_nothing_that_fails_is_said_and_is_not_a_success(bench: Bench) -> None:
    record = bench.run(code=1)
    assert record["verdict"] == "not_reproduced"
    assert len(bench.made()) == 5


def test_what_the_npugraphs_backend_passes_over_in_silence_is_said(bench: Bench) -> None:
    bench.script.write_text(REPRO.replace("npugraph_ex", "npugraphs"))
    shown = " ".join(bench.run(code=1)["next"])
    assert "call three times" in shown and "'NPUGraph: skipped'" in shown


def test_arguments_reach_the_script_and_variables_only_the_child(bench: Bench) -> None:
    record = bench.run("--env", "EXTRA=seen", "--", "--batch", "4 5", variables={"FAIL_AT": "eager"})
    assert bench.made() == ["eager --batch 4 5"]
    assert "running eager seen" in (Path(record["folder"]) / "1_eager" / "stdout_stderr.log").read_text()
    assert record["arguments"] == ["--batch", "4 5"]


def test_a_resumed_run_does_not_repeat_what_passed(bench: Bench) -> None:
    first = bench.run(variables={"FAIL_AT": "aot_eager"})
    second = bench.run("--resume", first["folder"], variables={"FAIL_AT": "original"})
    assert bench.made() == ["eager", "backend_eager", "aot_eager", "aot_eager", "force_eager", "original"]
    assert [item["resumed"] for item in second["steps"]] == [True, True, False, False, False]


def test_a_changed_script_or_argument_is_run_again(bench: Bench) -> None:
    first = bench.run(variables={"FAIL_AT": "backend_eager"})
    bench.script.write_text(REPRO + "y = 1\n")
    bench.run("--resume", first["folder"], variables={"FAIL_AT": "backend_eager"})
    bench.run("--resume", first["folder"], "--", "more", variables={"FAIL_AT": "backend_eager"})
    assert [line.split()[0] for line in bench.made()].count("eager") == 3


@pytest.mark.skipif(os.name != "posix", reason="process groups are those of POSIX")
def test_a_step_that_hangs_is_ended_with_all_it_started(bench: Bench) -> None:
    start = time.monotonic()
    record = bench.run("--timeout", "2", variables={"HANG_AT": "backend_eager"})
    assert time.monotonic() - start < 40
    assert record["steps"][1]["status"] == "timeout"
    assert record["part"] == "dynamo"
    assert any("time limit of 2 s" in note for note in record["notes"])
    assert "py-spy" in record["next"][0]


def test_secrets_are_replaced_everywhere_in_the_records(bench: Bench) -> None:
    secret = "hf_" + "a1b2c3d4e5f6g7h8"
    record = bench.run(
        "--env",
        f"HF_TOKEN={secret}",
        "--env",
        f"EXTRA={secret}",
        "--",
        "--token",
        secret,
        variables={"FAIL_AT": "eager"},
    )
    folder = Path(record["folder"])
    texts = [
        json.dumps(record),
        *(path.read_text() for path in folder.rglob("*") if path.suffix in (".txt", ".json", ".log")),
    ]
    assert len(texts) >= 4
    assert not any(secret in text for text in texts)


def test_a_flood_of_output_is_kept_within_bounds(bench: Bench) -> None:
    bench.launcher.write_text(
        STAND_IN + "\nprint('first line')\nfor n in range(40):\n    print('x' * 100_000)\nprint('last line')\n"
    )
    record = bench.run("--fail-on", "last line")
    log = Path(record["folder"]) / "1_eager" / "stdout_stderr.log"
    text = log.read_text()
    assert log.stat().st_size < 1_600_000
    assert "first line" in text
    assert "last line" in text
    assert "bytes left out" in text


def test_a_text_in_the_output_can_mark_a_failure(bench: Bench) -> None:
    record = bench.run("--fail-on", "running aot_eager")
    assert record["failed_step"] == "aot_eager"


def test_the_first_cause_and_the_users_line_come_from_the_log(bench: Bench) -> None:
    bench.launcher.write_text(
        STAND_IN.replace(
            "sys.exit(3)",
            "exec(compile('\\n' * 6 + 'def f():\\n    raise ValueError(\"bad shape\")\\nf()', sys.argv[1], 'exec'))",
        )
    )
    record = bench.run(variables={"FAIL_AT": "eager", "FAIL_TEXT": ""})
    assert record["first_cause"]["type"] == "ValueError"
    assert record["user_line"] == {"file": str(bench.script), "line": 8, "function": "f"}


def test_a_warning_in_the_log_is_not_the_cause(bench: Bench) -> None:
    text = (
        "Warning: ASCEND_HOME_PATH environment variable is not set.\n"
        "[W1130 19:40:28.769727386 NPUCachingAllocator.cpp:168] Warning: padding (function operator())\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    y\nRuntimeError: the cause'
    )
    record = bench.run(variables={"FAIL_AT": "original", "FAIL_TEXT": text})
    assert record["first_cause"]["message"] == "the cause"


def test_a_missing_fake_implementation_is_named_as_such(bench: Bench) -> None:
    text = (
        "RuntimeError: my::op: attempted to run this operator with Meta tensors, but there was no fake impl registered"
    )
    record = bench.run(variables={"FAIL_AT": "backend_eager", "FAIL_TEXT": text})
    assert record["part"] == "fake_implementation"
    assert any("register_fake" in action for action in record["next"])


def test_a_capture_failure_of_an_unknown_backend_is_called_one(bench: Bench) -> None:
    bench.script.write_text("import torch\nmodel = torch.compile(net, backend=choose())\n")
    text = "RuntimeError: NPUGraph.cpp:165 NPU function error: aclmdlRICaptureBegin, error code is 107027"
    record = bench.run(variables={"FAIL_AT": "original", "FAIL_TEXT": text})
    assert record["part"] == "capture"
    assert record["call"]["backend"] is None


def test_torch_that_is_absent_is_no_layer(bench: Bench) -> None:
    text = "ModuleNotFoundError: No module named 'torch_npu'"
    record = bench.run(variables={"FAIL_AT": "eager", "FAIL_TEXT": text}, code=4)
    assert record["verdict"] == "no_torch"


def test_a_dry_run_shows_the_variants_and_runs_nothing(bench: Bench) -> None:
    record = bench.run("--dry-run")
    assert [step["step"] for step in record["steps"]] == [
        "eager",
        "backend_eager",
        "aot_eager",
        "force_eager",
        "original",
    ]
    assert '+model = torch.compile(net, backend="aot_eager", options=None)' in record["steps"][2]["difference"]
    assert record["steps"][4]["difference"] == ""
    assert bench.made() == []
    assert not bench.workdir.exists()


def test_a_call_in_another_file_is_rewritten_where_the_script_imports_it(bench: Bench) -> None:
    package = bench.folder / "net"
    package.mkdir()
    (package / "build.py").write_text(REPRO)
    bench.script.write_text("import net.build\n")
    record = bench.run("--file", str(package / "build.py"), code=1)
    code = Path(record["folder"]) / "2_backend_eager" / "code"
    assert 'backend="eager"' in (code / "net" / "build.py").read_text()
    assert not (code / "repro.py").is_symlink(), "Python looks for modules beside the real file"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"def f(:\n", "line 1"),
        (b"print 'x'\n", "line 1"),
        (b"x = '\xff\xfe'\n", "not valid Python"),
        (b"x = 1\0\n", "repro.py"),
        (b"import re\n", "no torch.compile call"),
        (b"x = 1\n" * 500_000, "MiB"),
        (b"x = " + b"-" * 60_000 + b"1\n", "nesting is too deep"),
    ],
)
def test_a_script_that_cannot_be_used_gives_one_clear_line(bench: Bench, content: bytes, words: str) -> None:
    bench.script.write_bytes(content)
    result = run_script(SCRIPT, str(bench.script))
    message = result.stderr.decode()
    assert result.returncode == 3
    assert message.count("\n") == 1
    assert words in message


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--env", "novalue"), 2),
        (("--timeout", "0"), 2),
        (("--call", "7"), 2),
        (("--launcher", "'open"), 2),
        (("--launcher", "/nowhere/torchrun"), 4),
        (("--resume", "/nowhere"), 3),
        (("--file", "/nowhere.py"), 3),
    ],
)
def test_options_that_make_no_sense_give_one_line(bench: Bench, options: tuple[str, ...], code: int) -> None:
    result = run_script(SCRIPT, str(bench.script), "--workdir", str(bench.workdir), *options)
    assert result.returncode == code, result.stderr
    assert result.stderr.decode().count("\n") == 1


def test_a_notebook_is_sent_to_nbconvert(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text("{}")
    result = run_script(SCRIPT, str(tmp_path / "a.ipynb"))
    assert result.returncode == 3
    assert b"nbconvert" in result.stderr


def test_text_and_markdown_give_the_answer_first(bench: Bench) -> None:
    environment = {**os.environ, "RUNS": str(bench.runs), "FAIL_AT": "aot_eager"}
    arguments = (str(bench.script), "--launcher", f"{sys.executable} {bench.launcher}", "--workdir", str(bench.workdir))
    for form in ("text", "md"):
        result = run_script(SCRIPT, *arguments, "--output", form, env=environment)
        assert "aot_autograd" in result.stdout.decode().splitlines()[0]
    assert (ROOT / SCRIPT).exists()
