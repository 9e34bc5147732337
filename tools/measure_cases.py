#!/usr/bin/env python3
"""Measure the engine on real reports: stage, owner and first pattern right, and nothing claimed on unrelated ones.

Usage: measure_cases.py CASES.jsonl [--labels LABELS.json] [--table]

CASES.jsonl holds one report a line: `id`, `input`, `input_kind` (`log`: it has error text; `symptom_only`),
`confidence`, `expected` {stage, owner: [accepted, …]}. LABELS.json maps a case id to the pattern ids that are right.
`--table` prints the Markdown table of tests/README.md. Exit codes: 0 measured, 3 nothing to measure.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from npu_graph import bundle, cli
from npu_graph.cli import InputText
from npu_graph.diagnosis.record import diagnose

LABELS = ROOT / "tests" / "data" / "case_labels.json"
UNRELATED = ROOT / "tests" / "data" / "unrelated_reports.txt"
KNOWN_FROM = 0.7


def measure(cases: list[dict[str, Any]], labels: dict[str, list[str]]) -> list[tuple[str, int, int, list[str]]]:
    """Return (what, right, of, ids that are wrong) rows."""
    results = [(case, diagnose([InputText("-", case["input"], 0)], "", [bundle.SEED_KNOWLEDGE])) for case in cases]
    with_text = [item for item in results if item[0]["input_kind"] == "log"]
    symptoms = [item for item in results if item[0]["input_kind"] != "log"]
    not_graph = [item for item in results if item[0]["expected"]["stage"] == "not_graph"]
    confirmed = [
        item
        for item in results
        if item[0]["confidence"].startswith("error text and confirmed") and item[0]["id"] in labels
    ]
    labelled_symptoms = [item for item in symptoms if item[0]["id"] in labels]

    def row(name: str, items: list[Any], right: Any) -> tuple[str, int, int, list[str]]:
        wrong = [case["id"] for case, record in items if not right(case, record)]
        return name, len(items) - len(wrong), len(items), wrong

    def among(case: dict[str, Any], record: dict[str, Any], count: int) -> bool:
        return any(item["id"] in labels[case["id"]] for item in record["patterns"][:count])

    def stage_right(case: dict[str, Any], record: dict[str, Any]) -> bool:
        return record["stage"]["value"] == case["expected"]["stage"]

    def owner_right(case: dict[str, Any], record: dict[str, Any]) -> bool:
        return record["owner"]["value"] in case["expected"]["owner"]

    def claims_nothing(_: Any, record: dict[str, Any]) -> bool:
        return all(item["score"] < KNOWN_FROM for item in record["patterns"]) and record["verdict"] != "known"

    return [
        row("stage right, reports with error text", with_text, stage_right),
        row("owner right, reports with error text", with_text, owner_right),
        row("first pattern right, cause confirmed", confirmed, lambda c, r: among(c, r, 1)),
        row("stage right, symptoms only", symptoms, stage_right),
        row("owner right, symptoms only", symptoms, owner_right),
        row("pattern among the first three, symptoms only", labelled_symptoms, lambda c, r: among(c, r, 3)),
        row("nothing claimed as known, symptoms only", symptoms, lambda c, r: r["verdict"] != "known"),
        row("nothing claimed, outside graph mode", not_graph, claims_nothing),
        row("nothing claimed, unrelated reports", unrelated_results(), claims_nothing),
    ]  # fmt: skip


def unrelated_results() -> list[Any]:
    """Return the shipped unrelated reports in the form of results."""
    parts = UNRELATED.read_text(encoding="utf-8").split("===== ")[1:]
    reports = [part.partition("\n")[::2] for part in parts]
    return [({"id": name}, diagnose([InputText("-", text, 0)], "", [bundle.SEED_KNOWLEDGE])) for name, text in reports]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--table", action="store_true", help="print a Markdown table")
    options = parser.parse_args(argv)
    cases = [json.loads(line) for line in options.cases.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not cases:
        print("no case in the file; nothing was measured", file=sys.stderr)
        return 3
    rows = measure(cases, json.loads(options.labels.read_text(encoding="utf-8")))
    if options.table:
        print("| what | right | of | share |\n| --- | --- | --- | --- |")
    for name, right, total, wrong in rows:
        share = f"{100 * right / total:.0f} %" if total else "-"
        if options.table:
            print(f"| {name} | {right} | {total} | {share} |")
        else:
            print(f"{name:48} {right:3}/{total:3}  {share:>6}  {' '.join(wrong)}")
    return 0


if __name__ == "__main__":
    cli.run(main)
