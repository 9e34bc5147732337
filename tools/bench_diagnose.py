#!/usr/bin/env python3
"""Show that diagnose.py takes time linear in the size of its input, and what a 200-line stack costs cold.

Usage: bench_diagnose.py [--repeat N]

Writes inputs of doubling size to a temporary folder (ordinary service lines, one long line, and a stack that repeats),
runs diagnose.py on each as a whole process and prints the median of N runs. Exit code 1 when doubling the size more
than triples the time above 1 s, or when the 200-line stack takes more than 0.25 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIAGNOSE = ROOT / "graph-mode-diagnostics" / "scripts" / "diagnose.py"
STACK = (ROOT / "graph-mode-diagnostics" / "examples" / "default_stream.txt").read_text(encoding="utf-8")
BUDGET_SECONDS = 0.25
SERVICE_LINE = "(Worker_TP0 pid=2390) INFO 06-10 16:39:42 [model_runner_v1.py:962] step %d: 8 running, 0 waiting\n"
SIZES_MB = (1, 2, 4, 8, 16)


def make_stack(lines: int) -> str:
    """Return one Python stack of about `lines` lines that ends in the shipped example's error."""
    head, _, tail = STACK.partition("RuntimeError")
    frame = '  File "/w/vllm/model_executor/models/m.py", line %d, in forward\n    hidden = self.layer(hidden)\n'
    body = "".join(frame % number for number in range((lines - STACK.count("\n")) // 2))
    return head + body + "RuntimeError" + tail


def make_inputs() -> dict[str, str]:
    """Return name → text, families of doubling size."""
    inputs = {"stack of 200 lines": make_stack(200)}
    for size in SIZES_MB:
        count = (size << 20) // len(SERVICE_LINE % 12345)
        inputs[f"service log {size} MB"] = "".join(SERVICE_LINE % step for step in range(count)) + STACK
        storm = "".join(
            f"(Worker_TP0 pid=2390) ERROR error code is 10702{step % 10} in step {step}\n" for step in range(count)
        )
        inputs[f"storm of errors {size} MB"] = storm
        inputs[f"one line {size} MB"] = "x" * (size << 20) + "\n" + STACK
        inputs[f"repeated stack {size} MB"] = STACK * ((size << 20) // len(STACK))
    return inputs


def time_run(file: Path, repeat: int) -> float:
    """Return the median wall time in seconds of whole diagnose.py processes."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", str(DIAGNOSE), str(file)], capture_output=True, check=False)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    failed = False
    previous: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in make_inputs().items():
            file = Path(folder) / "input.txt"
            file.write_text(text, encoding="utf-8")
            seconds = time_run(file, repeat)
            family = name.rpartition(" ")[0].rpartition(" ")[0]
            ratio = seconds / previous[family] if family in previous else 1.0
            previous[family] = seconds
            print(f"{name:24} {seconds:6.2f} s   x{ratio:.1f}")
            failed |= seconds > 1 and ratio > 3
            failed |= name.startswith("stack of") and seconds > BUDGET_SECONDS
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
