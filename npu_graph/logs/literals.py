"""Says which literals occur in a text, with the C library's search where Python can reach it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, NamedTuple

_SAMPLES = (
    (b"abcde", b"cd", True),
    (b"abcde", b"ce", False),
    (b"ab\0cde", b"\0cd", True),
    (b"ab\0cde", b"\0ce", False),
)
# strstr is as quick as the two bytes that it looks for first are rare: one that begins with `st` takes four times as
# long as one that begins with `[L`. Bytes from the most frequent in logs on; those that are absent are rare.
_FREQUENT = b" etaroisn0123456789cdlpm_=,.:u[]fkgh"
_LEAST_END = 6
# From so many occurrences on, bytes.count is quicker than one call of the C library for each.
_COUNTED_ONE_BY_ONE = 100


class _Search(NamedTuple):
    """Three searches; the literals are not empty and hold no NUL."""

    present: Callable[[bytes, Iterable[bytes]], list[bytes]]
    present_in_plain: Callable[[bytes, Iterable[bytes]], list[bytes]]
    count_in_plain: Callable[[bytes, bytes], int]


def rare_end(literal: bytes) -> bytes:
    """Return the end of a literal (some bytes at least) that begins with its rarest pair of bytes."""
    starts = range(max(len(literal) - _LEAST_END, 0) + 1)
    return literal[max(starts, key=lambda at: sum(map(_rarity, literal[at : at + 2]))) :]


def _rarity(byte: int) -> int:
    at = _FREQUENT.find(byte)
    return at if at >= 0 else len(_FREQUENT)


class _RareEnds(Dict[bytes, bytes]):
    def __missing__(self, literal: bytes) -> bytes:
        end = self[literal] = rare_end(literal)
        return end


def _c_library() -> tuple[Any, Any] | None:
    """Return strstr and memmem, or None where ctypes or one of them is absent (Windows, a Python without libffi).

    glibc's strstr passes 20 GB/s, its memmem 10, bytes.find 1.5 to 4: with some fifty literals, this decides how fast
    the analyser is.
    """
    try:
        import ctypes

        library = ctypes.PyDLL(None)  # the calls are short: no reason to let go of the interpreter
        strstr, memmem = library.strstr, library.memmem
        strstr.restype = memmem.restype = ctypes.c_void_p
        strstr.argtypes = (ctypes.c_void_p, ctypes.c_char_p)  # the text, or where in it to go on
        memmem.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
        right = all((memmem(text, len(text), item, len(item)) is not None) is held for text, item, held in _SAMPLES)
    except (ImportError, OSError, TypeError, AttributeError, ValueError):
        return None
    return (strstr, memmem) if right else None


def _search() -> _Search:
    functions = _c_library()
    if functions is None:

        def find(text: bytes, literals: Iterable[bytes]) -> list[bytes]:
            return [item for item in literals if item in text]

        return _Search(find, find, lambda text, literal: text.count(literal))
    strstr, memmem = functions

    def present(text: bytes, literals: Iterable[bytes]) -> list[bytes]:
        if b"\0" in text:  # strstr would stop there
            return [item for item in literals if memmem(text, len(text), item, len(item)) is not None]
        return present_in_plain(text, literals)

    ends = _RareEnds()

    def present_in_plain(text: bytes, literals: Iterable[bytes]) -> list[bytes]:
        found = [item for item in literals if strstr(text, ends[item]) is not None]
        return [item for item in found if strstr(text, item) is not None] if found else found

    def count_in_plain(text: bytes, literal: bytes) -> int:
        number = 0
        at = strstr(text, literal)
        while at is not None:
            number += 1
            if number >= _COUNTED_ONE_BY_ONE:
                return text.count(literal)
            at = strstr(at + len(literal), literal)
        return number

    return _Search(present, present_in_plain, count_in_plain)


# Of literals, those that occur in the text; the same, and how often one occurs, for a text without NUL.
present_literals, present_in_plain, count_in_plain = _search()
