"""Compares versions as Ascend software writes them: 8.1.RC1 < 8.1.0, 25.0.rc1.1, 2.7.1.post8, 9.0.0-beta.2."""

from __future__ import annotations

import re
from typing import Tuple

_VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,4}")
_SUFFIX = re.compile(r"[.\-_+]?(alpha|beta|rc|post|dev|t|a|b)[.\-_]?(\d{0,6})", re.I)
# What stands before a release, at it and after it.
_RANK = {"dev": -4, "alpha": -3, "a": -3, "t": -3, "beta": -2, "b": -2, "rc": -1, "": 0, "post": 1}
_PARTS = 4

Key = Tuple[Tuple[int, ...], int, int]


def key(version: str) -> Key:
    """Return what to compare a version by; text without a number compares lowest."""
    found = _VERSION.search(version)
    if not found:
        return (0,) * _PARTS, -9, 0
    numbers = [int(part) for part in found.group().split(".")]
    suffix = _SUFFIX.match(version, found.end())
    word = suffix.group(1).lower() if suffix else ""
    return tuple((numbers + [0] * _PARTS)[:_PARTS]), _RANK[word], int((suffix.group(2) if suffix else "") or 0)


def line(version: str, parts: int = 2) -> str:
    """Return the release line of a version: 8.3.RC1 -> 8.3."""
    found = _VERSION.search(version)
    return ".".join(found.group().split(".")[:parts]) if found else ""


def public(version: str) -> str:
    """Return a Python package version without its local part: 2.13.0+cpu -> 2.13.0."""
    return version.split("+", maxsplit=1)[0].strip()
