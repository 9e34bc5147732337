"""Names: every variable, option and API that the bundle mentions exists in some version, or is known to exist nowhere.

`known_names.tsv` holds each name that is mentioned with one place where it stands; `absent_names.tsv` holds the names
in circulation that no source has. Both are data: `verify_knowledge.py --learn` looks up new names in the sources.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator, NamedTuple

from knowledge_checks.findings import Outcome
from knowledge_checks.issues import LINK, SHORT
from knowledge_checks.sources import REVISIONS, Sources
from knowledge_checks.texts import CODE, PROSE, REPORT, SIGNATURE, Line, all_lines, scripts
from npu_graph.codes import TABLE_NAME, CodeBook
from npu_graph.patterns import load_patterns

FOLDER = Path(__file__).resolve().parent
KNOWN, ABSENT = FOLDER / "known_names.tsv", FOLDER / "absent_names.tsv"
VARIABLE, OPTION, API, DOTTED, IDENTIFIER, CLASS, MESSAGE = (
    *("variable", "option", "api", "dotted", "identifier", "class", "message"),
)

_FORMS = (
    (OPTION, re.compile(r"(?<![\w-])--[a-z][a-z0-9]+(?:-[a-z0-9]+)*(?![\w-])")),
    (
        DOTTED,
        re.compile(r"(?<![\w./-])(?:torch|torch_npu|torchair|vllm|vllm_ascend|sglang)(?:\.[A-Za-z_]\w*)+(?![\w/])"),
    ),
    (VARIABLE, re.compile(r"(?<![\w.%-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w%])")),
    (API, re.compile(r"(?<!\w)(?:acl|rt|Hccl|hccl|Acl)[a-z]*[A-Z]\w{3,}")),
    (IDENTIFIER, re.compile(r"(?<![\w/<{-])_{0,2}[a-z][a-z0-9]*(?:_[a-z0-9]+)+_{0,2}(?![\w/>}*])")),
)
_CLASS = re.compile(r"(?<![\w/<-])(?=\w*[a-z])[A-Z][a-z0-9]*(?:[A-Z][a-z0-9]*)+(?![\w/>])")
_SPAN = re.compile(r"`([^`]+)`")
# Places, links, files and revisions are checked as anchors and links, not as names.
_NOT_NAMES = re.compile(
    r"https?://\S+|[\w-]+(?:\.[\w-]+)*\.(?:ai|com|org|io)\b|\]\([^)]*\)|[A-Za-z0-9][\w.-]*/[\w.-]+@\S+|[\w.<>~$-]*/[\w./<>-]+|[\w-]+\.(?:py|cpp|cc|h|md|ts|tsv|so|json|yaml|log|txt)\b"
)
# The bundle's own variables, and words that stand for the user's.
_OWN_VARIABLE = re.compile(r"NPU_GRAPH_\w+|YOUR_\w+|[A-Z]+_(?:DIR|FILE)")
_OWN_WORD = re.compile(r"[a-z][\w-]*|--[a-z][\w-]*")
# Its strings are the names of Python's own expression nodes.
_WITHOUT_NAMES = ("npu_graph/regex_safety.py",)
_DENIED = re.compile(
    r"lookup_\w+\.py|exists? in no|not exist|no source|nowhere|not a variable|no variable|has no effect"
    r"|not read|read by no"
    r"|不存在|没有定义|不起作用|没有任何",
    re.IGNORECASE,
)
# How far from an absent name the text must say that it does not exist.
_DENIAL_LINES = 3
# A message is looked up by its longest piece without numbers, quotes and ellipses.
_HOLES = re.compile(
    r"\.{3}|…|\b0x[0-9a-f]+|\d+(?:\.\d+)?|[\[\]()\"<>{}=]"
    r"|(?<!\w)'|'(?!\w)|\b[A-Z]\b|\baclnnX\w*|\w+\.so\b"
)
_SHORTEST_PIECE = 16


class Mention(NamedTuple):
    """A name in a text. `kind` is one of the forms above."""

    kind: str
    name: str
    line: Line


class Known(NamedTuple):
    """A row of known_names.tsv. `source` is `repo@ref path:line`, `package version path:line`, an issue or a link."""

    kind: str
    name: str
    source: str


def load_known(path: Path = KNOWN) -> dict[str, Known]:
    return {cells[1]: Known(*cells) for cells in _rows(path, 3)}


def load_absent(path: Path = ABSENT) -> dict[str, str]:
    return dict(_rows(path, 2))


def _rows(path: Path, columns: int) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        cells = line.split("\t")
        if line and not line.startswith("#"):
            if len(cells) != columns:
                raise ValueError(f"{path.name}: {len(cells)} cells, expected {columns}: {line[:80]!r}")
            yield cells


# --- mentions ----------------------------------------------------------------------------------------------------


def find_mentions(root: Path) -> Iterator[Mention]:
    """Yield the names in pages and in the strings that scripts print, the bundle's own left out."""
    own = own_names(root)
    codes = CodeBook.load([root / "knowledge"])
    for line in all_lines(root):
        if line.kind in (REPORT, SIGNATURE) or line.file in _WITHOUT_NAMES:
            continue
        if line.file.endswith(TABLE_NAME) and line.text.startswith("|"):
            continue  # its rows are checked against their own sources
        for kind, name in names_in(line):
            if kind == VARIABLE and _OWN_VARIABLE.fullmatch(name):
                continue
            if kind == API and name.startswith("aclnnX"):
                continue  # stands for any operator
            if kind == OPTION and name[2:] in own:
                continue  # kb.py makes options of its field names
            if name in own and (kind in (OPTION, API, IDENTIFIER, CLASS) or line.file.endswith(".py")):
                continue
            if kind == VARIABLE and codes.is_known(name):
                continue
            yield Mention(kind, name, line)
    for pattern in load_patterns([root / "knowledge"]).patterns:
        for span in _SPAN.findall(pattern.fields.get("Symptom", "")):
            piece = message_piece(span)
            if piece:
                yield Mention(MESSAGE, piece, Line("knowledge/known-patterns.md", pattern.line, span, PROSE))


def names_in(line: Line) -> list[tuple[str, str]]:
    """Return (kind, name) of one line."""
    text = _NOT_NAMES.sub(" ", line.text)
    found = []
    forms = _FORMS[:4] if line.file.endswith(".py") else _FORMS
    for kind, expression in forms:
        found += [(kind, match.group()) for match in expression.finditer(text)]
        text = expression.sub(" ", text)
    if line.kind == PROSE:
        found += [(CLASS, name) for span in _SPAN.findall(text) for name in _CLASS.findall(span)]
    elif line.kind == CODE and not line.file.endswith(".py"):
        found += [(CLASS, name) for name in _CLASS.findall(text)]
    return found


def message_piece(span: str) -> str:
    """Return what of a quoted message stands in the source as it is; '' when the span is no message."""
    if span.count(" ") < 3 or re.search(r"[{}]|^\w+=|--", span):
        return ""
    pieces = [" ".join(piece.split()).strip(" :,;.`") for piece in _HOLES.split(span)]
    longest = max(pieces, key=len)
    return longest if len(longest) >= _SHORTEST_PIECE else ""


_OWN_HIDDEN = (".claude-plugin", ".ci")


def own_names(root: Path) -> set[str]:
    """Return the identifiers, record keys, options and file names of the bundle itself."""
    own: set[str] = set()
    for path in (*scripts(root), *sorted((root / "tools").glob("**/*.py")), root / "install.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.arg) or isinstance(node, ast.keyword) and node.arg:
                own.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.Constant) and _OWN_WORD.fullmatch(str(node.value)):
                own.add(str(node.value))
    for top in root.iterdir():
        # What a tool makes there (.venv, .git, caches) holds names of others.
        if not top.name.startswith(".") or top.name in _OWN_HIDDEN:
            own.update(path.stem for path in (top, *top.glob("**/*")))
    return own


# --- the check ---------------------------------------------------------------------------------------------------


def check(root: Path, sources: Sources) -> Outcome:
    """Look up every mention in the two tables, and every row of the tables in the sources at hand."""
    outcome = Outcome("names", "variables, options, APIs and messages named in the bundle")
    known, absent = load_known(), load_absent()
    used: set[str] = set()
    denials = _denials(root)
    for mention in find_mentions(root):
        outcome.checked += 1
        used.add(mention.name)
        if mention.name in absent:
            near = range(mention.line.number - _DENIAL_LINES, mention.line.number + _DENIAL_LINES + 1)
            if not any((mention.line.file, number) in denials for number in near):
                text = f"{mention.name} exists nowhere, and the text does not say so"
                outcome.fault(mention.line.file, mention.line.number, text)
        elif mention.name not in known and not _begins_a_known_one(mention, known):
            text = f"{mention.kind} {mention.name!r} is in no source: correct it, or run --learn"
            outcome.fault(mention.line.file, mention.line.number, text)
    for row in known.values():
        _check_row(row, sources, outcome)
    _check_absent(absent, sources, outcome)
    unused = sorted(set(known) - used)
    if unused:
        outcome.notes.append(f"{len(unused)} rows of {KNOWN.name} are mentioned nowhere: {', '.join(unused[:8])}")
    return outcome


def _begins_a_known_one(mention: Mention, known: dict[str, Known]) -> bool:
    """Scripts tell names by their beginning: `TORCH_NPU` in a table of prefixes, `torch_npu.npu_` of an operator."""
    if not mention.line.file.endswith(".py") or mention.kind not in (VARIABLE, DOTTED):
        return False
    beginning = f"{mention.name}_" if mention.kind == VARIABLE else mention.name.rpartition(".")[2]
    return beginning.endswith("_") and any(name.startswith(beginning) for name in known)


def _denials(root: Path) -> set[tuple[str, int]]:
    return {(line.file, line.number) for line in all_lines(root) if _DENIED.search(line.text)}


def _check_row(row: Known, sources: Sources, outcome: Outcome) -> None:
    if SHORT.fullmatch(row.source) or LINK.fullmatch(row.source) or row.source.startswith("https://"):
        outcome.leave_out("the source of a name is a public page")
        return
    place, _, at = row.source.rpartition(":")
    owner, _, path = place.partition(" ")
    text = None
    if "@" in owner:
        repo, _, ref = owner.partition("@")
        repository = sources.repositories.get(repo)
        if repository is None:
            outcome.leave_out(f"name of {repo}, no checkout")
            return
        text = repository.read(ref, path)
    else:
        version, _, path = path.partition(" ")
        wheels = (
            sources.torch_npu
            if owner == "torch_npu"
            else {w.version: w for w in sources.packages.values() if w.name == owner}
        )
        if version not in wheels:
            outcome.leave_out(f"name of {owner} {version}, no wheel")
            return
        text = wheels[version].read(path)
    outcome.checked += 1
    if text is not None and row.kind == DOTTED and module_of(path) == row.name:
        return
    rows = (text or "").splitlines()[int(at) - 1 : int(at) + (3 if row.kind == MESSAGE else 0)]
    if not holds(row.kind, row.name, "\n".join(rows)):
        outcome.fault(KNOWN.name, 0, f"{row.name}: not at {row.source}")


def _check_absent(absent: dict[str, str], sources: Sources, outcome: Outcome) -> None:
    """A name said to exist nowhere must not occur in the sources at hand, not even in a comment."""
    word = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, absent)) + r")(?!\w)")
    for wheel in (*sources.torch_npu.values(), *sources.packages.values()):
        outcome.checked += len(absent)
        for path, text in wheel.texts():
            for name in {match.group() for match in word.finditer(text)}:
                outcome.fault(ABSENT.name, 0, f"{name} does exist: {wheel.name} {wheel.version} {path}")
    for repository in sources.repositories.values():
        for ref in REVISIONS.get(repository.name, ("HEAD",)):
            if repository.resolve(ref):
                outcome.checked += len(absent)
                for hit in repository.grep(ref, absent):
                    outcome.fault(ABSENT.name, 0, f"a name said to be absent is in {repository.name}@{ref} {hit}")


def holds(kind: str, name: str, text: str) -> bool:
    """Say whether a text holds a name as a word, or a message as a text that may be split over literals."""
    if kind == MESSAGE:
        return name.lower() in joined(text).lower()
    return find_word(kind, name, text) is not None


def find_word(kind: str, name: str, text: str) -> re.Match[str] | None:
    word = name.rpartition(".")[2] if kind == DOTTED else name
    return re.search(
        rf"(?<![\w-]){re.escape(word)}(?![\w-])" if kind == OPTION else rf"(?<!\w){re.escape(word)}(?!\w)", text
    )


def module_of(path: str) -> str:
    """Return the dotted name of a Python file."""
    return re.sub(r"(?:/__init__)?\.py$", "", path).replace("/", ".")


def joined(text: str) -> str:
    """Return a text with adjacent string literals joined and white space folded."""
    return " ".join(re.sub(r"[\"']\s*(?:<<\s*|\+\s*|\\\s*)?[fru]?[\"']", "", text).split())
