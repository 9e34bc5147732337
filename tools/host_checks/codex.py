"""What Codex makes of the bundle: what its model is shown, what its server lists, and what fails to parse."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from typing import Any

from host_checks.placement import CODEX_FOLDER, WAYS, Site
from host_checks.programs import RUN_SECONDS
from host_checks.results import BUNDLE_NAME, OWN_NAMES, Result, own_names

HOST = "Codex"
WAYS_HERE = ("install.py", "install.py, user", "copy", "git clone", "release archive", "skills CLI")
# A folder with .claude-plugin/ is a plugin to Codex, which prefixes the names of its skills.
PREFIXED = ("copy", "git clone", "release archive", "skills CLI")
_ENTRY = re.compile(r"^- ([\w:-]+): ", re.MULTILINE)


def shown_skills(site: Site) -> list[str]:
    """Return the bundle's names in the prompt that the model gets."""
    answer = site.programs.run("codex", "debug", "prompt-input", "hello", home=site.home, cwd=site.project)
    try:
        prompt = json.loads(answer.stdout)
    except ValueError:
        return [f"no prompt: {(answer.stderr or answer.stdout).strip()[-200:]}"]
    texts = [part.get("text", "") for message in prompt for part in message.get("content", [])]
    return own_names(_ENTRY.findall("\n".join(texts)))


def listed_skills(site: Site) -> tuple[list[str], list[str]]:
    """Return the bundle's names that skills/list of the app server gives, and its parse errors."""
    command = [site.programs.command("codex"), "app-server"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = site.programs.environment(site.home)
    with subprocess.Popen(command, cwd=site.project, env=environment, encoding="utf-8", **pipes) as server:
        watchdog = threading.Timer(RUN_SECONDS, server.kill)
        watchdog.start()
        try:
            _request(server, 1, "initialize", {"clientInfo": {"name": "npu-graph-check", "version": "1"}})
            _send(server, {"method": "initialized"})
            answer = _request(server, 2, "skills/list", {"cwds": [str(site.project)], "forceReload": True})
        finally:
            watchdog.cancel()
            server.kill()
    entries = answer.get("result", {}).get("data", [])
    names = [skill["name"] for entry in entries for skill in entry["skills"]]
    errors = [f"{fault['path']}: {fault['message']}" for entry in entries for fault in entry["errors"]]
    return sorted(own_names(names)), errors if entries else ["no answer to skills/list"]


def _send(server: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()


def _request(server: subprocess.Popen[str], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request and return its answer; {} when the server ends first."""
    _send(server, {"id": number, "method": method, "params": params})
    assert server.stdout is not None
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == number:
            return dict(message)
    return {}


def check_way(site: Site, way: str) -> list[Result]:
    """Install in one way; look at what the model is shown and at what the server lists."""
    WAYS[way](site, CODEX_FOLDER)
    prefix = f"{BUNDLE_NAME}:" if way in PREFIXED else ""
    shown = shown_skills(site)
    listed, errors = listed_skills(site)
    expected_list = sorted(prefix + name for name in OWN_NAMES)
    return [
        Result(
            HOST, way, "shows its model the router only", shown == [prefix + BUNDLE_NAME], ", ".join(shown) or "nothing"
        ),
        Result(
            HOST,
            way,
            "no parse error",
            not errors and listed == expected_list,
            "; ".join(errors) or f"{len(listed)} files read",
        ),
    ]
