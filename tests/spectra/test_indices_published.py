"""Indices of real and model stars against what is published of them. The spectra lie beside the checkout.

Sources: M dwarf subtypes of TiO5, Reid, Hawley & Gizis 1995 (AJ 110, 1838, ±0.5 subtypes); ζ of disc dwarfs near 1,
Lépine, Rich & Shara 2007 (ApJ 669, 1235); types of SDSS template dwarfs, Bochanski et al. 2007 (AJ 133, 531), of MILES,
Sánchez-Blázquez et al. 2006 (MNRAS 371, 703), of library stars, Pickles 1998 (PASP 110, 863); gravity in the Ca
triplet, Jones, Alloin & Jones 1984 (ApJ 283, 457); Balmer lines of white dwarfs, strongest near 13,000 K, Bergeron,
Saffer & Liebert 1992 (ApJ 394, 228), models of Koester 2010 (MmSAI 81, 921).
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import specvet
from specvet.records.schema import Measurement
from specvet.spectra import Spectrum, measure_line
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import measure

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}"),
]

MILES, PICKLES = "templates/miles/MILES_res2.50_star_{}V.fits", "templates/pickles/{}.dat"


def first(path: str) -> Spectrum:
    return specvet.read(SHARED / path)[0]


def values(path: str, *names: str) -> dict[str, float]:
    found: dict[str, Measurement] = measure(names, first(path), BUILTIN_INDICES)
    return {name: m.value for name, m in found.items() if m.value is not None}


@pytest.mark.parametrize(
    ("path", "subtype"),
    [
        ("templates/bochanski_m/m2.all.na.k.fits", 2.0),
        ("templates/bochanski_m/m4.all.na.k.fits", 4.0),
        (MILES.format("m0804"), 0.0),
        (MILES.format("m0452"), 0.5),
        (MILES.format("m0531"), 1.0),
        (MILES.format("m0183"), 1.0),
        (MILES.format("m0890"), 6.0),
        (PICKLES.format("m1v"), 1.0),
        (PICKLES.format("m3v"), 3.0),
        (PICKLES.format("m4v"), 4.0),
    ],
)
def test_tio5_gives_m_dwarfs_their_published_subtype(path: str, subtype: float) -> None:
    """Within three times the published scatter: old types of single stars differ by a subtype among authors."""
    assert values(path, "m_subtype")["m_subtype"] == pytest.approx(subtype, abs=1.5)


@pytest.mark.parametrize(("name", "subtype"), [("m2", 2.0), ("m4", 4.0)])
def test_mean_dwarfs_of_sdss_lie_on_the_published_relations(name: str, subtype: float) -> None:
    found = values(f"templates/bochanski_m/{name}.all.na.k.fits", "m_subtype", "zeta", "cah1", "vo_a")
    assert found["m_subtype"] == pytest.approx(subtype, abs=0.5)
    assert found["zeta"] == pytest.approx(1.0, abs=0.1)
    assert 0.7 < found["cah1"] < 0.85
    assert found["vo_a"] == pytest.approx(1.0, abs=0.05)  # VO comes in at M5 to M6


def test_dwarfs_of_miles_have_the_zeta_of_the_disc() -> None:
    for name in ("m0012", "m0183", "m0399", "m0531", "m0591", "m0690", "m0890"):
        assert values(MILES.format(name), "zeta")["zeta"] == pytest.approx(1.05, abs=0.15)


def test_the_calcium_triplet_is_stronger_in_giants_than_in_dwarfs() -> None:
    giants = [values(PICKLES.format(f"m{i}iii"), "cat")["cat"] for i in (1, 2, 3)]
    dwarfs = [values(PICKLES.format(f"m{i}v"), "cat")["cat"] for i in (1, 2, 3)]
    supergiant = values(PICKLES.format("m2i"), "cat")["cat"]
    assert max(dwarfs) < 5.0 < 6.5 < min(giants) < supergiant


def test_potassium_and_sodium_are_stronger_in_dwarfs_than_in_giants() -> None:
    for i in (4, 5):
        dwarf, giant = (values(PICKLES.format(f"m{i}{lum}"), "nai8190", "ki7699") for lum in ("v", "iii"))
        assert dwarf["nai8190"] > giant["nai8190"] + 2.0
        assert dwarf["ki7699"] > giant["ki7699"] + 1.0


def test_vo_comes_in_behind_m6_in_giants() -> None:
    early = [values(PICKLES.format(f"m{i}iii"), "vo7434", "vo7912") for i in (0, 2, 4)]
    late = values(PICKLES.format("m8iii"), "vo7434", "vo7912", "vo_a")
    assert min(v["vo7434"] for v in early) > 0.9 > 0.6 > late["vo7434"]
    assert late["vo_a"] < 0.8
    assert min(v["vo7912"] for v in early) > 0.75 > 0.4 > late["vo7912"]


def test_zro_is_strong_in_s_stars_alone() -> None:
    """HD 035155 and HD 007351 are S stars of every catalogue."""
    s_stars = [values(MILES.format(x), "zro", "zro_6474", "zro_5551") for x in ("m0053", "m0177")]
    giants = [values(MILES.format(x), "zro", "zro_6474") for x in ("m0674", "m0481", "m0669", "m0497", "m0705")]
    assert max(s["zro"] for s in s_stars) < 0.82 < 0.88 < min(g["zro"] for g in giants)
    assert max(s["zro_6474"] for s in s_stars) < 0.75 < 0.8 < min(g["zro_6474"] for g in giants)


def test_cyanogen_is_strong_in_bright_k_giants_and_absent_in_dwarfs() -> None:
    giants = [values(PICKLES.format(f"k{i}iii"), "cn_4215")["cn_4215"] for i in (1, 2, 3)]
    dwarfs = [values(PICKLES.format(f"k{i}v"), "cn_4215")["cn_4215"] for i in (0, 5)]
    assert max(giants) < 0.85 < 1.0 < min(dwarfs)


def test_swan_bands_and_cyanogen_part_carbon_stars_from_carbon_white_dwarfs() -> None:
    """The mean carbon star and mean DQ of SDSS: both have C2, only the star has CN."""
    stars = {s.id: s for s in specvet.read(SHARED / "templates/sdss_idlspec2d/spEigenStar-53054.fits")}
    names = ("c2_4737", "c2_5165", "c2_5635", "cn_6925", "cn_7910", "cn_4215")
    found = {key: measure(names, stars[key], BUILTIN_INDICES) for key in ("Carbon", "CarbonWD", "K5", "M2", "WD")}
    for key in ("Carbon", "CarbonWD"):
        assert found[key]["c2_5165"].value < 0.7
        assert found[key]["c2_4737"].value < 0.8
        assert found[key]["c2_5635"].value < 0.9
    for key in ("K5", "M2", "WD"):
        assert found[key]["c2_5165"].value > 0.9
        assert found[key]["c2_5635"].value > 0.91
    for name, limit in (("cn_6925", 0.93), ("cn_7910", 0.93), ("cn_4215", 0.85)):
        assert found["Carbon"][name].value < limit < found["CarbonWD"][name].value


def koester(t: int, logg: int = 800) -> Spectrum:
    return first(f"templates/koester_da/koester_t{t}g{logg}a6l.spec")


def test_balmer_lines_of_white_dwarf_models_are_strongest_near_13000_kelvin() -> None:
    widths = {
        t: measure(["balmer_wide"], koester(t), BUILTIN_INDICES)["balmer_wide"].value
        for t in (6000, 8000, 10000, 12000, 15000, 20000, 30000, 40000, 60000)
    }
    assert max(widths, key=lambda t: widths[t]) in (12000, 15000)
    hotter = [widths[t] for t in (15000, 20000, 30000, 40000, 60000)]
    cooler = [widths[t] for t in (12000, 10000, 8000, 6000)]
    assert hotter == sorted(hotter, reverse=True)
    assert cooler == sorted(cooler, reverse=True)


def test_gravity_broadens_the_lines_of_a_hot_white_dwarf() -> None:
    found = [
        measure_line(koester(20000, g), "Hβ", band=(4711.0, 5011.0), sides=((4660.0, 4705.0), (5030.0, 5080.0)),
                     medium="air").fwhm.value
        for g in (750, 800, 850)
    ]  # fmt: skip
    assert found == sorted(found)
    assert found[-1] > 1.3 * found[0]


def test_emission_of_cataclysmic_variables_is_what_others_measured() -> None:
    """The manifest of the spectra holds Hα and Hβ widths that were measured by its authors, in their own windows."""
    ratios: dict[str, list[float]] = {"ha": [], "hb": []}
    with (SHARED / "manifest.csv").open(newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            note = re.search(r"Halpha (-?\d+), Hbeta (-?\d+)", row["notes"])
            if note is None or not row["path"].startswith("sdss/cv_ascii"):
                continue
            found = measure(["ha", "hb"], first(row["path"]), BUILTIN_INDICES)
            for key, theirs in zip(("ha", "hb"), map(float, note.groups()), strict=True):
                ours = found[key].value
                if theirs > 20 and ours is not None:
                    ratios[key].append(-ours / theirs)
    for found_ratios in ratios.values():
        assert len(found_ratios) > 60
        assert np.median(found_ratios) == pytest.approx(1.0, abs=0.1)
        low, high = np.percentile(found_ratios, [16, 84])
        assert 0.75 < low < high < 1.3


def test_a_dwarf_nova_has_broad_lines_and_an_active_m_dwarf_narrow_ones() -> None:
    nova = measure_line(first("sdss/cv_ascii/spec-1409-52824-0339-catB.dat"), "Hα", resolution=1900.0)
    assert nova.resolved
    assert nova.kind == "emission"
    assert nova.intrinsic_km_s.value > 600
    # An M6e dwarf of MILES (FWHM 2.5 Å); windows close by, since TiO makes humps to both sides.
    near = {"band": (6554.0, 6572.0), "sides": ((6544.0, 6553.0), (6573.0, 6582.0))}
    active = measure_line(first(MILES.format("m0890")), "Hα", **near)
    assert active.kind == "emission"
    assert active.intrinsic_km_s.value < 200
