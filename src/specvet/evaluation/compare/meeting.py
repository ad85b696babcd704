"""Which questions two cells answered differently, in the order in which a person should look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from specvet.evaluation.cells import Cell
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.paired import compare

Side = Literal["only_a", "only_b", "neither"]
"""Who was right. `only_a` and `only_b` are the questions that flipped."""

SIDES: tuple[Side, ...] = ("only_b", "only_a", "neither")


@dataclass(frozen=True, slots=True)
class Pair:
    """One question that both were asked."""

    a: Outcome
    b: Outcome

    @property
    def side(self) -> Side | None:
        """None where both are right."""
        if self.a.right:
            return None if self.b.right else "only_a"
        return "only_b" if self.b.right else "neither"

    @property
    def errors(self) -> list[Outcome]:
        """Those of the two that are wrong."""
        return [o for o in (self.a, self.b) if not o.right]


@dataclass(frozen=True)
class Meeting:
    """Two cells, and the questions that both were asked."""

    a: Cell
    b: Cell
    rule: str
    pairs: tuple[Pair, ...]
    """In the order of `a`'s set."""
    numbers: dict[str, Any]
    """`specvet.evaluation.paired.compare`."""
    left_out: int
    """Questions that only one of them was asked."""

    @cached_property
    def names(self) -> tuple[str, str]:
        """What to call the two: labels, with seed and folder as far as it takes to tell them apart."""
        a, b = self.a, self.b
        if a.label != b.label:
            return a.label, b.label
        if a.record.seed != b.record.seed:
            return f"{a.label}, seed {a.record.seed}", f"{b.label}, seed {b.record.seed}"
        return (a.name, b.name) if a.name != b.name else (str(a.path), str(b.path))

    def of(self, side: Side) -> list[Pair]:
        """The pairs of one side, the worst error first."""
        return sorted((p for p in self.pairs if p.side == side), key=lambda p: min(map(badness, p.errors)))

    @property
    def by_task(self) -> dict[str, dict[str, int]]:
        """Task → side → how many; `both` where both are right."""
        counts: dict[str, dict[str, int]] = {}
        for pair in self.pairs:
            of_task = counts.setdefault(pair.a.task, dict.fromkeys(("both", *SIDES), 0))
            of_task[pair.side or "both"] += 1
        return dict(sorted(counts.items()))


def certainty(outcome: Outcome) -> float | None:
    """The probability (0-1) with which a policy said what it said; None without an answer or a probability."""
    if outcome.said is None or outcome.p_yes is None:
        return None
    return outcome.p_yes if outcome.said == "YES" else 1.0 - outcome.p_yes


def badness(error: Outcome) -> tuple[int, float, bool, str]:
    """What errors are sorted by: stated and most certain, stated without a probability, no answer at all; among equals
    a member of the class that was missed before a stranger that was let in."""
    sure = certainty(error)
    rank = 2 if error.said is None else 1 if sure is None else 0
    return rank, -(sure or 0.0), error.truth == "NO", error.id


def meet(a: Cell, b: Cell, rule: str, *, replicates: int = 2_000, seed: int = 0) -> Meeting:
    """Two cells on the questions that both were asked.

    Raises ValueError where there is none, or where one id stands for two questions; OSError, KeyError, LedgerError for
    rows that cannot be read.
    """
    of_a, of_b = a.outcomes(rule), b.outcomes(rule)
    pairs = _paired(of_a, of_b)
    if not pairs:
        raise ValueError(f"{a.name} and {b.name} were asked no question of the same id; compare cells of one set")
    return Meeting(
        a=a,
        b=b,
        rule=rule,
        pairs=tuple(pairs),
        numbers=compare([p.a for p in pairs], [p.b for p in pairs], replicates=replicates, seed=seed),
        left_out=len(of_a) + len(of_b) - 2 * len(pairs),
    )


def _paired(of_a: Sequence[Outcome], of_b: Sequence[Outcome]) -> list[Pair]:
    by_id = {o.id: o for o in of_b}
    return [Pair(o, by_id[o.id]) for o in of_a if o.id in by_id]
