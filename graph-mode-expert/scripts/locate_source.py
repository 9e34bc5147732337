#!/usr/bin/env python3
"""Turn an error text or a stack frame into file, function and line of the user's torch_npu release, and show the lines.

Usage: locate_source.py TEXT [TEXT ...] | -   [--torch-npu VERSION] [--source DIR] [--output …] [--lang …]
       locate_source.py --check DIR [--torch-npu VERSION]

A TEXT is a message ("NPU graphs must be captured on a non-default stream"), a frame (compiler_depend.ts:193 with its
function name, NPUGraph.cpp:247, graphs.py line 359), a whole stack, or a name: a public graph API or a function that it
passes through (capture_begin, NPUGraph.replay, torch.npu.graph, aclmdlRICaptureBegin) gives the call chain Python,
binding, C++, ACL with every line; another function of the map gives what it raises. - reads standard input.
A name, frame or message of vLLM-Ascend, vLLM, SGLang or xLLM gives its place; --framework looks there only.
VERSION is pip's (2.10.0, 2.7.1.post2) or a release (26.0.0). Without it the release is that of DIR, else the one that
the text states, else the one that the stack's lines belong to, else that of the torch_npu installed here; which one is
printed.
With --source, or an installation on the path, the real file is read and the lines shown; nothing is imported.
--check says whether DIR is usable for reading on, and how to get the right sources.

Exit codes: 0 every TEXT is located (--check: usable), 1 one is not (--check: not usable), 2 wrong usage,
3 nothing to read, 4 the map is missing, 5 internal error. The JSON record is in references/source_reading.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from source_lookup import call_chains, frameworks, source_tree
from source_lookup.rendering import EXACT, OTHER_RELEASE, SEVERAL, UNKNOWN, render_answer, render_check

from npu_graph import bundle, cli
from npu_graph.diagnosis.environment import find_environment
from npu_graph.diagnosis.reading import read_report
from npu_graph.diagnosis.repositories import WHEEL
from npu_graph.framework_map import DEFINITION, FRAMEWORKS
from npu_graph.language import has_chinese
from npu_graph.markdown import code_span
from npu_graph.source_map import MAP_NAME, Inference, Match, Place, Release, Row, SourceMap, find_places, parse_lines

SCHEMA = "npu-graph/source/1"
MAX_ARGUMENT = 64 * 1024
MAX_NAME = 200


class Context(NamedTuple):
    """What the questions are answered with: the map, the release and how it is known, the sources at hand."""

    source_map: SourceMap
    releases: list[Release]
    known_from: str
    exact: bool
    inferred: Inference | None
    tree: source_tree.Tree | None
    chains: call_chains.Chains
    frameworks: frameworks.Finder | None = None


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    source_map = SourceMap.load(bundle.knowledge_folders())
    if not source_map.releases:
        raise cli.CommandError(
            f"no map: {MAP_NAME} was expected in knowledge/; copy the whole bundle again", cli.ABSENT
        )
    if options.check is not None:
        if options.text or options.source or options.framework:
            raise cli.CommandError("--check takes a folder, no TEXT, no --source and no --framework; ask in two calls")
        return _print(check_folder(options.check, options.torch_npu, source_map), options, render_check)
    if not options.text:
        raise cli.CommandError("a TEXT is needed: an error message, a frame, or - for standard input")
    texts = [_text_of(argument) for argument in options.text]
    zh = options.lang == "zh" or (not options.lang and any(has_chinese(text) for text in texts))
    options.lang = "zh" if zh else "en"
    context = find_context(texts, options.torch_npu, options.source, source_map)
    asked = _framework_versions(options.framework)
    tree = context.tree if options.source else None
    wheels = [release.wheel for release in context.releases]
    context = context._replace(frameworks=frameworks.Finder(asked, texts, bundle.knowledge_folders(), tree, wheels))
    record = locate(texts, context)
    for argument in options.text:
        if _is_file(argument) and any(result["status"] == UNKNOWN for result in record["results"]):
            hint = f"{argument} is a file here; to look up what is in it: locate_source.py - < {argument}"
            print(f"locate_source.py: {cli.one_line(hint)}", file=sys.stderr)
    return _print(record, options, render_answer)


def find_context(texts: Sequence[str], version: str, folder: str, source_map: SourceMap) -> Context:
    """Decide which release is meant: the one given, else that of the sources, else that of the stack's lines."""
    tree = _open(folder) if folder else None
    chains = call_chains.Chains.load()
    inferred = source_map.infer_release([place for text in texts for place in find_places(text)])
    of_tree, how_of_tree = source_tree.release_of(tree, source_map) if tree is not None else ([], "")
    # A folder whose release cannot be told says less than the text does.
    stated = "" if version or of_tree else _stated_version(texts, source_map)
    if version or stated:
        releases, exact = source_map.find_release(version or stated)
        if not releases:
            newest = list(source_map.wheels)[-1]
            raise cli.CommandError(
                f"torch_npu {version} is not in the map; expected a wheel's version (2.10.0, {newest}) or a release"
            )
        how = "--torch-npu" if version else f"text: torch_npu {stated}"
        return Context(source_map, releases, how, exact, inferred, tree, chains)
    if of_tree:
        return Context(source_map, of_tree, f"--source: {how_of_tree}", True, inferred, tree, chains)
    if inferred and inferred.value:
        releases = [
            source_map.releases[release_id]
            for release_id in inferred.ids
            if source_map.root(release_id) == inferred.value
        ]
        exact = inferred.sure != "possible"
        return Context(source_map, releases, f"stack ({inferred.sure})", exact, inferred, tree, chains)
    if tree is None:
        tree = source_tree.find_installed()
        if tree is not None:
            releases, how = source_tree.release_of(tree, source_map)
            return Context(source_map, releases, f"installed: {how}", bool(releases), inferred, tree, chains)
    return Context(source_map, [], "", False, inferred, tree, chains)


def locate(texts: Sequence[str], context: Context) -> dict[str, Any]:
    """Return the record of schema npu-graph/source/1 for the texts."""
    results = [result for text in texts for result in _results_of(text, context)]
    names = list(dict.fromkeys(release.release for release in context.releases))
    release = context.releases[0] if context.releases else None
    return {
        "schema": SCHEMA,
        "release": {
            "value": " or ".join(names) or None,
            "pytorch": list(dict.fromkeys(release.pytorch for release in context.releases)),
            "known_from": context.known_from or None,
            "exact": context.exact,
            "inferred": _inference_record(context.inferred, context.source_map),
        },
        "results": results,
        "only_frameworks": list(context.frameworks.versions) if context.frameworks is not None else [],
        "get_sources": source_tree.clone_commands(release) if release and context.tree is None else [],
    }


def _results_of(text: str, context: Context) -> list[dict[str, Any]]:
    """Return one result for every place of a text that the map knows, and one for the message it holds."""
    if context.frameworks is not None and context.frameworks.versions:
        return [_framework_result(text, context)]
    release_id = context.releases[0].id if context.releases else ""
    results = []
    seen: set[Row] = set()
    for place in dict.fromkeys(find_places(text)):
        matches = context.source_map.match_place(place, release_id)
        new = [match for match in matches if match.row not in seen]
        seen.update(match.row for match in matches)
        if new:
            results.append(_result(place.text, place, new, context))
    calls = [row for row in context.source_map.rows if _names_call(text, row)]
    messages = [] if calls else context.source_map.match_text(text, release_id)
    best = [match for match in messages if match.score == messages[0].score]
    found = [Match(row, _line_in(row, context), 1.0) for row in calls] or best
    found = [match for match in found if match.line is not None] or found
    if found and not seen.intersection(match.row for match in found):
        results.append(_result(cli.one_line(text, 300), None, found, context))
    names = context.chains.find(text)
    if names and not calls:
        results = [_chain_result(text, names, [], context)]
    elif names:
        results[-1]["chains"] = _chain_records(names, context)
    elif not results:
        results = [_name_result(text, context)]
    if not any(result["matches"] or result["chains"] for result in results):
        of_framework = _framework_result(text, context)
        results = [of_framework] if of_framework["matches"] else results
    return results


def _framework_result(text: str, context: Context) -> dict[str, Any]:
    """Return what a name, frame or message is in a serving framework."""
    matches = context.frameworks.find(text) if context.frameworks is not None else []
    fits = [release for match in matches[:1] for release in match["releases_with_this_line"]]
    status = UNKNOWN
    if matches:
        first = matches[0]
        of_frame = bool(find_places(text)) and first["kind"] == DEFINITION
        elsewhere = of_frame and first["release"] not in (None, *fits) or not fits and of_frame
        gone = first["release"] is not None and not first["lines"]
        status = EXACT if len(matches) == 1 and first["exact"] else SEVERAL
        status = OTHER_RELEASE if elsewhere or gone else status
    return {
        "query": cli.one_line(text, 300),
        "status": status,
        "releases_with_this_line": fits,
        "matches": matches,
        "chains": [],
        "nearest": [],
    }


def _name_result(text: str, context: Context) -> dict[str, Any]:
    """Return what a text is that is no site: a function of the map, a question that names an API, or nothing known."""
    inside = [row for row in context.source_map.rows if row.kind != "frame" and _is_in(text, row)]
    if inside:
        matches = [Match(row, _line_in(row, context), 1.0) for row in inside]
        return _result(cli.one_line(text, 300), None, [item for item in matches if item.line] or matches, context)
    names = context.chains.find_in_question(text)
    if names:
        return _chain_result(text, names, [], context)
    functions = dict.fromkeys(row.function for row in context.source_map.rows)
    return _chain_result(text, [], context.chains.nearest(text, list(functions)), context)


def _chain_result(text: str, names: Sequence[str], nearest: Sequence[str], context: Context) -> dict[str, Any]:
    result = _result(cli.one_line(text, 300), None, [], context)
    if names:
        result["status"] = EXACT if context.releases and context.exact else SEVERAL
    return {**result, "chains": _chain_records(names, context), "nearest": list(nearest)}


def _chain_records(names: Sequence[str], context: Context) -> list[dict[str, Any]]:
    return call_chains.records(context.chains, names, context.source_map, context.releases, context.tree)


def _result(query: str, place: Place | None, matches: Sequence[Match], context: Context) -> dict[str, Any]:
    records = [_match_record(match, place, context) for match in matches]
    if not records:
        status = UNKNOWN
    elif place is not None and context.releases and not any(item["line"] == place.line for item in records):
        status = OTHER_RELEASE
    elif len(matches) > 1:
        status = SEVERAL
    else:
        status = EXACT if records[0]["exact"] else OTHER_RELEASE if records[0]["line"] is None else SEVERAL
    fits = context.source_map.releases_at(place) if place is not None else None
    return {
        "query": query,
        "status": status,
        "releases_with_this_line": _release_names(fits or [], context.source_map),
        "matches": records,
        "chains": [],
        "nearest": [],
    }


def _match_record(match: Match, place: Place | None, context: Context) -> dict[str, Any]:
    row, source_map = match.row, context.source_map
    by_release = {release.id: source_map.lines_in(row, release.id) for release in context.releases}
    distinct = {lines for lines in by_release.values() if lines}
    asked = place.line if place is not None else None
    lines = sorted({line for numbers in distinct for line in numbers})
    line = asked if asked in lines else lines[0] if len(lines) == 1 else None
    measured = all(source_map.is_measured(row, release) for release in context.releases)
    meaning = source_map.meaning_of(row)
    shown = None
    if context.tree is not None and (line or lines):
        shown = source_tree.read_site(context.tree, row.file, line or lines[0], row.message)
    release = context.releases[0] if context.releases else None
    repository, path = _in_repository(row.file)
    return {
        "repo": repository,
        "ref": _reference(repository, release),
        "file": path,
        "installed_file": row.file,
        "function": row.function,
        "printed_function": row.printed,
        "line": line,
        "lines": lines,
        "exact": bool(line) and context.exact and measured,
        "near": "" if measured or release is None else release.base,
        "kind": row.kind,
        "message": row.message,
        "stage": meaning.stage if row.kind != "frame" else None,
        "meaning": {"en": meaning.en, "zh": meaning.zh},
        "lines_by_release": _lines_by_release(row, source_map),
        "source": shown._asdict() if shown else None,
    }


def check_folder(folder: str, version: str, source_map: SourceMap) -> dict[str, Any]:
    """Return whether a folder is usable for reading on: the release, the key files, and how to get the right one."""
    tree = _open(folder)
    releases, how = source_tree.release_of(tree, source_map)
    wanted = source_map.find_release(version)[0] if version else []
    if version and not wanted:
        raise cli.CommandError(f"torch_npu {version} is not in the map; expected a wheel's version or a release")
    missing = source_tree.missing_files(tree)
    names = list(dict.fromkeys(release.release for release in releases))
    right = not wanted or any(release.id in {w.id for w in wanted} for release in releases)
    if (
        tree.kind == source_tree.NOTHING
        or not right
        or (tree.kind == source_tree.CHECKOUT and set(missing) - {source_tree.OPERATORS})
    ):
        usable = "no"
    else:
        usable = "python" if tree.kind == source_tree.INSTALLED else "core" if missing else "full"
    target = (wanted or releases or [_newest_final(source_map)])[0]
    return {
        "schema": SCHEMA,
        "check": {
            "folder": str(folder),
            "kind": tree.kind,
            "usable": usable,
            "version": tree.version or None,
            "commit": tree.commit or None,
            "release": " or ".join(names) or None,
            "pytorch": list(dict.fromkeys(release.pytorch for release in releases)),
            "known_from": how or None,
            "wanted": " or ".join(dict.fromkeys(release.release for release in wanted)) or None,
            "right_release": right,
            "missing": missing,
        },
        "get_sources": source_tree.clone_commands(target) if usable != "full" else [],
    }


def _print(record: dict[str, Any], options: argparse.Namespace, render: Any) -> int:
    if options.output == "json":
        cli.write_json(record)
    else:
        text = render(record, options.lang == "zh", code_span if options.output == "md" else str, options.all)
        cli.write_text(text if options.all else cli.bound_output(text))
    if "check" in record:
        return cli.NEGATIVE if record["check"]["usable"] == "no" else cli.DONE
    located = all(
        result["chains"]
        or any("release" not in match or match["lines"] or match["release"] is None for match in result["matches"])
        for result in record["results"]
    )
    return cli.DONE if located else cli.NEGATIVE


# --- small things ------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = cli.make_parser(
        "Turn an error text or a stack frame into file, function and line of the user's torch_npu release.",
        [
            'locate_source.py "NPU graphs must be captured on a non-default stream" --torch-npu 2.10.0',
            "locate_source.py capture_begin --torch-npu 2.10.0",
            "locate_source.py _dummy_run --framework vllm-ascend==0.18.0",
            'locate_source.py "capture_end:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:209" --lang zh',
            "locate_source.py - --source ascend-pytorch --output json < stack.txt",
            "locate_source.py --check ascend-pytorch --torch-npu 26.0.0",
        ],
    )
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="an error text, a frame, a stack, a name; - reads standard input"
    )
    parser.add_argument("--torch-npu", default="", metavar="VERSION", help="wheel version or release of the user")
    parser.add_argument(
        "--framework",
        action="append",
        default=[],
        metavar="NAME[==VERSION]",
        help="look in vllm-ascend, vllm, sglang or xllm only, at that version: vllm-ascend==0.18.0",
    )
    parser.add_argument("--source", default="", metavar="DIR", help="a checkout or site-packages to show lines from")
    parser.add_argument("--check", metavar="DIR", help="say whether DIR is usable for reading on")
    parser.add_argument("--output", choices=("text", "json", "md"), default="text", help="default: text")
    parser.add_argument("--lang", choices=("en", "zh"), default="", help="language of labels; default: that of TEXT")
    parser.add_argument("--all", action="store_true", help="print everything, however long")
    return parser


def _framework_versions(given: Sequence[str]) -> dict[str, str]:
    """Return framework -> version of the --framework options."""
    versions = {}
    for item in given:
        name, _, version = item.partition("==")
        name = name.strip().lower().replace("_", "-")
        if name not in FRAMEWORKS:
            raise cli.CommandError(f"--framework {item}: expected one of {', '.join(FRAMEWORKS)}, then ==VERSION")
        if name in versions:
            raise cli.CommandError(f"--framework {name} is given twice; ask for each version in a call of its own")
        versions[name] = version.strip()
    return versions


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):
        return False  # no text that could be a file's name


def _text_of(argument: str) -> str:
    text = read_report(cli.read_inputs(["-"])).text if argument == "-" else argument[:MAX_ARGUMENT]
    if not text.strip():
        raise cli.CommandError("a TEXT is empty; give an error message or a frame", cli.NO_INPUT)
    return text


def _stated_version(texts: Sequence[str], source_map: SourceMap) -> str:
    """Return the torch_npu version that a text itself states, when the map knows it."""
    version = next((v for v in (find_environment(text)["torch_npu"] for text in texts) if v), "")
    return version if version and source_map.find_release(version)[0] else ""


def _open(folder: str) -> source_tree.Tree:
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise cli.CommandError(f"{folder} is not a folder; give a checkout or a site-packages folder", cli.NO_INPUT)
    return source_tree.open_tree(path)


def _names_call(text: str, row: Row) -> bool:
    """Say whether the text is just the name of an ACL call (AclmdlRICaptureEnd, aclmdlRICaptureEnd) of this site."""
    name = text.strip().partition("(")[0].rpartition("::")[2].lower()
    namespace, _, call = row.message.partition("(")[0].rpartition("::")
    return len(name) >= 8 and name == call.lower() and namespace != "" and row.kind != "frame"


def _is_in(text: str, row: Row) -> bool:
    """Say whether the text is just the name of the function that holds this site; a plain word (stream) is not."""
    if len(text) > MAX_NAME:
        return False
    name = text.strip().rstrip("() ")
    return re.search(r"[A-Z_.:]", name) is not None and name in (row.function, re.split(r"::|\.", row.function)[-1])


def _line_in(row: Row, context: Context) -> int | None:
    lines = context.source_map.lines_in(row, context.releases[0].id) if context.releases else ()
    return lines[0] if lines else None


def _in_repository(file: str) -> tuple[str, str]:
    if file.startswith("torch_npu/dynamo/torchair/"):
        return "Ascend/torchair", file.replace("torch_npu/dynamo/", "python/", 1)
    if file.startswith("torch_npu/dynamo/npugraph_ex/"):
        return WHEEL, file
    return "Ascend/pytorch", file


def _reference(repository: str, release: Release | None) -> str | None:
    if release is None:
        return None
    if repository == "Ascend/torchair":
        return release.torchair or None
    return (
        (release.ref or f"git_version {release.commit}") if repository == "Ascend/pytorch" else f"wheel {release.wheel}"
    )


def _lines_by_release(row: Row, source_map: SourceMap) -> dict[str, str]:
    """Return `{release or release/PyTorch: lines}` as the map holds them."""
    return {
        name: "+".join(map(str, lines)) or "-"
        for name, lines in parse_lines(row.where).items()
        if name in source_map.releases or "/" not in name
    }


def _release_names(ids: Sequence[str], source_map: SourceMap) -> list[str]:
    published = [release_id for release_id in ids if source_map.releases[release_id].status == "final"]
    return list(dict.fromkeys(source_map.root(release_id) for release_id in published or ids))


def _inference_record(inferred: Inference | None, source_map: SourceMap) -> dict[str, Any] | None:
    if inferred is None:
        return None
    return {
        "value": inferred.value or None,
        "sure": inferred.sure,
        "from": inferred.evidence,
        "not_explained": inferred.against,
        "alternatives": [name for name in _release_names(inferred.ids, source_map) if name != inferred.value],
        "ids": inferred.ids,
    }


def _newest_final(source_map: SourceMap) -> Release:
    return [release for release in source_map.releases.values() if release.status == "final"][-1]


if __name__ == "__main__":
    cli.run(main)
