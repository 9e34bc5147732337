"""The knowledge folders, and what one answer needs of them: each file is read once, and only when it is asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Sequence

from npu_graph import bundle
from npu_graph.codes import CodeBook
from npu_graph.patterns import Pattern, load_patterns


class Knowledge:
    """Knowledge for one answer.

    Args:
        folders: by default the bundle's seed and its overlays.
    """

    def __init__(self, folders: Sequence[Path] | None = None) -> None:
        self.folders = list(folders) if folders is not None else bundle.knowledge_folders()

    @cached_property
    def patterns(self) -> list[Pattern]:
        return load_patterns(self.folders).patterns

    @cached_property
    def codes(self) -> CodeBook:
        return CodeBook.load(self.folders)
