"""Drawing in processes: bounded in time, whatever a figure does."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from specvet.spectra.spectrum import Spectrum
from specvet.views import RenderError, RenderPool, RenderTimeout, View, full_view, zoom_view
from specvet.views import render as module

WAVELENGTH = np.linspace(3700.0, 9100.0, 500)
SPECTRUM = Spectrum(wavelength=WAVELENGTH, flux=5.0 + np.sin(WAVELENGTH / 40.0))


def obey(view: View) -> bytes:
    """Does what the title says; a module-level function, so that workers can import it."""
    if view.title == "hang":
        threading.Event().wait(60)  # far beyond any deadline here: the pool must kill it
    if view.title == "die":
        os._exit(3)
    if view.title == "fail":
        raise KeyError("no such colour")
    if view.title == "pid":
        return str(os.getpid()).encode()
    return view.png


def _view(title: str) -> View:
    return full_view(SPECTRUM, title=title)


@pytest.fixture(scope="module")
def pool() -> Iterator[RenderPool]:
    with RenderPool(processes=1, deadline_s=1.0, draw=obey) as opened:
        yield opened


def _gone(pid: bytes) -> bool:
    """Not even a zombie is left."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    return False


def test_a_worker_draws_the_bytes_that_this_process_draws() -> None:
    here, there = zoom_view(SPECTRUM, (5000, 7000)), zoom_view(SPECTRUM, (5000, 7000))
    with RenderPool() as opened:
        assert opened.png(there) == here.png
    assert there.drawn


def test_a_view_that_is_drawn_already_is_not_drawn_again() -> None:
    view = _view("fail")
    view.keep(b"a picture")
    assert RenderPool().png(view) == b"a picture"


def test_a_deadline_ends_a_stuck_figure_and_the_next_one_is_drawn(pool: RenderPool) -> None:
    worker = pool.png(_view("pid"))
    with pytest.raises(RenderTimeout, match=r"'hang' full: 500 points.* was not drawn within 1 s") as caught:
        pool.png(_view("hang"))
    assert isinstance(caught.value, TimeoutError)
    assert _gone(worker)
    assert not _gone(pool.png(_view("pid")))


def test_a_worker_that_dies_is_replaced(pool: RenderPool) -> None:
    worker = pool.png(_view("pid"))
    with pytest.raises(RenderError, match="died with exit code 3"):
        pool.png(_view("die"))
    assert _gone(worker)
    assert pool.png(_view("pid")) != worker


def test_an_error_while_drawing_keeps_the_worker(pool: RenderPool) -> None:
    worker = pool.png(_view("pid"))
    with pytest.raises(RenderError, match="KeyError: 'no such colour'"):
        pool.png(_view("fail"))
    assert pool.png(_view("pid")) == worker


def test_a_view_without_points_is_the_value_error_of_draw(pool: RenderPool) -> None:
    with pytest.raises(ValueError, match="0 finite points in 100-200 Å"):
        pool.png(zoom_view(SPECTRUM, (100, 200)))


def test_threads_share_the_workers() -> None:
    with RenderPool(processes=2, draw=obey) as opened, ThreadPoolExecutor(8) as threads:
        pids = set(threads.map(opened.png, [_view("pid") for _ in range(24)]))
    assert 1 <= len(pids) <= 2
    assert all(_gone(pid) for pid in pids)


def test_closing_wakes_those_who_wait_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = threading.Event(), module._Worker.ask

    def announced(worker: module._Worker, view: View, deadline_s: float) -> object:
        if view.title == "hang":
            asked.set()
        return ask(worker, view, deadline_s)

    monkeypatch.setattr(module._Worker, "ask", announced)
    before = {process.pid for process in multiprocessing.active_children()}
    opened = RenderPool(processes=1, deadline_s=30.0, draw=obey)
    with ThreadPoolExecutor(2) as threads:
        with opened:
            worker = opened.png(_view("pid"))
            waiting = [threads.submit(opened.png, _view("hang")) for _ in range(2)]
            assert asked.wait(10)
        for future in waiting:
            with pytest.raises(RenderError, match=r"closed|not open"):
                future.result(timeout=10)
    assert _gone(worker)
    assert {process.pid for process in multiprocessing.active_children()} <= before


def test_a_closed_pool_says_so_and_can_be_opened_again() -> None:
    opened = RenderPool(draw=obey)
    with pytest.raises(RenderError, match="is not open"):
        opened.png(_view("pid"))
    for _ in range(2):
        with opened:
            assert opened.png(_view("pid"))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        RenderPool(processes=0)
    with pytest.raises(ValueError, match="must be positive"):
        RenderPool(deadline_s=0)
