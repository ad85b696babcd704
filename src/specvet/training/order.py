"""The order in which an epoch takes its rows, and the `Position` of a run in it.

An order is a function of seed and epoch alone: nothing of it is saved, and a run that goes on in the middle of an epoch
takes exactly the rows that are left. A row's place comes from a hash and not from a random generator, whose streams
libraries change from version to version.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace


def epoch_order(n: int, seed: int, epoch: int) -> list[int]:
    """The rows 0 … n − 1 in the order in which this epoch (from 0) takes them; the same on every machine."""
    return sorted(range(n), key=lambda row: hashlib.sha256(f"{seed}/{epoch}/{row}".encode()).digest())


def steps_an_epoch(n: int, batch: int) -> int:
    """Batches of `batch` rows; the last one takes what is left."""
    return -(-n // batch)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a run has come, and so where it goes on."""

    epoch: int = 0
    """Epochs that are done."""
    cursor: int = 0
    """Rows that are done of the epoch after those; as many as there are where only its end is still to come."""
    step: int = 0
    """Batches that are done, of all epochs."""
    update: int = 0
    """Optimiser steps that are done."""

    def after(self, rows: int, updates: int) -> Position:
        """One batch of so many rows later."""
        return replace(self, cursor=self.cursor + rows, step=self.step + 1, update=self.update + updates)

    def epoch_over(self) -> Position:
        """At the beginning of the next epoch."""
        return replace(self, epoch=self.epoch + 1, cursor=0)

    @property
    def name(self) -> str:
        """Of a checkpoint taken here: `epoch-02` at the end of an epoch, `step-000100` within one."""
        return f"step-{self.step:06d}" if self.cursor else f"epoch-{self.epoch:02d}"

    @property
    def of_epoch(self) -> int:
        """The epoch that the last step was of, from 1; 0 before the first step."""
        return self.epoch + (self.cursor > 0)
