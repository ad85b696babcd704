"""A list in its bands: who is looked at, what is expected, and when the calibration set was another kind of list."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from triage_lab import case, drawn, exact

from specvet.records.schema import Answer
from specvet.vetting.triage import Settings, sort
from specvet.vetting.triage.cases import Case
from specvet.vetting.triage.drawing import figure, recall_and_looks
from specvet.vetting.triage.page import write_page

RARE = {"*": 0.02}


def listed(n: int = 4_000, members: int = 80, seed: int = 21, shift: float = 0.0) -> list[Case]:
    log_odds, _ = drawn(n, members, seed)
    return [case(i, "cv", x + shift) for i, x in enumerate(log_odds)]


@pytest.mark.parametrize("answer", [Answer.UNSURE, Answer.NO_DATA, Answer.FAILED, Answer.ERROR])
def test_what_was_not_decided_is_looked_at_whatever_its_evidence(answer: Answer) -> None:
    for calibration in (exact(), None):
        found = sort([case(0, "cv", -9.0, answer), case(1, "cv", 9.0, answer)], calibration, Settings())
        assert [row.band for row in found.rows] == ["look", "look"]
        assert found.looks == 2


def test_rejecting_loses_no_more_than_promised_and_saves_looks() -> None:
    cases = listed()
    found = sort(cases, exact(), Settings(audit=0.0))
    bands = [row.band for row in found.rows]
    lost = bands[:80].count("reject")
    assert lost <= 4
    assert found.looks < 1_200
    assert found.tasks["cv"].promise is not None
    assert found.tasks["cv"].promise.scope == "task"
    expected = found.tasks["cv"].bands
    total = sum(band.members or 0 for band in expected.values())
    assert total == pytest.approx(80, rel=0.35)
    low, high = expected["look"].low, expected["look"].high
    assert low is not None
    assert high is not None
    assert low <= bands[:80].count("look") <= high * 1.1


def test_a_given_prevalence_moves_probabilities_and_no_evidence() -> None:
    cases = listed(200, 40)
    common, rare = (sort(cases, exact(), Settings(prevalence={"*": p})) for p in (0.2, 0.002))
    assert [r.evidence for r in common.rows] == [r.evidence for r in rare.rows]
    p, q = common.rows[0].probability, rare.rows[0].probability
    assert p is not None
    assert q is not None
    odds = (p / (1 - p)) / (q / (1 - q))
    assert odds == pytest.approx((0.2 / 0.8) / (0.002 / 0.998), rel=1e-6)
    assert common.tasks["cv"].prevalence is not None
    assert common.tasks["cv"].prevalence.source == "given"


def test_the_audit_is_the_same_draw_in_any_order_and_another_for_another_seed() -> None:
    cases, known = listed(), exact()

    def drawn_ids(given: list[Case], seed: int) -> set[str]:
        return {
            row.case.id for row in sort(given, known, Settings(audit=0.1, seed=seed, prevalence=RARE)).rows if row.audit
        }

    first = drawn_ids(cases, 0)
    rejected = sum(row.band == "reject" for row in sort(cases, known, Settings(prevalence=RARE)).rows)
    assert abs(len(first) / rejected - 0.1) < 0.02
    assert drawn_ids(cases[::-1], 0) == first
    assert len(drawn_ids(cases, 1) & first) < 0.3 * len(first)


def test_what_is_flagged_is_looked_at() -> None:
    cases = [case(i, "cv", -9.0) for i in range(3)]
    found = sort(cases, exact(), Settings(audit=0, prevalence=RARE), flagged={cases[1].place})
    assert [(row.band, row.why) for row in found.rows] == [
        ("reject", "below the threshold"),
        ("look", "flagged"),
        ("reject", "below the threshold"),
    ]


def test_without_a_calibration_a_no_is_rejected_on_the_policys_word_and_nothing_is_accepted() -> None:
    found = sort([case(0, "cv", -2.0), case(1, "cv", 5.0)], None, Settings(audit=0))
    assert [row.band for row in found.rows] == ["reject", "look"]
    assert found.tasks["cv"].bands["reject"].members is None
    assert found.rows[1].probability == pytest.approx(1 / (1 + np.exp(-5.0)))


def test_a_list_like_the_calibration_set_brings_no_warning_however_rare_its_members() -> None:
    for members in (800, 80, 8):
        assert sort(listed(members=members), exact(), Settings()).tasks["cv"].drift == ()


def test_a_list_with_other_log_odds_is_told_of() -> None:
    (text,) = sort(listed(shift=2.0), exact(), Settings(prevalence=RARE)).tasks["cv"].drift
    assert text.startswith("the log-odds of the policy are spread differently (distance 0.")


def test_another_survey_and_simulated_labels_are_told_of() -> None:
    cases = [replace(c, survey="DESI") if i % 2 else c for i, c in enumerate(listed())]
    told = sort(cases, exact(simulated=2_000), Settings(prevalence=RARE)).tasks["cv"].drift
    assert told[0] == "2,000 of 4,000 cases are of DESI, of which the calibration set has none"
    assert "SIMULATED spectra, this list is not" in told[1]


def test_many_equal_values_are_no_drift() -> None:
    known = exact()
    spread = {"policy": {"YES": (4.59512,) * 21, "NO": (-4.59512,) * 16 + tuple(np.linspace(-4, 0, 5).tolist())}}
    same = known.model_copy(update={"tasks": {"cv": known.tasks["cv"].model_copy(update={"spread": spread})}})
    values = [4.5951199] * 200 + [-4.5951199] * 600 + np.linspace(-4, 0, 200).tolist()
    cases = [case(i, "cv", x) for i, x in enumerate(values)]
    assert sort(cases, same, Settings(prevalence={"*": 0.2})).tasks["cv"].drift == ()


def test_recall_rises_with_looks_from_nothing_to_everything() -> None:
    evidence, yes = drawn(500, 100)
    found, looks = recall_and_looks(evidence[yes], evidence[~yes], 0.02)
    assert (np.diff(found) >= 0).all()
    assert (np.diff(looks) > 0).all()
    assert (found[-1], looks[-1]) == (1.0, pytest.approx(1.0))


def test_the_page_is_whole_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    calibration = exact(simulated=2_000)
    found = sort([*listed(300, 30), case(900, "cv", 0.0, Answer.NO_DATA)], calibration, Settings(prevalence=RARE))
    write_page(tmp_path / "page.html", "RUN <1>", found, Settings(), calibration)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Triage of RUN &lt;1&gt;" in page
    assert page.count("<svg") == 1
    assert "2,000 of them SIMULATED" in page
    assert not re.findall(r"""(?:src|href)=["'](?!#)|url\((?!#)|@import""", page)  # svg refers to itself alone
    assert figure(found, Settings(), None) is not None
