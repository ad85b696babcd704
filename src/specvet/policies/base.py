"""A `Policy` is whoever acts next; an `Action` is what it does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from specvet.records.schema import ActionRecord, Measurement, Question, Verdict
from specvet.tasks import Task
from specvet.tools import Observation, plain


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool."""

    tool: str
    arguments: Mapping[str, Any]
    text: str = ""
    """The thought that led here."""

    def record(self) -> ActionRecord:
        """What is kept: arguments as JSON knows them, whatever a model made of them; NaN and infinity as words."""
        arguments = json.loads(json.dumps(plain(self.arguments)), parse_constant=str)
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        return ActionRecord(kind="call", tool=plain(str(self.tool)), arguments=arguments, text=plain(self.text))


@dataclass(frozen=True, slots=True)
class Answered:
    """Answer the question. A model's verdict is YES or NO; `line-indices` may say UNSURE or NO_DATA itself."""

    verdict: Verdict
    measurements: tuple[Measurement, ...] = ()
    """Everything measured on the way, whether or not it moved the verdict."""
    text: str = ""

    def record(self) -> ActionRecord:
        return ActionRecord(kind="answer", text=plain(self.text or self.verdict.reason))


@dataclass(frozen=True, slots=True)
class Malformed:
    """A turn that is neither a call nor an answer; never guessed at."""

    problem: str
    text: str = ""
    kind: str | None = None
    """Which sort of malformed turn it is, where a chat format decided it."""

    def record(self) -> ActionRecord:
        text = plain(f"{self.problem}: {self.text}" if self.text else self.problem)
        return ActionRecord(kind="malformed", text=text, malformed=self.kind)


@dataclass(frozen=True, slots=True)
class Truncated:
    """A turn that met a limit of tokens before its end."""

    text: str = ""
    open_thought: bool = False
    """It was still thinking."""

    def record(self) -> ActionRecord:
        return ActionRecord(kind="truncated", text=plain(self.text))


Action = Call | Answered | Malformed | Truncated


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and what came back (None after an answer)."""

    action: Action
    observation: Observation | None
    seconds: float


@dataclass(slots=True)
class Trajectory:
    """What a policy knows so far: the question, the whole spectrum as first shown, and the turns since."""

    question: Question
    task: Task
    opening: Observation
    turns: list[Turn] = field(default_factory=list)
    max_turns: int = 8

    @property
    def turns_left(self) -> int:
        """Turns that remain, the next one included; a call in the last is not executed."""
        return self.max_turns - len(self.turns)


Capability = Literal["ids", "logprobs", "n", "images", "trainable"]


class Policy(Protocol):
    """Whoever acts next."""

    name: str
    capabilities: frozenset[Capability]
    """`images`: it looks at pixels, so views must be drawn for it."""

    @property
    def fingerprint(self) -> str:
        """Hash of what makes it decide as it does (weights, tables); verdicts of one run share it."""
        ...

    def act(self, trajectory: Trajectory) -> Action:
        """The next call or the answer."""
        ...

    def check(self, task: Task) -> None:
        """Whether it can answer such questions, before any spectrum is read. Raises `specvet.tasks.TaskError`."""
        ...
