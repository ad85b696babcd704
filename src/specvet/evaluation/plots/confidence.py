"""What a policy's probability of YES is worth: reliability, and risk against coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specvet.evaluation.intervals import clopper_pearson
from specvet.evaluation.plots.page import GREY, INK, MARGIN, SMALL, Page, titled, wrapped
from specvet.evaluation.plots.shown import Entry, Numbers, Shown, in_words

NO_CONFIDENCE = "no policy gives a probability of YES for its answers"


def reliability(shown: Shown) -> Any:
    """How often the likelier answer is right beside its confidence, a panel a policy; or why there is none."""
    drawn = [entry for entry in shown.entries if entry.having("reliability")]
    if not drawn:
        return NO_CONFIDENCE
    size, left, right, head, foot = 2.2, 0.55, 0.25, 0.62, 0.55
    rows = -(-len(drawn) // 5)
    columns = -(-len(drawn) // rows)
    width = 2 * MARGIN + max(columns, 3) * (left + size + right)
    notes = [
        "A point: one of up to 15 bins of equally many questions, by the confidence of the likelier answer, "
        "max(p, 1 − p). Whiskers: 95 % interval (Clopper-Pearson); without them: the points of several seeds. "
        "On the dotted line confidence is what it says; below it, it is too high." + _without(shown.entries, drawn)
    ]
    page = Page(width, rows * (head + size + foot), shown.title("reliability"), [shown.about], notes)
    for i, entry in enumerate(drawn):
        at = (MARGIN + left + i % columns * (left + size + right), head + i // columns * (head + size + foot))
        axes = page.axes(*at, size, size)
        _reliable(axes, entry)
        if i % columns == 0:
            axes.set_ylabel("right, %", fontsize=SMALL + 1, color=INK)
        axes.set_xlabel("confidence, %", fontsize=SMALL + 1, color=INK)
    return page.figure


def _reliable(axes: Any, entry: Entry) -> None:
    cells = entry.having("reliability")
    ece = entry.share(lambda m: _ranking(m).get("ece"))
    asked = sum(part["n"] for part in cells[0]["reliability"])
    titled(
        axes,
        wrapped(entry.label, 34),
        f"ECE {in_words(ece)} %; n = {asked:,}" + (f" × {len(cells)} seeds" if len(cells) > 1 else ""),
    )
    axes.set_xlim(48, 102)
    axes.set_ylim(-2, 102)
    axes.plot([50, 100], [50, 100], color=GREY, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    for numbers in cells:
        bins = [part for part in numbers["reliability"] if part["n"]]
        x = 100 * np.array([part["confidence"] for part in bins])
        y = 100 * np.array([part["accuracy"] for part in bins])
        if len(cells) == 1:
            for at, part in zip(x, bins, strict=True):
                low, high = _interval(part)
                axes.plot([at, at], [low, high], color=entry.look.colour, linewidth=0.8, zorder=2)
        joined = entry.look.line if len(cells) == 1 else "none"
        line = {"color": entry.look.colour, "linestyle": joined, "linewidth": 0.8, "markersize": 4.5}
        axes.plot(x, y, zorder=3, clip_on=False, gid=entry.slug, **line, **entry.look.points)


def risk(shown: Shown) -> Any:
    """The share of wrong answers among the most confident, against how many those are; or why there is none."""
    drawn = [entry for entry in shown.entries if entry.having("risk_coverage")]
    single = [entry for entry in shown.entries if entry not in drawn and _selected(entry)]
    if not drawn:
        return NO_CONFIDENCE
    width, height, left, room = 10.4, 4.2, 0.65, 3.3
    notes = [
        "Questions are taken by the confidence of their answers, max(p, 1 − p), those without an answer last, as "
        "errors; risk is the share of errors among those taken. AURC: area under the curve (95 % interval over "
        "objects, or ± sample standard deviation over seeds). Thin lines: the seeds of a policy, whose mean the "
        "thick one is. A lone marker: a policy without probabilities, at the share that it answered."
    ]
    page = Page(width, height + 0.35 + 0.55, shown.title("risk and coverage"), [shown.about], notes)
    axes = page.axes(MARGIN + left, 0.35, width - 2 * MARGIN - left - room, height)
    titled(axes, f"n = {int(shown.entries[0].numbers[0]['questions']):,} questions")
    handles, labels, top = [], [], 0.0
    for place, entry in enumerate(drawn):
        top = max(top, _curve(axes, entry, place, len(drawn)))
        line = {"color": entry.look.colour, "linestyle": entry.look.line, "linewidth": 1.6, "markersize": 5.5}
        handles.append(_handle(**line, **entry.look.points))
        aurc = entry.share(lambda m: _ranking(m).get("aurc"))
        labels.append(f"{wrapped(entry.label, 34)}\nAURC {in_words(aurc)} %")
    for entry in single:
        x, y = _selected(entry)[0]
        axes.plot(
            [x], [y], linestyle="none", markersize=8, zorder=5, clip_on=False, gid=entry.slug, **entry.look.points
        )
        handles.append(_handle(linestyle="none", markersize=8, **entry.look.points))
        labels.append(wrapped(entry.label, 34) + f"\nanswers {x:.0f} %, of them {y:.1f} % wrong")
        top = max(top, y)
    axes.set_xlim(0, 100)
    top = min(100.0, 10 * np.ceil(top / 10 + 0.2))
    axes.set_ylim(-0.015 * top, top)
    axes.set_xlabel("coverage: questions answered, %", fontsize=SMALL + 1, color=INK)
    axes.set_ylabel("risk: wrong among them, %", fontsize=SMALL + 1, color=INK)
    page.legend(width - MARGIN - room + 0.25, 0.35, handles, labels, 1)
    return page.figure


def _curve(axes: Any, entry: Entry, place: int, of: int) -> float:
    """Draw a policy's curve; its highest risk beyond the first questions, in percent."""
    curves = [
        (100 * np.array(m["risk_coverage"]["coverage"], float), 100 * np.array(m["risk_coverage"]["risk"], float))
        for m in entry.having("risk_coverage")
    ]
    x = curves[0][0]
    y = np.mean([np.interp(x, *curve) for curve in curves], axis=0)
    if len(curves) > 1:
        for curve in curves:
            axes.plot(*curve, color=entry.look.colour, linewidth=0.5, alpha=0.5, zorder=2)
    # Markers of the policies stand at different places, so that none hides another where curves meet.
    marks = [int(i) for i in (np.arange(6) + (place + 1) / (of + 1)) / 6 * (x.size - 1)]
    line = {"color": entry.look.colour, "linestyle": entry.look.line, "linewidth": 1.6, "markersize": 5.5}
    axes.plot(x, y, zorder=3, markevery=marks, gid=entry.slug, **line, **entry.look.points)
    settled = y[x >= 5]
    return float(settled.max()) if settled.size else float(y.max())


def _handle(**how: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], **how)


def _selected(entry: Entry) -> list[tuple[float, float]]:
    """(coverage, risk) among the answered questions in percent, mean over seeds; empty where nothing was answered."""
    covered = entry.share(lambda m: m["decisions"]["selective"]["coverage"])
    right = entry.share(lambda m: m["decisions"]["selective"]["accuracy"])
    return [] if covered.value is None or right.value is None else [(covered.value, 100 - right.value)]


def _ranking(numbers: Numbers) -> Mapping[str, Any]:
    return numbers["ranking"].get("all") or {}


def _interval(part: Mapping[str, Any]) -> tuple[float, float]:
    """95 % interval of a bin's share in percent."""
    low, high = clopper_pearson(round(part["accuracy"] * part["n"]), part["n"])
    return 100 * low, 100 * high


def _without(entries: Sequence[Entry], drawn: Sequence[Entry]) -> str:
    names = [entry.label for entry in entries if entry not in drawn]
    return f" Without probabilities: {', '.join(names)}." if names else ""
