"""An evidence bundle (a zip) is an input of every script that reads inputs: its texts and logs, bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cost import cpu_seconds
from support import DIAGNOSE, ROOT

from npu_graph import cli

MARKER = "RuntimeError: Called NPUGraph::replay without a preceding successful capture."


def make_zip(path: Path, members: dict[str, str | bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return str(path)


def test_texts_and_logs_are_read_in_order_and_named_by_their_member(tmp_path: Path) -> None:
    name = make_zip(tmp_path / "e.zip", {"health.json": "{}", "a.txt": "one", "plog/b.LOG": "two", "README.md": "#"})
    inputs = cli.read_inputs([name])
    assert [(item.name, item.text) for item in inputs] == [(f"{name}:a.txt", "one"), (f"{name}:plog/b.LOG", "two")]


def test_a_zip_is_told_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    name = make_zip(tmp_path / "attachment", {"a.txt": MARKER})
    assert cli.read_inputs([name])[0].text == MARKER
    plain = tmp_path / "log.zip"
    plain.write_text(MARKER)
    assert cli.read_inputs([str(plain)])[0].text == MARKER


def test_all_members_together_stay_within_the_limit(tmp_path: Path) -> None:
    members: dict[str, str | bytes] = {f"{at}.log": f"first {at}\n" + "x\n" * 50000 + f"last {at}\n" for at in range(8)}
    inputs = cli.read_inputs([make_zip(tmp_path / "e.zip", members)], limit=80_000)
    assert sum(len(item.text) for item in inputs) < 90_000
    assert all(item.skipped_bytes for item in inputs)
    assert inputs[7].text.startswith("first 7")
    assert inputs[7].text.endswith("last 7\n")


def test_a_member_that_unpacks_without_end_is_cut_early(tmp_path: Path) -> None:
    name = make_zip(tmp_path / "bomb.zip", {"a.log": b"A" * (150 << 20)})
    assert Path(name).stat().st_size < 1 << 20
    inputs = cli.read_inputs([name], limit=1 << 20)
    assert cpu_seconds(lambda: cli.read_inputs([name], limit=1 << 20), 2) < 2
    assert len(inputs[0].text) <= (1 << 20) + 100


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"PK\x03\x04 cut off", "no readable zip"), (None, "holds no .txt or .log file")],
    ids=["damaged", "nothing to read"],
)
def test_a_bundle_without_texts_is_one_clear_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "e.zip"
    if content is None:
        make_zip(path, {"picture.png": b"\x89PNG"})
    else:
        path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, str(ROOT / DIAGNOSE), str(path)], capture_output=True, encoding="utf-8", timeout=60
    )
    assert done.returncode == cli.NO_INPUT
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


def test_a_damaged_member_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    make_zip(path, {"a.log": os.urandom(30).hex() * 2000})
    data = bytearray(path.read_bytes())
    data[80:120] = bytes(40)
    path.write_bytes(bytes(data))
    with pytest.raises(cli.CommandError) as raised:
        cli.read_inputs([str(path)])
    assert raised.value.exit_code == cli.NO_INPUT


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(cli.CommandError):
        cli.read_inputs([str(pipe)])


def test_a_bundle_is_diagnosed_from_its_logs(tmp_path: Path) -> None:
    name = make_zip(tmp_path / "e.zip", {"versions.txt": "torch_npu: 2.9.0\n", "failures.txt": MARKER})
    done = subprocess.run(
        [sys.executable, str(ROOT / DIAGNOSE), name, "--output", "json"], capture_output=True, timeout=60
    )
    assert b"without a preceding successful capture" in done.stdout
    assert b"2.9.0" in done.stdout
