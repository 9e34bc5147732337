"""Short cuts of the scan say what the long way says."""

from __future__ import annotations

import datetime
import json
import random
import statistics

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_graph import bundle, patterns
from npu_graph.codes import CodeBook
from npu_graph.logs import averages, context, dispatch, engine, inputs, plog_errors, scan, second_codes, segment
from npu_graph.logs.calendar_days import date_of, days_before
from npu_graph.logs.context import read_around
from npu_graph.logs.errors import error_key
from npu_graph.logs.inputs import Reader, Source, find_sources
from npu_graph.logs.layout import calibrate
from npu_graph.logs.lines import parse_line, read_stamp
from npu_graph.logs.literals import count_in_plain, present_in_plain, rare_end
from npu_graph.logs.plog_errors import MARK, PlogErrors
from npu_graph.logs.record import analyse
from npu_graph.logs.replays import Replays
from npu_graph.logs.scan import Scanner
from npu_graph.logs.second_codes import SecondCodes
from npu_graph.logs.segment import Segment, joined
from npu_graph.logs.signatures import HUBS
from npu_graph.logs.stamps import DAY, Clock, show
from npu_graph.logs.telling_lines import TellingLines
from tests.logs.log_lines import capture, glog, plog, pta, record_of, record_of_paths, replay, vllm

CLOCK = Clock(1_800_000_000_000_000, "test")

plain = st.binary(max_size=60).map(lambda text: text.replace(b"\0", b"x"))
literal = st.binary(min_size=1, max_size=3).map(lambda text: text.replace(b"\0", b"x"))


@settings(max_examples=200, deadline=None)
@given(plain, st.lists(literal))
def test_in_a_text_without_nul_a_literal_is_found_and_counted(text, items):
    assert present_in_plain(text, items) == [item for item in items if item in text]
    assert [count_in_plain(text, item) for item in items] == [text.count(item) for item in items]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HUBS), st.sampled_from(HUBS), plain, st.integers(0, 30))
def test_a_literal_is_found_by_its_rare_end_and_not_taken_for_another_with_that_end(item, other, text, cut):
    assert item.endswith(rare_end(item)) and rare_end(item)
    for made in (text + item + text, text + rare_end(item), text + other[cut:] + text):
        assert present_in_plain(made, (item, other)) == [each for each in (item, other) if each in made]


@pytest.mark.parametrize("number", [0, 1, 2, 99, 100, 101, 5000])
def test_few_and_many_marks_are_counted(number):
    assert count_in_plain((b"x " + MARK) * number + b"[ERROR]", MARK) == number


LINES = [
    glog(1, "NPUGRAPH Capture begin"),
    glog(1, "[ERROR] 2026-03-05-08:00:09 (PID:7, Device:0, RankID:0) ERR00100 PTA call acl api failed"),
    glog(1, "E9999: inner"),
    glog(1, ""),
    glog(1, "x").replace(" ", "", 1),
    plog(1, "[a.cc:1]7 text"),
    plog(1, "[a.cc:1]7 text\x1b[0m"),
    plog(1, "[a.cc:1]7 one\rtwo"),
    plog(1, "[a.cc:1]7 dos\r\n"),
    "[INFO] GE(7,python3):no stamp",
    "[ERROR] RUNTIME(7,python3):2026-13-45-08:00:00.000.000 [a.cc:1]7 no such day",
    "vllm-1  | " + glog(1, "x"),
    "[rank3]: " + glog(1, "x"),
    "2026-03-05T08:00:01.5Z stdout F " + plog(1, "[a.cc:1]7 text"),
    vllm(1, "text"),
    pta(1),
    "",
    "V0305 08:00:01",
    "Traceback (most recent call last):",
]


@pytest.mark.parametrize("line", LINES)
def test_the_stamp_alone_is_that_of_the_whole_line(line):
    raw = line.encode() + b"\n"
    assert read_stamp(raw, CLOCK) == parse_line(raw, CLOCK).stamp


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(LINES), st.integers(0, 60), st.binary(max_size=3))
def test_the_stamp_alone_is_that_of_a_damaged_line(line, at, junk):
    raw = line.encode()
    raw = raw[:at] + junk + raw[at + len(junk) :]
    assert read_stamp(raw, CLOCK) == parse_line(raw, CLOCK).stamp


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"[ERROR] ", b"\n", b"x", b"long line " * 9]), max_size=60), st.integers(1, 40))
def test_texts_less_their_surplus_hold_what_the_lines_hold(tmp_path_factory, parts, size):
    data = b"".join(parts)
    path = tmp_path_factory.mktemp("blocks") / "x.log"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inputs, "BLOCK", size)
        patched.setattr(inputs, "MAX_LINE", 50)
        blocks = list(Reader(Source(str(path), len(data), 0.0, False)).blocks())
    for block in blocks:
        for item in block.lines:
            # What stands in a line stands in a text, but for the line end that a cut line gets.
            assert any(item.rstrip(b"\n") in text for text in block.texts)
        of_texts = sum(text.count(MARK) for text in block.texts) - sum(text.count(MARK) for text in block.surplus)
        is_cut = any(len(item) > 50 for item in block.lines)
        assert is_cut or of_texts == sum(item.count(MARK) for item in block.lines)
    if all(len(item) < 50 for item in data.split(b"\n")):
        assert b"".join(item for block in blocks for item in block.lines) == data


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 5000), min_size=1, max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_replays_in_stretches_join_to_the_replays_of_the_whole(gaps, cuts):
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    whole = Replays()
    for line, us in enumerate(times, 1):
        whole.add(line, us)
    joined = Replays()
    edges = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    for begin, end in zip(edges, edges[1:]):
        part = Replays()
        for line, us in enumerate(times[begin:end], 1):
            part.add(line, us)
        part.settle()
        joined.append(part, begin)
    assert joined.to_record() == whole.to_record()


def test_many_parts_of_a_distribution_are_added_up():
    rnd = random.Random(3)
    whole, joined = Replays(), Replays()
    us = 0
    for stretch in range(40):
        part = Replays()
        for line in range(300):
            us += rnd.randrange(100_000)
            part.add(line, us)
            whole.add(stretch * 300 + line, us)
        part._count_fresh()
        joined.append(part, stretch * 300)
    assert joined.buckets() == whole.buckets()
    assert sum(joined.buckets().values()) == 40 * 300 - 1


def dressed(lines: list[str], every: int) -> str:
    """Give some lines a prefix, so that their heads tell nothing and they are read one by one."""
    return "\n".join("[rank1]: " + line if at % every == 0 else line for at, line in enumerate(lines)) + "\n"


@pytest.mark.parametrize("every", [2, 3, 7])
@pytest.mark.parametrize("block", [100, 1000, 1 << 19])
def test_replays_whose_lines_look_different_keep_their_place_among_the_others(monkeypatch, tmp_path, every, block):
    monkeypatch.setattr(inputs, "BLOCK", block)
    lines = capture(0, 1)
    rnd = random.Random(every)
    now = 2.0
    for _ in range(60):
        now += rnd.random()
        lines.append(replay(now))
    lines += [*capture(now + 1, 1), *(replay(now + 3 + 0.001 * n) for n in range(20))]
    graphs = []
    for name, text in (("plain", "\n".join(lines) + "\n"), ("dressed", dressed(lines, every))):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        record = record_of_paths([str(path)])
        graphs.append([{**graph, "sources": []} for graph in record["replays"]["graphs"]])
    assert sorted(graph["count"] for graph in graphs[0]) == [20, 60]
    assert graphs[1] == graphs[0]


def test_stretches_cover_a_file_large_ones_first():
    size = 1_000_000_000
    for jobs in (2, 3, 8):
        tasks = list(engine._tasks([Source("x.log", size, 0.0, False)], engine.Options(jobs), jobs))
        ends = [task.end for task in tasks]
        assert ends[-1] is None and [task.start for task in tasks] == [0, *ends[:-1]]
        lengths = [end - task.start for task, end in zip(tasks, ends) if end is not None]
        assert lengths == sorted(lengths, reverse=True) and len(lengths) >= jobs
        assert lengths[-1] >= engine.LEAST_STRETCH and lengths[0] <= engine.LARGEST_STRETCH
        assert size - tasks[-1].start <= engine.LEAST_STRETCH
    assert len(list(engine._tasks([Source("x.log", size, 0.0, True)], engine.Options(2), 2))) == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["x", "a longer line " * 3, "y" * 120, "é\r", ""]), min_size=1, max_size=120),
    st.integers(1, 200),
    st.sampled_from([0, 300]),
)
def test_lines_are_read_again_from_a_mark_as_from_the_start(tmp_path_factory, texts, size, stretch):
    path = tmp_path_factory.mktemp("marks") / "x.log"
    path.write_bytes(("\n".join([*texts, "RuntimeError: boom"]) + "\n").encode())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inputs, "BLOCK", size)
        patched.setattr(inputs, "MAX_LINE", 100)
        patched.setattr(segment, "_MARK_EVERY", 100)
        options = engine.Options(jobs=1, stretch=stretch)
        tasks = list(engine._tasks(find_sources([str(path)]).sources, options, 2 if stretch else 1))
        whole = joined(engine.scan_stretch(task).segment for task in tasks)
    assert whole.marks[0] == (0, 0)
    assert len(whole.marks) > path.stat().st_size // (100 + 2 * max(size, 130)) // 2
    for line in range(1, whole.lines + 1, 7):
        assert read_around(path, line, 3, 5, whole.marks) == read_around(path, line, 3, 5), line


def test_a_failure_at_the_end_of_a_file_is_shown_without_counting_its_lines_again(monkeypatch, tmp_path):
    path = tmp_path / "x.log"
    path.write_text("x" * 99 + "\n" + (plog(1, "[a.cc:1]7 fine") + "\n") * 200_000 + "RuntimeError: boom\n")
    found = engine.scan(find_sources([str(path)]), engine.Options())
    sought: list[int] = []
    read = context.read_around
    monkeypatch.setattr(
        context, "read_around", lambda *given, marks: sought.append(marks[-1][1]) or read(*given, marks=marks)
    )
    record = analyse(found, folders=[])
    assert record["first_failure"]["line"] == 200_002
    assert record["first_failure"]["context"][20] == {"line": 200_002, "text": "RuntimeError: boom"}
    assert sought[0] > path.stat().st_size - 6_000_000 > 0


@settings(max_examples=300, deadline=None)
@given(st.dates(), st.integers(0, 86_400_000_000 - 1))
def test_days_are_those_of_the_datetime_module(date, micro):
    days = days_before(date.year, date.month, date.day)
    assert days == (date - datetime.date(1970, 1, 1)).days
    assert date_of(days) == (date.year, date.month, date.day)
    moment = datetime.datetime.combine(date, datetime.time()) + datetime.timedelta(microseconds=micro)
    assert show(days * DAY + micro) == f"{date.year:04d}-{moment:%m-%d %H:%M:%S.%f}"


@pytest.mark.parametrize("year", [0, 1, 1900, 2000, 2023, 2024, 9999, 10000])
def test_a_date_that_is_none_has_no_days(year):
    for month in range(14):
        for day in range(33):
            try:
                wanted = datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal()
            except ValueError:
                wanted = None
            assert days_before(year, month, day) == wanted, (month, day)


def test_a_time_of_no_year_of_four_digits_is_not_shown():
    assert show(253_402_300_800_000_000) == show(-62_135_596_800_000_001) == "-"
    assert show(253_402_300_799_999_999) == "9999-12-31 23:59:59.999999"


@given(st.lists(st.integers(-50, 50), min_size=1))
def test_the_median_is_that_of_the_statistics_module(numbers):
    assert averages.median(numbers) == statistics.median(numbers)


def test_each_knowledge_file_is_read_once_for_a_report(monkeypatch):
    from npu_graph import knowledge

    read: list[str] = []
    load_patterns, load_codes = knowledge.load_patterns, CodeBook.load
    monkeypatch.setattr(knowledge, "load_patterns", lambda folders: read.append("patterns") or load_patterns(folders))
    monkeypatch.setattr(
        knowledge.CodeBook, "load", staticmethod(lambda folders: read.append("codes") or load_codes(folders))
    )
    failure = (
        "RuntimeError: replay failed, NPU function error: c10_npu::acl::AclmdlRIExecuteAsync, error code is 507015"
    )
    record = record_of([*capture(0, 1), failure, pta(2), plog(3, "[a.cc:1]7 f: failed 507015", "ERROR")])
    assert record["diagnosis"] is not None
    assert sorted(read) == ["codes", "patterns"]
    json.dumps(record)


PLACES = [
    "[a.cc:12]7 f: failed, id=3",
    "[a.cc:12]8 f: failed, id=4",
    "[b.cc:9]7 g: failed",
    "[c.cc:1]",
    "no place at all",
]


def error_lines(draws: list[tuple[int, int, int, int]]) -> list[bytes]:
    """Lines of plog errors: of several processes and places, some torn, glued or without a place."""
    lines = []
    for number, (place, pid, module, fault) in enumerate(draws):
        line = plog(number, PLACES[place], "ERROR", ("RUNTIME", "GE")[module], 4242 + pid)
        line += {7: " [ERROR] RUNTIME(1,python3):x", 8: " [rank3]: RuntimeError: x"}.get(fault, "")
        lines.append((line[:40] if fault == 9 else line).encode() + b"\n")
    return lines


def counted(errors: PlogErrors, lines: list[bytes]) -> tuple[list[int], object]:
    for line in (plog(0, place, "ERROR", module, 4242) for place in PLACES[:3] for module in ("RUNTIME", "GE")):
        parsed = parse_line(line.encode(), CLOCK)
        errors.remember(line.encode(), parsed.module, parsed.pid, error_key(parsed))
    unknown = [
        at
        for start in range(0, len(lines), 20)
        for at in errors.count(lines[start : start + 20], range(start, start + 20), 1)
    ]
    segment = Segment()
    errors.flush(segment, CLOCK)
    return sorted(unknown), (segment.errors, segment.processes["4242"].to_record() if segment.processes else None)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1), st.integers(0, 9)), max_size=60))
@pytest.mark.parametrize("most", [1, 255])
def test_errors_counted_together_are_those_counted_one_by_one(most, draws):
    lines = error_lines(draws)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plog_errors, "_LAST", most)
        together = counted(PlogErrors(0, False, 100), lines)
        patched.setattr(PlogErrors, "_codes", lambda *_: None)
        assert together == counted(PlogErrors(0, False, 100), lines)


def with_times(seconds: list[float]) -> list[str]:
    """Lines of torch_npu at these times, every other a replay, in the order given."""
    return [
        *capture(0, 1),
        *(
            replay(at) if number % 2 else glog(at, "x", file="NPUCachingAllocator.cpp:1")
            for number, at in enumerate(seconds)
        ),
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(-3, 300), max_size=120).map(
        lambda steps: [2 + sum(steps[:at]) / 100 for at in range(len(steps))]
    ),
    st.sampled_from([1, 70, 500, 1 << 19]),
    st.sampled_from([second_codes.FIRST_SECOND, second_codes.FIRST_SECOND + 40, second_codes.LAST_SECOND]),
)
def test_seconds_told_by_the_heads_of_lines_are_those_of_their_stamps(tmp_path_factory, seconds, block, last):
    path = tmp_path_factory.mktemp("seconds") / "x.log"
    path.write_text("\n".join(with_times(seconds)) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inputs, "BLOCK", block)
        patched.setattr(second_codes, "LAST_SECOND", last)
        record = record_of_paths([str(path)])
        patched.setattr(SecondCodes, "code", lambda self, head, level: level)  # no second has a code
        assert record == record_of_paths([str(path)])
    assert record["replays"]["count"] == len(seconds) // 2
    assert record["levels"] == {"DEBUG": len(with_times(seconds))}


def test_a_replay_whose_stamp_is_no_time_is_counted_and_has_none():
    lines = [*capture(0, 1), *(replay(2 + number / 1000) for number in range(9))]
    lines.insert(5, replay(3).replace("V0305 ", "V0231 "))
    replays = record_of(lines)["replays"]
    assert replays["count"] == 10
    assert replays["graphs"][0]["last_us"] - replays["graphs"][0]["first_us"] == 8000


def test_more_seconds_than_codes_are_read_from_the_lines():
    codes = SecondCodes(CLOCK)
    heads = [f"V0305 08:{at // 60:02}:{at % 60:02}".encode() for at in range(200)]
    given_codes = [codes.code(head, dispatch.GLOG_DEBUG) for head in heads]
    number = second_codes.LAST_SECOND - second_codes.FIRST_SECOND + 1
    assert given_codes == [*range(second_codes.FIRST_SECOND, 256), *[dispatch.GLOG_DEBUG] * (200 - number)]
    assert codes.is_short
    assert codes.start_over() == heads[:number]
    assert not codes.is_short
    assert codes.code(b"V0230 08:00:00", dispatch.GLOG_INFO) == dispatch.GLOG_INFO  # no such day
    first, second = (codes.code(head, dispatch.GLOG_INFO) for head in heads[:2])
    block = bytes([first, 0, first, second, 20, second])
    present = codes.present(block)
    assert present == [(first, dispatch.GLOG_INFO), (second, dispatch.GLOG_INFO)]
    in_order = codes.in_order(block, present)
    assert in_order is not None
    assert [end for end, _ in in_order] == [3, 6]
    assert in_order[1][1] - in_order[0][1] == 1_000_000
    assert codes.in_order(block + bytes([first]), present) is None


AGAIN = [
    "Traceback (most recent call last):",
    "    graph.replay()",
    "RuntimeError: replay failed, error code is 507015",
    "RuntimeError: replay failed, error code is 507015" + " x" * 4000,
    pta(9),
    "Killed",
    "error log can be ignored",
    "all is well",
    "x" * 5000,
    "[rank1]: all is well",
    plog(1, "[a.cc:1]7 on"),
]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, len(AGAIN) - 1), max_size=80), st.integers(1, 30), st.sampled_from(["", "vllm-1  | "]))
def test_lines_that_come_again_say_what_they_said_first(draws, per_block, prefix):
    lines = [(prefix + AGAIN[draw] + "\n").encode() for draw in draws] + [plog(2, "[a.cc:1]7 end").encode() + b"\n"]

    def segment_of() -> object:
        source = Source("made.log", sum(map(len, lines)), 0.0, False)
        scanner = Scanner(calibrate(b"".join(lines), source))
        for start in range(0, len(lines), per_block):
            scanner.feed(b"".join(lines[start : start + per_block]))
        return scanner.finish(source.size).to_record()

    remembered = segment_of()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scan, "_QUIET_LENGTH", -1)
        patched.setattr(TellingLines, "is_repeated", lambda *_: False)
        assert remembered == segment_of()


KNOWN_PATTERNS = (bundle.SEED_KNOWLEDGE / patterns.PATTERN_FILE).read_text(encoding="utf-8").split("\n")
FAULTS = [
    "```",
    "- X: y",
    "- Cause",
    "- Cause:",
    "-  Cause: a",
    "- Cause (zh):x",
    "- Fix now : x",
    "text",
    "## a",
    "- Stage: q\x0b",
]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, len(KNOWN_PATTERNS) - 100),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from(FAULTS)), max_size=9),
)
def test_fields_told_by_their_names_are_those_that_the_expression_finds(start, faults):
    lines = KNOWN_PATTERNS[start : start + 100]
    for at, fault in faults:
        lines.insert(at, fault)
    told = patterns.parse_patterns("\n".join(lines), "x.md")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(patterns, "_KNOWN_FIELDS", frozenset())
        assert told == patterns.parse_patterns("\n".join(lines), "x.md")
