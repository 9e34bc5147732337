"""The Python files to inspect: found, read within bounds, decoded and parsed; a notebook counts as one file."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import tokenize
import warnings
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Sequence

# A source file larger than this is generated or is data; parsing it costs about fifty times its size in memory.
MAX_SOURCE_BYTES = 2 * 1024 * 1024
# A folder with more files is a whole site-packages: the answer would be late and unread.
MAX_FILES = 5000
SKIPPED_FOLDERS = frozenset(("__pycache__", ".git", ".venv", "venv", "node_modules", ".tox", ".mypy_cache", "build"))
# IPython lines that are not Python: magics, shell escapes, help. They are blanked so that line numbers stay.
_NOTEBOOK_LINE = re.compile(r"^\s*(?:[%!?]|\w[\w.]*\?+\s*$)")
_ASSIGNED_MAGIC = re.compile(r"^(\s*[\w, ]+=\s*)[%!].*$")


class Source(NamedTuple):
    """One parsed file."""

    file: str
    module: str
    text: str
    lines: list[str]
    tree: ast.Module


class Problem(NamedTuple):
    """A file that could not be inspected: one line that says why."""

    file: str
    line: int
    message: str


def find_files(paths: Sequence[str]) -> tuple[list[Path], list[Problem]]:
    """Return the .py and .ipynb files that the paths name or contain, and the paths that lead nowhere."""
    files: list[Path] = []
    problems: list[Problem] = []
    for name in paths:
        path = Path(name)
        try:
            if path.is_dir():
                files += _in_folder(path)
            elif path.is_file():
                files.append(path)
            else:
                problems.append(
                    Problem(name, 0, "does not exist or is not a regular file; name a .py file or a folder")
                )
        except (OSError, ValueError) as error:
            problems.append(Problem(name, 0, f"cannot be opened ({type(error).__name__}); check the path"))
    distinct = list(dict.fromkeys(files))
    if len(distinct) > MAX_FILES:
        dropped = len(distinct) - MAX_FILES
        problems.append(Problem(str(paths[0]), 0, f"{dropped} files beyond the first {MAX_FILES} were left out"))
    return distinct[:MAX_FILES], problems


def _in_folder(folder: Path) -> Iterator[Path]:
    for where, names, files in os.walk(str(folder)):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS and not name.endswith(".egg-info"))
        for file in sorted(files):
            if file.endswith((".py", ".ipynb")):
                yield Path(where) / file


def read_source(path: Path) -> Source | Problem:
    """Read and parse one file; what cannot be parsed comes back as a problem with its line."""
    name = str(path)
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            return Problem(name, 0, "is not a regular file")
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            limit = MAX_SOURCE_BYTES >> 20
            return Problem(name, 0, f"is {size >> 20} MiB, more than {limit} MiB; name the part that captures")
        data = path.read_bytes()
    except OSError as error:
        return Problem(name, 0, f"cannot be read: {error.strerror or type(error).__name__}")
    try:
        text = notebook_code(data) if path.suffix == ".ipynb" else decode(data)
    except (ValueError, LookupError, SyntaxError, RecursionError) as error:
        return Problem(name, 0, f"is not {'a notebook' if path.suffix == '.ipynb' else 'Python text'}: {error}")
    return parse_text(text, name)


def parse_text(text: str, name: str) -> Source | Problem:
    """Parse the text of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the user's file is not this tool's news
            tree = ast.parse(text, name)
    except SyntaxError as error:
        return Problem(name, error.lineno or 0, f"is not valid Python here: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Problem(name, 0, f"cannot be parsed ({type(error).__name__}); a NUL byte or nesting that is too deep")
    return Source(name, module_name(Path(name)), text, text.splitlines(), tree)


def decode(data: bytes) -> str:
    """Decode by byte order mark or coding comment (PEP 263), else UTF-8, else GB18030, which old Chinese files use."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except (SyntaxError, UnicodeDecodeError):
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return data.decode("utf-16")
        if b"\0" in data[:4096]:
            raise ValueError("it is binary") from None
        return data.decode("gb18030")


def notebook_code(data: bytes) -> str:
    """Return the code cells of a notebook as one text; magics and shell lines become `pass`."""
    cells = json.loads(data.decode("utf-8-sig"))
    if not isinstance(cells, dict) or not isinstance(cells.get("cells"), list):
        raise ValueError("it has no list of cells")
    parts: list[str] = []
    for number, cell in enumerate(cells["cells"], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        parts.append(f"# cell {number}")
        parts += _plain_lines(text)
    return "\n".join(parts) + "\n"


def _plain_lines(cell: str) -> Iterator[str]:
    # A cell magic hands the whole cell to something else (bash, html); %%time and its like run it as Python.
    if re.match(r"\s*%%(?!(?:time|timeit|capture|prun)\b)", cell):
        return
    for line in cell.splitlines():
        if _NOTEBOOK_LINE.match(line):
            yield line[: len(line) - len(line.lstrip())] + "pass"
        else:
            yield _ASSIGNED_MAGIC.sub(r"\1None", line)


def module_name(path: Path) -> str:
    """Return the dotted name under which the file is imported, as far as __init__.py files reach upwards."""
    parts = [] if path.stem == "__init__" else [path.stem]
    try:
        folder = path.resolve().parent
        while (folder / "__init__.py").is_file() and folder.name:
            parts.insert(0, folder.name)
            folder = folder.parent
    except OSError:
        pass
    return ".".join(parts) or path.stem


def suppressed(line: str) -> Iterable[str] | None:
    """Return the ids of a `# noqa: G001, G002` comment, an empty list for a bare `# noqa`, None without one."""
    found = re.search(r"#\s*noqa\b(?::\s*([A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+){0,40}))?", line, re.IGNORECASE)
    if found is None:
        return None
    return [part.upper() for part in re.findall(r"[A-Za-z]+[0-9]+", found.group(1) or "")]
