"""Equivalent widths and ratios against what they must be."""

from __future__ import annotations

import numpy as np
import pytest
from index_lab import LINE, SAMPLINGS, box, gaussian, sloped, spectrum, value

from specvet.spectra import Join, Spectrum
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import FormulaIndex, LineIndex, RatioIndex, formula_names, measure
from specvet.spectra.lines import air_to_vacuum
from specvet.spectra.pixels import Pixels, pixel_edges


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("ew", [4.0, -15.0])
@pytest.mark.parametrize("slope", [0.0, 0.8, -0.8])
def test_a_gaussian_has_its_equivalent_width_on_any_slope_and_sampling(sampling: str, ew: float, slope: float) -> None:
    w = SAMPLINGS[sampling]
    m = value(LINE, spectrum(w, sloped(w, slope) * (1 - gaussian(w, 6562.8, 15.0, ew)), 100.0))
    assert m.value == pytest.approx(ew, rel=0.01, abs=0.02)
    assert m.unit == "Å"
    assert m.quality == 1.0


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_box_that_ends_within_pixels_counts_in_full(sampling: str) -> None:
    w = SAMPLINGS[sampling]
    m = value(LINE, spectrum(w, sloped(w, 0.0) * (1 - box(w, 6551.3, 6571.9, 0.5)), 100.0))
    assert m.value == pytest.approx(0.5 * 20.6, abs=0.02)


@pytest.mark.parametrize("step", [0.5, 1.0, 3.0, 5.0])
def test_only_the_part_of_a_pixel_inside_the_band_counts(step: float) -> None:
    w = np.arange(6300.0, 6800.0, step)
    flux = 1 - box(w, 6480.0, 6640.0, 0.5)  # wider than the band
    for band in ((6500.0, 6620.0), (6501.3, 6619.2)):
        narrow = LineIndex("x", "x", band, ((6400.0, 6470.0), (6650.0, 6720.0)))
        assert value(narrow, spectrum(w, flux)).value == pytest.approx(0.5 * (band[1] - band[0]), rel=1e-9)


def test_absorption_is_positive_and_emission_negative() -> None:
    w = SAMPLINGS["log"]
    assert (value("ha", spectrum(w, 1 - gaussian(w, 6562.8, 8, 3))).value or 0) > 2.5
    assert (value("ha", spectrum(w, 1 + gaussian(w, 6562.8, 8, 3))).value or 0) < -2.5


def test_air_and_vacuum_spectra_measure_the_same() -> None:
    w = np.arange(6300.0, 6800.0, 1.1)
    flux = sloped(w) * (1 - gaussian(w, 6562.8, 8.0, 5.0))
    air = value("ha", spectrum(w, flux, 50.0))
    vacuum = value("ha", spectrum(np.asarray(air_to_vacuum(w)), flux, 50.0, medium="vacuum"))
    assert vacuum.value == pytest.approx(air.value, abs=2e-3)
    assert vacuum.window == pytest.approx((6531.8, 6597.8), abs=0.05)
    cut = LineIndex("cut", "a band that ends on the line", (6500.0, 6562.8), LINE.sides)  # 1.8 Å matter here
    half = value(cut, spectrum(w, flux, 50.0))
    assert half.value == pytest.approx(2.5, abs=0.3)
    vacuum = value(cut, spectrum(np.asarray(air_to_vacuum(w)), flux, 50.0, medium="vacuum"))
    assert vacuum.value == pytest.approx(half.value, abs=2e-3)
    assert value(cut, spectrum(w, flux, 50.0, medium="vacuum")).value != pytest.approx(half.value, abs=0.5)


def test_the_continuum_is_right_where_a_side_lacks_pixels_at_one_end() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    ivar = np.where((w > 6400) & (w < 6440), 0.0, 1.0)
    m = value(LINE, Spectrum(w, sloped(w, 2.0), ivar, medium="air"))
    assert m.value == pytest.approx(0.0, abs=1e-6)
    assert m.quality < 0.8
    assert "continuum pixels are good" in m.note


@pytest.mark.parametrize("with_ivar", [True, False])
@pytest.mark.parametrize("index", ["ha", "ha_emission", "ratio"])
def test_errors_match_the_scatter_of_many_noisy_spectra(index: str, with_ivar: bool) -> None:
    rng = np.random.default_rng(5)
    w = SAMPLINGS["log"]
    ew = -20.0 if index == "ha_emission" else 4.0
    clean = sloped(w) * (1 - gaussian(w, 6562.8, 8.0, ew))
    kind = RatioIndex("r", "r", (6530.0, 6600.0), ((6450.0, 6500.0), (6620.0, 6680.0)))
    sigma, found = 0.4, []
    for _ in range(300):
        ivar = np.full(w.size, sigma**-2) if with_ivar else None
        s = Spectrum(w, clean + rng.normal(0, sigma, w.size), ivar, medium="air")
        found.append(value(kind if index == "ratio" else "ha", s))
    scatter = np.std([m.value for m in found])
    stated = np.median([m.error for m in found])
    assert stated == pytest.approx(scatter, rel=0.25)
    assert all(("error from pixel scatter" in m.note) != with_ivar for m in found)


def test_a_model_without_noise_states_no_error() -> None:
    w = SAMPLINGS["1.37 Å"]
    m = value(LINE, spectrum(w, np.ones(w.size)))
    assert (m.value, m.error) == (0.0, None)


def test_too_few_good_pixels_are_not_measurable_and_the_note_says_where() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    for low, high, says in ((6500, 6540, "6500-6620 Å"), (6400, 6460, "the continuum at 6400-6480 Å")):
        ivar = np.where((w >= low) & (w <= high), 0.0, 1.0)
        m = value(LINE, Spectrum(w, np.ones(w.size), ivar, medium="air"))
        assert m.value is None
        assert m.error is None
        assert m.quality == 0.0
        assert "good pixels cover" in m.note
        assert says in m.note


def test_a_spectrum_that_ends_inside_the_band_is_not_measurable() -> None:
    w = np.arange(6300.0, 6580.0, 1.0)
    assert value(LINE, spectrum(w, np.ones(w.size))).value is None


@pytest.mark.parametrize("level", [0.0, -1.0, 0.05])
def test_a_continuum_that_is_not_detected_gives_no_value(level: float) -> None:
    w = np.arange(6300.0, 6800.0, 5.0)
    rng = np.random.default_rng(2)
    s = Spectrum(w, level + rng.normal(0, 1, w.size), np.ones(w.size), medium="air")
    m = value(LINE, s)
    if level <= 0:
        assert m.value is None
    assert m.value is not None or m.note == "the continuum is not detected"
    ratio = RatioIndex("r", "r", (6530.0, 6600.0), ((6450.0, 6500.0),))
    below = value(ratio, Spectrum(w, np.full(w.size, min(level, 0.0)), np.ones(w.size), medium="air"))
    assert (below.value, below.note) == (None, "the reference is not detected")


def test_bad_and_nan_pixels_do_not_count_whatever_they_hold() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    flux = np.ones(w.size) - gaussian(w, 6562.8, 8.0, 3.0)
    clean = value(LINE, Spectrum(w, flux, np.ones(w.size) * 1e4, medium="air"))
    spoilt, ivar = flux.copy(), np.ones(w.size) * 1e4
    spoilt[[210, 211, 225, 140, 360]] = np.nan, 1e30, -np.inf, np.nan, 1e9
    ivar[[211, 360]] = 0.0
    m = value(LINE, Spectrum(w, spoilt, ivar, medium="air"))
    assert m.value == pytest.approx(clean.value, rel=0.05)
    assert m.quality < 1.0
    assert "% of the pixels are good" in m.note


def test_a_gap_without_pixels_is_no_coverage() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    gap = (w < 6510) | (w > 6530)
    p = Pixels(Spectrum(w[gap], np.ones(gap.sum()), medium="air"))
    assert p.coverage((6500.0, 6540.0)) == pytest.approx((40 - 22 + 4) / 40, abs=0.06)
    assert p.coverage((6512.0, 6529.0)) == 0.0
    m = value(LINE, Spectrum(w[gap], np.ones(gap.sum()), medium="air"))
    assert 0.8 < m.quality < 0.9
    assert "% of the pixels are good" in m.note


def test_pixels_meet_where_there_is_no_gap_and_coarse_spectra_have_none() -> None:
    for w in SAMPLINGS.values():
        left, right = pixel_edges(w)
        assert np.allclose(left[1:], right[:-1])
        assert (left < w).all()
        assert (right > w).all()
    coarse = np.arange(3000.0, 9000.0, 50.0)
    left, right = pixel_edges(coarse)
    assert np.allclose(right - left, 50.0)
    assert [x.tolist() for x in pixel_edges(np.array([5000.0]))] == [[4999.0], [5001.0]]
    assert [x.size for x in pixel_edges(np.empty(0))] == [0, 0]


def test_joins_and_tellurics_lower_the_quality_in_proportion_and_say_so() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    whole = value(LINE, spectrum(w, np.ones(w.size), joins=(Join(6450.0, 6650.0, "LAMOST blue/red"),)))
    assert whole.quality == pytest.approx(0.4)
    assert "in the LAMOST blue/red join" in whole.note
    half = value(LINE, spectrum(w, np.ones(w.size), joins=(Join(6560.0, 6625.0, "b/r"),)))
    assert half.quality == pytest.approx(1 - 0.5 * 0.6)
    side = value(LINE, spectrum(w, np.ones(w.size), joins=(Join(6390.0, 6490.0, "b/r"),)))
    assert side.quality == pytest.approx(1 - 0.5 * 0.6)
    assert "continuum in the b/r join" in side.note
    w = np.arange(7400.0, 7900.0, 1.0)
    o2 = LineIndex("a", "a", (7600.0, 7680.0), ((7500.0, 7580.0), (7700.0, 7780.0)))
    m = value(o2, spectrum(w, np.ones(w.size)))
    assert m.quality == pytest.approx(0.5)
    assert "in telluric O2 A" in m.note
    # Taken to the rest frame of something at z = 0.4, the bands of the air lie 2000 Å to the blue and more.
    moved = measure(["a"], spectrum(w, np.ones(w.size)), {"a": o2}, z=0.4)["a"]
    assert moved.quality == 1.0
    assert measure(["a"], spectrum(w, np.ones(w.size)), {"a": o2}, z=-9999.0)["a"].quality == 1.0


def test_a_ratio_with_one_reference_two_on_both_sides_and_two_on_one_side() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    s = spectrum(w, sloped(w, 1.0), 100.0)
    at = {x: float(sloped(np.array([x]), 1.0)[0]) for x in (6410.0, 6450.0, 6560.0, 6700.0)}
    band = (6550.0, 6570.0)
    one = RatioIndex("r", "r", band, ((6400.0, 6420.0),))
    assert value(one, s).value == pytest.approx(at[6560.0] / at[6410.0])
    for references in (((6400.0, 6420.0), (6690.0, 6710.0)), ((6690.0, 6710.0), (6400.0, 6420.0))):
        both = RatioIndex("r", "r", band, references)
        assert value(both, s).value == pytest.approx(1.0)  # interpolated to the band's middle
    same = RatioIndex("r", "r", band, ((6400.0, 6420.0), (6440.0, 6460.0)))
    assert value(same, s).value == pytest.approx(at[6560.0] / (0.5 * (at[6410.0] + at[6450.0])))


def test_the_error_of_a_ratio_is_the_analytic_one() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    m = value(RatioIndex("r", "r", (6550.0, 6590.0), ((6400.0, 6410.0),)), spectrum(w, np.full(w.size, 2.0), 10.0))
    assert m.value == pytest.approx(1.0)
    # A band of n pixels has n - 1 whole ones and two halves.
    assert m.error == pytest.approx(0.1 * np.hypot(np.sqrt(39.5) / 40, np.sqrt(9.5) / 10), rel=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("name", ["ha", "ha_width", "tio5", "tio"])
def test_hardly_any_pixels_measure_nothing(n: int, name: str) -> None:
    w = np.linspace(6560.0, 6564.0, n)
    for ivar in (None, np.ones(n)):
        m = value(name, Spectrum(w, np.ones(n), ivar))
        assert m.value is None
        assert m.note


def test_negative_flux_is_measured_or_refused_but_never_raises() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    flux = np.where((w > 6550) & (w < 6575), -5.0, 1.0)
    m = value(LINE, spectrum(w, flux, 100.0))
    assert m.value == pytest.approx(24 * 6.0, rel=0.01)
    assert value(LINE, spectrum(w, -np.ones(w.size))).value is None


def test_sides_on_one_spot_or_reversed_do_not_break() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    s = spectrum(w, sloped(w, 1.0) * (1 - gaussian(w, 6562.8, 8.0, 3.0)), 100.0)
    spot = LineIndex("x", "x", LINE.band, (LINE.sides[0], LINE.sides[0]))
    assert value(spot, s).value is not None
    turned = LineIndex("x", "x", LINE.band, (LINE.sides[1], LINE.sides[0]))
    assert value(turned, s).value == pytest.approx(3.0, abs=0.05)
    steep = spectrum(w, np.where(w < 6560, 10.0, 0.5) * (w < 9000))
    far = LineIndex("x", "x", (6700.0, 6760.0), ((6400.0, 6450.0), (6580.0, 6640.0)))  # the line falls below 0
    assert value(far, steep).note == "the continuum is not detected"


def test_what_is_known_is_taken_as_it_is() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    known = value("ha", spectrum(w, np.ones(w.size))).model_copy(update={"value": 42.0})
    indices = {**BUILTIN_INDICES, "f": FormulaIndex("f", "f", "ha + 1")}
    assert measure(["f"], Spectrum(np.empty(0), np.empty(0)), indices, known={"ha": known})["f"].value == 43.0


def test_the_built_in_table_is_sound() -> None:
    for key, index in BUILTIN_INDICES.items():
        assert key == index.key
        assert index.name
        if isinstance(index, FormulaIndex):
            assert set(formula_names(index.formula)) <= BUILTIN_INDICES.keys()
            continue
        assert index.span[0] < index.span[1]
        if isinstance(index, LineIndex):
            (a, b), (c, d) = index.sides
            assert 0.5 * (a + b) < 0.5 * sum(index.band) < 0.5 * (c + d)
    assert len({i.name for i in BUILTIN_INDICES.values()}) == len(BUILTIN_INDICES)


def test_missing_pixels_of_a_wide_band_count_as_the_mean_of_the_others() -> None:
    w = np.arange(6300.0, 6800.0, 1.0)
    ivar = np.where((w > 6540) & (w < 6560), 0.0, 1e4)
    m = value(LINE, Spectrum(w, 1 - box(w, 6490.0, 6630.0, 0.5), ivar, medium="air"))
    assert m.value == pytest.approx(0.5 * 120, rel=1e-9)
    assert m.quality == pytest.approx((120 - 19) / 120, abs=0.01)
    assert "84 % of the pixels are good" in m.note
