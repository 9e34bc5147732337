"""What the probe finds in a function, and on which line; reduced from public reports where one is named."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from support import ROOT, import_cpu_torch, run_script

torch = import_cpu_torch()
sys.path.insert(0, str(ROOT / "graph-mode-diagnostics" / "scripts"))

from capture_probe.record import probe_target

from npu_graph import cli
from npu_graph.capture_probe import probe
from npu_graph.cli import CommandError
from npu_graph.user_callables import Target

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]
SCRIPT = ROOT / "graph-mode-diagnostics" / "scripts" / "probe_capture.py"
weight = torch.ones(4, 4)


def inputs(seed: int) -> tuple[Any, ...]:
    return (torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)),)


def run(call: Callable[..., Any], make: Callable[..., Any] | None = inputs) -> dict[str, Any]:
    return probe_target(Target(call, make, call.__name__), "", [0, 1])


def findings(call: Callable[..., Any], make: Callable[..., Any] | None = inputs) -> list[tuple[str, str]]:
    """Return (rule, source line) of each finding after the warm-up."""
    record = run(call, make)
    return [(item["rule"], item["where"]["code"]) for item in record["findings"] if not item["warm_up_only"]]


# Each function holds one fault on the line marked with `# <- rule`.
def item(x):
    y = weight @ x
    return y if y.max().item() > -1e9 else -y  # <- sync


def branch_on_a_tensor(x):
    y = weight @ x
    if y.sum() > -1e9:  # <- sync
        y = y + 1
    return y


def to_list(x):
    return [v * 2 for v in x.tolist()] and x * 2  # <- sync


def to_numpy(x):
    y = (x * 2).numpy()  # <- device_to_host
    return x + float(y.size)


def to_cpu(x):
    y = x.cpu()  # <- device_to_host
    return y + 1


def to_literal_cpu(x):
    y = x.to("cpu")  # <- device_to_host
    return y + 1


def printed(x):
    print(x, file=io.StringIO())  # <- sync
    return x + 1


def formatted(x):
    text = f"{x.mean()}"  # <- sync
    return x + len(text)


def equal(x):
    return x + 1 if torch.equal(x, x) else x - 1  # <- sync


def mask_index(x):
    return x[x > -9e9].sum() + x  # <- data_dependent_shape


def mask_write(x):
    y = x.clone()
    y[y > -9e9] = torch.ones(16)  # <- data_dependent_shape
    return y


def nonzero(x):
    return torch.nonzero(x > -9e9).sum() + x  # <- data_dependent_shape


def where_with_one_argument(x):
    return torch.where(x > -9e9)[0].sum() + x  # <- data_dependent_shape


def unique(x):
    return torch.unique(x).sum() + x  # <- data_dependent_shape


def masked_select(x):
    return torch.masked_select(x, x > -9e9).sum() + x  # <- data_dependent_shape


lengths = torch.tensor([1, 1, 1, 1])


def repeat_without_size(x):
    return torch.repeat_interleave(x, lengths, dim=0) + x  # <- data_dependent_shape


def new_tensor(x):
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0])  # <- host_to_device
    return x * scale


def as_tensor(x):
    return x * torch.as_tensor([2.0])  # <- host_to_device


def dropout(x):
    return torch.nn.functional.dropout(x, 0.5)  # <- random


def seeded(x):
    torch.manual_seed(3)  # <- seed
    return x + 1


def waits(x):
    torch.cpu.synchronize()  # <- synchronize
    return x + 1


calls = {"n": 0}


def host_counter(x):
    calls["n"] += 1
    return x * calls["n"]  # <- baked_scalar


def loop_length(x):
    for _ in range(1 + calls["n"] % 2):
        x = x + 1  # <- branch
    calls["n"] += 1
    return torch.relu(x)


kept: list[Any] = []


def keeps_outputs(x):
    kept.append(x * 2)  # <- memory_growth
    return x + 1


FAULTY = [
    item, branch_on_a_tensor, to_list, to_numpy, to_cpu, to_literal_cpu, printed, formatted, equal, mask_index, mask_write,
    nonzero, where_with_one_argument, unique, masked_select, repeat_without_size, new_tensor, as_tensor, dropout, seeded,
    waits, host_counter, loop_length, keeps_outputs,
]  # fmt: skip


def marked(call: Callable[..., Any]) -> tuple[str, str]:
    for line in inspect.getsource(call).splitlines():
        if "# <- " in line:
            return line.rpartition("# <- ")[2], line.strip()
    raise AssertionError("no marked line")


@pytest.mark.parametrize("call", FAULTY, ids=lambda call: call.__name__)
def test_the_line_is_named_and_nothing_else(call: Callable[..., Any]) -> None:
    assert marked(call) in findings(call)
    assert {rule for rule, _ in findings(call)} <= {marked(call)[0]}


def two_streams_not_joined(x):
    side = torch.cpu.Stream()
    side.wait_stream(torch.cpu.current_stream())
    with torch.cpu.stream(side):
        x.mul(2)  # <- stream_not_joined
    return x + 1


def side_stream_not_forked(x):
    side = torch.cpu.Stream()
    with torch.cpu.stream(side):
        x.mul(2)  # <- stream_not_forked
    torch.cpu.current_stream().wait_stream(side)
    return x + 1


def joined_by_events(x):
    main, side = torch.cpu.current_stream(), torch.cpu.Stream()
    start, end = torch.cpu.Event(), torch.cpu.Event()
    start.record(main)
    start.wait(side)
    with torch.cpu.stream(side):
        y = x * 2
    end.record(side)
    end.wait(main)
    return x + y


def chained_streams(x):
    main, first, second = torch.cpu.current_stream(), torch.cpu.Stream(), torch.cpu.Stream()
    first.wait_stream(main)
    with torch.cpu.stream(first):
        y = x * 2
    second.wait_stream(first)
    with torch.cpu.stream(second):
        y = y * 3
    main.wait_stream(second)
    return x + y


@pytest.mark.parametrize("call", [two_streams_not_joined, side_stream_not_forked], ids=lambda call: call.__name__)
def test_streams_that_do_not_come_back(call: Callable[..., Any]) -> None:
    assert findings(call) == [marked(call)]


# Functions that captures accept, close to the faulty ones.
def fixed_choice(x):
    return torch.where(x > 0, x, -x)


def masked_fill_by_a_number(x):
    y = x.clone()
    y[y > 0] = 3.0
    return y


def integer_index(x):
    return x[lengths]


def repeat_with_size(x):
    return torch.repeat_interleave(x, lengths, dim=0, output_size=4)


def python_numbers(x):
    return torch.full((4, 4), 2.0) * x + torch.arange(4) * 1.5


buffer = torch.zeros(4, 4)


def state_in_place(x):
    buffer.copy_(x)
    buffer.add_(1)
    return buffer * 2


def same_device(x):
    return weight.to(x.device) + x


def shape_arithmetic(x):
    return x.reshape(-1, x.shape[0] // 2).sum(1) / x.numel()


CLEAN = [
    fixed_choice, masked_fill_by_a_number, integer_index, repeat_with_size, python_numbers, state_in_place, same_device,
    shape_arithmetic, joined_by_events, chained_streams,
]  # fmt: skip


@pytest.mark.parametrize("call", CLEAN, ids=lambda call: call.__name__)
def test_code_that_can_be_captured_is_clean(call: Callable[..., Any]) -> None:
    assert run(call)["findings"] == []


class TestPublicReports:
    """The handed capture and accuracy cases that can be written with torch calls alone."""

    def test_item_for_each_request(self) -> None:  # vllm-ascend 16736
        query_start = torch.tensor([0, 1, 2, 3])

        def conv_update(x):
            rows = []
            for i in range(3):
                begin = query_start[i].item()
                rows.append(x[begin : begin + 1])
            return torch.cat(rows)

        found = findings(conv_update)
        assert found == [("sync", "begin = query_start[i].item()")]
        assert run(conv_update)["findings"][0]["count"] == 3

    def test_mask_made_on_the_host(self) -> None:  # xLLM linear_state_validity_mask
        def forward(x):
            valid = torch.tensor([True, False, True, True])
            return x * valid

        assert findings(forward) == [("host_to_device", "valid = torch.tensor([True, False, True, True])")]

    def test_rope_cache_made_at_the_first_call(self) -> None:  # llama.cpp CANN backend
        cache: dict[str, Any] = {}

        def forward(x):
            if "cos" not in cache:
                cache["cos"] = torch.tensor([0.5, 0.5, 0.5, 0.5])
            return x * cache["cos"]

        record = run(forward)
        assert [(item["rule"], item["warm_up_only"]) for item in record["findings"]] == [("host_to_device", True)]
        assert record["verdict"] == "clean"  # captured after a warm-up it is

    def test_prefetch_stream_left_open(self) -> None:  # vllm-ascend, weight offload prefetcher: 107025
        copies = torch.cpu.Stream()

        def forward(x):
            copies.wait_stream(torch.cpu.current_stream())
            with torch.cpu.stream(copies):
                weight.clone()
            return x + 1

        assert findings(forward) == [("stream_not_joined", "weight.clone()")]

    def test_load_that_is_rebound(self) -> None:  # EPLB moe_load
        class Layer:
            moe_load = torch.zeros(4, 4)

            def forward(self, x):
                self.moe_load = self.moe_load + x
                return x * 2

        layer = Layer()

        def forward(x):
            return layer.forward(x)

        assert findings(forward) == [("moved_address", "self.moe_load = self.moe_load + x")]

    def test_block_table_rebound_to_new_metadata(self) -> None:  # sliding-window layers
        metadata = {"block_tables": torch.zeros(4, dtype=torch.long)}

        def step(x):
            metadata["block_tables"] = metadata["block_tables"].clone()
            return x[metadata["block_tables"]]

        assert ("moved_address", 'metadata["block_tables"] = metadata["block_tables"].clone()') in findings(step)

    def test_weights_at_a_new_address_after_reload(self) -> None:  # verl weight reload
        holder = {"w": torch.ones(4, 4)}
        old: list[Any] = []

        def make(seed: int) -> tuple[Any, ...]:
            old.append(holder["w"])
            holder["w"] = holder["w"].clone()
            return inputs(seed)

        def forward(x):
            return holder["w"] @ x

        assert findings(forward, make) == []  # all inputs were made before the first run
        assert findings(lambda x: (make(0), forward(x))[1])[0][0] in ("moved_address", "memory_growth")


def test_findings_come_in_the_order_in_which_they_ran() -> None:
    def both(x):
        first = x.sum().item()
        second = torch.tensor([1.0])
        return x * first * second

    assert [rule for rule, _ in findings(both)][0] == "sync"
    assert [item["index"] for item in run(both)["findings"]] == sorted(item["index"] for item in run(both)["findings"])


def test_shapes_that_differ_are_a_note() -> None:
    record = run(lambda x: x * 2, lambda seed: (torch.ones(2 + seed),))
    assert [item["rule"] for item in record["findings"]] == ["shape"]
    assert record["verdict"] == "check"


def test_the_two_lines_in_user_code() -> None:
    out = io.StringIO()
    with probe("decode", stream=out) as result:
        value = weight.sum().item()
    assert value == 16
    assert [item["rule"] for item in result.findings] == ["sync"]
    assert "value = weight.sum().item()" in out.getvalue()


def test_a_callable_without_operators_has_not_passed() -> None:
    with pytest.raises(CommandError, match="ran no torch operator"):
        run(lambda: 3, None)


def test_a_callable_that_fails_eagerly_says_where() -> None:
    def broken(x):
        return x @ torch.ones(3, 3)

    with pytest.raises(CommandError, match="fails in eager mode"):
        run(broken)


def test_modes_and_patches_are_gone_afterwards() -> None:
    before = (torch.manual_seed, torch.cpu.synchronize, torch.cpu.Stream.wait_stream)
    run(seeded)
    assert (torch.manual_seed, torch.cpu.synchronize, torch.cpu.Stream.wait_stream) == before


class TestCommand:
    def probe(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, timeout=200)

    def test_json_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "model.py"
        path.write_text(
            "import torch\ndef make_inputs(seed):\n    return torch.ones(3) + seed\ndef step(x):\n    print('hello')\n    return x * x.sum().item()\n"
        )
        result = self.probe(f"{path}:step", "--output", "json")
        record = json.loads(result.stdout)
        assert result.returncode == 1
        assert (record["schema"], record["verdict"]) == ("npu-graph/probe/1", "breaks")
        assert record["findings"][0]["where"] == {
            "file": str(path),
            "line": 6,
            "function": "step",
            "code": "return x * x.sum().item()",
        }


UNUSABLE = {
    "a syntax error": (b"def f(:\n", 3, "model.py:1 is not Python"),
    "nothing of that name": (b"x = 1\n", 2, "has no f"),
    "no callable": (b"f = 3\n", 2, "not a callable"),
    "an import that raises": (b"raise OSError('no')\n", 3, "OSError: no"),
    "an import that exits": (b"exit(0)\n", 3, "SystemExit"),
    "a NUL": (b"x = '\0'\n", 3, "is not Python"),
    "another encoding": ("text = '卡住'\n".encode("gb18030"), 3, "is not Python"),
    "data under a Python name": (b"x = 1\n" * 1_500_000, 3, "too much for Python code"),
    "a notebook": (b'{"cells": [{"source": ["%matplotlib inline\\n"]}]}', 3, "nbconvert"),
}


@pytest.mark.parametrize(("content", "code", "words"), UNUSABLE.values(), ids=list(UNUSABLE))
def test_what_cannot_be_loaded_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, content: bytes, code: int, words: str
) -> None:
    import probe_capture

    path = tmp_path / ("model.ipynb" if words == "nbconvert" else "model.py")
    path.write_bytes(content)
    with pytest.raises(SystemExit) as end:
        cli.run(probe_capture.main, [f"{path}:f"])
    message = capsys.readouterr().err
    assert (end.value.code, message.count("\n")) == (code, 1), message
    assert words in message


def test_without_torch_it_exits_4_with_the_install_line(tmp_path: Path) -> None:
    result = run_script(str(SCRIPT.relative_to(ROOT)), "x.py:f")
    assert result.returncode == 4
    assert b"pip install torch" in result.stderr


def test_the_report_in_chinese() -> None:
    from capture_probe.report import render
    from capture_probe.rules import RULES

    record = probe_target(Target(item, inputs, "item"), "", [0, 1], "zh")
    text = render(record)
    assert "捕获会失败" in text and "主机在等设备" in text
    assert all(rule.texts("zh") != rule.texts("en") for rule in RULES.values())
