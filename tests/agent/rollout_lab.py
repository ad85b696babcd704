"""What tests of rollouts share: a spectrum, a task, and token policies that play scripts on a real small vocabulary."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specvet.agent import Budget, rollout_group
from specvet.chat import ChatFormat, Ledger, ToolCall
from specvet.chat.formats import chat_format
from specvet.chat.messages import assistant
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies import Capability
from specvet.policies.tokens import Samples, SamplingParams, Usage
from specvet.policies.tokens import Sequence as Sampled
from specvet.records.schema import Question, SpectrumRef, TrajectoryRecord
from specvet.spectra import Spectrum
from specvet.tasks import KeyWindow, Requires, Task
from specvet.tools import TOOL_NAME, ZoomTool

QUESTION = Question(id="q", task="t", spectrum=SpectrumRef(path="x.fits"), answer="YES")
FORMAT = chat_format("qwen3_5", tiny_vocabulary("qwen3_5"))


def task(**requires: Any) -> Task:
    return Task(
        key="t",
        name="thing",
        question="Is it?",
        include=("it",),
        exclude=(),
        guidance="Look.",
        windows=(KeyWindow(key="ha", name="Hα", range=(6400.0, 6700.0), why="Hα"),),
        requires=Requires(**requires),
        sources=("invented for a test",),
    )


def spectrum(seed: int = 0) -> Spectrum:
    w = np.arange(4000.0, 8000.0, 2.0)
    flux = 10 + np.sin(w / 50) + 0.1 * np.random.default_rng(seed).normal(size=w.size)
    return Spectrum(w, flux, np.full(w.size, 4.0), medium="air", file="x.fits")


def zoom(**more: Any) -> ZoomTool:
    return ZoomTool(spectrum(), **{"style": "compact", **more})


def look(low: float = 6400, high: float = 6700, *, thought: str = "Look.", format: ChatFormat = FORMAT) -> list[int]:
    """The ids of a call of the tool, end token included."""
    call = ToolCall(TOOL_NAME, {"wavelength_range": [low, high], "label": "Hα"})
    return format.demonstration(assistant("", thought, [call]))


def answer(word: str = "YES", *, thought: str = "Seen.", format: ChatFormat = FORMAT) -> list[int]:
    """The ids of an answer."""
    return format.demonstration(assistant(f"<answer>\\boxed{{{word}}} since it is so.</answer>", thought))


def said(text: str, end: bool = True, format: ChatFormat = FORMAT) -> list[int]:
    """The ids of any words, with an end token or without."""
    return [*format.vocabulary.encode(text), *([format.stop_ids[0]] if end else [])]


@dataclass(frozen=True)
class Asked:
    """One sequence that a policy is asked for."""

    ledger: Ledger
    turn: int
    stream: tuple[int, int]
    """(seed, i)."""
    params: SamplingParams

    @property
    def luck(self) -> np.random.Generator:
        """Numbers that depend on the stream and on nothing else."""
        digest = hashlib.sha256(repr(self.stream).encode()).digest()
        return np.random.default_rng(list(digest))


Script = Callable[[Asked], list[int]]


def turns(*ids: list[int]) -> Script:
    """The same turns in every branch; the last for ever."""
    return lambda asked: ids[min(asked.turn, len(ids) - 1)]


def gambler(asked: Asked) -> list[int]:
    """Looks here and there and answers sooner or later, by the luck of its stream."""
    luck = asked.luck
    if luck.random() < 0.3:
        return answer("YES" if luck.random() < 0.5 else "NO", thought=f"I have looked {asked.turn} times.")
    low = int(luck.integers(4100, 7000))
    return look(low, low + 300, thought=f"Perhaps at {low}.")


@dataclass
class Scripted:
    """A `TokenPolicy` that plays a script, cut at the limit of tokens as a model's turn is."""

    script: Script
    capabilities: frozenset[Capability] = frozenset({"ids", "logprobs", "n", "images", "trainable"})
    format: ChatFormat = FORMAT
    context: int | None = None
    change: Callable[[Samples], Samples] = lambda samples: samples
    """What a backend makes of it."""
    before: Callable[[Asked], Any] | None = None
    """Awaited before each sequence; may stall or raise."""
    name: str = "scripted"
    fingerprint: str = "scripted-1"
    usage: Usage = field(default_factory=Usage)
    requests: list[tuple[int, int, SamplingParams]] = field(default_factory=list)
    """(tokens of the prompt, n, params)."""
    released: list[Ledger] = field(default_factory=list)

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        self.requests.append((ledger.n_tokens, n, params))
        self.usage.requests += 1
        self.usage.prompt_tokens += ledger.n_tokens
        made = []
        for i in range(n):
            asked = Asked(ledger, len(ledger.sampled), (params.seed, i), params)
            if self.before is not None:
                await self.before(asked)
            ids = self.script(asked)[: params.max_tokens]
            ended = bool(ids) and ids[-1] in self.format.stop_ids
            logprobs = -asked.luck.random(len(ids)).astype(np.float32) if "logprobs" in self.capabilities else None
            made.append(Sampled(tuple(ids), logprobs, "end" if ended else "length"))
            self.usage.sampled_tokens += len(ids)
        await asyncio.sleep(0)
        return self.change(Samples(tuple(made), ledger.n_tokens, None))

    def release(self, ledger: Ledger) -> None:
        self.released.append(ledger)

    async def aclose(self) -> None:
        pass


def rolled(
    script: Script | Scripted,
    n: int = 1,
    budget: Budget | None = None,
    tool: ZoomTool | None = None,
    t: Task | None = None,
    question: Question = QUESTION,
    params: SamplingParams | None = None,
    **more: Any,
) -> list[TrajectoryRecord]:
    policy = script if isinstance(script, Scripted) else Scripted(script)
    records = asyncio.run(
        rollout_group(question, t or task(), tool or zoom(), policy, n, budget or Budget(), params, **more)
    )
    for record in records:  # all of it can be kept, bit for bit
        assert TrajectoryRecord.model_validate_json(record.model_dump_json()) == record
    return records


def one(script: Script | Scripted, **more: Any) -> TrajectoryRecord:
    (record,) = rolled(script, **more)
    return record


def ledger_of(record: TrajectoryRecord) -> Ledger:
    assert record.ledger is not None
    return Ledger.from_dict(record.ledger)


def timeless(record: TrajectoryRecord) -> dict[str, Any]:
    """A record without what differs between two runs of the same thing."""
    fields = record.model_dump(mode="json")
    for name in ("seconds", "started"):
        del fields[name]
    for turn in fields["turns"]:
        del turn["seconds"]
    return fields
