"""Tells a service's statistics from its other lines by what stands before the message: vLLM's and SGLang's lines."""

from __future__ import annotations

from typing import Callable, Dict, Sequence

from npu_graph.logs.dispatch import CHECK, ERROR, NOISE, SLOW, Entries, Entry
from npu_graph.logs.lines import BAD_LEVELS, LogLine
from npu_graph.logs.signatures import SERVICE_NOISE_FILES, SGLANG_NOISE

# How much of a line is looked up, from the start of its head: `(EngineCore_DP0 pid=12000) INFO 12-03 11:20:42
# [loggers.py:` of vLLM, with a stamp that is the same for a second; ` TP0] Decode batch` after SGLang's stamp.
VLLM_KEY = slice(0, 64)
SGLANG_KEY = slice(20, 48)
_STAMP_SIZE = 15  # ` 12-03 11:20:42` between vLLM's level and its source file
_MAX_CACHED = 1 << 16
_MAX_HEADS = 4096
_UNDECIDED = 0


class ServiceLines:
    """Gives each line of a service a code: of an entry (process, level, what to do), or SLOW for an unusual one.

    Args:
        is_sglang: which of the two formats.
        entries: where entries are counted.
        process_name: names the process of a parsed line.
    """

    def __init__(self, is_sglang: bool, entries: Entries, process_name: Callable[[LogLine], str]) -> None:
        self._is_sglang = is_sglang
        self._entries = entries
        self._process_name = process_name
        self._heads: dict[bytes, tuple[int, int]] = {}  # head -> codes of (statistics, anything else)
        self._code = _Codes(self._decide).__getitem__

    def codes(self, keys: Sequence[bytes], line_at: Callable[[int], bytes], parse: Callable[[int], LogLine]) -> bytes:
        """Return one code per key; `line_at` and `parse` give a line whose key does not tell enough."""
        codes = bytearray(map(self._code, keys))
        at = codes.find(_UNDECIDED)
        while at >= 0:
            codes[at] = self._read(line_at(at), at, parse)
            at = codes.find(_UNDECIDED, at + 1)
        return bytes(codes)

    def _decide(self, key: bytes) -> int:
        parts = self._parts(b" " * SGLANG_KEY.start + key if self._is_sglang else key, is_key=True)
        known = self._heads.get(parts[0]) if parts is not None else None
        return known[not parts[1]] if known is not None and parts is not None else _UNDECIDED

    def _read(self, line: bytes, at: int, parse: Callable[[int], LogLine]) -> int:
        parts = self._parts(line, is_key=False)
        if parts is None:
            return SLOW
        head, is_statistics = parts
        known = self._heads.get(head)
        if known is None:
            if len(self._heads) >= _MAX_HEADS:  # heads that hold a changing number
                self._heads.clear()
            known = self._heads[head] = self._new(parse(at))
        return known[not is_statistics]

    def _parts(self, line: bytes, is_key: bool) -> tuple[bytes, bool] | None:
        """Return what names process and level, and whether the line is statistics; None when it does not show."""
        if self._is_sglang:
            end = line.find(b"]", 20, 70)
            return (line[20:end], line.startswith(SGLANG_NOISE, end + 2)) if end > 0 else None
        start = line.find(b" [", 8, 140)
        end = line.find(b":", start + 2, start + 60) if start > 0 else -1
        if start < 0 or (is_key and end < 0):
            return None
        return line[: start - _STAMP_SIZE], line[start + 2 : end] in SERVICE_NOISE_FILES

    def _new(self, line: LogLine) -> tuple[int, int]:
        name = self._process_name(line)
        if line.level in BAD_LEVELS:
            code = self._entries.code(Entry(line.form, line.level, "", name, ERROR, ()))
            return code, code
        return (
            self._entries.code(Entry(line.form, line.level, "", name, NOISE, ())),
            self._entries.code(Entry(line.form, line.level, "", name, CHECK, ())),
        )


class _Codes(Dict[bytes, int]):
    def __init__(self, decide: Callable[[bytes], int]) -> None:
        super().__init__()
        self._decide = decide

    def __missing__(self, key: bytes) -> int:
        code = self._decide(key)
        if code != _UNDECIDED:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[key] = code
        return code
