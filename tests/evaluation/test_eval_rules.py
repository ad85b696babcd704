"""Named rules of reading, and outcomes: what a decision counts under them."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "agent"))

from rollout_lab import QUESTION, Scripted, answer, look, one, rolled, said, task, turns, zoom

from specvet.agent import Budget, run_agent
from specvet.evaluation.outcomes import POLICY_ENDS, Outcome, outcome_of
from specvet.evaluation.rules import RULES, STRICT, UnknownRuleError, rule
from specvet.policies import policy
from specvet.policies.tokens import PolicyError
from specvet.records import Decision
from specvet.records.schema import Answer, Question, SpectrumRef, StopReason, TrajectoryRecord, Verdict
from specvet.tasks import lenient_answer, reward, strict_answer

CLOSED = "<think>Hα.</think>"
READINGS = [
    # turns, strict, lenient, chapter, paper
    ([CLOSED + r"<answer>\boxed{YES} So.</answer>"], "YES", "YES", "YES", "YES"),
    ([CLOSED + r"<answer>\boxed{no}</answer>"], "NO", "NO", None, "NO"),
    ([CLOSED + r"<answer>So \boxed{NO}</answer>"], "NO", "NO", None, "NO"),
    ([CLOSED + "YES, it is."], None, "YES", "YES", "YES"),
    ([CLOSED + "No emission is seen."], None, None, None, "NO"),
    ([r"<think>\boxed{YES}</think>"], None, None, None, "YES"),
    ([r"<think>\boxed{YES}</think><answer>\boxed{NO}</answer>"], "NO", "NO", "NO", "NO"),
    ([r"<think>It is \boxed{YES}"], None, None, None, "YES"),
    ([CLOSED + r"<answer>\boxed{YES} or \boxed{NO}</answer>"], None, None, "YES", "YES"),
    ([CLOSED + r"<answer>\boxed{MAYBE}</answer>"], None, None, None, None),
    ([CLOSED + r"<answer>\boxed{YES}</answer>", CLOSED + "Hm."], None, None, None, "YES"),
    ([CLOSED + '<tool_call>{"name": "zoom", "arguments": {}}</tool_call>'], None, None, None, None),
    ([CLOSED], None, None, None, None),
    ([""], None, None, None, None),
    ([], None, None, None, None),
]


@pytest.mark.parametrize(("said_turns", "strict", "lenient", "chapter", "paper"), READINGS)
def test_each_rule_reads_what_it_says(
    said_turns: list[str], strict: Any, lenient: Any, chapter: Any, paper: Any
) -> None:
    read = {name: made.read(said_turns) for name, made in RULES.items()}
    assert read == {"strict/1": strict, "lenient/1": lenient, "chapter/1": chapter, "paper/1": paper}
    assert read["strict/1"] == strict_answer(said_turns)
    assert read["lenient/1"] == lenient_answer(said_turns)
    for variant in ("chapter", "paper"):  # a rule is right exactly where the reward of that name is
        for truth in ("YES", "NO"):
            assert reward(said_turns, truth, variant).correct == (read[f"{variant}/1"] == truth)  # type: ignore[arg-type]


def test_a_rule_is_found_by_its_name_and_the_newest_without_a_version() -> None:
    assert rule("strict/1") is rule("strict") is RULES[STRICT]
    assert {made.name for made in RULES.values()} == set(RULES)
    for unknown in ("strict/2", "exact", "", "strict/"):
        with pytest.raises(UnknownRuleError, match="strict/1, lenient/1, chapter/1, paper/1"):
            rule(unknown)


def decision(record: TrajectoryRecord | None, **more: Any) -> Decision:
    verdict = record.verdict if record else Verdict(answer=Answer.ERROR, reason="gone")
    told = {"file": "x.fits", "row": 0, "task": "t", "id": "q", "survey": "LAMOST", "layout": "lrs", "medium": "vacuum"}
    return Decision(**{**told, "snr": 20.0, "n_pix": 2000, **more}, verdict=verdict, trajectory=record)


def outcome(record: TrajectoryRecord | None, name: str = STRICT, facts: Any = None, **more: Any) -> Outcome:
    question = record.question if record else QUESTION
    return outcome_of(question, decision(record, **more), rule(name), facts)


def test_an_outcome_is_made_of_what_happened() -> None:
    record = one(turns(look(), look(6500, 6600), look(1, 2), answer("NO")))
    made = outcome(record, facts={"kind": "M giant", "subtype": "M5", "snr": "7.5", "survey": "SDSS"})
    assert (made.id, made.task, made.truth, made.said, made.verdict, made.right) == ("q", "t", "YES", "NO", "NO", False)
    assert (made.calls, made.calls_executed, made.calls_succeeded, made.turns) == (3, 3, 2, 4)
    assert made.windows == ((6400.0, 6700.0), (6500.0, 6600.0))
    assert (made.format_ok, made.stop, made.malformed, made.machinery) == (True, "answered", (), False)
    assert (made.kind, made.subtype, made.snr, made.survey, made.layout) == ("M giant", "M5", 7.5, "SDSS", "lrs")
    assert made.metadata["survey"] == "LAMOST"  # of the file, not of the facts: what a classifier may know
    assert made.p_yes is not None
    assert 0 < made.p_yes < 1
    assert record.tokens is not None
    assert (made.prompt_tokens, made.sampled_tokens) == (record.tokens.prompt, record.tokens.sampled)
    assert made.ledger_tokens == record.tokens.total
    assert made.reward == 0.0


def test_a_malformed_answer_that_a_rule_can_read_counts_by_the_rule_and_not_by_the_verdict() -> None:
    record = one(turns(said("Words outside.</think> More. <answer>\\boxed{YES}</answer>")))
    assert record.verdict.answer is Answer.FAILED
    assert (outcome(record).said, outcome(record).format_ok) == ("YES", False)
    assert outcome(record).malformed == ("text_outside",)
    bare = one(turns(said("Hα.</think>YES.")))
    assert (outcome(bare).said, outcome(bare, "lenient").said) == (None, "YES")


def test_what_machinery_ended_is_wrong_whatever_was_said_before() -> None:
    """A turn that was to be mended holds an answer; the server is gone before the next."""

    async def gone(asked: Any) -> None:
        if asked.turn:
            raise PolicyError("gone")

    broken = said("Words outside.</think> More. <answer>\\boxed{YES}</answer>")
    for name in RULES:
        (record,) = rolled(Scripted(turns(broken), before=gone), budget=Budget(max_malformed=2))
        made = outcome(record, name)
        assert (made.stop, made.machinery, made.said, made.p_yes, made.right) == (
            "policy_error",
            True,
            None,
            None,
            False,
        )
        (record,) = rolled(Scripted(turns(broken)), budget=Budget(max_malformed=0))
        assert (outcome(record, name).machinery, outcome(record, name).right) == (False, name != "chapter/1")


def test_ends_are_a_policys_or_machinerys_and_all_are_known() -> None:
    machinery = set(StopReason) - POLICY_ENDS
    assert machinery == {
        StopReason.TOKEN_DRIFT,
        StopReason.LEDGER,
        StopReason.OUT_OF_TIME,
        StopReason.POLICY_ERROR,
        StopReason.UNREADABLE,
    }


def test_a_spectrum_that_cannot_be_read_is_an_outcome_that_is_wrong() -> None:
    made = outcome(None)
    assert (made.said, made.right, made.stop, made.machinery, made.verdict) == (
        None,
        False,
        "unreadable",
        True,
        "ERROR",
    )
    assert (made.p_yes, made.format_ok, made.turns) == (None, False, 0)


def test_a_policy_that_measures_answers_the_same_under_every_rule() -> None:
    record = run_agent(QUESTION.model_copy(update={"task": "cv"}), _cv(), zoom(), policy("line-indices"))
    for name in RULES:
        made = outcome(record, name)
        word = str(record.verdict.answer)
        assert made.said == (word if word in ("YES", "NO") else None)
        assert (made.p_yes, made.format_ok, made.sampled_tokens) == (record.verdict.p_yes, True, None)
    unmet = one(turns(answer()), t=task(coverage=[{"range": (1000.0, 2000.0)}], min_snr=1e9))
    made = outcome(unmet)
    assert (made.verdict, made.said, made.machinery, made.right) == ("NO_DATA", None, False, False)


def _cv() -> Any:
    from specvet.tasks import builtin_tasks

    return builtin_tasks()["cv"]


def test_an_object_is_named_by_the_question_and_never_by_where_its_file_lies() -> None:
    record = one(turns(answer()))
    named = [
        (Question(id="q", task="t", spectrum=SpectrumRef(path="a/x.fits", row=3), answer="NO"), "a/x.fits#3"),
        (Question(id="q", task="t", spectrum=SpectrumRef(array_file="x.npz"), answer="NO", name="s7"), "s7"),
        (
            Question(id="q", task="t", spectrum=SpectrumRef(path="x"), answer="NO", name="s7", object_id="Gaia 1"),
            "Gaia 1",
        ),
    ]
    for question, object_id in named:
        for file in ("/here/x.fits", "elsewhere/x.fits"):
            assert outcome_of(question, decision(record, file=file), rule("strict")).object_id == object_id


def test_numbers_that_are_none_are_left_out() -> None:
    record = one(turns(answer()))
    made = outcome(record, facts={"snr": ""}, snr=math.inf, z=math.nan)
    assert (made.snr, made.metadata["snr"], made.metadata["z"]) == (None, None, None)
    assert outcome(record, facts={"snr": "nan"}).snr is None
    assert outcome(record).snr == 20.0


def test_a_question_without_an_answer_measures_nothing() -> None:
    record = one(turns(answer()))
    with pytest.raises(ValueError, match="question q: has no answer"):
        outcome_of(record.question.model_copy(update={"answer": None}), decision(record), rule("strict"))
