"""What the air adds and takes away: night-sky lines, the sky's continuum, telluric absorption.

Emission lines to 9,200 Å: centres (Å, vacuum) and peaks above the continuum (1e-17 erg/s/cm²/Å in a 3" fibre at
R ≈ 2000) as they stand in the `sky` column of SDSS plate 266, rounded. Beyond: centres near Osterbrock et al. 1996,
PASP 108, 277, with peaks that continue those of the same OH bands. Absorption: O2 from its molecular constants,
H2O from a short list of features at R ≈ 2000 whose depths are approximate; both at one air mass.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from specvet.data.simulate.physics import HC_OVER_K, add_gaussian, zeros
from specvet.data.simulate.source import GRID, FloatArray

_CITY = "4047.6 17 4359.1 36 5462.6 32 5688.5 12 5770.3 9 5791.6 9 5868 7 5934.7 9 6163 3"
"""Mercury and sodium lamps."""

_RED_OXYGEN = "6302 61 6365.5 20"
"""[O I] of the ionosphere: it changes within minutes and degrees, and is the worst subtracted."""

_ATOMS = "5200 3 5578.9 300 5891.6 90 5897.6 62"
"""[N I], [O I] and Na I of the upper atmosphere. At 5579 the half of what SDSS saw that night, near solar maximum."""

_OH = """
6237.3 12 6258.9 10 6267.6 3 6289.3 9 6308.1 11 6331.4 9 6357.7 5 6467 7 6499.8 11 6534.3 9 6555.4 11 6579.6 8 6605.4 4
6831.2 20 6836 17 6865.9 32 6891.3 7 6902.4 7 6915.1 9 6924.7 17 6941 7 6951 18 6980.7 12 7012.9 6 7050.2 5
7242.7 50 7256 10 7277.8 66 7286.2 24 7306.3 14 7318.1 51 7331.6 22 7343.4 58 7360.4 18 7371.5 43 7394.4 13 7404.2 26
7431.9 5 7440.5 13 7474.8 12 7485.1 12 7526.6 33 7533 7 7559.6 5 7573.6 23 7587.5 6 7601.5 23 7620.8 6 7631.3 17
7664.8 7 7717.9 67 7726.8 14 7752.8 74 7762.5 24 7775 10 7782.2 11 7796.5 54 7810.9 21 7823.5 67 7843.3 16 7856 70
7863.2 22 7872.3 29 7881.3 15 7892.2 35 7915.9 94 7923.2 37 7934.1 21 7950.6 14 7967.1 65 7981.8 24 7995.4 66
8016.8 20 8027.9 56 8053.8 12 8064.9 26 8096.5 4 8104 10 8197.9 9 8283.2 49 8290.9 64 8300.4 77 8313.3 19 8346.4 169
8354.1 50 8367.6 18 8384.9 37 8401.6 121 8417.8 48 8432.6 131 8454.7 43 8468.4 93 8495.7 26 8507.5 57 8541 7 8550.7 20
8631.8 45 8657.7 43 8661.6 44 8667.6 39 8677.6 22 8764 88 8770 107 8780.1 125 8793.5 31 8828.8 240 8838.9 93 8851.2 24
8869.5 59 8887.9 178 8905.5 71 8922 198 8945.4 66 8959.8 155 8990.8 48 9003.3 95 9040.7 22 9051.1 40 9095 12 9105.4 19
9316 95 9326 60 9340.4 150 9351 30 9378.5 260 9391 40 9422.3 90 9442.2 230 9461.1 70 9479.5 200 9505.4 60 9521.8 140
9555.2 40 9570.2 75 9610 20 9623 30 9703 40 9722 120 9743 90 9794 190 9802.5 150 9817 60 9840 70 9874.8 160 9902 60
9917.4 190 9945 50 9965 130 10005 50 10016 110 10061 60 10085 260 10108 80 10126 180 10174 160 10213 90 10261 110
10291 160 10296 130 10374 100 10384 90
"""

LINES_AT_R = 2000.0
"""The resolution that the peaks above were seen at."""


def _table(text: str) -> FloatArray:
    return np.array(text.split(), dtype=np.float64).reshape(-1, 2)


LINES = {"city": _table(_CITY), "red oxygen": _table(_RED_OXYGEN), "atoms": _table(_ATOMS), "oh": _table(_OH)}
"""Family → centre (Å, vacuum) and peak, shape (n_lines, 2). Lines of one family brighten and fade together."""

_CONTINUUM = (
    "3500 6 3850 6.6 4200 6.9 4900 7.1 5600 8 5950 11.5 6300 8.5 6650 6.1 7000 6.4 7700 8 8400 7.7 9200 6 10400 7"
)
"""Dark sky with some city light, 1e-17 erg/s/cm²/Å in a 3" fibre; SDSS plate 266."""


def sky_lines(family: str, wavelength: FloatArray, sigma: FloatArray) -> FloatArray:
    """Lines of a family at the pixels `wavelength` (Å) of an instrument whose LSF has `sigma` (Å), shape (n_pix,)."""
    out = np.zeros(wavelength.size)
    for centre, peak in LINES[family]:
        low, high = np.searchsorted(wavelength, (centre - 40.0, centre + 40.0))
        if low == high:
            continue
        width = sigma[low:high]
        area = peak * centre / LINES_AT_R / 2.3548  # of a Gaussian over √(2π)
        out[low:high] += area / width * np.exp(-0.5 * ((wavelength[low:high] - centre) / width) ** 2)
    return out


def sky_continuum(wavelength: FloatArray) -> FloatArray:
    """The sky between its lines, 1e-17 erg/s/cm²/Å in a 3" fibre, shape (n_pix,)."""
    nodes = _table(_CONTINUUM)
    return np.interp(wavelength, nodes[:, 0], nodes[:, 1])


_WATER = """
6500 .03 9 6550 .02 9 6925 .02 15 7185 .12 10 7203 .10 8 7235 .13 9 7248 .10 7 7264 .08 8 7283 .10 9 7305 .08 10
7320 .05 8 8136 .07 8 8150 .09 7 8165 .13 7 8178 .15 7 8196 .10 8 8227 .22 8 8256 .10 9 8276 .16 7 8288 .16 7 8302 .11 8
8320 .11 8 8340 .04 8 8945 .20 10 8975 .22 11 9000 .28 10 9022 .26 9 9060 .20 12 9096 .26 10 9125 .25 10 9155 .22 10
9182 .30 10 9210 .20 11 9260 .20 12 9310 .50 12 9345 .90 10 9370 .75 9 9400 .65 9 9430 .60 9 9460 .50 9 9490 .50 10
9520 .35 10 9547 .40 9 9580 .25 11 9640 .15 14 9700 .12 16 9750 .10 16
"""
"""Centre (Å, vacuum), depth and FWHM (Å) of water absorption, 2 mm of it."""

_OXYGEN = ((13120.91, 1.3910, 0.0110), (14525.66, 1.3730, 0.0016), (15902.42, 1.3550, 0.0001))
"""Bands A, B and γ of O2: origin (1/cm), rotational constant of the upper state (1/cm; after Herzberg 1950), strength a
line, set so that the head of A absorbs some 70 % and that of B some 30 % at R = 1800."""
_GROUND = 1.4377


@lru_cache(maxsize=1)
def telluric() -> tuple[FloatArray, FloatArray]:
    """Optical depths of O2 and of H2O at one air mass on `GRID`, in the observer's frame."""
    oxygen, water = zeros(), zeros()
    for origin, upper, strength in _OXYGEN:
        for n in range(1, 40, 2):  # O2 has odd levels only
            energy = _GROUND * n * (n + 1)
            weight = (2 * n + 1) * np.exp(-energy * HC_OVER_K * 1e-8 / 250.0)
            for level, share in ((n + 1, n + 1.0), (n - 1, float(n))):
                line = 1e8 / (origin + upper * level * (level + 1) - energy)
                add_gaussian(oxygen, line, strength * weight * share / (2 * n + 1) * 25.0, 90.0)
    for centre, depth, width in np.array(_WATER.split(), dtype=np.float64).reshape(-1, 3):
        add_gaussian(water, centre, depth, width / centre * 299_792.458)
    for array in (oxygen, water):
        array.flags.writeable = False
    return oxygen, water


_PATTERN = """
7560 0 7575 .5 7585 .3 7594 -.5 7602 -1 7610 .6 7618 1 7626 -.8 7634 -.9 7642 -1 7650 -.8 7658 .1 7666 1.6 7674 -.4
7682 -.8 7690 -.6 7698 .8 7710 .1 7722 0
6840 0 6854 .6 6862 1.2 6870 -.2 6878 .3 6886 .3 6894 -.2 6902 0 6910 .1 6918 .7 6926 .6 6934 0 6942 .2 6950 .8 6962 0
7150 0 7157 .2 7172 -.8 7187 .2 7217 .1 7232 -.5 7247 -.3 7262 0 7277 -.3 7292 .5 7307 -.2 7322 .2 7337 .3 7352 -.2
7367 -.4 7376 0
8085 0 8097 -.2 8112 .9 8127 .3 8142 -.1 8157 -.5 8172 -.8 8187 .4 8202 1 8217 .3 8232 -.5 8247 1.1 8262 .9 8277 -2
8292 -.8 8307 .5 8322 .6 8337 -.5 8352 0
"""
"""Wavelength (Å, vacuum) and per cent: medians of what is left around the bands of the air in 72 real LAMOST spectra of
A, F and G stars (DR2-DR9). Standard stars seen by other fibres, whose profiles are not quite the same, leave the edges
of bands too bright and their wings too faint."""


@lru_cache(maxsize=1)
def air_pattern() -> FloatArray:
    """ln of the factor that LAMOST's correction for the air leaves on average, on `GRID`."""
    nodes = _table(_PATTERN)
    nodes = nodes[np.argsort(nodes[:, 0])]
    pattern = np.log1p(0.01 * np.interp(GRID, nodes[:, 0], nodes[:, 1]))
    pattern.flags.writeable = False
    return pattern


def transmission(air_mass: float, water: float) -> FloatArray:
    """Of the air on `GRID`; `water` is in units of 2 mm."""
    oxygen, vapour = telluric()
    return np.exp(-air_mass * oxygen - water * vapour)
