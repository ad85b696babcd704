"""Decisions become votes: who said what, taken back or not, in conflict or settled, whoever else writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from review_lab import draft, write_spectra

from specvet.review.assigning import assigned, shuffled
from specvet.review.desk import Desk, DeskError
from specvet.review.events import Event, reviewer_name
from specvet.review.merging import conflict, merged
from specvet.review.source import of_list
from specvet.review.store import SqliteStore, StoreError


@pytest.fixture(scope="module")
def spectra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk") / "spectra"
    write_spectra(folder, 6)
    return folder


@pytest.fixture
def desk(spectra: Path, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(of_list([str(spectra)], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    yield desk
    desk.store.close()


def vote(reviewer: str, verdict: str = "NO", **fields: object) -> Event:
    about = {"key": f"{reviewer}-key", "kind": "decision", "reviewer": reviewer, "task": "cv", "verdict": verdict}
    return Event.model_validate(about | fields)


def test_a_second_decision_replaces_the_first_and_undo_brings_the_first_back(desk: Desk) -> None:
    item = desk.listing.items[0]
    desk.decide("Ann", draft(item, "NO"))
    desk.decide("Ann", draft(item, "YES"))
    assert {n: v.verdict for n, v in desk.votes(item, "cv").items()} == {"Ann": "YES"}
    _, undone = desk.undo("Ann", "undo-0001", "cv")
    assert undone.verdict == "YES"
    assert desk.votes(item, "cv")["Ann"].verdict == "NO"
    desk.undo("Ann", "undo-0002", "cv")
    assert desk.votes(item, "cv") == {}
    with pytest.raises(DeskError, match="nothing to take back"):
        desk.undo("Ann", "undo-0003", "cv")
    assert [e.kind for e in desk.history(item, "cv")] == ["decision", "decision", "undo", "undo"]


def test_undo_takes_back_ones_own_newest_decision_whatever_others_did_since(desk: Desk) -> None:
    first, second = desk.listing.items[:2]
    desk.decide("Ann", draft(first))
    desk.decide("Ann", draft(second))
    desk.decide("Bo", draft(first, "YES"))
    assert desk.undo("Ann", "undo-0001", "cv")[1].item == second
    assert desk.undo("Ann", "undo-0002", "cv")[1].item == first
    assert set(desk.votes(first, "cv")) == {"Bo"}


def test_the_same_sent_twice_is_one_event_and_another_under_its_key_is_refused(desk: Desk) -> None:
    item = desk.listing.items[0]
    sent = draft(item, "NO", key="tab-1-0001")
    first, again = desk.decide("Ann", sent), desk.decide("Ann", sent)
    assert (first.new, again.new) == (True, False)
    assert first.event == again.event
    with pytest.raises(DeskError, match="another decision") as told:
        desk.decide("Ann", draft(item, "YES", key="tab-1-0001"))
    assert told.value.status == 409
    assert desk.decide("Bo", draft(item, "YES", key="tab-1-0001")).new
    undo, _ = desk.undo("Ann", "undo-0001", "cv")
    assert desk.undo("Ann", "undo-0001", "cv")[0].event == undo.event


def test_two_servers_of_one_store_see_each_others_decisions(desk: Desk, tmp_path: Path) -> None:
    other = Desk(desk.listing, SqliteStore(tmp_path / "r.db"))
    item = desk.listing.items[0]
    desk.decide("Ann", draft(item, "NO"))
    other.decide("Bo", draft(item, "YES"))
    assert set(desk.votes(item, "cv")) == set(other.votes(item, "cv")) == {"Ann", "Bo"}
    assert desk.decide("Cy", draft(item, "YES")).event.third
    other.store.close()


def test_a_third_look_settles_a_conflict_and_is_no_conflict_itself(desk: Desk) -> None:
    item = desk.listing.items[0]
    desk.decide("Ann", draft(item, "NO", quality=3))
    assert desk.merged(item, "cv").standing == "single"
    desk.decide("Bo", draft(item, "YES", quality=4, z=0.001, comment="broad Hα"))
    found = desk.merged(item, "cv")
    assert (found.standing, found.verdict, found.why) == ("conflict", None, "verdict: NO, YES")
    desk.decide("Cy", draft(item, "YES", quality=2))
    found = desk.merged(item, "cv")
    assert (found.standing, found.verdict, found.quality, found.n) == ("settled", "YES", 2.0, 3)
    assert found.comment == "Bo: broad Hα"
    # A third person who thinks again still settles it; a voter who changes their mind only votes.
    assert desk.decide("Cy", draft(item, "NO")).event.third
    assert not desk.decide("Ann", draft(item, "YES")).event.third


def test_a_third_look_that_is_no_longer_one_can_be_settled_by_a_fourth(desk: Desk) -> None:
    item = desk.listing.items[0]
    for name, verdict in (("Ann", "NO"), ("Bo", "YES"), ("Cy", "NO")):
        desk.decide(name, draft(item, verdict))
    desk.decide("Ann", draft(item, "YES"))
    assert desk.merged(item, "cv").standing == "conflict"
    assert desk.decide("Di", draft(item, "UNSURE")).event.third
    found = desk.merged(item, "cv")
    assert (found.standing, found.verdict, found.why) == ("settled", "UNSURE", "verdict: NO, YES")


def test_undo_takes_back_nothing_that_this_list_does_not_hold(desk: Desk, spectra: Path, tmp_path: Path) -> None:
    first, *_, last = desk.listing.items
    desk.decide("Ann", draft(first))
    desk.decide("Ann", draft(last))
    part = Desk(of_list([desk.listing.files[0]], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    assert part.listing.items == [first]
    assert part.undo("Ann", "undo-0001", "cv")[1].item == first
    assert set(desk.votes(last, "cv")) == {"Ann"}
    part.store.close()


def test_names_are_one_whatever_their_case_and_the_keyboard(desk: Desk) -> None:
    desk.decide("Ann", draft(desk.listing.items[0]))
    assert desk.assign("Ann", "assign-0001", ["ann", "Bo"], 1).event.reviewers == ("Ann", "Bo")
    assert reviewer_name("Jose\u0301") == reviewer_name("Jos\u00e9")


@pytest.mark.parametrize("more", [{"likelier": "QSO"}, {"issues": "C"}, {"flagged": True}])
def test_a_key_that_was_used_does_not_swallow_what_was_changed(desk: Desk, more: dict[str, object]) -> None:
    item = desk.listing.items[0]
    desk.decide("Ann", draft(item, key="key-0001"))
    with pytest.raises(DeskError, match="another decision"):
        desk.decide("Ann", draft(item, key="key-0001", **more))


@pytest.mark.parametrize(
    ("votes", "about"),
    [
        ([vote("A"), vote("B")], ""),
        ([vote("A"), vote("B", "YES")], "verdict"),
        ([vote("A", likelier="M dwarf"), vote("B", likelier="m  Dwarf")], ""),
        ([vote("A", likelier="M dwarf"), vote("B", likelier="QSO")], "class"),
        ([vote("A", quality=4), vote("B", quality=3)], ""),
        ([vote("A", quality=4), vote("B", quality=2)], "quality"),
        ([vote("A", z=2.0), vote("B", z=2.0098)], ""),
        ([vote("A", z=2.0), vote("B", z=2.01)], "redshift"),
        ([vote("A", z=0.0), vote("B", z=0.0034)], "redshift"),
        ([vote("A", quality=4)], ""),
    ],
)
def test_conflicts_are_those_of_desis_inspectors(votes: list[Event], about: str) -> None:
    assert conflict(votes).partition(":")[0] == about
    assert merged(votes).standing == ("conflict" if about else "agreed" if len(votes) > 1 else "single")


def test_assignment_gives_every_item_to_so_many_and_everybody_a_fair_share(desk: Desk) -> None:
    items = [f"{k:016x}" for k in np.random.default_rng(0).integers(0, 2**63, 3_000)]
    names = ["Ann", "Bo", "Chen", "Dee"]
    chosen = assigned(items, names, 2)
    assert (chosen.sum(1) == 2).all()
    assert np.abs(chosen.sum(0) - 1_500).max() < 120
    # One who leaves moves only the items that they had.
    fewer = assigned(items, names[:3], 2)
    stayed = ~chosen[:, 3]
    assert (fewer[stayed] == chosen[stayed, :3]).all()
    assert (assigned(items, names, 2, seed=1) != chosen).any()
    with pytest.raises(DeskError, match="cannot go to 3 of 2"):
        desk.assign("Ann", "assign-01", ["Ann", "Bo"], 3)
    desk.assign("Ann", "assign-02", ["Ann", "Bo"], 1)
    assert desk.reviewers() == {"Ann": 0, "Bo": 0}


def test_random_numbers_of_items_are_even_and_do_not_follow_their_names() -> None:
    numbers = shuffled([f"{k:016x}" for k in range(10_000)], "order") / 2.0**64
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] - 1_000).max() < 120
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.05


def test_a_store_about_other_spectra_is_refused(desk: Desk, tmp_path: Path) -> None:
    (other,) = write_spectra(tmp_path, 1)
    named = Path(other).rename(tmp_path / "elsewhere.txt")
    desk.decide("Ann", draft(desk.listing.items[0]))
    with pytest.raises(StoreError, match="1 other spectra and none about these"):
        Desk(of_list([str(named)], tasks="cv"), desk.store)


def test_files_and_decisions_move_together(spectra: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(spectra, tmp_path / "moved")
    assert of_list([str(tmp_path / "moved")], tasks="cv").items == of_list([str(spectra)], tasks="cv").items


@pytest.mark.parametrize(
    "bad",
    [
        {"verdict": "MAYBE"},
        {"quality": 5},
        {"z": -1.0},
        {"z": float("nan")},
        {"issues": "X"},
        {"item": "../../etc"},
        {"key": "short"},
        {"comment": "x" * 2_001},
        {"unknown": 1},
    ],
)
def test_a_decision_that_is_none_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        draft("0" * 16).model_validate({"key": "key-0001", "item": "0" * 16, "task": "cv", "verdict": "NO"} | bad)


def test_names_and_issues_are_kept_in_one_form() -> None:
    assert reviewer_name("  李   四 ") == "李 四"
    assert draft("0" * 16, issues=["S", "r"]).issues == "RS"
    assert draft("0" * 16, comment=" a\0b ").comment == "ab"
    for bad in ("", "  ", "a\nb\x07", "x" * 81, None, 7):
        with pytest.raises(ValueError, match="name"):
            reviewer_name(bad)
