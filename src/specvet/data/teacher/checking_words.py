"""What a checker knows of a task's words: names, and what each can mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specvet.data.teacher.plans import Plan, Quantity


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a task that hold numbers or say what a number is of. Made by `Words.of`."""

    plan: Plan
    phrases: re.Pattern[str]
    subjects: dict[str, tuple[Quantity, ...]]
    """What each name can mean, by its lower-case form."""

    @classmethod
    def of(cls, plan: Plan) -> Words:
        subjects: dict[str, list[Quantity]] = {}
        for key in plan.asked:
            for name in plan.quantities[key].names:
                subjects.setdefault(name.lower(), []).append(plan.quantities[key])
        for says, keys in plan.readings.items():
            subjects.setdefault(says.lower(), []).extend(plan.quantities[key] for key in sorted(keys))
        known = sorted({*(q.lower() for q in plan.quotes), *subjects}, key=lambda text: (-len(text), text))
        # A name ends where it ends: `ZrO 647` is no name because `ZrO 6474` is one.
        pattern = "|".join(re.escape(text) for text in known)
        found = re.compile(rf"(?<![\w.])(?:{pattern})(?![\w]|\.\d)", re.IGNORECASE)
        return cls(plan, found, {name: tuple(qs) for name, qs in subjects.items()})
