"""Drive every tool, resource and prompt with the official client of major version 2; prints one line a mode.

Every resource is read in mode auto, some in the others.

Usage: python drive_with_client_2.py SERVER ROOT   (a Python that has mcp>=2)
"""

from __future__ import annotations

import asyncio
import sys

from drive_plan import CALLS, PROMPT_VALUES, READS
from mcp import Client, StdioServerParameters


async def drive(server: str, root: str, mode: str) -> str:
    parameters = StdioServerParameters(command=sys.executable, args=[server, "--root", root])
    async with Client(parameters, mode=mode) as client:
        tools = (await client.list_tools()).tools
        for tool in tools:
            result = await client.call_tool(tool.name, CALLS[tool.name])
            expected_error = tool.name == "npu_graph_record_case"  # the server is read-only
            assert result.is_error is expected_error, (tool.name, result)
            assert expected_error or result.structured_content["schema"]
        for uri, words in READS.items():
            assert words in (await client.read_resource(uri)).contents[0].text
        uris, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            uris += [resource.uri for resource in page.resources]
            cursor = page.next_cursor
            if not cursor:
                break
        if mode == "auto":
            texts = await asyncio.gather(*(client.read_resource(uri) for uri in uris))
            assert all(len(result.contents[0].text) > 50 for result in texts)
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts
        for prompt in prompts:
            values = {argument.name: PROMPT_VALUES for argument in prompt.arguments}
            assert PROMPT_VALUES in (await client.get_prompt(prompt.name, values)).messages[0].content.text
        return f"{mode} {client.protocol_version} tools {len(tools)} resources {len(uris)} templates {len(templates)} prompts {len(prompts)}"


if __name__ == "__main__":
    for chosen in ("auto", "legacy", "2026-07-28"):
        print(asyncio.run(drive(sys.argv[1], sys.argv[2], chosen)))
