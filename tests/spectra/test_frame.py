"""Which frame a spectrum is looked at in."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specvet.spectra import Redshift, Spectrum, choose_frame

Z_LIMIT = 1_000.0 / 299_792.458


def spectrum(z: float | None = None, *, name: str = "STAR", warning: str = "", frame: str = "unknown") -> Spectrum:
    w = np.linspace(4000.0, 7000.0, 50)
    stated = Redshift(z, source="header Z" if z is not None else "", warning=warning)
    return Spectrum(w, np.ones(50), redshift=stated, pipeline_class=name, frame=frame)


def test_a_stars_redshift_is_taken_out() -> None:
    frame = choose_frame(spectrum(1.23e-4))
    assert (frame.z, frame.name) == (1.23e-4, "rest")
    assert frame.text == "rest frame (z = 0.000123 from header Z)"


@pytest.mark.parametrize("name", ["star", "STAR ", "WD", "", "  "])
def test_the_class_is_a_star_in_any_spelling_or_not_stated(name: str) -> None:
    assert choose_frame(spectrum(1e-4, name=name)).name == "rest"


def test_a_cataclysmic_variable_called_a_quasar_keeps_its_lines() -> None:
    frame = choose_frame(spectrum(2.1, name="QSO"))
    assert (frame.z, frame.name) == (0.0, "observed")
    assert "z = 2.100000 from header Z not applied" in frame.text


@pytest.mark.parametrize("name", ["QSO", "GALAXY", "Unknown"])
def test_a_small_redshift_of_what_is_no_star_is_not_applied(name: str) -> None:
    frame = choose_frame(spectrum(1e-3, name=name))
    assert (frame.z, frame.name) == (0.0, "observed")
    assert f"the pipeline says {name}, not a star" in frame.why


@pytest.mark.parametrize("sign", [1, -1])
def test_the_limit_is_1000_km_s_and_lies_outside(sign: int) -> None:
    assert choose_frame(spectrum(sign * Z_LIMIT * 0.99999)).name == "rest"
    assert choose_frame(spectrum(sign * Z_LIMIT)).name == "observed"
    assert "cz = " in choose_frame(spectrum(sign * Z_LIMIT)).why


def test_a_redshift_with_a_warning_is_not_applied_and_the_warning_is_said() -> None:
    frame = choose_frame(spectrum(1e-4, warning="ZWARNING=4"))
    assert (frame.z, frame.name) == (0.0, "observed")
    assert "ZWARNING=4" in frame.text


@pytest.mark.parametrize("z", [None, math.nan, math.inf])
def test_without_a_redshift_the_frame_is_observed(z: float | None) -> None:
    for mode in ("careful", "published"):
        frame = choose_frame(spectrum(z), mode)  # type: ignore[arg-type]
        assert (frame.z, frame.name, frame.why) == (0.0, "observed", "the file states no redshift")


def test_wavelengths_that_are_at_rest_are_not_shifted_again() -> None:
    frame = choose_frame(spectrum(1e-4, frame="rest"))
    assert (frame.z, frame.name) == (0.0, "rest")


@pytest.mark.parametrize("z", [-0.01, 0.5, 3.0, -0.999])
def test_the_users_redshift_is_applied_as_given_whatever_the_file_says(z: float) -> None:
    for mode in ("careful", "published", "observed"):
        frame = choose_frame(spectrum(2.1, name="QSO", warning="ZWARNING=4"), mode, z)  # type: ignore[arg-type]
        assert (frame.z, frame.name) == (z, "rest")
        assert "given by the user" in frame.text


@pytest.mark.parametrize("z", [math.nan, math.inf, -math.inf, -1.0, -1.5, -9999.0, -1.0 + 1e-17])
def test_a_users_redshift_that_is_none_is_refused(z: float) -> None:
    with pytest.raises(ValueError, match="a redshift must be a finite number above -1"):
        choose_frame(spectrum(), z=z)


@pytest.mark.parametrize("z", [2.1, -0.001, -9999.0, -2.0])
def test_the_published_mode_applies_any_redshift(z: float) -> None:
    frame = choose_frame(spectrum(z, name="QSO", warning="ZWARNING=4"), "published")
    assert (frame.z, frame.name) == (z, "rest")
    assert frame.text.endswith("published behaviour)")


def test_the_published_mode_leaves_zero_as_observed_and_cannot_apply_minus_one() -> None:
    assert choose_frame(spectrum(0.0), "published").name == "observed"
    assert choose_frame(spectrum(-1.0), "published").z == 0.0


def test_the_observed_mode_applies_nothing() -> None:
    frame = choose_frame(spectrum(1e-4), "observed")
    assert (frame.z, frame.text) == (0.0, "observed frame (as asked)")
