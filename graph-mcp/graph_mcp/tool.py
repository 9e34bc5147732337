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


class ArgumentError(Exception):
    """Arguments that fit the schema and still make no call; the message shows the correct form."""
