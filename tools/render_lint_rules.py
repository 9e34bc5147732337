#!/usr/bin/env python3
"""Write the pages of the lint rules from the rules' own docstrings; with --check only say whether they are up to date.

Usage: render_lint_rules.py [--check]
The table in references/lint_rules.md (between its markers) and one page per family in references/lint_rules/ are
written. Exit codes: 0 written or up to date, 1 out of date (--check), 5 internal error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Sequence

ROOT = Path(__file__).resolve().parents[1]
SKILL = ROOT / "graph-mode-diagnostics"
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(SKILL / "scripts"))

from capture_lint.check import RULE_MODULES
from capture_lint.render import render_rule
from capture_lint.rule import RULES, Rule

from npu_graph import cli

INDEX = SKILL / "references" / "lint_rules.md"
PAGES = SKILL / "references" / "lint_rules"
BEGIN, END = "<!-- rules: written by tools/render_lint_rules.py -->\n", "<!-- end of rules -->"
EXAMPLES = ("python3 tools/render_lint_rules.py", "python3 tools/render_lint_rules.py --check")


def main(argv: Sequence[str] | None = None) -> int:
    parser = cli.make_parser("Write the pages of the lint rules from the rules' docstrings.", EXAMPLES)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is out of date")
    options = parser.parse_args(argv)
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run tools/render_lint_rules.py")
        return cli.NEGATIVE if stale else cli.DONE
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(pages()[path], encoding="utf-8")
    print(f"{len(RULES)} rules, {len(stale)} files written")
    return cli.DONE


def pages() -> dict[Path, str]:
    """Return path → text of every generated page."""
    texts = {INDEX: _index(INDEX.read_text(encoding="utf-8"))}
    for module in RULE_MODULES:
        texts[PAGES / f"{family(module.__name__)}.md"] = _page(module.__doc__ or "", rules_of(module.__name__))
    return texts


def family(module: str) -> str:
    """Return the name of a rule module's page."""
    return module.rpartition("rules_")[2]


def rules_of(module: str) -> list[Rule]:
    """Return the rules that a module registers, by id."""
    return sorted((rule for rule in RULES.values() if rule.check.__module__ == module), key=lambda rule: rule.id)


def _index(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = ["| rule | severity | finds | pattern |", "| --- | --- | --- | --- |"]
    for name in sorted(RULES):
        rule = RULES[name]
        page = f"lint_rules/{family(rule.check.__module__)}.md"
        what = rule.what.replace("|", "\\|")
        rows.append(f"| [{rule.id} {rule.name}]({page}) | {rule.severity} | {what} | {rule.pattern} |")
    return head + BEGIN + "\n".join(rows) + "\n" + END + tail


def _page(purpose: str, rules: Sequence[Rule]) -> str:
    return f"# {purpose.strip().splitlines()[0]}\n\nWritten by tools/render_lint_rules.py.\n\n" + "\n".join(
        map(render_rule, rules)
    )


if __name__ == "__main__":
    cli.run(main)
