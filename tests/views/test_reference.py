"""The reference figure by itself: what it shows, and that nothing around it can change it."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from specvet.views import reference as module
from specvet.views.reference import draw, drawable, emptiest_corner, figure_size, tick_steps

WAVELENGTH = np.linspace(3700.0, 9100.0, 3000)
FLUX = 5.0 + np.sin(WAVELENGTH / 40.0)


def _size(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


def _figure(x: Any, y: Any, zoomed: bool = True) -> Any:
    return module._figure(np.asarray(x, float), np.asarray(y, float), zoomed=zoomed, title="Spectrum")


@pytest.mark.parametrize(
    ("window", "size"),
    [
        (None, (792, 472)),
        ((4000, 5200), (712, 432)),
        ((6400, 6700), (632, 392)),
        ((6500, 6600), (552, 352)),
        ((6550, 6590), (448, 312)),
    ],
)
def test_size_follows_the_span(window: tuple[float, float] | None, size: tuple[int, int]) -> None:
    png = draw(WAVELENGTH, 20 * FLUX, window=window)
    assert np.abs(np.subtract(_size(png), size)).max() <= 1  # the tight box ends at a label, and labels vary by a pixel


def test_sizes_in_inches_change_at_the_published_spans() -> None:
    zoom = [figure_size(span, 100, zoomed=True) for span in (49.9, 50, 199.9, 200, 999.9, 1000)]
    assert zoom == [(6, 4), (7, 4.5), (7, 4.5), (8, 5), (8, 5), (9, 5.5)]
    full = [figure_size(span, 100, zoomed=False) for span in (200, 200.1, 1000, 1000.1, 3000, 3000.1)]
    assert full == [(6, 4), (7, 4.5), (7, 4.5), (8, 5), (8, 5), (10, 6)]


def test_many_points_widen_the_figure_and_few_narrow_it() -> None:
    widths = [figure_size(300, n, zoomed=True)[0] for n in (49, 50, 10_000, 10_001)]
    assert widths == [8 * 0.95, 8, 8, 8 * 1.05]


def test_tick_steps_change_at_the_published_spans() -> None:
    assert [tick_steps(span) for span in (5000, 4999, 499, 299, 149, 99, 49, 19, 4.9)] == [
        (1000, 200),
        (200, 50),
        (100, 25),
        (50, 25),
        (25, 5),
        (10, 2),
        (5, 1),
        (2, 0.5),
        (1, 0.2),
    ]


@pytest.mark.parametrize(
    ("points", "corner"),
    [
        ([(0, 0), (10, 10), (9, 1), (1, 9), (0, 1), (1, 0), (9, 9), (9, 0)], (False, True)),
        ([(0, 0), (10, 0), (0, 10), (1, 9)], (True, True)),
        ([(0, 0), (10, 10)], (False, True)),  # a tie of two: top before bottom
        ([(0, 0), (0, 10), (10, 10)], (True, False)),
        ([(0, 10), (10, 10), (10, 0)], (False, False)),
    ],
)
def test_the_box_goes_where_the_fewest_points_are(points: list[tuple[int, int]], corner: tuple[bool, bool]) -> None:
    x, y = np.array(points, dtype=float).T
    assert emptiest_corner(x, y) == corner


def test_the_box_states_points_wavelength_range_and_flux_range() -> None:
    figure = _figure([5000, 5100.04, 5200], [1.5, -2, 3e-17])
    (box,) = figure.axes[0].texts
    assert box.get_text() == "Data points: 3\nλ range: 5000.0 - 5200.0 Å\nFlux range: -2.00e+00 - 1.50e+00"


def test_a_png_is_rgb_on_white() -> None:
    image = Image.open(io.BytesIO(draw(WAVELENGTH, FLUX)))
    assert (image.format, image.mode) == ("PNG", "RGB")
    assert image.getpixel((0, 0)) == (255, 255, 255)


def test_a_window_includes_both_its_ends() -> None:
    x, _ = drawable([1, 2, 3, 4, 5], [1, 1, 1, 1, 1], (2, 4))
    assert x.tolist() == [2, 3, 4]


def test_points_that_are_not_finite_are_dropped() -> None:
    x, y = drawable([1, np.nan, 3, 4, np.inf, 6], [1, 2, np.nan, -np.inf, 5, 6])
    assert (x.tolist(), y.tolist()) == ([1, 6], [1, 6])
    bad = FLUX.copy()
    bad[100:110] = np.nan
    assert draw(WAVELENGTH, bad) == draw(np.delete(WAVELENGTH, slice(100, 110)), np.delete(FLUX, slice(100, 110)))


def test_the_order_of_the_input_does_not_show() -> None:
    x, y = [3, 1, 2, 2, 1], [30, 11, 20, 21, 10]
    assert [a.tolist() for a in drawable(x, y)] == [[1, 1, 2, 2, 3], [10, 11, 20, 21, 30]]
    assert draw(x[::-1], y[::-1]) == draw(x, y)
    assert draw(WAVELENGTH[::-1], FLUX[::-1], window=(6400, 6700)) == draw(WAVELENGTH, FLUX, window=(6400, 6700))


def test_inputs_are_left_as_they_were() -> None:
    x, y = np.array([3.0, 1, np.nan, 2]), np.array([1.0, 2, 3, 4])
    draw(x, y)
    np.testing.assert_array_equal(x, [3, 1, np.nan, 2])
    np.testing.assert_array_equal(y, [1, 2, 3, 4])


def test_two_points_are_enough() -> None:
    assert _size(draw([5000, 5010], [1, 2])) == _size(draw([5000, 5010], [1, 2], window=(5000, 5010)))


@pytest.mark.parametrize("flux", [[1, np.nan, np.nan], [np.nan, np.nan, np.nan]])
def test_fewer_than_two_points_are_refused_with_their_count(flux: list[float]) -> None:
    count = int(np.isfinite(flux).sum())
    with pytest.raises(ValueError, match=rf"{count} finite points in 4000-6000 Å; a figure needs at least 2"):
        draw([5000, 5001, 5002], flux, window=(4000, 6000))


@pytest.mark.parametrize("window", [(5000, 4000), (float("nan"), 5000), (5000, float("nan"))])
def test_a_window_that_is_none_is_refused(window: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="is not"):
        draw(WAVELENGTH, FLUX, window=window)


def test_arrays_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(3,\) and flux \(2,\)"):
        draw([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="one shape"):
        draw([[1, 2]], [[1, 2]])


@pytest.mark.parametrize(("x", "y"), [([1, 1e13], [1, 2]), ([1, 2], [1, -1e151])])
def test_values_that_no_axis_can_hold_are_refused(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot be drawn"):
        draw(x, y)


DEGENERATE = {
    "one wavelength twice": ([5000, 5000], [1, 2]),
    "one point twice": ([5000, 5000], [1, 1]),
    "neighbouring floats": ([5000, np.nextafter(5000, 6000)], [1, 2]),
    "a millionth of an ångström": ([5000, 5000.000001], [1, 2]),
    "zero": ([0, 0], [0, 0]),
    "a gigaångström": ([0, 1e9], [1, 2]),
    "the limits": ([-1e12, 1e12], [-1e150, 1e150]),
    "the smallest floats": ([1e-300, 2e-300], [5e-324, 1e-323]),
    "just below a step of the table": ([0, 4999], [1, 2]),
    "far infrared": ([0, 300_000], [1, 2]),
}


@pytest.mark.parametrize(("x", "y"), DEGENERATE.values(), ids=DEGENERATE.keys())
@pytest.mark.parametrize("zoomed", [True, False])
def test_ticks_are_bounded_for_any_window(x: list[float], y: list[float], zoomed: bool) -> None:
    axes = _figure(x, y, zoomed).axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        assert len(axis.get_majorticklocs()) + len(axis.get_minorticklocs()) < 300
    width, height = _size(draw(x, y, window=(-2e12, 2e12) if zoomed else None))
    assert width <= 1000
    assert height <= 480


def test_spectra_up_to_20000_angstrom_keep_the_published_ticks() -> None:
    axes = _figure([0, 20_000], [1, 2], zoomed=False).axes[0]
    assert set(np.diff(axes.xaxis.get_majorticklocs())) == {1000.0}


def test_a_title_is_text_and_not_mathematics() -> None:
    draw([1, 2], [1, 2], title=r"a$b_$ \frac{")


def test_a_long_title_cannot_blow_up_the_figure() -> None:
    width, height = _size(draw([1, 2], [1, 2], title="x" * 10_000 + "\n" * 1000))
    assert width < 2500
    assert height < 400


CHANGED = {
    "font.size": 25,
    "font.family": ["serif"],
    "lines.linewidth": 9,
    "axes.facecolor": "black",
    "figure.facecolor": "red",
    "savefig.facecolor": "green",
    "savefig.pad_inches": 1.0,
    "savefig.transparent": True,
    "figure.dpi": 300,
    "figure.constrained_layout.use": True,
    "axes.grid": True,
    "axes.xmargin": 0.4,
    "xtick.top": True,
    "xtick.minor.size": 12,
    "grid.linestyle": ":",
    "path.simplify": False,
    "text.antialiased": False,
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": False,
    "axes.spines.top": False,
}


def test_changed_parameters_neither_change_the_figure_nor_are_changed_by_it() -> None:
    import matplotlib as mpl

    before = draw(WAVELENGTH, FLUX)
    with mpl.rc_context(CHANGED):  # type: ignore[arg-type]
        kept = dict(mpl.rcParams.copy())
        assert draw(WAVELENGTH, FLUX) == before
        assert dict(mpl.rcParams.copy()) == kept
    assert draw(WAVELENGTH, FLUX) == before


def test_parameters_come_back_when_drawing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no figure today")

    monkeypatch.setattr(module, "_figure", fail)
    with mpl.rc_context({"font.size": 25}):
        with pytest.raises(RuntimeError, match="no figure today"):
            draw(WAVELENGTH, FLUX)
        assert mpl.rcParams["font.size"] == 25


def test_eight_threads_draw_the_bytes_that_one_draws() -> None:
    import matplotlib as mpl

    windows = [None, (6400.0, 6700.0), (4800.0, 4920.0), (4000.0, 5200.0)] * 2
    alone = [draw(WAVELENGTH, FLUX, window=window) for window in windows[:4]] * 2
    with mpl.rc_context({"font.size": 25, "lines.linewidth": 5}), ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda window: draw(WAVELENGTH, FLUX, window=window), windows))
        assert mpl.rcParams["font.size"] == 25
    assert together == alone


def test_no_warning_is_given_for_an_ordinary_spectrum() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(WAVELENGTH, FLUX)
        draw(WAVELENGTH, FLUX, window=(6400, 6700))


def _python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return result.stdout.strip()


def test_a_matplotlibrc_does_not_change_the_figure(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 25\naxes.facecolor: black\nbackend: svg\nsavefig.dpi: 300\n")
    code = (
        "import hashlib; from specvet.views import draw;"
        "print(hashlib.sha256(draw([5000, 5100, 5200], [1, 3, 2])).hexdigest());"
        "import matplotlib; print(matplotlib.rcParams['font.size'])"
    )
    digest, size = _python(code, MATPLOTLIBRC=str(tmp_path)).split()
    assert size == "25.0"
    assert digest == hashlib.sha256(draw([5000, 5100, 5200], [1, 3, 2])).hexdigest()


def test_importing_views_imports_no_matplotlib_and_drawing_imports_no_pyplot() -> None:
    code = (
        "import sys; from specvet.views import draw, full_view, zoom_view, RenderPool;"
        "print('matplotlib' in sys.modules, 'PIL' in sys.modules);"
        "draw([1, 2], [1, 2]); print('matplotlib.pyplot' in sys.modules)"
    )
    assert _python(code).split() == ["False", "False", "False"]
