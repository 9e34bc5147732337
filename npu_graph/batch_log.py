"""Batch sizes out of a service log: what the service really ran, to choose capture sizes by."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO, Iterator

from npu_graph import cli

# Fixed words first, the expression only on lines that hold them: a log is large and mostly other lines.
# vLLM's periodic line; SGLang's decode line; the table of vLLM's --cudagraph-metrics.
_VLLM_RUNNING = (b"Running: ", re.compile(rb"Running: (\d{1,6}) reqs"))
_SGLANG_RUNNING = (b"#running-req: ", re.compile(rb"Decode batch.{0,200}#running-req: (\d{1,6})"))
_METRICS_ROW = (
    b"|",
    re.compile(
        rb"\|\s{0,40}(\d{1,9})\s{0,40}\|\s{0,40}(\d{1,9})\s{0,40}\|\s{0,40}\d{1,9}\s{0,40}\|"
        rb"\s{0,40}(FULL|PIECEWISE|NONE)\s{0,40}\|\s{0,40}(\d{1,12})\s{0,40}\|"
    ),
)
_SGLANG_GRAPH = (b"cuda graph: ", re.compile(rb"Decode batch.{0,400}cuda graph: (True|False)"))
_FINISHED = (b"apturing finished in ", re.compile(rb"finished in (\d{1,6}) secs?, took (\d{1,5}(?:\.\d{1,4})?) GiB"))
_FORMULA_LINE = (b"maximum supported batch sizes", re.compile(rb"batch sizes for ACL graph: (\d{1,6})"))
_PROGRESS = (b"Capturing ", re.compile(rb"Capturing (?:ACL|CUDA).{0,400}?(\d{1,5})/(\d{1,5}) \["))
_MAX_LINE = 64 * 1024
# What is looked for stands near the head of its line; a longer line is not searched to its end.
_SEARCHED = 4096


class BatchLog:
    """What a log says: steps per batch size, the kind of evidence, memory and time of captures."""

    def __init__(self) -> None:
        self.running: dict[int, int] = {}
        self.tokens: dict[int, int] = {}
        self.graph_hits = 0
        self.graph_misses = 0
        self.capture_gib: list[float] = []
        self.capture_seconds: list[int] = []
        self.captured_sizes = 0
        self.formula_sizes: int | None = None
        self.lines = 0

    @property
    def exact(self) -> bool:
        """Say whether the sizes are counted per step (--cudagraph-metrics) instead of sampled every few seconds."""
        return bool(self.tokens)

    def record(self) -> dict[str, Any]:
        """Return the log's facts for the budget record."""
        return {
            "lines": self.lines,
            "evidence": "per step" if self.exact else "periodic samples",
            "samples": sum((self.tokens or self.running).values()),
            "graph_hits": self.graph_hits,
            "graph_misses": self.graph_misses,
            "capture_gib": max(self.capture_gib) if self.capture_gib else None,
            "capture_seconds": max(self.capture_seconds) if self.capture_seconds else None,
            "captured_sizes": self.captured_sizes or None,
            "framework_limit": self.formula_sizes,
        }


def read_batch_log(name: str) -> BatchLog:
    """Read a service log (a file, or `-`), line by line in bounded memory.

    Raises:
        CommandError: exit code 3 when it cannot be read or holds no batch size.
    """
    log = BatchLog()
    try:
        if name == "-":
            if sys.stdin is None or sys.stdin.isatty():
                raise cli.CommandError("'-' reads standard input, but nothing is piped in", cli.NO_INPUT)
            _read(log, sys.stdin.buffer)
        else:
            if Path(name).exists() and not Path(name).is_file():
                raise cli.CommandError(f"{name} is not a regular file; pipe it to '-' instead", cli.NO_INPUT)
            with Path(name).open("rb") as source:
                _read(log, source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be opened"
        raise cli.CommandError(f"{name} cannot be read: {reason}", cli.NO_INPUT) from None
    if not log.running and not log.tokens:
        raise cli.CommandError(
            f"{name} holds no batch size; expected vLLM's 'Running: N reqs', SGLang's '#running-req: N' or the table "
            "of --cudagraph-metrics (keep log stats enabled)",
            cli.NO_INPUT,
        )
    return log


def _read(log: BatchLog, source: BinaryIO) -> None:
    for line in _lines(source):
        log.lines += 1
        _take(log, line)


def _lines(source: BinaryIO) -> Iterator[bytes]:
    reader = source if isinstance(source, io.BufferedIOBase) else io.BufferedReader(source)  # type: ignore[type-var]
    while True:
        line = reader.readline(_MAX_LINE)
        if not line:
            return
        # Progress bars overwrite themselves with carriage returns.
        yield from (part[:_SEARCHED] for part in line.split(b"\r"))


def _take(log: BatchLog, line: bytes) -> None:
    for word, expression, counts in (
        (*_VLLM_RUNNING, log.running),
        (*_SGLANG_RUNNING, log.running),
    ):
        if word in line:
            found = expression.search(line)
            if found and int(found.group(1)):
                counts[int(found.group(1))] = counts.get(int(found.group(1)), 0) + 1
    if _METRICS_ROW[0] in line:
        _take_metrics(log, line)
    found = _find(_SGLANG_GRAPH, line)
    if found:
        log.graph_hits += found.group(1) == b"True"
        log.graph_misses += found.group(1) == b"False"
    found = _find(_FINISHED, line)
    if found:
        log.capture_seconds.append(int(found.group(1)))
        log.capture_gib.append(float(found.group(2)))
    found = _find(_FORMULA_LINE, line)
    if found:
        log.formula_sizes = int(found.group(1))
    found = _find(_PROGRESS, line)
    if found:
        log.captured_sizes = max(log.captured_sizes, int(found.group(2)))


def _take_metrics(log: BatchLog, line: bytes) -> None:
    found = _METRICS_ROW[1].search(line)
    if not found:
        return
    tokens, mode, count = int(found.group(1)), found.group(3), int(found.group(4))
    if mode == b"NONE":
        log.graph_misses += count
    else:
        log.graph_hits += count
    # Prefill runs without a graph and is no batch to capture for; what a mode took is.
    if mode != b"NONE" and tokens:
        log.tokens[tokens] = log.tokens.get(tokens, 0) + count


def _find(pair: tuple[bytes, re.Pattern[bytes]], line: bytes) -> re.Match[bytes] | None:
    word, expression = pair
    return expression.search(line) if word in line else None
