"""A batch of questions, rolled out: what is on disk is read back, the rest is made and recorded as it finishes.

Each trajectory stands in the run's `run.db` under (file, row, task, sample), sample = epoch · group + branch. A turn is
drawn from the stream of (seed, epoch, question, branch, turn), whatever runs beside it. So a batch that was cut short
goes on with the branches that are missing, and a batch that is repeated after the loss of its update is read back: the
weights that sampled it are there again, and so is everything else.

A record knows its pictures by hash. They are read from the run's `images/`, or drawn again where they are gone and held
against the hash; a recorded trajectory whose pictures cannot be had any more is withdrawn and made again.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from specvet.agent import Budget
from specvet.agent.crew_rollouts import AnyRollouts, rollouts_with
from specvet.agent.rollout import all_of
from specvet.agent.talk import ModelPolicy
from specvet.chat import ChatFormat, Image, ImageError, Ledger
from specvet.data.asking import Questions
from specvet.data.files import printable
from specvet.data.questions import Asked
from specvet.policies.tokens import SamplingParams, TokenPolicy
from specvet.records import Decision, bytes_hash
from specvet.records.schema import TrajectoryRecord
from specvet.tasks.rewards import Reward
from specvet.tools import Observation, ZoomTool
from specvet.training.config import GrpoConfig
from specvet.training.groups import advantages
from specvet.training.run import TrainingRun, Watch
from specvet.training.scores import score
from specvet.views import RenderPool


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One trajectory of a group."""

    record: TrajectoryRecord
    ledger: Ledger | None
    """With its pictures; None where nothing was shown."""
    reward: Reward | None
    """None where it ended through no doing of the model's."""
    read_back: bool = False
    """An earlier session made it."""


@dataclass(slots=True, eq=False)
class Group:
    """The trajectories about one question, in the order of their branches."""

    asked: Asked
    members: list[Member]
    refilled: bool = False
    """Rolled out in place of a group that taught nothing."""
    first_prompts: int = 1
    """How many times the first prompt is sent for all members."""
    advantages: list[float | None] | None = field(init=False)
    """One a member, see `specvet.training.groups`; None for a group whose rewards are all equal."""

    def __post_init__(self) -> None:
        self.advantages = advantages([m.reward.score if m.reward else None for m in self.members])


class Batches:
    """Rolls out batches of a run's questions."""

    def __init__(
        self,
        loop: GrpoConfig,
        seed: int,
        format: ChatFormat,
        questions: Questions,
        run: TrainingRun,
        watch: Watch,
        pool: RenderPool | None = None,
    ) -> None:
        self._loop, self._seed, self._format, self._questions = loop, seed, format, questions
        self._run, self._watch, self._pool = run, watch, pool

    async def roll_out(self, policy: TokenPolicy, order: Sequence[int], epoch: int) -> list[Group]:
        """The groups of the next questions of `order`: a batch of them, and where it is to be refilled some more.

        A batch that is refilled goes on until it has as many groups that teach something as it has questions, or has
        taken `refill` more questions, or the epoch is over. Raises PolicyError when it is fatal, InputError,
        DiskFullError.
        """
        self._run.used.sampling(policy)
        size, left = self._loop.questions, self._loop.refill
        groups = await self._groups(policy, order[:size], epoch)
        wanted = len(groups)
        while (more := min(wanted - sum(g.advantages is not None for g in groups), left)) > 0:
            taken = order[len(groups) : len(groups) + more]
            if not taken:
                break
            refilled = await self._groups(policy, taken, epoch)
            for group in refilled:
                group.refilled = True
            groups += refilled
            left -= len(refilled)
        return groups

    async def _groups(self, policy: TokenPolicy, rows: Sequence[int], epoch: int) -> list[Group]:
        loop = self._loop
        params = SamplingParams(
            loop.budget.turn_tokens,
            temperature=loop.temperature,
            top_p=loop.top_p,
            seed=epoch_seed(self._seed, epoch),
        )
        self._watch.batch(len(rows) * loop.group)
        rollouts = rollouts_with(
            policy,
            Budget(**loop.budget.model_dump()),
            params,
            pool=self._pool,
            keep_image=self._run.folder.images.put,
            concurrency=loop.concurrency,
            wording=loop.wording,
        )
        try:
            asked = [self._questions.asked[row] for row in rows]
            return await all_of([self._group(rollouts, one, epoch) for one in asked])
        finally:
            rollouts.close()

    async def _group(self, rollouts: AnyRollouts, asked: Asked, epoch: int) -> Group:
        posed = self._questions.pose(asked)
        members = await self._read_back(asked, posed.tool, epoch)
        missing = [branch for branch in range(self._loop.group) if branch not in members]
        if missing:
            first = epoch * self._loop.group

            def ended(record: TrajectoryRecord, ledger: Ledger | None) -> None:
                member = self._keep(asked, record, ledger, epoch)
                members[member.record.sample - first] = member

            await rollouts.group(posed.question, posed.task, posed.tool, self._loop.group, only=missing, ended=ended)
        in_order = [members[branch] for branch in range(self._loop.group)]
        return Group(asked, in_order, first_prompts=_first_prompts(rollouts.policy, self._loop.group))

    async def _read_back(self, asked: Asked, tool: ZoomTool, epoch: int) -> dict[int, Member]:
        """What is on disk of this group, by branch."""
        first = epoch * self._loop.group
        place = (printable(asked.file), asked.question.spectrum.row, asked.question.task)
        samples = range(first, first + self._loop.group)
        members: dict[int, Member] = {}
        for sample, record in self._run.folder.trajectories(*place, samples).items():
            try:
                members[sample - first] = await asyncio.to_thread(self._member, record, tool)
            except ImageError as e:
                self._run.folder.withdraw(*place, [sample], str(e))
            else:
                self._watch.trajectory()
        return members

    def _keep(self, asked: Asked, record: TrajectoryRecord, ledger: Ledger | None, epoch: int) -> Member:
        """One trajectory is over: on disk with it, and with what the policy has used by now.

        Returns it as it was kept: with its number in the run, and with the run's own reward. What is learnt from is
        the ledger at hand, which reads back from disk as the same, bit for bit.
        """
        earned = score(record, self._format, self._loop.reward, ledger)
        told = {"score": earned.score, "correct": earned.correct, "format_ok": earned.format_ok} if earned else None
        sample = epoch * self._loop.group + record.sample
        kept = record.model_copy(update={"sample": sample, "reward": told and {k: float(v) for k, v in told.items()}})
        decision = Decision(
            file=printable(asked.file),
            row=asked.question.spectrum.row,
            task=asked.question.task,
            id=asked.question.id,
            sample=sample,
            verdict=kept.verdict,
            trajectory=kept,
        )
        self._run.folder.note_session(usage=self._run.used.numbers())
        self._run.folder.record_many([decision], forced=False)
        self._watch.trajectory()
        return Member(kept, ledger, earned)

    def _member(self, record: TrajectoryRecord, tool: ZoomTool) -> Member:
        """A trajectory that was read back, with its pictures and reward. Raises ImageError where a picture cannot be
        had."""
        if record.ledger is None:
            return Member(record, None, None, read_back=True)
        wanted = {image.sha256 for image in Ledger.from_dict(record.ledger).images}
        ledger = Ledger.from_dict(record.ledger, self._pictures(wanted, record, tool))
        return Member(record, ledger, score(record, self._format, self._loop.reward, ledger), read_back=True)

    def _pictures(self, wanted: Collection[str], record: TrajectoryRecord, tool: ZoomTool) -> dict[str, Image]:
        """Pictures by hash: from `images/`, else drawn again."""
        found: dict[str, Image] = {}
        for sha in wanted:
            path = self._run.folder.images.path(sha)
            png = path.read_bytes() if path.is_file() else b""
            if bytes_hash(png) == sha:
                found[sha] = Image.of(png)
        if len(found) < len(wanted):
            found |= {image.sha256: image for image in _drawn_again(record, tool)}
        if lost := [sha for sha in wanted if sha not in found]:
            raise ImageError(f"the picture {lost[0]} is gone from the run's images, and drawing it gives another one")
        return found


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of an epoch's turns: a question that comes again is answered by other luck."""
    return int.from_bytes(hashlib.sha256(f"{seed}/epoch {epoch}".encode()).digest()[:8], "little") >> 1


def _first_prompts(policy: ModelPolicy, n: int) -> int:
    """How many times a policy is sent a prompt that n sequences continue: once, unless it samples fewer at a time."""
    if "n" not in policy.capabilities:
        return n
    return math.ceil(n / (getattr(policy, "branches", None) or n))


def _drawn_again(record: TrajectoryRecord, tool: ZoomTool) -> Iterator[Image]:
    """What a trajectory was shown, drawn by the tool of today."""
    seen: list[Observation] = [tool.opening()]
    seen += [tool(turn.action.arguments or {}) for turn in record.turns if turn.action.kind == "call"]
    yield from (Image.of(observation.view.png) for observation in seen if observation.view is not None)
