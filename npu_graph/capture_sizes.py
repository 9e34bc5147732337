"""Capture sizes against batch sizes: what padding costs, which sizes to keep, which ones a framework chooses itself."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

# Distinct batch sizes in a choice; the work grows with their square.
MAX_DISTINCT = 512


class Padding(NamedTuple):
    """What a set of capture sizes does to a distribution of batch sizes.

    padded_share: share of the rows computed by replays that no request filled.
    eager_share: share of steps larger than every capture size, which run without a graph.
    """

    padded_share: float
    eager_share: float


def default_sizes(largest: int) -> list[int]:
    """Return vLLM's own list up to `largest`: 1, 2, 4, multiples of 8 below 256, then multiples of 16.

    Source: vllm-project/vllm-ascend main docs/source/developer_guide/Design_Documents/ACL_Graph.md,
    "Capture Sizes and Bucketing".
    """
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)]
    return [size for size in sizes if size <= largest]


def default_largest(max_num_seqs: int, speculative_tokens: int) -> int:
    """Return the largest size that vLLM-Ascend captures when none is configured.

    Source: vllm-project/vllm-ascend main vllm_ascend/platform.py: min(max_num_seqs * decode_query_len, 512), where
    decode_query_len is 1 plus the speculative tokens.
    """
    return min(max_num_seqs * (1 + speculative_tokens), 512)


def padding_cost(sizes: Sequence[int], batches: Mapping[int, int]) -> Padding:
    """Return the cost of running `batches` (size -> number of steps) with these capture sizes.

    Raises:
        ValueError: no batches.
    """
    if not batches or sum(batches.values()) <= 0:
        raise ValueError("a padding cost needs a distribution of batch sizes")
    ordered = sorted(set(sizes))
    computed = filled = eager = 0
    for batch, count in batches.items():
        captured = next((size for size in ordered if size >= batch), None)
        if captured is None:
            eager += count
        else:
            computed += captured * count
            filled += batch * count
    return Padding(1 - filled / computed if computed else 0.0, eager / sum(batches.values()))


def choose_sizes(batches: Mapping[int, int], count: int, multiple_of: int = 1) -> list[int]:
    """Return at most `count` sizes that compute the fewest padded rows for a distribution, covering its largest.

    Exact (dynamic programming over the distinct batch sizes). With `multiple_of` (TP-aligned or 1 + speculative tokens)
    sizes are rounded up first.

    Raises:
        ValueError: no batches, or a count below 1.
    """
    if not batches or count < 1:
        raise ValueError("a choice of sizes needs batches and a count of at least 1")
    weights: dict[int, int] = {}
    for batch, steps in batches.items():
        rounded = -(-batch // multiple_of) * multiple_of
        weights[rounded] = weights.get(rounded, 0) + steps
    candidates = _thin(sorted(weights), MAX_DISTINCT)
    steps_at = _gather(weights, candidates)
    cumulated = [0]
    for size in candidates:
        cumulated.append(cumulated[-1] + steps_at[size])
    # best[j]: rows computed when candidates[:j] are covered and candidates[j - 1] is a capture size.
    total = len(candidates)
    best: list[float] = [0.0] + [float("inf")] * total
    chosen: list[list[int]] = []
    for _ in range(min(count, total)):
        following: list[float] = [0.0] + [float("inf")] * total
        cut = [0] * (total + 1)
        for j in range(1, total + 1):
            for i in range(j):
                rows = best[i] + candidates[j - 1] * (cumulated[j] - cumulated[i])
                if rows < following[j]:
                    following[j], cut[j] = rows, i
        best = following
        chosen.append(cut)
    sizes, place = [], total
    for cut in reversed(chosen):
        if place == 0:
            break
        sizes.append(candidates[place - 1])
        place = cut[place]
    return sorted(sizes)


def sample_uniformly(sizes: Sequence[int], count: int) -> list[int]:
    """Return the sizes that older vLLM-Ascend keeps when it shrinks a list: evenly by rank, first and last included.

    Source: vllm-project/vllm-ascend releases/v0.18.0 vllm_ascend/utils.py update_aclgraph_sizes.
    """
    if count >= len(sizes):
        return list(sizes)
    if count < 2:
        return list(sizes[-1:])
    step = (len(sizes) - 1) / (count - 1)
    places = [round(number * step) for number in range(count)]
    places[0], places[-1] = 0, len(sizes) - 1
    return [sizes[place] for place in places]


def _thin(sizes: list[int], limit: int) -> list[int]:
    if len(sizes) <= limit:
        return sizes
    step = len(sizes) / limit
    return sorted({sizes[int(number * step)] for number in range(limit)} | {sizes[-1]})


def _gather(weights: Mapping[int, int], candidates: Sequence[int]) -> dict[int, int]:
    """Give the steps of sizes that were thinned out to the next candidate above."""
    gathered = dict.fromkeys(candidates, 0)
    ordered = sorted(candidates)
    place = 0
    for size in sorted(weights):
        while ordered[place] < size:
            place += 1
        gathered[ordered[place]] += weights[size]
    return gathered
