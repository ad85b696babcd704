"""What breaks in simulated spectra, what the simulated pipelines say, and that both are said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import median_filter

from specvet.data.simulate import defects, kinds
from specvet.data.simulate.defects import BITS, Pixels
from specvet.data.simulate.instruments import instrument
from specvet.data.simulate.instruments_sky import LINES, sky_lines, transmission
from specvet.data.simulate.noise import heavy_tailed
from specvet.data.simulate.observed import SURVEYS, Observed, SurveyName
from specvet.data.simulate.observing import observe
from specvet.data.simulate.observing_pipeline import fit, true_z
from specvet.data.simulate.physics import broadened
from specvet.data.simulate.source import GRID, Source

FLAT = np.ones(GRID.size)


def many(survey: SurveyName, n: int, kind: str = "g_star", snr: float | None = 30.0) -> list[Observed]:
    return [
        observe(Source(FLAT, kind), survey, np.random.default_rng([11, i]), snr=snr, object_number=i) for i in range(n)
    ]


def untouched(survey: SurveyName) -> list[Pixels]:
    """Flat pixels of flux 100 and error 1."""
    out = []
    for camera in instrument(survey).cameras:
        n = camera.wavelength.size
        bits = np.zeros(n, dtype=np.int32)
        out.append(Pixels(camera, np.full(n, 100.0), np.ones(n), bits, bits.copy(), np.zeros(n)))
    return out


def test_lamost_gaps_have_neither_flux_nor_ivar_and_are_flagged_and_said() -> None:
    with_gap = [one for one in many("lamost", 150) if any("gap" in word for word in one.defects)]
    assert 1 <= len(with_gap) <= 15
    for one in with_gap:
        (arm,) = one.arms
        lost = (arm.flux == 0) & (arm.ivar == 0)
        width = int(next(word for word in one.defects if "gap" in word).split()[2])
        assert 200 <= width <= 400
        assert int(lost[1500:2200].sum()) >= width
        assert (arm.and_mask[1500:2200][lost[1500:2200]] & 1).sum() >= width


def test_the_first_release_of_lamost_doubts_stellar_lines_and_gives_the_oxygen_band_no_ivar() -> None:
    (arm,) = pixels = untouched("lamost")
    rng = np.random.default_rng(3)
    assert defects.first_release(instrument("lamost"), pixels, rng) == ""
    assert (arm.ivar == 1.0).all()
    wave = arm.camera.wavelength
    arm.flux[wave < 3950.0] = 0.5  # seen at half a σ
    assert defects.first_release(instrument("lamost", first_release=True), pixels, rng) == "first release"
    near = {line: arm.ivar[np.abs(wave - line) < 9.0] for line in (4103.0, 4341.7, 4862.7, 5176.8, 6564.6, 8544.0)}
    assert all(np.allclose(ivar, 1.0 / 9.0) for ivar in near.values())
    assert (arm.ivar[(wave > 7582.0) & (wave < 7678.0)] == 0.0).all()
    assert (arm.ivar[wave < 3950.0] == 0.0).mean() > 0.9
    untroubled = (wave > 5200.0) & (wave < 5600.0) | (wave > 6600.0) & (wave < 7500.0)
    assert (arm.ivar[untroubled] == 1.0).all()
    with pytest.raises(ValueError, match="not that of sdss"):
        instrument("sdss", first_release=True)


def test_two_in_five_lamost_spectra_are_as_of_the_first_release_and_say_so() -> None:
    seen = many("lamost", 120, snr=40.0)
    early = np.array(["first release" in one.defects for one in seen])
    assert 0.28 < early.mean() < 0.52
    spreads = []
    for one in seen:
        (arm,) = one.arms
        inside = (arm.wavelength > 4200.0) & (arm.wavelength < 5550.0) & (arm.ivar > 0)
        errors = -0.5 * np.log(arm.ivar[inside].astype(np.float64))
        spreads.append(float(np.std(errors - median_filter(errors, 51))))
    # Real files: 0.25-0.28 in DR1, 0.035-0.11 later on.
    assert 0.2 < np.median(np.array(spreads)[early]) < 0.3
    assert 0.03 < np.median(np.array(spreads)[~early]) < 0.1
    assert not any("first release" in one.defects for one in many("sdss", 20))


def test_noise_has_the_stated_variance_and_long_tails() -> None:
    habits = instrument("lamost").habits
    noise = heavy_tailed(np.random.default_rng(0), 200_000, habits)
    assert float(noise.std()) == pytest.approx(1.0, abs=0.02)
    assert 5.0 < np.mean(np.abs(noise) > 4.0) / 6.3e-5 < 100.0  # of what a normal distribution has


def test_a_dead_arm_is_dead_to_the_join() -> None:
    class Always(np.random.Generator):
        def random(self, *args: object, **kwargs: object) -> float:  # type: ignore[override]
            return 0.0

    rng = Always(np.random.PCG64(0))
    (arm,) = pixels = untouched("sdss")
    assert defects.dead_arm(instrument("sdss"), pixels, rng) == "red arm dead"
    dead = arm.ivar == 0
    assert not dead[arm.camera.wavelength < 6099.0].any()
    assert dead[arm.camera.wavelength > 6101.0].all()
    pixels = untouched("desi")
    assert defects.dead_arm(instrument("desi"), pixels, rng) == "arm Z dead"
    assert [bool((arm.ivar == 0).all()) for arm in pixels] == [False, False, True]


@pytest.mark.parametrize("survey", SURVEYS)
def test_cosmic_rays_are_positive_narrow_and_flagged(survey: SurveyName) -> None:
    left = 0
    for seed in range(40):
        pixels = untouched(survey)
        said = defects.cosmic_rays(instrument(survey), pixels, np.random.default_rng(seed))
        unmasked = 0
        for arm in pixels:
            hit = arm.or_mask != 0
            assert (arm.flux[~hit] == 100.0).all()
            assert (arm.flux[hit] > 100.0).all()
            assert (arm.or_mask[hit] == BITS[survey]["cosmic"]).all()
            unmasked += int((hit & (arm.ivar > 0)).sum())
        assert (said == "cosmic rays") == (unmasked > 0)
        left += unmasked
    assert left > 0


@pytest.mark.parametrize("survey", SURVEYS)
def test_pixels_without_ivar_are_few_unless_said(survey: SurveyName) -> None:
    shares = []
    for one in many(survey, 40):
        lost = sum(int((arm.ivar == 0).sum()) for arm in one.arms)
        if not any(word in " ".join(one.defects) for word in ("gap", "dead", "first release")):
            shares.append(lost)
        for arm in one.arms:
            assert np.isfinite(arm.flux).all()
            assert np.isfinite(arm.ivar).all()
            assert (arm.ivar >= 0).all()
    assert max(shares) < 60
    assert sum(shares) > 0


def test_lamost_ends_in_zeros_that_have_an_error_all_the_same() -> None:
    ends = []
    for one in many("lamost", 60):
        (arm,) = one.arms
        zeros = int(np.argmax(arm.flux[::-1] != 0))
        ends.append(zeros)
        assert (arm.ivar[arm.flux.size - zeros :] >= 0).all()
    assert max(ends) <= 31
    assert 3 <= np.mean(ends) <= 14


def test_large_steps_at_the_join_are_said_and_there() -> None:
    found = 0
    for one in many("lamost", 300, snr=80.0):
        said = [word for word in one.defects if word.startswith("arm step")]
        if not said or len(one.defects) > 1:
            continue
        (arm,) = one.arms
        blue, red = (np.median(arm.flux[np.abs(arm.wavelength - x) < 60.0]) for x in (5640.0, 5960.0))
        assert float(red / blue) == pytest.approx(float(said[0].split()[2]), rel=0.12)
        found += 1
    assert found >= 1


def test_sky_lines_leave_more_than_the_noise_where_they_are_bright() -> None:
    under, beside = [], []
    for one in many("lamost", 60, snr=40.0):
        (arm,) = one.arms
        for centre, into in ((6302.0, under), (6275.0, beside)):
            near = np.abs(arm.wavelength - centre) < 4.0
            sides = (np.abs(arm.wavelength - centre) < 40.0) & (np.abs(arm.wavelength - centre) > 12.0)
            left = (arm.flux[near] - np.median(arm.flux[sides])) * np.sqrt(arm.ivar[near])
            into.append(float(np.abs(left).max()))
    assert np.median(under) > 1.8 * np.median(beside)


def test_sdss_flags_bright_sky_and_releases_the_sky() -> None:
    (arm,) = many("sdss", 1)[0].arms
    bright = (arm.and_mask & BITS["sdss"]["bright_sky"]) != 0
    assert bright[np.argmin(np.abs(arm.wavelength - 5578.9))]
    assert not bright[np.argmin(np.abs(arm.wavelength - 6700.0))]
    assert 0.005 < bright.mean() < 0.1
    assert arm.sky is not None
    assert arm.dispersion is not None
    assert float(np.median(arm.sky[bright])) > 3.0 * float(np.median(arm.sky[~bright]))
    assert 0.6 < float(np.median(arm.dispersion)) < 1.4


def test_oxygen_bands_begin_at_their_heads() -> None:
    air = broadened(transmission(1.0, 0.0), 167.0)  # R = 1800

    def mean(low: float, high: float) -> float:
        low_at, high_at = np.searchsorted(GRID, (low, high))
        return float(air[low_at:high_at].mean())

    # Vacuum: A 7596-7686, head 7608; B 6869-6946, head 6872 (HITRAN, line positions of O2).
    assert mean(7604.0, 7614.0) < 0.4 < mean(7630.0, 7650.0) < 0.75
    assert mean(6870.0, 6878.0) < 0.8 < mean(6890.0, 6910.0)
    assert mean(7500.0, 7580.0) > 0.995
    assert mean(6700.0, 6850.0) > 0.995


def test_sky_lines_keep_their_light_at_any_resolution() -> None:
    wave = np.arange(5500.0, 5660.0, 0.5)
    light = [float(sky_lines("atoms", wave, np.full(wave.size, sigma)).sum()) for sigma in (0.7, 1.2, 2.4)]
    assert light[0] == pytest.approx(light[1], rel=1e-3) == pytest.approx(light[2], rel=1e-3)
    assert set(LINES) == {"city", "red oxygen", "atoms", "oh"}


def test_redshifts_are_right_to_their_error_and_sometimes_wrong() -> None:
    star = Source(FLAT, "k_giant", velocity_km_s=-120.0)
    rng = np.random.default_rng(0)
    fits = [fit(star, "sdss", 25.0, rng) for _ in range(1500)]
    wrong = [one for one in fits if "wrong redshift" in one.defects]
    assert 0.005 < len(wrong) / len(fits) < 0.04
    right = [one for one in fits if "wrong redshift" not in one.defects]
    off = np.array([(one.z or 0.0) - true_z(star) for one in right]) * 299_792.458
    assert float(off.std()) == pytest.approx(np.hypot(4.0, 120.0 / 25.0), rel=0.1)
    assert all(one.spectral_class == "STAR" for one in right)
    assert all(abs((one.z or 0.0) - true_z(star)) > 1e-6 for one in wrong)


def test_lamost_gives_up_at_low_signal_to_noise() -> None:
    rng = np.random.default_rng(0)

    def unknown(snr: float) -> float:
        found = [fit(Source(FLAT, "f_star"), "lamost", snr, rng) for _ in range(300)]
        for one in found:
            assert (one.z is None) == (one.spectral_class == "Unknown") == ("class Unknown" in one.defects)
        return float(np.mean([one.z is None for one in found]))

    assert unknown(2.5) > 0.6
    assert 0.1 < unknown(6.0) < 0.5
    assert unknown(30.0) < 0.03


def test_a_quasar_called_a_star_has_a_wrong_redshift_and_a_star_called_a_quasar_too() -> None:
    rng = np.random.default_rng(0)
    quasar = Source(FLAT, "qso", redshift=1.3)
    called = [fit(quasar, "sdss", 20.0, rng) for _ in range(300)]
    stars = [one for one in called if one.spectral_class == "STAR"]
    assert 20 < len(stars) < 90
    assert all("wrong redshift" in one.defects and abs(one.z or 0.0) < 0.01 for one in stars)
    dwarf = [fit(Source(FLAT, "wd.DC"), "boss", 20.0, rng) for _ in range(300)]
    assert all(("wrong redshift" in one.defects) for one in dwarf if one.spectral_class != "STAR")
    assert any(one.spectral_class == "QSO" for one in dwarf)
    assert {one.z_warning for one in dwarf} == {0, 4}


def test_every_kind_is_called_something_and_spelt_as_the_survey_does() -> None:
    rng = np.random.default_rng(0)
    for key in kinds.KINDS:
        subtype = {"gm.giant": "M5III", "m_dwarf.quiet": "M3V", "a_star": "A5V"}.get(key, "")
        for survey in SURVEYS:
            one = fit(
                Source(FLAT, key, subtype, redshift=0.4 if key.startswith(("qso", "gal")) else 0.0), survey, 40.0, rng
            )
            assert one.spectral_class in {"STAR", "GALAXY", "QSO", "Unknown"}
            assert one.subclass or one.spectral_class != "STAR"
            assert len(one.subclass) <= 20
    giants = [fit(Source(FLAT, "gm.giant", "M5III"), "lamost", 40.0, rng).subclass for _ in range(50)]
    assert sum(word.startswith("gM") for word in giants) > 35
