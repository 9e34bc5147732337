"""A report before it has a format: headings, lines and tables, written as text or Markdown, or drawn by a page."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple, Sequence, Union

# Longest cell of a text table; kernel names with shapes are longer.
_CELL = 60


class Line(NamedTuple):
    """A sentence; strong ones are conclusions, items belong to a list."""

    text: str
    strong: bool = False
    item: bool = False


class Table(NamedTuple):
    """Rows of cells, already text."""

    head: list[str]
    rows: list[list[str]]


Part = Union[Line, Table]


class Section(NamedTuple):
    """What stands below one heading. `key` names the heading in every language."""

    key: str
    title: str
    parts: list[Part]


class Sheet:
    """Sections in order; the last one takes what is added."""

    def __init__(self) -> None:
        self.sections: list[Section] = []

    def begin(self, key: str, title: str) -> None:
        """Start a section."""
        self.sections.append(Section(key, title, []))

    def line(self, text: str, strong: bool = False) -> None:
        """Add a sentence of its own."""
        self.sections[-1].parts.append(Line(fold(text), strong))

    def item(self, text: str) -> None:
        """Add an entry of a list."""
        self.sections[-1].parts.append(Line(fold(text), item=True))

    def table(self, head: Sequence[object], rows: Sequence[Sequence[object]]) -> None:
        """Add a table."""
        lines = [[fold(as_cell(value)) for value in row] for row in (head, *rows)]
        self.sections[-1].parts.append(Table(lines[0], lines[1:]))

    def text(self, markdown: bool) -> str:
        """Return the whole sheet as Markdown or as text for a terminal."""
        lines: list[str] = []
        for section in self.sections:
            lines += ["", f"## {section.title}"] if markdown else ["", section.title, "-" * _width(section.title)]
            for part in section.parts:
                if isinstance(part, Table):
                    lines += _markdown_table(part) if markdown else _text_table(part)
                elif part.item:
                    if markdown and not lines[-1].startswith("- "):
                        lines.append("")
                    lines.append("- " + (_escape(part.text) if markdown else part.text))
                elif markdown:
                    # Lines that follow each other are one paragraph in Markdown unless an empty one parts them.
                    text = _escape(part.text)
                    lines += ["", f"**{text}**" if part.strong else text]
                else:
                    lines.append(part.text)
        return "\n".join(lines).strip() + "\n"


def as_cell(value: object) -> str:
    """Return a value as a report shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.{3 if abs(value) < 1000 else 1}f}".rstrip("0").rstrip(".")
    return str(value)


def fold(text: str) -> str:
    """Return text as one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _markdown_table(table: Table) -> list[str]:
    rows = [[_escape(cell).replace("|", "\\|") for cell in row] for row in (table.head, *table.rows)]
    lines = ["", "| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
    return lines + ["| " + " | ".join(row) + " |" for row in rows[1:]]


def _text_table(table: Table) -> list[str]:
    rows = [[cell[:_CELL] for cell in row] for row in (table.head, *table.rows)]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(table.head))]
    return ["  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _width(text: str) -> int:
    """Return the columns a text takes in a terminal; Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _escape(text: str) -> str:
    """Nothing from a profile may become markup."""
    for char, safe in (("<", "&lt;"), ("`", "'"), ("*", "\\*"), ("[", "\\["), ("]", "\\]")):
        text = text.replace(char, safe)
    return text
