"""The ADQL that asks a TAP service for all sources near the places of an uploaded list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from specvet.catalogue.archive.cache import Request
from specvet.catalogue.archive.errors import QuestionError
from specvet.catalogue.archive.found import DEC, ID, RA, Place, text
from specvet.catalogue.archive.names import GAIA, Catalogue
from specvet.catalogue.archive.roles import NUMBERS, Roles, roles_of
from specvet.catalogue.archive.upload import votable_of
from specvet.catalogue.archive.votable import Sheet

KNOWN = {
    "gaia": (
        *("source_id", "ra", "dec", "ref_epoch", "pmra", "pmdec", "parallax", "parallax_error", "ruwe"),
        *("phot_g_mean_mag", "bp_rp"),
    ),
    "simbad": ("main_id", "otype", "ra", "dec", "pmra", "pmdec"),
}
"""Columns of `gaiadr3.gaia_source` and of SIMBAD's `basic`; those of other tables are looked up in TAP_SCHEMA."""

_SCHEMA = ("column_name", "datatype", "ucd", "unit", "description")
_REGULAR = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*")


def schema_request(catalogue: Catalogue, address: str) -> Request:
    """The request for the columns of a table, as the service's TAP_SCHEMA has them."""
    bare = catalogue.table.strip('"').replace("'", "''")
    query = (
        f"SELECT {', '.join(_SCHEMA)} FROM TAP_SCHEMA.columns WHERE table_name = '{bare}' OR table_name = '\"{bare}\"'"
    )
    return Request(catalogue.name, address, (("REQUEST", "doQuery"), ("LANG", "ADQL"), ("QUERY", query)))


def columns_in(schema: Sheet, catalogue: Catalogue, address: str) -> tuple[tuple[str, ...], Roles]:
    """(columns, roles) of a table by what TAP_SCHEMA says. Raises `QuestionError` where it is not there."""
    if missing := set(_SCHEMA) - set(schema.columns):
        raise QuestionError(f"{address}: TAP_SCHEMA.columns came without {', '.join(sorted(missing))}")
    told = [[text(schema, c, i) for c in _SCHEMA] for i in range(schema.rows)]
    if not told:
        raise QuestionError(
            f"{address} has no table {catalogue.table}; give it as the service names it, as in J/A+A/662/A40/knownhsd"
        )
    names, datatypes, *others = zip(*told, strict=True)
    names = tuple(name.strip('"') for name in names)
    kinds = dict(zip(names, map(_kind, datatypes), strict=True))
    ucds, units, descriptions = (dict(zip(names, values, strict=True)) for values in others)
    found = roles_of(kinds, ucds, units, descriptions, catalogue.name)
    if not (found.ra and found.dec):
        raise QuestionError(
            f"{address}: {catalogue.table} has no positions in degrees (of {len(told)} columns: "
            f"{', '.join(list(kinds)[:12])}); it cannot be asked by position"
        )
    return tuple(kinds), found


def _kind(datatype: str) -> str:
    return "text" if re.search("char|clob|text|timestamp|string", datatype, re.IGNORECASE) else "number"


def known_select(service: str, keep: Iterable[str]) -> tuple[list[str], str, str]:
    """(columns to select, right ascension, declination) of the Gaia archive or SIMBAD."""
    extra = [quoted(name) for name in keep if name not in KNOWN[service]]
    return [f"c.{name}" for name in (*KNOWN[service], *extra)], "ra", "dec"


def schema_select(
    columns: Sequence[str], role: Roles, catalogue: str, keep: Iterable[str]
) -> tuple[list[str], str, str]:
    """(columns to select, right ascension, declination), where roles come back under names that tell them."""
    named = {
        "source_id" if catalogue == GAIA else "main_id": role.name,
        "main_type": role.type,
        "ra": role.ra,
        "dec": role.dec,
        "ref_epoch": role.epoch_column,
        "pmra": role.pmra,
        "pmdec": role.pmdec,
    }
    named |= {NUMBERS[word][0]: column for word, column in role.numbers.items()}
    chosen = [f"c.{quoted(column)} AS {alias}" for alias, column in named.items() if column]
    chosen += [] if role.epoch_column else [f"{role.epoch:.1f} AS ref_epoch"]
    chosen += [f"c.{quoted(name)}" for name in keep if name in columns and name not in named]
    return chosen, quoted(role.ra), quoted(role.dec)


def match_request(
    catalogue: Catalogue,
    address: str,
    places: Sequence[Place],
    radius_arcsec: float,
    most_rows: int,
    select: tuple[list[str], str, str],
) -> Request:
    """The request for all sources within `radius_arcsec` of each place.

    A LEFT JOIN: every place comes back, also where nothing is, so that a place that was lost on the way shows.
    """
    columns, ra, dec = select
    table = catalogue.table if _REGULAR.fullmatch(catalogue.table) else quoted(catalogue.table)
    query = (
        f"SELECT u.{ID}, u.{RA}, u.{DEC}, {', '.join(columns)} "
        f"FROM TAP_UPLOAD.places AS u LEFT OUTER JOIN {table} AS c "
        f"ON 1 = CONTAINS(POINT('ICRS', c.{ra}, c.{dec}), CIRCLE('ICRS', u.{RA}, u.{DEC}, {radius_arcsec / 3600:.9f}))"
    )
    parameters = (("REQUEST", "doQuery"), ("LANG", "ADQL"), ("MAXREC", str(most_rows)), ("QUERY", query))
    return Request(catalogue.name, address, parameters, votable_of(places))


def quoted(name: str) -> str:
    """A delimited identifier."""
    return '"' + name.strip('"').replace('"', '""') + '"'
