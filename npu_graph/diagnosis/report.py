"""Turn a diagnosis record into the four-section report people read, in English or Chinese."""

from __future__ import annotations

from typing import Any, Sequence

from npu_graph.diagnosis.classification import is_of_framework, passes_on
from npu_graph.diagnosis.repositories import WHEEL, path_in_package, repository_of
from npu_graph.framework_map import COMPILE_PARTS
from npu_graph.known_issues import issue_text
from npu_graph.markdown import code_span
from npu_graph.patterns import KNOWN_FROM, Pattern

_SHOWN_VERSIONS = ("torch", "torch_npu", "cann", "driver", "soc", "python")

_WORDS = {
    "en": {
        "verdict": {
            "known": "known pattern",
            "candidate": "candidate: a weak match, to be confirmed",
            "unknown": "unknown: no pattern matches",
            "insufficient": "insufficient material",
            "not_graph": "not a graph-mode problem",
        },
        "stage": {
            "capture": "capture",
            "replay": "replay",
            "memory": "memory",
            "update": "update",
            "compile": "compile",
            "accuracy": "accuracy",
            "performance": "performance",
            "env": "environment",
            "not_graph": "outside graph mode",
            "unknown": "not established",
        },
        ":": ": ",
        ".": ".",
        "overview": "1. Overview",
        "root_cause": "2. Root cause",
        "fix": "3. Fix",
        "verify": "4. Verify",
        "Verdict": "Verdict",
        "Stage": "Stage",
        "Layer": "Layer",
        "Owner": "Owner",
        "First cause": "First cause",
        "Said": "CANN says",
        "line": "line",
        "Set aside": "Set aside (consequences, not causes)",
        "Codes": "Codes",
        "Patterns": "Patterns",
        "Read as": "Environment read from the report",
        "Release": "torch_npu release by the stack's lines",
        "Framework release": "{} releases that the stack's lines fit",
        "Wheels": "{} wheels that the stack's lines fit",
        "no release": "none of the known ones",
        "other releases": "of other releases",
        "sure": {"certain": "certain", "likely": "likely", "possible": "possible"},
        "against": "this contradicts the version that the report states",
        "Cases": "Similar recorded cases",
        "Of case": {
            "direct_cause": "its cause",
            "fix_now": "its fix now",
            "fix_for_good": "its fix for good",
            "sources": "its source",
        },
        "Read on": "Read on in the source",
        "Listed": "Known issues in the release notes that the report is like (check that yours is one)",
        "Do": ". Do: ",
        "Later": "Later changes nearest to the report, by title (not checked against it)",
        "Any": "Changes nearest to the report, by title (not checked against it; the release that ran may hold them)",
        "In release": "first in {}",
        "On branch": "in no release that was read",
        "Missing": "Missing (please send)",
        "Now": "Now",
        "For good": "For good",
        "Where": "Where",
        "Confirm": "confirm",
        "Evidence": "evidence",
        "no_fix": "No fix is proposed before the layer is located. Send what is listed as missing, or confirm a candidate.",
        "no_fix_known": "No known pattern explains it, so no fix is proposed. Read on from the places below.",
        "no_fix_here": "Graph mode needs no fix for what the report shows.",
        "no_verify": "First confirm the cause: {first}",
        "no_failure": "The report holds no error text; what follows rests on its words alone.",
        "error_named": "The report names {name} without its line in the log; what follows rests on words alone.",
        "question": "If nothing failed and this is a question, it belongs to graph-mode-expert.",
        "confidence": "confidence",
        "and": " and ",
        "not_graph_cause": "Nothing in the report points at capture, replay, update or the compile step of graph mode.",
        "unknown_cause": "Not established: no known pattern matches. Nearest place to look: layer {layer}, stage {stage}.",
        "candidate_cause": "Not established. Candidates, best first: {names}.",
        "insufficient_cause": "Not established: the material does not locate the layer.",
        "cause_from": "cause",
        "trigger": "Trigger",
        "left_out": "Not read",
        "other_fix": "The report is not about graph mode: treat it as the error it is ({type}).",
    },
    "zh": {
        "verdict": {
            "known": "命中已知模式",
            "candidate": "候选：弱匹配，待确认",
            "unknown": "未知：没有匹配的模式",
            "insufficient": "材料不足",
            "not_graph": "不是图模式问题",
        },
        "stage": {
            "capture": "捕获",
            "replay": "重放",
            "memory": "内存",
            "update": "参数更新",
            "compile": "编译",
            "accuracy": "精度",
            "performance": "性能",
            "env": "环境",
            "not_graph": "图模式之外",
            "unknown": "未确定",
        },
        ":": "：",
        ".": "。",
        "overview": "1. 概况",
        "root_cause": "2. 根因",
        "fix": "3. 修复",
        "verify": "4. 验证",
        "Verdict": "结论",
        "Stage": "阶段",
        "Layer": "层级",
        "Owner": "责任方",
        "First cause": "首个原因",
        "Said": "CANN 报告",
        "line": "行",
        "Set aside": "已排除（连带报错，不是原因）",
        "Codes": "错误码",
        "Patterns": "模式",
        "Read as": "从报告中读到的环境",
        "Release": "由堆栈行号推断的 torch_npu 发行版",
        "Framework release": "堆栈行号符合的 {} 发行版",
        "Wheels": "堆栈行号符合的 {} wheel 版本",
        "no release": "已知版本中没有",
        "other releases": "属于其他版本",
        "sure": {"certain": "确定", "likely": "很可能", "possible": "可能"},
        "against": "与报告给出的版本矛盾",
        "Cases": "相似的历史案例",
        "Of case": {
            "direct_cause": "该案例的原因",
            "fix_now": "该案例的临时措施",
            "fix_for_good": "该案例的根本修复",
            "sources": "该案例的来源",
        },
        "Read on": "对应源码位置",
        "Listed": "发行说明中与报告相似的已知问题（请核对是否一致）",
        "Do": "。处理：",
        "Later": "与报告最接近的后续修改（仅按标题，未与报告核对）",
        "Any": "与报告最接近的修改（仅按标题，未与报告核对；所用版本未知，可能已包含）",
        "In release": "首次包含于 {}",
        "On branch": "已读取的版本均不包含",
        "Missing": "缺少的材料（请补充）",
        "Now": "临时措施",
        "For good": "根本修复",
        "Where": "修改位置",
        "Confirm": "确认方法",
        "Evidence": "依据",
        "no_fix": "在定位到层级之前不给出修复方案。请补充下面列出的材料，或先确认某个候选。",
        "no_fix_known": "没有已知模式能解释，因此不给出修复方案。请从下面列出的源码位置继续排查。",
        "no_fix_here": "就报告所示内容，图模式无需修复。",
        "no_verify": "先确认原因：{first}",
        "no_failure": "报告中没有报错文本，以下判断仅依据文字描述。",
        "error_named": "报告提到 {name}，但没有日志中的原始报错行，以下判断仅依据文字描述。",
        "question": "如果没有故障、只是提问，请转 graph-mode-expert。",
        "confidence": "置信度",
        "and": "、",
        "not_graph_cause": "报告中没有任何内容指向图模式的捕获、重放、参数更新或编译环节。",
        "unknown_cause": "未确定：没有匹配的已知模式。建议从层级 {layer}、阶段 {stage} 继续排查。",
        "candidate_cause": "未确定。候选（按可能性排序）：{names}。",
        "insufficient_cause": "未确定：现有材料不足以定位层级。",
        "cause_from": "原因",
        "trigger": "触发条件",
        "left_out": "未读取",
        "other_fix": "该报告与图模式无关，请按错误本身（{type}）处理。",
    },
}


def compose_report(
    record: dict[str, Any], pattern: Pattern | None, candidates: Sequence[Pattern], language: str
) -> dict[str, Any]:
    """Return the record's `report`. The fix stays empty while no pattern has located the layer (the Iron Law)."""
    words = _words(language)
    fix = {"short_term": "", "long_term": "", "where": ""}
    verify: list[str] = []
    if pattern is not None:
        root_cause = _sentence(pattern.text("Cause", language), words, pattern.text("Trigger", language))
        fix["short_term"] = pattern.text("Fix now", language)
        fix["long_term"] = pattern.text("Fix for good", language)
        fix["where"] = _where(record)
        verify = [pattern.text("Verify", language)]
    elif record["verdict"] == "not_graph":
        root_cause = words["not_graph_cause"]
        if record["first_cause"]:
            first = record["first_cause"]
            name = first["type"] if first["type"][:1].isupper() and first["type"] != "CANN" else first["message"][:80]
            fix["short_term"] = words["other_fix"].format(type=name)
    elif record["verdict"] == "candidate":
        names = "; ".join(f"{item.id} {item.title_in(language)}" for item in candidates[:3])
        root_cause = words["candidate_cause"].format(names=names)
        verify = [
            words["no_verify"].format(first=f"[{item['id']}] {item['confirm'][0]}")
            for item in record["patterns"][:3]
            if item["confirm"]
        ]
    elif record["verdict"] == "unknown":
        stage = words["stage"][record["stage"]["value"]]
        root_cause = words["unknown_cause"].format(layer=record["layer"]["value"], stage=stage)
    else:
        root_cause = words["insufficient_cause"]
    return {"overview": _overview(record, words), "root_cause": root_cause, "fix": fix, "verify": verify}


def render_text(record: dict[str, Any]) -> str:
    """Return the report as plain text."""
    return _render(record, heading=lambda title: f"\n{title}\n", mark=lambda text: text)


def render_markdown(record: dict[str, Any]) -> str:
    """Return the report as Markdown; text from the input stands in code spans, so it cannot become structure."""
    return _render(record, heading=lambda title: f"\n## {title}\n", mark=code_span)


def _render(record: dict[str, Any], heading: Any, mark: Any) -> str:
    words = _words(record["input"]["language"])
    report = record["report"]
    out = [heading(words["overview"]).lstrip("\n").rstrip("\n"), report["overview"]]
    out += _located(record, words, mark)
    out.append(heading(words["root_cause"]).rstrip("\n"))
    out.append(report["root_cause"])
    out += _cause_details(record, words, mark)
    out.append(heading(words["fix"]).rstrip("\n"))
    fix = report["fix"]
    if fix["short_term"] or fix["long_term"]:
        rows = (
            ("Now", fix["short_term"]),
            ("For good", fix["long_term"]),
            ("Where", mark(fix["where"]) if fix["where"] else ""),
        )
        out += [f"- {words[key]}{words[':']}{value}" for key, value in rows if value]
    else:
        out.append(words[_no_fix(record)])
    out += _missing(record, words, mark)
    if report["verify"]:
        out.append(heading(words["verify"]).rstrip("\n"))
        out += [f"- {step}" for step in report["verify"]]
    if record["anchors"]:
        out.append(heading(words["Read on"]).rstrip("\n"))
        out += [f"- {_anchor_text(item, mark)}" for item in record["anchors"]]
    if record["known_issues"]:
        out.append(heading(words["Listed"]).rstrip("\n"))
        out += [f"- {issue_text(item, words['Do'])}" for item in record["known_issues"]]
    if record["later_fixes"]:
        is_known = all(item["after"] for item in record["later_fixes"])
        out.append(heading(words["Later" if is_known else "Any"]).rstrip("\n"))
        out += [f"- {_later_text(item, words, mark)}" for item in record["later_fixes"]]
    if record["input"]["left_out"]:
        out += ["", f"{words['left_out']}{words[':']}" + "; ".join(map(mark, record["input"]["left_out"]))]
    return "\n".join(out) + "\n"


def _located(record: dict[str, Any], words: dict[str, Any], mark: Any) -> list[str]:
    rows = [
        f"- {words['Stage']}{words[':']}{words['stage'][record['stage']['value']]} ({record['stage']['phase']}), "
        f"{words['confidence']} {record['stage']['confidence']:.2f}",
        f"- {words['Layer']}{words[':']}{record['layer']['value']}; {words['Owner']}{words[':']}{record['owner']['value']}, "
        f"{words['confidence']} {record['owner']['confidence']:.2f}",
    ]
    shown = {item["line"]: item["text"] for item in record["stage"]["evidence"] + record["layer"]["evidence"]}
    rows += [
        f"  - {words['Evidence']}, {words['line']} {line}{words[':']}{mark(shown[line])}" for line in sorted(shown)[:4]
    ]
    rows += _environment(record["environment"], words, mark)
    return rows


def _environment(environment: dict[str, Any], words: dict[str, Any], mark: Any) -> list[str]:
    """Return what was taken for the user's versions, so that a wrong reading is seen, and the release of the lines."""
    stated = [f"{name} {environment[name]}" for name in _SHOWN_VERSIONS if environment[name]]
    framework = environment["framework"]
    if framework and framework["version"]:
        stated.append(f"{framework['name']} {framework['version']}")
    rows = [f"- {words['Read as']}{words[':']}{mark('; '.join(stated))}"] if stated else []
    inferred = environment["torch_npu_inferred"]
    if inferred and inferred["value"]:
        said = [words["sure"][inferred["sure"]], *([words["against"]] if inferred["contradicts"] else [])]
        places = mark("; ".join(inferred["from"][:3]))
        rows.append(f"- {words['Release']}{words[':']}{inferred['value']} ({', '.join(said)}){words[':']}{places}")
    for item in environment["framework_releases"]:
        against = f" ({words['against']})" if item["contradicts"] else ""
        frames = mark("; ".join((item["from"] or item["not_explained"])[-3:]))
        for rest, label in (("not_explained", "no release"), ("of_others", "other releases")):
            if item["from"] and item[rest]:
                frames += f"; {words[label]}{words[':']}" + mark("; ".join(item[rest][-2:]))
        title = words["Wheels" if item["name"] == COMPILE_PARTS else "Framework release"].format(item["name"])
        rows.append(f"- {title}{words[':']}{item['shown'] or words['no release']}{against}{words[':']}{frames}")
    return rows


def _cause_details(record: dict[str, Any], words: dict[str, Any], mark: Any) -> list[str]:
    rows: list[str] = []
    first = record["first_cause"]
    if first:
        name = f"{first['type']}: " if first["type"][:1].isupper() and first["type"] != "CANN" else ""
        rows.append(
            f"- {words['First cause']} ({words['line']} {first['line']}){words[':']}{mark(name + first['message'][:400])}"
        )
        rows += [f"  - {words['Said']}{words[':']}{mark(said)}" for said in first["said"]]
        if first["frame"]:
            place = f"{first['frame']['file']}:{first['frame']['line']}"
            rows.append(f"  - {mark(place)} {mark(first['frame']['function'])}")
        if first["wrapped_by"]:
            rows.append(f"- {words['Set aside']}{words[':'].strip()}")
            rows += [
                f"  - {words['line']} {item['line']}{words[':']}{mark(item['message'][:120])} ({item['why']})"
                for item in first["wrapped_by"]
            ]
    for item in record["patterns"]:
        rows.append(f"- {words['Patterns']}{words[':']}{item['id']} {item['title']} ({item['score']:.2f})")
        if item["score"] < KNOWN_FROM or item is not record["patterns"][0]:
            rows += [f"  - {words['Confirm']}{words[':']}{step}" for step in item["confirm"][:2]]
    if record["error_codes"]:
        rows.append(f"- {words['Codes']}{words[':'].strip()}")
        rows += [
            f"  - {item['code']} {item['symbol']} ({item['role']}): {item['meaning']}"
            + (f"{words[':']}{mark(item['reason'])}" if item["reason"] else "")
            for item in record["error_codes"][:8]
        ]
    for item in record["cases"]:
        rows.append(f"- {words['Cases']}{words[':']}{item['id']} {item['title']} ({item['score']:.2f})")
        if item is record["cases"][0]:
            rows += [
                f"  - {words['Of case'][name]}{words[':']}{mark(' '.join(item[name].split()))}"
                for name in ("direct_cause", "fix_now", "fix_for_good", "sources")
                if item[name]
            ]
    return rows


def _missing(record: dict[str, Any], words: dict[str, Any], mark: Any) -> list[str]:
    if not record["missing"]:
        return []
    rows = [f"\n{words['Missing']}{words[':'].strip()}"]
    rows += [f"- {item['item']}{words[':']}{item['why']}\n  {mark(item['how'])}" for item in record["missing"]]
    return rows


def _overview(record: dict[str, Any], words: dict[str, Any]) -> str:
    parts = [f"{words['Verdict']}{words[':']}{words['verdict'][record['verdict']]}{words['.']}"]
    if record["patterns"] and record["patterns"][0]["score"] >= KNOWN_FROM:
        best = record["patterns"][0]
        parts.append(f"{best['id']} {best['title']}{words['.']}")
    if record["first_cause"] is None:
        named = record["input"]["error_named"]
        parts.append(words["error_named"].format(name=named) if named else words["no_failure"])
    if record["verdict"] == "insufficient":
        parts.append(words["question"])
    return " ".join(parts)


# Whose sources each owner can change; '' are files of no known repository: the user's own.
_FRAMEWORK_SOURCES = ("vllm-project/vllm-ascend", "vllm-project/vllm", "sgl-project/sglang", "xLLM-AI/xllm")
_SOURCES_OF = {
    "user_code": ("", *_FRAMEWORK_SOURCES),
    "framework": (*_FRAMEWORK_SOURCES, ""),
    "torch_npu": ("Ascend/pytorch",),
    "torch_compile": ("pytorch/pytorch", "Ascend/pytorch"),
    "npugraph_ex": (WHEEL, "Ascend/torchair", "Ascend/pytorch"),
    "op_plugin": ("Ascend/op-plugin",),
}


def _where(record: dict[str, Any]) -> str:
    """Return the place nearest to the failure in what the owner of the fix can change, '' when none is known."""
    repositories = _SOURCES_OF.get(record["owner"]["value"], ())
    exact = [item for item in record["anchors"] if item["exact"] and (item["repo"] or _is_own(item["file"]))]
    for repository in repositories:
        own = next((item for item in exact if item["repo"] == repository), None)
        if own is not None:
            return f"{own['file']}:{own['line']} ({own['function']})"
    # No release has the line: in the user's build it still is where the stack has it.
    frame = (record["first_cause"] or {}).get("frame")
    if not frame or repository_of(frame["file"]) not in repositories:
        return ""
    is_his = repository_of(frame["file"]) or _is_own(frame["file"])
    return f"{path_in_package(frame['file'])}:{frame['line']} ({frame['function']})" if is_his else ""


def _is_own(file: str) -> bool:
    """Say whether a file of no known repository can be of the user or a framework: not of an installed library."""
    return is_of_framework(file) or "-packages/" not in file and not passes_on(file)


def _no_fix(record: dict[str, Any]) -> str:
    """Return which sentence says that no fix is proposed."""
    if record["verdict"] == "not_graph":
        return "no_fix_here"
    is_read = record["verdict"] == "unknown" and not record["missing"] and record["anchors"]
    return "no_fix_known" if is_read else "no_fix"


def _anchor_text(item: dict[str, Any], mark: Any) -> str:
    place = item["file"] + (f":{item['line']}" if item["line"] else "")
    name = f" {mark(item['function'])}" if item["function"] else ""
    repository = f"{item['repo']}" + (f" @ {item['version']}" if item["version"] else "")
    return f"{mark(place)}{name} ({repository.strip()})"


def _later_text(item: dict[str, Any], words: dict[str, Any], mark: Any) -> str:
    first = words["In release"].format(item["first_release"]) if item["first_release"] else words["On branch"]
    functions = f", {mark(', '.join(item['functions'][:3]))}" if item["functions"] else ""
    return f"{item['date']} {item['repo']} {item['commit']} {mark(item['title'])} ({first}{functions})"


def _sentence(cause: str, words: dict[str, Any], trigger: str) -> str:
    return f"{cause} {words['trigger']}{words[':']}{trigger}" if trigger else cause


def _words(language: str) -> dict[str, Any]:
    return _WORDS["zh" if language == "zh" else "en"]
