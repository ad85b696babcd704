"""The spectrographs: pixel grids, resolution, throughput and sky of LAMOST, SDSS, BOSS and DESI.

Throughputs are effective: detected electrons a pixel for a flux of 1 in the survey's unit, over all exposures of a
spectrum. They and the sky are set so that the stated errors equal those of real files (LAMOST DR1-DR9, SDSS plates 266
and 332, a DESI coadd of tile 80613). There was no BOSS file to compare with: its throughput is that of SDSS, raised and
widened after Smee et al. 2013, AJ 146, 32, who measured the two spectrographs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_matrix

from specvet.data.simulate.instruments_sky import LINES, sky_continuum, sky_lines, transmission
from specvet.data.simulate.observed import SurveyName
from specvet.data.simulate.physics import FWHM
from specvet.data.simulate.source import GRID, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Camera:
    """One array of pixels and how light falls on it. Arrays have shape (n_pix,)."""

    name: str
    wavelength: FloatArray
    """Å in vacuum, as the release rounds it."""
    optics: csr_matrix
    """(n_pix, n_grid): the mean over a pixel of the flux on `GRID` seen at the instrument's resolution."""
    dispersion: FloatArray
    """σ of the line spread function in pixels."""
    throughput: FloatArray
    """Electrons a pixel per unit of flux."""
    sky: FloatArray
    """Electrons a pixel of the sky between its lines, and of dark current and scattered light."""
    lines: FloatArray
    """Electrons a pixel of the sky's lines by family, shape (n_families, n_pix)."""
    read_variance: float
    """Electrons²."""
    waves: FloatArray
    """cos(πkx) for k = 1 … `N_WAVES`, x from 0 to 1 along ln λ of the whole instrument; shape (N_WAVES, n_pix)."""
    far_side: FloatArray
    """From 0 to 1 across the join of two arms, shape (n_pix,)."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What goes wrong at a survey, in numbers; each is explained where it is used."""

    snr_median: float
    snr_sigma: float
    """Of ln S/N."""
    snr_range: tuple[float, float]
    scatter: tuple[float, float]
    """Mean and spread of true over stated error."""
    correlation: float
    """Of the noise of neighbouring pixels."""
    flat: float
    """Of the flux: pixel-to-pixel errors that no exposure time removes."""
    line_error: float
    """Of the sky's lines: 1σ that the stated error allows for."""
    line_residual: float
    """Of the sky's lines: 1σ that is left."""
    families: tuple[float, float, float, float]
    """What of that each family of `instruments_sky.LINES` keeps: [O I] 6302 changes fastest."""
    warp: float
    """Low-order error of the flux calibration, 1σ, of the first order."""
    step: float
    """1σ of the ratio of the two sides of a join."""
    fringes: float
    """Largest amplitude in the red."""
    air_residual: tuple[float, float]
    """Of the optical depths of O2 and H2O: 1σ that correcting for the air leaves."""
    air_pattern: float
    """Mean and, with 0.4 of it as 1σ, spread of what is left in the shape of `instruments_sky.air_pattern`."""
    rejections: float
    """Median number of hits that were rejected in one exposure of those that a spectrum is the sum of."""
    tails: float
    """Share of pixels whose error is `noise.TAIL` times what it should be."""


@dataclass(frozen=True, slots=True, eq=False)
class Instrument:
    """A survey's spectrograph."""

    survey: SurveyName
    cameras: tuple[Camera, ...]
    join: tuple[float, float]
    """Å, where the arms of a camera meet; for DESI where its cameras do first."""
    snr_window: tuple[float, float]
    """Å: the g-r region, where a wanted S/N is meant."""
    habits: Habits
    first_release: bool = False
    """LAMOST, reduced as DR1 was: see `defects.first_release`."""


JOINS: dict[SurveyName, tuple[float, float]] = {
    "lamost": (5700.0, 5900.0),
    "sdss": (5900.0, 6300.0),
    "boss": (5900.0, 6300.0),
    "desi": (5760.0, 5800.0),
}

SNR_WINDOWS: dict[SurveyName, tuple[float, float]] = {
    "lamost": (4800.0, 6800.0),
    "sdss": (4800.0, 6800.0),
    "boss": (4800.0, 6800.0),
    "desi": (5800.0, 7500.0),
}

_SLOAN = Habits(
    snr_median=12.0, snr_sigma=0.65, snr_range=(2.0, 70.0), scatter=(0.98, 0.04), correlation=0.10, flat=0.004,
    line_error=0.006, line_residual=0.019, families=(1.5, 4.0, 2.4, 2.0), warp=0.03, step=0.012, fringes=0.004,
    air_residual=(0.03, 0.08), air_pattern=0.0, rejections=0.0, tails=0.007,
)  # fmt: skip

HABITS: dict[SurveyName, Habits] = {
    # S/N: those of the real LAMOST files but the DR8 ones, which are of a bright selection (5, 50, 95 %: 9, 23, 82).
    # Scatter: A stars at S/N 30 have 0.75 of the stated error, at S/N 70 0.92: the difference is `flat`.
    "lamost": Habits(
        snr_median=24.0, snr_sigma=0.72, snr_range=(2.0, 120.0), scatter=(0.78, 0.06), correlation=0.09, flat=0.007,
        line_error=0.018, line_residual=0.018, families=(1.1, 3.2, 0.6, 1.6), warp=0.10, step=0.022, fringes=0.006,
        air_residual=(0.012, 0.05), air_pattern=1.0, rejections=32.0, tails=0.014,
    ),
    "sdss": _SLOAN,
    "boss": replace(
        _SLOAN, snr_median=9.0, snr_sigma=0.75, snr_range=(1.5, 60.0), scatter=(1.00, 0.04), step=0.010
    ),
    # S/N a pixel of 0.8 Å.
    "desi": Habits(
        snr_median=9.0, snr_sigma=0.85, snr_range=(1.0, 80.0), scatter=(1.02, 0.04), correlation=0.02, flat=0.003,
        line_error=0.003, line_residual=0.004, families=(1.5, 6.0, 1.6, 1.6), warp=0.015, step=0.006, fringes=0.0,
        air_residual=(0.015, 0.05), air_pattern=0.0, rejections=0.0, tails=0.0,
    ),
}  # fmt: skip

FIRST_RELEASE = replace(HABITS["lamost"], line_error=0.009, line_residual=0.012)
"""DR1 of LAMOST: the sky's lines raise the stated errors less and leave less."""


def _nodes(text: str, wavelength: FloatArray) -> FloatArray:
    table = np.array(text.split(), dtype=np.float64).reshape(-1, 2)
    return np.interp(wavelength, table[:, 0], table[:, 1])


# Wavelength (Å) and value. LAMOST: fitted to stated errors and fluxes of 143 real files, telluric dips taken out; then
# 5 % more in the blue and 7 % less beyond 7,700 Å, so that S/N along simulated A to G stars is that along real ones.
_LAMOST_THROUGHPUT = """
3650 .03 3738 .0503 3812 .0764 3888 .108 3962 .148 4038 .182 4112 .226 4188 .252 4262 .289 4338 .315 4412 .336
4488 .369 4562 .413 4638 .458 4712 .483 4788 .513 4862 .54 4938 .564 5012 .584 5088 .605 5162 .617 5312 .625 5388 .626
5462 .606 5538 .591 5625 .565 5675 .552 5725 .468 5775 .355 5800 .365 5825 .395 5875 .434 5925 .553 5975 .661 6025 .78
6075 .9 6138 .98 6212 1.07 6288 1.13 6362 1.24 6438 1.38 6512 1.45 6588 1.54 6662 1.71 6738 1.82 6812 1.88 6962 1.95
7038 2.06 7112 2.15 7412 2.21 7488 2.18 7562 2.12 7712 1.95 7788 1.86 7862 1.84 8012 1.81 8088 1.86 8162 1.86 8238 1.79
8312 1.67 8388 1.63 8462 1.58 8538 1.63 8612 1.49 8688 1.4 8762 1.3 8838 1.21 8912 1.02 8988 .949 9062 .79 9110 .698
"""
_LAMOST_SKY = """
3650 .8 3738 .9 3888 1.2 4112 1.45 4338 1.45 4638 1.45 4862 1.5 5088 1.38 5312 1.22 5538 1.14 5625 1.3 5725 1.2 5775 .55
5825 .42 5875 .45 5925 .70 5975 .86 6025 1.06 6075 1.3 6212 1.4 6438 1.6 6738 1.9 7112 2.0 7412 1.8 7562 1.6 7862 1.3
8088 1.2 8312 .9 8538 .8 8762 .7 8912 .5 9062 .35 9110 .33
"""
_LAMOST_GAIN = 30.0
"""Electrons per unit of the relative flux where the throughput above is 1: median fluxes of DR8 at S/N 60 are 300."""
_LAMOST_SKY_ELECTRONS = 3500.0

_SDSS_THROUGHPUT = """
3790 3 3850 4.4 4000 6.5 4250 11 4500 14.5 4750 18 5000 20.5 5500 20 5700 18 5900 17 6000 21 6200 27 6500 30 7000 33
7500 31 8000 28 8400 23 8900 17 9100 14 9250 12
"""
_BOSS_THROUGHPUT = """
3550 2 3600 3 3700 6 3800 9 4000 16 4500 28 5000 32 5500 34 5800 31 6000 32 6200 38 6500 46 7000 52 7500 52 8000 50
8500 45 9000 38 9500 28 10000 16 10400 8 10450 7
"""
_DESI_THROUGHPUT = {
    "B": "3600 3 3700 4.6 3850 9 4000 15 4300 25 4600 31 4900 41 5200 50 5500 59 5700 55 5760 40 5800 24",
    "R": "5760 36 5800 70 6100 110 6400 134 6700 165 7000 172 7300 171 7450 150 7550 75 7620 20",
    "Z": "7520 14 7560 60 7620 150 7750 220 7900 265 8200 320 8500 380 9100 380 9400 300 9700 240 9830 170",
}

# Resolving power. LAMOST: near Cui et al. 2012 (R 1800 at the centres of its arms); SDSS and BOSS: after Smee et al.
# 2013 and `wdisp` of real files; DESI: resolution matrices of a real coadd.
_RESOLUTION = {
    "lamost": "3650 1350 4500 1600 5200 1820 5750 2000 5800 1600 6500 1780 7500 1900 9110 2100",
    "sdss": "3790 1500 4500 1780 5000 1930 5500 2080 5880 2150 5950 1950 6500 1980 7000 2030 8000 2150 9250 2350",
    "boss": "3550 1450 4500 1750 5500 2050 6000 2200 6050 1850 7000 2030 8000 2250 9000 2450 10450 2650",
    "B": "3600 2150 3680 2220 4320 2573 4960 2951 5600 3390 5800 3550",
    "R": "5760 3900 6160 4101 6800 4458 7440 5000 7620 5050",
    "Z": "7520 4300 7600 4350 7920 4431 8560 4831 9200 5290 9520 5200 9830 5200",
}

N_WAVES = 6
REACH = 4.0
"""σ: how far the line spread function goes."""


def _optics(wavelength: FloatArray, sigma: FloatArray) -> csr_matrix:
    """Rows that give the mean flux in a pixel: a Gaussian of `sigma` (Å), widened by the pixel, normalised."""
    pixel = np.gradient(wavelength)
    width = np.sqrt(sigma**2 + pixel**2 / 12.0)
    step = GRID[1] / GRID[0] - 1.0
    half = int(np.ceil(REACH * float((width / wavelength).max()) / step))
    columns = np.searchsorted(GRID, wavelength)[:, None] + np.arange(-half, half + 1)[None, :]
    weights = np.exp(-0.5 * ((GRID[columns] - wavelength[:, None]) / width[:, None]) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    return csr_matrix((weights.ravel(), columns.ravel(), starts), shape=(wavelength.size, GRID.size))


def _camera(
    name: str,
    wavelength: FloatArray,
    resolution: str,
    throughput: FloatArray,
    sky: FloatArray,
    line_scale: FloatArray,
    read_variance: float,
    join: tuple[float, float],
    ends: tuple[float, float],
) -> Camera:
    """`line_scale` turns the peaks of the table of sky lines into electrons; shapes (n_pix,)."""
    sigma = wavelength / _nodes(_RESOLUTION[resolution], wavelength) / FWHM
    optics = _optics(wavelength, sigma)
    pixel = np.gradient(wavelength)
    air = np.asarray(optics @ transmission(1.2, 1.0))
    lines = np.stack([sky_lines(family, wavelength, sigma) * line_scale for family in LINES])
    x = np.log(wavelength / ends[0]) / np.log(ends[1] / ends[0])
    waves = np.cos(np.pi * np.arange(1, N_WAVES + 1)[:, None] * x[None, :])
    middle, width = 0.5 * (join[0] + join[1]), (join[1] - join[0]) / 12.0
    far_side = 1.0 / (1.0 + np.exp(-np.clip((wavelength - middle) / width, -60.0, 60.0)))
    dispersion, through = sigma / pixel, throughput * air
    for array in (wavelength, dispersion, through, sky, lines, waves, far_side):
        array.flags.writeable = False
    return Camera(name, wavelength, optics, dispersion, through, sky, lines, read_variance, waves, far_side)


@lru_cache(maxsize=5)
def instrument(survey: SurveyName, first_release: bool = False) -> Instrument:
    """The spectrograph of a survey, computed once (0.1 s); `first_release` is for LAMOST alone.

    Raises KeyError for a survey that there is not, ValueError for another survey's first release.
    """
    if first_release:
        if survey != "lamost":
            raise ValueError(f"only LAMOST's first release is simulated, not that of {survey}")
        return replace(instrument(survey), habits=FIRST_RELEASE, first_release=True)
    return Instrument(survey, _MAKERS[survey](), JOINS[survey], SNR_WINDOWS[survey], HABITS[survey])


def _whole(
    survey: SurveyName,
    wavelength: FloatArray,
    throughput: FloatArray,
    sky: FloatArray,
    line_scale: FloatArray,
    read_variance: float,
) -> Camera:
    """All arms of a spectrograph on one grid."""
    ends = (float(wavelength[0]), float(wavelength[-1]))
    return _camera("joined", wavelength, survey, throughput, sky, line_scale, read_variance, JOINS[survey], ends)


def _lamost() -> tuple[Camera, ...]:
    # COEFF0 3.5682, COEFF1 1e-4; 3,909 pixels, stored as float32.
    wave: FloatArray = (10.0 ** (3.5682 + 1e-4 * np.arange(3909))).astype(np.float32).astype(np.float64)
    through = _LAMOST_GAIN * _nodes(_LAMOST_THROUGHPUT, wave)
    sky = _LAMOST_SKY_ELECTRONS * _nodes(_LAMOST_SKY, wave)
    # About half of what is under a LAMOST star is sky, the rest scattered light and read noise.
    lines = 0.5 * sky / sky_continuum(wave)
    return (_whole("lamost", wave, through, sky, lines, 0.0),)


def _sdss() -> tuple[Camera, ...]:
    loglam = (3.5800 + 1e-4 * np.arange(3840)).astype(np.float32)
    wave = 10.0 ** loglam.astype(np.float64)
    through = _nodes(_SDSS_THROUGHPUT, wave)
    return (_whole("sdss", wave, through, through * sky_continuum(wave), through, 110.0),)


def _boss() -> tuple[Camera, ...]:
    loglam = (3.5563 + 1e-4 * np.arange(4607)).astype(np.float32)
    wave = 10.0 ** loglam.astype(np.float64)
    through = _nodes(_BOSS_THROUGHPUT, wave)
    sky = 0.45 * through  # fibres of 2"
    return (_whole("boss", wave, through, sky * sky_continuum(wave), sky, 90.0),)


def _desi() -> tuple[Camera, ...]:
    cameras = []
    for name, first, n_pix in (("B", 3600.0, 2751), ("R", 5760.0, 2326), ("Z", 7520.0, 2881)):
        wave: FloatArray = np.asarray(first + 0.8 * np.arange(n_pix), dtype=np.float64)
        through = _nodes(_DESI_THROUGHPUT[name], wave)
        sky = 0.25 * through  # fibres of 1.5", a darker site
        light = (through, sky * sky_continuum(wave), sky)
        cameras.append(_camera(name, wave, name, *light, 60.0, JOINS["desi"], (3600.0, 9824.0)))
    return tuple(cameras)


_MAKERS = {"lamost": _lamost, "sdss": _sdss, "boss": _boss, "desi": _desi}
