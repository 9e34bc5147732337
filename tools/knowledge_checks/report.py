"""The result of a run as a page: knowledge/VERIFIED.md."""

from __future__ import annotations

import re
from typing import Iterable, Sequence

from knowledge_checks.findings import Outcome
from knowledge_checks.sources import Sources

HEAD = """# Verified knowledge

Written by `tools/verify_knowledge.py`; do not edit. On {date} every fact that the program can check was compared with
the sources below. A fact that it cannot check is counted under *Left out*.

| check | looks at | checked | faults |
| --- | --- | ---: | ---: |
{rows}
"""
LIMITS = """## What the program does not check

- Whether a cause or a fix is right: only that what it names exists, where it is said to be.
- Wording that no quoted text, name, code or anchor carries.
- Names whose source is a public page: the link is well formed, the page is not opened.
"""


def render(outcomes: Sequence[Outcome], sources: Sources, date: str) -> str:
    """Return the page."""
    rows = "\n".join(f"| {o.name} | {o.what} | {o.checked} | {len(o.faults)} |" for o in outcomes)
    parts = [HEAD.format(date=date, rows=rows), _sources(sources)]
    faults = [f"- {f.file}:{f.line}: {f.text}" for o in outcomes for f in o.faults]
    if faults:
        parts.append("## Faults\n\n" + "\n".join(faults) + "\n")
    left_out = [f"- {o.name}: {line}" for o in outcomes for line in _reasons(o.left_out)]
    if left_out:
        parts.append("## Left out\n\n" + "\n".join(left_out) + "\n")
    return "\n".join([*parts, LIMITS])


def _sources(sources: Sources) -> str:
    lines: list[str] = []
    if sources.torch_npu:
        lines.append(f"- torch_npu wheels: {', '.join(sources.torch_npu)}")
    lines += [f"- {wheel.name} wheel: {wheel.version}" for wheel in sources.packages.values()]
    for repository in sources.repositories.values():
        named = sorted(ref for ref in repository.refs_read if not re.fullmatch(r"[0-9a-f]{7,40}", ref))
        pinned = len(repository.refs_read) - len(named)
        shown = ", ".join(f"{ref} = {repository.resolve(ref)[:9]}" for ref in named if ref != "HEAD")
        lines.append(f"- {repository.name}: {pinned} pinned commits" + (f"; {shown}" if shown else ""))
    return "## Sources read\n\n" + "\n".join(lines) + "\n"


def _reasons(left_out: dict[str, int]) -> Iterable[str]:
    """Fold reasons that differ only in a release: a hundred lines say no more than one."""
    folded: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for why, count in left_out.items():
        subject, colon, rest = why.partition(": ")
        key = rest if colon else why
        folded.setdefault(key, []).extend([subject] if colon else [])
        counts[key] = counts.get(key, 0) + count
    for key, subjects in folded.items():
        yield f"{counts[key]} items, {key}" + (f" ({', '.join(subjects)})" if subjects else "")
