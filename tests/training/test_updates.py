"""The KL penalty, the mini-batches, and how far a policy has moved: by hand."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
from menu_lab import FORMAT, LOOK, MENU, NO, YES, MenuTrainer, token_logprobs

from specvet.chat import Datum, Ledger, rl_datum
from specvet.chat.segments import TextSegment
from specvet.training.remote_batches import token_losses
from specvet.training.trainer import Adam, Loss, odd_datums
from specvet.training.updates import learn, mini_batches, moves, penalised


def datum(advantage: float, *turns: list[int], weights: np.ndarray | None = None) -> Datum:
    ledger = Ledger(FORMAT.name, FORMAT.vocabulary.fingerprint)
    for turn in turns:
        ledger.append([TextSegment((5, 6), "frame")])
        of_turn = token_logprobs(np.zeros(len(MENU)) if weights is None else weights, turn)[0]
        ledger.append_sampled(turn, np.minimum(of_turn, 0.0), "end")
    return rl_datum(ledger, advantage)


def test_the_penalty_is_kl_times_what_the_sampler_said_less_what_the_reference_says():
    d = datum(1.5, YES)
    reference = np.where(d.weights > 0, d.logprobs - np.float32(0.5), 0).astype(np.float32)
    (made,), mean = penalised([d], [reference], 0.1)
    active = d.weights > 0
    assert made.advantages[active] == pytest.approx(1.5 - 0.1 * 0.5, rel=1e-6)
    assert not made.advantages[~active].any()
    assert mean == pytest.approx(0.5, rel=1e-6)
    assert d.advantages[active].tolist() == [1.5] * len(YES)  # what was given is not changed


def test_the_penalty_averages_to_the_kl_divergence_of_the_policy_from_its_reference():
    policy, reference = np.array([1.0, 0.5, 0.0, -0.5, 0.2]), np.zeros(5)
    shares = np.exp(policy) / np.exp(policy).sum()
    total = 0.0
    for turn, share in zip(MENU, shares, strict=True):
        d = datum(0.0, turn, weights=policy)
        ref = np.zeros(d.n_tokens, dtype=np.float32)
        ref[d.weights > 0] = token_logprobs(reference, turn)[0]
        total += share * penalised([d], [ref], 1.0)[1] * d.n_learnt
    assert total == pytest.approx(float((shares * np.log(shares * 5)).sum()), abs=1e-5)


def test_mini_batches_hold_each_trajectory_once_in_an_order_of_seed_and_step():
    parts = mini_batches(10, 3, seed=1, step=4)
    assert [len(p) for p in parts] == [4, 3, 3]
    assert sorted(i for part in parts for i in part) == list(range(10))
    assert parts == mini_batches(10, 3, seed=1, step=4) != mini_batches(10, 3, seed=1, step=5)


def test_one_mini_batch_is_the_batch_in_its_own_order_and_none_are_empty():
    assert mini_batches(4, 1, 0, 0) == [[0, 1, 2, 3]]
    assert [len(p) for p in mini_batches(2, 4, 0, 0)] == [1, 1]
    assert mini_batches(0, 2, 0, 0) == []


def test_moves_are_over_active_tokens_of_all_datums():
    a, b = datum(1.0, LOOK), datum(-1.0, YES, NO)
    now = [np.where(d.weights > 0, d.logprobs + x, 7.0).astype(np.float32) for d, x in ((a, 0.25), (b, -0.5))]
    assert moves([a, b], now) == pytest.approx([0.25] * len(LOOK) + [-0.5] * (len(YES) + len(NO)), abs=1e-5)


def test_the_numbers_of_two_updates_weigh_tokens_and_the_drift_is_that_before_the_first():
    trainer, loss = MenuTrainer(), Loss("ppo", (0.8, 1.2))
    datums = [datum(1.0, YES), datum(-1.0, LOOK, NO)]
    told = asyncio.run(learn(trainer, datums, loss, Adam(lr=0.5), [[0], [1]]))
    assert trainer.usage.updates == 2
    assert (told["drift_mean"], told["drift_max"]) == pytest.approx((0.0, 0.0), abs=1e-6)
    # The first update makes YES likelier, so what the second part holds has become less so.
    first, rest = len(YES), len(LOOK) + len(NO)
    moved = MenuTrainer()
    asyncio.run(learn(moved, datums[:1], loss, Adam(lr=0.5), [[0]]))
    ratios = np.concatenate([np.exp(token_logprobs(moved.weights, t)[0] - token_logprobs(np.zeros(5), t)[0])
                             for t in (LOOK, NO)])  # fmt: skip
    assert told["ratio_mean"] == pytest.approx((first + ratios.sum()) / (first + rest), rel=1e-5)
    assert told["clip_share"] == pytest.approx(((ratios < 0.8) | (ratios > 1.2)).sum() / (first + rest))
    assert told["clip_share"] > 0
    second = np.maximum(ratios, np.clip(ratios, 0.8, 1.2)).sum()
    assert told["loss"] == pytest.approx((-first + second) / (first + rest), rel=1e-5)


def test_without_datums_there_is_no_update_and_every_number_is_none():
    trainer = MenuTrainer()
    told = asyncio.run(learn(trainer, [], Loss("ppo"), Adam(lr=1.0), []))
    assert trainer.usage.updates == 0
    assert set(told.values()) == {None}


def test_datums_with_numbers_that_are_not_finite_are_named_with_what_is_not():
    good, bad, worse = datum(1.0, YES), datum(1.0, NO), datum(-1.0, LOOK)
    now = [np.asarray(d.logprobs) for d in (good, bad, worse)]
    assert odd_datums([good, bad, worse], now) == ""
    nan = np.where(bad.weights > 0, np.nan, 0).astype(np.float32)
    infinite = np.where(worse.weights > 0, np.inf, 0).astype(np.float32)
    odd = [good, replace(bad, logprobs=nan), replace(worse, advantages=infinite)]
    told = odd_datums(odd, [*now[:2], now[2] * np.float32(np.nan)])
    assert told == " (not finite in datums 1: log-probs when sampled; 2: log-probs now, advantages)"
    beside = np.where(good.weights > 0, good.logprobs, np.nan)  # where nothing is learnt
    assert odd_datums([replace(good, logprobs=beside)], now[:1]) == ""


def test_a_token_counts_once_in_n_whatever_its_weight():
    whole = datum(1.0, YES, NO)
    half = replace(whole, weights=whole.weights / 2)
    assert half.n_learnt == whole.n_learnt == len(YES) + len(NO)
    p = np.asarray(whole.logprobs)
    losses = token_losses([half], [p], Loss("cross_entropy"))
    assert losses.shape == (half.n_learnt,)
    assert losses.mean() == pytest.approx(-p[whole.weights > 0].mean() / 2, rel=1e-6)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo"])
def test_losses_of_a_ratio_beyond_all_numbers_are_finite(name):
    d = datum(-2.0, YES)
    old = np.where(d.weights > 0, -900.0, 0).astype(np.float32)
    p = np.where(d.weights > 0, -1.0, 0).astype(np.float32)
    by_hand = 1.2 * 2 * -1.0 if name == "cispo" else 2 * math.exp(20)
    assert token_losses([replace(d, logprobs=old)], [p], Loss(name)) == pytest.approx([by_hand] * d.n_learnt)


def test_the_menus_model_has_the_gradient_that_differences_give():
    # The lab's own model: what the loops are tested with must be right itself.
    weights, d = np.array([0.3, -0.2, 0.1, 0.5, -0.4]), datum(0.7, LOOK, YES)
    trainer = MenuTrainer()
    trainer.weights = weights
    _, gradient = trainer._pass([d], Loss("importance_sampling"))
    for i in range(5):
        up, down = weights.copy(), weights.copy()
        up[i], down[i] = up[i] + 1e-2, down[i] - 1e-2
        trainer.weights = up
        above = trainer._pass([d], Loss("importance_sampling"))[0].loss
        trainer.weights = down
        below = trainer._pass([d], Loss("importance_sampling"))[0].loss
        assert (above - below) / 2e-2 == pytest.approx(gradient[i], abs=2e-4)
    assert math.isfinite(gradient.sum())
