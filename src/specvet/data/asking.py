"""From the questions of a file to what a rollout takes: the question, its task, and the zoom tool on its spectrum.

    questions = load_questions("rl/bench_rl_train.jsonl", style="compact")
    posed = questions.pose(questions.asked[0])          # posed.question, posed.task, posed.tool

A question's task is a built-in one, or `tasks/KEY.yaml` in the question file's own folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from specvet.data.errors import InputError, Reject
from specvet.data.files import SpectrumFiles, failure
from specvet.data.questions import Asked, read_questions
from specvet.records.schema import Question
from specvet.spectra import FrameMode
from specvet.tasks import Task, TaskError, builtin_tasks, load_task
from specvet.tools import ZoomTool
from specvet.views import REFERENCE_STYLE, Size, check_style

TitleMode = Literal["plain", "file"]
"""`file` writes the file's name over each figure, as in the published data; it may tell a model the class."""

KEPT_FILES, KEPT_BYTES = 4, 1 << 29
"""Spectrum files that are kept in memory, with all their rows: so many, and more while they are small. Training asks
each question again every epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class Posed:
    """What `specvet.agent.Rollouts.group` takes."""

    question: Question
    task: Task
    tool: ZoomTool


@dataclass(slots=True, eq=False)
class Questions:
    """The questions of a file that can be asked, and those that cannot. Made by `load_questions`."""

    asked: list[Asked]
    rejects: list[Reject]
    """Those whose spectrum cannot be read or shown."""
    tasks: Mapping[str, Task]
    """Of all of them, by key."""
    frame_mode: FrameMode
    style: str
    size: Size
    title: str | None
    """Above each figure, as `ZoomTool` takes it."""
    _files: SpectrumFiles = field(default_factory=lambda: SpectrumFiles(KEPT_FILES, KEPT_BYTES), repr=False)

    def pose(self, asked: Asked) -> Posed:
        """A question with its task and tool. Raises InputError where its spectrum can no longer be read."""
        try:
            spectrum = self._files.row(asked.file, asked.question.spectrum.row)
            tool = ZoomTool(spectrum, mode=self.frame_mode, title=self.title, style=self.style, size=self.size)
        except MemoryError:
            raise
        except Exception as e:  # a reader may fail on anything that a file may hold
            raise InputError(f"{asked.where}: {failure(e)}") from e
        return Posed(asked.question, self.tasks[asked.question.task], tool)


def load_questions(
    path: str,
    tasks: Iterable[Task] = (),
    *,
    frame_mode: FrameMode = "careful",
    style: str = REFERENCE_STYLE,
    size: Size = None,
    title: TitleMode = "plain",
) -> Questions:
    """The questions of a file to learn from, or to be measured by: each has an answer, a task and a spectrum.

    Every spectrum is read once here, so that a run knows before it begins what it cannot ask; what cannot be read or
    shown is a reject. `tasks` come before those of the same key that are built in or stand beside the file.

    Raises InputError for a question without an answer, an unknown task (both with file and line), and a file of which
    no question can be asked; ValueError for an unknown style or size.
    """
    style = check_style(style, size)
    asked = read_questions(path)
    for one in asked:
        if one.question.answer is None:
            raise InputError(
                f'{one.where}: the question {one.question.id} has no answer, which rewards need; give "YES" or "NO"'
            )
    all_of_it = Questions(asked, [], tasks_of(asked, path, tasks), frame_mode, style, size, figure_title(title, style))
    good: list[Asked] = []
    for one in asked:
        problem = _problem(all_of_it, one)
        if problem:
            all_of_it.rejects.append(Reject(one.question.id, one.where, problem))
        else:
            good.append(one)
    if not good:
        raise InputError(
            f"{path}: none of its {len(asked)} questions can be asked; the first: {all_of_it.rejects[0].reason}"
        )
    all_of_it.asked = good
    return all_of_it


def tasks_of(asked: Sequence[Asked], path: str, tasks: Iterable[Task] = ()) -> dict[str, Task]:
    """The tasks that the questions of the file `path` ask about, by key: of `tasks`, beside the file, or built in.

    Raises InputError, which names the file and the line of the first question about an unknown task.
    """
    given = {task.key: task for task in tasks}
    found: dict[str, Task] = {}
    for one in asked:
        key = one.question.task
        if key not in found:
            found[key] = given.get(key) or _task_beside(path, key, one.where) or _builtin(key, one.where)
    return found


def figure_title(title: TitleMode, style: str) -> str | None:
    """The title of figures, as `ZoomTool` takes it; the compact style has none anyhow."""
    return "Spectrum" if title == "plain" and style == REFERENCE_STYLE else None


def _problem(questions: Questions, asked: Asked) -> str:
    """Why a question cannot be asked; empty where it can."""
    try:
        opening = questions.pose(asked).tool.opening()
    except InputError as e:
        return str(e).removeprefix(f"{asked.where}: ")
    return "" if opening.ok else f"{asked.file} row {asked.question.spectrum.row}: {opening.text}"


def _task_beside(path: str, key: str, where: str) -> Task | None:
    file = os.path.join(os.path.dirname(path), "tasks", f"{key}.yaml")
    if os.path.basename(key) != key or not os.path.isfile(file):
        return None
    try:
        task = load_task(file if os.path.dirname(file) else os.path.join(".", file))
    except TaskError as e:
        raise InputError(str(e)) from None
    if task.key != key:
        raise InputError(f"{file}: holds the task {task.key!r}, where {where} asks for {key!r}; rename one of them")
    return task


def _builtin(key: str, where: str) -> Task:
    task = builtin_tasks().get(key)
    if task is None:
        known = ", ".join(builtin_tasks())
        raise InputError(
            f"{where}: asks about the task {key!r}, which is not built in (there are {known}); put its YAML "
            f"file beside the questions as tasks/{key}.yaml"
        )
    return task
