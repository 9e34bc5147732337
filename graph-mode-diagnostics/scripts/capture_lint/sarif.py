"""The report as SARIF 2.1.0, for code-scanning services and editors."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Sequence
from urllib.parse import quote

from .check import Report
from .render import render_rule
from .rule import RULES, Finding, Rule

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def as_sarif(report: Report, version: str) -> dict[str, Any]:
    """Return a SARIF log with one run; every rule is described, so that a viewer needs nothing else."""
    rules = [RULES[name] for name in sorted(RULES)]
    positions = {rule.id: index for index, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "lint_capture",
                        "semanticVersion": version,
                        "rules": [_rule(item) for item in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, positions[item.rule.id]) for item in report.findings],
                "invocations": [
                    {
                        "executionSuccessful": not report.problems,
                        "toolExecutionNotifications": [
                            {
                                "level": "warning",
                                "message": {"text": f"{item.file} was not inspected: it {item.message}"},
                            }
                            for item in report.problems
                        ],
                    }
                ],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": _sentence(rule.what)},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why} Fix: {rule.fix}",
            "markdown": render_rule(rule),
        },
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"pattern": rule.pattern},
    }


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _result(item: Finding, position: int) -> dict[str, Any]:
    return {
        "ruleId": item.rule.id,
        "ruleIndex": position,
        "level": _LEVELS[item.severity],
        "message": {"text": _sentence(f"{item.message}. {item.rule.fix}" if item.rule.fix else item.message)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(item.file)},
                    "region": {
                        "startLine": item.line,
                        "startColumn": item.column,
                        "endLine": max(item.line, item.end_line),
                        **({"snippet": {"text": item.text}} if item.text else {}),
                    },
                }
            }
        ],
        "partialFingerprints": {"codeLine/v1": _fingerprint(item.rule.id, item.file, item.text)},
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _fingerprint(*parts: str) -> str:
    """Return a mark that stays the same when lines above are added or removed."""
    joined: Sequence[bytes] = [part.encode("utf-8", "replace") for part in parts]
    return hashlib.sha256(b"\0".join(joined)).hexdigest()[:32]
