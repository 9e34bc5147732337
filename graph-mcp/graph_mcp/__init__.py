"""The MCP server's parts: wire (messages), protocol (revisions), tools, resources, prompts, jobs (child processes)."""
