"""From the light of a source to the pixels of a spectrograph, before anything breaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specvet.data.simulate import noise
from specvet.data.simulate.defects import Pixels, bright_sky
from specvet.data.simulate.instruments import Habits, Instrument
from specvet.data.simulate.instruments_sky import air_pattern, telluric
from specvet.data.simulate.physics import FWHM, add_gaussian, extinction_curve, vacuum, zeros
from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, FloatArray, Source
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

LARGE_STEP = 0.12
"""From here a step at a join is out of the ordinary, and said."""


@dataclass(frozen=True, slots=True, eq=False)
class Exposure:
    """All cameras of one spectrum."""

    pixels: list[Pixels]
    level: float
    """Median flux in the survey's unit, as it would be without noise."""
    defects: list[str]


def doppler(flux: FloatArray, velocity_km_s: float) -> FloatArray:
    """`flux` on `GRID` shifted to the red by a velocity; ends are held.

    On a logarithmic grid a velocity is one shift for all wavelengths: whole pixels, and a Lagrange filter of six points
    for the rest, which keeps sharp lines sharp.
    """
    whole, rest = divmod(np.log1p(velocity_km_s / SPEED_OF_LIGHT_KM_S) * SPEED_OF_LIGHT_KM_S / KM_S_PER_PIXEL, 1.0)
    if whole == 0.0 and rest == 0.0:
        return flux
    points = np.arange(-2, 4)
    at = 1.0 - rest  # of the filter's interval, from the pixel before
    taps = [np.prod([(at - m) / (k - m) for m in points if m != k]) for k in points]
    pad = int(abs(whole)) + 8
    long = np.pad(flux, pad, mode="edge")
    start = pad - int(whole) - 1
    out = np.zeros(flux.size)
    for point, tap in zip(points, taps, strict=True):
        out += tap * long[start + point : start + point + flux.size]
    return np.maximum(out, 0.0)


def light(source: Source, habits: Habits, rng: np.random.Generator) -> FloatArray:
    """What reaches the spectrograph, on `GRID`: shifted, reddened, and with what the correction for the air left.

    All surveys divide by the absorption of standard stars, LAMOST too: its real A stars (DR8) keep ±1 % in the bands of
    O2 and of H2O at 7,240 and 8,230 Å, ±5 % beyond 8,940 Å.
    """
    flux = doppler(source.flux, source.velocity_km_s)
    oxygen, water = telluric()
    left = rng.standard_normal(4)
    # The bands of water at 7,250, 8,230 and 9,000 Å are right or wrong each for itself.
    wrong = np.interp(GRID, (7300.0, 8100.0, 8900.0), habits.air_residual[1] * left[1:])
    depth = habits.air_residual[0] * left[0] * oxygen + wrong * water
    if habits.air_pattern > 0.0:
        depth -= habits.air_pattern * (1.0 + 0.4 * float(rng.standard_normal())) * air_pattern()
    if source.ebv > 0.0:
        depth += 0.4 * np.log(10.0) * source.ebv * extinction_curve()
        if not source.template:  # a real one has its own
            depth += interstellar(source.ebv, rng)
    return np.asarray(flux * np.exp(-depth))


def interstellar(ebv: float, rng: np.random.Generator) -> FloatArray:
    """Optical depth on `GRID` of what comes with dust of this E(B-V): Na D, Ca II H and K, the widest diffuse bands.

    Na D grows and saturates nearly as in Poznanski et al. 2012, MNRAS 426, 1465 (both lines together: 0.6 Å at
    E(B-V) = 0.1, 1.2 Å at 0.3), about which single sight lines scatter; the diffuse bands grow in proportion to the
    dust. The gas has a velocity of its own, small beside those of stars.
    """
    depth = zeros()
    shift = 1.0 + float(rng.normal(0.0, 12.0)) / SPEED_OF_LIGHT_KM_S
    gas = 1.0 * (1.0 - np.exp(-4.0 * ebv)) * float(np.exp(rng.normal(0.0, 0.3)))
    bands = ebv * float(np.exp(rng.normal(0.0, 0.25)))
    for air, share, width in _GAS:
        _add_line(depth, vacuum(air) * shift, gas * share, width)
    for air, share, width in _DIFFUSE:
        _add_line(depth, vacuum(air) * shift, bands * share, width)
    return depth


_GAS = ((5889.95, 1.0, 60.0), (5895.92, 0.75, 60.0), (3933.66, 0.5, 60.0), (3968.47, 0.37, 60.0))
"""Å in air, strength relative to Na D2 (Ca II: about), FWHM in km/s of several clouds together."""

_DIFFUSE = ((4428.0, 2.0, 1200.0), (5780.5, 0.5, 110.0), (6283.8, 1.0, 210.0))
"""Å in air, equivalent width (Å) for E(B-V) = 1, roughly, and FWHM in km/s."""


def _add_line(into: FloatArray, centre: float, width_a: float, fwhm_km_s: float) -> None:
    sigma = centre * fwhm_km_s / FWHM / SPEED_OF_LIGHT_KM_S
    add_gaussian(into, centre, width_a / sigma / float(np.sqrt(2.0 * np.pi)), fwhm_km_s)


def exposed(spectrograph: Instrument, flux: FloatArray, snr: float, rng: np.random.Generator) -> Exposure:
    """`flux` on `GRID` as the cameras record it at the wanted S/N, reduced and calibrated."""
    habits, survey = spectrograph.habits, spectrograph.survey
    fluxes = [np.asarray(camera.optics @ flux) for camera in spectrograph.cameras]
    time, sky = np.exp(rng.normal(0.0, (0.3, 0.45)))
    velocity = float(np.clip(rng.normal(0.0, 15.0), -29.8, 29.8))  # of the Earth
    lines = [sky * time * noise.shifted_lines(camera, velocity) for camera in spectrograph.cameras]
    variances = [
        noise.background_variance(camera, sky * time, line, habits)
        for camera, line in zip(spectrograph.cameras, lines, strict=True)
    ]
    level = noise.brightness(spectrograph, fluxes, variances, time, snr)

    said = []
    step = _step(habits, rng)
    if abs(np.log(step)) > LARGE_STEP:
        said.append(f"arm step {step:.2f}")
    errors = noise.warp_errors(habits, rng)
    scatter = rng.normal(*habits.scatter)
    fringe = (habits.fringes * float(rng.random()) ** 2, float(rng.uniform(0.0, 6.3)), float(rng.uniform(30.0, 55.0)))
    pixels = []
    for camera, seen, line, variance in zip(spectrograph.cameras, fluxes, lines, variances, strict=True):
        gain = time * camera.throughput
        counts = level * gain * seen
        n_pix = seen.size
        sigma = np.sqrt(counts + variance) * noise.rejected(n_pix, habits, rng)
        recorded = counts * noise.fringes(camera, *fringe)
        recorded += scatter * sigma * noise.heavy_tailed(rng, n_pix, habits)
        recorded += habits.flat * counts * noise.correlated(rng, n_pix, 0.1)
        recorded += noise.sky_residual(camera, line, sky * time, habits, rng)
        calibrated = noise.warp(camera, errors, step) / gain
        bits = np.zeros(n_pix, dtype=np.int32)
        background = (sky * time * camera.sky + line.sum(axis=0)) * calibrated
        arm = Pixels(camera, recorded * calibrated, (sigma * calibrated) ** -2, bits, bits.copy(), background)
        bright_sky(survey, arm, line, sky * time)
        pixels.append(arm)
    return Exposure(pixels, level * _middle(fluxes), said)


def _step(habits: Habits, rng: np.random.Generator) -> float:
    """Of the red over the blue side of a join: small as a rule, and once in twenty not."""
    width = habits.step if rng.random() >= 0.05 else 8.0 * habits.step
    return float(np.exp(np.clip(rng.normal(0.0, width), -0.5, 0.5)))


def _middle(fluxes: list[FloatArray]) -> float:
    return max(float(np.median(np.concatenate(fluxes))), 1e-6)
