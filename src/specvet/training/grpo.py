"""Multi-turn GRPO: learn from one's own trajectories which of them went better than others about the same question.

For each step:

1. Take the next 8 questions of the epoch's order; roll out 8 trajectories of each with the weights as they are. One
   version of the sampler makes the whole batch, tools, pictures and all (`batches`).
2. Score each trajectory: 1 for the right answer, less 0.2 for bad format (`scores`). One that a time-out or a failing
   backend ended has no reward and leaves its group.
3. Advantage of each trajectory within its group: (r − mean) / (std + 1e-6) (`groups`). A group whose rewards are all
   equal teaches nothing and makes no datum; it stays in every number that is reported.
4. One datum a trajectory, from its ledger: the ids that were sampled with the log-probs they were sampled at. Only they
   carry weight; a trajectory's one advantage stands at each of them.
5. One gradient over the batch, one step. The loss is PPO's: −Σ min(r·A, clip(r, 0.8, 1.2)·A) / N over all N sampled
   tokens of the batch, r = exp(log-prob now − when sampled).
6. Every 100 steps and at the end of each epoch: save, and answer the dev questions. They are answered once before the
   first step too, so that there is something to compare with.

What of GRPO and its kin is left out, and why:

- No value network and no reward for single turns: the group's mean is the baseline.
- No KL term and no reference model (they are there, off): the published runs have none, and LoRA stays near its base.
- With one update a batch, r is 1 but for the difference between sampler and trainer, which `drift_mean` shows. Clipping
  is then a guard, not a trust region; `mini_batches` above 1 makes it one.
- No mean per trajectory before the mean over tokens: each token counts the same (as in DAPO), so that a long wrong
  trajectory is not let off by its length.
- No sampling ahead with older weights: a batch waits for its slowest trajectory, and every token is on-policy.
- No filter or refill of questions (`refill` is there, off): what a batch does not teach is a number to watch.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from specvet.chat import Datum, LedgerError, rl_datum
from specvet.data.asking import Questions
from specvet.policies.remote import resolve
from specvet.policies.tokens import TokenPolicy
from specvet.records.schema import StopReason
from specvet.training.balance import Weights, answer_weights
from specvet.training.batches import Batches, Group
from specvet.training.config import ConfigError, GrpoConfig, TrainConfig
from specvet.training.identity import of_questions
from specvet.training.measures import of_datums, of_rollouts, rates
from specvet.training.order import Position, epoch_order, steps_an_epoch
from specvet.training.run import TrainingRun, Unwatched, Watch, tell
from specvet.training.schedule import adam, learning_rate
from specvet.training.trainer import Loss, Trainer
from specvet.training.updates import learn, mini_batches, penalised
from specvet.views import RenderPool

Evaluate = Callable[[TokenPolicy, int], Awaitable[Mapping[str, float]]]
"""Answers the dev questions with a policy, at a step; gives the numbers of a `dev` line."""


async def grpo(
    config: TrainConfig,
    trainer: Trainer,
    questions: Questions,
    run: TrainingRun,
    watch: Watch | None = None,
    evaluate: Evaluate | None = None,
    *,
    pool: RenderPool | None = None,
) -> None:
    """Train on `questions` from where the run stands; returns when all is done, or when the watch says stop.

    `pool` draws, where drawing is slow. Raises TrainerError, PolicyError (fatal), InputError, DiskFullError,
    ConfigError, RunMismatchError; the newest checkpoint and the trajectories then are what the same command goes on
    from.
    """
    loop, watch = config.loop, watch or Unwatched()
    assert isinstance(loop, GrpoConfig)
    _check(loop, trainer)
    size = len(questions.asked)
    steps = loop.epochs * steps_an_epoch(size, loop.questions)
    steps = min(steps, loop.max_steps or steps)
    loss = Loss(loop.loss, loop.clip, loop.entropy)
    weights = answer_weights((one.question for one in questions.asked), loop.balance)
    batches = Batches(loop, config.seed, trainer.format, questions, run, watch, pool)
    run.hold({"data": of_questions(questions)})
    at = run.begin(trainer, questions.tasks.values())
    watch.started(config, run)
    if run.lost:
        watch.message(run.lost)

    async def saved(at: Position) -> None:
        """Save where this position stands, and answer the dev questions where they are due."""
        if at != run.position:
            watch.message(await run.save(trainer, at))
        if _due(loop, at):
            await evaluated(at)

    async def evaluated(at: Position) -> None:
        if evaluate is not None and not run.has("dev", at):
            started = time.perf_counter()
            policy = await resolve(trainer.sampler())
            run.used.sampling(policy)
            found = await evaluate(policy, at.step)
            watch.step(run.log("dev", at, time.perf_counter() - started, **found))

    if at.step:
        await saved(at)  # the evaluation that a kill may have cut off
    else:
        await evaluated(at)  # the weights that it begins from
    for epoch in range(at.epoch, loop.epochs):
        order = epoch_order(size, config.seed, epoch)
        while at.cursor < size and at.step < steps and not watch.stopping:
            started = time.perf_counter()
            policy = await resolve(trainer.sampler())
            before = policy.usage.prefilled_tokens
            groups = await batches.roll_out(policy, order[at.cursor :], epoch)
            rolled = time.perf_counter()
            if not at.step:
                _check_asked(groups, loop)

            datums, ids, refused = _datums(groups, trainer.context, weights)
            parts = mini_batches(len(datums), loop.mini_batches, config.seed, at.step)
            lr, kl = learning_rate(loop.optimiser, at.step, steps), None
            with run.naming_the_batch(at, ids):
                if loop.kl and datums:
                    datums, kl = penalised(datums, await resolve(trainer.reference(datums)), loop.kl)
                learnt = await learn(trainer, datums, loss, adam(loop.optimiser, lr), parts)

            at = at.after(rows=len(groups), updates=len(parts))
            ended = time.perf_counter()
            numbers = of_rollouts(groups, policy.usage.prefilled_tokens - before) | of_datums(datums, refused) | learnt
            numbers |= {"update": at.update, "lr": lr, "kl_reference": kl}
            numbers |= {"seconds_rollout": rolled - started, "seconds_train": ended - rolled}
            numbers |= rates(groups, ended - started)
            watch.step(run.log("step", at, ended - started, **numbers))
            tell(watch, trainer)
            if at.cursor < size and _due(loop, at):
                await saved(at)

        if at.cursor < size:
            break  # enough steps, or somebody said stop
        at = at.epoch_over()
        await saved(at)

    await saved(at)


def _datums(groups: Sequence[Group], context: int | None, weights: Weights) -> tuple[list[Datum], list[str], int]:
    """(datums of the groups that teach something, the id of each, how many could not be made).

    One cannot be made where the model sampled ids that stand for pictures, or where it is longer than the trainer
    takes; its reward has counted in its group all the same.
    """
    datums, ids, refused = [], [], 0
    for group in groups:
        weight = weights[group.asked.question.task, group.asked.question.answer]
        for member, advantage in zip(group.members, group.advantages or (), strict=False):
            if advantage is None or member.ledger is None:
                continue
            try:
                datum = rl_datum(member.ledger, weight * advantage)
                if context is not None and datum.n_tokens > context:
                    raise LedgerError(f"{datum.n_tokens} positions, the trainer takes {context}")
            except LedgerError:
                refused += 1
                continue
            datums.append(datum)
            ids.append(f"{group.asked.question.id} sample {member.record.sample}")
    return datums, ids, refused


def _due(loop: GrpoConfig, at: Position) -> bool:
    """Whether a checkpoint is due here: at the end of an epoch, every `save_every` steps, and at the end of all."""
    every = loop.save_every and at.step % loop.save_every == 0
    return at.step > 0 and (bool(every) or not at.cursor or at.step == loop.max_steps)


def _check_asked(groups: Sequence[Group], loop: GrpoConfig) -> None:
    """Whether any question of the first step could be asked. Later ones that cannot are counted in `stops`."""
    records = [member.record for group in groups for member in group.members]
    if any(record.turns or record.stop is not StopReason.CONTEXT for record in records):
        return
    raise ConfigError(
        f"none of the {len(groups)} questions of the first step fits into {loop.budget.context:,} tokens "
        f"({records[0].question.id}: {records[0].verdict.reason}); raise grpo.budget.context, and begin with another "
        "--out. --dry-run tells how long the first prompts are"
    )


def _check(loop: GrpoConfig, trainer: Trainer) -> None:
    for name, needs in (("entropy", "entropy"), ("kl", "reference")):
        if getattr(loop, name) and needs not in trainer.capabilities:
            raise ConfigError(f"grpo.{name}: the backend {trainer.name} cannot compute it; set it to 0")
    if loop.processes > 1 and "local" not in trainer.capabilities:
        raise ConfigError(f"grpo.processes: the backend {trainer.name} samples elsewhere; set it to 1")
