"""The continuum below a line, and what must be there before a line or band can be measured."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.index_kinds import Range
from specvet.spectra.pixels import Level, Pixels
from specvet.spectra.resolution import instrument_fwhm

MIN_BAND_COVERAGE = 0.75
"""Least share of a band that must be good for a value."""
MIN_SIDE_COVERAGE = 0.4
"""Least share of a continuum band."""
MIN_CONTINUUM_SNR = 2.0
"""Least continuum over its own error: below, an equivalent width means nothing."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Run:
    """How a value answers to some pixels: `factor` times `run` is its change when each pixel changes by its own 1σ."""

    start: int
    """Number of the first pixel."""
    run: _Floats
    norm: float
    """Root of the sum of squares of `run`."""
    factor: float = 1.0

    def times(self, factor: float) -> Run:
        return Run(self.start, self.run, self.norm, self.factor * factor)


Parts = tuple[Run, ...]
"""How a value answers to all pixels. The sum of squares over pixels, runs added where they overlap, is its variance."""


def run_of(level: Level, factor: float) -> Run:
    """What `factor` times a level answers to."""
    return Run(level.start, level.run, level.error, factor)


class Continuum:
    """A straight line between the levels of two side bands."""

    def __init__(self, blue: Level, red: Level) -> None:
        self.blue, self.red = blue, red

    def at(self, wavelength: _Floats) -> _Floats:
        """Level at each wavelength (Å)."""
        return self.blue.value + (self.red.value - self.blue.value) * self.share(wavelength)

    def detected(self, band: Range) -> bool:
        """Whether both levels stand out of their errors, and the line between stays above 0 all over `band`."""
        for level in (self.blue, self.red):
            if not (level.value > 0 and level.value > MIN_CONTINUUM_SNR * level.error):
                return False
        x0, x1 = self.blue.wavelength, self.red.wavelength
        slope = 0.0 if x0 == x1 else (self.red.value - self.blue.value) / (x1 - x0)
        return all(self.blue.value + slope * (end - x0) > 0 for end in band)

    def share(self, wavelength: _Floats) -> _Floats:
        """0 at the blue level, 1 at the red one; half-way everywhere where both lie at one wavelength."""
        x0, x1 = self.blue.wavelength, self.red.wavelength
        if x0 == x1:
            return np.full(wavelength.shape, 0.5)
        return (wavelength - x0) / (x1 - x0)


def continuum(p: Pixels, band: Range, sides: Sequence[Range]) -> Continuum | str:
    """The continuum of a line, or why there is none. All ranges in the spectrum's own medium."""
    missing = missing_pixels(p, band, sides)
    if missing:
        return missing
    found = Continuum(*(p.level(side) for side in sides))
    return found if found.detected(band) else "the continuum is not detected"


def missing_pixels(p: Pixels, band: Range, sides: Iterable[Range]) -> str:
    """Which of the ranges good pixels do not cover; empty when they cover all."""
    covered = p.coverage(band)
    if covered < MIN_BAND_COVERAGE:
        return f"good pixels cover {100 * covered:.0f} % of {band[0]:.0f}-{band[1]:.0f} Å"
    for side in sides:
        covered = p.coverage(side)
        if covered < MIN_SIDE_COVERAGE:
            return f"good pixels cover {100 * covered:.0f} % of the continuum at {side[0]:.0f}-{side[1]:.0f} Å"
    return ""


def line_quality(p: Pixels, band: Range, sides: Sequence[Range]) -> tuple[float, str]:
    """Quality (0-1) and note. A line is as good as its band or its continuum, whichever is worse."""
    quality, note = p.quality((band,))
    below, below_note = p.quality(sides, "continuum ")
    return min(quality, below), joined(note, below_note)


def too_narrow(p: Pixels, ranges: Sequence[Range]) -> str:
    """A note where a range is narrower than the instrument resolves: its value is then not that of a finer spectrum."""
    narrow = min(ranges, key=lambda r: (r[1] - r[0]) / r[0])
    width = narrow[1] - narrow[0]
    element = instrument_fwhm(p.spectrum, 0.5 * (narrow[0] + narrow[1]))
    if element is not None and width < element:
        return f"{narrow[0]:.0f}-{narrow[1]:.0f} Å is narrower than the resolution element of {element:.1f} Å"
    pixels = p.weights(narrow)[0]
    if pixels.stop - pixels.start < 3:
        return f"{narrow[0]:.0f}-{narrow[1]:.0f} Å holds fewer than 3 pixels"
    return ""


def equivalent_width(p: Pixels, band: Range, level: Continuum) -> tuple[float, Parts]:
    """∫(1 − flux/continuum) over the band, Å, positive in absorption; missing pixels count as the mean of the rest."""
    pixels, weight = p.weights(band)
    flux = p.flux[pixels]
    if np.count_nonzero(weight) < weight.size:
        flux = np.where(weight > 0, flux, 0.0)
    wavelength = p.wavelength[pixels]
    share = level.share(wavelength)
    below = level.blue.value + (level.red.value - level.blue.value) * share
    per_level = weight * ((band[1] - band[0]) / p.good_length(band)) / below
    seen = per_level * flux
    value = float((per_level * (below - flux)).sum())
    # Raising a level of the continuum by its σ moves the width by ∫ flux/continuum² of what it has in the continuum.
    seen /= below
    of_red = float(seen.dot(share))
    of_blue = float(seen.sum()) - of_red
    own = per_level * p.errors(pixels)
    norm = math.sqrt(float(own.dot(own)))
    return value, (Run(pixels.start, own, norm, -1.0), run_of(level.blue, of_blue), run_of(level.red, of_red))


def error_of(parts: Parts) -> float:
    """1σ of a value with these parts."""
    end = -1
    for part in sorted(parts, key=_start):
        if part.start < end:
            break
        end = part.start + part.run.size
    else:
        return math.hypot(*(part.factor * part.norm for part in parts))
    first = min(part.start for part in parts)
    total = np.zeros(max(part.start + part.run.size for part in parts) - first)
    for part in parts:
        total[part.start - first : part.start - first + part.run.size] += part.factor * part.run
    return math.sqrt(float(total.dot(total)))


_start = operator.attrgetter("start")


def joined(*notes: str) -> str:
    """Notes in one line, each said once."""
    return "; ".join(dict.fromkeys(part for note in notes for part in note.split("; ") if part))
