"""What the program says itself before a model is asked: nothing that was not observed gets a YES or a NO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rollout_lab as lab

from specvet.agent.guard import undecided
from specvet.agent.loop import missing_data
from specvet.records.schema import Answer
from specvet.spectra import Spectrum
from specvet.tasks import Condition, KeyWindow, Task, Undecidable, builtin_tasks
from specvet.tools import ZoomTool

W = np.arange(3800.0, 9000.0, 2.0)
LUCK = np.random.default_rng(0)
NOISE = 0.02 * LUCK.normal(size=W.size)


def shown(flux: Any, ivar: Any = None, w: Any = W) -> Any:
    return ZoomTool(Spectrum(w, flux, ivar, medium="air", file="x.fits"), style="compact").opening()


BROKEN = {
    "zeros": (np.zeros(W.size), None),
    "zeros with errors": (np.zeros(W.size), np.ones(W.size)),
    "a constant": (np.full(W.size, 5.0), None),
    "a constant with errors": (np.full(W.size, 5.0), np.full(W.size, 100.0)),
    "no finite pixel": (np.full(W.size, np.nan), None),
    "no good pixel": (5 + NOISE, np.zeros(W.size)),
    "nine of ten pixels lost": (np.where(LUCK.random(W.size) < 0.9, np.nan, 5 + NOISE), None),
    "noise alone": (LUCK.normal(size=W.size), np.ones(W.size)),
    "below zero": (-5 + NOISE, np.full(W.size, 2500.0)),
    "clipped at its top": (np.where(LUCK.random(W.size) < 0.7, 1e4, 1e4 * LUCK.random(W.size)), np.ones(W.size)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_was_not_observed_is_no_data_for_every_task(name: str) -> None:
    opening = shown(*BROKEN[name])
    assert all(missing_data(task, opening) for task in builtin_tasks().values())


def test_a_number_that_fills_a_spectrum_is_named_whatever_errors_it_states() -> None:
    said = missing_data(builtin_tasks()["gm"], shown(*BROKEN["a constant with errors"]))
    assert said == "100 % of the good pixels hold the very same number (5), as no spectrum does"


def test_text_with_few_digits_is_still_a_spectrum() -> None:
    flux = np.round(1 + 4 * NOISE, 1)
    assert 0.4 < max(np.unique(flux, return_counts=True)[1]) / flux.size < 0.5
    assert missing_data(builtin_tasks()["cv"], shown(flux, np.full(W.size, 150.0))) == ""


def task(**more: Any) -> Task:
    return Task.model_validate(lab.task().model_dump() | more)


def test_a_look_that_the_task_calls_undecidable_is_unsure_when_all_its_conditions_hold() -> None:
    narrow = {"index": "ha", "side": "below", "at": 3.0, "soft": 0.1}
    never = {"index": "ha", "side": "above", "at": 30.0, "soft": 0.1}
    opening = shown(1 + NOISE, np.full(W.size, 2500.0))
    for given, answer in (([narrow], Answer.UNSURE), ([narrow, never], None), ([never], None)):
        rule = Undecidable(given=tuple(Condition(**c) for c in given), says="nobody can tell")
        found = undecided(task(undecidable=(rule.model_dump(),)), opening)
        assert (found.answer if found else None) == answer
        assert found is None or found.reason == "nobody can tell; no model was asked"


def test_key_windows_most_of_which_hold_no_good_pixels_are_unsure() -> None:
    places = ((3900, 4000), (4200, 4300), (5000, 5100), (6000, 6100), (6500, 6600), (8000, 8100))
    windows = [KeyWindow(key=f"w{n}", name=f"window {n}", range=r, why="x").model_dump() for n, r in enumerate(places)]
    some = task(windows=windows)
    ivar = np.where(W < 4100, 2500.0, 0.0)
    found = undecided(some, shown(1 + NOISE, ivar))
    assert found is not None
    assert (found.answer, found.confidence) == (Answer.UNSURE, None)
    assert found.reason == (
        "good pixels lie in 1 of the 6 key windows (not in window 1, window 2, window 3); no model was asked"
    )
    ivar = np.where(W < 4400, 2500.0, 0.0)
    assert undecided(some, shown(1 + NOISE, ivar)) is None


def test_a_spectrum_with_lines_is_left_to_the_model_for_every_task() -> None:
    flux = 1 + NOISE + 4 * np.exp(-0.5 * ((W - 6563) / 12) ** 2) - 0.4 * np.exp(-0.5 * ((W - 4861) / 20) ** 2)
    opening = shown(flux, np.full(W.size, 2500.0))
    assert [key for key, one in builtin_tasks().items() if missing_data(one, opening) or undecided(one, opening)] == []
