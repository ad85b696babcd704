"""Words a task for a model: the user text of a question."""

from __future__ import annotations

from collections.abc import Iterable

from specvet.tasks.task import Task


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
