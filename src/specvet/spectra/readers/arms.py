"""Joining the arms of a spectrograph into one spectrum, for many targets at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.readers.building import Bits
from specvet.spectra.spectrum import FloatArray, Join

_SAME_PIXEL = 0.01
"""Å: grids that agree to this are one grid (DESI's agree to 1e-9; a pixel is 0.8)."""


@dataclass(frozen=True)
class Arm:
    """One arm: wavelength (n,) in Å, increasing; flux, ivar and mask (rows, n)."""

    name: str
    wavelength: FloatArray
    flux: FloatArray
    ivar: FloatArray
    mask: Bits


@dataclass(frozen=True)
class JoinedArms:
    """All arms on one grid, with the places where they meet."""

    wavelength: FloatArray
    flux: FloatArray
    ivar: FloatArray
    mask: Bits
    joins: tuple[Join, ...]
    warnings: tuple[str, ...]


def join_arms(arms: list[Arm], survey: str) -> JoinedArms:
    """Join arms in order of wavelength.

    Where two arms overlap, the flux is their ivar-weighted mean, ivar the sum and mask the OR of both; where neither
    is good, the plain mean with ivar 0. An overlap on different grids is interpolated onto the bluer arm's pixels,
    with the smaller ivar of both neighbours, and a warning. Each meeting (overlap or gap) becomes a `Join`.
    """
    ordered = sorted(arms, key=lambda arm: float(arm.wavelength[0]))
    total, joins, warnings = ordered[0], [], []
    for arm in ordered[1:]:
        label = f"{survey} {total.name}/{arm.name}"
        low, high = sorted((float(total.wavelength[-1]), float(arm.wavelength[0])))
        joins.append(Join(low, high, label))
        old = total.wavelength >= arm.wavelength[0] - _SAME_PIXEL
        new = arm.wavelength <= total.wavelength[-1] + _SAME_PIXEL
        grid = total.wavelength[old]
        same = grid.size == int(new.sum()) and bool(np.all(np.abs(grid - arm.wavelength[new]) < _SAME_PIXEL))
        if not same:
            warnings.append(f"arms {total.name} and {arm.name} have different pixels in their overlap: interpolated")
        overlap = _resampled(arm, grid) if not same else _part(arm, grid, new)
        flux, ivar = _weighted(total.flux[:, old], total.ivar[:, old], overlap.flux, overlap.ivar)
        mask = total.mask[:, old] | overlap.mask
        total = Arm(
            arm.name,
            np.concatenate([total.wavelength, arm.wavelength[~new]]),
            np.concatenate([total.flux[:, ~old], flux, arm.flux[:, ~new]], axis=1),
            np.concatenate([total.ivar[:, ~old], ivar, arm.ivar[:, ~new]], axis=1),
            np.concatenate([total.mask[:, ~old], mask, arm.mask[:, ~new]], axis=1),
        )
    return JoinedArms(total.wavelength, total.flux, total.ivar, total.mask, tuple(joins), tuple(warnings))


def _part(arm: Arm, grid: FloatArray, pixels: NDArray[np.bool_]) -> Arm:
    return Arm(arm.name, grid, arm.flux[:, pixels], arm.ivar[:, pixels], arm.mask[:, pixels])


def _weighted(
    flux_a: FloatArray, ivar_a: FloatArray, flux_b: FloatArray, ivar_b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    finite_a, finite_b = np.isfinite(flux_a), np.isfinite(flux_b)
    weight_a, weight_b = np.where(finite_a, ivar_a, 0.0), np.where(finite_b, ivar_b, 0.0)
    ivar = weight_a + weight_b
    none = ivar == 0
    weight_a, weight_b = np.where(none, finite_a, weight_a), np.where(none, finite_b, weight_b)
    total = weight_a + weight_b
    with np.errstate(invalid="ignore"):
        flux = (weight_a * np.nan_to_num(flux_a) + weight_b * np.nan_to_num(flux_b)) / np.where(
            total > 0, total, np.nan
        )
    return flux, ivar


def _resampled(arm: Arm, grid: FloatArray) -> Arm:
    """The arm at the wavelengths `grid`; ivar 0 outside its own range."""
    left: NDArray[np.intp] = np.clip(
        np.searchsorted(arm.wavelength, grid, side="right") - 1, 0, arm.wavelength.size - 2
    )
    right = left + 1
    t = (grid - arm.wavelength[left]) / (arm.wavelength[right] - arm.wavelength[left])
    inside = (t >= 0) & (t <= 1)
    flux = np.where(inside, (1 - t) * arm.flux[:, left] + t * arm.flux[:, right], np.nan)
    ivar = np.where(inside, np.minimum(arm.ivar[:, left], arm.ivar[:, right]), 0.0)
    mask = np.where(inside, arm.mask[:, left] | arm.mask[:, right], 0)
    return Arm(arm.name, grid, flux, ivar, mask)
