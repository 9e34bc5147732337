"""Issue references: `owner/name#number` and links to issues have the form that a browser can open."""

from __future__ import annotations

import re
from pathlib import Path

from knowledge_checks.findings import Outcome
from knowledge_checks.texts import CODE, REPORT, SIGNATURE, all_lines
from npu_graph.patterns import PATTERN_FILE, load_patterns

NONE_KNOWN = "not established in public issues"
SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9][\w.-]*#[1-9]\d{0,5}")
LINK = re.compile(
    r"https://(?:github\.com|gitcode\.com|gitee\.com)/[A-Za-z0-9][\w-]*/[A-Za-z0-9][\w.-]*"
    r"/(?:issues|pull|pulls|discussions|merge_requests)/[1-9]\d{0,5}(?:[#?][\w=&-]+)?"
)
# Anything that is meant as one of the two.
_LIKE_SHORT = re.compile(r"(?<![\w/#-])[\w.-]+/[\w./-]*#\w+")
_LIKE_LINK = re.compile(r"https?://[^\s`)\"'<>|]*/(?:issues?|pulls?|discussions?|merge_requests)/[^\s`)\"'<>|;,]*")


def check(root: Path) -> Outcome:
    """Look at every reference in pages and scripts, and at the `Seen in` of every pattern."""
    outcome = Outcome("issues", "references to public issues")
    for line in all_lines(root):
        if line.kind in (REPORT, SIGNATURE) or (line.kind == CODE and not line.file.endswith(".py")):
            continue
        for expression, good in ((_LIKE_LINK, LINK), (_LIKE_SHORT, SHORT)):
            text = line.text if good is LINK else re.sub(r"https?://\S+|\]\([^)]*\)", "", line.text)
            for found in expression.finditer(text):
                reference = found.group().rstrip(".,;:")
                if re.search(r"\{|NUMBER|\.md#|\.py#|\bowner/|#number", reference):
                    continue  # a form, or a place in a page
                outcome.checked += 1
                if not good.fullmatch(reference):
                    outcome.fault(line.file, line.number, f"not a reference that opens: {reference[:80]}")
    for pattern in load_patterns([root / "knowledge"]).patterns:
        for reference in pattern.seen_in:
            outcome.checked += 1
            if reference != NONE_KNOWN and not SHORT.fullmatch(reference) and not LINK.fullmatch(reference):
                place = f"knowledge/{PATTERN_FILE}"
                outcome.fault(place, pattern.line, f"{pattern.id}: Seen in: {reference[:80]!r}")
    return outcome
