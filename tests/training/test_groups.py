"""Advantages, by hand."""

from __future__ import annotations

import math

import pytest

from specvet.training.groups import advantages


def test_an_advantage_is_the_distance_from_the_mean_in_deviations_over_n_minus_one():
    # mean 0.5, deviations ±0.5: variance (4 · 0.25) / 3, deviation 0.57735
    values = advantages([1.0, 0.0, 1.0, 0.0])
    assert values == pytest.approx([0.8660239, -0.8660239, 0.8660239, -0.8660239], abs=1e-7)


def test_a_group_of_two_has_a_deviation_of_their_distance_over_the_root_of_two():
    values = advantages([1.0, -0.2])
    expected = 0.6 / (1.2 / math.sqrt(2) + 1e-6)
    assert values == pytest.approx([expected, -expected], rel=1e-12)
    assert expected == pytest.approx(0.7071059, abs=1e-7)


def test_a_member_without_a_reward_is_no_part_of_its_group():
    values = advantages([1.0, None, -0.2, 1.0])
    # of 1, −0.2, 1: mean 0.6, deviation √((0.16 + 0.64 + 0.16) / 2) = 0.692820
    assert values is not None
    assert values[1] is None
    assert [values[0], values[2], values[3]] == pytest.approx([0.5773494, -1.1546988, 0.5773494], abs=1e-7)


@pytest.mark.parametrize("rewards", [[1.0] * 8, [-0.2, -0.2], [0.8, None, 0.8], [1.0, None, None], [None, None], []])
def test_equal_rewards_teach_nothing_and_nor_does_a_lone_one(rewards):
    assert advantages(rewards) is None


def test_one_success_among_eight_weighs_more_than_one_of_four():
    rare, common = advantages([1.0] + [0.0] * 7), advantages([1.0] * 4 + [0.0] * 4)
    assert rare is not None
    assert common is not None
    assert rare[0] == pytest.approx(2.4748665, abs=1e-6)
    assert common[0] == pytest.approx(0.9354126, abs=1e-6)


def test_a_tiny_difference_is_divided_by_itself_and_not_by_epsilon():
    values = advantages([0.8, 0.8 - 1e-3])
    assert values == pytest.approx([0.7061, -0.7061], abs=1e-3)
