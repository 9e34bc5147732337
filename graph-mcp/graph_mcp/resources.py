"""Patterns, codes, cases and reference pages as resources with their own addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from .jobs import BUNDLE, Job, Outcome

SCHEME = "npu-graph://"
PAGE = 50
_SECONDS = 30
_ID = re.compile(r"[A-Za-z0-9_.-]{1,80}")


class ResourceNotFoundError(Exception):
    """There is no resource at the address, which is the message."""


class Resource(NamedTuple):
    """One listed resource."""

    uri: str
    name: str
    title: str
    description: str

    def as_listing(self) -> dict[str, Any]:
        return {
            "uri": self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": "text/markdown",
        }


TEMPLATES = (
    ("patterns/{id}", "pattern", "A known failure pattern, such as P-CAP-001"),
    ("codes/{code}", "code", "An error code in any spelling, such as 107027 or EE1016"),
    ("cases/{id}", "case", "A recorded case by its id"),
    ("references/{skill}/{page}", "reference", "A reference page of a sub-skill"),
)


def list_templates() -> list[dict[str, Any]]:
    """Return the resource templates."""
    return [
        {"uriTemplate": SCHEME + path, "name": name, "description": text, "mimeType": "text/markdown"}
        for path, name, text in TEMPLATES
    ]


def list_resources() -> list[Resource]:
    """Return every resource in a fixed order: reference pages, then patterns."""
    from npu_graph import bundle
    from npu_graph.patterns import load_patterns

    pages = [
        Resource(
            f"{SCHEME}references/{skill}/{page.stem}",
            f"{skill}/{page.stem}",
            _first_heading(page),
            f"reference of {skill}",
        )
        for skill, page in _reference_pages()
    ]
    patterns = [
        Resource(f"{SCHEME}patterns/{item.id}", item.id, item.title, f"stage {item.stage}, layer {item.layer}")
        for item in sorted(load_patterns(bundle.knowledge_folders()).patterns, key=lambda pattern: pattern.id)
    ]
    return pages + patterns


def open_resource(uri: str) -> str | Job:
    """Return the text of a resource, or the job that prints it.

    Raises:
        ResourceNotFoundError: there is none at that address.
    """
    kind, _, rest = uri[len(SCHEME) :].partition("/") if uri.startswith(SCHEME) else ("", "", "")
    parts = rest.split("/")
    if not all(_ID.fullmatch(part) for part in parts):
        raise ResourceNotFoundError(uri)
    if kind == "references" and len(parts) == 2:
        for skill, page in _reference_pages():
            if [skill, page.stem] == parts:
                return page.read_text(encoding="utf-8")
    if kind == "codes" and len(parts) == 1:
        return Job("graph-mode-expert/scripts/lookup_code.py", ["--output", "md", "--", parts[0]], "", _SECONDS)
    if kind in ("patterns", "cases") and len(parts) == 1:
        return Job("knowledge/scripts/kb.py", ["show", "--all", "--output", "md", "--", parts[0]], "", _SECONDS)
    raise ResourceNotFoundError(uri)


def printed_text(uri: str, outcome: Outcome) -> str:
    """Return what the job printed.

    Raises:
        ResourceNotFoundError: the script knows no such pattern, case or code.
        TimeoutError: the script was ended before it had printed it.
    """
    if outcome.ended:
        raise TimeoutError(outcome.ended)
    if outcome.code != 0:
        raise ResourceNotFoundError(uri)
    return outcome.output


def _reference_pages() -> list[tuple[str, Path]]:
    found = sorted(BUNDLE.glob("graph-*/references/*.md"))
    return [(page.parent.parent.name, page) for page in found]


def _first_heading(page: Path) -> str:
    first = page.read_text(encoding="utf-8").split("\n", 1)[0]
    return first.lstrip("# ").strip()
