"""Print the probe record for people."""

from __future__ import annotations

from typing import Any

_WORDS = {
    "en": {
        "breaks": "the capture would fail",
        "spoils": "the capture would succeed and replay wrongly",
        "check": "nothing breaks; look at the notes",
        "clean": "clean: nothing found that breaks or spoils a capture",
        "size": "{operators} operators on {device}, torch {torch}, {runs} runs",
        "two": "two inputs",
        "same_call": "two calls without an input maker",
        "same": "same",
        "other": "different",
        "compared": "{inputs}: {operators} operators, {shapes} shapes",
        "left_out": "... {n} more findings are left out",
        "cpu": "On the CPU, host copies show only as methods (.cpu(), .numpy(), .to('cpu')), NPU streams not at all.",
        "no_line": "no Python line (inside torch)",
        "times": ", {n} times",
        "warm": ", in the first call only",
        "called": "called from",
        "what": "what",
        "why": "why",
        "fix": "fix",
    },
    "zh": {
        "breaks": "捕获会失败",
        "spoils": "捕获能成功，但重放结果不对",
        "check": "没有会失败的地方；请看提示",
        "clean": "干净：没有发现会破坏捕获或重放的地方",
        "size": "{device} 上 {operators} 个算子，torch {torch}，运行 {runs} 次",
        "two": "两种输入",
        "same_call": "两次调用（没有输入生成函数）",
        "same": "相同",
        "other": "不同",
        "compared": "{inputs}：算子{operators}，形状{shapes}",
        "left_out": "... 另有 {n} 条未列出",
        "cpu": "在 CPU 上，到主机的拷贝只有写成方法（.cpu()、.numpy()、.to('cpu')）才看得到，NPU 流完全看不到。",
        "no_line": "没有 Python 行（在 torch 内部）",
        "times": "，{n} 次",
        "warm": "，仅第一次调用",
        "called": "调用自",
        "what": "内容",
        "why": "原因",
        "fix": "修改",
    },
}


def render(record: dict[str, Any]) -> str:
    """Return the report: verdict, findings in the order in which they ran, what the two runs have in common."""
    words = _WORDS["zh" if record["language"] == "zh" else "en"]
    size = {name: record[name] for name in ("operators", "device", "torch", "runs")}
    lines = [f"{record['target']}: {words[record['verdict']]}", "  " + words["size"].format(**size)]
    comparison = record["comparison"]
    if comparison is not None:
        compared = words["compared"].format(
            inputs=words["two" if comparison["different_inputs"] else "same_call"],
            operators=words["same" if comparison["same_operators"] else "other"],
            shapes=words["same" if comparison["same_shapes"] else "other"],
        )
        lines.append("  " + compared)
    for number, item in enumerate(record["findings"], 1):
        lines += _finding(number, item, words)
    if record["left_out"]:
        lines.append(words["left_out"].format(n=record["left_out"]))
    if record["device"] == "cpu":
        lines.append(words["cpu"])
    return "\n".join(lines) + "\n"


def _finding(number: int, item: dict[str, Any], words: dict[str, str]) -> list[str]:
    where = item["where"]
    place = f"{where['file']}:{where['line']} in {where['function']}" if where else words["no_line"]
    times = words["times"].format(n=item["count"]) if item["count"] > 1 else ""
    warm = words["warm"] if item["warm_up_only"] else ""
    lines = [f"{number}. [{item['severity']}] {item['title']}: {item['operator']}{times}{warm}", f"   {place}"]
    if where and where["code"]:
        lines.append(f"     {where['code']}")
    for above in item["stack"][1:4]:
        lines.append(f"     {words['called']} {above['file']}:{above['line']} in {above['function']}")
    if item["detail"]:
        lines.append(f"   {words['what']}: {item['detail']}")
    pattern = f" ({item['pattern']})" if item["pattern"] else ""
    lines += [f"   {words['why']}: {item['why']}{pattern}", f"   {words['fix']}: {item['fix']}"]
    return lines
