"""Makers of white dwarfs without hydrogen or helium lines: DC, DQ (carbon), DZ (metals)."""

from __future__ import annotations

import numpy as np

from specvet.data.simulate.hot_lines import CA_II_HK, CA_II_TRIPLET, NA_D, Lines, broad, dust, place
from specvet.data.simulate.physics import add_band, chosen, normalised, planck, zeros
from specvet.data.simulate.source import FloatArray, Source

C_I: Lines = ((4371.4, 0.3), (4771.7, 0.55), (4932.05, 0.7), (5052.17, 1.0), (5380.34, 1.0), (6013.2, 0.5),
              (6587.6, 0.4),
              (7115.2, 0.6), (8335.15, 0.8), (9078.3, 1.4), (9094.8, 1.6), (9405.7, 1.4))  # fmt: skip
C_II: Lines = ((3920.7, 0.6), (4074.8, 0.7), (4267.2, 1.4), (4373.0, 0.4), (4619.2, 0.4), (4747.0, 0.4), (5139.2, 0.5),
               (5145.2, 0.6), (5648.0, 0.3), (5889.8, 0.4), (6578.05, 1.0), (6582.88, 0.8), (7115.6, 0.4),
               (7231.3, 0.9),
               (7236.4, 1.0))  # fmt: skip
MG_I: Lines = ((5183.6, 1.0), (5172.68, 0.8), (5167.32, 0.5))
FE_I: Lines = (
    (3581.2, 1.2), (3618.8, 0.6), (3647.8, 0.6), (3719.9, 1.2), (3734.9, 1.2), (3745.6, 0.8), (3758.2, 0.8),
    (3820.43, 1.0),
    (3859.91, 1.0), (4045.81, 0.6), (4063.59, 0.5), (4071.74, 0.45), (4271.76, 0.3), (4307.9, 0.35), (4325.76, 0.3),
    (4383.54, 0.5), (4404.75, 0.3), (5269.54, 0.25), (5328.04, 0.25), (5371.49, 0.15),
)  # fmt: skip
_MG_BLUE: Lines = ((3829.35, 0.5), (3832.3, 0.8), (3838.29, 1.0))
_BALMER: Lines = ((6562.8, 1.0), (4861.35, 0.6), (4340.47, 0.3))

_SWAN = (
    ((4365.2, 4371.4, 4382.5), 0.25), ((4678.6, 4684.8, 4697.6, 4715.2, 4737.1), 0.75), ((5097.7, 5129.3, 5165.2), 1.0),
    ((5501.9, 5540.7, 5585.5, 5635.5), 0.45), ((5958.7, 6004.9, 6059.7, 6122.1), 0.15),
)  # fmt: skip
"""Band heads in air of Δv = 2 to −2, and the strength of each sequence; Pearse & Gaydon 1976."""


def dc(rng: np.random.Generator) -> Source:
    """A continuum without lines deeper than 5 %."""
    teff = float(np.exp(rng.uniform(np.log(4_500.0), np.log(11_000.0))))
    flux, depth = planck(teff).copy(), zeros()
    parameters = {"teff_k": teff}
    if rng.random() < 0.25:  # a hint of something
        lines, ew = (_BALMER[:1], 0.8) if rng.random() < 0.5 else (CA_II_HK, 0.6)
        broad(depth, lines, ew * float(rng.uniform(0.3, 1.0)), 5.0)
    return _source(rng, "wd.DC", f"DC{min(round(50_400.0 / teff), 12)}", flux * np.exp(-depth), parameters)


def dq(rng: np.random.Generator) -> Source:
    """C2 Swan bands (cool), atomic carbon (warm and hot)."""
    sort = chosen(rng, {"DQ": 0.72, "DQpec": 0.08, "warm DQ": 0.12, "hot DQ": 0.08})
    depth = zeros()
    if sort == "hot DQ":
        teff, ew = float(rng.uniform(17_500.0, 24_000.0)), float(rng.uniform(3.0, 9.0))
        broad(depth, C_II, ew, 6.0, reach=15.0)
    elif sort == "warm DQ":
        teff, ew = float(rng.uniform(10_500.0, 16_500.0)), float(rng.uniform(3.0, 9.0))
        broad(depth, C_I, ew, 6.0, reach=15.0)
    else:
        teff, ew = float(rng.uniform(6_000.0, 10_500.0) if sort == "DQ" else rng.uniform(5_000.0, 6_500.0)), 0.0
    flux, parameters = planck(teff).copy(), {"teff_k": teff}
    if sort.startswith("DQ"):
        strength = float(np.exp(rng.uniform(np.log(0.08), np.log(0.7))) if sort == "DQ" else rng.uniform(0.3, 0.8))
        shift = 0.0 if sort == "DQ" else float(rng.uniform(100.0, 170.0))
        parameters |= {"swan_depth": strength, "swan_shift_a": -shift}
        swan(depth, strength, teff, shift)
        if teff > 8_500.0:
            broad(depth, C_I, float(rng.uniform(0.0, 2.0)), 4.0, reach=15.0)
    else:
        parameters["carbon_ew_a"] = ew
    return _source(rng, "wd.DQ", sort, flux * np.exp(-depth), parameters)


def swan(into: FloatArray, strength: float, teff: float, shift: float = 0.0) -> None:
    """Add the C2 bands of a dense gas: sharp to the red, rounded at the head, the bands of a sequence run together.

    `shift` (Å to the blue, at 5165) is what pressure does in the coolest (DQpec; Kowalski 2010, A&A 519, L8).
    """
    edge, fade = (70.0 if shift else 28.0), 30.0 + 20.0 * teff / 8_000.0
    for heads, weight in _SWAN:
        for i, head in enumerate(reversed(heads)):
            add_band(into, place(head) - shift * head / 5165.0, strength * weight * 0.8**i, fade, "red", edge)


def dz(rng: np.random.Generator) -> Source:
    """Ca II, Ca I, Mg I, Na D and Fe I in helium; the cooler, the denser and the broader. Some have hydrogen too."""
    letters = chosen(rng, {"DZ": 0.75, "DZA": 0.25})
    teff = float(np.exp(rng.uniform(np.log(5_500.0), np.log(12_000.0))))
    flux, depth = planck(teff).copy(), zeros()
    dense = (8_000.0 / teff) ** 3.0
    calcium = float(np.exp(rng.uniform(np.log(8.0), np.log(70.0))))
    # Most show calcium alone; those cool or recently polluted show the rest.
    others = float(np.exp(rng.uniform(np.log(0.05), np.log(0.6)))) if rng.random() < 0.45 else 0.01
    broad(depth, CA_II_HK, calcium, 8.0 * dense**0.6 * (calcium / 20.0) ** 0.4, 2.0, 80.0)
    broad(depth, ((4226.73, 1.0),), calcium * float(np.clip(0.15 * dense, 0.01, 0.6)), 5.0 * dense**0.5, 2.0, 60.0)
    broad(depth, MG_I, calcium * others * min(0.5 * dense, 1.2), 5.0 * dense**0.5, 2.0, 60.0)
    broad(depth, _MG_BLUE, calcium * others * 0.6, 4.0 * dense**0.5, 2.0, 40.0)
    broad(depth, FE_I, calcium * others * 0.4, 3.5 * dense**0.5, 2.0, 40.0)
    broad(depth, NA_D, calcium * others * float(np.clip(0.25 * dense, 0.0, 0.6)), 6.0 * dense**0.5, 2.0, 60.0)
    broad(depth, CA_II_TRIPLET, calcium * 0.06, 4.0, 2.0, 40.0)
    parameters = {"teff_k": teff, "ca_k_ew_a": calcium}
    if letters == "DZA":
        parameters["ha_ew_a"] = float(rng.uniform(1.0, 6.0))
        broad(depth, _BALMER, parameters["ha_ew_a"], 4.0)
    return _source(
        rng, "wd.DZ", f"{letters}{round(50_400.0 / teff)}", flux * (0.12 + 0.88 * np.exp(-depth)), parameters
    )


def _source(
    rng: np.random.Generator, kind: str, subtype: str, flux: FloatArray, parameters: dict[str, float]
) -> Source:
    velocity = float(rng.normal(28.0, 45.0))
    return Source(normalised(flux), kind, subtype, parameters, velocity, ebv=dust(rng, 0.01))
