"""Composites and what is far away: the features that decide are there, and the answers of the tasks are kept."""

import numpy as np
import pytest

from specvet.agent import run_agent
from specvet.data.simulate import composites, galaxies, nebulae
from specvet.data.simulate.companions import at, with_donor
from specvet.data.simulate.kinds import KINDS, TASKS, make
from specvet.data.simulate.physics import power_law
from specvet.data.simulate.source import GRID, Source
from specvet.policies import policy
from specvet.records.schema import Question, SpectrumRef
from specvet.spectra import Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import pixels_of
from specvet.tasks import resolve_tasks
from specvet.tools import ZoomTool

MINE = [k for k, kind in KINDS.items() if kind.maker.split(":")[0] in ("cvs", "composites", "extragalactic")]


def one(kind: str, seed: int) -> Source:
    return make(kind, np.random.default_rng([21, seed]))


def measured(source: Source, *names: str) -> dict[str, float]:
    spectrum = Spectrum(GRID.copy(), source.flux.copy(), ivar=np.full(GRID.size, 1e6), medium="vacuum")
    found = Meter(pixels_of(spectrum)).measure(names, BUILTIN_INDICES)
    return {n: np.nan if found[n].value is None else float(found[n].value) for n in names}


@pytest.mark.parametrize("kind", MINE)
def test_a_source_keeps_the_contract(kind: str) -> None:
    far = kind in ("qso", "bl_lac") or kind.startswith("galaxy")
    for i in range(8):
        source = one(kind, i)
        assert source.kind == kind
        assert source.subtype
        assert source.flux.shape == GRID.shape
        assert np.isfinite(source.flux).all()
        assert (source.flux >= 0.0).all()
        assert np.median(source.flux) == pytest.approx(1.0, abs=0.02)
        assert source.parameters
        assert all(np.isfinite(v) for v in source.parameters.values())
        assert source.ebv >= 0.0
        assert source.template == ""
        assert abs(source.velocity_km_s) < 700.0
        assert (source.velocity_km_s == 0.0) if far else (source.redshift == 0.0)


@pytest.mark.parametrize("kind", MINE)
def test_the_same_seed_gives_the_same_source_whatever_was_made_before(kind: str) -> None:
    first = one(kind, 3)
    one(kind, 4)
    again = one(kind, 3)
    assert np.array_equal(first.flux, again.flux)
    assert first.parameters == again.parameters
    assert not np.array_equal(first.flux, one(kind, 4).flux)


def test_no_light_of_a_class_is_blended_into_what_is_none() -> None:
    for kind in {*composites.ORDINARY, *(k for pair in composites.PAIRS for k in pair)}:
        assert not KINDS[kind].yes
    for kind in ("blend", "cross_talk", "nebular_sky"):
        assert {KINDS[kind].answer(task) for task in TASKS} == {"NO"}


def test_case_b_and_doublets_have_their_ratios() -> None:
    gas = nebulae.lines({"OIII": 4.0, "NII": 2.0, "SII": 1.0}, 60.0)

    def flux(low: float, high: float) -> float:
        inside = slice(*np.searchsorted(GRID, (low, high)))
        return float(np.trapezoid(gas[inside], GRID[inside]))

    assert flux(6560.0, 6569.0) / flux(4855.0, 4870.0) == pytest.approx(2.86, rel=0.02)
    assert flux(5003.0, 5013.0) / flux(4955.0, 4966.0) == pytest.approx(2.98, rel=0.03)
    assert flux(6580.0, 6590.0) / flux(6545.0, 6554.0) == pytest.approx(2.94, rel=0.03)
    assert flux(6712.0, 6725.2) / flux(6725.5, 6740.0) == pytest.approx(1.33, rel=0.03)


def test_the_nebular_continuum_jumps_at_the_balmer_and_paschen_limits() -> None:
    flux = nebulae.continuum(10_000.0)
    at = lambda w: float(np.interp(w, GRID, flux))  # noqa: E731
    assert at(3600.0) / at(3700.0) > 3.0
    assert 1.5 < at(8150.0) / at(8250.0) < 3.5
    # Equivalent width of Hβ on it: some 1,000 Å (Osterbrock & Ferland 2006).
    assert 400.0 < 1.0 / at(4861.0) < 2500.0


def test_a_t_tauri_star_has_lithium_and_h_alpha_emission() -> None:
    widths = []
    for i in range(12):
        source = one("t_tauri", i)
        widths.append(measured(source, "ha")["ha"])
        middle = np.interp(composites.LI_6708, GRID, source.flux)
        sides = [np.interp(composites.LI_6708 + d, GRID, source.flux) for d in (-3.0, 3.0)]
        assert middle < 0.97 * np.mean(sides)
    assert max(widths) < 1.0
    assert np.median(widths) < -4.0


def test_a_symbiotic_star_shows_the_giant_and_the_gas() -> None:
    rows = [measured(one("symbiotic", i), "ha", "heii4686", "tio5", "cah_excess") for i in range(15)]
    assert np.median([r["ha"] for r in rows]) < -25.0
    assert np.median([r["heii4686"] for r in rows]) < -1.5
    assert np.median([r["tio5"] for r in rows]) < 0.9
    assert np.median([r["cah_excess"] for r in rows]) > 0.0


def test_a_wd_ms_binary_shows_the_white_dwarf_in_the_blue_and_the_dwarf_in_the_red() -> None:
    rows = [measured(one("wd_ms", i), "hb_wide", "hg_wide", "tio8432") for i in range(15)]
    assert sum(r["hg_wide"] > 6.0 for r in rows) >= 12
    assert np.median([r["tio8432"] for r in rows]) < 0.98


def test_a_planetary_nebula_is_lines_on_next_to_nothing() -> None:
    for i in range(8):
        assert one("planetary_nebula", i).flux.max() > 30.0


def test_sky_residuals_are_narrow_and_of_both_signs() -> None:
    signs = set()
    for i in range(24):
        source = one("nebular_sky", i)
        signs.add(np.sign(source.parameters["ha_ew_a"]))
    assert signs == {-1.0, 1.0}


def test_lines_of_a_quasar_lie_at_its_redshift() -> None:
    checked = 0
    for i in range(60):
        source = one("qso", i)
        for rest in (1908.7, 2799.1, 4862.7, 6564.6):
            centre = rest * (1.0 + source.redshift)
            if 4200.0 < centre < 9500.0 and source.parameters["line_strength"] > 0.8 and rest in (2799.1, 6564.6):
                near = np.abs(GRID / centre - 1.0) < 0.05
                peak = GRID[near][np.argmax(source.flux[near] / GRID[near] ** -1.5)]
                assert peak == pytest.approx(centre, rel=0.012)
                checked += 1
    assert checked >= 8


def test_redshifts_cover_what_surveys_see() -> None:
    z = np.array([one("qso", i).redshift for i in range(80)])
    assert z.min() > 0.0
    assert 0.8 < np.median(z) < 2.2
    assert z.max() > 2.5
    near = [one("galaxy.emission", i).redshift for i in range(40)]
    assert sum(v < 0.005 for v in near) >= 2  # at the velocity of a star: the hard ones


def test_a_quiet_galaxy_has_its_break_at_4000() -> None:
    drops = []
    for i in range(12):
        source = one("galaxy.quiet", i)
        rest = GRID / (1.0 + source.redshift)
        red, blue = ((low < rest) & (rest < low + 200.0) for low in (4050.0, 3750.0))
        drops.append(source.flux[red].mean() / source.flux[blue].mean())
    assert 1.3 < np.median(drops) < 2.6


def test_a_bl_lac_object_is_featureless() -> None:
    for i in range(12):
        values = measured(one("bl_lac", i), "ha", "hb", "heii4686")
        assert all(abs(v) < 2.0 for v in values.values())


def test_line_indices_finds_the_variables_and_is_not_taken_in_by_nebulae() -> None:
    (task,) = resolve_tasks(["cv"])
    found = {}
    for kind in ("cv.quiescence", "cv.double_peaked", "nebular_sky", "h_ii", "wd_ms"):
        answers = []
        for i in range(12):
            source = one(kind, i)
            error = 0.06 * np.maximum(source.flux, 0.5)
            flux = source.flux + np.random.default_rng([22, i]).normal(0.0, 1.0, GRID.size) * error
            spectrum = Spectrum(GRID.copy(), flux, ivar=error**-2.0, medium="vacuum")
            question = Question(id="simulated", task="cv", spectrum=SpectrumRef(path="-"))
            answers.append(str(run_agent(question, task, ZoomTool(spectrum), policy("line-indices")).verdict.answer))
        found[kind] = answers.count("YES")
    assert found["cv.quiescence"] >= 10
    assert found["cv.double_peaked"] >= 10
    assert found["nebular_sky"] + found["h_ii"] + found["wd_ms"] <= 1


@pytest.mark.parametrize(("population", "low", "high"), [("old", 1.7, 2.3), ("middle", 1.3, 1.7), ("young", 0.9, 1.2)])
def test_mixtures_of_stars_have_the_break_of_their_age(population: str, low: float, high: float) -> None:
    """Dn4000 of Balogh et al. 1999, ApJ 527, 54; 1.75 in the quiet galaxy of SDSS that lies at hand."""
    breaks = []
    for i in range(4):
        flux = galaxies.starlight(np.random.default_rng([23, i]), population, 200.0)
        red, blue = ((start < GRID) & (start + 100.0 > GRID) for start in (4000.0, 3850.0))
        breaks.append(flux[red].mean() / flux[blue].mean())
    assert low < np.median(breaks) < high


def test_a_late_donor_does_not_drown_the_light_it_is_added_to() -> None:
    light = power_law(-2.0)
    late = np.exp(GRID / 400.0)  # steeper than any M dwarf
    total = with_donor(light, late, 0.3)
    assert at(total, 8000.0) <= 3.51 * at(light, 8000.0)
    assert at(with_donor(light, power_law(-1.0), 0.3), 5500.0) == pytest.approx(at(light, 5500.0) / 0.7, rel=1e-3)


def test_no_two_objects_hold_the_same_star_of_a_pool() -> None:
    from specvet.data.simulate.companions import pooled

    stars = [pooled("gm.giant", np.random.default_rng([7, i])).flux for i in range(60)]
    assert len({star.tobytes() for star in stars}) == 60
    assert all(0.9 < np.median(star) < 1.1 and (star >= 0.0).all() for star in stars)
