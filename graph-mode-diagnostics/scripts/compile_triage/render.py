"""The result of a triage as text and Markdown, and the variants of a dry run."""

from __future__ import annotations

import difflib
from typing import Any

from . import steps
from .triage import Plan, call_record


def render_text(record: dict[str, Any]) -> str:
    """Return the result: the answer first, then what it rests on."""
    lines = [_headline(record), ""]
    cause = record["first_cause"]
    if cause:
        lines.append(f"first cause: {cause['type']}: {cause['message']}")
        if cause["frame"]:
            lines.append(f"  at {cause['frame']['file']}:{cause['frame']['line']} in {cause['frame']['function']}")
    place = record["user_line"]
    if place:
        lines.append(
            f"your line: {place['file']}:{place['line']}{' in ' + place['function'] if place['function'] else ''}"
        )
    if record["layer"]:
        lines.append(f"layer {record['layer']}, stage {record['stage']}, owner {record['owner']}")
    lines += [f"pattern {item['id']} {item['title']} ({item['score']:.2f})" for item in record["patterns"]]
    lines += [f"ruled out: {text}" for text in record["ruled_out"]]
    lines += [f"next: {text}" for text in record["next"]]
    lines += [f"note: {text}" for text in record["notes"]]
    lines += ["", _call_line(record["call"])]
    for item in record["steps"]:
        again = ", from the earlier run" if item["resumed"] else ""
        code = f", exit code {item['returncode']}" if item["returncode"] else ""
        lines.append(f"  {item['step']:<28} {item['status']:<8} {item['seconds']} s{code}{again}")
    lines += [f"  {name:<28} not run" for name in record["not_run"]]
    lines.append(f"folder: {record['folder']}")
    return "\n".join(lines)


def _headline(record: dict[str, Any]) -> str:
    if record["part"]:
        return f"first failing step: {record['failed_step']} ({record['part']}): {record['title']}"
    return record["title"] or "no result: " + "; ".join(record["notes"])


def _call_line(call: dict[str, Any]) -> str:
    target = f" of {call['target']}" if call["target"] else ""
    asked = f"{call['form']}{target}, backend {call['backend'] or '?'}"
    return f"call {call['number']}: {call['file']}:{call['line']} ({asked})"


def render_markdown(record: dict[str, Any]) -> str:
    """Return the result for a chat."""
    rows = [f"| {item['step']} | {item['status']} | {item['seconds']} |" for item in record["steps"]]
    rows += [f"| {name} | not run | |" for name in record["not_run"]]
    body = "\n".join(f"- {_plain(line)}" for line in render_text(record).splitlines()[2:] if line[:1] not in ("", " "))
    return (
        f"**{_plain(_headline(record))}**\n\n| step | result | seconds |\n| --- | --- | --- |\n"
        + "\n".join(rows)
        + f"\n\n{body}"
    )


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")


def dry_run_record(plan: Plan) -> dict[str, Any]:
    """Return what would run: the calls, and each variant as a difference."""
    return {
        "schema": "npu-graph/triage/1",
        "verdict": "dry_run",
        "call": call_record(plan.call, plan.backend),
        "calls": [call_record(item, item.backend) for item in plan.calls],
        "steps": [
            {"step": name, "adds": steps.STEPS[name].adds, "difference": difference(plan, name)}
            for name in plan.variants
        ],
    }


def difference(plan: Plan, step: str) -> str:
    """Return a variant as a unified diff against the script; '' for the original."""
    old, new = plan.script.text.splitlines(), plan.variants[step].splitlines()
    return "\n".join(difflib.unified_diff(old, new, plan.call.file, f"{step}/{plan.call.file}", lineterm="", n=0))


def render_dry_run(record: dict[str, Any]) -> str:
    """Return the dry run as text."""
    lines = ["calls of torch.compile:"]
    lines += [
        f"  {'*' if item['number'] == record['call']['number'] else ' '} {_call_line(item)}" for item in record["calls"]
    ]
    for item in record["steps"]:
        lines += ["", f"== {item['step']}: {item['adds']}", item["difference"] or "(unchanged)"]
    return "\n".join(lines)
