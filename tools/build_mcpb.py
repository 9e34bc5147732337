#!/usr/bin/env python3
"""Build the MCP bundle (.mcpb): the server with all it needs in one file, for clients that install such bundles.

Usage: build_mcpb.py [--output FILE]

An .mcpb is a zip with a manifest.json (public specification: github.com/modelcontextprotocol/mcpb, MANIFEST.md). Tools
and prompts in the manifest come from the server's own tables. The same sources give the same bytes: members are sorted
and carry a fixed date. Prints the file, its size and its SHA-256.

Exit codes: 0 written, 2 wrong usage, 3 no whole bundle to pack.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any, Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "graph-mcp")]

from graph_mcp import prompts, protocol, tools

from npu_graph import __version__, cli
from npu_graph.install_plan import shipped_files

# The newest that `mcpb` 2.1.2 does not call experimental.
MANIFEST_VERSION = "0.3"
ENTRY_POINT = "graph-mcp/server.py"
# Shipped with the skill and of no use to the server: the installer and the simulator with its C++ sources.
NOT_SERVED = ("install.py", "npu_sim/")
# Zip cannot express an earlier date; a real one would make every build differ.
FIXED_DATE = (1980, 1, 1, 0, 0, 0)
EXAMPLES = ("python3 tools/build_mcpb.py", "python3 tools/build_mcpb.py --output /path/to/npu-graph.mcpb")


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Build the MCP bundle (.mcpb) of the server.", EXAMPLES)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"file to write (default dist/{protocol.SERVER_NAME}-VERSION.mcpb)"
    )
    options = parser.parse_args(argv)
    output = options.output or ROOT / "dist" / f"{protocol.SERVER_NAME}-{__version__}.mcpb"
    output.parent.mkdir(parents=True, exist_ok=True)
    write_bundle(output)
    data = output.read_bytes()
    print(f"{output}  {len(data)} bytes  sha256 {hashlib.sha256(data).hexdigest()}")
    return cli.DONE


def make_manifest() -> dict[str, Any]:
    """Return manifest.json: how a client starts the server, what the user chooses, what the server offers."""
    # A required choice: a client that substitutes nothing would pass the placeholder itself as a folder's name.
    arguments = [f"${{__dirname}}/{ENTRY_POINT}", "--root", "${user_config.folders}"]
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": protocol.SERVER_NAME,
        "display_name": "NPU graph mode",
        "version": __version__,
        "description": "Diagnoses PyTorch graph mode on Ascend NPU: failures, error codes, logs, profiles, lint.",
        "author": {"name": "npu-graph-skill contributors"},
        "license": "Apache-2.0",
        "keywords": ["ascend", "npu", "pytorch", "graph mode", "vllm-ascend"],
        "server": {
            "type": "python",
            "entry_point": ENTRY_POINT,
            "mcp_config": {
                "command": "python3",
                "args": arguments,
                "platform_overrides": {"win32": {"command": "python", "args": arguments}},
            },
        },
        "user_config": {
            "folders": {
                "type": "directory",
                "title": "Folders",
                "description": "Folders whose logs, profiles and code the tools may read; nothing is written there.",
                "multiple": True,
                "required": True,
            }
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools.TOOLS],
        "prompts": [
            {
                "name": prompt.name,
                "description": prompt.description,
                "arguments": [name for name, _, _ in prompt.arguments],
                "text": re.sub(r"\{(\w+)\}", r"${arguments.\1}", prompt.text),
            }
            for prompt in prompts.PROMPTS
        ],
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": ">=3.8"}},
    }


def write_bundle(output: Path) -> None:
    """Write the bundle to `output`.

    Raises:
        CommandError: exit code 3 when the sources are no whole bundle.
    """
    members = {"manifest.json": (json.dumps(make_manifest(), indent=2, ensure_ascii=False) + "\n").encode("utf-8")}
    for name in shipped_files(ROOT):
        if not name.startswith(NOT_SERVED):
            members[name] = (ROOT / name).read_bytes()
    with zipfile.ZipFile(str(output), "w") as archive:
        for name in sorted(members):
            archive.writestr(_describe(name, members[name]), members[name], zipfile.ZIP_DEFLATED, 9)


def _describe(name: str, data: bytes) -> zipfile.ZipInfo:
    """Return the member's entry; its mode follows from the content, as a checkout on Windows keeps none."""
    entry = zipfile.ZipInfo(name, FIXED_DATE)
    entry.create_system = 3  # Unix, so that the mode below is read wherever it is built
    entry.external_attr = (0o100755 if data.startswith(b"#!") else 0o100644) << 16
    return entry


if __name__ == "__main__":
    cli.run(main)
