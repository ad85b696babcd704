"""Observing simulated sources: what goes in comes out where, as broad and as noisy as it should, and is said."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from specvet import Spectrum, read
from specvet.data.simulate import physics
from specvet.data.simulate.instruments import JOINS, instrument
from specvet.data.simulate.layouts import write
from specvet.data.simulate.observed import SURVEYS, Observed, SurveyName
from specvet.data.simulate.observing import EPOCHS, observe, spectrum
from specvet.data.simulate.observing_exposure import doppler, interstellar, light
from specvet.data.simulate.source import GRID, Source

C = 299_792.458


def source(flux: np.ndarray | None = None, **changes: object) -> Source:
    """A flat spectrum, called a G star."""
    return Source(np.ones(GRID.size) if flux is None else flux, "g_star", **changes)  # type: ignore[arg-type]


def with_line(centre: float, fwhm_km_s: float = 60.0) -> np.ndarray:
    """A narrow emission line of a peak of 30 on a flat continuum."""
    flux = np.ones(GRID.size)
    physics.add_gaussian(flux, centre, 30.0, fwhm_km_s)
    return flux


def seen(survey: SurveyName, flux: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Wavelength, flux and σ of the line spread function in pixels, camera by camera, without noise."""
    cameras = instrument(survey).cameras
    return [(camera.wavelength, camera.optics @ flux, camera.dispersion) for camera in cameras]


def clean(survey: SurveyName, snr: float, n: int = 8, **changes: object) -> list[Observed]:
    """`n` observations of a flat source in which nothing broke."""
    found: list[Observed] = []
    number = 0
    while len(found) < n:
        rng = np.random.default_rng([7, number])
        one = observe(source(**changes), survey, rng, snr=snr, object_number=number)  # type: ignore[arg-type]
        number += 1
        if not any(word in " ".join(one.defects) for word in ("gap", "dead", "step", "cosmic")):
            found.append(one)
    return found


@pytest.mark.parametrize("survey", SURVEYS)
def test_grids_are_those_of_the_surveys(survey: SurveyName) -> None:
    grids = {
        "lamost": [(3699.99, 9099.13, 3909)],
        "sdss": [(3801.89, 9202.38, 3840)],
        "boss": [(3600.00, 10396.9, 4607)],
        "desi": [(3600.0, 5800.0, 2751), (5760.0, 7620.0, 2326), (7520.0, 9824.0, 2881)],
    }[survey]
    for camera, (first, last, n_pix) in zip(instrument(survey).cameras, grids, strict=True):
        assert camera.wavelength.size == n_pix
        assert camera.wavelength[0] == pytest.approx(first, abs=0.1)
        assert camera.wavelength[-1] == pytest.approx(last, abs=0.5)


@pytest.mark.parametrize("survey", SURVEYS)
def test_a_flat_source_stays_flat_through_the_optics(survey: SurveyName) -> None:
    for _, flux, _ in seen(survey, np.ones(GRID.size)):
        np.testing.assert_allclose(flux, 1.0, rtol=1e-9)


@pytest.mark.parametrize("survey", SURVEYS)
@pytest.mark.parametrize("velocity", [-310.0, 0.0, 17.0, 900.0])
def test_a_line_lands_where_its_velocity_puts_it(survey: SurveyName, velocity: float) -> None:
    expected = 6564.6 * (1.0 + velocity / C)
    for wave, flux, _ in seen(survey, doppler(with_line(6564.6), velocity)):
        if not wave[0] < expected < wave[-1]:
            continue
        near = np.abs(wave - expected) < 25.0
        above = flux[near] - 1.0
        centre = float((wave[near] * above).sum() / above.sum())
        assert abs(centre - expected) < 0.1 * float(np.median(np.diff(wave[near])))


@pytest.mark.parametrize(
    ("survey", "centre", "power"),
    [
        ("lamost", 5200.0, 1820.0),
        ("lamost", 6564.6, 1790.0),
        ("sdss", 5000.0, 1930.0),
        ("sdss", 8000.0, 2150.0),
        ("boss", 4500.0, 1750.0),
        ("boss", 8000.0, 2250.0),
        ("desi", 4320.0, 2573.0),
        ("desi", 6480.0, 4290.0),
        ("desi", 8880.0, 5070.0),
    ],
)
def test_a_narrow_line_is_as_broad_as_the_resolution(survey: SurveyName, centre: float, power: float) -> None:
    narrow = 40.0
    for wave, flux, dispersion in seen(survey, with_line(centre, narrow)):
        if not wave[0] < centre < wave[-1]:
            continue
        near = np.abs(wave - centre) < 25.0
        above = flux[near] - 1.0
        middle = (wave[near] * above).sum() / above.sum()
        sigma = float(np.sqrt((above * (wave[near] - middle) ** 2).sum() / above.sum()))
        pixel = float(np.median(np.diff(wave[near])))
        own = centre * narrow / C / physics.FWHM
        lsf = float(np.sqrt(sigma**2 - own**2 - pixel**2 / 12.0))
        assert centre / (lsf * physics.FWHM) == pytest.approx(power, rel=0.06)
        assert lsf / pixel == pytest.approx(float(np.median(dispersion[near])), rel=0.06)


@pytest.mark.parametrize("survey", SURVEYS)
@pytest.mark.parametrize("snr", [8.0, 20.0, 60.0])
def test_the_signal_to_noise_is_the_one_wanted(survey: SurveyName, snr: float) -> None:
    low, high = instrument(survey).snr_window
    medians = []
    for one in clean(survey, snr, 16):
        values = []
        for arm in one.arms:
            inside = (arm.wavelength > low) & (arm.wavelength < high) & (arm.ivar > 0)
            values.append(arm.flux[inside] * np.sqrt(arm.ivar[inside]))
        medians.append(float(np.median(np.concatenate(values))))
    # Each has its own noise and what is left of its sky. At S/N 8 LAMOST comes out 4 % high: its arms differ so much
    # that noise, which blurs the two, moves the median.
    assert float(np.mean(medians)) == pytest.approx(snr, rel=0.07 if snr < 10.0 else 0.05)
    assert np.abs(np.array(medians) / snr - 1.0).max() < (0.2 if snr < 10.0 else 0.1)


@pytest.mark.parametrize(("survey", "expected"), [("lamost", 0.78), ("sdss", 0.98), ("boss", 1.0), ("desi", 1.02)])
def test_the_scatter_is_the_stated_error_as_nearly_as_in_real_files(survey: SurveyName, expected: float) -> None:
    ratios, neighbours = [], []
    for one in clean(survey, 10.0, 12):
        arm = next(a for a in one.arms if a.wavelength[0] < 6050.0 < a.wavelength[-1])
        inside = (arm.wavelength > 6010.0) & (arm.wavelength < 6220.0) & (arm.ivar > 0)
        flux, wave = arm.flux[inside].astype(np.float64), arm.wavelength[inside] - 6115.0
        left = (flux - np.polyval(np.polyfit(wave, flux, 2), wave)) * np.sqrt(arm.ivar[inside])
        ratios.append(float(left.std()))
        neighbours.append(float(np.mean(left[1:] * left[:-1]) / np.mean(left**2)))
    assert float(np.mean(ratios)) == pytest.approx(expected, abs=0.06)
    correlation = instrument(survey).habits.correlation
    assert float(np.mean(neighbours)) == pytest.approx(correlation, abs=0.07)


def test_lamost_sees_little_in_the_far_blue_and_at_the_join() -> None:
    # Medians of 14 A stars of DR8: S/N of 0.42 at 3950 Å and 0.79 at 5800 Å, over the median of the spectrum.
    shapes = []
    for one in clean("lamost", 60.0, 12):
        (arm,) = one.arms
        snr = arm.flux * np.sqrt(arm.ivar)
        near = [np.abs(arm.wavelength - x) < 25.0 for x in (3750.0, 3950.0, 5400.0, 5800.0, 7000.0, 8950.0)]
        shapes.append([float(np.median(snr[n])) / one.snr for n in near])
    blue, violet, green, join, red, end = np.median(shapes, axis=0)
    assert blue < 0.2 < violet < 0.45 < join < 0.88 < green < red
    assert end < 0.9 * red


def test_dust_dims_the_blue() -> None:
    plain, dusty = (clean("sdss", 40.0, 6, ebv=ebv) for ebv in (0.0, 0.5))

    def colour(found: list[Observed]) -> float:
        slopes = []
        for one in found:
            (arm,) = one.arms
            blue, red = (np.median(arm.flux[np.abs(arm.wavelength - x) < 100.0]) for x in (4500.0, 8000.0))
            slopes.append(float(blue / red))
        return float(np.median(slopes))

    # A(4500)/E(B−V) = 3.93 and A(8000)/E(B−V) = 1.80 (O'Donnell 1994, R_V = 3.1).
    expected = 10.0 ** (-0.4 * 0.5 * (3.93 - 1.80))
    assert colour(dusty) / colour(plain) == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("survey", SURVEYS)
def test_the_same_draws_give_the_same_spectrum(survey: SurveyName) -> None:
    one, again, other = (observe(source(), survey, np.random.default_rng(seed)) for seed in (5, 5, 6))
    for a, b, c in zip(one.arms, again.arms, other.arms, strict=True):
        np.testing.assert_array_equal(a.flux, b.flux)
        np.testing.assert_array_equal(a.ivar, b.ivar)
        np.testing.assert_array_equal(a.or_mask, b.or_mask)
        assert not np.array_equal(a.flux, c.flux)
    for name in ("ra", "dec", "mjd", "fibre", "snr", "pipeline_class", "pipeline_z", "defects"):
        assert getattr(one, name) == getattr(again, name)


@pytest.mark.parametrize("survey", SURVEYS)
def test_the_spectrum_is_what_the_reader_gives_of_the_native_file(survey: SurveyName, tmp_path: Path) -> None:
    for number in range(8):
        rng = np.random.default_rng([3, number])
        snr = 2.5 if number % 2 else None
        one = observe(source(velocity_km_s=80.0), survey, rng, snr=snr, object_number=number, epoch=number % 3)
        (path,) = write(one, tmp_path / str(number))
        found = read(path)
        expected = found[0] if isinstance(found, list) else found
        got = spectrum(one)
        for field in fields(Spectrum):
            a, b = getattr(expected, field.name), getattr(got, field.name)
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b, err_msg=field.name)
                assert a.dtype == b.dtype, field.name
            elif field.name != "file":
                assert a == b, field.name


def test_epochs_of_one_object_lie_in_different_nights() -> None:
    rng = np.random.default_rng(0)
    epochs = range(EPOCHS)
    nights = {observe(source(), "sdss", rng, snr=10.0, object_number=3, epoch=e).mjd for e in epochs}
    assert len(nights) == EPOCHS


def test_a_given_position_is_kept_and_others_lie_in_the_footprint() -> None:
    rng = np.random.default_rng(0)
    one = observe(source(), "lamost", rng, position=(12.345678, -3.21))
    assert (one.ra, one.dec) == (12.345678, -3.21)
    for _ in range(20):
        assert -10.0 <= observe(source(), "lamost", rng).dec <= 60.0


def test_signal_to_noise_is_drawn_as_in_real_lamost_files() -> None:
    # 81 files but those of DR8, which are of a bright selection: 9, 23 and 82 at 5, 50 and 95 %.
    rng = np.random.default_rng(1)
    drawn = [observe(source(), "lamost", rng).snr for _ in range(300)]
    low, middle, high = np.percentile(drawn, (5, 50, 95))
    assert 5.0 < low < 10.0
    assert 19.0 < middle < 29.0
    assert 60.0 < high < 100.0


def test_a_source_without_light_in_the_window_is_refused() -> None:
    dark = np.where(GRID > 8000.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="no light between 4800 and 6800"):
        observe(source(dark), "lamost", np.random.default_rng(0), snr=10.0)


def test_joins_lie_where_the_reader_says() -> None:
    for survey in ("lamost", "sdss", "boss"):
        join = spectrum(observe(source(), survey, np.random.default_rng(2))).joins[0]
        assert (join.low, join.high) == JOINS[survey]


def width(flux: np.ndarray, low: float, high: float) -> float:
    """Equivalent width (Å) of what a flat spectrum lost between two wavelengths."""
    inside = (low < GRID) & (high > GRID)
    return float(np.trapezoid(1.0 - flux[inside], GRID[inside]))


def test_gas_between_us_and_a_star_grows_with_its_dust_and_does_not_move_with_the_star() -> None:
    habits = instrument("desi").habits  # whose air leaves next to nothing here
    rng = np.random.default_rng(2)
    widths = []
    for ebv in (0.05, 0.1, 0.3, 0.8):
        depths = [interstellar(ebv, rng) for _ in range(40)]
        widths.append(float(np.median([width(np.exp(-depth), 5880.0, 5910.0) for depth in depths])))
    # Poznanski et al. 2012: 0.73 Å at 0.1 and 1.13 Å at 0.3; both lines together.
    assert widths == sorted(widths)
    assert widths[1] == pytest.approx(0.65, abs=0.2)
    assert widths[2] == pytest.approx(1.15, abs=0.25)

    star = source(velocity_km_s=400.0, ebv=0.3)
    at = []
    for _ in range(20):
        seen_flux = light(star, habits, rng)
        near = (GRID > 5885.0) & (GRID < 5895.0)
        at.append(float(GRID[near][np.argmin(seen_flux[near])]))
    assert np.median(at) == pytest.approx(5891.58, abs=0.3)
    assert np.std(at) < 0.6


def test_a_real_template_has_its_own_interstellar_lines() -> None:
    habits = instrument("desi").habits
    found = []
    for template in ("", "spec-1.fits"):
        flux = light(source(ebv=0.3, template=template), habits, np.random.default_rng(1))
        near = (GRID > 5870.0) & (GRID < 5912.0)
        continuum = np.interp(GRID, [5870.0, 5912.0], np.interp([5870.0, 5912.0], GRID, flux))
        found.append(float(np.trapezoid((1.0 - flux / continuum)[near], GRID[near])))
    assert found[0] > 0.5
    assert abs(found[1]) < 0.05


def test_what_correcting_for_the_air_leaves_in_lamost_is_absorption_as_a_rule() -> None:
    habits = instrument("lamost").habits
    rng = np.random.default_rng(4)

    def mean(flux: np.ndarray, low: float, high: float) -> float:
        return float(flux[(low < GRID) & (high > GRID)].mean())

    left = []
    for _ in range(80):
        flux = light(source(), habits, rng)
        left.append(mean(flux, 7620.0, 7660.0) / mean(flux, 7560.0, 7590.0))
    # Real A, F and G stars of DR2 to DR9 without their own slopes: 0.98, 0.99, 1.00.
    assert 0.975 < np.median(left) < 0.995
    assert np.mean(np.array(left) > 1.0) < 0.15
