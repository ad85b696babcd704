"""Stars that other objects hold: donors, hot companions, neighbours in the fibre; all from the makers of `kinds`.

Where the companion decides what the object is, it is drawn afresh (`made`). Where it is only light below other light,
as the donor of a cataclysmic variable or the stars of a galaxy, it is mixed of two of a pool of `POOL` fixed draws
(`pooled`): the pool depends on the kind alone, so that every process finds the same one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache

import numpy as np

from specvet.data.simulate.physics import rotated, shifted
from specvet.data.simulate.source import GRID, FloatArray, Source

POOL = 48
"""Draws of a kind that are kept; 80 kB each."""

Seeding = Callable[[Source, np.random.Generator], Source]
"""Gives a real star for a parametric one, or that back."""

_SEEDING: ContextVar[Seeding | None] = ContextVar("seeding", default=None)


@contextmanager
def seeding_parts(seeding: Seeding) -> Iterator[None]:
    """What `made` and `pooled` give goes through `seeding` inside the block."""
    before = _SEEDING.set(seeding)
    try:
        yield
    finally:
        _SEEDING.reset(before)


def _seeded(source: Source, rng: np.random.Generator) -> Source:
    seeding = _SEEDING.get()
    return source if seeding is None else seeding(source, rng)


def made(kind: str, rng: np.random.Generator, wanted: Callable[[Source], bool] | None = None, tries: int = 4) -> Source:
    """A fresh one of this kind; drawn again, up to `tries` times in all, until `wanted` agrees."""
    from specvet.data.simulate.kinds import make

    source = make(kind, rng)
    for _ in range(tries - 1):
        if wanted is None or wanted(source):
            break
        source = make(kind, rng)
    return _seeded(source, rng)


@lru_cache(maxsize=1024)
def _of_pool(kind: str, number: int) -> Source:
    from specvet.data.simulate.kinds import make

    before = _SEEDING.set(None)  # the pool is the same for all
    try:
        source = make(kind, np.random.default_rng([zlib.crc32(kind.encode()), number]))
    finally:
        _SEEDING.reset(before)
    source.flux.flags.writeable = False
    return source


def pooled(
    kind: str, rng: np.random.Generator, wanted: Callable[[Source], bool] | None = None, tries: int = 12
) -> Source:
    """One near a member of the pool of this kind: two that `wanted` agrees to, mixed, the first ruling.

    No two objects hold the same star then, also on the two sides of a split. Each is looked for up to `tries` times.
    """
    ruling, other = (_from_pool(kind, rng, wanted, tries) for _ in range(2))
    share = float(rng.uniform(0.5, 1.0))
    return _seeded(replace(ruling, flux=share * ruling.flux + (1.0 - share) * other.flux), rng)


def _from_pool(kind: str, rng: np.random.Generator, wanted: Callable[[Source], bool] | None, tries: int) -> Source:
    source = _of_pool(kind, int(rng.integers(POOL)))
    for _ in range(tries - 1):
        if wanted is None or wanted(source):
            break
        source = _of_pool(kind, int(rng.integers(POOL)))
    return source


def teff_between(low: float, high: float, least_metal: float = -1.0) -> Callable[[Source], bool]:
    """Whether `teff_k` (K) lies in this range and `fe_h` not below the least; what is not stated counts as fitting."""

    def fits(source: Source) -> bool:
        stated = source.parameters
        return low <= stated.get("teff_k", low) <= high and stated.get("fe_h", 0.0) >= least_metal

    return fits


def at(flux: FloatArray, wavelength: float, half_width: float = 40.0) -> float:
    """Mean flux within `half_width` (Å) of a wavelength."""
    low, high = np.searchsorted(GRID, (wavelength - half_width, wavelength + half_width))
    return float(flux[low:high].mean())


def scaled(flux: FloatArray, wavelength: float, to: float = 1.0) -> FloatArray:
    """`flux` with its mean near a wavelength (Å) set to a value; raises ValueError where it has no light there."""
    level = at(flux, wavelength)
    if level <= 0.0:
        raise ValueError(f"no light at {wavelength:g} Å to scale by")
    return flux * (to / level)


def donor_star(rng: np.random.Generator, wide: bool = False) -> tuple[FloatArray, str]:
    """A donor, turning with its orbit, and its type: an M dwarf, in `wide` binaries (long periods) a K dwarf."""
    if wide:
        star = pooled("k_dwarf", rng, teff_between(3900.0, 5300.0))
    else:
        star = pooled("m_dwarf.quiet", rng, teff_between(2600.0, 3650.0, -0.7))
    return shifted(rotated(star.flux, float(rng.uniform(60.0, 150.0))), float(rng.normal(0.0, 150.0))), star.subtype


def with_donor(light: FloatArray, star: FloatArray, share: float, most: float = 2.5) -> FloatArray:
    """`light` and a donor that makes `share` of the sum at 5500 Å, but no more than `most` times `light` at 8000 Å.

    A late donor that is seen at all at 5500 Å would drown everything in the red.
    """
    flux = scaled(star, 5500.0, share / (1.0 - share) * at(light, 5500.0))
    return light + flux * min(1.0, most * at(light, 8000.0) / at(flux, 8000.0))


def sky_velocity(rng: np.random.Generator, sigma: float = 35.0) -> float:
    """Radial velocity (km/s) of the disc's population, one in ten from the halo."""
    return float(rng.normal(0.0, 110.0 if rng.random() < 0.1 else sigma))
