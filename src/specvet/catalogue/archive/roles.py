"""Which column of a catalogue is the name, the position, the motion: by the names in use, else by UCD."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specvet.catalogue.archive.errors import AnswerError
from specvet.catalogue.archive.names import GAIA
from specvet.catalogue.archive.votable import Sheet

GAIA_EPOCH = 2016.0
"""Of Gaia DR3: Lindegren et al. 2021, A&A 649, A2."""

NUMBERS: Mapping[str, tuple[str, ...]] = {
    "parallax": ("parallax", "plx"),
    "parallax_error": ("parallax_error", "e_plx"),
    "ruwe": ("ruwe",),
    "g": ("phot_g_mean_mag", "gmag"),
    "bp_rp": ("bp_rp", "bp-rp"),
    "bp": ("phot_bp_mean_mag", "bpmag"),
    "rp": ("phot_rp_mean_mag", "rpmag"),
}
"""Columns of Gaia DR3 in the Gaia archive and at CDS, in small letters."""

_GAIA_NAMES = {
    "name": ("source_id", "source"),
    "ra": ("ra_icrs", "radeg", "ra"),
    "dec": ("de_icrs", "dedeg", "dec"),
}
_GAIA_AT_2000 = {"ra": ("raj2000", "ra_epoch2000"), "dec": ("dej2000", "dec_epoch2000")}
_NAMES = {
    "name": ("main_id", "name", "designation", "source_id", "source", "id"),
    "type": ("main_type", "otype", "type", "class", "otype_txt"),
    "ra": ("raj2000", "_raj2000", "ra_icrs", "raicrs", "radeg", "ra"),
    "dec": ("dej2000", "_dej2000", "de_icrs", "deicrs", "dedeg", "dec"),
    "pmra": ("pmra",),
    "pmdec": ("pmdec", "pmde"),
    "epoch": ("ref_epoch",),
    "distance": ("angdist",),
}
_UCDS = {
    "name": ("meta.id;meta.main", "id_main"),
    "type": ("src.class", "meta.code.class", "src.spType"),
    "ra": ("pos.eq.ra;meta.main", "pos_eq_ra_main"),
    "dec": ("pos.eq.dec;meta.main", "pos_eq_dec_main"),
    "pmra": ("pos.pm;pos.eq.ra", "pos_eq_pmra"),
    "pmdec": ("pos.pm;pos.eq.dec", "pos_eq_pmdec"),
}


_EPOCH = re.compile(r"\bEp(?:och)?\.?\s*=?\s*J?((?:19|20)\d\d(?:\.\d+)?)", re.IGNORECASE)
_GAIA_MARKS = {"gaiaedr3", "gaiadr3", "edr3name", "dr3name", "gaia_dr3", "gaia_edr3"}
"""Columns, in small letters, of tables that took their positions from Gaia (E)DR3."""


@dataclass(frozen=True, slots=True)
class Roles:
    """Column names by what they mean; empty where there is none."""

    name: str = ""
    ra: str = ""
    dec: str = ""
    epoch: float = 2000.0
    """Julian year of the positions, unless `epoch_column` says it row by row."""
    epoch_column: str = ""
    pmra: str = ""
    pmdec: str = ""
    motion_scale: float = 1.0
    """To mas/yr."""
    type: str = ""
    distance: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)


def roles(sheet: Sheet, catalogue: str, address: str) -> Roles:
    """The columns of an answer of `catalogue`. Raises `AnswerError` where positions, or Gaia's ids, are missing."""
    kinds = {name: "text" if _is_text(column) else "number" for name, column in sheet.columns.items()}
    made = roles_of(kinds, sheet.ucds, sheet.units, sheet.descriptions, catalogue)
    if catalogue == GAIA and not (made.name and made.ra and made.dec and made.numbers["parallax"]):
        raise AnswerError(f"{address} sent no source ids, positions and parallaxes of Gaia; columns: {_some(sheet)}")
    if not (made.ra and made.dec) and not made.distance:
        raise AnswerError(f"{address} sent no positions in degrees for {catalogue}; columns: {_some(sheet)}")
    return made


def roles_of(
    kinds: Mapping[str, str],
    ucds: Mapping[str, str],
    units: Mapping[str, str],
    descriptions: Mapping[str, str],
    catalogue: str,
) -> Roles:
    """The columns among `kinds` (name to `text` or `number`), told by name and then by UCD."""
    gaia = catalogue == GAIA
    lower = {name.lower(): name for name in reversed(list(kinds))}

    def column(role: str, number: bool = False, names: Mapping[str, Sequence[str]] = _NAMES) -> str:
        words = [lower[word] for word in names.get(role, ()) if word in lower]
        words += [n for word in _UCDS.get(role, ()) for n, ucd in ucds.items() if ucd.lower() == word.lower()]
        return next((name for name in words if not number or kinds[name] == "number"), "")

    names = _GAIA_NAMES if gaia else _NAMES
    ra, dec = column("ra", True, names), column("dec", True, names)
    if gaia and not (ra and dec):
        ra, dec = column("ra", True, _GAIA_AT_2000), column("dec", True, _GAIA_AT_2000)
    pmra, pmdec = column("pmra", True), column("pmdec", True)
    return Roles(
        name=column("name", names=names),
        ra=ra,
        dec=dec,
        epoch=_epoch(ra, descriptions.get(ra, ""), gaia or not _GAIA_MARKS.isdisjoint(lower)),
        epoch_column=column("epoch", True),
        pmra=pmra if pmdec else "",
        pmdec=pmdec if pmra else "",
        motion_scale=_to_mas(units.get(pmra, "")),
        type=column("type"),
        distance=column("distance", True),
        numbers={word: column(word, True, NUMBERS) for word in NUMBERS} if gaia else {},
    )


def _epoch(ra: str, description: str, of_gaia: bool) -> float:
    """Julian year of positions: by the column's name, its description (`at Ep=2016.0`), or because they are Gaia's."""
    if "2000" in ra:
        return 2000.0
    if said := _EPOCH.search(description):
        return float(said[1])
    return GAIA_EPOCH if of_gaia else 2000.0


def _to_mas(unit: str) -> float:
    if not unit:
        return 1.0
    import astropy.units as u

    try:
        return float(u.Unit(unit).to(u.mas / u.yr))
    except (ValueError, TypeError):  # a unit that nobody can read is what most catalogues mean
        return 1.0


def _is_text(column: Any) -> bool:
    return np.asarray(column).dtype.kind in "OSU"


def _some(sheet: Sheet) -> str:
    return ", ".join(list(sheet.columns)[:15]) or "none"
