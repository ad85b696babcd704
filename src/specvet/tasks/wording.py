"""Words a task for a model: the system text, the user text of a question, and the form of an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from specvet.tasks.task import Task

Wording = Literal["full", "short"]
"""`full` tells a task with all that counts; `short` only names it, for a model that was trained on that task and cannot
read more: it is told of no tool either, since it knows but one."""

SYSTEM_TEXT = (
    "You are an astronomer who vets candidates by eye. You are shown a whole spectrum, and may look more closely at "
    "any window of it with the tool. Think first; then make one call, or answer. Look for what would speak against "
    "your idea as well as for it, and judge only by what can be seen."
)
"""What every question begins with."""

SHORT_SYSTEM_TEXT = "You vet spectra by eye."
"""The same in the short wording."""

ANSWER_FORM = (
    r"Answer with <answer>\boxed{YES} and your reasons</answer> or <answer>\boxed{NO} and your reasons</answer>, "
    "once, and call no tool in that turn."
)
"""How an answer must look, in the published form."""


def question_text(task: Task, max_turns: int, wording: Wording = "full") -> str:
    """The user text of a task's own question: what is asked, what counts, what does not, guidance, how to answer; in
    the short wording what is asked, and how many turns there are."""
    turns = "1 turn" if max_turns == 1 else f"{max_turns} turns"
    if wording == "short":
        return f"{task.question} You have {turns}."
    return f"{prompt(task)}\n\n{ANSWER_FORM} You have {turns}; a call in the last is not executed."


def prompt(task: Task) -> str:
    """The question, what counts, what does not, and the guidance; nothing of images or of the form of an answer."""
    counts = [*task.include, *(f"{b.kind}: {b.why}" for b in task.borderline if b.answer == "YES")]
    counts_not = [*task.exclude, *(f"{b.kind}: {b.why}" for b in task.borderline if b.answer == "NO")]
    parts = [task.question, f"What counts:\n{_bullets(counts)}"]
    if counts_not:
        parts.append(f"What does not:\n{_bullets(counts_not)}")
    parts.append(f"Guidance:\n{task.guidance}")
    return "\n\n".join(parts)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)
