"""Makes a self-contained page out of a template: autoescaped, no script, nothing loaded. Needs Jinja2."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Callable, Mapping

from npu_graph import cli

# The base page (head, style, content policy) that every template extends, and the macros of drawings.
SHARED_TEMPLATES = Path(__file__).resolve().parent / "templates"


def load_jinja2(script: str) -> Any:
    """Return the Jinja2 module.

    Raises:
        CommandError: exit code 4 with the line that installs it.
    """
    try:
        return importlib.import_module("jinja2")
    except ImportError:
        raise cli.CommandError(f"{script} needs Jinja2: pip install jinja2", cli.ABSENT) from None


def render_page(
    templates: Path,
    name: str,
    language: str,
    values: Mapping[str, Any],
    filters: Mapping[str, Callable[..., str]] | None = None,
    script: str = "the HTML report",
) -> str:
    """Return the page that a template makes of `values`.

    Args:
        templates: the folder of the sub-skill's own templates.
        script: who asks, for the message when Jinja2 is absent.

    Raises:
        CommandError: exit code 4 without Jinja2, 3 when a value that the template shows is not there.
    """
    jinja2 = load_jinja2(script)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(templates), str(SHARED_TEMPLATES)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters.update(filters or {})
    environment.globals.update(lang=language, zh=language == "zh")
    try:
        return str(environment.get_template(name).render(**values))
    except (KeyError, TypeError, jinja2.UndefinedError) as error:
        message = f"the record lacks a field ({error}); make it again with this version"
        raise cli.CommandError(message, cli.NO_INPUT) from None


def write_page(path: Path, page: str) -> int:
    """Write a page, its folder made when it is not there, and return its size in bytes.

    Raises:
        CommandError: exit code 2 when it cannot be written.
    """
    data = page.encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise cli.CommandError(f"{path} cannot be written: {reason}") from None
    return len(data)
