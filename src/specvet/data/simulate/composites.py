"""Stars with gas, and light of two objects in one fibre: what passes for a cataclysmic variable, and why it is none."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate import discs, nebulae
from specvet.data.simulate.companions import at, made, pooled, scaled, sky_velocity, teff_between
from specvet.data.simulate.physics import (
    add_gaussian,
    chosen,
    log_normal,
    normalised,
    planck,
    power_law,
    reddened,
    shifted,
    truncated_normal,
    vacuum,
)
from specvet.data.simulate.source import GRID, FloatArray, Source
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

LI_6708 = vacuum(6707.84)
"""The resonance doublet (6707.76 and 6707.91 Å, air) as one line."""

RAMAN: tuple[tuple[float, float], ...] = ((6825.0, 1.0), (7082.0, 0.28))
"""O VI 1032 and 1038 scattered by hydrogen: Å (vacuum), strength; Schmid 1989, A&A 211, L31."""

ORDINARY: dict[str, float] = {
    "a_star": 2.0,
    "f_star": 4.0,
    "g_star": 5.0,
    "k_giant": 3.0,
    "k_dwarf": 3.0,
    "b_star": 0.7,
}
"""Stars of no class that a task asks for, by weight."""


def t_tauri(rng: np.random.Generator) -> Source:
    """A star before the main sequence: Hα, Li I 6708 in absorption, in accreting ones a veil and forbidden lines.

    Equivalent widths of Hα and lithium: Barrado y Navascués & Martín 2003, AJ 126, 2997; Basri et al. 1991, ApJ 377,
    625. Gravity lies between dwarf and giant, so the light of both is mixed.
    """
    accretes = rng.random() < 0.6
    if rng.random() < 0.65:
        dwarf = pooled("m_dwarf.quiet", rng, teff_between(3000.0, 3950.0, -0.5))
        teff = dwarf.parameters.get("teff_k", 3600.0)
        giant = pooled("gm.giant", rng, teff_between(teff - 150.0, teff + 200.0))
        star = scaled(dwarf.flux, 6500.0, 0.65) + scaled(giant.flux, 6500.0, 0.35)
    else:
        dwarf = pooled("k_dwarf", rng, teff_between(3900.0, 5200.0, -0.5))
        giant = pooled("k_giant", rng, teff_between(3900.0, 5200.0, -0.8))
        star = scaled(dwarf.flux, 6500.0, 0.7) + scaled(giant.flux, 6500.0, 0.3)
    lithium = float(rng.uniform(0.25, 0.75))
    depth = np.zeros(GRID.size)
    nebulae.add_line(depth, LI_6708, lithium, 45.0)
    star = star * np.exp(-depth)
    veil = float(rng.exponential(0.45)) if accretes else 0.0
    # The shock's Paschen continuum, and its Balmer jump.
    hot = planck(float(rng.uniform(7500.0, 10_000.0))) * np.where(GRID < 3700.0, 2.2, 1.0)
    light = star + scaled(hot, 6500.0, max(veil, 1e-3))
    flux = light.copy()
    ha = log_normal(rng, 42.0 if accretes else 4.0, 0.8 if accretes else 0.5)
    fwhm = truncated_normal(rng, 230.0, 75.0, 100.0, 430.0) if accretes else float(rng.uniform(60.0, 160.0))
    profile = discs.gaussian(fwhm, 0.5 * fwhm, 0.35)
    hb_share = float(rng.uniform(0.15, 0.4)) if accretes else float(rng.uniform(0.5, 0.9))
    widths = discs.balmer_widths(ha, ha * hb_share, float(rng.uniform(0.6, 1.0)))
    calcium = float(rng.uniform(2.0, 20.0) if accretes else rng.uniform(1.0, 6.0))
    widths |= {w: calcium * r for w, r in discs.CA_HK.items()}
    he_i = (0.03 * ha if accretes else 0.1) * float(rng.uniform(0.3, 1.5))
    widths |= {w: he_i * r for w, r in discs.HELIUM_I.items()}
    if accretes and rng.random() < 0.6:
        triplet = log_normal(rng, 7.0, 0.8)
        widths |= {w: triplet * r for w, r in discs.CA_TRIPLET.items()}
        iron = float(rng.exponential(1.0))
        widths |= {w: iron * r + widths.get(w, 0.0) for w, r in discs.FE_II.items()}
    discs.add_series(flux, light, widths, profile)
    if accretes and rng.random() < 0.35:  # a wind eats the blue wing of Hα
        cut = np.zeros(GRID.size)
        discs.gaussian(0.5 * fwhm).add(cut, discs.BALMER[0], float(rng.uniform(1.0, 4.0)), shift_km_s=-0.45 * fwhm)
        flux *= np.exp(-cut)
    forbidden = 0.0
    if accretes and rng.random() < 0.65:
        forbidden = log_normal(rng, 1.5, 0.9)
        wind = discs.gaussian(110.0)
        jets = {vacuum(6300.30): forbidden, vacuum(6363.78): 0.33 * forbidden, vacuum(5577.34): 0.05 * forbidden}
        if rng.random() < 0.4:
            jets |= {
                vacuum(6730.82): 0.4 * forbidden,
                vacuum(6716.44): 0.22 * forbidden,
                vacuum(6583.45): 0.3 * forbidden,
            }
        discs.add_series(flux, light, jets, wind)
    return Source(
        normalised(flux),
        "t_tauri",
        subtype=f"{'CTTS' if accretes else 'WTTS'} {dwarf.subtype}".strip(),
        parameters={
            "ha_ew_a": ha,
            "fwhm_km_s": fwhm,
            "li_6708_ew_a": lithium,
            "veiling": veil,
            "oi_6300_ew_a": forbidden,
        },
        velocity_km_s=float(rng.normal(12.0, 12.0)),
        ebv=float(rng.exponential(0.35)),
    )


def symbiotic(rng: np.random.Generator) -> Source:
    """An M giant and the gas that its hot companion ionises; Kenyon 1986, Belczyński et al. 2000, A&AS 146, 407."""
    giant = pooled("gm.giant", rng, teff_between(2900.0, 3650.0, -1.5))
    share = log_normal(rng, 0.08, 0.8)
    hot = nebulae.continuum(float(rng.uniform(10_000.0, 20_000.0)))
    light = scaled(giant.flux, 6000.0)
    flux = light + scaled(hot, 6000.0, share)
    fwhm = float(rng.uniform(70.0, 280.0))
    ha = log_normal(rng, 70.0, 0.7)
    decrement = float(rng.uniform(4.0, 14.0))
    level = at(flux, 6530.0, 20.0)
    ionised = float(rng.uniform(0.2, 1.1)) if rng.random() < 0.8 else 0.0
    nebular = log_normal(rng, 0.6, 1.0) if rng.random() < 0.7 else 0.0
    ratios = {
        "HeII": ionised,
        "OIII": nebular * 1.335,
        "OIII4363": nebular * float(rng.uniform(0.15, 0.8)),
        "NeIII": nebular * float(rng.uniform(0.1, 0.5)),
        "HeI5876": float(rng.uniform(0.1, 0.35)),
        "HeI4471": float(rng.uniform(0.04, 0.12)),
        "HeI6678": float(rng.uniform(0.06, 0.2)),
        "HeI7065": float(rng.uniform(0.06, 0.25)),
        "NII": 0.1 * nebular,
    }
    hb_flux = ha * level / decrement
    flux = flux + hb_flux * nebulae.lines(ratios, fwhm)
    nebulae.add_line(flux, discs.BALMER[0], hb_flux * (decrement - 2.86), fwhm * 1.15)
    raman = 0.0
    if ionised > 0.35 and rng.random() < 0.6:
        raman = log_normal(rng, 5.0, 0.6)
        for centre, part in RAMAN:
            add_gaussian(flux, centre, raman * part * at(light, centre, 15.0) / 20.0, 830.0)
        if rng.random() < 0.5:
            for air, part in ((6087.0, 0.6), (5721.0, 0.4)):  # [Fe VII]
                nebulae.add_line(flux, vacuum(air), hb_flux * part * float(rng.uniform(0.1, 0.5)), fwhm)
    return Source(
        normalised(flux),
        "symbiotic",
        subtype=f"symbiotic {giant.subtype}".strip(),
        parameters={
            "ha_ew_a": ha,
            "he_ii_over_hb": ionised,
            "oiii_over_hb": nebular,
            "raman_ew_a": raman,
            "fwhm_km_s": fwhm,
            "nebular_share_6000": share,
            "giant_teff_k": giant.parameters.get("teff_k", 0.0),
        },
        velocity_km_s=float(rng.normal(0.0, 60.0)),
        ebv=float(rng.exponential(0.3)),
    )


def wd_ms(rng: np.random.Generator) -> Source:
    """A detached DA + M dwarf: the white dwarf's Balmer lines in the blue, TiO in the red, in half of them narrow Hα.

    Temperatures, types and shares: Rebassa-Mansergas et al. 2010, MNRAS 402, 620 (SDSS).
    """
    white = made("wd.DA", rng, teff_between(9000.0, 35_000.0), 3)
    cool = pooled("m_dwarf.quiet", rng, teff_between(2800.0, 3600.0, -0.7))
    blue_share = 1.0 - float(np.clip(rng.exponential(0.07), 0.006, 0.25))
    hot = scaled(white.flux, 4500.0, blue_share)
    hidden = scaled(cool.flux, 4500.0, 1.0 - blue_share)
    # A dwarf brighter than this in the red would leave the white dwarf to the noise.
    hidden *= min(1.0, 4.0 * at(hot, 8000.0) / at(hidden, 8000.0))
    flux = hot + shifted(hidden, float(rng.normal(0.0, 90.0)))
    active = rng.random() < 0.5
    ha = log_normal(rng, 4.0, 0.7) if active else 0.0
    if active:
        fwhm = float(rng.uniform(70.0, 200.0))
        profile = discs.gaussian(fwhm)
        widths = discs.balmer_widths(ha, ha * float(rng.uniform(0.6, 1.1)), 0.9)
        widths |= {w: 0.8 * ha * r for w, r in discs.CA_HK.items()}
        # The dwarf's own light carries its activity; where the white dwarf heats its face, more.
        discs.add_series(flux, hidden * (float(rng.uniform(1.0, 2.5)) if rng.random() < 0.3 else 1.0), widths, profile)
    return Source(
        normalised(flux),
        "wd_ms",
        subtype=f"{white.subtype}+{cool.subtype}",
        parameters={
            "wd_teff_k": white.parameters.get("teff_k", 0.0),
            "wd_log_g": white.parameters.get("log_g", 0.0),
            "ms_teff_k": cool.parameters.get("teff_k", 0.0),
            "wd_share_4500": blue_share,
            "ha_ew_a": ha,
        },
        velocity_km_s=sky_velocity(rng, 30.0) + float(rng.normal(0.0, 40.0)),
        ebv=float(rng.exponential(0.03)),
    )


def planetary_nebula(rng: np.random.Generator) -> Source:
    """A planetary nebula: lines hundreds of Å wide in equivalent width on next to no continuum."""
    ratios, kind = nebulae.planetary_ratios(rng)
    fwhm = float(rng.uniform(30.0, 75.0))
    kelvin = float(rng.uniform(8500.0, 15_000.0))
    flux = nebulae.lines(ratios, fwhm, density=float(rng.uniform(0.0, 1.0))) + nebulae.continuum(kelvin)
    central = float(rng.exponential(1.0))
    # Below the lines the fibre also sees the central star, or the field's old stars.
    level = at(nebulae.continuum(kelvin), 5300.0)
    flux = flux + scaled(power_law(-3.7), 5300.0, central * level)
    if rng.random() < 0.4:
        flux = flux + scaled(pooled("k_giant", rng).flux, 5300.0, float(rng.exponential(1.0)) * level)
    return Source(
        normalised(flux),
        "planetary_nebula",
        subtype=f"PN {kind}",
        parameters={"oiii_over_hb": ratios["OIII"], "he_ii_over_hb": ratios["HeII"], "fwhm_km_s": fwhm},
        velocity_km_s=float(rng.normal(0.0, 70.0)),
        ebv=float(rng.exponential(0.35)),
    )


def h_ii(rng: np.random.Generator) -> Source:
    """An H II region, with or without the light of its stars or of stars in front."""
    excitation = float(rng.beta(1.6, 2.6))
    ratios = nebulae.h_ii_ratios(rng, excitation)
    fwhm = float(rng.uniform(25.0, 60.0))
    flux = nebulae.lines(ratios, fwhm) + nebulae.continuum(float(rng.uniform(7000.0, 11_500.0)))
    what = chosen(rng, {"bare": 0.35, "OB star": 0.35, "field star": 0.3})
    if what == "bare":
        flux = flux + scaled(power_law(float(rng.uniform(-2.0, 1.0))), 6500.0, float(rng.uniform(0.0, 0.02)))
    else:
        kind = "b_star" if what == "OB star" else chosen(rng, ORDINARY)
        star = pooled(kind, rng).flux
        ha = log_normal(rng, 40.0, 1.0)
        flux = flux + scaled(star, 6500.0, 2.86 / ha)
    return Source(
        normalised(flux),
        "h_ii",
        subtype=f"H II {what}",
        parameters={"excitation": excitation, "oiii_over_hb": ratios["OIII"], "fwhm_km_s": fwhm},
        velocity_km_s=float(rng.normal(0.0, 35.0)),
        ebv=float(rng.exponential(0.45)),
    )


def nebular_sky(rng: np.random.Generator) -> Source:
    """An ordinary star on nebulous sky: narrow Hα, [N II], [S II], sometimes [O III], left over or taken twice."""
    kind = chosen(rng, ORDINARY)
    star = made(kind, rng)
    sign = -1.0 if rng.random() < 0.25 else 1.0
    ratios = nebulae.h_ii_ratios(rng, float(rng.beta(1.2, 3.0)))
    ha = log_normal(rng, 4.0, 1.0)
    velocity = sky_velocity(rng)
    shift = 1.0 + (float(rng.normal(0.0, 15.0)) - velocity) / SPEED_OF_LIGHT_KM_S
    gas = nebulae.lines(ratios, float(rng.uniform(22.0, 45.0)), shift)
    flux = star.flux + sign * ha * at(star.flux, 6530.0, 20.0) / 2.86 * _extinguished(gas, rng)
    return Source(
        normalised(flux),
        "nebular_sky",
        subtype=f"{star.subtype or kind} + nebula {'over' if sign < 0.0 else 'under'}subtracted",
        parameters={"ha_ew_a": sign * ha, "oiii_over_hb": ratios["OIII"], **_of_star(star)},
        velocity_km_s=velocity,
        ebv=float(rng.exponential(0.25)),
    )


def _extinguished(gas: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Gas behind some more dust than the star, with Hα as it was."""
    extra = float(rng.exponential(0.3))
    dusty = reddened(gas, extra)
    at_ha = slice(*np.searchsorted(GRID, (6555.0, 6575.0)))
    return dusty * float(gas[at_ha].sum() / dusty[at_ha].sum())


def _of_star(star: Source) -> dict[str, float]:
    return {k: v for k, v in star.parameters.items() if k in ("teff_k", "log_g")}


PAIRS: dict[tuple[str, str], float] = {
    ("a_star", "k_giant"): 2.0,
    ("a_star", "g_star"): 1.0,
    ("f_star", "m_dwarf.quiet"): 2.0,
    ("g_star", "m_dwarf.quiet"): 2.0,
    ("f_star", "k_dwarf"): 1.0,
    ("g_star", "k_giant"): 1.0,
    ("b_star", "k_giant"): 1.0,
    ("a_star", "m_dwarf.quiet"): 1.5,
    ("k_dwarf", "m_dwarf.active"): 1.0,
    ("sdb", "k_dwarf"): 1.0,
    ("sdb", "g_star"): 1.0,
}
"""Blends by weight: neither star is of a class that a task asks for."""


def blend(rng: np.random.Generator) -> Source:
    """Two stars in one fibre, hot in the blue and cool in the red; every answer stays NO."""
    pairs = {f"{hot} {cool}": weight for (hot, cool), weight in PAIRS.items()}
    first, second = chosen(rng, pairs).split()
    hot, cool = made(first, rng), pooled(second, rng)
    share = float(rng.uniform(0.2, 0.85))
    velocity = sky_velocity(rng)
    apart = float(rng.normal(0.0, 50.0))
    flux = scaled(hot.flux, 6000.0, share) + scaled(shifted(cool.flux, apart), 6000.0, 1.0 - share)
    return Source(
        normalised(flux),
        "blend",
        subtype=f"{hot.subtype or first}+{cool.subtype or second}",
        parameters={
            "hot_share_6000": share,
            "apart_km_s": apart,
            "hot_teff_k": hot.parameters.get("teff_k", 0.0),
            "cool_teff_k": cool.parameters.get("teff_k", 0.0),
        },
        velocity_km_s=velocity,
        ebv=float(rng.exponential(0.12)),
    )


LAMPS: tuple[tuple[float, float], ...] = (
    (4046.56, 0.35),
    (4358.33, 1.0),
    (5460.74, 1.3),
    (5769.60, 0.3),
    (5790.66, 0.3),
    (5889.95, 1.0),
    (5895.92, 0.8),
    (5682.63, 0.3),
    (5688.20, 0.4),
    (6154.23, 0.15),
    (6160.75, 0.2),
)
"""City light, mercury and sodium, at rest: Å (air; NIST), strength."""


def cross_talk(rng: np.random.Generator) -> Source:
    """An ordinary star with a few per cent of a bright neighbour on the detector; every answer stays NO."""
    star_kind = chosen(rng, ORDINARY)
    star = made(star_kind, rng)
    velocity = sky_velocity(rng)
    neighbour = chosen(rng, {"nebula": 0.35, "lamps": 0.25, "cool star": 0.25, "hot star": 0.15})
    level = log_normal(rng, 0.04, 0.5)
    shift = 1.0 - velocity / SPEED_OF_LIGHT_KM_S
    if neighbour == "nebula":
        ratios, _ = nebulae.planetary_ratios(rng)
        light = nebulae.lines(ratios, 45.0, shift) * float(rng.uniform(20.0, 120.0))
    elif neighbour == "lamps":
        light = np.zeros(GRID.size)
        for air, part in LAMPS:
            nebulae.add_line(light, vacuum(air) * shift, part * float(rng.uniform(20.0, 120.0)), 40.0)
    elif neighbour == "cool star":
        light = shifted(pooled("m_dwarf.quiet", rng).flux, float(rng.normal(0.0, 60.0))) * float(rng.uniform(1.0, 6.0))
    else:
        light = shifted(pooled("b_star", rng).flux, float(rng.normal(0.0, 60.0))) * float(rng.uniform(1.0, 6.0))
    flux = star.flux + level * light
    return Source(
        normalised(flux),
        "cross_talk",
        subtype=f"{star.subtype or star_kind} + {neighbour}",
        parameters={"level": level, **_of_star(star)},
        velocity_km_s=velocity,
        ebv=float(rng.exponential(0.12)),
    )
