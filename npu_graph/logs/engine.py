"""Scan files in one or several processes, with progress, and keep what was found when interrupted."""

from __future__ import annotations

import os
import signal
import zlib
from bisect import bisect_left
from typing import Callable, Iterator, NamedTuple, Sequence

from npu_graph.logs.inputs import Found, Reader, Source
from npu_graph.logs.layout import calibrate
from npu_graph.logs.partial import Partial, SourceInfo
from npu_graph.logs.scan import Scanner
from npu_graph.logs.segment import Segment
from npu_graph.logs.stamps import local_time

# A file is cut into stretches for several processes: large ones first, as each learns the heads of lines anew, small
# ones at the end, so that no process waits long for another. What is not finished when a user interrupts is lost.
LEAST_STRETCH, LARGEST_STRETCH = 16 << 20, 96 << 20
# Below this, starting processes costs more than they save.
PARALLEL_FROM = 32 << 20

Progress = Callable[[int, int], None]


class Options(NamedTuple):
    """How to scan.

    Attributes:
        jobs: number of processes.
        since, until: microseconds, or None.
        year: year of stamps that have none, or None to derive it.
        host: name of this host in the result; '' when there is only one.
        stretch: bytes per stretch when a file is cut, 0 to choose.
    """

    jobs: int = 1
    since: int | None = None
    until: int | None = None
    year: int | None = None
    host: str = ""
    stretch: int = 0


class _Task(NamedTuple):
    number: int
    source: Source
    start: int
    end: int | None
    options: Options


class _Done(NamedTuple):
    task: _Task
    segment: Segment
    info: SourceInfo
    error: str


def scan(found: Found, options: Options, progress: Progress | None = None) -> Partial:
    """Scan the sources; an unreadable one is listed, an interrupt keeps the stretches that are complete."""
    partial = Partial()
    partial.skipped = {(options.host, item.path, item.reason) for item in found.skipped}
    total = sum(source.size for source in found.sources)
    jobs = options.jobs if total >= (2 * options.stretch or PARALLEL_FROM) else 1
    tasks = list(_tasks(found.sources, options, jobs))
    runs: dict[str, list[_Run]] = {}
    read = 0
    results = _parallel(tasks, jobs) if jobs > 1 and len(tasks) > 1 else _serial(tasks, partial)
    try:
        for item in results:
            _join(runs.setdefault(item.task.source.path, []), item)
            read += max(0, (item.segment.end if item.task.end is None else item.task.end) - item.task.start)
            if progress is not None:
                progress(min(read, total), total)
    except KeyboardInterrupt:
        partial.interrupted = True
    _collect(partial, runs, options)
    return partial


class _Run:
    """Stretches of a file that touch, joined as they come: kept apart, those of a large file fill the memory."""

    def __init__(self, done: _Done) -> None:
        self.segment = done.segment
        self.info = done.info
        self.notes = set(done.info.notes)
        self.errors = [done.error] if done.error else []

    def append(self, other: _Run) -> None:
        """Append the run that starts where this one ends."""
        self.segment.append(other.segment)
        self.notes |= other.notes
        self.errors += other.errors


def _join(runs: list[_Run], done: _Done) -> None:
    """Add a stretch to a file's runs, which are in order and do not touch."""
    at = bisect_left([run.segment.start for run in runs], done.segment.start)
    runs.insert(at, _Run(done))
    for left in (at, at - 1):
        if 0 <= left < len(runs) - 1 and runs[left].segment.end == runs[left + 1].segment.start:
            runs[left].append(runs.pop(left + 1))


def _collect(partial: Partial, by_source: dict[str, list[_Run]], options: Options) -> None:
    for path, runs in by_source.items():
        errors = [error for run in runs for error in run.errors]
        if errors and not any(run.segment.lines for run in runs):
            partial.skipped.add((options.host, path, errors[0]))
            continue
        notes = sorted({note for run in runs for note in run.notes} | set(errors))
        info = runs[0].info._replace(notes=tuple(notes))
        for run in runs:  # more than one where an interrupt left holes
            partial.add(info, [run.segment])


def _tasks(sources: Sequence[Source], options: Options, jobs: int) -> Iterator[_Task]:
    number = 0
    for source in sources:
        start: int | None = 0
        while start is not None:
            left = source.size - start
            length = options.stretch or min(LARGEST_STRETCH, max(LEAST_STRETCH, left * 4 // (5 * jobs)))
            # A line without a stamp has that of a line before it, which may stand in another stretch.
            is_windowed = options.since is not None or options.until is not None
            cut = jobs > 1 and not source.packed and source.path != "-" and left > length and not is_windowed
            end = start + length if cut else None
            yield _Task(number, source, start, end, options)
            number += 1
            start = end


def _serial(tasks: Sequence[_Task], partial: Partial) -> Iterator[_Done]:
    for task in tasks:
        done = scan_stretch(task)
        yield done
        if done.error == "interrupted":
            partial.interrupted = True
            return


def _parallel(tasks: Sequence[_Task], jobs: int) -> Iterator[_Done]:
    import multiprocessing  # a scan in one process starts faster without it

    # Fork where it exists: starting is instant and nothing has to be imported again.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else None)
    pool = context.Pool(min(jobs, len(tasks)), initializer=_ignore_interrupt)
    try:
        yield from pool.imap_unordered(scan_stretch, tasks)
        pool.close()
    finally:
        pool.terminate()
        pool.join()


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def scan_stretch(task: _Task) -> _Done:
    """Scan one stretch of one file."""
    options, source = task.options, task.source
    reader = Reader(source, task.start, task.end)
    scanner: Scanner | None = None
    ended = local_time(source.mtime) if source.mtime else None
    info = SourceInfo(options.host, source.path, source.size, "", None, (), ended)
    error = ""
    try:
        for block in reader.blocks():
            if scanner is None:
                head = block.texts[0] if source.path == "-" else reader.head()
                layout = calibrate(head, source, options.year)
                info = info._replace(clock=layout.clock.source, zone=layout.clock.zone)
                scanner = Scanner(layout, task.start, options.since, options.until)
            if reader.at is not None:
                scanner.segment.mark(reader.at)
            scanner.feed_lines(block.lines, block.texts, block.surplus)
            del block
    except KeyboardInterrupt:
        error = "interrupted"
    except (OSError, EOFError, zlib.error) as problem:
        error = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    end = task.end if task.end is not None else max(source.size, task.start)
    segment = scanner.finish(end) if scanner is not None else Segment(task.start)
    segment.end = end
    if task.start or task.end is not None:
        segment.settle()
    return _Done(task, segment, info._replace(notes=tuple(sorted(reader.notes))), error)


def default_jobs() -> int:
    """Return the number of processors this process may use, at most 8."""
    try:
        number = len(os.sched_getaffinity(0))
    except AttributeError:
        number = os.cpu_count() or 1
    return max(1, min(8, number))
