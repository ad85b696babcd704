"""`write`: one spectrum as FITS, VOTable or ECSV, so that `specvet.read` gives an equal one back.

One row a pixel in the columns WAVELENGTH (Å), FLUX, IVAR and MASK, those that the spectrum has, as float64 and int64;
everything else is a card, INFO or entry of the meta data, listed in `FACTS`. What is not known is left out. Any other
program reads a plain table with units. The reader is `specvet.spectra.readers.own`.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specvet.records.errors import naming_a_full_disk
from specvet.records.tables import FORMATS, Column, Fact, Sheet, TableFormat, cells_of, table_format, write_table
from specvet.spectra.spectrum import Spectrum

MARK = "specvet_spectrum"
"""The fact by which a reader knows the layout."""

VERSION = 1

FACTS: dict[str, tuple[str, str]] = {
    MARK: ("SPECVET", "version of this layout of specvet"),
    "object": ("OBJECT", "identifier that people quote"),
    "medium": ("MEDIUM", "of the wavelengths: air, vacuum, unknown"),
    "frame": ("VELFRAME", "velocity frame of the wavelengths"),
    "flux_unit": ("FLUXUNIT", "as the original file writes it"),
    "calibration": ("FLUXCAL", "absolute, relative, normalised, unknown"),
    "resolution": ("SPECRP", "resolving power, nominal"),
    "mjd": ("MJD-OBS", "days"),
    "ra": ("RA", "degrees, ICRS as released"),
    "dec": ("DEC", "degrees"),
    "z": ("Z", "redshift, as stated by Z_SOURCE"),
    "z_error": ("Z_ERR", ""),
    "z_source": ("Z_SOURCE", ""),
    "z_warning": ("Z_WARN", ""),
    "class": ("CLASS", "of the survey's pipeline"),
    "subclass": ("SUBCLASS", "of the survey's pipeline"),
    "survey": ("SURVEY", ""),
    "release": ("RELEASE", ""),
    "reduction": ("REDUCT", "version of the survey's pipeline"),
    "original_layout": ("ORIGLAY", "layout of the original file"),
    "original_file": ("ORIGFILE", ""),
    "original_row": ("ORIGROW", "target of the original file, from 0"),
}
"""Name in VOTable and ECSV → (FITS card, what it means)."""

NUMBERED: dict[str, tuple[str, str]] = {
    "join": ("JOIN", "low and high in Angstrom, arms"),
    "id": ("ID", "identifier of the survey, name=value"),
    "warning": ("WARN", "of the reader of the original file"),
}
"""Facts of which there may be any number: `join_1`, JOIN1."""


def write(spectrum: Spectrum, path: str | os.PathLike[str], format: TableFormat | None = None) -> list[str]:
    """Write `spectrum` to `path`, in place of what was there, once it is complete.

    Without `format` the suffix decides: `.fits`, `.vot`, `.votable`, `.xml` or `.ecsv`; `.gz` behind it packs.

    Returns notices, for people, of what the format cannot hold. Raises `ValueError` for an unknown suffix and a name
    that is a folder's, `OSError` where the file cannot be written.
    """
    target = Path(path)
    kind = format or table_format(target.name)
    if kind not in FORMATS:
        suffixes = ", ".join(suffix for group in FORMATS.values() for suffix in group)
        raise ValueError(f"{target}: a spectrum is written as FITS, VOTable or ECSV; name the file {suffixes}")
    if target.is_dir():
        raise ValueError(f"{target}: is a folder; name a file in it")
    columns = tuple(_columns(spectrum))
    what = f"spectrum {spectrum.id or target.name}, one row a pixel"
    sheet = Sheet("SPECTRUM", what, columns, tuple(_facts(spectrum)))
    arrays = {"WAVELENGTH": spectrum.wavelength, "FLUX": spectrum.flux, "IVAR": spectrum.ivar, "MASK": spectrum.mask}
    cells = cells_of(columns, {c.name: arrays[c.name].tolist() for c in columns})  # type: ignore[union-attr]
    temporary = target.with_name(f".specvet-{secrets.token_hex(8)}.tmp")
    with naming_a_full_disk(target):
        try:
            notices = write_table(temporary, kind, sheet, cells, packed=target.name.lower().endswith(".gz"))
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, target)
        except OSError as e:
            raise OSError(e.errno, e.strerror, str(target)) from e
        finally:
            temporary.unlink(missing_ok=True)
    return notices


def _columns(spectrum: Spectrum) -> Iterator[Column]:
    medium = {"air": " in air", "vacuum": " in vacuum"}.get(spectrum.medium, ", air or vacuum unknown")
    yield Column("WAVELENGTH", float, f"wavelength{medium}", "Angstrom", "em.wl")
    unit, squared = _units(spectrum.flux_unit)
    yield Column("FLUX", float, "flux", unit, "phot.flux.density;em.wl")
    if spectrum.ivar is not None:
        yield Column("IVAR", float, "inverse variance of the flux; 0 is bad", squared, "stat.weight")
    if spectrum.mask is not None:
        yield Column("MASK", int, "bit mask of the survey", "", "meta.code.qual")


def _units(unit: str) -> tuple[str, str]:
    """Units of flux and inverse variance as FITS writes them, empty where it cannot; FLUXUNIT has the original."""
    from specvet.spectra.units import flux_unit

    known = flux_unit(unit) if unit else None
    try:
        return ("", "") if known is None else (known.to_string("fits"), (known**-2).to_string("fits"))
    except ValueError:
        return "", ""


def _facts(s: Spectrum) -> Iterator[Fact]:
    values: dict[str, Any] = {
        MARK: VERSION,
        "object": s.id,
        "medium": s.medium,
        "frame": s.frame,
        "flux_unit": s.flux_unit,
        "calibration": s.calibration,
        "resolution": s.resolution,
        "mjd": s.mjd,
        "ra": s.ra,
        "dec": s.dec,
        "z": s.redshift.value,
        "z_error": s.redshift.error,
        "z_source": s.redshift.source,
        "z_warning": s.redshift.warning,
        "class": s.pipeline_class,
        "subclass": s.pipeline_subclass,
        "survey": s.survey,
        "release": s.release,
        "reduction": s.reduction,
        "original_layout": s.layout,
        "original_file": Path(s.file).name,
        "original_row": s.row,
    }
    for name, (card, says) in FACTS.items():
        value = values[name]
        if isinstance(value, float):  # NumPy's too, whose repr is no number
            value = float(value) if math.isfinite(value) else None
        if value is not None and value != "":
            yield Fact(name, card, value, says)
    lists = {
        "join": [f"{j.low!r} {j.high!r} {j.label}" for j in s.joins],
        "id": [f"{name}={value}" for name, value in s.ids.items()],
        "warning": list(s.warnings),
    }
    for name, (card, says) in NUMBERED.items():
        for n, text in enumerate(lists[name], 1):
            yield Fact(f"{name}_{n}", f"{card}{n}", text, says)
