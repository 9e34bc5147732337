"""A few lines of text for each tool's structured result, for clients that show text only."""

from __future__ import annotations

from typing import Any

MAX_SUMMARY = 8000


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
    return _lines(_flat(item) for key in ("patterns", "cases") for item in record.get(key, []))


def record(answer: dict[str, Any]) -> str:
    """Summarise what was recorded and how to undo it."""
    return _lines(f"{key}: {value}" for key, value in answer.items() if isinstance(value, str))


def generic(answer: dict[str, Any]) -> str:
    """Summarise any record by its scalar fields."""
    return _lines(f"{key}: {value}" for key, value in answer.items() if isinstance(value, (str, int, float, bool)))


def _flat(item: dict[str, Any]) -> str:
    return "; ".join(
        f"{key} {value}" for key, value in item.items() if isinstance(value, (str, int, float)) and value != ""
    )


def _lines(rows: Any) -> str:
    return "\n".join(row for row in rows if row)[:MAX_SUMMARY]
