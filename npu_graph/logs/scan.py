"""One pass over a stretch of a log: noise is told from signal by line heads, at the speed of the C loops beneath."""

from __future__ import annotations

import io
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, chain, compress, repeat
from operator import itemgetter
from typing import Callable, Iterable, Sequence

from npu_graph.expressions import compile_on_use
from npu_graph.logs import dispatch
from npu_graph.logs.dispatch import CHECK, ERROR, SIGNAL, Entries, Entry, GlogTable, HeadTable, PlogTable
from npu_graph.logs.layout import Layout
from npu_graph.logs.lines import MAX_TEXT, parse_line
from npu_graph.logs.literals import count_in_plain, present_in_plain, present_literals
from npu_graph.logs.plog_errors import MARK, PlogErrors
from npu_graph.logs.processes import line_process
from npu_graph.logs.replay_lines import TO_READ, ReplayLines
from npu_graph.logs.second_codes import FIRST_SECOND, SecondCodes
from npu_graph.logs.segment import MAX_CLUSTERS, Segment
from npu_graph.logs.service_lines import SGLANG_KEY, VLLM_KEY, ServiceLines
from npu_graph.logs.signatures import HUBS
from npu_graph.logs.telling_lines import TellingLines

_PREFIX = compile_on_use(
    rb"(?:20\d\d-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (?:(?:stdout|stderr) [FP] )?)?"
    rb"(?:[A-Za-z0-9][\w.-]{0,60} {0,30}\| ?|\[(?:pod|container)/[\w./-]{1,200}\] "
    rb"|\[(?:rank|default|stdout|stderr) ?\d{1,5}\]:? ?(?!\[W))?"
)
# Where so large a share (1/16) of the lines is searched, it is asked first whether the block holds a literal at all:
# that is quicker than joining the lines.
_LARGE_SHARE = 16
# Fewer than one line in so many is few.
_FEW = 16
# How many lines are remembered that say nothing, and how long they may be.
_QUIET_MOST, _QUIET_LENGTH = 2048, 300
# Lines in a block, unless they are very short.
_LINES_MOST = 8192


@lru_cache(maxsize=256)
def _mask(*codes: int) -> bytes:
    """Return a table for bytes.translate: 1 for these codes, 0 for others."""
    return bytes(1 if code in codes else 0 for code in range(256))


_GLOG_LEVELS = {dispatch.GLOG_DEBUG: "DEBUG", dispatch.GLOG_INFO: "INFO", dispatch.GLOG_WARNING: "WARNING"}
_IS_GLOG = bytes(1 if code in dispatch.GLOG or code >= FIRST_SECOND else 0 for code in range(256))


class Scanner:
    """Scans consecutive blocks of one stretch of one file.

    Args:
        layout: the file's layout.
        start: offset of the stretch in the file.
        since, until: microseconds; events and errors outside are left out.
    """

    def __init__(self, layout: Layout, start: int = 0, since: int | None = None, until: int | None = None) -> None:
        segment = self.segment = Segment(start)
        clock = self._clock = layout.clock
        self._is_stripped = layout.stripped
        self._entries, self._services = Entries(), Entries()
        o = self._o = 0 if layout.stripped else layout.offset
        self._seconds = SecondCodes(clock)
        self._table = (PlogTable if layout.long_heads else HeadTable)(self._entries, self._seconds)
        self._head_code = self._table.__getitem__
        self._head = itemgetter(slice(o, o + (dispatch.LONG_HEAD if layout.long_heads else dispatch.SHORT_HEAD)))
        self._glog_code = GlogTable(self._entries).__getitem__
        self._glog_head = itemgetter(slice(o + dispatch.GLOG_FROM, o + dispatch.GLOG_TO))
        self._replays = ReplayLines(segment, clock, o, since, until)
        self._plog_errors = PlogErrors(o, layout.long_heads, MAX_CLUSTERS)
        self._telling = TellingLines(
            segment, clock, self._entries, self._replays, self._plog_errors, since, until, MAX_CLUSTERS
        )
        self._service_formats = tuple(
            (
                code,
                ServiceLines(code == dispatch.SGLANG, self._services, line_process),
                itemgetter(slice(o + key.start, o + key.stop)),
            )
            for code, key in ((dispatch.SERVICE, VLLM_KEY), (dispatch.SGLANG, SGLANG_KEY))
        )
        self._quiet: set[bytes] = set()  # lines that hold no literal
        # Of 0, 1, 2 ...: a list, as taking numbers from it costs half of making them.
        self._indexes: Sequence[int] = list(range(_LINES_MOST))

    # -- one block ---------------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """Scan a block of whole lines."""
        self.feed_lines(io.BytesIO(block).readlines(), (block,))

    def feed_lines(self, raw: list[bytes], texts: Sequence[bytes], surplus: Sequence[bytes] = ()) -> None:
        """Scan whole lines; whatever stands in one of them stands in one of the texts as well.

        Args:
            surplus: what stands in the texts once more than in the lines.
        """
        lines = [line[_PREFIX.match(line).end() :] for line in raw] if self._is_stripped else raw  # type: ignore[union-attr]
        self._raw, self._lines, self._texts, self._base = raw, lines, texts, self.segment.lines + 1
        # Asked once of a block, not at every search in a part of it.
        is_plain = not any(b"\0" in text for text in texts)
        self._present = present_in_plain if is_plain else present_literals
        self._count = count_in_plain if is_plain else bytes.count
        self._table.begin_block()
        codes = bytes(map(self._head_code, map(self._head, lines)))
        self._replays.begin_block(self._base)
        self._telling.begin(raw, lines, codes, self._base)
        if len(lines) > len(self._indexes):
            self._indexes = range(len(lines))
        present = self._entries.present(codes)
        hits: set[int] = set()
        counted = self._plog(codes, present, hits)
        residue: list[int] = []
        seconds = self._seconds.present(codes)
        undated = present & dispatch.GLOG
        if seconds or undated:
            for code, level in [*seconds, *((code, code) for code in undated)]:
                self.segment.count_level(_GLOG_LEVELS[level], codes.count(code))
            self._replays.begin_times(self._seconds.in_order(codes, seconds) if not undated else None)
            self._glog(codes, hits, residue)
        for code, service, key in self._service_formats:
            if code in present:
                self._service(codes.translate(_mask(code)), service, key, hits, residue)
        if dispatch.BAD in present:
            hits.update(self._marked(codes.translate(_mask(dispatch.BAD))))
        if dispatch.UNKNOWN in present or dispatch.SLOW in present:
            residue += self._marked(codes.translate(_mask(dispatch.UNKNOWN, dispatch.SLOW)))
        if residue:
            self._search_residue(residue, hits)
        # One by one only where there are few: those that were counted are known to be there.
        count = self._count if counted * _FEW < len(lines) else bytes.count
        marks = sum(count(text, MARK) for text in texts) - sum(text.count(MARK) for text in surplus)
        if marks > counted:
            self._add_hidden_errors(hits, marks - counted)
        self._telling.read(sorted(hits))
        self._replays.end_block()
        self._telling.end()
        self._raw, self._lines, self._texts = [], [], ()

    def _marked(self, mask: bytes) -> list[int]:
        """Return the positions of the ones; few are found one by one, as many are quicker taken from all numbers."""
        if mask.count(1) * _FEW > len(mask):
            return list(compress(self._indexes, mask))
        found = []
        at = mask.find(1)
        while at >= 0:
            found.append(at)
            at = mask.find(1, at + 1)
        return found

    def _chosen(self, mask: bytes) -> tuple[list[int], list[bytes]]:
        """Return the positions of the ones, and the lines there."""
        where = self._marked(mask)
        if len(where) * 2 > len(mask):
            return where, list(compress(self._lines, mask))
        return where, list(map(self._lines.__getitem__, where))

    def _few(self, lines: Sequence[bytes], mask: bytes) -> Iterable[bytes]:
        """Return the lines at the ones, which are few as a rule."""
        if mask.count(1) * _FEW > len(mask):
            return compress(lines, mask)
        return map(lines.__getitem__, self._marked(mask))

    def _add_hidden_errors(self, hits: set[int], marks: int) -> None:
        """Be sure that no error hides in a line that its head called noise: the hits should hold all error marks."""
        if marks <= sum(self._lines[index].count(MARK) for index in hits):
            return
        for index, line in enumerate(self._lines):
            if MARK in line and index not in hits and not self._plog_errors.is_counted(line):
                hits.add(index)

    # -- formats ------------------------------------------------------------------------------------------------

    def _plog(self, codes: bytes, present: set[int], hits: set[int]) -> int:
        """Count plog lines per entry; collect errors and lines with a signal. Returns how many errors were counted."""
        entries = self._entries
        where = self._indexes
        counts = entries.note(codes, present, where, self._raw, self._base)
        counted = 0
        bad = present & entries.of_action[ERROR]
        if bad:
            where_bad, errors = self._chosen(codes.translate(_mask(*sorted(bad))))
            unknown = self._plog_errors.count(errors, where_bad, self._base)
            counted = len(errors) - len(unknown)
            hits.update(unknown)
        self._check(self._lines, where, codes, counts, hits)
        return counted

    def _check(
        self, lines: Sequence[bytes], where: Sequence[int], codes: bytes, counts: dict[int, int], hits: set[int]
    ) -> None:
        """Search the lines of entries that matter only with one of their literals; `counts` are those of the codes."""
        checked = self._entries.checked
        large: list[tuple[bytes, ...]] = []
        small: list[tuple[bytes, ...]] = []
        for literals, searched in checked.items():
            number = sum(map(counts.get, searched, repeat(0)))
            if number:
                (large if number * _LARGE_SHARE > len(self._lines) else small).append(literals)
        there: set[bytes] = set()
        if large:
            wanted = set().union(*large)
            there.update(chain.from_iterable(self._present(text, wanted) for text in self._texts))
        if small:  # all of them in one go; that one is there is rare
            mask = codes.translate(_mask(*(code for literals in small for code in checked[literals])))
            there.update(self._present(b"".join(self._few(lines, mask)), set().union(*small)))
        for literals in (*large, *small) if there else ():
            found = there.intersection(literals)
            if found:
                self._search(lines, where, codes.translate(_mask(*checked[literals])), found, hits)

    def _glog(self, codes: bytes, hits: set[int], residue: list[int]) -> None:
        """Sort lines of torch_npu by process and file; take the replays, search others, leave out the rest."""
        where, lines = self._chosen(codes.translate(_IS_GLOG))
        kinds = bytes(map(self._glog_code, map(self._glog_head, lines)))
        entries = self._entries
        present = entries.present(kinds)
        counts = entries.note(kinds, present, where, self._raw, self._base)
        if dispatch.SLOW in present:
            residue += compress(where, kinds.translate(_mask(dispatch.SLOW)))
        self._check(lines, where, kinds, counts, hits)
        signal = present & entries.of_action[SIGNAL]
        if signal:
            chosen = kinds.translate(_mask(*sorted(signal)))
            self._graph_lines(list(compress(lines, chosen)), list(compress(where, chosen)), hits)

    def _graph_lines(self, lines: list[bytes], where: list[int], hits: set[int]) -> None:
        """Take the replays among the lines of torch_npu's graph files; others are read, or say nothing."""
        numbers = self._replays.numbers(lines)
        if min(numbers) <= 0:
            hits.update(index for index, number in zip(where, numbers) if number == TO_READ)
            is_replay = [number > 0 for number in numbers]
            lines, where, numbers = (list(compress(items, is_replay)) for items in (lines, where, numbers))  # type: ignore[assignment]
        if numbers:
            self._replays.take(lines, numbers, where)

    def _service(
        self,
        mask: bytes,
        service: ServiceLines,
        key: Callable[[bytes], bytes],
        hits: set[int],
        residue: list[int],
    ) -> None:
        """Statistics of a service are noise, its errors are read, the rest is searched."""
        raw, o = self._raw, self._o
        where, lines = self._chosen(mask)
        codes = service.codes(
            list(map(key, lines)), lambda at: lines[at][o:], lambda at: parse_line(raw[where[at]], self._clock)
        )
        entries = self._services
        present = entries.present(codes)
        entries.note(codes, present, where, raw, self._base)
        bad = present & entries.of_action[ERROR]
        if bad:
            hits.update(compress(where, codes.translate(_mask(*sorted(bad)))))
        others = (present & entries.of_action[CHECK]) | (present & {dispatch.SLOW})
        if others:
            residue += compress(where, codes.translate(_mask(*sorted(others))))

    def _search(
        self, lines: Sequence[bytes], where: Sequence[int], mask: bytes, literals: Iterable[bytes], hits: set[int]
    ) -> None:
        """Add the lines chosen by the mask that hold one of the literals."""
        text = b"".join(compress(lines, mask))
        found = self._present(text, literals) if text else []
        if not found:
            return
        ends = list(accumulate(map(len, compress(lines, mask))))
        chosen = list(compress(where, mask))
        for literal in found:
            at = text.find(literal)
            while at >= 0:
                row = bisect_right(ends, at)
                hits.add(chosen[row])
                at = text.find(literal, ends[row])

    def _search_residue(self, residue: list[int], hits: set[int]) -> None:
        """Search lines whose head tells nothing; those that say nothing, or what was read before, often come again."""
        quiet = self._quiet
        residue = [index for index in residue if self._lines[index] not in quiet]
        long_lines = sum(1 for index in residue if len(self._lines[index]) > MAX_TEXT)
        repeated = {index for index in residue if self._telling.is_repeated(self._raw[index])}
        hits |= repeated
        residue = [index for index in residue if index not in repeated] if repeated else residue
        lines = [self._lines[index] for index in residue]
        if long_lines:
            self.segment.count("long_lines", long_lines)
            lines = [line if len(line) <= MAX_TEXT else line[:MAX_TEXT] + b"\n" for line in lines]
        found: set[int] = set()
        self._search(lines, residue, b"\1" * len(lines), HUBS, found)
        hits |= found
        if len(quiet) > _QUIET_MOST:
            quiet.clear()
        quiet.update(line for index, line in zip(residue, lines) if len(line) <= _QUIET_LENGTH and index not in found)

    # -- end -----------------------------------------------------------------------------------------------------

    def finish(self, end: int) -> Segment:
        """Return the segment; no more blocks may follow."""
        segment = self.segment
        self._replays.finish()
        self._plog_errors.flush(segment, self._clock)
        for entry in (*self._entries.by_code.values(), *self._services.by_code.values()):
            if entry.count:
                self._add_entry(entry)
        segment.replays = {name: found for name, found in segment.replays.items() if len(found) > 1 or found[0].count}
        segment.trim_clusters()
        segment.end = end
        return segment

    def _add_entry(self, entry: Entry) -> None:
        """Add the lines that were counted by their heads."""
        segment = self.segment
        if entry.level:
            segment.count_level(entry.level, entry.count)
        segment.forms[entry.form] = segment.forms.get(entry.form, 0) + entry.count
        if entry.pid:
            segment.process(entry.pid).lines += entry.count
            for number, raw in ((entry.first_line, entry.first), (entry.last_line, entry.last)):
                segment.describe(entry.pid, number, parse_line(raw or b"", self._clock))
