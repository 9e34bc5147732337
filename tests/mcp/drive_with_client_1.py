"""Drive every tool, resource and prompt with the official client of major version 1; prints one line.

Usage: python drive_with_client_1.py SERVER ROOT   (a Python that has mcp<2)
"""

from __future__ import annotations

import asyncio
import sys

from drive_plan import CALLS, PROMPT_VALUES, READS
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def drive(server: str, root: str) -> str:
    parameters = StdioServerParameters(command=sys.executable, args=[server, "--root", root])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        information = await session.initialize()
        tools = (await session.list_tools()).tools
        for tool in tools:
            result = await session.call_tool(tool.name, CALLS[tool.name])
            expected_error = tool.name == "npu_graph_record_case"  # the server is read-only
            assert result.isError is expected_error, (tool.name, result)
        for uri, words in READS.items():
            assert words in (await session.read_resource(uri)).contents[0].text
        resources, cursor = 0, None
        while True:
            page = await session.list_resources(cursor=cursor)
            resources += len(page.resources)
            cursor = page.nextCursor
            if not cursor:
                break
        templates = (await session.list_resource_templates()).resourceTemplates
        prompts = (await session.list_prompts()).prompts
        for prompt in prompts:
            values = {argument.name: PROMPT_VALUES for argument in prompt.arguments}
            assert PROMPT_VALUES in (await session.get_prompt(prompt.name, values)).messages[0].content.text
        version = information.protocolVersion
        return (
            f"v1 {version} tools {len(tools)} resources {resources} templates {len(templates)} prompts {len(prompts)}"
        )


if __name__ == "__main__":
    print(asyncio.run(drive(sys.argv[1], sys.argv[2])))
