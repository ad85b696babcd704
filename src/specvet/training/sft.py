"""Cold-start SFT: imitate whole demonstrations.

For each epoch: take the demonstrations in the epoch's order, four at a time; one gradient and one step a batch; at the
end the loss on held-out demonstrations, and a checkpoint.

The loss is the cross-entropy of every token that an assistant said, averaged over all such tokens of the batch: long
turns count more than short ones, as they do when a model writes them. Questions, observations and pictures are context.
Nothing is packed and nothing is cut: a demonstration is one datum, and one that is too long is listed in
`rejects.jsonl` instead. Validation is the same mean over all held-out tokens, whatever batches they came in.

Left out: packing several demonstrations into one row (the trainer sorts by length instead), dropout, label smoothing,
early stopping (each epoch's checkpoint is kept, so one chooses afterwards).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from specvet.chat import Datum
from specvet.data.demonstrations import SftRow
from specvet.policies.remote import resolve
from specvet.training.config import SftConfig, TrainConfig
from specvet.training.identity import of_demonstrations
from specvet.training.order import Position, epoch_order, steps_an_epoch
from specvet.training.run import TrainingRun, Unwatched, Watch, tell
from specvet.training.schedule import adam, learning_rate
from specvet.training.trainer import CROSS_ENTROPY, Trainer

KEPT_BYTES = 1 << 30
"""Of datums that are kept from epoch to epoch: some 40,000 demonstrations of a few small pictures."""


async def sft(
    config: TrainConfig,
    trainer: Trainer,
    train: Sequence[SftRow],
    validation: Sequence[SftRow],
    run: TrainingRun,
    watch: Watch | None = None,
) -> None:
    """Train on `train` from where the run stands; returns when all epochs are done, or when the watch says stop.

    Raises TrainerError, InputError (a picture that is gone), DiskFullError, RunMismatchError; the newest checkpoint
    then is what the same command goes on from.
    """
    loop, watch = config.loop, watch or Unwatched()
    assert isinstance(loop, SftConfig)
    steps = loop.epochs * steps_an_epoch(len(train), loop.batch)
    run.hold({"data": of_demonstrations(train), "validation": of_demonstrations(validation)})
    at = run.begin(trainer)
    watch.started(config, run)
    if run.lost:
        watch.message(run.lost)
    kept = Kept()

    for epoch in range(at.epoch, loop.epochs):
        order = epoch_order(len(train), config.seed, epoch)
        while at.cursor < len(train) and not watch.stopping:
            started = time.perf_counter()
            rows = [train[i] for i in order[at.cursor : at.cursor + loop.batch]]
            lr = learning_rate(loop.optimiser, at.step, steps)

            with run.naming_the_batch(at, [row.id for row in rows]):
                step = await resolve(trainer.forward_backward(kept.datums(rows), CROSS_ENTROPY))
                update = await resolve(trainer.optim_step(adam(loop.optimiser, lr)))

            at = at.after(rows=len(rows), updates=1)
            seconds = time.perf_counter() - started
            tokens = sum(row.n_tokens for row in rows)
            line = run.log(
                "step",
                at,
                seconds,
                loss=step.loss,
                lr=lr,
                grad_norm=update.grad_norm,
                tokens=tokens,
                active_tokens=step.n_active,
                images=sum(row.n_images for row in rows),
                demonstrations=len(rows),
                tokens_per_second=tokens / seconds,
            )
            watch.step(line)
            tell(watch, trainer)
            if loop.save_every and at.step % loop.save_every == 0 and at.cursor < len(train):
                watch.message(await run.save(trainer, at))

        if at.cursor < len(train):
            break  # somebody said stop
        if validation:
            watch.step(await _validated(trainer, validation, loop.batch, kept, run, at))
        at = at.epoch_over()
        if at.epoch % loop.save_epochs == 0:
            watch.message(await run.save(trainer, at))

    if at != run.position:
        watch.message(await run.save(trainer, at))


class Kept:
    """Datums that were made once and are wanted in every epoch, as far as `KEPT_BYTES` go; the others are made again.

    A small model learns from one faster than it is rendered and its pictures are read.
    """

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._left = most
        self._kept: dict[int, Datum] = {}

    def datums(self, rows: Sequence[SftRow]) -> list[Datum]:
        """Those of these rows. Raises InputError for a picture that is gone or has changed."""
        return [self._datum(row) for row in rows]

    def _datum(self, row: SftRow) -> Datum:
        found = self._kept.get(id(row))  # rows live as long as the run
        if found is None:
            found = row.datum()
            size = 32 * found.n_tokens + sum(len(segment.png or b"") for segment in found.images)
            if size <= self._left:
                self._left -= size
                self._kept[id(row)] = found
        return found


async def _validated(
    trainer: Trainer, rows: Sequence[SftRow], batch: int, kept: Kept, run: TrainingRun, at: Position
) -> Mapping[str, Any]:
    """The mean loss over all active tokens of the held-out demonstrations, as a line of the metrics."""
    started = time.perf_counter()
    total, active = 0.0, 0
    for i in range(0, len(rows), batch):
        step = await resolve(trainer.forward(kept.datums(rows[i : i + batch]), CROSS_ENTROPY))
        total, active = total + step.loss * step.n_active, active + step.n_active
    seconds = time.perf_counter() - started
    return run.log("validation", at, seconds, loss=total / active, active_tokens=active, demonstrations=len(rows))
