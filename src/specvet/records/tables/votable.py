"""A VOTable 1.4 with its data as BINARY2, the serialization that has a null flag for every cell.

TABLEDATA would be readable by eye, but has one empty cell for null and for empty text, none for NaN beside null, and no
control characters.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

from specvet.records.tables.cells import Cells
from specvet.records.tables.sheet import Column, Fact, Sheet, Value, unit_as

NULL = -(2**63)
"""What VALUES names as null, for readers that do not look at the flags."""

_NAN = struct.pack(">d", float("nan"))
_SYSTEMS = {
    "icrs": '<COOSYS ID="icrs" system="ICRS"/>',
    "mjd": '<TIMESYS ID="mjd" timeorigin="MJD-origin" timescale="UTC" refposition="TOPOCENTER"/>',
}
"""By the name that columns refer to them by."""

_DATATYPE = {str: 'datatype="unicodeChar" arraysize="*"', int: 'datatype="long"', float: 'datatype="double"'}


def write_votable(f: IO[bytes], sheet: Sheet, cells: Cells) -> list[str]:
    """Write the table to `f`; returns what is lost on the way to the usual readers."""
    f.write(_head(sheet, cells.n).encode("utf-8", "backslashreplace"))
    rest = b""
    for packed in _packed(sheet, cells):
        data = rest + packed
        whole = len(data) - len(data) % 3
        f.write(base64.b64encode(data[:whole]) + b"\n")
        rest = data[whole:]
    f.write(base64.b64encode(rest) + b"\n</STREAM></BINARY2></DATA>\n</TABLE>\n</RESOURCE>\n</VOTABLE>\n")
    seen = [(c.name, cells.seen[c.name]) for c in sheet.columns]
    notices = []
    if names := [name for name, s in seen if s.empty and s.null]:
        notices.append(
            f"the VOTable tells an empty text from a missing one, astropy shows both as empty: {', '.join(names)}"
        )
    if names := [name for name, s in seen if s.nan and s.null]:
        notices.append(f"the VOTable tells NaN from missing, astropy shows both as missing: {', '.join(names)}")
    return notices


def _head(sheet: Sheet, n: int) -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<VOTABLE version="1.4" xmlns="http://www.ivoa.net/xml/VOTable/v1.3">',
        '<RESOURCE type="results">',
        *(element for name, element in _SYSTEMS.items() if any(c.system == name for c in sheet.columns)),
        *map(_info, sheet.facts),
        f'<TABLE name={quoteattr(sheet.name)} nrows="{n}">',
        f"<DESCRIPTION>{escape(_xml(sheet.says))}</DESCRIPTION>",
        *map(_field, sheet.columns),
        '<DATA><BINARY2><STREAM encoding="base64">\n',
    ]
    return "\n".join(lines)


def _info(fact: Fact) -> str:
    says = f">{escape(_xml(fact.says))}</INFO>" if fact.says else "/>"
    return f"<INFO name={quoteattr(fact.name)} value={quoteattr(_xml(_text(fact.value)))}{says}"


def _text(value: Value) -> str:
    return (
        ("true" if value else "false") if isinstance(value, bool) else value if isinstance(value, str) else repr(value)
    )


def _field(column: Column) -> str:
    given = f"<FIELD name={quoteattr(column.name)} {_DATATYPE[column.kind]}"
    unit = unit_as(column.unit, "vounit")
    given += f" unit={quoteattr(unit)}" if unit else ""
    given += f" ucd={quoteattr(column.ucd)}" if column.ucd else ""
    given += f" ref={quoteattr(column.system)}" if column.system else ""
    inside = f"<DESCRIPTION>{escape(_xml(column.says))}</DESCRIPTION>" if column.says else ""
    inside += f'<VALUES null="{NULL}"/>' if column.kind is int else ""
    return f"{given}>{inside}</FIELD>"


def _xml(text: str) -> str:
    """`text` without the characters that XML 1.0 has no way to write; they become `\\x01`."""
    return "".join(c if (c >= " " and c not in "\ufffe\uffff") or c in "\t\n\r" else f"\\x{ord(c):02x}" for c in text)


def _packed(sheet: Sheet, cells: Cells) -> Iterator[bytes]:
    """Rows as VOTable 1.4, section 5.4, writes them: null flags, the first column's in the highest bit, then cells."""
    bits = -len(sheet.columns) % 8
    n_flags = (len(sheet.columns) + 7) // 8
    for batch in cells.batches():
        out = bytearray()
        for row in zip(*(batch[c.name] for c in sheet.columns), strict=True):
            flags, body = 0, bytearray()
            for column, value in zip(sheet.columns, row, strict=True):
                flags = flags << 1 | (value is None)
                body += _cell(column.kind, value)
            out += (flags << bits).to_bytes(n_flags, "big") + body
        yield bytes(out)


def _cell(kind: type, value: Any) -> bytes:
    if kind is str:
        text = (value or "").encode("utf-16-be")
        return struct.pack(">I", len(text) // 2) + text
    if kind is float:
        return _NAN if value is None else struct.pack(">d", value)
    return struct.pack(">q", NULL if value is None else value)
