"""What replies say of a spectrum whose lines, steps and noise are known."""

from __future__ import annotations

import re

import numpy as np
import pytest

from specvet.data.reading import requests as asking
from specvet.data.reading.catalogue import catalogue
from specvet.data.reading.chance import drawn
from specvet.data.reading.pictures import Picture
from specvet.data.reading.reader import Exposure, Reader, scatter
from specvet.data.reading.windows import window_of
from specvet.spectra import Spectrum
from specvet.tools import ZoomTool

HA, SIGMA = 6564.6, 8.0  # Å in vacuum; the line's σ
EW = -40.0


def spectrum(snr: float = 50.0, stated: bool = True, gap: bool = False) -> Spectrum:
    """A step from 1 to 3 at 5,000 Å, Hα in emission, noise."""
    wavelength = np.arange(3800.0, 9000.0, 1.5)
    flux = np.where(wavelength < 5000.0, 1.0, 3.0)
    flux *= 1.0 - EW / (SIGMA * np.sqrt(2.0 * np.pi)) * np.exp(-0.5 * ((wavelength - HA) / SIGMA) ** 2)
    error = flux / snr
    flux = flux + error * np.random.default_rng(0).standard_normal(flux.size)
    ivar = error**-2.0
    if gap:
        ivar[(wavelength > 7000.0) & (wavelength < 7400.0)] = 0.0
    return Spectrum(wavelength, flux, ivar=ivar if stated else None, medium="vacuum")


def reader(s: Spectrum, seed: int = 0) -> Reader:
    return Reader(Exposure(ZoomTool(s, style="compact", size="tiny")), np.random.default_rng(seed))


def window(of: Reader, low: float, high: float) -> Picture:
    return Picture(of.exposure.tool({"wavelength_range": [low, high]}))


@pytest.mark.parametrize("stated", [True, False])
def test_a_line_is_read_with_its_width_and_an_absent_one_as_not_seen(stated: bool) -> None:
    one = reader(spectrum(stated=stated))
    near = window(one, 6400, 6750)
    said = one.window(near)
    found = re.search(r"Hα emission, EW −(\d+) Å\.", said)
    assert found
    assert int(found[1]) == pytest.approx(-EW, abs=2)
    wide = re.search(r"Hα FWHM (\d+) km/s\.", said)
    assert wide
    assert int(wide[1]) == pytest.approx(2.355 * SIGMA / HA * 299_792, rel=0.07)
    assert re.match(r"S/N (4\d|5\d)\. ", said)
    (key,) = one.shown(["hei6678"])
    assert one.finding(key) == "He I 6678 not seen."


def test_the_whole_view_tells_noise_colour_shape_gap() -> None:
    one = reader(spectrum(gap=True))
    assert one.whole() == "S/N 50. Red, 3.0. Shape 33 99 100 100 100 100. Gap 7000-7400 Å. Peak 6540."
    assert one.opening.column > 29.0  # a peak of the whole view is told to its stretch of two columns


def test_poor_data_are_called_noisy() -> None:
    assert reader(spectrum(snr=4.0)).whole().startswith("S/N 4.0. Noisy. ")


def test_ratios_heights_and_the_axis_are_those_of_the_picture() -> None:
    one = reader(spectrum())
    across = window(one, 4600, 5400)
    seen = {}
    for _ in range(40):
        made = asking._ratio(one, across)
        assert made
        low, _, high, _ = map(float, re.findall(r"\d+", made[0]))
        seen[low < 4900, high < 4900, abs(low - 5000) > 110 and abs(high - 5000) > 110] = made[1]
    assert {place: seen[*place, True] for place in ((True, False), (True, True), (False, True))} == {
        (True, False): "Ratio 0.33.",
        (True, True): "Ratio 1.0.",
        (False, True): "Ratio 3.0.",
    }
    low, high = across.axis
    assert low < 1.0 < 3.0 < high
    ask, reply = asking._heights(one, across) or ("", "")
    for place, height in zip(re.findall(r"\d+", ask), re.findall(r"\d+", reply), strict=True):
        level = 1.0 if float(place) < 5000.0 else 3.0
        assert float(height) == pytest.approx(100.0 * (level - low) / (high - low), abs=2.5)
    axis = asking._axis(one, across)
    assert axis == ("Axis?", f"1.0 1.5 2.0 2.5 3.0, zero at {round(across.height(0.0))}.".replace("-", "−"))


def test_peaks_are_placed_and_noise_has_none() -> None:
    one = reader(spectrum())
    near = window(one, 6300, 6900)
    peak = re.fullmatch(r"Peak (\d+)\.", (asking._peaks(one, near) or ("", ""))[1])
    assert peak
    assert float(peak[1]) == pytest.approx(HA, abs=near.column)
    assert asking._peaks(one, window(one, 8000, 8500)) == ("Peaks and dips?", "None.")


def test_the_end_of_a_steep_continuum_is_no_peak() -> None:
    wavelength = np.arange(3700.0, 9000.0, 1.5)
    flux = (wavelength / 5000.0) ** -4.0
    flux += 0.01 * flux * np.random.default_rng(3).standard_normal(flux.size)
    steep = reader(Spectrum(wavelength, flux, medium="vacuum"))
    assert asking._peaks(steep, steep.opening) == ("Peaks and dips?", "None.")


def test_names_are_asked_of_what_a_window_shows_and_strong_ones_more_often() -> None:
    one = reader(spectrum())
    near = window(one, 6400, 6750)
    asked = [(asking._named(one, near) or ("", ""))[0] for _ in range(60)]
    names = {name for ask in asked for name in ask.rstrip("?").split(", ")}
    assert {"Hα", "Hα FWHM", "He I 6678"} <= names
    assert "Hβ" not in names
    assert sum("Hα" in ask for ask in asked) > 45
    assert one.exposure.strengths["ha"] == 1.0
    assert one.exposure.strengths["hei6678"] == 0.0


def test_windows_lie_in_the_data_and_key_windows_are_among_them() -> None:
    one = reader(spectrum())
    windows = [window_of(one, one.rng) for _ in range(60)]
    assert all(w and 3800.0 <= w[0] < w[1] - 20.0 <= 8980.0 for w in windows)
    known = [w.range for w in catalogue().windows]
    near = [w for w in windows if w and any(abs(w[0] - a) + abs(w[1] - b) < 0.4 * (b - a) for a, b in known)]
    assert len(near) > 20


def test_scatter_is_the_noise_where_none_is_stated() -> None:
    rng = np.random.default_rng(1)
    good = np.ones(4000, dtype=bool)
    good[100:120] = False
    sigma = scatter(np.sin(np.arange(4000) / 200.0) + 0.1 * rng.standard_normal(4000), good)
    assert np.median(sigma[good]) == pytest.approx(0.1, rel=0.1)
    assert not sigma[~good].any()


def test_things_are_drawn_once_each_as_often_as_their_weights_say() -> None:
    rng = np.random.default_rng(2)
    first = [drawn(rng, [1.0, 3.0, 0.0], 1)[0] for _ in range(2000)]
    assert first.count(1) / 2000 == pytest.approx(0.75, abs=0.03)
    assert 2 not in first
    assert sorted(drawn(rng, [1.0, 2.0, 3.0], 5)) == [0, 1, 2]
