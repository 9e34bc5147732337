"""The floors of likeness hold on the data they were chosen from: unrelated text finds no similar case, another run of
a failure is its duplicate, another failure is not."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from npu_graph import bundle, cases, cli
from npu_graph.case_features import case_features, score, text_features
from npu_graph.case_format import Case
from npu_graph.case_record import DUPLICATE_FROM
from npu_graph.cases import LEAST_SCORE, SIMILAR_FROM, read_cases, similar_cases
from npu_graph.diagnosis.record import diagnose

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "cases" / "handed.jsonl"
UNRELATED = re.split(r"^===== (.*)$\n", (DATA / "unrelated_reports.txt").read_text(encoding="utf-8"), flags=re.M)[1:]
EXAMPLES: dict[str, dict[str, str]] = json.loads((DATA / "pattern_examples.json").read_text(encoding="utf-8"))
LABELS: dict[str, list[str]] = json.loads((DATA / "case_labels.json").read_text(encoding="utf-8"))
LOG = "\n".join(f"INFO 11-30 10:00:{n:02d} [loader.py:9] loading shard {n} of the weights" for n in range(60))


def similar_ids(text: str) -> list[str]:
    found = diagnose([cli.InputText("-", text, 0)], "", [bundle.SEED_KNOWLEDGE])["cases"]
    assert all(item["score"] >= SIMILAR_FROM for item in found)
    return [item["id"] for item in found]


@pytest.mark.parametrize(("name", "report"), list(zip(UNRELATED[::2], UNRELATED[1::2])), ids=UNRELATED[::2])
def test_unrelated_text_has_no_similar_case(name: str, report: str) -> None:
    assert similar_ids(report) == []
    assert similar_cases(report, folders=[bundle.SEED_KNOWLEDGE], limit=1) == []


def test_the_unrelated_set_is_large_enough() -> None:
    assert len(UNRELATED) >= 2 * 60


@pytest.mark.parametrize(
    ("text", "is_code"),
    [
        ("107027", True),
        ("error code is 107027", True),
        ("报107027", True),
        ("capture fails with 107027", True),
        ("order 107027 shipped", False),
        ("port=107025", False),
        ("retCode=0x7020023", True),
    ],
)
def test_a_number_is_a_code_where_the_text_says_so(text: str, is_code: bool) -> None:
    weights = [weight for name, weight in text_features(text).items() if name.startswith("c:")]
    assert [weight >= 1 for weight in weights] == [is_code]


def another_run(text: str, maker: random.Random) -> str:
    """The same failure on another day and machine: other times, processes, lines and folders."""
    text = re.sub(r"/[\w.+-]+/", lambda _: f"/{maker.choice(['opt', 'srv', 'data'])}/", text)
    text = re.sub(r"(pid[=:] ?)\d+", lambda found: f"{found.group(1)}{maker.randint(100, 99999)}", text, flags=re.I)
    text = re.sub(r"line \d+", lambda _: f"line {maker.randint(1, 2000)}", text)
    text = re.sub(r"\d\d:\d\d:\d\d", lambda _: f"{maker.randint(10, 23)}:{maker.randint(10, 59)}:07", text)
    return text.replace("RankID:-1", "RankID:3")


def likeness(query: str, recorded: str) -> float:
    return score(text_features(query), case_features(Case(id="", title="", symptom=recorded)))


def test_another_run_of_a_failure_is_its_duplicate_also_inside_a_log() -> None:
    maker = random.Random(3)
    texts = [text for example in EXAMPLES.values() for text in example.values() if len(text) > 150]
    assert len(texts) > 100
    points = [likeness(f"{LOG}\n{another_run(text, maker)}\n{LOG}", text) for text in texts]
    assert sum(value >= DUPLICATE_FROM for value in points) >= 0.95 * len(points)
    assert min(points) >= SIMILAR_FROM
    assert max(points) <= 1.0


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-06-01T02:14:55.120Z ",
        "2026-06-01T02:14:55.120441+08:00 stdout F ",
        "Nov 30 10:00:00 node-7 python3[4711]: ",
        "(Worker_TP1 pid=4502) ERROR 03-02 10:11:15 [multiproc_executor.py:880] ",
        "[rank3]: ",
    ],
)
def test_what_a_log_shipper_puts_in_front_of_each_line_does_not_count(prefix: str) -> None:
    text = EXAMPLES["P-CAP-001"]["positive"]
    bare = "\n".join(re.sub(r"^\(.*?\] ?", "", line) for line in text.split("\n"))
    assert likeness("\n".join(prefix + line for line in bare.split("\n")), bare) >= 0.9


def test_a_near_miss_of_a_pattern_is_rarely_taken_for_its_duplicate() -> None:
    pairs = [(example["near_miss"], example["positive"]) for example in EXAMPLES.values()]
    taken = sum(likeness(*pair) >= DUPLICATE_FROM for pair in pairs)
    assert len(pairs) >= 90
    assert taken <= 1


def test_the_floors_are_in_order() -> None:
    assert 0 < LEAST_SCORE < SIMILAR_FROM < DUPLICATE_FROM < 1
    assert cases.LEAST_SCORE == LEAST_SCORE


def handed() -> list[dict[str, str]]:
    if not SHARED.is_file():
        pytest.skip("../shared/cases/handed.jsonl is not there")
    return [json.loads(line) for line in SHARED.read_text(encoding="utf-8").splitlines()]


@pytest.mark.shared
def test_what_public_reports_are_shown_is_of_the_same_failure_or_pattern() -> None:
    known = {identity: entry.case for identity, entry in read_cases([bundle.SEED_KNOWLEDGE]).entries.items()}
    shown = right = first = 0
    for report in handed():
        number = report["url"].split("github.com/")[-1]
        related = [
            known[identity].pattern in LABELS.get(report["id"], [])
            or re.search(re.escape(number) + r"(?!\d)", known[identity].sources) is not None
            for identity in similar_ids(report["input"])
        ]
        shown, right, first = shown + len(related), right + sum(related), first + any(related[:1])
    assert shown >= 30
    assert right >= 0.95 * shown
    assert first >= 30


@pytest.mark.shared
def test_two_different_public_reports_are_never_duplicates() -> None:
    texts = [report["input"] for report in handed()]
    features = [case_features(Case(id="", title="", symptom=text)) for text in texts]
    highest = max(
        score(text_features(text), other)
        for at, text in enumerate(texts)
        for to, other in enumerate(features)
        if at != to
    )
    assert highest < DUPLICATE_FROM
