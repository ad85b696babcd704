"""From arrays as they stand in a file to a `Spectrum` that keeps its promises: finite, sorted, unique wavelengths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.spectrum import FloatArray, Join, Spectrum

Bits = NDArray[np.int64]


def as_float(values: ArrayLike) -> FloatArray:
    """Native float64, whatever the byte order of the file. Raises SpectrumReadError for complex numbers."""
    if np.iscomplexobj(values):
        raise SpectrumReadError("", "holds complex numbers; save the flux as real numbers")
    return np.ascontiguousarray(values, dtype=np.float64)


def as_bits(values: ArrayLike) -> Bits:
    """A bit mask as int64; masks stored as floats (LAMOST) are converted, NaN becomes 0."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        array = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)
    return np.ascontiguousarray(array, dtype=np.int64)


def clean_ivar(ivar: ArrayLike) -> FloatArray:
    """Inverse variances with 0 in place of what is negative or not finite."""
    out = as_float(ivar)
    bad = ~(np.isfinite(out) & (out >= 0))
    return np.where(bad, 0.0, out) if bad.any() else out


def ivar_from_sigma(sigma: ArrayLike) -> FloatArray:
    """1/σ², 0 where σ is not finite and positive."""
    out = as_float(sigma)
    ok = np.isfinite(out) & (out > 0)
    with np.errstate(over="ignore"):
        return clean_ivar(np.where(ok, 1.0 / np.where(ok, out, 1.0) ** 2, 0.0))


def build(
    file: str,
    wavelength: ArrayLike,
    flux: ArrayLike,
    *,
    ivar: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    warnings: Iterable[str] = (),
    joins: Iterable[Join] = (),
    keep_dead: bool = False,
    **fields: Any,
) -> Spectrum:
    """A `Spectrum` from arrays of shape (n_pix,): wavelength in Å, flux, ivar and bit mask.

    Drops pixels without a finite positive wavelength, sorts, drops exact duplicates (the first stays), sets ivar to 0
    where it is no inverse variance or the flux is not finite; says so in `warnings`. `joins` outside the wavelength
    range are left out. A spectrum without any finite flux is an error, or with `keep_dead` (a row among others, whose
    place must stay) a warning. Raises `SpectrumReadError` for unequal lengths and fewer than two pixels.
    """
    notes = list(warnings)
    wave, values = as_float(wavelength), as_float(flux)
    weights = None if ivar is None else clean_ivar(ivar)
    bits = None if mask is None else as_bits(mask)
    for name, array in (("flux", values), ("ivar", weights), ("mask", bits)):
        if array is not None and array.shape != wave.shape:
            raise SpectrumReadError(file, f"{name} has shape {array.shape}, wavelength {wave.shape}; damaged file?")

    order = _order(wave, notes)
    if order is not None:
        wave, values = wave[order], values[order]
        weights = None if weights is None else weights[order]
        bits = None if bits is None else bits[order]
    if wave.size < 2:
        raise SpectrumReadError(file, f"{wave.size} pixels with a wavelength; a spectrum needs at least 2")

    finite = np.isfinite(values)
    if not finite.any():
        if not keep_dead:
            raise SpectrumReadError(file, "no flux value is finite (all NaN); there is nothing to look at")
        notes.append("no flux value is finite")
    elif not values[finite].any():
        notes.append("all flux values are 0")
    if weights is None:
        notes.append("no error array")
    else:
        if not finite.all():
            weights = np.where(finite, weights, 0.0)
        if not weights.any():
            notes.append("ivar is 0 everywhere: no good pixel")
    kept = tuple(j for j in joins if j.high >= wave[0] and j.low <= wave[-1])
    return Spectrum(wave, values, weights, bits, joins=kept, file=file, warnings=tuple(dict.fromkeys(notes)), **fields)


def _order(wave: FloatArray, notes: list[str]) -> NDArray[np.intp] | None:
    """Indices that make `wave` finite, increasing and unique; None where it already is."""
    usable = np.isfinite(wave) & (wave > 0)
    if usable.all() and bool(np.all(wave[1:] > wave[:-1])):
        return None
    index = np.flatnonzero(usable)
    if index.size < wave.size:
        notes.append(f"{wave.size - index.size} pixels without a finite wavelength dropped")
    kept = wave[index]
    steps = np.diff(kept)
    if not bool(np.all(steps >= 0)):
        if not bool(np.all(steps <= 0)):
            notes.append("wavelengths were not in order: sorted")
        index = index[np.argsort(kept, kind="stable")]
        kept = wave[index]
    repeated = np.zeros(index.size, dtype=bool)
    repeated[1:] = kept[1:] == kept[:-1]
    if repeated.any():
        notes.append(f"{int(repeated.sum())} pixels with a repeated wavelength dropped")
        index = index[~repeated]
    return index
