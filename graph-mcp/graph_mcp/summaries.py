"""A few lines of text for each tool's structured result, for clients that show text only."""

from __future__ import annotations

from typing import Any

MAX_SUMMARY = 8000
SHOWN_ITEMS = 5


def diagnosis(record: dict[str, Any]) -> str:
    """Summarise a diagnosis: overview, cause, fix, verification, what is missing."""
    report = record["report"]
    first = record["first_cause"]
    fix = report["fix"]
    rows = [
        report["overview"],
        f"stage {record['stage']['value']} ({record['stage']['confidence']}), layer {record['layer']['value']}, "
        f"owner {record['owner']['value']}",
        f"first cause, line {first['line']}: {first['type']}: {first['message'][:300]}" if first else "",
        report["root_cause"],
        f"fix now: {fix['short_term']}" if fix["short_term"] else "",
        f"fix for good: {fix['long_term']}" if fix["long_term"] else "",
        *[f"verify: {step}" for step in report["verify"]],
        *[f"missing: {item['item']} ({item['how']})" for item in record["missing"]],
    ]
    return _lines(rows)


def codes(record: dict[str, Any]) -> str:
    """Summarise looked-up codes, one a line."""
    rows = []
    for result in record["results"]:
        rows += [f"{result['query']}: {result['status']} {result['note']}".strip(), *map(_flat, result["entries"])]
    return _lines(rows)


def search(record: dict[str, Any]) -> str:
    """Summarise found patterns and cases, one a line."""
    rows = [_flat(item) for key in ("patterns", "cases") for item in record.get(key, [])]
    more = record.get("next_offset")
    return _lines([*(rows or ["nothing found"]), f"next_offset: {more}" if more else ""])


def record(answer: dict[str, Any]) -> str:
    """Summarise what was recorded and how to undo it."""
    return _lines(f"{key}: {value}" for key, value in answer.items() if isinstance(value, str))


def generic(answer: dict[str, Any]) -> str:
    """Summarise any record: its scalar fields, and the first entries of what it lists."""
    rows: list[str] = []
    for key, value in answer.items():
        if isinstance(value, dict):
            rows.append(f"{key}: {_flat(value)}")
        elif isinstance(value, list):
            rows += [f"{key}: {_flat(item) if isinstance(item, dict) else item}" for item in value[:SHOWN_ITEMS]]
            rows.append(f"{key}: {len(value) - SHOWN_ITEMS} more" if len(value) > SHOWN_ITEMS else "")
        elif value is not None and value != "":
            rows.append(f"{key}: {value}")
    return _lines(rows)


def _flat(item: dict[str, Any]) -> str:
    return "; ".join(
        f"{key} {value}" for key, value in item.items() if isinstance(value, (str, int, float)) and value != ""
    )


def _lines(rows: Any) -> str:
    return "\n".join(row for row in rows if row)[:MAX_SUMMARY]
