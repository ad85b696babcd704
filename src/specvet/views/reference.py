"""The published reference figure, drawn with matplotlib's object API: the look that the published models learnt.

Style `spec-o3-reference-1`: sizes, ticks, grid and box as in the plotting function of Maxwell-Jia/spec-o3 (ACL 2026,
arXiv:2601.06498). Every number below is part of that look, so none of them is ours to improve.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specvet.views.png import encode_png
from specvet.views.points import check_points, points

STYLE = "spec-o3-reference-1"

DPI = 80

# A window without a sensible width (two points at one wavelength, 0 to 1e9 Å) would cost thousands of ticks under the
# published table. It needs about 110 minor ones up to a span of 20,000 Å, so the limit changes no optical spectrum.
MAX_MINOR_TICKS = 200
# The tight bounding box grows with the title, and with it the number of image tokens.
MAX_TITLE = 120

_ZOOM_SIZES = ((50.0, (6.0, 4.0)), (200.0, (7.0, 4.5)), (1000.0, (8.0, 5.0)))
"""(span below, Å; size, inches) of zooms; 9 x 5.5 beyond."""

_FULL_SIZES = ((3000.0, (10.0, 6.0)), (1000.0, (8.0, 5.0)), (200.0, (7.0, 4.5)))
"""(span above, Å; size, inches) of full views; 6 x 4 below."""

_TICKS = (
    (5000.0, 1000.0, 200.0),
    (1000.0, 200.0, 50.0),
    (500.0, 100.0, 20.0),
    (300.0, 100.0, 25.0),
    (150.0, 50.0, 25.0),
    (100.0, 25.0, 5.0),
    (50.0, 10.0, 2.0),
    (20.0, 5.0, 1.0),
    (5.0, 2.0, 0.5),
)
"""(span from, major step, minor step), all Å; 1 and 0.2 below."""

# matplotlib's rcParams are one per process and are read while artists are made and while they are drawn, so a whole
# drawing holds this lock: two threads can never see each other's parameters being put back.
_LOCK = threading.RLock()


_put_aside: dict[Any, Any] = {}
"""The program's own parameters while something is drawn."""


def _start_child() -> None:
    """A forked child starts with the lock open and the program's parameters: the thread that drew is not in it."""
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.RLock()
    if _put_aside:
        import matplotlib as mpl

        mpl.rcParams.update(_put_aside)
        _put_aside.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_child)


def drawable(
    wavelength: ArrayLike, flux: ArrayLike, window: tuple[float, float] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points that a figure shows: finite in both arrays, inside `window`, sorted by wavelength.

    Args:
        wavelength: Å, shape (n,), any order.
        flux: any unit, shape (n,).
        window: (low, high) in Å, both ends included; None for all.

    Returns:
        Wavelength and flux of shape (m,), float64, m ≤ n; possibly empty.

    Raises:
        ValueError: shapes differ or are not one-dimensional; an end of the window is NaN; low is above high.
    """
    x, y, _, _ = points(wavelength, flux, window)
    return x, y


def draw(
    wavelength: ArrayLike, flux: ArrayLike, *, window: tuple[float, float] | None = None, title: str = "Spectrum"
) -> bytes:
    """The reference figure of a spectrum, or of a window of it, as an RGB PNG (opaque, on white).

    Equal inputs give equal bytes in one environment, from any thread and under any rcParams; pixels depend on the
    versions of matplotlib and its FreeType. Drawings within a process run one after another. While one runs, the
    process's rcParams are matplotlib's defaults (they are touched only where they differ); a program that draws its
    own figures in other threads meanwhile should use `RenderPool`, whose processes share nothing with it.

    Args:
        wavelength: Å, shape (n,), in the frame to show, any order.
        flux: any unit, shape (n,). Points that are not finite in both are left out.
        window: (low, high) in Å, both ends included; None draws a full view, which has sizes of its own.
        title: drawn as one line, without mathematics (a `$` is a `$`); beyond 120 characters its middle is left out.

    Returns:
        PNG bytes, at 80 dpi: 792 x 472 pixels for a full view wider than 3000 Å, 632 x 392 for a zoom of 300 Å.

    Raises:
        ValueError: fewer than 2 points to draw, wavelengths beyond 1e12 or fluxes beyond 1e150, shapes that differ,
            or a window that is none.

    Source:
        plotting function of github.com/Maxwell-Jia/spec-o3 (arXiv:2601.06498), as drawn by matplotlib 3.11.2.
    """
    x, y, title = checked(wavelength, flux, window, title)
    with drawing():
        return _png(_figure(x, y, zoomed=window is not None, title=title))


def checked(
    wavelength: ArrayLike, flux: ArrayLike, window: tuple[float, float] | None, title: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """The points to draw, as `drawable` gives them, and the title in one line; raises what `draw` raises."""
    x, y = drawable(wavelength, flux, window)
    check_points(x, y, window)
    title = " ".join(title.splitlines())
    # Half characters come from file names that are not UTF-8; no font can draw them.
    title = re.sub("[\ud800-\udfff]", "\ufffd", title)
    if len(title) > MAX_TITLE:
        title = f"{title[: MAX_TITLE // 2]}…{title[-(MAX_TITLE // 2 - 1) :]}"
    return x, y, title


@contextmanager
def drawing() -> Iterator[None]:
    """The lock and matplotlib's default parameters, for as long as something is drawn."""
    with _LOCK, _default_parameters():
        yield


def figure_size(span: float, n_points: int, *, zoomed: bool) -> tuple[float, float]:
    """Width and height in inches before the tight bounding box, by the span of the data in Å."""
    if zoomed:
        width, height = next((size for below, size in _ZOOM_SIZES if span < below), (9.0, 5.5))
    else:
        width, height = next((size for above, size in _FULL_SIZES if span > above), (6.0, 4.0))
    if n_points > 10_000:
        width *= 1.05
    elif n_points < 50:
        width *= 0.95
    return width, height


def tick_steps(span: float) -> tuple[float, float]:
    """Major and minor step of the wavelength axis in Å, by the span of the data in Å."""
    return next(((major, minor) for start, major, minor in _TICKS if span >= start), (1.0, 0.2))


def emptiest_corner(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[bool, bool]:
    """(right, top) of the quarter, split at the middles of both ranges, that holds the fewest points.

    Ties go to the top and then to the left. The golden figures show left before right and top left before bottom
    right; they hold no tie of top against bottom on one side, nor of top right against bottom left.
    """
    right, top = x > (x.min() + x.max()) / 2, y > (y.min() + y.max()) / 2
    corners = ((False, True), (True, True), (False, False), (True, False))
    return min(corners, key=lambda corner: int(np.sum((right == corner[0]) & (top == corner[1]))))


def info_text(x: NDArray[np.float64], y_low: float, y_high: float) -> str:
    """What the box of text says of sorted wavelengths `x` and fluxes from `y_low` to `y_high`."""
    return f"Data points: {x.size}\nλ range: {x[0]:.1f} - {x[-1]:.1f} Å\nFlux range: {y_low:.2e} - {y_high:.2e}"


def _figure(x: NDArray[np.float64], y: NDArray[np.float64], *, zoomed: bool, title: str) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import AutoLocator, AutoMinorLocator, MultipleLocator

    span = float(x[-1] - x[0])
    figure = Figure(figsize=figure_size(span, x.size, zoomed=zoomed), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(x, y, color="blue", linewidth=1.0, alpha=0.8)
    axes.set_xlabel("Wavelength (Å)", fontsize=12, fontweight="bold")
    axes.set_ylabel("Flux", fontsize=12, fontweight="bold")
    axes.set_title(title, fontsize=14, fontweight="bold", pad=20, parse_math=False)

    low, high = axes.get_xlim()
    major, minor = tick_steps(span)
    if (high - low) / minor <= MAX_MINOR_TICKS:
        axes.xaxis.set_major_locator(MultipleLocator(major))
        axes.xaxis.set_minor_locator(MultipleLocator(minor))
    else:
        axes.xaxis.set_major_locator(AutoLocator())
        axes.xaxis.set_minor_locator(AutoMinorLocator())
    axes.yaxis.set_minor_locator(AutoMinorLocator())
    axes.grid(True, which="major", alpha=0.3, linewidth=0.5)
    axes.grid(True, which="minor", alpha=0.1, linewidth=0.3)
    axes.tick_params(axis="both", which="both", direction="in")
    axes.tick_params(axis="both", which="major", labelsize=10)
    figure.tight_layout()

    right, top = emptiest_corner(x, y)
    axes.text(
        0.98 if right else 0.02,
        0.98 if top else 0.02,
        info_text(x, float(y.min()), float(y.max())),
        transform=axes.transAxes,
        fontsize=9,
        horizontalalignment="right" if right else "left",
        verticalalignment="top" if top else "bottom",
        bbox={"boxstyle": "round", "facecolor": "white", "alpha": 0.8},
    )
    return figure


def _png(figure: Any) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    # Level 1: this stream is read back at once. The one that is kept is RGB, without the version in its metadata.
    figure.savefig(buffer, format="png", dpi=DPI, bbox_inches="tight", pil_kwargs={"compress_level": 1})
    drawn = Image.open(buffer)
    white = Image.new("RGBA", drawn.size, "white")
    return encode_png(np.asarray(Image.alpha_composite(white, drawn.convert("RGBA")).convert("RGB")))


@cache
def _defaults() -> dict[Any, Any]:
    """matplotlib's shipped parameters, without those about backends and windows on screen: they leave no trace here."""
    import matplotlib as mpl

    screen = ("backend", "interactive", "toolbar", "keymap.", "webagg.", "tk.", "animation.")
    return {key: mpl.rcParamsDefault[key] for key in mpl.rcParamsDefault if not key.startswith(screen)}


@contextmanager
def _default_parameters() -> Iterator[None]:
    """matplotlib's defaults for a while, whatever matplotlibrc or the program says; hold the lock around it."""
    import matplotlib as mpl

    # RcParams checks each access for deprecated names, which 300 times a figure costs more than a zoom's line.
    value = dict.__getitem__
    changed = {key: default for key, default in _defaults().items() if value(mpl.rcParams, key) != default}
    if not changed:
        yield
        return
    _put_aside.update({key: value(mpl.rcParams, key) for key in changed})
    try:
        with mpl.rc_context(changed):
            yield
    finally:
        _put_aside.clear()
