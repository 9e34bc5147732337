"""An upgrade merges a team's own patterns with the new ones, entry by entry, and never guesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_graph.installation import put_in_place
from npu_graph.pattern_merge import merge_patterns


def entry(identity: str, text: str) -> str:
    return f"### {identity} — Title\n\n- Cause: {text}\n\n```signature\nany: ### not a heading\n```\n\n"


def document(**entries: str) -> str:
    body = "".join(entry(name.replace("_", "-"), text) for name, text in entries.items())
    return "# Known patterns\n\n## Capture\n\n" + body


BASE = document(P_CAP_001="one", P_CAP_002="two")
CASES = [
    ("the user added", document(P_CAP_001="one", P_CAP_901="ours", P_CAP_002="two"), BASE, ["P-CAP-001", "P-CAP-901", "P-CAP-002"]),
    ("the bundle added", BASE, document(P_CAP_001="one", P_CAP_002="two", P_CAP_003="three"), ["P-CAP-001", "P-CAP-002", "P-CAP-003"]),
    ("both added", document(P_CAP_001="one", P_CAP_002="two", P_CAP_901="ours"), document(P_CAP_001="one", P_CAP_002="two", P_CAP_003="three"), ["P-CAP-001", "P-CAP-002", "P-CAP-901", "P-CAP-003"]),
    ("the user removed", document(P_CAP_002="two"), BASE, ["P-CAP-002"]),
    ("the bundle removed", BASE, document(P_CAP_001="one"), ["P-CAP-001"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mine", "new", "expected"), CASES, ids=[row[0] for row in CASES])
def test_changes_to_different_entries_are_joined(name: str, mine: str, new: str, expected: list[str]) -> None:
    merged = merge_patterns(BASE, mine, new)
    assert merged.conflicts == []
    assert [line.split()[1] for line in merged.text.splitlines() if line.startswith("### P-")] == expected


def test_a_change_on_one_side_is_taken() -> None:
    changed = document(P_CAP_001="changed", P_CAP_002="two")
    assert merge_patterns(BASE, changed, BASE).text == changed
    assert merge_patterns(BASE, BASE, changed).text == changed


CONFLICTS = [
    (document(P_CAP_001="mine", P_CAP_002="two"), document(P_CAP_001="new", P_CAP_002="two")),
    (document(P_CAP_002="two"), document(P_CAP_001="new", P_CAP_002="two")),
    (document(P_CAP_001="mine", P_CAP_002="two"), document(P_CAP_002="two")),
]


@pytest.mark.parametrize(("mine", "new"), CONFLICTS, ids=["both changed", "removed and changed", "changed and removed"])
def test_one_entry_changed_on_both_sides_is_a_conflict(mine: str, new: str) -> None:
    assert merge_patterns(BASE, mine, new).conflicts == ["### P-CAP-001"]


def test_a_heading_that_stands_twice_is_not_merged() -> None:
    assert merge_patterns(BASE, BASE + entry("P-CAP-001", "again"), BASE).conflicts


def make_bundle(folder: Path, patterns: str) -> Path:
    (folder / "knowledge").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: npu-graph-skill\ndescription: x\n---\n")
    (folder / "knowledge" / "known-patterns.md").write_text(patterns, encoding="utf-8")
    return folder


def test_an_upgrade_keeps_a_local_pattern_and_brings_the_new_ones(tmp_path: Path) -> None:
    target = tmp_path / "skills" / "npu-graph-skill"
    file = target / "knowledge" / "known-patterns.md"
    put_in_place(make_bundle(tmp_path / "v1", BASE), target, "1.0.0", fresh=True)
    file.write_text(document(P_CAP_001="one", P_CAP_002="two", P_CAP_901="ours"), encoding="utf-8")
    new = document(P_CAP_001="one, better", P_CAP_002="two", P_CAP_003="three")
    outcome = put_in_place(make_bundle(tmp_path / "v2", new), target, "2.0.0")
    text = file.read_text(encoding="utf-8")
    assert "merged" in [step.action for step in outcome.steps]
    for words in ("one, better", "three", "ours"):
        assert words in text
    assert not file.with_name("known-patterns.md.new").exists()
    # and once more, from the new ancestor
    put_in_place(make_bundle(tmp_path / "v3", new.replace("three", "three, better")), target, "3.0.0")
    assert "three, better" in file.read_text(encoding="utf-8")
    assert "ours" in file.read_text(encoding="utf-8")


def test_an_upgrade_that_cannot_merge_keeps_the_users_file_and_offers_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "skills" / "npu-graph-skill"
    file = target / "knowledge" / "known-patterns.md"
    put_in_place(make_bundle(tmp_path / "v1", BASE), target, "1.0.0", fresh=True)
    file.write_text(document(P_CAP_001="mine", P_CAP_002="two"), encoding="utf-8")
    put_in_place(make_bundle(tmp_path / "v2", document(P_CAP_001="new", P_CAP_002="two")), target, "2.0.0")
    assert "mine" in file.read_text(encoding="utf-8")
    assert "new" in file.with_name("known-patterns.md.new").read_text(encoding="utf-8")


def test_an_entry_appended_behind_the_last_shipped_one_is_no_change_of_that_one() -> None:
    mine = BASE.rstrip("\n") + "\n\n" + entry("P-CAP-901", "ours").rstrip("\n") + "\n"
    merged = merge_patterns(BASE.rstrip("\n") + "\n", mine, document(P_CAP_001="one", P_CAP_002="two, better"))
    assert merged.conflicts == []
    assert "two, better" in merged.text
    assert merged.text.endswith(entry("P-CAP-901", "ours").rstrip("\n") + "\n")
    assert "```\n###" not in merged.text


def test_a_fence_that_a_hand_left_open_is_not_merged() -> None:
    assert merge_patterns(BASE, BASE.replace("heading\n```", "heading\n", 1), document(P_CAP_001="new")).conflicts


def test_a_conflict_names_its_entries_and_an_editors_byte_order_mark_is_none(tmp_path: Path) -> None:
    target = tmp_path / "skills" / "npu-graph-skill"
    file = target / "knowledge" / "known-patterns.md"
    put_in_place(make_bundle(tmp_path / "v1", BASE), target, "1.0.0", fresh=True)
    file.write_text("\ufeff" + document(P_CAP_001="mine", P_CAP_002="two"), encoding="utf-8")
    new = document(P_CAP_001="new", P_CAP_002="two").replace("# Known patterns", "# Known patterns of ours")
    outcome = put_in_place(make_bundle(tmp_path / "v2", new), target, "2.0.0")
    assert outcome.remarks == ["knowledge/known-patterns.md: not merged, changed by you and by this version: P-CAP-001"]
