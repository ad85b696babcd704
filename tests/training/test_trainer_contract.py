"""The three trainers do the same: the same datums through torch and through each SDK on its loopback service give the
same loss, log-probs and step, within `CLOSE` (absolute, in nats; float32, different order of sums).

Behind a service stands a model of its own that shares no training code with the torch trainer: stock transformers, one
datum at a time, peft and AdamW. Both begin with the same adapter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file
from service_lab import Services, demonstrations, picture, run, torch_options, trajectories

from specvet.chat import Datum
from specvet.policies.remote import resolve
from specvet.training.registry import open_trainer
from specvet.training.trainer import CROSS_ENTROPY, Adam, Loss, Step, Trainer

CLOSE = 1e-4
LOSSES = (
    CROSS_ENTROPY,
    Loss("importance_sampling"),
    Loss("ppo", clip=(0.9, 1.1)),
    Loss("cispo", clip=(0.8, 1.28)),
)
STEP = Adam(lr=5e-3, weight_decay=0.01, grad_clip_norm=2.0)


@pytest.fixture
def pair(there: Services, tmp_path: Path) -> Iterator[tuple[Trainer, Trainer]]:
    """The torch trainer and the service's, with the same adapter in the same model."""
    here = open_trainer("torch", torch_options(there.format))
    made = tmp_path / "lora"
    made.mkdir()
    name = run(resolve(here.save_sampler("first", made)))
    before = there.service.backing
    there.service.backing = before.of_model(before.model)
    there.service.backing.adapter = load_file(made / name / "adapter_model.safetensors")
    remote = there.open()
    yield here, remote
    run(resolve(remote.aclose()))
    run(resolve(here.aclose()))
    there.service.backing = before
    there.service.pieces = 64


def test_each_loss_is_the_same(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    first = both(pair, "forward", demonstrations(there.format), CROSS_ENTROPY)
    batch = trajectories(there.format, first.logprobs)
    for loss in LOSSES[1:]:
        both(pair, "forward", batch, loss)


def test_a_step_of_each_loss_ends_at_the_same_weights(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    batch = demonstrations(there.format)
    losses = []
    for loss in LOSSES:
        near = both(pair, "forward", batch, CROSS_ENTROPY)
        learnt = batch if loss.name == "cross_entropy" else trajectories(there.format, near.logprobs)
        both(pair, "forward_backward", learnt, loss)
        stepped(pair, STEP)
        losses.append(near.loss)
    losses.append(both(pair, "forward", batch, CROSS_ENTROPY).loss)
    assert np.abs(np.diff(losses)).min() > 10 * CLOSE  # each step did move it


def numbered(body: Any) -> tuple[str, str]:
    """The model and the number of a request, or all of it where it has none."""
    return (str(body.model_id), str(body.seq_id)) if hasattr(body, "seq_id") else ("", repr(body))


def test_a_batch_in_pieces_is_one_batch(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    there.service.pieces = 1
    remote = there.open()
    shape = ((1, 12), (1, 3), (1, 2))  # pieces whose means differ from the mean of all
    batch = demonstrations(there.format, shape)
    before = len(there.asked("forward_backward"))
    near = both((pair[0], remote), "forward_backward", batch, CROSS_ENTROPY)
    # On a busy machine an SDK sends a request again, also one of a trainer before; the service takes each once.
    sent = {numbered(body) for body in there.asked("forward_backward")[before:]}
    assert max(Counter(model for model, _ in sent).values()) == len(batch)
    stepped((pair[0], remote), STEP)
    both((pair[0], remote), "forward_backward", trajectories(there.format, near.logprobs, shape), LOSSES[2])
    stepped((pair[0], remote), STEP)
    both((pair[0], remote), "forward", batch, CROSS_ENTROPY)
    run(remote.aclose())


def test_gradients_of_two_calls_add_up(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    batch = demonstrations(there.format)
    near = both(pair, "forward_backward", batch[:1], CROSS_ENTROPY)
    both(pair, "forward_backward", batch[1:], CROSS_ENTROPY)
    norm = stepped(pair, Adam(lr=5e-3, grad_clip_norm=0))
    after = both(pair, "forward", batch[:1], CROSS_ENTROPY)
    assert norm > 2
    assert after.loss < near.loss - 100 * CLOSE


def test_a_token_of_half_weight_counts_once_in_n(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    one, other = demonstrations(there.format, ((1, 3), (1, 4)))
    half = replace(one, weights=one.weights / 2)
    step = both(pair, "forward", [half, other], CROSS_ENTROPY)
    assert step.n_active == 7
    assert step.loss == pytest.approx(-(step.logprobs[0].sum() / 2 + step.logprobs[1].sum()) / 7, rel=1e-5)


def test_the_reference_stays_where_training_began(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    batch = demonstrations(there.format)
    began = both(pair, "forward_backward", batch, CROSS_ENTROPY)
    stepped(pair, STEP)
    for trainer in pair:
        same(run(resolve(trainer.reference(batch))), began.logprobs)


def test_a_later_picture_moves_what_is_learnt(there: Services, pair: tuple[Trainer, Trainer]) -> None:
    datum = demonstrations(there.format, ((2, 4),))[0]
    seen = both(pair, "forward", [datum], CROSS_ENTROPY)
    swapped = other_later_picture(datum)
    moved = both(pair, "forward", [swapped], CROSS_ENTROPY)
    assert np.abs(moved.logprobs[0] - seen.logprobs[0]).max() > 100 * CLOSE


# --- what is compared


def both(pair: Sequence[Trainer], method: str, batch: Sequence[Datum], loss: Loss) -> Step:
    """What the first trainer says, when the others say the same."""
    first, *others = [run(resolve(getattr(trainer, method)(batch, loss))) for trainer in pair]
    for other in others:
        assert other.loss == pytest.approx(first.loss, abs=CLOSE)
        assert other.notes["service_loss"] == pytest.approx(first.loss, abs=CLOSE)
        assert other.n_active == first.n_active == sum(d.n_learnt for d in batch)
        same(other.logprobs, first.logprobs)
    return first  # type: ignore[no-any-return]


def stepped(pair: Sequence[Trainer], adam: Adam) -> float:
    """The gradient's norm before clipping, when it is the same for all."""
    norms = [run(resolve(trainer.optim_step(adam))).grad_norm for trainer in pair]
    assert norms == pytest.approx([norms[0]] * len(norms), rel=1e-3)
    return float(norms[0])


def same(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert [f.shape for f in found] == [w.shape for w in wanted]
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, w, atol=CLOSE, rtol=0)


def other_later_picture(datum: Datum) -> Datum:
    """With noise in the place of the last picture, of the same size."""
    later = datum.images[-1]
    noise = picture(99, later.width, later.height)
    chunks = [replace(c, png=noise.png, sha256=noise.sha256) if c is later else c for c in datum.chunks]
    return replace(datum, chunks=tuple(chunks))
