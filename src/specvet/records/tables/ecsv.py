"""An ECSV 1.0 table: CSV that people can read, under a header that keeps types, units, words and facts.

A null is an empty field. A text column that also holds empty texts gets a second column `NAME.mask`, which astropy puts
together again (its `data_mask` serialization).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from specvet.records.tables.cells import Cells
from specvet.records.tables.sheet import Column, Sheet, system_of, unit_as

_DATATYPE = {str: "string", int: "int64", float: "float64"}


def write_ecsv(f: IO[bytes], sheet: Sheet, cells: Cells) -> list[str]:
    """Write the table to `f`; returns what is lost on the way to astropy's reader."""
    masked = {c.name for c in sheet.columns if cells.seen[c.name].empty}
    f.write("".join(f"# {line}\n" for line in _header(sheet, masked)).encode("utf-8", "backslashreplace"))
    names = [name for c in sheet.columns for name in ((c.name, f"{c.name}.mask") if c.name in masked else (c.name,))]
    f.write((",".join(names) + "\n").encode())
    for batch in cells.batches():
        columns = [(batch[c.name], c.name in masked) for c in sheet.columns]
        lines = (",".join(_fields(row, columns)) for row in range(len(columns[0][0])))
        f.write("".join(f"{line}\n" for line in lines).encode())
    ragged = [c.name for c in sheet.columns if cells.seen[c.name].ragged]
    if not ragged:
        return []
    return [
        f"the ECSV holds blanks at the ends of texts, and control characters, but astropy's reader strips them: "
        f"{', '.join(ragged)}"
    ]


def _header(sheet: Sheet, masked: set[str]) -> Iterator[str]:
    yield from ("%ECSV 1.0", "---", "datatype:")
    for column in sheet.columns:
        yield f"- {{{', '.join(_described(column))}}}"
        if column.name in masked:
            yield f"- {{name: {_scalar(f'{column.name}.mask')}, datatype: bool}}"
    yield "delimiter: ','"
    yield "meta: !!omap"
    yield f"- name: {_scalar(sheet.name)}"
    yield f"- description: {_scalar(sheet.says)}"
    for fact in sheet.facts:
        yield f"- {fact.name}: {_scalar(fact.value)}"
    if masked:
        yield "- __serialized_columns__:"
        for name in (c.name for c in sheet.columns if c.name in masked):
            yield f"    {name}:"
            yield "      __class__: astropy.table.column.MaskedColumn"
            yield f"      data: !astropy.table.SerializedColumn {{name: {_scalar(name)}}}"
            yield f"      mask: !astropy.table.SerializedColumn {{name: {_scalar(f'{name}.mask')}}}"
    yield "schema: astropy-2.0"


def _described(column: Column) -> Iterator[str]:
    yield f"name: {_scalar(column.name)}"
    if unit := unit_as(column.unit, "generic"):
        yield f"unit: {_scalar(unit)}"
    yield f"datatype: {_DATATYPE[column.kind]}"
    if column.says:
        yield f"description: {_scalar(column.says)}"
    told = {"ucd": column.ucd, "system": system_of(column)}
    if any(told.values()):
        yield f"meta: {{{', '.join(f'{name}: {_scalar(value)}' for name, value in told.items() if value)}}}"


def _scalar(value: str | int | float | bool) -> str:
    """A value as YAML 1.1 reads it back; text always in quotation marks, so that `no` and `007` stay text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 takes 1e-05 for a text: a float has a point there.
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if isinstance(value, int):
        return str(value)
    out = "".join(c if c.isprintable() else _yaml_escape(c) for c in value.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{out}"'


def _yaml_escape(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _fields(row: int, columns: list[tuple[list[Any], bool]]) -> Iterator[str]:
    for values, masked in columns:
        value = values[row]
        if value is None:
            yield ""
        elif isinstance(value, str):
            yield '"' + value.replace('"', '""') + '"'
        else:
            yield repr(value)
        if masked:
            yield str(value is None)
