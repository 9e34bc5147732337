"""The options of run.py, and what each CANN version says and lacks."""

from __future__ import annotations

import pytest
from sim_harness import PYTHON, RUN, Script, run_python

sim = pytest.mark.sim

# The same mistake under three generations of CANN.
MISTAKE = "capture(lambda: torch.npu.current_stream().synchronize())"
TEXTS = {
    "9.1.0": (
        "Not_Supported(EE1016): Synchronizing a stream failed. Reason: Stream (stream_id=",
        "execution failed, reason=stream is captured",
    ),
    "9.0.0": (
        "EE9999: Inner Error!",
        "(EE9999):  Not allow to synchronize captured-stream, stream_id=",
        "execution failed, reason=stream is captured",
    ),
    "8.5.0": (
        "EE9999: Inner Error!",
        "Not allow to synchronize captured-stream, stream_id=",
        "execution failed, reason=stream is captured",
    ),
    "8.3.RC1": ("EE9999: Inner Error!", "execute failed, reason=[stream is captured]"),
}


@sim
@pytest.mark.parametrize("cann", TEXTS)
def test_the_text_follows_the_cann_version(simulator, cann: str) -> None:
    outcome = simulator.run(Script(MISTAKE, ("--cann", cann)))
    assert "error code is 107027" in outcome.err, outcome.err[-2000:]
    for text in TEXTS[cann]:
        assert text in outcome.err, outcome.err[-2000:]
    assert ("EE1016" in outcome.err) == (cann == "9.1.0")


@sim
def test_an_old_cann_lacks_the_capture_functions(simulator) -> None:
    outcome = simulator.run(Script("capture(lambda: x + 1)", ("--cann", "8.0.0")))
    assert outcome.code == 1
    assert "Failed to find function aclmdlRICaptureBegin" in outcome.err, outcome.err[-2000:]
    assert "ERR00008 PTA resource not found" in outcome.err


@sim
def test_conditional_nodes_need_cann_9_1(simulator) -> None:
    body = """
p = torch.ones((), dtype=torch.bool, device='npu'); g = torch_npu.npu.NPUGraph()
with torch_npu.npu.graph(g):
    g.begin_capture_to_if_node(p)
"""
    outcome = simulator.run(Script(body, ("--cann", "8.5.0")))
    assert outcome.code == 1
    assert "aclmdlRI" in outcome.err, outcome.err[-2000:]


@sim
def test_a_fault_strikes_at_the_named_call(simulator) -> None:
    body = """
g, y = capture(lambda: x + 1)
g.replay(); same(y, [2.0] * 4)
raises('AclmdlRIExecuteAsync(model_ri_, stream), error code is 507011', g.replay)
g.replay()
raises('161002', lambda: x * 2)
"""
    script = Script(body, ("--fail", "aclmdlRIExecuteAsync:507011@2,aclnnMuls:161002"), (("TASK_QUEUE_ENABLE", "0"),))
    outcome = simulator.run(script)
    assert outcome.code == 0, outcome.err[-2000:]


@sim
def test_a_fault_at_capture_begin_names_the_resource(simulator) -> None:
    outcome = simulator.run(Script("capture(lambda: x + 1)", ("--fail", "aclmdlRICaptureBegin:207005")))
    assert "NPUGraph.cpp:318" in outcome.err
    assert "error code is 207005" in outcome.err
    assert "[Error]: Failed to apply for memory." in outcome.err


@sim
def test_trace_and_plog_tell_what_happened(simulator) -> None:
    body = """
g, y = capture(lambda: x + 1)
g.replay()
try: capture(lambda: x.sum().item())
except RuntimeError: pass
import glob
print(open('calls.txt').read())
for n in sorted(glob.glob('logs/*/plog/*.log')): print('LOG', n); print(open(n).read())
"""
    outcome = simulator.run(Script(body, ("--trace", "calls.txt", "--plog", "logs")))
    assert outcome.code == 0, outcome.err[-2000:]
    for line in ("aclmdlRICaptureBegin(stream=", "aclnnAdds(stream=", "aclmdlRIExecuteAsync(model="):
        assert line in outcome.out
    assert "captured in model 1" in outcome.out
    run_log, debug_log = outcome.out.split("LOG logs/run")[1], outcome.out.split("LOG logs/debug")[1].split("LOG ")[0]
    assert "capture begin success, device_id=0, model_id=1" in run_log
    assert "[ERROR] RUNTIME(" in debug_log
    assert "reason=stream is captured" in debug_log


@sim
def test_the_first_line_says_that_it_is_a_simulator_and_the_exit_code_is_the_scripts(simulator) -> None:
    outcome = simulator.run_fresh(Script("import sys; print('ARGS', sys.argv[1:]); sys.exit(7)"))
    assert outcome.code == 7
    assert outcome.err.startswith("npu_sim: results come from a simulator (CANN 9.1.0, Ascend910B2, 2 devices)")


@sim
def test_other_socs_run(simulator) -> None:
    for soc in ("Ascend910_9391", "Ascend310P3"):
        outcome = simulator.run(
            Script(
                """
g, y = capture(lambda: x * 2)
g.replay(); same(y, [2.0] * 4)
""",
                ("--soc", soc),
            )
        )
        assert outcome.code == 0, soc + outcome.err[-1500:]


# ---------------------------------------------------------------- without torch
USAGE = {
    "no script": ([], 2, "no script was given"),
    "a script that is not there": (["nowhere.py"], 3, "nowhere.py does not exist"),
    "a version that is none": (["--cann", "new", "x.py"], 2, "--cann new is no version"),
    "a fault without a code": (["--fail", "aclrtMalloc", "x.py"], 2, "is not FUNCTION:CODE"),
    "a hang without a number": (["--hang", "aclnnAdd@", "x.py"], 2, "is not FUNCTION, FUNCTION@N or FUNCTION@N+"),
    "no memory": (["--memory", "0", "x.py"], 2, "--memory 0 is out of range"),
    "an unknown option": (["--wrong"], 2, "--wrong"),
}


@pytest.mark.parametrize("case", USAGE, ids=lambda name: name.replace(" ", "_"))
def test_a_wrong_command_line_is_one_line(case: str) -> None:
    arguments, code, text = USAGE[case]
    outcome = run_python([PYTHON, str(RUN), *arguments])
    assert outcome.code == code
    assert text in outcome.err
    assert outcome.err.count("\n") == 1


def test_help_shows_the_options_and_the_exit_codes() -> None:
    outcome = run_python([PYTHON, str(RUN), "--help"])
    assert outcome.code == 0
    for option in (
        "--cann",
        "--soc",
        "--devices",
        "--memory",
        "--streams",
        "--fail",
        "--defer",
        "--trace",
        "--plog",
        "exit codes",
    ):
        assert option in outcome.out


def test_without_torch_the_install_command_is_named(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\n")
    # -S: without site-packages, as on a machine where nothing is installed.
    outcome = run_python([PYTHON, "-S", str(RUN), str(script)])
    assert outcome.code == 4
    assert "torch is not installed" in outcome.err
    assert "pip install torch==2.13.0" in outcome.err
    assert outcome.err.count("\n") == 1


def test_without_a_compiler_the_install_command_is_named(tmp_path) -> None:
    # Packages that are found but hold nothing: the search goes on to the compiler.
    for name in ("torch", "torch_npu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text("")
    outcome = run_python([PYTHON, "-S", str(RUN), str(script)], {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)})
    assert outcome.code == 4
    assert "g++ is not installed" in outcome.err
