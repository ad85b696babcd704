"""Goals on real spectra: what is counted, and that folds are put together once."""

from __future__ import annotations

from typing import Any, cast

import pytest
from outcome_lab import outcome

from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell
from specvet.evaluation.intervals import clopper_pearson
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.real_goals import pooled, real_goals


class Asked:
    """A cell, as far as goals look at it."""

    def __init__(self, name: str, outcomes: list[Outcome]) -> None:
        self.name = name
        self._outcomes = outcomes

    def outcomes(self) -> list[Outcome]:
        return self._outcomes


def fold(k: int) -> list[Outcome]:
    """Per fold: 20 CVs of which 19 are found, 8 LAMOST stars of which one is called a CV, 5 M dwarfs, a white dwarf."""
    found = [outcome(f"cv{k}-{i}", "YES", "NO" if i == 0 else "YES", kind="CV") for i in range(20)]
    for i in range(8):
        star: dict[str, Any] = {"kind": "G star", "survey": "LAMOST", "object_id": f"star {k} {i}"}
        found.append(outcome(f"cv:star{k}-{i}", "NO", "YES" if (k, i) == (0, 0) else "NO", **star))
        found.append(outcome(f"wd:star{k}-{i}", "NO", "YES" if (k, i) == (0, 0) else "NO", task="wd", **star))
    found += [outcome(f"gm{k}-{i}", "NO", "YES" if i == 0 else "NO", task="gm", kind="M dwarf") for i in range(5)]
    found.append(outcome(f"wd{k}", "YES", None if k == 0 else "YES", task="wd", kind="WD"))
    return found


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return real_goals(pooled(cast("list[Cell]", [Asked("a", fold(0)), Asked("b", fold(1))])), replicates=200)


def line(told: dict[str, Any], what: str) -> dict[str, Any]:
    return next(one for one in told["goals"] if one["what"] == what)


def test_folds_are_counted_together_against_their_goals(told: dict[str, Any]) -> None:
    cv = line(told, "F1, cataclysmic variables")
    assert cv["value"] == pytest.approx(2 * 38 / (2 * 38 + 1 + 2), abs=1e-4)
    assert cv["met"] is True
    recall = line(told, "cataclysmic variables found")
    assert (recall["k"], recall["n"], recall["met"]) == (38, 40, True)
    assert (recall["low"], recall["high"]) == pytest.approx(clopper_pearson(38, 40), abs=1e-4)
    dwarfs = line(told, "M dwarfs called giants")
    assert (dwarfs["k"], dwarfs["n"], dwarfs["met"]) == (2, 10, False)


def test_a_star_that_is_called_two_things_is_one_false_alarm(told: dict[str, Any]) -> None:
    stars = line(told, "A to K spectra of LAMOST called anything")
    assert (stars["k"], stars["n"], stars["met"]) == (1, 16, True)
    assert (line(told, "the same, by star")["k"], line(told, "the same, by star")["n"]) == (1, 16)


def test_of_classes_with_few_members_counts_are_told_and_nothing_is_claimed(told: dict[str, Any]) -> None:
    dwarfs = line(told, "white dwarfs found")
    assert (dwarfs["k"], dwarfs["n"], dwarfs["goal"], dwarfs["met"]) == (1, 2, "", None)
    assert line(told, "carbon stars found")["value"] is None
    assert line(told, "F1, M giants")["met"] is None
    assert any(note.startswith("wd: 2 real members") for note in told["notes"])
    assert any("no member of any class was observed by LAMOST" in note for note in told["notes"])
    assert told["answers"]["FAILED"] == 1


def test_cells_that_were_asked_the_same_are_refused() -> None:
    with pytest.raises(InputError, match=r"b and a were both asked cv0-0; .* --seed"):
        pooled(cast("list[Cell]", [Asked("a", fold(0)), Asked("b", fold(0))]))
