"""The convolutional network of the `cnn` specialist: five layers over the grid, one output a task. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

WIDTHS = (16, 24, 32, 48, 64)
KERNEL = 9
HIDDEN = 64
DROPOUT = 0.3


class Network(nn.Module):
    """Log-odds of YES for every task, from channels of shape (n, n_channels, n_pix).

    Each layer halves the length; at the end the mean and the largest of each feature over all pixels are weighed, in
    eight stretches of the spectrum, so that a feature counts by where it lies.
    """

    STRETCHES = 8

    def __init__(self, n_channels: int, tasks: Sequence[str]) -> None:
        super().__init__()
        self.tasks = tuple(tasks)
        layers: list[nn.Module] = []
        before = n_channels
        for width in WIDTHS:
            layers += [
                nn.Conv1d(before, width, KERNEL, stride=2, padding=KERNEL // 2, bias=False),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            ]
            before = width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Dropout(DROPOUT),
            nn.Linear(2 * self.STRETCHES * before, HIDDEN),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN, len(self.tasks)),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_channels, n_pix) → (n, n_tasks)."""
        found = self.layers(x)
        n, width, length = found.shape
        parts = found.reshape(n, width, self.STRETCHES, length // self.STRETCHES)
        told: Tensor = self.head(torch.cat([parts.mean(-1), parts.amax(-1)], dim=1).flatten(1))
        return told


def n_weights(network: nn.Module) -> int:
    """Trainable numbers."""
    return sum(p.numel() for p in network.parameters())
