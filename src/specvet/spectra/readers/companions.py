"""Arrays beside a flux that do not say what they are: wavelength, error, inverse variance or mask, by what they hold.

An error tells itself apart from an inverse variance by arithmetic: third differences of the flux (blind to smooth
shapes) must scatter as it says. What cannot be told is left out, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.readers.building import Bits, as_bits, as_float, ivar_of
from specvet.spectra.readers.columns import Role, column_role
from specvet.spectra.spectrum import FloatArray

_FACTOR = 2.0
"""The scatter of the flux may differ from the stated error by so much (pixels are correlated, or resampled) …"""
_CLEAR = 2.0
""" … and must be off by this many times more when the array is read the other way."""


@dataclass
class Companions:
    """What was found beside a flux: arrays of its shape, and notes on what was decided or left out."""

    ivar: FloatArray | None = None
    mask: Bits | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, Any]:
        """As `build` takes them."""
        return {"ivar": self.ivar, "mask": self.mask, "warnings": self.notes}


def add(found: Companions, label: str, name: str, values: object, flux: FloatArray, wavelength: FloatArray) -> None:
    """Take the array `values`, which the file calls `name` (may be empty) and messages call `label`, for what it is."""
    role: Role | None = column_role(name) if name else None
    array = np.asarray(values)
    if role is None and not name:
        role = _judged(array, flux, wavelength)
        if role is not None and role != "wavelength":
            found.notes.append(f"{label} is not named: taken for the {_WORDS[role]} by what it holds")
    if role in ("ivar", "sigma", "variance") and found.ivar is None:
        found.ivar = ivar_of({role: array})
    elif role == "mask" and found.mask is None:
        found.mask = as_bits(array)
    elif role not in ("wavelength", "loglam"):
        found.notes.append(f"{label}{f' ({name})' if name else ''} ignored")


_WORDS: dict[Role, str] = {"ivar": "inverse variance", "sigma": "error", "mask": "mask"}


def _judged(array: NDArray[Any], flux: FloatArray, wavelength: FloatArray) -> Role | None:
    """`wavelength`, `mask`, `ivar`, `sigma` or None where that cannot be told."""
    if array.dtype.kind in "iub":
        return "mask"
    values = as_float(array)
    finite = np.isfinite(values)
    if not finite.any():
        return None
    for grid in (wavelength, np.log10(wavelength), wavelength / 10.0):
        if np.allclose(values, grid, rtol=1e-4, atol=0.0):
            return "wavelength"
    if bool(np.all(values[finite] == np.rint(values[finite]))):
        return "mask" if float(values[finite].min()) >= 0 else None
    if float(values[finite].min()) < 0:
        return None
    return _error_or_ivar(values, flux)


def _error_or_ivar(values: FloatArray, flux: FloatArray) -> Role | None:
    ok = np.isfinite(values) & (values > 0) & np.isfinite(flux)
    if int(ok.sum()) < 50:
        return None
    flux, values = flux[ok], values[ok]
    # DER_SNR (Stoehr et al. 2008, ASP Conf. 394, 505), pixel by pixel.
    noise = 0.6052697 * np.abs(2.0 * flux[2:-2] - flux[:-4] - flux[4:])
    middle = values[2:-2]
    as_sigma, as_ivar = (float(np.median(noise / error)) for error in (middle, 1.0 / np.sqrt(middle)))
    if as_sigma <= 0 or as_ivar <= 0:
        return None
    far_sigma, far_ivar = (max(ratio, 1.0 / ratio) for ratio in (as_sigma, as_ivar))
    if far_sigma < _FACTOR and far_ivar > _CLEAR * far_sigma:
        return "sigma"
    if far_ivar < _FACTOR and far_sigma > _CLEAR * far_ivar:
        return "ivar"
    return None
