"""The `ProblemEpisode`: one attempt at a problem with a tool in the middle of a turn; what comes next, and its record.

    step() → Ask      then `heard` or `stopped`
           → Compute  then `computed` or `stopped`
           → Put      then `shown` or `stopped`
           → Over     then `record`

Like the `Episode` it does nothing itself. An attempt has one turn; each stretch of it that the model samples ends at a
call, at a result of its own (which is cut), at the answer or at a limit. Calls beyond the limits are not executed and
end the attempt; so does the second result of the model's own, and one malformed call more than are answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from specvet.agent.episode import LOOPING, Kept, Over, Start
from specvet.chat import sympy_tags as tags
from specvet.records.problems import Call as CallRecord
from specvet.records.problems import Segment, ToolResult
from specvet.records.schema import StopReason, TokenCounts, TurnTokens
from specvet.records.solutions import Solution, ToolCounts
from specvet.tasks.physics.reading import Read, read_answer, sampled
from specvet.tools.sympy_tool.text import one_line

NOTICE = f"\n[Only the tool writes results. Write {tags.OPEN}{tags.TOOL}: EXPRESSION{tags.CLOSE} and wait for one.]\n"
"""What the model is told where it began a result of its own."""


MAX_IDLE = 8
"""Closing answer tags that end nothing, in a thought or without a beginning."""


class Result(Protocol):
    """What a tool gives, as `specvet.tools.sympy_tool.Result`."""

    @property
    def status(self) -> Literal["ok", "error"]: ...
    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str:
        """One line; of an error `error: KIND: …`."""
        ...

    @property
    def seconds(self) -> float:
        """Of the tool; 0 where it remembered the result."""
        ...

    @property
    def repeated(self) -> bool:
        """Whether the same was asked before in this attempt."""
        ...


class Calculator(Protocol):
    """A tool that is called in the middle of a turn, one object an attempt; called from threads."""

    def run(self, argument: str) -> Result:
        """The result, in bounded time; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """A result that no tool gave: why there is none."""

    status: Literal["ok", "error"]
    kind: str
    text: str
    seconds: float = 0.0
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class ProblemBudget:
    """What one attempt may use."""

    max_calls: int = 6
    """Repeated ones included; 0 leaves the tool out."""
    call_seconds: float = 5.0
    """Of one call. The tool keeps to it; one that does not is left alone a second later."""
    tool_seconds: float = 20.0
    """Of all calls; a call after that is not executed."""
    max_malformed: int = 2
    """Malformed calls that are answered with what was wrong."""
    turn_tokens: int = 2_048
    """Of one stretch."""
    context: int = 16_384
    """Of the whole attempt, pictures and results included."""
    max_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the policy for the next stretch."""

    turn: int
    """From 0."""
    seconds: float
    """That are left."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Hand an expression to the tool."""

    argument: str
    seconds: float
    """That it may take."""


@dataclass(frozen=True, slots=True)
class Put:
    """Put something into the turn; the segments are given by `segment`, which is kept once it is shown."""

    segment: Segment
    missing: str = ""
    """What the call's closing tag lacks: it comes first."""


Step = Ask | Compute | Put | Over


@dataclass(slots=True)
class _Counts:
    made: int = 0
    executed: int = 0
    succeeded: int = 0
    repeated: int = 0
    malformed: int = 0
    fabricated: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


class ProblemEpisode:
    """One attempt, or one branch of a group of them."""

    def __init__(
        self,
        problem: str,
        *,
        policy: str,
        budget: ProblemBudget,
        sample: int = 0,
        group: int = 1,
        start: Start | None = None,
        thinking: bool = False,
    ) -> None:
        """`problem` is its id; `thinking`: the prompt has opened a thought."""
        self.start = start or Start.now()
        self.stop: StopReason | None = None
        self.stop_detail = self.reason = ""
        self._answer: Read | None = None
        self.segments: list[Segment] = []
        self.sample = sample
        self._thinking = thinking
        self._problem, self._policy, self._budget, self._group = problem, policy, budget, group
        self._counts = _Counts()
        self._idle = 0
        self._spent: list[TurnTokens] = []
        self._next: Compute | Put | None = None
        self._missing = ""
        self._waited = 0.0

    @property
    def seconds_left(self) -> float:
        return self._budget.max_seconds - (time.perf_counter() - self.start.clock - self._waited)

    def waited(self, seconds: float) -> None:
        """So long it was kept from going on by others, which does not count against its own time."""
        self._waited += seconds

    def step(self) -> Step:
        """What comes next."""
        if self.stop is not None:
            return Over()
        if self._next is not None:
            return self._next
        seconds = self.seconds_left
        if seconds <= 0:
            self.out_of_time()
            return Over()
        return Ask(len(self._spent), seconds)

    # --- what has happened

    def heard(self, heard: tags.Heard, tokens: TurnTokens, limit: int) -> None:
        """The model has said a stretch, of which `limit` tokens were allowed; it is in the ledger."""
        self._spent.append(tokens)
        if heard.n:
            self.segments.append(Segment(kind="model", text=heard.text))
        if heard.fabricated:
            self._counts.fabricated += 1
            if self._counts.fabricated > 1:
                self.stopped(StopReason.FABRICATED_RESULT, "a tool's result written by the model, twice")
                return
        match heard.event:
            case tags.Called(argument, missing):
                self._called(argument, missing)
            case tags.BadCall(problem, missing):
                self._bad_call(problem, missing)
            case tags.Fabricated():
                self._next = Put(Segment(kind="harness", text=NOTICE))
            case tags.Answered():
                self._answered()
            case tags.Finished(unclosed):
                self._finished(tags.ANSWER_CLOSE if unclosed else "")
            case tags.Full():
                self._full(limit)
            case tags.Broken("image_ids"):
                self.stopped(StopReason.IMAGE_IDS, "ids that stand for pictures inside the turn", "image_ids")
            case tags.Broken(kind):
                self.stopped(StopReason.MALFORMED, "a control token inside the turn", kind)

    def computed(self, result: Result) -> None:
        """The tool has answered what `Compute` asked."""
        assert isinstance(self._next, Compute)
        counts = self._counts
        counts.executed += not result.repeated
        counts.repeated += result.repeated
        counts.succeeded += result.status == "ok"
        counts.seconds += result.seconds
        if result.status == "error":
            counts.errors[result.kind] = counts.errors.get(result.kind, 0) + 1
        self._put(self._next.argument, result.status, result.text)

    def shown(self) -> None:
        """What `Put` asked for is in the ledger."""
        assert isinstance(self._next, Put)
        if self._next.missing:
            self.segments.append(Segment(kind="harness", text=self._next.missing))
        self.segments.append(self._next.segment)
        self._next = None

    def stopped(self, stop: StopReason, reason: str, detail: str = "") -> None:
        """The attempt ends without an answer."""
        self.stop, self.reason, self.stop_detail, self._next = stop, reason, detail, None

    def out_of_time(self) -> None:
        """The attempt's seconds are over."""
        self.stopped(StopReason.OUT_OF_TIME, f"no answer within {self._budget.max_seconds:g} s")

    # --- inside

    def _called(self, argument: str, missing: str) -> None:
        counts, budget = self._counts, self._budget
        counts.made += 1
        self._missing = missing
        left = budget.tool_seconds - counts.seconds
        if counts.made > budget.max_calls:
            self.stopped(StopReason.MAX_CALLS, f"more than {budget.max_calls} calls")
        elif left <= 0:
            self.stopped(StopReason.TOOL_BUDGET, f"a call after {budget.tool_seconds:g} s of the tool were used")
        else:
            self._next = Compute(argument, min(left, budget.call_seconds))

    def _bad_call(self, problem: str, missing: str) -> None:
        self._counts.malformed += 1
        if self._counts.malformed > self._budget.max_malformed:
            self.stopped(StopReason.MALFORMED_CALL, f"malformed call: {problem}")
            return
        self._missing = missing
        self._put("", "error", f"error: syntax: {problem}")

    def _put(self, argument: str, status: Literal["ok", "error"], text: str) -> None:
        call = CallRecord(name=tags.TOOL, argument=argument)
        result = ToolResult(status=status, text=one_line(text, tags.MAX_RESULT))
        segment = Segment(kind="tool", text=tags.result_text(text), call=call, result=result)
        self._next = Put(segment, self._missing)

    def _answered(self) -> None:
        self._read()
        if self._answer is not None:
            self.stop = StopReason.ANSWERED
            return
        # In a thought, or without a beginning: the turn goes on, but not for ever.
        self._idle += 1
        if self._idle > MAX_IDLE:
            self.stopped(StopReason.NO_ANSWER, f"{self._idle} times </answer> without an answer", "idle")

    def _finished(self, missing: str) -> None:
        self._read(missing)
        if self._answer is None:
            self.stopped(StopReason.NO_ANSWER, "the turn ended without an answer")
        else:
            self.stop = StopReason.ANSWERED

    def _read(self, missing: str = "") -> None:
        words = sampled(self.segments)
        if missing:
            words[-1] += missing
        read = read_answer(words, thinking=self._thinking)
        self._answer = None if read.text is None else read

    def _full(self, limit: int) -> None:
        if limit < self._budget.turn_tokens:
            self.stopped(StopReason.CONTEXT, f"no answer within {self._budget.context} tokens")
        else:
            self.stopped(StopReason.TRUNCATED, f"a stretch of more than {self._budget.turn_tokens} tokens")

    # --- the record

    def record(self, kept: Callable[[], Kept] | None = None) -> Solution:
        """What is kept of it; `kept` gives the ledger, where there is one."""
        assert self.stop is not None
        ledger = None if kept is None else kept()
        return Solution(
            problem=self._problem,
            policy=self._policy,
            segments=tuple(self.segments),
            stop=self.stop,
            stop_detail=self.stop_detail or self.reason,
            answer=None if self._answer is None else self._answer.text,
            route=None if self._answer is None else self._answer.route.value,
            calls=ToolCounts(
                made=self._counts.made,
                executed=self._counts.executed,
                succeeded=self._counts.succeeded,
                repeated=self._counts.repeated,
                malformed=self._counts.malformed,
                fabricated=self._counts.fabricated,
                errors=dict(sorted(self._counts.errors.items())),
                seconds=round(self._counts.seconds, 6),
            ),
            tokens=None if ledger is None else self._tokens(ledger),
            seconds=round(time.perf_counter() - self.start.clock, 6),
            started=self.start.at,
            sample=self.sample,
            group=self._group,
            ledger=None if ledger is None else ledger.ledger,
        )

    def _tokens(self, kept: Kept) -> TokenCounts:
        spent = self._spent
        return TokenCounts(
            prompt=sum(t.prompt or 0 for t in spent),
            cached=sum(t.cached or 0 for t in spent),
            sampled=sum(t.sampled or 0 for t in spent),
            images=kept.images,
            total=kept.total,
            looping=sum((t.repeated or 0.0) >= LOOPING for t in spent),
        )
