"""A few lines of text for each tool's structured result, for clients that show text only."""

from __future__ import annotations

from typing import Any

from npu_graph.known_issues import issue_text

MAX_SUMMARY = 8000
SHOWN_ITEMS = 5
# A group of health checks holds up to ten; without them a group says FAIL and not what failed.
SHOWN_NESTED = 12
MAX_INDENT = 4


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
        *[f"CANN says: {said}" for said in (first["said"] if first else [])],
        report["root_cause"],
        f"fix now: {fix['short_term']}" if fix["short_term"] else "",
        f"fix for good: {fix['long_term']}" if fix["long_term"] else "",
        *[f"verify: {step}" for step in report["verify"]],
        *[f"missing: {item['item']} ({item['how']})" for item in record["missing"]],
        *[f"known issue in the release notes: {issue_text(item, '. Do: ')}" for item in record["known_issues"]],
        *[
            f"{'later change' if item['after'] else 'change, which the release that ran may hold'}, by its subject, "
            f"not checked against the report: {_change(item)}"
            for item in record["later_fixes"]
        ],
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


def source(answer: dict[str, Any]) -> str:
    """Summarise places in the source and call chains, one place a line; the lines of other releases stay out."""
    release = answer["release"]
    rows = [f"release: {release['value'] or 'not known'} ({release['known_from'] or 'no version given'})"]
    for result in answer["results"]:
        rows.append(f"{result['query'][:200]}: {result['status']}")
        rows += [f"  {_place(match)}: {match['message'][:200]}{_by_release(match)}" for match in result["matches"]]
        for chain in result["chains"]:
            rows.append(f"  {chain['name']}:")
            rows += [f"    {step['layer']}: {_place(step)} {step['does']['en']}" for step in chain["steps"]]
        rows += [f"  near: {name}" for name in result["nearest"]]
    return _lines([*rows, *[f"to read it: {command}" for command in answer["get_sources"]]])


def fixes(answer: dict[str, Any]) -> str:
    """Summarise later changes, one a line."""
    rows = [f"{_change(item)}; shares {', '.join(item['shared'])}" for item in answer["results"]]
    said = "subjects of the histories, nearest first; none was checked against the failure"
    listed = [f"known issue in the release notes: {issue_text(item, '. Do: ')}" for item in answer["known_issues"]]
    none = "no later change found, which says nothing about whether it is mended"
    return _lines([*answer["notes"], *listed, said if rows else none, *rows])


def _change(item: dict[str, Any]) -> str:
    first = f"first in {item['first_release']}" if item["first_release"] else "in no release that was read"
    return f"{item['date']} {item['repo']} {item['commit']} {item['title']} ({first})"


def _by_release(match: dict[str, Any]) -> str:
    """Return the newest lines of a framework's place whose release is not known: no line at all would be no answer."""
    if "release" not in match or match["line"] is not None:
        return ""
    newest = list(match["lines_by_release"].items())[-SHOWN_NESTED:]
    return f" ({', '.join(f'{release} {line}' for release, line in newest)})"


def generic(answer: dict[str, Any]) -> str:
    """Summarise any record: its fields, and the first entries of what it lists, with what those list in turn."""
    return _lines(_rows(answer, "", SHOWN_ITEMS))


def _rows(item: dict[str, Any], indent: str, shown: int) -> list[str]:
    rows: list[str] = []
    for key, value in item.items():
        if isinstance(value, dict):
            rows.append(f"{indent}{key}: {_flat(value)}" if _flat(value) else "")
            rows += _nested(value, indent + "  ")
        elif isinstance(value, list):
            for entry in value[:shown]:
                text = _flat(entry) if isinstance(entry, dict) else entry
                rows.append(f"{indent}{key}: {text}" if text != "" else "")
                rows += _nested(entry, indent + "  ") if isinstance(entry, dict) else []
            rows.append(f"{indent}{key}: {len(value) - shown} more" if len(value) > shown else "")
        elif value is not None and value != "":
            rows.append(f"{indent}{key}: {value}")
    return rows


def _nested(item: dict[str, Any], indent: str) -> list[str]:
    """Return the rows of what an entry holds besides its own scalar fields."""
    deeper = {key: value for key, value in item.items() if isinstance(value, (dict, list))}
    return _rows(deeper, indent, SHOWN_NESTED) if len(indent) <= MAX_INDENT else []


def _place(place: dict[str, Any]) -> str:
    line = f":{place['line']}" if place["line"] else ""
    return f"{place['file']}{line} {place['function']}"


def _flat(item: dict[str, Any]) -> str:
    return "; ".join(
        f"{key} {value}" for key, value in item.items() if isinstance(value, (str, int, float)) and value != ""
    )


def _lines(rows: Any) -> str:
    return "\n".join(row for row in rows if row)[:MAX_SUMMARY]
