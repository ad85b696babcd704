"""A `Table`: a catalogue that the user has, with its columns understood: places, motions, what it says of its stars."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.catalogue.matching.names import EQUINOX_2000, UNITS, meanings
from specvet.catalogue.matching.reading import Columns, numbers, read_columns, texts
from specvet.catalogue.plausible import BOUNDS, is_source_id, moves, plausible, went_through_floats
from specvet.data.errors import InputError
from specvet.records import file_hash
from specvet.spectra.readers.values import degrees

Floats = NDArray[np.float64]

GAIA_EPOCH = 2016.0
"""Julian year of Gaia DR3's positions (Lindegren et al. 2021, A&A 649, A2)."""


@dataclass(frozen=True, slots=True)
class Table:
    """A catalogue in memory; arrays have shape (n,), nan where nothing is known."""

    name: str
    """By which matches call it: `gaia`, `vsx`."""
    path: str
    sha256: str
    gaia: bool
    """Whether its rows are Gaia's sources, or only names of what is known."""
    ra: Floats
    """Degrees, ICRS at `epoch`."""
    dec: Floats
    epoch: Floats
    """Julian years."""
    pmra: Floats
    """mas/yr, with cos δ."""
    pmdec: Floats
    ids: list[str]
    """Gaia source ids, digits; empty where there is none, and all of them in a table without."""
    names: list[str]
    types: list[str]
    values: Mapping[str, Floats]
    """`parallax`, `parallax_error`, `ruwe`, `g`, `bp_rp`: those that the table has."""
    kept: Mapping[str, list[str]] = field(default_factory=dict)
    """Further columns as text, by name."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Meaning → column, as it was understood."""
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.ra.size)

    @property
    def told(self) -> dict[str, Any]:
        """What makes this table the same as another: for receipts."""
        return {"kind": "table", "file": os.path.basename(self.path), "sha256": self.sha256, "rows": len(self),
                "gaia": self.gaia, "columns": dict(self.columns)}  # fmt: skip


def read_table(
    path: str, name: str | None = None, columns: Mapping[str, str] | None = None, keep: tuple[str, ...] = ()
) -> Table:
    """The catalogue in a CSV (any delimiter, gzip too), ECSV, FITS, VOTable or Parquet file.

    Args:
        path: the file.
        name: what matches call it; `gaia` makes it Gaia's. None: `gaia` where it has parallaxes and G magnitudes, else
            the file's name without its suffix.
        columns: meaning → column, before the usual names (`specvet.catalogue.matching.names`); a number for `ref_epoch`
            is the Julian year of all positions.
        keep: columns to keep as text with each match.

    Raises `InputError` naming file, column or row, `OSError`.
    """
    found: dict[str, str] = {}

    def wanted(names: Any) -> list[str]:
        found.update(meanings(path, names, columns))
        if lost := [column for column in keep if column not in names]:
            raise InputError(f"{path}: no column {', '.join(lost)} to keep; columns: {', '.join(names[:30])}")
        return list(dict.fromkeys([*(c for c in found.values() if c in names), *keep]))

    sha256 = file_hash(Path(path))
    raw = read_columns(path, wanted)
    notices: list[str] = []
    has_gaia = "parallax" in found and "g" in found
    name = name or ("gaia" if has_gaia else _stem(path))
    gaia = name == "gaia" or has_gaia
    ra, dec = (_degrees(path, raw, found, meaning, notices) for meaning in ("ra", "dec"))
    lost = int(np.count_nonzero(~(np.isfinite(ra) & np.isfinite(dec))))
    if lost:
        notices.append(f"{path}: {lost:,} of {raw.n:,} rows have no position")
    pmra, pmdec = (_quantity(path, raw, found, meaning, notices) for meaning in ("pmra", "pmdec"))
    absurd = ~np.isnan(pmra + pmdec) & ~moves(pmra, pmdec)
    if np.any(absurd):
        pmra, pmdec = np.where(absurd, np.nan, pmra), np.where(absurd, np.nan, pmdec)
        notices.append(
            f"{path}: {int(absurd.sum()):,} rows move faster than any star, or by a number that stands for none; their "
            "motion was left out"
        )
    said = [m for m in ("parallax", "parallax_error", "ruwe", "g", "bp_rp") if m in found]
    values: dict[str, Floats] = {m: _quantity(path, raw, found, m, notices) for m in said}
    if "bp_rp" not in values and {"bp", "rp"} <= found.keys():
        bp, rp = (_quantity(path, raw, found, m, notices) for m in ("bp", "rp"))
        values["bp_rp"] = np.round(bp - rp, 6)
    table = Table(
        name=name,
        path=path,
        sha256=sha256,
        gaia=gaia,
        ra=ra % 360.0,
        dec=dec,
        epoch=_epoch(path, raw, found, gaia, notices),
        pmra=pmra,
        pmdec=pmdec,
        ids=_ids(path, raw, found, notices),
        names=texts(raw.get(found["name"])) if "name" in found and not gaia else [],
        types=texts(raw.get(found["type"])) if "type" in found and not gaia else [],
        values=values,
        kept={column: texts(raw.get(column)) for column in keep},
        columns=found,
        notices=tuple(notices),
    )
    if file_hash(Path(path)) != sha256:
        raise InputError(f"{path}: changed while it was read; give it once it is complete")
    return table


def _quantity(path: str, raw: Columns, found: Mapping[str, str], meaning: str, notices: list[str]) -> Floats:
    """Numbers in the unit of `UNITS`; nan everywhere without such a column."""
    column = found.get(meaning)
    if column is None or column not in raw.names:
        return np.full(raw.n, np.nan)
    values = numbers(path, column, raw.get(column))
    unit = raw.units.get(column, "")
    if unit and meaning in UNITS:
        import astropy.units as u

        try:
            hours = meaning == "ra" and unit in ("h", "hr", "hour")
            values = values * (15.0 if hours else float(u.Unit(unit).to(u.Unit(UNITS[meaning]))))
        except (ValueError, TypeError):
            if "mag" not in unit.lower():
                notices.append(f"{path}: {column} is in {unit!r}, which was taken for {UNITS[meaning]}")
    if meaning not in BOUNDS:
        return values
    lost = ~np.isnan(values) & ~plausible(meaning, values)
    if np.any(lost):
        which = f"{path}: {int(lost.sum()):,} values of {column}, as {values[lost][0]:g}, "
        notices.append(which + f"cannot be a {meaning} and were left out")
    return np.where(lost, np.nan, values)


def _degrees(path: str, raw: Columns, found: Mapping[str, str], meaning: str, notices: list[str]) -> Floats:
    """Degrees from numbers, or from sexagesimal text (right ascension in hours)."""
    if meaning not in found:
        return np.full(raw.n, np.nan)
    try:
        values = _quantity(path, raw, found, meaning, notices)
    except InputError:
        told = [degrees(text, hours=meaning == "ra") for text in texts(raw.get(found[meaning]))]
        values = np.array([np.nan if v is None else v for v in told], dtype=np.float64)
        if np.isnan(values).all():
            raise
    low, high = (-180.0, 360.0) if meaning == "ra" else (-90.0, 90.0)
    return np.where((values >= low) & (values <= high), values, np.nan)


def _epoch(path: str, raw: Columns, found: Mapping[str, str], gaia: bool, notices: list[str]) -> Floats:
    """Of each row's position: as the table says, else 2000.0 for columns carried there, Gaia's own, or 2000.0."""
    column = found.get("ref_epoch")
    at_2000 = found.get("ra", "").lower() in EQUINOX_2000
    usual = GAIA_EPOCH if gaia and not at_2000 else 2000.0
    if column is not None and column not in raw.names:
        return np.full(raw.n, float(column))
    if column is not None:
        try:
            years = numbers(path, column, raw.get(column))
        except InputError:
            years = np.full(raw.n, np.nan)
        sound = (years >= 1800.0) & (years <= 2200.0)
        if "ref_epoch" in column.lower() and not sound.all():
            notices.append(f"{path}: {int((~sound).sum()):,} rows state no epoch in {column}; {usual:g} was taken")
        if sound.any():
            return np.where(sound, years, usual)
    elif "pmra" in found:
        notices.append(f"{path}: states no epoch; positions were taken to be of {usual:g} (--columns ref_epoch=YEAR)")
    return np.full(raw.n, usual)


def _ids(path: str, raw: Columns, found: Mapping[str, str], notices: list[str]) -> list[str]:
    """Gaia source ids; one that went through a floating-point number is no id any more."""
    column = found.get("source_id")
    if column is None:
        return []
    values = raw.get(column)
    if values.dtype.kind == "f":
        notices.append(
            f"{path}: {column} holds floating-point numbers, whose last digits are lost; matched by position"
        )
        return []
    ids = [text.removeprefix("Gaia DR3 ").removeprefix("Gaia EDR3 ") for text in texts(values)]
    strange = sum(bool(text) and not is_source_id(text) for text in ids)
    if strange:
        notices.append(f"{path}: {strange:,} values of {column} are no Gaia DR3 source ids; matched by position")
    ids = [text if is_source_id(text) else "" for text in ids]
    if went_through_floats(ids):
        notices.append(
            f"{path}: {column} went through floating-point numbers, as in a spreadsheet: its last digits are lost; "
            "matched by position"
        )
        return []
    return ids


def _stem(path: str) -> str:
    name = os.path.basename(path).lower().removesuffix(".gz")
    return re.sub(r"[^a-z0-9_-]+", "_", os.path.splitext(name)[0]) or "table"
