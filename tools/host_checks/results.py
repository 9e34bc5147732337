"""What a check of a host found."""

from __future__ import annotations

import sys
from typing import NamedTuple

from host_checks.programs import ROOT

sys.path.insert(0, str(ROOT))
from npu_graph.install_plan import BUNDLE_NAME, SUB_SKILLS

__all__ = ["BUNDLE_NAME", "OWN_NAMES", "SUB_SKILLS", "Result", "own_names"]

OWN_NAMES = (BUNDLE_NAME, *SUB_SKILLS)


class Result(NamedTuple):
    """One line of the page: what was expected of a host, whether it came, and what was seen."""

    host: str
    way: str
    expected: str
    ok: bool
    seen: str


def own_names(names: list[str]) -> list[str]:
    """Return the names that are this bundle's, with or without a plugin's prefix."""
    return [name for name in names if name.split(":")[-1] in OWN_NAMES]
