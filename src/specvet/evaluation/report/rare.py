"""What the answers mean where members are rare, in the words of those who look: looks, finds, looks per find."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specvet.evaluation.plots.shown import Entry, Shown
from specvet.evaluation.report import words
from specvet.evaluation.report.tables import Table, task_name, under

RATES = (("0.002", "0.2 %", 2), ("0.02", "2 %", 20))
"""(key, in words, members of 1,000) of the prevalences that are told of."""

NOTE = (
    "A look is whatever goes to a person: YES, UNSURE, NO_DATA, FAILED and ERROR. A find is a member among them; few "
    "looks per find are worth little where few members are found. "
    "Looking at everything takes 500 looks a find at 0.2 %, 50 at 2 %. The set's own share of members is far higher, "
    "so its precision is not what a survey would see; these numbers are, as far as the survey's other objects are like "
    "the set's. Bounds are exact, from the counts of members and of others; a dash: no member was among the looks."
)


@dataclass(frozen=True, slots=True)
class Rare:
    """A policy on a task at one prevalence, of 1,000 candidates; means over seeds."""

    looks: float
    finds: float

    @property
    def per_find(self) -> float | None:
        return self.looks / self.finds if self.finds else None


def rare_of(entry: Entry, rate: str, task: str) -> Rare | None:
    """None where the set has no members or no others of the class."""
    found = [under("prevalence", rate, task)(m) for m in entry.numbers]
    there = [one for one in found if one and one["looks_per_1000"]["value"] is not None]
    if not there:
        return None
    return Rare(
        looks=statistics.fmean(one["looks_per_1000"]["value"] for one in there),
        finds=statistics.fmean(_finds(one) for one in there),
    )


def _finds(one: Mapping[str, Any]) -> float:
    """Among 1,000; looks without a find have no number of looks per find."""
    per_find = one["looks_per_find"]["value"]
    return one["looks_per_1000"]["value"] / per_find if per_find else 0.0


def rare_table(shown: Shown) -> Table | None:
    """Precision, looks and looks per find of each policy and task; None where nothing of it can be said."""
    rows = []
    for key in shown.questions_of:
        for entry in shown.entries:
            cells: list[str] = []
            for rate, _, _ in RATES:
                found = rare_of(entry, rate, key)
                precision = words.spread(entry.share(under("prevalence", rate, key, "precision")))
                looks, finds = (words.NONE,) * 2 if found is None else (_about(found.looks), f"{found.finds:.2g}")
                cells += [precision, looks, finds, _per_find(entry, rate, key, found)]
            rows.append((task_name(shown, key), entry.label, *cells))
    if all(cell == words.NONE for row in rows for cell in row[2:]):
        return None
    head = ["class", "policy"]
    for _, said, members in RATES:
        head += [f"{said}: precision of YES, %", "looks in 1,000", f"finds of {members}", "looks per find"]
    return Table("Looks and finds", tuple(head), tuple(rows), (NOTE,), named=2)


def _per_find(entry: Entry, rate: str, key: str, found: Rare | None) -> str:
    if found is None or found.per_find is None:
        return words.NONE
    if len(entry.numbers) > 1:
        return words.number(found.per_find, 1)
    return words.spread(entry.count(under("prevalence", rate, key, "looks_per_find")), 1)


def readings(shown: Shown) -> Iterator[str]:
    """A sentence a policy at the lower prevalence: what it would send to a person, and what that person would find."""
    rate, said, members = RATES[0]
    for entry in shown.entries:
        found = {key: one for key in shown.questions_of if (one := rare_of(entry, rate, key)) is not None}
        hits = {key: one for key, one in found.items() if one.per_find is not None}
        if not found:
            continue
        if not hits:
            yield f"{entry.label} sends no member of any class to a person."
            continue
        order = sorted(hits, key=lambda key: hits[key].per_find or 0.0)
        best, worst = order[0], order[-1]
        first = hits[best]
        told = (
            f"{entry.label}: of 1,000 candidates of which {members} are of the class “{task_name(shown, best)}”"
            f" ({said}), it sends about {_about(first.looks)} to a person, who finds {first.finds:.2g} of the {members}"
            f" there: {_looks(entry, rate, best, first)}, where looking at everything takes {1_000 // members:,}."
        )
        if len(order) > 1:
            told += (
                f" That is its best class; its worst is “{task_name(shown, worst)}”:"
                f" {_looks(entry, rate, worst, hits[worst])}."
            )
        if missed := [task_name(shown, key) for key in found if key not in hits]:
            told += f" No find at all: {', '.join(missed)}."
        yield told


def _about(looks: float) -> str:
    """A number of looks in 1,000: two digits below 10, so that few are not told as none."""
    return f"{looks:.2g}" if looks < 10 else f"{looks:,.0f}"


def _looks(entry: Entry, rate: str, key: str, found: Rare) -> str:
    """`16.2 looks for a find (95 %: 9.1 to 31.0)`."""
    told = f"{found.per_find:,.1f} looks for a find"
    one = entry.numbers[0]["prevalence"][rate][key]["looks_per_find"]
    if len(entry.numbers) > 1 or one["low"] is None or one["high"] is None:
        return told
    return f"{told} (95 %: {one['low']:,.1f} to {one['high']:,.1f})"
