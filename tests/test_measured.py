"""The engine on real public reports, where the maintainers' field data lies beside the project."""

from __future__ import annotations

import json
import sys

import pytest
from support import ROOT, SHARED

sys.path.insert(0, str(ROOT / "tools"))
CASES = SHARED / "cases" / "handed.jsonl"
pytestmark = pytest.mark.shared

# Shares that may not be undercut (percent).
FLOORS = {
    "stage right, reports with error text": 97,
    "owner right, reports with error text": 90,
    "first pattern right, cause confirmed": 92,
    "pattern among the first three, symptoms only": 75,
    "nothing claimed as known, symptoms only": 90,
    "nothing claimed, outside graph mode": 100,
    "nothing claimed, unrelated reports": 100,
}


@pytest.mark.skipif(not CASES.is_file(), reason="the field data folder is not beside the project")
def test_the_engine_keeps_its_measured_quality() -> None:
    from measure_cases import LABELS, measure

    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    rows = {name: (right, total, wrong) for name, right, total, wrong in measure(cases, json.loads(LABELS.read_text()))}
    for name, floor in FLOORS.items():
        right, total, wrong = rows[name]
        assert total > 0, name
        assert 100 * right / total >= floor, f"{name}: {right}/{total}, wrong: {wrong}"
