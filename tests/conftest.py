"""Import paths and the fixtures that every test may use."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import pytest

HERE = Path(__file__).resolve().parent
# A measurement of coverage has a Python of its own that scripts are started with.
sys.executable = os.environ.get("NPU_GRAPH_COVERAGE_PYTHON", sys.executable)
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "mcp")]


@pytest.fixture
def diagnose_text(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that diagnoses a text with the shipped knowledge only."""
    from npu_graph import bundle
    from npu_graph.cli import InputText
    from npu_graph.diagnosis.record import diagnose

    def run(*texts: str, language: str = "", folders: Sequence[Path] = (bundle.SEED_KNOWLEDGE,)) -> dict[str, Any]:
        return diagnose([InputText("-", text, 0) for text in texts], language, folders)

    return run


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Return a function that gives work(value) of a parametrised test's case, two cases at a time.

    The first case of a test starts the work of all its selected cases: each mostly waits for a process to import torch.
    """
    started: dict[str, Future[Any]] = {}
    with ThreadPoolExecutor(2) as pool:

        def result(node: pytest.Function, parameter: str, work: Callable[[Any], Any]) -> Any:
            for item in request.session.items:
                if getattr(item, "function", None) is node.function and (key := item.nodeid) not in started:
                    started[key] = pool.submit(work, item.callspec.params[parameter])
            return started[node.nodeid].result()

        yield result
        for future in started.values():  # of a run that was stopped
            future.cancel()


@pytest.fixture(scope="session")
def built_simulator() -> None:
    """Compile the simulator before the first process with a time limit starts it."""
    build = "import sys; sys.path.insert(0, sys.argv[1]); from npu_sim import build; build.library_folder('9.1.0')"
    python = os.environ.get("NPU_SIM_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", build, str(HERE.parent)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
