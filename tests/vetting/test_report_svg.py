"""The pictures of the report: numbers in, short SVG out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from specvet.spectra import Join, Spectrum
from specvet.spectra.lines import air_to_vacuum
from specvet.vetting.report import figure, svg

H_ALPHA_VACUUM = float(air_to_vacuum(6562.8))


def emission_star(n: int = 4000, medium: str = "vacuum", **changes: object) -> Spectrum:
    """A flat continuum of 10 with noise 0.1 and a strong Hα line in emission."""
    wavelength = np.linspace(4000.0, 9000.0, n)
    noise = np.random.default_rng(7).normal(0.0, 0.1, n)
    flux = 10.0 + noise + 30.0 * np.exp(-0.5 * ((wavelength - H_ALPHA_VACUUM) / 8.0) ** 2)
    return Spectrum(wavelength, flux, np.full(n, 100.0), medium=medium).replace(**changes)  # type: ignore[arg-type]


def drawn(spectrum: Spectrum, window: tuple[float, float] | None = None) -> figure.Base:
    size = figure.FULL if window is None else figure.ZOOM
    base = figure.base(spectrum, z=0.0, frame="rest frame", window=window, size=size)
    assert base is not None
    return base


def points(path: str) -> list[tuple[int, int]]:
    """Absolute points of a path made of M, l, h and v."""
    x = y = 0
    out = []
    for command, args in re.findall(r"([Mlhv])([^Mlhvz]*)", path):
        numbers = [int(v) for v in re.findall(r"-?\d+", args)]
        if command == "M":
            x, y = numbers
        elif command == "l":
            x, y = x + numbers[0], y + numbers[1]
        elif command == "h":
            x += numbers[0]
        else:
            y += numbers[0]
        out.append((x, y))
    return out


def path_of(text: str, kind: str) -> str:
    found = re.search(rf'<path class="{kind}" d="([^"]*)"', text)
    assert found, f"no path {kind}"
    return found[1]


@pytest.mark.parametrize("window", [None, (6400.0, 6700.0)])
def test_the_peak_of_a_line_and_its_mark_stand_where_its_wavelength_says(window: tuple[float, float] | None) -> None:
    base = drawn(emission_star(), window)
    low, high = base.plot.x
    expected = base.plot.left + base.plot.width * (H_ALPHA_VACUUM - low) / (high - low)
    peak = min(points(path_of(base.body, "flux")), key=lambda p: p[1])
    assert peak[0] == pytest.approx(expected, abs=4)
    picture = figure.picture(base, [figure.Mark(H_ALPHA_VACUUM, "Hα")])
    mark = re.match(r"M([\d.]+)", path_of(picture, "mark"))
    assert mark
    assert float(mark[1]) == pytest.approx(expected, abs=0.1)
    assert ">Hα</text>" in picture


def test_flux_values_stand_at_their_height() -> None:
    base = drawn(emission_star())
    peak = min(y for _, y in points(path_of(base.body, "flux")))
    low, high = base.plot.y
    flux = low + (base.plot.bottom - peak) / base.plot.height * (high - low)
    assert flux == pytest.approx(40.0, abs=0.5)


def test_decimation_keeps_the_extremes_of_each_column_and_shortens() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=50_000)
    columns = np.sort(rng.integers(0, 1600, values.size))
    runs = np.zeros(values.size, dtype=np.int64)
    kept = svg.decimated(columns, values, runs)
    assert kept.size <= 1600
    assert bool(np.all(np.diff(kept) > 0))
    for column in np.unique(columns // svg.COLUMN)[::50]:
        here = columns // svg.COLUMN == column
        inside = kept[here[kept]]
        assert values[inside].min() == values[here].min()
        assert values[inside].max() == values[here].max()


def test_a_full_view_stays_small_however_many_pixels_there_are() -> None:
    assert len(figure.picture(drawn(emission_star(200_000)))) < 20_000
    assert len(figure.picture(drawn(emission_star(4_000)))) < 14_000


def test_nan_breaks_the_line_and_a_lone_pixel_becomes_a_dot() -> None:
    spectrum = emission_star(100)
    flux = spectrum.flux.copy()
    flux[[10, 12, 40]] = np.nan
    path = path_of(drawn(spectrum.replace(flux=flux, ivar=None)).body, "flux")
    assert path.count("M") == 4
    assert "h0" in path


def test_a_missing_stretch_is_not_bridged() -> None:
    spectrum = emission_star()
    keep = (spectrum.wavelength < 5500) | (spectrum.wavelength > 6200)
    cut = Spectrum(spectrum.wavelength[keep], spectrum.flux[keep])
    assert path_of(drawn(cut).body, "flux").count("M") == 2


def test_an_isolated_spike_is_clipped_and_marked_and_a_real_line_is_not() -> None:
    spectrum = emission_star()
    flux = spectrum.flux.copy()
    flux[500] = 5_000.0
    base = drawn(spectrum.replace(flux=flux))
    assert 40 < base.plot.y[1] < 60
    assert path_of(base.body, "spike").count("M") == 1
    assert 'class="spike"' not in drawn(spectrum).body


def test_bad_pixels_are_shaded_and_neither_set_the_range_nor_vanish() -> None:
    spectrum = emission_star()
    flux, ivar = spectrum.flux.copy(), np.full(4000, 100.0)
    flux[1000:1100], ivar[1000:1100] = -900.0, 0.0
    base = drawn(spectrum.replace(flux=flux, ivar=ivar))
    assert base.plot.y[0] > 0
    assert path_of(base.body, "bad").count("M") == 1
    assert any(y == base.plot.bottom for _, y in points(path_of(base.body, "flux")))
    assert "100 of them bad" in base.description


def test_a_spectrum_that_is_all_bad_or_constant_or_huge_is_drawn() -> None:
    spectrum = emission_star(50)
    for flux, ivar in (
        (spectrum.flux, np.zeros(50)),
        (np.zeros(50), None),
        (np.full(50, 3e-17), np.full(50, 1e40)),
        (np.full(50, 1e140), None),
    ):
        assert 'class="flux"' in drawn(spectrum.replace(flux=flux, ivar=ivar)).body


def test_nothing_is_drawn_of_fewer_than_two_points() -> None:
    spectrum = emission_star(50)
    args = {"z": 0.0, "frame": "rest frame", "size": figure.ZOOM}
    assert figure.base(spectrum, window=(100.0, 200.0), **args) is None  # type: ignore[arg-type]
    assert figure.base(spectrum.replace(flux=np.full(50, np.nan)), window=None, **args) is None  # type: ignore[arg-type]


def test_the_axis_names_medium_and_frame_and_the_unit_of_the_file() -> None:
    base = drawn(emission_star(flux_unit="1E-17 erg/cm^2/s/Ang"))
    assert "Wavelength (Å, vacuum, rest frame)" in base.body
    assert "Flux (10⁻¹⁷ erg s⁻¹ cm⁻² Å⁻¹)" in base.body
    assert "Wavelength (Å, medium unknown, rest frame)" in drawn(emission_star(medium="unknown")).body


def test_joins_and_telluric_bands_are_shaded_where_they_are_in_the_frame_shown() -> None:
    join = Join(5700.0, 5900.0, "blue/red <arm>")
    base = figure.base(emission_star(joins=(join,)), z=0.01, frame="rest frame", window=None, size=figure.FULL)
    assert base
    assert "join: blue/red &lt;arm&gt;" in base.body
    left = re.match(r"M(\d+)", path_of(base.body, "air"))
    assert left
    expected = base.plot.across(float(air_to_vacuum(6867.0)) / 1.01)
    assert int(left[1]) == pytest.approx(expected, abs=1)


def test_labels_never_overlap_nor_cross_a_leader() -> None:
    rows = svg.LabelRows(0.0, 1000.0, 3)
    rng = np.random.default_rng(5)
    placed: list[tuple[float, int, float, float]] = []
    for x in rng.uniform(0, 1000, 80):
        width = float(rng.uniform(30, 150))
        place = rows.place(float(x), width)
        if place:
            placed.append((float(x), place[0], place[1] - width / 2, place[1] + width / 2))
    assert len(placed) > 8
    for i, (x, row, low, high) in enumerate(placed):
        assert low >= 0
        assert high <= 1000
        for other_x, other_row, other_low, other_high in placed[i + 1 :]:
            assert row != other_row or high <= other_low or other_high <= low
            assert other_row <= row or not low < other_x < high
            assert row <= other_row or not other_low < x < other_high


@pytest.mark.parametrize("span", [0.3, 1.0, 7.0, 99.0, 5400.0, 6224.3, 1e-17, 3e30])
def test_ticks_are_round_and_few(span: float) -> None:
    step = svg.tick_step(span, 6)
    assert 2 <= len(svg.ticks(0.0, span, step)) <= 7
    assert float(f"{step:.0e}") == pytest.approx(step)


def test_numbers_on_axes_read_well() -> None:
    assert svg.number(-0.5, 0.5) == "−0.5"
    assert svg.number(-0.0, 0.1) == "0.0"
    assert svg.number(6500.0, 500.0) == "6500"
    assert svg.common_exponent(-1e-17, 3e-16) == -16
    assert svg.common_exponent(0.0, 900.0) == 0


def test_two_drawings_of_one_spectrum_are_equal() -> None:
    assert drawn(emission_star()) == drawn(emission_star())
