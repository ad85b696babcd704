"""The probes of a policy that works on ids: log-probs tell the smallest difference."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.chat import ChatFormat, ImageError, Ledger, LedgerError, Message
from specvet.policies.probes import scene
from specvet.policies.probes.asking import (
    NOISE_FACTOR,
    ROUNDING,
    ROUNDING_EXACT,
    SAME_FACTOR,
    NotAskedError,
    Outcomes,
    judged,
    outcomes,
)
from specvet.policies.probes.report import Probe, beyond, equal, reached, skipped, within
from specvet.policies.probes.verdicts import orientation, seeded
from specvet.policies.tokens import ContextLengthError, Samples, SamplingParams, TokenPolicy
from specvet.policies.tokens import Sequence as Sampled

TOKENS = 16
"""Of each answer: a trained model is sure of its first few tokens whatever it sees."""
GREEDY = SamplingParams(max_tokens=TOKENS, temperature=0.0, seed=1)
GAP_EXACT, GAP_ROUNDED = 1e-3, 0.1
"""Mean difference of a sampled token's log-prob to that of a fresh reading, in float32 and in 16 bits. An engine that
loses its pictures is off by more than 1 (prime-rl, pull request 2786: a divergence of 5.24 before, 0.001 after)."""

KEPT = 0.95
"""Share of the tokens before a turn that a cache must have kept: prefilled over unique tokens is then at most 1.05."""

SURE = 1.05
"""Two different tokens that are each the likeliest of one distribution have probabilities of 1 together at the most."""

_WHAT = "largest difference of a log-prob (1: surely other words)"

SPELLING = "the line is in the wavelength range"
"""Words that byte-pair vocabularies merge; spelt letter by letter they are other ids of the same text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A greedy answer and what the backend counted."""

    sampled: Sampled
    prompt_tokens: int | None
    cached_tokens: int | None
    ledger: Ledger


async def token_probes(policy: TokenPolicy, *, fast: bool, base: Answer | None) -> list[Probe]:
    """The probes of the table in `specvet.policies.probes`, in its order."""
    asker = _Asker(policy)
    asked = {
        "none": asker.greedy(asker.opening()),
        "curve": asker.greedy(asker.opening(scene.curve())),
        "again": asker.greedy(asker.opening(scene.curve())),
        "recoded": asker.greedy(asker.opening(scene.recoded())),
        "later": asker.greedy(asker.later(scene.mirrored())),
    }
    found = await outcomes(asked)
    # Only now: a backend whose cache takes one picture for another shows it when the first has been read.
    asked = {
        "noise": asker.greedy(asker.opening(scene.noise())),
        "later_noise": asker.greedy(asker.later(scene.noise())),
    }
    if not fast:
        asked |= {
            "three": asker.greedy(asker.opening(scene.curve(), scene.noise(), scene.mirrored())),
            "alpha": asker.greedy(asker.opening(scene.transparent())),
            "white": asker.greedy(asker.opening(scene.laid_on("white"))),
            "black": asker.greedy(asker.opening(scene.laid_on("black"))),
            "mirrored": asker.greedy(asker.opening(scene.mirrored())),
            "left": asker.greedy(asker.opening(scene.square("left"))),
            "right": asker.greedy(asker.opening(scene.square("right"))),
            "spelt": asker.greedy(asker.spelling(exact=False)),
            "plain": asker.greedy(asker.spelling(exact=True)),
        }
    found |= await outcomes(asked)
    differ = _Differences(found, policy)
    probes = [
        judged(
            "token_count",
            lambda: _token_count(found, ["none", "curve", "later"] if fast else ["none", "curve", "three", "spelt"]),
        ),
        judged("determinism", lambda: _determinism(found)),
        judged("swap_image", lambda: differ.moved("swap_image", ("curve", "noise"))),
        judged("later_image", lambda: differ.moved("later_image", ("later", "later_noise"))),
    ]
    if fast:
        if hasattr(policy, "recomputed_logprobs"):  # nearly free there
            probes += await asker.fresh()
        if asker.lora() != "none":
            probes.append(await asker.adapter(found, base))
        asker.release()
        return probes
    probes += [
        judged("exact_ids", lambda: differ.moved("exact_ids", ("spelt", "plain"))),
        judged("alpha", differ.alpha),
        judged("localisation", lambda: differ.moved("localisation", ("left", "right"), ("curve", "mirrored"))),
        await asker.orientation(),
        await asker.seed(),
        await asker.group(),
        *await asker.fresh(),
        await asker.adapter(found, base),
    ]
    asker.release()
    return probes


async def base_answer(policy: TokenPolicy) -> Answer:
    """What a model says without its adapter, for the probe `adapter` of the same model with it.

    Taken once, so that the base model can be closed before the other is opened.
    """
    asker = _Asker(policy)
    answer = await asker.greedy(asker.opening(scene.curve()))
    asker.release()
    return answer


class _Asker:
    """Puts the scenes into ledgers and asks for their continuation."""

    def __init__(self, policy: TokenPolicy) -> None:
        self.policy = policy
        self.format: ChatFormat = policy.format
        self._ledgers: list[Ledger] = []

    def release(self) -> None:
        """Nothing that was asked is asked again."""
        for ledger in self._ledgers:
            self.policy.release(ledger)

    def _fits(self, ledger: Ledger) -> None:
        """Raises ContextLengthError where it does not: a model with a small context has not failed a probe."""
        limit = self.policy.context
        if limit is not None and ledger.n_tokens + TOKENS > limit:
            raise ContextLengthError(f"{ledger.n_tokens} tokens and {TOKENS} more, of {limit}")
        self._ledgers.append(ledger)

    async def greedy(self, ledger: Ledger) -> Answer:
        self._fits(ledger)
        return _answer(await self.policy.sample(ledger, 1, GREEDY), ledger)

    def opening(self, *pictures: Any) -> Ledger:
        return self._ledger(scene.question(*pictures))

    def later(self, picture: Any) -> Ledger:
        """A question with the curve, a turn that calls the tool, and a picture in its reply."""
        ledger = self.opening(scene.curve())
        turn, reply = scene.later(picture)
        ledger.append_sampled(self.format.demonstration(turn), None, "end")
        ledger.append(self.format.observation(ledger, reply))
        return ledger

    def spelling(self, *, exact: bool) -> Ledger:
        """A turn whose words are spelt as the vocabulary would, or letter by letter."""
        ledger = self.opening()
        encode = self.format.vocabulary.encode
        ids = encode(SPELLING) if exact else [i for letter in SPELLING for i in encode(letter)]
        ledger.append_sampled([*ids, self.format.stop_ids[0]], None, "end")
        ledger.append(self.format.observation(ledger, Message("user", ("Go on.",))))
        return ledger

    async def orientation(self) -> Probe:
        """Greedy answers to where the square is; the thought, where the format opens one, is closed for the model."""
        sides: tuple[scene.Side, ...] = ("left", "right", "top", "bottom")

        async def said(side: scene.Side) -> str:
            ledger = self._ledger(scene.where(side))
            if self.format.prefix:
                ids = self.format.vocabulary.encode("\n</think>\n\n")
                ledger.append_sampled(ids, None, "length")
            answer = await self.greedy(ledger)
            return self.format.vocabulary.decode(answer.sampled.ids)

        found = await outcomes({side: said(side) for side in sides})
        return judged("orientation", lambda: orientation({s: scene.side_in(found[s], s) for s in sides}))

    async def seed(self) -> Probe:
        """The same seed twice, and another."""

        async def drawn(seed: int) -> Answer:
            ledger = self.opening(scene.curve())
            self._fits(ledger)
            params = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=seed)
            return _answer(await self.policy.sample(ledger, 1, params), ledger)

        found = await outcomes({"first": drawn(5), "again": drawn(5), "other": drawn(6)})

        def judge() -> Probe:
            first, again, other = (found[name].sampled for name in ("first", "again", "other"))
            sure = first.logprobs is not None and float(first.logprobs.sum()) > -1.0
            return seeded(first.ids == again.ids, first.ids != other.ids, sure)

        return judged("seed", judge)

    async def group(self) -> Probe:
        if "n" not in self.policy.capabilities:
            return skipped("n", "this policy does not offer groups")
        params = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=3)

        async def three() -> Samples:
            ledger = self.opening(scene.curve())
            self._fits(ledger)
            return await self.policy.sample(ledger, 3, params)

        found = await outcomes({"three": three()})

        def judge() -> Probe:
            sequences = found["three"].sequences
            distinct = len({s.ids for s in sequences})
            return equal("n", len(sequences), 3, f"sequences for n = 3, {distinct} of them distinct")

        return judged("n", judge)

    async def fresh(self) -> list[Probe]:
        """Log-probs as sampled, with a cache kept from the turn before, against a reading of the whole from scratch."""
        names = ("recomputed_logprobs", "prefix")
        again = getattr(self.policy, "recomputed_logprobs", None)
        if again is None:
            return [skipped(name, "only a model on this machine can be read afresh") for name in names]
        first = self.opening(scene.mirrored())  # neither it nor the next is symmetric in any way
        params = SamplingParams(max_tokens=TOKENS, temperature=1.0, seed=11)

        async def gap(ledger: Ledger) -> tuple[float, int]:
            """Samples a turn, appends it, and holds its log-probs against those of a fresh reading of it all."""
            self._fits(ledger)
            samples = await self.policy.sample(ledger, 1, params)
            said = samples.sequences[0]
            ledger.append_sampled(said.ids, said.logprobs, said.stop)
            values: NDArray[np.float32] = await asyncio.to_thread(again, ledger)
            if said.logprobs is None:
                raise LedgerError("the policy offers log-probs and gave none")
            return float(np.abs(values[-len(said.ids) :] - said.logprobs).mean()), samples.cached_tokens or 0

        async def both() -> tuple[float, float, int, int]:
            gap_1, _ = await gap(first)
            known = first.n_tokens
            first.append(self.format.observation(first, scene.later(scene.noise())[1]))
            gap_2, kept = await gap(first)
            return gap_1, gap_2, kept, known

        found = await outcomes({"gaps": both()})
        bound = GAP_EXACT if _is_exact(self.policy) else GAP_ROUNDED

        def recomputed() -> Probe:
            return within("recomputed_logprobs", found["gaps"][0], bound, "mean difference of log-probs")

        def prefix() -> Probe:
            _, difference, kept, known = found["gaps"]
            if kept < KEPT * known:
                return reached("prefix", kept, KEPT * known, f"tokens kept of the {known} before the turn")
            return within(
                "prefix", difference, bound, f"mean difference of log-probs with {kept} of {known} tokens kept"
            )

        return [judged("recomputed_logprobs", recomputed), judged("prefix", prefix)]

    def lora(self) -> str:
        """Whether a model on this machine has a LoRA: none, fresh or trained."""
        return str(getattr(getattr(self.policy, "model", None), "adapter", "none"))

    async def adapter(self, found: Outcomes[Answer], base: Answer | None) -> Probe:
        """Against what the base model said, else against this model's log-probs without its LoRA."""
        if base is None and self.lora() == "none":
            return skipped("adapter", "no adapter, or no base model to hold it against")

        async def moved() -> float:
            if base is not None:
                return _finite(_distance(found["curve"], base))
            said, ledger = found["curve"].sampled, self.opening(scene.curve())
            ledger.append_sampled(said.ids, said.logprobs, said.stop)
            again: Any = self.policy.recomputed_logprobs  # type: ignore[attr-defined]
            with_it, without = [await asyncio.to_thread(again, ledger, adapter=how) for how in (True, False)]
            return float(np.abs(with_it - without).max(initial=0.0))

        measured = await outcomes({"moved": moved()})

        def judge() -> Probe:
            value, bound = measured["moved"], _rounding(self.policy)
            if value <= bound and self.lora() == "fresh":
                return skipped("adapter", "it is freshly initialised (B = 0) and changes nothing yet")
            return beyond("adapter", value, bound, f"{_WHAT} against the base model")

        return judged("adapter", judge)

    def _ledger(self, messages: Sequence[Message]) -> Ledger:
        ledger = self.format.new_ledger()
        ledger.append(self.format.opening(messages, [scene.TOOL]))
        return ledger


class _Differences:
    """How far answers lie apart, against how far they do for no reason."""

    def __init__(self, found: Outcomes[Answer], policy: TokenPolicy) -> None:
        self._found, self._rounding = found, _rounding(policy)
        self._what = _WHAT if "logprobs" in policy.capabilities else "1 where the ids differ"

    def between(self, a: str, b: str) -> float:
        """The distance of two answers, as a receipt can hold it."""
        return _finite(_distance(self._found[a], self._found[b]))

    def bound(self) -> float:
        """What a difference must exceed. Raises NotAskedError where the same picture gives different answers."""
        noise = max(_distance(self._found["curve"], self._found[name]) for name in ("again", "recoded"))
        if math.isinf(noise):
            raise NotAskedError("the same picture gives other answers, so that nothing else can be told from them")
        return max(self._rounding, NOISE_FACTOR * noise)

    def moved(self, name: str, *pairs: tuple[str, str]) -> Probe:
        """Whether each pair of prompts has different answers; the smallest difference counts."""
        return beyond(name, min(self.between(a, b) for a, b in pairs), self.bound(), self._what)

    def alpha(self) -> Probe:
        refusal = self._found.error("alpha")
        if isinstance(refusal, ImageError | LedgerError):
            return Probe("alpha", True, detail=f"refused: {refusal}")
        bound = max(self.bound(), SAME_FACTOR * self._rounding)
        if self.between("white", "black") <= bound:
            return skipped("alpha", "this model hardly tells a black ground from a white one")
        return within("alpha", self.between("alpha", "white"), bound, f"{self._what} against its white composite")


def _answer(samples: Samples, ledger: Ledger) -> Answer:
    if not samples.sequences:
        raise LedgerError("the policy gave no sequence at all")
    return Answer(samples.sequences[0], samples.prompt_tokens, samples.cached_tokens, ledger)


def _distance(a: Answer, b: Answer) -> float:
    """The largest difference of a log-prob, up to and with the first token that differs.

    Infinite where the tokens that differ are so likely that they cannot come from one distribution (where both are
    unlikely, rounding alone may choose the one or the other), and where ids differ of which nobody knows the log-probs.
    """
    ids, others = a.sampled.ids, b.sampled.ids
    same = next((i for i, (x, y) in enumerate(zip(ids, others, strict=False)) if x != y), min(len(ids), len(others)))
    logprobs, more = a.sampled.logprobs, b.sampled.logprobs
    if logprobs is None or more is None:
        return 0.0 if ids == others else math.inf
    if same == min(len(ids), len(others)):
        return float(np.abs(logprobs[:same] - more[:same]).max(initial=0.0)) if ids == others else math.inf
    if math.exp(logprobs[same]) + math.exp(more[same]) > SURE:
        return math.inf
    return float(np.abs(logprobs[: same + 1] - more[: same + 1]).max())


def _finite(distance: float) -> float:
    """What a receipt can hold: other ids are a difference of 1 at the least."""
    return 1.0 if math.isinf(distance) else distance


def _token_count(found: Outcomes[Answer], names: Sequence[str]) -> Probe:
    worst, told = 0, []
    for name in names:
        answer = found[name]
        if answer.prompt_tokens is None:
            return skipped("token_count", "the backend does not say how long the prompt is")
        off = answer.prompt_tokens - answer.ledger.n_tokens
        n = len(answer.ledger.images)
        what = f"{n} picture{'' if n == 1 else 's'}{' and a turn spelt by letters' if name == 'spelt' else ''}"
        told.append(f"{answer.prompt_tokens} for {answer.ledger.n_tokens} with {what}")
        worst = max(worst, abs(off))
    return within("token_count", worst, 0, "tokens apart: " + ", ".join(told))


def _determinism(found: Outcomes[Answer]) -> Probe:
    curve, again = found["curve"], found["again"]
    moved = _finite(_distance(curve, again))
    same = curve.sampled.ids == again.sampled.ids
    what = f"two equal prompts must give the same ids; {_WHAT} between them"
    return Probe("determinism", same, moved, None, what)


def _is_exact(policy: TokenPolicy) -> bool:
    """Whether it computes in float32 on this machine."""
    return "32" in str(getattr(getattr(policy, "model", None), "dtype", ""))


def _rounding(policy: TokenPolicy) -> float:
    return ROUNDING_EXACT if _is_exact(policy) else ROUNDING
