"""White dwarfs: lines of hydrogen as in Koester's models, and of each type what marks it."""

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from specvet.agent import run_agent
from specvet.data.simulate import hydrogen
from specvet.data.simulate.hydrogen_atmosphere import hydrogen_star
from specvet.data.simulate.kinds import make
from specvet.data.simulate.physics import broadened, planck, zeros
from specvet.data.simulate.source import GRID, FloatArray, Source
from specvet.data.simulate.white_dwarfs_cool import swan
from specvet.data.simulate.white_dwarfs_magnetic import LINEAR, split
from specvet.policies import policy
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import Meter
from specvet.spectra.lines import air_to_vacuum
from specvet.spectra.pixels import pixels_of
from specvet.tasks import load_task
from specvet.tools import ZoomTool

SHARED = Path(__file__).parents[3].parent / "shared" / "spectra"

BANDS = {
    "ha": (6564.6, 110.0, 30.0),
    "hb": (4862.7, 100.0, 20.0),
    "hg": (4341.7, 75.0, 20.0),
    "hd": (4102.9, 50.0, 10.0),
}
"""Line → centre (Å, vacuum), half-width of the band, width of the sides."""

KOESTER = {
    (8_000.0, 7.5): (10.6, 11.4, 10.7, 9.4),
    (8_000.0, 8.5): (10.0, 10.6, 9.4, 7.0),
    (10_000.0, 8.0): (26.8, 29.8, 26.2, 19.5),
    (12_000.0, 7.5): (30.6, 39.2, 35.0, 24.6),
    (12_000.0, 8.0): (32.3, 39.1, 33.9, 23.1),
    (15_000.0, 8.0): (30.2, 39.6, 35.2, 23.3),
    (20_000.0, 7.5): (20.5, 27.1, 25.3, 19.3),
    (20_000.0, 8.5): (26.8, 34.4, 30.0, 18.4),
    (30_000.0, 8.0): (16.4, 20.6, 18.7, 12.5),
}
"""(Teff, log g) → equivalent widths (Å) of Hα to Hδ, measured on the DA models of Koester 2010, MemSAIt 81, 921."""


def equivalent_width(flux: FloatArray, centre: float, half: float, side: float) -> float:
    away = GRID - centre
    left, right = (away > -half - side) & (away < -half), (away > half) & (away < half + side)
    level = np.interp(GRID, [GRID[left].mean(), GRID[right].mean()], [flux[left].mean(), flux[right].mean()])
    band = np.abs(away) < half
    return float(np.trapezoid((1.0 - flux / level)[band], GRID[band]))


def seen(source: Source, snr: float = 1e3, seed: int = 0) -> Spectrum:
    """At rest, as SDSS would resolve it."""
    flux = broadened(source.flux, 160.0)[::2]
    keep = (GRID[::2] > 3_750.0) & (GRID[::2] < 9_200.0)
    error = flux[keep] / snr
    noisy = flux[keep] + np.random.default_rng(seed).normal(0.0, 1.0, error.size) * error
    return Spectrum(GRID[::2][keep].copy(), noisy, ivar=error**-2.0, medium="vacuum")


def measured(source: Source, *names: str) -> dict[str, float]:
    found = Meter(pixels_of(seen(source))).measure(names, BUILTIN_INDICES)
    values = {n: found[n].value for n in names}
    return {n: np.nan if value is None else value for n, value in values.items()}


@lru_cache(maxsize=32)
def sample(kind: str, n: int = 40) -> tuple[Source, ...]:
    return tuple(make(kind, np.random.default_rng([8, i])) for i in range(n))


@pytest.mark.parametrize("model", KOESTER)
def test_balmer_lines_are_as_strong_as_in_koesters_models(model: tuple[float, float]) -> None:
    flux = hydrogen_star(*model)
    for name, expected in zip(BANDS, KOESTER[model], strict=True):
        assert equivalent_width(flux, *BANDS[name]) == pytest.approx(expected, rel=0.17, abs=0.3), name


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")
@pytest.mark.parametrize(("teff", "log_g"), [(8_000, 8.0), (12_000, 8.0), (20_000, 7.5), (30_000, 8.0), (60_000, 8.0)])
def test_the_light_is_that_of_koesters_models(teff: int, log_g: float) -> None:
    path = SHARED / "templates" / "koester_da" / f"koester_t{teff}g{round(100 * log_g)}a6l.spec"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    wavelength, flux = np.array(rows, dtype=np.float64).T
    keep = (wavelength > 3_000.0) & (wavelength < 11_000.0)
    koester = broadened(np.interp(GRID, air_to_vacuum(wavelength[keep]), flux[keep]), 300.0)
    ours = broadened(hydrogen_star(float(teff), log_g), 300.0)
    near = (GRID > 3_700.0) & (GRID < 9_000.0)
    ratio = ours[near] / koester[near]
    assert np.std(ratio / np.median(ratio)) < 0.045


def test_levels_lines_and_strengths_are_hydrogens() -> None:
    for (lower, upper), wavelength in {(2, 3): 6564.6, (2, 4): 4862.7, (2, 9): 3836.5, (3, 11): 8865.2}.items():
        assert hydrogen.line_wavelength(lower, upper) == pytest.approx(wavelength, abs=0.1)
    for (lower, upper), f in {(2, 3): 0.6407, (2, 5): 0.0447, (2, 9): 0.00536, (3, 8): 0.0160}.items():
        assert hydrogen.oscillator_strength(lower, upper) == pytest.approx(f, rel=0.03)
    g = hydrogen.gas(np.array([6e3, 1e4, 3e4]), np.array([1e6, 1e5, 1e5]))
    np.testing.assert_allclose(g.electrons, g.protons)
    total = (g.electrons + g.protons + g.neutral) * hydrogen.K_BOLTZMANN * g.temperature
    np.testing.assert_allclose(total, [1e6, 1e5, 1e5], rtol=1e-6)
    saha = 2.4146e15 * g.temperature**1.5 * np.exp(-hydrogen.IONISATION_K / g.temperature)
    np.testing.assert_allclose(g.electrons * g.protons / g.neutral, saha, rtol=1e-3)
    survive = hydrogen.occupation(np.array([2.0, 5.0, 8.0, 12.0])[:, None], g)
    assert (np.diff(survive, axis=0) < 0).all()
    assert survive[0].min() > 0.99


def test_metals_feed_the_electrons_of_a_cool_star() -> None:
    t, p = np.array([6_000.0]), np.array([1e5])
    without, with_metals = hydrogen.gas(t, p, 0.1), hydrogen.gas(t, p, 0.1, 1e-4)
    assert with_metals.electrons[0] > 1.2 * without.electrons[0]
    assert with_metals.electrons[0] == pytest.approx(
        with_metals.protons[0] + 1e-4 * (with_metals.protons[0] + with_metals.neutral[0]), rel=1e-6
    )


def test_a_da_is_a_white_dwarf_to_the_line_indices_and_what_is_like_it_is_none() -> None:
    task = load_task("wd")

    def said(sources: Sequence[Source], snr: float) -> list[str]:
        out = []
        for i, s in enumerate(sources):
            tool = ZoomTool(seen(s, snr, i))
            question = Question(id="q", task=task.key, spectrum=SpectrumRef(path="x"))
            out.append(run_agent(question, task, tool, policy("line-indices")).verdict.answer.name)
        return out

    hot = [s for s in sample("wd.DA") if 9_500.0 < s.parameters["teff_k"] < 40_000.0]
    assert said(hot[:10], 40.0).count("YES") >= 9
    for kind in ("a_star", "bhb", "sdb", "b_star"):
        assert said(sample(kind)[:5], 40.0).count("YES") <= 1, kind
    assert set(said(sample("wd.DC")[:4], 60.0)) == {"UNSURE"}


def test_a_db_shows_helium_and_hydrogen_only_where_its_name_says_so() -> None:
    for s in sample("wd.DB"):
        m = measured(s, "hei4471", "hei5876", "ha")
        if s.subtype.startswith("DBA"):
            assert m["ha"] > 0.8
            assert m["hei4471"] > 0.3
        elif s.subtype.startswith("DAB"):
            assert m["ha"] > 4.0
            assert m["hei4471"] > 0.3
        else:
            assert abs(m["ha"]) < 1.0
            assert m["hei4471"] > 0.4
            assert m["hei5876"] > 0.4
    by_name = {s.subtype[:3] for s in sample("wd.DB")}
    assert {"DBA", "DB3"} <= by_name


def test_a_do_shows_ionised_helium_and_a_pg1159_star_carbon_beside_it() -> None:
    for s in sample("wd.DO"):
        m = measured(s, "heii4686", "heii5411")
        assert m["heii4686"] > 1.0
        assert m["heii5411"] > 0.4
    pg = [s for s in sample("wd.DO") if s.subtype == "PG1159"]
    assert 3 <= len(pg) <= 16
    assert all(s.parameters["teff_k"] >= 75_000.0 for s in pg)
    trough = np.interp((4661.0, 4620.0, 4760.0), GRID, pg[0].flux)
    assert trough[0] < 0.97 * 0.5 * (trough[1] + trough[2])


def test_swan_bands_are_sharp_to_the_red_and_come_without_cn() -> None:
    depth = zeros()
    swan(depth, 0.5, 8_000.0)
    flux = np.exp(-depth)
    deepest = float(GRID[GRID > 4950][np.argmin(flux[(GRID > 4950) & (GRID < 5250)])])
    assert 5_070.0 < deepest < 5_140.0  # the minimum lies well to the blue of the head at 5165, as in DQ stars
    red, blue = np.interp((deepest + 90.0, deepest - 70.0), GRID, flux)
    assert red > 0.95
    assert blue < 0.88
    assert depth[(GRID > 6_880.0)].max() < 1e-3
    assert depth[(GRID > 4_150.0) & (GRID < 4_230.0)].max() < 0.06
    shifted = zeros()
    swan(shifted, 0.5, 6_000.0, 130.0)
    assert GRID[shifted.argmax()] < GRID[depth.argmax()] - 90.0


def test_the_kinds_of_dq_are_what_their_names_say() -> None:
    dqs = sample("wd.DQ", 40)
    cool = [s for s in dqs if s.subtype == "DQ"]
    assert 20 <= len(cool) <= 37
    assert np.median([measured(s, "c2_5165")["c2_5165"] for s in cool]) < 0.95
    for s in dqs:
        assert (s.parameters["teff_k"] > 10_499.0) is (s.subtype in ("warm DQ", "hot DQ"))
        cn = measured(s, "cn_6925", "gband")
        assert cn["cn_6925"] > 0.96, s.subtype


def test_a_dz_has_broad_calcium_and_no_hydrogen_of_its_strength() -> None:
    dzs = sample("wd.DZ")
    found = [measured(s, "cak", "gband", "ha", "hb_wide") for s in dzs]
    assert 6.0 < np.median([m["cak"] for m in found]) < 14.0  # CalciumWD of idlspec2d: 10.5
    for s, m in zip(dzs, found, strict=True):
        assert m["cak"] > 2.5
        assert m["ha"] < (8.0 if s.subtype.startswith("DZA") else 1.0)
    assert 0.1 < np.mean([s.subtype.startswith("DZA") for s in dzs]) < 0.45


def test_a_field_splits_lines_by_the_linear_zeeman_effect() -> None:
    for pole in (3.0, 8.0):
        line = zeros()
        centre = hydrogen.line_wavelength(2, 3)
        line[np.abs(GRID - centre) < 3.0] = 0.5
        out = split(line, pole, np.random.default_rng(1))
        red = GRID[(out > 1e-6) & (centre + 8.0 < GRID)]
        low, high = LINEAR * pole * 0.5, LINEAR * pole  # equator and pole of the dipole
        quadratic = 2.0 * 4.98e-11 * centre**2 * 3**4 * np.array([0.25, 1.0]) * pole**2
        assert red.min() - centre > low - quadratic[1] - 6.0
        assert red.max() - centre < high - quadratic[0] + 6.0
        blue = GRID[(out > 1e-6) & (centre - 0.5 * low > GRID)]
        assert blue.min() - centre > -high - quadratic[1] - 6.0
        assert np.sum(out * GRID) == pytest.approx(np.sum(line * GRID), rel=0.02)


def test_a_magnetic_white_dwarf_has_a_triplet_at_halpha() -> None:
    weak = [s for s in sample("wd.DAH") if 2.0 < s.parameters["field_mg"] < 12.0 and s.parameters["teff_k"] > 9_000.0]
    assert len(weak) >= 4
    for s in weak:
        shift = 0.75 * LINEAR * s.parameters["field_mg"]
        centre = hydrogen.line_wavelength(2, 3)
        here, wing = np.interp((centre - 1.0, centre + 0.5 * 0.5 * LINEAR * s.parameters["field_mg"]), GRID, s.flux)
        outer = s.flux[(centre + 0.6 * shift < GRID) & (centre + 1.35 * shift > GRID)].min()
        assert max(here, outer / 1.01) < wing, s.parameters
    assert any(s.parameters["field_mg"] > 50.0 for s in sample("wd.DAH"))


def test_a_dc_has_no_line_deeper_than_five_per_cent() -> None:
    for s in sample("wd.DC", 20):
        ratio = s.flux / planck(s.parameters["teff_k"])
        assert ratio.min() > 0.93 * np.median(ratio)
