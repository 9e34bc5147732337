"""Every script a user runs: bare Python 3.8 to 3.13, any folder, any locale, a read-only bundle."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import DIAGNOSE, ROOT, find_pythons, run_script

PARTS = (
    "graph-mode-expert",
    "graph-mode-diagnostics",
    "graph-log-analyzer",
    "graph-perf",
    "graph-mcp",
    "knowledge",
    "npu_sim",
)
# What a script may need beyond the standard library; it says so and exits 4 when it is absent.
OPTIONAL = {"torch", "torch_npu", "ray", "jinja2", "numpy"}
EXAMPLE = ROOT / "graph-mode-diagnostics" / "examples" / "default_stream.txt"


def user_files() -> list[Path]:
    """Return every Python file that a user's machine runs."""
    found = [path for part in (*PARTS, "npu_graph") for path in sorted((ROOT / part).rglob("*.py"))]
    return [ROOT / "install.py", *found]


def scripts() -> list[str]:
    """Return the command-line scripts, relative to the root."""
    return [
        str(path.relative_to(ROOT))
        for path in user_files()
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    ]


def test_there_are_scripts_to_check() -> None:
    assert {DIAGNOSE, "graph-mode-expert/scripts/lookup_code.py", "knowledge/scripts/kb.py", "install.py"} <= set(
        scripts()
    )


@pytest.mark.parametrize("script", scripts())
def test_help_shows_purpose_examples_and_exit_codes(script: str) -> None:
    result = run_script(script, "--help")
    text = result.stdout.decode()
    assert result.returncode == 0, result.stderr
    assert "exit codes" in text.lower()
    assert "example" in text.lower()
    assert result.stderr == b""


@pytest.mark.parametrize("path", user_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_syntax_is_python_3_8_and_imports_are_standard(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    local = {item.stem for item in path.parent.iterdir()} | {item.name for item in ROOT.iterdir()} | {"npu_graph"}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            assert top in sys.stdlib_module_names or top in local or top in OPTIONAL, f"{path}:{node.lineno} {name}"


@pytest.mark.versions
@pytest.mark.parametrize(("version", "python"), find_pythons(), ids=lambda value: value if value[0].isdigit() else "")
def test_the_main_commands_run_on_each_python_without_site_packages(version: str, python: str) -> None:
    commands = [
        (DIAGNOSE, str(EXAMPLE), "--output", "json"),
        (DIAGNOSE, str(EXAMPLE), "--lang", "zh"),
        ("graph-mode-expert/scripts/lookup_code.py", "107027", "EZ9999"),
        ("knowledge/scripts/kb.py", "search", "stream not joined"),
        ("knowledge/scripts/kb.py", "check"),
    ]
    for command in commands:
        result = run_script(*command, python=python)
        assert result.returncode == 0, (command, result.stderr.decode())
    for script in scripts():
        assert run_script(script, "--help", python=python).returncode == 0, script


def test_from_another_directory_with_a_locale_that_is_not_utf8(tmp_path: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = run_script(DIAGNOSE, str(EXAMPLE), "--lang", "zh", cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert "命中已知模式" in result.stdout.decode("utf-8")


def ordinary_user() -> tuple[str, dict]:
    """Return a Python and process options of a user whom permission bits bind: root goes past them."""
    if os.name != "posix" or os.geteuid() != 0:
        return sys.executable, {}
    system = "/usr/bin/python3"
    if not Path(system).exists():
        pytest.skip("running as root, and no Python that another user could start")
    return system, {"user": 65534, "group": 65534, "extra_groups": []}


def test_from_a_read_only_copy_with_spaces_in_its_path() -> None:
    python, options = ordinary_user()
    with tempfile.TemporaryDirectory(prefix="read only ") as folder:
        copy = Path(folder) / "my skills" / "npu-graph-skill"
        shutil.copytree(
            ROOT,
            copy,
            ignore=shutil.ignore_patterns(".git", ".venv*", ".npm-*", "tests", "__pycache__", ".*_cache", "shared"),
        )
        for path in [Path(folder), *Path(folder).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            for command in ((DIAGNOSE, str(copy / EXAMPLE.relative_to(ROOT))), ("knowledge/scripts/kb.py", "check")):
                call = [python, str(copy / command[0]), *command[1:]]
                result = subprocess.run(call, capture_output=True, cwd="/", check=False, **options)
                assert result.returncode == 0, result.stderr
            record = [
                "record",
                "--stage",
                "capture",
                "--layer",
                "L4",
                "--owner",
                "user_code",
                "--symptom",
                "new text 107999",
                "--verify",
                "ran",
            ]
            call = [python, str(copy / "knowledge/scripts/kb.py"), *record]
            refused = subprocess.run(call, capture_output=True, text=True, cwd="/proc", check=False, **options)
            assert refused.returncode == 4
            assert refused.stderr.count("\n") == 1
        finally:
            for path in [Path(folder), *Path(folder).rglob("*")]:
                path.chmod(0o755)
