"""Screens: each holds for the evidence that it was made with, keeps its class, and knows what it costs."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import specvet
from specvet.agent import run_agent
from specvet.cli.failure import CommandError
from specvet.cli.vet_many import opened_prefilter
from specvet.data.simulate.kinds import make
from specvet.data.simulate.observing import observe, spectrum
from specvet.policies.line_indices import LineIndices
from specvet.records.schema import Answer, Question, SpectrumRef, Verdict
from specvet.spectra import Spectrum
from specvet.tasks import Task, load_task
from specvet.tools import ZoomTool
from specvet.vetting import screen
from specvet.vetting.prefilter import DEFAULT_BELOW, hopeless
from specvet.vetting.screen import recalls, screen_of, screens

CLASSES = ("cc", "cv", "gm", "ss", "wd")
SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"


def measured(task: Task, s: Spectrum) -> Verdict:
    question = Question(id="q", task=task.key, spectrum=SpectrumRef(path="s", row=s.row))
    return run_agent(question, task, ZoomTool(s), LineIndices()).verdict


def simulated(kind: str, number: int, snr: float = 15.0) -> Spectrum:
    rng = np.random.default_rng([77, number])
    return spectrum(observe(make(kind, rng), "sdss", rng, snr=snr, object_number=number))


@pytest.mark.parametrize("key", CLASSES)
def test_every_class_has_a_screen_for_its_evidence(key: str) -> None:
    """Where this fails the evidence has changed: make the screens anew with benchmarks/prefilter.py --fit."""
    assert screen_of(load_task(key)) is not None


@pytest.mark.parametrize("key", CLASSES)
def test_at_least_98_percent_of_simulated_members_of_each_class_are_kept_as_the_file_tells(key: str) -> None:
    (told,) = (r for r in recalls() if r["task"] == key)
    assert told["positives"] >= 500
    assert told["kept"] / told["positives"] == pytest.approx(told["recall"], abs=1e-4)
    assert told["recall"] > 0.98
    assert 0 < told["left_out"] < told["others"]


def test_other_evidence_has_no_screen_and_falls_back_to_the_threshold() -> None:
    cv = load_task("cv")
    other = cv.model_copy(update={"prior": cv.prior - 1.0})
    assert screen_of(other) is None
    clear = Verdict(answer=Answer.NO, confidence=0.99, p_yes=0.01, reason="no")
    assert hopeless(other, clear) == f"p 0.01 is below {DEFAULT_BELOW:g}"
    assert hopeless(other, clear.model_copy(update={"p_yes": 0.03})) == ""


def test_a_score_is_the_weighted_log_odds_and_the_named_class() -> None:
    cv = load_task("cv")
    verdict = measured(cv, simulated("k_giant", 1))
    of_cv = screens()["cv"]
    by_hand = of_cv.rivals[verdict.likelier_class or ""]
    for item in verdict.evidence:
        by_hand += of_cv.weights.get(item.measurement.name, 0.0) * item.log_odds
    assert (verdict.answer, of_cv.score(verdict)) == (Answer.NO, pytest.approx(by_hand))
    assert hopeless(cv, verdict) == f"screened: {by_hand:.2g} is below {of_cv.below:g}"


def test_only_a_no_is_left_out_whatever_its_evidence() -> None:
    cv = load_task("cv")
    verdict = measured(cv, simulated("k_giant", 1))
    for answer in set(Answer) - {Answer.NO}:
        assert hopeless(cv, verdict.model_copy(update={"answer": answer})) == ""


@pytest.mark.parametrize(("key", "kind"), [("wd", "wd.DB"), ("ss", "ss.MS"), ("cv", "cv.helium")])
def test_kinds_that_the_rules_call_a_sure_no_are_kept_by_the_screen(key: str, kind: str) -> None:
    """SIMULATED; by their probability most would be left out: a rule that decides is not a rule that screens."""
    task = load_task(key)
    verdicts = [measured(task, simulated(kind, number)) for number in range(12)]
    by_threshold = sum(bool(hopeless(task, v, DEFAULT_BELOW)) for v in verdicts)
    assert by_threshold >= 4
    assert sum(bool(hopeless(task, v)) for v in verdicts) <= 1


CUT = {
    "blue": (3_700.0, 5_600.0),
    "middle": (4_800.0, 7_000.0),
    "red": (5_500.0, 9_000.0),
    "Hα": (6_300.0, 6_900.0),
}


@pytest.mark.parametrize(
    ("key", "kind"), [("wd", "wd.DB"), ("wd", "wd.DA"), ("ss", "ss.MS"), ("cv", "cv.helium"), ("gm", "gm.giant")]
)
def test_members_that_are_short_full_of_holes_or_without_errors_are_kept(key: str, kind: str) -> None:
    """SIMULATED: the screens were made with whole spectra; what is missing speaks against nobody."""
    task, lost = load_task(key), []
    for number in range(3):
        whole = simulated(kind, number, 20.0)
        worse = {"no errors": whole.replace(ivar=None)}
        for name, (low, high) in CUT.items():
            k = (whole.wavelength >= low) & (whole.wavelength <= high)
            arrays = {n: a[k] for n in ("flux", "ivar", "mask") if (a := getattr(whole, n)) is not None}
            worse[name] = whole.replace(wavelength=whole.wavelength[k], **arrays)
        for name, gone in (
            ("holes", np.random.default_rng(number).random(whole.flux.size) < 0.2),
            ("a gap", (whole.wavelength > 5_500) & (whole.wavelength < 6_300)),
        ):
            worse[name] = whole.replace(flux=np.where(gone, np.nan, whole.flux))
        lost += [(name, number) for name, s in worse.items() if hopeless(task, measured(task, s))]
    assert lost == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"screens": [{"task": "cv"}], "recalls": []}'])
def test_a_damaged_file_of_screens_is_named_and_leaves_nothing_out(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "screens.json").write_text(text, encoding="utf-8")
    monkeypatch.setattr(screen, "FILE", tmp_path / "screens.json")
    screen._file.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"screens\.json: is missing or damaged .*; install specvet again"):
            screen_of(load_task("cv"))
        with pytest.raises(CommandError, match="install specvet again"):
            opened_prefilter("indices", None, [load_task("cv")], True)
    finally:
        screen._file.cache_clear()


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")
def test_real_members_are_kept_but_for_two_whose_lines_do_not_show() -> None:
    with (SHARED / "labels.csv").open(newline="", encoding="utf-8") as stream:
        rows = [(row["path"], key) for row in csv.DictReader(stream) for key in CLASSES if row[key] == "YES"]
    lost = [
        path for path, key in rows if hopeless(task := load_task(key), measured(task, specvet.read(SHARED / path)[0]))
    ]
    assert len(rows) > 150
    assert {Path(path).name for path in lost} <= {"spec-0518-52282-0285-catB.dat", "spec-0619-52056-0437-catB.dat"}
