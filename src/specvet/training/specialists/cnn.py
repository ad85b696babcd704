"""Training of the convolutional network: one network, an output a task, each question teaching that of its own task.

    for each epoch: alter the spectra a little → batches → cross-entropy → AdamW; keep the epoch that validates best

Left out: class weights (probabilities would no longer be shares), learning-rate search, ensembles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from specvet.policies.specialists.network import Network
from specvet.training.specialists.augmenting import Augmentation, augmented, own_noise
from specvet.training.specialists.calibrating import log_loss
from specvet.training.specialists.examples import Examples

MIN_BATCH, MIN_UPDATES = 8, 16


@dataclass(frozen=True, slots=True)
class CnnConfig:
    """Settings of the training."""

    epochs: int = 25
    batch: int = 64
    """Fewer, down to `MIN_BATCH`, where an epoch would have less than `MIN_UPDATES` updates."""
    lr: float = 2e-3
    """At its highest, after a tenth of the steps; from there it falls to nothing as a cosine."""
    weight_decay: float = 0.05
    patience: int = 8
    """Epochs without a better validation loss after which it stops."""
    augmentation: Augmentation = field(default_factory=Augmentation)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def fit_cnn(
    training: Examples,
    validation: Examples,
    seed: int,
    config: CnnConfig | None = None,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Network, list[dict[str, float]]]:
    """The network of the epoch with the least validation loss, and the losses of every epoch.

    The same examples, seed and versions give the same weights on the same kind of processor.
    """
    config = config or CnnConfig()
    threads, exact = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    state = torch.get_rng_state()
    torch.set_num_threads(1)  # sums are added up in an order that depends on it
    torch.set_deterministic_debug_mode("error")  # the other way to say it loads the compiler
    torch.manual_seed(seed)
    try:
        return _fit(training, validation, np.random.default_rng(seed), config, told)
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(exact)
        torch.set_rng_state(state)


def network_log_odds(network: Network, examples: Examples) -> NDArray[np.float64]:
    """Of each question's own task, shape (n_questions,)."""
    network.eval()
    with torch.inference_mode():
        parts = [network(torch.from_numpy(x)) for x in np.array_split(examples.x, max(1, len(examples) // 128))]
    told = torch.cat(parts).double().numpy()
    return np.asarray(told[np.arange(len(examples)), examples.task])


def _fit(
    training: Examples,
    validation: Examples,
    rng: np.random.Generator,
    config: CnnConfig,
    told: Callable[[int, int], None],
) -> tuple[Network, list[dict[str, float]]]:
    network = Network(training.x.shape[1], tuple(training.tasks))
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    batch = min(config.batch, max(MIN_BATCH, len(training) // MIN_UPDATES))
    n_batches = math.ceil(len(training) / batch)
    noise = own_noise(training.x)
    yes = training.yes.astype(np.float32)
    history: list[dict[str, float]] = []
    best, kept = math.inf, dict[str, torch.Tensor]()
    for epoch in range(config.epochs):
        told(epoch, config.epochs)
        network.train()
        order, summed = rng.permutation(len(training)), 0.0
        for number, rows in enumerate(np.array_split(order, n_batches)):
            progress = (epoch * n_batches + number) / (config.epochs * n_batches)
            optimiser.param_groups[0]["lr"] = config.lr * _schedule(progress)
            x = torch.from_numpy(augmented(training.x[rows], noise[rows], rng, config.augmentation))
            log_odds = network(x)[torch.arange(len(rows)), torch.from_numpy(training.task[rows])]
            loss = binary_cross_entropy_with_logits(log_odds, torch.from_numpy(yes[rows]))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            summed += loss.item() * len(rows)
        validated = log_loss(network_log_odds(network, validation), validation.yes)
        history.append({"training": round(summed / len(training), 6), "validation": round(validated, 6)})
        if validated < best:
            best, kept = validated, {name: t.clone() for name, t in network.state_dict().items()}
            since = 0
        else:
            since += 1
            if since >= config.patience:
                break
    told(config.epochs, config.epochs)
    network.load_state_dict(kept)
    network.eval()
    return network, history


def _schedule(progress: float) -> float:
    """Share of the highest learning rate at `progress` (0-1)."""
    warm = 0.1
    return progress / warm if progress < warm else 0.5 * (1.0 + math.cos(math.pi * (progress - warm) / (1.0 - warm)))
