"""The public conformance suite finds nothing wrong, in the last `initialize` revision and in the current one."""

from __future__ import annotations

import pytest
from conformance import REVISIONS, Check, find_missing, judge, render_table, run_suite
from support import ROOT

README = ROOT / "graph-mcp" / "README.md"

# What a real client relies on; a suite that ran nothing must not pass.
MUST_PASS = {
    "2025-11-25": {"server-initialize", "ping", "tools-list", "tools-call-error", "tools-call-with-progress"},
    "2026-07-28": {"tools-list", "tools-call-error", "tools-call-with-progress", "caching", "json-schema-2020-12"},
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(find_missing()), reason="no conformance suite on this machine; `make .npm-mcp` installs it")
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_suite_finds_no_fault(revision: str) -> None:
    verdicts = judge(run_suite(revision))
    assert [verdict for verdict in verdicts if verdict.result == "fault"] == []
    assert MUST_PASS[revision] <= {verdict.scenario for verdict in verdicts if verdict.result == "passed"}
    assert render_table(revision, verdicts) in README.read_text(encoding="utf-8"), (
        "run `make conformance`, paste its table"
    )


@pytest.mark.parametrize(
    ("check", "result"),
    [
        (Check("tools-call-image", "a", "FAILURE", "unknown tool: test_image_content"), "not applicable"),
        (Check("tools-call-image", "a", "FAILURE", "the connection was closed"), "fault"),
        (Check("tools-list", "a", "FAILURE", "unknown tool: test_image_content"), "fault"),
        (Check("tools-call-image", "wire-schema-valid", "FAILURE", "unknown tool: test_image_content"), "fault"),
        (Check("tasks-lifecycle", "a", "SUCCESS", ""), "not applicable"),
        (Check("tools-list", "wire-schema-valid", "SUCCESS", ""), "not applicable"),
        (Check("tools-list", "a", "SUCCESS", ""), "passed"),
    ],
)
def test_only_a_failure_about_an_absent_feature_is_excused(check: Check, result: str) -> None:
    assert [verdict.result for verdict in judge([check])] == [result]
