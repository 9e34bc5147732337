"""What a call costs, measured so that other work on the machine does not decide a test."""

from __future__ import annotations

import time
from typing import Callable

# One disturbed measurement must not fail a test; work that is too slow is too slow every time.
TRIES = 3


def cpu_seconds(work: Callable[[], object], enough: float) -> float:
    """Return the CPU seconds of this process for a call: the least of three, or the first below `enough`.

    CPU time, not time of day: a machine that does other work stretches the latter many times over. The time of
    started processes and of waiting is not in it.
    """
    least = float("inf")
    for _ in range(TRIES):
        started = time.process_time()
        work()
        least = min(least, time.process_time() - started)
        if least < enough:
            break
    return least
