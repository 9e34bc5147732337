"""Each pattern recognises a report of its kind, and leaves alone the report that only looks like one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable

import pytest

from npu_graph import bundle
from npu_graph.patterns import CANDIDATE_FROM, CHINESE_FIELDS, KNOWN_FROM, Pattern, load_patterns

Diagnose = Callable[..., dict[str, Any]]
EXAMPLE_FILE = Path(__file__).parent / "data" / "pattern_examples.json"
EXAMPLES: dict[str, dict[str, str]] = json.loads(EXAMPLE_FILE.read_text(encoding="utf-8"))
PATTERNS = {pattern.id: pattern for pattern in load_patterns([bundle.SEED_KNOWLEDGE]).patterns}
IDENTITIES = sorted(PATTERNS)
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def has_text_signature(pattern: Pattern) -> bool:
    """Say whether a text can establish the pattern; one with symptom words only can at most be suggested."""
    return bool(pattern.signature.any or pattern.signature.all)


SUGGESTED_ONLY = [identity for identity in IDENTITIES if not has_text_signature(PATTERNS[identity])]


def found_in(record: dict[str, Any]) -> list[tuple[str, float]]:
    return [(item["id"], item["score"]) for item in record["patterns"]]


def test_every_pattern_has_one_example_of_each_kind() -> None:
    assert sorted(EXAMPLES) == IDENTITIES
    for identity, texts in EXAMPLES.items():
        assert sorted(texts) == ["near_miss", "positive"], identity
        assert texts["near_miss"] != texts["positive"], identity


@pytest.mark.parametrize("kind", ["positive", "near_miss"])
def test_the_examples_are_as_long_as_a_pasted_report(kind: str) -> None:
    for identity, texts in EXAMPLES.items():
        lines = texts[kind].count("\n") + 1
        assert lines <= 25 and len(texts[kind]) >= 60, f"{identity} {kind}: {lines} lines"


@pytest.mark.parametrize("identity", IDENTITIES)
class TestAPattern:
    def test_it_comes_first_on_its_own_report(self, identity: str, diagnose_text: Diagnose) -> None:
        found = found_in(diagnose_text(EXAMPLES[identity]["positive"]))
        assert found and found[0][0] == identity, found
        assert found[0][1] >= (KNOWN_FROM if has_text_signature(PATTERNS[identity]) else CANDIDATE_FROM)

    def test_no_other_pattern_scores_as_high_there(self, identity: str, diagnose_text: Diagnose) -> None:
        found = found_in(diagnose_text(EXAMPLES[identity]["positive"]))
        assert [other for other, score in found[1:] if score >= found[0][1]] == []

    def test_a_near_miss_is_not_taken_for_it(self, identity: str, diagnose_text: Diagnose) -> None:
        found = found_in(diagnose_text(EXAMPLES[identity]["near_miss"]))
        assert not (found and found[0][0] == identity and found[0][1] >= KNOWN_FROM), found

    def test_a_chinese_report_explains_it_in_chinese(self, identity: str) -> None:
        fields = PATTERNS[identity].fields
        assert [name for name in CHINESE_FIELDS if not CHINESE.search(fields.get(name, ""))] == []


@pytest.mark.parametrize("identity", SUGGESTED_ONLY)
def test_symptom_words_alone_suggest_a_pattern_and_say_what_confirms_it(identity: str, diagnose_text: Diagnose) -> None:
    record = diagnose_text(EXAMPLES[identity]["positive"])
    assert record["verdict"] != "known"
    assert record["patterns"][0]["confirm"]
