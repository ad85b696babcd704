"""What the rooms of the catalogue share: where and when a spectrum was taken, and what catalogues say of that place."""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[str, int]
"""(file, row), by which a run names a spectrum; survey ids may repeat."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One spectrum of one star, as far as its place and time are known."""

    key: Key
    id: str = ""
    """As the list or the file names it; may repeat."""
    ra: float | None = None
    """Degrees, ICRS as released."""
    dec: float | None = None
    """Degrees."""
    mjd: float | None = None
    """Of the observation, days; None where the file does not say."""
    gaia_id: str = ""
    """Gaia DR3 source id, digits; empty where none is stated."""
    survey: str = ""
    ids: tuple[tuple[str, str], ...] = ()
    """(name, value) of every id that the file states, as `("targetid", "39628…")`."""
    snr: float | None = None
    """Median a pixel."""


@dataclass(frozen=True, slots=True)
class Gaia:
    """What Gaia DR3 says of a source; None where it says nothing."""

    source_id: str
    ra: float
    """Degrees, ICRS at `epoch`."""
    dec: float
    epoch: float = 2016.0
    """Julian year of the position."""
    pmra: float | None = None
    """mas/yr, with cos δ."""
    pmdec: float | None = None
    """mas/yr."""
    parallax: float | None = None
    """mas."""
    parallax_error: float | None = None
    """mas."""
    ruwe: float | None = None
    g: float | None = None
    """Magnitude, Vega."""
    bp_rp: float | None = None
    """Magnitude."""


@dataclass(frozen=True, slots=True)
class Known:
    """One catalogue's word on what is there."""

    catalogue: str
    """`simbad`, `vsx`, or the name that the user gave a table."""
    name: str
    type: str = ""
    """In the catalogue's own words: `CataclyV*`, `UGSS`."""
    separation_arcsec: float | None = None
    """At the epoch of observation where the catalogue gives a proper motion."""
    columns: tuple[tuple[str, str], ...] = ()
    """(column, value as text) that the user asked to keep."""


@dataclass(frozen=True, slots=True)
class Match:
    """All that was found for one spectrum. Nothing found and not asked differ: see `asked`."""

    key: Key
    gaia: Gaia | None = None
    gaia_separation_arcsec: float | None = None
    """At the epoch of observation."""
    known: tuple[Known, ...] = ()
    asked: tuple[str, ...] = ()
    """Catalogues that answered, whether or not they know it; `gaia` among them."""
    notes: tuple[str, ...] = field(default=())
    """For people: `2 Gaia sources within 2″; the nearer was taken`."""
