"""Text from outside inside Markdown: it must not become structure."""

from __future__ import annotations


def code_span(text: str) -> str:
    """Return the text as a Markdown code span that nothing inside it can close."""
    longest = 0
    run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    ticks = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"
