"""The table of tools: name, schemas, and how arguments become a call of one of the bundle's scripts."""

from __future__ import annotations

from typing import Any, Sequence

from . import summaries
from .tool import ArgumentError, Invocation, Resolve, Tool, page_of

MAX_TEXT = 2_000_000
MAX_FILES = 32
# Items of a growing list in one answer unless the call says otherwise: what a model reads without losing the thread.
SEARCH_PAGE = 5
LINT_PAGE = 20
# The lint script's own bound; beyond it the script is asked for all.
LINT_BOUND = 200


def _string(description: str, **limits: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **limits}


def _object(required: Sequence[str] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _count(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description, "minimum": 0, "maximum": 100_000}


_LANGUAGE = _string("language of the answer: en or zh (default: that of the text)", enum=["en", "zh"])
_FILES = {
    "type": "array",
    "description": "paths below the allowed folders",
    "items": {"type": "string", "minLength": 1, "maxLength": 1000},
    "minItems": 1,
    "maxItems": MAX_FILES,
}


def _page(default: int) -> dict[str, Any]:
    return {
        "limit": {
            "type": "integer",
            "description": f"items per page (default {default})",
            "minimum": 1,
            "maximum": 100,
        },
        "offset": {
            "type": "integer",
            "description": "where the page begins: `next_offset` of the answer before",
            "minimum": 0,
            "maximum": 100_000,
        },
    }


def _language(arguments: dict[str, Any]) -> list[str]:
    return ["--lang", arguments["language"]] if "language" in arguments else []


def _diagnose(arguments: dict[str, Any], resolve: Resolve) -> Invocation:
    files = [resolve(name) for name in arguments.get("files", [])]
    text = arguments.get("text", "")
    if not files and not text.strip():
        raise ArgumentError('give the pasted report as {"text": "..."} or as {"files": ["stack.txt"]}')
    inputs = ([*files] if files else []) + (["-"] if text.strip() else [])
    return Invocation(["--output", "json", *_language(arguments), *inputs], text)


def _lookup_code(arguments: dict[str, Any], _: Resolve) -> Invocation:
    return Invocation(["--output", "json", "--", *arguments["codes"]])


def _search(arguments: dict[str, Any], _: Resolve) -> Invocation:
    # One more than the page holds: it tells whether there is a next one.
    limit = page_of(arguments, SEARCH_PAGE).end + 1
    return Invocation(["search", "--output", "json", "--limit", str(limit), "-"], arguments["query"])


def _record(arguments: dict[str, Any], _: Resolve) -> Invocation:
    options = ["record", "--output", "json"]
    for name in (
        "title",
        "stage",
        "layer",
        "owner",
        "location",
        "pattern",
        "cause",
        "trigger",
        "fix-now",
        "fix-for-good",
    ):
        value = arguments.get(name.replace("-", "_"))
        if value:
            options.append(f"--{name}={value}")
    for name in ("verify", "source"):
        options += [f"--{name}={value}" for value in arguments.get(name, [])]
    if arguments.get("status"):
        options.append(f"--status={arguments['status']}")
    return Invocation([*options, "--symptom-file", "-"], arguments["symptom"])


def _locate_source(arguments: dict[str, Any], resolve: Resolve) -> Invocation:
    options = ["--output", "json", *_language(arguments)]
    if arguments.get("torch_npu"):
        options.append(f"--torch-npu={arguments['torch_npu']}")
    if arguments.get("source_folder"):
        options.append(f"--source={resolve(arguments['source_folder'])}")
    if arguments.get("framework"):
        options.append(f"--framework={arguments['framework']}")
    return Invocation([*options, "-"], arguments["text"])


def _find_fix(arguments: dict[str, Any], _: Resolve) -> Invocation:
    options = ["--output", "json", *_language(arguments)]
    options += [f"--project={name}" for name in arguments.get("projects", [])]
    options += [f"--function={name}" for name in arguments.get("functions", [])]
    if "most" in arguments:
        options.append(f"--most={arguments['most']}")
    return Invocation([*options, "--", arguments["words"]])


def _check_health(arguments: dict[str, Any], _: Resolve) -> Invocation:
    options = ["--output", "json"]
    if arguments.get("only"):
        options.append(f"--only={arguments['only']}")
    if "device" in arguments:
        options.append(f"--device={arguments['device']}")
    return Invocation([*options, "--redact"] if arguments.get("redact") else options)


def _parse_log(arguments: dict[str, Any], resolve: Resolve) -> Invocation:
    options = ["--output", "json", *_language(arguments)]
    for name in ("since", "until", "rank"):
        if arguments.get(name):
            options.append(f"--{name}={arguments[name]}")
    return Invocation([*options, "--", *(resolve(name) for name in arguments["paths"])])


def _analyze_profile(arguments: dict[str, Any], resolve: Resolve) -> Invocation:
    options = ["--output", "json"]
    if arguments.get("against"):
        options.append(f"--against={resolve(arguments['against'])}")
    return Invocation([*options, "--", resolve(arguments["folder"])])


def _capture_budget(arguments: dict[str, Any], _: Resolve) -> Invocation:
    options = ["--output", "json"]
    if arguments.get("command", "").startswith("@"):
        raise ArgumentError("'command' is the command line itself; a file is not read here")
    for name, value in arguments.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            options.append(option)
        elif value is not False:
            options.append(f"{option}={value}")
    return Invocation(options)


def _lint_capture(arguments: dict[str, Any], resolve: Resolve) -> Invocation:
    options = ["--output", "json"]
    if page_of(arguments, LINT_PAGE).end > LINT_BOUND:
        options.append("--all")
    for name in ("entry", "select", "severity"):
        if arguments.get(name):
            options.append(f"--{name}={arguments[name]}")
    return Invocation([*options, "--", *(resolve(name) for name in arguments["paths"])])


_SHORT = {"minLength": 1, "maxLength": 4000}
_LINES = {"type": "array", "items": {"type": "string", **_SHORT}, "maxItems": 20}

TOOLS: tuple[Tool, ...] = (
    Tool(
        "npu_graph_diagnose",
        "Diagnose an NPU graph-mode failure",
        "Diagnose a pasted stack, log excerpt or description of a PyTorch graph-mode failure on Ascend NPU: stage, layer, "
        "owner, first cause with echoes set aside, fix, verification, and what is missing.",
        "graph-mode-diagnostics/scripts/diagnose.py",
        _object(text=_string("the report as pasted, unchanged", maxLength=MAX_TEXT), files=_FILES, language=_LANGUAGE),
        "npu-graph/diagnosis/1",
        _diagnose,
        summaries.diagnosis,
    ),
    Tool(
        "npu_graph_lookup_code",
        "Look up an Ascend error code",
        "Meaning, stage, first check and source of Ascend error codes in any spelling: 107027, 0x7020023, ERR00100, "
        "EE1016, EZ9999, or a symbol. Unknown codes are named as such, with near ones.",
        "graph-mode-expert/scripts/lookup_code.py",
        _object(
            ["codes"],
            codes={
                "type": "array",
                "description": "codes, in any spelling",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "minItems": 1,
                "maxItems": 20,
            },
        ),
        "npu-graph/codes/1",
        _lookup_code,
        summaries.codes,
    ),
    Tool(
        "npu_graph_search_knowledge",
        "Search known patterns and recorded cases",
        "Known failure patterns and the team's recorded cases that resemble a text or an error, best first.",
        "knowledge/scripts/kb.py",
        _object(
            ["query"],
            query=_string("words or an error text", minLength=1, maxLength=100_000),
            **_page(SEARCH_PAGE),
        ),
        "npu-graph/search/1",
        _search,
        summaries.search,
        paged=("patterns", "cases"),
        page_size=SEARCH_PAGE,
    ),
    Tool(
        "npu_graph_locate_source",
        "Locate an error text or an API in torch_npu's source",
        "File, function and line in the user's torch_npu release for an error text, a message or a stack frame, also "
        "behind compiler_depend.ts, and the call chain Python to ACL of an API such as capture_begin; infers the release "
        "from a stack when none is given. Also functions and messages of vLLM-Ascend, vLLM, SGLang and xLLM by their release.",
        "graph-mode-expert/scripts/locate_source.py",
        _object(
            ["text"],
            text=_string("an error text, a frame, a stack, or the name of an API", minLength=1, maxLength=200_000),
            torch_npu=_string("wheel version or release of the user, such as 2.10.0 or 26.0.0", maxLength=40),
            source_folder=_string("a checkout or site-packages below the allowed folders", maxLength=1000),
            framework=_string(
                "look there only: vllm-ascend, vllm, sglang or xllm, with ==VERSION if known", maxLength=60
            ),
            language=_LANGUAGE,
        ),
        "npu-graph/source/1",
        _locate_source,
        summaries.source,
    ),
    Tool(
        "npu_graph_find_fix",
        "Find later changes that may mend a failure",
        "Changes in the histories of vLLM-Ascend, xLLM, torch_npu, torchair and op-plugin that mend something, nearest to "
        "the words of a failure, with the first release that holds each; with a version only what came after it, and what "
        "the release notes list as known. Subjects are hints: open a change before relying on it.",
        "graph-mode-expert/scripts/find_fix.py",
        _object(
            ["words"],
            words=_string("names, error text, what goes wrong", minLength=1, maxLength=4000),
            projects={
                **_LINES,
                "description": "vllm-ascend, xllm, torch_npu, torchair or op-plugin, with ==VERSION if known (default: all)",
            },
            functions={**_LINES, "description": "only changes that touch one of these"},
            most={"type": "integer", "description": "at most so many (default 10)", "minimum": 1, "maximum": 100},
            language=_LANGUAGE,
        ),
        "npu-graph/fixes/1",
        _find_fix,
        summaries.fixes,
    ),
    Tool(
        "npu_graph_lint_capture",
        "Find code that cannot be captured",
        "Reads Python code without running it and names the lines that would break an NPU graph capture or replay wrongly: "
        "rule, reason, fix.",
        "graph-mode-diagnostics/scripts/lint_capture.py",
        _object(
            ["paths"],
            paths={**_FILES, "description": "Python files, notebooks or folders below the allowed folders"},
            entry=_string("function that a framework captures, such as pkg.model:Decoder.forward", maxLength=500),
            select=_string("rules to run, such as G001,G004", maxLength=500),
            severity=_string("leave out what is below", enum=["error", "warning", "info"]),
            **_page(LINT_PAGE),
        ),
        "npu-graph/lint/1",
        _lint_capture,
        summaries.generic,
        paged=("findings",),
        page_size=LINT_PAGE,
    ),
    Tool(
        "npu_graph_check_health",
        "Check the host for graph mode",
        "Whether this host can run graph mode: CANN, PyTorch, torch_npu, devices, NPUGraph API, variables, a real capture "
        "and replay, memory. Runs on the machine where the server runs.",
        "graph-mode-expert/scripts/check_graph_health.py",
        _object(
            only=_string("groups to run, separated by commas", maxLength=200),
            device={"type": "integer", "description": "device to use", "minimum": 0, "maximum": 1023},
            redact={"type": "boolean", "description": "hide host names, addresses, users and serial numbers"},
        ),
        "npu-graph/health/1",
        _check_health,
        summaries.generic,
        answers=(0, 1, 4),
    ),
    Tool(
        "npu_graph_parse_log",
        "Find the first failure in large NPU logs",
        "Reads plog, torch_npu, vLLM-Ascend, SGLang, xLLM and torchair logs of any size: first failure across ranks, graph "
        "captures and replays, anomalies, error clusters, and what the logs cannot show.",
        "graph-log-analyzer/scripts/parse_npu_logs.py",
        _object(
            ["paths"],
            paths={**_FILES, "description": "files or folders below the allowed folders"},
            since=_string("leave out what is earlier, such as 2026-01-31 08:00:00", maxLength=40),
            until=_string("leave out what is later", maxLength=40),
            rank=_string("only this rank, such as 3 or TP1", maxLength=40),
            language=_string("language of the report: en or zh (default: en)", enum=["en", "zh"]),
        ),
        "npu-graph/log/1",
        _parse_log,
        summaries.generic,
    ),
    Tool(
        "npu_graph_analyze_profile",
        "Analyse a profile of a graph-mode run",
        "What a torch_npu or msprof profile shows: device busy and free time, kernels inside and outside replays, gaps, and "
        "with `against` what graph mode changed; facts and attributions apart.",
        "graph-perf/scripts/analyze_profile.py",
        _object(
            ["folder"],
            folder=_string("folder of the profile below the allowed folders", minLength=1, maxLength=1000),
            against=_string("profile of the same work without graph mode", minLength=1, maxLength=1000),
        ),
        "npu-graph/profile/1",
        _analyze_profile,
        summaries.generic,
    ),
    Tool(
        "npu_graph_capture_budget",
        "Graphs, streams and padding before a service starts",
        "How many graphs and streams a configuration captures, whether it fits the device (207005, 207008, EL0009), which "
        "sizes to keep, and what padding costs.",
        "graph-perf/scripts/capture_budget.py",
        _object(
            command=_string("a vllm serve command line", maxLength=20_000),
            mode=_string(
                "cudagraph_mode", enum=["PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "NONE"]
            ),
            sizes=_string("capture sizes, such as 1,2,4,8", maxLength=4000),
            batches=_string("batch sizes with weights, such as 1:500,8:100", maxLength=20_000),
            layers=_count("hidden layers of the model"),
            tp=_count("tensor-parallel size"),
            dp=_count("data-parallel size"),
            pp=_count("pipeline-parallel size"),
            max_num_seqs=_count("most requests per step"),
            speculative_tokens=_count("speculative tokens per step"),
            moe={"type": "boolean", "description": "the model has experts"},
            expert_parallel={"type": "boolean", "description": "expert parallelism is on"},
            aiv={"type": "boolean", "description": "HCCL_OP_EXPANSION_MODE=AIV"},
            hdk=_string("driver package version", maxLength=40),
            cann=_string("CANN version", maxLength=40),
        ),
        "npu-graph/capture-budget/1",
        _capture_budget,
        summaries.generic,
    ),
    Tool(
        "npu_graph_record_case",
        "Record a diagnosed case",
        "Write a diagnosed failure to the team's case base (needs a server started with --allow-record). Secrets and "
        "names are hidden first; a duplicate is refused.",
        "knowledge/scripts/kb.py",
        _object(
            ["symptom", "stage", "layer"],
            symptom=_string("the error text as it appeared", minLength=1, maxLength=200_000),
            stage=_string(
                "capture, replay, memory, update, compile, accuracy, performance, env, not_graph", maxLength=20
            ),
            layer=_string("L0 to L5", maxLength=2),
            title=_string("one line", **_SHORT),
            owner=_string("where the fix belongs", **_SHORT),
            location=_string("function and file:line", **_SHORT),
            pattern=_string("pattern id, such as P-CAP-001", **_SHORT),
            cause=_string("why it failed", **_SHORT),
            trigger=_string("what brings it about", **_SHORT),
            fix_now=_string("what helps at once", **_SHORT),
            fix_for_good=_string("what removes the cause", **_SHORT),
            verify={**_LINES, "description": "how it was verified, with the result"},
            source={**_LINES, "description": "where it can be read"},
            status=_string("confirmed or suspected", enum=["confirmed", "suspected"]),
        ),
        "npu-graph/record/1",
        _record,
        summaries.record,
        read_only=False,
        idempotent=False,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
