"""Later changes that may mend a failure: found by words and functions, only what the user's release lacks, never a claim."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from cost import cpu_seconds
from support import ROOT, run_script

from npu_graph.bundle import SEED_KNOWLEDGE
from npu_graph.diagnosis.report import render_markdown, render_text
from npu_graph.fix_index import (
    INDEX_FOLDER,
    INDEXES,
    FixIndex,
    Query,
    pack_releases,
    parts_of,
    tokens_in,
    unpack_releases,
)
from npu_graph.framework_map import FrameworkMap, version_key
from npu_graph.source_map import SourceMap

sys.path.insert(0, str(ROOT / "tools"))

import measure_fix_index
from commit_history import Change, Commit, ambiguous_keys, held_by, read_patches, title_key
from knowledge_checks import fix_rows
from knowledge_checks.sources import Sources

Diagnose = Callable[..., "dict[str, Any]"]
SCRIPT = "graph-mode-expert/scripts/find_fix.py"


@pytest.fixture(scope="module")
def indexes() -> dict[str, FixIndex]:
    return {name: FixIndex.load(name, [SEED_KNOWLEDGE]) for name in INDEXES}


@pytest.fixture(scope="module")
def ascend(indexes: dict[str, FixIndex]) -> FixIndex:
    return indexes["vllm-ascend"]


def titles(index: FixIndex, words: str, *releases: str) -> list[str]:
    return [found.fix.title for found in index.search(Query(words, "", ()), releases)]


# --- the data ----------------------------------------------------------------------------------------------------


def test_there_is_an_index_for_each_project_and_nothing_else() -> None:
    assert sorted(path.stem for path in (SEED_KNOWLEDGE / INDEX_FOLDER).iterdir()) == sorted(INDEXES)


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_is_well_formed(indexes: dict[str, FixIndex], name: str) -> None:
    index = indexes[name]
    raw = (SEED_KNOWLEDGE / INDEX_FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    assert index.name == name and re.fullmatch(r"[0-9a-f]{7,12} \d{4}-\d\d-\d\d", index.read_at)
    assert len(index.fixes) == sum(line.startswith("fix\t") for line in raw) >= 200
    assert len({fix.commit for fix in index.fixes}) == len(index.fixes)
    for fix in index.fixes:
        assert re.fullmatch(r"[0-9a-f]{10}", fix.commit) and re.fullmatch(r"20\d\d-\d\d-\d\d", fix.date)
        assert fix.title.strip() and "Merge pull request" not in fix.title
        assert fix.places and all(file for file, _ in fix.places)
        assert all(0 <= position < len(index.releases) for position in fix.held)
        assert len(fix.held) < len(index.releases), "what every release holds mends nothing for anybody"


def test_releases_are_those_of_the_maps(indexes: dict[str, FixIndex]) -> None:
    known = SourceMap.load([SEED_KNOWLEDGE]).releases
    for name in ("torch_npu", "torchair", "op-plugin"):
        assert set(indexes[name].releases) <= set(known) and len(indexes[name].releases) >= 40
    for name in ("vllm-ascend", "xllm"):
        assert indexes[name].releases == sorted(indexes[name].releases, key=version_key)


@pytest.mark.parametrize("held", [set(), {0}, {0, 1, 2}, {0, 2, 3, 9}, {5, 7}])
def test_releases_are_packed_and_unpacked(held: set[int]) -> None:
    assert unpack_releases(pack_releases(held)) == held


@pytest.mark.parametrize("text", ["", "x", "1-", "-3", "9-99999999999", "1,,2", "a-b", "²", "٣-٤"])
def test_releases_that_nobody_wrote_give_none_or_few(text: str) -> None:
    assert len(unpack_releases(text)) < 1000


# --- finding -----------------------------------------------------------------------------------------------------


# Read in the history: (words, release, title of the change, first release with it).
KNOWN = [
    ("update_stream of the draft deadlocks in full graph", "0.18.0", "Unify update_stream across main and draft", ""),
    ("hasattr on ACLGraphWrapper is slow", "0.15.0rc1", "Fix slow hasattr in ACLGraphWrapper.__getattr__", "0.18.0rc1"),
    ("rope_forward_triton shape", "0.14.0rc1", "fix rope_forward_triton error", "0.15.0rc1"),
]


@pytest.mark.parametrize(("words", "release", "title", "first"), KNOWN, ids=[row[2] for row in KNOWN])
def test_the_change_is_found_by_words_of_the_failure(
    ascend: FixIndex, words: str, release: str, title: str, first: str
) -> None:
    found = ascend.search(Query(words, "", ()), [release])[0]
    assert title in found.fix.title
    assert ascend.first_release(found.fix, [release]) == first


def test_a_change_that_the_users_release_holds_is_not_named(ascend: FixIndex) -> None:
    words = "rope_forward_triton shape"
    assert any("rope_forward_triton error" in title for title in titles(ascend, words, "0.14.0rc1"))
    assert not any("rope_forward_triton error" in title for title in titles(ascend, words, "0.18.0"))


TSV = """\
repository\tp\to/p\tabcdef1234 2026-01-01
release\t1.0/2.7.1
release\t1.0/2.8.0
release\t2.0/2.7.1
release\t2.0/2.8.0
fix\t1111111111\t2026-01-01\t0\tFix capture of an old branch (#1)\tp/a.py:run\t
fix\t2222222222\t2026-01-02\t2-3\tFix capture of the pool (#2)\tp/a.py:run,stop;p/b.py\tKeyError #77
fix\t3333333333\t2026-01-03\t-\tFix capture of the stream (#3)\tp/c.py:begin\tdeadlock
fix\tbroken
"""


TWINS = """\
repository\tp\to/p\tabcdef1234 2026-01-01
release\t1.0/2.7.1
release\t1.0/2.8.0
release\t2.0/2.7.1
release\t2.0/2.8.0
release\t3.0/2.8.0
fix\t4444444444\t2026-01-04\t2\tfix tiling (#4)\tp/t.py:tiling\t
fix\t5555555555\t2026-01-04\t3-4\tfix tiling (#5)\tp/t.py:tiling\t
fix\t6666666666\t2026-01-05\t-\tfix tiling (#6)\tp/other.py:tiling\t
fix\t7777777777\t2026-01-06\t4\tFix the tiling of a kernel (#7)\tp/t.py:tiling\t
"""


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        ("1.0/2.7.1", ["#4", "#6", "#7"]),
        ("1.0/2.8.0", ["#5", "#6", "#7"]),
        ("2.0/2.8.0", ["#6", "#7"]),  # it holds its own pick, so it does not lack the other
    ],
)
def test_one_change_that_was_picked_for_each_pytorch_is_shown_once(release: str, shown: list[str]) -> None:
    found = titles(FixIndex(TWINS), "tiling", release)
    assert sorted(re.findall(r"#\d", " ".join(found))) == shown
    assert len(FixIndex(TWINS).search(Query("tiling", "", ()), [release], 1)) == 1


def test_what_only_an_older_release_has_is_not_later() -> None:
    index = FixIndex(TSV)
    assert [title[-3:-1] for title in titles(index, "capture", "2.0/2.7.1")] == ["#3"]
    assert sorted(title[-3:-1] for title in titles(index, "capture", "1.0/2.8.0")) == ["#2", "#3"]


def test_the_first_release_is_the_one_for_the_users_pytorch() -> None:
    index = FixIndex(TSV)
    pool = next(fix for fix in index.fixes if "pool" in fix.title)
    assert index.first_release(pool, ["1.0/2.8.0"]) == "2.0/2.8.0"
    assert index.first_release(pool) == "2.0/2.7.1"
    assert index.first_release(index.fixes[2], ["1.0/2.8.0"]) == ""


def test_the_first_release_is_after_those_that_lack_the_change() -> None:
    """Of several possible releases some hold it already."""
    index = FixIndex(TSV)
    pool = next(fix for fix in index.fixes if "pool" in fix.title)
    assert index.is_later(pool, ["1.0/2.7.1", "2.0/2.7.1"])
    assert index.first_release(pool, ["1.0/2.7.1", "2.0/2.7.1"]) == "2.0/2.7.1"


def test_a_change_that_a_release_holds_is_never_said_to_be_in_none() -> None:
    index = FixIndex(TSV)
    for fix in index.fixes:
        assert bool(index.first_release(fix, ["2.0/2.8.0"])) is bool(fix.held)


def test_a_release_that_the_index_does_not_have_shows_nothing() -> None:
    assert titles(FixIndex(TSV), "capture", "9.9/2.7.1") == []


@pytest.mark.parametrize(
    ("name", "version", "known"),
    [
        ("torch_npu", "2.7.1.post2", "7.3.0/2.7.1"),
        ("torch_npu", "2.13.0", "26.2.0-beta.1/2.13.0"),
        ("torch_npu", "2.7.1.post11", "26.2.0-beta.1/2.7.1"),
        ("torchair", "26.1.0/2.7.1", "26.0.0/2.7.1"),
    ],
)
def test_a_release_without_a_history_of_its_own_is_its_base_or_the_one_before(
    indexes: dict[str, FixIndex], name: str, version: str, known: str
) -> None:
    source_map = SourceMap.load([SEED_KNOWLEDGE])
    releases, _ = source_map.find_release(version)
    assert {indexes[name].known_release(release, source_map) for release in releases} == {known}


def test_only_changes_that_touch_a_function_are_kept_before_the_list_is_cut() -> None:
    found = FixIndex(TSV).search(Query("capture pool", "", ()), (), 1, ["begin"])
    assert [item.fix.title[-3:-1] for item in found] == ["#3"]


def test_the_name_of_an_exception_finds_nothing(ascend: FixIndex) -> None:
    text = "RuntimeError: object has no attribute"
    assert ascend.search(Query(text, text, ())) == []


def test_a_function_of_the_failing_stack_brings_its_change_up() -> None:
    index = FixIndex(TSV)
    found = index.search(Query("capture", "", (("/opt/site-packages/p/c.py", "begin"),)))
    assert (found[0].fix.title[-3:-1], found[0].functions) == ("#3", ("begin",))


def test_an_issue_number_finds_the_change_that_closes_it() -> None:
    assert titles(FixIndex(TSV), "see #77")[0].endswith("(#2)")


@pytest.mark.parametrize("version", ["0.18", "0.18.0", "v0.18.0", "0.18.0+empty", "0.18.0.post3"])
def test_a_version_is_the_release_or_the_newest_before_it(ascend: FixIndex, version: str) -> None:
    assert ascend.find_release(version) == (("0.18.0",), version != "0.18.0.post3")


@pytest.mark.parametrize("version", ["0.0.1", "main", "", "latest", "2.10.0", "99"])
def test_a_version_that_no_release_is_near_to_is_none(ascend: FixIndex, version: str) -> None:
    """2.10.0 is torch_npu's: it is not taken for the newest release of another project."""
    assert ascend.find_release(version) == ((), False)


@pytest.mark.parametrize(
    ("version", "release", "lines"),
    [("26.1.5", "26.1.0", 5), ("26.0.0-beta.3", "26.0.0-beta.1", 1), ("26.2.0-beta.9", "26.2.0-beta.1", 6)],
)
def test_a_version_that_no_release_has_is_the_one_before_in_each_pytorch(
    indexes: dict[str, FixIndex], version: str, release: str, lines: int
) -> None:
    """A final release comes after its betas; which PyTorch is meant the version does not say."""
    found = indexes["torch_npu"].newest_before(version)
    assert len(found) == lines and {item.partition("/")[0] for item in found} == {release}


def test_names_are_found_whole_and_in_parts_and_chinese_in_pairs() -> None:
    assert {"graph_task_update", "task"} <= set(tokens_in("graph_task_update"))
    assert {"aclgraphwrapper", "wrapper"} <= set(tokens_in("ACLGraphWrapper"))
    assert {"精度", "度异"} <= set(tokens_in("精度异常"))
    assert not tokens_in("fix the bug with this")


def test_a_rows_own_numbers_are_no_words() -> None:
    assert parts_of("Fix ACLGraphWrapper in qwen2_5_vl (#2007)") == ["acl", "graph", "wrapper", "qwen"]


def test_an_index_that_is_absent_or_broken_finds_nothing(tmp_path: Path) -> None:
    assert FixIndex.load("vllm-ascend", [tmp_path]).search(Query("capture", "", ())) == []
    assert FixIndex("fix\t\t\n\0\nrelease").search(Query("capture", "x" * 100, ())) == []


def test_a_long_report_costs_little(ascend: FixIndex) -> None:
    text = " ".join(f"word{number} capture_{number}" for number in range(200_000))
    query = Query(text, text, tuple((f"a/b{n}.py", f"f{n}") for n in range(5000)))
    assert cpu_seconds(lambda: ascend.search(query), 5) < 5


# --- in a diagnosis ----------------------------------------------------------------------------------------------

STACK = """\
vllm-ascend {version}, eager passes, with the ACL graph it stops
Traceback (most recent call last):
  File "/opt/site-packages/vllm_ascend/ops/rotary_embedding.py", line 90, in rope_forward_oot
    query, key = rope_forward_triton(query, key, cos, sin)
RuntimeError: rope_forward_triton: shape '[14, -1]' is invalid for input of size 768
"""


def test_a_diagnosis_names_later_changes_and_says_that_they_are_not_checked(diagnose_text: Diagnose) -> None:
    record = diagnose_text(STACK.format(version="0.14.0rc1"))
    found = record["later_fixes"]
    assert 1 <= len(found) <= 5
    change = next(item for item in found if "(#6404)" in item["title"])
    assert (change["repo"], change["commit"], change["first_release"]) == (
        "vllm-project/vllm-ascend",
        "70cc5f7969",
        "0.15.0rc1",
    )
    for shown in (render_text(record), render_markdown(record)):
        assert "by title (not checked against it)" in shown and "first in 0.15.0rc1" in shown
    assert not record["report"]["fix"]["short_term"], "a title is no fix"


def test_where_the_release_is_not_known_the_list_says_that_it_may_hold_them(diagnose_text: Diagnose) -> None:
    record = diagnose_text(STACK.format(version="main"))
    assert record["later_fixes"] and not record["later_fixes"][0]["after"]
    assert "the release that ran may hold them" in render_text(record)


def test_names_of_the_history_are_no_markup(diagnose_text: Diagnose) -> None:
    text = "vllm-ascend 0.13.0: __init__ of the metadata builder, ACL graph\n" + STACK.format(version="0.13.0")
    shown = render_markdown(diagnose_text(text)).partition("by title")[2]
    assert "__init__" not in re.sub(r"`[^`]*`", "", shown)


def test_a_diagnosis_names_none_that_the_release_holds(diagnose_text: Diagnose) -> None:
    record = diagnose_text(STACK.format(version="0.18.0"))
    assert not any("(#6404)" in item["title"] for item in record["later_fixes"])


# Only vLLM's version is stated: any release for it, or the branch before them, may be what ran.
XLITE = """\
[Bug] Xlite: the padding of the graph mode gives a wrong number of decode tokens, no MTP, {device}
AssertionError: illegal decode num -540
- vLLM version: v{vllm}
"""


@pytest.mark.parametrize(
    ("device", "vllm", "first"),
    [
        ("vllm-ascend, ACL graph", "0.13.0", "0.13.0rc2"),
        ("on the NPU", "0.13.0", "0.13.0rc2"),
        ("on the NPU", "0.12.0", "0.13.0rc2"),
        ("on the NPU", "0.18.0", None),
        ("on a GPU", "0.13.0", None),
    ],
)
def test_with_the_version_of_vllm_alone_every_release_for_it_is_possible(
    diagnose_text: Diagnose, device: str, vllm: str, first: str | None
) -> None:
    found = diagnose_text(XLITE.format(device=device, vllm=vllm))["later_fixes"]
    change = next((item for item in found if "(#5711)" in item["title"]), None)
    assert (change and change["first_release"]) == first


def test_the_list_is_chinese_in_a_chinese_report(diagnose_text: Diagnose) -> None:
    record = diagnose_text("图模式启动失败，单算子模式正常，请问是什么原因？\n" + STACK.format(version="0.14.0rc1"))
    assert "未与报告核对" in render_text(record)


def test_what_the_users_own_code_has_to_mend_is_in_no_history(diagnose_text: Diagnose) -> None:
    example = (ROOT / "graph-mode-diagnostics/examples/default_stream.txt").read_text(encoding="utf-8")
    record = diagnose_text(example)
    assert record["verdict"] == "known" and record["owner"]["value"] == "user_code"
    assert record["later_fixes"] == []


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: call aclnnX failed, error code is 561002",
        "RuntimeError: The size of tensor a (4) must match",
        "RuntimeError: something went wrong",
    ],
)
def test_a_short_error_of_any_program_names_no_change_of_torch_npu(diagnose_text: Diagnose, error: str) -> None:
    assert diagnose_text(f"torch.npu.graph replay: {error}\n")["later_fixes"] == []


def test_a_report_without_words_of_its_own_names_none(diagnose_text: Diagnose) -> None:
    assert diagnose_text("torch.npu.graph does not work\n")["later_fixes"] == []


# --- the script --------------------------------------------------------------------------------------------------


def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = run_script(SCRIPT, *arguments, "--output", "json")
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr.decode()}


def test_words_find_changes_of_all_projects() -> None:
    code, answer = ask("graph", "capture", "stream", "deadlock")
    assert code == 0 and answer["schema"] == "npu-graph/fixes/1"
    assert len({item["repo"] for item in answer["results"]}) >= 2
    scores = [item["score"] for item in answer["results"]]
    assert scores == sorted(scores, reverse=True) and len(scores) == 10


def test_the_touched_functions_have_their_lines_in_the_release_asked_for(ascend: FixIndex) -> None:
    """The line is that of the framework map, as locate_source.py gives it."""
    code, answer = ask("max_num_seqs not a multiple of tp", "--project", "vllm-ascend==0.17.0rc1")
    change = next(item for item in answer["results"] if "(#7801)" in item["title"])
    (place,) = change["places"]
    (site,) = FrameworkMap.load("vllm-ascend", [SEED_KNOWLEDGE]).named("NPUPlatform.check_and_update_config")
    line = FrameworkMap.load("vllm-ascend", [SEED_KNOWLEDGE]).lines_in(site, "0.17.0rc1")[0]
    assert code == 0 and place["lines"] == {"check_and_update_config": [line]}
    shown = run_script(SCRIPT, "max_num_seqs not a multiple of tp", "--project", "vllm-ascend==0.17.0rc1").stdout
    assert f"vllm_ascend/platform.py (check_and_update_config:{line})".encode() in shown


def test_a_function_keeps_only_changes_that_touch_it() -> None:
    code, answer = ask("padding", "--project", "vllm-ascend==0.13.0", "--function", "NPUModelRunner._dummy_run")
    assert code == 0
    for item in answer["results"]:
        assert any("_dummy_run" in place["functions"] for place in item["places"])


def test_the_version_of_torch_npu_stands_for_its_parts_too() -> None:
    code, answer = ask("input_inplace_pass copy_", "--project", "torchair==7.3.0/2.7.1")
    assert code == 0 and "input_inplace_pass" in answer["results"][0]["title"]


def test_nothing_found_is_said_to_prove_nothing() -> None:
    done = run_script(SCRIPT, "zzzyyyxxx")
    assert done.returncode == 1
    assert b"says nothing about whether it is mended" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("x", "--project", "llama.cpp"), "expected one of vllm-ascend, xllm, torch_npu, torchair, op-plugin"),
        (("x", "--project", "vllm-ascend==0.0.1"), "no such release; the index has 0.9.1 to"),
        (("x", "--project", "torch_npu==99"), "no such release"),
        (("x", "--project", "vllm-ascend==2.10.0"), "no such release"),
        (("x", "--project", "torch_npu==26.1.0; rm"), "no such release"),
        (("x", "--project", "vllm-ascend==0.18.0 or later"), "no such release"),
        (("x", "--project", "xllm==0.7.0", "--project", "xllm==0.8.0"), "xllm is given twice"),
        (("x", "--most", "0"), "expected 1 to 100"),
    ],
)
def test_a_wrong_argument_is_one_line_that_says_what_is_expected(arguments: tuple[str, ...], said: str) -> None:
    code, answer = ask(*arguments)
    assert code == 2 and said in answer["error"] and answer["error"].count("\n") == 1


@pytest.mark.parametrize(
    ("project", "said"),
    [
        ("vllm-ascend==0.18.0.post3", "0.18.0.post3 is not in the index of vllm-ascend; taken as 0.18.0"),
        ("vllm-ascend==0.99.0", "0.99.0 is newer than what was read of vllm-ascend; taken as 0.25.1rc1"),
        ("torchair==26.1.0/2.7.1", "26.1.0/2.7.1 is newer than what was read of torchair; taken as 26.0.0/2.7.1"),
        ("vllm-ascend==0.18.0", None),
        ("vllm_ascend==V0.18.0", None),
        ("vllm-ascend==0.18.0-rc1", None),
        ("torch-npu==2.7.1.post2", None),
        ("op_plugin==26.1.0", None),
    ],
)
def test_a_version_that_was_not_read_is_said_to_be_taken_as_another(project: str, said: str | None) -> None:
    code, answer = ask("capture", "--project", project, "--most", "1")
    assert code in (0, 1) and answer["notes"] == ([said] if said else [])


def test_no_words_are_no_question() -> None:
    code, answer = ask("  ")
    assert code == 3 and "WORDS are empty" in answer["error"]


def test_words_come_from_standard_input_too() -> None:
    done = run_script(SCRIPT, "-", "--output", "json", input=b"graph capture\nstream deadlock")
    assert json.loads(done.stdout)["results"] == ask("graph capture stream deadlock")[1]["results"]


def test_the_answer_is_in_the_language_of_the_words() -> None:
    assert "未与故障核对" in run_script(SCRIPT, "图模式 capture 卡死").stdout.decode()
    assert "checked against the failure" in run_script(SCRIPT, "图模式 capture 卡死", "--lang", "en").stdout.decode()


def test_a_long_answer_is_cut_and_says_how_to_get_the_rest() -> None:
    short = run_script(SCRIPT, "graph", "capture", "--most", "100").stdout
    assert len(short) < 21_000 and b"--all prints everything" in short
    assert len(run_script(SCRIPT, "graph", "capture", "--most", "100", "--all").stdout) > len(short)


# --- measuring ---------------------------------------------------------------------------------------------------

PROJECT = measure_fix_index.Project("made", "made/made", "main", "1.0.0", "2026-01-01", ("package/",))


@pytest.fixture()
def history(tmp_path: Path) -> Path:
    """A history with two releases, a release branch, and work that mends nothing."""
    clone = tmp_path / "clone"
    (clone / "package").mkdir(parents=True)

    def git(*arguments: str, day: str = "2026-02-01") -> None:
        date = f"{day}T12:00:00+0000"
        subprocess.run(
            ["git", "-C", str(clone), "-c", "user.name=n", "-c", "user.email=e@example.com", *arguments],
            check=True,
            capture_output=True,
            env={"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )

    def commit(subject: str, body: str = "", file: str = "package/a.py", day: str = "2026-02-01") -> None:
        path = clone / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.is_file() else "def run():\n    first = 1\n"
        path.write_text(text + f"    x = {len(text)}\n", encoding="utf-8")
        git("add", ".")
        git("commit", "-q", "-m", subject, *(["-m", body] if body else []), day=day)

    git("init", "-q", "-b", "main")
    commit("First state")
    git("tag", "v1.0.0")
    git("checkout", "-q", "-b", "releases/1.0")
    commit("[1.0][BugFix] Fix the stale pool of a capture (#12)", day="2026-02-05")
    git("tag", "v1.0.1")
    git("checkout", "-q", "main")
    commit(
        "[BugFix] Fix the stale pool of a capture (#11)",
        "KeyError in graph_params\nFixes #77\n\nSigned-off-by: A_B",
        day="2026-02-03",
    )
    commit("Add a feature", day="2026-02-04")
    commit("[Doc] Fix a typo", day="2026-02-06")
    commit("[BugFix] Fix a test of replay", file="tests/test_a.py", day="2026-02-07")
    git("tag", "v2.0.0")
    commit("!31 Fix replay with two streams Merge pull request !31 from somebody/branch", day="2026-02-08")
    return clone


def test_measuring_keeps_what_mends_once_with_the_releases_that_hold_it(history: Path) -> None:
    text, count = measure_fix_index.measure(PROJECT, history)
    index = FixIndex(text)
    assert count == len(index.fixes) == 2
    assert index.releases == ["1.0.0", "1.0.1", "2.0.0"]
    pool, streams = index.fixes
    assert (pool.title, pool.date, sorted(pool.held)) == (
        "[BugFix] Fix the stale pool of a capture (#11)",
        "2026-02-03",
        [1, 2],
    )
    assert pool.places == (("package/a.py", ("run",)),)
    assert "#77" in pool.words and "graph_params" in pool.words and "A_B" not in pool.words
    assert (streams.title, sorted(streams.held)) == ("Fix replay with two streams (!31)", [])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "[BugFix] Fix the stale pool (#11)",
            "[Cherry-pick][releases/v0.23.0][BugFix] Fix the stale pool (from #11) (#12)",
        ),
        ("Fix the stale pool of capture (#11)", "[v0.18.0] Fix the stale pool of capture (v0.18.0) (#12)"),
        ("!2058 [Bugfix] replay with two streams", "!2067 !2058 [Bugfix] replay with two streams"),
        ("[fix]profiler remove the file", "[sync] PR-39572: [fix]profiler remove the file"),
        ("修复资源泄露问题", "!39689 修复资源泄露问题 Merge pull request !39689 from x/y"),
    ],
)
def test_a_pick_has_the_title_of_its_change(one: str, other: str) -> None:
    assert title_key(one) == title_key(other) != ""


@pytest.mark.parametrize("title", ["fix", "[fix] bug", "修复问题", "Fix ut (#1)"])
def test_a_short_title_tells_no_change_from_another(title: str) -> None:
    assert title_key(title) == ""


LOG = {
    "a change stands": (["Fix the stale pool of capture (#1)"], True),
    "taken back": (['Revert "Fix the stale pool of capture" (#1) (#2)', "Fix the stale pool of capture (#1)"], False),
    "taken back and made again": (
        [
            "Fix the stale pool of capture (#3)",
            'Revert "Fix the stale pool of capture (#1)" (#2)',
            "Fix the stale pool of capture (#1)",
        ],
        True,
    ),
    "the taking back taken back": (
        [
            'Revert "Revert "Fix the stale pool of capture (#1)" (#2)" (#3)',
            'Revert "Fix the stale pool of capture (#1)" (#2)',
            "Fix the stale pool of capture (#1)",
        ],
        True,
    ),
    "taken back under a tag": (
        ["【revert】fix the stale pool of capture (!2)", "[bugfix]fix the stale pool of capture (!1)"],
        False,
    ),
    "taken back without quotes": (
        ["Revert: fix the stale pool of capture", "fix the stale pool of capture (#1)"],
        False,
    ),
    "another change of like words is taken back": (
        ["Revert: fix the stale pool", "fix the stale pool of capture (#1)"],
        True,
    ),
    "taken back in Chinese": (["回退 'Pull Request !5 : 修复资源泄露的问题'", "修复资源泄露的问题"], False),
}


@pytest.mark.parametrize("name", LOG)
def test_what_a_later_commit_took_back_is_not_held(name: str) -> None:
    subjects, is_held = LOG[name]
    log = [Commit(f"{number:040x}", subject) for number, subject in enumerate(subjects)]
    assert (title_key(subjects[-1]) in held_by(log, {}, ())) is is_held
    assert (log[-1].commit in held_by(log, {}, ())) is (
        is_held and len(log) != 3 or name == "the taking back taken back"
    )


def test_a_change_that_a_message_names_by_its_commit_is_not_held() -> None:
    log = [Commit("a" * 40, "Use the old stream", ("b" * 40,)), Commit("b" * 40, "Fix the stream of the replay")]
    assert held_by(log, {}, ()) & {"b" * 40, title_key(log[1].subject)} == set()


def test_two_changes_of_one_title_are_told_apart_by_their_patches() -> None:
    log = [Commit("a" * 40, "Fix the eplb of main"), Commit("b" * 40, "Fix the eplb of main")]
    assert title_key(log[0].subject) in ambiguous_keys(log, {"a" * 40: "1", "b" * 40: "2"})
    assert title_key(log[0].subject) not in ambiguous_keys(log, {"a" * 40: "1", "b" * 40: "1"})


@pytest.mark.parametrize(
    ("subject", "does"),
    [
        ("[BugFix] Fix the pool", True),
        ("hotfix: stream", True),
        ("Avoid a hang in replay", True),
        ("acl changename", False),
        ("feat: support prefix cache", False),
        ("[feature]change api name", False),
        ("Fixed failed testcases", False),
        ("fix master ci bug", False),
        ("[Doc] Fix the page", False),
    ],
)
def test_a_subject_mends_something_that_runs(subject: str, does: bool) -> None:
    change = Change("a" * 40, "2026-01-01", subject, "", (("package/a.py", ("run",)),))
    assert measure_fix_index.mends(change) is does


def test_a_change_that_the_history_does_not_have_so_is_a_fault(history: Path, tmp_path: Path) -> None:
    text, _ = measure_fix_index.measure(PROJECT, history)
    sources = Sources()
    sources.add_checkout(f"made/made={history}")
    source_map = SourceMap.load([SEED_KNOWLEDGE])

    def faults(content: str) -> int:
        """Return how many faults there are; each names the line of its row."""
        folder = tmp_path / "knowledge" / INDEX_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "made.tsv").write_text(content, encoding="utf-8")
        outcome = fix_rows.check(tmp_path, sources, source_map, (PROJECT,))
        assert outcome.checked == 2
        rows = content.splitlines()
        assert all(rows[fault.line - 1].split("\t")[1] == fault.text.split(" ")[0] for fault in outcome.faults)
        return len(outcome.faults)

    assert faults(text) == 0
    assert faults(text.replace("stale pool of a capture (#11)", "stale pool of a stream (#11)")) >= 1
    assert faults(text.replace("\t1-2\t", "\t2\t")) == 1
    assert faults(text.replace("package/a.py:run\t", "package/b.py:run\t", 1)) >= 1
    assert faults(text.replace("2026-02-08", "2026-02-09")) == 1


def test_a_control_character_in_a_diff_ends_no_change(history: Path) -> None:
    before = measure_fix_index.measure(PROJECT, history)[1]
    (history / "package/a.py").write_text("def run():\n    return '\x01 \x02'\n", encoding="utf-8")
    git = ["git", "-C", str(history), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    subprocess.run([*git, "commit", "-qam", "Fix the separators of a replay"], check=True)
    text, count = measure_fix_index.measure(PROJECT, history)
    assert count == before + 1 and "Fix the separators of a replay\tpackage/a.py:run\t" in text


def test_a_history_that_git_cannot_read_is_no_empty_one(history: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        read_patches(history, ["no-such-branch"], "2026-01-01", ("package/",))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 3, "no history is given"),
        (("--git", "vllm=/tmp"), 2, "expected one of vllm-ascend, xllm"),
        (("--git", "xllm=/no/such/folder"), 3, "/no/such/folder is no git repository"),
        (("--git", "xllm"), 3, "nothing is no git repository"),
        (("--git", f"xllm={ROOT}", "--git", f"xLLM-AI/xllm={ROOT}"), 2, "xllm is given twice"),
    ],
)
def test_measuring_without_a_usable_history_is_one_line(arguments: tuple[str, ...], code: int, said: str) -> None:
    command = [sys.executable, str(ROOT / "tools/measure_fix_index.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1


def test_an_index_without_its_checkout_is_left_out_and_counted() -> None:
    outcome = fix_rows.check(ROOT, Sources(), SourceMap.load([SEED_KNOWLEDGE]))
    assert outcome.checked == 0 and sum(outcome.left_out.values()) >= 3000
