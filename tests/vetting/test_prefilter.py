"""A prefilter: what measures as hopeless is a NO without asking the model, and what that costs is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.records import RunFolder, RunMismatchError
from specvet.records.schema import Answer, Question, SpectrumRef, Verdict
from specvet.spectra import Spectrum
from specvet.tasks import load_task
from specvet.tools import ZoomTool
from specvet.vetting.deciding import OneByOne
from specvet.vetting.prefilter import (
    Prefilter,
    Prefiltered,
    Recall,
    hopeless,
    prefilter_named,
    read_recalls,
    recall_of,
    write_recalls,
)

GRID = np.arange(3800.0, 9000.0, 2.0)


def spectrum(hydrogen: float) -> Spectrum:
    """SIMULATED: a flat continuum with Hα and Hβ of that height."""
    flux = np.ones_like(GRID) + np.random.default_rng(3).normal(0.0, 0.02, GRID.size)
    for at in (6564.6, 4862.7):
        flux += hydrogen * np.exp(-0.5 * ((GRID - at) / 14.0) ** 2)
    return Spectrum(wavelength=GRID, flux=flux, ivar=np.full(GRID.size, 0.02**-2), medium="vacuum", resolution=1800.0)


def question() -> Question:
    return Question(id="q", task="cv", spectrum=SpectrumRef(path="a.fits"))


def said(answer: Answer, p_yes: float | None, **more: Any) -> Verdict:
    return Verdict(answer=answer, confidence=None, p_yes=p_yes, reason="so it measures", **more)


def test_the_hopeless_are_left_out_and_the_others_reach_the_model() -> None:
    prefilter, reached, told = Prefilter(0.05), [], []

    def ask(q: Question, _: object, tool: ZoomTool) -> None:
        reached.append(tool)
        raise ValueError("the model's own trouble")

    decider = Prefiltered(OneByOne(ask), prefilter)  # type: ignore[arg-type]
    task = load_task("cv")
    for hydrogen in (1.5, -0.4):
        assert decider.begin(question(), task, ZoomTool(spectrum(hydrogen)), told.append)
    assert len(reached) == 1
    assert isinstance(told[0], ValueError)
    verdict = told[1].verdict
    assert (verdict.answer, verdict.reason[:11]) == (Answer.NO, "prefilter: ")
    assert verdict.p_yes is not None
    assert verdict.p_yes < 0.05
    assert verdict.reason.endswith("is below 0.05; no model was asked)")
    assert (prefilter.asked, prefilter.left_out) == (2, 1)


def test_what_breaks_while_measuring_goes_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    prefilter = Prefilter()
    monkeypatch.setattr(prefilter._policy, "act", lambda _: 1 / 0)
    assert prefilter.rejected(question(), load_task("cv"), ZoomTool(spectrum(-0.4))) is None


@pytest.mark.parametrize("below", [0.0, 0.5, -1.0, float("nan")])
def test_a_threshold_that_leaves_out_nothing_or_everything_is_refused(below: float) -> None:
    with pytest.raises(ValueError, match=r"give a probability above 0 and under 0\.5"):
        Prefilter(below)


def test_recall_counts_what_a_model_would_still_be_asked_about(tmp_path: Path) -> None:
    measured: list[tuple[str, bool, Answer, float | None]] = [
        ("cv", True, Answer.YES, 0.9),
        ("cv", True, Answer.UNSURE, 0.01),  # undecided is kept
        ("cv", True, Answer.NO, 0.01),
        ("cv", False, Answer.NO, 0.01),
        ("cv", False, Answer.NO, 0.3),
        ("cv", False, Answer.NO_DATA, None),
        ("wd", False, Answer.NO, 0.01),
    ]
    rows = [(task, yes, bool(hopeless(load_task(task), said(answer, p), 0.02))) for task, yes, answer, p in measured]
    cv, wd = recall_of(rows)
    assert (cv.positives, cv.kept, cv.others, cv.left_out) == (3, 2, 3, 1)
    assert cv.recall == pytest.approx(2 / 3)
    low, high = cv.interval() or (0.0, 0.0)
    assert (low, high) == (
        pytest.approx(0.0943, abs=1e-4),
        pytest.approx(0.9916, abs=1e-4),
    )  # Clopper-Pearson of 2 in 3
    assert (wd.recall, wd.interval(), wd.left_out) == (None, None, 1)
    write_recalls(tmp_path / "p.json", 0.02, [cv, wd], "labels.csv", {"cv": load_task("cv"), "wd": load_task("wd")})
    about = read_recalls(tmp_path / "p.json")
    assert (about.below, about.labels, [r.task for r in about.recalls]) == (0.02, "labels.csv", ["cv"])


@pytest.mark.parametrize(
    "damage", [("{", ""), ('"below": 0.02', '"below": "low"'), ('"kept"', '"gone"'), ('"cv"', "7"), ("specvet p", "p")]
)
def test_a_file_that_is_no_recall_says_so(tmp_path: Path, damage: tuple[str, str]) -> None:
    file = tmp_path / "p.json"
    write_recalls(file, 0.02, [Recall("cv", 3, 2, 3, 1)], "labels.csv", {"cv": load_task("cv")})
    file.write_text(file.read_text(encoding="utf-8").replace(*damage), encoding="utf-8")
    with pytest.raises(ValueError, match=r"p\.json: is not what specvet triage prefilter writes"):
        read_recalls(file)


def test_a_run_with_a_prefilter_and_one_without_share_no_table(tmp_path: Path) -> None:
    ways = (Prefilter(), "line-indices screens"), (Prefilter(0.02), r"line-indices below 0\.02")
    with RunFolder.open(tmp_path / "run") as run:
        run.settle({"prefilter": "none"})
        for prefilter, says in ways:
            with pytest.raises(RunMismatchError, match=f"prefilter = none, but now prefilter = {says}"):
                run.settle(prefilter.settings)


@pytest.mark.parametrize("prefilter", [Prefilter(), Prefilter(0.02), Prefilter(0.125)])
def test_the_prefilter_of_a_run_is_made_again_from_its_settings(prefilter: Prefilter) -> None:
    again = prefilter_named(str(prefilter.settings["prefilter"]))
    assert again is not None
    assert again.settings == prefilter.settings
    assert prefilter_named("none") is None
