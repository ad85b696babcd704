"""Spectra stored small, and read back with all that they told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specvet.data.packed import packed
from specvet.spectra import Redshift, Spectrum, SpectrumReadError, read
from specvet.spectra.spectrum import Join

W = np.linspace(3700.0, 9000.0, 3000)


def spectrum(level: float, **fields: object) -> Spectrum:
    rng = np.random.default_rng(0)
    flux = level * (1.0 + 0.1 * rng.standard_normal(W.size))
    ivar = np.full(W.size, (0.1 * level) ** -2.0)
    ivar[10:14] = 0.0
    return Spectrum(W, flux, ivar, **fields)  # type: ignore[arg-type]


def test_what_is_read_back_tells_all_that_was_stored(tmp_path: Path) -> None:
    first = spectrum(
        3e-16,
        medium="vacuum",
        flux_unit="erg/s/cm2/A",
        calibration="relative",
        resolution=1800.0,
        joins=(Join(5700.0, 5900.0, "LAMOST blue/red"),),
        frame="heliocentric",
        redshift=Redshift(1.5e-4, 2e-5, "header Z", "class Unknown"),
        survey="LAMOST",
        id="17",
        warnings=("SIMULATED",),
    )
    second = spectrum(50_000.0)
    (tmp_path / "two.npz").write_bytes(packed([first, second]))
    one, other = read(tmp_path / "two.npz")
    for name in ("medium", "flux_unit", "calibration", "resolution", "joins", "frame", "redshift", "survey", "id"):
        assert getattr(one, name) == getattr(first, name), name
    assert "SIMULATED" in one.warnings
    assert (other.medium, other.redshift, other.joins, other.row) == ("unknown", Redshift(), (), 1)
    for was, now in ((first, one), (second, other)):
        assert np.abs(now.flux / was.flux - 1.0).max() < 6e-4
        assert np.array_equal(now.good, was.good)
        assert now.snr == pytest.approx(was.snr, rel=2e-3)
        assert np.abs(now.wavelength - was.wavelength).max() < 6e-4


def test_spectra_without_errors_stay_without(tmp_path: Path) -> None:
    (tmp_path / "one.npz").write_bytes(packed([spectrum(1.0).replace(ivar=None)]))
    assert read(tmp_path / "one.npz")[0].ivar is None


def test_a_spike_and_an_empty_spectrum_are_kept(tmp_path: Path) -> None:
    spiked = spectrum(1.0)
    spiked.flux[100] = 1e9
    (tmp_path / "two.npz").write_bytes(packed([spiked, spectrum(1.0).replace(flux=np.zeros(W.size))]))
    one, other = read(tmp_path / "two.npz")
    assert np.isfinite(one.flux).all()
    assert one.flux[100] > 5_000.0
    assert not other.flux.any()


def test_spectra_of_other_grids_are_not_packed_together() -> None:
    other = Spectrum(W + 1.0, np.ones(W.size))
    with pytest.raises(ValueError, match="pack them apart"):
        packed([spectrum(1.0), other])


@pytest.mark.parametrize(
    "text",
    [
        '{"specvet": 1, "scale": -1}',
        '{"specvet": 1, "scale": "large"}',
        '{"specvet": 1, "medium": "water"}',
        '{"specvet": 1, "joins": [[1, 2]]}',
        '{"specvet": 1, "joins": 5}',
        '{"specvet": 1, "redshift": {"value": true}}',
        '{"specvet": 1, "redshift": [1]}',
        '{"specvet": 1, "resolution": NaN}',
        '{"specvet": 1, "frame": 3}',
    ],
)
def test_a_damaged_description_is_told(tmp_path: Path, text: str) -> None:
    np.savez(tmp_path / "a.npz", wavelength=W, flux=np.ones((1, W.size)), about=np.array([text]))
    with pytest.raises(SpectrumReadError, match="about of row 0 is damaged"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("about", [np.array(["my star"]), np.array(["[1]"]), np.array([3.0]), np.array(["{}", "{}"])])
def test_an_array_of_that_name_that_is_something_else_is_left_alone(tmp_path: Path, about: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", wavelength=W, flux=W[None] / 5000.0, about=about)
    assert read(tmp_path / "a.npz")[0].flux[0] == pytest.approx(0.74)
