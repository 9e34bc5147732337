"""Cases between installations: written out as one JSON file, taken in from such a file, history.md or a folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Sequence

from npu_graph import cli
from npu_graph.case_files import read_folder
from npu_graph.case_format import FIELDS, ID_FORM, Case, case_faults, clean_case, clean_line, parse_cases
from npu_graph.case_record import redact_case
from npu_graph.case_store import add_cases
from npu_graph.cases import read_cases
from npu_graph.redaction import Redactor

EXCHANGE_SCHEMA = "npu-graph/cases/1"
# Twenty thousand cases of some kilobytes each.
MAX_IMPORT_BYTES = 256 * 1024 * 1024


class Imported(NamedTuple):
    """What an import did, by case id; `refused` are lines with the reason."""

    added: list[str]
    unchanged: list[str]
    kept_ours: list[str]
    refused: list[str]
    notes: list[str]


def export_cases(cases: Iterable[Case]) -> dict[str, Any]:
    """Return cases as one JSON record."""
    rows = [{"id": case.id, "title": case.title, **{k: v for k, v in case.values().items() if v}} for case in cases]
    return {"schema": EXCHANGE_SCHEMA, "cases": rows}


def read_exchange(name: str) -> tuple[list[Case], list[str]]:
    """Read the cases of an exported file, a history.md or a knowledge folder, and what could not be read.

    Raises:
        cli.CommandError: exit code 3 when it is none of these.
    """
    path = Path(name)
    if name != "-" and path.is_dir():
        parsed = read_folder(path)
        faults = [f"{item.file}:{item.line}: {item.message}" for item in parsed.problems]
        return [entry.case for entry in parsed.entries], faults
    text = cli.read_inputs([name], MAX_IMPORT_BYTES)[0]
    if text.skipped_bytes:
        raise cli.CommandError(f"{name} is larger than {MAX_IMPORT_BYTES} bytes; export it in parts", cli.NO_INPUT)
    if text.text.lstrip().startswith("{"):
        return _from_json(text.text, name)
    parsed = parse_cases(text.text, name)
    faults = [f"{item.file}:{item.line}: {item.message}" for item in parsed.problems]
    return [entry.case for entry in parsed.entries], faults


def import_cases(cases: Sequence[Case], target: Path | None, folders: Sequence[Path], redactor: Redactor) -> Imported:
    """Add cases that are not there yet; importing the same again changes nothing.

    A case whose id is known and whose text differs stays as it is here: it may have been retired or corrected.
    Without a `target` nothing is written.
    """
    known = {identity: entry.case for identity, entry in read_cases(folders).entries.items()}
    result = Imported([], [], [], [], [])
    fresh: dict[str, Case] = {}
    for given in cases:
        case = clean_case(redact_case(given, redactor))
        faults = case_faults(case)
        present = known.get(case.id) or fresh.get(case.id)
        if present is not None:
            same = clean_case(present) == case
            (result.unchanged if same else result.kept_ours).append(case.id)
        elif faults:
            result.refused.append(f"{case.id}: {'; '.join(faults)}")
        else:
            fresh[case.id] = case
    if fresh and target is not None:
        result.notes.extend(add_cases(target, list(fresh.values())).notes)
    result.added.extend(fresh)
    return result


def _from_json(text: str, name: str) -> tuple[list[Case], list[str]]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise cli.CommandError(f"{name} is not JSON: {clean_line(str(error), 120)}", cli.NO_INPUT) from None
    rows = record.get("cases") if isinstance(record, dict) else None
    if not isinstance(record, dict) or record.get("schema") != EXCHANGE_SCHEMA or not isinstance(rows, list):
        raise cli.CommandError(f"{name}: expected schema {EXCHANGE_SCHEMA} (kb.py export writes it)", cli.NO_INPUT)
    cases: list[Case] = []
    faults: list[str] = []
    for number, row in enumerate(rows):
        case = _case_from(row)
        if case is None:
            faults.append(f"{name}: cases[{number}] has no id of the form C-yyyymmdd-hex, or no title")
        else:
            cases.append(case)
    return cases, faults


def _case_from(row: Any) -> Case | None:
    if not isinstance(row, dict):
        return None
    identity, title = row.get("id"), row.get("title")
    # The id names a file, so nothing but an id may pass here.
    if not isinstance(identity, str) or not isinstance(title, str) or not re.fullmatch(ID_FORM, identity):
        return None
    values = {field.name: value for field in FIELDS for value in [row.get(field.name)] if isinstance(value, str)}
    return Case(id=identity, title=title, **values)
