#!/usr/bin/env python3
"""Serve the bundle's abilities to any MCP client over standard input and output.

Usage: server.py [--root DIR ...] [--allow-record] [--timeout SECONDS]

Reads one JSON-RPC message a line from standard input and answers on standard output (nothing else is written there);
messages for people go to standard error. File arguments must lie below --root (default: $CLAUDE_PROJECT_DIR, else the
working directory; no folder at all where that is `/` or the home folder). Read-only unless --allow-record. Ends when
standard input ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Sequence

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from graph_mcp.protocol import Server
from graph_mcp.roots import default_roots
from graph_mcp.wire import read_messages, take_over_stdout

from npu_graph import __version__, cli

EXAMPLES = (
    "python3 /path/to/npu-graph-skill/graph-mcp/server.py --root /path/to/project",
    "claude mcp add npu-graph -- python3 /path/to/npu-graph-skill/graph-mcp/server.py --allow-record",
)
DEFAULT_SECONDS = 300.0
TERMINATED = 128 + signal.SIGTERM


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Serve the bundle's abilities to any MCP client over stdio.", EXAMPLES)
    parser.add_argument(
        "--root",
        action="extend",
        nargs="+",
        metavar="DIR",
        help="folders that file arguments may lie in (repeatable)",
    )
    parser.add_argument("--allow-record", action="store_true", help="let npu_graph_record_case write a case")
    parser.add_argument(
        "--timeout", type=float, default=DEFAULT_SECONDS, help="seconds one call may take (default %(default)s)"
    )
    options = parser.parse_args(argv)
    roots = [resolve_root(name) for name in options.root] if options.root else default_roots(os.environ)
    # A client that does not close the input first: running calls must end with the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    output = take_over_stdout()
    server = Server(output, __version__, roots, options.allow_record, options.timeout)
    try:
        for message in read_messages(sys.stdin.buffer):
            server.handle(message)
    finally:
        server.close()
    return cli.DONE


def resolve_root(name: str) -> Path:
    """Return the real folder, or say in one line that there is none."""
    path = Path(name).expanduser().resolve()
    if not path.is_dir():
        raise cli.CommandError(f"--root {name} is not a folder; name an existing one")
    return path


if __name__ == "__main__":
    cli.run(main)
