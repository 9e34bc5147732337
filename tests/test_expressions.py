"""An expression that is compiled on use answers as a compiled one, and every one in the bundle compiles."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npu_graph
from npu_graph.expressions import _OnUse, compile_on_use

TEXTS = ("", "capture failed", "Capture", "the graph is captured", "x" * 50, "E9999: no")


@pytest.mark.parametrize("method", ["search", "match", "fullmatch"])
@pytest.mark.parametrize("expression", [r"captur\w+", r"capture|graph", r"[Cc]apture", r"", r"\bE\d{4}: (?P<why>\w+)"])
def test_it_answers_as_a_compiled_one(expression: str, method: str) -> None:
    lazy, compiled = compile_on_use(expression), re.compile(expression)
    for text in (*TEXTS, *TEXTS):  # before and after it is compiled
        found, wanted = getattr(lazy, method)(text), getattr(compiled, method)(text)
        assert (found and found.groups() and found.span()) == (wanted and wanted.groups() and wanted.span()), text


def test_it_has_all_that_a_compiled_one_has() -> None:
    assert compile_on_use(rb"a(?P<b>b)").sub(b"x", b"abab") == b"xx"
    assert compile_on_use("a|b").findall("abc") == ["a", "b"]
    assert [found.start() for found in compile_on_use("b").finditer("abab")] == [1, 3]
    assert compile_on_use("CAPTURE", re.IGNORECASE).search("capture") is not None
    assert compile_on_use("a(?P<b>b)").groupindex == {"b": 1}
    assert compile_on_use(r"\x41b").search("Ab") is not None
    assert compile_on_use("b").search("abab", 2) is not None
    assert compile_on_use("b").search("ab", 2) is None


def test_a_text_without_its_literal_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = compile_on_use(r"capture \d+")
    monkeypatch.setattr(re, "compile", lambda *_: pytest.fail("compiled"))
    assert lazy.search("nothing of the kind") is None


def all_of_the_bundle() -> list[_OnUse]:
    for module in pkgutil.walk_packages(npu_graph.__path__, "npu_graph."):
        importlib.import_module(module.name)
    return [item for item in gc.get_objects() if type(item) is _OnUse]


def test_every_expression_of_the_bundle_compiles_and_is_not_skipped_where_it_matches() -> None:
    expressions = all_of_the_bundle()
    assert len(expressions) > 200
    for lazy in expressions:
        compiled = re.compile(lazy._source, lazy._flags)
        literals = lazy._literals()
        if not literals:
            continue

        @settings(max_examples=6, deadline=None, database=None)
        @given(st.from_regex(compiled))
        def check(text: str) -> None:
            assert not compiled.search(text) or any(literal in text for literal in literals)  # noqa: B023

        check()
