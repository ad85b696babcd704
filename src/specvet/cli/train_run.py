"""`specvet train`: opens model, data and run folder, trains, and says what came of it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.progress import Shown
from specvet.cli.signals import stopped_by_signals
from specvet.cli.train_progress import TrainProgress, Watched, shown_training

if TYPE_CHECKING:
    from specvet.chat import ChatFormat
    from specvet.data.asking import Questions
    from specvet.training.checkpoints import Checkpoint
    from specvet.training.config import TrainConfig
    from specvet.training.estimate import Price
    from specvet.training.run import TrainingRun
    from specvet.training.trainer import Trainer
    from specvet.training.watch import RunWatch


def run(
    config: TrainConfig,
    out: str | None,
    trackers: list[str],
    prices: str | None,
    probes: bool,
    json: bool,
    quiet: bool,
) -> int:
    """Train as `config` says; returns the exit code."""
    from specvet.chat import LedgerError
    from specvet.cli.train_summary import json_training, print_training
    from specvet.cli.vet import same_command
    from specvet.data.errors import InputError
    from specvet.policies.tokens import PolicyError
    from specvet.records import RunError, RunMismatchError
    from specvet.training.checkpoints import CheckpointError
    from specvet.training.config import ConfigError
    from specvet.training.estimate import load_prices, price_of
    from specvet.training.inputs import check_named
    from specvet.training.opening import check_model
    from specvet.training.trainer import TrainerError
    from specvet.training.watch import TrackerError, check_trackers

    folder = Path(out or os.path.join("runs", datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")))
    with failing(USAGE, ConfigError, InputError, TrackerError):
        price = price_of(load_prices(prices), config.backend, config.model.name)
        check_trackers(trackers)
        check_named(config.loop)
        check_model(config)
    again = same_command(str(folder), out)
    try:
        with (
            failing(CANNOT_WRITE, OSError, RunError),
            failing(USAGE, RunMismatchError, CheckpointError, ConfigError, InputError, TrackerError),
            failing(NOTHING_VETTED, TrainerError, PolicyError, TimeoutError, LedgerError),
            shown_training(quiet, config.stage) as shown,
            stopped_by_signals(shown.stopping) as stop,
        ):
            session = _Session(config, folder, price, trackers, probes, quiet, shown, stop)
            finished = asyncio.run(session.train())
    except CommandError as e:
        if e.code == NOTHING_VETTED and (folder / "run.db").is_file():
            raise CommandError(f"{e.message}\nwhat was saved by then is in {folder}. To go on: {again}", e.code) from e
        raise
    except KeyboardInterrupt:
        say(f"aborted in the middle of a step; what was saved by then is in {folder}. To go on: {again}")
        return INTERRUPTED
    code = DONE if finished else INTERRUPTED
    if json:
        print_json(json_training(folder, config, code))
    elif not quiet:
        print_training(folder, config, finished)
    if not finished and not quiet:
        say(f"stopped; what was over is in {folder}. To go on: {again}")
    return code


class _Session:
    """One session of a run: from opening the trainer to closing it."""

    def __init__(
        self,
        config: TrainConfig,
        folder: Path,
        price: Price | None,
        trackers: list[str],
        probes: bool,
        quiet: bool,
        shown: Shown[TrainProgress],
        stop: threading.Event,
    ) -> None:
        self.config, self.folder, self.price, self.trackers = config, folder, price, trackers
        self.probes, self.quiet, self.shown, self.stop = probes, quiet, shown, stop

    async def train(self) -> bool:
        """Whether all of it is done; False when it was stopped."""
        from specvet.policies.remote import resolve
        from specvet.records.setup import check_folder
        from specvet.training.inputs import uses_toy

        with ExitStack() as stack:
            # A run that goes on is opened first: it knows the state to open the trainer with. A new one is opened
            # last, so that a model or a file that cannot be opened leaves no folder behind; but whether there can be
            # one is seen before anything is loaded.
            there = (self.folder / "run.db").is_file()
            training = self._run(stack) if there else None
            if training is not None and _is_over(training):
                compared = self._compared(training)
                if not self.quiet:
                    say(f"nothing was left to do: this run is over{compared}")
                return True
            if training is None:
                check_folder(self.folder)
            trainer = await self._trainer(training.checkpoint if training else None)
            try:
                data = None if uses_toy(self.config.loop) else self._data(trainer.format)
                training = training or self._run(stack)
                await self._loop(stack, trainer, training, data or self._data(trainer.format))
                finished = _is_done(training)
                if not finished:
                    training.folder.note_session(interrupted=True)
                return finished
            finally:
                await resolve(trainer.aclose())

    def _run(self, stack: ExitStack) -> TrainingRun:
        from specvet.training.run import TrainingRun

        return stack.enter_context(TrainingRun.open(self.folder, self.config, self.price))

    async def _trainer(self, checkpoint: Checkpoint | None) -> Trainer:
        """The trainer, where the run stands: at its checkpoint, at the weights of `--from`, or at the beginning."""
        from specvet.policies.remote import resolve
        from specvet.policies.tokens import PolicyError
        from specvet.training.checkpoints import weights_of
        from specvet.training.opening import trainer_options
        from specvet.training.registry import open_trainer
        from specvet.training.trainer import TrainerError

        if self.config.model.name is None and self.config.backend == "torch" and not self.quiet:
            say("no --model: a tiny one with random weights is trained, to try things on")
        options = trainer_options(self.config, name=self.folder.resolve().name, **weights_of(self.config, checkpoint))
        with failing(NOTHING_VETTED, TimeoutError), failing(USAGE, PolicyError, TrainerError, ValueError):
            trainer: Trainer = await resolve(open_trainer(self.config.backend, options))
            return trainer

    def _data(self, format: ChatFormat) -> Any:
        from specvet.training.config import SftConfig
        from specvet.training.inputs import grpo_data, sft_data

        loop = self.config.loop
        if isinstance(loop, SftConfig):
            return sft_data(loop, format, self.folder)
        return grpo_data(loop, self.folder)

    def _compared(self, training: TrainingRun) -> str:
        """Hold the data against those of a run that is over, without its model; says so where that cannot be done."""
        from specvet.policies.tokens import PolicyError
        from specvet.training.config import ConfigError, SftConfig
        from specvet.training.identity import of_demonstrations, of_questions
        from specvet.training.opening import chat_format_of

        try:
            format = chat_format_of(self.config)
        except (PolicyError, ConfigError) as e:
            made = training.folder.config["loop"]["data"]
            return f". It was made with the data {made}; the data were not compared: {e}"
        train, held, *_ = self._data(format)
        if isinstance(self.config.loop, SftConfig):
            training.hold({"data": of_demonstrations(train), "validation": of_demonstrations(held)})
        else:
            training.hold({"data": of_questions(train), "dev": of_questions(held)})
        return ""

    async def _loop(self, stack: ExitStack, trainer: Trainer, training: TrainingRun, data: Any) -> None:
        from specvet.training.config import SftConfig

        loop = self.config.loop
        # What the libraries hold (torch alone: half a million objects) need not be looked through again and again: in
        # rollouts that took 2 to 3 ms a trajectory.
        gc.collect()
        gc.freeze()
        if isinstance(loop, SftConfig):
            from specvet.training.sft import sft

            train, validation, rejects = data
            self._reject(training, rejects)
            watch = self._watch(training, self._shown(len(train), loop.batch))
            await self._watched(watch, sft(self.config, trainer, train, validation, training, watch))
            return
        from specvet.training.dev import Dev
        from specvet.training.grpo import grpo
        from specvet.training.identity import of_questions

        questions, dev = data
        training.hold({"data": of_questions(questions), "dev": of_questions(dev)})
        self._reject(training, [*questions.rejects, *(dev.rejects if dev else ())])
        pool = self._pool(stack, questions)
        if self.probes:
            await self._probe(trainer, training)
        shown = self._shown(len(questions.asked), loop.questions, loop.max_steps, loop.group)
        evaluate = None if dev is None else Dev(dev, loop, training.path / "dev", self.config.seed, pool, shown.dev)
        watch = self._watch(training, shown)
        await self._watched(watch, grpo(self.config, trainer, questions, training, watch, evaluate, pool=pool))

    def _reject(self, training: TrainingRun, rejects: Any) -> None:
        training.reject(rejects)
        if rejects and not self.quiet:
            told = f"listed in {training.path / 'rejects.jsonl'}; the first: {rejects[0].where}: {rejects[0].reason}"
            left = "1 row of the data is" if len(rejects) == 1 else f"{len(rejects):,} rows of the data are"
            say(f"{left} left out, {told}")

    def _shown(self, rows: int, batch: int, most: int = 0, group: int = 1) -> Watched:
        from specvet.training.order import steps_an_epoch

        epochs = self.config.loop.epochs
        steps = steps_an_epoch(rows, batch) * epochs
        progress = TrainProgress(self.config.stage, rows, epochs, min(steps, most or steps), group, batch)
        return Watched(progress, self.shown, self.stop, self.quiet)

    def _watch(self, training: TrainingRun, shown: Watched) -> RunWatch:
        from specvet.training.watch import RunWatch, open_trackers

        told = self.config.model_dump(mode="json")
        return RunWatch(shown, open_trackers(self.trackers, training.path, told, say=_unsaid if self.quiet else say))

    async def _watched(self, watch: RunWatch, loop: Any) -> None:
        try:
            await loop
        except BaseException as e:
            watch.close(e)
            raise
        watch.close()

    def _pool(self, stack: ExitStack, questions: Questions) -> Any:
        """Processes that draw, where they gain; see `specvet.cli.models.opened_engine`."""
        from specvet.training.config import GrpoConfig
        from specvet.views import REFERENCE_STYLE, RenderPool

        assert isinstance(self.config.loop, GrpoConfig)
        if self.config.loop.processes > 1:  # they draw themselves
            return None
        cores, concurrency = os.cpu_count() or 1, self.config.loop.concurrency
        if questions.style != REFERENCE_STYLE and (cores < 4 or concurrency < 16):
            return None
        return stack.enter_context(RenderPool(processes=max(1, min(cores, 16, concurrency))))

    async def _probe(self, trainer: Trainer, training: TrainingRun) -> None:
        """The start-up probes of the sampler, into the receipt; a failed one ends the command."""
        from specvet.policies.probes import probe
        from specvet.policies.remote import resolve
        from specvet.policies.tokens import usage_numbers

        policy = await resolve(trainer.sampler())
        report = await probe(policy, fast=True)
        used = {f"probes.{name}": n for name, n in usage_numbers(policy.usage).items() if n}
        training.used.parts = training.used.parts | used
        training.folder.note_session(usage=training.used.numbers(), probes=[p.as_dict() for p in report.probes])
        failed = [p for p in report.probes if p.ok is False]
        if failed:
            told = "; ".join(f"{p.name} ({p.detail or p.value})" for p in failed)
            raise CommandError(
                f"the sampler of {trainer.name} failed its probes: {told}. Nothing was trained in this session; "
                "--no-probes goes on all the same",
                NOTHING_VETTED,
            )
        if not self.quiet:
            left = ", ".join(p.name for p in report.probes if p.ok is None)
            passed = sum(p.ok is True for p in report.probes)
            say(f"probes: {passed} passed{f', not probed: {left}' if left else ''}")


def _unsaid(text: str) -> None:
    pass


def _is_done(training: TrainingRun) -> bool:
    """Whether the newest checkpoint stands at the end of the run."""
    at, loop = training.position, training.config.loop
    most = getattr(loop, "max_steps", 0)
    return at.epoch >= loop.epochs or bool(most and at.step >= most)


def _is_over(training: TrainingRun) -> bool:
    """Whether nothing at all is left to do, the last answers to the dev questions included."""
    dev = getattr(training.config.loop, "dev", None)
    return _is_done(training) and (dev is None or training.has("dev", training.position))
