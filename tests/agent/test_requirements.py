"""How much of a range a spectrum covers."""

from __future__ import annotations

import numpy as np
import pytest

from specvet.agent import covered_fraction, missing_requirement
from specvet.spectra import Frame, Spectrum
from specvet.tasks import Coverage, Requires
from specvet.tools import WindowData

RANGE = Coverage(range=(6400.0, 6700.0))


def covered(w: np.ndarray, ivar: np.ndarray | None = None, coverage: Coverage = RANGE) -> float:
    return covered_fraction(Spectrum(w, np.ones(w.size), ivar), coverage)


@pytest.mark.parametrize("step", [0.5, 1.4, 5.0, 10.0, 50.0])
def test_full_coverage_is_full_at_any_sampling(step: float) -> None:
    assert covered(np.arange(6000.0, 7000.0, step)) == pytest.approx(1.0)


def test_half_is_half() -> None:
    assert covered(np.arange(6000.0, 6550.0, 1.0)) == pytest.approx(0.5, abs=0.003)
    assert covered(np.arange(6550.0, 7000.0, 5.0)) == pytest.approx(0.5, abs=0.01)
    assert covered(np.arange(6000.0, 6300.0, 1.0)) == 0.0


def test_a_gap_is_no_coverage_and_bad_pixels_are_none() -> None:
    w = np.arange(6000.0, 7000.0, 1.0)
    gap = (w < 6450) | (w > 6600)
    assert covered(w[gap]) == pytest.approx(0.5, abs=0.015)
    assert covered(w, np.where(gap, 1.0, 0.0)) == pytest.approx(0.5, abs=0.01)
    flux = np.where(gap, 1.0, np.nan)
    assert covered_fraction(Spectrum(w, flux), RANGE) == pytest.approx(0.5, abs=0.01)


def test_uneven_sampling_without_gaps_is_full_coverage() -> None:
    uneven = np.concatenate(
        [np.arange(6300.0, 6500.0, 0.1), np.arange(6500.0, 6600.0, 2.0), np.arange(6600.0, 6800.0, 8)]
    )
    assert covered(uneven) == pytest.approx(1.0, abs=0.02)


def test_next_to_no_pixels_cover_next_to_nothing() -> None:
    assert covered(np.empty(0)) == 0.0
    assert covered(np.array([6500.0])) < 0.01
    assert covered(np.array([6300.0, 6800.0])) <= 1.0


def test_a_mask_bit_is_no_reason_and_no_errors_are_none() -> None:
    w = np.arange(6000.0, 7000.0, 1.0)
    s = Spectrum(w, np.ones(w.size), np.ones(w.size), mask=np.full(w.size, 255, dtype=np.int64))
    assert covered_fraction(s, RANGE) == pytest.approx(1.0)


def data(flux: float, noise: float) -> WindowData:
    w = np.arange(6000.0, 7000.0, 1.0)
    rng = np.random.default_rng(0)
    s = Spectrum(w, flux + noise * rng.normal(size=w.size), np.full(w.size, noise**-2))
    return WindowData(s, Frame(0.0, "observed", ""))


def test_snr_counts_from_its_limit_on() -> None:
    assert missing_requirement(Requires(min_snr=9.0), data(10.0, 1.0)) == ""
    assert missing_requirement(Requires(min_snr=11.0), data(10.0, 1.0)).startswith("median S/N 9.9 a pixel")
    assert "S/N -" in missing_requirement(Requires(min_snr=1.0), data(-10.0, 1.0))
    assert missing_requirement(Requires(), data(-10.0, 1.0)) == ""


def test_snr_that_is_not_known_is_said_to_be_that() -> None:
    w = np.arange(6000.0, 7000.0, 1.0)
    flat = WindowData(Spectrum(w, np.ones(w.size)), Frame(0.0, "observed", ""))
    assert missing_requirement(Requires(min_snr=1.0), flat) == "median S/N unknown a pixel, the task asks for 1"


def test_nothing_to_look_at_is_a_reason() -> None:
    assert missing_requirement(Requires(), None) == "there is nothing to look at"
