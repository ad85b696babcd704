"""What a model is told first: the system text, the whole spectrum, the question, and the form of an answer.

How a tool is called (JSON or XML) and where a thought stands is said by the chat format's own template.
"""

from __future__ import annotations

from specvet.chat import Conversation, Image, Message
from specvet.chat.messages import system, user
from specvet.records.schema import Question
from specvet.tasks import ANSWER_FORM, SHORT_SYSTEM_TEXT, SYSTEM_TEXT, Task, Wording, question_text
from specvet.tools import Observation, Tool

IMAGE_MARK = "<image>"
"""Where a benchmark's prompt wants the picture."""


def conversation(
    question: Question,
    task: Task,
    tool: Tool,
    opening: Observation,
    image: Image | None,
    max_turns: int,
    wording: Wording = "full",
) -> Conversation:
    """The first messages about a spectrum, and the tool's schema, which the short wording leaves out.

    The picture comes first, then what it shows, then the question. A prompt that the question brings along is used as
    it is: its `<image>` is where the picture goes, or before it where it has none. The short wording takes the place of
    whatever a question brings along: who asks for it has a model that knows no other.
    """
    short = wording == "short"
    if short or question.prompt is None:
        text = f"{opening.text}\n\n{question_text(task, max_turns, wording)}"
        content: list[str | Image] = [text] if image is None else [image, f"\n{text}"]
    else:
        before, mark, after = question.prompt.partition(IMAGE_MARK)
        if mark:
            content = [before, *([] if image is None else [image]), after]
        else:
            content = [before] if image is None else [image, f"\n{before}"]
    told = SHORT_SYSTEM_TEXT if short else question.system or SYSTEM_TEXT
    messages = (system(told), user(*(part for part in content if part != "")))
    return Conversation(messages, () if short else (tool.schema(),))


def in_wording(question: Question, wording: Wording) -> Question:
    """A question as it is asked in this wording: the short one asks it without the words that it brings along."""
    return question if wording == "full" else question.model_copy(update={"system": None, "prompt": None})


def observation_message(observation: Observation, image: Image | None) -> Message:
    """An observation as the model is shown it: a tool's answer, or the user's reminder after a malformed turn."""
    if observation.kind == "malformed":
        return user(f"{observation.text} {ANSWER_FORM}")
    return Message("tool", (observation.text,) if image is None else (image, observation.text))
