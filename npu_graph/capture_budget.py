"""How many graphs and streams a capture needs, whether that fits, and which settings the sources reject."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npu_graph.capture_sizes import sample_uniformly

PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE, NONE = (
    "PIECEWISE",
    "FULL",
    "FULL_DECODE_ONLY",
    "FULL_AND_PIECEWISE",
    "NONE",
)
MODES = (PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE, NONE)
DEVICES = ("A2", "A3", "950", "310P")

FITS, DOES_NOT_FIT, REJECTED, DEPENDS, NO_PUBLIC_LIMIT = (
    "fits",
    "does_not_fit",
    "rejected",
    "depends_on_driver",
    "no_public_limit",
)

# vLLM-Ascend's empirical stream budget. It was removed in June 2026 (commit 5f2ef5a0b2, pull request 9962), because
# newer drivers capture many more graphs; on older ones it is still the only public formula.
_FORMULA = "vllm-project/vllm-ascend releases/v0.18.0 vllm_ascend/utils.py update_aclgraph_sizes"
_FORMULA_REMOVED = "vllm-project/vllm-ascend commit 5f2ef5a0b2 (#9962)"
_NOTES = "vllm-project/vllm-ascend main docs/source/user_guide/release_notes.md (FULL_AND_PIECEWISE Graph Mode)"
_FAQ = "vllm-project/vllm-ascend main docs/source/faqs.md 17"
_PLATFORM = "vllm-project/vllm-ascend main vllm_ascend/platform.py"
STREAMS = 2048
OLD_BUDGET = 1800
_PER_GROUP = 40  # streams set aside for each communication group (default expansion)
_PER_CONTEXT_PARALLEL = 100  # for each of prefill and decode context parallelism (default expansion)

# From these versions on the old budget does not hold.
NEW_HDK = (25, 5, 1)
NEW_CANN = (8, 5, 0)
# Graphs that the release notes give for the new stack; no public number for other devices.
NEW_GRAPHS = {"A3": 32_000, "950": 64_000}
# vLLM-Ascend from this version on no longer shrinks the list of sizes itself; a list too long fails at capture.
_NO_PRUNING_FROM = (0, 21, 0)
# On Ascend 950 vLLM-Ascend keeps four sizes in the modes with pieces (platform.py _prune_capture_sizes_for_950).
_SIZES_FOR_950 = 4

# What single services printed after capture ("Graph capturing finished in N secs, took X GiB"). No public source gives
# a formula, and these do not make one.
MEMORY_SEEN = (
    ("vllm-project/vllm-ascend issue 4807", "PIECEWISE, 11 sizes", 0.26),
    ("vllm-project/vllm-ascend issue 2125", "Qwen3-MoE, 48 layers, 39 sizes", 0.45),
)

# What the formula does not know, with the case that shows it.
CAVEATS = (
    "the formula is empirical: a start with one capture size and several communication groups has failed all the same "
    "(vllm-project/vllm-ascend issue 3869)",
    "a soft-partitioned NPU gives a container a part of the 2048 streams (vllm-project/vllm-ascend issue 8585)",
)


@dataclass
class Setup:
    """What a service is started with. `layers` counts the hidden layers of the whole model, `draft_layers`
    those of a draft.

    `hdk` (driver package), `cann` and `vllm_ascend` are version texts or empty when unknown. `xlite` is `full`,
    `decode` or empty: vLLM-Ascend's xlite_graph_config.
    """

    layers: int
    mode: str
    sizes: list[int]
    tp: int = 1
    dp: int = 1
    pp: int = 1
    pcp: int = 1
    dcp: int = 1
    expert_parallel: bool = False
    moe: bool = False
    draft_layers: int = 0
    speculative_tokens: int = 0
    max_num_seqs: int = 0
    aiv: bool = False
    shared_expert_stream: bool = False
    hdk: str = ""
    cann: str = ""
    vllm_ascend: str = ""
    device: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    enforce_eager: bool = False
    encoder_decoder: bool = False
    compilation_mode: str = ""
    tp_aligned: bool = False
    max_capture_size: int = 0
    xlite: str = ""


class Check(NamedTuple):
    """One finding about the settings: `rejected`, `changed` or `note`, with its source."""

    level: str
    text: str
    source: str


class Budget(NamedTuple):
    """The old formula applied: streams needed and available, and how many sizes fit."""

    graphs_per_size: int
    streams_per_graph: int
    available: int
    needed: int
    max_sizes: int


def read_version(text: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version text (`8.5.0.beta1` is (8, 5, 0)); () when there are none."""
    found = re.match(r"[vV]?(\d{1,6}(?:\.\d{1,6}){0,3})", text.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def has_new_stack(setup: Setup) -> bool | None:
    """Say whether driver and CANN are beyond the old stream budget; None when either version is unknown."""
    hdk, cann = read_version(setup.hdk), read_version(setup.cann)
    if (hdk and hdk < NEW_HDK) or (cann and cann < NEW_CANN):
        return False
    return True if hdk and cann else None


def count_graphs(setup: Setup, mode: str, sizes: list[int]) -> int:
    """Return how many graphs a capture makes.

    PIECEWISE cuts the model at each attention: one piece more than layers, each captured per size. FULL captures one
    per size. A draft model is captured beside the main one.
    """
    pieces = setup.layers + 1 + (setup.draft_layers + 1 if setup.draft_layers else 0)
    whole = 1 + bool(setup.draft_layers)
    if mode == PIECEWISE:
        return len(sizes) * pieces
    if mode in (FULL, FULL_DECODE_ONLY):
        return len(sizes) * whole
    if mode == FULL_AND_PIECEWISE:
        return len(sizes) * pieces + len(decode_sizes(setup, sizes)) * whole
    return 0


def decode_sizes(setup: Setup, sizes: list[int]) -> list[int]:
    """Return the sizes that a decode batch can reach (all of them when max_num_seqs is unknown)."""
    if not setup.max_num_seqs:
        return list(sizes)
    largest = setup.max_num_seqs * (1 + setup.speculative_tokens)
    reachable = [size for size in sizes if size <= largest]
    above = [size for size in sizes if size > largest]
    return reachable + above[:1] if not reachable or reachable[-1] < largest else reachable


def old_budget(setup: Setup, graphs_per_size: int) -> Budget:
    """Apply the formula of update_aclgraph_sizes (releases/v0.13.0 to v0.20.2) to a number of graphs per size."""
    groups = (setup.dp > 1) + (setup.tp > 1)
    if setup.aiv:
        factor = 1 + groups + setup.expert_parallel + setup.shared_expert_stream
        available = OLD_BUDGET
        if setup.moe:
            factor += setup.dp > 1
        else:
            available -= factor * graphs_per_size
    else:
        factor = 1 + 2 * groups
        available = OLD_BUDGET - _PER_GROUP * groups
        available -= _PER_CONTEXT_PARALLEL * ((setup.pcp > 1) + (setup.dcp > 1))
    fitting = max(0, int(available // (graphs_per_size * factor))) if graphs_per_size else 0
    return Budget(graphs_per_size, factor, available, len(setup.sizes) * graphs_per_size * factor, fitting)


def check_settings(setup: Setup) -> tuple[str, list[int], list[Check]]:
    """Return the mode and sizes that the framework will really use, and what it rejects or changes on the way."""
    checks: list[Check] = []
    mode, sizes = setup.mode, sorted(set(setup.sizes))
    if setup.enforce_eager and mode != NONE:
        checks.append(
            Check("changed", "--enforce-eager switches graph mode off", f"{_PLATFORM} _update_compilation_modes")
        )
        mode = NONE
    elif setup.xlite and mode != NONE:
        becomes = NONE if setup.xlite == "full" and not setup.speculative_tokens else FULL_DECODE_ONLY
        if becomes != mode:
            text = f"xlite_graph_config turns {mode} into {becomes}"
            checks.append(Check("changed", text, f"{_PLATFORM} _update_compilation_modes"))
        mode = becomes
    if mode == FULL_AND_PIECEWISE and _prunes_itself(setup):
        checks.append(
            Check(
                "changed",
                "this vLLM-Ascend turns FULL_AND_PIECEWISE into PIECEWISE",
                "vllm-project/vllm-ascend releases/v0.18.0 vllm_ascend/platform.py check_and_update_config",
            )
        )
        mode = PIECEWISE
    if setup.encoder_decoder and mode not in (NONE, PIECEWISE):
        checks.append(
            Check(
                "changed",
                f"encoder-decoder models turn {mode} into PIECEWISE",
                f"{_PLATFORM} _update_compilation_modes",
            )
        )
        mode = PIECEWISE
    if mode == NONE:
        return mode, [], checks
    checks += _rejections(setup, mode, sizes)
    if setup.tp_aligned and setup.tp > 1:
        aligned = [size for size in sizes if size % setup.tp == 0]
        if not aligned:
            text = f"no capture size is a multiple of tensor_parallel_size {setup.tp}"
            checks.append(Check("rejected", text, f"{_PLATFORM} _setup_compile_backend"))
        elif len(aligned) < len(sizes):
            text = f"sizes that are no multiple of {setup.tp} are dropped: {len(sizes)} -> {len(aligned)}"
            checks.append(Check("changed", text, f"{_PLATFORM} _setup_compile_backend"))
        sizes = aligned
    if setup.device == "950" and mode in (PIECEWISE, FULL_AND_PIECEWISE) and len(sizes) > _SIZES_FOR_950:
        kept = sample_uniformly(sizes, _SIZES_FOR_950)
        text = f"on Ascend 950 only {_SIZES_FOR_950} sizes are kept: {kept}"
        checks.append(Check("changed", text, f"{_PLATFORM} _prune_capture_sizes_for_950"))
        sizes = kept
    checks += _notes(setup, mode, sizes)
    return mode, sizes, checks


def _prunes_itself(setup: Setup) -> bool:
    version = read_version(setup.vllm_ascend)
    return bool(version) and version < _NO_PRUNING_FROM


def _rejections(setup: Setup, mode: str, sizes: list[int]) -> list[Check]:
    checks = []
    backend = f"{_PLATFORM} _setup_compile_backend"
    if setup.variables.get("ASCEND_LAUNCH_BLOCKING") == "1":
        text = "ASCEND_LAUNCH_BLOCKING=1 is refused together with graph mode; unset it"
        checks.append(Check("rejected", text, backend))
    if setup.variables.get("TASK_QUEUE_ENABLE") == "2":
        text = "TASK_QUEUE_ENABLE=2 makes capture_begin fail (ERR00007); use 1"
        checks.append(
            Check("rejected", text, "Ascend/pytorch v2.12.0 torch_npu/csrc/core/npu/NPUGraph.cpp capture_begin")
        )
    pieces = mode in (PIECEWISE, FULL_AND_PIECEWISE)
    if pieces and setup.compilation_mode and setup.compilation_mode.upper() not in ("3", "VLLM_COMPILE"):
        text = f"{mode} needs compilation mode VLLM_COMPILE (3), not {setup.compilation_mode}"
        checks.append(Check("rejected", text, backend))
    if setup.max_capture_size and sizes and setup.max_capture_size != sizes[-1]:
        text = f"max_cudagraph_capture_size {setup.max_capture_size} must equal the largest capture size {sizes[-1]}"
        checks.append(
            Check("rejected", text, "vllm-project/vllm-ascend main vllm_ascend/utils.py update_cudagraph_capture_sizes")
        )
    if setup.pcp > 1 and not _prunes_itself(setup) and setup.variables.get("VLLM_USE_V2_MODEL_RUNNER") != "1":
        text = "prefill context parallelism is refused by current vLLM-Ascend; set --prefill-context-parallel-size 1"
        checks.append(Check("rejected", text, f"{_PLATFORM} _validate_parallel_config"))
    return checks


def _notes(setup: Setup, mode: str, sizes: list[int]) -> list[Check]:
    checks = []
    guide = "vllm-project/vllm-ascend main docs/source/user_guide/feature_guide/graph_mode.md"
    if mode == FULL and (setup.pcp > 1 or setup.dcp > 1):
        checks.append(Check("note", "FULL is not sufficiently supported with context parallelism", guide))
    if mode == FULL_AND_PIECEWISE and has_new_stack(setup) is False:
        checks.append(Check("note", "FULL_AND_PIECEWISE asks for HDK 25.5.1+ and CANN 8.5.0+", _NOTES))
    query = 1 + setup.speculative_tokens
    if mode in (FULL, FULL_DECODE_ONLY):
        text = "the framework applied its formula to PIECEWISE only; no public number for the streams of one FULL graph"
        checks.append(Check("note", text, _FORMULA))
    if mode == FULL_DECODE_ONLY and setup.max_num_seqs and sizes and sizes[-1] > setup.max_num_seqs * query:
        text = f"sizes above {setup.max_num_seqs * query} (max_num_seqs x {query} tokens) are never reached in decode"
        checks.append(Check("note", text, "arithmetic on the settings"))
    if setup.speculative_tokens and any(size % query for size in sizes):
        text = f"a decode request takes {query} tokens; sizes that are no multiple of {query} are never filled"
        checks.append(Check("note", text, "arithmetic on the settings"))
    if setup.pp > 1:
        text = "the formula counts all layers although a pipeline stage holds a part: an upper bound"
        checks.append(Check("note", text, f"{_FORMULA} (pp_size is an open TODO there)"))
    if setup.device == "310P":
        text = "Atlas 300I DUO has fewer hardware streams; no public number, its guides capture 2 to 5 sizes"
        checks.append(
            Check("note", text, "vllm-project/vllm-ascend main docs/source/tutorials/models/Qwen3-30B-A3B.md")
        )
    if mode in (PIECEWISE, FULL_AND_PIECEWISE) and not setup.aiv and (setup.tp > 1 or setup.dp > 1):
        text = "HCCL_OP_EXPANSION_MODE=AIV needs fewer streams per communication group"
        checks.append(Check("note", text, _FORMULA))
    return checks


def plan(setup: Setup) -> dict[str, Any]:
    """Return the budget record (schema npu-graph/capture-budget/1) without padding."""
    mode, sizes, checks = check_settings(setup)
    graphs = count_graphs(setup, mode, sizes)
    per_size = -(-graphs // len(sizes)) if sizes else 0
    budget = old_budget(Setup(**{**vars(setup), "sizes": sizes}), per_size)
    verdict, reason, limit = _judge(setup, mode, graphs, budget, len(sizes), checks)
    pruned = None
    if mode == PIECEWISE and _prunes_itself(setup) and budget.max_sizes < len(sizes):
        pruned = sample_uniformly(sizes, budget.max_sizes)
    return {
        "schema": "npu-graph/capture-budget/1",
        "verdict": verdict,
        "reason": reason,
        "mode": mode,
        "sizes": sizes,
        "graphs": {"total": graphs, "per_size": per_size, "public_limit": limit},
        "old_stream_budget": {
            "needed": budget.needed,
            "available": budget.available,
            "streams_per_graph": budget.streams_per_graph,
            "device_streams": STREAMS,
            "max_sizes": budget.max_sizes,
            "applies": {True: "no", False: "yes", None: "unknown: give --hdk and --cann"}[has_new_stack(setup)],
            "formula": _formula_text(setup),
            "source": _FORMULA,
            "removed_by": _FORMULA_REMOVED,
        },
        "sizes_kept_by_framework": pruned,
        "checks": [check._asdict() for check in checks],
        "memory": {
            "known": "no public formula; the service log says it: 'Graph capturing finished in N secs, took X GiB'",
            "seen": [{"source": source, "setup": text, "gib": gib} for source, text, gib in MEMORY_SEEN],
            "from_log": None,
        },
        "if_it_fails": {
            "codes": ["207005", "207008", "207010", "EL0009"],
            "do": _advice(setup, mode, budget),
            "source": _FAQ,
        },
        "caveats": list(CAVEATS),
        "padding": None,
    }


def _judge(
    setup: Setup, mode: str, graphs: int, budget: Budget, sizes: int, checks: list[Check]
) -> tuple[str, str, int | None]:
    if any(check.level == "rejected" for check in checks):
        return REJECTED, "the framework refuses these settings", None
    if mode == NONE:
        return FITS, "nothing is captured", None
    within_old = sizes <= budget.max_sizes
    new = has_new_stack(setup)
    limit = NEW_GRAPHS.get(setup.device) if new else None
    if new:
        if limit and graphs > limit:
            return DOES_NOT_FIT, f"{graphs} graphs are more than the about {limit} of the release notes", limit
        if within_old:
            return FITS, "fits even the old, smaller stream budget", limit
        if limit:
            return FITS, f"{graphs} graphs of about {limit} that the release notes give for this device", limit
        return (
            NO_PUBLIC_LIMIT,
            "beyond the old budget, which does not bind here; no public number for this device",
            None,
        )
    if within_old:
        return FITS, f"{sizes} sizes; {budget.max_sizes} fit the old stream budget", None
    if new is False:
        return DOES_NOT_FIT, f"{sizes} sizes, but {budget.max_sizes} fit the stream budget of this stack", None
    return DEPENDS, f"{sizes} sizes; {budget.max_sizes} fit before HDK 25.5.1 / CANN 8.5.0, more after", None


def _formula_text(setup: Setup) -> str:
    if setup.aiv:
        moe = " + (DP>1)" if setup.moe else ""
        taken = "" if setup.moe else " - factor * graphs_per_size"
        return (
            f"floor((1800{taken}) / graphs_per_size / factor), factor = 1 + (DP>1) + (TP>1) + EP + shared_stream{moe}"
        )
    return "floor((1800 - 40 * groups - 100 * (PCP>1) - 100 * (DCP>1)) / graphs_per_size / (1 + 2 * groups))"


def _advice(setup: Setup, mode: str, budget: Budget) -> list[str]:
    advice = ["upgrade to HDK 25.5.1+ and CANN 8.5.0+"]
    if mode in (PIECEWISE, FULL_AND_PIECEWISE):
        if budget.max_sizes:
            advice.append(f"keep at most {budget.max_sizes} capture sizes on the old stack")
        advice.append(
            "use FULL_DECODE_ONLY when the load is mostly decode: one graph per size instead of one per layer"
        )
        if not setup.aiv:
            advice.append("set HCCL_OP_EXPANSION_MODE=AIV")
    else:
        advice.append("fewer capture sizes, or a smaller max_cudagraph_capture_size")
    return advice
