"""What a table says of itself: columns with units and words, facts for its header, and how text becomes ASCII."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Cells are `kind` or null."""

    name: str
    kind: type[str] | type[int] | type[float]
    says: str = ""
    """What it holds, in a line."""
    unit: str = ""
    """As the FITS standard (4.0, 4.3) and VOUnits write it: `Angstrom`, `deg`; empty where there is none to state."""
    ucd: str = ""
    """IVOA Unified Content Descriptor (UCD1+ controlled vocabulary)."""
    system: Literal["", "icrs", "mjd"] = ""
    """What its numbers are counted in: positions in ICRS; modified Julian dates, UTC at the telescope."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing about the table as a whole: a card, an INFO, an entry of the meta data."""

    name: str
    """As VOTable and ECSV call it: `settings_hash`."""
    card: str
    """As FITS calls it, at most 8 characters of A-Z, 0-9, `-` and `_`."""
    value: Value
    says: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table without its cells."""

    name: str
    """`VERDICTS`: the EXTNAME of FITS, the name of VOTable."""
    says: str
    columns: tuple[Column, ...]
    facts: tuple[Fact, ...] = ()


def unit_as(unit: str, style: str) -> str:
    """A column's unit in astropy's format `style` (`vounit`, `generic`); empty where that has no way to write it."""
    if unit in ("", "Angstrom", "deg"):  # the same in all
        return unit
    import warnings

    from astropy import units as u

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # VOUnits deprecates erg and Angstrom, without which there is no spectroscopy
        try:
            return str(u.Unit(unit, format="fits").to_string(style))
        except ValueError:
            return ""


def system_of(column: Column) -> str:
    """A column's system in words, for formats that have no element for it: `ICRS`, `MJD UTC`; else empty."""
    return {"icrs": "ICRS", "mjd": "MJD UTC"}.get(column.system, "")


def escaped(text: str) -> str:
    r"""`text` in printable ASCII, as Python's codec `unicode_escape` writes it: `Hα` becomes `H\u03b1`.

    A backslash is doubled. A blank at the end, which FITS takes for filling, becomes `\x20`. `unescaped` gives the very
    text back.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        out = text
    else:
        out = text.encode("unicode_escape").decode("ascii")
    kept = out.rstrip(" ")
    # A text of nothing but one blank or more must not look empty either.
    return out if len(kept) == len(out) else f"{out[:-1]}\\x20"


def unescaped(text: str) -> str:
    """The text that `escaped` was given."""
    return text.encode("ascii").decode("unicode_escape")
