"""Tasks: questions about a spectrum. In come names and YAML files; out come `Task`s that say what to look for, where,
what deceives there, and which measurements speak for or against; and what an answer is and is worth.

The names below are loaded when they are first used: `answers`, `rewards` and `turns` need nothing beyond Python, and a
training image that lacks pydantic can import them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.tasks.answers import lenient_answer, strict_answer, strict_format
    from specvet.tasks.epochs import Epochs
    from specvet.tasks.errors import TaskError
    from specvet.tasks.evidence import Condition, Evidence, IndexDefinition, Rival, Undecidable
    from specvet.tasks.load import builtin_tasks, load_task, resolve_tasks, task_text, template_text
    from specvet.tasks.luminosity import Luminosity, LuminosityRule, Region
    from specvet.tasks.rewards import Reward, reward
    from specvet.tasks.rivals import builtin_rivals
    from specvet.tasks.task import Borderline, Contaminant, Coverage, Feature, KeyWindow, Requires, Task
    from specvet.tasks.wording import ANSWER_FORM, SHORT_SYSTEM_TEXT, SYSTEM_TEXT, Wording, prompt, question_text

__all__ = [
    "ANSWER_FORM",
    "SHORT_SYSTEM_TEXT",
    "SYSTEM_TEXT",
    "Borderline",
    "Condition",
    "Contaminant",
    "Coverage",
    "Epochs",
    "Evidence",
    "Feature",
    "IndexDefinition",
    "KeyWindow",
    "Luminosity",
    "LuminosityRule",
    "Region",
    "Requires",
    "Reward",
    "Rival",
    "Task",
    "TaskError",
    "Undecidable",
    "Wording",
    "builtin_rivals",
    "builtin_tasks",
    "lenient_answer",
    "load_task",
    "prompt",
    "question_text",
    "resolve_tasks",
    "reward",
    "strict_answer",
    "strict_format",
    "task_text",
    "template_text",
]

_HOME = {
    "answers": ("lenient_answer", "strict_answer", "strict_format"),
    "epochs": ("Epochs",),
    "errors": ("TaskError",),
    "evidence": ("Condition", "Evidence", "IndexDefinition", "Rival", "Undecidable"),
    "load": ("builtin_tasks", "load_task", "resolve_tasks", "task_text", "template_text"),
    "luminosity": ("Luminosity", "LuminosityRule", "Region"),
    "rewards": ("Reward", "reward"),
    "rivals": ("builtin_rivals",),
    "task": ("Borderline", "Contaminant", "Coverage", "Feature", "KeyWindow", "Requires", "Task"),
    "wording": ("ANSWER_FORM", "SHORT_SYSTEM_TEXT", "SYSTEM_TEXT", "Wording", "prompt", "question_text"),
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"specvet.tasks.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'specvet.tasks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
