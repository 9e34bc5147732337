"""Says which literals occur in a text, with the C library's search where Python can reach it."""

from __future__ import annotations

from typing import Any, Callable, Iterable

_SAMPLES = (
    (b"abcde", b"cd", True),
    (b"abcde", b"ce", False),
    (b"ab\0cde", b"\0cd", True),
    (b"ab\0cde", b"\0ce", False),
)


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
        strstr.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        memmem.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
        right = all((memmem(text, len(text), item, len(item)) is not None) is held for text, item, held in _SAMPLES)
    except (ImportError, OSError, TypeError, AttributeError, ValueError):
        return None
    return (strstr, memmem) if right else None


def _finder() -> Callable[[bytes, Iterable[bytes]], list[bytes]]:
    functions = _c_library()
    if functions is None:
        return lambda text, literals: [item for item in literals if item in text]
    strstr, memmem = functions

    def find(text: bytes, literals: Iterable[bytes]) -> list[bytes]:
        if b"\0" in text:  # strstr would stop there
            return [item for item in literals if memmem(text, len(text), item, len(item)) is not None]
        return [item for item in literals if strstr(text, item) is not None]

    return find


# Returns those of the literals (not empty, without NUL) that occur in the text.
present_literals = _finder()
