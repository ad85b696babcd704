"""The talks of one attempt at a problem: its turn goes on after whatever is put into it.

`ProblemTokens` is for policies on ids, `ProblemWords` for servers that give words and go on with a turn that was begun
(`continue_final_message` of vLLM and SGLang).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, cast

from specvet.agent.episode import Kept
from specvet.agent.talk import (
    ModelPolicy,
    OverContextError,
    Seeds,
    TextTalk,
    TokenTalk,
    Utterance,
    counted,
    plain_text,
    repeated,
)
from specvet.chat import Conversation, Ledger, LedgerError, SampledSegment, Stop, WordsSegment
from specvet.chat.messages import assistant
from specvet.chat.sympy_tags import Finished, Full, Heard, hear, hear_text, put_in
from specvet.policies.text import Reply
from specvet.policies.tokens import SamplingParams, TokenPolicy
from specvet.policies.tokens import Sequence as Sampled
from specvet.records.schema import TurnTokens

Piece = tuple[Literal["tool", "harness"], str]
"""Whose words are put into a turn, and the words."""


class ProblemTalk(Protocol):
    """One attempt's words with a model."""

    ledger: Ledger
    context: int

    @property
    def room(self) -> int:
        """Tokens that the next stretch may have before the context is full."""
        ...

    async def first(self, branches: Sequence[int], params: SamplingParams, seeds: Seeds) -> list[Utterance | Exception]:
        """The first stretch of each of these branches."""
        ...

    async def next(self, params: SamplingParams) -> Utterance:
        """The next stretch. Raises what the policy raises, TokenDriftError and LedgerError."""
        ...

    def fork(self) -> ProblemTalk:
        """A branch: it shares everything so far."""
        ...

    def listen(self, utterance: Utterance) -> tuple[Heard, TurnTokens]:
        """Append what was said, up to where it is cut, and tell what it is. Raises LedgerError."""
        ...

    def put(self, pieces: Sequence[Piece]) -> None:
        """Append what stands between two stretches. Raises OverContextError, and then nothing was appended."""
        ...

    def kept(self) -> Kept:
        """What is kept of it."""
        ...

    def close(self) -> None:
        """The branch is over. Twice is once."""
        ...


class ProblemTokens(TokenTalk):
    """As `TokenTalk`, for stretches of one turn instead of turns."""

    def fork(self) -> ProblemTokens:
        return ProblemTokens(self.policy, self.ledger.fork(), self.context)

    def listen(self, utterance: Utterance) -> tuple[Heard, TurnTokens]:
        said = utterance.said
        assert isinstance(said, Sampled)
        if len(said.ids) > utterance.limit:
            raise LedgerError(f"the backend sampled {len(said.ids)} tokens, {utterance.limit} were allowed")
        whole = SampledSegment(said.ids, said.logprobs, said.stop)
        if not whole.ids:
            raise LedgerError("a stretch without tokens; a model says at least its end token")
        heard = hear(whole.ids, whole.stop, self.policy.format)
        if heard.n:
            logprobs = None if whole.logprobs is None else whole.logprobs[: heard.n]
            self.ledger.append_sampled(whole.ids[: heard.n], logprobs, _stop(heard))
        tokens = TurnTokens(
            prompt=utterance.prompt,
            cached=counted(utterance.cached, utterance.prompt),
            sampled=len(whole.ids),
            repeated=repeated(whole.ids[: heard.n]),
        )
        return heard, tokens

    def put(self, pieces: Sequence[Piece]) -> None:
        self._append([put_in(text, role, self.policy.format) for role, text in pieces])


def _stop(heard: Heard) -> Stop:
    match heard.event:
        case Full():
            return "length"
        case Finished():
            return "end"
        case _:
            return "stop"


class ProblemWords(TextTalk):
    """As `TextTalk`; the last message, once there are words of the model, is its turn so far."""

    def fork(self) -> ProblemWords:
        branch = ProblemWords(self.policy, self.ledger.fork(), self.messages[:], self.tools, self.context)
        branch._used = self._used
        return branch

    def listen(self, utterance: Utterance) -> tuple[Heard, TurnTokens]:
        reply = utterance.said
        assert isinstance(reply, Reply)
        heard = hear_text(plain_text(reply.text), "length" if reply.stop == "length" else "end")
        if heard.text:
            self.ledger.append([WordsSegment(heard.text, "assistant")])
            self._go_on(heard.text)
        sampled = counted(reply.sampled_tokens)
        self._used = (utterance.prompt or 0) + (sampled or 0)
        return heard, TurnTokens(prompt=utterance.prompt, sampled=sampled, repeated=repeated(reply.text.split()))

    def put(self, pieces: Sequence[Piece]) -> None:
        if self.room < 1:
            raise OverContextError(f"{self._used} of {self.context} tokens")
        self.ledger.append([WordsSegment(plain_text(text), role) for role, text in pieces])
        self._go_on("".join(text for _, text in pieces))

    def _go_on(self, text: str) -> None:
        begun = self.messages[-1].text if self.messages[-1].role == "assistant" else None
        if begun is not None:
            self.messages.pop()
        self.messages.append(assistant((begun or "") + text))


def begin_problem(policy: ModelPolicy, opening: Conversation, context: int) -> ProblemTalk:
    """The first prompt, for whichever kind of policy it is. Raises OverContextError, LedgerError."""
    if hasattr(policy, "sample"):
        return cast(ProblemTokens, ProblemTokens.begin(cast(TokenPolicy, policy), opening, context))
    return cast(ProblemWords, ProblemWords.begin(policy, opening, context))
