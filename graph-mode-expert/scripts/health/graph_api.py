"""Group api: the graph-mode names that this torch_npu release should have, their signatures, and what came later."""

from __future__ import annotations

from pathlib import Path

from . import tables, versions
from .api_reader import Api, ReadSource, read_api
from .host import Host
from .model import FAIL, PASS, SKIP, WARN, Check, check, critical

# Without these nothing can be captured.
CORE = ("torch.npu.NPUGraph", "torch.npu.NPUGraph.capture_begin", "torch.npu.NPUGraph.replay", "torch.npu.graph")
# What a feature is called, and the name of the API table that shows its presence.
FEATURES = (
    ("capture and replay", "torch.npu.NPUGraph"),
    ("memory pools shared between graphs", "torch.npu.graph_pool_handle"),
    ("make_graphed_callables", "torch.npu.make_graphed_callables"),
    ("task groups (manual parameter update)", "torch.npu.graph_task_update_begin"),
    ("NPUGraph.update (auto_dispatch_capture)", "torch.npu.NPUGraph.update"),
    ("backend npugraphs", "torch.compile(backend='npugraphs')"),
    ("backend npugraph_ex", "torch.compile(backend='npugraph_ex')"),
    ("npugraph_ex without torchair", "torch_npu.dynamo.npugraph_ex"),
    ("JSON debug dump", "torch.npu.NPUGraph.debug_dump"),
    ("super kernel", "torch.npu.NPUGraph.super_kernel_optimize"),
    ("handlers of updatable operators", "torch.npu.register_npu_graph_handler"),
    ("TORCH_NPU_LOGS=+aclgraph", "TORCH_NPU_LOGS=aclgraph"),
    ("NPUGRAPH log lines", "TORCH_NPU_LOGS=npugraph"),
    ("conditional nodes", "torch_npu.npu._npugraph_conditional_nodes"),
)


def run(host: Host) -> list[Check]:
    """Check the group."""
    installed = host.packages().get("torch-npu", "")
    answer = host.asked("torch_npu")
    if answer is None and installed:
        answer = host.probe("torch_npu", *tables.probed_names())
    if answer is not None and answer.works:
        found = answer.result or {}
        installed = installed or versions.public(found["version"])
        api, source = live_api(found), "imported"
    else:
        folder = (host.probe("packages").result or {}).get("folders", {}).get("torch_npu", "")
        if not folder:
            return [check("api.names", "no_torch_npu", SKIP)]
        api, source = read_api(_reader(Path(folder))), "read from its sources, since it cannot be imported"
    wheel = tables.nearest_wheel(installed)
    if not wheel:
        evidence = [f"torch_npu {installed}; table: {tables.api_wheels()[0]} to {tables.api_wheels()[-1]}"]
        checks = [check("api.names", "unknown_release", SKIP, evidence, torch_npu=installed)]
        return [*checks, *_check_core(api, installed)]
    expected = tables.api_of(wheel)
    # What cannot be seen by importing is not missing.
    if source == "imported":
        expected = {name: shape for name, shape in expected.items() if not name.startswith("TORCH_NPU_LOGS")}
    return [*_check_core(api, installed), *compare(api, expected, installed, wheel, source), check_features(wheel)]


def live_api(found: dict[str, object]) -> Api:
    """Return the API as an imported package shows it, in the words of the table."""
    names = found.get("api")
    api: Api = {name: str(shape or "") for name, shape in names.items()} if isinstance(names, dict) else {}
    backends = found.get("backends")
    for backend in ("npu", "npugraphs", "npugraph_ex"):
        if isinstance(backends, list) and backend in backends:
            api[f"torch.compile(backend='{backend}')"] = ""
    return api


def _reader(folder: Path) -> ReadSource:
    def read_source(name: str) -> str | None:
        try:
            return (folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    return read_source


def _check_core(api: Api, installed: str) -> list[Check]:
    missing = [name for name in CORE if name not in api]
    if missing:
        return [critical("api.core", "missing", [f"missing: {name}" for name in missing], torch_npu=installed)]
    return [check("api.core", "ok", PASS, [", ".join(CORE)])]


def compare(api: Api, expected: Api, installed: str, wheel: str, source: str) -> list[Check]:
    """Say which names are missing, and which signatures differ from those of the wheel compared with."""
    title = f"torch_npu {installed} ({source}) against wheel {wheel}"
    missing = sorted(name for name in expected if name not in api and name not in CORE)
    changed = sorted(name for name in expected if name in api and expected[name] and api[name] != expected[name])
    same = versions.key(installed) == versions.key(wheel)
    values = {"torch_npu": installed, "wheel": wheel}
    if missing:
        status = FAIL if same else WARN
        names = check("api.names", "missing", status, [title, *(f"missing: {name}" for name in missing)], **values)
    else:
        names = check("api.names", "ok", PASS, [title, f"{len(expected)} names"])
    if changed:
        evidence = [f"{name}: expected {expected[name]}, found {api[name]}" for name in changed]
        return [names, check("api.signatures", "changed", WARN, [title, *evidence], **values)]
    return [names, check("api.signatures", "ok", PASS, [f"{sum(map(bool, expected.values()))} signatures agree"])]


def check_features(wheel: str) -> Check:
    """Say which features this release has, and from which wheel of the same torch the others are to be had."""
    have = tables.api_of(wheel)
    present = [title for title, name in FEATURES if name in have]
    later = [
        f"needs a newer torch_npu: {title} ({first_with(name, wheel)})" for title, name in FEATURES if name not in have
    ]
    evidence = ["has: " + ", ".join(present), *later]
    if "torch.npu.graph" in have and "auto_dispatch_capture" not in have["torch.npu.graph"]:
        evidence.append("torch.npu.graph takes capture_error_mode as its fourth argument; from 7.1.0 it is the fifth")
    return check("api.features", "ok", PASS, evidence)


def first_with(name: str, wheel: str) -> str:
    """Return the oldest wheel of the same torch that has a name, else the oldest wheel of any."""
    holders = sorted(
        {one for entry in tables.api_entries() if entry.name == name for one in entry.wheels}, key=versions.key
    )
    same = [one for one in holders if versions.key(one)[0] == versions.key(wheel)[0]]
    return f"from {same[0]}" if same else (f"from {holders[0]}, another torch" if holders else "in no wheel read")
