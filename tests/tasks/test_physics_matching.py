"""Answers to physics problems: hand-made decisions, and what holds of every number, unit and expression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from specvet.records.problems import Gold
from specvet.tasks.physics.matching import match
from specvet.tasks.physics.reasons import Flag, Reason

GOLDEN = yaml.safe_load(Path(__file__).with_name("physics_golden.yaml").read_text(encoding="utf-8"))
CASES = [(entry["gold"], *case) for entry in GOLDEN for case in entry["cases"]]


def test_the_golden_file_has_enough_cases_of_both_verdicts() -> None:
    right = sum(case[2] for case in CASES)
    assert len(CASES) >= 250
    assert min(right, len(CASES) - right) >= 90


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]} for {case[0].get('value', 'parts')}"[:60])
def test_golden_answers_get_their_decision(case: tuple[Any, ...]) -> None:
    gold, answer, right, reason, *flags = case
    decision = match(answer, Gold.model_validate(gold))
    assert (decision.right, decision.reason) == (right, reason)
    assert decision.flags == set(flags)


def test_every_reason_and_flag_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "physics.md").read_text(encoding="utf-8")
    assert [code for code in (*Reason, *Flag) if f"`{code}`" not in page] == []


def test_the_golden_file_has_every_reason_but_those_of_faults_and_modes() -> None:
    elsewhere = {Reason.TIMEOUT, Reason.UNDECIDED, Reason.GOLD_UNREAD, Reason.FLAGGED, Reason.TOO_LONG}
    elsewhere |= {Reason.UNIT_MISSING, Reason.UNIT_EXTRA, Reason.PART_MISSING, Reason.PART_TWICE}
    assert set(Reason) - {case[3] for case in CASES} == elsewhere


def test_a_part_says_why_it_is_wrong() -> None:
    gold = Gold.model_validate(next(e["gold"] for e in GOLDEN if e["gold"]["kind"] == "multipart"))
    assert match("(a) 3 m", gold).parts["b"].reason is Reason.PART_MISSING
    twice = match("(a) 3 m (a) 5 m (b) 4 s", gold)
    assert (twice.parts["a"].reason, twice.credit) == (Reason.PART_TWICE, 0.5)
