"""Texts that the terse voice says again and again, for vocabularies that hold each as one token."""

from __future__ import annotations

import functools
import re

from specvet.data.teacher.plans import Plan
from specvet.tasks import builtin_tasks

JOINTS = (", ratio 0.", ", ratio 1.", ", EW −", ", EW ", " EW ", " mean 0.", " mean 1.", " Å.", " Å;", "S/N ", ", 0.")
"""What stands between a name and its number, and behind it."""

LONGEST = 15
"""Letters of a name."""


@functools.cache
def terse_wholes() -> tuple[str, ...]:
    """`JOINTS`, and names that hold numbers (`C2 5165`), with a space before them and without; longest first."""
    names: set[str] = set()
    for task in builtin_tasks().values():
        plan = Plan.of(task, "terse")
        names |= {plan.quantities[key].names[0] for key in plan.asked}
        names |= {window.name for window in task.windows}
    numbered = [name for name in names if re.search(r"\d{3}", name) and len(name) <= LONGEST]
    return tuple(sorted({*JOINTS, *numbered, *(f" {name}" for name in numbered)}, key=lambda text: (-len(text), text)))
