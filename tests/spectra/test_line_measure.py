"""`measure_line`: equivalent width, width, velocity and their errors on lines of known shape, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from index_lab import C, gaussian, sloped
from numpy.typing import NDArray

from specvet.spectra import Join, LineMeasurement, Medium, Spectrum, measure_line
from specvet.spectra.lines import air_to_vacuum
from specvet.spectra.pixels import pixel_edges

HA = 6562.80
GRIDS = {
    "R 1800, log": 10 ** np.arange(math.log10(6350.0), math.log10(6780.0), 1e-4),
    "0.5 Å": np.arange(6350.0, 6780.0, 0.5),
    "1.2 Å": np.arange(6350.0, 6780.0, 1.2),
}


def spectrum(
    w: NDArray[np.float64], flux: NDArray[np.float64], snr: float = 300.0, seed: int | None = None, **more: object
) -> Spectrum:
    """With the errors of `snr` everywhere, and noise of that size where a seed is given."""
    sigma = flux.mean() / snr
    noise = 0.0 if seed is None else np.random.default_rng(seed).normal(0, sigma, w.size)
    return Spectrum(w, flux + noise, np.full(w.size, sigma**-2), **{"medium": "air", **more})  # type: ignore[arg-type]


def numbers(m: LineMeasurement) -> dict[str, float]:
    return {x.index.split("/")[1]: x.value for x in m.measurements if x.value is not None}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(("ew", "fwhm"), [(-30.0, 20.0), (-5.0, 8.0), (4.0, 12.0), (-60.0, 28.0)])
def test_a_gaussian_gives_back_what_it_was_made_of(grid: str, ew: float, fwhm: float) -> None:
    w = GRIDS[grid]
    resolution = 1800.0
    seen = math.hypot(fwhm, HA / resolution)
    shift = 150.0 / C * HA
    m = measure_line(spectrum(w, sloped(w) * (1 - gaussian(w, HA + shift, seen, ew)), resolution=resolution), "Hα")
    found = numbers(m)
    pixel = float(np.diff(w).mean())
    assert found["ew"] == pytest.approx(ew, rel=0.03)
    assert found["fwhm"] == pytest.approx(math.hypot(seen, 0.68 * pixel), rel=0.02)  # pixels have a width, too
    assert found["fwhm_km_s"] == pytest.approx(found["fwhm"] / HA * C, rel=1e-6)
    assert found["intrinsic"] == pytest.approx(math.hypot(fwhm, 0.68 * pixel), rel=0.02)
    assert found["intrinsic_km_s"] == pytest.approx(found["intrinsic"] / HA * C, rel=1e-6)
    assert found["centre"] == pytest.approx(HA + shift, abs=0.05)
    assert found["velocity"] == pytest.approx(150.0, abs=3.0)
    assert found["peak"] == pytest.approx(-ew / (1.0645 * seen), rel=0.06)
    assert m.kind == ("emission" if ew < 0 else "absorption")
    assert m.resolved is True


@pytest.mark.parametrize("medium", ["air", "vacuum", "unknown"])
@pytest.mark.parametrize("z", [0.0, 0.01, -0.001])
def test_medium_and_redshift_move_the_windows_with_the_line(medium: Medium, z: float) -> None:
    air, vacuum = HA, float(air_to_vacuum(HA))
    at = {"air": air, "vacuum": vacuum, "unknown": 0.5 * (air + vacuum)}[medium] * (1 + z)
    w = np.arange(6300.0, 6850.0, 1.0)
    m = measure_line(spectrum(w, 1 + gaussian(w, at, 15.0, 20.0), medium=medium), "Hα", z)
    assert numbers(m)["velocity"] == pytest.approx(0.0, abs=2.0)
    assert numbers(m)["ew"] == pytest.approx(-20.0, rel=0.02)
    assert m.band == pytest.approx([x * at / HA for x in (6530.0, 6596.0)], abs=0.02)


def scatter_over_error(
    make: NDArray[np.float64], w: NDArray[np.float64], snr: float, with_errors: bool = True
) -> dict[str, tuple[float, float, float]]:
    """Per number: mean, scatter over 300 seeds, and the scatter of (value − mean)/error."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for seed in range(300):
        s = spectrum(w, make, snr, seed, resolution=1800.0)
        m = measure_line(s if with_errors else s.replace(ivar=None), "Hα")
        for x in m.measurements:
            if x.value is not None and x.error is not None:
                rows.setdefault(x.index.split("/")[1], []).append((x.value, x.error))
    out = {}
    for key, pairs in rows.items():
        values, errors = np.array(pairs).T
        assert len(values) > 280
        out[key] = float(values.mean()), float(values.std()), float(((values - values.mean()) / errors).std())
    return out


SHAPES = {
    "Gaussian": lambda w: 1 + gaussian(w, HA, 18.0, 15.0),
    "absorption": lambda w: 1 - gaussian(w, HA, 16.0, 9.0),
    "double peak": lambda w: 1 + gaussian(w, HA - 9.0, 12.0, 14.0) + gaussian(w, HA + 9.0, 12.0, 14.0),
    "on a slope": lambda w: sloped(w, 0.8) * (1 + gaussian(w, HA, 14.0, 12.0)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grid", ["R 1800, log", "0.5 Å"])
def test_errors_are_those_that_noise_makes(shape: str, grid: str) -> None:
    w = GRIDS[grid]
    found = scatter_over_error(SHAPES[shape](w), w, 20.0)
    for key, (_, _, pull) in found.items():
        if key == "peak" and shape == "double peak":
            continue  # which of two equal peaks is the higher changes with the noise
        # Widths and middles also state what pixels of that size may do, so that their errors may be a little large.
        low = 0.85 if key in ("ew", "peak") else 0.5
        assert low < pull < 1.25, (key, pull)
    assert found["ew"][2] == pytest.approx(1.0, abs=0.15)


def test_without_errors_the_scatter_between_pixels_gives_them() -> None:
    w = GRIDS["R 1800, log"]
    found = scatter_over_error(SHAPES["Gaussian"](w), w, 20.0, with_errors=False)
    assert found["ew"][2] == pytest.approx(1.0, abs=0.3)
    m = measure_line(spectrum(w, SHAPES["Gaussian"](w), 20.0, 0).replace(ivar=None), "Hα")
    assert "error from pixel scatter" in m.equivalent_width.note


def test_noise_biases_neither_width_nor_equivalent_width() -> None:
    w = GRIDS["R 1800, log"]
    for shape, ew in (("Gaussian", -15.0), ("absorption", 9.0), ("double peak", -28.0)):
        clean = numbers(measure_line(spectrum(w, SHAPES[shape](w), 1e4, resolution=1800.0), "Hα"))
        found = scatter_over_error(SHAPES[shape](w), w, 20.0)
        assert found["ew"][0] == pytest.approx(ew, abs=0.05 + 0.2 * found["ew"][1])
        assert found["fwhm"][0] == pytest.approx(clean["fwhm"], abs=0.6 * found["fwhm"][1])
        assert found["velocity"][0] == pytest.approx(0.0, abs=5.0)


def true_fwhm(profile: NDArray[np.float64], w: NDArray[np.float64]) -> float:
    above = w[profile >= 0.5 * profile.max()]
    return float(above[-1] - above[0])


@pytest.mark.parametrize("separation", [14.0, 18.0, 24.0])
def test_two_peaks_are_as_wide_as_their_outermost_half_maxima(separation: float) -> None:
    fine = np.arange(6500.0, 6620.0, 0.01)
    double = [gaussian(x, HA - separation / 2, 11.0, 12.0) + gaussian(x, HA + separation / 2, 11.0, 12.0)
              for x in (fine, GRIDS["1.2 Å"])]  # fmt: skip
    m = measure_line(spectrum(GRIDS["1.2 Å"], 1 + double[1]), "Hα")
    assert numbers(m)["fwhm"] == pytest.approx(true_fwhm(double[0], fine), rel=0.03)
    assert numbers(m)["ew"] == pytest.approx(-24.0, rel=0.02)


def test_a_blend_is_measured_as_a_whole_and_its_neighbours_are_named() -> None:
    w = np.arange(6350.0, 6780.0, 1.0)
    nebula = 1 + gaussian(w, HA, 6.0, 20.0) + gaussian(w, 6583.45, 6.0, 6.0) + gaussian(w, 6548.05, 6.0, 2.0)
    m = measure_line(spectrum(w, nebula), "Hα")
    assert numbers(m)["ew"] == pytest.approx(-28.0, rel=0.02)
    assert numbers(m)["fwhm"] == pytest.approx(6.0, rel=0.05)  # of Hα alone: the others stay below half of it
    assert "in the band too: [N II] 6548, [N II] 6583" in m.note
    alone = measure_line(spectrum(w, nebula), "[N II] 6583", band=(6576.0, 6592.0), sides=((6510, 6535), (6600, 6640)))
    assert numbers(alone)["ew"] == pytest.approx(-6.0, rel=0.03)
    assert numbers(alone)["velocity"] == pytest.approx(0.0, abs=4.0)


@pytest.mark.parametrize("resolution", [500.0, 1800.0, 5000.0])
def test_the_instruments_width_is_taken_out_at_any_resolution(resolution: float) -> None:
    w = np.arange(6200.0, 6950.0, min(1.0, HA / resolution / 3))
    for fwhm in (12.0, 30.0):
        seen = math.hypot(fwhm, HA / resolution)
        s = spectrum(w, 1 + gaussian(w, HA, seen, fwhm), resolution=resolution)
        m = measure_line(s, "Hα", band=(6480.0, 6645.0), sides=((6380.0, 6470.0), (6655.0, 6745.0)))
        if m.resolved:
            assert m.intrinsic.value == pytest.approx(fwhm, abs=2.0 * m.intrinsic.error)
        else:
            assert resolution == 500.0
            assert fwhm < m.intrinsic.value < 1.7 * seen
        given = measure_line(s.replace(resolution=None), "Hα", resolution=resolution)
        assert given.resolved in (True, m.resolved)


def test_a_line_no_wider_than_the_instrument_has_an_upper_limit_and_says_so() -> None:
    w = GRIDS["R 1800, log"]
    instrument = HA / 1800.0
    for fwhm in (0.0, 0.5, 1.0):
        seen = math.hypot(fwhm, instrument)
        m = measure_line(spectrum(w, 1 + gaussian(w, HA, seen, 10.0), resolution=1800.0), "Hα")
        assert m.resolved is False
        assert fwhm < m.intrinsic.value < 1.2 * instrument
        assert m.intrinsic_km_s.value == pytest.approx(m.intrinsic.value / HA * C)
        assert "not resolved: an upper limit" in m.intrinsic.note
        assert m.fwhm.value == pytest.approx(seen, rel=0.12)  # pixels are a third of it


def test_an_unknown_resolution_leaves_the_observed_width_alone() -> None:
    w = GRIDS["1.2 Å"]
    m = measure_line(spectrum(w, 1 + gaussian(w, HA, 15.0, 10.0)), "Hα")
    assert m.fwhm.value is not None
    assert (m.intrinsic.value, m.intrinsic_km_s.value, m.resolved) == (None, None, None)
    assert "the resolution is not known" in m.intrinsic.note


def refused(s: Spectrum, says: str, ew: bool = False) -> None:
    m = measure_line(s, "Hα")
    assert (m.equivalent_width.value is not None) == ew
    for x in m.measurements[1:]:
        assert (x.value, x.error, x.quality) == (None, None, 0.0)
        assert says in x.note
    assert m.kind == ""


def test_what_cannot_be_measured_is_none_with_the_reason() -> None:
    w = GRIDS["1.2 Å"]
    line = 1 + gaussian(w, HA, 15.0, 20.0)
    s = spectrum(w, line)
    assert s.ivar is not None
    refused(spectrum(np.arange(4000.0, 5000.0, 1.0), np.ones(1000)), "good pixels cover 0 %")
    hole = np.where(np.abs(w - HA) < 6.0, 0.0, s.ivar)
    refused(s.replace(ivar=hole), "in the middle of")
    refused(s.replace(ivar=np.where(w < 6505.0, 0.0, s.ivar)), "of the continuum")
    refused(s.replace(flux=-s.flux), "the continuum is not detected")
    refused(spectrum(w, np.ones(w.size), 50.0, 1), "the line is not detected at 4σ", ew=True)
    beside = spectrum(w, 1 - gaussian(w, 6599.0, 14.0, 8.0))
    refused(beside, "at the edge of the band: another line", ew=True)
    nothing = measure_line(Spectrum(np.empty(0), np.empty(0)), "Hα")
    assert all(x.value is None and x.note for x in nothing.measurements)


def test_tellurics_joins_and_sky_lines_are_said() -> None:
    w = np.arange(7550.0, 7800.0, 1.0)
    oxygen = measure_line(spectrum(w, 1 - gaussian(w, 7664.9, 8.0, 2.0)), "K I 7665")
    assert "in telluric O2 A" in oxygen.note
    assert oxygen.fwhm.quality < 0.8
    w = np.arange(5700.0, 6100.0, 1.0)
    s = spectrum(w, 1 - gaussian(w, 5892.9, 10.0, 4.0), joins=(Join(5700.0, 5900.0, "LAMOST blue/red"),))
    sodium = measure_line(s, "Na D2")
    assert "in the LAMOST blue/red join" in sodium.note
    assert "at the night-sky line Na I 5890, Na I 5896" in sodium.note
    assert "night-sky" not in measure_line(s.replace(frame="rest"), "Na D2").note


def test_a_wavelength_that_is_no_known_line_is_measured_all_the_same() -> None:
    w = np.arange(5900.0, 6100.0, 1.0)
    m = measure_line(spectrum(w, 1 + gaussian(w, 6001.0, 10.0, 8.0)), 6000.0)
    assert numbers(m)["ew"] == pytest.approx(-8.0, rel=0.02)
    assert numbers(m)["velocity"] == pytest.approx(C / 6000.0, abs=3.0)
    assert m.line.name == "6000 Å"
    with pytest.raises(ValueError, match="no line is named"):
        measure_line(spectrum(w, np.ones(w.size)), "foo")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"z": -1.0}, "must be a finite number above -1"),
        ({"band": (6600.0, 6500.0)}, "band"),
        ({"sides": ((6400.0, 6450.0), (6460.0, 6500.0))}, "one must lie on each side"),
        ({"sides": ((6450.0, 6400.0), (6610.0, 6650.0))}, "sides"),
    ],
)
def test_wrong_arguments_are_told(arguments: dict[str, object], says: str) -> None:
    w = GRIDS["1.2 Å"]
    with pytest.raises(ValueError, match=says):
        measure_line(spectrum(w, np.ones(w.size)), "Hα", **arguments)  # type: ignore[arg-type]


def test_a_grid_that_is_finer_in_the_core_gives_the_same_width() -> None:
    """Models are sampled densely in the core: weights that count pixels would smear it over the wings."""
    w = HA + np.sign(np.linspace(-1, 1, 301)) * 150.0 * np.abs(np.linspace(-1, 1, 301)) ** 3
    w = np.unique(w)
    left, right = pixel_edges(w)
    assert (right - left).max() > 20 * (right - left).min()
    m = measure_line(Spectrum(w, 1 - gaussian(w, HA, 12.0, 5.0), medium="air"), "Hα")
    assert m.fwhm.value == pytest.approx(12.0, rel=0.05)


def test_a_measurement_says_itself_in_one_line() -> None:
    x = np.arange(6400.0, 6720.0, 0.5)
    flux = 100.0 + 200.0 * np.exp(-0.5 * ((x - 6562.8) / 8.0) ** 2)
    noisy = flux + np.random.default_rng(1).normal(size=x.size)
    spectrum = Spectrum(wavelength=x, flux=noisy, ivar=np.ones(x.size), medium="air", resolution=2000.0)
    said = str(measure_line(spectrum, "Hα"))
    assert "\n" not in said
    assert said.startswith("Hα 6563: EW -39.99 ± 0.1")  # the true area is 40.1 Å
    assert "Å (emission), velocity " in said
    assert ", intrinsic " in said
    narrow = 100.0 + 200.0 * np.exp(-0.5 * ((x - 6562.8) / 1.3) ** 2)
    unresolved = str(measure_line(spectrum.replace(flux=narrow), "Hα"))
    assert "intrinsic < " in unresolved
    assert "velocity not measurable (" in str(measure_line(spectrum, "He I 6678"))
