"""What compare_modes.py says of graphs that hold one fault each, replayed without a device."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, import_cpu_torch, run_script

torch = import_cpu_torch()
sys.path.insert(0, str(ROOT / "graph-mode-diagnostics" / "scripts"))

import compared_model
import replay_standin
from mode_compare.record import Options, compare_callable, compare_dumps
from mode_compare.running import Plan
from mode_compare.tensors import compare

from npu_graph.cli import CommandError
from npu_graph.user_callables import Target, make

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]
SCRIPT = ROOT / "graph-mode-diagnostics" / "scripts" / "compare_modes.py"


@pytest.fixture(autouse=True)
def fresh_model() -> None:
    importlib.reload(compared_model)


def run(call: str, factory: str, steps: int = 5, rows: int = 0, **names: Any) -> dict[str, Any]:
    m = compared_model
    target = Target(getattr(m, call), getattr(m, names.get("inputs", "make_inputs")), call)
    reload = getattr(m, names["reload"]) if "reload" in names else None
    plan = Plan(
        target,
        [make(target, step) for step in range(steps)],
        m.reset if names.get("reset", True) else None,
        reload,
        3 if reload else 0,
        m.state if names.get("watch") else None,
        getattr(m, names["module"]) if "module" in names else None,
    )
    return compare_callable(plan, getattr(replay_standin, factory), Options(None, None, rows, 3))


CASES = {
    "a graph without a fault": ("forward", "correct", {}, None),
    "state in place": ("accumulate_in_place", "correct", {"watch": True}, None),
    "reload in place": ("forward", "correct", {"reload": "reload_in_place"}, None),
    "input not copied": ("forward", "input_not_copied", {}, "stale"),
    "one input rebound": ("scaled", "second_input_rebound", {"inputs": "two_inputs"}, "stale"),
    "padded rows": ("forward", "padded_rows_hold_garbage", {"rows": 3}, "padding"),
    "reload at a new address": ("forward", "correct", {"reload": "reload_at_a_new_address"}, "address"),
    "copy and replay race": ("forward", "no_event_between_streams", {}, "order"),
    "another kernel": ("forward", "other_kernel", {}, "kernel"),
    "NaN from the first step": ("forward", "nan_from_padding", {}, "kernel"),
    "random numbers": ("random_numbers", "correct", {"reset": False}, "unstable"),
}


@pytest.mark.parametrize(("call", "factory", "options", "expected"), CASES.values(), ids=list(CASES))
def test_the_class_of_each_fault(call: str, factory: str, options: dict[str, Any], expected: str | None) -> None:
    record = run(call, factory, **options)
    assert record["verdict"] == ("equal" if expected is None else "different")
    assert (record["class"] or {}).get("value") == expected, record["class"]


def test_state_rebound_is_stale_and_the_state_is_named() -> None:
    record = run("accumulate_by_rebinding", "correct", watch=True)
    assert record["class"]["value"] in ("stale", "kernel")
    assert record["first"]["output"] == "state"


def test_the_first_step_and_output_are_named() -> None:
    first = run("forward", "input_not_copied")["first"]
    assert (first["step"], first["output"]) == ("2", "output")
    assert first["mismatched"] == first["total"] == 40


def test_a_frozen_output_is_evidence_for_stale() -> None:
    record = run("forward", "input_not_copied")
    assert record["class"]["confidence"] == 0.95
    assert any("never changes" in text for text in record["class"]["evidence"])


def test_the_first_module_that_differs_is_named() -> None:
    record = run("forward", "correct", reload="reload_at_a_new_address", module="model")
    assert record["first_module"]["module"] in ("up", "act")
    assert record["first_module"]["step"] == 3


@pytest.mark.parametrize(
    ("call", "module", "expected"), [("gated_forward", "gated", "1"), ("looped_forward", "looped", "1")]
)
def test_a_module_that_works_in_place_is_not_taken_for_the_one_before(call: str, module: str, expected: str) -> None:
    record = run(call, "correct", inputs="two_inputs", module=module)
    assert (record["class"]["value"], record["first_module"]["module"]) == ("stale", expected)
    assert (record["first_module"]["step"], record["first_module_missing"]) == (2, None)


NOT_NAMED = {
    "no module": (("forward", "input_not_copied", {}), "--module NAME"),
    "eager varies": (("random_numbers", "correct", {"reset": False, "module": "model"}), "eager itself varies"),
    "another module": (("forward", "input_not_copied", {"module": "gated"}), "no submodule ran in both modes"),
    "outside the modules": (("scaled", "second_input_rebound", {"inputs": "two_inputs", "module": "model"}), "agrees"),
    "the watched run fails": (("fails_under_hooks", "other_kernel", {"module": "model"}), "no more hooks"),
}


@pytest.mark.parametrize(("arguments", "reason"), NOT_NAMED.values(), ids=list(NOT_NAMED))
def test_why_no_module_is_named(arguments: tuple[str, str, dict[str, Any]], reason: str) -> None:
    call, factory, names = arguments
    record = run(call, factory, **names)
    assert record["verdict"] == "different" and record["first_module"] is None
    assert reason in record["first_module_missing"]


def test_a_compiled_graph_without_the_saving_operator_says_what_to_do_instead() -> None:
    from mode_compare.graphs import Compiled
    from mode_compare.modules import can_save_in_graph

    assert not can_save_in_graph()  # CPU torch alone
    m = compared_model
    target = Target(m.drifts_when_compiled, m.make_inputs, "drifts")
    plan = Plan(target, [make(target, step) for step in range(2)], None, None, 0, None, m.model)
    record = compare_callable(plan, Compiled("eager"), Options(None, None, 0, 1))
    assert record["class"]["value"] == "kernel"
    assert "--graph npugraph" in record["first_module_missing"]


def test_rows_that_are_not_padding_are_not_called_padding() -> None:
    assert run("forward", "padded_rows_hold_garbage", rows=4)["class"]["value"] == "kernel"


def test_new_nan_is_said() -> None:
    assert run("forward", "nan_from_padding")["first"]["reason"] == "1 new NaN"


def test_a_step_that_fails_is_named() -> None:
    with pytest.raises(CommandError, match="fails in eager mode, step 3"):
        run("fails_at_step_three", "correct")


NAN, INF = float("nan"), float("inf")
PAIRS = [
    ("equal", [1.0, 2.0], [1.0, 2.0], "float32", ""),
    ("within float32", [1.0, 2.0], [1.0, 2.000001], "float32", ""),
    ("beyond float32", [1.0, 2.0], [1.0, 2.0001], "float32", "values"),
    ("within float16", [1.0, 2.0], [1.0, 2.002], "float16", ""),
    ("beyond float16", [1.0, 2.0], [1.0, 2.01], "float16", "values"),
    ("within bfloat16", [1.0, 2.0], [1.0, 2.03], "bfloat16", ""),
    ("beyond bfloat16", [1.0, 2.0], [1.0, 2.1], "bfloat16", "values"),
    ("float64 is stricter", [1.0, 2.0], [1.0, 2.000001], "float64", "values"),
    ("integers are exact", [1, 2], [1, 3], "int64", "values"),
    ("large integers", [2**62, 1], [2**62 + 1, 1], "int64", "values"),
    ("booleans", [True, False], [True, True], "bool", "values"),
    ("NaN on both sides", [NAN, 1.0], [NAN, 1.0], "float32", ""),
    ("NaN on one side", [1.0, 1.0], [NAN, 1.0], "float32", "1 new NaN"),
    ("NaN that went", [NAN, 1.0], [1.0, 1.0], "float32", "values"),
    ("Inf on both sides", [INF, 1.0], [INF, 1.0], "float32", ""),
    ("Inf of the other sign", [INF, 1.0], [-INF, 1.0], "float32", "values"),
    ("new Inf", [1.0, 1.0], [INF, 1.0], "float16", "1 new Inf"),
    ("complex", [1 + 1j, 2.0], [1 + 1j, 2.1], "complex64", "values"),
    ("empty", [], [], "float32", ""),
]


@pytest.mark.parametrize(
    ("left", "right", "dtype", "reason"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS]
)
def test_two_tensors(left: list[Any], right: list[Any], dtype: str, reason: str) -> None:
    kind = getattr(torch, dtype)
    found = compare(torch.tensor(left, dtype=kind), torch.tensor(right, dtype=kind))
    assert found.reason == reason


def test_agrees_with_torch_testing_on_random_pairs() -> None:
    generator = torch.Generator().manual_seed(1)
    outcomes = set()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for exponent in range(-9, 0):
            left = torch.randn(64, generator=generator).to(dtype)
            right = (left.double() * (1 + 10.0**exponent)).to(dtype)
            try:
                torch.testing.assert_close(right, left)
                expected = False
            except AssertionError:
                expected = True
            outcomes.add(expected)
            assert compare(left, right).differs == expected, (dtype, exponent)
    assert outcomes == {True, False}


def test_shape_and_dtype_are_differences() -> None:
    assert "shape" in compare(torch.ones(2), torch.ones(3)).reason
    assert "dtype" in compare(torch.ones(2), torch.ones(2).half()).reason


class TestDumps:
    def folders(self, tmp_path: Path, change: Any) -> tuple[str, str]:
        for mode in ("eager", "graph"):
            for step in (1, 2, 3):
                for name in ("layer.0", "layer.1"):
                    value = torch.arange(8.0).reshape(4, 2) + step
                    if mode == "graph":
                        value = change(value, step, name)
                    path = tmp_path / mode / f"step_{step}" / f"{name}.pt"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    torch.save(value, path)
        return str(tmp_path / "eager"), str(tmp_path / "graph")

    def compare(self, folders: tuple[str, str], rows: int = 0) -> dict[str, Any]:
        return compare_dumps(*folders, Options(None, None, rows, 1))

    def test_equal_folders(self, tmp_path: Path) -> None:
        record = self.compare(self.folders(tmp_path, lambda value, step, name: value))
        assert (record["verdict"], record["compared"], record["bitwise_equal"]) == ("equal", 6, True)

    def test_the_step_and_file_are_named(self, tmp_path: Path) -> None:
        folders = self.folders(tmp_path, lambda value, step, name: value - (step - 1) if name == "layer.1" else value)
        record = self.compare(folders)
        assert (record["first"]["step"], record["first"]["output"], record["class"]["value"]) == (
            "2",
            "layer.1",
            "stale",
        )
        assert record["class"]["confidence"] == 0.95  # what is saved at step 2 is that of step 1

    def test_padding_in_dumps(self, tmp_path: Path) -> None:
        def change(value: Any, step: int, name: str) -> Any:
            value[3:] = 9.0
            return value

        assert self.compare(self.folders(tmp_path, change), rows=3)["class"]["value"] == "padding"

    def test_names_of_the_in_graph_save_are_paired_by_their_counter(self, tmp_path: Path) -> None:
        for mode in ("eager", "graph"):
            (tmp_path / mode).mkdir()
            for call in (0, 1):
                torch.save(
                    torch.ones(2) * (call + (mode == "graph" and call)), tmp_path / mode / f"attn_device_0_{call}.pt"
                )
        record = self.compare((str(tmp_path / "eager"), str(tmp_path / "graph")))
        assert [step["step"] for step in record["steps"]] == ["0", "1"]
        assert record["first"]["output"] == "attn_device_0"

    def test_one_side_only_is_listed(self, tmp_path: Path) -> None:
        folders = self.folders(tmp_path, lambda value, step, name: value)
        (tmp_path / "graph" / "step_3" / "layer.1.pt").unlink()
        assert self.compare(folders)["one_side_only"] == ["layer.1 of step 3: eager only"]

    def test_a_file_that_would_run_code_is_refused(self, tmp_path: Path) -> None:
        folders = self.folders(tmp_path, lambda value, step, name: value)
        torch.save(Evil(), tmp_path / "graph" / "step_1" / "layer.0.pt")
        with pytest.raises(CommandError, match="cannot be loaded as plain tensors"):
            self.compare(folders)

    def test_a_small_file_that_unfolds_to_gigabytes_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import mode_compare.dumps
        import numpy

        folders = self.folders(tmp_path, lambda value, step, name: value)
        monkeypatch.setattr(mode_compare.dumps, "MAX_BYTES", 100_000)
        for mode in ("eager", "graph"):
            numpy.savez_compressed(tmp_path / mode / "step_1" / "layer.2.npz", x=numpy.zeros(1_000_000))
            assert (tmp_path / mode / "step_1" / "layer.2.npz").stat().st_size < 100_000
        with pytest.raises(CommandError, match="larger than 100000 bytes"):
            self.compare(folders)

    @pytest.mark.parametrize("kind", ["absent", "empty", "foreign"])
    def test_nothing_to_compare_is_no_pass(self, tmp_path: Path, kind: str) -> None:
        eager, _ = self.folders(tmp_path, lambda value, step, name: value)
        other = tmp_path / "other"
        if kind != "absent":
            other.mkdir()
        if kind == "foreign":
            torch.save(torch.ones(1), other / "x.pt")
        with pytest.raises(CommandError) as error:
            self.compare((eager, str(other)))
        assert error.value.exit_code == 3


class Evil:
    def __reduce__(self) -> Any:
        return print, ("ran",)


class TestCommand:
    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        return subprocess.run(
            [sys.executable, str(SCRIPT), *arguments], capture_output=True, timeout=250, env=environment
        )

    def test_a_factory_of_the_user(self) -> None:
        folder = Path(__file__).resolve().parent
        result = self.run(
            f"{folder / 'compared_model.py'}:forward", "--graph", "replay_standin:input_not_copied", "--path", str(folder),
            "--reset", "reset", "--module", "model", "--output", "json",
        )  # fmt: skip
        assert result.returncode == 1, result.stderr
        record = json.loads(result.stdout)
        assert (record["schema"], record["class"]["value"]) == ("npu-graph/compare/1", "stale")

    def test_without_an_npu_the_built_in_graph_exits_4(self) -> None:
        folder = Path(__file__).resolve().parent
        result = self.run(f"{folder / 'compared_model.py'}:forward")
        assert result.returncode == 4 and b"--graph MODULE:FACTORY" in result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("a:b", "--dumps", "x", "y"), ("a:b", "--steps", "1"), ("a:b", "--rtol", "-1")]
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...]) -> None:
    assert run_script(str(SCRIPT.relative_to(ROOT)), *arguments).returncode == 2


def test_without_torch_it_exits_4_with_the_install_line() -> None:
    result = run_script(str(SCRIPT.relative_to(ROOT)), "x.py:f")
    assert result.returncode == 4
    assert b"pip install torch" in result.stderr


def test_the_report_in_chinese() -> None:
    from mode_compare.classify import CLASSES, SENTENCES
    from mode_compare.report import render

    folder = compared_model
    target = Target(folder.forward, folder.make_inputs, "forward")
    plan = Plan(target, [make(target, step) for step in range(3)], None, None, 0, None, None)
    record = compare_callable(plan, replay_standin.input_not_copied, Options(None, None, 0, 1, "zh"))
    text = render(record)
    assert "输入陈旧" in text and "从不变化" in text
    assert all(about.in_language("zh") != about.in_language("en") for about in CLASSES.values())
    assert all(english != chinese for english, chinese in SENTENCES.values())
