"""A dry run: what a training run would work on and use, counted on its data without a model.

SFT is exact: every demonstration is rendered into ids, as training does it. Of GRPO only the opening prompts can be
counted; what the model will say is assumed, and the assumptions are stated with the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from pydantic import Field

from specvet.agent.loop import missing_data
from specvet.agent.opening import conversation, observation_message
from specvet.chat import ChatFormat, Image, Message, ledger_of
from specvet.data.asking import Posed, Questions
from specvet.data.demonstrations import SftRow
from specvet.data.errors import Reject
from specvet.training.config import ConfigError, GrpoConfig, Part, SftConfig
from specvet.training.estimate import Price, cost, cost_range
from specvet.training.order import steps_an_epoch
from specvet.training.profiles import validated
from specvet.views import REFERENCE_STYLE, RenderPool, View

TURNS = 5.4
"""A trajectory: 5.75 after SFT and 5.36 after GRPO in the chapter's evaluations (agentic-rl-lab, 09-spec-o3)."""
SAMPLED = 200.0
"""Tokens a turn: the chapter sampled 26.38 M in 24,864 trajectories."""


class Assumptions(Part):
    """What a dry run cannot know. Changed with `--assume NAME=VALUE`."""

    turns: float | None = Field(default=None, ge=1)
    """A trajectory; None takes `TURNS`, or what the budget allows."""
    sampled: float | None = Field(default=None, gt=0)
    """Tokens a turn; None takes `SAMPLED`, or what the budget allows."""
    observed: float | None = Field(default=None, ge=0)
    """Tokens of what a call brings back; None counts those of one call about the first question."""
    cached: float = Field(default=0.0, ge=0, le=1)
    """Share of the prompts' tokens that the backend need not compute again."""
    trained: float = Field(default=1.0, ge=0, le=1)
    """Share of the trajectories that are trained on: those of groups whose rewards differ."""
    train_rate: float | None = Field(default=None, gt=0)
    """Positions trained a second; None: no time is estimated. So with the other rates."""
    sample_rate: float | None = Field(default=None, gt=0)
    """Tokens sampled a second, by all trajectories together."""
    prefill_rate: float | None = Field(default=None, gt=0)
    """Prompt tokens computed a second."""


ASSUMED = Assumptions()


def assumptions(texts: Sequence[str]) -> Assumptions:
    """Of `NAME=VALUE`s. Raises ConfigError, which names the field."""
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--assume {text}: write it as NAME=VALUE, as in --assume turns=5")
        given[name.strip()] = value.strip()
    return validated(Assumptions, given, "--assume ")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of some rows, pictures included."""

    n: int
    total: int
    mean: float
    median: int
    p95: int
    longest: int

    @classmethod
    def of(cls, tokens: Sequence[int]) -> Lengths:
        """Of at least one row."""
        s = sorted(tokens)
        return cls(len(s), sum(s), sum(s) / len(s), s[(len(s) - 1) // 2], s[math.ceil(0.95 * len(s)) - 1], s[-1])


@dataclass(frozen=True, slots=True)
class Estimate:
    """What it would use, cost and take."""

    usage: dict[str, int]
    """Tokens by their names in `metrics.jsonl`."""
    cost: float | None
    """None where it has no price."""
    cost_range: tuple[float, float] | None
    """Where only bounds are known, those; where the cost is known, that twice."""
    currency: str | None
    priced: str | None
    """Where the price comes from."""
    seconds: float | None
    """None without rates."""

    @classmethod
    def of(cls, usage: Mapping[str, float], price: Price | None, assumed: Assumptions) -> Estimate:
        whole = {name: round(n) for name, n in usage.items()}
        rates = {
            "trained_tokens": assumed.train_rate,
            "sampled_tokens": assumed.sample_rate,
            "prefilled_tokens": assumed.prefill_rate,
        }
        told = {name: rate for name, rate in rates.items() if rate is not None and whole.get(name)}
        # Prefill hides behind sampling on many backends, so its rate may stay away; the other two may not.
        timed = all(name in told for name in ("trained_tokens", "sampled_tokens") if whole.get(name))
        return cls(
            whole,
            cost(whole, price),
            cost_range(whole, price),
            price.currency if price else None,
            f"{price.source} ({price.date})" if price else None,
            sum(whole[name] / rate for name, rate in told.items()) if timed and told else None,
        )


@dataclass(frozen=True, slots=True)
class SftDry:
    """What `specvet train sft` would do."""

    demonstrations: Lengths
    active_tokens: int
    images: int
    steps_per_epoch: int
    steps: int
    validation: Lengths | None
    rejects: list[Reject]
    """Too long, or without their pictures; of validation too."""
    estimate: Estimate
    """Of all epochs; validation, of which no price is known, left out."""
    assumed: Assumptions

    def as_dict(self) -> dict[str, Any]:
        return _plain(self)


@dataclass(frozen=True, slots=True)
class GrpoDry:
    """What `specvet train grpo` would do."""

    openings: Lengths
    """Of the first prompts."""
    by_task: dict[str, int]
    """Questions."""
    too_long: list[Reject]
    """Openings that leave no room in the context."""
    not_asked: int
    """Questions whose spectrum lacks what the task requires: their trajectories end before the model is asked."""
    rejects: list[Reject]
    trajectory: int
    """Expected tokens of a whole trajectory."""
    steps_per_epoch: int
    steps: int
    trajectories: int
    dev_trajectories: int
    estimate: Estimate
    """Of all epochs, the dev questions included."""
    assumed: Assumptions
    """With what was taken where nothing was said."""
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return _plain(self)


def dry_sft(
    config: SftConfig,
    train: Sequence[SftRow],
    rejects: Sequence[Reject],
    validation: Sequence[SftRow] = (),
    price: Price | None = None,
    assumed: Assumptions = ASSUMED,
) -> SftDry:
    """What SFT on these rows would do."""
    lengths = Lengths.of([row.n_tokens for row in train])
    each = steps_an_epoch(len(train), config.batch)
    return SftDry(
        lengths,
        sum(row.n_active for row in train),
        sum(row.n_images for row in train),
        each,
        each * config.epochs,
        Lengths.of([row.n_tokens for row in validation]) if validation else None,
        list(rejects),
        Estimate.of({"trained_tokens": lengths.total * config.epochs}, price, assumed),
        assumed,
    )


def dry_grpo(
    config: GrpoConfig,
    questions: Questions,
    format: ChatFormat,
    dev: int = 0,
    price: Price | None = None,
    assumed: Assumptions = ASSUMED,
    *,
    processes: int = 1,
    counted: Callable[[int], None] | None = None,
) -> GrpoDry:
    """What GRPO on these questions would do, with `dev` questions that are asked at the start and at each save.

    Draws each opening, in `processes` of them where the style is slow; `counted` is told how many are done.
    """
    lengths: list[int] = []
    too_long: list[Reject] = []
    not_asked = 0
    by_task: dict[str, int] = {}
    observed = assumed.observed
    with _Drawing(processes if questions.style == REFERENCE_STYLE else 0) as drawing:
        for asked, posed, image in drawing.openings(questions):
            if observed is None:
                observed = _observed(posed, image, format, drawing)
            by_task[posed.task.key] = by_task.get(posed.task.key, 0) + 1
            opening = posed.tool.opening()
            not_asked += bool(missing_data(posed.task, opening))
            turns = config.budget.max_turns
            told = conversation(posed.question, posed.task, posed.tool, opening, image, turns, config.wording)
            n = sum(segment.n_tokens for segment in format.opening(told.messages, told.tools))
            lengths.append(n)
            if n >= config.budget.context:  # at least one token must be left to answer with
                reason = f"its first prompt has {n:,} tokens, the context holds {config.budget.context:,}"
                too_long.append(Reject(posed.question.id, asked.where, reason, n))
            if counted is not None:
                counted(len(lengths))
    each = steps_an_epoch(len(lengths), config.questions)
    steps = each * config.epochs if not config.max_steps else min(each * config.epochs, config.max_steps)
    openings = Lengths.of(lengths)
    epochs, last = divmod(steps, each)
    trajectories = (epochs * len(lengths) + min(last * config.questions, len(lengths))) * config.group
    dev_trajectories = dev * (1 + _saves(config, each, steps))
    assumed = assumed.model_copy(
        update={
            "turns": assumed.turns or min(TURNS, config.budget.max_turns),
            "sampled": assumed.sampled or min(SAMPLED, config.budget.turn_tokens),
            "observed": observed,
        }
    )
    one = _trajectory(openings.mean, assumed, config.group)
    alone = _trajectory(openings.mean, assumed, 1)
    prompts = trajectories * one["prompt"] + dev_trajectories * alone["prompt"]
    usage = {
        "prompt_tokens": prompts,
        "cached_tokens": prompts * assumed.cached,
        "prefilled_tokens": prompts * (1 - assumed.cached),
        "sampled_tokens": (trajectories + dev_trajectories) * one["sampled"],
        "trained_tokens": trajectories * one["all"] * assumed.trained,
    }
    return GrpoDry(
        openings,
        by_task,
        too_long,
        not_asked,
        list(questions.rejects),
        round(one["all"]),
        each,
        steps,
        trajectories,
        dev_trajectories,
        Estimate.of(usage, price, assumed),
        assumed,
        _NOTES,
    )


_NOTES = (
    "the first prompt is counted once a group, since the first turns of a group are asked for together",
    "every later prompt is counted whole, unless `cached` says which share of it is not computed again",
    "trajectories are taken to be alike; longer ones cost more than shorter ones save",
)


def _saves(config: GrpoConfig, each: int, steps: int) -> int:
    """Checkpoints of a run: at the ends of epochs, every so many steps, and at its own end."""
    regular = set(range(config.save_every, steps + 1, config.save_every)) if config.save_every else set()
    return len(set(range(each, steps + 1, each)) | regular | {steps})


def _trajectory(opening: float, assumed: Assumptions, group: int) -> dict[str, float]:
    """Expected tokens of one trajectory: of all its prompts, sampled, and of the whole."""
    turns, said, observed = assumed.turns or 1.0, assumed.sampled or 0.0, assumed.observed or 0.0
    # Prompts grow by a turn and its observation: opening + k * (said + observed) before turn k + 1.
    later = (turns - 1) * opening + (said + observed) * turns * (turns - 1) / 2
    whole = opening + turns * said + (turns - 1) * observed
    return {"prompt": opening / group + later, "sampled": turns * said, "all": whole - 1}


def _observed(posed: Posed, opening: Image, format: ChatFormat, drawing: _Drawing) -> int:
    """Tokens of what a call brings back, for one call: the task's first window, else the whole spectrum."""
    seen = posed.tool({"wavelength_range": list(posed.task.windows[0].range)})
    image = opening if seen.view is None else drawing.image(seen.view)
    said = [Message("user", ("?",)), Message("assistant", ("?",))]
    shown = ledger_of([*said, observation_message(seen, image)], (), format)
    return shown.n_tokens - ledger_of(said, (), format).n_tokens


class _Drawing:
    """Draws in processes, or here where there are none."""

    def __init__(self, processes: int) -> None:
        self._pool = RenderPool(processes) if processes else None
        self._threads = ThreadPoolExecutor(max(1, processes))
        self._at_a_time = 16 * max(1, processes)

    def __enter__(self) -> _Drawing:
        if self._pool is not None:
            self._pool.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.__exit__(*error)

    def image(self, view: View) -> Image:
        return Image.of(view.png if self._pool is None else self._pool.png(view))

    def openings(self, questions: Questions) -> Iterator[tuple[Any, Posed, Image]]:
        """Each question with its task, tool and picture; some at a time, since each holds its spectrum."""
        waiting = iter(questions.asked)
        while chunk := [(asked, questions.pose(asked)) for asked in islice(waiting, self._at_a_time)]:
            views = [posed.tool.opening().view for _, posed in chunk]
            images = self._threads.map(self.image, [v for v in views if v is not None])  # all have one: see `rejects`
            yield from ((asked, posed, image) for (asked, posed), image in zip(chunk, images, strict=True))


def _plain(told: SftDry | GrpoDry) -> dict[str, Any]:
    """As JSON knows it."""
    fields = {name: getattr(told, name) for name in told.__dataclass_fields__}
    fields["assumed"] = told.assumed.model_dump()
    return {
        name: asdict(value) if hasattr(value, "__dataclass_fields__") else _listed(value)
        for name, value in fields.items()
    }


def _listed(value: Any) -> Any:
    return [asdict(v) if isinstance(v, Reject) else v for v in value] if isinstance(value, list | tuple) else value
