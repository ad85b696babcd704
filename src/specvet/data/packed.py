"""Spectra stored small: rows of one wavelength grid in one compressed NPZ, flux and errors as short floats.

    packed([first, second, …])    →  bytes of an NPZ that `specvet.read` gives back, row by row

Flux and 1σ errors keep 11 bits (0.05 %), far below their noise; wavelengths 24 bits, as SimVI has them; mask bits are
left out. What else a `Spectrum` tells goes along as `specvet.spectra.readers.npz_about` has it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import numpy as np

from specvet.spectra import Spectrum
from specvet.spectra.readers.npz_about import about

_MIDDLE = 8.0
"""Where the median of a stored flux lies: 8,000 times below the largest short float, and 100,000 above the least."""


def packed(spectra: Sequence[Spectrum]) -> bytes:
    """The NPZ of spectra that share wavelengths, and of which all state errors or none does.

    Equal spectra give equal bytes. Raises ValueError for others.
    """
    first = spectra[0]
    if any(alike(one) != alike(first) for one in spectra):
        raise ValueError("these spectra differ in their wavelengths or in having errors; pack them apart")
    fluxes, errors, told = [], [], []
    for one in spectra:
        middle = float(np.median(np.abs(one.flux[np.isfinite(one.flux)]))) if np.isfinite(one.flux).any() else 0.0
        scale = 2.0 ** round(np.log2(middle / _MIDDLE)) if middle > 0.0 else 1.0
        fluxes.append(_short(one.flux / scale))
        if one.sigma is not None:
            errors.append(_short(one.sigma / scale, least=True))
        told.append(json.dumps(about(one) | {"scale": scale}, ensure_ascii=False))
    arrays = {
        "wavelength": first.wavelength.astype(np.float32),
        "flux": np.stack(fluxes),
        "about": np.array(told),
    } | ({"sigma": np.stack(errors)} if errors else {})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # dates every member 1980
    return buffer.getvalue()


def alike(spectrum: Spectrum) -> tuple[bytes, bool]:
    """What spectra of one file share."""
    return spectrum.wavelength.astype(np.float32).tobytes(), spectrum.ivar is not None


def _short(values: np.ndarray, *, least: bool = False) -> np.ndarray:
    """As short floats; what is too large for them is the largest there is, infinite errors (bad pixels) stay so."""
    largest = float(np.finfo(np.float16).max)
    kept = np.where(np.isinf(values), values, np.clip(values, -largest, largest))
    return (np.maximum(kept, 1e-7) if least else kept).astype(np.float16)
