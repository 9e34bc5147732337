"""Exceptions are read as printed: frames, whole message, chain, and one process apart from another."""

from __future__ import annotations

from npu_graph.cli import InputText
from npu_graph.diagnosis.reading import read_report
from npu_graph.diagnosis.tracebacks import Raised, find_exceptions


def exceptions(text: str) -> list[Raised]:
    return find_exceptions(read_report([InputText("-", text, 0)]).lines)


ONE = 'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\n    g()\nValueError: one\n'
CUT = 'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\n'


def test_no_two_processes_share_a_chain() -> None:
    """A traceback whose exception is cut off takes a chain too."""
    text = "".join(f"[rank0]: {line}\n" for line in (CUT + CUT + ONE).splitlines())
    text += "".join(f"[rank1]: {line}\n" for line in (ONE + ONE).splitlines())
    found = exceptions(text)
    assert len(found) == 3 and len({item.chain for item in found}) == 3


CHAIN = """Traceback (most recent call last):
  File "/app/model.py", line 12, in forward
    n = mask.sum().item()
RuntimeError: operator():../torch_npu/csrc/aten/common/LocalScalarDenseNpu.cpp:24 NPU function error: c10_npu::acl::AclrtSynchronizeStreamWithTimeout(copy_stream), error code is 107027
[ERROR] 2026-11-30-15:48:38 (PID:20708, Device:0, RankID:-1) ERR00100 PTA call acl api failed.
[PID: 20708] 2026-11-30-15:48:38.721.101 Not_Supported(EE1016): stream is captured
        TraceBack (most recent call last):
       rtStreamSynchronizeWithTimeout execution failed, reason=stream is captured[FUNC:FuncErrorReason][FILE:x.cc][LINE:53]

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/run.py", line 40, in <module>
    with torch_npu.npu.graph(g):
  File "/usr/lib/python3.11/site-packages/torch_npu/npu/graphs.py", line 933, in __exit__
    self.npu_graph.capture_end()
RuntimeError: capture_end:../torch_npu/csrc/core/npu/NPUGraph.cpp:371 NPU function error: endCaptureErr, error code is 107025
"""


def test_a_chain_keeps_its_order_and_relation() -> None:
    first, second = exceptions(CHAIN)
    assert (first.relation, second.relation) == ("", "during")
    assert first.chain == second.chain
    assert first.frames[-1].function == "forward"
    assert first.line == 4
    assert "ERR00100" in first.text
    assert "reason=stream is captured" in first.text
    assert [frame.line for frame in second.frames] == [40, 933]


def test_a_direct_cause_is_told_from_handling() -> None:
    text = "Traceback (most recent call last):\nValueError: a\n\nThe above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\nRuntimeError: b\n"
    assert [item.relation for item in exceptions(text)] == ["", "caused_by"]


def test_interleaved_ranks_are_read_apart() -> None:
    rows = [
        ("0", "Traceback (most recent call last):"),
        ("1", "Traceback (most recent call last):"),
        ("0", '  File "/a.py", line 1, in f'),
        ("1", '  File "/b.py", line 2, in g'),
        ("1", "    g()"),
        ("0", "    f()"),
        ("1", "KeyError: 'one'"),
        ("0", "ValueError: zero"),
    ]
    found = exceptions("\n".join(f"[rank{rank}]: {text}" for rank, text in rows))
    assert {(item.stream, item.type, item.frames[0].file) for item in found} == {
        ("rank0", "ValueError", "/a.py"),
        ("rank1", "KeyError", "/b.py"),
    }


def test_half_a_stack_still_gives_its_frames() -> None:
    text = '    self.graphs[self.bs].update(\n  File "/x/torch_npu/npu/graphs.py", line 243, in update\n    self.graph_dispatch_mode.update_capture_record(cpu_update_input)\nRuntimeError: graph_task_update_end: error\n'
    (found,) = exceptions(text)
    assert found.frames[0].function == "update"


def test_an_exception_named_inside_a_log_sentence_is_found() -> None:
    text = "E1130 15:48:38.722000 20708 torch_npu/npu/graphs.py:918] [__cudagraphs] NPUGraph: ERROR — capture failed: RuntimeError: operator() error code is 107027"
    (found,) = exceptions(text)
    assert found.type == "RuntimeError"
    assert found.message.startswith("operator()")


def test_prose_that_mentions_errors_is_not_an_exception() -> None:
    assert (
        exceptions(
            "We saw many errors. The service reports torch.OutOfMemoryError, but memory is free.\nNote: this is fine."
        )
        == []
    )


def test_a_module_qualified_name_without_error_suffix_is_an_exception_in_a_traceback() -> None:
    text = 'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    f()\ntorch._dynamo.exc.Unsupported: call_method\n'
    (found,) = exceptions(text)
    assert found.type == "torch._dynamo.exc.Unsupported"


def test_members_of_an_exception_group_are_read() -> None:
    text = '  + Exception Group Traceback (most recent call last):\n  |   File "/a.py", line 1, in <module>\n  | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File "/b.py", line 5, in work\n    | ValueError: inner\n    +------------------------------------\n'
    assert "ValueError" in [item.type for item in exceptions(text)]


def test_a_frame_whose_head_was_cut_off_is_read() -> None:
    text = 'site-packages/pkg/passes.py", line 46, in rewrite\n    first = node.args[0]\nIndexError: tuple index out of range'
    (raised,) = exceptions(text)
    assert [(frame.file, frame.line, frame.function) for frame in raised.frames] == [
        ("site-packages/pkg/passes.py", 46, "rewrite")
    ]
