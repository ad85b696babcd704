"""Coefficients of agreement against published examples and scikit-learn, and what the page is told of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from review_lab import draft, write_spectra

from specvet.review.agreement import (
    MISSING,
    agreement,
    alpha_interval,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    waiting,
)
from specvet.review.board import STANDINGS
from specvet.review.desk import Desk
from specvet.review.events import VERDICTS
from specvet.review.merging import merged
from specvet.review.source import of_list
from specvet.review.store import SqliteStore

# Fleiss 1971, Psychol. Bull. 76, 378, as worked through in many textbooks: 10 subjects, 14 raters, 5 categories.
FLEISS = np.array(
    [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]
)  # fmt: skip

# Krippendorff 2011, Computing Krippendorff's alpha-reliability, section C: four observers, twelve units, gaps.
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]


def counted(ratings: np.ndarray, categories: int) -> np.ndarray:
    return np.stack([(ratings == c).sum(1) for c in range(categories)], axis=1)


def test_fleiss_kappa_is_that_of_the_textbook_example() -> None:
    assert fleiss_kappa(FLEISS) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa(np.array([[2, 0], [0, 2]])) == 1.0
    assert fleiss_kappa(np.array([[2, 0], [2, 0]])) is None
    assert fleiss_kappa(np.array([[2, 0], [1, 2]])) is None
    assert fleiss_kappa(np.zeros((0, 3), int)) is None


def test_krippendorff_alpha_is_that_of_his_example_with_missing_votes() -> None:
    ratings = np.array(KRIPPENDORFF).T - 1
    assert krippendorff_alpha(counted(ratings, 5)) == pytest.approx(0.743, abs=5e-4)


def test_ballots_hold_what_the_votes_of_the_desk_are_whatever_was_decided_undone_and_settled(tmp_path: Path) -> None:
    write_spectra(tmp_path / "spectra", 8)
    desk = Desk(of_list([str(tmp_path / "spectra")], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    rng = np.random.default_rng(3)
    names = ("Ann", "Bo", "Chen")
    for n in range(120):
        item, who = desk.listing.items[rng.integers(8)], names[rng.integers(3)]
        if n % 5 == 4 and desk.votes(item, "cv").get(who):
            desk.undo(who, f"undo-{n:04d}", "cv", item)
        else:
            quality = int(rng.integers(5)) if rng.random() < 0.5 else None
            desk.decide(who, draft(item, VERDICTS[rng.integers(3)], quality=quality, flagged=bool(n % 7 == 0)))
    again = Desk(of_list([str(tmp_path / "spectra")], tasks="cv"), desk.store)
    for held in (desk, again):
        ballots, voted = held.ballots("cv"), held.voted("cv")
        assert [held.listing.items[i] for i in ballots.places] == list(voted)
        assert set(ballots.reviewers) == {who for votes in voted.values() for who in votes}
        for row, votes in enumerate(voted.values()):
            result = merged(list(votes.values()))
            assert STANDINGS[ballots.standing[row]] == result.standing
            assert (result.verdict or None) == (None if (v := ballots.verdict[row]) < 0 else VERDICTS[v])
            for k, name in enumerate(ballots.reviewers):
                vote = votes.get(name)
                assert (None if (v := ballots.votes[row, k]) < 0 else VERDICTS[v]) == (vote.verdict if vote else None)
                assert ballots.flagged[row, k] == bool(vote and vote.flagged)
                assert ballots.third[row, k] == bool(vote and vote.third)
    before = desk.ballots("cv")
    kept = before.votes.copy()
    desk.decide("Dee", draft(desk.listing.items[0], "YES"))
    assert (before.votes == kept).all()  # a copy: whoever counts it sees one moment
    desk.store.close()


def test_krippendorff_alpha_of_two_complete_raters_is_near_their_kappa() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 3, 4_000)
    b = np.where(rng.random(4_000) < 0.7, a, rng.integers(0, 3, 4_000))
    alpha = krippendorff_alpha(counted(np.stack([a, b], 1), 3))
    kappa, _ = cohen_kappa(a, b, 3)
    assert alpha == pytest.approx(kappa, abs=2e-3)


def test_cohen_kappa_and_its_error_agree_with_scikit_learn_and_with_resampling() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    a = rng.choice(3, 400, p=[0.7, 0.2, 0.1])
    b = np.where(rng.random(400) < 0.6, a, rng.choice(3, 400, p=[0.6, 0.3, 0.1]))
    kappa, error = cohen_kappa(a, b, 3)
    assert kappa == pytest.approx(sklearn.cohen_kappa_score(a, b), abs=1e-12)
    drawn = rng.integers(0, 400, (400, 400))
    spread = np.std([cohen_kappa(a[i], b[i], 3)[0] for i in drawn])
    assert error == pytest.approx(spread, rel=0.12)


def test_votes_that_one_of_two_does_not_have_do_not_count_for_their_kappa() -> None:
    a, b = np.array([0, 1, 1, 0, MISSING, 2]), np.array([0, 1, 0, 0, 1, MISSING])
    assert cohen_kappa(a, b, 3)[0] == pytest.approx(cohen_kappa(a[:4], b[:4], 3)[0])
    assert cohen_kappa(a[4:], b[4:], 3) == (None, None)
    assert cohen_kappa(np.zeros(5, int), np.zeros(5, int), 3) == (None, None)


def test_the_interval_of_alpha_holds_it_and_shrinks_with_more_items() -> None:
    rng = np.random.default_rng(3)

    def counts(n: int) -> np.ndarray:
        a = rng.integers(0, 2, n)
        return counted(np.stack([a, np.where(rng.random(n) < 0.8, a, 1 - a)], 1), 3)

    few, many = counts(40), counts(4_000)
    wide, narrow = alpha_interval(few), alpha_interval(many)
    assert wide is not None
    assert narrow is not None
    assert wide[0] < krippendorff_alpha(few) < wide[1]
    assert narrow[0] < krippendorff_alpha(many) < narrow[1]
    assert (wide[1] - wide[0]) / (narrow[1] - narrow[0]) == pytest.approx(10, rel=0.35)
    assert alpha_interval(few[:9]) is None


def test_what_is_told_of_a_review_counts_third_looks_apart(tmp_path: Path) -> None:
    write_spectra(tmp_path / "spectra", 4)
    desk = Desk(of_list([str(tmp_path / "spectra")], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    said = {"Ann": ["YES", "NO", "NO", "YES"], "Bo": ["YES", "NO", "YES", "NO"]}
    for name, verdicts in said.items():
        for item, verdict in zip(desk.listing.items, verdicts, strict=True):
            desk.decide(name, draft(item, verdict))
    desk.decide("Cy", draft(desk.listing.items[2], "YES"))
    found = agreement(desk, "cv")
    assert [(r["name"], r["votes"], r["YES"]) for r in found["reviewers"]] == [
        ("Ann", 4, 2),
        ("Bo", 4, 2),
        ("Cy", 1, 1),
    ]
    assert [(p["a"], p["b"], p["n"], p["agree"], p["kappa"]) for p in found["pairs"]] == [("Ann", "Bo", 4, 0.5, 0.0)]
    assert (found["n_two"], found["agreed"], found["conflicts"], found["settled"]) == (4, 2, 1, 1)
    assert found["fleiss"] == 0.0
    assert found["agent"] is None
    assert [(item, why) for item, why, _ in waiting(desk, "cv")] == [(desk.listing.items[3], "verdict: NO, YES")]
    desk.store.close()
