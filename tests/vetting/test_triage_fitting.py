"""Calibrations: probabilities that mean what they say, from labelled cases of one or several tasks."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from triage_lab import case, drawn, exact, labelled

from specvet.records.schema import Answer
from specvet.vetting import triage
from specvet.vetting.triage import Settings, TriageError, read_calibration, sort
from specvet.vetting.triage.calibration import mapped, probability
from specvet.vetting.triage.fitting import Labelled, calibrate
from specvet.vetting.triage.folds import FOLDS, fold_of
from specvet.vetting.triage.numbers import auroc, calibration_error, false_positives_at, reliability


def test_a_policy_three_times_too_certain_is_brought_back_to_what_it_knows() -> None:
    made = calibrate(labelled(2_000, 400, raw_scale=3.0), policy="p")
    log_odds, yes = drawn(4_000, 800, seed=77)
    found = made.evidence([case(i, "cv", 3 * x) for i, x in enumerate(log_odds)])
    middle = np.abs(log_odds) < 4
    assert np.abs(found - log_odds)[middle].mean() < 0.5
    assert calibration_error(probability(found, 0.2), yes) < 0.02
    told = made.measured["cv"]
    assert told["calibrated"]["ece"] < 0.5 * told["raw"]["ece"]
    assert told["calibrated"]["log_loss"] < 0.5 * told["raw"]["log_loss"]


def test_a_task_with_few_members_stays_near_the_weights_of_all() -> None:
    odd = [replace(one, case=replace(one.case, features={"policy": 0.3 * one.case.features["policy"]})) for one in
           labelled(60, 8, "wd", seed=3)]  # fmt: skip
    many = [replace(one, case=replace(one.case, features={"policy": 0.3 * one.case.features["policy"]})) for one in
            labelled(2_000, 400, "wd", seed=4)]  # fmt: skip
    base = labelled(1_000, 200, "cv", seed=5)
    few = calibrate([*base, *odd], policy="p").tasks["wd"].model.weights[0]
    own = calibrate([*base, *many], policy="p").tasks["wd"].model.weights[0]
    cv = calibrate([*base, *odd], policy="p").tasks["cv"].model.weights[0]
    assert abs(few - cv) < 0.5 * abs(own - cv)


def test_the_file_holds_all_that_applying_needs_and_reads_back_the_same(tmp_path: Path) -> None:
    made = calibrate(labelled(1_200, 240), policy="p", fingerprint="abc", settings={"frame_mode": "careful"})
    made.write(tmp_path / "c.json")
    back = read_calibration(tmp_path / "c.json")
    assert back == made
    cases = [case(i, "cv", x) for i, x in enumerate(np.linspace(-9, 9, 50))]
    assert np.array_equal(back.evidence(cases), made.evidence(cases))


def test_applying_a_calibration_needs_no_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact().write(tmp_path / "c.json")
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"] or ["sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    found = sort([case(0, "cv", -6.0), case(1, "cv", 6.0)], read_calibration(tmp_path / "c.json"), Settings(audit=0))
    assert found.rows[0].band == "reject"
    with pytest.raises(ImportError):
        calibrate(labelled(100, 20), policy="p")
    for module in Path(triage.__file__).parent.glob("*.py"):
        assert not re.search(r"^(?:from|import) sklearn", module.read_text(encoding="utf-8"), re.MULTILINE), module


def test_evidence_that_is_lacking_has_a_weight_of_its_own() -> None:
    rng = np.random.default_rng(2)
    found = []
    for one in labelled(1_500, 300):
        features = dict(one.case.features)
        if rng.uniform() < (0.8 if one.yes else 0.2):  # lacking it speaks for a member
            features["index"] = one.case.features["policy"] + rng.normal()
            del features["policy"]
        found.append(replace(one, case=replace(one.case, features=features)))
    made = calibrate(found, policy="p")
    missing = [f.name for f in made.features if f.missing]
    assert missing == ["policy", "index"]
    lacking_policy = made.tasks["cv"].model.weights[len(made.features)]
    assert lacking_policy > 0.3


def test_members_of_one_object_are_on_one_side_of_every_split() -> None:
    assert {fold_of("Gaia 1", seed=3) for _ in range(5)} == {fold_of("Gaia 1", seed=3)}
    spread = np.bincount([fold_of(str(i)) for i in range(5_000)], minlength=FOLDS)
    assert spread.min() > 900
    # One object that is seen a hundred times, and as many others: what was learnt of it must not be told of it.
    same = [Labelled(case(i, "cv", 0.0), True, "one star") for i in range(100)]
    others = [Labelled(case(1_000 + i, "cv", 0.0), False, f"star {i}") for i in range(100)]
    with pytest.raises(TriageError, match="label more objects"):
        calibrate([*same, *others], policy="p")


def test_too_few_labels_are_refused_with_their_numbers() -> None:
    with pytest.raises(TriageError, match=r"no task has 3 labelled members and 3 others.*cv 2 and 18"):
        calibrate(labelled(20, 2), policy="p")


def test_undecided_cases_are_weighed_but_promise_nothing() -> None:
    found = labelled(1_000, 200)
    found[:50] = [replace(one, case=replace(one.case, answer=Answer.UNSURE)) for one in found[:50]]
    known = calibrate(found, policy="p").tasks["cv"]
    assert known.undecided == {"YES": 50, "NO": 0}
    assert (len(known.members), len(known.others)) == (150, 800)
    assert known.prior == 0.2


def test_the_monotone_curve_keeps_every_difference() -> None:
    x = np.linspace(-10, 10, 401)
    found = mapped(x, (-2.0, 0.0, 3.0), (-1.0, -0.5, 4.0))
    assert (np.diff(found) > 0).all()
    assert np.diff(found)[[0, -1]] == pytest.approx([0.05, 0.05])
    assert mapped(x, (), ()) is x


def test_numbers_of_calibration_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    log_odds, yes = drawn(1_000, 200, seed=1)
    p = np.round(1 / (1 + np.exp(-log_odds)), 2)  # with ties
    assert auroc(p, yes) == pytest.approx(roc_auc_score(yes, p), abs=1e-6)
    parts = reliability(p, yes)
    assert sum(part["n"] for part in parts) == 1_000
    assert sum(part["yes"] for part in parts) == 200
    alarms, found = false_positives_at(log_odds, yes, 0.97)
    assert found == pytest.approx(0.97)
    assert alarms == pytest.approx(float((log_odds[~yes] >= np.sort(log_odds[yes])[6]).mean()))


def test_a_calibration_of_a_newer_specvet_or_of_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}", encoding="utf-8")
    with pytest.raises(TriageError, match="not a calibration that this specvet reads"):
        read_calibration(tmp_path / "no.json")
    exact(schema_version=99).write(tmp_path / "new.json")
    with pytest.raises(TriageError, match="has layout 99"):
        read_calibration(tmp_path / "new.json")


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("tasks", "cv", "members"), [2.0, 1.0], "members are not in rising order"),
        (("tasks", "cv", "log_odds"), [0.0], "not of one length"),
        (("pooled", "weights"), [1.0, 2.0], "has 2 weights where 1 are wanted"),
        (("features", 0, "name"), "luck", "no feature 'luck'"),
        (("features", 0, "scale"), 0.0, "greater than 0"),
    ],
)
def test_a_calibration_that_was_changed_by_hand_is_refused(
    tmp_path: Path, place: tuple[str | int, ...], value: object, says: str
) -> None:
    content = json.loads(exact().model_dump_json())
    at = content
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    (tmp_path / "c.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TriageError, match=says):
        read_calibration(tmp_path / "c.json")


def test_an_unknown_task_is_weighed_by_all_tasks_together() -> None:
    made = exact()
    found = made.evidence([case(0, "cv", 2.0), case(1, "my_class", 2.0)])
    assert found[0] == pytest.approx(2.0)
    assert math.isfinite(found[1])
