#!/usr/bin/env python3
"""Read the logs of all nodes of a Ray cluster, each next to its files, and report on the cluster as a whole.

Usage: cluster_logs.py --path '~/ascend/log' [--path ...] [--address auto] [--output text|json|md|trace] [--partial]

One scan runs on every node that is alive; only partial results move. `~` and $VARIABLES in a path are those of the
node. A node that dies or does not answer in time is reported missing, the rest is kept. Needs Ray, of the version the
cluster runs (`pip install ray`); nothing has to be installed on the nodes.
Exit codes: 0 done, no error and no anomaly; 1 done, an error, an anomaly or a missing node; 2 wrong usage; 3 no usable
input; 4 Ray is absent or no cluster answers; 5 internal error.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from npu_graph import cli
from npu_graph.logs import partial, record
from npu_graph.logs.render import render
from npu_graph.logs.trace import to_trace

EXAMPLES = (
    "python3 cluster_logs.py --path '~/ascend/log' --path /var/log/vllm --summary",
    "python3 cluster_logs.py --address 10.0.0.1:6379 --path '$ASCEND_PROCESS_LOG_PATH' --output json",
)
_POLL_S = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    ray = _connect(options.address)
    try:
        parts = gather(ray, options.path, options.jobs, options.timeout)
    finally:
        ray.shutdown()
    whole = partial.merge(parts)
    if not any(segment.lines for _, segment in whole.sources()):
        reasons = [f"{host}: {reason}" for host, reason in sorted(whole.missing)]
        reasons += [f"{host}: {path}: {reason}" for host, path, reason in sorted(whole.skipped)]
        detail = reasons[0] if reasons else "no node has a log file there"
        raise cli.CommandError(f"nothing was read: {detail}; check --path on the nodes", cli.NO_INPUT)
    if options.partial:
        cli.write_text(json.dumps(whole.to_record(), ensure_ascii=False, separators=(",", ":")))
        return cli.DONE
    result = record.analyse(whole, host=" ", language=options.lang)
    if options.output == "json":
        cli.write_json(result)
    elif options.output == "trace":
        cli.write_text(json.dumps(to_trace(result), ensure_ascii=False, separators=(",", ":")))
    else:
        text = render(result, options.lang or "en", options.output == "md", options.summary)
        cli.write_text(text if options.all else cli.bound_output(text))
    return cli.NEGATIVE if result["first_failure"] or result["anomalies"] or whole.missing else cli.DONE


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser("Read the logs of all nodes of a Ray cluster where they lie.", EXAMPLES)
    parser.add_argument("--path", action="append", required=True, metavar="PATH", help="file or folder on every node")
    parser.add_argument("--address", default="auto", help="of the Ray cluster (default auto: the one running here)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes per node (default 2)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="seconds to wait for all nodes (600)")
    parser.add_argument("--output", choices=("text", "json", "md", "trace"), default="text", help="form of the report")
    parser.add_argument("--summary", action="store_true", help="the short report")
    parser.add_argument("--all", action="store_true", help="do not shorten a long report")
    parser.add_argument("--partial", action="store_true", help="print the merged partial result and no report")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language of the report (default en)")
    return parser


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise cli.CommandError("Ray is absent: pip install ray (the cluster's version)", cli.ABSENT) from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = cli.one_line(str(error), 160)
        raise cli.CommandError(
            f"no Ray cluster answers at {address!r}: {reason}; start one or give --address", 4
        ) from None
    return ray


def gather(ray: Any, paths: Sequence[str], jobs: int, timeout: float) -> list[partial.Partial]:
    """Run one scan per node and return the parts; a node without an answer becomes a missing part."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    names = _names(nodes)
    code = ray.put(packed_code())
    waiting: dict[Any, str] = {}
    remote = ray.remote(num_cpus=0, max_retries=0)(scan_here)
    for node in nodes:
        place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        name = names[node["NodeID"]]
        waiting[remote.options(scheduling_strategy=place).remote(code, list(paths), name, jobs)] = name
    parts: list[partial.Partial] = []
    end = time.monotonic() + timeout
    while waiting and time.monotonic() < end:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_POLL_S)
        for reference in ready:
            name = waiting.pop(reference)
            try:
                parts.append(partial.Partial.from_record(json.loads(ray.get(reference))))
            except (ray.exceptions.RayError, ValueError) as error:
                parts.append(_missing(name, cli.one_line(f"{type(error).__name__}: {error}", 160)))
        if sys.stderr.isatty():
            print(f"\r{len(nodes) - len(waiting)} of {len(nodes)} nodes ", end="", file=sys.stderr, flush=True)
    for reference, name in waiting.items():
        ray.cancel(reference, force=True)
        parts.append(_missing(name, f"no answer within {timeout:g} s"))
    return parts


def _names(nodes: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return a name per node: its host, with the node's id where several nodes share one."""
    hosts = [node["NodeManagerHostname"] for node in nodes]
    return {
        node["NodeID"]: host if hosts.count(host) == 1 else f"{host}-{node['NodeID'][:6]}"
        for node, host in zip(nodes, hosts)
    }


def _missing(host: str, reason: str) -> partial.Partial:
    part = partial.Partial()
    part.missing.add((host, reason))
    return part


def packed_code() -> bytes:
    """Return the shared package as a zip that Python imports from, so that a node needs nothing but Python and Ray."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((ROOT / "npu_graph").rglob("*.py")):
            archive.write(path, str(path.relative_to(ROOT)))
    return out.getvalue()


def scan_here(code: bytes, paths: list[str], name: str, jobs: int) -> str:
    """Scan this node's files; runs on the node, in a process that has only what `code` brings."""
    import hashlib
    import tempfile

    archive = Path(tempfile.gettempdir()) / f"npu-graph-{os.getuid() if hasattr(os, 'getuid') else 0}-{os.getpid()}.zip"
    digest = hashlib.sha256(code).hexdigest()
    if not archive.exists() or hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        archive.write_bytes(code)
    sys.path.insert(0, str(archive))
    try:
        from npu_graph.logs import engine
        from npu_graph.logs import record as records
        from npu_graph.logs.context import attach_contexts
        from npu_graph.logs.failures import find_failures
        from npu_graph.logs.inputs import find_sources
        from npu_graph.logs.timeline import build_timeline

        found = find_sources([os.path.expandvars(str(Path(path).expanduser())) for path in paths])
        part = engine.scan(found, engine.Options(jobs=jobs, host=name))
        failures = find_failures(part, build_timeline(part))
        attach_contexts(part, records.first_places(failures), name)
        return json.dumps(part.to_record(), separators=(",", ":"))
    finally:
        sys.path.remove(str(archive))
        archive.unlink()


if __name__ == "__main__":
    cli.run(main)
