"""cluster_logs.py reads every node of a real Ray cluster, and keeps the rest when a node dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npu_graph import bundle
from tests.logs.log_lines import capture, plog, replay

SCRIPT = bundle.ROOT / "graph-log-analyzer" / "scripts" / "cluster_logs.py"
PORT = 26379


def test_without_ray_the_install_line_is_given(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('no ray')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--path", "/x"], env=env, capture_output=True, encoding="utf-8", timeout=60
    )
    assert done.returncode == 4
    assert "pip install ray" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def _node(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    ray = Path(sys.executable).parent / "ray"
    env = {**os.environ, "NODE_LOGS": str(folder)}
    return subprocess.Popen(
        [str(ray), "start", "--block", "--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats", *arguments],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, text=True,
    )  # fmt: skip


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _alive(number: int) -> bool:
    code = (
        f"import ray,sys; ray.init(address='127.0.0.1:{PORT}', log_to_driver=False, logging_level='ERROR');"
        f"sys.exit(0 if sum(n['Alive'] for n in ray.nodes()) == {number} else 1)"
    )
    try:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=40).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _becomes(number: int) -> bool:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        time.sleep(3)
        if _alive(number):
            return True
    return False


@pytest.fixture
def cluster(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")
    folders = []
    for number in range(3):
        folder = tmp_path / f"node{number}"
        folder.mkdir()
        pid = 100 + number
        lines = [*capture(number * 0.001, 1, pid=pid, rank=number)]
        lines += [replay(2 + n * 0.01, pid=pid, rank=number) for n in range(200)]
        if number == 1:
            lines.append(plog(3, "[device_error_proc.cc:1393]7 aicore exception", "ERROR", pid=pid))
        else:
            text = "[hccl.cc:9]7 wait timeout for rank"
            lines.append(plog(9 + number, text, "ERROR", "HCCL", pid=pid))
        (folder / "run.log").write_text("\n".join(lines) + "\n")
        folders.append(folder)
    head = ("--head", f"--port={PORT}", "--include-dashboard=false", "--node-ip-address=127.0.0.1")
    nodes = [_node(*head, folder=folders[0])]
    try:
        if not _becomes(1):
            pytest.skip("a Ray head node did not start on this machine")
        for folder in folders[1:]:  # one after the other: two that start at once take each other's ports
            nodes.append(_node(f"--address=127.0.0.1:{PORT}", folder=folder))
            if not _becomes(len(nodes)):
                pytest.skip("a Ray cluster of three nodes did not start on this machine")
        yield nodes, folders
    finally:
        for node in reversed(nodes):
            _stop(node)


def _run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--address", f"127.0.0.1:{PORT}", "--path", "$NODE_LOGS", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_every_node_is_read_and_a_dying_one_is_reported_missing(cluster):
    nodes, folders = cluster
    process = _run("--output", "json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    record = json.loads(out)
    assert len(record["input"]["hosts"]) == 3
    assert {item["rank"] for item in record["processes"]} == {"0", "1", "2"}
    assert record["replays"]["count"] == 600
    assert record["first_failure"]["rank"] == "1"
    assert record["first_failure"]["context"], "the lines around it travel with the part"
    assert not record["partial"]
    assert len(record["clock"]["skews"]) + record["clock"]["skew_unknown"] >= 1

    with (folders[2] / "endless.log").open("wb") as out_file:  # keeps the third node busy until it is stopped
        out_file.write(b"a line\n" * 10000)
        out_file.truncate(400 << 30)
    process = _run("--output", "json")
    time.sleep(12)
    _stop(nodes[2])
    out, err = process.communicate(timeout=120)
    record = json.loads(out)
    assert record["partial"]
    assert len(record["input"]["missing"]) == 1
    assert {item["rank"] for item in record["processes"]} == {"0", "1"}
    assert record["first_failure"]["rank"] == "1"
