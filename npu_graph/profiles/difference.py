"""Where the difference between a graph's block and the eager one comes from: causes that add up to it exactly."""

from __future__ import annotations

from typing import Any, NamedTuple

from npu_graph.profiles.blocks import Block, Side
from npu_graph.profiles.gaps import EAGER, ENTRY, IN_GRAPH, SEAM, idle_between
from npu_graph.profiles.kernel_changes import KernelChange
from npu_graph.profiles.ratios import median
from npu_graph.profiles.timestamps import to_us

FACT, ATTRIBUTION = "fact", "attribution"

# Causes in the order of a drawing: what a graph takes away, what it adds, what the device does differently.
# The second field says whether the number is measured as such, or whether its reason is a guess.
CAUSES = {
    "launch_gaps": FACT,  # idle between kernels that the host launches one by one
    "entry_gaps": FACT,  # new: idle before a replay
    "seam_gaps": FACT,  # new: idle after a replay
    "in_graph_gaps": FACT,  # new: idle between the kernels of one replay
    "padding": ATTRIBUTION,  # the same kernels with more rows
    "other_formats": ATTRIBUTION,  # the same kernels, other formats of their inputs
    "other_kernels": ATTRIBUTION,  # kernels that only one side runs, or another implementation of the same
    "kernel_count": FACT,  # more or fewer of the same kernels
    "kernel_time": FACT,  # the same kernels, longer or shorter
    "overlap": FACT,  # kernels that run at the same time on several streams
    "exposed_communication": FACT,
}
_GAP_CAUSES = {EAGER: "launch_gaps", ENTRY: "entry_gaps", SEAM: "seam_gaps", IN_GRAPH: "in_graph_gaps"}


# A block this many times longer than the median holds the pause between two steps. Medians bear it, means do not.
_LONG_BLOCK = 3


class Half(NamedTuple):
    """One profile's blocks.

    `periods` are the lengths (ns) of all, `blocks` those without a pause; means are taken over the latter.
    """

    side: Side
    periods: list[float]
    blocks: list[Block]

    @classmethod
    def of(cls, side: Side, found: list[Block]) -> Half:
        """Return a half of all blocks that were found."""
        periods = [float(block.period) for block in found]
        longest = _LONG_BLOCK * median(periods)
        kept = [block for block in found if block.period <= longest]
        return cls(side, periods, kept)

    def mean(self, name: str) -> float:
        """Return the mean per block of a field of Block (ns)."""
        return float(sum(getattr(block, name) for block in self.blocks)) / len(self.blocks)

    def idle(self) -> dict[str, float]:
        """Return the mean idle time per block, by place (ns)."""
        sums = dict.fromkeys(_GAP_CAUSES, 0.0)
        for block in self.blocks:
            for place, length in idle_between(self.side.profile, self.side.use, block.first, block.last).items():
                sums[place] += length
        return {place: total / len(self.blocks) for place, total in sums.items()}


def explain_difference(graph: Half, eager: Half, changes: tuple[KernelChange, ...]) -> list[dict[str, Any]]:
    """Return the causes of the difference with their share of it in us per block; those of 0 are left out.

    Their sum is the difference of the mean block times: what kernels of several streams share is in `overlap`.
    """
    sums = dict.fromkeys(CAUSES, 0.0)
    idle_graph, idle_eager = graph.idle(), eager.idle()
    for place, cause in _GAP_CAUSES.items():
        sums[cause] = idle_graph[place] - idle_eager[place]
    computing = graph.mean("computing") - eager.mean("computing")
    for change in changes:
        if not change.graph.communication and not change.eager.communication:
            sums[_cause_of_count(change)] += change.by_count
            sums[_cause_of_duration(change)] += change.by_duration
    explained = ("padding", "other_formats", "other_kernels", "kernel_count", "kernel_time")
    sums["overlap"] = computing - sum(sums[cause] for cause in explained)
    sums["exposed_communication"] = graph.mean("exposed") - eager.mean("exposed")
    return [
        {"cause": cause, "change_us": to_us(change), "kind": CAUSES[cause]}
        for cause, change in sums.items()
        if to_us(change)
    ]


def _cause_of_count(change: KernelChange) -> str:
    return "kernel_count" if change.in_both else "other_kernels"


def _cause_of_duration(change: KernelChange) -> str:
    if change.padded:
        return "padding"
    if change.formats_differ:
        return "other_formats"
    return "other_kernels" if change.names_differ else "kernel_time"


def count_launches(graph: Half, eager: Half, launch_mean_us: float | None) -> dict[str, Any]:
    """Return how many kernels of a block the host launches by itself, in both modes, and the host time that this saves.

    Host time is no part of the device's difference: it runs beside it.

    Args:
        launch_mean_us: mean host time of one launch in the eager profile, None when it was not recorded.
    """
    kernels = eager.blocks[0].last - eager.blocks[0].first
    in_eager, in_graph = kernels - eager.mean("by_stream"), kernels - graph.mean("by_stream")
    saved = in_eager - in_graph
    return {
        "eager": round(in_eager, 3),
        "graph": round(in_graph, 3),
        "saved": round(saved, 3),
        "host_time_saved_us": None if launch_mean_us is None else round(saved * launch_mean_us, 3),
    }
