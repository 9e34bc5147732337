"""Writes the checks as text, Markdown or the record npu-graph/health/1, in English or Chinese."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .model import FAIL, GROUPS, WARN, Check, count, group_status
from .tables import read_table

SCHEMA = "npu-graph/health/1"

# Words of the report: (English, Chinese).
WORDS = {
    "reason": ("likely reason", "可能原因"),
    "next": ("next", "下一步"),
    "warnings": ("warnings", "告警"),
    "skipped": ("skipped", "跳过"),
    "no_stack": (
        "No NPU stack here: no CANN, no torch_npu, no driver, no device. To install one, in this order:",
        "此处没有 NPU 软件栈：没有 CANN、torch_npu、驱动与设备。请按以下顺序安装：",
    ),
}
# What to install where there is nothing; the versions come from data/torch_npu_releases.tsv.
INSTALL = (
    (
        "driver and firmware (Ascend HDK), on the host: hiascend.com; then `npu-smi info` shows the chips",
        "宿主机安装驱动与固件（Ascend HDK）：hiascend.com；之后 `npu-smi info` 可见芯片",
    ),
    (
        "CANN {cann} toolkit and the operator package of your chip: hiascend.com/cann/download; "
        "then source its set_env.sh",
        "CANN {cann} toolkit 与对应芯片的算子包：hiascend.com/cann/download；然后 source set_env.sh",
    ),
    (
        "pip install torch=={torch} torch_npu=={wheel} pyyaml numpy packaging   # Python {python}; x86_64: torch from "
        "PyTorch's CPU index",
        "pip install torch=={torch} torch_npu=={wheel} pyyaml numpy packaging   # Python {python}；x86_64 的 torch "
        "取自 PyTorch CPU 源",
    ),
)
MAX_EVIDENCE = 12


class Explained(NamedTuple):
    """A check with its texts in one language."""

    check: Check
    title: str
    reason: str
    next: str


class Texts:
    """The texts of data/health_checks.tsv and data/health_texts.tsv in one language."""

    def __init__(self, language: str) -> None:
        self.at = 1 if language == "zh" else 0
        suffix = "_zh" if self.at else ""
        self._titles = {row["check"]: row["title" + suffix] for row in read_table("health_checks")}
        self._texts = {
            (row["check"], row["outcome"]): (row["reason" + suffix], row["next" + suffix])
            for row in read_table("health_texts")
        }

    def word(self, name: str) -> str:
        return WORDS[name][self.at]

    def label(self, name: str) -> str:
        """Return a word with the colon of its language."""
        return self.word(name) + ("：" if self.at else ": ")

    def explain(self, item: Check) -> Explained:
        """Return a check with its texts filled in.

        A row is looked for under the check, then its group (`capture.*`), its subject (`*.import`), then `*`.
        """
        group, subject = item.name.split(".")
        reason, then = "", ""
        for name in (item.name, group + ".*", "*." + subject, "*"):
            if (name, item.outcome) in self._texts:
                reason, then = self._texts[name, item.outcome]
                break
        return Explained(item, self._titles[item.name], _fill(reason, item.values), _fill(then, item.values))


class _Blank(dict):  # type: ignore[type-arg]
    """Values for a text; one that a check did not give stays visible by its name instead of raising."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


def _fill(text: str, values: dict[str, Any]) -> str:
    return text.format_map(_Blank({name: str(value)[:300] for name, value in values.items()}))


def as_record(checks: Sequence[Check], facts: dict[str, Any], language: str) -> dict[str, Any]:
    """Return the record of references/health_report.md."""
    texts = Texts(language)
    groups = []
    for name, title in GROUPS.items():
        members = [texts.explain(item) for item in checks if item.group == name]
        if not members:
            continue
        groups.append(
            {
                "group": name,
                "title": title[texts.at],
                "status": group_status([item.check for item in members]),
                "checks": [_check_record(item) for item in members],
            }
        )
    return {"schema": SCHEMA, "language": language, "summary": count(checks), "environment": facts, "groups": groups}


def _check_record(item: Explained) -> dict[str, Any]:
    return {
        "check": item.check.name,
        "outcome": item.check.outcome,
        "status": item.check.status,
        "critical": item.check.critical,
        "title": item.title,
        "evidence": item.check.evidence,
        "reason": item.reason,
        "next": item.next,
    }


def last_line(summary: dict[str, int]) -> str:
    """Return the line that ends every report."""
    return f"{summary['passed']} passed, {summary['failed']} failed, {summary['critical']} critical"


def as_text(record: dict[str, Any], verbose: bool = False, install: Sequence[str] = ()) -> str:
    """Return the record for a terminal: what failed or warns is explained; with verbose, everything."""
    texts = Texts(record["language"])
    lines: list[str] = []
    for group in record["groups"]:
        lines.append(f"[{group['status']}] {group['title']}")
        for item in group["checks"]:
            lines += _text_lines(item, texts, verbose)
    summary = record["summary"]
    if install:
        lines += ["", texts.word("no_stack"), *(f"  {at}. {step}" for at, step in enumerate(install, 1))]
    extra = f"{summary['warnings']} {texts.word('warnings')}, {summary['skipped']} {texts.word('skipped')}"
    return "\n".join([*lines, "", extra, last_line(summary)]) + "\n"


def _text_lines(item: dict[str, Any], texts: Texts, verbose: bool) -> list[str]:
    critical = " [CRIT]" if item["critical"] else ""
    head = f"  {item['status']}{critical} {item['title']}"
    grave = item["status"] in (FAIL, WARN)
    evidence = item["evidence"][:MAX_EVIDENCE] if grave or verbose else item["evidence"][:1]
    if not grave and not verbose:
        return [head + (f": {evidence[0]}" if evidence else "")]
    lines = [head, *(f"       {line}" for line in evidence)]
    if item["reason"]:
        lines.append(f"       {texts.label('reason')}{item['reason']}")
    if item["next"]:
        lines.append(f"       {texts.label('next')}{item['next']}")
    return lines


def as_markdown(record: dict[str, Any], install: Sequence[str] = ()) -> str:
    """Return the record as Markdown, every value escaped."""
    texts = Texts(record["language"])
    lines: list[str] = []
    for group in record["groups"]:
        lines += [f"## {group['status']} {_escape(group['title'])}", ""]
        for item in group["checks"]:
            critical = " **[CRIT]**" if item["critical"] else ""
            lines.append(f"- **{item['status']}**{critical} {_escape(item['title'])} (`{item['check']}`)")
            lines += [f"  - {_escape(line)}" for line in item["evidence"][:MAX_EVIDENCE]]
            for word in ("reason", "next"):
                lines += [f"  - *{texts.label(word).strip()}* {_escape(item[word])}"] if item[word] else []
        lines.append("")
    if install:
        lines += [texts.word("no_stack"), "", *(f"{at}. {_escape(step)}" for at, step in enumerate(install, 1)), ""]
    return "\n".join([*lines, last_line(record["summary"])]) + "\n"


def _escape(text: str) -> str:
    for character in "\\`*_[]<>|":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
