"""A small SIMULATED sky as archives have it: tables in SQLite under the names and columns of the real ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specvet.catalogue.astrometry import carried, separation_arcsec


@dataclass(frozen=True)
class Star:
    """A SIMULATED star; position at 2016.0."""

    source_id: int
    ra: float
    dec: float
    pmra: float | None = 0.0
    pmdec: float | None = 0.0
    parallax: float | None = 5.0
    g: float = 17.0
    simbad: str = ""
    otype: str = "*"
    vsx: str = ""
    vsx_type: str = ""
    cv: str = ""
    """Its name in the tables J/TEST/1/cvs (J2000.0, no motions) and J/TEST/2/wds (2016.0, motions)."""

    def at(self, year: float) -> tuple[float, float]:
        ra, dec = carried(self.ra, self.dec, self.pmra or 0.0, self.pmdec or 0.0, 2016.0, year)
        return float(ra), float(dec)


@dataclass(frozen=True)
class Table:
    """Columns as (name, VOTable datatype, UCD, unit) and rows."""

    columns: tuple[tuple[str, str, str, str], ...]
    rows: list[tuple[Any, ...]]
    descriptions: dict[str, str] = field(default_factory=dict)


_D, _F, _S, _L = "double", "float", "char", "long"
_GAIA_CDS = (
    ("DR3Name", _S, "meta.id;meta.main", ""),
    ("RAdeg", _D, "pos.eq.ra;meta.main", "deg"),
    ("DEdeg", _D, "pos.eq.dec;meta.main", "deg"),
    ("Source", _L, "meta.id", ""),
    ("Plx", _D, "pos.parallax.trig", "mas"),
    ("e_Plx", _F, "stat.error;pos.parallax.trig", "mas"),
    ("pmRA", _D, "pos.pm;pos.eq.ra", "mas/yr"),
    ("pmDE", _D, "pos.pm;pos.eq.dec", "mas/yr"),
    ("RUWE", _F, "stat.error", ""),
    ("Gmag", _D, "phot.mag;em.opt", "mag"),
    ("BPmag", _D, "phot.mag;em.opt.B", "mag"),
    ("RPmag", _D, "phot.mag;em.opt.R", "mag"),
)
_GAIA_ESA = (
    ("source_id", _L, "meta.id", ""),
    ("ra", _D, "pos.eq.ra;meta.main", "deg"),
    ("dec", _D, "pos.eq.dec;meta.main", "deg"),
    ("ref_epoch", _D, "meta.ref;time.epoch", "yr"),
    ("parallax", _D, "pos.parallax.trig", "mas"),
    ("parallax_error", _F, "stat.error;pos.parallax.trig", "mas"),
    ("pmra", _D, "pos.pm;pos.eq.ra", "mas.yr**-1"),
    ("pmdec", _D, "pos.pm;pos.eq.dec", "mas.yr**-1"),
    ("ruwe", _F, "stat.error", ""),
    ("phot_g_mean_mag", _F, "phot.mag;em.opt", "mag"),
    ("bp_rp", _F, "phot.color", "mag"),
)
_SIMBAD = (
    ("main_id", _S, "meta.id;meta.main", ""),
    ("ra", _D, "pos.eq.ra;meta.main", "deg"),
    ("dec", _D, "pos.eq.dec;meta.main", "deg"),
    ("{type}", _S, "src.class", ""),
    ("sp_type", _S, "src.spType", ""),
    ("pmra", _D, "pos.pm;pos.eq.ra", "mas/yr"),
    ("pmdec", _D, "pos.pm;pos.eq.dec", "mas/yr"),
)
_VSX = (
    ("OID", _L, "meta.id", ""),
    ("Name", _S, "meta.id;meta.main", ""),
    ("Type", _S, "meta.code.class;src.var", ""),
    ("max", _F, "phot.mag;stat.max", "mag"),
    ("Epoch", _D, "time.epoch;src.var", "d"),
    ("Period", _D, "time.period", "d"),
    ("RAJ2000", _D, "pos.eq.ra;meta.main", "deg"),
    ("DEJ2000", _D, "pos.eq.dec;meta.main", "deg"),
)
_CVS = (
    ("Seq", "int", "meta.record", ""),
    ("CVName", _S, "meta.id;meta.main", ""),
    ("_RA", _D, "pos.eq.ra;meta.main", "deg"),
    ("_DE", _D, "pos.eq.dec;meta.main", "deg"),
    ("Porb-h", _D, "time.period", "h"),
)

_WDS = (
    ("WDJName", _S, "meta.id;meta.main", ""),
    ("RA_ICRS", _D, "pos.eq.ra;meta.main", "deg"),
    ("DE_ICRS", _D, "pos.eq.dec;meta.main", "deg"),
    ("pmRA", _D, "pos.pm;pos.eq.ra", "mas/yr"),
    ("pmDE", _D, "pos.pm;pos.eq.dec", "mas/yr"),
)


def tables(stars: Sequence[Star]) -> dict[str, Table]:
    """By the name that XMatch or TAP use."""
    gaia_cds, gaia_esa, simbad, vsx, cvs, wds = [], [], [], [], [], []
    for n, s in enumerate(stars):
        error, ruwe, bp_rp = 0.05, 1.01, 0.5
        gaia_cds.append(
            (
                *(f"Gaia DR3 {s.source_id}", s.ra, s.dec, s.source_id, s.parallax, error, s.pmra, s.pmdec, ruwe),
                *(s.g, s.g + 0.2, s.g - 0.3),
            )
        )
        gaia_esa.append((s.source_id, s.ra, s.dec, 2016.0, s.parallax, error, s.pmra, s.pmdec, ruwe, s.g, bp_rp))
        at2000 = s.at(2000.0)
        if s.simbad:
            simbad.append((s.simbad, *at2000, s.otype, "DA2", s.pmra, s.pmdec))
        if s.vsx:
            vsx.append((n + 1, s.vsx, s.vsx_type, s.g, 2451000.5, 0.06, *at2000))
        if s.cv:
            cvs.append((n + 1, s.cv, *at2000, 1.5))
            wds.append((s.cv, s.ra, s.dec, s.pmra, s.pmdec))

    def named(word: str) -> tuple[tuple[str, str, str, str], ...]:
        return tuple((name.replace("{type}", word), *rest) for name, *rest in _SIMBAD)  # type: ignore[misc]

    return {
        "vizier:I/355/gaiadr3": Table(_GAIA_CDS, gaia_cds),
        "gaiadr3.gaia_source": Table(_GAIA_ESA, gaia_esa),
        "simbad": Table(named("main_type"), simbad),
        "basic": Table(named("otype"), simbad),
        "vizier:B/vsx/vsx": Table(_VSX, vsx),
        "vizier:J/TEST/1/cvs": Table(_CVS, cvs),
        "vizier:J/TEST/2/wds": Table(_WDS, wds, {"RA_ICRS": "Right ascension (ICRS) at Ep=2016.0"}),
    }


def crossmatch(places: Table, ra: str, dec: str, table: Table, radius: float) -> Table:
    """What CDS XMatch answers: distance, the list's columns, the catalogue's; pairs within `radius` arcsec.

    Like the real one it takes Gaia at J2000.0.
    """
    names1, names2 = [c[0] for c in places.columns], [c[0] for c in table.columns]
    here = np.array([(r[names1.index(ra)], r[names1.index(dec)]) for r in places.rows], dtype=float).reshape(-1, 2)
    first = next(n for n in ("RAJ2000", "_RA", "RAdeg", "ra", "RA_ICRS") if n in names2)
    at = names2.index(first)
    there = np.array([r[at : at + 2] for r in table.rows], dtype=float).reshape(-1, 2)
    if first == "RAdeg" and len(there):
        motion = np.array([[np.nan if r[i] is None else r[i] for i in (6, 7)] for r in table.rows], dtype=float)
        there = np.column_stack(carried(there[:, 0], there[:, 1], motion[:, 0], motion[:, 1], 2016.0, 2000.0))
    rows = []
    for i, (a, d) in enumerate(here):
        apart = separation_arcsec(a, d, there[:, 0], there[:, 1]) if len(there) else np.array([])
        for j in np.flatnonzero(apart <= radius):
            rows.append((round(float(apart[j]), 6), *places.rows[i], *table.rows[j]))
    return Table(
        (("angDist", "double", "pos.angDistance", "arcsec"), *places.columns, *table.columns), rows, table.descriptions
    )


def run_adql(sky: dict[str, Table], query: str, upload: Table | None) -> Table:
    """The rows of an ADQL query. SQLite runs it, as ADQL is SQL but for its geometry. Raises `sqlite3.Error`."""
    db = sqlite3.connect(":memory:")
    try:
        db.create_function("POINT", 3, lambda _, a, d: f"{a!r} {d!r}" if a is not None else None)
        db.create_function("CIRCLE", 4, lambda _, a, d, r: f"{a!r} {d!r} {r!r}")
        db.create_function("CONTAINS", 2, _contains)
        for schema in ("gaiadr3", "TAP_SCHEMA", "TAP_UPLOAD"):
            db.execute(f"ATTACH ':memory:' AS {schema}")
        known: dict[str, tuple[str, str, str, str]] = {}
        here = {
            "gaiadr3.gaia_source": sky["gaiadr3.gaia_source"],
            "basic": sky["basic"],
            '"B/vsx/vsx"': sky["vizier:B/vsx/vsx"],
            '"J/TEST/1/cvs"': sky["vizier:J/TEST/1/cvs"],
            '"J/TEST/2/wds"': sky["vizier:J/TEST/2/wds"],
        }
        described = [
            (name.strip('"'), c, kind, ucd, unit, t.descriptions.get(c))
            for name, t in here.items()
            for c, kind, ucd, unit in t.columns
        ]
        here["TAP_SCHEMA.columns"] = Table(
            tuple((c, "char", "", "") for c in ("table_name", "column_name", "datatype", "ucd", "unit", "description")),
            described,
        )
        if upload is not None:
            here["TAP_UPLOAD.places"] = upload
        for name, table in here.items():
            columns = ", ".join(f'"{c[0]}"' for c in table.columns)
            db.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" * len(table.columns))
            db.executemany(f"INSERT INTO {name} VALUES ({marks})", table.rows)
            known |= {c[0]: c for c in table.columns}
        cursor = db.execute(query)
        rows = cursor.fetchall()
        names = [d[0] for d in cursor.description]
        return Table(tuple(_described(n, i, rows, known) for i, n in enumerate(names)), rows)
    finally:
        db.close()


def _described(name: str, i: int, rows: list[Any], known: dict[str, Any]) -> tuple[str, str, str, str]:
    if name in known:
        return known[name]
    value = next((r[i] for r in rows if r[i] is not None), "")
    return (name, "char" if isinstance(value, str) else "long" if isinstance(value, int) else "double", "", "")


def _contains(point: str | None, circle: str) -> int:
    if point is None:
        return 0
    a, d = map(float, point.split())
    ca, cd, r = map(float, circle.split())
    return int(separation_arcsec(a, d, ca, cd) <= r * 3600)
