"""Hot stars: what is measured on them is what they were made with, and gravity tells them from white dwarfs."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from specvet.data.simulate.hot_lines import dust, narrow, place
from specvet.data.simulate.hydrogen_atmosphere import emergent, hydrogen_star
from specvet.data.simulate.kinds import KINDS, make
from specvet.data.simulate.physics import broadened, reddened, zeros
from specvet.data.simulate.source import GRID, Source
from specvet.spectra import Spectrum, read
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import pixels_of

SHARED = Path(__file__).parents[3].parent / "shared" / "spectra"

MINE = [key for key, kind in KINDS.items() if kind.maker.startswith(("hot:", "white_dwarfs:"))]

INDO_US = {
    "hb_wide": (14.0, 22.0),
    "hg_wide": (14.0, 23.0),
    "balmer_core": (0.39, 0.52),
    "cak": (0.4, 4.7),
    "cat8542": (1.5, 3.5),
    "mgb": (0.1, 1.0),
    "gband": (0.6, 2.6),
}
"""Where A dwarfs of the Indo-US library lie (spEigenStar-55734 of idlspec2d: A1V, A4V, A4V, A6IV, A8V)."""


def seen(source: Source) -> Spectrum:
    """Its noiseless light as SDSS would resolve it."""
    flux = reddened(broadened(source.flux, 160.0), source.ebv)
    return Spectrum(GRID[::2].copy(), flux[::2].copy(), ivar=np.full(GRID[::2].size, 1e6), medium="vacuum")


def measured(source: Source, *names: str) -> dict[str, float]:
    found = Meter(pixels_of(seen(source))).measure(names, BUILTIN_INDICES)
    values = {n: found[n].value for n in names}
    return {n: np.nan if value is None else value for n, value in values.items()}


@lru_cache(maxsize=32)
def sample(kind: str, n: int = 12) -> tuple[Source, ...]:
    return tuple(make(kind, np.random.default_rng([5, i])) for i in range(n))


def median(kind: str, *names: str) -> dict[str, float]:
    found = [measured(s, *names) for s in sample(kind)]
    return {n: float(np.nanmedian([m[n] for m in found])) for n in names}


def last_line(teff: float, log_g: float) -> int:
    """Upper level of the last Balmer line that is a dip of its own, 1 % deep, as SDSS would resolve it."""
    flux, last = broadened(hydrogen_star(teff, log_g), 160.0), 3
    for upper in range(4, 26):
        here, above, below = (911.7634 / (0.25 - u**-2.0) for u in (upper, upper + 0.5, upper - 0.5))
        dip = flux[np.abs(GRID - here).argmin()]
        rim = min(flux[np.abs(GRID - above).argmin()], flux[np.abs(GRID - below).argmin()])
        if dip > 0.99 * rim:
            break
        last = upper
    return last


@pytest.mark.parametrize("kind", MINE)
def test_a_source_is_of_its_kind_finite_and_the_same_from_the_same_seed(kind: str) -> None:
    for s in sample(kind, 12)[:6]:
        assert s.kind == kind
        assert s.subtype
        assert s.flux.shape == GRID.shape
        assert np.isfinite(s.flux).all()
        assert s.flux.min() >= 0.0
        assert np.median(s.flux) == pytest.approx(1.0, abs=0.01)
        assert s.parameters["teff_k"] > 4_000.0
        assert s.ebv >= 0.0
        assert s.redshift == 0.0
    again = make(kind, np.random.default_rng([5, 3]))
    np.testing.assert_array_equal(again.flux, sample(kind)[3].flux)
    assert again.parameters == sample(kind)[3].parameters


def test_gravity_ends_the_balmer_series_where_it_does_in_stars() -> None:
    ends = [last_line(9_500.0, 3.0), last_line(9_500.0, 4.0), last_line(29_000.0, 5.6), last_line(13_000.0, 8.2)]
    # Horizontal branch, A0 V, sdB, DA. The Indo-US library shows 19 in A1 V, 17 in A4 V, Koester's DA of log g 8 11.
    assert ends == pytest.approx([21, 20, 14, 12], abs=1)


def test_the_balmer_jump_is_deep_in_a_stars_and_gone_in_white_dwarfs() -> None:
    def jump(teff: float, log_g: float) -> float:
        flux = hydrogen_star(teff, log_g)
        return float(np.interp(3600.0, GRID, flux) / np.interp(4020.0, GRID, flux))

    assert jump(9_500.0, 4.0) == pytest.approx(0.36, abs=0.04)  # A1 V HD 95418: 0.37
    assert jump(14_500.0, 4.0) == pytest.approx(0.62, abs=0.06)  # B5 V HD 173087: 0.58
    assert 0.9 < jump(12_000.0, 8.0) < jump(20_000.0, 8.0)


def test_lines_are_the_broader_the_higher_the_gravity() -> None:
    cores = {kind: median(kind, "balmer_core")["balmer_core"] for kind in ("wd.DA", "a_star", "bhb", "sdb", "b_star")}
    assert cores["wd.DA"] < 0.36 < 0.39 < cores["a_star"] < 0.54 < cores["bhb"] < 0.68
    assert cores["wd.DA"] < 0.45 < cores["sdb"] < cores["b_star"] < 0.7


def test_a_stars_measure_like_those_of_the_indo_us_library() -> None:
    for name, value in median("a_star", *INDO_US).items():
        low, high = INDO_US[name]
        assert low < value < high, name


def test_a_stars_reach_from_a0_to_stars_that_lack_metals() -> None:
    stars = [make("a_star", np.random.default_rng([9, i])) for i in range(60)]
    poor = [s for s in stars if s.parameters["fe_h"] < -0.8]
    assert 5 <= len(poor) <= 20
    assert max(s.parameters["teff_k"] for s in poor) < 7_300.0
    widths = [measured(s, "hb")["hb"] for s in stars]
    # LAMOST's A stars have 4.8, 11.1 and 15.1 Å (10 %, median, 90 %).
    assert np.percentile(widths, [10, 50, 90]) == pytest.approx([5.5, 11.6, 14.2], abs=1.5)


def test_an_am_star_has_less_calcium_and_more_metals_than_its_like() -> None:
    drawn = (make("a_star", np.random.default_rng([6, i])) for i in range(100))
    stars = [s for s in drawn if s.parameters["fe_h"] > -0.7 and s.parameters["log_g"] > 3.5]
    for name, sign in (("cak", -1.0), ("mgb", 1.0)):
        am, others = (
            np.median([measured(s, name)[name] for s in stars if s.subtype.endswith("m") is flag])
            for flag in (True, False)
        )
        assert sign * (am - others) > 0.1, name


def test_helium_tells_the_hot_ones_apart() -> None:
    b, o, sdo, a = (
        median(kind, "hei4471", "heii4686", "heii5411", "hb_wide") for kind in ("b_star", "o_star", "sdo", "a_star")
    )
    assert 0.4 < b["hei4471"] < 1.5
    assert abs(b["heii4686"]) < 0.2
    assert o["heii5411"] > 0.5
    assert 2.0 < o["hb_wide"] < 5.0
    assert 0.9 < sdo["heii4686"] < 3.0
    assert sdo["heii5411"] > 0.6
    assert abs(a["heii5411"]) < 0.6  # a blend of Fe I
    assert a["hb_wide"] > 13.0
    normal = [s for s in sample("sdb", 12) if s.parameters["log_he_h"] > -2.5]
    assert all(0.1 < measured(s, "hei4471")["hei4471"] < 1.6 for s in normal)


def test_emission_of_a_be_star_is_what_it_was_made_with_and_falls_to_the_blue() -> None:
    for s in sample("be_star"):
        m = measured(s, "ha", "hb", "hd")
        photosphere = 4.5
        assert m["ha"] == pytest.approx(s.parameters["ha_ew_a"] + photosphere, abs=5.0 - 0.12 * s.parameters["ha_ew_a"])
        assert m["ha"] < m["hb"] < m["hd"]
        assert m["hd"] > 2.0


def test_a_herbig_star_has_oxygen_and_calcium_in_emission() -> None:
    stars = sample("herbig")
    found = [measured(s, "ha", "cat8542") for s in stars]
    assert np.median([m["ha"] for m in found]) < -10.0
    assert np.median([m["cat8542"] for m in found]) < 0.0
    line = place(6300.3)
    for s in stars:
        here, beside = np.interp((line, line + 12.0), GRID, s.flux)
        assert here > 1.02 * beside


def test_a_narrow_line_takes_away_its_equivalent_width() -> None:
    depth = zeros()
    narrow(depth, ((4481.23, 1.0), (6347.11, 0.5)), 0.05)
    taken = np.trapezoid(1.0 - np.exp(-depth), GRID)
    assert taken == pytest.approx(0.075, rel=0.05)
    assert GRID[depth.argmax()] == pytest.approx(4482.49, abs=0.3)  # vacuum


def test_between_the_nodes_a_model_is_what_it_would_be() -> None:
    for teff, log_g in ((16_700.0, 7.75), (8_300.0, 3.8)):
        wavelength, flux = emergent(teff, log_g)
        ratio = hydrogen_star(teff, log_g) / np.interp(GRID, wavelength, flux)
        assert np.std(ratio / np.median(ratio)) < 0.012


def test_dust_is_bounded_and_has_its_mean() -> None:
    drawn = [dust(np.random.default_rng(i), 0.2) for i in range(400)]
    assert np.mean(drawn) == pytest.approx(0.2, rel=0.15)
    assert min(drawn) >= 0.0
    assert max(drawn) == pytest.approx(1.2)  # six times the mean


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")
@pytest.mark.parametrize(
    ("path", "teff", "log_g"), [("gd108", 27_000.0, 5.6), ("hz4", 14_700.0, 8.0), ("hd93521", 33_000.0, 3.8)]
)
def test_a_standard_star_has_the_light_of_its_model(path: str, teff: float, log_g: float) -> None:
    real = read(SHARED / "standards" / "esookestan" / f"f{path}.dat")[0]
    model = np.interp(real.wavelength, GRID, broadened(hydrogen_star(teff, log_g), 500.0))
    near = (real.wavelength > 3900.0) & (real.wavelength < 7000.0)
    ratio = real.flux[near] / model[near]
    assert np.std(ratio / np.median(ratio)) < 0.06
