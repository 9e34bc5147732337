# ruff: noqa: E501 (texts)
"""The rules of the probe: what each finds, why it matters to a capture, and what to write instead."""

from __future__ import annotations

from typing import NamedTuple

# breaks: capture_end or the call itself raises. spoils: the capture succeeds and replays wrongly. check: depends on
# the release or on what the caller does around the capture.
SEVERITIES = ("breaks", "spoils", "check")


class Rule(NamedTuple):
    """One rule. `pattern` is an id of known-patterns.md or ''."""

    id: str
    severity: str
    title: str
    why: str
    fix: str
    pattern: str


RULES = {
    rule.id: rule
    for rule in (
        Rule(
            "sync",
            "breaks",
            "host waits for the device",
            "The host reads a device value, so it must wait for the stream; a captured stream cannot be waited for (107027 or 107030).",
            "Keep the value on the device (torch.where, tensor arguments), or read it outside the captured function.",
            "P-CAP-001",
        ),
        Rule(
            "device_to_host",
            "breaks",
            "copy from the device to the host",
            "A blocking copy waits for the stream. Even a non-blocking one replays into the same host memory.",
            "Return the device tensor and copy it after replay.",
            "P-CAP-001",
        ),
        Rule(
            "data_dependent_shape",
            "breaks",
            "output size depends on data",
            "The size is known only after the kernel ran, so the host must wait for it; a graph has fixed sizes.",
            "Use a form with fixed size: torch.where with three arguments, a mask multiplied in, topk, output_size=.",
            "P-CAP-001",
        ),
        Rule(
            "host_to_device",
            "breaks",
            "new copy from the host to the device",
            "A copy from pageable memory waits for the stream; one from pinned memory replays from the same host address, with what stands there then.",
            "Make the tensor once, outside, and refill it with copy_ before each replay.",
            "P-CAP-001",
        ),
        Rule(
            "pinned_memory",
            "breaks",
            "pinned memory is allocated",
            "Allocating host memory is a call that the global capture mode refuses.",
            "Allocate pinned buffers before the capture.",
            "",
        ),
        Rule(
            "host_compute",
            "spoils",
            "computed on the host",
            "An operator on host tensors is not part of the graph: its result is frozen at capture.",
            "Move it to the device, or do it before replay and copy the result in.",
            "",
        ),
        Rule(
            "baked_scalar",
            "spoils",
            "a host number is baked into the graph",
            "The number differs between two calls, but a graph repeats the one of the capture.",
            "Pass it as a device tensor that is filled before replay; for attention lengths use the update interface.",
            "",
        ),
        Rule(
            "branch",
            "spoils",
            "the operators differ between two inputs",
            "A Python branch or loop depends on the input; the graph repeats the path taken at capture.",
            "Make the choice on the device (torch.where, torch.cond) or capture one graph for each path.",
            "",
        ),
        Rule(
            "shape",
            "check",
            "shapes differ between two inputs",
            "A graph fixes all sizes: another size needs another graph or padding.",
            "Pad to the captured sizes, or capture one graph for each size.",
            "",
        ),
        Rule(
            "moved_address",
            "spoils",
            "a tensor from outside is at another address in the next call",
            "The graph keeps the address of the capture, so it goes on reading the old tensor: state rebound with = instead of written in place.",
            "Write with copy_ or another in-place operation into one tensor.",
            "",
        ),
        Rule(
            "random",
            "check",
            "random numbers",
            "Generators can be captured from torch_npu 7.2.0 on, and only registered ones; before it the call raises.",
            "Check the release; register other generators than the default one with the graph.",
            "",
        ),
        Rule(
            "seed",
            "breaks",
            "the seed is set inside",
            "Setting or reading a generator's state is refused during capture unless the seed stays the same.",
            "Seed before the capture.",
            "",
        ),
        Rule(
            "synchronize",
            "breaks",
            "explicit wait or query",
            "A captured stream or event may be neither waited for nor queried (107027).",
            "Take it out of the captured function.",
            "P-CAP-001",
        ),
        Rule(
            "empty_cache",
            "breaks",
            "memory is given back to the driver",
            "Freeing device memory waits for the device.",
            "Call it before the capture.",
            "",
        ),
        Rule(
            "stream_not_joined",
            "breaks",
            "a side stream is not joined",
            "Work forked to another stream must come back to the capturing stream before the capture ends.",
            "main.wait_stream(side) after the last operator on the side stream.",
            "P-CAP-004",
        ),
        Rule(
            "stream_not_forked",
            "breaks",
            "a side stream is used without waiting for the capturing stream",
            "A stream that has not waited for the capturing one is not part of the capture: its work runs at once and is missing at replay.",
            "side.wait_stream(main) before the first operator on the side stream.",
            "P-CAP-004",
        ),
        Rule(
            "no_aclnn",
            "breaks",
            "operator without an aclnn path",
            "Only aclnn operators can be captured; this one runs through aclop ('Cannot run aclop operators during NPU graph capture').",
            "Use another operator, or set torch.npu.config.allow_internal_format = False where a private format is the reason.",
            "",
        ),
        Rule(
            "memory_growth",
            "spoils",
            "memory grows with every call",
            "Tensors made in each call stay alive; in a graph's pool they would hold the capture's memory for ever.",
            "Drop what the call keeps, or write into preallocated tensors.",
            "",
        ),
    )
}
