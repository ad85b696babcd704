"""One panel of a page about training, drawn onto matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.training.watch.alarms import RULES, Alarm
from specvet.training.watch.panels import PANELS, Panel

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which people with any colour vision tell apart; without its yellow, which paper loses."""
RUN_COLOURS = ("#0072B2", "#E69F00", "#000000", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""The same for runs: the first ones differ most in grey."""
STYLES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
"""Of the series of a panel, so that they differ in grey too."""
MARKERS = ("o", "s", "D", "^")
INK, GREY, FAINT = "#333333", "#777777", "#E6E6E6"

_PANEL_OF = {"groups_equal": "equal_share"}
"""Where an alarm is marked, if not at its own metric."""

Series = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(steps, values), both of shape (n,)."""


@dataclass(slots=True)
class Run:
    """What is drawn of one run."""

    label: str
    colour: str
    stage: str | None
    about: str
    """Profile, model and backend, as far as they are known; steps and time."""
    series: dict[str, Series] = field(default_factory=dict)
    """By name; those of `validation` and `dev` lines with their kind, as `dev/accuracy`."""
    epochs: tuple[int, ...] = ()
    """Steps with which a new epoch began."""
    alarms: tuple[Alarm, ...] = ()

    @property
    def last(self) -> int:
        """The last step; 0 without one."""
        return max((int(x[-1]) for x, _ in self.series.values()), default=0)

    def of(self, panel: Panel) -> list[tuple[str, str]]:
        """(name, words) of the panel's series that this run has; `stops/` by their number."""
        if panel.stage not in (None, self.stage):
            return []
        found: list[tuple[str, str]] = []
        for name, words in panel.series:
            if name.endswith("/"):
                parts = [n for n in self.series if n.startswith(name)]
                parts.sort(key=lambda n: -float(self.series[n][1].sum()))
                found += [(n, n.removeprefix(name).replace("_", " ")) for n in parts]
            elif name in self.series:
                found.append((name, words))
        return found


def panels_of(runs: Sequence[Run]) -> list[Panel]:
    """The panels that some run has, one of each title; stacks are drawn of a single run only."""
    found: dict[str, Panel] = {}
    for panel in PANELS:
        if (len(runs) == 1 or not panel.stacked) and any(run.of(panel) for run in runs):
            found.setdefault(panel.title, panel)
    return list(found.values())


def draw_panel(axes: Any, panel: Panel, runs: Sequence[Run], window: int) -> None:
    """Draw what the runs have of it; `window` is of the running mean, in steps."""
    single = len(runs) == 1
    values = [run.series[name][1] for run in runs for name, _ in run.of(panel)]
    log = panel.log and any((y > 0).any() for y in values)
    _dress(axes, panel, single, log)
    window = window if panel.smooth else 1
    drawn = [run for run in runs if run.of(panel)]
    for run in drawn:
        if panel.stacked:
            _stack(axes, panel, run, window)
        else:
            _lines(axes, panel, run, window, single)
    if single:
        for step in runs[0].epochs:
            axes.axvline(step - 0.5, color="#BBBBBB", linewidth=0.8, zorder=0.5)
    if panel.level is not None:
        axes.axhline(panel.level, color=GREY, linewidth=0.7, zorder=0.5)
    _limit(axes, panel, drawn)
    for run in drawn:
        _mark_alarms(axes, panel, run, INK if single else run.colour)
    _explain(axes, panel, drawn, single)


def smoothed(y: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Running mean, shape (n,), of `window` (an odd number) values about each, of those that there are at the ends."""
    at, half = np.arange(y.size), window // 2
    low, high = np.maximum(at - half, 0), np.minimum(at + half + 1, y.size)
    total = np.concatenate([[0.0], np.cumsum(y)])
    return np.asarray((total[high] - total[low]) / (high - low))


def _dress(axes: Any, panel: Panel, single: bool, log: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullFormatter

    title = f"{panel.title} (band: ± 1 s.d.)" if single and panel.band is not None else panel.title
    axes.set_title(title, fontsize=10, loc="left", pad=6, color="black")
    axes.set_ylabel(panel.unit, fontsize=8.5, color=INK)
    axes.tick_params(labelsize=8, length=3, color=GREY, labelcolor=INK)
    axes.grid(True, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif panel.powers:
        axes.yaxis.set_major_formatter(lambda value, _: power_text(value))
    else:
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-4, 6), useOffset=False)
        axes.yaxis.get_offset_text().set_fontsize(8)
    if panel.height:
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))  # few figures behind the point


def power_text(value: float) -> str:
    """`2e-3`, `1.5e-6`, `0`."""
    figures, _, power = f"{value:.2e}".partition("e")
    return f"{figures.rstrip('0').rstrip('.')}e{int(power)}" if value else "0"


def _look(panel: Panel, name: str, run: Run, single: bool) -> tuple[str, Any, str]:
    """(colour, line style, marker): points of a held-out set look like the line that they belong to."""
    plain = name.rpartition("/")[2]
    order = [n for n, _ in panel.series if "/" not in n]
    i = order.index(plain) if plain in order else 0
    return COLOURS[i] if single else run.colour, STYLES[i % len(STYLES)], MARKERS[i % len(MARKERS)]


def _lines(axes: Any, panel: Panel, run: Run, window: int, single: bool) -> None:
    for name, _ in run.of(panel):
        x, y = run.series[name]
        colour, style, marker = _look(panel, name, run, single)
        if "/" in name:
            size = 5 if x.size <= 40 else 3
            points = {"marker": marker, "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.12 * size}
            axes.plot(x, y, color=colour, linewidth=0.7, linestyle=":", zorder=4, gid=name, **points)
            continue
        mean = smoothed(y, window)
        if window > 1:
            axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.3, zorder=2, gid=f"{name}/each")
        few = {"marker": marker, "markersize": 3.5} if x.size <= 20 else {}
        axes.plot(x, mean, color=colour, linewidth=1.6, linestyle=style, zorder=3, gid=name, **few)
        if single and panel.band is not None and panel.band in run.series and name == panel.series[0][0]:
            steps, deviation = run.series[panel.band]
            about = np.interp(steps, x, mean)
            spread = smoothed(deviation, window)
            axes.fill_between(
                steps, about - spread, about + spread, color=colour, alpha=0.12, linewidth=0, zorder=1, gid=panel.band
            )


def _stack(axes: Any, panel: Panel, run: Run, window: int) -> None:
    """Areas on each other; beyond six the smallest go together."""
    names = run.of(panel)
    x = np.unique(np.concatenate([run.series[name][0] for name, _ in names]))
    parts = np.zeros((len(names), x.size))
    for i, (name, _) in enumerate(names):
        steps, values = run.series[name]
        parts[i, np.searchsorted(x, steps)] = values
    labels = [words for _, words in names]
    if len(labels) > 6:
        parts = np.vstack([parts[:5], parts[5:].sum(axis=0)])
        labels = [*labels[:5], "other"]
    if panel.y[1] == 1:
        parts = parts / np.maximum(parts.sum(axis=0), 1e-9)
    parts = np.array([smoothed(part, window) for part in parts])
    low = np.zeros(x.size)
    for part, label, colour in zip(parts, labels, COLOURS, strict=False):
        edge = {"edgecolor": "white", "linewidth": 0.5}
        if x.size == 1:
            axes.bar(x, part, bottom=low, width=0.6, color=colour, alpha=0.85, label=label, **edge)
        else:
            axes.fill_between(x, low, low + part, color=colour, alpha=0.85, label=label, zorder=2, **edge)
        low = low + part


def _limit(axes: Any, panel: Panel, runs: Sequence[Run]) -> None:
    """Limits of both axes: all steps of the runs in it, with room at the ends; those that the panel keeps."""
    first = min(int(run.series[name][0][0]) for run in runs for name, _ in run.of(panel))
    last = max(run.last for run in runs)
    room = max(0.5, 0.02 * (last - first))
    axes.set_xlim(first - room, last + room)
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":  # whole decades
        bottom, top = np.floor(np.log10(low)), np.ceil(np.log10(high))
        axes.set_ylim(10.0**bottom, 10.0 ** max(top, bottom + 1))
        return
    if low == high:
        low, high = low - 0.5, high + 0.5
    if panel.level is not None:
        low, high = min(low, panel.level - panel.height / 2), max(high, panel.level + panel.height / 2)
    low = low if panel.y[0] is None else panel.y[0]
    high = high if panel.y[1] is None else panel.y[1]
    if panel.y[1] is None and panel.y[0] is not None:
        high += 0.04 * (high - low)  # a level line is not the frame
    axes.set_ylim(low, high if high > low else low + 1)


def _mark_alarms(axes: Any, panel: Panel, run: Run, colour: str) -> None:
    """A triangle on the upper edge, and a line down from it, where an alarm about this panel was raised."""
    names = {name for name, _ in run.of(panel)}
    for alarm in run.alarms:
        metric = RULES[alarm.name].metric
        if _PANEL_OF.get(metric, metric) not in names:
            continue
        axes.axvline(alarm.step, color=colour, linewidth=0.8, linestyle=(0, (2, 2)), zorder=2.5)
        axes.plot(
            [alarm.step],
            [0.975],
            marker="v",
            markersize=6.5,
            color=colour,
            transform=axes.get_xaxis_transform(),
            zorder=5,
            gid=f"alarm/{alarm.name}",
        )


def _explain(axes: Any, panel: Panel, runs: Sequence[Run], single: bool) -> None:
    """A legend, where there is more than one thing to tell apart."""
    from matplotlib.lines import Line2D

    look = {"fontsize": 7.5, "loc": "best", "handlelength": 2.2, "labelcolor": INK, "borderpad": 0.3}
    if panel.stacked:
        look |= {"framealpha": 0.85, "edgecolor": "none"}
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], **look)  # in the order in which they lie
        return
    told: dict[str, str] = {}
    for run in runs:
        told.update(dict(run.of(panel)))
    # The points of several series are explained once.
    names = [name for i, (name, words) in enumerate(told.items()) if words not in list(told.values())[:i]]
    if len(names) < 2:
        return
    handles = []
    for name in names:
        colour, style, marker = _look(panel, name, runs[0], single)
        points = {"linestyle": ":", "marker": marker, "markersize": 4.5, "linewidth": 0.7}
        few = {"marker": marker, "markersize": 3.5} if all(run.last <= 20 for run in runs) else {}
        line = points if "/" in name else {"linestyle": style, "linewidth": 1.6, **few}
        handles.append(Line2D([], [], color=colour if single else INK, **line))
    axes.legend(handles, [told[name] for name in names], framealpha=0.8, edgecolor="none", **look)
