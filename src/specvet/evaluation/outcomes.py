"""An `Outcome`: what counts of one trajectory when a policy is measured. All numbers are made of outcomes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specvet.agent.readings import p_yes_of, texts_of
from specvet.evaluation.rules import Rule, Word
from specvet.records import Decision
from specvet.records.schema import Question, StopReason

POLICY_ENDS = frozenset(
    {
        StopReason.ANSWERED,
        StopReason.NOT_ASKED,
        StopReason.MAX_TURNS,
        StopReason.MALFORMED,
        StopReason.TRUNCATED,
        StopReason.CONTEXT,
        StopReason.IMAGE_IDS,
        StopReason.NO_ANSWER,
        StopReason.MALFORMED_CALL,
        StopReason.FABRICATED_RESULT,
        StopReason.MAX_CALLS,
        StopReason.TOOL_BUDGET,
    }
)
"""Ends that are the policy's or the task's own doing. The others are a failure of machinery: they count as wrong all
the same, and are told apart in the numbers."""

Fact = str | float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, and what a policy said to it."""

    id: str
    """Of the question."""
    task: str
    truth: Word
    said: Word | None
    """As the rule reads it; None is no answer, and wrong."""
    verdict: str
    """As recorded: YES, NO, UNSURE, NO_DATA, FAILED or ERROR."""
    p_yes: float | None
    """Where the policy gives one."""
    object_id: str
    """What intervals are drawn by: one star, all its spectra."""
    format_ok: bool
    """Every turn a call and the last an answer, as the parser found; true for a policy that measures and answers."""
    stop: str
    """`specvet.records.schema.StopReason`; `unreadable` for a spectrum that could not be read."""
    calls: int = 0
    """Made."""
    calls_executed: int = 0
    calls_succeeded: int = 0
    """Answered with a view."""
    turns: int = 0
    malformed: tuple[str, ...] = ()
    """Kinds of its malformed turns."""
    prompt_tokens: int | None = None
    sampled_tokens: int | None = None
    ledger_tokens: int | None = None
    seconds: float = 0.0
    """Of the trajectory, waiting included."""
    reward: float | None = None
    survey: str = ""
    layout: str = ""
    split: str = ""
    snr: float | None = None
    """Median S/N a pixel, as the file or the simulator tells."""
    kind: str = ""
    """What the object is, where the set tells: the confuser of a NO."""
    subtype: str = ""
    windows: tuple[tuple[float, float], ...] = ()
    """Å, where it looked after the opening."""
    likelier_class: str = ""
    metadata: Mapping[str, Fact] = field(default_factory=dict)
    """What is known without looking at the flux: n_pix, wave_min, wave_max, medium, z, snr, …"""

    @property
    def right(self) -> bool:
        return self.said == self.truth

    @property
    def machinery(self) -> bool:
        """Whether something other than the policy ended it."""
        return self.stop not in POLICY_ENDS


def outcome_of(question: Question, decision: Decision, rule: Rule, facts: Mapping[str, Any] | None = None) -> Outcome:
    """What a decision about a question counts under a rule. `facts` is what the set tells of it: kind, subtype, snr.

    Raises LedgerError for a trajectory whose ledger cannot be read, ValueError for a question without an answer.
    """
    if question.answer is None:
        raise ValueError(f"question {question.id}: has no answer to be measured by")
    told = dict(facts or {})
    record = decision.trajectory
    shared: dict[str, Any] = {
        "id": question.id,
        "task": question.task,
        "truth": question.answer,
        "verdict": str(decision.verdict.answer),
        "object_id": question.object_id or question.name or _place(question),
        "survey": str(told.get("survey") or decision.survey),
        "layout": decision.layout,
        "split": question.split or "",
        "snr": _number(decision.snr if told.get("snr") in (None, "") else told["snr"]),
        "kind": str(told.get("kind") or ""),
        "subtype": str(told.get("subtype") or ""),
        "metadata": _metadata(decision),
    }
    if record is None:
        return Outcome(**shared, said=None, p_yes=None, format_ok=False, stop=StopReason.UNREADABLE)
    ended = record.stop in POLICY_ENDS  # else nothing it said before counts: a question that was not finished is wrong
    texts = texts_of(record)
    stated = shared["verdict"] if shared["verdict"] in ("YES", "NO") else None
    kinds = [turn.action.kind for turn in record.turns]
    well = bool(kinds) and kinds[-1] == "answer" and all(kind == "call" for kind in kinds[:-1])
    calls, tokens = record.calls, record.tokens
    views = (turn.observation for turn in record.turns)
    return Outcome(
        **shared,
        said=None if not ended else stated if texts is None else rule.read(texts),
        p_yes=p_yes_of(record) if ended else None,
        format_ok=well,
        stop=str(record.stop),
        calls=calls.made if calls else 0,
        calls_executed=calls.executed if calls else 0,
        calls_succeeded=calls.succeeded if calls else 0,
        turns=len(record.turns),
        malformed=tuple(kind for kind, n in record.malformed.items() for _ in range(n)),
        prompt_tokens=tokens.prompt if tokens else None,
        sampled_tokens=tokens.sampled if tokens else None,
        ledger_tokens=tokens.total if tokens else None,
        seconds=record.seconds,
        reward=record.reward["score"] if record.reward else None,
        windows=tuple(seen.window for seen in views if seen is not None and seen.kind == "view" and seen.window),
        likelier_class=decision.verdict.likelier_class or "",
    )


def _metadata(decision: Decision) -> dict[str, Fact]:
    """What a classifier may know that does not look."""
    names = ("n_pix", "wave_min", "wave_max", "snr", "z", "z_file")
    numbers: dict[str, Fact] = {name: _number(getattr(decision, name)) for name in names}
    words = {name: getattr(decision, name) for name in ("survey", "layout", "medium")}
    return numbers | words | {"frame": decision.frame.partition(" ")[0]}


def _place(question: Question) -> str:
    """Where its spectrum lies, as the question has it: the same wherever the set lies."""
    reference = question.spectrum
    return f"{reference.path or reference.array_file}#{reference.row}"


def _number(value: Any) -> float | None:
    number = None if value is None or value == "" else float(value)
    return number if number is not None and math.isfinite(number) else None
