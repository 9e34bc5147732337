"""The language of what people write: of a report with a log in it, and of a question."""

from __future__ import annotations

_CHINESE_SHARE = 0.02
_CHINESE_LINE = 0.4
_CHINESE_TITLE = 4
_SAMPLE = 20000
EDGE_LINES = 3


def has_chinese(text: str) -> bool:
    """Say whether a text holds a Chinese character; enough for a question, whose words are all its writer's."""
    return any(map(_is_chinese, text))


def detect_language(text: str) -> str:
    """Return 'zh' when the people's part of a report is Chinese, else 'en'."""
    sample = text[:_SAMPLE]
    chinese = sum(map(_is_chinese, sample))
    if chinese >= 8 and chinese > len(sample) * _CHINESE_SHARE:
        return "zh"
    # A question stands before or after a pasted log, whatever the log is in.
    written = [line for line in text.split("\n") if line.strip()]
    edges = written[:EDGE_LINES] + written[-EDGE_LINES:]
    if written and sum(map(_is_chinese, written[0])) >= _CHINESE_TITLE:
        return "zh"  # the title, over a template and a log in English
    return "zh" if any(8 <= sum(map(_is_chinese, line)) > len(line) * _CHINESE_LINE for line in edges) else "en"


def _is_chinese(character: str) -> bool:
    return "\u4e00" <= character <= "\u9fff"
