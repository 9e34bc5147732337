"""The verdict on a profile: facts with their numbers; apart from them what they may mean, and what would confirm it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from npu_graph.profiles.gaps import EAGER, ENTRY, IN_GRAPH, SEAM, GapGroup, group_gaps, in_spans
from npu_graph.profiles.loading import Profile
from npu_graph.profiles.replays import GraphUse
from npu_graph.profiles.scope import WHOLE_WINDOW, Scope
from npu_graph.profiles.steps import Steps
from npu_graph.profiles.tasks import UNKNOWN
from npu_graph.profiles.validity import is_unobservable

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

HIGH, MEDIUM = "high", "medium"


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
    elif not use.coverage.time:
        verdicts.append(
            Verdict(
                "insufficient",
                scope.name,
                [Fact("kernels", use.coverage.kernels, "", None)],
                "every kernel has a duration of 0: this table holds no times",
                HIGH,
                "record again as listed under missing",
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
        Fact("idle_share", round(scope.share(scope.idle), 4), scope.unit, n),
        Fact("busy_share", round(scope.share(scope.busy), 4), scope.unit, n),
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
        Fact("exposed_share", round(scope.share(scope.exposed), 4), scope.unit, n),
        Fact("idle_share", round(scope.share(scope.idle), 4), scope.unit, n),
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
                    Fact("edge_share", round(scope.share(edges), 4), scope.unit, len(scope.steps)),
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
    sure = padded["source"] == "real_size"
    return Verdict(
        "padding_waste",
        scope.name,
        [
            Fact("padded_share", padded["padded_share"], "of graph work", None),
            Fact("captured_size", padded["graph_size"], "tokens", None),
            Fact("real_size", padded["eager_size"], "tokens", None),
        ],
        "the graph computes rows that no request filled"
        if sure
        else "the graph computes more rows than eager did in the same block; padding, if both ran the same requests",
        HIGH if sure else MEDIUM,
        "add capture sizes near the real batch sizes (capture_budget.py --from-log proposes them)",
    )
