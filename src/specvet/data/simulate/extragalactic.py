"""Quasars, BL Lac objects and galaxies, made in the observed frame: `flux` has its redshift already.

Quasar slopes, lines and iron: Vanden Berk et al. 2001, AJ 122, 549 (composite of SDSS); scatter of equivalent widths
from Shen et al. 2011, ApJS 194, 45; the forest from Becker et al. 2013, MNRAS 430, 2067.
"""

from __future__ import annotations

import numpy as np

from specvet.data.simulate import nebulae
from specvet.data.simulate.companions import at, scaled
from specvet.data.simulate.galaxies import redshifted, starlight
from specvet.data.simulate.nebulae import add_line
from specvet.data.simulate.physics import FWHM, chosen, log_normal, normalised, truncated_normal, vacuum
from specvet.data.simulate.source import GRID, FloatArray, Source
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

BROAD: tuple[tuple[str, float, float, float], ...] = (
    ("Lyb", 1033.0, 10.0, 1.1),
    ("Lya", 1215.7, 75.0, 1.1),
    ("NV", 1240.1, 18.0, 1.1),
    ("OI1305", 1305.0, 1.7, 1.0),
    ("CII", 1335.3, 0.7, 1.0),
    ("SiIV", 1399.0, 8.5, 1.1),
    ("CIV", 1549.1, 26.0, 1.1),
    ("HeII1640", 1640.4, 5.0, 1.6),
    ("AlIII", 1857.4, 1.0, 1.0),
    ("SiIII", 1892.0, 3.0, 1.0),
    ("CIII", 1908.7, 19.0, 1.3),
    ("MgII", 2799.1, 30.0, 0.9),
    ("Hd", 4102.9, 5.5, 1.0),
    ("Hg", 4341.7, 14.0, 1.0),
    ("Hb", 4862.7, 46.0, 1.0),
    ("HeI", 5877.2, 5.0, 1.0),
    ("Ha", 6564.6, 195.0, 0.9),
)
"""Name, vacuum wavelength, median equivalent width (Å, rest), width over the quasar's own."""

NARROW: tuple[tuple[float, float], ...] = (
    (3426.8, 1.2),
    (3728.5, 2.0),
    (3869.9, 1.6),
    (4960.3, 4.4),
    (5008.2, 13.2),
    (6549.9, 1.3),
    (6585.3, 4.0),
    (6718.3, 1.6),
    (6732.7, 1.6),
)
"""Vacuum wavelength and equivalent width (Å) of [Ne V], [O II], [Ne III], [O III], [N II], [S II] in a quasar."""

IRON_BUMPS: tuple[tuple[float, float, float], ...] = (
    (2080.0, 60.0, 0.05),
    (2280.0, 70.0, 0.10),
    (2450.0, 90.0, 0.20),
    (2570.0, 60.0, 0.17),
    (2650.0, 60.0, 0.08),
    (2750.0, 60.0, 0.06),
    (2920.0, 70.0, 0.11),
    (3180.0, 90.0, 0.07),
    (4500.0, 35.0, 0.10),
    (4570.0, 40.0, 0.17),
    (4640.0, 35.0, 0.10),
    (5170.0, 35.0, 0.10),
    (5270.0, 40.0, 0.14),
    (5330.0, 40.0, 0.09),
)
"""Blends of Fe II: centre, σ (Å, rest) and height over the continuum; after Vestergaard & Wilkes 2001 and Véron-Cetty
et al. 2004 as they look at the width of broad lines.
"""


def qso(rng: np.random.Generator) -> Source:
    """A quasar at 0.05 < z < 4: power law, broad lines, iron, small blue bump, forest; some with broad absorption."""
    z = float(rng.gamma(3.0, 0.55)) if rng.random() < 0.75 else float(rng.uniform(0.05, 4.0))
    z = float(np.clip(z, 0.05, 4.2))
    rest = GRID / (1.0 + z)
    slope = truncated_normal(rng, -1.55, 0.35, -2.4, 0.3)
    base = (rest / 3000.0) ** slope
    # The blue side turns over towards Lyα, the red side of 5000 Å flattens.
    base *= np.where(rest < 1216.0, (np.maximum(rest, 300.0) / 1216.0) ** 1.1, 1.0)
    base *= np.where(rest > 5000.0, (rest / 5000.0) ** float(rng.uniform(0.3, 1.6)), 1.0)
    fwhm = log_normal(rng, 4200.0, 0.38)
    strength = log_normal(rng, 1.0, 0.35)
    if rng.random() < 0.03:
        strength *= 0.15  # weak-line quasars
    flux = base * (1.0 + _iron(rest, log_normal(rng, 1.0, 0.5), fwhm))
    bump = np.exp(-0.5 * ((np.log(rest / 3050.0)) / 0.17) ** 2) * np.where(rest < 3646.0, 1.0, 0.55)
    flux *= 1.0 + float(rng.uniform(0.05, 0.25)) * bump
    for _, wavelength, width, relative in BROAD:
        ew = width * strength * log_normal(rng, 1.0, 0.25) * (1.0 + z)
        shift = 1.0 - (float(rng.normal(700.0, 500.0)) if wavelength < 1700.0 else 0.0) / SPEED_OF_LIGHT_KM_S
        centre = wavelength * (1.0 + z) * shift
        level = float(np.interp(centre, GRID, base))
        for part, wide in ((0.55, 0.75), (0.45, 1.9)):
            add_line(flux, centre, part * ew * level, fwhm * relative * wide)
    narrow = log_normal(rng, 1.0, 0.7)
    for wavelength, width in NARROW:
        centre = wavelength * (1.0 + z)
        level = float(np.interp(centre, GRID, base))
        add_line(flux, centre, width * narrow * (1.0 + z) * level, float(rng.uniform(300.0, 700.0)))
    subtype = "quasar"
    if z > 1.1 and rng.random() < 0.14:
        flux = flux * np.exp(-_broad_absorption(rest, rng))
        subtype = "BAL quasar"
    flux = flux * _forest(rest, z, rng)
    host = 0.0
    if z < 0.6:
        host = float(rng.uniform(0.0, 0.5)) * (1.0 - z / 0.6)
        if host > 0.02:
            galaxy = redshifted(starlight(rng, "old", 180.0), z, "old")
            flux = scaled(flux, 6000.0, 1.0 - host) + scaled(galaxy, 6000.0, host)
    return Source(
        normalised(_reddened_at(flux, z, rng)),
        "qso",
        subtype=subtype,
        parameters={"fwhm_km_s": fwhm, "slope": slope, "line_strength": strength, "host_share": host},
        redshift=z,
        ebv=float(rng.exponential(0.04)),
    )


def _iron(rest: FloatArray, strength: float, fwhm: float) -> FloatArray:
    total = np.zeros(GRID.size)
    for centre, sigma, height in IRON_BUMPS:
        if rest[0] - 3.0 * sigma < centre < rest[-1] + 3.0 * sigma:
            wide = np.hypot(sigma, 0.5 * centre * fwhm / SPEED_OF_LIGHT_KM_S / FWHM)
            low, high = np.searchsorted(rest, (centre - 3.5 * wide, centre + 3.5 * wide))
            total[low:high] += height * np.exp(-0.5 * ((rest[low:high] - centre) / wide) ** 2)
    return total * strength


def _broad_absorption(rest: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Optical depth of troughs to the blue of C IV, Si IV, N V, and in one of five of Mg II and Al III."""
    depth = np.zeros(GRID.size)
    outflow, width = float(rng.uniform(4000.0, 17_000.0)), float(rng.uniform(1200.0, 4500.0))
    lines = {1549.1: 1.0, 1396.8: 0.6, 1240.1: 0.8, 1215.7: 0.5, 1033.8: 0.7}
    if rng.random() < 0.2:
        lines |= {2799.1: 0.7, 1857.4: 0.7}
    peak = float(rng.uniform(0.6, 3.0))
    for wavelength, part in lines.items():
        for piece in range(3):
            v = outflow + (piece - 1) * width * 0.7
            x = SPEED_OF_LIGHT_KM_S * (1.0 - rest / wavelength)
            depth += peak * part * 0.6 * np.exp(-0.5 * ((x - v) / (0.45 * width)) ** 2)
    return depth


def _forest(rest: FloatArray, z: float, rng: np.random.Generator) -> FloatArray:
    """Transmission of the gas between: the Lyα forest line by line in blocks, and the Lyman limit."""
    through = np.ones(GRID.size)
    inside = int(np.searchsorted(rest, 1215.7 * 0.995))
    if inside < 5:
        return through
    zs = GRID[:inside] / 1215.67 - 1.0
    mean = 0.751 * ((1.0 + zs) / 4.5) ** 2.9 - 0.132
    # A log-normal field, correlated over some 120 km/s, in the place of single clouds.
    field = np.repeat(rng.normal(0.0, 1.0, inside // 3 + 1), 3)[:inside]
    through[:inside] = np.exp(-np.maximum(mean, 0.03) * np.exp(1.2 * field - 0.35))
    limit = int(np.searchsorted(rest, 912.0))
    if limit > 0:
        through[:limit] *= float(rng.uniform(0.0, 0.5))
    return through


def _reddened_at(flux: FloatArray, z: float, rng: np.random.Generator) -> FloatArray:
    """Dust of the quasar itself, as in the Small Magellanic Cloud (∝ 1/λ^1.2), in few of them."""
    ebv = float(rng.exponential(0.02)) if rng.random() < 0.9 else float(rng.uniform(0.05, 0.3))
    rest = GRID / (1.0 + z)
    return flux * 10.0 ** (-0.4 * ebv * 1.39 * (np.maximum(rest, 900.0) / 1e4) ** -1.2)


def bl_lac(rng: np.random.Generator) -> Source:
    """A BL Lac object: a power law, in some with the faint features of its galaxy, a few per cent deep."""
    z = float(np.clip(rng.gamma(3.0, 0.13), 0.03, 1.2))
    slope = truncated_normal(rng, -1.1, 0.4, -2.0, 0.0)
    flux = (GRID / 6000.0) ** slope * np.exp(-float(rng.normal(0.0, 0.05)) * np.log(GRID / 6000.0) ** 2)
    host = float(rng.uniform(0.02, 0.3)) if rng.random() < 0.4 and z < 0.7 else 0.0
    if host:
        galaxy = redshifted(starlight(rng, "old", 220.0), z, "old")
        flux = scaled(flux, 6000.0, 1.0 - host) + scaled(galaxy, 6000.0, host)
    return Source(
        normalised(flux),
        "bl_lac",
        subtype="BL Lac with host" if host else "BL Lac",
        parameters={"slope": slope, "host_share": host},
        redshift=z,
        ebv=float(rng.exponential(0.05)),
    )


def _galaxy_redshift(rng: np.random.Generator, most: float, near: float) -> float:
    """Most beyond 0.01; a share `near` are neighbours whose shift is a star's, of either sign."""
    if rng.random() < near:
        return float(rng.uniform(-0.001, 0.004))
    return float(np.clip(rng.gamma(2.0, 0.28 * most), 0.004, most))


def quiet(rng: np.random.Generator) -> Source:
    """A galaxy of old stars: the break at 4000 Å, Ca II, the G band, Mg b and Na D; globular clusters at z near 0."""
    z = _galaxy_redshift(rng, 0.45, 0.1)
    population = "old" if rng.random() < 0.85 else "middle"
    sigma = float(rng.uniform(70.0, 320.0)) if z > 0.004 else float(rng.uniform(10.0, 180.0))
    stars = starlight(rng, population, sigma)
    depth = np.zeros(GRID.size)
    extra = float(rng.uniform(0.0, 1.0)) if population == "old" else 0.0
    for air, width in ((5172.7, 1.3), (5183.6, 1.0), (5167.3, 0.7), (5890.0, 0.9), (5895.9, 0.8)):
        add_line(depth, vacuum(air), extra * width, FWHM * float(np.hypot(sigma, 60.0)))  # metal-rich stars
    flux = redshifted(stars * np.exp(-depth), z, population)
    return Source(
        normalised(flux),
        "galaxy.quiet",
        subtype=f"quiet galaxy, {population} stars",
        parameters={"sigma_km_s": sigma, "metal_excess": extra},
        redshift=z,
        ebv=float(rng.exponential(0.04)),
    )


def emission(rng: np.random.Generator) -> Source:
    """A galaxy with lines: star-forming, starburst, Seyfert 2, LINER or Seyfert 1."""
    kind = chosen(rng, {"star-forming": 0.55, "starburst": 0.15, "Seyfert 2": 0.12, "LINER": 0.08, "Seyfert 1": 0.10})
    z = _galaxy_redshift(rng, 0.6, 0.2 if kind in ("star-forming", "starburst") else 0.03)
    sigma = (
        float(rng.uniform(40.0, 110.0)) if kind in ("star-forming", "starburst") else float(rng.uniform(90.0, 250.0))
    )
    population = {"star-forming": chosen(rng, {"middle": 0.6, "young": 0.4}), "starburst": "young"}.get(kind, "old")
    stars = redshifted(starlight(rng, population, sigma), z, population)
    median = {"star-forming": 35.0, "starburst": 220.0, "Seyfert 2": 40.0, "LINER": 6.0, "Seyfert 1": 40.0}[kind]
    ha = log_normal(rng, median, 0.6)
    if kind in ("star-forming", "starburst"):
        ratios = nebulae.h_ii_ratios(rng, float(rng.beta(2.0, 2.5) if kind == "star-forming" else rng.beta(5.0, 2.0)))
        dust = float(rng.exponential(0.25 if kind == "star-forming" else 0.1))
    else:
        ratios = _active_ratios(rng, kind == "LINER")
        dust = float(rng.exponential(0.25))
    gas = nebulae.lines(ratios, FWHM * sigma, 1.0 + z)
    # Dust of the galaxy reddens its lines as a power law that has the true ratio between Hα and Hβ.
    gas *= (GRID / (1.0 + z) / 6564.6) ** (3.3 * dust)
    level = _at_ha(stars, z)
    flux = stars + ha * (1.0 + z) * level / 2.86 * gas
    if kind == "starburst":
        nebular = nebulae.continuum(11_000.0)
        flux = flux + ha * level / 2.86 * np.interp(GRID / (1.0 + z), GRID, nebular)
    parameters = {"ha_ew_a": ha, "sigma_km_s": sigma, "dust_ebv": dust}
    if kind == "Seyfert 1":
        fwhm = log_normal(rng, 3200.0, 0.45)
        parameters["fwhm_km_s"] = fwhm
        power = (GRID / (1.0 + z) / 5500.0) ** float(rng.uniform(-1.8, -0.8))
        share = float(rng.uniform(0.15, 0.6))
        light = scaled(power, 5500.0, share / (1.0 - share) * at(stars, 5500.0))
        flux = flux + light * (1.0 + _iron(GRID / (1.0 + z), log_normal(rng, 0.82, 0.5), fwhm))
        for _, wavelength, width, relative in BROAD[11:]:
            centre = wavelength * (1.0 + z)
            ew = width * log_normal(rng, 1.0, 0.3) * (1.0 + z)
            add_line(flux, centre, ew * float(np.interp(centre, GRID, light)), fwhm * relative)
    return Source(
        normalised(flux),
        "galaxy.emission",
        subtype=kind,
        parameters=parameters,
        redshift=z,
        ebv=float(rng.exponential(0.04)),
    )


def _at_ha(stars: FloatArray, z: float) -> float:
    """Starlight near Hα, or at the red end where that is beyond the grid."""
    return at(stars, min(6564.6 * (1.0 + z), 10_500.0), 50.0)


def _active_ratios(rng: np.random.Generator, liner: bool) -> dict[str, float]:
    """Line ratios to Hβ of gas that a nucleus ionises."""
    oiii = (1.6 if liner else 8.5) * log_normal(rng, 1.0, 0.3)
    return {
        "OIII": oiii * 1.335,
        "NII": 2.86 * (1.1 if liner else 0.95) * 1.34 * log_normal(rng, 1.0, 0.25),
        "SII": 2.86 * (0.9 if liner else 0.5) * log_normal(rng, 1.0, 0.25),
        "OI": 2.86 * (0.25 if liner else 0.12) * log_normal(rng, 1.0, 0.3),
        "OII": (4.5 if liner else 2.5) * log_normal(rng, 1.0, 0.3),
        "NeIII": 0.09 * oiii,
        "OIII4363": 0.02 * oiii,
        "HeII": 0.03 if liner else 0.22 * log_normal(rng, 1.0, 0.3),
        "HeI5876": 0.13,
        "ArIII": 0.02 * oiii,
        "SIII": 1.0 * log_normal(rng, 1.0, 0.3),
    }
