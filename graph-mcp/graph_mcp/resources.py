"""Patterns, codes, cases and reference pages as resources with their own addresses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from .jobs import BUNDLE, Job

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


def read_resource(uri: str) -> str:
    """Return the text of a resource.

    Raises:
        ResourceNotFoundError: there is none at that address.
    """
    text = _find_text(uri)
    if text is None:
        raise ResourceNotFoundError(uri)
    return text


def _find_text(uri: str) -> str | None:
    if not uri.startswith(SCHEME):
        return None
    kind, _, rest = uri[len(SCHEME) :].partition("/")
    parts = rest.split("/")
    if not all(_ID.fullmatch(part) for part in parts):
        return None
    if kind == "references" and len(parts) == 2:
        page = next((page for skill, page in _reference_pages() if [skill, page.stem] == parts), None)
        return page.read_text(encoding="utf-8") if page is not None else None
    if kind == "codes" and len(parts) == 1:
        return _printed("graph-mode-expert/scripts/lookup_code.py", ["--output", "md", "--", parts[0]])
    if kind in ("patterns", "cases") and len(parts) == 1:
        return _printed("knowledge/scripts/kb.py", ["show", "--all", "--output", "md", "--", parts[0]])
    return None


def _printed(script: str, arguments: list[str]) -> str | None:
    outcome = Job(script, arguments, "", _SECONDS).run()
    return outcome.output if outcome.code == 0 else None


def _reference_pages() -> list[tuple[str, Path]]:
    found = sorted(BUNDLE.glob("graph-*/references/*.md"))
    return [(page.parent.parent.name, page) for page in found]


def _first_heading(page: Path) -> str:
    first = page.read_text(encoding="utf-8").split("\n", 1)[0]
    return first.lstrip("# ").strip()
