"""The losses against values worked out by hand, and the output layer against plain logits."""

from __future__ import annotations

import math

import pytest
import torch
import train_lab  # noqa: F401  (one thread)

from specvet.training.torch import head
from specvet.training.torch.head import token_logprobs
from specvet.training.torch.losses import token_losses
from specvet.training.trainer import Loss

OLD = torch.log(torch.tensor([0.5, 0.5, 0.5, 0.5]))
NOW = torch.log(torch.tensor([0.7, 0.7, 0.3, 0.3]))
"""Ratios 1.4, 1.4, 0.6, 0.6."""
ADVANTAGES = torch.tensor([2.0, -2.0, 2.0, -2.0])


def losses(loss: Loss, now: torch.Tensor = NOW) -> list[float]:
    values: list[float] = token_losses(loss, now, torch.ones(4), OLD, ADVANTAGES).tolist()
    return values


def slopes(loss: Loss) -> list[float]:
    """Of each token's loss by its log-prob."""
    now = NOW.clone().requires_grad_()
    token_losses(loss, now, torch.ones(4), OLD, ADVANTAGES).sum().backward()
    assert now.grad is not None
    values: list[float] = now.grad.tolist()
    return values


def test_cross_entropy_is_the_weighted_negative_logprob() -> None:
    values = token_losses(Loss("cross_entropy"), NOW, torch.tensor([1.0, 0.5, 0.0, 2.0]), None, None)
    assert values.tolist() == pytest.approx([-math.log(0.7), -0.5 * math.log(0.7), 0.0, -2 * math.log(0.3)], abs=1e-6)


def test_importance_sampling_is_the_ratio_times_the_advantage_and_so_is_its_slope() -> None:
    assert losses(Loss("importance_sampling")) == pytest.approx([-2.8, 2.8, -1.2, 1.2], abs=1e-6)
    assert slopes(Loss("importance_sampling")) == pytest.approx([-2.8, 2.8, -1.2, 1.2], abs=1e-6)


def test_ppo_clips_gains_on_either_side_and_never_losses() -> None:
    ppo = Loss("ppo", clip=(0.8, 1.28))
    assert losses(ppo) == pytest.approx([-1.28 * 2, 1.4 * 2, -0.6 * 2, 0.8 * 2], abs=1e-6)
    assert slopes(ppo) == pytest.approx([0.0, 2.8, -1.2, 0.0], abs=1e-6)


def test_cispo_clips_the_weight_of_a_token_but_never_its_gradient() -> None:
    cispo = Loss("cispo", clip=(0.8, 1.2))
    logs = [math.log(0.7), math.log(0.7), math.log(0.3), math.log(0.3)]
    expected = [-1.2 * 2 * logs[0], 1.2 * 2 * logs[1], -0.8 * 2 * logs[2], 0.8 * 2 * logs[3]]
    assert losses(cispo) == pytest.approx(expected, abs=1e-6)
    assert slopes(cispo) == pytest.approx([-2.4, 2.4, -1.6, 1.6], abs=1e-6)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo"])
def test_at_the_weights_of_sampling_every_policy_loss_has_the_plain_policy_gradient(name: str) -> None:
    now = OLD.clone().requires_grad_()
    token_losses(Loss(name), now, torch.ones(4), OLD, ADVANTAGES).sum().backward()  # type: ignore[arg-type]
    assert now.grad is not None
    assert now.grad.tolist() == pytest.approx((-ADVANTAGES).tolist(), abs=1e-6)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo"])
@pytest.mark.parametrize("move", [-500.0, 500.0])
def test_a_ratio_beyond_all_numbers_leaves_loss_and_gradient_finite(name: str, move: float) -> None:
    old = torch.full((2,), -600.0)
    now = (old + move).requires_grad_()
    values = token_losses(Loss(name), now, torch.ones(2), old, torch.tensor([2.0, -2.0]))  # type: ignore[arg-type]
    values.sum().backward()
    assert now.grad is not None
    high, low = math.exp(20), math.exp(-20)
    r, clipped = (high, 1.2) if move > 0 else (low, 0.8)
    by_hand = {
        "importance_sampling": [-2 * r, 2 * r],
        "ppo": [-2.4, 2 * high] if move > 0 else [-2 * low, 1.6],
        "cispo": [-2 * clipped * (move - 600), 2 * clipped * (move - 600)],
    }
    slope = [-2 * clipped, 2 * clipped]
    assert values.tolist() == pytest.approx(by_hand[name], rel=1e-5)
    assert now.grad.tolist() == pytest.approx(slope if name == "cispo" else [0.0, 0.0])


def test_the_gradient_of_a_bfloat16_output_layer_adds_up_in_float32_however_many_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(head, "ROWS", 2)
    monkeypatch.setattr(head, "SMALL", 0)
    draw = torch.Generator().manual_seed(0)
    states = (torch.randn(2048, 6, generator=draw) + 2).bfloat16()
    weight = (torch.randn(9, 6, generator=draw) / 8).bfloat16().requires_grad_()
    targets = torch.zeros(2048, dtype=torch.int64)
    token_logprobs(states, weight, targets)[0].sum().backward()
    assert weight.grad is not None
    exact = weight.detach().double().requires_grad_()
    torch.log_softmax(states.double() @ exact.T, dim=-1)[:, 0].sum().backward()
    assert exact.grad is not None
    assert weight.grad.dtype == torch.bfloat16
    off = torch.linalg.vector_norm(weight.grad.double() - exact.grad) / torch.linalg.vector_norm(exact.grad)
    assert off < 2**-8  # a running sum in bfloat16 is off by half


@pytest.mark.parametrize(("by_logprob", "by_entropy"), [(True, False), (False, True), (True, True)])
def test_logprobs_and_entropies_in_pieces_equal_those_of_all_logits_and_so_do_their_gradients(
    monkeypatch: pytest.MonkeyPatch, by_logprob: bool, by_entropy: bool
) -> None:
    monkeypatch.setattr(head, "ROWS", 4)
    monkeypatch.setattr(head, "SMALL", 0)
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(11, 6, generator=draw, dtype=torch.float32).requires_grad_()
    weight = torch.randn(9, 6, generator=draw).requires_grad_()
    targets = torch.randint(0, 9, (11,), generator=draw)
    scales = torch.randn(2, 11, generator=draw)
    told = []
    for pieces in (False, True):
        if pieces:
            logprobs, entropies = token_logprobs(states, weight, targets, entropy=True)
        else:
            logs = torch.log_softmax(states @ weight.T, dim=-1)
            logprobs, entropies = logs.gather(-1, targets[:, None])[:, 0], -(logs.exp() * logs).sum(dim=-1)
        total = torch.zeros(())
        if by_logprob:
            total = total + (scales[0] * logprobs).sum()
        if by_entropy:
            total = total + (scales[1] * entropies).sum()
        told.append((logprobs, entropies, *torch.autograd.grad(total, (states, weight))))
    for one, other in zip(*told, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)
