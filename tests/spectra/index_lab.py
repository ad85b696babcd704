"""Spectra whose line indices are known, for tests: lines are averaged over each pixel, as a detector does."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specvet.records.schema import Measurement
from specvet.spectra import Medium, Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import Index, LineIndex, measure
from specvet.spectra.pixels import pixel_edges

C = 299_792.458
LINE = LineIndex("line", "line EW", (6500.0, 6620.0), ((6400.0, 6480.0), (6640.0, 6720.0)))
"""Wide sides, so that a side band holds pixels at every sampling."""

SAMPLINGS = {
    "0.5 Å": np.arange(6300.0, 6800.0, 0.5),
    "1.37 Å": np.arange(6300.0, 6800.0, 1.37),
    "5 Å": np.arange(6300.0, 6800.0, 5.0),
    "log": 10 ** np.arange(math.log10(6300.0), math.log10(6800.0), 1e-4),
    "uneven": np.concatenate(
        [np.arange(6300.0, 6450.0, 5.0), np.arange(6450.0, 6560.0, 1.0), np.arange(6560, 6800, 2.5)]
    ),
    "adaptive": 6560.0 + np.sign(np.linspace(-1, 1, 201)) * 240.0 * np.abs(np.linspace(-1, 1, 201)) ** 1.7,
}


def sloped(w: NDArray[np.float64], slope: float = 0.5) -> NDArray[np.float64]:
    """A straight continuum, 10 at 6560 Å, that changes by `slope` of itself over 500 Å."""
    return 10.0 * (1.0 + slope * (w - 6560.0) / 500.0)


def gaussian(w: NDArray[np.float64], centre: float, fwhm: float, ew: float) -> NDArray[np.float64]:
    """Line depth over continuum, averaged over the pixels of `w`: equivalent width `ew` Å, positive in absorption."""
    s = fwhm / math.sqrt(8 * math.log(2)) * math.sqrt(2)
    left, right = pixel_edges(w)
    erf = np.vectorize(math.erf)
    return ew * 0.5 * (erf((right - centre) / s) - erf((left - centre) / s)) / (right - left)


def box(w: NDArray[np.float64], low: float, high: float, depth: float) -> NDArray[np.float64]:
    """A box of `depth` from `low` to `high`, averaged over the pixels of `w`."""
    left, right = pixel_edges(w)
    return depth * np.clip(np.minimum(right, high) - np.maximum(left, low), 0, None) / (right - left)


def spectrum(
    w: NDArray[np.float64], flux: NDArray[np.float64], snr: float | None = None, medium: Medium = "air", **more: object
) -> Spectrum:
    """`snr` gives an ivar that goes with the flux's median."""
    ivar = None if snr is None else np.full(w.size, (snr / float(np.median(flux))) ** 2)
    return Spectrum(w, flux, ivar, medium=medium, **more)  # type: ignore[arg-type]


def value(index: Index | str, s: Spectrum) -> Measurement:
    """One index of one spectrum: a built-in by name, or any."""
    if isinstance(index, str):
        return measure([index], s, BUILTIN_INDICES)[index]
    return measure([index.key], s, {**BUILTIN_INDICES, index.key: index})[index.key]
