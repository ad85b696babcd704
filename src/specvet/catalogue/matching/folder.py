"""What matching leaves in a run: the folder `match/`.

| file | holds |
|---|---|
| `sources/NAME.parquet` | what one source (a table, an archive) says, a row a spectrum that it was asked about |
| `matches.parquet` | all sources together, a row a spectrum; `file` as the run's own decisions name it |
| `answers.parquet` | the verdict with Gaia beside the one from the spectrum, by file, row, task and sample |
| `match.json` | the receipt: sources with their hashes, radius, versions, counts, hashes of the two files above |
| `run.lock` | empty: held by the process that matches |

Each file is there in full or not at all, and the receipt is written last, so that a killed run is simply done again
from the sources that are there. What is not known is null.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from specvet.catalogue.matching.answers import WithGaia
from specvet.catalogue.sighting import Gaia, Key, Known, Match
from specvet.data.errors import InputError
from specvet.records import file_hash, write_atomic

FOLDER, SOURCES, MATCHES, ANSWERS, ABOUT = "match", "sources", "matches.parquet", "answers.parquet", "match.json"

VERSION = 1

_TEXT = ("source_id",)
_GAIA = tuple(f.name for f in dataclasses.fields(Gaia))


class Place(NamedTuple):
    """What an answer is about."""

    file: str
    row: int
    task: str
    sample: int = 0


def write_source(run_path: Path | str, name: str, matches: Iterable[Match], told: Mapping[str, Any]) -> None:
    """Keep what one source says; `told` is what `read_source` gives back with it. Raises `OSError`."""
    folder = Path(run_path) / FOLDER / SOURCES
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(
        _source_file(run_path, name), _matches_parquet(matches, {"specvet_told": json.dumps(told, sort_keys=True)})
    )


def read_source(run_path: Path | str, name: str) -> tuple[dict[Key, Match], dict[str, Any]] | None:
    """What one source said, and what it told of itself; None where it was not asked, or its file is damaged."""
    file = _source_file(run_path, name)
    if not file.is_file():
        return None
    try:
        matches, metadata = _read_matches(file)
        told: dict[str, Any] = json.loads(metadata[b"specvet_told"])
    except (InputError, KeyError, ValueError):
        return None
    return matches, told


def sources_of(run_path: Path | str) -> list[str]:
    """Names of the sources that were asked about a run, in the order of the alphabet."""
    return sorted(file.stem for file in (Path(run_path) / FOLDER / SOURCES).glob("*.parquet"))


def write_matches(
    run_path: Path | str,
    matches: Iterable[Match],
    answers: Mapping[Place, WithGaia],
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write matches, answers and the receipt, which `about` joins; returns the folder. Raises `OSError`."""
    from specvet import __version__
    from specvet.records.receipt import versions

    folder = Path(run_path) / FOLDER
    folder.mkdir(exist_ok=True)
    contents = {MATCHES: _matches_parquet(matches, {}), ANSWERS: _answers_parquet(answers)}
    for name, content in contents.items():
        write_atomic(folder / name, content)
    told = {
        "schema_version": VERSION,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "specvet": __version__,
        **(about or {}),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
        "versions": versions(),
    }
    write_atomic(folder / ABOUT, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return folder


def read_matches(run_path: Path | str) -> dict[Key, Match]:
    """What was found, by (file, row) as the run's own decisions name them; empty where nothing was matched.

    Raises `InputError` for a damaged file.
    """
    file = Path(run_path) / FOLDER / MATCHES
    return _read_matches(file)[0] if file.is_file() else {}


def read_answers(run_path: Path | str) -> dict[Place, WithGaia]:
    """Answers with Gaia, by (file, row, task, sample); empty where nothing was matched. Raises `InputError`."""
    file = Path(run_path) / FOLDER / ANSWERS
    if not file.is_file():
        return {}
    columns = _columns(file)[0]
    places = zip(*(columns[name] for name in ("file", "row", "task", "sample")), strict=True)
    told = zip(*(columns[f.name] for f in dataclasses.fields(WithGaia)), strict=True)
    return {Place(*place): WithGaia(*values) for place, values in zip(places, told, strict=True)}


def read_about(run_path: Path | str) -> dict[str, Any] | None:
    """The receipt; None where nothing was matched. Raises `InputError`."""
    file = Path(run_path) / FOLDER / ABOUT
    if not file.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as e:
        raise InputError(f"{file}: cannot be read ({e}); run specvet match again") from None
    return found


def intact(run_path: Path | str, about: Mapping[str, Any]) -> bool:
    """Whether the files are those that the receipt names."""
    folder = Path(run_path) / FOLDER
    try:
        return all(file_hash(folder / name) == sha for name, sha in about.get("files", {}).items())
    except OSError:
        return False


def _source_file(run_path: Path | str, name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
        raise InputError(f"{name!r} is no name for a catalogue: letters, digits, _, +, - and . only, as in --as vsx")
    return Path(run_path) / FOLDER / SOURCES / f"{name}.parquet"


def _matches_parquet(matches: Iterable[Match], metadata: Mapping[str, str]) -> bytes:
    import pyarrow as pa

    rows: Sequence[Match] = list(matches)
    text, number = pa.string(), pa.float64()
    texts = pa.list_(text)
    columns: dict[str, tuple[Any, list[Any]]] = {
        "file": (text, [m.key[0] for m in rows]),
        "row": (pa.int64(), [m.key[1] for m in rows]),
        "gaia_separation_arcsec": (number, [m.gaia_separation_arcsec for m in rows]),
    }
    for name in _GAIA:
        kind = text if name in _TEXT else number
        columns[f"gaia_{name}"] = kind, [None if m.gaia is None else getattr(m.gaia, name) for m in rows]
    columns["known"] = text, [_known_text(m.known) for m in rows]
    columns["asked"] = texts, [list(m.asked) for m in rows]
    columns["notes"] = texts, [list(m.notes) for m in rows]
    return _parquet(columns, metadata)


def _known_text(known: Sequence[Known]) -> str | None:
    return json.dumps([dataclasses.asdict(k) for k in known], ensure_ascii=False) if known else None


def _answers_parquet(answers: Mapping[Place, WithGaia]) -> bytes:
    import pyarrow as pa

    text, whole = pa.string(), pa.int64()
    columns: dict[str, tuple[Any, list[Any]]] = {
        "file": (text, [p.file for p in answers]),
        "row": (whole, [p.row for p in answers]),
        "task": (text, [p.task for p in answers]),
        "sample": (whole, [p.sample for p in answers]),
    }
    for f in dataclasses.fields(WithGaia):
        columns[f.name] = text, [getattr(a, f.name) for a in answers.values()]
    return _parquet(columns, {})


def _parquet(columns: Mapping[str, tuple[Any, list[Any]]], metadata: Mapping[str, str]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()], metadata=dict(metadata) or None)
    table = pa.Table.from_arrays([pa.array(values, type=kind) for kind, values in columns.values()], schema=schema)
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    return bytes(buffer.getvalue().to_pybytes())


def _columns(file: Path) -> tuple[dict[str, list[Any]], dict[bytes, bytes]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(os.fspath(file))
        return table.to_pydict(), table.schema.metadata or {}
    except (OSError, ValueError, pa.ArrowException) as e:
        raise InputError(f"{file}: cannot be read ({str(e).splitlines()[0]}); run specvet match again") from None


def _read_matches(file: Path) -> tuple[dict[Key, Match], dict[bytes, bytes]]:
    columns, metadata = _columns(file)
    found: dict[Key, Match] = {}
    names = [f"gaia_{name}" for name in _GAIA]
    try:
        gaias = list(zip(*(columns[name] for name in names), strict=True))
        rest = zip(
            *(columns[n] for n in ("file", "row", "gaia_separation_arcsec", "known", "asked", "notes")), strict=True
        )
        for values, (name, row, separation, known, asked, notes) in zip(gaias, rest, strict=True):
            gaia = None if values[0] is None else Gaia(**dict(zip(_GAIA, values, strict=True)))
            found[name, row] = Match((name, row), gaia, separation, _known(known), tuple(asked), tuple(notes))
    except (KeyError, TypeError, ValueError) as e:
        raise InputError(f"{file}: is of another layout ({e}); run specvet match again") from None
    return found, metadata


def _known(text: str | None) -> tuple[Known, ...]:
    told = json.loads(text) if text else []
    return tuple(Known(**k | {"columns": tuple((a, b) for a, b in k["columns"])}) for k in told)
