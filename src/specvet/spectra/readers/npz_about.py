"""What an NPZ archive may tell of each row beside its arrays: `about`, one JSON object a row.

    {"specvet": 1, "scale": 0.5, "frame": "rest", "survey": "SDSS", "joins": [[5900.0, 6300.0, "SDSS blue/red"]], …}

Fields are those of a `Spectrum` that arrays cannot hold. `scale` multiplies flux and errors, which then can be stored
as short floats. An array `about` that holds anything else is left alone.
"""

from __future__ import annotations

import json
import math
from typing import Any

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.spectrum import Join, Redshift, Spectrum

_WORDS = ("medium", "flux_unit", "calibration", "frame", "survey", "release", "id")
_CHOICES = {
    "medium": ("air", "vacuum", "unknown"),
    "calibration": ("absolute", "relative", "normalised", "unknown"),
}


def about(spectrum: Spectrum) -> dict[str, Any]:
    """What `told` reads back; what is as by default is left out."""
    out: dict[str, Any] = {"specvet": 1}
    out |= {name: value for name in _WORDS if (value := getattr(spectrum, name)) not in ("", "unknown")}
    if spectrum.resolution is not None:
        out["resolution"] = spectrum.resolution
    if spectrum.joins:
        out["joins"] = [[join.low, join.high, join.label] for join in spectrum.joins]
    z = spectrum.redshift
    stated = {"value": z.value, "error": z.error, "source": z.source, "warning": z.warning}
    if kept := {name: value for name, value in stated.items() if value not in (None, "")}:
        out["redshift"] = kept
    if spectrum.warnings:
        out["warnings"] = list(spectrum.warnings)
    return out


def told(values: Any, row: int, rows: int, file: str) -> dict[str, Any] | None:
    """Fields of a spectrum, and its `scale`; None where the array says nothing of this kind.

    Raises SpectrumReadError for an object that says it is of this kind and holds what no spectrum has.
    """
    if values is None or values.dtype.kind != "U" or values.size != rows:
        return None
    try:
        found = json.loads(str(values.reshape(-1)[row]))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("specvet") != 1:
        return None
    try:
        return _fields(found)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as e:
        raise SpectrumReadError(file, f"about of row {row} is damaged ({e}); make the file again") from None


def _fields(found: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {name: _word(found[name], _CHOICES.get(name)) for name in _WORDS if name in found}
    if "resolution" in found:
        out["resolution"] = _number(found["resolution"])
    if "joins" in found:
        out["joins"] = tuple(Join(_number(low), _number(high), _word(label)) for low, high, label in found["joins"])
    if "redshift" in found:
        z = found["redshift"]
        value, error = (None if z.get(name) is None else _number(z[name]) for name in ("value", "error"))
        out["redshift"] = Redshift(value, error, _word(z.get("source", "")), _word(z.get("warning", "")))
    if "warnings" in found:
        out["warnings"] = tuple(_word(text) for text in found["warnings"])
    out["scale"] = _number(found.get("scale", 1.0))
    if not out["scale"] > 0.0:
        raise ValueError("scale is not positive")
    return out


def _word(value: Any, choices: tuple[str, ...] | None = None) -> str:
    if not isinstance(value, str) or (choices is not None and value not in choices):
        raise ValueError(f"{value!r} is no such word")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)
