"""One pass of a batch through the model, micro-batch by micro-batch; nothing waits for the device before the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specvet.chat import Datum
from specvet.policies.torch.model import TorchModel, placed
from specvet.policies.torch.vision import Features, Key, key
from specvet.training.torch.batches import MicroBatch
from specvet.training.torch.head import token_logprobs
from specvet.training.torch.losses import token_losses
from specvet.training.trainer import Loss, Step

FEATURE_BYTES = {"cuda": 8 << 30, "cpu": 1 << 30}
"""Features of a frozen vision tower that are held at a time while a batch goes through."""

Losses = tuple[Tensor, Tensor, Tensor]
"""Log-probs and entropies of a micro-batch's active positions, and its share of the batch's loss."""
Forward = Callable[[], Losses]


def batch_pass(
    model: TorchModel,
    batches: Sequence[MicroBatch],
    datums: Sequence[Datum],
    loss: Loss,
    active: int,
    *,
    gradient: bool,
    tower: bool,
    before: Callable[[MicroBatch], None] = lambda batch: None,
    through: Callable[[Forward], Losses] = lambda forward: forward(),
    scale: int = 1,
) -> Step:
    """Loss and log-probs of a batch whose `active` tokens (N) all of it has; with `gradient`, adds the gradient.

    `tower` says that the vision tower is trained too. `before` is called before each micro-batch, and
    `through` computes its forward, in whatever surroundings that needs; gradients are multiplied by `scale`.
    """
    losses, entropies, logprobs = [], [], []
    with nullcontext() if gradient else torch.no_grad():
        for batch, features in with_features(model, batches, tower=tower and gradient):
            before(batch)
            values, entropy, part = through(partial(micro_loss, model, batch, features, loss, active))
            if gradient:
                torch.autograd.backward(part * scale)
            losses.append(part.detach())
            entropies.append(entropy.detach().sum())
            logprobs.append(values.detach())
    flat = torch.cat(logprobs).cpu().numpy()  # the first wait for the device
    told = loss.name != "cross_entropy" or loss.entropy != 0
    return Step(
        float(torch.stack(losses).double().sum()),
        unfolded(datums, batches, flat),
        active,
        float(torch.stack(entropies).double().sum()) / active if told else None,
        {"micro_batches": float(len(batches)), "padded_tokens": float(sum(b.padded_tokens for b in batches))},
    )


def micro_loss(model: TorchModel, batch: MicroBatch, features: dict[Key, Features], loss: Loss, active: int) -> Losses:
    """(log-probs, entropies, share of the batch's loss) of a micro-batch, the first two of shape (n,)."""
    told = loss.name != "cross_entropy" or loss.entropy != 0
    logprobs, entropies = micro_logprobs(model, batch, features, entropy=told)
    weights, old, advantages = (
        None if values is None else placed(values, model.device)
        for values in (batch.weights, batch.old, batch.advantages)
    )
    assert weights is not None
    share = token_losses(loss, logprobs, weights, old, advantages).sum() / active
    if loss.entropy:
        share = share - loss.entropy * entropies.sum() / active
    return logprobs, entropies, share


def micro_logprobs(
    model: TorchModel, batch: MicroBatch, features: dict[Key, Features], *, entropy: bool = False
) -> tuple[Tensor, Tensor]:
    """(log-probs, entropies) at the active positions of a micro-batch."""
    places, targets = placed(batch.places, model.device), placed(batch.targets, model.device)
    states = model.states(batch.parts, features).flatten(0, 1).index_select(0, places)
    return token_logprobs(states, model.head.weight, targets, entropy=entropy)


def with_features(
    model: TorchModel, batches: Sequence[MicroBatch], *, tower: bool
) -> Iterator[tuple[MicroBatch, dict[Key, Features]]]:
    """Micro-batches with the features of their pictures: from a frozen tower each picture once, for as many
    micro-batches together as `FEATURE_BYTES` allow; from one that is trained by micro-batch, with gradients."""
    if tower:
        for batch in batches:
            unique = {key(s): s for s in batch.pictures}
            yield batch, dict(zip(unique, model.vision.encode(list(unique.values())), strict=True))
        return
    model.vision.prepare(s for batch in batches for s in batch.pictures)
    for window in _windows(model, batches):
        features = model.vision.features(s for batch in window for s in batch.pictures)
        yield from ((batch, features) for batch in window)


def _windows(model: TorchModel, batches: Sequence[MicroBatch]) -> Iterator[list[MicroBatch]]:
    """Micro-batches whose pictures' features are held together."""
    deep = len(getattr(model.config.vision_config, "deepstack_visual_indexes", None) or ())
    per_token = (1 + deep) * model.config.text_config.hidden_size * model.text.embed_tokens.weight.element_size()
    limit = FEATURE_BYTES.get(model.device.type, 1 << 30) // per_token
    window: list[MicroBatch] = []
    tokens: dict[Key, int] = {}
    for batch in batches:
        more = {key(s): s.n_tokens for s in batch.pictures}
        if window and sum((tokens | more).values()) > limit:
            yield window
            window, tokens = [], {}
        window.append(batch)
        tokens |= more
    if window:
        yield window


def unfolded(
    datums: Sequence[Datum], batches: Sequence[MicroBatch], flat: NDArray[np.float32]
) -> tuple[NDArray[np.float32], ...]:
    """Values of the active positions, micro-batch after micro-batch, as one array a datum with 0 elsewhere."""
    values: list[NDArray[np.float32]] = [np.zeros(d.n_tokens, dtype=np.float32) for d in datums]
    at = 0
    for batch in batches:
        for i in batch.members:
            where = np.flatnonzero(datums[i].weights > 0)
            values[i][where] = flat[at : at + where.size]
            at += where.size
    return tuple(values)
