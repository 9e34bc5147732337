"""check_graph_health.py on the command line: report, exit codes, limits, redaction and the evidence bundle."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import npu_smi_tables
import pytest
from fake_machine import ROOT, SCRIPT, World, healthy_machine  # noqa: F401 -- a fixture
from health.model import GROUPS

DIAGNOSE = ROOT / "graph-mode-diagnostics" / "scripts" / "diagnose.py"
LAST_LINE = re.compile(r"\d+ passed, \d+ failed, \d+ critical")


def health(world: World | None, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = world.env if world else {"PATH": "/nowhere", "HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        env={"LANG": "C", **env},
        cwd=cwd,
    )


def test_a_healthy_machine_exits_0_and_ends_with_the_summary(world: World) -> None:
    done = health(world)
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    last = done.stdout.splitlines()[-1]
    assert LAST_LINE.fullmatch(last)
    assert last.endswith(" passed, 0 failed, 0 critical")
    assert done.stdout.count("[PASS] ") == len(GROUPS)


def test_a_failure_exits_1_with_evidence_reason_and_next_command(world: World) -> None:
    world.env["TASK_QUEUE_ENABLE"] = "2"
    done = health(world, "--only", "variables")
    assert done.returncode == 1
    assert "FAIL [CRIT] TASK_QUEUE_ENABLE" in done.stdout
    for part in ("TASK_QUEUE_ENABLE=2", "likely reason: ", "ERR00007", "next: export TASK_QUEUE_ENABLE=1"):
        assert part in done.stdout
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 1 critical"


def test_the_same_report_in_chinese(world: World) -> None:
    world.env["TASK_QUEUE_ENABLE"] = "2"
    done = health(world, "--only", "variables", "--lang", "zh")
    assert "可能原因：" in done.stdout
    assert "下一步：" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 1 critical"


def test_the_language_follows_the_locale(world: World) -> None:
    world.env["LANG"] = "zh_CN.UTF-8"
    assert "环境变量" in health(world, "--only", "variables").stdout


def test_a_machine_without_any_npu_stack_exits_4_and_says_what_to_install(tmp_path: Path) -> None:
    done = health(None, cwd=tmp_path)
    assert done.returncode == 4
    assert "No NPU stack here" in done.stdout
    assert re.search(r"pip install torch==[\d.]+ torch_npu==[\d.]+", done.stdout)
    assert LAST_LINE.fullmatch(done.stdout.splitlines()[-1])


def test_json_has_the_documented_schema(world: World) -> None:
    world.env["TASK_QUEUE_ENABLE"] = "2"
    record = json.loads(health(world, "--output", "json").stdout)
    assert record["schema"] == "npu-graph/health/1"
    assert list(record) == ["schema", "language", "summary", "environment", "groups", "install"]
    assert set(record["summary"]) == {"passed", "failed", "critical", "warnings", "skipped"}
    assert [group["group"] for group in record["groups"]] == list(GROUPS)
    for group in record["groups"]:
        assert set(group) == {"group", "title", "status", "checks"}
        for item in group["checks"]:
            assert set(item) == {
                *("check", "outcome", "status", "critical", "title", "evidence", "reason", "next"),
            }
    environment = record["environment"]
    assert (environment["torch_npu"], environment["cann"], environment["soc"]) == ("2.5.1", "8.1.RC1", "Ascend910B3")
    assert environment["variables"]["TASK_QUEUE_ENABLE"] == "2"
    statuses = {group["group"]: group["status"] for group in record["groups"]}
    assert statuses["variables"] == "FAIL"
    documented = (ROOT / "graph-mode-expert" / "references" / "health_report.md").read_text(encoding="utf-8")
    for name in (*record, *environment, *record["groups"][0], *record["groups"][0]["checks"][0], *GROUPS):
        assert f"`{name}`" in documented, f"references/health_report.md does not say what {name} is"


def test_markdown_escapes_what_the_machine_says(world: World) -> None:
    world.env["TASK_QUEUE_ENABLE"] = "<script>|*"
    done = health(world, "--only", "variables", "--output", "md")
    assert "<script>" not in done.stdout
    assert "\\<script\\>" in done.stdout


def test_groups_can_be_chosen(world: World) -> None:
    done = health(world, "--only", "variables,cann")
    assert [line for line in done.stdout.splitlines() if line.startswith("[")] == [
        "[PASS] CANN and driver",
        "[PASS] Environment variables and logs",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "gpu"), "the groups are cann, torch"),
        (("--only", ","), "the groups are cann, torch"),
        (("--device", "-1"), "give 0 or more"),
        (("--timeout", "0"), "give 5 to 3600 seconds"),
        (("--timeout", "soon"), "invalid float value"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(world: World, arguments: tuple[str, ...], message: str) -> None:
    done = health(world, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


def test_everything_hanging_still_ends_within_the_timeout(world: World) -> None:
    world.npu_smi(npu_smi_tables.A2, before="sleep 60")
    world.env.update(PATH=world.env["PATH"] + ":/bin:/usr/bin", FAKE_FAULT="import_torch=hang")
    started = time.monotonic()
    done = health(world, "--timeout", "8")
    assert time.monotonic() - started < 8.0 + 1.0
    assert done.returncode == 1
    assert LAST_LINE.fullmatch(done.stdout.splitlines()[-1])


def test_a_long_report_is_shortened_but_keeps_its_last_line(world: World) -> None:
    world.env.update({f"TASK_QUEUE_ENABLE{at:03}": "1" * 300 for at in range(200)})
    short, whole = health(world, "--only", "variables"), health(world, "--only", "variables", "--all")
    assert len(short.stdout.encode()) <= 20 * 1024 < len(whole.stdout.encode())
    assert "--all" in short.stdout
    assert short.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


SECRETS = {
    "10.20.30.41": "address",
    "hw-node-17.corp.local": "host name",
    "/home/zhangsan": "user",
    "hf_abcdefghijklmnopqrst": "token",
}


def add_secrets(world: World) -> None:
    world.env.update(
        TORCH_NPU_LOGS="/home/zhangsan/x",
        ASCEND_PROCESS_LOG_PATH="/home/zhangsan/log",
        HCCL_IF_IP="10.20.30.41",
        ASCEND_RT_VISIBLE_DEVICES="host=hw-node-17.corp.local",
        TORCH_NPU_TOKEN="hf_abcdefghijklmnopqrst",
    )


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_redacted_report_can_be_posted(world: World, output: str) -> None:
    add_secrets(world)
    plain = health(world, "--only", "variables", "--output", output, "-v").stdout
    posted = health(world, "--only", "variables", "--output", output, "-v", "--redact").stdout
    assert "zhangsan" in plain
    for secret, what in SECRETS.items():
        assert secret not in posted, what
    assert LAST_LINE.search(posted) or output == "json"


def make_plog(world: World, name: str, text: str) -> None:
    folder = Path(world.env["HOME"]) / "ascend" / "log" / "debug" / "plog"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def members(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode("utf-8") for name in archive.namelist()}


def test_the_bundle_holds_what_a_report_needs_redacted_and_bounded(world: World, tmp_path: Path) -> None:
    add_secrets(world)
    world.without("ASCEND_PROCESS_LOG_PATH")
    for at in range(12):
        make_plog(
            world, f"plog-{at}_20260101.log", "old\n" * 60000 + f"[ERROR] RUNTIME({at},python):node 10.20.30.41\n"
        )
        stamp = 1_700_000_000 + at
        os.utime(Path(world.env["HOME"]) / f"ascend/log/debug/plog/plog-{at}_20260101.log", (stamp, stamp))
    target = tmp_path / "evidence.zip"
    done = health(world, "--only", "cann,torch_npu,devices,capture,variables", "--bundle", str(target))
    assert "redacted" in done.stderr
    found = members(target)
    assert {"README.md", "health.json", "health.md", "versions.txt", "variables.txt", "npu-smi.txt"} <= set(found)
    logs = [name for name in found if name.startswith("plog/")]
    assert len(logs) == 8
    assert "plog/debug-plog-11_20260101.log" in logs
    assert found["plog/debug-plog-11_20260101.log"].endswith("[ip-1]\n")
    assert all(len(text) <= 64 * 1024 for name, text in found.items() if name.startswith("plog/"))
    assert json.loads(found["health.json"])["schema"] == "npu-graph/health/1"
    assert "torch_npu: 2.5.1" in found["versions.txt"]
    for text in found.values():
        for secret, what in SECRETS.items():
            assert secret not in text, what
    assert target.stat().st_size < 1024 * 1024


def test_variables_of_other_software_stay_out_of_the_bundle(world: World, tmp_path: Path) -> None:
    world.env["DATABASE_URL"] = "postgres://somewhere"
    health(world, "--only", "variables", "--bundle", str(tmp_path / "evidence.zip"))
    assert "DATABASE_URL" not in members(tmp_path / "evidence.zip")["variables.txt"]


def test_a_bundle_that_cannot_be_written_is_one_line(world: World, tmp_path: Path) -> None:
    done = health(world, "--only", "variables", "--bundle", str(tmp_path / "gone" / "evidence.zip"))
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be written" in done.stderr


def test_diagnose_takes_the_bundle_as_input(world: World, tmp_path: Path) -> None:
    world.env["FAKE_FAULT"] = (
        "replay=raise:replay:NPUGraph.cpp:281 NPU function error: AclmdlRIExecuteAsync, error code is 507011"
    )
    target = tmp_path / "evidence.zip"
    assert health(world, "--bundle", str(target)).returncode == 1
    done = subprocess.run(
        [sys.executable, str(DIAGNOSE), str(target), "--output", "json"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    record = json.loads(done.stdout)
    assert "507011" in [item["code"] for item in record["error_codes"]]
    assert record["environment"]["torch_npu"] == "2.5.1"
    assert record["environment"]["cann"] == "8.1.RC1"
    assert "ERR00007" not in [item["code"] for item in record["error_codes"]], "advice of the report is not evidence"
