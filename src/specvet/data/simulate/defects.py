"""What goes wrong with single pixels, columns and arms; each says what it did, or nothing where it did nothing.

Masks are those of the surveys: LAMOST bit 0 (no data), 6 (rejected in one exposure); SDSS and BOSS `SPPIXMASK`; DESI
`specmask`. Most bad pixels are masked, some are not: those are what fools people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.data.simulate.instruments import Camera, Instrument
from specvet.data.simulate.observed import SurveyName
from specvet.data.simulate.source import FloatArray

BITS: dict[SurveyName, dict[str, int]] = {
    "lamost": {"none": 1 << 0, "cosmic": 1 << 6, "bad": 1 << 0, "bright_sky": 0, "near_bad": 0},
    # NODATA, COMBINEREJ, FULLREJECT, BRIGHTSKY, NEARBADPIXEL
    "sdss": {"none": 1 << 24, "cosmic": 1 << 25, "bad": 1 << 18, "bright_sky": 1 << 23, "near_bad": 1 << 16},
    "boss": {"none": 1 << 24, "cosmic": 1 << 25, "bad": 1 << 18, "bright_sky": 1 << 23, "near_bad": 1 << 16},
    # NODATA, COSMIC, SOMEBADPIX, BRIGHTSKY
    "desi": {"none": 1 << 8, "cosmic": 1 << 2, "bad": 1 << 0, "bright_sky": 1 << 5, "near_bad": 0},
}

BRIGHT_SKY = 8.0
"""A line is bright where it has this many times the sky between the lines."""


@dataclass(slots=True)
class Pixels:
    """The arrays of one camera while they are being spoilt, shape (n_pix,)."""

    camera: Camera
    flux: FloatArray
    ivar: FloatArray
    and_mask: NDArray[np.int32]
    or_mask: NDArray[np.int32]
    sky: FloatArray
    """The sky that was subtracted, in units of the flux."""

    def lose(self, low: int, high: int, bit: int) -> None:
        """No data between two pixels: flux 0, ivar 0."""
        self.flux[low:high] = 0.0
        self.ivar[low:high] = 0.0
        self.and_mask[low:high] |= bit
        self.or_mask[low:high] |= bit


def cosmic_rays(instrument: Instrument, pixels: list[Pixels], rng: np.random.Generator) -> str:
    """Positive spikes of 1 to 4 pixels, 5 to 40 σ; three in five are found and masked."""
    bits, left = BITS[instrument.survey], 0
    mean = {"lamost": 0.35, "sdss": 0.25, "boss": 0.3, "desi": 0.25}[instrument.survey]
    for arm in pixels:
        for _ in range(rng.poisson(mean)):
            width, at = int(rng.integers(1, 5)), int(rng.integers(2, arm.flux.size - 6))
            found, height = rng.random() < 0.6, float(rng.lognormal(np.log(9.0), 0.5))
            shape = np.array((1.0, 0.6, 0.35, 0.2))[:width] * height
            hit = slice(at, at + width)
            good = arm.ivar[hit] > 0.0
            arm.flux[hit] += np.where(good, shape / np.sqrt(np.where(good, arm.ivar[hit], 1.0)), 0.0)
            arm.or_mask[hit] |= bits["cosmic"]
            if found:
                arm.ivar[hit] = 0.0
            elif good.any():
                left += 1
    return "cosmic rays" if left else ""


def dead_pixels(instrument: Instrument, pixels: list[Pixels], rng: np.random.Generator) -> str:
    """Pixels and columns of the detector without a value: ivar 0, the flux a guess from the sides; a column that was
    not found lacks light."""
    bits, said = BITS[instrument.survey], ""
    share = {"lamost": 0.2, "sdss": 0.35, "boss": 0.3, "desi": 0.3}[instrument.survey]
    for arm in pixels:
        if rng.random() < share:
            for at in rng.integers(0, arm.flux.size, int(rng.integers(1, 5))):
                wide = slice(int(at), int(at) + int(rng.integers(1, 7)))
                arm.ivar[wide] = 0.0
                arm.and_mask[wide] |= bits["bad"]
                arm.or_mask[max(int(at) - 2, 0) : int(at) + 8] |= bits["near_bad"]
        if rng.random() < 0.015:
            at, width = int(rng.integers(20, arm.flux.size - 40)), int(rng.integers(2, 6))
            arm.flux[at : at + width] *= 1.0 - rng.uniform(0.2, 0.7)
            said = "dead columns"
    return said


def ragged_end(instrument: Instrument, pixels: list[Pixels], rng: np.random.Generator) -> str:
    """LAMOST: the last 0 to 31 pixels have flux 0 and yet an ivar, and what lies before them may dive.

    So it is in three of four files of DR8 and DR9. Too common to be said.
    """
    if instrument.survey == "lamost":
        (arm,) = pixels
        width = min(int(rng.exponential(9.0)), 31)
        last = arm.flux.size - width
        if rng.random() < 0.3:
            arm.flux[last - 5 : last] *= 1.0 - np.array((0.1, 0.3, 0.7, 1.5, 3.0)) * rng.random()
        arm.flux[last:] = 0.0
        arm.ivar[last:] = arm.ivar[last - 1] * rng.lognormal(0.0, 0.7)
    return ""


_DOUBTED = (3935.0, 3970.0, 4103.0, 4305.6, 4341.7, 4862.7, 5176.8, 6564.6, 8500.4, 8544.0, 8664.6)
"""Å in vacuum: strong lines of stars, the same for all stars and velocities; the errors are raised `_DOUBTED_REACH`
on both sides."""
_DOUBTED_REACH = 10.2
_DOUBTED_IVAR = 1.0 / 9.0
_NOT_CORRECTED = (7580.0, 7680.0)
_UNDETECTED_SNR = 2.7


def first_release(instrument: Instrument, pixels: list[Pixels], rng: np.random.Generator) -> str:
    """LAMOST as of DR1: errors three times as large around strong stellar lines, no ivar in the A band of O2, nor at
    the end, nor in the blue where the pipeline saw nothing. So it is in all 65 real files of DR1, whatever the star."""
    if not instrument.first_release:
        return ""
    (arm,) = pixels
    wave = arm.camera.wavelength
    for line in _DOUBTED:
        low, high = np.searchsorted(wave, (line - _DOUBTED_REACH, line + _DOUBTED_REACH))
        arm.ivar[low:high] *= _DOUBTED_IVAR
    blue = int(np.searchsorted(wave, 5600.0))
    # What counts as seen varies slowly along the spectrum, and a little from pixel to pixel.
    seen = arm.flux[:blue] * np.sqrt(arm.ivar[:blue])
    slow = np.convolve(rng.standard_normal(blue + 24), np.ones(25) / 5.0, mode="valid")
    arm.ivar[:blue][seen < _UNDETECTED_SNR + 0.6 * slow] = 0.0
    low, high = np.searchsorted(wave, _NOT_CORRECTED)
    arm.ivar[low:high] = 0.0
    if rng.random() < 0.8:
        arm.ivar[int(np.searchsorted(wave, 9023.0)) :] = 0.0
    if rng.random() < 0.12:
        low, high = np.searchsorted(wave, rng.normal((5690.0, 5895.0), 15.0))
        arm.ivar[low:high] = 0.0
    return "first release"


def gap(instrument: Instrument, pixels: list[Pixels], rng: np.random.Generator) -> str:
    """LAMOST: nothing where the arms meet, in one file of 25 (4 of 75 files from DR2 on; more in DR1)."""
    if instrument.survey != "lamost" or rng.random() >= 0.04:
        return ""
    (arm,) = pixels
    middle, width = rng.normal(5680.0, 60.0), int(rng.integers(200, 401))
    low = int(np.searchsorted(arm.camera.wavelength, middle)) - width // 2
    arm.lose(low, low + width, BITS["lamost"]["none"])
    return f"gap of {width} pixels at the join"


def dead_arm(instrument: Instrument, pixels: list[Pixels], rng: np.random.Generator) -> str:
    """One arm without any data, in one spectrum of 250; most often the blue one, whose exposures fail first."""
    if rng.random() >= 0.004:
        return ""
    side = ("blue", "red")[int(rng.random() < 0.35)]
    bit = BITS[instrument.survey]["none"]
    if len(pixels) > 1:
        arm = pixels[0] if side == "blue" else pixels[-1]
        arm.lose(0, arm.flux.size, bit)
        return f"arm {arm.camera.name} dead"
    (arm,) = pixels
    at = int(np.searchsorted(arm.camera.wavelength, 0.5 * sum(instrument.join)))
    arm.lose(*((0, at) if side == "blue" else (at, arm.flux.size)), bit)
    return f"{side} arm dead"


def bright_sky(survey: SurveyName, arm: Pixels, lines: FloatArray, sky: float) -> None:
    """Flag pixels under bright lines; `lines` in electrons, shape (n_families, n_pix)."""
    bit = BITS[survey]["bright_sky"]
    if bit:
        under = lines.sum(axis=0) > BRIGHT_SKY * sky * arm.camera.sky
        arm.and_mask[under] |= bit
        arm.or_mask[under] |= bit
