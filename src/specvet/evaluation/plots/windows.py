"""Where policies looked, in wavelength, above the windows that an expert would look at for the same task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.evaluation.plots.page import GREY, INK, MARGIN, SMALL, Page, titled
from specvet.evaluation.plots.shown import Entry, Shown, policies_legend
from specvet.tasks import KeyWindow

_PLOT, _HEAD, _FOOT, _LANE = 1.25, 0.42, 0.42, 0.19
"""Heights of a panel, of what is above and below it, and of a lane of key windows, in inches."""
_WIDTH, _LEFT = 11.0, 0.6

Lanes = list[list[KeyWindow]]


def windows(shown: Shown) -> Any:
    """The share of trajectories that looked at each wavelength, a panel a task; or why there is none."""
    drawn = [entry for entry in shown.entries if any(_looked(entry, key) for key in shown.questions_of)]
    if not drawn:
        return "no policy looked closer at anything"
    inner = _WIDTH - 2 * MARGIN - _LEFT
    spans = {key: _span(shown, drawn, key) for key in shown.questions_of}
    lanes = {key: _lanes(shown, key, spans[key], inner) for key in spans}
    legend = policies_legend(drawn, _WIDTH)
    body = legend.height + sum(_HEAD + _PLOT + _FOOT + _LANE * len(lane) for lane in lanes.values())
    still = [entry.label for entry in shown.entries if entry not in drawn]
    notes = [
        "Windows that were looked at after the full view, in bins of 25 Å; lines: mean over seeds. Grey boxes: the key "
        "windows of the task as it was asked." + (f" Did not look: {', '.join(still)}." if still else "")
    ]
    page = Page(_WIDTH, body, shown.title("where they looked"), [shown.about], notes)
    legend.draw(page)
    top = legend.height + _HEAD
    for key, (low, high) in spans.items():
        axes = page.axes(MARGIN + _LEFT, top, inner, _PLOT)
        task = shown.tasks.get(key)
        titled(axes, f"{key}{f', {task.name}' if task else ''} (n = {shown.questions_of[key]:,} trajectories)")
        for entry in drawn:
            edges, share = _shares(entry, key)
            if share.size:
                look = {"color": entry.look.colour, "linestyle": entry.look.line, "linewidth": 1.3}
                axes.stairs(100 * share, edges, baseline=None, zorder=3, gid=f"{entry.slug}/{key}", **look)
                _mark(axes, entry, edges, share, drawn)
        axes.set_xlim(low, high)
        axes.set_ylim(0, 104)
        axes.set_yticks([0, 50, 100])
        axes.set_ylabel("looked, %", fontsize=SMALL + 1, color=INK)
        under = _LANE * len(lanes[key])
        strip = page.axes(MARGIN + _LEFT, top + _PLOT, inner, max(under, 0.01))
        _strip(strip, lanes[key], low, high, inner)
        axes.tick_params(labelbottom=False)
        top += _PLOT + under + _FOOT + _HEAD
    return page.figure


def _looked(entry: Entry, key: str) -> bool:
    return any(any(_of(numbers, key).get("share") or ()) for numbers in entry.numbers)


def _of(numbers: Any, key: str) -> Any:
    return (numbers.get("windows") or {}).get(key) or {}


def _shares(entry: Entry, key: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(edges of shape (n + 1,) in Å, shares of shape (n,)), mean over seeds; bins that a seed does not have are 0."""
    told = [found for numbers in entry.numbers if (found := _of(numbers, key)).get("share")]
    if not told:
        return np.zeros(0), np.zeros(0)
    step = float(told[0]["step"])
    low = min(float(found["low"]) for found in told)
    high = max(float(found["low"]) + step * len(found["share"]) for found in told)
    edges = low + step * np.arange(round((high - low) / step) + 1, dtype=np.float64)
    total = np.zeros(edges.size - 1)
    for found in told:
        first = round((float(found["low"]) - low) / step)
        total[first : first + len(found["share"])] += found["share"]
    return edges, total / len(entry.numbers)


def _mark(axes: Any, entry: Entry, edges: Any, share: Any, drawn: Sequence[Entry]) -> None:
    """Markers along a policy's line, at places of its own, where it looked."""
    place = drawn.index(entry)
    centres = (edges[1:] + edges[:-1]) / 2
    chosen = np.arange(place * 3, share.size, max(12, 3 * len(drawn)))
    chosen = chosen[share[chosen] > 0.02]
    axes.plot(centres[chosen], 100 * share[chosen], linestyle="none", markersize=4, zorder=4, **entry.look.points)


def _span(shown: Shown, drawn: Sequence[Entry], key: str) -> tuple[float, float]:
    """Å, that holds all looks and key windows."""
    ends = [edges[[0, -1]] for entry in drawn if (edges := _shares(entry, key)[0]).size]
    task = shown.tasks.get(key)
    ends += [np.array(window.range, float) for window in (task.windows if task else ())]
    if not ends:
        return 3700.0, 9100.0
    low, high = min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)
    return low - 0.005 * (high - low), high + 0.005 * (high - low)


def _lanes(shown: Shown, key: str, span: tuple[float, float], inner: float) -> Lanes:
    """Key windows in as few lanes as hold them and their names without touching."""
    task = shown.tasks.get(key)
    lanes: Lanes = []
    for window in sorted(task.windows if task else (), key=lambda w: w.range):
        for lane in lanes:
            if _extent(lane[-1], span, inner)[1] < _extent(window, span, inner)[0]:
                lane.append(window)
                break
        else:
            lanes.append([window])
    return lanes


def _extent(window: KeyWindow, span: tuple[float, float], inner: float) -> tuple[float, float]:
    """Å, of a window with its name, which begins where the window does or ends with it at the right edge."""
    letters = (0.064 * len(window.name) + 0.12) * (span[1] - span[0]) / inner
    low, high = window.range
    if low + letters > span[1]:
        return min(low, high - letters), high
    return low, max(high, low + letters)


def _strip(axes: Any, lanes: Lanes, low: float, high: float, inner: float) -> None:
    """The key windows below a panel, on its wavelength axis."""
    axes.set_xlim(low, high)
    axes.set_ylim(max(len(lanes), 1) - 0.45, -0.65)
    axes.set_yticks([])
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("rest wavelength, Å", fontsize=SMALL + 1, color=INK, labelpad=1)
    for y, lane in enumerate(lanes):
        for window in lane:
            first, last = window.range
            axes.barh(
                y, last - first, left=first, height=0.72, facecolor="#DDDDDD", edgecolor=GREY, linewidth=0.8,
                zorder=2, gid=window.key,
            )  # fmt: skip
            right = _extent(window, (low, high), inner)[0] < first
            axes.text(
                last if right else first, y, f" {window.name} ", ha="right" if right else "left", va="center_baseline",
                fontsize=SMALL, color=INK, zorder=3, parse_math=False,
            )  # fmt: skip
