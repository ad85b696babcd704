"""Single values out of headers and tables: numbers that may be fill values, identifiers, angles, dates."""

from __future__ import annotations

import math
import re
from collections.abc import Container
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import numpy as np

from specvet.spectra.spectrum import Redshift

FRAMES = {"HELIOCEN": "heliocentric", "BARYCENT": "barycentric", "TOPOCENT": "topocentric"}
"""Values of SPECSYS (FITS Paper III, Greisen et al. 2006) that `Spectrum.frame` knows."""

_FILL = {-9999.0, -999.0, 999999.0, -99999.0}
_PACKED_SUFFIXES = {".gz", ".bz2", ".xz"}


def number(value: Any) -> float | None:
    """A finite float that is not a fill value (−9999, −999), or None."""
    if isinstance(value, bool | np.bool_) or value is np.ma.masked:
        return None
    try:
        out = float(value)
    except (TypeError, ValueError):
        return None
    return out if math.isfinite(out) and out not in _FILL else None


def text(value: Any) -> str:
    """A stripped string; empty for None and what is masked."""
    if value is None or value is np.ma.masked:
        return ""
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    return str(value).strip().strip("\x00").strip()


def identifier(value: Any) -> str:
    """An identifier as a string, exact for 64-bit integers; empty for blanks and what is masked."""
    if value is np.ma.masked:
        return ""
    if isinstance(value, np.ndarray):
        if value.size != 1:
            return ""
        value = value.reshape(-1)[0]
        if value is np.ma.masked:
            return ""
    if isinstance(value, bool | np.bool_):
        return ""
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return str(int(value)) if math.isfinite(value) and float(value).is_integer() else ""
    return text(value)


def is_magnitude(z: str, names: Container[str]) -> bool:
    """Whether `z` among `names` (in lower case) is a magnitude: g, r and i stand beside it."""
    return z == "z" and all(band in names for band in "gri")


def identifiers(**values: Any) -> dict[str, str]:
    """The identifiers that are there, as strings."""
    found = {key: identifier(value) for key, value in values.items()}
    return {key: value for key, value in found.items() if value}


def redshift(value: Any, error: Any, source: str, warning: str = "") -> Redshift:
    """A `Redshift`; without a value there is no source either. Errors that are not positive mean none is stated."""
    z, z_error = number(value), number(error)
    if z is None:
        return Redshift(warning=warning)
    return Redshift(z, z_error if z_error is not None and z_error > 0 else None, source, warning)


def degrees(value: Any, *, hours: bool) -> float | None:
    """An angle in degrees from a number of degrees or a sexagesimal string (of hours for right ascension)."""
    plain = number(value)
    if plain is not None:
        return plain
    parts = re.fullmatch(r"\s*([+-]?)\s*(\d{1,3})[:\s]\s*(\d{1,2})[:\s]\s*(\d{1,2}(?:\.\d*)?)\s*", text(value))
    if parts is None:
        return None
    angle = int(parts[2]) + int(parts[3]) / 60 + float(parts[4]) / 3600
    return (-angle if parts[1] == "-" else angle) * (15.0 if hours else 1.0)


def mjd_of(date: Any) -> float | None:
    """MJD (UTC) of an ISO date such as `2005-05-27T22:00:02`."""
    try:
        moment = datetime.fromisoformat(text(date))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1858, 11, 17, tzinfo=UTC)).total_seconds() / 86400


def stem(file: str) -> str:
    """A file's name without folder and suffixes; empty without a name."""
    path = PurePath(file)
    if path.suffix.lower() in _PACKED_SUFFIXES:
        path = path.with_suffix("")
    return path.stem
