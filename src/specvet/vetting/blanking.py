"""Spectra with their features taken out: what an agent says of them it did not see.

`smooth` keeps the colour of a spectrum and its noise and takes out every line and band; `level` keeps the noise alone,
around one level. An agent that still says YES of such a spectrum rests on something else than features.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from specvet.spectra import Spectrum

Blank = Literal["smooth", "level"]

WAYS: tuple[Blank, ...] = get_args(Blank)

BLOCK = 60.0
"""Å of the blocks whose medians the continuum is drawn through: single lines do not reach it."""

DEGREE = 3
"""Of the polynomial, of the logarithm of the flux over that of the wavelength: it follows a colour and no band."""

CUT = 2.5
"""Scatters beyond which a block (a broad line, a deep band) is left out, time after time."""

_Floats = NDArray[np.float64]


def blanked(spectrum: Spectrum, way: Blank, seed: int = 0) -> Spectrum:
    """`spectrum` with features gone, and noise of its own size; the same for the same spectrum and seed.

    Pixels keep their places, their errors and their masks; bad ones stay as they are. Where the file states no errors
    the noise is that of the scatter between neighbouring pixels.
    """
    good = spectrum.good
    flux = spectrum.flux.copy()
    if good.any():
        wavelength, seen = spectrum.wavelength[good], spectrum.flux[good]
        sigma = _sigma(spectrum)[good]
        level = _continuum(wavelength, seen) if way == "smooth" else np.full(seen.size, float(np.median(seen)))
        name = zlib.crc32(f"{way}/{seed}/{spectrum.content_hash}".encode())
        flux[good] = level + sigma * np.random.default_rng(name).normal(size=seen.size)
    return spectrum.replace(flux=flux, warnings=(*spectrum.warnings, f"BLANKED ({way}): its features were taken out"))


def blanking(way: Blank, seed: int = 0) -> Callable[[Spectrum], Spectrum]:
    """The same as a function of the spectrum alone."""
    return lambda spectrum: blanked(spectrum, way, seed)


def _sigma(spectrum: Spectrum) -> _Floats:
    """1σ of each pixel."""
    if spectrum.ivar is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            sigma = 1.0 / np.sqrt(spectrum.ivar)
        return np.where(np.isfinite(sigma), sigma, 0.0)
    flux = spectrum.flux[spectrum.good]
    if flux.size < 5:
        return np.zeros(spectrum.flux.size)
    third = np.abs(2.0 * flux[2:-2] - flux[:-4] - flux[4:])
    return np.full(spectrum.flux.size, 0.6052697 * float(np.median(third)))


def _continuum(wavelength: _Floats, flux: _Floats) -> _Floats:
    """A smooth curve through the medians of blocks, without those that lie apart from it."""
    number = ((wavelength - wavelength[0]) / BLOCK).astype(np.int64)
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    blocks = [slice(a, b) for a, b in zip(starts, [*starts[1:], flux.size], strict=True)]
    places = np.array([float(np.median(wavelength[b])) for b in blocks])
    levels = np.array([float(np.median(flux[b])) for b in blocks])
    least = 0.02 * float(np.max(levels, initial=0.0))
    used = levels > max(least, 0.0)
    if used.sum() <= DEGREE + 1:
        return np.full(flux.size, float(np.median(flux)))
    x, y = np.log(places), np.log(np.maximum(levels, max(least, 1e-300)))
    curve = np.polynomial.Chebyshev.fit(x[used], y[used], DEGREE)
    for _ in range(5):
        off = y - curve(x)
        kept = used & (np.abs(off) <= CUT * max(float(np.median(np.abs(off[used]))) * 1.4826, 1e-3))
        if kept.sum() <= DEGREE + 1:
            break
        curve = np.polynomial.Chebyshev.fit(x[kept], y[kept], DEGREE)
    # Beyond the first and last block it goes on level: a polynomial there may go anywhere.
    inside = np.clip(np.log(wavelength), x[0], x[-1])
    smooth: _Floats = np.exp(np.clip(curve(inside), np.log(max(least, 1e-300)), np.log(10.0 * levels.max())))
    return smooth
