"""Magnetic cataclysmic variables: polars (high and low states) and intermediate polars.

Cyclotron humps: Wickramasinghe & Ferrario 2000, PASP 112, 873; spectra as in Szkody et al. 2002-2011 (SDSS).
"""

from __future__ import annotations

import numpy as np

from specvet.data.simulate import discs
from specvet.data.simulate.companions import donor_star, pooled, scaled, sky_velocity, teff_between, with_donor
from specvet.data.simulate.discs import Profile
from specvet.data.simulate.nebulae import continuum as nebular_continuum
from specvet.data.simulate.physics import log_normal, normalised, truncated_normal
from specvet.data.simulate.source import GRID, FloatArray, Source

V_BAND = 5500.0


def cyclotron(rng: np.random.Generator, field_mg: float, sharpness: float) -> tuple[FloatArray, int]:
    """Humps at the harmonics of a field (MG), each lower and wider to the blue, and how many lie on the grid.

    The fundamental is at 10,710 Å / (B / 100 MG) in a cool plasma; heat widens each harmonic.
    """
    flux = np.zeros(GRID.size)
    fundamental = 10_710.0 / (field_mg / 100.0)
    seen = 0
    fall = float(rng.uniform(0.6, 1.3))
    for n in range(1, 12):
        centre = fundamental / n * float(rng.uniform(0.985, 1.0))
        if not 3500.0 < centre < 11_500.0:
            continue
        seen += 1
        width = centre * 0.04 * (1.0 + 0.15 * n) / sharpness
        x = (GRID - centre) / np.where(centre < GRID, 1.35 * width, width)
        flux += (centre / 7000.0) ** fall * np.exp(-0.5 * x**2) / (1.0 + 0.12 * n)
    return flux, seen


def _stream(rng: np.random.Generator) -> Profile:
    """A narrow line of the donor's face or the threading region on the broad one of the stream."""
    broad = float(rng.uniform(700.0, 1300.0))
    return discs.gaussian(broad, float(rng.uniform(180.0, 400.0)), float(rng.uniform(0.15, 0.6)))


def polar(rng: np.random.Generator) -> Source:
    """A polar in a high state: strong He II near Hβ, an inverted or flat decrement, humps in some."""
    hump_share = float(rng.uniform(0.15, 0.75)) if rng.random() < 0.45 else 0.0
    donor_share = float(rng.uniform(0.03, 0.35)) if rng.random() < 0.4 else 0.0
    thin = float(rng.uniform(0.05, 0.4))
    index = truncated_normal(rng, -1.1, 0.7, -2.4, 0.6)
    light = scaled(discs.thick_continuum(index, float(rng.uniform(-0.2, 0.5))), V_BAND, 1.0 - thin)
    light = light + scaled(nebular_continuum(float(rng.uniform(10_000.0, 18_000.0)), merged=True), V_BAND, thin)
    flux = light.copy()
    field = truncated_normal(rng, 32.0, 18.0, 12.0, 90.0)
    if hump_share > 0.0:
        humps, seen = cyclotron(rng, field, float(rng.uniform(0.35, 0.8)))
        if seen:
            flux = flux + humps * (hump_share * float(light.mean()) / max(float(humps.mean()), 1e-3))
    subtype = "polar"
    if donor_share > 0.0:
        star, name = donor_star(rng)
        flux = with_donor(flux, star, donor_share)
        subtype += f" {name}"
    profile = _stream(rng)
    ha = log_normal(rng, 44.0, 0.5)
    hb = ha * truncated_normal(rng, 0.85, 0.2, 0.5, 1.4)
    widths = discs.balmer_widths(ha, hb, float(rng.uniform(0.75, 0.98)))
    he_i = ha * float(rng.uniform(0.12, 0.36))
    widths |= {w: he_i * r for w, r in discs.HELIUM_I.items()}
    widths |= discs.paschen_widths(0.15 * ha)
    he_ii = hb * truncated_normal(rng, 0.58, 0.25, 0.2, 1.3)
    widths |= {discs.HE_II_4686: he_ii, discs.HE_II_5411: he_ii * float(rng.uniform(0.08, 0.2))}
    bowen = he_ii * float(rng.uniform(0.05, 0.35))
    widths |= {w: bowen * p for w, p in discs.BOWEN.items()}
    if rng.random() < 0.4:
        calcium = float(rng.uniform(2.0, 12.0))
        widths |= {w: calcium * r for w, r in discs.CA_TRIPLET.items()}
        widths |= {w: 0.8 * calcium * r for w, r in discs.CA_HK.items()}
    discs.add_series(flux, light, widths, profile)
    return Source(
        normalised(flux),
        "cv.magnetic",
        subtype=subtype,
        parameters={
            "ha_ew_a": ha,
            "he_ii_ew_a": he_ii,
            "fwhm_km_s": profile.fwhm_km_s,
            "hump_share": hump_share,
            "field_mg": field,
            "donor_share": donor_share,
        },
        velocity_km_s=sky_velocity(rng) + float(rng.normal(0.0, 120.0)),
        ebv=float(rng.exponential(0.06)),
    )


def intermediate_polar(rng: np.random.Generator) -> Source:
    """An intermediate polar: a truncated disc with He II at 0.2 to 0.8 of Hβ, often a K or M donor."""
    index = truncated_normal(rng, -1.6, 0.45, -2.4, -0.4)
    light = discs.thick_continuum(index)
    flux = light.copy()
    subtype, donor_share = "intermediate polar", 0.0
    if rng.random() < 0.5:
        donor_share = float(rng.uniform(0.05, 0.5))
        star, name = donor_star(rng, wide=rng.random() < 0.5)
        flux = with_donor(flux, star, donor_share)
        subtype += f" {name}"
    inner = float(rng.uniform(0.15, 0.4))
    profile = discs.disc(
        float(rng.uniform(150.0, 420.0)), inner, 1.6, float(rng.uniform(0.3, 0.85)), float(rng.uniform(250.0, 450.0))
    )
    ha = log_normal(rng, 38.0, 0.5)
    hb = ha * truncated_normal(rng, 0.62, 0.15, 0.35, 1.0)
    widths = discs.balmer_widths(ha, hb, float(rng.uniform(0.65, 0.85)))
    he_i = ha * float(rng.uniform(0.08, 0.22))
    widths |= {w: he_i * r for w, r in discs.HELIUM_I.items()}
    widths |= discs.paschen_widths(0.1 * ha)
    he_ii = hb * truncated_normal(rng, 0.38, 0.16, 0.15, 0.9)
    widths |= {discs.HE_II_4686: he_ii, discs.HE_II_5411: 0.12 * he_ii}
    bowen = he_ii * float(rng.uniform(0.2, 0.8))
    widths |= {w: bowen * p for w, p in discs.BOWEN.items()}
    discs.add_series(flux, light, widths, profile)
    return Source(
        normalised(flux),
        "cv.magnetic",
        subtype=subtype,
        parameters={
            "ha_ew_a": ha,
            "he_ii_ew_a": he_ii,
            "fwhm_km_s": profile.fwhm_km_s,
            "disc_index": index,
            "donor_share": donor_share,
        },
        velocity_km_s=sky_velocity(rng),
        ebv=float(rng.exponential(0.12)),
    )


def low_state(rng: np.random.Generator) -> Source:
    """A polar that hardly accretes: white dwarf and M dwarf, plain cyclotron humps, narrow and weak Balmer lines."""
    field = truncated_normal(rng, 50.0, 18.0, 25.0, 90.0)
    star, name = donor_star(rng)
    white = pooled("wd.DA", rng, teff_between(8000.0, 16_000.0)).flux
    flux = with_donor(scaled(white, V_BAND, 0.5), star, float(rng.uniform(0.2, 0.55)), 3.0)
    humps, seen = cyclotron(rng, field, float(rng.uniform(0.9, 1.5)))
    if seen:
        flux = flux + humps * (float(rng.uniform(0.5, 1.6)) / float(humps.max()))
    light = flux.copy()
    ha = log_normal(rng, 9.0, 0.5)
    profile = discs.gaussian(float(rng.uniform(200.0, 600.0)))
    widths = discs.balmer_widths(ha, 0.7 * ha, 0.7) | {w: 0.05 * ha * r for w, r in discs.HELIUM_I.items()}
    discs.add_series(flux, light, widths, profile)
    return Source(
        normalised(flux),
        "cv.magnetic",
        subtype=f"polar low state {name}",
        parameters={"ha_ew_a": ha, "fwhm_km_s": profile.fwhm_km_s, "field_mg": field},
        velocity_km_s=sky_velocity(rng) + float(rng.normal(0.0, 120.0)),
        ebv=float(rng.exponential(0.05)),
    )
