"""The compact drawing: what a model sees of a spectrum, read back from its pixels."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from specvet.spectra import read
from specvet.views import compact
from specvet.views.compact import (
    BAD,
    BOTTOM,
    DOUBTFUL,
    GRID,
    LEFT,
    RIGHT,
    SIZES,
    TICK,
    TOP,
    compact_array,
    draw_compact,
)
from specvet.views.compact_range import flux_range

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
WIDTH, HEIGHT = SIZES["small"][0]
COLUMNS = WIDTH - LEFT - RIGHT
BLACK = 140
"""Darker than any shade: a level line between two rows leaves 127 in both."""
WAVELENGTH = np.arange(3700.0, 9100.0, 1.5)
"""Steps of 1.5 Å, 3,600 points: nine a column."""


def plot_of(array: np.ndarray) -> np.ndarray:
    return array[TOP:-BOTTOM, LEFT:-RIGHT]


def column_of(wavelength: float, x: np.ndarray = WAVELENGTH, columns: int = COLUMNS) -> int:
    return int((wavelength - x[0]) / (x[-1] - x[0]) * columns)


def top_of_ink(plot: np.ndarray) -> np.ndarray:
    """The highest black row of each column; the number of rows where there is none."""
    black = plot < BLACK
    return np.where(black.any(axis=0), black.argmax(axis=0), plot.shape[0])


def emission(centre: float, height: float, fwhm: float, x: np.ndarray = WAVELENGTH) -> np.ndarray:
    return height * np.exp(-4 * np.log(2) * ((x - centre) / fwhm) ** 2)


@pytest.mark.parametrize("size", [*SIZES["small"], *SIZES["published"]])
def test_an_emission_line_stands_at_its_wavelength(size: tuple[int, int]) -> None:
    flux = 1.0 + emission(6562.8, 5.0, 8.0) + emission(4861.3, 3.0, 8.0)
    plot = plot_of(compact_array(WAVELENGTH, flux, size=size))
    tops = top_of_ink(plot)
    for centre in (6562.8, 4861.3):
        at = column_of(centre, columns=plot.shape[1])
        near = slice(at - 15, at + 16)
        assert abs(int(tops[near].argmin()) - 15) <= 1
    assert tops.min() < 0.08 * plot.shape[0]
    assert int(np.median(tops)) > 0.9 * plot.shape[0]


def test_the_picture_has_its_size_one_channel_or_three_equal_ones_and_white_corners() -> None:
    grey = compact_array(WAVELENGTH, np.sin(WAVELENGTH / 100))
    assert (grey.shape, grey.dtype) == ((280, 448), np.uint8)
    colour = compact_array(WAVELENGTH, np.sin(WAVELENGTH / 100), rgb=True)
    np.testing.assert_array_equal(colour, np.repeat(grey[:, :, None], 3, axis=2))
    assert grey[0, 0] == grey[-1, 0] == grey[0, -1] == grey[-1, -1] == 255
    assert np.mean(grey == 255) > 0.8


def test_png_bytes_hold_the_array() -> None:
    flux = np.sin(WAVELENGTH / 100)
    array = compact_array(WAVELENGTH, flux, rgb=True, title="x")
    with Image.open(io.BytesIO(draw_compact(WAVELENGTH, flux, title="x"))) as image:
        assert (image.mode, image.size) == ("RGB", (448, 280))
        np.testing.assert_array_equal(np.asarray(image), array)
    with Image.open(io.BytesIO(draw_compact(WAVELENGTH, flux, title="x", rgb=False))) as image:
        assert image.mode == "L"
        np.testing.assert_array_equal(np.asarray(image), array[:, :, 0])


def test_a_zoom_is_drawn_as_one_unbroken_line_through_its_points() -> None:
    x = np.linspace(6400.0, 6700.0, 31)
    y = 2.0 + np.sin((x - 6400) / 40)
    plot = plot_of(compact_array(x, y, size=(308, 224)))
    dark = plot < 140
    assert dark.any(axis=0).all()
    weight = np.where(plot < 200, 255.0 - plot, 0.0)
    weight[-TICK:] = 0
    middle = (weight * (np.arange(plot.shape[0])[:, None] + 0.5)).sum(axis=0) / weight.sum(axis=0)
    columns = np.arange(plot.shape[1]) + 0.5
    flux = np.interp(6400 + columns * 300 / plot.shape[1], x, y)
    slope, at_zero = np.polyfit(flux, middle, 1)
    assert slope < 0
    inner = slice(8, -8)
    np.testing.assert_allclose(middle[inner], (slope * flux + at_zero)[inner], atol=0.7)


def test_a_double_peaked_line_shows_two_peaks_and_a_dip() -> None:
    x = np.arange(6400.0, 6700.0, 1.5)
    y = 1.0 + emission(6555.0, 1.0, 9.0, x) + emission(6571.0, 1.0, 9.0, x)
    plot = plot_of(compact_array(x, y + np.random.default_rng(0).normal(0, 0.02, x.size), size=(308, 224)))
    tops = top_of_ink(plot)
    blue, middle, red = (column_of(w, x, plot.shape[1]) for w in (6555.0, 6563.0, 6571.0))
    assert tops[middle] > tops[blue - 2 : blue + 3].min() + 20
    assert tops[middle] > tops[red - 2 : red + 3].min() + 20


@pytest.mark.parametrize("fill", ["nan", "cut"])
def test_a_hole_in_the_data_stays_open(fill: str) -> None:
    inside = (WAVELENGTH > 6000) & (WAVELENGTH < 6500)
    flux = np.where(inside, np.nan, 2.0 + np.sin(WAVELENGTH / 300))
    x, y = (WAVELENGTH, flux) if fill == "nan" else (WAVELENGTH[~inside], flux[~inside])
    plot = plot_of(compact_array(x, y))
    hole = slice(column_of(6000) + 2, column_of(6500) - 1)
    assert (plot[6:-6, hole] >= GRID).all()
    inked = (plot < BLACK).any(axis=0)
    assert inked[6 : hole.start - 2].all()
    assert inked[hole.stop + 2 : -6].all()


def test_bad_pixels_and_doubtful_ranges_are_shaded_where_they_are() -> None:
    bad = (WAVELENGTH > 5000) & (WAVELENGTH < 5200)
    flux = 1.0 + np.random.default_rng(0).normal(0, 0.02, WAVELENGTH.size)
    plot = plot_of(compact_array(WAVELENGTH, flux, bad=bad, doubtful=[(7000.0, 7300.0), (12_000.0, 13_000.0)]))
    for (low, high), shade in (((5000, 5200), BAD), ((7000, 7300), DOUBTFUL)):
        row = plot[8]
        shaded = np.flatnonzero(row == shade)
        assert abs(shaded[0] - column_of(low)) <= 1
        assert abs(shaded[-1] - column_of(high)) <= 1
    assert (plot[8] == 255).sum() > 300
    assert not np.isin(plot_of(compact_array(WAVELENGTH, flux)), (BAD, DOUBTFUL)).all(axis=0).any()


def test_one_bad_pixel_of_nine_in_a_column_is_shaded() -> None:
    bad = np.zeros(WAVELENGTH.size, dtype=bool)
    bad[1800] = True
    plot = plot_of(compact_array(WAVELENGTH, 1.0 + 0 * WAVELENGTH, bad=bad))
    assert 1 <= (plot[8] == BAD).sum() <= 2


def test_bad_pixels_are_drawn_but_do_not_set_the_range() -> None:
    flux = 1.0 + np.random.default_rng(0).normal(0, 0.02, WAVELENGTH.size)
    flux[1000:1100] = -50.0
    bad = np.zeros(WAVELENGTH.size, dtype=bool)
    bad[1000:1100] = True
    plot = plot_of(compact_array(WAVELENGTH, flux, bad=bad))
    at = column_of(WAVELENGTH[1000])
    assert (plot[6:, at - 1 : at + 2] < BLACK).any(axis=1).sum() > 0.3 * plot.shape[0]


def test_the_error_band_lies_around_the_line_of_a_zoom() -> None:
    x = np.linspace(6400.0, 6700.0, 200)
    sigma = np.full(200, 0.1)
    sigma[100:120] = np.inf
    y = 1.0 + 0.5 * np.sin(x / 30)
    with_band = plot_of(compact_array(x, y, sigma=sigma, size=(308, 224)))
    without = plot_of(compact_array(x, y, size=(308, 224)))
    assert (with_band <= without).mean() > 0.9
    grey = (with_band > 150) & (with_band < 210)
    assert grey[:, 20:120].any(axis=0).mean() > 0.9
    assert grey[6:-6, 136:153].sum() < 0.2 * grey[6:-6, 100:117].sum()  # what is left are edges of the line


def test_a_cut_peak_is_marked_outside_of_the_frame_and_only_there() -> None:
    flux = 1.0 + np.random.default_rng(0).normal(0, 0.02, WAVELENGTH.size)
    clean = compact_array(WAVELENGTH, flux)
    flux[2000] += 40.0
    flux[900] -= 40.0
    marked = compact_array(WAVELENGTH, flux)
    up, down = LEFT + column_of(WAVELENGTH[2000]), LEFT + column_of(WAVELENGTH[900])
    assert (clean[TOP - 4 : TOP - 1, LEFT:-RIGHT] == 255).all()
    above = np.flatnonzero((marked[TOP - 4 : TOP - 1] == 0).any(axis=0))
    below = np.flatnonzero((marked[HEIGHT - BOTTOM + 1 : HEIGHT - BOTTOM + 4, LEFT:-RIGHT] == 0).any(axis=0)) + LEFT
    assert abs(above.mean() - up) <= 1
    assert 5 <= len(above) <= 6
    assert abs(below.mean() - down) <= 1


def test_the_title_is_written_and_a_long_one_is_cut_in_the_middle() -> None:
    flux = np.sin(WAVELENGTH / 100)
    plain = compact_array(WAVELENGTH, flux)
    short = compact_array(WAVELENGTH, flux, title="CV")
    assert (plain != short).any(axis=1).nonzero()[0].max() < TOP
    long = compact_array(WAVELENGTH, flux, title="A" + 500 * "b" + "\n中文 Z")
    assert long.shape == plain.shape
    np.testing.assert_array_equal(long[TOP:], plain[TOP:])
    assert (long[: TOP - 1, -RIGHT:] == 255).all()


def test_order_and_points_that_are_not_finite_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    flux = rng.normal(1, 0.1, WAVELENGTH.size)
    sigma, bad = rng.uniform(0.05, 0.2, WAVELENGTH.size), rng.random(WAVELENGTH.size) < 0.02
    expected = compact_array(WAVELENGTH, flux, sigma=sigma, bad=bad, window=(6400, 6700))
    order = rng.permutation(WAVELENGTH.size)
    x = np.concatenate([WAVELENGTH[order], [np.nan, 6500.0, 6501.0]])
    y = np.concatenate([flux[order], [1.0, np.nan, np.inf]])
    s, b = np.concatenate([sigma[order], [1.0, 1.0, 1.0]]), np.concatenate([bad[order], [True, True, True]])
    np.testing.assert_array_equal(compact_array(x, y, sigma=s, bad=b, window=(6400, 6700)), expected)


@settings(deadline=None, max_examples=80)
@given(
    n=st.integers(2, 120),
    seed=st.integers(0, 2**32 - 1),
    x_power=st.integers(-12, 9),
    y_power=st.integers(-290, 147),
    errors=st.booleans(),
    same=st.booleans(),
)
def test_whatever_can_be_drawn_is_drawn_with_a_line_and_a_frame(
    n: int, seed: int, x_power: int, y_power: int, errors: bool, same: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 2 if not same else 1 + 1e-12, n) * float(f"1e{x_power}")
    y = (rng.standard_cauchy(n) if not same else np.ones(n)).clip(-999, 999) * float(f"1e{y_power}")
    sigma = rng.choice([0.1, np.inf, np.nan, -1.0], n) * float(f"1e{y_power}") if errors else None
    array = compact_array(x, y, sigma=sigma, bad=rng.random(n) < 0.5 if errors else None, size=(308, 224))
    plot = plot_of(array)
    assert (plot < 140).any()
    assert (array[TOP - 1, LEFT - 1 : -RIGHT] < 255).all()
    assert (array[TOP:-BOTTOM, :LEFT] < BLACK).any()  # labels of the flux axis
    assert (array[-BOTTOM + 4 :] < BLACK).any()  # and of the wavelengths


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"flux": np.ones(3)}, r"wavelength has shape \(3600,\) and flux \(3,\)"),
        ({"sigma": np.ones(3)}, r"and sigma \(3,\)"),
        ({"bad": np.ones(3, dtype=bool)}, r"and bad \(3,\)"),
        ({"window": (6700.0, 6400.0)}, r"window \(6700.0, 6400.0\) Å is not"),
        ({"window": (100.0, 200.0)}, "0 finite points in 100.0-200.0 Å; a figure needs at least 2"),
        ({"flux": np.full(3600, np.nan)}, "0 finite points; a figure needs"),
        ({"flux": np.full(3600, 1e151)}, "flux holds values beyond 1e[+]150"),
        ({"size": (100, 280)}, "size 100 x 280 pixels; 224 x 168 to 4096 x 4096 expected"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(arguments: dict[str, object], said: str) -> None:
    given_arguments: dict[str, object] = {"flux": np.ones(3600), **arguments}
    with pytest.raises(ValueError, match=said):
        compact_array(WAVELENGTH, **given_arguments)  # type: ignore[arg-type]


def golden_spectrum() -> dict[str, np.ndarray]:
    """Whole numbers from an exact recurrence: the same floats on every machine."""
    state, noise = 12345, []
    for _ in range(4000):
        state = (1103515245 * state + 12345) % 2**31
        noise.append(state % 2001 - 1000)
    x = 3700.0 + 1.25 * np.arange(4000)
    y = 8000.0 - np.arange(4000) + np.array(noise, dtype=float)
    y[2284:2296] += 4000.0
    return {"wavelength": x, "flux": y, "sigma": np.full(4000, 600.0), "bad": np.arange(4000) % 997 == 5}


GOLDEN = {
    (None, (448, 280)): "2a6aae66121af9c6959f08eff4aa0160358ab9c531c4b58f5309219f1edfd609",
    ((6400.0, 6700.0), (308, 224)): "436c812a8c493ed4089912a8d7c8160b798f4e5e1156e43a4290caaa71407fa9",
    (None, (896, 448)): "5d088c1b54eb2cb5fcc6b38ee5663d1797eb346c885a48d7ad85353baadf5ce5",
}
"""SHA-256 of the grey array. It rests on single IEEE operations and on the stored letters; a change of the look needs a
new name of the style."""


@pytest.mark.parametrize(("window", "size"), GOLDEN)
def test_equal_inputs_give_the_same_pixels_on_every_machine(
    window: tuple[float, float] | None, size: tuple[int, int]
) -> None:
    array = compact_array(**golden_spectrum(), window=window, size=size, doubtful=[(6860.0, 6950.0)], title="Golden")
    assert hashlib.sha256(array.tobytes()).hexdigest() == GOLDEN[window, size]


def test_threads_draw_the_same_bytes_at_the_same_time() -> None:
    rng = np.random.default_rng(3)
    fluxes = [rng.normal(1, 0.1, WAVELENGTH.size) for _ in range(8)]
    expected = [draw_compact(WAVELENGTH, flux, title=str(i)) for i, flux in enumerate(fluxes)]
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda i: draw_compact(WAVELENGTH, fluxes[i % 8], title=str(i % 8)), range(64)))
    assert drawn == expected * 8


def test_a_compact_drawing_needs_neither_matplotlib_nor_pillow() -> None:
    code = (
        "import sys, numpy as np; from specvet.views import draw_compact;"
        "draw_compact(np.arange(100.0), np.arange(100.0), title='x');"
        "print([m for m in ('matplotlib', 'PIL', 'scipy', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no real spectra at {SHARED}")
def test_the_two_peaks_of_a_real_accretion_disc_are_seen_in_the_full_view_and_in_the_zoom() -> None:
    (s,) = read(str(SHARED / "sdss" / "cv_ascii" / "spec-1780-53090-0431-catB.dat"))
    for window, size in ((None, (448, 280)), ((6400.0, 6700.0), (308, 224))):
        plot = plot_of(compact_array(s.wavelength, s.flux, sigma=s.sigma, bad=~s.good, window=window, size=size))
        x = s.wavelength if window is None else s.wavelength[(s.wavelength >= 6400) & (s.wavelength <= 6700)]
        tops = top_of_ink(plot)
        low, middle, high = (column_of(w, x, plot.shape[1]) for w in (6520.0, 6564.6, 6610.0))
        dip = tops[middle - 2 : middle + 3].max()
        assert tops[low:middle].min() < dip - 15
        assert tops[middle + 1 : high].min() < dip - 15
        assert tops.min() > 0  # and nothing of them is cut


@pytest.mark.parametrize("size", [(448, 280), (896, 448), (1344, 896), (1344, 1500)])
def test_no_label_of_the_flux_axis_is_wider_than_its_room(size: tuple[int, int]) -> None:
    flux = np.random.default_rng(0).normal(-12.278, 0.0144, 40)  # labels such as -1.2295, times ten
    low, high = flux_range(flux)
    labels = compact._flux_axis(low, high, (size[1] - TOP - BOTTOM) // compact.Y_TICK_PIXELS).labels
    assert len(labels) >= 2
    assert all(label.startswith("-") for label in labels)
    assert all(compact._wide(label) <= LEFT - 4 for label in labels)
