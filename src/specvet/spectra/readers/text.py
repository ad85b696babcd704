"""Text spectra: two columns or more, any suffix, with or without a header (`text`).

Unnamed columns are judged by what can be shown, not by what is usual: a third column is an error only if a name or a
comment says so. Tables and lists that are no spectra are refused with a reason.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import MAX_TEXT_BYTES, Opened
from specvet.spectra.readers.building import build, ivar_of
from specvet.spectra.readers.columns import (
    Role,
    angstroms_per,
    from_log10,
    in_angstrom,
    medium_in,
    roles,
    says_nothing,
    unit_in_name,
)
from specvet.spectra.readers.standardtables import standard_table
from specvet.spectra.readers.textlayout import TextTable, parsed
from specvet.spectra.readers.tidy import spectra_by_id
from specvet.spectra.readers.values import degrees, identifiers, is_magnitude, mjd_of, number, redshift, stem
from specvet.spectra.spectrum import FloatArray, Medium, Spectrum

MAX_LINES = 2_000_000
"""Most lines of a text spectrum; each costs some 200 bytes of memory."""

_PLAIN_KEY = re.compile(r"(ra|dec|z|redshift|mjd|object|objname)\s+(\S.*)$", re.IGNORECASE)
"""Keys that are taken without `:` or `=`; other lines of words are sentences."""

_ERG_CM2_S_A_TO_MJY = 1e26 / 2.99792458e18
"""F_ν in mJy = 1e-16 · F_λ(1e-16 erg/s/cm²/Å) · λ² · this, from F_ν = F_λ λ²/c with c in Å/s."""


def read_text(plain: Opened) -> list[Spectrum]:
    """The spectrum of a text file, or several where its columns are several spectra over one wavelength."""
    content = _decoded(plain)
    standard = standard_table(content, plain.file)
    table = standard or parsed(content, plain.file)
    found = roles(list(table.names))
    if standard is not None and not {"wavelength", "loglam"} & found.keys() and not all(map(says_nothing, table.names)):
        given = ", ".join(table.names)[:200]
        problem = f"no column is named as a wavelength (columns: {given}); name it wavelength"
        raise SpectrumReadError(plain.file, problem)
    named = "wavelength" in found or "loglam" in found
    columns = {role: table.values[:, index] for role, index in found.items()}
    notes: list[str] = list(table.notes)
    if named and "flux" not in found and len(table.names) == 2 and len(found) == 1:
        other = 1 - next(iter(found.values()))
        found["flux"], columns["flux"] = other, table.values[:, other]
        notes.append(f"column {other + 1} ({table.names[other]}) taken for the flux")
    if named and "flux" not in found:
        given = ", ".join(name for name in table.names if name)
        raise SpectrumReadError(plain.file, f"no column is named flux (columns: {given}); name it")
    several = 1
    if not named:
        several = _check_unnamed(table, plain.file)
        columns["wavelength"], columns["flux"] = table.values[:, 0], table.values[:, 1]
        found |= {"wavelength": 0, "flux": 1}
    wavelength = _wavelength(table, found, columns, plain.file, notes)
    if not named:
        _check_grid(wavelength, plain.file)
    about = _about(table, plain.file, found)
    if several > 1:
        return _one_a_column(table, wavelength, plain.file, about)
    ivar = ivar_of(columns)
    for index in range(table.values.shape[1]):
        if index not in found.values():
            notes.append(_ignored(table, index, wavelength, columns["flux"], ivar is None))
    if table.dropped:
        notes.append(f"{table.dropped} further columns are not named: ignored")
    if table.left_out:
        notes.append(f"columns without numbers ignored: {', '.join(table.left_out)[:200]}")
    told = spectra_by_id(table.ids, wavelength) if table.ids else None
    name, parts = told or ("", [("", np.arange(wavelength.size))])
    mask = columns.get("mask")
    return [
        build(
            plain.file,
            wavelength[rows],
            columns["flux"][rows],
            ivar=None if ivar is None else ivar[rows],
            mask=None if mask is None else mask[rows],
            warnings=notes,
            layout="text",
            row=place,
            keep_dead=len(parts) > 1,
            **about | ({"id": own, "ids": about["ids"] | {name: own}} if own else {}),
        )
        for place, (own, rows) in enumerate(parts)
    ]


def _wavelength(
    table: TextTable, found: dict[Role, int], columns: dict[Role, FloatArray], file: str, notes: list[str]
) -> FloatArray:
    """In Å, by the unit that the column's name, the standard or a comment states."""
    if "loglam" in columns and "wavelength" not in columns:
        return from_log10(columns["loglam"], file)
    index = found["wavelength"]
    unit = unit_in_name(table.names[index]) or (table.units[index] if table.units else "")
    return in_angstrom(columns["wavelength"], unit or _unit_in_comments(table.comments), file, notes)


def _one_a_column(table: TextTable, wavelength: FloatArray, file: str, about: dict[str, Any]) -> list[Spectrum]:
    """One entry a column behind the wavelengths."""
    count = table.values.shape[1] - 1
    return [
        build(
            file,
            wavelength,
            table.values[:, column],
            warnings=[f"column {column + 1} is not named: read as one of {count} spectra over one wavelength column"],
            keep_dead=True,
            layout="text",
            row=column - 1,
            **about | {"id": f"{about['id']} column {column + 1}"},
        )
        for column in range(1, count + 1)
    ]


def _decoded(plain: Opened) -> str:
    data = plain.everything(MAX_TEXT_BYTES, "a text spectrum")
    if data.count(b"\n") + data.count(b"\r") > 2 * MAX_LINES:
        raise SpectrumReadError(plain.file, f"more than {MAX_LINES} lines are no text spectrum; save it as FITS or NPZ")
    if b"\x00" in data[:4096]:
        raise SpectrumReadError(plain.file, "binary data of no known format (not FITS, NPZ or text)")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8 text; save the file as UTF-8, or it is binary of no known format"
        raise SpectrumReadError(plain.file, problem) from None


def _check_unnamed(table: TextTable, file: str) -> int:
    """How many spectra a table without names holds: one, or one a column where there are many alike.

    Refuses tables whose first two columns need not be wavelength and flux.
    """
    n, width = table.values.shape
    if width < 2:
        raise SpectrumReadError(file, "a single column of numbers; a spectrum needs wavelength and flux")
    first, second = table.values[:, 0], table.values[:, 1]
    whole = [bool(np.all(column == np.rint(column))) for column in table.values.T]
    dates = bool(np.all((second >= 40000) & (second < 80000)))
    if whole[0] and whole[1] and dates and (width == 2 or whole[2]):
        raise SpectrumReadError(file, "a list of plate, MJD and fibre numbers, not a spectrum; give the spec files")
    if all(whole) and n > 2 and (np.unique(first).size < n or not _is_monotonic(first)):
        raise SpectrumReadError(file, "columns of whole numbers in no order: a list, not a spectrum")
    if width <= 4:
        return 1
    if not _alike(table.values):
        raise SpectrumReadError(
            file,
            f"a table of {width} unnamed columns that are not alike (a spectrum with errors and masks, or parameters?);"
            " name the columns in a header line, such as: wavelength flux error",
        )
    return int(width) - 1


def _alike(values: FloatArray) -> bool:
    """Whether all columns but the first can be fluxes of one kind: none is a list of whole numbers, their levels lie
    within a factor of 100, and each goes along with the next (spectra of one class, not a flux with its errors)."""
    wavelength, columns = values[:, 0], values[:, 1:]
    if values.shape[0] < 50 or not _is_monotonic(wavelength):
        return False
    shown = np.isfinite(columns).all(axis=1) & (columns != 0).any(axis=1)
    columns = columns[shown]
    if columns.shape[0] < 50 or bool((columns == np.rint(columns)).all(axis=0).any()):
        return False
    levels = np.median(np.abs(columns), axis=0)
    if levels.min() <= 0 or levels.max() > 100.0 * levels.min() or bool((np.std(columns, axis=0) == 0).any()):
        return False
    neighbours = [float(np.corrcoef(columns[:, i], columns[:, i + 1])[0, 1]) for i in range(columns.shape[1] - 1)]
    return min(neighbours) > 0.5


def _is_monotonic(values: FloatArray) -> bool:
    steps = np.diff(values)
    return bool(np.all(steps > 0) or np.all(steps < 0))


def _check_grid(wavelength: FloatArray, file: str) -> None:
    """Unnamed wavelengths must look like a grid: positive, hardly any repeated."""
    finite = wavelength[np.isfinite(wavelength)]
    if finite.min() <= 0:
        raise SpectrumReadError(
            file, f"the first column goes down to {finite.min():g}: not wavelengths; name the columns"
        )
    if np.unique(finite).size < 0.9 * finite.size:
        raise SpectrumReadError(file, "values of the first column repeat: not wavelengths of one spectrum")


def _ignored(table: TextTable, index: int, wavelength: FloatArray, flux: FloatArray, no_error: bool) -> str:
    """The note on a column that is not used; names the ESO standards' mJy column by its arithmetic."""
    name = table.names[index]
    if name:
        return f"column {index + 1} ({name}) ignored"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = table.values[:, index] / (flux * 1e-16 * wavelength**2 * _ERG_CM2_S_A_TO_MJY)
    ratio = ratio[np.isfinite(ratio) & (flux != 0)]
    if ratio.size and bool(np.median(np.abs(ratio / np.median(ratio) - 1.0)) < 0.01):
        unit = " in mJy, for flux in 1e-16 erg/s/cm2/A" if abs(float(np.median(ratio)) - 1.0) < 0.02 else ""
        return f"column {index + 1} is the same flux per frequency{unit}: ignored"
    tail = "; name it to have it used (ivar, error)" if no_error else ""
    return f"column {index + 1} is not named: ignored{tail}"


def _unit_in_comments(comments: tuple[str, ...]) -> str:
    """The unit of the wavelengths in a sentence or a card; words that are none (`in air`) do not count."""
    for line in comments:
        for pattern in _UNIT_SAID:
            found = pattern.search(line)
            unit = found[1].strip("()[]'\",;") if found else ""
            if angstroms_per(unit) is not None or unit.lower() in _OTHER_UNITS:
                return unit
    return ""


_UNIT_SAID = (
    re.compile(r"wave(?:length)?s?\b[^.]{0,20}?\bin\s+(?:units\s+of\s+)?([\w.]+)", re.I),
    re.compile(r"name:\s*wave\w*,\s*unit:\s*([\w.]+)", re.I),
    re.compile(r"(?:\b(?:wave(?:length)?s?|wav|lambda|w|x)[\s_\-]*|\bc)units?\d?\s*(?:[:=]|is\b)?\s*(\S+)", re.I),
    re.compile(r"units?\s+of\s+(?:the\s+)?wave(?:length)?s?\s*(?:[:=]|is\b|are\b)?\s*(\S+)", re.I),
    re.compile(r"^wave(?:length)?s?\s*(?:[:=]|is|are)?\s*[(\[]\s*(\S+?)\s*[)\]]", re.I),
)
_OTHER_UNITS = {"hz", "khz", "mhz", "ghz", "thz", "ev", "kev", "cm-1", "pixel", "pixels", "km/s", "parsec"}


def _stated(comments: tuple[str, ...]) -> dict[str, str]:
    """`KEY: value`, `KEY = value / comment` and `KEY value` lines; the last one wins, keys in lower case."""
    out: dict[str, str] = {}
    for line in comments:
        found = re.match(r"([A-Za-z][\w\-/]*)\s*[:=]\s*(.+)$", line) or _PLAIN_KEY.match(line)
        if found:
            value = re.split(r"\s+/\s", found[2])[0].strip().strip("'\"").strip()
            out[found[1].lower()] = value
    return out


def _about(table: TextTable, file: str, found: dict[Any, int]) -> dict[str, Any]:
    said = _stated(table.comments)

    def first(*keys: str) -> str:
        return next((said[key] for key in keys if said.get(key)), "")

    name = first("object", "objname", "name", "target", "star")
    obid = first("obid", "objid", "specobjid", "obsid", "targetid", "id")
    keys = ("redshift", "zhelio") if _METALS & said.keys() or is_magnitude("z", said) else ("z", "redshift", "zhelio")
    z_key = next((key for key in keys if number(said.get(key)) is not None), "")
    wavelength_name = table.names[found["wavelength"]] if "wavelength" in found else ""
    return {
        "medium": _medium(table.comments, said, wavelength_name),
        "flux_unit": unit_in_name(table.names[found["flux"]])
        or _unit_of(table, found["flux"])
        or first("bunit", "flux_unit", "fluxunit"),
        "ra": degrees(first("ra", "raj2000", "ra_deg", "radeg"), hours=True),
        "dec": degrees(first("dec", "decj2000", "dec_deg", "decdeg"), hours=False),
        "mjd": number(first("mjd", "mjd-obs", "mjd_obs")) or mjd_of(first("date-obs")),
        "redshift": redshift(said.get(z_key), said.get(f"{z_key}_err"), f"header {z_key}" if z_key else ""),
        "id": name or obid or stem(file),
        "ids": identifiers(object=name, obid=obid, pmj=first("pmj"), plate=first("plate"), fiberid=first("fiberid")),
        "survey": first("survey", "orig") or "unknown",
    }


_METALS = {"teff", "t_eff", "logg", "log_g", "log(g)", "feh", "m/h", "fe/h", "alpha", "microturbulence", "vmicro"}
"""Keys of a model atmosphere: Z beside them is the metallicity."""


def _unit_of(table: TextTable, column: int) -> str:
    return table.units[column] if table.units else ""


def _medium(comments: tuple[str, ...], said: dict[str, str], wavelength_name: str) -> Medium:
    """What the header states; AIRMASS and air temperatures state nothing."""
    stated = said.get("vacuum", "").lower()
    if stated in ("true", "t", "yes", "1"):
        return "vacuum"
    if stated in ("false", "f", "no", "0"):
        return "air"
    lines = [said.get("medium", ""), said.get("airorvac", ""), wavelength_name.replace("_", " ")]
    lines += [line for line in comments if re.search(r"wave|lambda|angstrom", line, re.I)]
    media = {medium for line in lines if (medium := medium_in(line)) != "unknown"}
    return media.pop() if len(media) == 1 else "unknown"
