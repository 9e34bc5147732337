"""Error codes: loads the tables of error-code-map.md and finds a code however it was printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterable, NamedTuple

from npu_graph.expressions import compile_on_use
from npu_graph.plain_files import open_plain

TABLE_NAME = "error-code-map.md"
COLUMNS = ("code", "hex", "symbol", "meaning", "stage", "first check", "source")
STAGES = (
    *("capture", "replay", "memory", "update", "compile", "accuracy"),
    *("performance", "env", "not_graph", "unknown", "-"),
)

_STAGES = frozenset(STAGES)

# Families that the code below treats specially; the others are whatever the headings say.
INTERNAL = "RT internal 0x07MMNNNN"
HCCL = "HCCL"
NOT_A_CODE = "Not a code"

# An overlay is written by hand: a runaway file or row must not slow every diagnosis down.
MAX_TABLE_BYTES = 8 * 1024 * 1024
MAX_ROW = 8192
# Longer than any symbol or phrase of a meaning; a whole log handed to find() by mistake costs nothing.
MAX_QUERY = 200
MAX_SCANNED = 256 * 1024
TEXT_HITS = 20

_ECHO_MARK = "Often an echo: "
_HEADING = compile_on_use(r"## (.+?)(?: — (.*))?$")
_ABBREVIATION = compile_on_use(r"- `([A-Z]{2,5})` = `([^`]+)`$")
_EXTERNAL = compile_on_use(r"; external (\d{6})$")
_CELL_END = compile_on_use(r"(?<!\\)(?:\\\\)*\|")

_DECIMAL = compile_on_use(r"[0-9]{1,10}")
_HEX = compile_on_use(r"0[xX][0-9a-fA-F]{1,8}")
# Without 0x only when it has both a digit and a letter: "1a213" is meant as hex, "107027" and "deadbeef" are not.
_BARE_HEX = compile_on_use(r"(?=[0-9]*[a-fA-F])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{5,8}")
_LETTERED = compile_on_use(r"ERR[0-9]{5}|[EWI][0-9A-Z][0-9]{4}", re.IGNORECASE)
# What may stand around a code that was copied out of a sentence.
_EDGES = " \t\r\n.,:;!?\"'`()[]{}<>，。：；！？“”（）【】"
_SEPARATORS = compile_on_use(r"[\s,;，；、]+")

# "error code is 7", "retCode=0x7020023", "runtime result = 507009": what follows is a code even when unlisted.
_CUED = compile_on_use(
    r"(?:err(?:or)?[ _]?code|ret[ _]?code|return code|runtime result|返回码|错误码)(?: is)?[ \t]?[=:：]?[ \t]?[\[(]?"
    r"(0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10})(?![0-9A-Za-z_])",
    re.IGNORECASE,
)
_BARE = compile_on_use(
    r"(?<![0-9A-Za-z_])(?:ERR[0-9]{5}|[EW][0-9A-Z][0-9]{4}|0[xX][0-9a-fA-F]{5,8}|[0-9]{6,10})(?![0-9A-Za-z_])"
)

# Stripped so that STREAM_CAPTURED finds ACL_ERROR_RT_STREAM_CAPTURED; longest first.
_PREFIXES = ("ACL_ERROR_RT_", "ACL_ERROR_GE_", "ACL_ERROR_", "RT_ERROR_", "ACLNN_ERR_", "ACLNN_", "HCCL_E_", "ACL_")


class CodeEntry(NamedTuple):
    """One row of the tables. `stage` is one of STAGES; `hex` and `symbol` are `-` where there is none."""

    code: str
    hex: str
    symbol: str
    meaning: str
    stage: str
    first_check: str
    source: str
    family: str

    @property
    def echo(self) -> str:
        """What the code usually repeats ("of an exception in the body ..."), or an empty string."""
        return self.meaning.partition(_ECHO_MARK)[2]

    @property
    def plain_meaning(self) -> str:
        """The meaning without its echo note."""
        return self.meaning.partition(_ECHO_MARK)[0].rstrip(" .;")

    @property
    def is_code(self) -> bool:
        """False for the numbers in circulation that no source defines."""
        return self.family != NOT_A_CODE


class CodeBook:
    """All codes of the given knowledge folders. Look-ups never raise, whatever the query holds."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._rows: dict[tuple[str, str], CodeEntry] = {}
        self._titles: dict[str, str] = {}
        self._abbreviations: dict[str, str] = {}
        self._by_code: dict[str, list[CodeEntry]] = {}
        self._by_value: dict[int, list[CodeEntry]] = {}
        self._by_symbol: dict[str, list[CodeEntry]] | None = None
        self._haystack: list[tuple[str, CodeEntry]] | None = None
        self._modules: dict[int, str] | None = None

    @classmethod
    def load(cls, folders: Iterable[Path]) -> CodeBook:
        """Read error-code-map.md of each folder; a later folder's row replaces the same family's same code.

        A row that cannot be read is left out and named in `problems`.
        """
        book = cls()
        for folder in folders:
            path = Path(folder) / TABLE_NAME
            try:
                with open_plain(path) as source:
                    data = source.read(MAX_TABLE_BYTES + 1)
            except FileNotFoundError:
                continue
            except OSError as error:
                book.problems.append(f"{path}: {error.strerror or type(error).__name__}")
                continue
            if len(data) > MAX_TABLE_BYTES:
                book.problems.append(f"{path}: larger than {MAX_TABLE_BYTES} bytes, the rest was left out")
            book._read(data[:MAX_TABLE_BYTES].decode("utf-8", "replace"), str(path))
        book._index()
        return book

    def entries(self) -> list[CodeEntry]:
        """Return every row, in the order of the tables."""
        return list(self._rows.values())

    def find(self, query: str) -> list[CodeEntry]:
        """Return what a code, symbol or phrase stands for; empty when nothing is known.

        Accepts decimal, hex (0x..., or bare with a digit and a letter), ERR00100, EE1001, the 32-bit runtime values
        in hex or decimal, symbols with or without prefix, and words of a meaning. A number of the 0x07MMNNNN scheme,
        or a CANN block code of a known module, that is not in the table is decoded as far as possible: such an
        entry comes back, but is_known() is False.
        """
        text = _normalise(query)
        if not text:
            return []
        value = _number(text)
        if value is not None:
            return list(self._by_value.get(value, [])) or self._decode_internal(value)
        if _LETTERED.fullmatch(text):
            return list(self._by_code.get(text.upper(), [])) or self._decode_block(text.upper())
        return self._find_symbol(text) or self._find_words(text)

    def holds(self, entry: CodeEntry) -> bool:
        """Say whether the entry is a row of the tables, not one that find() decoded from digits."""
        return (entry.family, entry.code.upper()) in self._rows

    def is_known(self, code: str) -> bool:
        """Say whether a row of the tables defines this code (or symbol)."""
        text = _normalise(code)
        value = _number(text)
        if value is not None:
            found = self._by_value.get(value, [])
        elif _LETTERED.fullmatch(text):
            found = self._by_code.get(text.upper(), [])
        else:
            found = self._find_symbol(text)
        return any(entry.is_code for entry in found)

    def near(self, query: str, limit: int = 5) -> list[CodeEntry]:
        """Return the rows whose code (or symbol) looks most like the query, best first."""
        text = _normalise(query)
        if not text or limit < 1:
            return []
        value = _number(text)
        if value is None and not _LETTERED.fullmatch(text):
            return self._near_symbols(text, limit) or self._near_spellings(text.upper(), limit)
        found: list[CodeEntry] = []
        if _DECIMAL.fullmatch(text) and len(text) >= 5:
            # 7100003 is often 0x7100003 with its prefix lost.
            found += [entry for entry in self._by_value.get(int(text, 16), []) if entry.is_code]
        if value is not None and value >> 24 == 7:
            wanted, spell = f"0x{value:08x}", _hex_spelling
        else:
            wanted, spell = (str(value) if value is not None else text.upper()), _code_spelling
        ranked: list[tuple[bool, int, int, int, CodeEntry]] = []
        for entry in self._rows.values():
            spelled = spell(entry)
            if entry.is_code and len(spelled) == len(wanted) and entry not in found:
                different = sum(a != b for a, b in zip(spelled, wanted))
                if different <= 2 and different < len(wanted):
                    other_family = spelled[:2] != wanted[:2]
                    ranked.append((other_family, different, _distance(spelled, wanted), len(ranked), entry))
        found += [item[4] for item in sorted(ranked)]
        return (found or self._near_spellings(text.upper(), limit))[:limit]

    def external(self, entry: CodeEntry) -> CodeEntry | None:
        """Return the code that a caller sees for a runtime internal one, or None."""
        match = _EXTERNAL.search(entry.meaning)
        rows = self._by_code.get(match.group(1), []) if match else []
        return rows[0] if rows else None

    def title(self, family: str) -> str:
        """Return what a family's heading says about it."""
        return self._titles.get(family, "")

    def expand(self, source: str) -> str:
        """Return a source with its abbreviations written out, so that it can be opened."""
        return re.sub(r"\b[A-Z]{2,5}\b", lambda found: self._abbreviations.get(found.group(), found.group()), source)

    def codes_in(self, text: str, limit: int = 50) -> list[str]:
        """Return the codes printed in a text, in order, each once.

        A number after "error code is", "retCode=" and the like counts always. Elsewhere a decimal counts only when
        it is a known code of another family than ACL and HCCL, whose small and round numbers occur as sizes too.
        """
        text = text[:MAX_SCANNED]
        hits = [(match.start(1), match.group(1)) for match in _CUED.finditer(text)]
        hits += [(match.start(), match.group()) for match in _BARE.finditer(text) if self._stands_alone(match.group())]
        return list(dict.fromkeys(code for _, code in sorted(hits)))[:limit]

    def _stands_alone(self, token: str) -> bool:
        if _DECIMAL.fullmatch(token):
            return any(entry.family not in ("ACL", HCCL) for entry in self._by_value.get(int(token), []))
        return bool(self.find(token))

    def _read(self, text: str, name: str) -> None:
        family = ""
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("|"):
                if family:
                    self._read_row(line, family, name, number)
            elif line.startswith("## "):
                heading = _HEADING.match(line.rstrip())
                family = heading.group(1).strip() if heading else ""
                if heading and heading.group(2):
                    self._titles[family] = heading.group(2).strip()
            elif line.startswith("- `"):
                short = _ABBREVIATION.match(line.rstrip())
                if short:
                    self._abbreviations[short.group(1)] = short.group(2)

    def _read_row(self, line: str, family: str, name: str, number: int) -> None:
        if len(line) > MAX_ROW:
            self.problems.append(f"{name}:{number}: row longer than {MAX_ROW} characters left out")
            return
        cells = split_row(line)
        if cells[0] == COLUMNS[0] or not cells[0].strip("-: "):
            return
        if len(cells) != len(COLUMNS):
            self.problems.append(
                f"{name}:{number}: {len(cells)} cells, expected {len(COLUMNS)} ({' | '.join(COLUMNS)})"
            )
            return
        if cells[4] not in _STAGES:
            self.problems.append(f"{name}:{number}: stage {cells[4][:40]!r} is not one of {', '.join(STAGES)}")
            return
        self._rows[family, cells[0].upper()] = CodeEntry._make([*cells, family])

    def _index(self) -> None:
        for entry in self._rows.values():
            self._by_code.setdefault(entry.code.upper(), []).append(entry)
            value = _number(entry.code)
            if value is not None:
                self._by_value.setdefault(value, []).append(entry)

    def _find_symbol(self, text: str) -> list[CodeEntry]:
        if self._by_symbol is None:
            self._by_symbol = {}
            for entry in self._rows.values():
                for name in entry.symbol.split(" / "):
                    key = _symbol_key(name)
                    for spelling in {key, _strip_prefix(key)} - {"-"}:
                        self._by_symbol.setdefault(spelling, []).append(entry)
        key = _symbol_key(text)
        found = self._by_symbol.get(key) or self._by_symbol.get(_strip_prefix(key), [])
        return ([entry for entry in found if entry.is_code] or found)[:TEXT_HITS]

    def _find_words(self, text: str) -> list[CodeEntry]:
        words = _plain_words(text).split()
        # A short word alone ("the", "err") stands in many meanings and asks for none of them.
        if not any(sum(map(str.isalpha, word)) >= 4 for word in words):
            return []
        if self._haystack is None:
            self._haystack = [
                (f" {_plain_words(f'{entry.symbol} {entry.meaning}')} ", entry)
                for entry in self._rows.values()
                if entry.is_code
            ]
        # A short word must match whole ("err" is not "error"), a longer one from its start ("captur").
        wanted = [f" {word} " if len(word) < 4 else f" {word}" for word in words]
        found = [entry for hay, entry in self._haystack if all(word in hay for word in wanted)]
        found.sort(key=lambda entry: entry.stage == "-")
        return found[:TEXT_HITS]

    def _decode_internal(self, value: int) -> list[CodeEntry]:
        if value >> 24 != 7 or not self._rows:
            return []
        module, number = value >> 16 & 0xFF, value & 0xFFFF
        if self._modules is None:
            self._modules = self._name_modules()
        name = self._modules.get(module, "not listed")
        meaning = (
            f"not in the table; by the 0x07MMNNNN scheme a runtime internal code of module 0x{module:02x} ({name}), "
            f"number 0x{number:04x}. The runtime reports a number it has no mapping for as 507000"
        )
        check = "read the plog ERROR line that prints it: its reason text names the fault; compare the CANN version"
        return [CodeEntry(str(value), f"0x{value:08x}", "-", meaning, "-", check, "RTI:40; RTM:631", INTERNAL)]

    def _name_modules(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for entry in self._rows.values():
            if entry.family == INTERNAL:
                name = _strip_prefix(entry.symbol)
                if name.endswith("_BASE"):
                    names[_module(entry)] = name[: -len("_BASE")]
                else:
                    names.setdefault(_module(entry), f"that of {entry.symbol}")
        return names

    def _decode_block(self, code: str) -> list[CodeEntry]:
        family = "CANN E" + code[1]
        if code.startswith("ERR") or family not in self._titles:
            return []
        check = "read the lines under it: the first names function and reason; then search plog for the first ERROR"
        kind = "inner error, raw text only" if code[2] == "9" else "message"
        meaning = f"not in the table; its letters stand for {self._titles[family]}; its number says: {kind}"
        return [CodeEntry(code, "-", "-", meaning, "-", check, "RTD:29-44", family)]

    def _near_symbols(self, text: str, limit: int) -> list[CodeEntry]:
        self._find_symbol("")
        known = self._by_symbol or {}
        close = _closest(_strip_prefix(_symbol_key(text)), known, limit)
        return list(dict.fromkeys(entry for name in close for entry in known[name] if entry.is_code))[:limit]

    def _near_spellings(self, code: str, limit: int) -> list[CodeEntry]:
        close = _closest(code, self._by_code, limit)
        return [entry for name in close for entry in self._by_code[name] if entry.is_code][:limit]


def split_row(line: str) -> list[str]:
    r"""Return the cells of a Markdown table row, `\|` and `\\` unescaped."""
    inner = line.strip()[1:]
    inner = inner[:-1] if inner.endswith("|") else inner
    if "\\" not in inner:
        return list(map(str.strip, inner.split("|")))
    cells, start = [], 0
    for end in _CELL_END.finditer(inner):
        cells.append(inner[start : end.end() - 1])
        start = end.end()
    cells.append(inner[start:])
    return [re.sub(r"\\([|\\])", r"\1", cell).strip() for cell in cells]


def split_codes(text: str) -> list[str]:
    """Return the parts of a list such as `107027,107025` when every part has the shape of a code, else nothing."""
    if len(text) > MAX_SCANNED:
        return []
    parts = [part for part in (piece.strip(_EDGES) for piece in _SEPARATORS.split(text)) if part]
    coded = [part for part in parts if _number(part) is not None or _LETTERED.fullmatch(part)]
    return coded if len(coded) == len(parts) else []


def _normalise(query: str) -> str:
    if not isinstance(query, str) or len(query) > MAX_QUERY:
        return ""
    if not query.isascii():
        import unicodedata

        # Full-width digits and letters come from Chinese input methods.
        query = unicodedata.normalize("NFKC", query)
    return query.strip(_EDGES)


def _number(text: str) -> int | None:
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _BARE_HEX.fullmatch(text) and not _LETTERED.fullmatch(text):
        return int(text, 16)
    return None


def _closest(word: str, names: Iterable[str], limit: int, cutoff: float = 0.75) -> list[str]:
    import difflib

    # difflib.get_close_matches would break ties towards the last name; ERR00100 comes before ERR04100.
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(word[:64])
    scored: list[tuple[float, str]] = []
    for name in names:
        matcher.set_seq1(name)
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
            ratio = matcher.ratio()
            if ratio >= cutoff:
                scored.append((-ratio, name))
    return [name for _, name in sorted(scored)[:limit]]


def _plain_words(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def _symbol_key(text: str) -> str:
    return re.sub(r"[\s-]+", "_", text.strip()).upper() if text != "-" else "-"


def _strip_prefix(key: str) -> str:
    for prefix in _PREFIXES:
        if key.startswith(prefix) and len(key) > len(prefix):
            return key[len(prefix) :]
    return key


def _module(entry: CodeEntry) -> int:
    return (_number(entry.code) or 0) >> 16 & 0xFF


def _code_spelling(entry: CodeEntry) -> str:
    return entry.code


def _hex_spelling(entry: CodeEntry) -> str:
    return entry.hex if entry.family == INTERNAL else ""


def _distance(one: str, other: str) -> int:
    base = 16 if one.startswith("0x") else 10
    return abs(int(one[-4:], base) - int(other[-4:], base))
