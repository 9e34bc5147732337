"""What one tool of the server is: how it is listed, and what it runs."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

Resolve = Callable[[str], str]


class Invocation(NamedTuple):
    """What to run: options and values for the script, and text for its input."""

    arguments: list[str]
    standard_input: str = ""


class Tool(NamedTuple):
    """One tool of the server."""

    name: str
    title: str
    description: str
    script: str
    input_schema: dict[str, Any]
    schema_id: str
    invocation: Callable[[dict[str, Any], Resolve], Invocation]
    summary: Callable[[dict[str, Any]], str]
    read_only: bool = True
    idempotent: bool = True
    # Exit codes that are answers (design section 4: 0 done, 1 negative); a health check answers with 4 as well.
    answers: tuple[int, ...] = (0, 1)
    # Lists of the record that grow with the input: a call takes `offset` and `limit`, the answer has `next_offset`.
    paged: tuple[str, ...] = ()
    page_size: int = 0

    def as_listing(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": {
                "type": "object",
                "properties": {"schema": {"type": "string", "const": self.schema_id}},
                "required": ["schema"],
                "additionalProperties": True,
            },
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.read_only,
                "destructiveHint": False,
                "idempotentHint": self.idempotent,
                "openWorldHint": False,
            },
        }


class Page(NamedTuple):
    """Which part of a growing list a call asks for."""

    offset: int
    limit: int

    @property
    def end(self) -> int:
        return self.offset + self.limit


def page_of(arguments: dict[str, Any], limit: int) -> Page:
    """Return the page that the arguments name, of `limit` items when they give no other number."""
    return Page(arguments.get("offset", 0), arguments.get("limit", limit))


def cut_page(record: dict[str, Any], keys: tuple[str, ...], page: Page) -> dict[str, Any]:
    """Return the record with only that page of its growing lists, and where the next one begins (None: no more).

    A script that shortened its list itself says under `left_out` by how much; afterwards it counts what follows the page.
    """
    cut = {key: record[key][page.offset : page.end] for key in keys}
    more = any(len(record[key]) > page.end for key in keys)
    answer = {**record, **cut}
    if "left_out" in record:
        total = sum(len(record[key]) for key in keys) + record["left_out"]
        answer["left_out"] = max(0, total - page.end)
        more = answer["left_out"] > 0
    return {**answer, "next_offset": page.end if more else None}


class ArgumentError(Exception):
    """Arguments that fit the schema and still make no call; the message shows the correct form."""
