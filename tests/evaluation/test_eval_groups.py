"""Numbers within parts of a set, across surveys, and where the policy looked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from outcome_lab import many, outcome, outcomes

from specvet.evaluation.counts import accuracy, macro_f1, sheet_of
from specvet.evaluation.groups import confusers, cross_survey, groups, seen_unseen, snr_bin, windows
from specvet.evaluation.intervals import Resamples, proportion
from specvet.evaluation.outcomes import Outcome


def drawn(found: list[Outcome]) -> Resamples:
    return Resamples([o.object_id for o in found], 200, seed=0)


def grouped(found: list[Outcome]) -> dict[str, Any]:
    return groups(found, sheet_of(found), drawn(found))


def test_each_survey_has_the_numbers_of_its_own_questions() -> None:
    found = many(300)
    told = grouped(found)
    assert list(told) == ["survey", "layout", "split", "snr"]
    assert list(told["survey"]) == ["DESI", "LAMOST", "SDSS"]
    for survey, numbers in told["survey"].items():
        those = [o for o in found if o.survey == survey]
        assert numbers["n"] == len(those)
        assert numbers["objects"] == len({o.object_id for o in those})
        assert numbers["accuracy"]["value"] == accuracy(sheet_of(those), drawn(those))["value"]
        assert numbers["macro_f1"]["value"] == macro_f1(sheet_of(those), drawn(those))["value"]
        assert numbers["accuracy"]["low"] < numbers["accuracy"]["value"] < numbers["accuracy"]["high"]
    assert sum(numbers["n"] for numbers in told["snr"].values()) == 300
    assert list(told["snr"]) == ["<5", "5-10", "10-20", "20-40", "≥40"]
    assert list(told["split"]) == ["unknown"]


def test_bins_of_snr_hold_their_lower_end() -> None:
    values = {4.99: "<5", 5: "5-10", 9.99: "5-10", 10: "10-20", 20: "20-40", 40: "≥40", 1e9: "≥40", -1: "<5"}
    assert {snr: snr_bin(snr) for snr in values} == values
    assert snr_bin(None) == snr_bin(float("nan")) == snr_bin(float("inf")) == "unknown"


def test_confusers_tell_what_was_taken_for_what() -> None:
    found = outcomes("YYNNNN", "YNY-NN", kind=["cv", "cv", "dMe", "dMe", "dMe", ""])
    told = confusers([*found, outcome("w", task="wd", kind="dMe")])
    assert told == {
        "cv": {
            "cv": {"n": 2, "truth": "YES", "said_yes": 1, "wrong": proportion(1, 2)},
            "dMe": {"n": 3, "truth": "NO", "said_yes": 1, "wrong": proportion(2, 3)},
        },
        "wd": {"dMe": {"n": 1, "truth": "NO", "said_yes": 0, "wrong": proportion(0, 1)}},
    }
    assert confusers(outcomes("YN", "YN")) == {}
    assert confusers(outcomes("YN", "YN", kind="star"))["cv"]["star"]["truth"] == "both"


def test_unseen_tasks_are_told_apart() -> None:
    found = many(200)
    sheet, draws = sheet_of(found), drawn(found)
    told = seen_unseen(sheet, draws, ("wd", "ss", "not asked"))
    assert told is not None
    assert told["seen"]["tasks"] == ["cc", "cv", "gm"]
    assert told["unseen"]["tasks"] == ["ss", "wd"]
    new = [o for o in found if o.task in ("wd", "ss")]
    assert told["unseen"]["macro_f1"]["value"] == macro_f1(sheet_of(new), drawn(new))["value"]
    assert seen_unseen(sheet, draws, ()) is None
    assert seen_unseen(sheet, draws, ("not asked",)) is None
    everything = seen_unseen(sheet, draws, sheet.tasks)
    assert everything is not None
    assert everything["seen"] == {"tasks": [], "macro_f1": None}


def across(found: list[Outcome], reference: str | None) -> Any:
    return cross_survey(found, sheet_of(found), drawn(found), reference)


def seen_by(survey: str, truth: str, said: str, first: int = 0) -> list[Outcome]:
    ids = [f"star {first + i}" for i in range(len(truth))]
    found = outcomes(truth, said, survey=survey, object_id=ids)
    return [outcome(f"{survey}-{o.object_id}", o.truth, o.said, survey=survey, object_id=o.object_id) for o in found]


def test_surveys_are_compared_on_the_objects_that_both_saw() -> None:
    lamost = seen_by("LAMOST", "YYNNNN", "YYNNNY")
    desi = seen_by("DESI", "YYNNNN", "Y-NNNN", first=1)  # of which star 6 is seen by DESI alone; answers differ by star
    desi = [outcome(o.id, lamost[i + 1].truth if i < 5 else "NO", o.said, survey="DESI", object_id=o.object_id)
            for i, o in enumerate(desi)]  # fmt: skip
    told = across([*lamost, *desi], "lamost")
    assert told["reference"] == "LAMOST"
    assert list(told["surveys"]) == ["DESI", "LAMOST"]
    assert told["surveys"]["DESI"]["n"] == 6
    pair = told["paired"]["DESI"]
    assert list(told["paired"]) == ["DESI"]
    assert (pair["n"], pair["objects"]) == (5, 5)
    # both saw stars 1-5 (truth YNNNN): LAMOST says YNNNY, DESI says Y-NNN
    assert pair["accuracy"]["value"] == pytest.approx(4 / 5 - 4 / 5)
    assert pair["macro_f1"]["value"] == pytest.approx(1 - 2 / 3)
    assert pair["accuracy"]["low"] < 0 < pair["accuracy"]["high"]


def test_a_paired_difference_is_narrower_than_one_of_strangers() -> None:
    luck = np.random.default_rng(0)
    truth = "".join("Y" if x < 0.3 else "N" for x in luck.random(300))
    said = "".join(t if x < 0.7 else "-" for t, x in zip(truth, luck.random(300), strict=True))
    same = across([*seen_by("A", truth, said), *seen_by("B", truth, said[:-2] + "--")], "A")["paired"]["B"]["accuracy"]
    single = across([*seen_by("A", truth, said), *seen_by("B", truth, said)], "A")["surveys"]["A"]["accuracy"]
    assert same["high"] - same["low"] < (single["high"] - single["low"]) / 4


def test_across_surveys_needs_two_and_a_reference() -> None:
    found = many(60)
    assert across(found, None) is None
    assert across([o for o in found if o.survey == "DESI"], "DESI") is None
    told = across(found, "Gaia")
    assert told["paired"] == {}
    assert "Gaia" in told["note"]


def test_surveys_without_a_common_object_have_no_difference() -> None:
    told = across([*seen_by("A", "YN", "YN"), *seen_by("B", "YN", "YN", first=5)], "A")["paired"]["B"]
    assert (told["n"], told["objects"], told["accuracy"]["value"], told["macro_f1"]["value"]) == (0, 0, None, None)


def test_windows_tell_the_share_that_looked_at_each_stretch() -> None:
    found = [
        outcome("a", windows=((6_500.0, 6_600.0), (6_550.0, 6_575.0))),  # looked twice, counts once
        outcome("b", windows=((6_540.0, 6_560.0),)),
        outcome("c"),
        outcome("d", task="wd"),
    ]
    told = windows(found)
    assert list(told) == ["cv"]
    assert told["cv"] == {
        "low": 6_500,
        "high": 6_600,
        "step": 25,
        "share": pytest.approx([1 / 3, 2 / 3, 2 / 3, 1 / 3]),
    }


def test_a_window_of_any_size_is_kept_in_bounds() -> None:
    told = windows([outcome("a", windows=((-1e9, 1e12), (6_000.0, 6_000.0)))])["cv"]
    assert (told["low"], told["high"], len(told["share"])) == (0, 50_000, 2_000)
    narrow = windows([outcome("a", windows=((6_010.0, 6_010.0),))])["cv"]
    assert (narrow["low"], narrow["high"], narrow["share"]) == (6_000, 6_025, [1.0])


def test_a_window_wider_than_the_spectrum_shows_no_more_than_the_spectrum() -> None:
    covered = {"wave_min": 4_040.0, "wave_max": 8_080.0, "z": 0.01}
    told = windows([outcome("a", windows=((6_400.0, 50_000.0), (0.0, 4_100.0)), metadata=covered)])["cv"]
    assert (told["low"], told["high"]) == (4_000.0, 8_000.0)
    assert [told["share"][0], told["share"][4], told["share"][-1]] == [1.0, 0.0, 1.0]
