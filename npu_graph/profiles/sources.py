"""Find the profiler's files below a folder, whichever tool and version wrote them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from npu_graph import cli

# File kinds and the names they have: torch_npu writes fixed names, msprof appends a time, people keep excerpts.
# Order within a kind matters only for the choice of the first.
FILE_KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "kernel_details": (("kernel_details", ".csv"),),
    "op_summary": (("op_summary", ".csv"),),
    "op_statistic": (("op_statistic", ".csv"),),
    "api_statistic": (("api_statistic", ".csv"),),
    "step_trace_time": (("step_trace_time", ".csv"),),
    "task_time": (("task_time", ".csv"),),
    "trace_view": (("trace_view", ".json"), ("msprof", ".json")),
    "communication": (("communication", ".json"),),
}
# communication_matrix.json holds link volumes, cluster_*.json is another tool's summary.
_OTHER_NAMES = ("communication_matrix", "communication_analyzer", "communication_group")
# Folders are shallow: <worker>_ascend_pt/ASCEND_PROFILER_OUTPUT, PROF_*/mindstudio_profiler_output.
_MAX_DEPTH = 6
_MAX_ENTRIES = 50_000


class ProfileFiles(NamedTuple):
    """One profile: its folder, the file of each kind, and other profiles found below the same root."""

    folder: Path
    files: dict[str, Path]
    others: list[Path]


def find_profile(root: str) -> ProfileFiles:
    """Return the files of the profile at or below `root`.

    Raises:
        CommandError: exit code 3 when the folder does not exist or holds no profiler file.
    """
    base = Path(root)
    if base.is_file():
        base = base.parent
    if not base.is_dir():
        raise cli.CommandError(f"{root} is no folder; give the *_ascend_pt or PROF_* folder", cli.NO_INPUT)
    folders = _folders_with_files(base)
    if not folders:
        raise cli.CommandError(
            f"no profiler output below {root}; expected kernel_details.csv, op_summary_*.csv or trace_view.json "
            "(an *_ascend_pt folder needs torch_npu.profiler.profiler.analyse first)",
            cli.NO_INPUT,
        )
    best = sorted(folders, key=lambda folder: (-_rank(folders[folder]), len(folder.parts), str(folder)))
    same = [folder for folder in best[1:] if _rank(folders[folder]) == _rank(folders[best[0]])]
    return ProfileFiles(best[0], folders[best[0]], same)


def _rank(files: dict[str, Path]) -> int:
    """Prefer a folder with torch_npu's own output: it repeats msprof's tables with steps added."""
    return 2 * ("kernel_details" in files) + ("trace_view" in files or "op_summary" in files)


def _folders_with_files(base: Path) -> dict[Path, dict[str, Path]]:
    found: dict[Path, dict[str, Path]] = {}
    seen = 0
    for folder, subfolders, names in os.walk(str(base)):
        here = Path(folder)
        if len(here.parts) - len(base.parts) >= _MAX_DEPTH:
            subfolders[:] = []
        subfolders.sort()
        seen += len(names)
        if seen > _MAX_ENTRIES:
            break
        for name in sorted(names):
            kind = file_kind(name)
            # A pipe or a device file would be read for ever.
            if kind and (here / name).is_file():
                found.setdefault(here, {}).setdefault(kind, here / name)
    return {folder: files for folder, files in found.items() if set(files) - {"communication"}}


def file_kind(name: str) -> str | None:
    """Return which profiler file a name is, or None."""
    if name.startswith(_OTHER_NAMES):
        return None
    for kind, shapes in FILE_KINDS.items():
        for start, ending in shapes:
            rest = name[len(start) :]
            if name.startswith(start) and name.endswith(ending) and (not rest or rest[0] in "._-"):
                return kind
    return None
