"""The figure of a completeness: the share that was recovered against S/N and magnitude, a column a task.

It reads in grey: what was said, what people would see and what triage keeps differ in line and marker.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

FORMATS = ("png", "svg", "pdf")
COLUMNS = 3
INK, GREY = "#222222", "#777777"

SERIES = (
    ("recovered", "YES", "#0072B2", "-", "o", True),
    ("seen", "YES, or sent to a person (UNSURE, NO_DATA, FAILED)", "#D55E00", (0, (5, 1.6)), "s", False),
    ("kept", "accepted or looked at, as triage sorts", "#000000", (0, (1, 1.2)), "^", False),
)
"""Share, its name, colour, line, marker, and whether the marker is filled."""

AXES = {"snr": "S/N, median a pixel", "drop": "magnitudes below the host", "magnitude": "Gaia G, nearly"}

_STYLE: Any = {"font.family": "DejaVu Sans", "svg.hashsalt": "specvet", "svg.fonttype": "path", "pdf.fonttype": 42,
          "text.usetex": False}  # fmt: skip


def figure(rows: Sequence[Mapping[str, Any]], name: str) -> Any:
    """A matplotlib Figure of the rows of `completeness.json`, of all kinds together; `name` is the run's."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    whole = [row for row in rows if row["kind"] == "all" and row["by"] in AXES]
    panels = list(dict.fromkeys((row["by"], row["task"]) for row in whole))
    panels.sort(key=lambda panel: list(AXES).index(panel[0]))
    across = min(COLUMNS, max(1, len(panels)))
    down = -(-len(panels) // across)
    with rc_context(_STYLE):
        drawn = Figure(figsize=(max(3.3 * across, 6.6), 2.7 * down + 1.3), layout="constrained", facecolor="white")
        FigureCanvasAgg(drawn)
        grid = drawn.subplots(max(down, 1), across, squeeze=False)
        shown: dict[str, Any] = {}
        for axes, panel in zip(grid.flat, panels, strict=False):
            here = [row for row in whole if (row["by"], row["task"]) == panel]
            shown |= _panel(axes, *panel, here)
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        title = f"How complete is {name}? SIMULATED members in the noise of its own spectra"
        drawn.suptitle(title, fontsize=10, x=0.01, ha="left", parse_math=False)
        words = [f"{label}; bars: 95 % interval (Clopper-Pearson)" if not i else label
                 for i, label in enumerate(shown)]  # fmt: skip
        drawn.legend(list(shown.values()), words, loc="outside lower left", fontsize=8, frameon=False, handlelength=3.5)
    return drawn


def figure_bytes(drawn: Any, form: str) -> bytes:
    """A figure as `png` (150 dots an inch), `svg` or `pdf`; the same numbers give the same file."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a task's key in letters that the typeface lacks
        undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form)
        drawn.savefig(buffer, format=form, dpi=150, metadata=undated)
    return buffer.getvalue()


def _panel(axes: Any, by: str, task: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Draw one task; what was drawn, by its name in the legend."""
    drawn: dict[str, Any] = {}
    places = [row["low"] if by != "magnitude" else 0.5 * (row["low"] + row["high"]) for row in rows]
    apart = 0.012 * (max(places) - min(places)) if len(places) > 1 else 0.0
    for i, (share, label, colour, line, marker, filled) in enumerate(SERIES):
        if any(row[share] is None for row in rows):
            continue
        # A little beside each other, so that bars do not hide bars.
        x = [p * 1.03 ** (i - 1) if by == "snr" else p + apart * (i - 1) for p in places]
        y = [100 * row[share] for row in rows]
        low = [100 * (row[share] - row[f"{share}_low"]) for row in rows]
        high = [100 * (row[f"{share}_high"] - row[share]) for row in rows]
        drawn[label] = axes.errorbar(
            x, y, yerr=[low, high], color=colour, linestyle=line, marker=marker, markersize=4.5, linewidth=1.3,
            elinewidth=0.8, markerfacecolor=colour if filled else "white", clip_on=False, zorder=3,
        )  # fmt: skip
    if by == "snr":
        axes.set_xscale("log")
        axes.set_xticks(places, [f"{p:g}" for p in places])
        axes.minorticks_off()
    elif by == "magnitude":
        axes.invert_xaxis()  # bright to the right, as a high S/N is
    axes.set_ylim(0, 100)
    counts = sorted({row["n"] for row in rows})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"
    axes.set_title(f"{task}: {many} SIMULATED a point", fontsize=9, loc="left", color=INK, parse_math=False)
    axes.set_xlabel(AXES[by], fontsize=8, color=INK)
    axes.set_ylabel("recovered, %", fontsize=8, color=INK)
    axes.tick_params(labelsize=8, color=GREY, labelcolor=INK)
    axes.grid(True, color="#E6E6E6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return drawn
