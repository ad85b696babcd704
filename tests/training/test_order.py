"""The order of an epoch, and the position of a run in it."""

from __future__ import annotations

import pytest

from specvet.training.config import OptimiserConfig
from specvet.training.order import Position, epoch_order, steps_an_epoch
from specvet.training.schedule import learning_rate, warmup_steps


def test_an_order_takes_each_row_once_and_depends_on_seed_and_epoch_alone():
    order = epoch_order(100, seed=3, epoch=1)
    assert sorted(order) == list(range(100))
    assert order == epoch_order(100, seed=3, epoch=1)
    assert order != epoch_order(100, seed=3, epoch=2)
    assert order != epoch_order(100, seed=4, epoch=1)


def test_an_order_is_the_same_on_every_machine_and_in_every_version():
    assert epoch_order(8, seed=0, epoch=0) == [4, 2, 6, 0, 7, 5, 1, 3]


def test_no_seed_and_epoch_share_an_order_by_sharing_a_sum():
    assert epoch_order(50, seed=1, epoch=11) != epoch_order(50, seed=11, epoch=1)


def test_the_published_set_makes_389_batches_of_which_the_last_has_four():
    assert steps_an_epoch(3_108, 8) == 389
    order, at, sizes = epoch_order(3_108, 0, 0), Position(), []
    while at.cursor < len(order):
        rows = order[at.cursor : at.cursor + 8]
        at, sizes = at.after(len(rows), 1), [*sizes, len(rows)]
    assert sizes == [8] * 388 + [4]
    assert (at.step, at.update, at.cursor) == (389, 389, 3_108)


def test_a_position_counts_steps_and_updates_apart_and_begins_each_epoch_anew():
    at = Position().after(8, 1).after(8, 0).after(4, 3)
    assert at == Position(epoch=0, cursor=20, step=3, update=4)
    assert at.epoch_over() == Position(epoch=1, cursor=0, step=3, update=4)


def test_a_step_belongs_to_the_epoch_whose_rows_it_took_also_when_that_is_over():
    at = Position(epoch=1).after(8, 1)
    assert (at.of_epoch, at.epoch_over().of_epoch, Position().of_epoch) == (2, 2, 0)


def test_a_position_is_named_after_its_epoch_at_the_end_of_one_and_after_its_step_within():
    assert Position(epoch=2, cursor=0, step=850).name == "epoch-02"
    assert Position(epoch=1, cursor=8, step=426).name == "step-000426"


def rates(steps: int, **more: object) -> list[float]:
    optimiser = OptimiserConfig(lr=1.0, **more)  # type: ignore[arg-type]
    return [learning_rate(optimiser, step, steps) for step in range(steps)]


def test_a_constant_rate_is_constant():
    assert rates(3) == [1.0, 1.0, 1.0]


def test_a_warm_up_rises_by_equal_steps_to_the_full_rate():
    assert rates(6, warmup=4.0) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_linear_rate_falls_towards_its_end_which_it_would_reach_a_step_later():
    assert rates(4, schedule="linear") == [1.0, 0.75, 0.5, 0.25]
    assert rates(4, schedule="linear", lr_end=0.2) == pytest.approx([1.0, 0.8, 0.6, 0.4])


def test_a_cosine_begins_after_the_warm_up_and_is_half_way_in_the_middle():
    assert rates(6, schedule="cosine", warmup=2.0) == pytest.approx([0.5, 1.0, 1.0, 0.8535534, 0.5, 0.1464466])


def test_a_warm_up_below_one_is_a_share_of_all_steps_rounded_up():
    assert warmup_steps(OptimiserConfig(warmup=0.05), 424) == 22
    assert warmup_steps(OptimiserConfig(warmup=3.0), 424) == 3
    for percent in range(1, 100):  # 0.07 · 100 is 7.000000000000001
        assert warmup_steps(OptimiserConfig(warmup=percent / 100), 100) == percent
    assert rates(10, warmup=0.2)[:3] == [0.5, 1.0, 1.0]


def test_a_warm_up_longer_than_the_run_never_ends():
    assert rates(2, warmup=8.0, schedule="cosine") == [0.125, 0.25]
