"""Read stack dumps as they come: py-spy text and JSON, faulthandler, alone or inside a service log."""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, NamedTuple

from npu_graph.cli import InputText
from npu_graph.diagnosis.reading import clean_line

MAX_FRAMES = 400
MAX_THREADS = 2000
# A dump file of 512 ranks with 60 threads each has a million lines; more than this is no dump.
MAX_LINES = 2_000_000
MAX_LINE = 2000

_PROCESS = re.compile(r"Process (\d{1,10}):? ?(.{0,1000})$")
_PYTHON = re.compile(r"Python v(\d[\w.+]{0,20})")
_SPY_THREAD = re.compile(r'Thread (0x[0-9A-Fa-f]{1,20}|\d{1,20}) \(([a-z+]{1,20})\)(?:: "(.{0,200})")?')
# `    name (file.py:12)`, `    name (libc.so.6)`: py-spy prints the innermost frame first, four blanks before it.
_SPY_FRAME = re.compile(r"    (\S.{0,400}?) \(([^()]{1,400}?)(?::(\d{1,7}))?\)\s*$")
_FAULT_THREAD = re.compile(
    r"(Current thread|Thread) (0x[0-9A-Fa-f]{1,20})(?: \[([^\]]{0,100})\])? \(most recent call first\):"
)
_FAULT_FRAME = re.compile(r'  File "(.{0,400}?)", line (\d{1,7}) in (.{1,300})$')
_FAULT_START = re.compile(r"(?:Timeout \(\d{1,4}:\d\d:\d\d(?:\.\d{1,6})?\)!|Fatal Python error)")
# Marks that a text holds a dump at all.
_FAULT_MARK, _SPY_MARK = (
    "most recent call first):",
    re.compile(r"Thread (?:0x[0-9A-Fa-f]{1,20}|\d{1,20}) \([a-z+]{1,20}\)"),
)
_PYTHON_FILE = re.compile(r"\.(?:py|pyx|pyw)$|^<")


class Frame(NamedTuple):
    """One frame; `native` for C and C++ frames of `py-spy dump --native`."""

    function: str
    file: str
    line: int
    native: bool

    @property
    def name(self) -> str:
        """The bare function name: py-spy 0.4 prints `Class.method`."""
        return self.function.rpartition(".")[2] or self.function

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"


class Thread(NamedTuple):
    """A thread's stack, innermost frame first; state is py-spy's (idle, active, active+gil) or ''."""

    ident: str
    name: str
    state: str
    frames: list[Frame]
    line: int

    @property
    def python_frames(self) -> list[Frame]:
        return [frame for frame in self.frames if not frame.native]


class Dump(NamedTuple):
    """One sample of one process. `pid` is 0 where the dump does not say (faulthandler)."""

    pid: int
    title: str
    stream: str
    source: str
    line: int
    threads: list[Thread]


def read_dumps(item: InputText) -> list[Dump]:
    """Return the dumps in one input, in order; none when it holds no stack."""
    text = item.text
    if text.lstrip()[:1] in ("[", "{"):
        dumps = _read_json(item)
        if dumps:
            return dumps
    if _FAULT_MARK not in text and not _SPY_MARK.search(text):
        return []
    by_stream: dict[str, _Reader] = {}
    for number, line, stream in _lines(text, item.name):
        if stream not in by_stream:
            by_stream[stream] = _Reader(item.name, stream)
        by_stream[stream].feed(number, line)
    dumps = [dump for reader in by_stream.values() for dump in reader.finish()]
    return sorted(dumps, key=lambda dump: dump.line)


def _lines(text: str, name: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number, line, stream). A line that starts like a dump is taken as it is; others lose log prefixes."""
    raw = text.split("\n")[:MAX_LINES]
    bare = any(line.startswith(("Process ", "Thread ", "Current thread ")) for line in raw)
    for number, full in enumerate(raw, 1):
        line = full[:MAX_LINE].rstrip("\r")
        if bare:
            yield number, line, ""
            continue
        for cleaned in clean_line(number, line, name):
            yield number, cleaned.text, cleaned.stream


class _Reader:
    """Collects the dumps of one stream of lines."""

    def __init__(self, source: str, stream: str) -> None:
        self._source = source
        self._stream = stream
        self._dumps: list[Dump] = []
        self._identity = (0, "", 0)
        self._threads: list[Thread] = []

    def feed(self, number: int, line: str) -> None:
        process = _PROCESS.match(line)
        if process:
            self._close()
            self._identity = (int(process.group(1)), process.group(2).strip(), number)
            return
        if _FAULT_START.match(line):
            self._close()
            return
        thread = self._thread(number, line)
        if thread:
            if any(thread.ident == known.ident for known in self._threads[-MAX_THREADS:]):
                self._close(keep_identity=True)
            if len(self._threads) < MAX_THREADS:
                self._threads.append(thread)
            return
        frame = _frame(line)
        if frame and self._threads and len(self._threads[-1].frames) < MAX_FRAMES:
            self._threads[-1].frames.append(frame)

    def finish(self) -> list[Dump]:
        self._close()
        return self._dumps

    @staticmethod
    def _thread(number: int, line: str) -> Thread | None:
        found = _SPY_THREAD.match(line)
        if found:
            return Thread(found.group(1), found.group(3) or "", found.group(2), [], number)
        found = _FAULT_THREAD.match(line)
        return Thread(found.group(2), found.group(3) or "", "", [], number) if found else None

    def _close(self, keep_identity: bool = False) -> None:
        pid, title, at = self._identity
        if any(thread.frames for thread in self._threads):
            first = at or self._threads[0].line
            self._dumps.append(Dump(pid, title, self._stream, self._source, first, self._threads))
        self._threads = []
        if not keep_identity:
            self._identity = (0, "", 0)


def _frame(line: str) -> Frame | None:
    found = _FAULT_FRAME.match(line)
    if found:
        return Frame(found.group(3).strip(), found.group(1), int(found.group(2)), False)
    found = _SPY_FRAME.match(line)
    if found:
        file = found.group(2)
        return Frame(found.group(1), file, int(found.group(3) or 0), not _PYTHON_FILE.search(file))
    return None


def _read_json(item: InputText) -> list[Dump]:
    """Read `py-spy dump --json`: a list of threads of one process (or several lists, one a line)."""
    documents: list[Any] = []
    try:
        documents = [json.loads(item.text)]
    except (ValueError, RecursionError):
        for line in item.text.splitlines():
            if line[:1] == "[":
                try:
                    documents.append(json.loads(line))
                except (ValueError, RecursionError):
                    continue
    dumps: list[Dump] = []
    for document in documents:
        by_pid: dict[int, list[Thread]] = {}
        titles: dict[int, str] = {}
        for row in document if isinstance(document, list) else []:
            if not isinstance(row, dict) or not isinstance(row.get("frames"), list):
                continue
            pid = row["pid"] if isinstance(row.get("pid"), int) else 0
            about = row.get("process_info")
            if isinstance(about, dict):
                titles[pid] = str(about.get("command_line", ""))[:1000]
            frames = [frame for frame in map(_json_frame, row["frames"][:MAX_FRAMES]) if frame]
            state = "active" if row.get("active") else "idle"
            state += "+gil" if row.get("owns_gil") else ""
            ident = str(row.get("os_thread_id") or row.get("thread_id") or len(by_pid.get(pid, [])))
            by_pid.setdefault(pid, []).append(Thread(ident, str(row.get("thread_name") or ""), state, frames, 1))
        dumps += [Dump(pid, titles.get(pid, ""), "", item.name, 1, threads) for pid, threads in by_pid.items()]
    return dumps


def _json_frame(row: Any) -> Frame | None:
    if not isinstance(row, dict):
        return None
    file = str(row.get("short_filename") or row.get("filename") or "")[:400]
    line = row["line"] if isinstance(row.get("line"), int) else 0
    return Frame(str(row.get("name", ""))[:400], file, line, not _PYTHON_FILE.search(file))
