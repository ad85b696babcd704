"""What triage weighs of decisions: one case a spectrum and task, whatever number of samples."""

from __future__ import annotations

import math

import pytest
from triage_lab import decision

from specvet.records import Decision
from specvet.records.schema import Answer, EvidenceItem, Measurement, Verdict
from specvet.vetting.prefilter import PREFIX
from specvet.vetting.triage.cases import LIMIT, cases_of, index_features, log_odds


def test_samples_of_one_question_are_one_case_with_their_agreement() -> None:
    said = [(Answer.YES, 0.9), (Answer.NO, 0.2), (Answer.YES, 0.8), (Answer.UNSURE, None)]
    (case,) = cases_of(decision("a.fits", "cv", answer, p, sample=i) for i, (answer, p) in enumerate(said))
    assert (case.answer, case.samples) == (Answer.YES, 4)
    assert case.p_raw == pytest.approx((0.9 + 0.2 + 0.8) / 3)
    assert case.features["policy"] == pytest.approx((log_odds(0.9) + log_odds(0.2) + log_odds(0.8)) / 3)
    assert case.features["votes"] == pytest.approx(1 / 3)
    assert case.features["unsure"] == 0.25
    assert case.features["snr"] == pytest.approx(math.log10(20))


def test_a_tie_is_unsure_and_too_few_answers_are_none() -> None:
    tied = [decision("a.fits", "cv", a, None, sample=i) for i, a in enumerate((Answer.YES, Answer.NO))]
    failed = [
        decision("b.fits", "cv", a, None, sample=i) for i, a in enumerate((Answer.YES, Answer.FAILED, Answer.FAILED))
    ]
    assert [c.answer for c in cases_of([*tied, *failed])] == [Answer.UNSURE, Answer.FAILED]


def test_votes_stand_in_for_probabilities_that_a_policy_does_not_give() -> None:
    rows = [decision("a.fits", "cv", Answer.YES, None, sample=i) for i in range(3)]
    (case,) = cases_of(rows)
    assert case.p_raw is None
    assert case.features["policy"] == pytest.approx(math.log(3.5 / 0.5))


def test_what_no_policy_was_asked_has_no_log_odds_of_one() -> None:
    verdict = Verdict(answer=Answer.NO, p_yes=0.01, reason=f"{PREFIX}no Hα", evidence=(_item(-3.0, 1.0, 0.1),))
    (case,) = cases_of([decision("a.fits", "cv", Answer.NO, 0.01).model_copy(update={"verdict": verdict})])
    assert "policy" not in case.features
    assert (case.features["index"], case.scored) == (-3.0, True)


def test_a_certain_policy_and_a_long_sum_of_evidence_are_limited() -> None:
    assert log_odds(1.0) == pytest.approx(LIMIT)
    assert log_odds(0.0) == pytest.approx(-LIMIT)
    assert index_features(Verdict(answer=Answer.NO, reason="", evidence=(_item(-50.0, 1.0, 0.1),)))["index"] == -LIMIT


def test_the_signal_to_noise_of_indices_weighs_by_their_log_odds() -> None:
    verdict = Verdict(answer=Answer.YES, reason="", evidence=(_item(3.0, 99.0, 1.0), _item(-1.0, 9.0, 1.0)))
    found = index_features(verdict)
    assert found["index"] == 2.0
    assert found["index_sn"] == pytest.approx((3 * 2 + 1 * 1) / 4)


def test_an_unreadable_file_is_a_case_of_its_own_for_each_list_entry() -> None:
    broken = Verdict(answer=Answer.ERROR, reason="empty file")
    rows = [Decision(file="x.fits", row=0, task="*", id=id, verdict=broken) for id in ("1", "2")]
    cases = list(cases_of(rows))
    assert [(c.id, c.answer, c.scored) for c in cases] == [("1", Answer.ERROR, False), ("2", Answer.ERROR, False)]


def _item(log_odds: float, value: float, error: float) -> EvidenceItem:
    return EvidenceItem(
        says="it", measurement=Measurement(index="ha", name="Hα", value=value, error=error), log_odds=log_odds
    )
