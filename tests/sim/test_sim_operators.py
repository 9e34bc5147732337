"""Every operator of the simulator against CPU torch: dtypes, layouts, broadcast, in place; integers bit for bit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sim_harness import PYTHON, ROOT, RUN, Script, run_python

pytestmark = [pytest.mark.sim, pytest.mark.slow]
CHECK = Path(__file__).resolve().parent / "check_operators.py"
LEAST_COMPARISONS = 5000
LEAST_OPERATORS = 120


def test_every_operator_agrees_with_cpu_torch(simulator, tmp_path) -> None:
    trace = tmp_path / "calls.txt"
    outcome = run_python([PYTHON, str(RUN), "--trace", str(trace), str(CHECK), "--least", str(LEAST_COMPARISONS)])
    failures = [line for line in outcome.out.splitlines() if line.startswith("FAIL")]
    assert outcome.code == 0, "\n".join(failures[:20]) or outcome.err[-2000:]
    operators = set(re.findall(r" (aclnn\w+)\(stream", trace.read_text()))
    assert len(operators) >= LEAST_OPERATORS, sorted(operators)


def test_an_operator_that_is_missing_is_named(simulator, tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.trace(torch.ones(2, 2, device='npu'))\n")
    outcome = run_python([PYTHON, str(RUN), str(script)], {"TASK_QUEUE_ENABLE": "0"})
    assert outcome.code == 1
    assert "npu_sim has no kernel for operator Trace" in outcome.err, outcome.err[-1500:]


REFUSED = """
half = lambda *shape: torch.ones(*shape, dtype=torch.float16).npu()
table = torch.zeros(1, 1, dtype=torch.int32).npu()
def mla(**mode):
    torch_npu.atb.npu_multi_head_latent_attention(
        half(1, 2, 32), half(1, 2, 16), half(1, 8, 1, 32), half(1, 8, 1, 16), table, [8], 2, 0.25, 1, **mode)
def flash(layout, *shape, **more):
    t = half(*shape)
    torch_npu.npu_fusion_attention_v3(t, t, t, 2, layout, **more)
flash("BNSD", 1, 2, 4, 16)
raises("keep_prob other than 1 is not simulated", lambda: flash("BNSD", 1, 2, 4, 16, keep_prob=0.5))
raises("a sequence length out of range", lambda: flash(
    "TND", 4, 2, 16, actual_seq_qlen=torch.tensor([5]), actual_seq_kvlen=torch.tensor([4])))
raises("aclnnRelu: Tensor not implemented for DT_COMPLEX64", lambda: torch.ops.aten.relu(x.to(torch.complex64)))
raises("aclnnFlip: Tensor not implemented for DT_COMPLEX128", lambda: x.to(torch.complex128).flip(0))
mla()
torch.npu.synchronize()
raises("AtbMLA with cache_mode other than krope_ctkv is not simulated", lambda: (
    mla(cache_mode="int8_nzcache"), torch.npu.synchronize()))
"""


def test_an_argument_that_is_not_simulated_is_named(simulator) -> None:
    outcome = simulator.run(Script(REFUSED))
    assert outcome.code == 0, outcome.err[-2000:]


@pytest.mark.skipif(
    os.environ.get("NPU_SIM_SANITIZE") != "1", reason="set NPU_SIM_SANITIZE=1: another build, about three minutes"
)
@pytest.mark.timeout(3000)
def test_the_operators_are_clean_under_sanitizers(simulator) -> None:
    build = (
        "import sys; sys.path.insert(0, sys.argv[1]); from npu_sim import build; "
        "print(build.library_folder('9.1.0', sanitize=True))"
    )
    made = subprocess.run([PYTHON, "-c", build, str(ROOT)], capture_output=True, text=True, timeout=1800, check=True)
    compiler = shutil.which("g++")
    assert compiler
    runtimes = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    env = {
        "LD_LIBRARY_PATH": made.stdout.strip(),
        "LD_PRELOAD": ":".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    done = subprocess.run(
        [PYTHON, str(CHECK), "--least", str(LEAST_COMPARISONS)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
