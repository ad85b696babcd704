"""The fast exact figure against matplotlib's own drawing: the same bytes, whatever is drawn and from wherever."""

from __future__ import annotations

import multiprocessing
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specvet
from specvet.views import draw, exact, exact_text, reference

SPECTRA = Path(__file__).parents[2].parent / "shared" / "spectra"
WAVELENGTH = np.linspace(3700.0, 9100.0, 3000)
FLUX = 5.0 + np.sin(WAVELENGTH / 40.0)

pytestmark = pytest.mark.skipif(not exact.same_pixels(), reason="an installed matplotlib that draws otherwise")


def _fast(x: Any, y: Any, window: tuple[float, float] | None = None, title: str = "Spectrum") -> np.ndarray | None:
    """The fast drawing alone, without matplotlib to fall back on."""
    points = reference.checked(x, y, window, title)
    with reference.drawing():
        return exact.picture(points[0], points[1], zoomed=window is not None, title=points[2])


def _same(x: Any, y: Any, window: tuple[float, float] | None = None, title: str = "Spectrum") -> bool:
    """Whether the fast drawing knows this figure; asserts that both drawings give the same bytes."""
    assert draw(x, y, window=window, title=title) == reference.draw(x, y, window=window, title=title)
    return _fast(x, y, window, title) is not None


def _random_case(seed: int) -> tuple[np.ndarray, np.ndarray, tuple[float, float] | None, str]:
    rng = np.random.default_rng(seed)
    n = int(10 ** rng.uniform(0.5, 4.1))
    low, span = rng.uniform(1000, 9000), 10 ** rng.uniform(0.3, 4)
    x = np.sort(rng.uniform(low, low + span, n))
    y = rng.normal(size=n) * 10 ** rng.uniform(-20, 5) + rng.choice([0, 1, -1, 1e3]) * 10 ** rng.uniform(-20, 5)
    window = None
    if seed % 4:
        start = rng.uniform(low, low + span / 2)
        window = (round(start, 1), round(start + span * rng.uniform(0.2, 1), 2))
    title = "".join(rng.choice(list("abfil cXY 0197-_.$^é−Åα"), rng.integers(0, 130)))
    return x, y, window, title


@pytest.mark.parametrize("seed", range(32))
def test_random_arrays_windows_and_titles_give_matplotlibs_bytes(seed: int) -> None:
    x, y, window, title = _random_case(seed)
    if reference.drawable(x, y, window)[0].size >= 2:
        assert _same(x, y, window, title)


@pytest.mark.shared
@pytest.mark.skipif(not SPECTRA.is_dir(), reason=f"no real spectra at {SPECTRA}")
@pytest.mark.parametrize("pattern", ["lamost/dr7/*", "sdss/spec/*", "desi/coadd*", "templates/miles/*m*.fits"])
def test_real_spectra_give_matplotlibs_bytes(pattern: str) -> None:
    path = sorted(SPECTRA.glob(pattern))[0]
    spectrum = specvet.read(path)[0]
    middle = 0.5 * (spectrum.wave_min + spectrum.wave_max)
    for window in (None, (middle - 150, middle + 150), (middle - 20.5, middle + 20)):
        assert _same(spectrum.wavelength, spectrum.flux, window, f"Spectrum: {path.name}")


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([5000, 5010], [1, 2]),
        ([5000, 5100, 5200], [3e-17, 3e-17, 3e-17]),
        ([5000, 5100, 5200], [0, 0, 0]),
        ([5000, 5000.5, 5001], [1, -1, 1]),
        ([5000, 5000.000001], [1, 2]),
        (np.linspace(3000, 23000, 12_000), np.ones(12_000)),
        ([6562.1, 6562.2, 6562.35, 6562.4, 6562.5], [1e5, 1.00001e5, 1.00002e5, 1.00004e5, 1e5]),
        ([5000, 6000], [-1e150, 1e150]),
    ],
    ids=[
        "two points",
        "constant",
        "zero",
        "one ångström",
        "a millionth of one",
        "many points",
        "offsets on both axes",
        "huge fluxes",
    ],
)
def test_awkward_data_give_matplotlibs_bytes(x: Any, y: Any) -> None:
    assert _same(x, y)
    assert _same(x, y, (3000.0, 23000.0))


@pytest.mark.parametrize("x", [[5000, 5000], [0, 1e9], [-1e12, 1e12]])
def test_what_the_fast_drawing_does_not_know_matplotlib_draws(x: list[float]) -> None:
    assert not _same(x, [1, 2])


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("Å−…"), max_size=60),
    st.sampled_from([(9.0, "normal"), (10.0, "normal"), (12.0, "bold"), (14.0, "bold")]),
    st.sampled_from(["", "λ range: ", "Spectrum: spec-", "office-fits-affluent-", "V-AV"]),
)
def test_a_line_put_together_from_pairs_is_the_line_that_the_font_engine_lays_out(
    tail: str, font: tuple[float, str], head: str
) -> None:
    with reference.drawing():
        items, metrics = exact_text._measured.__wrapped__(head + tail, *font)
        assert items == exact_text._shaped.__wrapped__(head + tail, *font)
        width, height, descent = exact_text._engine_metrics.__wrapped__(head + tail, *font)
    assert metrics[0] == width
    if (head + tail).strip():
        assert (metrics[1], metrics[2]) == (height, descent)


def test_a_file_name_that_is_not_utf_8_is_drawn_with_marks_in_place_of_its_bytes() -> None:
    name = b"Spectrum: \xc5.fits".decode("utf-8", "surrogateescape")
    assert draw(WAVELENGTH, FLUX, title=name) == draw(WAVELENGTH, FLUX, title="Spectrum: \ufffd.fits")
    assert _same(WAVELENGTH, FLUX, (6400.0, 6700.0), name)


def test_texts_of_other_scripts_are_laid_out_whole() -> None:
    assert _same(WAVELENGTH, FLUX, (6400.0, 6700.0), "α-To Ωmega Жук −Tα6-O fits")


def test_changed_parameters_neither_change_the_figure_nor_are_changed_by_it() -> None:
    import matplotlib as mpl

    changed = {
        "font.size": 25,
        "font.family": ["serif"],
        "path.simplify": False,
        "text.hinting": "none",
        "axes.formatter.useoffset": False,
        "axes.unicode_minus": False,
        "ytick.minor.ndivs": 7,
    }
    flux = (FLUX - 5) * 1e-17
    before = draw(WAVELENGTH, flux)
    with mpl.rc_context(changed):  # type: ignore[arg-type]
        kept = dict(mpl.rcParams.copy())
        assert draw(WAVELENGTH, flux) == before
        assert draw(WAVELENGTH, flux, title="never seen before") == reference.draw(
            WAVELENGTH, flux, title="never seen before"
        )
        assert dict(mpl.rcParams.copy()) == kept


def test_eight_threads_draw_the_bytes_that_one_draws() -> None:
    cases = [_random_case(seed) for seed in range(100, 116)]
    cases = [case for case in cases if reference.drawable(case[0], case[1], case[2])[0].size >= 2]
    alone = [draw(x, y, window=window, title=title) for x, y, window, title in cases]
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        start.wait()
        order = list(range(len(cases)))
        random.Random(seed).shuffle(order)
        return all(draw(cases[i][0], cases[i][1], window=cases[i][2], title=cases[i][3]) == alone[i] for i in order)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def _send_figure(pipe: Any) -> None:
    import matplotlib as mpl

    pipe.send(mpl.rcParams["font.size"])
    pipe.send(draw(WAVELENGTH, FLUX, window=(6400.0, 6700.0), title="drawn in a child"))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="a system without fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_draws_the_same_bytes_and_keeps_its_parameters_while_another_thread_draws() -> None:
    import matplotlib as mpl

    here = draw(WAVELENGTH, FLUX, window=(6400.0, 6700.0), title="drawn in a child")
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with reference.drawing():
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    mine = mpl.rcParams["font.size"]
    mpl.rcParams["font.size"] = 25
    thread.start()
    held.wait()
    try:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        child = context.Process(target=_send_figure, args=(theirs,))
        child.start()
        assert ours.poll(60), "the child waits for a lock that nobody holds"
        assert ours.recv() == 25
        assert ours.poll(60)
        assert ours.recv() == here
        child.join()
    finally:
        release.set()
        thread.join()
        mpl.rcParams["font.size"] = mine


def test_what_is_remembered_between_figures_has_a_limit() -> None:
    for cache in (exact_text.layout, exact_text._measured, exact_text._shaped, exact_text._glyph, exact.ticks_y):
        assert cache.cache_info().maxsize is not None


def test_another_matplotlib_is_compared_with_itself_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "VERIFIED", ("0.0",))
    assert exact.same_pixels.__wrapped__()


def test_a_matplotlib_that_draws_otherwise_draws_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exact, "VERIFIED", ("0.0",))
    monkeypatch.setattr(exact, "_GREY", 0.5)
    exact._pens.cache_clear()
    try:
        assert not exact.same_pixels.__wrapped__()
    finally:
        exact._pens.cache_clear()
    assert "figures take some 20 times longer" in caplog.text
    monkeypatch.setattr(exact, "same_pixels", lambda: False)
    assert draw(WAVELENGTH, FLUX) == reference.draw(WAVELENGTH, FLUX)
