"""Findings of many files and hosts: a set of segments that merges in any order, and its JSON form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable, NamedTuple

from npu_graph.logs.segment import Segment, joined

SCHEMA = "npu-graph/log-partial/1"


class SourceInfo(NamedTuple):
    """What is known of a file besides its lines."""

    host: str
    path: str
    size: int
    clock: str  # what the year was taken from
    zone: int | None
    notes: tuple[str, ...] = ()
    ended: int | None = None  # when the file was last written (local µs), None when unknown

    @property
    def id(self) -> str:
        return f"{self.host}:{self.path}" if self.host else self.path


class Partial:
    """A mergeable result. Merging is a union: associative, commutative, and the same part twice changes nothing."""

    def __init__(self) -> None:
        self.infos: dict[str, SourceInfo] = {}
        self.segments: dict[str, dict[tuple[int, int], Segment]] = {}
        self.skipped: set[tuple[str, str, str]] = set()  # (host, path, reason)
        self.missing: set[tuple[str, str]] = set()  # (host, reason): a part that never came
        self.interrupted = False
        # (source id, line) -> the lines around it, for a place that the report will quote
        self.contexts: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self._joined: list[tuple[SourceInfo, Segment]] = []

    def add(self, info: SourceInfo, segments: Iterable[Segment]) -> None:
        """Add a source's consecutive segments as one."""
        whole = joined(segments)
        self._joined = []
        self.infos[info.id] = info
        self.segments.setdefault(info.id, {})[(whole.start, whole.end)] = whole

    def sources(self) -> list[tuple[SourceInfo, Segment]]:
        """Return every source with its findings, segments that touch joined, in a fixed order."""
        if self._joined:
            return self._joined
        found: list[tuple[SourceInfo, Segment]] = []
        for identity in sorted(self.infos):
            parts = self.segments.get(identity, {})
            run: list[Segment] = []
            reached = -1
            for place in sorted(parts, key=lambda item: (item[0], -item[1])):
                if place[0] >= reached:
                    run.append(parts[place])
                    reached = max(reached, place[1])
            found.append((self.infos[identity], run[0] if len(run) == 1 else joined(run)))
        self._joined = found
        return found

    def to_record(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "interrupted": self.interrupted,
            "sources": [
                {
                    "info": list(self.infos[identity]),
                    "segments": [
                        self.segments[identity][place].to_record() for place in sorted(self.segments[identity])
                    ],
                }
                for identity in sorted(self.infos)
            ],
            "skipped": sorted(self.skipped),
            "missing": sorted(self.missing),
            "contexts": [[*place, self.contexts[place]] for place in sorted(self.contexts)],
        }

    @classmethod
    def from_record(cls, record: Any) -> Partial:
        """Read the JSON form back.

        Raises:
            ValueError: it is not a partial result of this schema.
        """
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            raise ValueError(f"not a {SCHEMA} document")
        made = cls()
        try:
            made.interrupted = bool(record["interrupted"])
            for item in record["sources"]:
                host, path, size, clock, zone, notes, ended = item["info"]
                info = SourceInfo(host, path, size, clock, zone, tuple(notes), ended)
                made.infos[info.id] = info
                parts = [Segment.from_record(part) for part in item["segments"]]
                made.segments[info.id] = {(part.start, part.end): part for part in parts}
            made.skipped = {(str(a), str(b), str(c)) for a, b, c in record["skipped"]}
            made.missing = {(str(a), str(b)) for a, b in record["missing"]}
            for source, line, lines in record["contexts"]:
                made.contexts[(str(source), int(line))] = [(int(number), str(text)) for number, text in lines]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ValueError(f"a damaged {SCHEMA} document ({type(error).__name__}: {error})") from None
        return made


def merge(parts: Iterable[Partial]) -> Partial:
    """Return the union of the parts."""
    whole = Partial()
    for part in parts:
        for identity, info in part.infos.items():
            known = whole.infos.get(identity)
            whole.infos[identity] = info if known is None else max(known, info, key=_info_order)
            whole.segments.setdefault(identity, {}).update(part.segments.get(identity, {}))
        whole.skipped |= part.skipped
        whole.missing |= part.missing
        whole.interrupted = whole.interrupted or part.interrupted
        whole.contexts.update(part.contexts)
    return whole


def _info_order(info: SourceInfo) -> tuple[str, ...]:
    return tuple(map(str, info))


def load(path: Path) -> Partial:
    """Read a partial result from a file.

    Raises:
        ValueError: it cannot be read, or is not a partial result.
    """
    if path.exists() and not path.is_file():
        raise ValueError("not a regular file")
    try:
        return Partial.from_record(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(error.strerror or type(error).__name__) from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON ({type(error).__name__})") from None
