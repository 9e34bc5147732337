# ruff: noqa: E501 (texts)
"""The rules of the probe: what each finds, why it matters to a capture, and what to write instead."""

from __future__ import annotations

from typing import NamedTuple

# breaks: capture_end or the call itself raises. spoils: the capture succeeds and replays wrongly. check: depends on
# the release or on what the caller does around the capture.
SEVERITIES = ("breaks", "spoils", "check")


class Rule(NamedTuple):
    """One rule. `pattern` is an id of known-patterns.md or ''; `chinese` is title, why and fix in Chinese."""

    id: str
    severity: str
    title: str
    why: str
    fix: str
    pattern: str
    chinese: tuple[str, str, str]

    def texts(self, language: str) -> tuple[str, str, str]:
        """Return (title, why, fix) in 'en' or 'zh'."""
        return self.chinese if language == "zh" else (self.title, self.why, self.fix)


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
            (
                "主机在等设备",
                "主机要读设备上的值，必须等流执行完；被捕获的流不能等（107027 或 107030）。",
                "让值留在设备上（torch.where、张量参数），或在被捕获的函数之外读。",
            ),
        ),
        Rule(
            "device_to_host",
            "breaks",
            "copy from the device to the host",
            "A blocking copy waits for the stream. Even a non-blocking one replays into the same host memory.",
            "Return the device tensor and copy it after replay.",
            "P-CAP-001",
            (
                "设备到主机的拷贝",
                "阻塞拷贝会等流；即使非阻塞，重放也总写同一块主机内存。",
                "返回设备张量，重放之后再拷贝。",
            ),
        ),
        Rule(
            "data_dependent_shape",
            "breaks",
            "output size depends on data",
            "The size is known only after the kernel ran, so the host must wait for it; a graph has fixed sizes.",
            "Use a form with fixed size: torch.where with three arguments, a mask multiplied in, topk, output_size=.",
            "P-CAP-001",
            (
                "输出大小取决于数据",
                "核函数跑完才知道大小，主机只能等；图的大小是固定的。",
                "改用固定大小的写法：三参数 torch.where、乘掩码、topk、output_size=。",
            ),
        ),
        Rule(
            "host_to_device",
            "breaks",
            "new copy from the host to the device",
            "A copy from pageable memory waits for the stream; one from pinned memory replays from the same host address, with what stands there then.",
            "Make the tensor once, outside, and refill it with copy_ before each replay.",
            "P-CAP-001",
            (
                "新的主机到设备拷贝",
                "从可换页内存拷贝会等流；从锁页内存拷贝则每次重放都读同一主机地址当时的内容。",
                "张量在外面只建一次，每次重放前用 copy_ 填。",
            ),
        ),
        Rule(
            "pinned_memory",
            "breaks",
            "pinned memory is allocated",
            "Allocating host memory is a call that the global capture mode refuses.",
            "Allocate pinned buffers before the capture.",
            "",
            (
                "分配锁页内存",
                "global 捕获模式拒绝分配主机内存的调用。",
                "捕获之前先分配好锁页缓冲区。",
            ),
        ),
        Rule(
            "host_compute",
            "spoils",
            "computed on the host",
            "An operator on host tensors is not part of the graph: its result is frozen at capture.",
            "Move it to the device, or do it before replay and copy the result in.",
            "",
            (
                "在主机上计算",
                "主机张量上的算子不在图里：结果冻结在捕获时。",
                "搬到设备上算，或在重放前算好再拷入。",
            ),
        ),
        Rule(
            "baked_scalar",
            "spoils",
            "a host number is baked into the graph",
            "The number differs between two calls, but a graph repeats the one of the capture.",
            "Pass it as a device tensor that is filled before replay; for attention lengths use the update interface.",
            "",
            (
                "主机数值被固化进图",
                "两次调用的数值不同，而图总用捕获时的那个。",
                "改为设备张量、重放前填入；注意力长度用 update 接口。",
            ),
        ),
        Rule(
            "branch",
            "spoils",
            "the operators differ between two inputs",
            "A Python branch or loop depends on the input; the graph repeats the path taken at capture.",
            "Make the choice on the device (torch.where, torch.cond) or capture one graph for each path.",
            "",
            (
                "两种输入走了不同算子",
                "Python 分支或循环取决于输入；图只重复捕获时走的那条。",
                "在设备上选择（torch.where、torch.cond），或每条路径各捕获一张图。",
            ),
        ),
        Rule(
            "shape",
            "check",
            "shapes differ between two inputs",
            "A graph fixes all sizes: another size needs another graph or padding.",
            "Pad to the captured sizes, or capture one graph for each size.",
            "",
            (
                "两种输入的形状不同",
                "图固定所有大小：换大小要另一张图或补齐。",
                "补齐到捕获档位，或每个大小各捕获一张图。",
            ),
        ),
        Rule(
            "moved_address",
            "spoils",
            "a tensor from outside is at another address in the next call",
            "The graph keeps the address of the capture, so it goes on reading the old tensor: state rebound with = instead of written in place.",
            "Write with copy_ or another in-place operation into one tensor.",
            "",
            (
                "外部张量下次调用换了地址",
                "图记住捕获时的地址，会一直读旧张量：状态用 = 重新绑定而不是原地写。",
                "用 copy_ 或其他原地操作写进同一个张量。",
            ),
        ),
        Rule(
            "random",
            "check",
            "random numbers",
            "Generators can be captured from torch_npu 7.2.0 on, and only registered ones; before it the call raises.",
            "Check the release; register other generators than the default one with the graph.",
            "",
            (
                "随机数",
                "torch_npu 7.2.0 起才能捕获生成器，且须已注册；之前会报错。",
                "核对版本；默认之外的生成器要注册到图。",
            ),
        ),
        Rule(
            "seed",
            "breaks",
            "the seed is set inside",
            "Setting or reading a generator's state is refused during capture unless the seed stays the same.",
            "Seed before the capture.",
            "",
            (
                "函数内设置种子",
                "捕获中不允许设置或读取生成器状态，除非种子不变。",
                "在捕获之前设种子。",
            ),
        ),
        Rule(
            "synchronize",
            "breaks",
            "explicit wait or query",
            "A captured stream or event may be neither waited for nor queried (107027).",
            "Take it out of the captured function.",
            "P-CAP-001",
            (
                "显式等待或查询",
                "被捕获的流或 event 既不能等也不能查（107027）。",
                "移出被捕获的函数。",
            ),
        ),
        Rule(
            "empty_cache",
            "breaks",
            "memory is given back to the driver",
            "Freeing device memory waits for the device.",
            "Call it before the capture.",
            "",
            (
                "把显存还给驱动",
                "释放设备内存会等设备。",
                "在捕获之前调用。",
            ),
        ),
        Rule(
            "stream_not_joined",
            "breaks",
            "a side stream is not joined",
            "Work forked to another stream must come back to the capturing stream before the capture ends.",
            "main.wait_stream(side) after the last operator on the side stream.",
            "P-CAP-004",
            (
                "侧流没有汇合",
                "分叉到别的流的任务必须在捕获结束前回到捕获流。",
                "在侧流最后一个算子之后 main.wait_stream(side)。",
            ),
        ),
        Rule(
            "stream_not_forked",
            "breaks",
            "a side stream is used without waiting for the capturing stream",
            "A stream that has not waited for the capturing one is not part of the capture: its work runs at once and is missing at replay.",
            "side.wait_stream(main) before the first operator on the side stream.",
            "P-CAP-004",
            (
                "侧流没有先等捕获流",
                "没有等过捕获流的流不属于捕获：任务当场执行，重放时没有它。",
                "在侧流第一个算子之前 side.wait_stream(main)。",
            ),
        ),
        Rule(
            "no_aclnn",
            "breaks",
            "operator without an aclnn path",
            "Only aclnn operators can be captured; this one runs through aclop ('Cannot run aclop operators during NPU graph capture').",
            "Use another operator, or set torch.npu.config.allow_internal_format = False where a private format is the reason.",
            "",
            (
                "算子没有 aclnn 实现",
                "只有 aclnn 算子可以捕获；它走的是 aclop（'Cannot run aclop operators during NPU graph capture'）。",
                "换算子；若因私有格式，设 torch.npu.config.allow_internal_format = False。",
            ),
        ),
        Rule(
            "capture_refused",
            "breaks",
            "a real capture was refused here",
            "The call was made inside a capture and raised; operators above it were captured.",
            "Run diagnose.py on the full error for cause and fix.",
            "",
            (
                "真实捕获在这里被拒绝",
                "在捕获中执行到这里时报错；之前的算子已被捕获。",
                "把完整报错交给 diagnose.py，得到原因和修改。",
            ),
        ),
        Rule(
            "memory_growth",
            "spoils",
            "memory grows with every call",
            "Tensors made in each call stay alive; in a graph's pool they would hold the capture's memory for ever.",
            "Drop what the call keeps, or write into preallocated tensors.",
            "",
            (
                "每次调用内存都增长",
                "每次产生的张量一直存活；在图的内存池里会永远占住捕获时的显存。",
                "不要保留，或写进预先分配的张量。",
            ),
        ),
    )
}
