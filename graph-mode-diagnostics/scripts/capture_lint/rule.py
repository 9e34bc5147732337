"""What a rule is, what a finding is, and the table that every rule registers itself in."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Callable, Iterable, NamedTuple

if TYPE_CHECKING:
    from .trace import Event, Trace

# error: the capture fails, or the replay computes wrongly, whenever this line runs. warning: it does so under a
# condition that the code does not show (a release, a mode, a second thread). info: worth a look.
SEVERITIES = ("error", "warning", "info")
SECTIONS = ("Why", "Fix", "Bad", "Good")

Check = Callable[["Trace"], Iterable["tuple[Event, str | Remark]"]]


class Remark(NamedTuple):
    """What a check says of one place in its own words, where the rule's message or severity does not fit it."""

    message: str
    severity: str


class Rule(NamedTuple):
    """One rule: its table row, and the function that finds its faults in a trace."""

    id: str
    name: str
    severity: str
    pattern: str
    message: str
    what: str
    why: str
    fix: str
    bad: str
    good: str
    check: Check


class Finding(NamedTuple):
    """One fault in the code under inspection (line and column are 1-based)."""

    rule: Rule
    severity: str
    file: str
    line: int
    column: int
    end_line: int
    message: str
    region: str
    path: tuple[str, ...]
    text: str


RULES: dict[str, Rule] = {}


def rule(identity: str, name: str, severity: str, pattern: str, message: str) -> Callable[[Check], Check]:
    """Register a check. Its docstring gives what, Why, Fix, Bad and Good.

    Args:
        identity: G and three digits; never reused.
        name: two to four words with hyphens.
        severity: one of SEVERITIES.
        pattern: id of the entry in known-patterns.md that explains the failure.
        message: what a user reads; `{}` takes the detail that the check returns.
    """

    def register(check: Check) -> Check:
        if identity in RULES or severity not in SEVERITIES:
            raise ValueError(f"rule {identity} is registered twice, or its severity {severity!r} is unknown")
        parts = parse_docstring(inspect.getdoc(check) or "")
        RULES[identity] = Rule(
            identity,
            name,
            severity,
            pattern,
            message,
            parts.get("", ""),
            parts.get("Why", ""),
            parts.get("Fix", ""),
            parts.get("Bad", ""),
            parts.get("Good", ""),
            check,
        )
        return check

    return register


def parse_docstring(text: str) -> dict[str, str]:
    """Split a rule's docstring into its sections; the first, unnamed one says what the rule does."""
    parts: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines():
        heading = re.fullmatch(r"(\w+):(.*)", line)
        if heading and heading.group(1) in SECTIONS:
            name = heading.group(1)
            parts[name] = [heading.group(2).strip()] if heading.group(2).strip() else []
        else:
            parts[name].append(line)
    found = {}
    for key, lines in parts.items():
        if key in ("Bad", "Good"):
            found[key] = inspect.cleandoc("\n" + "\n".join(lines))
        else:
            found[key] = " ".join(" ".join(lines).split())
    return found
