"""Rules that keep a signature's regular expression linear on hostile text, and the literal it cannot match without."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from typing import Any

# The standard library's own parser moved in Python 3.11.
_sre: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

# Repeats up to this bound cannot become slow on a line of bounded length; above it a repeat counts as open.
MAX_BOUND = 400
MAX_LENGTH = 300
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def regex_problem(expression: str) -> str | None:
    """Return why the expression may not be used as a signature, or None when it may.

    A signature runs on whole pasted logs, so: it compiles, has no back-reference or look-around, no open repeat
    (`.*`, `\\S+`) of a wide set, no repeat inside a repeat, and is written in lower case because it is matched
    on lower-cased text.
    """
    if not expression or len(expression) > MAX_LENGTH:
        return f"must be 1 to {MAX_LENGTH} characters"
    try:
        tree = _sre.parse(expression)
    except (re.error, OverflowError, RecursionError) as error:
        return f"does not compile: {error}"
    if _has_upper_literal(expression):
        return "has an upper-case letter; signatures match lower-cased text"
    if re.compile(expression).search("") is not None:
        return "matches the empty text"
    return _tree_problem(tree, inside_repeat=False)


def _tree_problem(tree: Any, inside_repeat: bool) -> str | None:
    for operation, argument in tree:
        name = str(operation)
        if name in ("GROUPREF", "GROUPREF_EXISTS", "ASSERT", "ASSERT_NOT"):
            return "uses a back-reference or look-around"
        problem = None
        if name in _REPEATS:
            _, highest, body = argument
            is_open = int(highest) > MAX_BOUND
            if is_open and inside_repeat:
                return "has an open repeat inside a repeat"
            if is_open and _is_wide(body):
                return f"repeats a wide set without a bound; write {{0,{MAX_BOUND}}} or less"
            problem = _tree_problem(body, inside_repeat or int(highest) > 1)
        elif name == "SUBPATTERN":
            problem = _tree_problem(argument[-1], inside_repeat)
        elif name == "BRANCH":
            for branch in argument[1]:
                problem = problem or _tree_problem(branch, inside_repeat)
        if problem:
            return problem
    return None


def _is_wide(body: Any) -> bool:
    """Say whether one step of the body can match most characters (any, negated set, non-space, non-digit)."""
    for operation, argument in body:
        name = str(operation)
        if name in ("ANY", "NOT_LITERAL"):
            return True
        if name == "IN" and any(
            str(kind) == "NEGATE" or (str(kind) == "CATEGORY" and "_NOT_" in str(value)) for kind, value in argument
        ):
            return True
        if name == "SUBPATTERN" and _is_wide(argument[-1]):
            return True
        if name == "BRANCH" and any(_is_wide(branch) for branch in argument[1]):
            return True
    return False


def _has_upper_literal(expression: str) -> bool:
    previous = ""
    for character in expression:
        if character.isupper() and previous != "\\":
            return True
        previous = "" if previous == "\\" else character
    return False


# The parts of an expression: ordinary text, an escape, a set, what opens, closes, divides or repeats, and the rest.
_PART = re.compile(
    r"(?P<text>[^\\\[()|?*{.^$+]+)|\\(?:x..|u....|U.{8}|(?P<escaped>.))|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\]?)"
    r"|(?P<open>\()|(?P<close>\))|(?P<branch>\|)|(?P<repeat>[?*]|\{[^}]*\}?)|.",
    re.DOTALL,
)


# A few hundred expressions are asked for again at every report that one process diagnoses.
@functools.lru_cache(maxsize=4096)
def needed_literals(expression: str) -> tuple[str, ...]:
    """Return texts of which every match must contain one (the longest of each branch), or () when none is certain.

    Used to skip an expression without compiling it. Errs towards ().
    """
    runs = [""]
    branches = [runs]
    depth = 0
    for part in _PART.finditer(expression):
        kind = part.lastgroup
        if kind == "text" or (kind == "escaped" and not part.group(kind).isalnum()):
            if depth == 0:
                runs[-1] += part.group(kind)
            continue
        if kind == "repeat":
            runs[-1] = runs[-1][:-1]  # what is repeated may be absent
        elif kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif kind == "branch" and depth == 0:
            runs = [""]
            branches.append(runs)
        if runs[-1]:
            runs.append("")
    longest = tuple(max(found, key=len) for found in branches)
    return longest if all(longest) else ()
