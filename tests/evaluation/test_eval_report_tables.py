"""Tables and sentences of the report, from outcomes that are counted by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from specvet.evaluation.compare.meeting import badness
from specvet.evaluation.measures import measure
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.plots.page import look
from specvet.evaluation.plots.shown import Entry, Shown, Spread
from specvet.evaluation.report import words
from specvet.evaluation.report.conduct import comparisons, conduct
from specvet.evaluation.report.rare import rare_of, rare_table, readings
from specvet.evaluation.report.tables import Table, decisions, groups, headline, ranking, tables_of, transfer
from specvet.evaluation.sets import SetRecord


def outcome(n: int, truth: str, said: str | None, **more: Any) -> Outcome:
    told: dict[str, Any] = {
        "id": f"q{n}", "task": "cv", "verdict": said or "FAILED", "p_yes": None, "object_id": f"o{n}",
        "format_ok": said is not None, "stop": "answered" if said else "malformed",
    }  # fmt: skip
    return Outcome(**told | {"truth": truth, "said": said} | more)


def many(hits: int, missed: int, alarms: int, rejected: int, **more: Any) -> list[Outcome]:
    answers = [("YES", "YES")] * hits + [("YES", "NO")] * missed + [("NO", "YES")] * alarms + [("NO", "NO")] * rejected
    return [outcome(n, truth, said, **more) for n, (truth, said) in enumerate(answers)]


def shown(*seeds: Sequence[Outcome], label: str = "P", **more: Any) -> Shown:
    cell = {"rule": "strict/1", "seconds_per_spectrum": 0.25, "cost_usd_per_spectrum": 0.002, "label": label}
    numbers = tuple(cell | measure(outcomes, replicates=0, **more) for outcomes in seeds)
    hashes = {f"{name}_sha256": "" for name in ("file", "questions", "facts")}
    record = SetRecord(slug="s", origin={"path": "q.jsonl"}, questions=len(seeds[0]), tasks={"cv": ""}, **hashes)  # type: ignore[arg-type]
    asked = tuple(range(42, 42 + len(seeds)))
    return Shown("c", record, (Entry("p", label, look(0), asked, numbers),), {})


def column(table: Table, name: str) -> list[str]:
    return [row[table.head.index(name)] for row in table.rows]


def test_looks_and_finds_are_those_of_a_thousand_candidates() -> None:
    found = shown(many(8, 2, 9, 81))
    rare = rare_of(found.entries[0], "0.002", "cv")
    assert rare is not None
    assert rare.looks == pytest.approx(2 * 0.8 + 998 * 0.1)
    assert rare.finds == pytest.approx(2 * 0.8, rel=1e-4)
    (told,) = readings(found)
    assert told.startswith(
        "P: of 1,000 candidates of which 2 are of the class “cv” (0.2 %), it sends about 101 to a person, who finds "
        "1.6 of the 2 there: 63.4 looks for a find (95 %: "
    )
    assert told.endswith("where looking at everything takes 500.")


def test_a_seed_that_finds_nothing_counts_in_the_mean_of_looks_per_find() -> None:
    found = shown(many(10, 0, 0, 90), many(0, 10, 90, 0))
    rare = rare_of(found.entries[0], "0.02", "cv")
    assert rare is not None
    assert rare.looks == pytest.approx((20 + 980) / 2)
    assert rare.per_find == pytest.approx(500 / 10)
    table = rare_table(found)
    assert table is not None
    assert table.rows[0][-1] == "50.0"


def test_who_finds_nothing_is_told_so() -> None:
    assert list(readings(shown(many(0, 10, 0, 90)))) == ["P sends no member of any class to a person."]
    assert rare_table(shown(many(0, 0, 5, 5))) is None


def test_the_headline_is_of_one_seed_or_several() -> None:
    one = headline(shown(many(8, 2, 9, 81)))
    assert column(one, "accuracy, %") == ["89.00"]
    assert column(one, "correct") == ["89 of 100"]
    assert column(one, "US$ a 1,000 spectra") == ["2.00"]
    two = headline(shown(many(8, 2, 9, 81), many(10, 0, 9, 81)))
    assert column(two, "accuracy, %") == ["90.00 ± 1.41"]
    assert column(two, "correct") == ["90.0 ± 1.4 of 100"]
    assert column(two, "seed") == ["42, 43"]


def test_who_was_trained_on_what_it_was_asked_is_told_below_the_headline() -> None:
    found = shown(many(8, 2, 1, 9))
    assert not any("trained on" in note for note in headline(found).notes)
    entry = found.entries[0]
    entry = replace(entry, numbers=tuple({**m, "seen_in_training": 5} for m in entry.numbers))
    told = headline(replace(found, entries=(entry,))).notes[-1]
    assert told.startswith("5 of the 20 questions are about spectra that P was trained on or stopped by")


def test_what_could_not_be_measured_is_a_dash() -> None:
    found = shown(many(0, 0, 0, 10))
    assert column(headline(found), "macro F1, %") == [words.NONE]
    assert ranking(found) is None


def test_abstaining_costs_less_than_an_error() -> None:
    outcomes = [*many(1, 1, 0, 0), outcome(2, "NO", None), outcome(3, "NO", "NO")]
    table = decisions(shown(outcomes))
    assert column(table, "answers, % of questions") == ["75.0"]
    assert column(table, "accuracy of answers, %") == ["66.7"]
    assert column(table, "cost at c = 0.5") == ["0.375"]


def test_groups_stand_side_by_side() -> None:
    outcomes = many(2, 0, 0, 2, survey="LAMOST") + [
        outcome(10 + n, o.truth, "NO", survey="DESI", snr=7.0) for n, o in enumerate(many(2, 0, 0, 2))
    ]
    tables = {table.caption: table for table in groups(shown(outcomes))}
    surveys = tables["Within surveys"]
    policy = [row for row in surveys.rows if row[1] == "P"]
    assert [(row[0], row[2], row[4][:5]) for row in policy] == [("DESI", "4", "0.0 ("), ("LAMOST", "4", "100.0")]
    assert [row[0] for row in tables["By signal to noise (median, a pixel)"].rows if row[1] == "P"] == [
        "5-10",
        "unknown",
    ]


def test_surveys_are_compared_with_the_reference_on_the_same_objects() -> None:
    here = many(4, 0, 0, 4, survey="LAMOST")
    there = [outcome(20 + n, o.truth, "NO", survey="SDSS", object_id=o.object_id) for n, o in enumerate(here)]
    (table,) = transfer(shown([*here, *there], reference="LAMOST"))
    assert [row[1] for row in table.rows] == ["LAMOST", "SDSS"]
    assert table.rows[0][-1] == "reference"
    assert table.rows[1][-1] == "−50.0"


def test_unseen_classes_have_their_own_line() -> None:
    outcomes = many(4, 0, 0, 4) + [outcome(50 + n, o.truth, "NO", task="wd") for n, o in enumerate(many(4, 0, 0, 4))]
    (table,) = transfer(shown(outcomes, unseen=["wd"]))
    assert [(row[1], row[2], row[3][:3]) for row in table.rows] == [("seen", "cv", "100"), ("unseen", "wd", "0.0")]


def test_every_table_has_as_many_cells_as_its_head() -> None:
    outcomes = many(8, 2, 9, 81, kind="M dwarf", survey="DESI", snr=12.0, p_yes=0.7, calls=2, turns=3)
    found = shown(outcomes, outcomes)
    rare = rare_table(found)
    assert rare is not None
    for table in [headline(found), *tables_of(found), *conduct(found), rare]:
        assert {len(row) for row in table.rows} == {len(table.head)}, table.caption


def test_paired_differences_are_told_by_seed_and_no_p_over_seeds() -> None:
    def one(seed: int, value: float) -> dict[str, Any]:
        difference = {"a": 0.5, "b": 0.4, "difference": {"value": value, "low": -0.1, "high": 0.3}}
        told = dict.fromkeys(("accuracy", "macro_f1", "format"), difference)
        return {"seed": seed, **told, "only_a": 3, "only_b": 1, "mcnemar_p": 0.625}

    over = {key: {"mean": 0.15, "std": 0.0707107, "n": 2} for key in ("accuracy", "macro_f1", "format")}
    summary = {"comparisons": [{"of": "b", "over": "a", "set": "s", "seeds": [one(42, 0.1), one(43, 0.2)],
                                "over_seeds": over}]}  # fmt: skip
    table = comparisons(summary, {"a": "A", "b": "B"}, "s")
    assert table is not None
    assert table.rows[0] == ("B", "A", "42", *["+10.0 (−10.0 to +30.0)"] * 3, "3", "1", "0.6250")
    assert table.rows[2] == ("B", "A", "mean", *["+15.0 ± 7.1"] * 3, "", "", "")
    assert comparisons(summary, {}, "other") is None


def test_errors_are_sorted_by_how_certain_and_how_bad_they_are() -> None:
    errors = [
        outcome(0, "YES", None),
        outcome(1, "NO", "YES"),
        outcome(2, "NO", "YES", p_yes=0.9),
        outcome(3, "YES", "NO", p_yes=0.1),
        outcome(4, "YES", "NO", p_yes=0.01),
        outcome(5, "NO", None, p_yes=0.99),
    ]
    assert [o.id for o in sorted(errors, key=badness)] == ["q4", "q3", "q2", "q1", "q0", "q5"]


@pytest.mark.parametrize(
    ("spread", "text"),
    [
        (Spread(None), "–"),
        (Spread(71.68), "71.7"),
        (Spread(71.68, 66.1, 76.94), "71.7 (66.1–76.9)"),
        (Spread(71.0, 70.5, 71.5, over_seeds=True), "71.0 ± 0.5"),
        (Spread(12_345.0, 10_000.0, 14_690.0, over_seeds=True), "12,345.0 ± 2,345.0"),
    ],
)
def test_a_spread_is_written_with_what_it_is_known_to(spread: Spread, text: str) -> None:
    assert words.spread(spread) == text


def test_p_values_and_seconds_are_written_as_people_do() -> None:
    assert [words.p_value(p) for p in (None, 0.5, 0.031, 1e-9)] == ["–", "0.5000", "0.0310", "< 0.0001"]
    assert [words.seconds(s) for s in (None, 0.04234, 3.14159, 1234.5)] == ["–", "0.0423", "3.14", "1,234"]
