"""A signature may not be slow on hostile text, and its needed literals never reject a text that it matches."""

from __future__ import annotations

import re
from functools import partial

import pytest
from cost import cpu_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_graph import bundle
from npu_graph.patterns import load_patterns, lower
from npu_graph.regex_safety import needed_literals, regex_problem

SAFE = [
    r"error code is 10702[57]\b",
    r"capture.{0,200}failed",
    r"(?:one|two) three",
    r"\bel0009\b",
    r"a\s+b",
    r"x{0,400}y",
]
UNSAFE = [
    (r".*error", "without a bound"),
    (r"a\S+b", "without a bound"),
    (r"[^x]+y", "without a bound"),
    (r"(a+)+b", "inside a repeat"),
    (r"(?:a|b*)*c", "repeat"),
    (r"(?=a)b", "look-around"),
    (r"(a)\1", "back-reference"),
    (r"Error", "upper-case"),
    (r"a?", "empty text"),
    (r"(", "does not compile"),
    ("", "1 to"),
    ("a" * 301, "1 to"),
]


@pytest.mark.parametrize("expression", SAFE)
def test_a_safe_expression_passes(expression: str) -> None:
    assert regex_problem(expression) is None


@pytest.mark.parametrize(("expression", "reason"), UNSAFE, ids=[row[0][:20] or "empty" for row in UNSAFE])
def test_an_unsafe_expression_is_refused_with_its_reason(expression: str, reason: str) -> None:
    assert reason in (regex_problem(expression) or "")


SIGNATURES = sorted(
    {
        expression
        for pattern in load_patterns([bundle.SEED_KNOWLEDGE]).patterns
        for group in pattern.signature[:4]
        for expression in group
    }
)


def test_every_shipped_signature_is_fast_on_bait() -> None:
    baits = ["a" * 200_000, "capture " * 25_000, "error code is " * 15_000, "graph" * 40_000, " " * 200_000]
    for expression in SIGNATURES:
        compiled = re.compile(expression)
        for bait in baits:
            assert cpu_seconds(partial(compiled.search, bait), 2) < 2, expression


LITERALS = [
    (r"capture_begin.{0,40}non-default stream", ("non-default stream",)),
    ("ab?cde", ("cde",)),
    ("one|two", ("one", "two")),
    (r"one|\d", ()),
    (r"(?:ab|cd)efg{2,3}hij", ("hij",)),
    (r"\bel0009\b", ("el0009",)),
    (r"[abc]def", ("def",)),
    (r"[a|b]def|x{2}yz", ("def", "yz")),
    (r"a\.b\(c", ("a.b(c",)),
]


@pytest.mark.parametrize(("expression", "literals"), LITERALS)
def test_the_texts_of_which_a_match_needs_one(expression: str, literals: tuple[str, ...]) -> None:
    assert needed_literals(expression) == literals


def test_an_expression_is_taken_apart_once_however_many_reports_follow() -> None:
    from npu_graph.patterns import match_patterns

    patterns = load_patterns([bundle.SEED_KNOWLEDGE]).patterns
    match_patterns(patterns, "graph capture failed", [1], "graph capture failed", "")
    before = needed_literals.cache_info()
    match_patterns(patterns, "graph capture failed", [1], "graph capture failed", "")
    after = needed_literals.cache_info()
    assert after.hits > before.hits
    assert after.misses == before.misses


@pytest.mark.parametrize("expression", SIGNATURES)
def test_a_match_always_contains_a_needed_literal(expression: str) -> None:
    @settings(max_examples=8, deadline=None, database=None)
    @given(st.from_regex(expression))
    def check(text: str) -> None:
        found = re.search(expression, text)
        if found:
            literals = needed_literals(expression)
            assert not literals or any(literal in text for literal in literals)
            assert lower(text)

    check()
