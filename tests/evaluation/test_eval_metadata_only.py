"""What can be guessed without looking: a leak is found, noise is not, and an object is never on both sides."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from outcome_lab import outcome

from specvet.evaluation.metadata_only import ABSENT, _guessed, _highest, features, metadata_only
from specvet.evaluation.outcomes import Outcome


def asked(n: int, tells: str, objects: int | None = None, tasks: tuple[str, ...] = ("cv",)) -> list[Outcome]:
    """`tells`: `length` (members have other files), `object` (metadata is that of the object alone) or `nothing`."""
    luck = np.random.default_rng(0)
    found = []
    for i in range(n):
        star = i if objects is None else i % objects
        yes = bool(np.random.default_rng([1, star]).random() < 0.3)
        pixels = float(luck.integers(3_000, 4_000))
        if tells == "length":
            pixels += 600 if yes else 0
        elif tells == "object":
            pixels = float(np.random.default_rng([2, star]).random())
        metadata: dict[str, Any] = {"n_pix": pixels, "survey": "A" if i % 2 else "B", "z": None}
        survey = "A" if i % 2 else "B"
        found.append(
            outcome(f"q{i}", "YES" if yes else "NO", None, tasks[i % len(tasks)], object_id=f"o{star}",
                    survey=survey, layout="one", metadata=metadata)
        )  # fmt: skip
    return found


def test_files_that_give_the_answer_away_are_found_in_all_and_in_each_survey() -> None:
    told = metadata_only(asked(400, "length", tasks=("cv", "wd")))
    assert told["n"] == 400
    assert told["auroc"] > 0.85
    assert told["macro_f1"] > 0.6
    assert set(told["tasks"]) == {"cv", "wd"}
    assert set(told["within_survey"]) == {"A", "B"}
    assert all(part["auroc"] > 0.8 for part in told["within_survey"].values())
    assert list(told["within_layout"]) == ["one"]
    assert told["within_layout"]["one"] == {key: told[key] for key in ("n", "accuracy", "macro_f1", "auroc")}
    assert "object" in told["method"]
    assert told["sklearn"]
    assert told["left_out"] == []


def test_nothing_is_found_where_nothing_is() -> None:
    told = metadata_only(asked(400, "nothing"))
    assert abs(told["auroc"] - 0.5) < 0.1
    assert told["accuracy"] < 0.75


def test_trees_that_give_all_the_same_have_the_f1_of_guessing_and_not_of_yes_to_everything() -> None:
    p = np.array([0.2, 0.9, 0.2, 0.2, 0.2])
    np.testing.assert_array_equal(_highest(p, 1), [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(_highest(p, 3), [0.5, 1, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(_highest(p, 0), [0, 0, 0, 0, 0])
    few = [  # too few for a leaf, so that all have the same probability within a fold
        outcome(f"q{i}", "YES" if i < 3 else "NO", metadata={"n_pix": float(i % 2)}) for i in range(15)
    ]
    told = metadata_only(few)
    assert told["auroc"] == 0.5
    assert told["macro_f1"] == pytest.approx(3 / 15)  # to everything YES would have 1/3


def test_many_spectra_of_an_object_do_not_give_it_away() -> None:
    # Each star has a number of its own in all its files: whoever has seen one of them would know the others.
    told = metadata_only(asked(600, "object", objects=40))
    assert told["auroc"] < 0.7
    alone = metadata_only([Outcome(**_parts(o, object_id=o.id)) for o in asked(600, "object", objects=40)])
    assert alone["auroc"] > 0.95  # the same, had it been cut by question


def _parts(one: Outcome, **changed: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__} | changed


def test_it_is_the_same_whenever_it_is_asked_and_whatever_the_policy_said() -> None:
    found = asked(150, "length")
    first = metadata_only(found)
    _guessed.cache_clear()
    said = [Outcome(**_parts(o, said="YES", verdict="YES")) for o in found]
    second = metadata_only(said)
    assert first == second
    second["accuracy"] = 0.0  # what is handed out is one's own
    assert metadata_only(found) == first


def test_words_become_columns_and_what_is_missing_stays_apart() -> None:
    told = features(
        [
            {"survey": "A", "n": 1.0, "same": 5.0, "z": None},
            {"survey": "B", "n": 2.0, "same": 5.0, "z": 0.1},
            {"survey": "B", "n": 2.0, "same": 5.0},
        ]
    )
    nan = float("nan")
    np.testing.assert_array_equal(told, [[1, 1, 0, nan], [2, 0, 1, 0.1], [2, 0, 1, nan]])
    assert features([{"a": 1.0}, {"a": 1.0}]).shape == (2, 0)
    assert features([{}, {}]).shape == (2, 0)
    assert features([{"a": nan}, {"a": None}]).shape == (2, 0)
    np.testing.assert_array_equal(features([{"a": float("inf")}, {"a": 1.0}]), [[nan], [1.0]])


def test_it_says_why_it_could_not_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "same for all" in metadata_only([outcome("a", "YES"), outcome("b")])["note"]
    one_each = [outcome("a", "YES", metadata={"n": 1.0}), outcome("b", metadata={"n": 2.0})]
    assert "two objects" in metadata_only(one_each)["note"]
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert metadata_only(one_each) == {"note": ABSENT}


def test_a_task_of_one_answer_is_left_out_and_named() -> None:
    found = [*asked(80, "length"), *(outcome(f"w{i}", task="wd", metadata={"n_pix": float(i)}) for i in range(9))]
    told = metadata_only(found)
    assert told["left_out"] == ["wd"]
    assert told["n"] == 80
