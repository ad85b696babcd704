"""SimVI's plan: who is asked about."""

from __future__ import annotations

import collections

import pytest

from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.simvi.making import template_part
from specvet.data.simvi.plan import PARTS, coldstart_rows, member_shares, plan, rows_of, spare

PUBLISHED = {
    "train": {"cv": 711, "cc": 671, "ss": 706, "gm": 658, "wd": 618},
    "test": {"cv": 1458, "cc": 1321, "ss": 1442, "gm": 1321, "wd": 1212},
}


def test_the_full_set_has_the_published_sizes_and_two_thousand_to_tune_on() -> None:
    for part, sizes in PUBLISHED.items():
        assert {task: rows_of("full", part, task) for task in TASKS} == sizes
    assert sum(rows_of("full", "train", t) for t in TASKS) == 3364
    assert sum(rows_of("full", "test", t) for t in TASKS) == 6754
    assert sum(rows_of("full", "val", t) for t in TASKS) == 2000


@pytest.mark.parametrize(("size", "total"), [("full", 942), ("small", 94), ("tiny", 9)])
def test_cold_start_trajectories_are_shared_among_tasks_and_answers(size: str, total: int) -> None:
    shares = coldstart_rows(size)
    assert sum(n for answers in shares.values() for n in answers.values()) == total
    assert set(shares) == set(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_sixth_of_the_rows_are_members_and_no_answer_contradicts_its_kind(task: str) -> None:
    rows = plan("full", "train", task, seed=3)
    assert len(rows) == PUBLISHED["train"][task]
    assert sum(row.answer == "YES" for row in rows) == round(0.17 * len(rows))
    assert all(KINDS[row.kind].answer(task) == row.answer for row in rows)


def test_most_negatives_are_what_experts_confuse_with_the_class() -> None:
    for task in TASKS:
        others = [row.kind for row in plan("full", "test", task, seed=0) if row.answer == "NO"]
        hard = sum(KINDS[kind].confuses.get(task, 0.0) > 0 for kind in others)
        assert 0.85 < hard / len(others) < 1.0


def test_every_sub_type_of_a_class_is_asked_about() -> None:
    for task in TASKS:
        seen = {row.kind for row in plan("full", "test", task, seed=0) if row.answer == "YES"}
        assert seen == {key for key, kind in KINDS.items() if task in kind.yes and kind.positive}


def test_no_spectrum_is_planned_twice_and_some_objects_are_seen_again() -> None:
    rows = [row for part in PARTS for task in TASKS for row in plan("full", part, task, seed=0)]
    assert len({row.key for row in rows}) == len(rows) == 12_118
    again = [row for row in rows if row.epoch]
    first = {row.number: row for row in rows if not row.epoch}
    assert 0.04 < len(again) / len(rows) < 0.06
    for row in again:
        same = first[row.number]
        assert (same.part, same.task, same.kind, same.answer) == (row.part, row.task, row.kind, row.answer)


def test_the_order_of_the_rows_does_not_tell_the_answers() -> None:
    rows = plan("full", "test", "cv", seed=0)
    halves = [sum(row.answer == "YES" for row in rows[i::2]) for i in (0, 1)]
    assert halves[0] + halves[1] == 248
    assert abs(halves[0] - halves[1]) < 40
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    assert abs(sum(r.answer == "YES" for r in first) - sum(r.answer == "YES" for r in second)) < 40


def test_equal_seeds_plan_equally_and_others_do_not() -> None:
    assert plan("small", "val", "wd", seed=1) == plan("small", "val", "wd", seed=1)
    kinds = [collections.Counter(row.kind for row in plan("full", "val", "wd", seed=s)) for s in (1, 2)]
    assert kinds[0] != kinds[1]


def test_the_kinds_of_a_class_share_its_trajectories() -> None:
    shares = member_shares("wd", 69)
    assert sum(shares.values()) == 69
    assert shares["wd.DA"] == 36  # 6.0 of 11.4
    assert {key for key, n in shares.items() if n} >= {"wd.DB", "wd.DC", "wd.DO", "wd.DQ", "wd.DZ", "wd.DAH", "wd_ms"}


def test_spare_objects_are_no_others_and_the_first_stay_the_same() -> None:
    planned = {row.number for part in PARTS for task in TASKS for row in plan("full", part, task, seed=0)}
    rows = [
        *(row for task in TASKS for answer in ("YES", "NO") for row in spare(task, answer, 0, 1000)),
        *(row for kind in ("wd.DB", "wd.DA") for row in spare("wd", "YES", 0, 1000, kind)),
    ]
    assert len({row.number for row in rows}) == len(rows) == 12_000
    assert not planned & {row.number for row in rows}
    assert all(KINDS[row.kind].answer(row.task) == row.answer for row in rows)
    assert {row.kind for row in spare("wd", "YES", 0, 50, "wd.DB")} == {"wd.DB"}
    assert len({str(row.number)[:3] for row in spare("wd", "YES", 0, 50, "wd.DB")}) > 25
    assert spare("cv", "NO", 0, 30) == spare("cv", "NO", 0, 60)[:30]
    with pytest.raises(ValueError, match="1001 spare objects"):
        spare("cv", "NO", 0, 1001)


def test_a_real_object_seeds_one_part_alone() -> None:
    parts = collections.Counter(template_part(f"star {i}") for i in range(2000))
    assert {part: round(n / 2000, 1) for part, n in parts.items()} == {"train": 0.5, "test": 0.3, "val": 0.2}
