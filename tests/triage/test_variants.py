"""Each variant differs from the script in the one torch.compile call, and asks for the right step."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

sys.path.insert(0, str(ROOT / "graph-mode-diagnostics" / "scripts"))

from compile_triage import steps
from compile_triage.compile_calls import choose_call, find_calls, read_script
from compile_triage.variants import differs_only_in_call, make_variant

from npu_graph.cli import CommandError

# (name, script, the form that must be recognised, the backend that must be read from it)
FORMS = [
    ("plain", 'import torch\nf = torch.compile(g, backend="npugraph_ex")\n', "call", "npugraph_ex"),
    ("default backend", "import torch\nf = torch.compile(g)\n", "call", "inductor"),
    ("imported name", "from torch import compile as tc\nf = tc(g, backend='npugraphs')\n", "call", "npugraphs"),
    ("alias", "import torch as t\nc = t.compile\nf = c(g, backend='npugraph_ex')\n", "call", "npugraph_ex"),
    ("constant", "import torch\nB = 'npugraph_ex'\nf = torch.compile(g, backend=B)\n", "call", "npugraph_ex"),
    ("parameter", "import torch\nB = 'a'\ndef h(B):\n    return torch.compile(g, backend=B)\n", "call", ""),
    ("object", "import torch, torchair\nb = torchair.get_npu_backend()\nf = torch.compile(g, backend=b)\n", "call", ""),
    ("bare decorator", "import torch\n@torch.compile\ndef f(x):\n    return x\n", "bare decorator", "inductor"),
    ("decorator", "import torch\n@torch.compile(backend='npugraphs', fullgraph=True)\ndef f(x):\n    return x\n", "decorator", "npugraphs"),
    ("method decorator", "import torch\nclass A:\n    @torch.compile(dynamic=True)\n    def f(self, x):\n        return x\n", "decorator", "inductor"),
    ("partial", "import torch, functools\nc = functools.partial(torch.compile, backend='npugraph_ex')\nf = c(g)\n", "partial", "npugraph_ex"),
    ("partial as decorator", "import torch\nfrom functools import partial\n@partial(torch.compile, dynamic=False)\ndef f(x):\n    return x\n", "partial", "inductor"),
    ("in place", "import torch\nm = torch.nn.Linear(1, 1)\nm.compile(backend='npugraph_ex')\n", "module.compile", "npugraph_ex"),
    ("in place, no arguments", "import torch\nm = torch.nn.Linear(1, 1)\nm.compile()\n", "module.compile", "inductor"),
    ("spread constant", "import torch\nk = dict(backend='npugraphs', dynamic=True)\nf = torch.compile(g, **k)\n", "call", "npugraphs"),
    ("spread keywords", "import torch\nk = {}\nf = torch.compile(g, **k)\n", "call", ""),
    ("used at once", "import torch\ny = torch.compile(g, backend='npugraph_ex')(x)(z)\n", "call", "npugraph_ex"),
    (
        "many lines, comments, trailing comma",
        "import torch\nf = torch.compile(\n    g,  # the model (not this: ')')\n    backend='npugraph_ex',\n"
        "    options={\n        'a': 1,  # x\n        'b': 2,\n    },\n)  # end\ny = f(1)\n",
        "call",
        "npugraph_ex",
    ),
    ("brackets around the argument", "import torch\nf = torch.compile((g))\nz = 1\n", "call", "inductor"),
    ("other letters before it", "import torch\nn, f = '图模式 é', torch.compile(g, backend='npugraphs')\n", "call", "npugraphs"),
    ("form feed and separators", "import torch\n\x0cs = '\u2028 \x1c'\nf = torch.compile(g)\ny = 1\n", "call", "inductor"),
    ("line ends of Windows", "import torch\r\nf = torch.compile(\r\n    g,\r\n    options={\r\n    },\r\n)\r\ny = 1\r\n", "call", "inductor"),
]  # fmt: skip


def script_of(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "repro.py"
    file.write_bytes(text.encode("utf-8"))
    return read_script(file)


def arguments_of(text: str, number: int, tmp_path: Path) -> dict[str, str]:
    """Return the keyword arguments of call `number` in a variant, as text."""
    call = find_calls(script_of(tmp_path, text))[number - 1]
    assert isinstance(call.node, ast.Call)
    return {str(k.arg): " ".join((ast.get_source_segment(text, k.value) or "").split()) for k in call.node.keywords}


@pytest.mark.parametrize(("name", "text", "form", "backend"), FORMS, ids=[form[0] for form in FORMS])
class TestEveryFormOfTheCall:
    def test_it_is_found_with_its_backend(self, name: str, text: str, form: str, backend: str, tmp_path: Path) -> None:
        (call,) = find_calls(script_of(tmp_path, text))
        assert (call.form, call.backend) == (form, backend)

    def test_each_variant_differs_in_the_call_only_and_keeps_the_lines(
        self, name: str, text: str, form: str, backend: str, tmp_path: Path
    ) -> None:
        script = script_of(tmp_path, text)
        (call,) = find_calls(script)
        for step in (steps.EAGER, steps.DYNAMO, steps.AOT, steps.DECOMPOSED, steps.FORCE_EAGER):
            variant = make_variant(script, call, step)
            assert variant != text
            assert differs_only_in_call(script, variant, call)
            assert variant.count("\n") == text.count("\n"), (step, variant)
            changed = [n for n, (a, b) in enumerate(zip(text.split("\n"), variant.split("\n")), 1) if a != b]
            end = getattr(call.node, "end_lineno", call.line)
            assert all(call.line <= line <= end for line in changed), (step, changed)

    def test_the_original_is_the_script_itself(
        self, name: str, text: str, form: str, backend: str, tmp_path: Path
    ) -> None:
        script = script_of(tmp_path, text)
        assert make_variant(script, find_calls(script)[0], steps.ORIGINAL) == text


class TestArguments:
    SCRIPT = "import torch\nf = torch.compile(g, backend='npugraph_ex', fullgraph=True, dynamic=False, options={'clone_input': True})\n"

    @pytest.mark.parametrize(
        ("step", "backend", "options", "disable"),
        [
            (steps.EAGER, '"eager"', "None", "True"),
            (steps.DYNAMO, '"eager"', "None", None),
            (steps.AOT, '"aot_eager"', "None", None),
            (steps.FORCE_EAGER, "'npugraph_ex'", "{**({'clone_input': True} or {}), \"force_eager\": True}", None),
        ],
    )
    def test_each_step_asks_for_its_backend_and_inherits_the_rest(
        self, step: str, backend: str, options: str, disable: str | None, tmp_path: Path
    ) -> None:
        script = script_of(tmp_path, self.SCRIPT)
        given = arguments_of(make_variant(script, find_calls(script)[0], step), 1, tmp_path)
        assert given["backend"] == backend
        assert given["options"] == options
        assert given.get("disable") == disable
        assert (given["fullgraph"], given["dynamic"]) == ("True", "False")

    def test_mode_is_kept_for_the_generic_backends_and_gives_way_to_force_eager(self, tmp_path: Path) -> None:
        script = script_of(tmp_path, "import torch\nf = torch.compile(g, backend='npugraph_ex', mode='max-autotune')\n")
        call = find_calls(script)[0]
        assert arguments_of(make_variant(script, call, steps.AOT), 1, tmp_path)["mode"] == "'max-autotune'"
        assert arguments_of(make_variant(script, call, steps.FORCE_EAGER), 1, tmp_path)["mode"] == "None"

    @pytest.mark.parametrize(
        ("step", "expected"),
        [
            (steps.EAGER, {"backend": "eager", "disable": True, "fullgraph": True}),
            (steps.AOT, {"backend": "aot_eager", "fullgraph": True}),
            (
                steps.FORCE_EAGER,
                {"backend": "npugraph_ex", "fullgraph": True, "options": {"a": 1, "force_eager": True}},
            ),
        ],
    )
    def test_spread_keywords_are_merged_at_run_time(self, step: str, expected: dict, tmp_path: Path) -> None:
        text = (
            "import torch\nsettings = dict(backend='npugraph_ex', options={'a': 1}, fullgraph=True)\n"
            "seen = torch.compile(None, **settings)\n"
        )
        script = script_of(tmp_path, text)
        variant = make_variant(script, find_calls(script)[0], step)

        class Torch:
            @staticmethod
            def compile(model: object, **keywords: object) -> dict[str, object]:
                return keywords

        names: dict[str, Any] = {"torch": Torch}
        exec(variant.replace("import torch\n", "\n"), names)  # the test's own text, with a stand-in for torch
        assert {k: v for k, v in names["seen"].items() if v is not None} == expected


class TestSeveralCalls:
    TEXT = "import torch\na = torch.compile(g)\nb = torch.compile(h, backend='npugraphs')\nc = torch.compile(g)\n"

    def test_the_npu_call_is_taken_unless_a_number_is_given(self, tmp_path: Path) -> None:
        calls = find_calls(script_of(tmp_path, self.TEXT))
        assert choose_call(calls, 0).line == 3
        assert choose_call(calls, 3).line == 4

    def test_only_the_chosen_call_is_rewritten(self, tmp_path: Path) -> None:
        script = script_of(tmp_path, self.TEXT)
        variant = make_variant(script, find_calls(script)[2], steps.DYNAMO)
        assert variant.splitlines()[:3] == self.TEXT.splitlines()[:3]
        assert variant.splitlines()[3] == 'c = torch.compile(g, backend="eager")'

    def test_a_number_that_is_not_there_and_a_script_without_calls_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="3 torch.compile call"):
            choose_call(find_calls(script_of(tmp_path, self.TEXT)), 4)
        with pytest.raises(CommandError, match="--file"):
            choose_call(find_calls(script_of(tmp_path, "import re\nre.compile('x')\n")), 0)

    @pytest.mark.parametrize(
        "text",
        [
            "import re\np = re.compile('x')\n",
            "c = compile('1', 'f', 'eval')\n",
            "import torch\ns = torch.jit.compile(1)\n",
            "m.compile(optimizer='adam', loss='mse')\n",
            "import jinja2\nt = env.compile('x')\n",
            "import torch\ntorch.compiler.compile()\n",
        ],
    )
    def test_other_compilers_are_no_call(self, text: str, tmp_path: Path) -> None:
        assert find_calls(script_of(tmp_path, text)) == []


def test_a_change_outside_the_call_is_noticed(tmp_path: Path) -> None:
    script = script_of(tmp_path, "import torch\nf = torch.compile(g)(1)\ny = 1\n")
    (call,) = find_calls(script)
    for text in (
        "import torch\nf = torch.compile(g, backend='eager')(2)\ny = 1\n",
        "import torch\nf = torch.compile(g, backend='eager')(1)\ny = 2\n",
        "import torch\nf = torch.compile(g, backend='eager')(1)\n\ny = 1\n",
        "import torch\nf = g\ny = 1\n",
        "import torch\nf = torch.compile(g\ny = 1\n",
    ):
        assert not differs_only_in_call(script, text, call), text


def test_the_steps_of_each_backend() -> None:
    assert steps.steps_for("npugraph_ex") == ["eager", "backend_eager", "aot_eager", "force_eager", "original"]
    assert steps.steps_for("npugraphs") == ["eager", "backend_eager", "aot_eager", "original"]
    assert steps.steps_for("inductor")[3:] == ["aot_eager_decomp_partition", "original"]
    assert steps.steps_for("eager") == ["eager", "backend_eager"]
    assert steps.steps_for("") == ["eager", "backend_eager", "aot_eager", "original"]
