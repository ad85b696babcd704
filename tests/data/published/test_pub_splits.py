"""Splits by object: exact counts, whole objects, the shares of the whole, nothing that is barred."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.data.splits import Row, held_out, linked, shares

ROWS = [Row(f"o{i}", "cv" if i % 2 else "wd", "YES" if i % 6 < 1 else "NO") for i in range(600)]


def test_places_go_by_share_and_the_largest_remainder_gets_the_last() -> None:
    assert shares({"YES": 17, "NO": 83}, 10) == {"YES": 2, "NO": 8}
    assert shares({"a": 1, "b": 1, "c": 1}, 2) == {"a": 1, "b": 1, "c": 0}
    assert shares({}, 0) == {}
    with pytest.raises(ValueError, match="3 places for 2 rows"):
        shares({"a": 2}, 3)


def test_counts_are_exact_and_answers_keep_their_shares() -> None:
    chosen = held_out(ROWS, {"cv": 30, "wd": 24}, 0)
    assert Counter(ROWS[i].task for i in chosen) == {"cv": 30, "wd": 24}
    assert Counter(ROWS[i].answer for i in chosen if ROWS[i].task == "wd") == {"YES": 8, "NO": 16}


def test_the_order_of_rows_changes_nothing_and_the_seed_does() -> None:
    names = {ROWS[i].object_id for i in held_out(ROWS, {"cv": 20, "wd": 20}, 7)}
    other = ROWS[::-1]
    assert {other[i].object_id for i in held_out(other, {"cv": 20, "wd": 20}, 7)} == names
    assert {ROWS[i].object_id for i in held_out(ROWS, {"cv": 20, "wd": 20}, 8)} != names


def test_objects_are_whole_and_barred_ones_stay() -> None:
    rows = [Row(f"o{i // 3}", "cv", "NO") for i in range(90)]
    chosen = held_out(rows, {"cv": 20}, 0, barred={f"o{i}" for i in range(15)})
    assert len(chosen) == 18  # six whole objects; a seventh would be one row too many
    assert Counter(Counter(rows[i].object_id for i in chosen).values()) == {3: 6}
    assert all(int(rows[i].object_id[1:]) >= 15 for i in chosen)


def test_what_answers_leave_empty_is_filled_by_task() -> None:
    rows = [Row("pair", "cv", "YES"), Row("pair", "cv", "YES"), *(Row(f"o{i}", "cv", "NO") for i in range(8))]
    assert len(held_out(rows, {"cv": 5}, 0)) == 5


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from("ab"), st.sampled_from(["YES", "NO"])), max_size=40),
    st.integers(0, 3),
    st.floats(0, 1),
)
def test_no_object_is_ever_on_both_sides(found: list[tuple[int, str, str]], seed: int, share: float) -> None:
    rows = [Row(str(o), task, answer) for o, task, answer in found]
    targets = {task: round(n * share) for task, n in Counter(row.task for row in rows).items()}
    chosen = held_out(rows, targets, seed, barred={"3"})
    taken = {rows[i].object_id for i in chosen}
    assert "3" not in taken
    assert not taken & {row.object_id for i, row in enumerate(rows) if i not in chosen}
    got = Counter(rows[i].task for i in chosen)
    assert all(got[task] <= targets[task] for task in targets)


def test_names_that_stand_together_are_one_at_several_removes() -> None:
    assert linked([("b", "c"), ("d", "e"), ("a", "c")]) == {"a": "a", "b": "a", "c": "a", "d": "d", "e": "d"}
