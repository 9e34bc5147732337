"""The capture budget against numbers that services printed, the settings that sources reject, and padding."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cost import cpu_seconds
from hypothesis import given
from hypothesis import strategies as st

from npu_graph import bundle, cli
from npu_graph.batch_log import read_batch_log
from npu_graph.capture_budget import Setup, decode_sizes, old_budget, plan, read_version
from npu_graph.capture_sizes import choose_sizes, default_sizes, padding_cost, sample_uniformly
from npu_graph.serve_command import read_command

SCRIPT = bundle.ROOT / "graph-perf" / "scripts" / "capture_budget.py"
OLD = {"hdk": "25.2.3", "cann": "8.3.RC1"}
NEW = {"hdk": "25.5.1", "cann": "8.5.0"}


def setup(**more: Any) -> Setup:
    return Setup(**{"layers": 48, "mode": "PIECEWISE", "sizes": [1, 2, 4, 8], **more})


def test_the_formula_gives_what_a_service_printed() -> None:
    """vllm-ascend issue 4807: 48 layers, TP 2: "Calculated maximum supported batch sizes for ACL graph: 11"."""
    assert old_budget(setup(tp=2), 49).max_sizes == 11


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # The worked cases in the comments of update_aclgraph_sizes, with its 1800 in place of their 1920.
        ({"tp": 4}, (1800 - 40) // 49 // 3),
        ({"tp": 4, "aiv": True, "moe": True}, 1800 // 49 // 2),
        ({"tp": 4, "aiv": True}, (1800 - 2 * 49) // 49 // 2),
        ({"tp": 4, "dp": 2}, (1800 - 80) // 49 // 5),
        ({"tp": 4, "dp": 2, "aiv": True, "moe": True, "expert_parallel": True}, 1800 // 49 // 5),
        ({"tp": 4, "pcp": 2, "dcp": 2}, (1800 - 40 - 200) // 49 // 3),
        ({}, 1800 // 49),
    ],
)
def test_the_formula_of_the_sources(more: dict, expected: int) -> None:
    assert old_budget(setup(**more), 49).max_sizes == expected


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({**OLD, "tp": 2}, "fits"),
        ({**OLD, "tp": 2, "sizes": list(range(1, 30))}, "does_not_fit"),
        ({"tp": 2, "sizes": list(range(1, 30))}, "depends_on_driver"),
        ({**NEW, "device": "A3", "tp": 2, "sizes": list(range(1, 30))}, "fits"),
        ({**NEW, "device": "A3", "tp": 2, "sizes": list(range(1, 800))}, "does_not_fit"),
        ({**NEW, "device": "A2", "tp": 2, "sizes": list(range(1, 30))}, "no_public_limit"),
        ({**OLD, "mode": "FULL_DECODE_ONLY", "sizes": list(range(1, 30))}, "fits"),
        ({"mode": "NONE"}, "fits"),
    ],
)
def test_verdicts(more: dict, verdict: str) -> None:
    assert plan(setup(**more))["verdict"] == verdict


def test_graphs_per_mode() -> None:
    count = {
        mode: plan(setup(mode=mode, **NEW))["graphs"]["total"] for mode in ("PIECEWISE", "FULL", "FULL_AND_PIECEWISE")
    }
    assert count == {"PIECEWISE": 4 * 49, "FULL": 4, "FULL_AND_PIECEWISE": 4 * 49 + 4}
    with_draft = plan(setup(draft_layers=1, **NEW))["graphs"]["total"]
    assert with_draft == 4 * (49 + 2)


def test_decode_never_needs_more_than_the_first_size_above_its_batch() -> None:
    assert decode_sizes(setup(max_num_seqs=5), [1, 2, 4, 8, 16]) == [1, 2, 4, 8]
    assert decode_sizes(setup(max_num_seqs=8), [1, 2, 4, 8, 16]) == [1, 2, 4, 8]


def texts(record: dict, level: str) -> str:
    return " | ".join(check["text"] for check in record["checks"] if check["level"] == level)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"variables": {"ASCEND_LAUNCH_BLOCKING": "1"}}, "ASCEND_LAUNCH_BLOCKING=1"),
        ({"variables": {"TASK_QUEUE_ENABLE": "2"}}, "ERR00007"),
        ({"compilation_mode": "0"}, "VLLM_COMPILE"),
        ({"max_capture_size": 16}, "must equal the largest capture size 8"),
        ({"pcp": 2}, "prefill context parallelism"),
        ({"tp": 3, "tp_aligned": True, "sizes": [1, 2, 4]}, "no capture size is a multiple"),
    ],
)
def test_settings_that_the_sources_reject(more: dict, words: str) -> None:
    record = plan(setup(**more))
    assert record["verdict"] == "rejected"
    assert words in texts(record, "rejected")


@pytest.mark.parametrize(
    ("more", "mode", "sizes"),
    [
        ({"enforce_eager": True}, "NONE", []),
        ({"mode": "FULL_AND_PIECEWISE", "vllm_ascend": "0.18.0"}, "PIECEWISE", [1, 2, 4, 8]),
        ({"mode": "FULL", "encoder_decoder": True}, "PIECEWISE", [1, 2, 4, 8]),
        ({"mode": "PIECEWISE", "xlite": "decode"}, "FULL_DECODE_ONLY", [1, 2, 4, 8]),
        ({"mode": "PIECEWISE", "xlite": "full"}, "NONE", []),
        ({"mode": "PIECEWISE", "xlite": "full", "speculative_tokens": 1}, "FULL_DECODE_ONLY", [1, 2, 4, 8]),
        ({"device": "950", "sizes": list(range(1, 12))}, "PIECEWISE", [1, 4, 8, 11]),
        ({"tp": 4, "tp_aligned": True}, "PIECEWISE", [4, 8]),
    ],
)
def test_settings_that_the_framework_changes(more: dict, mode: str, sizes: list) -> None:
    record = plan(setup(**more))
    assert (record["mode"], record["sizes"]) == (mode, sizes)
    assert texts(record, "changed")


def test_old_frameworks_shrink_the_list_themselves() -> None:
    record = plan(setup(tp=2, sizes=list(range(1, 30)), vllm_ascend="v0.18.0", **OLD))
    assert len(record["sizes_kept_by_framework"]) == 11
    assert record["sizes_kept_by_framework"][0] == 1
    assert record["sizes_kept_by_framework"][-1] == 29
    assert plan(setup(tp=2, sizes=list(range(1, 30)), vllm_ascend="0.23.0"))["sizes_kept_by_framework"] is None


def test_every_claim_has_a_source_and_unknown_memory_is_said() -> None:
    record = plan(setup(tp=2))
    assert record["old_stream_budget"]["source"].startswith("vllm-project/vllm-ascend")
    assert all(check["source"] for check in record["checks"])
    assert "no public formula" in record["memory"]["known"]
    assert len(record["caveats"]) == 2


@pytest.mark.parametrize(
    ("text", "version"),
    [("8.3.RC1", (8, 3)), ("25.5.1", (25, 5, 1)), ("v0.18.0rc1", (0, 18, 0)), ("", ()), ("unknown", ())],
)
def test_versions(text: str, version: tuple) -> None:
    assert read_version(text) == version


def test_the_default_list_is_the_documented_one() -> None:
    assert default_sizes(32) == [1, 2, 4, 8, 16, 24, 32]
    assert default_sizes(512)[-3:] == [480, 496, 512]
    assert 264 not in default_sizes(512)


def test_uniform_sampling_keeps_first_and_last() -> None:
    assert sample_uniformly(list(range(1, 101)), 3)[::2] == [1, 100]
    assert sample_uniformly([1, 2], 5) == [1, 2]
    assert sample_uniformly([1, 2, 3], 1) == [3]


def test_padding_and_steps_without_a_graph() -> None:
    cost = padding_cost([8, 16], {5: 3, 8: 1, 16: 1, 40: 5})
    assert cost.padded_share == pytest.approx(1 - (15 + 8 + 16) / (4 * 8 + 16))
    assert cost.eager_share == 0.5
    with pytest.raises(ValueError, match="distribution"):
        padding_cost([8], {})


@given(
    st.dictionaries(st.integers(1, 40), st.integers(1, 50), min_size=1, max_size=7),
    st.integers(1, 4),
)
def test_the_chosen_sizes_are_the_best_ones(batches: dict, count: int) -> None:
    chosen = choose_sizes(batches, count)
    assert max(batches) in chosen
    assert len(chosen) <= count
    best = min(
        padding_cost([*others, max(batches)], batches).padded_share
        for number in range(count)
        for others in itertools.combinations(sorted(batches), number)
    )
    assert padding_cost(chosen, batches).padded_share == pytest.approx(best)


def test_chosen_sizes_keep_a_multiple() -> None:
    assert choose_sizes({1: 5, 4: 9, 7: 1}, 2, multiple_of=3) == [6, 9]


def test_many_distinct_batches_stay_affordable_and_covered() -> None:
    source = random.Random(7)
    batches = {source.randrange(1, 5000): source.randrange(1, 9) for _ in range(900)}
    chosen = choose_sizes(batches, 8)
    assert chosen[-1] == max(batches)
    assert padding_cost(chosen, batches).eager_share == 0


COMMAND = """export ASCEND_RT_VISIBLE_DEVICES=0,1
export HCCL_OP_EXPANSION_MODE="AIV"
HCCL_BUFFSIZE=200 vllm serve %s \\
  -tp 4 --data-parallel-size=2 --enable-expert-parallel \\
  --max-num-seqs 16 --speculative-config '{"num_speculative_tokens": 2, "method": "deepseek_mtp"}' \\
  --compilation-config '{"cudagraph_mode":"FULL_DECODE_ONLY", "cudagraph_capture_sizes":[3, 6, 9, 12]}' \\
  --additional-config '{"multistream_overlap_shared_expert": true}' --port 8000
"""


def test_a_command_line_gives_its_settings(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 61, "n_routed_experts": 256, "num_nextn_predict_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    settings = read_command(COMMAND % tmp_path)
    assert settings.pop("variables")["HCCL_BUFFSIZE"] == "200"
    assert settings == {
        "aiv": True,
        "tp": 4,
        "dp": 2,
        "expert_parallel": True,
        "max_num_seqs": 16,
        "mode": "FULL_DECODE_ONLY",
        "sizes": [3, 6, 9, 12],
        "speculative_tokens": 2,
        "shared_expert_stream": True,
        "layers": 61,
        "moe": True,
        "encoder_decoder": False,
        "draft_layers": 1,
    }


def test_xlite_is_read_from_the_command_and_the_second_runner_allows_prefill_parallelism() -> None:
    text = """vllm serve m --additional-config '{"xlite_graph_config": {"enabled": true, "full_mode": true}}'"""
    assert read_command(text)["xlite"] == "full"
    assert plan(setup(pcp=2, vllm_ascend="0.23.0"))["verdict"] == "rejected"
    assert plan(setup(pcp=2, variables={"VLLM_USE_V2_MODEL_RUNNER": "1"}))["verdict"] != "rejected"


@pytest.mark.parametrize("text", ["-O {", "-O {" * 20_000, "'" * 20_001, '"\\' * 20_000, "{" + "[" * 100_000])
def test_hostile_commands_end_quickly(text: str) -> None:
    def read() -> None:
        with contextlib.suppress(cli.CommandError):
            read_command(text)

    assert cpu_seconds(read, 5) < 5


@pytest.mark.parametrize("version", ["abc", "latest", "!!"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    done = run("--layers", "4", "--sizes", "1,2", "--cann", version)
    assert done.returncode == 2
    assert "is no version" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--compilation-config.cudagraph_mode PIECEWISE", {"mode": "PIECEWISE"}),
        ("--compilation-config.cudagraph_mode=full", {"mode": "FULL"}),
        ("-O.cudagraph_capture_sizes=[1,2]", {"sizes": [1, 2]}),
        ("--cudagraph-capture-sizes 1 2 4 --port 8000", {"sizes": [1, 2, 4]}),
        ("-O3", {}),
        ("-O 3", {}),
        ("--enforce-eager", {"enforce_eager": True}),
        ("""-O '{"mode": 3, "pass_config": {"enable_sp": true}}'""", {"compilation_mode": "3", "tp_aligned": True}),
        # A command in the single quotes of a shell has lost its own.
        (
            """-O {"mode": 3, "pass_config": {"enable_sp": true}} -tp 2""",
            {"compilation_mode": "3", "tp_aligned": True, "tp": 2},
        ),
        ("""--compilation-config={"cudagraph_capture_sizes": [1, 2]}""", {"sizes": [1, 2]}),
        (r"""-O "{\"cudagraph_capture_sizes\": [4]}" --served-model-name "a {b" """, {"sizes": [4]}),
    ],
)
def test_spellings_of_options(words: str, expected: dict) -> None:
    settings = read_command(f"vllm serve model {words}")
    settings.pop("variables")
    assert settings == expected


@pytest.mark.parametrize(
    "text",
    ["vllm serve m -tp four", 'vllm serve m --compilation-config \'{"a": 1', "vllm serve m -O [1]", "v" * 300_000],
)
def test_a_broken_command_is_one_clear_error(text: str) -> None:
    with pytest.raises(cli.CommandError):
        read_command(text)


@given(st.text(alphabet="-={}[]\"' \\\n.,:01TPcompilation", max_size=200))
def test_any_command_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(read_command("vllm serve m " + text), dict)
    except cli.CommandError as error:
        assert str(error)


VLLM_LOG = """INFO 12-10 03:09:31 [model_runner_v1.py:3607] Graph capturing finished in 22 secs, took 0.26 GiB
Capturing ACL graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/11 [00:00<?, ?it/s]\rCapturing ACL graphs \
(mixed prefill-decode, PIECEWISE): 100%|##########| 11/11 [00:21<00:00,  1.98s/it]
INFO 12-10 03:09:45 [utils.py:444] Calculated maximum supported batch sizes for ACL graph: 11
INFO 12-10 03:10:01 [loggers.py:257] Engine 000: Avg prompt throughput: 9 tokens/s, Running: 5 reqs, Waiting: 0 reqs
INFO 12-10 03:10:11 [loggers.py:257] Engine 000: Avg prompt throughput: 9 tokens/s, Running: 12 reqs, Waiting: 3 reqs
INFO 12-10 03:10:21 [loggers.py:257] Engine 000: Avg prompt throughput: 0 tokens/s, Running: 0 reqs, Waiting: 0 reqs
"""


def test_a_vllm_log_gives_samples_and_what_capture_took(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text(VLLM_LOG, encoding="utf-8", newline="")
    log = read_batch_log(str(path))
    assert log.running == {5: 1, 12: 1}, "an idle service is no batch"
    assert log.record() == {
        "lines": 7,
        "evidence": "periodic samples",
        "samples": 2,
        "graph_hits": 0,
        "graph_misses": 0,
        "capture_gib": 0.26,
        "capture_seconds": 22,
        "captured_sizes": 11,
        "framework_limit": 11,
    }


def test_the_metrics_table_counts_every_step_and_prefill_is_no_batch(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text(
        VLLM_LOG
        + "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
        + "| 6               | 8             | 2            | FULL         | 31    |\n"
        + "| 415             | 415           | 0            | NONE         | 1     |\n",
        encoding="utf-8",
    )
    log = read_batch_log(str(path))
    assert log.exact
    assert log.tokens == {6: 31}
    assert (log.graph_hits, log.graph_misses) == (31, 1)


def test_an_sglang_log_gives_batches_and_graph_misses(tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    lines = [
        "[2026-07-07 07:20:43 TP0] Decode batch, #running-req: 3, #token: 99, cuda graph: True, gen throughput: 9",
        "[2026-07-07 07:20:44 TP0] Decode batch, #running-req: 70, #token: 99, cuda graph: False, gen throughput: 9",
        "[2026-07-07 07:20:44 TP0] Prefill batch, #new-seq: 1, #running-req: 9",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    log = read_batch_log(str(path))
    assert log.running == {3: 1, 70: 1}
    assert (log.graph_hits, log.graph_misses) == (1, 1)


def test_a_hostile_log_costs_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "hostile.log"
    lines = [b"Decode batch" * 5000, b"Capturing ACL 1" * 4000, b"| 1 " * 15000, b"Running: 9 reqs"]
    path.write_bytes(b"\n".join(lines * 40))
    assert read_batch_log(str(path)).running == {9: 40}
    assert cpu_seconds(lambda: read_batch_log(str(path)), 10) < 10


def test_a_log_without_batch_sizes_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    path.write_bytes(b"\x00\xff Running: many reqs\n" + b"|" * 200_000)
    with pytest.raises(cli.CommandError, match="holds no batch size") as caught:
        read_batch_log(str(path))
    assert caught.value.exit_code == 3


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-I", str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60)


def test_the_script_from_command_and_log(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(VLLM_LOG, encoding="utf-8")
    command = tmp_path / "start.sh"
    command.write_text("vllm serve /m -tp 2 --max-num-seqs 64 -O.cudagraph_mode=PIECEWISE\n", encoding="utf-8")
    arguments = [
        "--command",
        f"@{command}",
        "--layers",
        "48",
        "--from-log",
        str(log),
        "--hdk",
        "25.2.3",
        "--cann",
        "8.3",
    ]
    done = run(*arguments, "--output", "json")
    record = json.loads(done.stdout)
    assert done.returncode == 0
    assert record["schema"] == "npu-graph/capture-budget/1"
    assert record["sizes"] == [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]
    assert record["memory"]["from_log"]["capture_gib"] == 0.26
    rows = {row["name"]: row for row in record["padding"]["choices"]}
    assert rows["best 2"]["sizes"] == [5, 12] if "best 2" in rows else rows["configured"]["padded_share"] > 0
    assert "GiB" in run(*arguments).stdout
    assert "| choice |" in run(*arguments, "--output", "md").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--mode", "PIECEWISE", "--sizes", "1"], 2, "number of layers"),
        (["--layers", "4"], 2, "no capture sizes"),
        (["--layers", "4", "--sizes", "1,x"], 2, "no list of whole numbers"),
        (["--layers", "4", "--sizes", "0"], 2, "from 1 on"),
        (["--layers", "four"], 2, "whole number"),
        (["--layers", "4", "--sizes", "1", "--batches", "1:x"], 2, "SIZE:WEIGHT"),
        (["--layers", "4", "--sizes", "1", "--from-log", "/nonexistent"], 3, "cannot be read"),
        (["--command", "vllm serve m -O.cudagraph_mode=WRONG", "--layers", "4"], 2, "none of"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list, code: int, words: str) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_start_that_does_not_fit_is_a_negative_answer() -> None:
    done = run(
        "--layers", "94", "--mode", "PIECEWISE", "--max-num-seqs", "512", "--tp", "8", "--hdk", "24.1", "--cann", "8.2"
    )
    assert done.returncode == 1
    assert "does_not_fit" in done.stdout
    assert "update_aclgraph_sizes" in done.stdout
