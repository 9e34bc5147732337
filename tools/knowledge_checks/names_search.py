"""Looks up names in every source at hand, and writes the places into known_names.tsv."""

from __future__ import annotations

import re
from typing import Iterable, Iterator

from knowledge_checks.names import DOTTED, KNOWN, MESSAGE, Known, find_word, joined, load_known, module_of
from knowledge_checks.sources import REVISIONS, Sources

_TOKEN = re.compile(r"--[a-z][a-z0-9-]+|[A-Za-z_]\w*")
HEAD = (
    "# Names that the bundle mentions, each with one place where it stands. Written by verify_knowledge.py --learn.\n"
)


def learn(wanted: Iterable[tuple[str, str]], sources: Sources) -> tuple[int, list[tuple[str, str]]]:
    """Find (kind, name) pairs that the table lacks, and drop rows that nothing mentions.

    Returns how many were found, and those that were not.
    """
    wanted = set(wanted)
    mentioned = {name for _, name in wanted}
    known = {name: row for name, row in load_known().items() if name in mentioned}
    missing = {(kind, name) for kind, name in wanted if name not in known}
    found = _find(missing, sources)
    known.update({row.name: row for row in found})
    rows = sorted(known.values(), key=lambda row: (row.kind, row.name))
    KNOWN.write_text(HEAD + "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return len(found), sorted(missing - {(row.kind, row.name) for row in found})


def _find(missing: set[tuple[str, str]], sources: Sources) -> list[Known]:
    words: dict[str, list[tuple[str, str]]] = {}
    messages = [name for kind, name in missing if kind == MESSAGE]
    for kind, name in missing:
        if kind != MESSAGE:
            words.setdefault(name.rpartition(".")[2] if kind == DOTTED else name, []).append((kind, name))
    # The first word of a message stands on one line of the source, whatever is split after it.
    first_words = sorted({message.split()[0] for message in messages}, key=len, reverse=True)
    starts = re.compile("|".join(map(re.escape, first_words)), re.IGNORECASE) if first_words else None
    best: dict[tuple[str, str], tuple[int, int, str]] = {}
    for order, (owner, path, text) in enumerate(_texts(sources)):
        here = {token for token in set(_TOKEN.findall(text)) if token in words}
        hits = [pair for token in here for pair in words[token] if _fits(pair, owner, path)]
        module = (DOTTED, module_of(path))
        if module in missing:
            best[module] = (0, order, f"{owner} {path}:1")
        if starts and starts.search(text):
            flat = joined(text).lower()
            hits += [(MESSAGE, message) for message in messages if message.lower() in flat]
        for pair in hits:
            rank = _rank(path) - (pair[0] == DOTTED and path.endswith("/__init__.py"))
            if pair in best and best[pair][0] <= rank:
                continue
            at = _line_of(pair, text)
            if at:
                best[pair] = (rank, order, f"{owner} {path}:{at}")
    return [Known(kind, name, source) for (kind, name), (_, _, source) in best.items()]


def _texts(sources: Sources) -> Iterator[tuple[str, str, str]]:
    for version, wheel in sources.torch_npu.items():
        for path, text in wheel.texts():
            yield f"torch_npu {version}", path, text
    for name, repository in sources.repositories.items():
        seen: set[str] = set()
        for ref in dict.fromkeys((*REVISIONS.get(name, ("HEAD",)), *repository.refs_read)):
            if repository.resolve(ref):
                for path, text in repository.blobs(ref, seen):
                    # By commit: a branch moves on, and the line with it.
                    yield f"{name}@{repository.resolve(ref)[:9]}", path, text
    for wheel in sources.packages.values():
        for path, text in wheel.texts():
            yield f"{wheel.name} {wheel.version}", path, text


def _rank(path: str) -> int:
    """Own sources first, then documents, examples and generated files, then tests."""
    if re.search(r"(?:^|/)tests?/|/ut/|test_|(?:^|/)\.|testing/", path):
        return 4
    if path.endswith((".po", ".json", ".yaml", ".yml", ".txt")) or re.search(r"(?:^|/)examples?/|_docs\.py$", path):
        return 3
    return 2 if path.endswith((".md", ".rst")) else 1


def _fits(pair: tuple[str, str], owner: str, path: str) -> bool:
    """A dotted name must stand in its own package: torch.npu.* in torch_npu/npu, vllm_ascend.* in vLLM-Ascend."""
    kind, name = pair
    if kind != DOTTED:
        return True
    if name.startswith(("torch.npu", "torch_npu.npu.")):
        return path.startswith(("torch_npu/npu/", "torch_npu/__init__.py"))
    homes = {
        "torch_npu": ("torch_npu ", "Ascend/pytorch"),
        "torchair": ("Ascend/torchair", "torch_npu "),
        "vllm_ascend": ("vllm-project/vllm-ascend",),
        "vllm": ("vllm-project/",),
        "sglang": ("sglang ",),
        "torch": ("torch ", "torch_npu "),
    }
    return owner.startswith(homes[name.split(".")[0]])


def _line_of(pair: tuple[str, str], text: str) -> int:
    kind, name = pair
    if kind != MESSAGE:
        match = find_word(kind, name, text)
        return text.count("\n", 0, match.start()) + 1 if match else 0
    rows = text.splitlines()
    for number in range(len(rows)):
        if (
            name.lower() in joined("\n".join(rows[number : number + 4])).lower()
            and name.split()[0].lower() in rows[number].lower()
        ):
            return number + 1
    return 0
