"""The rules do not hang on the wording of the examples: paraphrased and shortened reports keep their stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

from npu_graph import bundle
from npu_graph.patterns import KNOWN_FROM, load_patterns

Diagnose = Callable[..., dict[str, Any]]
DATA = Path(__file__).parent / "data"
# Pattern id: reports of its kind in other words, mostly of one line, in English and Chinese.
PARAPHRASES: dict[str, list[str]] = json.loads((DATA / "pattern_paraphrases.json").read_text(encoding="utf-8"))
EXAMPLES: dict[str, dict[str, str]] = json.loads((DATA / "pattern_examples.json").read_text(encoding="utf-8"))
PATTERNS = {pattern.id: pattern for pattern in load_patterns([bundle.SEED_KNOWLEDGE]).patterns}
PAIRS = [(identity, text) for identity, texts in PARAPHRASES.items() for text in texts]
# Measured on 2026-11-30. As first written: 33 and 32 of 39, then 19 more for new and weak patterns, of which 18 kept
# their stage and 18 named their pattern. Symptom words were widened after that, so the whole set is no longer unseen.
# Raise the floors, never lower them.
STAGE_FLOOR = 58
PATTERN_FLOOR = 58


def test_there_are_enough_and_each_belongs_to_a_pattern() -> None:
    assert len(PAIRS) >= 58
    assert set(PARAPHRASES) <= set(PATTERNS)
    assert all(text != EXAMPLES[identity]["positive"] for identity, text in PAIRS)


def test_paraphrased_reports_keep_their_stage(diagnose_text: Diagnose) -> None:
    wrong = []
    for identity, text in PAIRS:
        stage = diagnose_text(text)["stage"]["value"]
        if stage != PATTERNS[identity].stage:
            wrong.append(f"{identity}: {stage} on {text[:60]!r}")
    assert len(PAIRS) - len(wrong) >= STAGE_FLOOR, wrong


def test_paraphrased_reports_name_their_pattern_among_the_first_three(diagnose_text: Diagnose) -> None:
    missed = []
    for identity, text in PAIRS:
        found = [item["id"] for item in diagnose_text(text)["patterns"][:3]]
        if identity not in found:
            missed.append(f"{identity}: {found} on {text[:60]!r}")
    assert len(PAIRS) - len(missed) >= PATTERN_FLOOR, missed


def test_no_paraphrase_is_taken_for_another_known_failure(diagnose_text: Diagnose) -> None:
    wrong = []
    for identity, text in PAIRS:
        record = diagnose_text(text)
        first = record["patterns"][0] if record["patterns"] else None
        if first and first["score"] >= KNOWN_FROM and first["id"] != identity:
            wrong.append(f"{identity}: {first['id']} on {text[:60]!r}")
    assert wrong == []


def test_the_lines_that_count_are_enough(diagnose_text: Diagnose) -> None:
    """Leave all else out: the first cause and the evidence alone give the same stage and pattern."""
    wrong = []
    for identity, texts in EXAMPLES.items():
        whole = diagnose_text(texts["positive"])
        numbers = {item["line"] for item in whole["patterns"][0]["evidence"]}
        if whole["first_cause"]:
            numbers.add(whole["first_cause"]["line"])
        lines = texts["positive"].split("\n")
        short = diagnose_text("\n".join(lines[number - 1] for number in sorted(numbers) if number))
        if short["stage"]["value"] != whole["stage"]["value"] or not short["patterns"]:
            wrong.append(f"{identity}: {whole['stage']['value']} became {short['stage']['value']}")
    assert wrong == []


def test_an_eager_program_out_of_memory_is_no_known_graph_failure(diagnose_text: Diagnose) -> None:
    record = diagnose_text(
        "RuntimeError: NPU out of memory. Tried to allocate 20.00 GiB (NPU 0; 60.97 GiB total capacity)\n"
        "Plain eager fine-tuning script, batch size 64, no torch.compile, no graph capture."
    )
    assert record["verdict"] != "known"
