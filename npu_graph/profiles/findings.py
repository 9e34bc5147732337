"""The verdict on a profile: facts with their numbers; apart from them what they may mean, and what would confirm it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npu_graph.profiles.blocks import leading
from npu_graph.profiles.gaps import EAGER, ENTRY, IN_GRAPH, SEAM, GapGroup, GapTable, group_gaps, in_spans
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.steps import Step, Steps
from npu_graph.profiles.tasks import AI_CPU_CORES, COMMUNICATION, EAGER_MODEL, UNKNOWN, is_mixed

# Verdicts, in the order in which they are listed. Bounds and graph use are separate questions, so several may hold.
VERDICTS = (
    "insufficient",
    "graph_not_used",
    "too_few_replays",
    "communication_bound",
    "host_bound",
    "padding_waste",
    "device_bound",
    "graph_partly_used",
)

# Shares of a step. The values are judgement on measured profiles: healthy graph decode is busy above 85 %, eager decode
# of a small model idles above 90 %, and between 70 % and 85 % neither side is worth the work first.
IDLE_SHARE = 0.30
BUSY_SHARE = 0.85
EXPOSED_SHARE = 0.20
PADDED_SHARE = 0.30
COVERED_SHARE = 0.95
REPLAY_STEP_SHARE = 0.50
# Evidence decides only when it covers most of the idle time.
EVIDENCE_SHARE = 0.50
# A judgement on fewer replays, or steps, describes the start-up and not the steady state.
MIN_REPLAYS = 5
MIN_KERNELS = 3
# Replay calls beyond this multiple of the replays seen on the device mean that kernel rows are missing.
_CALLS_TOLERANCE = 1.05
# Kernel rows and the profiler's Overlap Analysis lane describe the same time; more apart, one of them is incomplete.
_LANE_TOLERANCE = 0.05
WHOLE_WINDOW = "whole window"

HIGH, MEDIUM, LOW = "high", "medium", "low"


class Fact(NamedTuple):
    """A measured statement: what (a key of report.FACTS), its value, unit and sample size."""

    what: str
    value: Any
    unit: str
    n: int | None


@dataclass
class Verdict:
    """One conclusion. `attribution` says why it may be so and is a guess unless confidence is high."""

    value: str
    scope: str
    facts: list[Fact]
    attribution: str
    confidence: str
    confirm: str = ""


class Missing(NamedTuple):
    """A profiler switch or file that is not there, why it matters, how to get it."""

    item: str
    why: str
    how: str


@dataclass
class Scope:
    """The part of the profile that is judged, and its sums (ns)."""

    name: str
    spans: list[tuple[int, int]]
    steps: list[Step]
    window: int = 0
    busy: int = 0
    computing: int = 0
    exposed: int = 0
    kernels: int = 0
    in_graph: int = 0
    replays: int = 0
    gaps: GapTable = field(default_factory=GapTable)

    @property
    def idle(self) -> int:
        return self.window - self.busy

    def share(self, part: int) -> float:
        return part / self.window if self.window else 0.0


def choose_scope(use: GraphUse, steps: Steps, gaps: GapTable) -> Scope:
    """Judge complete steps that replay a graph; else complete steps; else everything.

    Steps without a replay (prefill, a batch beyond the capture sizes) answer another question. The first step of many
    and the last are left out: one holds start-up, the other has no end.
    """
    complete = [step for step in steps.items if step.complete]
    replaying = [step for step in complete if step.replays]
    chosen, name = (replaying, "steps with replay") if replaying else (complete, "steps")
    if len(chosen) > MIN_REPLAYS:
        chosen = chosen[1:]
    if not chosen or steps.source == "none":
        chosen, name = steps.items, WHOLE_WINDOW
    spans = [(step.start, step.end) for step in chosen]
    scope = Scope(name, spans, list(chosen))
    for step in chosen:
        scope.window += step.duration
        scope.busy += step.busy
        scope.computing += step.computing
        scope.exposed += step.exposed
        scope.kernels += step.kernels
        scope.in_graph += step.in_graph
        scope.replays += step.replays
    scope.gaps = gaps.inside(spans)
    return scope


def is_unobservable(profile: Profile, use: GraphUse) -> bool:
    """Replays ran, but their kernels were not recorded: idle time and coverage of such a profile mean nothing."""
    return profile.replayed and not use.coverage.by_stream


def doubts(profile: Profile, use: GraphUse, steps: Steps) -> list[str]:
    """Return what the reader must know about the data before believing a number."""
    texts = []
    lane = profile.trace.overlap.get("Computing", 0) if profile.trace else 0
    ours = sum(step.computing for step in steps.items)
    if lane and abs(ours - lane) > _LANE_TOLERANCE * lane:
        texts.append(
            f"computing is {ours / 1000:.0f} us by kernel rows, {lane / 1000:.0f} us by the profiler's own lane"
        )
    if steps.source == "profiler_step":
        texts.append("steps are cut at marks of the host; kernels still queued at a mark count to the later step")
    calls = max(profile.replay_calls or 0, profile.executes)
    seen = len(use.replays)
    if seen and calls > seen * _CALLS_TOLERANCE:
        texts.append(f"{calls} replays ran, kernel rows show {seen}: coverage and idle hold for the recorded part only")
    if profile.task_source == "trace_view" and profile.table_columns and "model" not in profile.table_columns:
        texts.append("kernel_details has no Model ID (Level0): graph coverage comes from trace_view.json only")
    return texts


def find_missing(profile: Profile, use: GraphUse, steps: Steps) -> list[Missing]:
    """Return what the profile lacks for a full judgement, each with the switch that gives it."""
    missing: list[Missing] = []
    columns = profile.info.columns if profile.info else frozenset()
    if is_unobservable(profile, use):
        missing.append(
            Missing(
                "kernel rows of replays",
                "replays ran, but no kernel row lies inside a graph: such time looks idle and is not",
                "CANN >= 8.5.0 with torch_npu >= 7.3.0; start the profiler before the first capture; Level1",
            )
        )
    if not profile.has_models:
        missing.append(
            Missing(
                "Model ID",
                "graph and eager kernels look the same without it (Level0 tables have no such column)",
                "experimental_config=torch_npu.profiler._ExperimentalConfig(profiler_level="
                "torch_npu.profiler.ProfilerLevel.Level1), or keep trace_view.json beside the tables",
            )
        )
    if profile.replay_calls is None:
        missing.append(
            Missing(
                "host calls",
                "the number of replays (aclmdlRIExecuteAsync) is not recorded",
                "profiler_level Level1 (writes api_statistic.csv)",
            )
        )
    if profile.trace is None or not (profile.trace.has_flows or profile.trace.replay_calls):
        missing.append(
            Missing(
                "trace_view.json with host events",
                "without submission times nobody can say whether the host was late or the device waited",
                "activities=[ProfilerActivity.CPU, ProfilerActivity.NPU], Level1, keep trace_view.json in the folder",
            )
        )
    if profile.task_source in ("kernel_details", "op_summary") and "shapes" not in columns:
        missing.append(
            Missing("input shapes", "padding and equal work are judged by shapes", "record_shapes=True, Level1")
        )
    if steps.source == "none":
        missing.append(
            Missing(
                "steps",
                "one window mixes start-up, prefill and decode",
                "schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=10) and prof.step() after each step",
            )
        )
    return missing


def judge(profile: Profile, use: GraphUse, steps: Steps, scope: Scope, padded: dict[str, Any] | None) -> list[Verdict]:
    """Return every verdict that the facts support, in the order of VERDICTS."""
    verdicts: list[Verdict] = []
    unobservable = is_unobservable(profile, use)
    if use.coverage.kernels < MIN_KERNELS:
        verdicts.append(
            Verdict(
                "insufficient",
                scope.name,
                [Fact("kernels", use.coverage.kernels, "", None)],
                "too few device kernels to judge anything",
                HIGH,
                "profile more steps",
            )
        )
    elif unobservable:
        verdicts.append(
            Verdict(
                "insufficient",
                scope.name,
                [
                    Fact("replays", max(profile.replay_calls or 0, profile.executes), "in window", None),
                    Fact("kernels_in_graph", 0, "", use.coverage.kernels),
                ],
                "unobservable: the kernels of the replays were not recorded, so idle time here is not idle",
                HIGH,
                "record again as listed under missing",
            )
        )
    else:
        verdicts += _judge_bound(profile, scope)
    if not unobservable:
        verdicts += _judge_use(profile, use, steps, scope)
    if padded and padded["padded_share"] >= PADDED_SHARE:
        verdicts.append(_padding_verdict(scope, padded))
    return sorted(verdicts, key=lambda verdict: VERDICTS.index(verdict.value))


def _judge_bound(profile: Profile, scope: Scope) -> list[Verdict]:
    n = len(scope.steps) if scope.name != WHOLE_WINDOW else 1
    base = [
        Fact("idle_share", round(scope.share(scope.idle), 4), "of step", n),
        Fact("busy_share", round(scope.share(scope.busy), 4), "of step", n),
    ]
    if scope.window <= 0:
        return []
    if scope.share(scope.exposed) > EXPOSED_SHARE:
        return [_communication_verdict(profile, scope, n)]
    if scope.share(scope.idle) > IDLE_SHARE:
        return [_idle_verdict(profile, scope, base)]
    sure = scope.share(scope.busy) > BUSY_SHARE
    return [
        Verdict(
            "device_bound",
            scope.name,
            base,
            "the device works most of the time; launches are not what limits it",
            HIGH if sure else MEDIUM,
            "shorten or replace the longest kernels; graph mode cannot make a busy device faster",
        )
    ]


def _communication_verdict(profile: Profile, scope: Scope, n: int) -> Verdict:
    facts = [
        Fact("exposed_share", round(scope.share(scope.exposed), 4), "of step", n),
        Fact("idle_share", round(scope.share(scope.idle), 4), "of step", n),
    ]
    times = profile.communication
    if times.get("elapse_ms"):
        wait = times["wait_ms"] / times["elapse_ms"]
        facts.append(Fact("communication_wait_share", round(wait, 4), "of collective time", int(times["count"])))
        cause = "mostly waiting for other ranks" if wait > 0.5 else "mostly transfer"
        return Verdict(
            "communication_bound",
            scope.name,
            facts,
            f"collectives that nothing hides, {cause}",
            HIGH,
            "compare the same collective on every rank: the rank with the shortest one is the one others wait for",
        )
    return Verdict(
        "communication_bound",
        scope.name,
        facts,
        "collectives that nothing hides; one rank cannot tell transfer from waiting for a slower rank",
        MEDIUM,
        "profile all ranks (communication.json) and compare the same collective",
    )


def _idle_verdict(profile: Profile, scope: Scope, base: list[Fact]) -> Verdict:
    groups = group_gaps(scope.gaps)
    total = sum(group.total for group in groups.values()) or 1
    late = sum(group.host_late for group in groups.values())
    known = late + sum(group.device_late for group in groups.values())
    facts = base + [
        Fact(f"gap_{place}", round(group.total / total, 4), "of idle", group.number) for place, group in groups.items()
    ]
    inside = groups.get(IN_GRAPH, _NO_GAPS).total / total
    syncs = _syncs_in(profile, scope)
    if syncs:
        facts.append(Fact("synchronisations", syncs, "in scope", None))
    if inside > EVIDENCE_SHARE:
        return Verdict(
            "device_bound",
            scope.name,
            facts,
            "idle time lies inside replays, where no host launch takes part: streams of the graph wait for each other",
            MEDIUM,
            "look at CAPTURE_WAIT and MEM_WAIT_VALUE tasks of the graph's streams in trace_view.json",
        )
    if known >= EVIDENCE_SHARE * total:
        facts.append(Fact("host_late_share", round(late / known, 4), "of idle with evidence", len(scope.gaps)))
        if late >= EVIDENCE_SHARE * known:
            return Verdict(
                "host_bound",
                scope.name,
                facts,
                "the next work was handed over after the device had gone idle",
                HIGH,
                _host_advice(groups, syncs),
            )
        return Verdict(
            "device_bound",
            scope.name,
            facts,
            "work was already queued while the device idled: it waited for a dependency (event, stream, other rank)",
            MEDIUM,
            "look at the wait tasks (EVENT_WAIT, NOTIFY_WAIT, CAPTURE_WAIT) before the largest gaps in trace_view.json",
        )
    return Verdict(
        "host_bound",
        scope.name,
        facts,
        "gaps stand where the host must submit and vanish inside replays; submission times were not recorded",
        MEDIUM,
        "record trace_view.json with CPU activity at Level1 and run this again",
    )


_NO_GAPS = GapGroup(0, 0, 0, 0, 0, 0, 0)


def _host_advice(groups: dict[str, GapGroup], syncs: int) -> str:
    largest = max(groups, key=lambda place: groups[place].total)
    advice = {
        "entry": "shorten the host work before each replay, or capture larger pieces",
        "seam": "bring the eager kernels between replays into the graph (FULL instead of PIECEWISE)",
        "eager": "capture these kernels: they are launched one by one",
        "tail": "host work between steps (scheduler, sampling, detokenising); overlap it",
        "in_graph": "waits inside the graph; look at its streams",
    }[largest]
    return advice + ("; remove the synchronisations inside the step first" if syncs else "")


def _syncs_in(profile: Profile, scope: Scope) -> int:
    if profile.trace is None:
        return 0
    return sum(in_spans(scope.spans, call.start) for call in profile.trace.syncs)


def _judge_use(profile: Profile, use: GraphUse, steps: Steps, scope: Scope) -> list[Verdict]:
    calls = profile.replay_calls
    replays = max(calls or 0, profile.executes, len(use.replays))
    coverage = use.coverage
    if not replays and not coverage.by_stream:
        if calls is None and not profile.has_models:
            return [
                Verdict(
                    "insufficient",
                    scope.name,
                    [Fact("kernels", coverage.kernels, "", None)],
                    "nothing in these files tells a graph kernel from an eager one",
                    HIGH,
                    "record again as listed under missing",
                )
            ]
        return [
            Verdict(
                "graph_not_used",
                WHOLE_WINDOW,
                ([] if calls is None else [Fact("replay_calls", calls, "", None)])
                + [Fact("kernels_in_graph", 0, "", coverage.kernels)],
                "no replay in this window (some frameworks fall back to eager while a profiler runs)",
                HIGH if calls == 0 else MEDIUM,
                "check the service log for the graph mode and capture lines; profile decode steps after warm-up",
            )
        ]
    verdicts = []
    facts = _too_few(profile, steps, replays)
    if facts:
        verdicts.append(
            Verdict(
                "too_few_replays",
                WHOLE_WINDOW,
                facts,
                "too little of the run is replay for graph mode to pay, or for this profile to show it",
                MEDIUM,
                "compare batch sizes with the capture sizes; profile at least 5 steady steps",
            )
        )
    share = scope.in_graph / scope.kernels if scope.kernels else 0.0
    edges = sum(group.total for place, group in group_gaps(scope.gaps).items() if place in (ENTRY, SEAM, EAGER))
    if share < COVERED_SHARE:
        verdicts.append(
            Verdict(
                "graph_partly_used",
                scope.name,
                [
                    Fact("coverage_by_stream", round(share, 4), "of kernels", scope.kernels),
                    Fact("replays", replays, "in window", None),
                    Fact("edge_share", round(scope.share(edges), 4), "of step", len(scope.steps)),
                ],
                "kernels outside the graph are launched one by one and cut the step at every seam",
                HIGH,
                "see the table of kernels outside; move the costliest into the graph",
            )
        )
    return verdicts


def _too_few(profile: Profile, steps: Steps, replays: int) -> list[Fact]:
    facts = [Fact("replays", replays, "in window", None)]
    reasons = False
    captures = profile.captures or 0
    if captures and captures >= replays:
        facts.append(Fact("captures", captures, "in window", None))
        reasons = True
    if steps.source in ("step_id", "profiler_step"):
        numbered = [step for step in steps.items if step.number != UNKNOWN and step.kernels]
        replaying = sum(1 for step in numbered if step.replays)
        if len(numbered) > 1 and replaying < REPLAY_STEP_SHARE * len(numbered):
            facts.append(Fact("steps_with_replay", replaying, "steps", len(numbered)))
            reasons = True
    if replays < MIN_REPLAYS:
        reasons = True
    return facts if reasons else []


def _padding_verdict(scope: Scope, padded: dict[str, Any]) -> Verdict:
    return Verdict(
        "padding_waste",
        scope.name,
        [
            Fact("padded_share", padded["padded_share"], "of graph work", None),
            Fact("captured_size", padded["graph_size"], "tokens", None),
            Fact("real_size", padded["eager_size"], "tokens", None),
        ],
        "the graph computes rows that no request filled",
        MEDIUM,
        "add capture sizes near the real batch sizes (capture_budget.py --from-log proposes them)",
    )


def outside_kernels(profile: Profile, use: GraphUse, scope: Scope) -> list[dict[str, Any]]:
    """Return the kernel types outside graphs in scope, costliest first: own time plus the gap before each (us)."""
    table = profile.table
    rows: dict[str, list[int]] = {}
    for place, index in enumerate(use.order):
        if not use.in_graph[place] and in_spans(scope.spans, table.start[index]):
            entry = rows.setdefault(table.text("type", index), [0, 0, 0])
            entry[0] += 1
            entry[1] += table.duration[index]
    for gap in scope.gaps:
        # A type that occurs inside and outside is not charged with the gap before a replay.
        if gap.next_type in rows and gap.place not in (ENTRY, IN_GRAPH):
            rows[gap.next_type][2] += gap.length
    ordered = sorted(rows.items(), key=lambda item: (-(item[1][1] + item[1][2]), item[0]))
    return [
        {"type": name[:120], "count": count, "time_us": time / 1000, "gap_before_us": gap / 1000}
        for name, (count, time, gap) in ordered
    ]


def longest_kernels(profile: Profile, use: GraphUse, limit: int) -> list[dict[str, Any]]:
    """Return kernel types by summed time, with AI CPU and collective-bearing ones marked (us)."""
    table = profile.table
    rows: dict[tuple[str, str], list[int]] = {}
    for index in use.order:
        entry = rows.setdefault((table.text("type", index), table.text("core", index)), [0, 0, 0])
        entry[0] += 1
        entry[1] += table.duration[index]
        entry[2] = max(entry[2], table.duration[index])
    ordered = sorted(rows.items(), key=lambda item: (-item[1][1], item[0]))[:limit]
    return [
        {
            "type": type_[:120],
            "core": core,
            "count": count,
            "total_us": total / 1000,
            "mean_us": round(total / count / 1000, 3),
            "max_us": largest / 1000,
            "ai_cpu": core.upper() in AI_CPU_CORES,
            "holds_collective": is_mixed(type_),
        }
        for (type_, core), (count, total, largest) in ordered
    ]


def unusual_operators(profile: Profile, use: GraphUse) -> dict[str, Any]:
    """Return AI CPU kernels, kernels that hold a collective, and aclop host calls (which cannot be captured)."""
    table = profile.table
    ai_cpu: dict[str, list[int]] = {}
    mixed: dict[str, list[int]] = {}
    for index in use.order:
        type_ = table.text("type", index)
        if table.text("core", index).upper() in AI_CPU_CORES:
            _count(ai_cpu, type_, table.duration[index])
        elif is_mixed(type_) and table.kind[index] != COMMUNICATION:
            _count(mixed, type_, table.duration[index])
    aclop: dict[str, list[int]] = {}
    for call in profile.apis:
        if call.name.lower().startswith("aclop"):
            _count(aclop, call.name, call.total, call.count)
    return {"ai_cpu": _rows(ai_cpu), "aclop": _rows(aclop), "holds_collective": _rows(mixed)}


def _count(rows: dict[str, list[int]], name: str, time: int, count: int = 1) -> None:
    entry = rows.setdefault(name, [0, 0])
    entry[0] += count
    entry[1] += time


def _rows(rows: dict[str, list[int]]) -> list[dict[str, Any]]:
    ordered = sorted(rows.items(), key=lambda item: (-item[1][1], item[0]))[:20]
    return [{"type": name[:120], "count": count, "total_us": time / 1000} for name, (count, time) in ordered]


def padding_from_size(profile: Profile, use: GraphUse, real_size: float) -> dict[str, Any] | None:
    """Return how much of the in-graph work is padding when a step really holds `real_size` tokens.

    The captured size is the leading dimension that most in-graph kernel time has.
    """
    table = profile.table
    time_of: dict[int, int] = {}
    for place, index in enumerate(use.order):
        shapes = table.text("shapes", index)
        size = leading(shapes)
        if use.in_graph[place] and size and "," in shapes.partition(";")[0] and table.model[index] != EAGER_MODEL:
            time_of[size] = time_of.get(size, 0) + table.duration[index]
    if not time_of:
        return None
    captured = max(time_of, key=lambda size: (time_of[size], size))
    share = max(0.0, 1 - real_size / captured)
    return {"graph_size": captured, "eager_size": real_size, "padded_share": round(share, 4)}
