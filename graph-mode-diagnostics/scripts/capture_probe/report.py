"""Print the probe record for people."""

from __future__ import annotations

from typing import Any

_VERDICTS = {
    "breaks": "the capture would fail",
    "spoils": "the capture would succeed and replay wrongly",
    "check": "nothing breaks; look at the notes",
    "clean": "clean: nothing found that breaks or spoils a capture",
}


def render(record: dict[str, Any]) -> str:
    """Return the report: verdict, findings in the order in which they ran, what the two runs have in common."""
    lines = [f"{record['target']}: {_VERDICTS[record['verdict']]}"]
    lines.append(
        f"  {record['operators']} operators on {record['device']}, torch {record['torch']}, {record['runs']} runs"
    )
    comparison = record["comparison"]
    if comparison is not None:
        inputs = "two inputs" if comparison["different_inputs"] else "two calls without an input maker"
        lines.append(
            f"  {inputs}: {'same' if comparison['same_operators'] else 'different'} operators, "
            f"{'same' if comparison['same_shapes'] else 'different'} shapes"
        )
    for number, item in enumerate(record["findings"], 1):
        lines += _finding(number, item)
    if record["left_out"]:
        lines.append(f"... {record['left_out']} more findings in the JSON record are left out")
    if record["device"] == "cpu":
        lines.append(
            "On the CPU, host copies show only as methods (.cpu(), .numpy(), .to('cpu')), NPU streams not at all."
        )
    return "\n".join(lines) + "\n"


def _finding(number: int, item: dict[str, Any]) -> list[str]:
    where = item["where"]
    place = f"{where['file']}:{where['line']} in {where['function']}" if where else "no Python line (inside torch)"
    times = f", {item['count']} times" if item["count"] > 1 else ""
    warm = ", in the first call only" if item["warm_up_only"] else ""
    lines = [f"{number}. [{item['severity']}] {item['title']}: {item['operator']}{times}{warm}", f"   {place}"]
    if where and where["code"]:
        lines.append(f"     {where['code']}")
    lines += [
        f"     called from {above['file']}:{above['line']} in {above['function']}" for above in item["stack"][1:4]
    ]
    if item["detail"]:
        lines.append(f"   what: {item['detail']}")
    pattern = f" ({item['pattern']})" if item["pattern"] else ""
    lines += [f"   why: {item['why']}{pattern}", f"   fix: {item['fix']}"]
    return lines
