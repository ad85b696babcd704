"""What deceived: the share of wrong answers by what the object is, a table of greys for each task."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specvet.evaluation.plots.page import GREY, INK, MARGIN, SMALL, Page, titled, wrapped
from specvet.evaluation.plots.shown import Entry, Shown, Spread, letter, policies_legend

MOST = 14
"""Kinds of a task that are drawn; the panel says how many there are."""
_WIDTH, _LABELS, _GAP = 13.4, 1.9, 0.3
_CELL, _ROW = 0.53, 0.31
"""Width and height of a cell, in inches."""
_HEAD, _FOOT = 0.75, 0.25
"""Room above and below a table."""


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    n: int
    truth: str
    wrong: Sequence[Spread]
    """By policy."""

    @property
    def label(self) -> str:
        return wrapped(f"{self.name} ({self.n:,}{'; YES and NO' if self.truth == 'both' else ''})", 32)

    @property
    def errors(self) -> float:
        """How many questions went wrong, mean over the policies."""
        values = [one.value for one in self.wrong if one.value is not None]
        return self.n * statistics.fmean(values) if values else 0.0


def confusers(shown: Shown) -> Any:
    """The figure; or why there is none."""
    found = {key: kinds for key in shown.questions_of if (kinds := _kinds(shown.entries, key))}
    if not found:
        return "the set does not tell what its objects are (facts with a column kind)"
    inner = _CELL * len(shown.entries)
    step = _LABELS + max(inner, 1.8) + _GAP  # the words above a narrow table
    columns = max(1, min(len(found), int((_WIDTH - 2 * MARGIN + _GAP) / step)))
    keys = list(found)
    bands = [keys[i : i + columns] for i in range(0, len(keys), columns)]
    heights = [_HEAD + _ROW * max(min(MOST, len(found[key])) for key in band) + _FOOT for band in bands]
    width = max(6.5, 2 * MARGIN + columns * step - _GAP)
    legend = policies_legend(shown.entries, width)
    notes = [
        "Wrong: a NO that was taken for the class, a YES (bold) that was not, and either without an answer. In "
        "brackets: how many questions. Kinds with most errors come first, and those with fewest go where there are too "
        "many. Below a share: its 95 % interval (Clopper-Pearson), or with ± the sample standard deviation over seeds. "
        "The darker, the more went wrong."
    ]
    page = Page(width, legend.height + sum(heights), shown.title("wrong answers by kind"), [shown.about], notes)
    legend.letter(page)
    top = legend.height
    for band, height in zip(bands, heights, strict=True):
        for i, key in enumerate(band):
            chosen = _chosen(found[key])
            axes = page.axes(MARGIN + i * step + _LABELS, top + _HEAD, inner, _ROW * len(chosen))
            few = len(chosen) < len(found[key])
            count = f"{len(chosen)} of {len(found[key])} kinds" if few else "by kind of object"
            titled(axes, f"{key} (n = {shown.questions_of[key]:,})", f"wrong, %; {count}", rise=14)
            _table(axes, chosen, len(shown.entries))
        top += height
    return page.figure


def _kinds(entries: Sequence[Entry], key: str) -> list[_Kind]:
    first: Mapping[str, Any] = entries[0].numbers[0]["confusers"].get(key) or {}
    found = []
    for name, told in first.items():
        wrong = [_wrong(entry, key, name) for entry in entries]
        found.append(_Kind(name, int(told["n"]), str(told["truth"]), wrong))
    return found


def _wrong(entry: Entry, key: str, name: str) -> Spread:
    return entry.share(lambda m: m["confusers"][key][name]["wrong"])


def _chosen(kinds: Sequence[_Kind]) -> list[_Kind]:
    """Those with most errors: the NOs, those that hold both, the YESes."""
    most = sorted(kinds, key=lambda kind: (-kind.errors, -kind.n, kind.name))[:MOST]
    return sorted(most, key=lambda kind: ("NO", "both", "YES").index(kind.truth))


def _table(axes: Any, kinds: Sequence[_Kind], columns: int) -> None:
    from matplotlib.patches import Rectangle

    axes.grid(False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xticks(range(columns), [letter(i) for i in range(columns)], fontweight="bold")
    axes.tick_params(axis="both", length=0, labeltop=True, labelbottom=False, pad=2)
    axes.set_yticks(range(len(kinds)), [kind.label for kind in kinds], fontsize=SMALL)
    for label, kind in zip(axes.get_yticklabels(), kinds, strict=True):
        label.set_parse_math(False)
        label.set_fontweight("bold" if kind.truth == "YES" else "normal")
    for y, kind in enumerate(kinds):
        if y and kind.truth != kinds[y - 1].truth:
            axes.axhline(y - 0.5, color=INK, linewidth=1.4, zorder=4)
        for x, cell in enumerate(kind.wrong):
            share = 0.0 if cell.value is None else cell.value / 100
            grey = str(round(1 - 0.72 * share, 3))
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=grey, edgecolor=GREY, linewidth=0.5, zorder=2))
            ink = {"color": "white" if share > 0.7 else INK, "ha": "center", "zorder": 3}
            below = _below(cell)
            main = "–" if cell.value is None else f"{cell.value:.0f}"
            axes.text(x, y + (0.04 if below else 0.0), main, va="bottom" if below else "center", fontsize=8.5, **ink)
            axes.text(x, y + 0.08, below, va="top", fontsize=5.8, **ink)


def _below(cell: Spread) -> str:
    """The uncertainty of a cell: `7–70`, `± 4`."""
    if cell.value is None or cell.low is None or cell.high is None:
        return ""
    return f"± {cell.high - cell.value:.0f}" if cell.over_seeds else f"{cell.low:.0f}–{cell.high:.0f}"
