"""Print the hang record for people, as text or Markdown, in English or Chinese."""

from __future__ import annotations

from typing import Any

from npu_graph.markdown import code_span

_WORDS = {
    "en": {
        "verdict": "Verdict",
        "none": "no class fits",
        "why": "Evidence",
        "confirm": "Confirm",
        "next": "Collect next",
        "ranks": "Ranks",
        "groups": "Where the ranks stand",
        "odd": "odd one out",
        "called": "called from",
        "waited": "Waited for (HCCL)",
        "by": "{n} wait for it",
        "also": "waits itself",
        "free": "reported no wait",
        "also_possible": "Also possible",
        "missing": "Not given",
        "absent": "no dump of ranks",
        "moving": "stack changed between samples",
        "others": "not workers",
        "verdicts": {
            "known": "established", "candidate": "likely, not established", "unknown": "unknown",
            "insufficient": "material is missing",
        },
    },
    "zh": {
        "verdict": "结论",
        "none": "没有符合的类别",
        "why": "证据",
        "confirm": "如何确认",
        "next": "下一步收集",
        "ranks": "涉及",
        "groups": "各 rank 停在哪里",
        "odd": "与众不同",
        "called": "调用自",
        "waited": "被等待的 rank（HCCL）",
        "by": "{n} 个在等它",
        "also": "它自己也在等",
        "free": "它没有报告等待",
        "also_possible": "也可能",
        "missing": "尚未提供",
        "absent": "没有这些 rank 的 dump：",
        "moving": "两次采样之间栈有变化",
        "others": "非 worker",
        "verdicts": {"known": "成立", "candidate": "可能，未确立", "unknown": "未知", "insufficient": "材料不足"},
    },
}  # fmt: skip
SHOWN_STACK = 8


def render(record: dict[str, Any], markdown: bool) -> str:
    """Return the report: the best class with evidence, where ranks stand, who is waited for, what is missing."""
    words: dict[str, Any] = _WORDS["zh" if record["input"]["language"] == "zh" else "en"]
    lines: list[str] = []
    mark = code_span if markdown else str

    def head(text: str) -> None:
        lines.append(f"## {text}" if markdown else text)

    classes = record["classes"]
    head(f"{words['verdict']}: {words['verdicts'][record['verdict']]}")
    if classes:
        _best(classes[0], words, lines, mark)
    else:
        lines.append(f"  {words['none']}")
    if record["groups"]:
        lines.append("")
        head(words["groups"])
        _groups(record, words, lines, mark)
    if record["waited_for"]:
        lines.append("")
        head(words["waited"])
        for item in record["waited_for"][:10]:
            state = words["also"] if item["itself_waits"] else words["free"]
            place = f"{item['source']}:{item['line']}"
            lines.append(f"- {mark(item['rank'])}: {words['by'].format(n=item['waiters'])}; {state} ({mark(place)})")
    if len(classes) > 1:
        lines.append("")
        head(words["also_possible"])
        for item in classes[1:4]:
            lines.append(f"- {item['title']} ({item['score']:.2f}). {words['confirm']}: {item['confirm']}")
    if record["missing"]:
        lines.append("")
        head(words["missing"])
        lines += [f"- {item['item']}: {item['why']}. {mark(item['how'])}" for item in record["missing"]]
    return "\n".join(lines) + "\n"


def _best(best: dict[str, Any], words: dict[str, Any], lines: list[str], mark: Any) -> None:
    pattern = f", {best['pattern']}" if best["pattern"] else ""
    lines.append(f"- {best['title']} ({best['class']}, {best['score']:.2f}{pattern})")
    lines.append(f"- {best['meaning']}")
    if best["ranks"]:
        lines.append(f"- {words['ranks']}: {mark(', '.join(best['ranks'][:12]))}")
    lines.append(f"- {words['why']}:")
    lines += [f"  - {mark(item['source'] + ':' + str(item['line']))} {mark(item['text'])}" for item in best["evidence"]]
    lines.append(f"- {words['confirm']}: {best['confirm']}")
    lines.append(f"- {words['next']}: {best['collect']}")


def _groups(record: dict[str, Any], words: dict[str, Any], lines: list[str], mark: Any) -> None:
    for group in record["groups"]:
        flags = [group["waits_in"], group["mode"], words["odd"] if group["odd"] else ""]
        lines.append(f"- {mark(group['members'])} ({group['count']}): {', '.join(flag for flag in flags if flag)}")
        lines += [f"    {mark(frame)}" for frame in group["stack"][:SHOWN_STACK]]
        if len(group["stack"]) > SHOWN_STACK:
            lines.append(f"    ... {len(group['stack']) - SHOWN_STACK} more")
    about = record["processes"]
    if about["absent_ranks"]:
        lines.append(f"- {words['absent']} {about['absent_ranks']}")
    if about["moving"]:
        lines.append(f"- {words['moving']}: {mark(', '.join(about['moving'][:12]))}")
    if about["others"]:
        lines.append(f"- {words['others']}: {', '.join(about['others'][:12])}")
