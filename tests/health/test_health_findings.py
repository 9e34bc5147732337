"""Every fault that the health check knows is provoked on a machine that has it, and is found, explained and graded."""

from __future__ import annotations

import re

import pytest
from fake_machine import World, healthy_machine  # noqa: F401 -- a fixture
from health import report, tables
from health.model import FAIL, PASS, SKIP, WARN, count
from scenarios import CRIT, SCENARIOS, Scenario

# What a text shows where a check gave no value for it.
UNFILLED = re.compile(r"\{[a-z_]{1,30}\}")


@pytest.mark.parametrize("case", SCENARIOS, ids=[f"{at}-{case.found}" for at, case in enumerate(SCENARIOS)])
def test_a_fault_is_found_graded_and_explained(world: World, case: Scenario) -> None:
    checks = {f"{item.name}/{item.outcome}": item for item in case.run(world)}
    assert case.found in checks, f"found only {sorted(checks)}"
    found = checks[case.found]
    assert found.status == (FAIL if case.status == CRIT else case.status)
    assert found.critical == (case.status == CRIT)
    for language in ("en", "zh"):
        explained = report.Texts(language).explain(found)
        assert explained.title
        assert not UNFILLED.search(explained.reason + explained.next)
        if found.status in (FAIL, WARN):
            assert explained.reason, "a failure needs a likely reason"
            assert explained.next, "a failure needs a next command"
    if found.status in (FAIL, WARN) and found.name not in ("cann.environment", "devices.npu_smi"):
        assert found.evidence, "a failure needs evidence"


def test_no_explained_fault_is_without_a_scenario() -> None:
    provoked = {case.found for case in SCENARIOS}
    subjects = {found.split(".", 1)[1] for found in provoked}
    outcomes = {found.split("/")[1] for found in provoked}
    missing = []
    for row in tables.read_table("health_texts"):
        name, outcome = row["check"], row["outcome"]
        if not row["next"]:
            continue
        if name == "*":
            seen = outcome in outcomes
        elif name.startswith("*."):
            seen = f"{name[2:]}/{outcome}" in subjects
        elif name.endswith(".*"):
            seen = any(found.startswith(name[:-1]) and found.endswith("/" + outcome) for found in provoked)
        else:
            seen = f"{name}/{outcome}" in provoked
        if not seen:
            missing.append(f"{name}/{outcome}")
    assert not missing


def test_a_healthy_machine_passes_every_group(world: World) -> None:
    checks = world.checks()
    bad = [f"{item.name}/{item.outcome}: {item.evidence}" for item in checks if item.status != PASS]
    assert not bad
    record = report.as_record(checks, {}, "en")
    assert [group["group"] for group in record["groups"]] == [
        "cann", "torch", "torch_npu", "devices", "api", "variables", "capture", "memory",
    ]  # fmt: skip
    assert {group["status"] for group in record["groups"]} == {PASS}


def test_a_critical_failure_counts_as_failed_too(world: World) -> None:
    world.env["TASK_QUEUE_ENABLE"] = "2"
    summary = count(world.checks("variables"))
    assert (summary["failed"], summary["critical"]) == (1, 1)


@pytest.mark.parametrize("table", ["a3", "310p"])
def test_other_products_are_judged_by_their_own_operator_packages(world: World, table: str) -> None:
    import npu_smi_tables

    text, folder = {"a3": (npu_smi_tables.A3, "ascend910_93"), "310p": (npu_smi_tables.A310P, "ascend310p")}[table]
    world.npu_smi(text)
    world.kernels(folder)
    kernels = next(item for item in world.checks("cann") if item.name == "cann.kernels")
    assert kernels.status == PASS, kernels.evidence


def test_what_cannot_be_judged_is_skipped_not_passed(world: World) -> None:
    world.env["FAKE_FAULT"] = "import_torch_npu=import:libhccl.so: cannot open shared object file"
    after = {item.name: item.status for item in world.checks("torch_npu", "devices", "capture", "memory")}
    assert after["torch_npu.import"] == FAIL
    assert after["devices.torch"] == after["capture.basic"] == after["memory.pool"] == SKIP


def test_the_api_of_a_package_that_cannot_be_imported_is_read_from_its_sources(world: World) -> None:
    world.env["FAKE_FAULT"] = "import_torch_npu=crash"
    checks = {item.name: item for item in world.checks("torch_npu", "api")}
    assert checks["torch_npu.import"].outcome == "crash"
    assert "read from its sources" in checks["api.names"].evidence[0]
