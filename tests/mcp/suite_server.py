"""Serve the bundle with the conformance suite's sample tools, prompts and texts beside its own.

The suite calls tools by fixed names (`test_simple_text`). They are declared in the server's own tables, so that its
protocol, argument check, child processes and progress answer for them as they do for the shipped tools.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "graph-mcp")]

import server
from graph_mcp import jobs, prompts, resources, tools
from graph_mcp.prompts import Prompt
from graph_mcp.tool import Invocation, Tool

from npu_graph import cli

SAMPLES = str(HERE / "suite_samples.py")
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
# As the suite's scenario `json-schema-2020-12` describes it: a listing must keep every keyword.
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def sample_tool(name: str, what: str, schema: dict[str, Any] = NO_ARGUMENTS) -> Tool:
    """Return a tool of the suite's that runs one of the samples."""
    return Tool(
        name,
        name,
        f"sample of the conformance suite: {what}",
        SAMPLES,
        schema,
        "suite/sample/1",
        lambda _arguments, _resolve: Invocation([what]),
        lambda record: record["text"],
    )


SAMPLE_TOOLS = (
    sample_tool("test_simple_text", "text"),
    sample_tool("test_error_handling", "error"),
    sample_tool("test_tool_with_progress", "wait"),
    sample_tool("json_schema_2020_12_tool", "text", SCHEMA_2020_12),
)
SAMPLE_PROMPTS = (
    Prompt("test_simple_prompt", "Simple", "sample without arguments", (), "This is a simple prompt for testing."),
    Prompt(
        "test_prompt_with_arguments",
        "With arguments",
        "sample with arguments",
        (("arg1", "first", True), ("arg2", "second", True)),
        "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
    ),
)
SAMPLE_TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://template/123/data": '{"id":"123","templateTest":true,"data":"Data for ID: 123"}',
}
open_own = resources.open_resource


def open_resource(uri: str) -> Any:
    """Return a sample's text, else what the server itself finds."""
    return SAMPLE_TEXTS[uri] if uri in SAMPLE_TEXTS else open_own(uri)


if __name__ == "__main__":
    resources.open_resource = open_resource
    tools.TOOLS += SAMPLE_TOOLS
    tools.BY_NAME.update((tool.name, tool) for tool in SAMPLE_TOOLS)
    prompts.PROMPTS += SAMPLE_PROMPTS
    prompts.BY_NAME.update((prompt.name, prompt) for prompt in SAMPLE_PROMPTS)
    jobs.PROGRESS_SECONDS = 0.3  # three notifications within the sample's second, not three seconds
    cli.run(server.main)
