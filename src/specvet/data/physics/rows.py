"""Files of problems and of solved ones: JSONL or Parquet, one `Problem` a row. What is no problem is listed, not lost.

Columns are the fields of `specvet.records.problems.Problem`; others are ignored. `gold`, `segments` and `audit` may be
texts that hold JSON, as Parquet files often have them. Pictures are bytes (`{bytes, path}`) or paths below the file's
folder. A row without `segments` may have its transcript as one text, `solution`, with
`<tool>…</tool><tool_result>…</tool_result>`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specvet.data.errors import InputError, Reject
from specvet.records import write_atomic
from specvet.records.problems import Figure, Problem

_JSON = ("gold", "segments", "audit", "images")
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds."""

    problems: tuple[Problem, ...]
    places: tuple[str, ...]
    """`FILE line N` or `FILE row N` of each problem."""
    rejects: tuple[Reject, ...]


def load_problems(path: str | os.PathLike[str]) -> Loaded:
    """The problems of a JSONL or Parquet file, and why other rows are none. Paths of pictures become absolute.

    Raises InputError for a file that cannot be read at all.
    """
    root = Path(path).resolve().parent
    problems, places, rejects = [], [], []
    seen: set[str] = set()
    for where, fields in _rows(Path(path)):
        try:
            if isinstance(fields, str):
                raise ValueError(fields)
            problem = _problem(fields, root)
            if problem.id in seen:
                raise ValueError(f"id {problem.id!r} stands in an earlier row")
        except ValueError as e:
            named = fields.get("id") if isinstance(fields, Mapping) else None
            rejects.append(Reject(str(named or ""), where, _reason(e)))
            continue
        seen.add(problem.id)
        problems.append(problem)
        places.append(where)
    return Loaded(tuple(problems), tuple(places), tuple(rejects))


def write_problems(path: str | os.PathLike[str], problems: Iterable[Problem]) -> None:
    """JSONL. Paths of pictures become relative to the file's folder."""
    folder = Path(path).resolve().parent
    write_atomic(Path(path), "".join(f"{line(p, folder)}\n" for p in problems))


def line(problem: Problem, folder: Path | None = None) -> str:
    """One row as JSON, without what is empty."""
    if folder is not None:
        images = tuple(
            f.model_copy(update={"path": Path(os.path.relpath(f.path, folder)).as_posix()})
            if os.path.isabs(f.path)
            else f
            for f in problem.images
        )
        problem = problem.model_copy(update={"images": images})
    return json.dumps(_filled(problem.model_dump(mode="json", exclude_none=True)), ensure_ascii=False)


def _filled(value: Any) -> Any:
    """Without fields that are empty; a text that somebody wrote stays."""
    if isinstance(value, dict):
        filled = {k: _filled(v) for k, v in value.items()}
        return {k: v for k, v in filled.items() if k == "text" or v not in ("", [], {})}
    return [_filled(v) for v in value] if isinstance(value, list) else value


def picture_of(figure: Figure, folder: str | os.PathLike[str] = ".") -> bytes:
    """The bytes of a picture; a path is taken from `folder`. Raises OSError."""
    return figure.data if figure.data is not None else (Path(folder) / figure.path).read_bytes()


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """(where, fields, or what is wrong) of each row."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                number = 0
                for batch in file.iter_batches(batch_size=256):
                    for fields in batch.to_pylist():
                        yield f"{path} row {number}", {k: v for k, v in fields.items() if v is not None}
                        number += 1
        except (OSError, pa.ArrowException) as e:
            raise InputError(f"{path}: cannot be read as Parquet: {e}") from None
        return
    try:
        with open(path, "rb") as file:
            for n, raw in enumerate(file, start=1):
                if raw.strip():
                    yield f"{path} line {n}", _object(raw)
    except OSError as e:
        raise InputError(f"{path}: cannot be read: {e.strerror or e}") from None


def _object(raw: bytes) -> Mapping[str, Any] | str:
    try:
        fields = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        return f"is no JSON ({e}); a file of problems has one object a line"
    return fields if isinstance(fields, dict) else f"holds a {type(fields).__name__}, not an object"


def _problem(fields: Mapping[str, Any], root: Path) -> Problem:
    """Raises ValueError."""
    known = {k: v for k, v in fields.items() if k in Problem.model_fields and v is not None}
    for name in _JSON:
        if isinstance(known.get(name), str):
            try:
                known[name] = json.loads(known[name])
            except (ValueError, RecursionError) as e:
                raise ValueError(f"{name}: is no JSON ({e})") from None
    known = {k: _without_none(v) if k in ("gold", "segments", "audit") else v for k, v in known.items()}
    if not known.get("segments") and isinstance(fields.get("solution"), str):
        known["segments"] = split_transcript(fields["solution"])
    problem = Problem.model_validate(known)
    return problem.model_copy(update={"images": tuple(_figure(figure, root) for figure in problem.images)})


def _without_none(value: Any) -> Any:
    """Parquet fills the fields of structs that a row lacks with None."""
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list) else value


def _figure(figure: Figure, root: Path) -> Figure:
    """With an absolute path, once it is known to be a picture below the folder. Raises ValueError."""
    if figure.data is not None:
        head, named = figure.data[:12], figure.path or "bytes"
    else:
        path = (root / figure.path).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"picture {figure.path}: lies outside the file's folder")
        try:
            with open(path, "rb") as file:
                head = file.read(12)
        except (OSError, ValueError) as e:
            raise ValueError(f"picture {figure.path}: cannot be read ({getattr(e, 'strerror', None) or e})") from None
        named, figure = figure.path, Figure(path=str(path))
    if not head.startswith(_SIGNATURES):
        raise ValueError(f"picture {named}: is neither PNG nor JPEG nor WebP")
    return figure


_PIECE = re.compile(r"<tool>\s*(\w+)\s*:(.*?)</tool>\s*<tool_result>(.*?)</tool_result>", re.DOTALL)


def split_transcript(text: str) -> list[dict[str, Any]]:
    """The segments of a transcript that is one text. A result counts as the tool's where it follows a call; an audit
    shows whether the tool ever said it."""
    segments: list[dict[str, Any]] = []
    at = 0
    for found in _PIECE.finditer(text):
        name, argument, result = found[1], found[2].strip(), found[3].strip()
        end = found.start(3) - len("<tool_result>")
        segments.append({"kind": "model", "text": text[at:end].rstrip()})
        status = "error" if result.startswith("error:") else "ok"
        segments.append(
            {
                "kind": "tool",
                "text": f"<tool_result>{found[3]}</tool_result>",
                "call": {"name": name, "argument": argument},
                "result": {"status": status, "text": result},
            }
        )
        at = found.end()
    if text[at:]:
        segments.append({"kind": "model", "text": text[at:]})
    return segments


def _reason(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where}: {first['msg'].removeprefix('Value error, ')}" if where else first["msg"]
    return str(error)
