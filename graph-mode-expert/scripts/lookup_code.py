#!/usr/bin/env python3
"""Say what an error code of torch_npu, CANN or HCCL means for graph mode, and what to check first.

Usage: lookup_code.py CODE [CODE ...]
       lookup_code.py -          (reads a text from standard input and explains the codes in it)

A CODE is a number (107027, 0x1a213, 1a213), a torch_npu code (ERR00100), a CANN block code (EE1001, EZ9999), a runtime
internal value (0x7020023, 117571619), a symbol (STREAM_CAPTURED), words of a meaning ("wrong thread"), or a piece of
text with codes in it ("error code is 107027,"). Small numbers (0-24) are HCCL results.

Prints meaning, stage, first check, what the code usually echoes, family and source. An unknown code is answered
with what can be said about it and the codes nearest to it.

--output json prints {schema: "npu-graph/codes/1", results: [{query, status, note, entries, near}]}: status is known,
partial (not in the table, decoded from its digits), not_a_code (in circulation, defined nowhere) or unknown; an entry
holds code, hex, symbol, meaning, stage, first_check, echo, external, family, source, source_full; near holds
code, symbol and meaning. Values are the same in both languages.

Exit codes: 0 every code is known; 1 at least one is not; 2 wrong usage; 3 nothing to read on standard input;
4 the table is missing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from npu_graph import bundle, cli
from npu_graph.codes import HCCL, TABLE_NAME, CodeBook, CodeEntry, split_codes

SCHEMA = "npu-graph/codes/1"
KNOWN, PARTIAL, NOT_A_CODE, UNKNOWN = "known", "partial", "not_a_code", "unknown"
MAX_ARGUMENTS = 200

# The words of design section 3, with the phase a reader of the diagnostics sub-skill knows, and in Chinese.
STAGE_WORDS = {
    "capture": ("capture (2A)", "捕获 capture(2A)"),
    "replay": ("replay (2B)", "重放 replay(2B)"),
    "memory": ("memory (2C)", "内存 memory(2C)"),
    "update": ("update (2D)", "参数更新 update(2D)"),
    "compile": ("compile (2E)", "编译 compile(2E)"),
    "accuracy": ("accuracy (2F)", "精度 accuracy(2F)"),
    "performance": ("performance (2G)", "性能 performance(2G)"),
    "env": ("env (2H)", "环境 env(2H)"),
    "not_graph": ("not_graph (only looks like a graph-mode problem)", "非图模式问题 not_graph"),
    "unknown": ("unknown", "未知 unknown"),
    "-": ("no graph-mode stage of its own", "不特定于某个图模式阶段"),
}

# Every label and sentence of the output, English and Chinese. Meanings and checks come from the table, in English.
WORDS = {
    "meaning": ("meaning", "含义"),
    "stage": ("stage", "阶段"),
    "first_check": ("first check", "先查"),
    "echo": ("echo", "二次报错"),
    "external": ("seen as", "对外错误码"),
    "family": ("family", "类别"),
    "source": ("source", "来源"),
    "near": ("near", "相近"),
    "echo_text": ("often an echo, find the earlier failure: {}", "常为二次报错,请先找更早的错误:{}"),
    "no_check": ("none recorded", "暂无"),
    PARTIAL: ("not in the table; decoded from its digits", "不在表中,仅按编码规则解读"),
    NOT_A_CODE: ("not a code", "不是真实错误码"),
    UNKNOWN: ("unknown code", "未知错误码"),
    "hccl_note": (
        "an HCCL result only when the line says HCCL; elsewhere a small number means nothing by itself",
        "仅在 HCCL 报错行中才是 HCCL 返回码,其他位置的小整数没有此含义",
    ),
    "text_note": ("matched by words", "按文字匹配"),
}

FAMILY_WORDS_ZH = {
    "ACL": "AscendCL 返回码",
    "RT 107xxx": "Runtime:调用或环境错误",
    "RT 207xxx": "Runtime:资源不足或特性不支持",
    "RT 507xxx": "Runtime:内部或设备故障",
    "RT internal 0x07MMNNNN": "Runtime 内部码",
    "GE": "图引擎 GE(torchair GE 模式),与捕获无关",
    "aclnn": "aclnn 算子返回码",
    "HCCL": "HCCL 返回码",
    "PTA ERR": "torch_npu 错误码(ERR + 模块 2 位 + 错误 3 位)",
    "Stress detect": "压力检测返回码",
    "Not a code": "流传但无任何源码定义的数字",
}


class Answer(NamedTuple):
    """What was found for one query."""

    query: str
    status: str
    note: str
    entries: list[CodeEntry]
    near: list[CodeEntry]


def split_queries(argument: str, book: CodeBook) -> list[str]:
    """Return the codes that one command-line argument holds, or the argument itself when it is a symbol or phrase."""
    return split_codes(argument) or book.codes_in(argument) or [argument]


def answer(query: str, book: CodeBook) -> Answer:
    """Look one query up and say how much is known about it."""
    entries = book.find(query)
    if not entries:
        return Answer(query, UNKNOWN, "", [], book.near(query))
    if not any(entry.is_code for entry in entries):
        return Answer(query, NOT_A_CODE, "", entries, [])
    if book.is_known(query):
        return Answer(query, KNOWN, "hccl_note" if entries[-1].family == HCCL else "", entries, [])
    if not any(map(book.holds, entries)):
        return Answer(query, PARTIAL, "", entries, book.near(query))
    return Answer(query, KNOWN, "text_note", entries, [])


def as_record(answers: Sequence[Answer], book: CodeBook) -> dict[str, object]:
    """Return the JSON form of the answers."""
    return {
        "schema": SCHEMA,
        "results": [
            {
                "query": item.query,
                "status": item.status,
                "note": WORDS[item.note][0] if item.note else "",
                "entries": [_entry_record(entry, book) for entry in item.entries],
                "near": [{"code": entry.code, "symbol": entry.symbol, "meaning": entry.meaning} for entry in item.near],
            }
            for item in answers
        ],
    }


def as_text(answers: Sequence[Answer], book: CodeBook, zh: bool) -> str:
    """Return the answers for a terminal."""
    lines: list[str] = []
    for item in answers:
        lines += ["", *_text_lines(item, book, zh)]
    return "\n".join(lines[1:]) + "\n"


def as_markdown(answers: Sequence[Answer], book: CodeBook, zh: bool) -> str:
    """Return the answers as Markdown, every value escaped."""
    lines: list[str] = []
    for item in answers:
        lines += [f"## {_escape(cli.one_line(item.query, 120))}", ""]
        if item.status != KNOWN:
            lines += [f"**{_word(item.status, zh)}**", ""]
        if item.note:
            lines += [f"_{_word(item.note, zh)}_", ""]
        for entry in item.entries:
            lines.append(f"- **{_escape(_headline(entry))}**")
            lines += [f"  - {label}: {_escape(value)}" for label, value in _facts(entry, book, zh)]
        if item.near:
            lines += [f"{_word('near', zh)}:", ""] if not item.entries else ["", f"{_word('near', zh)}:", ""]
            lines += [f"- {_escape(_headline(entry))}: {_escape(entry.meaning)}" for entry in item.near]
        lines.append("")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if len(arguments.code) > MAX_ARGUMENTS:
        raise cli.CommandError(f"{len(arguments.code)} arguments, at most {MAX_ARGUMENTS}; pipe a text to '-' instead")
    folders = bundle.knowledge_folders()
    book = CodeBook.load(folders)
    for problem in book.problems[:5]:
        print(f"lookup_code.py: warning: {cli.one_line(problem)}", file=sys.stderr)
    if not book.entries():
        raise cli.CommandError(
            f"no table: {TABLE_NAME} was expected in {folders[0]}; copy the whole bundle again", cli.ABSENT
        )
    queries = _queries(arguments.code, book)
    if not queries:
        print("lookup_code.py: no code in the text on standard input", file=sys.stderr)
        return cli.NEGATIVE
    answers = [answer(query, book) for query in queries]
    zh = arguments.lang == "zh" or (arguments.lang is None and any(map(_has_chinese, arguments.code)))
    if arguments.output == "json":
        cli.write_json(as_record(answers, book))
    else:
        text = as_markdown(answers, book, zh) if arguments.output == "md" else as_text(answers, book, zh)
        cli.write_text(text if arguments.all else cli.bound_output(text))
    return cli.DONE if all(item.status == KNOWN for item in answers) else cli.NEGATIVE


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser(
        "Say what an error code of torch_npu, CANN or HCCL means for graph mode, and what to check first.",
        ["lookup_code.py 107027 ERR00100 EE1016", "lookup_code.py 0x7020023 --output json --lang zh"],
    )
    parser.add_argument("code", nargs="+", metavar="CODE", help="a code, symbol or phrase; - reads standard input")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="default: text")
    parser.add_argument("--lang", choices=("en", "zh"), help="language of labels; default: that of the arguments")
    parser.add_argument("--all", action="store_true", help="print everything, however long")
    return parser


def _queries(arguments: Sequence[str], book: CodeBook) -> list[str]:
    queries: list[str] = []
    for argument in arguments:
        if argument == "-":
            queries += [code for item in cli.read_inputs(["-"]) for code in book.codes_in(item.text)]
        else:
            queries += split_queries(argument, book)
    return list(dict.fromkeys(queries))


def _has_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def _word(key: str, zh: bool) -> str:
    return WORDS[key][zh]


def _headline(entry: CodeEntry) -> str:
    return "  ".join(dict.fromkeys(part for part in (entry.code, entry.hex, entry.symbol) if part != "-"))


def _family(entry: CodeEntry, book: CodeBook, zh: bool) -> str:
    if zh and entry.family in FAMILY_WORDS_ZH:
        return f"{entry.family}({FAMILY_WORDS_ZH[entry.family]})"
    if zh and entry.family.startswith("CANN "):
        return f"{entry.family}(CANN 模块错误码)"
    title = book.title(entry.family)
    return f"{entry.family}: {title}" if title else entry.family


def _facts(entry: CodeEntry, book: CodeBook, zh: bool) -> list[tuple[str, str]]:
    facts = [(_word("meaning", zh), entry.plain_meaning), (_word("stage", zh), STAGE_WORDS[entry.stage][zh])]
    check = entry.first_check
    outer = book.external(entry)
    if outer:
        facts.append((_word("external", zh), f"{_headline(outer)}: {outer.plain_meaning}"))
        if check in ("-", f"look up {outer.code}"):
            check = outer.first_check
    facts.append((_word("first_check", zh), check if check != "-" else _word("no_check", zh)))
    echo = entry.echo or (outer.echo if outer else "")
    if echo:
        facts.append((_word("echo", zh), _word("echo_text", zh).format(echo)))
    facts.append((_word("family", zh), _family(entry, book, zh)))
    facts.append((_word("source", zh), book.expand(entry.source)))
    return facts


def _text_lines(item: Answer, book: CodeBook, zh: bool) -> list[str]:
    lines = []
    query = cli.one_line(item.query, 120)
    if item.status != KNOWN:
        lines.append(f"{query}: {_word(item.status, zh)}")
    elif item.note:
        lines.append(f"{query}: {_word(item.note, zh)}")
    for entry in item.entries:
        lines.append(_headline(entry))
        lines += [f"  {_pad(label)} {cli.one_line(value, 2000)}" for label, value in _facts(entry, book, zh)]
    for entry in item.near:
        lines.append(f"  {_pad(_word('near', zh))} {_headline(entry)}: {cli.one_line(entry.meaning, 100)}")
    return lines


def _pad(label: str, width: int = 12) -> str:
    # A Chinese character takes two columns.
    return label + " " * max(0, width - len(label) - sum(character > "\u2e7f" for character in label))


def _escape(text: str) -> str:
    for character in "\\`*_[]<>|":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())


def _entry_record(entry: CodeEntry, book: CodeBook) -> dict[str, object]:
    outer = book.external(entry)
    return {
        "code": entry.code,
        "hex": entry.hex,
        "symbol": entry.symbol,
        "meaning": entry.meaning,
        "stage": entry.stage,
        "first_check": entry.first_check,
        "echo": entry.echo,
        "external": outer.code if outer else None,
        "family": entry.family,
        "source": entry.source,
        "source_full": book.expand(entry.source),
    }


if __name__ == "__main__":
    cli.run(main)
