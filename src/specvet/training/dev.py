"""The `Dev` evaluator: the same held-out questions at each checkpoint, one trajectory each, read strictly.

What is said of the answers is what evaluations of this task say: accuracy over all questions, a question without an
answer being a wrong one; macro F1, the mean over the tasks of the F1 of YES; the share of trajectories of good format.
Every trajectory is kept, in a run folder of its own: `specvet transcript RUN/dev/step-000100` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from specvet.agent import Budget
from specvet.agent.crew_rollouts import AnyRollouts, rollouts_with
from specvet.agent.rollout import all_of
from specvet.chat import ChatFormat, Ledger
from specvet.data.asking import Questions
from specvet.data.files import printable
from specvet.data.questions import Asked
from specvet.policies.tokens import SamplingParams, TokenPolicy, usage_numbers
from specvet.records import Decision, RunFolder, write_atomic
from specvet.records.schema import TrajectoryRecord
from specvet.tasks import strict_answer, task_text
from specvet.training.config import GrpoConfig
from specvet.training.scores import score, well_formed
from specvet.views import RenderPool


@dataclass(frozen=True, slots=True)
class Answered:
    """What counts of one trajectory."""

    task: str
    truth: str
    said: str | None
    well_formed: bool
    calls: int
    reward: float | None


class Dev:
    """Asks a policy the dev questions; `folder` is where their runs are kept, one a step."""

    def __init__(
        self,
        questions: Questions,
        config: GrpoConfig,
        folder: Path,
        seed: int,
        pool: RenderPool | None = None,
        told: Callable[[int, int], None] | None = None,
    ) -> None:
        """`told` hears how many of how many questions are answered."""
        self._questions, self._config, self._folder, self._seed, self._pool = questions, config, folder, seed, pool
        self._told = told
        self._done = 0

    async def __call__(self, policy: TokenPolicy, step: int) -> Mapping[str, float]:
        """The numbers of a `dev` line of `metrics.jsonl`. What is on disk of this step already is not asked again.

        Raises PolicyError when it is fatal, InputError, DiskFullError, RunError.
        """
        budget = Budget(**self._config.budget.model_dump())
        params = SamplingParams(budget.turn_tokens, temperature=self._config.dev_temperature, seed=self._seed)
        settings = {
            "policy": policy.name,
            "fingerprint": policy.fingerprint,
            "group": 1,
            "style": self._questions.style,
            "size": self._config.size,
            "wording": self._config.wording,
        }
        with RunFolder.open(self._folder / f"step-{step:06d}", "rollout", settings) as run:
            for task in self._questions.tasks.values():
                write_atomic(run.path / "tasks" / f"{task.key}.yaml", task_text(task))
            rollouts = rollouts_with(
                policy,
                budget,
                params,
                pool=self._pool,
                keep_image=run.images.put,
                concurrency=self._config.concurrency,
                wording=self._config.wording,
            )
            before = usage_numbers(policy.usage)
            self._done = 0
            self._tell()
            try:
                records = await all_of([self._one(rollouts, run, asked) for asked in self._questions.asked])
            finally:
                rollouts.close()
                used = usage_numbers(policy.usage)
                run.note_session(usage={name: n - before.get(name, 0.0) for name, n in used.items()})
        return numbers(self._answered(record, policy.format) for record in records)

    async def _one(self, rollouts: AnyRollouts, run: RunFolder, asked: Asked) -> TrajectoryRecord:
        place = (printable(asked.file), asked.question.spectrum.row, asked.question.task)
        if found := run.trajectories(*place, range(1)):
            self._tell(1)
            return found[0]
        posed = self._questions.pose(asked)
        (record,) = await rollouts.group(posed.question, posed.task, posed.tool)
        file, row, task = place
        decision = Decision(
            file=file, row=row, task=task, id=asked.question.id, verdict=record.verdict, trajectory=record
        )
        run.record_many([decision], forced=False)
        self._tell(1)
        return record

    def _tell(self, more: int = 0) -> None:
        self._done += more
        if self._told is not None:
            self._told(self._done, len(self._questions.asked))

    def _answered(self, record: TrajectoryRecord, format: ChatFormat) -> Answered:
        said = Ledger.from_dict(record.ledger).sampled if record.ledger else ()
        earned = score(record, format, self._config.reward)
        return Answered(
            record.question.task,
            record.question.answer or "",
            strict_answer([format.turn_text(turn.ids) for turn in said]),
            well_formed(record),
            record.tool_calls,
            earned.score if earned else None,
        )


def numbers(answered: Iterable[Answered]) -> dict[str, float]:
    """Of at least one question."""
    every = list(answered)
    n = len(every)
    rewards = [a.reward for a in every if a.reward is not None]
    told = {
        "questions": n,
        "accuracy": sum(a.said == a.truth for a in every) / n,
        "format": sum(a.well_formed for a in every) / n,
        "calls_mean": sum(a.calls for a in every) / n,
        "macro_f1": _macro_f1(every),
    }
    return told | ({"reward_mean": sum(rewards) / len(rewards)} if rewards else {})


def _macro_f1(every: list[Answered]) -> float:
    """Mean over tasks of the F1 of YES; a task without a YES, true or said, has none and is left out."""
    scores = []
    for task in dict.fromkeys(a.task for a in every):
        of_task = [a for a in every if a.task == task]
        hits = sum(a.truth == a.said == "YES" for a in of_task)
        yes = sum(a.truth == "YES" for a in of_task) + sum(a.said == "YES" for a in of_task)
        if yes:
            scores.append(2 * hits / yes)
    return sum(scores) / len(scores) if scores else 0.0
