"""What tests of attempts at problems share: a small real tool, and a policy that says what a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from specvet.agent.problem_episode import Calculator, Given, ProblemBudget
from specvet.agent.problem_opening import problem_conversation
from specvet.agent.problem_rollout import solve
from specvet.chat import ChatFormat, Ledger, SampledSegment, TextSegment, chat_format
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies import Capability
from specvet.policies.serving.stops import StopTexts
from specvet.policies.tokens import Samples, SamplingParams, Usage
from specvet.policies.tokens import Sequence as Sampled
from specvet.records.solutions import Solution

INSTRUCT = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
THINKING = chat_format("qwen3_5", tiny_vocabulary("qwen3_5"))
QUESTION = problem_conversation("What is 2*3 + 1?")


class Products:
    """Adds and multiplies exact numbers: `2*3 + 1`. One object is one attempt, as of the tool that computes more."""

    def __init__(self, seconds: float = 0.01) -> None:
        self.known: dict[str, Given] = {}
        self.asked: list[str] = []
        self.seconds = seconds

    def run(self, argument: str) -> Given:
        self.asked.append(argument)
        if argument in self.known:
            known = self.known[argument]
            return Given(known.status, known.kind, known.text, 0.0, True)
        try:
            value = sum(
                (Fraction(np.prod([Fraction(f) for f in term.split("*")])) for term in argument.split("+")), Fraction()
            )
            result = Given("ok", "", str(value), self.seconds)
        except (ValueError, ZeroDivisionError) as e:
            result = Given("error", "syntax", f"error: syntax: {e}", self.seconds)
        self.known[argument] = result
        return result


Reply = Callable[[Ledger], str | Sequence[int]]


@dataclass
class Speaker:
    """A `TokenPolicy` that says one stretch a request, in order; "END" at the end of a text is the end token.

    `honours` stop texts as an engine of this machine does, or samples on; `drops` the stop text, as some services do.
    """

    stretches: Sequence[str | Sequence[int] | Reply]
    format: ChatFormat = INSTRUCT
    honours: bool = True
    drops: bool = False
    capabilities: frozenset[Capability] = frozenset({"ids", "logprobs", "images"})
    context: int | None = None
    before: Callable[[int], Any] | None = None
    name: str = "speaker"
    fingerprint: str = "speaker-1"
    usage: Usage = field(default_factory=Usage)
    prompts: list[Ledger] = field(default_factory=list)
    params: list[SamplingParams] = field(default_factory=list)
    said: list[tuple[int, ...]] = field(default_factory=list)
    released: int = 0

    async def sample(self, ledger: Ledger, n: int, params: SamplingParams) -> Samples:
        assert n == 1
        k = len(self.prompts)
        self.prompts.append(ledger.fork())
        self.params.append(params)
        if self.before is not None:
            await self.before(k)
        stretch = self.stretches[min(k, len(self.stretches) - 1)]
        ids, stop = self._cut(stretch(ledger) if callable(stretch) else stretch, params)
        self.said.append(tuple(ids))
        await asyncio.sleep(0)
        logprobs = -np.random.default_rng(k).random(len(ids)).astype(np.float32)
        return Samples((Sampled(tuple(ids), logprobs, stop),), ledger.n_tokens, None)  # type: ignore[arg-type]

    def _cut(self, stretch: str | Sequence[int], params: SamplingParams) -> tuple[list[int], str]:
        vocabulary = self.format.vocabulary
        if isinstance(stretch, str):
            end = [self.format.stop_ids[0]] if stretch.endswith("END") else []
            ids = [*vocabulary.encode(stretch.removesuffix("END")), *end]
        else:
            ids = list(stretch)
        texts = StopTexts(params.stop, vocabulary)
        for k in range(len(ids) if self.honours else 0):
            if texts.completed(ids[max(0, k + 1 - texts.reach) : k + 1]):
                ids = ids[: k + 1]
                text = vocabulary.decode(ids)
                if self.drops:
                    stop = next(s for s in params.stop if s in text)
                    ids = vocabulary.encode(text.partition(stop)[0])
                return ids, "end" if self.drops else "stop"
        if len(ids) > params.max_tokens:
            return ids[: params.max_tokens], "length"
        return ids, "end" if ids and ids[-1] in self.format.stop_ids else ("end" if self.drops else "length")

    def release(self, ledger: Ledger) -> None:
        self.released += 1

    async def aclose(self) -> None:
        pass


def solved(
    policy: Any,
    budget: ProblemBudget | None = None,
    tool: Callable[[], Calculator] = Products,
    n: int = 1,
    params: SamplingParams | None = None,
) -> list[Solution]:
    solutions = asyncio.run(solve("p1", QUESTION, tool, policy, n, budget, params))
    for solution in solutions:
        assert Solution.model_validate_json(solution.model_dump_json()) == solution
        if solution.ledger is not None and solution.ledger["kind"] == "tokens":
            check(solution, policy)
    return solutions


def one(policy: Any, budget: ProblemBudget | None = None, tool: Callable[[], Calculator] = Products) -> Solution:
    (solution,) = solved(policy, budget, tool)
    return solution


def check(solution: Solution, policy: Any) -> None:
    """What holds for every attempt: the ledger and the transcript say the same, and every prompt is its prefix."""
    assert solution.ledger is not None
    ledger = Ledger.from_dict(solution.ledger)
    vocabulary = policy.format.vocabulary
    opening = len(policy.format.opening(QUESTION.messages))
    kinds = {"tool": "tool", "harness": "harness"}
    told = []
    for segment in ledger.segments[opening:]:
        if isinstance(segment, SampledSegment):
            ids = segment.ids[:-1] if segment.ids[-1] in policy.format.stop_ids else segment.ids
            told.append(("model", vocabulary.decode(ids)))
        else:
            assert isinstance(segment, TextSegment)
            told.append((kinds[segment.role], vocabulary.decode(segment.ids)))
    assert told == [(s.kind, s.text) for s in solution.segments]
    if isinstance(policy, Speaker):
        ids = ledger.ids().tolist()
        sampled = [s.ids for s in ledger.sampled]
        for prompt in policy.prompts:
            assert ids[: prompt.n_tokens] == prompt.ids().tolist()
        for kept in sampled:  # never encoded again: each is the beginning of what was said
            assert any(said[: len(kept)] == kept for said in policy.said)
