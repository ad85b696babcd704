"""From a drawn situation to a problem: what is asked and how, the typed gold, and a solution with the tool's results.

The gold comes from a closed form in floats; the solution's results from the tool, which is given other equations. A
problem whose last result does not hold its gold is no problem (`Degenerate`), so each gold was found in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from specvet.chat.sympy_tags import result_text
from specvet.data.errors import InputError
from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, shown, written
from specvet.records.problems import LETTERS, Call, Difficulty, Gold, Segment, ToolResult

MCQ, PARTS = 0.2, 0.15
"""Shares of the numeric questions that become multiple choice, or have two parts, where the situation allows."""

APART = 0.04
"""How far choices lie apart, relative to the larger: twice the tolerance of the families' golds, and more."""

AGREES = 2e-3
"""Relative difference of the closed form and of what the tool found: steps pass on seven digits, and some inputs three
or four."""

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?:/\d+)?")


class Result(Protocol):
    """What a tool says, see `specvet.tools.sympy_tool`."""

    @property
    def status(self) -> str: ...
    @property
    def text(self) -> str: ...


class SolvingTool(Protocol):
    """A tool that answers a call with a result and never raises; one object is one episode."""

    def run(self, argument: str) -> Result: ...


def check_extra() -> None:
    """Raises InputError where the extra is missing, with what to install."""
    if missing := [name for name in ("sympy", "pint") if find_spec(name) is None]:
        raise InputError(f"{missing[0]} is not installed; physics problems need it: pip install 'specvet[physics]'")


def patient_tool() -> SolvingTool:
    """A new `sympy` tool that no busy machine makes fail: data must not hang on the load while they were made.

    A call that takes this long in vain is refused for its CPU time. Calls of one problem's rejected draws all count.
    """
    from specvet.tools.sympy_tool import Limits, SympyTool

    return SympyTool(Limits(wall_s=300.0, cpu_s=20, calls=100_000, episode_s=1e6))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it is put."""

    text: str
    gold: Gold
    targets: tuple[Target, ...]
    """One, or those of the parts."""
    boxed: str
    """The right answer, as it is boxed."""
    difficulty: Difficulty


def asked(situation: Situation, draw: Draw, wordings: Sequence[int]) -> Asked:
    """Choose what is asked of a situation, in which of the `wordings`. Raises Degenerate."""
    given = situation.texts[draw.one(wordings)]
    target = draw.one(situation.targets)
    chance = draw.chance()
    others = [t for t in situation.targets if t.value is not None and t.key != target.key]
    if target.value is not None and PARTS + MCQ > chance >= MCQ and others:
        return _in_parts(given, (target, draw.one(others)), draw)
    ask = draw.one(target.asks)
    hardness: Difficulty = "hard" if target.hard else "medium" if len(target.steps) > 1 else "easy"
    if target.value is not None and chance < MCQ and (wrong := _distractors(target)):
        return _with_choices(f"{given} {ask}", target, wrong, draw, hardness)
    return Asked(f"{given} {ask}", gold_of(target), (target,), boxed(target), hardness)


def _in_parts(given: str, targets: tuple[Target, ...], draw: Draw) -> Asked:
    labelled = dict(zip("abc", targets, strict=False))
    asks = " ".join(f"({label}) {draw.one(target.asks)}" for label, target in labelled.items())
    gold = Gold(kind="multipart", parts={label: gold_of(target) for label, target in labelled.items()})
    box = ", ".join(f"({label}) {boxed(target)}" for label, target in labelled.items())
    return Asked(f"{given} {asks}", gold, targets, box, "hard")


def _with_choices(text: str, target: Target, wrong: Sequence[float], draw: Draw, hardness: Difficulty) -> Asked:
    assert target.value is not None
    place = draw.whole(0, len(wrong))
    values = [*wrong[:place], target.value, *wrong[place:]]
    choices = tuple(plain_answer(value, target.unit) for value in values)
    lines = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    gold = Gold(kind="mcq", value=LETTERS[place], choices=choices)
    return Asked("\n".join([text, *lines]), gold, (target,), LETTERS[place], hardness)


def _distractors(target: Target) -> list[float]:
    """Three values that typical mistakes give, far enough from the right one and from each other; [] if there are
    fewer."""
    assert target.value is not None
    kept: list[float] = []
    for value in target.mistakes:
        near = (abs(value - other) <= APART * max(abs(value), abs(other)) for other in (*kept, target.value))
        if not any(near) and 1e-5 < abs(value) < 1e7:
            kept.append(value)
    return kept[:3] if len(kept) >= 3 else []


def gold_of(target: Target) -> Gold:
    """The typed gold of one target. Raises Degenerate for a value that no textbook would ask for."""
    if target.value is None:
        return Gold(kind="symbolic", value=target.symbolic, asked=target.asked)
    if not 1e-4 <= abs(target.value) < 1e6:
        raise Degenerate("answer out of range")
    return Gold(kind="numeric", value=float(f"{target.value:.8g}"), unit=target.unit, tolerance=target.tolerance)


def plain_answer(value: float, unit: str) -> str:
    """`12.34 m/s`, as choices are written."""
    number = shown(value).replace(r" \times 10^{", " × 10^").replace("}", "")
    return f"{number}°" if unit == "deg" else f"{number} {written(unit)}".strip()


def boxed(target: Target) -> str:
    """The right answer in LaTeX."""
    if target.value is None:
        return target.symbolic
    unit = {"deg": "°", "percent": r"\%"}.get(target.unit, target.unit.replace("**", "^").replace("*", " "))
    return rf"{shown(target.value)} \text{{ {unit}}}" if unit else shown(target.value)


def solution(question: Asked, tool: SolvingTool) -> tuple[Segment, ...]:
    """The worked solution with the tool's true results. Raises Degenerate where the tool fails or does not agree."""
    segments: list[Segment] = []
    done: set[str] = set()
    for target in question.targets:
        last = ""
        for step in target.steps:
            if step.argument in done and step is not target.steps[-1]:
                continue
            done.add(step.argument)
            said = step.say if not segments else f" {step.say}"
            segments += _call(said, step, tool)
            found = segments[-1].result
            assert found is not None
            last = found.text
        if target.value is not None and not agrees(last, target.value):
            raise Degenerate(f"the tool's result is not the gold ({target.key})")
    segments.append(Segment(kind="model", text=f"\n<answer>\\boxed{{{question.boxed}}}</answer>"))
    return tuple(segments)


def _call(said: str, step: Step, tool: SolvingTool) -> tuple[Segment, Segment]:
    result = tool.run(step.argument)
    if result.status != "ok":
        raise Degenerate(f"the tool refused a call: {result.text}")
    return (
        Segment(kind="model", text=f"{said} <tool>sympy: {step.argument}</tool>"),
        Segment(
            kind="tool",
            text=result_text(result.text),
            call=Call(argument=step.argument),
            result=ToolResult(status="ok", text=result.text),
        ),
    )


def agrees(text: str, value: float) -> bool:
    """Whether one of the numbers in a result is this value."""
    for found in _NUMBER.findall(text.replace("*10**(", "e").replace("- ", "-")):
        above, _, below = found.partition("/")
        if below and not float(below):
            continue
        number = float(above) / (float(below) if below else 1.0)
        if abs(number - value) <= AGREES * abs(value):
            return True
    return False
