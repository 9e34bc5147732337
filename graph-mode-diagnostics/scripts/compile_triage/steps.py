"""The steps of the triage, in order, and what it means when one is the first to fail."""

from __future__ import annotations

from typing import NamedTuple

EAGER, DYNAMO, AOT, DECOMPOSED, FORCE_EAGER, ORIGINAL = (
    "eager",
    "backend_eager",
    "aot_eager",
    "aot_eager_decomp_partition",
    "force_eager",
    "original",
)
# The last step before the original depends on the backend: what that backend does before its last part is switched off.
BEFORE_ORIGINAL = {"npugraph_ex": FORCE_EAGER, "inductor": DECOMPOSED}
_GENERIC = {DYNAMO: "eager", AOT: "aot_eager"}


class Step(NamedTuple):
    """One step: which part of the stack it adds to the one before."""

    name: str
    adds: str
    passed: str


class Part(NamedTuple):
    """The part of the stack that fails, when the step that adds it is the first to fail."""

    name: str
    title: str
    layer: str
    owner: str
    stage: str
    next: tuple[str, ...]


STEPS = {
    EAGER: Step(EAGER, "the script without compilation", "the model and the script themselves"),
    DYNAMO: Step(
        DYNAMO, 'backend="eager": Dynamo traces, nothing is compiled', "Dynamo (tracing, guards, graph breaks)"
    ),
    AOT: Step(
        AOT,
        'backend="aot_eager": AOTAutograd, fake tensors, functionalisation',
        "AOTAutograd, fake (meta) implementations, functionalisation",
    ),
    DECOMPOSED: Step(
        DECOMPOSED,
        'backend="aot_eager_decomp_partition": inductor\'s decompositions and the min-cut partitioner',
        "inductor's decompositions and the partitioner",
    ),
    FORCE_EAGER: Step(
        FORCE_EAGER,
        "npugraph_ex with force_eager=True: its passes, no capture",
        "npugraph_ex's compilation (FX passes, in-place and fusion passes)",
    ),
    ORIGINAL: Step(ORIGINAL, "the script as it is", ""),
}

_LINT = "python3 graph-mode-diagnostics/scripts/lint_capture.py {file}: lines that cannot be captured"
MODEL = Part(
    "model",
    "the script fails without compilation: torch.compile plays no part",
    "L0",
    "user_code",
    "not_graph",
    ("mend the eager failure first; then run the triage again",),
)
OTHER_CALL = Part(
    "another_call",
    "another torch.compile call than the one examined fails",
    "L1",
    "torch_compile",
    "compile",
    ("run again with --call N for the other call (the list is under calls)",),
)
# Dynamo runs every operator on fake tensors while it traces, so a missing fake implementation may stop either step.
FAKE = Part(
    "fake_implementation",
    "an operator has no fake (meta) implementation, so it cannot be traced",
    "L1",
    "user_code",
    "compile",
    (
        "register one: torch.library.register_fake (torch.library.impl(..., 'Meta') for an operator defined by schema)",
        "check it with torch.library.opcheck on the inputs of the failing run",
    ),
)
PARTS = {
    DYNAMO: Part(
        "dynamo",
        "Dynamo cannot trace the function, or what it traced does not run",
        "L1",
        "torch_compile",
        "compile",
        (
            'TORCH_LOGS="+dynamo,graph_breaks" with the backend_eager variant names the construct',
            "take that construct out of the compiled function (torch.compiler.disable, or rewrite it)",
        ),
    ),
    AOT: Part(
        "aot_autograd",
        "AOTAutograd fails: functionalisation, the backward graph, or an operator's fake implementation",
        "L1",
        "torch_compile",
        "compile",
        (
            "for a custom operator: torch.library.opcheck tells whether its schema, aliases and fake are right",
            'TORCH_LOGS="aot_graphs" with the aot_eager variant shows the graph it failed on',
        ),
    ),
    DECOMPOSED: Part(
        "aot_decompositions",
        "a decomposition of inductor or the partitioner fails",
        "L1",
        "torch_compile",
        "compile",
        ('TORCH_LOGS="aot_graphs" with the aot_eager_decomp_partition variant shows the operator',),
    ),
    FORCE_EAGER: Part(
        "npugraph_ex_compile",
        "npugraph_ex fails before any capture: one of its passes, or the options",
        "L1",
        "npugraph_ex",
        "compile",
        (
            "switch its passes off one by one in options: pattern_fusion_pass, inplace_pass, input_inplace_pass, "
            "remove_noop_ops, remove_cat_ops (each to False)",
            "the compile_debug folder of this step holds the graph before and after each pass",
        ),
    ),
}
# What is left when only the original fails, by backend.
LAST_PARTS = {
    "npugraph_ex": Part(
        "npugraph_ex_capture",
        "the capture or the replay of the graph fails; tracing and npugraph_ex's passes work",
        "L4",
        "user_code",
        "capture",
        (
            _LINT,
            "run once with TASK_QUEUE_ENABLE=0, so that the Python stack ends in the operator that broke the capture",
        ),
    ),
    "npugraphs": Part(
        "npugraphs_capture",
        "the capture or the replay by the npugraphs backend fails; Dynamo and AOTAutograd work",
        "L4",
        "user_code",
        "capture",
        (
            _LINT,
            "run once with TASK_QUEUE_ENABLE=0, so that the Python stack ends in the operator that broke the capture",
        ),
    ),
    "inductor": Part(
        "inductor",
        "inductor fails: lowering, scheduling, code generation or its kernel compiler",
        "L1",
        "torch_compile",
        "compile",
        ('TORCH_LOGS="output_code" with the original; the compile_debug folder holds the generated code',),
    ),
}
# The script does not say which backend it uses, but what failed is a capture.
CAPTURE = Part(
    "capture",
    "the capture or the replay of a graph fails; Dynamo and AOTAutograd work",
    "L4",
    "user_code",
    "capture",
    (_LINT, "run again with --backend npugraph_ex (or npugraphs), so that its own step is made too"),
)
OTHER_BACKEND = Part(
    "backend",
    "the backend itself fails; Dynamo and AOTAutograd work",
    "L1",
    "torch_compile",
    "compile",
    ("run the backend's own debug mode; for torchair set config.debug.run_eagerly = True to leave its graph out",),
)


def steps_for(backend: str) -> list[str]:
    """Return the names of the steps for a backend ('' where it cannot be told)."""
    whole = [EAGER, DYNAMO, AOT]
    for step in whole[1:]:
        if _GENERIC[step] == backend:  # the original is this very step
            return whole[: whole.index(step) + 1]
    middle = [BEFORE_ORIGINAL[backend]] if backend in BEFORE_ORIGINAL else []
    return [*whole, *middle, ORIGINAL]


def part_for(step: str, backend: str) -> Part:
    """Return the part that fails when `step` is the first to fail."""
    if step == EAGER:
        return MODEL
    if step == ORIGINAL:
        return LAST_PARTS.get(backend, OTHER_BACKEND)
    return PARTS[step]
