"""The store loses nothing: many writers, a kill at any moment, a full disk, a read-only folder, git merges."""

from __future__ import annotations

import errno
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import types
from pathlib import Path
from typing import Callable

import pytest

from npu_graph import bundle, case_store, cli, file_lock
from npu_graph.case_check import check_folders
from npu_graph.case_format import Case, clean_case, render_case
from npu_graph.case_store import append_case, compile_history, count_cases, new_case_id, read_history, replace_case
from npu_graph.cases import read_cases
from npu_graph.file_lock import FileLock, write_atomically

WRITER = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from npu_graph.case_format import Case
    from npu_graph.case_store import append_case, new_case_id
    folder, writer, number = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    for count in range(number):
        case = Case(id=new_case_id(), title=f"writer {writer} case {count}", date="2026-01-02", status="suspected",
                    stage="replay", layer="L4", symptom=f"RuntimeError: writer {writer} case {count}\\n" * 5,
                    sources="https://github.com/o/r/issues/1")
        append_case(folder, case)
        print(case.id, flush=True)
    """
)


# Minutes, not seconds: the full numbers run when they are asked for.
LONG = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("NPU_GRAPH_SLOW") != "1", reason="set NPU_GRAPH_SLOW=1 to run it"),
]
# A folder that grows through many kills only makes the reading slow.
KILLS_PER_FOLDER = 20


def make_case(number: int = 1, **fields: str) -> Case:
    values = {
        "date": "2026-01-02",
        "status": "confirmed",
        "stage": "capture",
        "layer": "L2",
        "symptom": f"boom {number}",
    }
    values.update(sources="https://github.com/o/r/issues/1", **fields)
    return clean_case(Case(id=f"C-20260102-{number:010x}", title=values.pop("title", f"case {number}"), **values))


def start_writer(folder: Path, writer: int, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", "-c", WRITER, str(bundle.ROOT), str(folder), str(writer), str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def problems(folder: Path) -> list[str]:
    return [f"{item.file}:{item.line}: {item.message}" for item in check_folders([folder]).problems]


# --- recording ------------------------------------------------------------------------------------------------------


def test_a_recorded_case_stands_in_its_file_and_in_history_md_with_the_counts(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on the way"
    append_case(folder, make_case(1))
    append_case(folder, make_case(2, stage="replay", status="suspected"))
    written = append_case(folder, make_case(3))
    assert written.path.read_text(encoding="utf-8") == render_case(make_case(3))
    history = (folder / "history.md").read_text(encoding="utf-8")
    assert "| capture | 2 | 0 | 0 | 2 |" in history
    assert "| replay | 0 | 1 | 0 | 1 |" in history
    assert "| all | 2 | 1 | 0 | 3 |" in history
    assert history.index("| all |") < history.index("## C-")
    assert [entry.case for entry in read_history(folder).entries] == [
        make_case(1),
        make_case(2, stage="replay", status="suspected"),
        make_case(3),
    ]
    assert problems(folder) == []


def test_a_changed_case_changes_its_entry_and_the_counts(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        append_case(tmp_path, make_case(number))
    replace_case(tmp_path, make_case(2, status="retired", retired_because="recorded twice"))
    assert [entry.case.status for entry in read_history(tmp_path).entries] == ["confirmed", "retired", "confirmed"]
    assert "| capture | 2 | 0 | 1 | 3 |" in (tmp_path / "history.md").read_text(encoding="utf-8")
    assert problems(tmp_path) == []


def test_recording_gives_the_same_history_as_compiling(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        append_case(tmp_path, make_case(number))
    replace_case(tmp_path, make_case(2, direct_cause="a longer text than before"))
    before = state(tmp_path)
    compile_history(tmp_path)
    assert state(tmp_path) == before


def test_ids_of_one_day_do_not_collide() -> None:
    drawn = {new_case_id(0.0) for _ in range(20_000)}
    assert len(drawn) == 20_000
    assert all(identity.startswith("C-19700101-") and len(identity) == 21 for identity in drawn)


def test_an_id_is_never_used_twice(tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    before = state(tmp_path)
    with pytest.raises(cli.CommandError, match="exists already"):
        append_case(tmp_path, make_case(1, direct_cause="other"))
    assert state(tmp_path) == before


# --- many writers ---------------------------------------------------------------------------------------------------


def fork_writer(folder: Path, writer: int, seconds: float, most: int) -> tuple[int, int]:
    """Start a writer without the start of an interpreter; returns its process id and a pipe with the ids it recorded."""
    reader, sink = os.pipe()
    process = os.fork()
    if process:
        os.close(sink)
        return process, reader
    code = 1
    try:
        os.close(reader)
        deadline = time.monotonic() + seconds
        for count in range(most):
            if time.monotonic() > deadline:
                break
            case = make_case(count, title=f"writer {writer} case {count}")._replace(id=new_case_id())
            append_case(folder, case)
            os.write(sink, case.id.encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def ids_from(pipe: int) -> set[str]:
    with os.fdopen(pipe, encoding="utf-8") as source:
        # The last line may be cut; a case whose id was written whole had been recorded.
        return {line[:-1] for line in source if line.endswith("\n")}


def assert_nothing_is_lost(folder: Path, recorded: set[str]) -> None:
    assert set(read_cases([folder]).entries) == recorded
    assert {entry.case.id for entry in read_history(folder).entries} == recorded
    assert problems(folder) == []
    assert not list(folder.rglob(".tmp-*")) + list(folder.glob(".history.lock*"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked; the full numbers start processes")
def test_sixteen_writers_at_once_lose_nothing_and_readers_see_whole_cases(tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    writers = [fork_writer(tmp_path, writer, seconds=8, most=500) for writer in range(16)]
    looks, running = 0, {process for process, _ in writers}
    while running:
        base = read_cases([tmp_path])
        assert base.problems == []
        assert [item.message for item in read_history(tmp_path).problems] == []
        looks += 1
        for process in list(running):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                assert status == 0
                running.remove(process)
        time.sleep(0.05)
    by_writer = [ids_from(pipe) for _, pipe in writers]
    assert looks > 10
    assert all(by_writer), "every writer gets its turn"
    recorded = set().union(*by_writer)
    assert len(recorded) == sum(map(len, by_writer)) >= 160
    assert_nothing_is_lost(tmp_path, recorded)


@pytest.mark.parametrize("number", [pytest.param(500, marks=LONG)])
def test_sixteen_processes_of_500_cases_lose_nothing(number: int, tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, writer, number) for writer in range(16)]
    recorded: set[str] = set()
    for writer in writers:
        output, errors = writer.communicate(timeout=800)
        assert (writer.returncode, errors) == (0, "")
        recorded.update(output.split())
    assert len(recorded) == 16 * number
    assert_nothing_is_lost(tmp_path, recorded)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kill -9 is a POSIX signal")
def test_a_kill_at_any_of_200_moments_leaves_every_earlier_case_readable(tmp_path: Path) -> None:
    maker = random.Random(200)
    started = time.monotonic()
    for number in range(10):
        append_case(tmp_path / "pace", make_case(number))
    pace = (time.monotonic() - started) / 10
    kills, total, at_work = 0, 0, 0
    while kills < 200:
        folder = tmp_path / str(kills)
        recorded: set[str] = set()
        for _ in range(KILLS_PER_FOLDER):
            process, pipe = fork_writer(folder, 0, seconds=60, most=10_000)
            if maker.random() < 0.75:
                select.select([pipe], [], [], 60)  # until it recorded one, however busy the machine is
            time.sleep(maker.uniform(0, 4 * pace))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            kills += 1
            lock = folder / ".history.lock"
            at_work += lock.exists() and lock.read_text(encoding="utf-8").startswith(f"{process} ")
            recorded |= ids_from(pipe)
            base = read_cases([folder])
            assert base.problems == []
            assert recorded <= set(base.entries)
        started = time.monotonic()
        append_case(folder, make_case(1))
        assert time.monotonic() - started < 10, "the lock of a killed writer is taken over at once"
        assert problems(folder) == []
        assert recorded <= {entry.case.id for entry in read_history(folder).entries}
        total += len(recorded)
    assert total >= 40, "the writers recorded cases"
    assert at_work >= 40, "and were killed at work, not before it"


# --- what the system refuses ----------------------------------------------------------------------------------------


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, at: int, code: int) -> None:
    """Make the at-th call of an os function fail, and every later one too (a full disk stays full).

    A rename fails once only: it needs no space, so that what was there can be put back.
    """
    real = getattr(os, name)
    calls = 0

    def refusing(*arguments: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at or (calls > at and name != "replace"):
            raise OSError(code, os.strerror(code))
        return real(*arguments, **more)

    monkeypatch.setattr(os, name, refusing)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("open", errno.ENOSPC, "full"),
        ("open", errno.EROFS, "NPU_GRAPH_KNOWLEDGE"),
        ("open", errno.EACCES, "NPU_GRAPH_KNOWLEDGE"),
        ("fsync", errno.ENOSPC, "full"),
        ("fsync", errno.EIO, "NPU_GRAPH_KNOWLEDGE"),
        ("replace", errno.ENOSPC, "full"),
    ],
)
def test_a_refused_write_says_so_and_changes_nothing(
    name: str, code: int, said: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_case(tmp_path, make_case(1))
    append_case(tmp_path, make_case(2))
    before = state(tmp_path)
    attempts: list[Callable[[], object]] = [
        lambda: append_case(tmp_path, make_case(3)),
        lambda: replace_case(tmp_path, make_case(1, direct_cause="changed")),
    ]
    for attempt in attempts:
        with monkeypatch.context() as patch:
            refuse(patch, name, at, code)
            try:
                attempt()
            except cli.CommandError as error:
                assert error.exit_code == cli.ABSENT
                assert said in str(error)
                assert "nothing was recorded" in str(error)
            else:
                before = state(tmp_path)  # fewer calls than `at`: it was written
        assert state(tmp_path) == before
        assert problems(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="file size limits are a POSIX matter")
def test_a_disk_that_fills_up_in_the_middle_of_a_write_changes_nothing(tmp_path: Path) -> None:
    for number in range(30):
        append_case(tmp_path, make_case(number, symptom="x" * 1000))
    before = state(tmp_path)
    # Files may grow to 20 KB: the case itself fits, history.md does not. -B: else compiled modules would be cut as well.
    limited = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n" + WRITER
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", limited, str(bundle.ROOT), str(tmp_path), "0", "1"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode != 0
    assert "nothing was recorded: the disk or quota is full" in done.stderr
    assert state(tmp_path) == before


def test_a_file_where_the_folder_should_be_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    with pytest.raises(cli.CommandError, match="NPU_GRAPH_KNOWLEDGE") as caught:
        append_case(tmp_path / "taken", make_case(1))
    assert caught.value.exit_code == cli.ABSENT
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "mine"


# --- the lock -------------------------------------------------------------------------------------------------------


def dead_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.mark.skipif(os.name != "posix", reason="on Windows a process is not asked, its lock ages")
def test_the_lock_of_a_dead_process_of_this_host_is_taken_over_at_once(tmp_path: Path) -> None:
    lock = tmp_path / ".history.lock"
    lock.write_text(f"{dead_process()} 0123 {socket.gethostname()}", encoding="utf-8")
    started = time.monotonic()
    append_case(tmp_path, make_case(1))
    assert time.monotonic() - started < 5
    assert not lock.exists()


@pytest.mark.parametrize("owner", ["1 0123 some-other-host", "", "garbage", "999999999999999999999 0 x"])
def test_the_lock_of_an_unknown_owner_is_taken_over_when_it_does_not_move(owner: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(owner, encoding="utf-8")
    started = time.monotonic()
    with FileLock(path, stale_seconds=0.3):
        assert time.monotonic() - started >= 0.3
    assert not path.exists()


def test_the_lock_of_a_living_owner_is_waited_for_and_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path), pytest.raises(cli.CommandError, match="held by another process"), FileLock(
        path, wait_seconds=0.2
    ):
        pytest.fail("two holders at once")
    with FileLock(path, wait_seconds=0.2):
        pass


def test_a_folder_in_the_locks_place_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / ".history.lock").mkdir()
    started = time.monotonic()
    with pytest.raises(cli.CommandError, match="is a folder where a lock file goes") as caught:
        append_case(tmp_path, make_case(1))
    assert caught.value.exit_code == cli.ABSENT
    assert time.monotonic() - started < 5


def test_a_stale_breaker_does_not_block_for_ever(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("garbage", encoding="utf-8")
    breaker = tmp_path / "lock.break"
    breaker.write_text("", encoding="utf-8")
    os.utime(breaker, (0, 0))
    with FileLock(tmp_path / "lock", stale_seconds=0.1, wait_seconds=10):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="on Windows a process is not asked, its lock ages")
def test_the_breaker_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    dead = f"{dead_process()} 0123 {socket.gethostname()}"
    for name in ("lock", "lock.break"):
        (tmp_path / name).write_text(dead, encoding="utf-8")
    started = time.monotonic()
    with FileLock(tmp_path / "lock"):
        assert time.monotonic() - started < 5
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """The os module as file_lock would find it on Windows: os.kill ends a process there, hard links may be refused."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("os.kill would end the process")

    fake = types.SimpleNamespace(**{**vars(os), "name": "nt", "kill": refuse, "O_BINARY": 0})
    monkeypatch.setattr(file_lock, "os", fake)
    return fake


def test_on_windows_no_process_is_asked_and_a_dead_owners_lock_ages(
    windows: types.SimpleNamespace, tmp_path: Path
) -> None:
    (tmp_path / "lock").write_text(f"{dead_process()} 0123 {socket.gethostname()}", encoding="utf-8")
    with FileLock(tmp_path / "lock", stale_seconds=0.2):
        pass
    append_case(tmp_path / "kb", make_case(1))
    assert problems(tmp_path / "kb") == []


def test_on_windows_a_file_that_somebody_has_open_is_replaced_a_moment_later(
    windows: types.SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, replace = [], Path.replace

    def replaced(source: Path, target: Path) -> Path:
        tries.append(target)
        if len(tries) < 4:
            raise PermissionError(errno.EACCES, "in use")
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", replaced)
    (tmp_path / "a").write_bytes(b"old")
    write_atomically(tmp_path / "a", b"new")
    assert state(tmp_path) == {"a": b"new"}
    assert len(tries) == 4


BARE_SYSTEM = """
import os, sys
# Neither POSIX nor Windows locks, no hard links, no fork, no sqlite: what every file system and every Python has.
for name in ("fcntl", "msvcrt", "_sqlite3", "sqlite3"):
    sys.modules[name] = None
for name in ("link", "fork", "lockf", "getuid"):
    if hasattr(os, name):
        delattr(os, name)
"""


def test_writers_need_no_locking_module_no_links_and_no_fork(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", BARE_SYSTEM + WRITER, str(bundle.ROOT), str(tmp_path)]
    writers = [
        subprocess.Popen(
            [*command, str(number), "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        for number in range(4)
    ]
    recorded: set[str] = set()
    for writer in writers:
        output, errors = writer.communicate(timeout=100)
        assert (writer.returncode, errors) == (0, "")
        recorded.update(output.split())
    assert len(recorded) == 80
    assert_nothing_is_lost(tmp_path, recorded)


def test_the_lock_rests_on_exclusive_creation_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: dict[str, int] = {}
    real = os.open

    def watched(path: str, flag: int, *more: int, **other: int) -> int:
        flags[Path(path).name] = flag
        return real(path, flag, *more, **other)

    monkeypatch.setattr(os, "open", watched)
    with FileLock(tmp_path / "lock"):
        assert flags["lock"] & os.O_EXCL
        assert flags["lock"] & os.O_CREAT
        with pytest.raises(FileExistsError):
            real(str(tmp_path / "lock"), flags["lock"])
    text = (bundle.ROOT / "npu_graph" / "file_lock.py").read_text(encoding="utf-8")
    assert "import fcntl" not in text
    assert "import msvcrt" not in text


def test_a_holder_that_lost_its_lock_leaves_history_md_to_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_case(tmp_path, make_case(1))
    monkeypatch.setattr(FileLock, "is_held", lambda self: False)
    append_case(tmp_path, make_case(2))
    monkeypatch.undo()
    assert any("lacks C-20260102-0000000002" in problem for problem in problems(tmp_path))
    append_case(tmp_path, make_case(3))
    assert problems(tmp_path) == []


def test_an_atomic_write_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a"
    write_atomically(target, b"old")
    monkeypatch.setattr(
        file_lock, "replace_file", lambda source, target: (_ for _ in ()).throw(OSError(errno.EIO, "no"))
    )
    with pytest.raises(OSError, match="no"):
        write_atomically(target, b"new")
    assert state(tmp_path) == {"a": b"old"}


# --- hands and merges -----------------------------------------------------------------------------------------------


def test_an_entry_written_into_history_md_by_hand_gets_its_own_file(tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    with (tmp_path / "history.md").open("a", encoding="utf-8") as history:
        history.write("\n" + render_case(make_case(2)))
    assert any("C-20260102-0000000002 has no case file" in problem for problem in problems(tmp_path))
    written = append_case(tmp_path, make_case(3))
    assert "C-20260102-0000000002 was written by hand" in written.notes[0]
    assert len(read_cases([tmp_path]).entries) == 3
    assert problems(tmp_path) == []


@pytest.mark.parametrize("edit", [("boom 1", "boom, edited"), ("- Stage: capture", "- Stage: kapture\n- Nonsense: x")])
def test_an_edit_of_history_md_is_reported_by_line_and_kept_aside_never_lost(
    edit: tuple[str, str], tmp_path: Path
) -> None:
    append_case(tmp_path, make_case(1))
    append_case(tmp_path, make_case(2))
    history = tmp_path / "history.md"
    history.write_text(history.read_text(encoding="utf-8").replace(*edit, 1), encoding="utf-8")
    line = 1 + history.read_text(encoding="utf-8").split("\n").index("## C-20260102-0000000001 — case 1")
    assert any(
        f"history.md:{line}: C-20260102-0000000001 differs from its case file" in text for text in problems(tmp_path)
    )
    edited = history.read_bytes()
    compile_history(tmp_path)
    assert problems(tmp_path) == []
    if "Nonsense" not in edit[1]:  # a whole entry with another text: somebody's work
        assert [path.read_bytes() for path in tmp_path.glob("*.bak")] == [edited]


def test_an_unreadable_hand_written_entry_is_kept_aside(tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    with (tmp_path / "history.md").open("a", encoding="utf-8") as history:
        history.write("\n## C-20260102-00000000ff — half\n\n- Stage: nowhere\n")
    written = append_case(tmp_path, make_case(2))
    assert any("has a fault and no case file" in note for note in written.notes)
    (backup,) = tmp_path.glob("*.bak")
    assert "C-20260102-00000000ff" in backup.read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["above the entries", "between the entries", "in an entry"])
def test_a_remark_that_somebody_wrote_into_history_md_is_kept_aside(place: str, tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    history = tmp_path / "history.md"
    text = history.read_text(encoding="utf-8")
    remark = "Ask the night shift before you touch the okapi bus.\n"
    added = {
        "above the entries": text.replace("\n## ", f"\n{remark}\n## ", 1),
        "between the entries": text + "\n## Notes of ours\n\n" + remark,
        "in an entry": text + remark,
    }[place]
    history.write_text(added, encoding="utf-8")
    written = append_case(tmp_path, make_case(2))
    (backup,) = tmp_path.glob("*.bak")
    assert remark in backup.read_text(encoding="utf-8")
    assert any(f"the former history.md is kept as {backup.name}" in note for note in written.notes)
    append_case(tmp_path, make_case(3))
    compile_history(tmp_path)
    assert list(tmp_path.glob("*.bak")) == [backup], "once is enough"
    assert problems(tmp_path) == []


def test_a_history_md_of_whole_entries_needs_no_copy(tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    history = tmp_path / "history.md"
    history.write_text(history.read_text(encoding="utf-8") + "\n" + render_case(make_case(2)), encoding="utf-8")
    compile_history(tmp_path)
    assert list(tmp_path.glob("*.bak")) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["cases/C-20260102-00000000ff.md", "history.md", ".history.lock"])
def test_a_pipe_in_a_files_place_blocks_nobody(name: str, tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert make_case(1).id in read_cases([tmp_path]).entries
    if name == ".history.lock":
        append_case(tmp_path, make_case(2))  # its owner signs at once, and a pipe is signed by nobody
    elif name == "history.md":
        with pytest.raises(cli.CommandError, match="nothing was recorded"):
            append_case(tmp_path, make_case(2))
    else:
        assert any("not a regular file" in problem for problem in problems(tmp_path))


def test_one_broken_case_file_is_reported_by_line_and_the_rest_works(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        append_case(tmp_path, make_case(number))
    path = tmp_path / "cases" / f"{make_case(2).id}.md"
    path.write_text(path.read_text(encoding="utf-8").replace("- Stage: capture", "- Stage: kapture"), encoding="utf-8")
    (tmp_path / "cases" / f"{make_case(3).id}.md").write_bytes(b"\xff\xfe\x00garbage\n" * 3)
    found = problems(tmp_path)
    assert any(f"{path}:1: C-20260102-0000000002: stage 'kapture'" in text for text in found)
    assert any("0000000003.md:1: no entry" in text for text in found)
    append_case(tmp_path, make_case(4))
    assert {identity[-1] for identity in read_cases([tmp_path]).entries} == {"1", "2", "4"}


def test_the_temporary_files_of_killed_writers_are_swept_later(tmp_path: Path) -> None:
    append_case(tmp_path, make_case(1))
    old, young = tmp_path / "cases" / ".tmp-0123456789abcdef-x.md", tmp_path / "cases" / ".tmp-1123456789abcdef-x.md"
    for path in (old, young):
        path.write_text("half", encoding="utf-8")
    os.utime(old, (0, 0))
    compile_history(tmp_path)
    assert (old.exists(), young.exists()) == (False, True)
    assert set(read_cases([tmp_path]).entries) == {make_case(1).id}


def test_counts_are_those_of_the_cases(tmp_path: Path) -> None:
    recorded = [make_case(1), make_case(2), make_case(3, stage="memory", status="retired", retired_because="x")]
    counts = count_cases(recorded)
    assert case_store.parse_counts("<!-- counts -->\n" + case_store.render_counts(counts)) == counts
    assert (counts.total, counts.of("capture", "confirmed"), counts.of("memory", "retired")) == (3, 2, 1)
    append_case(tmp_path, recorded[0])
    history = tmp_path / "history.md"
    history.write_text(
        history.read_text(encoding="utf-8").replace("| 1 | 0 | 0 | 1 |", "| 7 | 0 | 0 | 7 |"), encoding="utf-8"
    )
    assert any("counts at the top" in problem for problem in problems(tmp_path))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_merges_the_cases_of_two_people_without_a_conflict(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = [
            "git",
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@example.org",
            "-c",
            "commit.gpgsign=false",
            *arguments,
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    folder = tmp_path / ".npu-graph" / "knowledge"
    git("init", "-q", "-b", "main", ".")
    append_case(folder, make_case(1))
    git("add", "-A")
    git("commit", "-qm", "base")
    git("checkout", "-qb", "colleague")
    for number in (2, 3):
        append_case(
            folder, make_case(number, symptom="Traceback (most recent call last):\n  shared line\nRuntimeError: a")
        )
    git("add", "-A")
    git("commit", "-qm", "hers")
    git("checkout", "-q", "main")
    append_case(folder, make_case(4, symptom="Traceback (most recent call last):\n  shared line\nRuntimeError: b"))
    replace_case(folder, make_case(1, status="retired", retired_because="wrong"))
    git("add", "-A")
    git("commit", "-qm", "his")
    git("merge", "-q", "colleague", "-m", "both")
    assert git("status", "--porcelain") == ""
    base = read_cases([folder])
    assert {identity[-1]: entry.case.status for identity, entry in base.entries.items()} == {
        "1": "retired",
        "2": "confirmed",
        "3": "confirmed",
        "4": "confirmed",
    }
    assert base.entries[make_case(3).id].case.symptom.endswith("RuntimeError: a")
    assert base.problems == []
    assert any("run kb.py compile" in problem for problem in problems(folder))
    compile_history(folder)
    assert problems(folder) == []


def test_the_shipped_cases_are_sound_and_compiled() -> None:
    result = check_folders([bundle.SEED_KNOWLEDGE])
    assert result.problems == []
    assert result.cases >= 25
    assert json.dumps(sorted(read_cases([bundle.SEED_KNOWLEDGE]).entries))
