"""From arrays as they stand in a file to a `Spectrum` that keeps its promises: finite, sorted, unique wavelengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.spectrum import FloatArray, Join, Spectrum

Bits = NDArray[np.int64]


def as_float(values: ArrayLike) -> FloatArray:
    """Native float64, NaN where masked, whatever the byte order of the file.

    Raises `SpectrumReadError` for what are no real numbers.
    """
    if np.iscomplexobj(values):
        raise SpectrumReadError("", "holds complex numbers; save the flux as real numbers")
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpectrumReadError("", f"holds {_kind(values)} where numbers are expected; save them as numbers") from None


def _kind(values: ArrayLike) -> str:
    dtype = np.asarray(values).dtype
    return "text" if dtype.kind in "SU" else f"values of type {dtype}"


def as_bits(values: ArrayLike) -> Bits:
    """A bit mask as int64; masks stored as floats (LAMOST) are converted; NaN and what is masked become 0."""
    array = np.ma.filled(values, 0) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.dtype.kind == "f":
        array = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)
    try:
        return np.ascontiguousarray(array, dtype=np.int64)
    except (TypeError, ValueError):
        raise SpectrumReadError("", f"holds a mask of {_kind(array)}; save it as whole numbers") from None


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


def ivar_of(arrays: Mapping[Any, ArrayLike | None]) -> FloatArray | None:
    """Inverse variances from the arrays that a file names `ivar`, `sigma` or `variance`, the first of them; or None."""
    ivar, sigma, variance = (arrays.get(role) for role in ("ivar", "sigma", "variance"))
    if ivar is not None:
        return clean_ivar(ivar)
    if sigma is not None:
        return ivar_from_sigma(sigma)
    return None if variance is None else ivar_from_sigma(np.sqrt(np.maximum(as_float(variance), 0.0)))


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
    where it is no inverse variance or the flux is not finite; says so in `warnings`.

    Refuses what is no spectrum of one target: wavelengths that repeat, that start again over the same range, or a
    handful of bands far apart. `joins` outside the wavelength
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

    if wave.ndim != 1:
        raise SpectrumReadError(file, f"a spectrum of shape {wave.shape}; give wavelength and flux one axis")
    order = _order(wave, notes, file)
    if order is not None:
        wave, values = wave[order], values[order]
        weights = None if weights is None else weights[order]
        bits = None if bits is None else bits[order]
    if wave.size < 2:
        raise SpectrumReadError(file, f"{wave.size} pixels with a wavelength; a spectrum needs at least 2")
    if _is_photometry(wave):
        bands = f"{wave.size} points from {wave[0]:g} to {wave[-1]:g} Å"
        raise SpectrumReadError(file, f"{bands}, as far apart as photometric bands: no spectrum")

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


_MAX_BANDS = 30
_BAND = 0.05
"""Of the wavelength: points that are further apart on average are those of broad bands (R < 20)."""


def _is_photometry(wave: FloatArray) -> bool:
    return 3 <= wave.size <= _MAX_BANDS and float(np.median(np.diff(wave) / wave[1:])) > _BAND


_MAX_REPEATED = 0.1
"""Of all pixels; unnamed columns of text are held to the same."""

_LEAST_BLOCK = 10
"""Pixels of each of two spectra that stand one below the other."""
_SAME_RANGE = 0.9
"""Of the narrower block; neighbouring orders of an echelle spectrum overlap by less."""


def starts_again(wave: FloatArray) -> int:
    """How many times increasing wavelengths start again over the range that they have just covered."""
    starts = np.flatnonzero(np.diff(wave) < 0) + 1
    if not starts.size or starts.size > wave.size / _LEAST_BLOCK:
        return 0
    edges = np.concatenate([[0], starts, [wave.size]])
    if int(np.diff(edges).min()) < _LEAST_BLOCK:
        return 0
    low, high = wave[edges[:-1]], wave[edges[1:] - 1]
    overlap = np.minimum(high[1:], high[:-1]) - np.maximum(low[1:], low[:-1])
    narrower = np.minimum(high[1:] - low[1:], high[:-1] - low[:-1])
    return int(np.sum(overlap > _SAME_RANGE * narrower))


def _order(wave: FloatArray, notes: list[str], file: str) -> NDArray[np.intp] | None:
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
            if times := starts_again(kept) or starts_again(kept[::-1]):
                problem = f"the wavelengths start again over the same range ({times + 1} spectra one below the other?)"
                raise SpectrumReadError(
                    file, f"{problem}; name a column of identifiers, or save each spectrum by itself"
                )
            notes.append("wavelengths were not in order: sorted")
        index = index[np.argsort(kept, kind="stable")]
        kept = wave[index]
    repeated = np.zeros(index.size, dtype=bool)
    repeated[1:] = kept[1:] == kept[:-1]
    if repeated.any():
        if int(repeated.sum()) > _MAX_REPEATED * index.size:
            problem = f"{int(repeated.sum())} of {index.size} wavelengths repeat: not the pixels of one spectrum"
            raise SpectrumReadError(file, f"{problem}; give each spectrum by itself")
        notes.append(f"{int(repeated.sum())} pixels with a repeated wavelength dropped")
        index = index[~repeated]
    return index
