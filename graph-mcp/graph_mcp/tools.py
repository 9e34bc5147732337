"""The tools: name, schemas, annotations, and the script of the bundle that each one runs."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from . import summaries

MAX_TEXT = 2_000_000
MAX_FILES = 32
# Exit codes of the scripts (design section 4): 0 and 1 are answers, the others are errors.
ANSWERS = (0, 1)

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


def _string(description: str, **limits: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **limits}


def _object(required: Sequence[str] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_LANGUAGE = _string("language of the answer: en or zh (default: that of the text)", enum=["en", "zh"])
_FILES = {
    "type": "array",
    "description": "paths below the allowed folders",
    "items": {"type": "string", "minLength": 1, "maxLength": 1000},
    "minItems": 1,
    "maxItems": MAX_FILES,
}


class ArgumentError(Exception):
    """Arguments that fit the schema and still make no call; the message shows the correct form."""


def _language(arguments: dict[str, Any]) -> list[str]:
    return ["--lang", arguments["language"]] if "language" in arguments else []


def _diagnose(arguments: dict[str, Any], resolve: Resolve) -> Invocation:
    files = [resolve(name) for name in arguments.get("files", [])]
    text = arguments.get("text", "")
    if not files and not text.strip():
        raise ArgumentError('give the pasted report as {"text": "..."} or as {"files": ["stack.txt"]}')
    inputs = ([*files] if files else []) + (["-"] if text.strip() else [])
    return Invocation(["--output", "json", *_language(arguments), *inputs], text)


def _lookup_code(arguments: dict[str, Any], _: Resolve) -> Invocation:
    return Invocation(["--output", "json", "--", *arguments["codes"]])


def _search(arguments: dict[str, Any], _: Resolve) -> Invocation:
    limit = str(arguments.get("limit", 5))
    return Invocation(["search", "--output", "json", "--limit", limit, "-"], arguments["query"])


def _record(arguments: dict[str, Any], _: Resolve) -> Invocation:
    options = ["record", "--output", "json"]
    for name in (
        "title",
        "stage",
        "layer",
        "owner",
        "location",
        "pattern",
        "cause",
        "trigger",
        "fix-now",
        "fix-for-good",
    ):
        value = arguments.get(name.replace("-", "_"))
        if value:
            options.append(f"--{name}={value}")
    for name in ("verify", "source"):
        options += [f"--{name}={value}" for value in arguments.get(name, [])]
    if arguments.get("status"):
        options.append(f"--status={arguments['status']}")
    return Invocation([*options, "--symptom-file", "-"], arguments["symptom"])


_SHORT = {"minLength": 1, "maxLength": 4000}
_LINES = {"type": "array", "items": {"type": "string", **_SHORT}, "maxItems": 20}

TOOLS: tuple[Tool, ...] = (
    Tool(
        "npu_graph_diagnose",
        "Diagnose an NPU graph-mode failure",
        "Diagnose a pasted stack, log excerpt or description of a PyTorch graph-mode failure on Ascend NPU: stage, layer, "
        "owner, first cause with echoes set aside, fix, verification, and what is missing.",
        "graph-mode-diagnostics/scripts/diagnose.py",
        _object(text=_string("the report as pasted, unchanged", maxLength=MAX_TEXT), files=_FILES, language=_LANGUAGE),
        "npu-graph/diagnosis/1",
        _diagnose,
        summaries.diagnosis,
    ),
    Tool(
        "npu_graph_lookup_code",
        "Look up an Ascend error code",
        "Meaning, stage, first check and source of Ascend error codes in any spelling: 107027, 0x7020023, ERR00100, "
        "EE1016, EZ9999, or a symbol. Unknown codes are named as such, with near ones.",
        "graph-mode-expert/scripts/lookup_code.py",
        _object(
            ["codes"],
            codes={
                "type": "array",
                "description": "codes, in any spelling",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "minItems": 1,
                "maxItems": 20,
            },
        ),
        "npu-graph/codes/1",
        _lookup_code,
        summaries.codes,
    ),
    Tool(
        "npu_graph_search_knowledge",
        "Search known patterns and recorded cases",
        "Known failure patterns and the team's recorded cases that resemble a text or an error, best first.",
        "knowledge/scripts/kb.py",
        _object(
            ["query"],
            query=_string("words or an error text", minLength=1, maxLength=100_000),
            limit={"type": "integer", "description": "how many of each at most", "minimum": 1, "maximum": 50},
        ),
        "npu-graph/kb-search/1",
        _search,
        summaries.search,
    ),
    Tool(
        "npu_graph_record_case",
        "Record a diagnosed case",
        "Write a diagnosed failure to the team's case base (needs a server started with --allow-record). Secrets and "
        "names are hidden first; a duplicate is refused.",
        "knowledge/scripts/kb.py",
        _object(
            ["symptom", "stage", "layer"],
            symptom=_string("the error text as it appeared", minLength=1, maxLength=200_000),
            stage=_string(
                "capture, replay, memory, update, compile, accuracy, performance, env, not_graph", maxLength=20
            ),
            layer=_string("L0 to L5", maxLength=2),
            title=_string("one line", **_SHORT),
            owner=_string("where the fix belongs", **_SHORT),
            location=_string("function and file:line", **_SHORT),
            pattern=_string("pattern id, such as P-CAP-001", **_SHORT),
            cause=_string("why it failed", **_SHORT),
            trigger=_string("what brings it about", **_SHORT),
            fix_now=_string("what helps at once", **_SHORT),
            fix_for_good=_string("what removes the cause", **_SHORT),
            verify={**_LINES, "description": "how it was verified, with the result"},
            source={**_LINES, "description": "where it can be read"},
            status=_string("confirmed or suspected", enum=["confirmed", "suspected"]),
        ),
        "npu-graph/record/1",
        _record,
        summaries.record,
        read_only=False,
        idempotent=False,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
