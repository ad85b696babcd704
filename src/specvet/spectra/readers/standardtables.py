"""Text tables of a standard that states names and units: ECSV, VOTable, IPAC, and the CDS and AAS (MRT) formats.

astropy reads them; what is not a number is left out here.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from specvet.spectra.astropy_home import usable_home
from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.columns import column_role
from specvet.spectra.readers.fitsfile import quiet_astropy
from specvet.spectra.readers.textlayout import TextTable
from specvet.spectra.readers.tidy import ID_NAMES
from specvet.spectra.readers.votables import parsed_votable

_MAX_CELLS = 2**25
"""Most numbers of one table."""


def standard_table(content: str, file: str) -> TextTable | None:
    """The table, with units, or None where the text follows none of these standards."""
    kind = _kind(content)
    if kind is None:
        return None
    with quiet_astropy():
        try:
            table, notes = _parsed(content, kind)
        except Exception as error:  # astropy raises many kinds, from the standards' own to ValueError
            reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
            raise SpectrumReadError(file, f"the {_NAMES[kind]} table cannot be read ({reason}); repair it") from None
    return dataclasses.replace(_numbers(table, kind, file), notes=notes)


_NAMES = {"ecsv": "ECSV", "votable": "VOTable", "ipac": "IPAC", "mrt": "CDS or MRT"}


def _kind(content: str) -> str | None:
    head = content[:20_000]
    if head.startswith("# %ECSV"):
        return "ecsv"
    if re.match(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<VOTABLE\b", head, re.DOTALL):
        return "votable"
    lines = [line for line in head.splitlines() if line.strip()]
    body = next((line for line in lines if not line.startswith("\\")), "")
    if body.startswith("|") and body.rstrip().endswith("|"):
        return "ipac"
    if "Byte-by-byte Description of file" in head:
        return "mrt"
    return None


def _parsed(content: str, kind: str) -> tuple[Any, tuple[str, ...]]:
    """The table, and a note on others in the file."""
    with usable_home():
        from astropy.table import Table

        if kind == "votable":
            tables = list(parsed_votable(content.encode(), verify="ignore").iter_tables())
            chosen = next((t for t in tables if _is_spectrum(t)), tables[0])
            left_out = [t.name or t.ID or f"TABLE {n}" for n, t in enumerate(tables, 1) if t is not chosen]
            notes = (f"further tables ignored: {', '.join(map(str, left_out))[:200]}",) if left_out else ()
            return chosen.to_table(use_names_over_ids=True), notes
        if kind == "mrt":
            kind = "cds" if "Title:" not in content[:2000] else "mrt"
        return Table.read(content, format=f"ascii.{kind}", guess=False), ()


def _is_spectrum(table: Any) -> bool:
    found = {column_role(str(field.name)) for field in table.fields}
    return "flux" in found and bool({"wavelength", "loglam"} & found)


def _numbers(table: Any, kind: str, file: str) -> TextTable:
    """The columns that hold one number a row."""
    names, units, values, left_out = [], [], [], []
    ids = {str(name).lower(): np.asarray(table[name]) for name in table.colnames if str(name).lower() in ID_NAMES}
    for name in table.colnames:
        column = table[name]
        data = np.ma.asarray(column)
        if data.ndim != 1 or data.dtype.kind not in "iufb":
            left_out.append(name)
            continue
        names.append(str(name))
        units.append(str(column.unit or "") if getattr(column, "unit", None) is not None else "")
        values.append(np.ma.filled(data.astype(np.float64), np.nan))
    if not values or len(table) * len(values) > _MAX_CELLS:
        problem = "holds no columns of numbers" if not values else f"holds more than {_MAX_CELLS} numbers"
        raise SpectrumReadError(file, f"the {_NAMES[kind]} table {problem}; it is no spectrum")
    comments = [f"{key}: {value}" for key, value in _facts(table.meta).items()]
    return TextTable(
        tuple(comments), tuple(names), np.column_stack(values), units=tuple(units), left_out=tuple(left_out), ids=ids
    )


def _facts(meta: Any) -> dict[str, str]:
    """Single values of the metadata; IPAC keeps them one level down."""
    out: dict[str, str] = {}
    for key, value in dict(meta or {}).items():
        if isinstance(value, dict) and key == "keywords":
            out |= {str(k): str(v["value"]) for k, v in value.items() if isinstance(v, dict) and "value" in v}
        elif isinstance(value, str | int | float | bool) and len(str(value)) < 200:
            out[str(key)] = str(value)
    return out
