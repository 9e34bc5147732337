"""The command-line contract of every script: exit codes, one-line errors, UTF-8, bounded input and output."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Callable, NamedTuple, NoReturn, Sequence

# Exit codes (the same in every script).
DONE = 0
NEGATIVE = 1  # done, and the answer is "no": a check failed, nothing matched
USAGE = 2
NO_INPUT = 3  # nothing to look at; a checker that looked at nothing has not passed
ABSENT = 4  # torch, Ray, a compiler ... that the script needs is not there
INTERNAL = 5

EXIT_CODES_HELP = (
    "exit codes: 0 done, 1 done and the answer is negative, 2 wrong usage, 3 no usable input, "
    "4 something needed is absent, 5 internal error"
)

# A stack is kilobytes; a file of this size is a log, read at its head and tail so that memory stays bounded.
MAX_INPUT_BYTES = 16 * 1024 * 1024
# Text output that an agent's shell tool would otherwise cut at a place of its own choosing.
MAX_OUTPUT_BYTES = 20 * 1024

# An evidence bundle (check_graph_health.py --bundle): its texts and logs are read; what is JSON or Markdown in it
# explains rather than shows.
ZIP_MAGIC = b"PK\x03\x04"
BUNDLE_TEXTS = (".txt", ".log")
MAX_BUNDLE_MEMBERS = 100

DEBUG_VARIABLE = "NPU_GRAPH_DEBUG"


class CommandError(Exception):
    """An error the user can act on, printed as one line.

    Args:
        message: what is wrong, what was expected, what to do.
        exit_code: one of the module's exit codes.
    """

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class InputText(NamedTuple):
    """One input as text: where it came from, and how many of its bytes were left out."""

    name: str
    text: str
    skipped_bytes: int


class _Parser(argparse.ArgumentParser):
    """argparse whose usage errors are one line and keep exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {one_line(message)} (see --help)\n")


def make_parser(purpose: str, examples: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser whose --help shows purpose, options, examples and exit codes."""
    epilog = "examples:\n" + "".join(f"  {line}\n" for line in examples) + "\n" + EXIT_CODES_HELP
    return _Parser(description=purpose, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)


def one_line(text: str, limit: int = 400) -> str:
    """Return text folded to one printable line of at most `limit` characters."""
    folded = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text[: limit * 4]).split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


def use_utf8_streams() -> None:
    """Make stdout and stderr UTF-8 whatever the locale; a character that cannot be written is escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def run(main: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None = None) -> NoReturn:
    """Call a script's main and exit by the contract: no traceback reaches a user unless NPU_GRAPH_DEBUG=1."""
    use_utf8_streams()
    name = Path(sys.argv[0]).name
    try:
        code = main(argv)
        sys.stdout.flush()
    except CommandError as error:
        _say(f"{name}: error: {one_line(str(error))}")
        code = error.exit_code
    except KeyboardInterrupt:
        _say(f"{name}: interrupted")
        code = 130
    except BrokenPipeError:
        # The reader (head, less) has gone: point stdout at nothing so that the interpreter's own flush is quiet.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = DONE
    except OSError as error:
        # Scripts turn those of inputs into CommandErrors: what is left is mostly an answer that cannot be written.
        _print_trace_if_wanted()
        detail = one_line(f"{type(error).__name__}: {error}", 200)
        what = "the answer cannot be written" if error.errno in _CANNOT_WRITE else "internal error"
        _say(f"{name}: {what}: {detail} (set {DEBUG_VARIABLE}=1 for the traceback)")
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = INTERNAL
    except Exception as error:
        _print_trace_if_wanted()
        detail = one_line(f"{type(error).__name__}: {error}", 200)
        _say(f"{name}: internal error: {detail} (set {DEBUG_VARIABLE}=1 for the traceback)")
        code = INTERNAL
    sys.exit(code)


def _print_trace_if_wanted() -> None:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        import traceback  # of no use to a run that ends well

        traceback.print_exc()


_CANNOT_WRITE = (errno.ENOSPC, errno.EBADF, errno.EDQUOT)


def _say(message: str) -> None:
    """Write to stderr; where that fails too, the exit code still tells."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(message, file=sys.stderr, flush=True)


def read_inputs(names: Sequence[str], limit: int = MAX_INPUT_BYTES) -> list[InputText]:
    """Read each named file, or standard input for `-`, bounded to `limit` bytes (head and tail kept).

    A zip file is an evidence bundle: each text and log in it is one input, and all together are bounded.

    Raises:
        CommandError: exit code 3 when a name cannot be read, or nothing but white space was found.
    """
    if names.count("-") > 1:
        raise CommandError("'-' (standard input) was given twice; give it once", USAGE)
    inputs: list[InputText] = []
    for name in names:
        if name == "-":
            inputs.append(_read_stdin(limit))
        elif _is_bundle(name):
            inputs += _read_bundle(name, limit)
        else:
            inputs.append(_read_file(name, limit))
    if not any(item.text.strip() for item in inputs):
        raise CommandError("the input is empty; paste the full stack or log excerpt", NO_INPUT)
    return inputs


def _read_stdin(limit: int) -> InputText:
    if sys.stdin is None or sys.stdin.isatty():
        raise CommandError("'-' reads standard input, but nothing is piped in; pipe a stack or name a file", NO_INPUT)
    head, tail, dropped = _head_and_tail(sys.stdin.buffer, limit)
    return InputText("-", _decode(head, tail, dropped, "standard input"), dropped)


def _head_and_tail(source: IO[bytes], limit: int, most: int = sys.maxsize) -> tuple[bytes, bytes, int]:
    """Return the first and the last `limit` / 2 bytes of a stream, and how many in between were left out.

    Args:
        most: stop after so many bytes; the end is then the end of what was read.
    """
    head = source.read(limit // 2)
    tail, dropped, seen = b"", 0, len(head)
    while seen < most:
        block = source.read(1 << 20)
        if not block:
            break
        seen += len(block)
        tail += block
        if len(tail) > limit // 2:
            dropped += len(tail) - limit // 2
            tail = tail[-(limit // 2) :]
    return head, tail, dropped


def _is_bundle(name: str) -> bool:
    try:
        path = Path(name)
        if not path.is_file():  # a pipe must not be opened here: its reader would take its first bytes away
            return False
        with path.open("rb") as source:
            return source.read(len(ZIP_MAGIC)) == ZIP_MAGIC
    except (OSError, ValueError):
        return False  # _read_file says what is wrong with the name


def _read_bundle(name: str, limit: int) -> list[InputText]:
    """Read the texts of a zip, each bounded to its share; a member that unpacks without end is cut."""
    import zipfile  # few runs need it, and it doubles the start of a script
    import zlib

    try:
        with zipfile.ZipFile(name) as archive:
            members = [item for item in archive.infolist() if item.filename.lower().endswith(BUNDLE_TEXTS)]
            members = members[:MAX_BUNDLE_MEMBERS]
            inputs = []
            for item in members:
                share = limit // len(members)
                with archive.open(item) as source:
                    head, tail, dropped = _head_and_tail(source, share, 4 * share)
                label = f"{name}:{one_line(item.filename, 100)}"
                inputs.append(InputText(label, _decode(head, tail, dropped, label), dropped))
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, EOFError, ValueError) as error:
        detail = one_line(str(error), 100)
        raise CommandError(f"{name} is no readable zip: {detail}; unpack it and name the files", NO_INPUT) from None
    if not inputs:
        raise CommandError(f"{name} holds no .txt or .log file; name a log, or an evidence bundle", NO_INPUT)
    return inputs


def _read_file(name: str, limit: int) -> InputText:
    path = Path(name)
    try:
        if path.is_dir():
            raise CommandError(f"{name} is a directory; name the files in it", NO_INPUT)
        if not path.exists():
            raise CommandError(f"{name} does not exist; check the path, or pipe the text to '-'", NO_INPUT)
        if not path.is_file():
            raise CommandError(f"{name} is not a regular file; pipe it to '-' instead", NO_INPUT)
        size = path.stat().st_size
        with path.open("rb") as source:
            if size <= limit:
                return InputText(name, _decode(source.read(limit), b"", 0, name), 0)
            head = source.read(limit // 2)
            source.seek(size - limit // 2)
            tail = source.read(limit // 2)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CommandError(f"{name} cannot be read: {reason}", NO_INPUT) from None
    except ValueError:  # a NUL in the name
        raise CommandError("a file name with a NUL character cannot be opened", NO_INPUT) from None
    dropped = size - limit
    return InputText(name, _decode(head, tail, dropped, name), dropped)


# Byte order marks first; then the two encodings that Chinese hosts write. Latin-1 never fails and comes last.
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Control characters that text does not hold (tab, line ends, backspace and the escape of colours do occur).
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b")
_BINARY_SHARE = 0.05


def _decode(head: bytes, tail: bytes, dropped: int, name: str) -> str:
    if not dropped:
        head, tail = head + tail, b""
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return (head + tail).decode(encoding, "replace")
    sample = head[:65536] + (tail or head)[-65536:]
    if len(sample) - len(sample.translate(None, _CONTROL)) > len(sample) * _BINARY_SHARE:
        raise CommandError(f"{name} is binary, not text; give a log or a pasted stack", NO_INPUT)
    text = _decode_part(head)
    if dropped:
        text += f"\n[... {dropped} bytes left out ...]\n" + _decode_part(tail)
    return text


def _decode_part(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    lenient = data.decode("utf-8", "replace")
    # A cut at the edge, or a few bad bytes, is still UTF-8; a text that is bad throughout is probably GB18030.
    if lenient.count("�") * 50 <= len(lenient):
        return lenient
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("gb18030")
    return lenient


def bound_output(text: str, limit: int = MAX_OUTPUT_BYTES, way_out: str = "--all") -> str:
    """Return text cut at a line end within `limit` bytes, saying how to get the rest."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore")
    kept = kept[: kept.rfind("\n") + 1] or kept
    left = len(data) - len(kept.encode("utf-8"))
    return f"{kept}[... {left} more bytes; {way_out} prints everything ...]\n"


def write_text(text: str) -> None:
    """Print to stdout, with one newline at the end."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_json(record: Any) -> None:
    """Print a record as indented JSON, keys in the order given."""
    import json

    write_text(json.dumps(record, ensure_ascii=False, indent=2))


def _interrupted_while_loading(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        _say(f"{Path(sys.argv[0]).name}: interrupted")  # Python itself then ends with the signal, 130 in a shell
    else:
        sys.__excepthook__(kind, error, trace)


# run() is reached when the script's modules are loaded. Only a script of the bundle is answered for before that: a
# program that imports the package keeps its own hook.
_program = getattr(sys.modules.get("__main__"), "__file__", None)
if _program and Path(__file__).resolve().parents[1] in Path(_program).resolve().parents:
    sys.excepthook = _interrupted_while_loading
