"""Other spectra that the same star could have had: with more noise, another velocity, or without an end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Augmentation:
    """How far spectra are altered; each of a batch by numbers of its own."""

    noise: float = 1.0
    """Noise is added of up to so many times a spectrum's own."""
    shift: float = 2.5
    """Pixels (132 km/s each) by which it is moved, at most, to either side: a wrong or missing redshift of a star."""
    ends: float = 0.15
    """Share of the grid that may be missing at either end …"""
    ends_often: float = 0.3
    """… and how often it is, for each end."""


def own_noise(x: _Floats) -> _Floats:
    """1σ of the first channel of each spectrum, shape (n,), from the scatter between observed neighbours."""
    lines, seen = x[:, 0].astype(np.float64), x[:, 1] > 0
    # DER_SNR (Stoehr et al. 2008, ASP Conf. 394, 505): third differences are blind to smooth shapes.
    differences = np.abs(2.0 * lines[:, 2:-2] - lines[:, :-4] - lines[:, 4:])
    differences[~(seen[:, 2:-2] & seen[:, :-4] & seen[:, 4:])] = np.nan
    known = ~np.isnan(differences).all(axis=1)
    noise = np.zeros(len(x), dtype=np.float32)
    noise[known] = 0.6052697 * np.nanmedian(differences[known], axis=1)
    return noise


def augmented(x: _Floats, noise: _Floats, rng: np.random.Generator, how: Augmentation) -> _Floats:
    """A new batch of shape (n, n_channels, n_pix) from another and the 1σ of each, shape (n,)."""
    n, _, n_pix = x.shape
    x = _moved(x, rng.uniform(-how.shift, how.shift, size=(n,)))
    strength = (how.noise * rng.uniform(0.0, 1.0, n) * noise).astype(np.float32)
    x[:, 0] += strength[:, None] * rng.standard_normal((n, n_pix), dtype=np.float32)
    first, last = (
        np.where(rng.uniform(size=n) < how.ends_often, rng.uniform(0.0, how.ends, n), 0.0) * n_pix for _ in range(2)
    )
    pixel = np.arange(n_pix)
    kept = (pixel >= first[:, None]) & (pixel < n_pix - last[:, None]) & (x[:, 1] > 0)
    return np.asarray(x * kept[:, None], dtype=np.float32)


def _moved(x: _Floats, shift: NDArray[np.float64]) -> _Floats:
    """Each spectrum moved by so many pixels, linear between them; a pixel half of which is unseen is unseen."""
    n_pix = x.shape[2]
    whole = np.floor(shift).astype(np.int64)
    part = (shift - whole).astype(np.float32)[:, None, None]
    at = np.arange(n_pix)[None, :] - whole[:, None]
    near, far = (np.take_along_axis(x, np.clip(i, 0, n_pix - 1)[:, None, :], axis=2) for i in (at, at - 1))
    out = (1.0 - part) * near + part * far
    inside = (at >= 1) & (at < n_pix)
    seen = (near[:, 1] > 0) & (far[:, 1] > 0) & inside
    out[:, 1] = 1.0
    return np.asarray(out * seen[:, None], dtype=np.float32)
