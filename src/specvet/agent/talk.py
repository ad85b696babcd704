"""The `Talk`: one branch's words with a model, and the ledger of them.

`TokenTalk` is for policies on ids: the prompt is the ledger as it stands, and what is sampled is appended as the ids it
was sampled as. `TextTalk` is for servers that give words: the prompt is the messages, and the ledger holds words only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from specvet.agent.episode import Kept
from specvet.chat import (
    AnswerTurn,
    CallTurn,
    Conversation,
    ImageError,
    ImageSegment,
    Ledger,
    LedgerError,
    MalformedTurn,
    Message,
    ParsedTurn,
    TruncatedTurn,
    WordsSegment,
)
from specvet.policies import Action, Answered, Call, Malformed, Truncated
from specvet.policies.text import Reply, TextPolicy
from specvet.policies.tokens import SamplingParams, TokenPolicy
from specvet.policies.tokens import Sequence as Sampled
from specvet.records.schema import Answer, TurnTokens, Verdict

NGRAM, LEAST = 4, 64
"""Tokens in a row that are compared, and of a turn in which it is worth while."""

MAX_COUNT = 1 << 30
"""Tokens that a server may say it counted; no model's context comes near."""


class OverContextError(Exception):
    """What comes next does not fit into the context; nothing was appended. The message gives the counts."""


class TokenDriftError(Exception):
    """The backend counted another prompt than the ledger holds."""

    def __init__(self, theirs: int, ours: int) -> None:
        super().__init__(f"the backend counted {theirs} prompt tokens, the ledger holds {ours}")
        self.detail = f"{theirs} for {ours}"


class RequestCancelledError(Exception):
    """A request of the policy was cancelled by somebody else; the branch ends, and nobody else does."""

    @classmethod
    def of(cls, error: BaseException) -> RequestCancelledError:
        return cls(str(error) or "the request was cancelled")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One sampled turn, not yet heard."""

    said: Sampled | Reply
    prompt: int | None
    cached: int | None
    limit: int
    """Tokens that it was allowed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One turn as an action."""

    action: Action
    tokens: TurnTokens


Seeds = Callable[[int], int]
"""The seed for a branch."""


class Talk(Protocol):
    """One branch's words with a model."""

    ledger: Ledger

    @property
    def room(self) -> int:
        """Tokens that the next turn may have before the context is full."""
        ...

    async def first(self, branches: Sequence[int], params: SamplingParams, seeds: Seeds) -> list[Utterance | Exception]:
        """The first turn of each of these branches: one request where the policy can sample several."""
        ...

    async def next(self, params: SamplingParams) -> Utterance:
        """The next turn. Raises what the policy raises, TokenDriftError and LedgerError."""
        ...

    def fork(self) -> Talk:
        """A branch: it shares everything so far."""
        ...

    def hear(self, utterance: Utterance) -> Heard:
        """Append what was said, and tell what it is. Raises LedgerError."""
        ...

    def show(self, message: Message) -> None:
        """Append what comes back. Raises OverContextError, and then nothing was appended."""
        ...

    def turns(self) -> list[str]:
        """What the model said, turn by turn, each with its prefix and without its end token: what rewards read."""
        ...

    def kept(self) -> Kept:
        """What is kept of it."""
        ...

    def close(self) -> None:
        """The branch is over. Twice is once."""
        ...


class TokenTalk:
    """Words with a policy on ids."""

    def __init__(self, policy: TokenPolicy, ledger: Ledger, context: int) -> None:
        self.policy, self.ledger = policy, ledger
        self.context = context if policy.context is None else min(context, policy.context)
        self._asked = ledger.fork()
        self._closed = False

    @classmethod
    def begin(cls, policy: TokenPolicy, opening: Conversation, context: int) -> TokenTalk:
        """The first prompt. Raises OverContextError, LedgerError."""
        talk = cls(policy, policy.format.new_ledger(), context)
        with _ledger_errors():
            segments = policy.format.opening(opening.messages, opening.tools)
        talk._append(segments)
        return talk

    @property
    def room(self) -> int:
        return self.context - self.ledger.n_tokens

    async def first(self, branches: Sequence[int], params: SamplingParams, seeds: Seeds) -> list[Utterance | Exception]:
        if "n" in self.policy.capabilities:
            # Sequence i is drawn from the stream (seed, i): a branch that is made again needs those before it as well.
            n = max(branches) + 1
            said = await self._sample(n, replace(params, seed=seeds(0)))
            # Computed once for all: a backend that says what it had cached did not compute it again for the others.
            shared = [replace(s, cached=s.prompt if s.cached is not None else None) for s in said]
            return [said[branches[0]], *(shared[i] for i in branches[1:])]

        async def one(branch: int) -> Utterance:
            return (await self._sample(1, replace(params, seed=seeds(branch))))[0]

        return await _each(one, branches)

    async def next(self, params: SamplingParams) -> Utterance:
        return (await self._sample(1, params))[0]

    async def _sample(self, n: int, params: SamplingParams) -> list[Utterance]:
        if not self.ledger.extends(self._asked):
            raise LedgerError("this prompt does not begin with the one before it")
        self._asked = self.ledger.fork()
        ours = self.ledger.n_tokens
        samples = await self.policy.sample(self.ledger, n, params)
        if samples.prompt_tokens is not None and samples.prompt_tokens != ours:
            raise TokenDriftError(samples.prompt_tokens, ours)
        if len(samples.sequences) != n:
            raise LedgerError(f"the backend gave {len(samples.sequences)} sequences, {n} were asked for")
        return [Utterance(s, ours, samples.cached_tokens, params.max_tokens) for s in samples.sequences]

    def fork(self) -> TokenTalk:
        return TokenTalk(self.policy, self.ledger.fork(), self.context)

    def hear(self, utterance: Utterance) -> Heard:
        said = utterance.said
        assert isinstance(said, Sampled)
        if len(said.ids) > utterance.limit:
            raise LedgerError(f"the backend sampled {len(said.ids)} tokens, {utterance.limit} were allowed")
        with _ledger_errors():
            # What the ledger made of the ids is what counts: a backend may give numpy's integers.
            ids = self.ledger.append_sampled(said.ids, said.logprobs, said.stop).ids
            turn = self.policy.format.parse(ids, said.stop)
        cached = counted(utterance.cached, utterance.prompt)
        tokens = TurnTokens(prompt=utterance.prompt, cached=cached, sampled=len(ids), repeated=repeated(ids))
        return Heard(action_of(turn), tokens)

    def show(self, message: Message) -> None:
        with _ledger_errors():
            segments = self.policy.format.observation(self.ledger, message)
        self._append(segments)

    def _append(self, segments: Sequence[Any]) -> None:
        more = sum(segment.n_tokens for segment in segments)
        if self.ledger.n_tokens + more >= self.context:  # at least one token must be left to answer with
            raise OverContextError(f"{self.ledger.n_tokens} + {more} of {self.context} tokens")
        with _ledger_errors():
            self.ledger.append(segments)

    def turns(self) -> list[str]:
        return [self.policy.format.turn_text(said.ids) for said in self.ledger.sampled]

    def kept(self) -> Kept:
        images = sum(image.n_tokens for image in self.ledger.images)
        return Kept(self.ledger.to_dict(self.policy.format.vocabulary), self.ledger.n_tokens, images)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.policy.release(self.ledger)


class TextTalk:
    """Words with a server. Its context is what the server itself counts, known only after each turn."""

    def __init__(
        self,
        policy: TextPolicy,
        ledger: Ledger,
        messages: list[Message],
        tools: tuple[Mapping[str, Any], ...],
        context: int,
    ) -> None:
        self.policy, self.ledger, self.messages, self.tools = policy, ledger, messages, tools
        self.context = context if policy.context is None else min(context, policy.context)
        self._used = 0

    @classmethod
    def begin(cls, policy: TextPolicy, opening: Conversation, context: int) -> TextTalk:
        """The first prompt."""
        talk = cls(policy, Ledger.of_text(policy.name), [], opening.tools, context)
        for message in opening.messages:
            talk.show(message)
        return talk

    @property
    def room(self) -> int:
        return self.context - self._used

    async def first(self, branches: Sequence[int], params: SamplingParams, seeds: Seeds) -> list[Utterance | Exception]:
        if "n" in self.policy.capabilities:
            n = max(branches) + 1
            said = await self._reply(n, replace(params, seed=seeds(0)))
            return [said[i] for i in branches]

        async def one(branch: int) -> Utterance:
            return (await self._reply(1, replace(params, seed=seeds(branch))))[0]

        return await _each(one, branches)

    async def next(self, params: SamplingParams) -> Utterance:
        return (await self._reply(1, params))[0]

    async def _reply(self, n: int, params: SamplingParams) -> list[Utterance]:
        replies = await self.policy.reply(self.messages, self.tools, n, params)
        if len(replies.replies) != n:
            raise LedgerError(f"the server gave {len(replies.replies)} replies, {n} were asked for")
        prompt = counted(replies.prompt_tokens)
        return [Utterance(r, prompt, None, params.max_tokens) for r in replies.replies]

    def fork(self) -> TextTalk:
        branch = TextTalk(self.policy, self.ledger.fork(), self.messages[:], self.tools, self.context)
        branch._used = self._used
        return branch

    def hear(self, utterance: Utterance) -> Heard:
        reply = utterance.said
        assert isinstance(reply, Reply)
        self.messages.append(reply.message)
        self.ledger.append([WordsSegment(plain_text(reply.text), "assistant")])
        sampled = counted(reply.sampled_tokens)
        self._used = (utterance.prompt or 0) + (sampled or 0)
        tokens = TurnTokens(prompt=utterance.prompt, sampled=sampled, repeated=repeated(reply.text.split()))
        return Heard(action_of(reply.turn), tokens)

    def show(self, message: Message) -> None:
        if self.room < 1:
            raise OverContextError(f"{self._used} of {self.context} tokens")
        role = "user" if message.role == "assistant" else message.role
        with _ledger_errors():
            self.ledger.append(
                WordsSegment(plain_text(part), role)
                if isinstance(part, str)
                else ImageSegment(part.sha256, part.width, part.height, 0, 0, 0, role, part.png)
                for part in message.content
            )
        self.messages.append(message)

    def turns(self) -> list[str]:
        return [s.text for s in self.ledger if isinstance(s, WordsSegment) and s.role == "assistant"]

    def kept(self) -> Kept:
        return Kept(self.ledger.to_dict(), self._used)

    def close(self) -> None:
        pass


ModelPolicy = TokenPolicy | TextPolicy


def begin(policy: ModelPolicy, opening: Conversation, context: int) -> Talk:
    """The first prompt, for whichever kind of policy it is. Raises OverContextError, LedgerError."""
    if hasattr(policy, "sample"):
        return TokenTalk.begin(cast(TokenPolicy, policy), opening, context)
    return TextTalk.begin(policy, opening, context)


def action_of(turn: ParsedTurn) -> Action:
    """A parsed turn as the action that the episode knows."""
    match turn:
        case CallTurn():
            return Call(turn.name, turn.arguments, turn.reasoning)
        case AnswerTurn():
            reason = plain_text(turn.explanation).strip() or "answered without an explanation"
            return Answered(Verdict(answer=Answer(turn.answer), reason=reason), text=turn.reasoning)
        case MalformedTurn():
            return Malformed(turn.detail, turn.text, turn.kind)
        case TruncatedTurn():
            return Truncated(turn.text, turn.open_thought)


def counted(value: object, most: int | None = None) -> int | None:
    """What a backend says that it counted, where it can be true; None else, as for one that does not count."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return cast(int, value) if whole and 0 <= cast(int, value) <= (MAX_COUNT if most is None else most) else None


def repeated(tokens: Collection[Any]) -> float | None:
    """Share of the commonest four tokens in a row among all fours; None for a turn that is too short to tell."""
    listed = list(tokens)
    if len(listed) < LEAST:
        return None
    grams = Counter(zip(*(listed[i:] for i in range(NGRAM)), strict=False))
    return round(max(grams.values()) / (len(listed) - NGRAM + 1), 4)


def plain_text(text: str) -> str:
    """A text that UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


class _ledger_errors:  # noqa: N801 - a context manager that reads like a word
    """What a format refuses (a picture of an impossible shape, …) as LedgerError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ImageError | ValueError) and not isinstance(error, LedgerError):
            raise LedgerError(str(error)) from error


async def _each(one: Callable[[int], Awaitable[Utterance]], branches: Sequence[int]) -> list[Utterance | Exception]:
    """One request a branch; what one of them raises is its own."""
    given: list[Utterance | Exception] = []
    for outcome in await asyncio.gather(*(one(branch) for branch in branches), return_exceptions=True):
        if isinstance(outcome, asyncio.CancelledError):
            given.append(RequestCancelledError.of(outcome))
        elif isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        else:
            given.append(outcome)
    return given
