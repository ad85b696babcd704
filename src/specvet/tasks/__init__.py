"""Tasks: questions about a spectrum. In come names and YAML files; out come `Task`s that say what to look for, where,
what deceives there, and which measurements speak for or against."""

from specvet.tasks.errors import TaskError
from specvet.tasks.evidence import Condition, Evidence, IndexDefinition, Rival, Undecidable
from specvet.tasks.load import builtin_tasks, load_task, resolve_tasks, task_text, template_text
from specvet.tasks.rivals import builtin_rivals
from specvet.tasks.task import Borderline, Contaminant, Coverage, Feature, KeyWindow, Requires, Task
from specvet.tasks.wording import prompt

__all__ = [
    "Borderline",
    "Condition",
    "Contaminant",
    "Coverage",
    "Evidence",
    "Feature",
    "IndexDefinition",
    "KeyWindow",
    "Requires",
    "Rival",
    "Task",
    "TaskError",
    "Undecidable",
    "builtin_rivals",
    "builtin_tasks",
    "load_task",
    "prompt",
    "resolve_tasks",
    "task_text",
    "template_text",
]
