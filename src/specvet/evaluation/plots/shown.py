"""What is drawn: the numbers of each policy on one set, of one seed or several."""

from __future__ import annotations

import statistics
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.plots.page import MARGIN, Look, Page, look
from specvet.evaluation.published import Published
from specvet.evaluation.sets import SetRecord
from specvet.tasks import Task

KINDS = ("comparison", "tasks", "confusers", "reliability", "risk", "windows")
"""Kinds of figures."""

Numbers = Mapping[str, Any]
"""A cell's `metrics.json`."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A number with its uncertainty; None where it could not be measured. Of shares in percent."""

    value: float | None
    """Of one seed, or the mean over seeds."""
    low: float | None = None
    high: float | None = None
    over_seeds: bool = False
    """Whether low and high are ± one sample standard deviation over seeds; otherwise a 95 % interval of one seed."""
    each: tuple[float, ...] = ()
    """By seed, where there are several."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy on a set."""

    slug: str
    label: str
    look: Look
    seeds: tuple[int | None, ...]
    numbers: tuple[Numbers, ...]
    """By seed."""

    def share(self, get: Callable[[Numbers], Any]) -> Spread:
        """A share in percent. `get` takes from a cell's numbers an interval, a plain number or None."""
        return self._spread([get(numbers) for numbers in self.numbers], 100.0)

    def count(self, get: Callable[[Numbers], Any]) -> Spread:
        """A count."""
        return self._spread([get(numbers) for numbers in self.numbers], 1.0)

    def having(self, key: str) -> list[Numbers]:
        """Those of its cells that have something under `key`."""
        return [numbers for numbers in self.numbers if numbers.get(key)]

    def _spread(self, found: Sequence[Any], scale: float) -> Spread:
        parts = [one if isinstance(one, Mapping) else {"value": one} for one in found]
        values = [scale * part["value"] for part in parts if part["value"] is not None]
        if not values:
            return Spread(None)
        if len(found) == 1:
            low, high = (None if (end := parts[0].get(name)) is None else scale * end for name in ("low", "high"))
            return Spread(values[0], low, high)
        mean = statistics.fmean(values)
        off = statistics.stdev(values) if len(values) > 1 else None
        low, high = (None, None) if off is None else (mean - off, mean + off)
        return Spread(mean, low, high, over_seeds=True, each=tuple(values))


@dataclass(frozen=True, slots=True)
class Shown:
    """One set of a campaign, with all that was measured on it."""

    campaign: str
    set: SetRecord
    entries: tuple[Entry, ...]
    tasks: Mapping[str, Task]
    """As they were asked."""
    label_sources: frozenset[str] = frozenset()
    """Where the set's answers come from, in the words of its questions."""

    @property
    def questions_of(self) -> dict[str, int]:
        """Task → its questions."""
        return {key: int(task["n"]) for key, task in self.entries[0].numbers[0]["tasks"].items()}

    @property
    def simulated(self) -> bool:
        """Whether spectra are, by the recipe or by what their files say."""
        told = (m.get("simulated") for entry in self.entries for m in entry.numbers)
        labelled = any("simulated" in source.lower() for source in self.label_sources)
        return labelled or bool(self.set.about.get("simulated")) or any(told)

    def caveat(self, source: Published) -> str:
        """What has to stand where these published results do, beside those on this set."""
        return source.caveat(same=not self.simulated and self.questions_of == source.questions_of)

    @property
    def about(self) -> str:
        """A line about the data, for the head of every figure."""
        first = self.entries[0].numbers[0]
        seeds = sorted({seed for entry in self.entries for seed in entry.seeds if seed is not None})
        parts = [
            f"{'SIMULATED spectra, ' if self.simulated else ''}{first['questions']:,} questions about "
            f"{first['objects']:,} objects",
            f"answers read by {first['rule']}",
        ]
        if seeds:
            parts.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
        return f"Set {self.set.slug}: " + "; ".join(parts)

    def title(self, what: str) -> str:
        return f"{self.campaign}: {what}"


def shown(folder: CampaignFolder, name: str) -> Shown:
    """What the campaign measured on a set. Raises InputError for a set without sealed cells, OSError, ValueError."""
    cells = [cell for cell in folder.current() if cell.record.set == name]
    if not cells:
        raise InputError(f"{folder.path}: nothing has been measured on {name!r} yet; see specvet eval status")
    places = {slug: i for i, slug in enumerate(folder.policies)}
    slugs = dict.fromkeys(cell.record.policy for cell in cells)
    entries = []
    for slug in slugs:
        own = [cell for cell in cells if cell.record.policy == slug]
        seeds = tuple(cell.record.seed for cell in own)
        numbers = tuple(_numbers(cell) for cell in own)
        entries.append(Entry(slug, folder.policies[slug].label, look(places[slug]), seeds, numbers))
    tasks = {key: task for cell in cells for key, task in cell.tasks.items()}
    asked = folder.sets[name]
    sources = frozenset(q.question.label_source or "" for q in asked.questions)
    return Shown(folder.campaign.name, asked.record, tuple(entries), tasks, sources)


def _numbers(cell: Cell) -> Numbers:
    try:
        return cell.metrics()
    except (OSError, ValueError) as e:
        raise InputError(f"{cell.path}: its numbers cannot be read ({e}); see specvet eval verify") from None


def measured_sets(folder: CampaignFolder) -> list[str]:
    """Sets on which something has been measured, in the order of the campaign. Raises InputError, OSError."""
    try:
        found = dict.fromkeys(cell.record.set for cell in folder.current())
    except FileNotFoundError:
        found = {}
    if not found:
        raise InputError(f"{folder.path}: no cell of this campaign is finished; see specvet eval status {folder.path}")
    return list(found)


def in_words(cell: Spread, digits: int = 1) -> str:
    """`71.7 (66.0–76.8)`, `71.7 ± 0.4` over seeds, `71.7` where there is no more to say, a dash for nothing."""
    if cell.value is None:
        return "–"
    value = f"{cell.value:.{digits}f}"
    if cell.low is None or cell.high is None:
        return value
    if cell.over_seeds:
        return f"{value} ± {cell.value - cell.low:.{digits}f}"
    return f"{value} ({cell.low:.{digits}f}–{cell.high:.{digits}f})"


def whiskers_note(spreads: Sequence[Spread]) -> str:
    """What the whiskers are, for the foot of a figure."""
    parts = []
    if any(s.low is not None and not s.over_seeds for s in spreads):
        parts.append("Thin whiskers: 95 % interval of a single run, over objects.")
    if any(s.over_seeds for s in spreads):
        parts.append(
            "Thick whiskers: mean ± sample standard deviation over seeds, on the same objects; dots: each seed."
        )
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class PoliciesLegend:
    """Which line and marker, or which letter, is whose, above the panels."""

    entries: tuple[Entry, ...]
    columns: int
    height: float
    """In inches."""

    def draw(self, page: Page) -> None:
        """With lines and markers."""
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], color=e.look.colour, linestyle=e.look.line, linewidth=1.3, markersize=5, **e.look.points)
            for e in self.entries
        ]
        page.legend(MARGIN, 0.02, handles, [entry.label for entry in self.entries], self.columns)

    def letter(self, page: Page) -> None:
        """With letters, each on its own line by columns, as the other one has it."""
        rows = -(-len(self.entries) // self.columns)
        width = (page.width - 2 * MARGIN) / self.columns
        for i, entry in enumerate(self.entries):
            left, top = MARGIN + i // rows * width, 0.1 + 0.2 * (i % rows)
            page.text(left, top, letter(i), fontweight="bold")
            page.text(left + 0.25, top, entry.label)


def letter(place: int) -> str:
    """A, B, …, Z, A2, …"""
    return string.ascii_uppercase[place % 26] + (str(place // 26 + 1) if place >= 26 else "")


def policies_legend(entries: Sequence[Entry], width: float) -> PoliciesLegend:
    """A legend that fits a page of this width, in inches."""
    longest = max(len(entry.label) for entry in entries)
    columns = max(1, min(len(entries), int((width - 2 * MARGIN) / (0.75 + 0.075 * longest))))
    return PoliciesLegend(tuple(entries), columns, 0.12 + 0.2 * -(-len(entries) // columns))
