"""Builds the record `npu-graph/log/1` from scanned logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from npu_graph.cli import InputText
from npu_graph.diagnosis.error_lines import find_codes
from npu_graph.diagnosis.reading import read_report
from npu_graph.knowledge import Knowledge
from npu_graph.logs import anomalies as judging
from npu_graph.logs.anomalies import Cadence, cadence
from npu_graph.logs.averages import median
from npu_graph.logs.blind_spots import find_blind_spots
from npu_graph.logs.context import attach_contexts
from npu_graph.logs.failures import Failures, Group, Occurrence, find_failures
from npu_graph.logs.lines import BAD_LEVELS, parse_line
from npu_graph.logs.partial import Partial
from npu_graph.logs.processes import merged_processes
from npu_graph.logs.segment import Process
from npu_graph.logs.signatures import find_event
from npu_graph.logs.stamps import DAY, SECOND, Clock, show
from npu_graph.logs.timeline import WAY_MEANS, Place, Timeline, build_timeline, point_record
from npu_graph.patterns import KNOWN_FROM, match_patterns

SCHEMA = "npu-graph/log/1"
MAX_CLUSTERS_SHOWN = 50
MAX_TIMELINE = 20000
_MAX_ECHOES = 12
_CODED_CLUSTERS = 8


def analyse(
    partial: Partial,
    limits: dict[str, float] | None = None,
    rank: str = "",
    host: str = "",
    folders: Sequence[Path] | None = None,
    language: str = "",
) -> dict[str, Any]:
    """Return the record of scanned logs.

    Args:
        partial: what scanning found; the lines around the first failure are added to it.
        limits: thresholds, by default those of anomalies.THRESHOLDS.
        rank: only this rank's captures, replays and errors, '' for all.
        host: the host whose files can be read again for context.
        folders: knowledge folders, by default the bundle's seed and its overlays.
        language: of the attached diagnosis: 'en', 'zh', or '' to follow the excerpt.
    """
    knowledge = Knowledge(folders)
    limits = {**judging.defaults(), **(limits or {})}
    processes = merged_processes(partial)
    ranks = {name: label for name, (_, label) in processes.items()}
    timeline = build_timeline(partial)
    if rank:
        timeline = _only_rank(timeline, {name for name, label in ranks.items() if label == rank})
    span = _span(partial, processes)
    failures = find_failures(partial, timeline)
    if rank:
        failures = _failures_of_rank(failures, {name for name, label in ranks.items() if label == rank})
    paces = [cadence(item) for item in timeline.replays]
    found = judging.find_anomalies(timeline, processes, span[1], limits, paces)
    if failures.first is not None:
        attach_contexts(partial, [(failures.first.place, _own_time(failures.first))], host)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "partial": partial.interrupted or bool(partial.missing),
        "input": _input(partial),
        "span": {"first_us": span[0], "last_us": span[1], "first": show(span[0]), "last": show(span[1])},
        "levels": _summed(segment.levels for _, segment in partial.sources()),
        "formats": _summed(segment.forms for _, segment in partial.sources()),
        "processes": [_process_record(name, *processes[name], timeline) for name in sorted(processes)],
        "captures": _capture_record(timeline, ranks),
        "replays": _replay_record(timeline, paces, ranks),
        "compiles": [{**point_record(item), "rank": ranks.get(item.process, "")} for item in timeline.compiles],
        "capture_phases": [{**point_record(item), "rank": ranks.get(item.process, "")} for item in timeline.totals],
        "updates": _update_record(timeline),
        "timeline": _timeline_record(timeline, ranks),
        "anomalies": [_anomaly_record(item, ranks) for item in found],
        "errors": _error_record(failures, ranks, knowledge),
        "first_failure": _first_failure(failures, ranks, partial),
        "clock": _clock_record(timeline, failures, partial),
        "blind_spots": find_blind_spots(partial, timeline),
        "thresholds": limits,
        "diagnosis": None,
    }
    text = excerpt(record)
    if text:
        record["diagnosis"] = _diagnosis(text, language, knowledge)
    return record


def excerpt(record: dict[str, Any]) -> str:
    """Return the telling lines around the first failure, ready for diagnose.py; '' when there is no failure.

    Routine lines (statistics, allocations, replays, other INFO and DEBUG) are left out: between them, a diagnosis
    would find words that have nothing to do with the failure.
    """
    first = record["first_failure"]
    if first is None:
        return ""
    clock = Clock.after_dated_line(first["time_us"] or 0)
    lines = [item["text"] for item in first["context"] if item["line"] == first["line"] or _tells(item["text"], clock)]
    return "\n".join(lines or [first["text"]]) + "\n"


def _tells(text: str, clock: Clock) -> bool:
    line = parse_line(text.encode("utf-8", "replace"), clock)
    if line.level in BAD_LEVELS or not line.level:
        return True
    event = find_event(line.text)
    return line.level == "WARNING" if event is None else event[0].kind != "replay"


def _only_rank(timeline: Timeline, wanted: set[str]) -> Timeline:
    return timeline._replace(
        captures=[item for item in timeline.captures if item.process in wanted],
        compiles=[item for item in timeline.compiles if item.process in wanted],
        totals=[item for item in timeline.totals if item.process in wanted],
        updates=[item for item in timeline.updates if item[0].process in wanted],
        points=[item for item in timeline.points if item.process in wanted],
        replays=[item for item in timeline.replays if item.process in wanted],
    )


def _failures_of_rank(failures: Failures, wanted: set[str]) -> Failures:
    everything = [item for item in [failures.first, *failures.others, *failures.echoes] if item is not None]
    own = [item for item in everything if item.process in wanted]
    real = [item for item in own if not item.echo] or own
    first = real[0] if real else None
    return failures._replace(
        first=first,
        groups=[group for group in failures.groups if wanted & set(group.processes)],
        others=[item for item in failures.others if item.process in wanted and item is not first],
        echoes=[item for item in failures.echoes if item.process in wanted and item is not first],
    )


def _span(partial: Partial, processes: dict[str, tuple[Process, str]]) -> tuple[int | None, int | None]:
    firsts = [segment.first_us for _, segment in partial.sources() if segment.first_us is not None]
    lasts = [segment.last_stamp[0] for _, segment in partial.sources() if segment.last_stamp is not None]
    firsts += [process.first[1] for process, _ in processes.values() if process.first is not None]
    lasts += [process.last[1] for process, _ in processes.values() if process.last is not None]
    return (min(firsts) if firsts else None), (max(lasts) if lasts else None)


def _input(partial: Partial) -> dict[str, Any]:
    sources = partial.sources()
    counts = _summed(segment.counts for _, segment in sources)
    return {
        "lines": sum(segment.lines for _, segment in sources),
        "bytes": sum(info.size for info, _ in sources),
        "hosts": sorted({info.host for info, _ in sources}),
        "sources": [
            {
                "source": info.id,
                "bytes": info.size,
                "lines": segment.lines,
                "first_us": segment.first_us,
                "last_us": segment.last_stamp[0] if segment.last_stamp else None,
                "year_from": info.clock,
                "utc_offset_min": info.zone // (60 * SECOND) if info.zone is not None else None,
                "notes": list(info.notes),
            }
            for info, segment in sources
        ],
        "skipped": [{"host": a, "path": b, "reason": c} for a, b, c in sorted(partial.skipped)],
        "missing": [{"host": a, "reason": b} for a, b in sorted(partial.missing)],
        "interrupted": partial.interrupted,
        **{name: counts.get(name, 0) for name in ("long_lines", "glued_records")},
    }


def _summed(parts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, number in part.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _process_record(name: str, process: Process, rank: str, timeline: Timeline) -> dict[str, Any]:
    return {
        "process": name,
        "rank": rank,
        "names": sorted(process.names),
        "formats": sorted(process.forms),
        "lines": process.lines,
        "first_us": process.first[1] if process.first else None,
        "last_us": process.last[1] if process.last else None,
        "captures_from": timeline.ways.get(name, []),
    }


def _capture_record(timeline: Timeline, ranks: dict[str, str]) -> dict[str, Any]:
    captures = timeline.captures
    seconds = sorted(item.total_s for item in captures if item.total_s is not None)
    return {
        "count": len(captures),
        "complete": sum(item.state == "complete" for item in captures),
        "failed": sum(item.state == "failed" for item in captures),
        "open": sum(item.state == "open" for item in captures),
        "total_s": round(sum(seconds), 6),
        "median_s": round(median(seconds), 6) if seconds else None,
        "max_s": seconds[-1] if seconds else None,
        "from": sorted({WAY_MEANS[item.way] for item in captures}),
        "list": [
            {
                "time_us": item.us,
                "process": item.process,
                "rank": ranks.get(item.process, ""),
                "graph": item.graph,
                "state": item.state,
                "seconds": item.total_s,
                "forward_s": item.forward_s,
                "instantiate_s": item.instantiate_s,
                "resolution_s": item.resolution_s,
                "source": item.place.source,
                "line": item.place.line,
            }
            for item in captures[:MAX_TIMELINE]
        ],
    }


def _replay_record(timeline: Timeline, paces: Sequence[Cadence], ranks: dict[str, str]) -> dict[str, Any]:
    graphs: list[dict[str, Any]] = []
    for item, pace in zip(timeline.replays, paces):
        graphs.append(
            {
                "process": item.process,
                "rank": ranks.get(item.process, ""),
                "graph": item.graph,
                "capture_number": item.generation,
                "count": item.replays.count,
                "first_us": item.replays.first[1] if item.replays.first else None,
                "last_us": item.replays.last,
                "interval_p50_us": pace.p50,
                "interval_p99_us": pace.p99,
                "idle_gaps": pace.idle_gaps,
                "idle_from_us": pace.idle_us,
                "clock_went_back": item.replays.back,
                "longest": [{"gap_us": -gap, "line": line, "time_us": us} for gap, line, us in item.replays.longest],
                "sources": list(item.sources),
            }
        )
    graphs.sort(key=lambda item: (-item["count"], item["process"], item["graph"]))
    return {
        "count": sum(item["count"] for item in graphs),
        "measure": "time between enqueues of one graph (no log holds the end of a replay)",
        "from": sorted({WAY_MEANS[item.way] for item in timeline.replays}),
        "graphs": graphs,
    }


def _update_record(timeline: Timeline) -> dict[str, Any]:
    seconds = sorted(value for _, value in timeline.updates if value is not None)
    return {
        "count": len(timeline.updates),
        "median_s": median(seconds) if seconds else None,
        "max_s": seconds[-1] if seconds else None,
    }


def _timeline_record(timeline: Timeline, ranks: dict[str, str]) -> dict[str, Any]:
    entries = [point_record(item) for item in [*timeline.points, *timeline.compiles, *timeline.totals]]
    for capture in timeline.captures:
        entries.append(
            {
                "time_us": capture.us,
                "kind": "capture" if capture.state == "complete" else f"capture_{capture.state}",
                "process": capture.process,
                "graph": capture.graph,
                "seconds": capture.total_s,
                "source": capture.place.source,
                "line": capture.place.line,
                "inherited_time": False,
            }
        )
    entries = [entry for entry in entries if not _is_small_ge_cost(entry)]
    entries.sort(key=lambda item: (item["time_us"] is None, item["time_us"] or 0, item["source"], item["line"]))
    for entry in entries:
        entry["rank"] = ranks.get(entry["process"], "")
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry["kind"]] = counts.get(entry["kind"], 0) + 1
    return {
        "counts": dict(sorted(counts.items())),
        "left_out": max(0, len(entries) - MAX_TIMELINE) + timeline.dropped,
        "events": entries[:MAX_TIMELINE],
    }


def _is_small_ge_cost(entry: dict[str, Any]) -> bool:
    """GE prints a cost line per pass; only those of a second or more belong in a timeline."""
    return bool(entry["kind"] == "ge_cost" and (entry["seconds"] or 0) < 1)


def _anomaly_record(item: judging.Anomaly, ranks: dict[str, str]) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "process": item.process,
        "rank": ranks.get(item.process, ""),
        "graph": item.graph,
        "value": item.value,
        "threshold": item.threshold,
        "unit": item.unit,
        "time_us": item.us,
        "source": item.place.source if item.place else "",
        "line": item.place.line if item.place else None,
        "detail": item.detail,
    }


def _error_record(failures: Failures, ranks: dict[str, str], knowledge: Knowledge) -> dict[str, Any]:
    shown = failures.groups[:MAX_CLUSTERS_SHOWN]
    first_key = failures.first.key if failures.first is not None else None
    shown += [group for group in failures.groups[MAX_CLUSTERS_SHOWN:] if group.key == first_key]
    clusters = []
    for at, group in enumerate(shown):
        record = {
            "key": group.key,
            "count": group.total,
            "level": group.level,
            "format": group.form,
            "text": group.text,
            "processes": dict(sorted(group.processes.items())),
            "ranks": sorted({ranks.get(name, "") for name in group.processes} - {""}),
            "first_us": group.first.us,
            "last_us": group.last_us,
            "resolution_us": group.first.resolution,
            "source": group.first.place.source,
            "line": group.first.place.line,
            "echo": group.echo,
            "codes": [],
            "patterns": [],
        }
        if at < _CODED_CLUSTERS or group.key == first_key:
            record["codes"], record["patterns"] = _known(group, knowledge)
        clusters.append(record)
    return {
        "total": failures.errors,
        "kinds": len(failures.groups),
        "unclustered": failures.unclustered,
        "clusters": clusters,
    }


def _known(group: Group, knowledge: Knowledge) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Return the codes and the established patterns in one error's text."""
    report = read_report([InputText("-", group.text, 0)])
    codes: list[dict[str, str]] = []
    for mention in find_codes(report.lines):
        entries = knowledge.codes.find(mention.code)
        if entries and mention.code not in {item["code"] for item in codes}:
            codes.append({"code": mention.code, "symbol": entries[0].symbol, "meaning": entries[0].plain_meaning})
    text = report.text
    matches = match_patterns(
        knowledge.patterns, text, [line.number for line in report.lines], text, "", with_candidates=False
    )
    best = [match for match in matches if match.score >= KNOWN_FROM][:2]
    return codes[:4], [{"id": m.pattern.id, "title": m.pattern.title, "score": round(m.score, 2)} for m in best]


def _first_failure(failures: Failures, ranks: dict[str, str], partial: Partial) -> dict[str, Any] | None:
    first = failures.first
    if first is None:
        return None
    context = partial.contexts.get((first.place.source, first.place.line), [])
    record = _occurrence(first, ranks)
    record["text"] = first.cluster.text
    record["why"] = _why(failures, ranks)
    record["confidence"] = _confidence(failures)
    record["context"] = [{"line": number, "text": text} for number, text in context]
    record["others"] = [{**_occurrence(item, ranks), "text": item.cluster.text[:300]} for item in failures.others]
    record["echoes"] = [
        {
            **_occurrence(item, ranks),
            "after_s": round((item.us - first.us) / SECOND, 6)
            if item.us is not None and first.us is not None
            else None,
            "why": item.echo or ("the same error in another process" if item.key == first.key else "later"),
        }
        for item in failures.echoes[:_MAX_ECHOES]
    ]
    record["echoes_left_out"] = max(0, len(failures.echoes) - _MAX_ECHOES)
    record["processes_without_errors"] = _quiet(failures, ranks)
    record["waited_for"] = [{"rank": rank, "processes": number} for rank, number in failures.named.items()]
    return record


def _occurrence(item: Occurrence, ranks: dict[str, str]) -> dict[str, Any]:
    return {
        "key": item.key,
        "process": item.process,
        "rank": ranks.get(item.process, ""),
        "time_us": item.us,
        "time": show(item.us, item.resolution),
        "resolution_us": item.resolution,
        "time_of_an_earlier_line": item.inherited,
        "source": item.place.source,
        "line": item.place.line,
        "count": item.cluster.count,
    }


def _why(failures: Failures, ranks: dict[str, str]) -> str:
    first = failures.first
    if first is None:
        return ""
    if failures.only_echoes:
        return (
            "only consequences are in these logs (waits, exits): the cause lies in a process whose log is not here, "
            "or in one that stopped without an error"
        )
    if first.us is None:
        return "the first error by position; without time stamps, files cannot be ordered against each other"
    if ranks.get(first.process) in failures.named and failures.others:
        return "an own failure of the rank that others waited for, and no other error is proved to be earlier"
    if first.survived:
        return "the earliest error that is not an echo; but its process went on capturing and replaying long after it"
    return "the earliest error that is neither an echo of another one nor followed by a healthy run"


def _confidence(failures: Failures) -> str:
    """Say how sure the order is: low when times are missing or another candidate lies within their resolution."""
    first = failures.first
    if first is None or failures.only_echoes or first.us is None or first.survived:
        return "low"
    for other in failures.others:
        if other.us is None or other.place.source == first.place.source:
            continue
        if first.latest_us is None or other.us <= first.latest_us:
            return "low" if max(_uncertainty(first), _uncertainty(other)) >= SECOND else "medium"
    return "medium" if first.inherited else "high"


def _uncertainty(item: Occurrence) -> int:
    """Return the width of the interval in which an error happened, in microseconds."""
    return item.latest_us - item.us if item.latest_us is not None and item.us is not None else DAY


def _quiet(failures: Failures, ranks: dict[str, str]) -> list[str]:
    """Return the ranks without any error, where others only waited: those are the suspects."""
    if not failures.only_echoes:
        return []
    failing = {name for group in failures.groups for name in group.processes}
    return sorted(f"{name} (rank {rank})" for name, rank in ranks.items() if rank and name not in failing)


def _clock_record(timeline: Timeline, failures: Failures, partial: Partial) -> dict[str, Any]:
    hosts = {info.host for info in partial.infos.values()}
    return {
        "skews": [
            {
                "host": skew.host,
                "other": skew.other,
                "other_ahead_s": round(skew.offset_s, 6),
                "spread_s": round(skew.spread_s, 6),
                "samples": skew.samples,
                "basis": skew.basis,
            }
            for skew in failures.skews
        ],
        "skew_unknown": len(hosts) > 1 and len(failures.skews) < len(hosts) - 1,
        "steps_back": [
            {"source": place.source, "line": place.line, "seconds": round(seconds, 6)}
            for place, seconds in timeline.clock_steps[:20]
        ],
    }


def _diagnosis(text: str, language: str, knowledge: Knowledge) -> dict[str, Any]:
    """Return the classification of the excerpt by the diagnosis engine, without places and report."""
    from npu_graph.diagnosis.record import classify

    return classify([InputText("first failure", text, 0)], language, knowledge)


def _own_time(item: Occurrence) -> int | None:
    """Return the time of the line itself: an earlier line's stamp may lie far before, and would cut its message."""
    return None if item.inherited else item.us


def first_places(failures: Failures, limit: int = 24) -> list[tuple[Place, int | None]]:
    """Return the places whose context a partial result should carry: each process's first error that is no echo."""
    everything = [item for item in [failures.first, *failures.others, *failures.echoes] if item is not None]
    chosen: dict[str, tuple[Place, int | None]] = {}
    for item in everything:
        if not item.echo:
            chosen.setdefault(item.process, (item.place, _own_time(item)))
    if failures.first is not None:
        chosen.setdefault(failures.first.process, (failures.first.place, _own_time(failures.first)))
    return list(chosen.values())[:limit]
