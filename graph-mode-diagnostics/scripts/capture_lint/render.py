"""The report of a lint run as text, Markdown or JSON (npu-graph/lint/1), and the pages of the rules."""

from __future__ import annotations

from typing import Any, Sequence

from .check import Report
from .rule import Finding, Rule
from .trace import COMPILED, ENTRY, GRAPHED, MANUAL

SCHEMA = "npu-graph/lint/1"
# JSON stays readable to an agent: counts are exact, the list is cut here unless --all is given.
MAX_JSON_FINDINGS = 200
# A report without findings names this many of the regions looked at.
MAX_PLACES = 5
# What a user calls each kind of region.
_KINDS = {MANUAL: "capture", GRAPHED: "make_graphed_callables", COMPILED: "compiled", ENTRY: "entry"}


def as_record(report: Report, limit: int = MAX_JSON_FINDINGS) -> dict[str, Any]:
    """Return the record of references/lint_rules.md, with at most `limit` findings (0: all)."""
    kept = report.findings[:limit] if limit else report.findings
    return {
        "schema": SCHEMA,
        "verdict": verdict(report),
        "files": report.files,
        "regions": report.regions,
        "counts": _counts(report.findings),
        "suppressed": report.suppressed,
        "findings": [_finding_record(item) for item in kept],
        "left_out": len(report.findings) - len(kept),
        "problems": [{"file": item.file, "line": item.line, "message": item.message} for item in report.problems],
        "missing_entries": report.missing_entries,
    }


def verdict(report: Report) -> str:
    """Return findings, clean, or no_region: a run that met no capture has shown nothing."""
    if report.findings:
        return "findings"
    return "clean" if report.regions else "no_region"


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    counts = {"error": 0, "warning": 0, "info": 0}
    for item in findings:
        counts[item.severity] += 1
    return counts


def _finding_record(item: Finding) -> dict[str, Any]:
    return {
        "rule": item.rule.id,
        "name": item.rule.name,
        "severity": item.severity,
        "file": item.file,
        "line": item.line,
        "column": item.column,
        "message": item.message,
        "why": item.rule.why,
        "fix": item.rule.fix,
        "pattern": item.rule.pattern,
        "region": item.region,
        "path": list(item.path),
        "code": item.text,
    }


def render_text(report: Report) -> str:
    """Return one block a finding, and a last line that sums up."""
    lines: list[str] = []
    for item in report.findings:
        lines.append(
            f"{item.file}:{item.line}:{item.column}: {item.rule.id} {item.severity}: {item.message} "
            f"[{item.rule.name}, {item.rule.pattern}]"
        )
        if item.text:
            lines.append(f"    {item.text}")
        if len(item.path) > 1:
            lines.append(f"    reached through {' > '.join(item.path)}")
        lines.append(f"    fix: {item.rule.fix}")
    lines += [_problem_line(item.file, item.line, item.message) for item in report.problems]
    lines += [f"entry {name}: no such function in the given files" for name in report.missing_entries]
    if verdict(report) == "clean":
        lines.append(inspected(report))
    lines.append(summary(report))
    return "\n".join(lines)


def inspected(report: Report) -> str:
    """Return the line that says what "no findings" is about: the regions looked at, and what stays unseen."""
    places = [f"{place} ({_KINDS[kind]})" for place, kind in report.inspected]
    more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    entry = any(kind == ENTRY for _, kind in report.inspected)
    unseen = (
        "; the callers of an entry were not inspected: rules on their warm-up, inputs, joins and replay do not apply"
    )
    return f"inspected: {', '.join(places[:MAX_PLACES])}{more}{unseen if entry else ''}"


def _problem_line(file: str, line: int, message: str) -> str:
    return f"{file}{f':{line}' if line else ''}: not inspected: it {message}"


def summary(report: Report) -> str:
    """Return the last line: what was looked at, and what it means."""
    counts = _counts(report.findings)
    looked = (
        f"{report.files} file{'s' * (report.files != 1)}, {report.regions} captured region{'s' * (report.regions != 1)}"
    )
    hidden = f", {report.suppressed} suppressed by noqa" if report.suppressed else ""
    if not report.findings and not report.regions:
        return (
            f"{looked}: nothing is captured in these files; name the function that a framework captures with "
            "--entry module:function"
        )
    found = (
        ", ".join(f"{number} {name}{'s' * (number != 1)}" for name, number in counts.items() if number) or "no findings"
    )
    return f"{looked}: {found}{hidden}"


def render_markdown(report: Report) -> str:
    """Return a table of the findings for a chat."""
    lines = [f"**{summary(report)}**", ""]
    if verdict(report) == "clean":
        lines.append(inspected(report))
    if report.findings:
        lines += ["| where | rule | what | fix |", "| --- | --- | --- | --- |"]
    for item in report.findings:
        cells = (
            f"{item.file}:{item.line}",
            f"{item.rule.id} {item.rule.name} ({item.rule.pattern})",
            item.message,
            item.rule.fix,
        )
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    lines += [f"- {_problem_line(item.file, item.line, item.message)}" for item in report.problems]
    lines += [f"- entry {name}: no such function in the given files" for name in report.missing_entries]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def render_rule(rule: Rule) -> str:
    """Return the page of one rule."""
    return (
        f"### {rule.id} {rule.name}\n\n"
        f"Severity: {rule.severity}. Pattern: {rule.pattern}. Message: {rule.message}\n\n"
        f"{rule.what}\n\n"
        f"Why: {rule.why}\n\n"
        f"Fix: {rule.fix}\n\n"
        f"```python\n# faulty\n{rule.bad}\n# instead\n{rule.good}\n```\n"
    )
