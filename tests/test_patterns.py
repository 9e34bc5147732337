"""known-patterns.md: the grammar holds, faults are reported by line, and matching follows any, all, not and hint."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from npu_graph import bundle
from npu_graph.patterns import (
    CANDIDATE_FROM,
    KNOWN_FROM,
    SCORE_ON_ECHO,
    Match,
    check_pattern,
    load_patterns,
    lower,
    match_patterns,
    parse_patterns,
)

GROUPS = {"CAP": 25, "REP": 12, "MEM": 10, "UPD": 10, "CMP": 12, "ACC": 8, "PERF": 6, "ENV": 8, "HANG": 6}
# Constraints that the vendor documents, and a text that their violation prints or a user writes.
DOCUMENTED = [
    ("CPU-NPU sync", "NPU function error: AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 107027", "P-CAP-001"),
    ("non-default stream", "NPU graphs must be captured on a non-default stream.", "P-CAP-003"),
    ("no nested capture", "AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 107027", "P-CAP-007"),
    ("joined side streams", "reason=capture model contains a stream that was not joined to the original stream", "P-CAP-005"),
    ("one stream's order", "reason=dependency created on uncaptured work in another stream", "P-CAP-004"),
    ("aclop operators", "Cannot run aclop operators during NPU graph capture. Current working aclop is Sort.", "P-CAP-006"),
    ("TASK_QUEUE_ENABLE=2", "Do not support TASK_QUEUE_ENABLE = 2 during NPU graph capture", "P-CAP-008"),
    ("ASCEND_LAUNCH_BLOCKING=1", "export ASCEND_LAUNCH_BLOCKING=1\nerror code is 107027, stream is captured", "P-CAP-009"),
    ("pin_memory_expandable_segments", "ACLGraph capture is not supported when pin_memory_expandable_segments=True.", "P-CAP-010"),
    ("RNG", "RuntimeError: Not support Generator while in capture mode", "P-CAP-011"),
    ("RNG state", "Cannot call NPUGeneratorImpl::set_offset while in capture mode", "P-CAP-012"),
    ("207005", "AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 207005", "P-CAP-013"),
    ("207008", "AclmdlRICaptureBegin(capture_stream_, capture_mode), error code is 207008", "P-CAP-013"),
    ("EL0009", "Insufficient_Stream_Resources(EL0009): The stream resources are insufficient.", "P-CAP-013"),
    ("dynamic shapes need update", "The current graph configuration does not support update,Try to capture by setting auto_dispatch_capture=True", "P-UPD-001"),
    ("TND with dropout", "TND layout with dropout (keep_prob < 1.0) is not supported in ACLgraph mode", "P-CAP-024"),
    ("memory outside the pool", "beginAllocateToPool: already recording to mempool_id", "P-CAP-022"),
    ("synchronous copies", "rtMemcpy execution failed, reason=the current capture mode does not support this operation", "P-CAP-002"),
]  # fmt: skip


def match(text: str, primary: str = "", echoes: str = "", document: str = "") -> list[Match]:
    patterns = (
        parse_patterns(document, "t.md").patterns if document else load_patterns([bundle.SEED_KNOWLEDGE]).patterns
    )
    return match_patterns(patterns, text, list(range(1, text.count("\n") + 2)), primary or text, echoes)


def entry(signature: str, identity: str = "P-CAP-901") -> str:
    return f"### {identity} — Title · 标题\n\n- Stage: capture\n\n```signature\n{signature}\n```\n"


class TestTheShippedFile:
    def test_it_has_no_problem(self) -> None:
        found = load_patterns([bundle.SEED_KNOWLEDGE])
        assert found.problems == []
        assert [problem for pattern in found.patterns for problem in check_pattern(pattern)] == []

    def test_every_group_is_present(self) -> None:
        identities = [pattern.id for pattern in load_patterns([bundle.SEED_KNOWLEDGE]).patterns]
        for group, least in GROUPS.items():
            assert sum(identity.startswith(f"P-{group}-") for identity in identities) >= least, group

    def test_every_title_has_both_languages(self) -> None:
        for pattern in load_patterns([bundle.SEED_KNOWLEDGE]).patterns:
            assert pattern.title_in("zh") != pattern.title_in("en"), pattern.id

    def test_a_pattern_of_symptoms_only_says_what_confirms_it(self) -> None:
        for pattern in load_patterns([bundle.SEED_KNOWLEDGE]).patterns:
            if not (pattern.signature.any or pattern.signature.all):
                assert pattern.signature.confirm, pattern.id

    @pytest.mark.parametrize(("name", "text", "identity"), DOCUMENTED, ids=[row[0] for row in DOCUMENTED])
    def test_each_documented_constraint_is_recognised(self, name: str, text: str, identity: str) -> None:
        best = match(text)[0]
        assert (best.pattern.id, best.score >= KNOWN_FROM) == (identity, True)


def test_the_advice_in_torch_npus_own_error_text_does_not_set_a_variable(diagnose_text: Callable[..., dict]) -> None:
    record = diagnose_text(
        "RuntimeError: The Inner error is reported as above. AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 107027\n"
        "If you want to get the accurate stacktrace, please set the environment variable ASCEND_LAUNCH_BLOCKING=1.\n"
        "Note: ASCEND_LAUNCH_BLOCKING=1 will force ops to run in synchronous mode, resulting in performance degradation.\n"
    )
    assert record["patterns"][0]["id"] == "P-CAP-001"
    assert record["environment"]["variables"] == {}


class TestMatching:
    def test_one_any_line_is_enough(self) -> None:
        assert match("xx two xx", document=entry("any: one\nany: two"))[0].score >= KNOWN_FROM

    def test_every_all_line_must_occur(self) -> None:
        document = entry("all: one\nall: two")
        assert match("one two", document=document)[0].score >= KNOWN_FROM
        assert match("one", document=document) == []

    def test_all_without_its_any_is_nothing(self) -> None:
        assert match("one", document=entry("all: one\nany: two")) == []

    def test_one_not_line_rules_the_pattern_out(self) -> None:
        assert match("one three", document=entry("any: one\nnot: three")) == []

    def test_hints_suggest_and_never_establish(self) -> None:
        document = entry("\n".join(f"hint: word{number}" for number in range(9)))
        (found,) = match(" ".join(f"word{number}" for number in range(9)), document=document)
        assert CANDIDATE_FROM <= found.score < KNOWN_FROM
        (weak,) = match("word1", document=document)
        assert weak.score < found.score

    def test_a_signature_on_an_echo_only_suggests(self) -> None:
        (found,) = match(
            "first\nclosing failed", primary="first", echoes="closing failed", document=entry("any: closing")
        )
        assert found.score == SCORE_ON_ECHO

    def test_the_first_cause_counts_more_than_the_rest(self) -> None:
        document = entry("any: alpha") + entry("any: beta", "P-CAP-902")
        assert [item.pattern.id for item in match("beta\nalpha", primary="beta", document=document)] == [
            "P-CAP-902",
            "P-CAP-901",
        ]

    def test_the_evidence_is_the_line_as_written(self) -> None:
        (found,) = match("x\nSome ERROR Here\ny", document=entry("any: some error"))
        assert found.evidence == [(2, "Some ERROR Here")]


BROKEN = [
    ("### P-CAP-1 — Short id\n", 1, "not a pattern heading"),
    (entry("any: one") + entry("any: two"), 8, "already defined at line 1"),
    ("### P-CAP-901 — T · 标\n\n- Stage: capture\n- Colour: red\n", 4, "unknown field"),
    ("### P-CAP-901 — T · 标\n\nloose text\n", 3, "unexpected line"),
    (entry("every: one"), 6, "not a signature line"),
]


@pytest.mark.parametrize(("document", "line", "message"), BROKEN, ids=[row[2] for row in BROKEN])
def test_a_hand_edited_fault_is_reported_by_line(document: str, line: int, message: str) -> None:
    problems = parse_patterns(document, "t.md").problems
    assert [(problem.line, message in problem.message) for problem in problems] == [(line, True)]


def test_the_rest_of_a_faulty_file_still_works() -> None:
    document = "### P-CAP-1 — bad\n\n" + entry("any: one")
    assert [pattern.id for pattern in parse_patterns(document, "t.md").patterns] == ["P-CAP-901"]


INCOMPLETE = ["Stage: nowhere", "Layer: L9", "Owner: nobody", "Source:"]


@pytest.mark.parametrize("line", INCOMPLETE)
def test_a_wrong_value_breaks_the_check(line: str) -> None:
    good = load_patterns([bundle.SEED_KNOWLEDGE]).patterns[0]
    name, _, value = line.partition(":")
    broken = good._replace(fields={**good.fields, name: value.strip()})
    assert check_pattern(good) == []
    assert check_pattern(broken) != []


def test_an_overlay_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "known-patterns.md").write_text(
        entry("any: ours").replace("P-CAP-901", "P-CAP-001") + entry("any: new", "P-ENV-950"), encoding="utf-8"
    )
    by_id = {pattern.id: pattern for pattern in load_patterns([bundle.SEED_KNOWLEDGE, tmp_path]).patterns}
    assert by_id["P-CAP-001"].signature.any == ("ours",)
    assert "P-ENV-950" in by_id
    assert "P-CAP-002" in by_id


def test_lower_keeps_the_length() -> None:
    for text in ("İSTANBUL", "ẞ ERROR", "普通 ABC"):
        assert len(lower(text)) == len(text)


def test_what_confirms_a_pattern_is_written_in_both_languages() -> None:
    patterns = load_patterns([bundle.SEED_KNOWLEDGE]).patterns
    confirmed = [pattern for pattern in patterns if pattern.signature.confirm]
    assert len(confirmed) >= 50
    for pattern in confirmed:
        assert len(pattern.signature.confirm_zh) == len(pattern.signature.confirm), pattern.id
        assert all(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in pattern.signature.confirm_zh)
