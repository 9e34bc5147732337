"""Print the comparison record for people, in English or Chinese."""

from __future__ import annotations

from typing import Any

_WORDS = {
    "en": {
        "different": "eager and graph differ",
        "bitwise": "equal, bit by bit",
        "close": "equal within the tolerance",
        "class": "class: {value} ({title}), confidence {confidence:.2f}",
        "because": "because {text}",
        "first": "first difference: step {step}, {output}: {shown}",
        "module": "first module that differs: {module} in step {step}: {shown}",
        "no_module": "first module that differs: not named: {why}",
        "steps": "steps:",
        "differ": "{n} of {all} differ",
        "agree": "{all} agree",
        "alone": "only on one side: {text}",
        "confirm": "confirm",
        "fix": "fix",
        "values": "{bad} of {total} {dtype} values",
        "at": "first at {index}",
    },
    "zh": {
        "different": "Eager 与图不同",
        "bitwise": "逐位相等",
        "close": "在容差内相等",
        "class": "类别：{value}（{title}），置信度 {confidence:.2f}",
        "because": "依据：{text}",
        "first": "最先不同：第 {step} 步 {output}：{shown}",
        "module": "最先不同的模块：第 {step} 步 {module}：{shown}",
        "no_module": "最先不同的模块：未指出：{why}",
        "steps": "各步：",
        "differ": "{all} 个中 {n} 个不同",
        "agree": "{all} 个一致",
        "alone": "只在一边：{text}",
        "confirm": "如何确认",
        "fix": "修改",
        "values": "{total} 个 {dtype} 值中 {bad} 个",
        "at": "首个位置 {index}",
    },
}


def render(record: dict[str, Any]) -> str:
    """Return the report: verdict, class, the first difference, one line a step."""
    words = _WORDS["zh" if record["language"] == "zh" else "en"]
    state = "different" if record["verdict"] == "different" else "bitwise" if record["bitwise_equal"] else "close"
    lines = [f"{record['target']}: {words[state]}"]
    about, first, module = record["class"], record["first"], record["first_module"]
    if about is not None:
        lines.append("  " + words["class"].format(**{key: about[key] for key in ("value", "title", "confidence")}))
        lines += ["  " + words["because"].format(text=text) for text in about["evidence"]]
        lines.append(f"  {about['meaning']}")
    if first is not None:
        shown = _shown(first, words)
        lines.append("  " + words["first"].format(step=first["step"], output=first["output"], shown=shown))
    if module is not None:
        shown = _shown(module, words)
        lines.append("  " + words["module"].format(step=module["step"], module=module["module"], shown=shown))
    if record["first_module_missing"]:
        lines.append("  " + words["no_module"].format(why=record["first_module_missing"]))
    lines.append(words["steps"])
    for step in record["steps"]:
        text = words["differ" if step["different"] else "agree"].format(n=len(step["different"]), all=step["compared"])
        lines.append(f"  {step['step']}: {text}, max abs {step['max_abs']:.3g}")
    lines += ["  " + words["alone"].format(text=text) for text in record["one_side_only"][:10]]
    if about is not None:
        lines += [f"{words['confirm']}: {about['confirm']}", f"{words['fix']}: {about['fix']}"]
    return "\n".join(lines) + "\n"


def _shown(item: dict[str, Any], words: dict[str, str]) -> str:
    parts = [
        item["reason"],
        words["values"].format(bad=item["mismatched"], total=item["total"], dtype=item["dtype"]),
        f"max abs {item['max_abs']:.3g}",
        f"max rel {item['max_rel']:.3g}",
        words["at"].format(index=item["first_index"]) if item["first_index"] else "",
    ]
    return ", ".join(part for part in parts if part)
