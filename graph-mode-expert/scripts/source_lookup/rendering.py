"""Print where texts stand in the sources, and whether a folder is usable, in English or Chinese."""

from __future__ import annotations

from typing import Any

from npu_graph import cli
from npu_graph.framework_map import DEFINITION
from npu_graph.source_map import find_places

from . import call_chains

EXACT, OTHER_RELEASE, SEVERAL, UNKNOWN = "exact", "other_release", "several", "unknown"
# More would bury the answer; --all prints them.
MAX_MATCHES = 6
# Released lines shown when no release is known; a table row of every release would bury the answer.
MAX_RELEASES_SHOWN = 12
MAX_MEMBERS = 40

WORDS = {
    "release": ("torch_npu release", "torch_npu 版本"),
    "known_from": ("known from", "依据"),
    "no_release": ("not known: give --torch-npu, or --source DIR", "未知:请用 --torch-npu 或 --source 指定"),
    "unknown": ("not in the map", "不在映射表中"),
    "nearest": ("nearest known names", "最接近的已知名字"),
    "more": (
        "{} more; --all prints them",
        "还有 {} 处；--all 列出全部",
    ),
    "unknown_name": (
        "no graph API, and no function of the graph core, is called so",
        "没有这样的图模式接口,图模式核心里也没有这个函数",
    ),
    "unknown_why": (
        "no site of torch_npu's graph core and compile parts or the mapped parts of vllm-ascend, vllm, sglang and xllm;"
        " check the spelling, or read the installed file: other parts of them, CANN and PyTorch are not mapped",
        "torch_npu 图模式核心与编译部分以及 vllm-ascend、vllm、sglang、xllm 的已映射部分都没有;"
        "请核对拼写,或直接读已安装的文件:它们的其余部分、CANN 和 PyTorch 不在映射表中",
    ),
    "other": (
        "this line is that of another release: {}",
        "该行号属于其他版本:{}",
    ),
    "line": ("line", "行"),
    "line_from": ("line, from the release named on (- gone)", "行号，自所列版本起（- 表示已删除）"),
    "only_in": (
        "not in the mapped parts of {}: functions, checks, warnings; a variable: lookup_variable.py; an attribute or"
        " another file: grep in the installed package",
        "不在 {} 的已映射部分（函数、检查、告警）；环境变量用 lookup_variable.py；属性或其他文件请在已安装的包里 grep",
    ),
    "not_there": ("not in this release; elsewhere:", "该版本没有;其他版本:"),
    "means": ("usually means", "通常含义"),
    "stage": ("stage", "阶段"),
    "shown": ("read from", "源码"),
    "differs": ("the file has it at line {}, the map says {}", "文件中在第 {} 行,映射表为 {} 行"),
    "near": ("line as in {} (this wheel's own sources are not public)", "行号取自 {}(该 wheel 源码未公开)"),
    "nearest_release": (
        "the version asked for is not in the map; lines of {}, the nearest",
        "映射表中没有所问版本；行号取自最接近的 {}",
    ),
    "no_known": ("none of the known releases", "已知版本中没有"),
    "methods": ("methods", "方法"),
    "since": (" (since {})", "（自 {} 起）"),
    "fits": ("the line lies in this function in: {}", "该行位于此函数内的版本：{}"),
    "contradicts": ("the stack's lines are those of {} ({})", "堆栈行号属于 {}({})"),
    "unexplained": ("no release has: {}", "没有任何版本对应:{}"),
    "get": ("to read the sources", "获取源码"),
    "usable": ("usable", "可用"),
    "python_only": (
        "usable for Python files only: an installation holds no C++ sources",
        "仅 Python 文件可用:安装目录没有 C++ 源码",
    ),
    "core": ("usable for the graph core; operator sources are missing", "图模式核心可用;缺少算子源码"),
    "not_usable": ("not usable", "不可用"),
    "missing": ("missing", "缺少"),
    "wrong_release": ("it is release {}, not {}", "其版本为 {},不是 {}"),
}
SURE_ZH = {"certain": "确定", "likely": "很可能", "possible": "可能"}


def render_answer(record: dict[str, Any], zh: bool, mark: Any, everything: bool) -> str:
    """Return the answer for a terminal (mark = no change) or as Markdown (mark = code)."""
    release = record["release"]
    known = (
        f"{release['value']} (PyTorch {', '.join(release['pytorch'])})" if release["value"] else WORDS["no_release"][zh]
    )
    lines = [f"{WORDS['release'][zh]}: {known}"]
    if release["known_from"]:
        lines[0] += f"; {WORDS['known_from'][zh]} {release['known_from']}"
    lines += _inference_lines(release, zh)
    of_frameworks = all(
        "release" in match and not match["file"].startswith("torch_npu/")
        for result in record["results"]
        for match in result["matches"] or [{}]
    )
    if of_frameworks or record.get("only_frameworks"):
        lines = []  # only places in frameworks, which torch_npu's release says nothing about
    for result in record["results"]:
        lines += ["", mark(cli.one_line(result["query"], 200))]
        if result["nearest"]:
            lines.append(f"  {WORDS['unknown'][zh]}: {WORDS['unknown_name'][zh]}")
            lines.append(f"  {WORDS['nearest'][zh]}: {', '.join(map(mark, result['nearest']))}")
        elif result["status"] == UNKNOWN:
            asked = record["only_frameworks"]
            why = WORDS["only_in"][zh].format(", ".join(asked)) if asked else WORDS["unknown_why"][zh]
            lines.append("  " + (why if asked else f"{WORDS['unknown'][zh]}: {why}"))
        elif result["matches"] and "release" in result["matches"][0] and find_places(result["query"]):
            fits = ", ".join(result["releases_with_this_line"]) or WORDS["no_known"][zh]
            lines.append("  " + WORDS["fits"][zh].format(fits))
        elif result["status"] == OTHER_RELEASE and result["releases_with_this_line"]:
            lines.append("  " + WORDS["other"][zh].format(", ".join(result["releases_with_this_line"][:8])))
        shown = result["matches"] if everything else result["matches"][:MAX_MATCHES]
        for match in shown:
            release_known = match.get("release") is not None if "release" in match else bool(release["value"])
            lines += _match_lines(match, zh, mark, release_known)
        if len(shown) < len(result["matches"]):
            lines.append("  " + WORDS["more"][zh].format(len(result["matches"]) - len(shown)))
        lines += call_chains.render(result["chains"], zh, mark)
    if record["get_sources"]:
        lines += ["", f"{WORDS['get'][zh]}:", *(f"  {mark(command)}" for command in record["get_sources"])]
    return "\n".join(lines).lstrip("\n") + "\n"


def _inference_lines(release: dict[str, Any], zh: bool) -> list[str]:
    inferred, lines = release["inferred"], []
    if not inferred:
        return lines
    if inferred["value"] and release["value"] and inferred["value"] not in release["value"]:
        sure = SURE_ZH[inferred["sure"]] if zh else inferred["sure"]
        lines.append("  " + WORDS["contradicts"][zh].format(inferred["value"], sure))
    if inferred["not_explained"]:
        lines.append("  " + WORDS["unexplained"][zh].format(", ".join(inferred["not_explained"][:6])))
    return lines


def _match_lines(match: dict[str, Any], zh: bool, mark: Any, release_known: bool) -> list[str]:
    at = match["line"] or ("/".join(map(str, match["lines"])) if match["lines"] else None)
    place = f"{match['repo']} {match['file']}" + (f":{at}" if at else "") + f"  {match['function']}"
    of_release = f"  @ {match['release']}" if match.get("release") else ""
    lines = [f"  {mark(place + of_release)}"]
    if match["near"] and "release" in match:
        lines.append("    " + WORDS["nearest_release"][zh].format(match["near"]))
    elif match["near"]:
        lines.append("    " + WORDS["near"][zh].format(match["near"]))
    if at is None:
        table = list(match["lines_by_release"].items())[-MAX_RELEASES_SHOWN:]
        any_release = f"{WORDS['line_from' if 'release' in match else 'line'][zh]}:"
        label = WORDS["not_there"][zh] if release_known else any_release
        lines.append(f"    {label} " + ", ".join(f"{name} {line}" for name, line in table))
    if match["kind"] != DEFINITION:
        lines.append(f"    {match['kind']}: {mark(match['message'][:300])}")
    if match.get("members"):
        names = [
            f"{item['name']} {item['line']}" + (WORDS["since"][zh].format(item["since"]) if item["since"] else "")
            for item in match["members"][:MAX_MEMBERS]
        ]
        lines.append(f"    {WORDS['methods'][zh]} ({match['members_release']}): {', '.join(names)}")
    meaning = match["meaning"]["zh" if zh else "en"]
    if meaning:
        lines.append(f"    {WORDS['stage'][zh]} {match['stage']}; {WORDS['means'][zh]}: {meaning}")
    source = match["source"]
    if source:
        lines.append(f"    {WORDS['shown'][zh]} {mark(source['path'])}:")
        if at is not None and source["line"] != at:
            lines.append("      " + WORDS["differs"][zh].format(source["line"], at))
        for number, text in enumerate(source["lines"], source["first"]):
            pointer = ">" if number == source["line"] else " "
            lines.append(f"    {pointer}{number:>6}  {mark(_printable(text)) if text.strip() else ''}")
    return lines


def render_check(record: dict[str, Any], zh: bool, mark: Any, everything: bool) -> str:
    """Return the result of --check for a terminal or as Markdown."""
    check = record["check"]
    word = {"full": "usable", "core": "core", "python": "python_only", "no": "not_usable"}[check["usable"]]
    lines = [f"{mark(check['folder'])}: {WORDS[word][zh]}"]
    if check["release"]:
        known = f"{check['release']} (PyTorch {', '.join(check['pytorch'])})"
        lines.append(f"  {WORDS['release'][zh]}: {known}; {WORDS['known_from'][zh]} {check['known_from']}")
    if not check["right_release"]:
        lines.append("  " + WORDS["wrong_release"][zh].format(check["release"] or "?", check["wanted"]))
    lines += [f"  {WORDS['missing'][zh]}: {item}" for item in check["missing"]]
    if record["get_sources"]:
        lines += [f"{WORDS['get'][zh]}:", *(f"  {mark(command)}" for command in record["get_sources"])]
    return "\n".join(lines) + "\n"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
