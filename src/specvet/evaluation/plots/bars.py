"""Bars, a policy a row: the four headline numbers, and F1 by task. What others published is a block of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specvet.evaluation.plots.page import (
    GREY,
    INK,
    MARGIN,
    OTHERS,
    SMALL,
    Look,
    Page,
    titled,
    wrapped,
)
from specvet.evaluation.plots.shown import Entry, Shown, Spread, in_words, whiskers_note
from specvet.evaluation.published import Published, PublishedResult, published

_LABELS = 1.95
"""Room for the rows' names, in inches."""
_NUMBERS = 1.22
"""Room for the numbers right of a panel."""
_HEAD = 0.5
"""Room for the titles of a block's panels."""
_FOOT = 0.34
"""Room for their ticks."""
_BLOCK = 0.36
"""Room for the line above a block."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """How the answers of a row divide, in questions."""

    right: Spread
    n: int
    none: float | None = None
    """Without an answer; None where it is not known how many of the wrong ones were."""


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    below: str
    cells: Sequence[Spread | _Parts]
    marks: Sequence[tuple[float | None, float | None]] = ()
    """Precision and recall by row."""


@dataclass(frozen=True, slots=True)
class _Block:
    rows: Sequence[tuple[str, Look]]
    columns: Sequence[_Column]
    head: str = ""
    """Above it."""
    digits: int = 1
    """Behind the point of its percentages."""

    def height(self, row: float) -> float:
        return (_BLOCK if self.head else 0) + _HEAD + row * len(self.rows) + _FOOT


def comparison(shown: Shown, beside: bool) -> Any:
    """Accuracy, macro F1, format and the count of correct answers of every policy; `beside`: with published ones."""
    n = int(shown.entries[0].numbers[0]["questions"])
    entries = shown.entries

    def column(title: str, below: str, key: str) -> _Column:
        return _Column(f"{title} (n = {n:,})", below, [e.share(lambda m: m["headline"][key]) for e in entries])

    tasks = len(shown.questions_of)
    columns = [
        column("Accuracy", "% of all questions; no answer is wrong", "accuracy"),
        column("Macro F1", f"%, mean F1 of YES of {tasks} task{'s' * (tasks != 1)}", "macro_f1"),
        column("Format", "% of trajectories in strict format", "format"),
        _Column(f"Correct (n = {n:,})", "questions", [_parts(entry) for entry in entries]),
    ]
    left_out = sorted({key for e in entries for m in e.numbers for key in m["headline"].get("left_out", ())})
    notes = [f"Not in macro F1, without a YES that is true or was said: {', '.join(left_out)}."] if left_out else []
    blocks = [_Block([(e.label, e.look) for e in entries], columns)]
    if beside:
        blocks += [_published_headlines(source, shown) for source in published()]
    page = _page(shown, "accuracy, macro F1, format, correct answers", blocks, 4, 1.72, 0.33, notes)
    return page.figure


def tasks(shown: Shown, beside: bool) -> Any:
    """F1 of YES by task, with precision and recall; `beside`: with published ones."""
    keys = list(shown.questions_of)
    columns = [_task_column(shown, key) for key in keys]
    rows = [(e.label, e.look) for e in shown.entries]
    blocks = [_Block(rows, columns[i : i + 5]) for i in range(0, len(columns), 5)]
    if beside:
        for source in published():
            results = [r for r in source.results if r.tasks]
            for i in range(0, len(keys), 5):
                own = [_published_task(source, results, key) for key in keys[i : i + 5] if key in source.questions_of]
                if own:
                    blocks.append(
                        _Block([(r.label, OTHERS) for r in results], own, shown.caveat(source), source.digits)
                    )
    note = "Bars: F1 of YES. P: precision, R: recall; one that is not drawn could not be measured."
    return _page(shown, "F1 by task", blocks, min(5, len(keys)), 1.3, 0.4, (note,)).figure


def _parts(entry: Entry) -> _Parts:
    def unanswered(numbers: Any) -> float:
        counts = (task["counts"] for task in numbers["tasks"].values())
        return float(sum(c["unanswered_yes"] + c["unanswered_no"] for c in counts))

    n = int(entry.numbers[0]["headline"]["correct"]["n"])
    return _Parts(entry.count(lambda m: m["headline"]["correct"]["k"]), n, entry.count(unanswered).value)


def _task_column(shown: Shown, key: str) -> _Column:
    first = shown.entries[0].numbers[0]["tasks"][key]
    task = shown.tasks.get(key)
    cells = [entry.share(lambda m: m["tasks"][key]["f1"]) for entry in shown.entries]
    marks = [
        (
            entry.share(lambda m: m["tasks"][key]["precision"]).value,
            entry.share(lambda m: m["tasks"][key]["recall"]).value,
        )
        for entry in shown.entries
    ]
    name = f"{task.name}: " if task else ""
    return _Column(f"{key} (n = {first['n']:,})", f"{name}{first['yes']:,} YES; F1, %", cells, marks)


def _published_headlines(source: Published, shown: Shown) -> _Block:
    def column(title: str, get: Callable[[PublishedResult], float | None]) -> _Column:
        return _Column(
            f"{title} (n = {source.questions:,})", "%; no interval printed", [Spread(get(r)) for r in source.results]
        )

    correct = [_Parts(Spread(r.correct), source.questions) for r in source.results]
    columns = [
        column("Accuracy", lambda r: r.accuracy),
        column("Macro F1", lambda r: r.macro_f1),
        column("Format", lambda r: r.format),
        _Column(f"Correct (n = {source.questions:,})", "questions", correct),
    ]
    return _Block([(r.label, OTHERS) for r in source.results], columns, shown.caveat(source), source.digits)


def _published_task(source: Published, results: Sequence[PublishedResult], key: str) -> _Column:
    cells = [Spread(r.tasks.get(key)) for r in results]
    return _Column(f"{key} (n = {source.questions_of[key]:,})", "F1 of YES, %", cells)


def _page(
    shown: Shown, what: str, blocks: Sequence[_Block], columns: int, plot: float, row: float, notes: Sequence[str]
) -> Page:
    """All blocks below each other; `plot` is a panel's width, `row` a row's height, in inches."""
    step = plot + _NUMBERS
    width = max(9.4, MARGIN + _LABELS + columns * step)  # the line above a block is that long
    every = [cell for block in blocks for column in block.columns for cell in column.cells]
    spreads = [cell.right if isinstance(cell, _Parts) else cell for cell in every]
    feet = [" ".join([*notes, whiskers_note(spreads)])]
    if any(isinstance(cell, _Parts) for cell in every):
        told = "Correct: the filled part is right, the hatched grey part wrong, the white part without an answer"
        beside = any(block.head for block in blocks)
        feet.append(told + ("; of published results, white is all that is not right." if beside else "."))
    if len(blocks) > 1 and any(block.head for block in blocks):
        other = "Grey: published by others, with no interval printed."
        feet.append(other + (" Ours are of simulated spectra, theirs of LAMOST's." if shown.simulated else ""))
    page = Page(width, sum(b.height(row) for b in blocks), shown.title(what), [shown.about], [f for f in feet if f])
    top = 0.0
    for block in blocks:
        if block.head:
            page.text(MARGIN, top + 0.16, block.head, fontsize=9, fontweight="bold")
            top += _BLOCK
        for i, column in enumerate(block.columns):
            axes = page.axes(MARGIN + _LABELS + i * step, top + _HEAD, plot, row * len(block.rows))
            _panel(axes, column, block)
        for i, (label, _) in enumerate(block.rows):
            y = top + _HEAD + row * (i + 0.5)
            page.text(MARGIN + _LABELS - 0.1, y, wrapped(label), ha="right", fontsize=SMALL + 0.5, linespacing=1.05)
        top += _HEAD + row * len(block.rows) + _FOOT
    return page


def _panel(axes: Any, column: _Column, block: _Block) -> None:
    rows = block.rows
    titled(axes, column.title, column.below)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(False, axis="y")
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 25, 50, 75, 100])
    for y, ((_, look), cell) in enumerate(zip(rows, column.cells, strict=True)):
        if isinstance(cell, _Parts):
            _counted(axes, y, cell, look)
            continue
        marks = column.marks[y] if column.marks else (None, None)
        lift = 0.14 if column.marks else 0.0
        _bar(axes, y - lift, cell, look, 0.5 if column.marks else 0.58)
        for letters, at in _lettered(*marks):
            axes.text(at, y + 0.31, letters, fontsize=6.5, color=INK, ha="center", va="center", zorder=5)
        _say(axes, y - lift, in_words(cell, block.digits))


def _lettered(precision: float | None, recall: float | None) -> list[tuple[str, float]]:
    """Letters and where they stand; both together where one would hide the other."""
    found = sorted((at, letter) for letter, at in (("P", precision), ("R", recall)) if at is not None)
    if len(found) == 2 and found[1][0] - found[0][0] < 7:
        return [("".join(letter for _, letter in found), (found[0][0] + found[1][0]) / 2)]
    return [(letter, at) for at, letter in found]


def _bar(axes: Any, y: float, cell: Spread, look: Look, height: float) -> None:
    if cell.value is None:
        return
    axes.barh(y, cell.value, height=height, zorder=2, **look.bar)
    _whisker(axes, y, cell)


def _whisker(axes: Any, y: float, cell: Spread) -> None:
    if cell.low is not None and cell.high is not None:
        width = 2.6 if cell.over_seeds else 1.0
        axes.plot([cell.low, cell.high], [y, y], color=INK, linewidth=width, solid_capstyle="butt", zorder=3)
        if not cell.over_seeds:
            ends = {"marker": "|", "markersize": 5, "markeredgewidth": 1.0, "color": INK, "linestyle": "none"}
            axes.plot([cell.low, cell.high], [y, y], zorder=3, clip_on=False, **ends)
    if cell.each:
        dots = {"marker": "o", "markersize": 3, "markerfacecolor": "white", "markeredgecolor": INK}
        axes.plot(
            cell.each, [y] * len(cell.each), linestyle="none", markeredgewidth=0.7, zorder=4, clip_on=False, **dots
        )


def _counted(axes: Any, y: float, cell: _Parts, look: Look) -> None:
    """Right, wrong and unanswered questions behind each other."""
    axes.set_xlim(0, 1.01 * cell.n)
    axes.set_xticks([0, cell.n / 2, cell.n] if cell.n % 2 == 0 else [0, cell.n])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    right = cell.right.value
    if right is None:
        _say(axes, y, "not printed")
        return
    axes.barh(y, cell.n, height=0.58, facecolor="white", edgecolor=GREY, linewidth=0.6, zorder=1)
    if cell.none is not None:
        wrong = {"facecolor": "#F0F0F0", "edgecolor": "#AAAAAA", "hatch": "\\\\\\\\\\", "linewidth": 0.6}
        axes.barh(y, cell.n - right - cell.none, left=right, height=0.58, zorder=1.5, **wrong)
    axes.barh(y, right, height=0.58, zorder=2, **look.bar)
    off = None if cell.right.low is None else right - cell.right.low
    _whisker(axes, y, cell.right)
    _say(axes, y, f"{right:,.0f}" if off is None and right == int(right) else f"{right:,.1f} ± {off or 0:.1f}")


def _say(axes: Any, y: float, text: str) -> None:
    axes.annotate(
        text, (1, y), (7, 0), xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=SMALL,
        color=INK, va="center", annotation_clip=False,
    )  # fmt: skip
