"""A VOTable as a service sent it: either in full and sound, or refused with the address and what to do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specvet.catalogue.archive.errors import AnswerError, PartialError, QuestionError
from specvet.spectra.readers.votables import parsed_votable

_END = re.compile(rb"</(?:\w+:)?VOTABLE\s*>\s*\Z", re.IGNORECASE)
_ROWS = re.compile(rb"<(?:\w+:)?TABLE\b[^>]*\bnrows\s*=\s*[\"'](\d+)[\"']")


@dataclass(frozen=True, slots=True)
class Sheet:
    """The one table of an answer."""

    columns: Mapping[str, Any]
    """By name as the service wrote it: masked arrays, one element a row."""
    ucds: Mapping[str, str]
    units: Mapping[str, str]
    descriptions: Mapping[str, str]
    rows: int


def read_sheet(body: bytes, content_type: str, address: str) -> Sheet:
    """The table in `body`.

    Raises `AnswerError` for what is no whole VOTable, `QuestionError` where the service reports an error in one,
    `PartialError` where it says that it gave only part of the rows.
    """
    if not body.strip():
        raise AnswerError(f"{address} sent an empty answer; {_LATER}")
    if b"VOTABLE" not in body[:4096].upper():
        kind = _kind(content_type, body)
        raise AnswerError(f"{address} sent {kind} where a VOTable belongs: {_start(body)}; {_LATER}")
    if not _END.search(body):
        raise AnswerError(f"{address} sent a VOTable that is cut short after {len(body):,} bytes; {_LATER}")
    votable = _parsed(body, address)
    _check_status(votable, address)
    tables = [table for resource in votable.resources for table in _tables(resource)]
    if len(tables) != 1:
        raise AnswerError(f"{address} sent a VOTable with {len(tables)} tables, 1 expected; {_LATER}")
    return _sheet(tables[0], body, address)


_LATER = "ask again later, or name another address with --service"


def _parsed(body: bytes, address: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return parsed_votable(body, verify="ignore")
        except Exception as e:  # whatever bytes of others make the parser do
            raise AnswerError(f"{address} sent a VOTable that cannot be read: {line(str(e))}; {_LATER}") from e


def _check_status(votable: Any, address: str) -> None:
    infos = list(votable.infos)
    for resource in votable.resources:
        infos += [*resource.infos, *(info for table in _tables(resource) for info in table.infos)]
    for info in infos:
        if (info.name or "").upper() != "QUERY_STATUS":
            continue
        status = (info.value or "").upper()
        if status == "OVERFLOW":
            raise PartialError(f"{address} gave only a part of the rows (QUERY_STATUS OVERFLOW)")
        if status == "ERROR":
            raise QuestionError(f"{address} answered with an error: {message(info.content or '')}")


def message(text: str) -> str:
    """What an error says, without the service's stack trace."""
    return line(re.split(r"\n\s*Trace:", text)[0].removeprefix("Message:")) or "without saying which"


def _tables(resource: Any) -> list[Any]:
    inner = [table for sub in resource.resources for table in _tables(sub)]
    return [*resource.tables, *inner]


def _sheet(table: Any, body: bytes, address: str) -> Sheet:
    rows = len(table.array)
    if (stated := _ROWS.search(body)) and int(stated[1]) != rows:
        raise AnswerError(f"{address} announced {int(stated[1]):,} rows and sent {rows:,}; {_LATER}")
    columns, ucds, units, descriptions = {}, {}, {}, {}
    for number, field in enumerate(table.fields):
        name = field.name or field.ID or f"column {number + 1}"
        if name in columns:  # the first is the upload's or the more telling one
            continue
        columns[name] = table.array[table.array.dtype.names[number]] if rows else []
        ucds[name] = field.ucd or ""
        units[name] = "" if field.unit is None else str(field.unit)
        descriptions[name] = field.description or ""
    return Sheet(columns, ucds, units, descriptions, rows)


def _kind(content_type: str, body: bytes) -> str:
    if b"<html" in body[:2048].lower() or "html" in content_type:
        return "a web page (HTML)"
    return f"{content_type.partition(';')[0] or 'something'} that is none"


def _start(body: bytes) -> str:
    text = re.sub(r"<[^>]*>", " ", body[:2048].decode("utf-8", "replace"))
    return f"`{line(text)}`"


def line(text: str, most: int = 160) -> str:
    """`text` of a stranger on one line, printable and short."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    flat = " ".join(flat.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
