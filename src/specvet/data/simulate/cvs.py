"""Cataclysmic variables: a white dwarf, a disc or a column of gas, and a donor, in varying shares.

Where each kind lies was set by the 107 catalogued variables of SDSS (Szkody et al. 2002-2011, AJ) in medians and
ranges of equivalent widths, line widths and slopes; none was fitted by itself. The shares of the styles within a kind
were chosen by hand to that end. What the states look like: Warner 1995, Cataclysmic Variable Stars.
"""

from __future__ import annotations

import numpy as np

from specvet.data.simulate import discs
from specvet.data.simulate.companions import donor_star, made, pooled, scaled, sky_velocity, teff_between, with_donor
from specvet.data.simulate.cvs_magnetic import intermediate_polar, low_state, polar
from specvet.data.simulate.discs import Profile
from specvet.data.simulate.nebulae import continuum as nebular_continuum
from specvet.data.simulate.physics import chosen, log_normal, normalised, rotated, truncated_normal
from specvet.data.simulate.source import GRID, FloatArray, Source

V_BAND = 5500.0
"""Å: where shares of light are stated."""


def quiescence(rng: np.random.Generator) -> Source:
    """A dwarf nova in quiescence, seen at low to middle inclination: single, broad lines or peaks that just part."""
    outer = float(rng.uniform(100.0, 600.0))
    profile = _disc_profile(rng, outer, float(rng.uniform(0.15, 0.75)), local=float(rng.uniform(150.0, 400.0)))
    return _quiet(rng, profile, "cv.quiescence")


def double_peaked(rng: np.random.Generator) -> Source:
    """A dwarf nova in quiescence at high inclination: two peaks, in eclipsing systems with a core cut below them."""
    sin_i = float(rng.uniform(0.85, 0.995))
    outer = float(truncated_normal(rng, 620.0, 95.0, 440.0, 900.0))
    profile = _disc_profile(rng, outer, sin_i, local=float(rng.uniform(110.0, 220.0)))
    return _quiet(rng, profile, "cv.double_peaked", eclipsing=sin_i > 0.96)


def _disc_profile(rng: np.random.Generator, outer: float, sin_i: float, local: float) -> Profile:
    spot = (float(rng.uniform(0.0, 0.15)), float(rng.uniform(-1.0, 1.0)))
    return discs.disc(
        outer,
        float(rng.uniform(0.05, 0.16)),
        float(rng.uniform(1.3, 1.9)),
        sin_i,
        local,
        spot,
    )


def _quiet(rng: np.random.Generator, profile: Profile, kind: str, eclipsing: bool = False) -> Source:
    """White dwarf + disc + donor, with the disc's lines on top."""
    style = chosen(rng, {"disc": 0.57, "white dwarf": 0.3, "donor": 0.13})
    wide = style == "donor" and rng.random() < 0.35
    ha = log_normal(rng, 120.0, 0.65)
    if style == "white dwarf":
        wd_share, donor_share = float(rng.uniform(0.4, 0.85)), max(float(rng.uniform(-0.06, 0.09)), 0.0)
        ha = log_normal(rng, 240.0, 0.55)  # of the faint disc alone
    elif style == "donor":
        wd_share = float(rng.uniform(0.0, 0.2))
        donor_share = float(rng.uniform(0.35, 0.85) if wide else rng.uniform(0.12, 0.65))
        ha *= 1.4
    else:
        wd_share = float(rng.uniform(0.0, 0.35)) if rng.random() < 0.5 else 0.0
        donor_share = float(rng.exponential(0.045)) if rng.random() < 0.55 else 0.0
    if rng.random() < 0.08:  # hardly accreting: lines that the light of the stars nearly hides
        ha *= float(rng.uniform(0.08, 0.3))
    donor_share = min(donor_share, 0.9 - min(wd_share, 0.5))
    disc_share = max(1.0 - wd_share - donor_share, 0.08)
    index = truncated_normal(rng, -1.75, 0.6, -2.8, 0.2)
    thin = float(rng.uniform(0.0, 0.35))
    light = scaled(discs.thick_continuum(index), V_BAND, 1.0 - thin)
    light = light + scaled(nebular_continuum(float(rng.uniform(9000.0, 14_000.0)), merged=True), V_BAND, thin)
    light *= disc_share
    flux, wd_teff = light, 0.0
    if wd_share > 0.0:
        white_dwarf = pooled("wd.DA", rng, teff_between(10_000.0, 25_000.0))
        wd_teff = white_dwarf.parameters.get("teff_k", 0.0)
        flux = flux + scaled(rotated(white_dwarf.flux, 150.0), V_BAND, wd_share)
    name = ""
    if donor_share > 0.01:
        star, name = donor_star(rng, wide)
        flux = with_donor(flux, star, donor_share)
    if flux is light:
        flux = light.copy()
    hb = ha * truncated_normal(rng, 0.62, 0.16, 0.25, 1.1)
    _add_quiet_lines(rng, flux, light, profile, ha, hb, eclipsing)
    return Source(
        normalised(flux),
        kind,
        subtype=f"DN {style}{' ' + name if name else ''}{' eclipsing' if eclipsing else ''}",
        parameters={
            "ha_ew_a": ha,
            "fwhm_km_s": profile.fwhm_km_s,
            "donor_share": donor_share,
            "wd_share": wd_share,
            "wd_teff_k": wd_teff,
            "disc_index": index,
        },
        velocity_km_s=sky_velocity(rng),
        ebv=float(rng.exponential(0.07)),
    )


def _add_quiet_lines(
    rng: np.random.Generator,
    flux: FloatArray,
    light: FloatArray,
    profile: Profile,
    ha: float,
    hb: float,
    eclipsing: bool,
) -> None:
    """Balmer, helium, iron, calcium and Paschen emission of a thin disc, on its own light."""
    fall = truncated_normal(rng, 0.78, 0.08, 0.55, 0.95)
    balmer = discs.balmer_widths(ha, hb, fall)
    stretch = float(rng.uniform(1.0, 1.18))
    for n, (centre, width) in enumerate(balmer.items()):
        discs.add_series(flux, light, {centre: width}, profile, stretch ** min(n, 4))
    helium = ha * truncated_normal(rng, 0.17, 0.11, 0.01, 0.48)
    widths = {w: helium * r for w, r in discs.HELIUM_I.items()}
    iron = hb * float(rng.exponential(0.07))
    widths |= {w: iron * r + widths.get(w, 0.0) for w, r in discs.FE_II.items()}
    if rng.random() < 0.93:  # K over Hβ: 0.11 in the median of the cataclysmic variables of SDSS
        k = hb * log_normal(rng, 0.16, 0.7)
        widths |= {w: k * r for w, r in discs.CA_HK.items()}
    if rng.random() < 0.6:
        calcium = log_normal(rng, 16.0, 0.7)
        widths |= {w: calcium * r for w, r in discs.CA_TRIPLET.items()}
    widths |= discs.paschen_widths(float(rng.uniform(0.07, 0.28)) * ha)
    discs.add_series(flux, light, widths, profile, 1.03)
    ionised = hb * log_normal(rng, 0.05, 0.7)
    discs.add_series(flux, light, {discs.HE_II_4686: ionised}, profile, 1.15)
    if ionised > 8.0:
        bowen = ionised * float(rng.uniform(0.1, 0.5))
        discs.add_series(flux, light, {w: bowen * p for w, p in discs.BOWEN.items()}, profile)
    if eclipsing:  # gas above the disc, seen against it, cuts below the valley between the peaks
        core = discs.gaussian(float(rng.uniform(180.0, 330.0)))
        depth = np.zeros(GRID.size)
        strength = float(np.clip(rng.exponential(0.9), 0.1, 3.0))
        for n, centre in enumerate(discs.BALMER[:8]):
            core.add(depth, centre, strength * (0.4 + 0.3 * min(n, 3)))
        flux *= np.exp(-depth)


def outburst(rng: np.random.Generator) -> Source:
    """A dwarf nova in outburst or on its way: a thick, blue disc; broad, shallow Balmer absorption with cores."""
    index = truncated_normal(rng, -2.35, 0.3, -2.95, -1.3)
    flux = discs.thick_continuum(index, float(rng.uniform(-0.2, 0.3)), float(rng.uniform(0.0, 0.15)))
    phase = chosen(rng, {"peak": 0.6, "rise or decline": 0.4})
    hb = float(rng.uniform(3.0, 12.0)) if phase == "peak" else float(rng.uniform(2.0, 9.0))
    hb_core_fwhm = float(rng.uniform(1000.0, 2100.0))
    widths = discs.balmer_widths(hb * float(rng.uniform(0.2, 0.6)), hb, float(rng.uniform(0.92, 1.08)))
    widths |= {w: hb * float(rng.uniform(0.05, 0.2)) * r for w, r in discs.HELIUM_I.items()}
    flux *= np.exp(-discs.thick_lines(widths, hb_core_fwhm, hb_core_fwhm * float(rng.uniform(1.6, 2.6))))
    light = flux.copy()
    fwhm = float(rng.uniform(450.0, 1100.0))
    peaked = rng.random() < 0.35
    if peaked:
        profile = _disc_profile(rng, float(rng.uniform(280.0, 520.0)), 0.8, local=float(rng.uniform(150.0, 250.0)))
    else:
        profile = discs.gaussian(fwhm)
    strength = log_normal(rng, 5.0 if phase == "peak" else 14.0, 0.6)
    fall = float(rng.uniform(0.3, 0.65))
    emission = discs.balmer_widths(strength, strength * fall, float(rng.uniform(0.5, 0.8)))
    emission |= {w: strength * float(rng.uniform(0.03, 0.18)) * r for w, r in discs.HELIUM_I.items()}
    discs.add_series(flux, light, emission, profile)
    he_ii = 0.0
    if rng.random() < 0.5:
        he_ii = log_normal(rng, 2.2, 0.6)
        discs.add_series(flux, light, {discs.HE_II_4686: he_ii}, profile, 1.2)
        bowen = he_ii * float(rng.uniform(0.2, 1.2))
        discs.add_series(flux, light, {w: bowen * p for w, p in discs.BOWEN.items()}, profile)
    donor_share = 0.0
    if phase != "peak" and rng.random() < 0.4:
        donor_share = float(rng.uniform(0.02, 0.12))
        star, _ = donor_star(rng)
        flux = with_donor(flux, star, donor_share)
    return Source(
        normalised(flux),
        "cv.outburst",
        subtype=f"DN {phase}",
        parameters={
            "disc_index": index,
            "ha_ew_a": strength,
            "hb_absorption_a": hb,
            "he_ii_ew_a": he_ii,
            "fwhm_km_s": profile.fwhm_km_s,
            "donor_share": donor_share,
        },
        velocity_km_s=sky_velocity(rng),
        ebv=float(rng.exponential(0.07)),
    )


def nova_like(rng: np.random.Generator) -> Source:
    """A nova-like or an old nova: a disc that stays bright, weak Balmer emission, He II and Bowen."""
    style = chosen(rng, {"RW Tri": 0.4, "UX UMa": 0.25, "SW Sex": 0.25, "old nova": 0.1})
    index = truncated_normal(rng, -2.15, 0.35, -2.8, -1.0)
    flux = discs.thick_continuum(index, float(rng.uniform(-0.2, 0.25)), float(rng.uniform(-0.05, 0.08)))
    absorbed = 0.0
    if style == "UX UMa" or rng.random() < 0.2:
        absorbed = float(rng.uniform(1.5, 6.0))
        core = float(rng.uniform(1100.0, 2000.0))
        widths = discs.balmer_widths(0.3 * absorbed, absorbed, 1.02)
        flux *= np.exp(-discs.thick_lines(widths, core, 2.2 * core))
    light = flux.copy()
    fwhm = float(rng.uniform(550.0, 1400.0))
    profile = discs.gaussian(fwhm, 0.4 * fwhm, float(rng.uniform(0.0, 0.3)))
    ha = log_normal(rng, {"UX UMa": 9.0, "old nova": 22.0}.get(style, 20.0), 0.5)
    hb = ha * float(rng.uniform(0.3, 0.65))
    widths = discs.balmer_widths(ha, hb, float(rng.uniform(0.6, 0.85)))
    he_i = ha * float(rng.uniform(0.03, 0.17))
    widths |= {w: he_i * r for w, r in discs.HELIUM_I.items()}
    widths |= discs.paschen_widths(0.08 * ha)
    discs.add_series(flux, light, widths, profile)
    he_ii = hb * log_normal(rng, 0.9 if style == "old nova" else 0.45, 0.5)
    bowen = he_ii * float(rng.uniform(0.3, 1.1))
    discs.add_series(flux, light, {discs.HE_II_4686: he_ii, discs.HE_II_5411: 0.15 * he_ii}, profile, 1.1)
    discs.add_series(flux, light, {w: bowen * p for w, p in discs.BOWEN.items()}, profile, 1.1)
    if style == "SW Sex" and rng.random() < 0.6:  # absorption across the lines near phase 0.5, deepest in He I
        depth = np.zeros(GRID.size)
        core_profile = discs.gaussian(float(rng.uniform(250.0, 400.0)))
        for centre, part in zip((*discs.BALMER[1:5], *discs.HELIUM_I), [0.5] * 4 + [1.0] * 11, strict=True):
            core_profile.add(depth, centre, part * float(rng.uniform(0.3, 1.2)))
        flux *= np.exp(-depth)
    elif rng.random() < 0.1:  # a wind
        depth = np.zeros(GRID.size)
        wind = discs.gaussian(float(rng.uniform(500.0, 1000.0)))
        blue = -float(rng.uniform(900.0, 2000.0))
        for centre, part in ((discs.BALMER[0], 1.0), (discs.BALMER[1], 0.6), (next(iter(discs.HELIUM_I)), 0.4)):
            wind.add(depth, centre, part * float(rng.uniform(0.5, 2.0)), shift_km_s=blue)
        flux *= np.exp(-depth)
    return Source(
        normalised(flux),
        "cv.nova_like",
        subtype=style,
        parameters={
            "disc_index": index,
            "ha_ew_a": ha,
            "he_ii_ew_a": he_ii,
            "hb_absorption_a": absorbed,
            "fwhm_km_s": fwhm,
        },
        velocity_km_s=sky_velocity(rng),
        ebv=float(rng.exponential(0.12)),
    )


def magnetic(rng: np.random.Generator) -> Source:
    """A polar or an intermediate polar; polars in a high state, with or without cyclotron humps, or in a low state."""
    style = chosen(rng, {"polar": 0.58, "intermediate polar": 0.32, "low state": 0.10})
    return {"polar": polar, "intermediate polar": intermediate_polar, "low state": low_state}[style](rng)


def helium(rng: np.random.Generator) -> Source:
    """An AM CVn star: helium lines in emission without hydrogen, or in outburst the shallow absorption of a disc."""
    style = chosen(rng, {"emission": 0.7, "outburst": 0.3})
    if style == "emission":
        flux = discs.thick_continuum(truncated_normal(rng, -2.2, 0.4, -3.2, -1.2))
        if rng.random() < 0.4:
            white_dwarf = scaled(made("wd.DB", rng).flux, V_BAND, float(rng.uniform(0.2, 0.6)))
            flux = scaled(flux, V_BAND) + white_dwarf
        light = flux.copy()
        profile = _disc_profile(rng, float(rng.uniform(300.0, 700.0)), 0.7, local=float(rng.uniform(250.0, 450.0)))
        # Half of them show the central spike of the white dwarf.
        spike = discs.gaussian(float(rng.uniform(150.0, 280.0))) if rng.random() < 0.5 else None
        he_i = log_normal(rng, 32.0, 0.5)
        widths = {w: he_i * r * float(rng.uniform(0.8, 1.2)) for w, r in discs.HELIUM_I.items()}
        discs.add_series(flux, light, widths, profile)
        he_ii = he_i * float(rng.uniform(0.1, 0.6))
        discs.add_series(flux, light, {discs.HE_II_4686: he_ii}, profile, 1.1)
        if spike is not None:
            part = float(rng.uniform(0.04, 0.12))
            discs.add_series(flux, light, {w: part * v for w, v in widths.items()}, spike)
        if rng.random() < 0.4:
            iron = float(rng.uniform(1.0, 4.0))
            discs.add_series(flux, light, {w: iron * r for w, r in discs.FE_II.items()}, profile)
        if rng.random() < 0.4:
            calcium = float(rng.uniform(1.0, 5.0))
            discs.add_series(flux, light, {w: calcium * r for w, r in discs.CA_HK.items()}, profile)
    else:
        flux = discs.thick_continuum(truncated_normal(rng, -2.6, 0.25, -3.2, -2.0), float(rng.uniform(-0.1, 0.2)))
        he_i = float(rng.uniform(2.0, 6.0))
        widths = {w: he_i * min(r, 0.7) for w, r in discs.HELIUM_I.items()}
        core = float(rng.uniform(1300.0, 2200.0))
        flux *= np.exp(-discs.thick_lines(widths, core, 2.0 * core))
        light = flux.copy()
        he_ii = float(rng.uniform(0.5, 4.0))
        profile = discs.gaussian(float(rng.uniform(900.0, 1600.0)))
        discs.add_series(flux, light, {discs.HE_II_4686: he_ii}, profile)
        filled = float(rng.uniform(0.0, 0.5)) * he_i
        discs.add_series(flux, light, {w: filled * r for w, r in discs.HELIUM_I.items()}, profile, 0.6)
    return Source(
        normalised(flux),
        "cv.helium",
        subtype=f"AM CVn {style}",
        parameters={"he_i_5876_ew_a": he_i, "he_ii_ew_a": he_ii, "fwhm_km_s": profile.fwhm_km_s},
        velocity_km_s=sky_velocity(rng),
        ebv=float(rng.exponential(0.05)),
    )
