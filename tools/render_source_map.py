#!/usr/bin/env python3
"""Write knowledge/source-map.md, the readable page of knowledge/source-map.tsv.

Usage: render_source_map.py [--check]

The page holds the C++ graph core and torch_npu's own Python; torchair's rows stay in the data file, which
locate_source.py searches. --check writes nothing and exits 1 when the page is not that of the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from npu_graph import cli
from npu_graph.source_map import FINAL, Row, SourceMap

KNOWLEDGE = Path(__file__).resolve().parents[1] / "knowledge"
PAGE = KNOWLEDGE / "source-map.md"
# Columns of the page: one for each release; several numbers where its PyTorch lines differ.
COLUMNS = ("7.0.0", "7.1.0", "7.2.0", "7.3.0", "26.0.0", "26.1.0", "26.2.0-beta.1")
SKIPPED = ("torch_npu/dynamo/torchair/", "torch_npu/dynamo/npugraph_ex/")
HEAD = """# Source map: what is raised where

Generated from `source-map.tsv` by `tools/render_source_map.py`; do not edit. Columns are torch_npu releases; a cell
with several numbers is one of a release whose PyTorch lines differ, and `locate_source.py "text" --torch-npu VERSION`
says which is yours. Lines were read from the tags of Ascend/pytorch (table *Releases*); a branch head may have moved on
since. What the columns of the data file mean: `graph-mode-expert/references/source_reading.md`.
"""


def render(source_map: SourceMap) -> str:
    """Return the page."""
    parts = [HEAD, _releases(source_map)]
    by_file: dict[str, list[Row]] = {}
    for row in source_map.rows:
        if row.kind != "frame" and not row.file.startswith(SKIPPED):
            by_file.setdefault(row.file, []).append(row)
    for file, rows in by_file.items():
        parts.append(f"## {file}\n")
        head = ["function", "message or call", "meaning", *COLUMNS]
        parts.append(_table(head, [_cells(row, source_map) for row in rows]))
    meanings = [[key, meaning.stage, meaning.en, meaning.zh] for key, meaning in source_map.meanings.items()]
    parts += ["## Meanings\n", _table(["id", "stage", "usually means", "通常含义"], meanings)]
    return "\n".join(parts)


def _releases(source_map: SourceMap) -> str:
    rows = [
        [r.release, r.pytorch, r.wheel or "-", r.cann or "-", f"{r.ref} ({r.commit})" if r.ref else r.commit]
        for r in source_map.releases.values()
        if r.status == FINAL
    ]
    untagged = (wheel for wheel in source_map.wheels.values() if not wheel.why.startswith("version.txt of tag v"))
    others = [[wheel.version, wheel.id, wheel.why] for wheel in untagged]
    table = _table(["release", "PyTorch", "wheel", "CANN", "tag of Ascend/pytorch (commit)"], rows)
    rest = _table(["wheel", "release/PyTorch", "how it is known"], others)
    return f"## Releases\n\n{table}\n### Wheels that no tag names\n\n{rest}"


def _cells(row: Row, source_map: SourceMap) -> list[str]:
    cells = []
    for column in COLUMNS:
        lines = [source_map.lines_in(row, r.id) for r in source_map.releases.values() if r.release == column]
        distinct = list(dict.fromkeys("+".join(map(str, numbers)) for numbers in lines if numbers))
        cells.append(" / ".join(distinct) or "–")
    return [row.function, row.message[:160] or f"({row.kind})", row.meaning, *cells]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(_escape(cell) for cell in line) + " |\n" for line in lines)


def _escape(text: str) -> str:
    for character in "\\|<>*_`[]":
        text = text.replace(character, "\\" + character)
    return text


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    text = render(SourceMap.load([KNOWLEDGE]))
    if arguments == ["--check"]:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        print("the page is that of the data" if same else "the page is out of date: run tools/render_source_map.py")
        return cli.DONE if same else cli.NEGATIVE
    PAGE.write_text(text, encoding="utf-8")
    return cli.DONE


if __name__ == "__main__":
    sys.exit(main())
