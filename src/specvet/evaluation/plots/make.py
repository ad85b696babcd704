"""Makes the figures of a campaign, one after the other, and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.plots.bars import comparison, tasks
from specvet.evaluation.plots.confidence import reliability, risk
from specvet.evaluation.plots.confusers import confusers
from specvet.evaluation.plots.page import FORMATS, figure_bytes, style
from specvet.evaluation.plots.shown import KINDS, Shown, measured_sets, shown
from specvet.evaluation.plots.windows import windows
from specvet.records import write_atomic

DRAWING: dict[str, Callable[[Shown, bool], Any]] = {
    "comparison": comparison,
    "tasks": tasks,
    "confusers": lambda shown, _: confusers(shown),
    "reliability": lambda shown, _: reliability(shown),
    "risk": lambda shown, _: risk(shown),
    "windows": lambda shown, _: windows(shown),
}
WHAT = {
    "comparison": "accuracy, macro F1, format and correct answers",
    "tasks": "F1, precision and recall by task",
    "confusers": "share of wrong answers by what the object is",
    "reliability": "how often answers are right beside their confidence",
    "risk": "share of wrong answers beside the share of questions answered",
    "windows": "where policies looked beside the tasks' key windows",
}
"""For people who cannot see a figure."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure, or why there is none."""

    kind: str
    set: str
    figure: Any
    """`matplotlib.figure.Figure`; None where nothing was measured that could be drawn."""
    why: str = ""
    """There is none."""

    @property
    def alt(self) -> str:
        """Words for those who cannot see it."""
        return f"{WHAT[self.kind][0].upper()}{WHAT[self.kind][1:]}, on the set {self.set}."


def figures(
    folder: CampaignFolder,
    *,
    sets: Sequence[str] | None = None,
    kinds: Sequence[str] = KINDS,
    beside: bool = False,
) -> Iterator[Drawn]:
    """The figures of a campaign, set by set. `beside`: with published results in those that have a place for them.

    Raises InputError for a set on which nothing was measured, OSError, ValueError for numbers that cannot be read.
    """
    import matplotlib as mpl

    for name in sets or measured_sets(folder):
        found = shown(folder, name)
        for kind in kinds:
            with mpl.rc_context(style()):
                made = DRAWING[kind](found, beside)
            yield Drawn(kind, name, None, made) if isinstance(made, str) else Drawn(kind, name, made)


def plot_campaign(
    folder: CampaignFolder,
    out: Path,
    *,
    sets: Sequence[str] | None = None,
    kinds: Sequence[str] = KINDS,
    beside: bool = False,
    formats: Sequence[str] = FORMATS,
) -> Iterator[tuple[Drawn, list[Path]]]:
    """Draw into `out`, as `SET-KIND.png`: each figure with the files it was written to. Raises as `figures`."""
    for drawn in figures(folder, sets=sets, kinds=kinds, beside=beside):
        written = []
        if drawn.figure is not None:
            out.mkdir(parents=True, exist_ok=True)
            for form in formats:
                path = out / f"{drawn.set}-{drawn.kind}.{form}"
                write_atomic(path, figure_bytes(drawn.figure, form))
                written.append(path)
        yield drawn, written
