"""The READMEs show what the command prints now, and their commands work."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from support import ROOT, run_script

PAGES = ("README.md", "README.zh-CN.md")


def test_the_transcripts_are_what_the_command_prints() -> None:
    result = subprocess.run(
        [sys.executable, "tools/update_readme.py", "--check"], cwd=ROOT, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr.decode()


@pytest.mark.parametrize("page", PAGES)
def test_the_first_command_needs_no_set_up(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    command = re.findall(r"```bash\npython3 (.+)\n```", text)[0].split()
    result = run_script(command[0], *command[1:], cwd=ROOT)
    assert result.returncode == 0
    assert "P-CAP-003" in result.stdout.decode("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_host_named_for_install_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    help_text = run_script("install.py", "install", "--help").stdout.decode()
    hosts = re.findall(r"--host ([a-z-]+)", text)
    assert len(hosts) >= 4
    for host in hosts:
        assert host in help_text


def test_the_tests_command_is_what_continuous_integration_runs() -> None:
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "```bash\nmake test\n```" in (ROOT / "README.md").read_text(encoding="utf-8")
