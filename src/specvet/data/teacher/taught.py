"""What a teacher hands over: a demonstration whose pictures are drawn when somebody looks at them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from specvet.agent.opening import conversation, observation_message
from specvet.chat import Conversation, Image, Message, ToolCall
from specvet.chat.messages import assistant
from specvet.data.demonstrations import Demonstration, Picture, Said
from specvet.data.teacher.checking import Fact
from specvet.records.schema import Question
from specvet.tasks import Task, Wording
from specvet.tools import Observation, ZoomTool


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One turn of the assistant: a thought and a call with what came back, or a thought before the answer."""

    thought: str
    arguments: Mapping[str, Any] | None
    observation: Observation | None


@dataclass(frozen=True, eq=False)
class Taught:
    """A demonstration, accepted."""

    question: Question
    task: Task
    tool: ZoomTool
    opening: Observation
    turns: tuple[Turn, ...]
    answer: str
    r"""`<answer>\boxed{YES} …</answer>`."""
    max_turns: int
    facts: tuple[Fact, ...]
    """Every number that its texts hold: what it is of, what it says, and what was measured again."""
    wording: Wording = "full"
    """Of the question."""

    @property
    def n_calls(self) -> int:
        return sum(turn.arguments is not None for turn in self.turns)

    @property
    def n_images(self) -> int:
        return sum(o.view is not None for o in self._observations)

    @property
    def words(self) -> int:
        """That the assistant says in all."""
        return sum(len(text.split()) for text in (*(t.thought for t in self.turns), self.answer))

    @cached_property
    def conversation(self) -> Conversation:
        """The whole conversation; its pictures are drawn now."""
        return self.spoken(drawn)

    def spoken(self, shown: Callable[[Observation], Image | None]) -> Conversation:
        """The whole conversation, each picture as `shown` makes it of its observation; None leaves it out."""
        opening = shown(self.opening)
        begun = conversation(self.question, self.task, self.tool, self.opening, opening, self.max_turns, self.wording)
        messages = [*begun.messages]
        for turn in self.turns:
            if turn.observation is None:
                messages.append(assistant(self.answer, reasoning=turn.thought))
                continue
            calls = [ToolCall(self.tool.name, dict(turn.arguments or {}))]
            messages.append(assistant(reasoning=turn.thought, calls=calls))
            image = shown(turn.observation) if turn.observation.view is not None else None
            messages.append(observation_message(turn.observation, image))
        return Conversation(tuple(messages), begun.tools)

    def demonstration(self, folder: str | Path, id: str, images: str = "images") -> Demonstration:
        """As a line of a file of demonstrations in `folder`; its pictures are written to `folder/images/ID_0.png` …"""
        os.makedirs(os.path.join(folder, images), exist_ok=True)
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in id)
        places: list[str] = []

        def put(png: bytes) -> str:
            places.append(f"{images}/{stem}_{len(places)}.png")
            Path(folder, places[-1]).write_bytes(png)
            return places[-1]

        return self.recorded(id, put)

    def recorded(self, id: str, put: Callable[[bytes], str]) -> Demonstration:
        """As a line of a file of demonstrations; `put` keeps a PNG and says where, relative to that file."""
        paths: dict[str, str] = {}

        def written(observation: Observation) -> Image:
            image = drawn(observation)
            if image.sha256 not in paths:  # a window that is called twice is one picture
                paths[image.sha256] = put(image.png)
            return image

        spoken = self.spoken(written)
        said = tuple(_said(message, paths) for message in spoken.messages)
        return Demonstration(id, said, spoken.tools, self.question.object_id, self.question.name)

    @property
    def _observations(self) -> list[Observation]:
        return [self.opening, *(t.observation for t in self.turns if t.observation is not None)]


def drawn(observation: Observation) -> Image:
    """The picture of an observation that has one."""
    assert observation.view is not None
    return Image.of(observation.view.png)


def _said(message: Message, paths: Mapping[str, str]) -> Said:
    content = tuple(Picture(paths[p.sha256]) if isinstance(p, Image) else p for p in message.content)
    return Said(message.role, content, message.reasoning, message.calls)
