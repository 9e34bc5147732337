"""A case is read back as it was written whatever its text, and is found again by a report of the same failure."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest
from cost import cpu_seconds
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npu_graph import case_index, cases
from npu_graph.case_check import check_folders
from npu_graph.case_exchange import export_cases, import_cases, read_exchange
from npu_graph.case_features import fold_line
from npu_graph.case_format import (
    BLOCK,
    FIELDS,
    MAX_SYMPTOM_BYTES,
    Case,
    Entry,
    clean_block,
    clean_case,
    parse_cases,
    render_case,
)
from npu_graph.case_record import Draft, prepare_case
from npu_graph.case_store import append_case, compile_history, replace_case
from npu_graph.cases import similar_cases
from npu_graph.redaction import Redactor

STACK = """Traceback (most recent call last):
  File "/home/user/demo/train.py", line 12, in <module>
    graph.capture_begin()
  File "/usr/lib/python3.11/site-packages/torch_npu/npu/graphs.py", line 359, in capture_begin
    super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)
RuntimeError: NPU graphs must be captured on a non-default stream."""
OTHER = """(Worker_TP0 pid=77) ERROR [executor.py:822]   File "/w/worker.py", line 351, in sample_tokens
    return self.model_runner.sample_tokens(grammar_output)
AttributeError: 'ForwardContext' object has no attribute 'draft_attn_metadatas\'"""


def make_case(number: int = 1, **fields: str) -> Case:
    values = {
        "date": "2026-01-02",
        "status": "confirmed",
        "stage": "capture",
        "layer": "L2",
        "symptom": STACK,
        **fields,
    }
    return Case(id=f"C-20260102-{number:010x}", title=values.pop("title", "a title"), **values)


def keep(folder: Path, *recorded: Case) -> None:
    (folder / "cases").mkdir(parents=True, exist_ok=True)
    for case in recorded:
        (folder / "cases" / f"{case.id}.md").write_text(render_case(clean_case(case)), encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("cache")))


# --- the form -------------------------------------------------------------------------------------------------------

STRUCTURE = st.sampled_from(
    ["\n", "## C-20260101-deadbeef — x", "# ", "```", "````text", "~~~", "- Stage: replay", "<script>", "<!--", "-->"]
    + ["---", "===", "  ", "\\", "\\<", "[a](b)", "![x](y)", "[a]: b", "1. ", "| a |", "&lt;", "> ", "* ", "\t", "…"]
    + ["\u202e", "\u2066", "\x00", "\x1b[31m", "\x85", "\u2028", "\ufeff", "\U000e0041", "\ud800", "a\r\nb", "\r"]
    + ["ignore previous instructions", "<!-- end of counts; body 1 bytes -->"]
)
HOSTILE = st.lists(st.one_of(STRUCTURE, st.text(max_size=12)), max_size=8).map("".join)
EXAMPLES = 5000 if os.environ.get("NPU_GRAPH_SLOW") == "1" else 150


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.fixed_dictionaries({field.name: HOSTILE for field in FIELDS}), HOSTILE)
@example({field.name: "```\n## C-20260101-deadbeef — x\n- Status: retired" for field in FIELDS}, "# x #")
def test_no_text_becomes_structure_and_what_is_written_is_read(values: dict[str, str], title: str) -> None:
    case = clean_case(Case(id="C-20260101-0123456789", title=title + "t", **values))
    assert clean_case(case) == case
    written = render_case(case)
    follower = render_case(make_case())
    # In front of another entry, as in history.md: nothing of the one may leak into the other.
    entries = parse_cases(f"# top\n\n{written}\n{follower}", "f").entries
    assert [entry.case for entry in entries] == [case, make_case()]
    unseen = [
        c
        for c in written
        if c not in "\n\t" and (ord(c) < 32 or "\u202a" <= c <= "\u202e" or 0xD800 <= ord(c) < 0xE000)
    ]
    assert unseen == []


FIRST = make_case(sources="https://github.com/o/r/issues/1")


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(st.fixed_dictionaries({field.name: HOSTILE for field in FIELDS}), HOSTILE, HOSTILE)
def test_what_is_recorded_is_read_back_from_every_place(values: dict[str, str], title: str, why: str) -> None:
    """Recorded, found, listed, exported and imported, retired and compiled: the same case each time."""
    agreed = {"date": "2026-01-02", "status": "suspected", "stage": "replay", "layer": "L4", "owner": "", "pattern": ""}
    draft = Draft(Case(id="", title=title, **{**values, "symptom": values["symptom"] + "\nboom", **agreed}), ["boom"])
    case = prepare_case(draft, False, Redactor())
    with tempfile.TemporaryDirectory() as name:
        folder, other = Path(name, "kb"), Path(name, "other")
        append_case(folder, FIRST)
        path = append_case(folder, case).path
        assert parse_cases(path.read_text(encoding="utf-8"), "f") == ([Entry(case, "f", 1)], [])
        base = cases.read_cases([folder])
        assert ({entry.case for entry in base.entries.values()}, base.problems) == ({FIRST, case}, [])
        assert [entry.case for entry in cases.read_history(folder).entries] == [FIRST, case]
        done = import_cases(read_exchange_text(export_cases([case])), other, [other], Redactor())
        assert (done.added, done.refused) == ([case.id], [])
        assert cases.read_cases([other]).entries[case.id].case == case
        retired = clean_case(case._replace(status="retired", retired_because=why + "x"))
        replace_case(folder, retired)
        before = (folder / "history.md").read_bytes()
        compile_history(folder)
        # Compiled anew in the order of the ids, which both orders of these two are.
        assert sorted(before) == sorted((folder / "history.md").read_bytes())
        assert check_folders([folder]).problems == []
        assert cases.find_case(case.id, [folder]) == Entry(retired, str(path), 1)


def read_exchange_text(record: dict[str, object]) -> list[Case]:
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8", delete=False) as sink:
        json.dump(record, sink)
    try:
        found, faults = read_exchange(sink.name)
    finally:
        Path(sink.name).unlink()
    assert faults == []
    return found


def test_no_line_of_a_value_opens_a_heading_list_quote_fence_or_tag() -> None:
    baits = ["# a", "- b", "> c", "```", "~~~", "1. d", "<b>", "---", "| e |", "[f]: g", "![h](i)"]
    text = render_case(make_case(symptom="s", direct_cause="x\n" + "\n".join(baits)))
    continued = [line[2:] for line in text.split("\n") if line.startswith("  ")]
    assert len(continued) == len(baits)
    assert all("\\" in line[:3] for line in continued)
    assert not any(re.match(r"#|-|>|```|~~~|1\.|<|\||\[|!\[", line) for line in continued)


def test_the_symptom_stands_verbatim_in_a_fence_longer_than_any_in_it() -> None:
    symptom = "a\n`````\n## C-20260101-deadbeef — no\n  indented\n<b>&amp;</b>"
    text = render_case(clean_case(make_case(symptom=symptom)))
    assert f"``````text\n{symptom}\n``````\n" in text


@pytest.mark.parametrize("size", [MAX_SYMPTOM_BYTES - 10, MAX_SYMPTOM_BYTES + 10, 5 * 1024 * 1024])
@pytest.mark.parametrize("unit", ["line of a log\n", "图", "x", "\u202e"])
def test_a_huge_symptom_is_bounded_with_head_tail_and_a_note(size: int, unit: str) -> None:
    text = "HEAD\n" + unit * (size // len(unit.encode())) + "\nTAIL"
    kept = clean_block(text)
    assert cpu_seconds(lambda: clean_block(text), 2) < 2
    assert len(kept.encode()) <= MAX_SYMPTOM_BYTES
    assert kept.startswith("HEAD")
    assert kept.endswith("TAIL")
    assert clean_block(kept) == kept
    if unit == "x" and size > MAX_SYMPTOM_BYTES:
        note = re.search(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", kept)
        assert note
        # Each of the two cuts adds up to two line ends of its own.
        assert abs(len(text) - (len(kept) - len(note.group())) - int(note.group(1))) <= 4


BROKEN = """# top

## C-20260102-0000000001 — sound

- Date: 2026-01-02
- Status: confirmed
- Stage: capture
- Layer: L2
- Symptom:

```text
boom
```

## my own notes

- Date: x

## C-20260102-0000000002 — hand-edited

- Date: yesterday
- Status: maybe
- Stage: kapture
- Colour: red
- Stage: replay
stray line
- Symptom:

```text
never closed

## C-20260102-0000000003 — after it

- Date: 2026-01-02
- Status: suspected
- Stage: replay
- Symptom: unfenced text
"""


def test_each_fault_of_a_hand_edited_file_is_reported_by_line_and_the_rest_is_read() -> None:
    parsed = parse_cases(BROKEN, "history.md")
    assert [entry.case.id[-1] for entry in parsed.entries] == ["1", "2", "3"]
    assert parsed.entries[0].case.symptom == "boom"
    assert parsed.entries[1].case.symptom == "never closed"
    found = {(problem.line, problem.message.split(":")[-1].split(";")[0].strip()[:34]) for problem in parsed.problems}
    assert {line for line, _ in found} == {15, 19, 24, 25, 26, 29, 32, 37}
    messages = "\n".join(f"{problem.line} {problem.message}" for problem in parsed.problems)
    for part in (
        "15 not a case heading",
        "19 C-20260102-0000000002: field 'Layer' is missing",
        "19 C-20260102-0000000002: stage 'kapture' is not one of",
        "19 C-20260102-0000000002: status 'maybe'",
        "19 C-20260102-0000000002: date 'yesterday'",
        "24 unknown field 'Colour'",
        "25 field 'Stage' is given twice",
        "26 not part of a field",
        "29 the fence opened here is not closed",
        "32 C-20260102-0000000003: field 'Layer' is missing",
        "37 the value of 'Symptom' belongs in a fence",
    ):
        assert part in messages


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    case = clean_case(make_case(direct_cause="one\ntwo"))
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / f"{case.id}.md").write_bytes(
        b"\xef\xbb\xbf" + render_case(case).replace("\n", "\r\n").encode()
    )
    base = cases.read_cases([tmp_path])
    assert [entry.case for entry in base.entries.values()] == [case]
    assert base.problems == []


def test_the_template_names_every_field_in_order() -> None:
    template = (Path(__file__).resolve().parents[1] / "knowledge" / "CASE_TEMPLATE.md").read_text(encoding="utf-8")
    form = template.partition("```text\n")[2].partition("```")[0]
    assert re.findall(r"^- ([A-Z][A-Za-z ]*):", form, re.M) == [field.label for field in FIELDS]
    assert [field.form for field in FIELDS].count(BLOCK) == 1


def test_a_later_folder_wins_over_an_earlier_one(tmp_path: Path) -> None:
    seed, overlay = tmp_path / "seed", tmp_path / "overlay"
    keep(seed, make_case(1), make_case(2))
    keep(overlay, make_case(1, status="retired", retired_because="wrong"))
    base = cases.read_cases([seed, overlay])
    assert {identity[-1]: entry.case.status for identity, entry in base.entries.items()} == {
        "1": "retired",
        "2": "confirmed",
    }
    found = cases.find_case(make_case(1).id, [seed, overlay])
    assert found is not None
    assert found.case.status == "retired"


def test_an_entry_written_by_hand_into_history_md_is_read_too(tmp_path: Path) -> None:
    keep(tmp_path, make_case(1, symptom=OTHER))
    (tmp_path / "history.md").write_text("# Case history\n\n" + render_case(make_case(2)), encoding="utf-8")
    assert set(cases.read_cases([tmp_path]).entries) == {make_case(1).id, make_case(2).id}
    assert similar_cases(STACK, folders=[tmp_path])[0][0].id == make_case(2).id


# --- the search -----------------------------------------------------------------------------------------------------


def another_run(stack: str) -> str:
    """The same failure elsewhere: other paths, process numbers, line numbers and log prefixes."""
    changed = stack.replace("/usr/lib/python3.11/", "/opt/conda/envs/x/lib/python3.9/").replace("line 359", "line 401")
    changed = changed.replace("pid=77", "pid=90210").replace("/home/user/", "/srv/")
    return "\n".join(
        f"(EngineCore_DP0 pid=31774) ERROR 11-03 04:02:21 [core.py:710] {line}" for line in changed.split("\n")
    )


@pytest.mark.parametrize("stack", [STACK, OTHER])
def test_the_same_stack_of_another_run_scores_near_one(stack: str, tmp_path: Path) -> None:
    keep(tmp_path, make_case(1, symptom=STACK), make_case(2, symptom=OTHER, stage="update", title="update fails"))
    noise = "\n".join(
        f"INFO 11-30 10:00:{second:02d} [loader.py:9] loading shard {second} of the weights" for second in range(60)
    )
    for text in (stack, another_run(stack), f"{noise}\n{another_run(stack)}\n{noise}"):
        found = similar_cases(text, folders=[tmp_path])
        assert found[0][0].symptom == stack
        assert found[0][1] >= 0.85
        assert all(points < 0.3 for _, points in found[1:])


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError",
        "RuntimeError: torch_npu failed",
        'Traceback (most recent call last):\n  File "/a.py", line 1, in _call_impl\n    return func(*args, **kwargs)',
        "vllm worker error on npu device",
        "it is slow",
        "",
        "\n\n",
    ],
)
def test_sharing_only_what_every_report_has_scores_low(text: str, tmp_path: Path) -> None:
    keep(tmp_path, make_case(1), make_case(2, symptom=OTHER))
    assert all(points <= 0.2 for _, points in similar_cases(text, folders=[tmp_path]))


def test_words_codes_and_functions_find_a_case_in_both_languages(tmp_path: Path) -> None:
    keep(
        tmp_path,
        make_case(
            1,
            symptom="capture_end: error code is 107025, a stream was not joined",
            direct_cause="the prefetcher's copy stream",
        ),
        make_case(2, symptom="图捕获失败：侧流没有汇合到捕获流", title="侧流未汇合"),
        make_case(
            3, symptom="update_graph_params: attribute missing", location="AttentionImpl.update_graph_params (a.py:3)"
        ),
    )

    def first(text: str, **more: list[str]) -> str:
        return similar_cases(text, folders=[tmp_path], **more)[0][0].id[-1]

    assert first("107025") == "1"
    assert first("prefetcher copy stream") == "1"
    assert first("侧流没有汇合") == "2"
    assert first("hang", functions=["update_graph_params"]) == "3"
    assert first("fails", codes=["107025"]) == "1"


def test_retired_cases_are_not_offered(tmp_path: Path) -> None:
    keep(tmp_path, make_case(1, status="retired", retired_because="wrong"))
    assert similar_cases(STACK, folders=[tmp_path]) == []


def test_what_a_line_is_folded_to() -> None:
    assert fold_line("[rank3]: RuntimeError: x at 0x7f10, 12.5 MiB in /a/b/c.py") == "runtimeerror: x at # mib in c.py"
    assert fold_line('File "/home/[user-1]/x.py"') == fold_line('File "/home/alice/x.py"')


VERBS = ("update", "prepare", "build", "capture", "load", "check", "apply", "select", "route", "pad", "merge", "copy")
THINGS = ("params", "metadata", "inputs", "cache", "event", "weights", "blocks", "table", "mask", "attn", "experts")


def synthetic(number: int, maker: random.Random) -> Case:
    """A case whose stack is unlike any other's."""

    def name() -> str:
        return f"{maker.choice(VERBS)}_{maker.choice(THINGS)}_{maker.choice(THINGS)}"

    lines = ["Traceback (most recent call last):"]
    for _ in range(maker.randint(3, 8)):
        lines.append(f'  File "/x/site-packages/vllm_ascend/{name()}.py", line {maker.randint(1, 4000)}, in {name()}')
        lines.append(f"    out = self.{name()}({name()}, x{maker.randint(1, 9)})")
    operator, code = f"aclnn{maker.choice(THINGS).title()}", maker.randint(107000, 107045)
    lines.append(f"RuntimeError: {name()}: {operator} failed, error code is {code}")
    return make_case(number, symptom="\n".join(lines), title=f"case {number}", direct_cause=f"{name()} before {name()}")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    maker = random.Random(5)
    keep(tmp_path, *(synthetic(number, maker) for number in range(300)), make_case(999))
    return tmp_path


def ids(found: list[tuple[Case, float]]) -> list[str]:
    return [case.id for case, _ in found]


def test_the_index_gives_what_reading_every_case_gives(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [cases.read_case_file(path).entries[0].case.symptom for path in cases.case_files(many)[::40]] + [STACK]
    indexed = [similar_cases(another_run(query), folders=[many], limit=1, seconds=None) for query in queries]
    assert list(case_index.cache_folder().glob("*.db"))
    monkeypatch.setattr(cases, "READ_ALL_UP_TO", 10_000)
    assert [similar_cases(another_run(query), folders=[many], limit=1) for query in queries] == indexed


def test_the_index_follows_new_changed_and_removed_cases(many: Path) -> None:
    assert similar_cases(OTHER, folders=[many], seconds=None) == []
    keep(many, make_case(1000, symptom=OTHER))
    assert ids(similar_cases(OTHER, folders=[many], seconds=None)) == [make_case(1000).id]
    keep(many, make_case(1000, symptom=OTHER, status="retired", retired_because="x"))
    assert similar_cases(OTHER, folders=[many], seconds=None) == []
    (many / "cases" / f"{make_case(999).id}.md").unlink()
    assert make_case(999).id not in ids(similar_cases(STACK, folders=[many], seconds=None))


def test_a_damaged_cache_is_built_again(many: Path) -> None:
    similar_cases(STACK, folders=[many], seconds=None)
    (cache,) = case_index.cache_folder().glob("*.db")
    for damage in (b"not a database", cache.read_bytes()[: cache.stat().st_size // 2], b""):
        cache.write_bytes(damage)
        assert ids(similar_cases(STACK, folders=[many], limit=1, seconds=None)) == [make_case(999).id]


def test_the_cache_is_never_required(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unusable(*arguments: object, **more: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(sqlite3, "connect", unusable)
    assert ids(similar_cases(STACK, folders=[many], limit=1, seconds=None)) == [make_case(999).id]
    monkeypatch.setattr(tempfile, "tempdir", str(many / "nowhere"))
    assert ids(similar_cases(STACK, folders=[many], limit=1, seconds=None)) == [make_case(999).id]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners of folders are a POSIX matter")
def test_a_cache_folder_that_others_can_write_is_not_used(many: Path) -> None:
    folder = Path(tempfile.gettempdir()) / f"npu-graph-cache-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert ids(similar_cases(STACK, folders=[many], limit=1, seconds=None)) == [make_case(999).id]
    assert list(folder.iterdir()) == []


def test_a_diagnosis_does_not_wait_for_the_index(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cases.case_features

    def slow(case: Case) -> object:
        time.sleep(0.01)
        return read(case)

    monkeypatch.setattr(cases, "case_features", slow)
    started = time.monotonic()
    similar_cases(STACK, folders=[many], seconds=0.05)
    assert time.monotonic() - started < 1.5
    monkeypatch.setattr(cases, "case_features", read)
    assert ids(similar_cases(STACK, folders=[many], limit=1, seconds=None)) == [make_case(999).id]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.environ.get("NPU_GRAPH_SLOW") != "1", reason="set NPU_GRAPH_SLOW=1 to run it")
def test_twenty_thousand_cases_are_searched_in_a_third_of_a_second(tmp_path: Path) -> None:
    maker = random.Random(6)
    keep(tmp_path, *(synthetic(number, maker) for number in range(20_000)))
    target = cases.read_case_file(cases.case_files(tmp_path)[12_345]).entries[0].case
    assert ids(similar_cases(another_run(target.symptom), folders=[tmp_path], seconds=None))[0] == target.id
    times = []
    for _ in range(5):
        started = time.perf_counter()
        found = similar_cases(another_run(target.symptom), folders=[tmp_path])
        times.append(time.perf_counter() - started)
        assert found[0][0] == target
    assert min(times) <= 0.3
