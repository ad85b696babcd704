"""Figures of a table of stages: what each brought, what it gained over another, how it looked; and training curves."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specvet.evaluation.plots.page import GREY, INK, MARGIN, SMALL, Look, Page, figure_bytes, look, style, titled
from specvet.evaluation.stages.plan import StagesPlan

WIDTH = 11.6
_LABELS = 1.9
"""Room for the names of rows, in inches."""
_ROW = 0.34
_PANELS = (
    ("macro_f1", "Macro F1", "%"),
    ("accuracy", "Accuracy", "%"),
    ("format", "Format", "%"),
    ("calls", "Calls", ""),
)
_GAINS = (
    ("macro_f1", "Macro F1", "points"),
    ("low_snr_macro_f1", "Macro F1 at low S/N", "points"),
    ("calls", "Calls", ""),
)
_CALLS = ("class", "truth", "S/N")

Numbers = Mapping[str, Any]


def figures(plan: StagesPlan, told: Numbers, runs: Mapping[str, Sequence[Path]]) -> Iterator[tuple[str, str, bytes]]:
    """(file name, what it shows, PNG) of each set, and of each group of `runs`. Raises ValueError (MetricsError)."""
    import matplotlib as mpl

    for name, numbers in told["sets"].items():
        with mpl.rc_context(style()):
            figure = _set(plan, name, numbers)
        yield f"{name}.png", f"What each stage brought, on {name}.", figure_bytes(figure, "png")
    data = " on SIMULATED spectra" if "SIMULATED" in plan.about else ""
    for name, folders in runs.items():
        title = f"{plan.name}: {name}{data}"
        yield f"curve-{_slug(name)}.png", f"Training curves: {name}{data}.", _curves(title, folders)


def _curves(title: str, folders: Sequence[Path]) -> bytes:
    from specvet.training.plot import plot_runs

    with tempfile.TemporaryDirectory() as place:
        return plot_runs(folders, Path(place) / "curve.png", title=title).read_bytes()


def _set(plan: StagesPlan, name: str, numbers: Numbers) -> Any:
    rows, gains = list(numbers["stages"]), numbers["differences"]
    shown = [row for row in rows if row in (plan.conduct or rows)]
    heights = [0.5 + _ROW * len(rows), 0.5 + _ROW * len(gains) if gains else 0.0, 2.3]
    tops = [0.1, 0.1 + heights[0] + 0.5, 0.1 + heights[0] + 0.5 + (heights[1] + 0.5 if gains else 0.0)]
    about = f"{plan.about} {numbers['questions']:,} questions about {numbers['objects']:,} objects."
    notes = (
        "Each mark is a seed, its whisker the 95 % interval over objects; bars are means over seeds. Gains are paired: "
        "the same questions, and the same objects in each resample.",
        f"Low S/N: below {numbers['low_snr']['below']:g}, {numbers['low_snr']['questions']:,} questions.",
    )
    page = Page(WIDTH, sum(heights) + 1.1, f"{plan.name}: what each stage brought, {name}", [about], notes)
    looks = {row: look(place) for place, row in enumerate(rows)}
    _stages(page, plan, numbers, rows, looks, tops[0] + 0.4)
    if gains:
        _gained(page, gains, tops[1] + 0.4)
    _conduct(page, plan, numbers, shown, looks, tops[2] + 0.4)
    return page.figure


def _stages(
    page: Page, plan: StagesPlan, numbers: Numbers, rows: Sequence[str], looks: Mapping[str, Look], top: float
) -> None:
    for axes, (measure, title, unit) in _side_by_side(page, _PANELS, top, len(rows), rows):
        scale = 100.0 if unit == "%" else 1.0
        for y, row in enumerate(rows):
            models = [numbers["models"][m] for m in plan.stages[row] if m in numbers["models"]]
            mean = numbers["stages"][row][measure]["mean"]
            if mean is not None:
                axes.barh(y, scale * mean, height=0.62, zorder=1, **looks[row].bar)
            _marks(axes, y, [model[measure] for model in models], scale)
        axes.set_xlim(0, 100 if unit == "%" else None)
        titled(axes, title, unit and f"{unit} of all questions" if measure != "macro_f1" else "%, mean F1 of YES")


def _gained(page: Page, gains: Sequence[Numbers], top: float) -> None:
    names = [f"{pair['of']} − {pair['over']}" for pair in gains]
    for axes, (measure, title, unit) in _side_by_side(page, _GAINS, top, len(gains), names, 3.4):
        scale = 100.0 if unit else 1.0
        axes.axvline(0, color=GREY, linewidth=0.9, zorder=0.5)
        for y, pair in enumerate(gains):
            if (mean := pair["mean"][measure]["value"]) is not None:
                axes.plot([scale * mean] * 2, [y - 0.34, y + 0.34], color="#D55E00", linewidth=2.2, zorder=2)
            _marks(axes, y, [one[measure] for one in pair["seeds"]], scale)
        titled(axes, f"Gain: {title}", unit or "a question")


def _conduct(
    page: Page, plan: StagesPlan, numbers: Numbers, rows: Sequence[str], looks: Mapping[str, Look], top: float
) -> None:
    """Mean calls of the rows by group: a line a row, the mean over its seeds, with each seed as a mark."""
    from matplotlib.lines import Line2D

    width = (WIDTH - 2 * MARGIN - 0.5 - 0.5 * (len(_CALLS) - 1)) / len(_CALLS)
    for i, by in enumerate(_CALLS):
        axes = page.axes(MARGIN + 0.4 + i * (width + 0.5), top, width, 1.6)
        for shift, row in enumerate(rows):
            models = [numbers["models"][m] for m in plan.stages[row] if m in numbers["models"]]
            groups = list(dict.fromkeys(name for model in models for name in model["calls_by"][by]))
            x = [place + 0.08 * (shift - (len(rows) - 1) / 2) for place in range(len(groups))]
            each = [[m["calls_by"][by].get(name, {}).get("calls", {}).get("value") for name in groups] for m in models]
            there = [[v for v in values if v is not None] for values in zip(*each, strict=True)]
            means = [sum(values) / len(values) for values in there]
            line, points = looks[row].line, looks[row].points
            axes.plot(x, means, color=looks[row].colour, linestyle=line, linewidth=1.3, markersize=5, **points)
            for values in each:
                axes.plot(x, [float("nan") if v is None else v for v in values], "_", color=looks[row].colour)
            axes.set_xticks(range(len(groups)), groups)
        axes.set_ylim(0, 1.15 * max(axes.get_ylim()[1], 0.1))
        titled(axes, f"Mean calls by {by}")
    handles = [
        Line2D([], [], color=looks[r].colour, linestyle=looks[r].line, linewidth=1.3, markersize=5, **looks[r].points)
        for r in rows
    ]
    page.legend(MARGIN + 0.4, top - 0.62, handles, rows, len(rows))


def _side_by_side(
    page: Page,
    panels: Sequence[tuple[str, str, str]],
    top: float,
    rows: int,
    names: Sequence[str],
    labels: float = _LABELS,
) -> Iterator[tuple[Any, tuple[str, str, str]]]:
    """Axes with the same rows, whose names stand left of the first."""
    from matplotlib.ticker import MaxNLocator

    gap = 0.4
    width = (WIDTH - 2 * MARGIN - labels - gap * (len(panels) - 1)) / len(panels)
    for i, panel in enumerate(panels):
        axes = page.axes(MARGIN + labels + i * (width + gap), top, width, _ROW * rows)
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_yticks(range(rows), names if i == 0 else [""] * rows)
        for text in axes.get_yticklabels():
            text.set_parse_math(False)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        yield axes, panel


def _marks(axes: Any, y: int, found: Sequence[Numbers], scale: float) -> None:
    """A mark and a whisker each, side by side."""
    for place, one in enumerate(found):
        if one["value"] is None:
            continue
        at = y + 0.2 * (place - (len(found) - 1) / 2)
        if one["low"] is not None and one["high"] is not None:
            axes.plot([scale * one["low"], scale * one["high"]], [at, at], color=INK, linewidth=0.8, zorder=3)
        axes.plot(scale * one["value"], at, "o", color=INK, markersize=SMALL / 2.6, zorder=4)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
