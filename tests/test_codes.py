"""The error-code table holds true to its own rules, and a code is found however it was printed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from cost import cpu_seconds

from npu_graph import bundle
from npu_graph.codes import (
    COLUMNS,
    HCCL,
    INTERNAL,
    MAX_QUERY,
    NOT_A_CODE,
    STAGES,
    TABLE_NAME,
    CodeBook,
    split_codes,
    split_row,
)

TABLE = bundle.SEED_KNOWLEDGE / TABLE_NAME
FACTS = bundle.ROOT.parent / "shared" / "facts" / "error_codes.tsv"


@pytest.fixture(scope="module")
def book() -> CodeBook:
    return CodeBook.load([bundle.SEED_KNOWLEDGE])


@pytest.fixture(scope="module")
def table_text() -> str:
    return TABLE.read_text(encoding="utf-8")


# The table


def test_every_row_of_the_table_is_read(book: CodeBook, table_text: str) -> None:
    rows = [line for line in table_text.splitlines() if line.startswith("|")]
    heads = [row for row in rows if split_row(row) == list(COLUMNS)]
    rules = [row for row in rows if not split_row(row)[0].strip("-: ")]
    assert len(heads) == len(rules) > 25
    assert book.problems == []
    # As many entries as rows also says that no code stands twice in a family: the second would replace the first.
    assert len(book.entries()) == len(rows) - len(heads) - len(rules) > 1300


def test_the_table_stays_readable_and_bounded(table_text: str) -> None:
    assert len(table_text.encode("utf-8")) < 1_000_000
    lines = table_text.splitlines()
    for number, line in enumerate(lines):
        if split_row(line) == list(COLUMNS):
            # A Markdown table needs a blank line above its head.
            assert lines[number - 1] == "", f"line {number + 1}"
            assert lines[number + 1].startswith("| --- |")


def test_every_row_has_a_meaning_a_stage_word_and_a_source(book: CodeBook) -> None:
    for entry in book.entries():
        assert len(entry.meaning) > 1, entry
        assert entry.stage in STAGES, entry
        assert len(entry.source) > 3, entry
        assert entry.first_check, entry


def test_hex_and_decimal_are_the_same_number(book: CodeBook) -> None:
    compared = 0
    for entry in book.entries():
        if entry.code.isdigit() and entry.hex != "-":
            assert int(entry.hex, 16) == int(entry.code), entry
            compared += 1
    assert compared > 700


def test_every_source_can_be_opened_once_its_abbreviation_is_written_out(book: CodeBook) -> None:
    for entry in book.entries():
        for part in book.expand(entry.source).split("; "):
            assert re.match(r"[\w.-]+/[\w.-]+@[0-9a-f]{7,40} [\w./-]+(:[\d,-]+)?$", part), (entry.code, part)


def test_every_runtime_code_has_a_first_check(book: CodeBook) -> None:
    checked = 0
    for entry in book.entries():
        if entry.family in ("RT 107xxx", "RT 207xxx", "RT 507xxx"):
            assert len(entry.first_check) > 10, entry
            checked += 1
    assert checked == 46 + 22 + 76


@pytest.mark.parametrize("family", ["PTA ERR", "CANN EE", "CANN EL", "CANN EI", "CANN EH", "CANN EZ", "CANN E1"])
def test_every_code_that_heads_an_error_block_has_a_first_check(book: CodeBook, family: str) -> None:
    rows = [entry for entry in book.entries() if entry.family == family]
    assert rows
    assert all(len(entry.first_check) > 10 for entry in rows)


def test_an_internal_code_names_the_code_that_callers_see(book: CodeBook) -> None:
    internal = [entry for entry in book.entries() if entry.family == INTERNAL]
    seen = [entry for entry in internal if book.external(entry)]
    assert len(internal) == 434
    assert len(seen) == 409
    assert all("507000" in entry.meaning for entry in internal if not book.external(entry))


@pytest.mark.parametrize("code", ["107020", "107025", "107027", "107033", "507903", "ERR00100"])
def test_codes_that_usually_repeat_an_earlier_failure_say_so(book: CodeBook, code: str) -> None:
    (entry,) = book.find(code)
    assert entry.echo
    assert "Often an echo" not in entry.plain_meaning


@pytest.mark.parametrize(
    "trap",
    [
        "may be an older one",
        "207000 only warns",
        "capture_end` after an error in the body is an echo",
        "after 207001 is an echo",
        "only from CANN 9.1.0",
        "0x100000 MODEL_EXECUTE_FAILED",
        "TORCH_NPU_GRAPHS_LOG_LEVEL",
    ],
)
def test_the_traps_come_before_the_tables(table_text: str, trap: str) -> None:
    assert 0 < table_text.find(trap) < table_text.find("## ACL — ")


@pytest.mark.shared
def test_no_code_of_the_collected_facts_is_missing(book: CodeBook) -> None:
    if not FACTS.is_file():
        pytest.skip(f"{FACTS} is not there")
    with FACTS.open(encoding="utf-8", newline="") as source:
        facts = list(csv.DictReader(source, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(facts) == 1354
    for fact in facts:
        found = book.find(fact["code"])
        assert found, fact
        if re.fullmatch(r"[A-Z][A-Z0-9_]+", fact["symbol"]):
            symbols = {name for entry in found for name in entry.symbol.split(" / ")}
            assert fact["symbol"] in symbols, fact


# Spellings: (query, code, family) of the first entry found.
SPELLINGS = [
    ("107027", "107027", "RT 107xxx"),
    ("0x1a213", "107027", "RT 107xxx"),
    ("0X1A213", "107027", "RT 107xxx"),
    ("0x0001a213", "107027", "RT 107xxx"),
    ("1a213", "107027", "RT 107xxx"),
    (" 107027, ", "107027", "RT 107xxx"),
    ("(107027)", "107027", "RT 107xxx"),
    ("107027。", "107027", "RT 107xxx"),
    ("１０７０２７", "107027", "RT 107xxx"),
    ("ERR00100", "ERR00100", "PTA ERR"),
    ("err00100", "ERR00100", "PTA ERR"),
    ("EE1001", "EE1001", "CANN EE"),
    ("ez9999", "EZ9999", "CANN EZ"),
    ("E19999", "E19999", "CANN E1"),
    ("E40021", "E40021", "CANN E4"),
    ("W11001", "W11001", "CANN E1"),
    ("0x7020023", "117571619", INTERNAL),
    ("0x07020023", "117571619", INTERNAL),
    ("117571619", "117571619", INTERNAL),
    ("0x7100003", "118489091", INTERNAL),
    ("0x07040009", "117702665", INTERNAL),
    ("ACL_ERROR_RT_STREAM_CAPTURED", "107027", "RT 107xxx"),
    ("acl_error_rt_stream_captured", "107027", "RT 107xxx"),
    ("STREAM_CAPTURED", "107027", "RT 107xxx"),
    ("stream captured", "107027", "RT 107xxx"),
    # The header spells this symbol without RT_; the spelling by analogy is found too.
    ("ACL_ERROR_RT_STREAM_TASK_GROUP_STATUS", "107033", "RT 107xxx"),
    ("RT_ERROR_DRV_NO_RESOURCES", "117571619", INTERNAL),
    ("HCCL_E_UNAVAIL", "7", HCCL),
    ("ACLNN_ERR_INNER_KEY_CONFILICT", "561105", "aclnn"),
    ("wrong thread", "107038", "RT 107xxx"),
    ("forked stream not joined", "107025", "RT 107xxx"),
    ("7", "7", HCCL),
    ("24", "24", HCCL),
    ("0x100000", "0x100000", NOT_A_CODE),
    ("100000", "100000", "ACL"),
]


@pytest.mark.parametrize(("query", "code", "family"), SPELLINGS)
def test_a_code_is_found_however_it_is_written(
    book: CodeBook, query: str, code: str | None, family: str | None
) -> None:
    found = book.find(query)
    if code is None:
        assert found == []
    else:
        assert (found[0].code, found[0].family) == (code, family)


@pytest.mark.parametrize(
    ("internal", "external"),
    [("0x7020023", "207005"), ("0x7100003", "507009"), ("0x7030019", "107027"), ("0x07040009", "507011")],
)
def test_an_internal_value_leads_to_the_external_code(book: CodeBook, internal: str, external: str) -> None:
    outer = book.external(book.find(internal)[0])
    assert outer is not None
    assert outer.code == external


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("0x07030099", "module 0x03 (STREAM), number 0x0099"),
        ("0x7200099", "module 0x20 (that of RT_ERROR_MEM_POOL_NULL)"),
        ("0x07990001", "module 0x99 (not listed)"),
        ("E89999", "inner error"),
        ("EE1099", "runtime blocks"),
    ],
)
def test_what_is_not_in_the_table_is_decoded_but_never_called_known(book: CodeBook, query: str, said: str) -> None:
    (entry,) = book.find(query)
    assert said in entry.meaning
    assert not book.is_known(query)
    assert not book.holds(entry)


@pytest.mark.parametrize(("query", "real"), [("0x100000", "507011"), ("0x100003", "107003")])
def test_a_number_that_no_source_defines_is_answered_with_the_real_code(book: CodeBook, query: str, real: str) -> None:
    (entry,) = book.find(query)
    assert entry.meaning.startswith(f"exists in no source; the real one is {real}")
    assert not entry.is_code
    assert not book.is_known(query)
    assert book.is_known(real)


def test_a_real_symbol_wins_over_the_fictitious_one(book: CodeBook) -> None:
    assert [entry.code for entry in book.find("STREAM_CONTEXT")] == ["107003", "117637123"]


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ("107046", "107045"),
        ("0x7030029", "117637160"),
        ("EE1024", "EE1023"),
        ("STREAM_CAPTURD", "107027"),
        ("7100003", "118489091"),
        ("ERR0100", "ERR00100"),
    ],
)
def test_an_unknown_code_has_neighbours(book: CodeBook, query: str, near: str) -> None:
    assert not book.is_known(query)
    assert near in [entry.code for entry in book.near(query)]
    assert len(book.near(query, limit=1)) == 1
    assert book.near(query, limit=0) == []


ODD = [
    "",
    " ",
    "-",
    "|",
    "\0",
    "107027\0",
    "\n\r\t",
    "😀",
    "\ud800",
    "٣٤٥",
    "0x",
    "0xg",
    "ERR12",
    "ERR000000000000",
    "99999999999999999999",
    "0xffffffffffffffff",
    "-1",
    "%s%s%n",
    "'; DROP TABLE codes; --",
    "(" * 199,
    "a" * MAX_QUERY,
    "x" * 10_000_000,
    "0" * 10_000_000,
    "0x" + "f" * 10_000_000,
    "| " * 5_000_000,
]


@pytest.mark.parametrize("query", ODD, ids=lambda query: repr(query[:12]))
def test_odd_input_is_answered_fast_and_without_an_error(book: CodeBook, query: str) -> None:
    def ask() -> None:
        assert book.find(query) == [] or query == "107027\0"
        assert isinstance(book.near(query), list)
        assert not book.is_known(query)
        assert isinstance(book.codes_in(query), list)
        assert isinstance(split_codes(query), list)

    assert cpu_seconds(ask, 2) < 2


@pytest.mark.parametrize("query", [None, 107027, b"107027", ["107027"]])
def test_a_query_that_is_not_text_finds_nothing(book: CodeBook, query: object) -> None:
    assert book.find(query) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("error code is 107027,", ["107027"]),
        ("Failed to submit capture task, retCode=0x7100003", ["0x7100003"]),
        ("record event failed, runtime result = 507009", ["507009"]),
        ("HCCL function error: HcclAllReduce(...), error code is 7", ["7"]),
        ("error code is 107099 and then 107025", ["107099", "107025"]),
        ("[ERROR] 2025-01-02 (PID:123456, Device:0, RankID:0) ERR00100 PTA call acl api failed", ["ERR00100"]),
        ("EE9999[PID: 55] 2026-01-01 (EE9999):  text EL0009", ["EE9999", "EL0009"]),
        ("107025 107025 507903", ["107025", "507903"]),
        # Sizes and addresses are no codes, although ACL defines the number 100000.
        ("allocate 100000 bytes at 0x12c041200000, 123456 left", []),
        ("no code here", []),
    ],
)
def test_codes_are_read_out_of_a_sentence(book: CodeBook, text: str, codes: list[str]) -> None:
    assert book.codes_in(text) == codes


@pytest.mark.parametrize(
    "unit", ["error code is ", "0x07030099 ", "retCode" + " " * 50, "E89999", "107027 ", "error_code = [("]
)
def test_reading_codes_out_of_hostile_text_stays_linear(book: CodeBook, unit: str) -> None:
    text = (unit * (250_000 // len(unit) + 1))[:250_000]
    assert cpu_seconds(lambda: book.codes_in(text), 2) < 2


def test_a_list_of_codes_is_split_and_a_phrase_is_not() -> None:
    assert split_codes("107027,107099; EE1001、0x7020023") == ["107027", "107099", "EE1001", "0x7020023"]
    assert split_codes("stream 107027") == []


# Overlays


def overlay(folder: Path, *rows: str, heading: str = "RT 107xxx — ours") -> Path:
    folder.mkdir()
    head = f"# Ours\n\n## {heading}\n\n| {' | '.join(COLUMNS)} |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    (folder / TABLE_NAME).write_text(head + "".join(row + "\n" for row in rows), encoding="utf-8")
    return folder


def test_an_overlay_row_replaces_the_shipped_one_and_adds_new_ones(tmp_path: Path) -> None:
    ours = overlay(
        tmp_path / "ours",
        "| 107027 | 0x1a213 | ACL_ERROR_RT_STREAM_CAPTURED | our own words | capture | ask Li | wiki |",
        r"| 107099 | - | NEW_ONE | a \| b \\ c | - | - | wiki |",
    )
    book = CodeBook.load([bundle.SEED_KNOWLEDGE, ours])
    (known,) = book.find("107027")
    assert (known.meaning, known.first_check) == ("our own words", "ask Li")
    (new,) = book.find("107099")
    assert new.meaning == r"a | b \ c"
    assert len(book.entries()) == len(CodeBook.load([bundle.SEED_KNOWLEDGE]).entries()) + 1


def test_rows_that_cannot_be_read_are_named_and_the_rest_still_works(tmp_path: Path) -> None:
    ours = overlay(
        tmp_path / "ours",
        "| 107050 | too | few |",
        "| 107051 | - | X | y | tomorrow | - | z |",
        "| 107052 | - | " + "x" * 10_000 + " | y | - | - | z |",
        "| 107053 | - | FINE | y | - | - | z |",
    )
    book = CodeBook.load([ours])
    assert [entry.code for entry in book.entries()] == ["107053"]
    assert [problem.split(": ")[0].rsplit(":", 1)[1] for problem in book.problems] == ["7", "8", "9"]


def test_a_folder_without_a_table_is_no_error_and_a_broken_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad" / TABLE_NAME).mkdir(parents=True)
    book = CodeBook.load([tmp_path / "empty", tmp_path / "absent", tmp_path / "bad"])
    assert book.entries() == []
    assert len(book.problems) == 1
    assert book.find("107027") == []
    assert book.find("0x07030099") == []
    assert book.near("107027") == []


def test_a_binary_table_does_not_stop_the_shipped_one(tmp_path: Path) -> None:
    (tmp_path / TABLE_NAME).write_bytes(b"## RT 107xxx\n|" + bytes(range(256)) * 100)
    book = CodeBook.load([bundle.SEED_KNOWLEDGE, tmp_path])
    assert book.is_known("107027")
