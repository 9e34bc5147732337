"""Print the comparison record for people."""

from __future__ import annotations

from typing import Any


def render(record: dict[str, Any]) -> str:
    """Return the report: verdict, class, the first difference, one line a step."""
    lines = [f"{record['target']}: {_headline(record)}"]
    about = record["class"]
    if about is not None:
        lines += [f"  class: {about['value']} ({about['title']}), confidence {about['confidence']:.2f}"]
        lines += [f"  because {text}" for text in about["evidence"]]
        lines.append(f"  {about['meaning']}")
    first = record["first"]
    if first is not None:
        lines.append(f"  first difference: step {first['step']}, {first['output']}: {_shown(first)}")
    module = record["first_module"]
    if module is not None:
        lines.append(f"  first module that differs: {module['module']} in step {module['step']}: {_shown(module)}")
    lines.append("steps:")
    for step in record["steps"]:
        state = (
            f"{len(step['different'])} of {step['compared']} differ"
            if step["different"]
            else f"{step['compared']} agree"
        )
        lines.append(f"  {step['step']}: {state}, max abs {step['max_abs']:.3g}")
    lines += [f"  only on one side: {text}" for text in record["one_side_only"][:10]]
    if about is not None:
        lines += [f"confirm: {about['confirm']}", f"fix: {about['fix']}"]
    return "\n".join(lines) + "\n"


def _headline(record: dict[str, Any]) -> str:
    if record["verdict"] == "different":
        return "eager and graph differ"
    return "equal, bit by bit" if record["bitwise_equal"] else "equal within the tolerance"


def _shown(item: dict[str, Any]) -> str:
    where = f"first at {item['first_index']}" if item["first_index"] else ""
    parts = [
        item["reason"],
        f"{item['mismatched']} of {item['total']} {item['dtype']} values",
        f"max abs {item['max_abs']:.3g}",
        f"max rel {item['max_rel']:.3g}",
        where,
    ]
    return ", ".join(part for part in parts if part)
