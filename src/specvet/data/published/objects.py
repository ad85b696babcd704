"""Which object a spectrum shows, as a user's table says: columns `name` and `object_id`."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from specvet.data.errors import InputError

_NONE = ("", "nan", "none", "null", "<na>")
"""What tables say where there is no value."""


def read_objects(path: str) -> dict[str, str]:
    """Name of the spectrum → id of its object, of a CSV, TSV or Parquet table. Raises InputError."""
    file = Path(path).expanduser()
    try:
        columns = _parquet(file) if file.suffix.lower() in (".parquet", ".pq") else _text(file)
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"{path}: cannot be read: {e}") from None
    missing = [name for name in ("name", "object_id") if name not in columns]
    if missing:
        raise InputError(f"{path}: has no column {missing[0]!r}; it has {', '.join(columns) or 'none'}")
    found: dict[str, str] = {}
    for row, (name, object_id) in enumerate(zip(columns["name"], columns["object_id"], strict=True), start=1):
        if name.casefold() in _NONE or object_id.casefold() in _NONE:
            continue
        if found.setdefault(name, object_id) != object_id:
            raise InputError(f"{path} row {row}: {name} is {object_id!r} here and {found[name]!r} before")
    if not found:
        raise InputError(f"{path}: names no object")
    return found


def fingerprint(objects: Mapping[str, str] | None) -> str | None:
    """What tells one table from another."""
    if not objects:
        return None
    return hashlib.sha256(json.dumps(sorted(objects.items())).encode()).hexdigest()


def _text(file: Path) -> dict[str, list[str]]:
    with open(file, encoding="utf-8-sig", newline="") as lines:
        first = lines.readline()
        lines.seek(0)
        rows = csv.reader(lines, delimiter=max(",\t;", key=first.count))
        names = [name.strip() for name in next(rows, [])]
        found: dict[str, list[str]] = {name: [] for name in names if name}
        if len(found) < sum(map(bool, names)):
            raise InputError(f"{file}: has two columns of one name")
        for row in rows:
            if not any(row):
                continue
            for i, name in enumerate(names):
                if name:
                    found[name].append(row[i].strip() if i < len(row) else "")
    return found


def _parquet(file: Path) -> dict[str, list[str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = [name for name in pq.read_schema(file).names if name in ("name", "object_id")]
        if len(set(names)) < len(names):
            raise InputError(f"{file}: has two columns of one name")
        table = pq.read_table(file, columns=names)
    except pa.ArrowException as e:
        raise InputError(f"{file}: is no Parquet file that can be read: {e}") from None
    return {name: ["" if v is None else str(v).strip() for v in table.column(name).to_pylist()] for name in names}
