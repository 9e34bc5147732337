"""Runs every rule over every file: sources in, findings and problems out."""

from __future__ import annotations

import ast
from typing import Iterable, NamedTuple, Sequence

from . import rules_api, rules_copies, rules_environment, rules_reads, rules_replay, rules_shapes, rules_streams
from .conditions import mentions, mentions_capture
from .project import Class, Function, Module, Project
from .rule import RULES, SEVERITIES, Finding, Remark, Rule
from .sources import Problem, Source, find_files, read_source, suppressed
from .trace import ENTRY, Event, Trace, Value
from .walk import Walker

# Importing a module of rules registers them; the names are kept so that the order of the table is plain.
RULE_MODULES = (rules_reads, rules_shapes, rules_copies, rules_api, rules_streams, rules_replay, rules_environment)


class Entry(NamedTuple):
    """A function that a framework captures, as given with --entry module:function."""

    module: str
    function: str


class Report(NamedTuple):
    """What a run found."""

    findings: list[Finding]
    problems: list[Problem]
    files: int
    regions: int
    suppressed: int
    missing_entries: list[str]
    # Where each region begins, as "file:line" and its kind (trace.py).
    inspected: list[tuple[str, str]]


def lint_paths(paths: Sequence[str], entries: Sequence[Entry] = (), rules: Iterable[str] = ()) -> Report:
    """Inspect files and folders.

    Args:
        paths: .py and .ipynb files, or folders of them.
        entries: functions that a framework captures.
        rules: ids to run; all when empty.
    """
    files, problems = find_files(paths)
    sources: list[Source] = []
    for path in files:
        found = read_source(path)
        if isinstance(found, Source):
            sources.append(found)
        else:
            problems.append(found)
    report = lint_sources(sources, entries, rules)
    return report._replace(problems=[*problems, *report.problems])


def lint_sources(sources: Sequence[Source], entries: Sequence[Entry] = (), rules: Iterable[str] = ()) -> Report:
    """Inspect parsed files; calls between them are followed."""
    chosen = [RULES[name] for name in sorted(RULES) if not rules or name in set(rules)]
    project = Project(sources)
    problems: list[Problem] = []
    found: dict[tuple[str, int, int, str], Finding] = {}
    regions: set[tuple[str, int, str]] = set()
    texts = {source.file: source.lines for source in sources}
    hidden: set[tuple[str, int, str]] = set()
    called = called_names(project)
    inlined: set[int] = set()
    missing: list[str] = []
    try:
        for trace in _entry_traces(project, entries, missing, inlined):
            _judge(trace, chosen, texts, found, hidden, regions)
    except RecursionError:
        problems.append(
            Problem(sources[0].file, 0, "or a file it calls has expressions nested too deep to be followed")
        )
    for module in project.modules:
        try:
            for trace in _module_traces(project, module, called, inlined):
                _judge(trace, chosen, texts, found, hidden, regions)
        except RecursionError:
            problems.append(Problem(module.source.file, 0, "has expressions nested too deep to be followed"))
    findings = sorted(found.values(), key=lambda item: (item.file, item.line, item.column, item.rule.id))
    inspected = [(f"{file}:{line}", kind) for file, line, kind in sorted(regions)]
    return Report(findings, problems, len(sources), len(regions), len(hidden), missing, inspected)


def called_names(project: Project) -> set[str]:
    """Return the names that occur as called functions or methods of self anywhere in the files."""
    names: set[str] = set()
    for module in project.modules:
        for node in ast.walk(module.source.tree):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    names.add(node.func.id)
                elif isinstance(node.func, ast.Attribute):
                    names.add(node.func.attr)
    return names


def _entry_traces(project: Project, entries: Sequence[Entry], missing: list[str], inlined: set[int]) -> Iterable[Trace]:
    for entry in entries:
        function = project.find_entry(entry.module, entry.function)
        if function is None:
            missing.append(f"{entry.module}:{entry.function}")
            continue
        trace = Trace(function.file, function.label)
        trace.facts = file_facts(function.module)
        walker = Walker(project, trace, inlined)
        outer = Walker(project, Trace(function.file, ""), set()).walk_module(function.module)
        walker.frame.module = function.module
        walker.frame.path = ()
        walker.walk_region(function, ENTRY, function.node.lineno, outer, [])
        yield trace


def _module_traces(project: Project, module: Module, called: set[str], inlined: set[int]) -> Iterable[Trace]:
    """Yield the traces of a file: top level, classes, functions; roots first, so that helpers are seen in use."""
    facts = file_facts(module)
    if "captures" not in facts:
        return
    top = Trace(module.source.file, "")
    top.facts = facts
    names = Walker(project, top, inlined).walk_module(module)
    yield top
    classes = [owner for owner in module.classes.values() if mentions(owner.node)]
    for owner in classes:
        yield _class_trace(project, owner, names, facts, inlined)
    plain = [item for item in module.all_functions if item.owner is None and _matters(item)]
    for function in sorted(plain, key=lambda item: getattr(item.node, "name", "") in called):
        if id(function.node) in inlined:
            continue
        trace = Trace(module.source.file, function.label)
        trace.facts = facts
        Walker(project, trace, inlined).walk_unit(function, names)
        yield trace


def _matters(function: Function) -> bool:
    return mentions_capture(function) or bool(getattr(function.node, "decorator_list", None))


def _class_trace(project: Project, owner: Class, names: dict[str, Value], facts: set[str], inlined: set[int]) -> Trace:
    """Read the methods of a class in one trace: what one method captures, another replays."""
    trace = Trace(owner.module.source.file, owner.node.name)
    trace.facts = facts
    walker = Walker(project, trace, inlined)
    own_calls = {
        node.func.attr
        for node in ast.walk(owner.node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if node.func.value.id in ("self", "cls")
    }
    methods = [method for method in owner.methods.values() if _matters(method)]
    order = sorted(
        methods, key=lambda item: (item.label.endswith(".__init__"), item.label.rpartition(".")[2] in own_calls)
    )
    begins = [item for item in order if _begins(item)]
    for method in [*begins, *(item for item in order if item not in begins)]:
        if id(method.node) not in inlined:
            walker.walk_unit(method, names)
    return trace


def _begins(function: Function) -> bool:
    """Say whether a method opens a capture by itself."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("graph", "capture_begin", "make_graphed_callables")
        for node in ast.walk(function.node)
    )


def file_facts(module: Module) -> set[str]:
    """Return what a whole file says that rules ask for."""
    facts: set[str] = set()
    if mentions(module.source.tree):
        facts.add("captures")
    for node in ast.walk(module.source.tree):
        if isinstance(node, ast.Call) and _pins_memory(node):
            facts.add("pinning loader")
    return facts


def _pins_memory(node: ast.Call) -> bool:
    """Say whether a call makes a DataLoader with a pin-memory thread."""
    if getattr(node.func, "attr", getattr(node.func, "id", "")) != "DataLoader":
        return False
    return any(item.arg == "pin_memory" and getattr(item.value, "value", None) is True for item in node.keywords)


def _judge(
    trace: Trace,
    rules: Sequence[Rule],
    texts: dict[str, list[str]],
    found: dict[tuple[str, int, int, str], Finding],
    hidden: set[tuple[str, int, str]],
    regions: set[tuple[str, int, str]],
) -> None:
    for event in trace.events:
        if event.region is not None:
            regions.add((event.region.file, event.region.line, event.region.kind))
        if event.kind == "enter":
            regions.add((event.file, getattr(event.node, "lineno", 0), "manual"))
    for rule in rules:
        for event, detail in rule.check(trace):
            if event.guarded or event.expected_failure:
                continue
            finding = _finding(rule, event, detail, texts)
            line = texts[event.file][finding.line - 1] if 0 < finding.line <= len(texts[event.file]) else ""
            ids = suppressed(line)
            if ids is not None and (not ids or rule.id in ids):
                hidden.add((finding.file, finding.line, rule.id))
                continue
            key = (finding.file, finding.line, finding.column, rule.id)
            # Reached from an entry and from a region of its own, a place counts by the graver of the two.
            if key not in found or SEVERITIES.index(finding.severity) < SEVERITIES.index(found[key].severity):
                found[key] = finding


def _finding(rule: Rule, event: Event, detail: str | Remark, texts: dict[str, list[str]]) -> Finding:
    node = event.node
    line = getattr(node, "lineno", 1)
    lines = texts[event.file]
    text = lines[line - 1].strip()[:160] if 0 < line <= len(lines) else ""
    region = event.region
    label = f"{region.label} at {region.file}:{region.line}" if region is not None else ""
    if isinstance(detail, Remark):
        message, severity = detail
    else:
        message, severity = rule.message.replace("{}", detail[:80]), rule.severity
    return Finding(
        rule,
        severity,
        event.file,
        line,
        getattr(node, "col_offset", 0) + 1,
        getattr(node, "end_lineno", None) or line,
        message,
        label,
        event.path,
        text,
    )
