"""Error codes: each one that a text names stands in the table, and each row's source defines it."""

from __future__ import annotations

import re
from pathlib import Path

from knowledge_checks.anchors import Anchor, find_anchors
from knowledge_checks.findings import Outcome
from knowledge_checks.sources import Sources
from knowledge_checks.texts import REPORT, SIGNATURE, all_lines
from npu_graph.codes import TABLE_NAME, CodeBook, CodeEntry, split_row

TABLE = f"knowledge/{TABLE_NAME}"
# Numbers of the families' ranges; others of six digits are sizes, ports or dates.
_NUMBER = re.compile(
    r"(?<![\w.#/@:-])(?:1[04][057]0\d{2}|107\d{3}|207\d{3}|507\d{3}|[1235]61[01]\d{2}|[1235]450\d{2})(?![\w.]\w)(?!\w)"
)
_LETTERED = re.compile(r"(?<![\w#])(?:ERR\d{5}|E[1-9A-Z]\d{4}|W[1E]\d{4})(?!\w)")
_INTERNAL = re.compile(r"(?<!\w)0x0?7[0-9a-fA-F]{6}(?!\w)")
# How far from the cited line the name may stand: an enumerator's comment before, the rest of a statement after.
_BEFORE, _AFTER = 1, 3
# A macro that returns the code without naming it at the call.
_RETURNED_BY_MACRO = {"107030": "CHECK_CAPTURE_MODE_SUPPORT"}


def check_named(root: Path) -> Outcome:
    """Look up every code that a page or script names."""
    outcome = Outcome("codes named", "error codes in pages and scripts")
    book = CodeBook.load([root / "knowledge"])
    for line in all_lines(root):
        if line.kind in (REPORT, SIGNATURE) or (line.file == TABLE and line.text.startswith("|")):
            continue
        for expression in (_NUMBER, _LETTERED, _INTERNAL):
            for found in expression.finditer(line.text):
                outcome.checked += 1
                if not book.is_known(found.group()):
                    outcome.fault(line.file, line.number, f"{found.group()} is in no table")
    return outcome


def check_rows(root: Path, sources: Sources) -> Outcome:
    """Open the source of every row of the code table: code or symbol stands at the cited line."""
    outcome = Outcome("code table", "rows whose cited lines hold the code or its symbol")
    book = CodeBook.load([root / "knowledge"])
    for problem in book.problems:
        outcome.fault(TABLE, 0, problem)
    rows = _rows_by_line(root, book)
    internal = _internal_symbols(book)
    for anchor in find_anchors(root):
        entry = rows.get(anchor.at) if anchor.file == TABLE else None
        if entry is None or not entry.is_code:
            continue
        repository = sources.repositories.get(anchor.repo)
        text = repository.read(anchor.ref, anchor.path) if repository else None
        if text is None:
            outcome.leave_out(f"no checkout of {anchor.repo}" if repository is None else f"{anchor.path} absent")
            continue
        outcome.checked += 1
        if entry.code.isdigit() and entry.hex != "-" and int(entry.hex, 16) != int(entry.code):
            outcome.fault(TABLE, anchor.at, f"{entry.code} is not {entry.hex}")
        if not _defines(entry, internal.get(entry.code, []), anchor, text):
            at = ",".join(f"{first}-{last}" for first, last in anchor.lines) or "any line"
            outcome.fault(TABLE, anchor.at, f"{entry.code} {entry.symbol}: not at {anchor.path}:{at}")
    return outcome


def _rows_by_line(root: Path, book: CodeBook) -> dict[int, CodeEntry]:
    entries = {(entry.code, entry.symbol): entry for entry in book.entries()}
    rows = {}
    for number, line in enumerate((root / TABLE).read_text(encoding="utf-8").splitlines(), 1):
        cells = split_row(line) if line.startswith("|") else []
        if len(cells) == 7 and (cells[0], cells[2]) in entries:
            rows[number] = entries[cells[0], cells[2]]
    return rows


def _internal_symbols(book: CodeBook) -> dict[str, list[str]]:
    """Return the runtime's internal names of each external code: those are what its sources return."""
    names: dict[str, list[str]] = {}
    for entry in book.entries():
        outer = book.external(entry)
        if outer:
            names.setdefault(outer.code, []).append(entry.symbol)
    return names


def _defines(entry: CodeEntry, internal: list[str], anchor: Anchor, text: str) -> bool:
    rows = text.splitlines()
    parts = [rows[max(0, first - 1 - _BEFORE) : last + _AFTER] for first, last in anchor.lines or [(1, len(rows))]]
    around = "\n".join(row for part in parts for row in part).upper()
    spellings: list[str] = [entry.code, *_symbols(entry.symbol), *internal, _RETURNED_BY_MACRO.get(entry.code, "")]
    if entry.hex != "-":
        spellings += [entry.hex, f"0x{int(entry.hex, 16):X}"]
    if entry.code.startswith("ERR"):  # made of two enumerators, PTA+PARAM
        return all(part.upper() in around for part in entry.symbol.split("+")[:1]) or "ERR" in around
    if re.fullmatch(r"[EW][0-9A-Z]\d{4}", entry.code) and anchor.path.endswith("macro-selection-guide.md"):
        return f"E{entry.code[1]}" in around or "9999" in around
    return any(spelling.upper() in around for spelling in spellings if spelling and spelling != "-")


def _symbols(symbol: str) -> list[str]:
    names = [name.strip() for name in symbol.split(" / ")]
    short = [re.sub(r"^(?:ACL_ERROR_RT_|ACL_ERROR_|RT_ERROR_)", "", name) for name in names]
    return [name for name in (*names, *short) if len(name) > 5]
