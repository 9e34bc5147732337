"""Pattern examples: the positive is recognised, the near miss is not, and no other pattern scores as high."""

from __future__ import annotations

import json
from pathlib import Path

from knowledge_checks.findings import Outcome
from npu_graph.cli import InputText
from npu_graph.diagnosis.record import diagnose
from npu_graph.patterns import CANDIDATE_FROM, KNOWN_FROM, PATTERN_FILE, check_pattern, load_patterns

EXAMPLES = "tests/data/pattern_examples.json"


def check(root: Path) -> Outcome:
    """Diagnose both examples of every pattern with the shipped knowledge."""
    outcome = Outcome("patterns", "patterns, their grammar, positive and near-miss example")
    folder = root / "knowledge"
    examples = json.loads((root / EXAMPLES).read_text(encoding="utf-8"))
    found = load_patterns([folder])
    place = f"knowledge/{PATTERN_FILE}"
    for problem in found.problems:
        outcome.fault(place, problem.line, problem.message)
    identities = {pattern.id for pattern in found.patterns}
    for identity in sorted(set(examples) - identities):
        outcome.fault(EXAMPLES, 0, f"{identity}: there is no such pattern")
    for pattern in found.patterns:
        outcome.checked += 1
        for problem in check_pattern(pattern):
            outcome.fault(place, problem.line, problem.message)
        pair = examples.get(pattern.id, {})
        if not pair.get("positive") or not pair.get("near_miss"):
            outcome.fault(EXAMPLES, 0, f"{pattern.id}: a positive or near-miss example is missing")
            continue
        scores = _scores(pair["positive"], folder)
        established = bool(pattern.signature.any or pattern.signature.all)
        least = KNOWN_FROM if established else CANDIDATE_FROM
        own = dict(scores).get(pattern.id, 0.0)
        if own < least:
            outcome.fault(place, pattern.line, f"{pattern.id}: {own:.2f} on its positive example, {least} expected")
        for other, score in scores:
            if other != pattern.id and score >= own:
                outcome.fault(
                    place, pattern.line, f"{other} scores {score:.2f} on the positive example of {pattern.id}"
                )
        first = _scores(pair["near_miss"], folder)[:1]
        if first and first[0][0] == pattern.id and first[0][1] >= KNOWN_FROM:
            outcome.fault(place, pattern.line, f"{pattern.id}: {first[0][1]:.2f} on its near miss")
    return outcome


def _scores(text: str, folder: Path) -> list[tuple[str, float]]:
    record = diagnose([InputText("-", text, 0)], "", [folder])
    return [(item["id"], item["score"]) for item in record["patterns"]]
