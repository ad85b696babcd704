"""A page of figures of one training run or several: what it learnt, how it behaved, what it took.

Each panel is drawn where some run has what it shows, so SFT and GRPO runs share one function. Thin lines are the steps
as they were; a thick one is their running mean, and the foot of the page says over how many steps. Runs differ by
colour, the series of a panel by the kind of line, so that the page reads in grey too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specvet.training.watch.alarms import Alarm, Alarms
from specvet.training.watch.drawing import GREY, INK, RUN_COLOURS, Run, draw_panel, panels_of, smoothed
from specvet.training.watch.metrics import Line, MetricsError, metrics_file, numbers, read_metrics, stage_of, summary

__all__ = ["MetricsError", "make_figure", "plot_runs", "read_runs", "smoothed", "summary"]

_COLUMNS = 3
_WIDTH, _HEIGHT = 4.3, 2.55
"""Of a panel with its labels, in inches."""
_GAP_X, _GAP_Y = 0.76, 0.72
"""Of that, what lies between two axes."""
_FOOT = 0.42
_ENDINGS = (".png", ".pdf", ".svg")


def plot_runs(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    smooth: int | None = None,
) -> Path:
    """Draw runs (folders, or `metrics.jsonl` files) over each other into `out` (.png, .pdf, .svg); returns its path.

    `smooth` is over how many steps the running mean goes (1: none; the next odd number counts); None: a fortieth of the
    longest run, 25 at the most.
    Raises MetricsError for a path without metrics, ValueError for a format that there is not, OSError.
    """
    import matplotlib as mpl

    target = Path(out)
    if target.suffix.lower() not in _ENDINGS:
        raise ValueError(f"{target}: the figure is a .png, .pdf or .svg; let the name of --out end so")
    runs = read_runs(paths)
    window = smooth or max(1, min(25, max(run.last for run in runs) // 40))
    window += 1 - window % 2  # as many on both sides
    style: Any = {"font.family": "DejaVu Sans", "svg.hashsalt": "specvet", "pdf.fonttype": 42, "text.usetex": False}
    with mpl.rc_context(style):
        figure = make_figure(runs, title, window)
        # Without the time of drawing, so that the same metrics give the same file.
        metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(target.suffix.lower())
        figure.savefig(target, dpi=150, metadata=metadata)
    return target


def read_runs(paths: Sequence[str | os.PathLike[str]]) -> list[Run]:
    """What is drawn of each run. Raises MetricsError."""
    if not paths:
        raise MetricsError("no run was given; give the folder that `specvet train … --out` named")
    folders = [file.parent for file in map(metrics_file, paths)]
    named = zip(_labels(folders), folders, paths, strict=True)
    return [
        _run(label, RUN_COLOURS[i % len(RUN_COLOURS)], folder, read_metrics(path))
        for i, (label, folder, path) in enumerate(named)
    ]


def make_figure(runs: Sequence[Run], title: str | None = None, window: int = 1) -> Any:
    """The page, a `matplotlib.figure.Figure`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = panels_of(runs)
    rows, head = max(1, -(-len(panels) // _COLUMNS)), 0.62 + 0.19 * len(runs)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT + head + _FOOT
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    _head(figure, runs, title, width, height)
    if not panels:
        figure.text(0.5, 0.4, "no steps yet", fontsize=12, color=GREY, ha="center", va="center")
        return figure
    grid = figure.add_gridspec(
        rows,
        _COLUMNS,
        left=0.76 / width,
        right=1 - 0.2 / width,
        top=1 - (head + 0.2) / height,
        bottom=(_FOOT + 0.36) / height,
        wspace=_GAP_X / (_WIDTH - _GAP_X),
        hspace=_GAP_Y / (_HEIGHT - _GAP_Y),
    )
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(grid[i // _COLUMNS, i % _COLUMNS])
        draw_panel(axes, panel, runs, window)
        if i + _COLUMNS >= len(panels):
            axes.set_xlabel(_x_label(runs), fontsize=8.5, color=INK)
    figure.text(0.2 / width, 0.14 / height, _foot(runs, window), fontsize=8, color=GREY, va="bottom")
    return figure


def _head(figure: Any, runs: Sequence[Run], title: str | None, width: float, height: float) -> None:
    """The title, and a line about each run."""
    from matplotlib.lines import Line2D

    name = title or (runs[0].label if len(runs) == 1 else f"{len(runs)} training runs")
    left = 0.2 / width
    figure.text(left, 1 - 0.14 / height, name, fontsize=14, fontweight="bold", va="top", parse_math=False)
    for i, run in enumerate(runs):
        y = 1 - (0.56 + 0.19 * i) / height
        text, indent = run.about, 0.0
        if len(runs) > 1:
            text, indent = f"{run.label}: {run.about}", 0.42 / width
            figure.add_artist(Line2D([left, left + 0.3 / width], [y, y], color=run.colour, linewidth=2.4))
        figure.text(left + indent, y, text, fontsize=9, color=INK, va="center_baseline", parse_math=False)


def _x_label(runs: Sequence[Run]) -> str:
    stages = {run.stage for run in runs if run.stage}
    return {"sft": "update", "grpo": "rollout step"}[stages.pop()] if len(stages) == 1 else "step"


def _foot(runs: Sequence[Run], window: int) -> str:
    parts = [
        f"Thick lines: running mean of {window} steps; thin: every step." if window > 1 else "Every step as it was."
    ]
    if len(runs) == 1 and runs[0].epochs:
        parts.append("Grey verticals: a new epoch.")
    alarms = [(run, alarm) for run in runs for alarm in run.alarms]
    if alarms:
        names = [f"{alarm.name} at {alarm.step}" for _, alarm in alarms[:6]]
        more = f" and {len(alarms) - 6} more" if len(alarms) > 6 else ""
        told = f" ({', '.join(names)}{more})" if len(runs) == 1 else ""
        parts.append(f"▼: an alarm{told}.")
    return " ".join(parts)


# --- reading


def _labels(folders: Sequence[Path]) -> list[str]:
    """Names of folders, with as much of the path before them as tells them apart."""
    full = [folder.resolve() for folder in folders]
    labels: list[str] = []
    for depth in range(1, max(len(path.parts) for path in full) + 1):
        labels = ["/".join(path.parts[-depth:]) for path in full]
        if len(set(labels)) == len(set(full)):
            break
    return labels


def _run(label: str, colour: str, folder: Path, lines: Sequence[Line]) -> Run:
    found: dict[str, list[tuple[int, float]]] = {}
    epochs: list[int] = []
    epoch: float | None = None
    alarms, raised = Alarms(), list[Alarm]()
    for line in lines:
        kind, values = line["kind"], numbers(line)
        prefix = "" if kind == "step" else f"{kind}/"
        if groups := values.get("groups"):
            values["equal_share"] = values.get("groups_equal", 0.0) / groups
            values["refilled_share"] = values.get("groups_refilled", 0.0) / groups
        for name, value in values.items():
            found.setdefault(prefix + name, []).append((int(line["step"]), value))
        if kind == "step":
            raised += alarms.check(line)
            if epoch is not None and values.get("epoch") != epoch:
                epochs.append(int(line["step"]))
            epoch = values.get("epoch")
    series = {name: (np.array([s for s, _ in xy], float), np.array([v for _, v in xy])) for name, xy in found.items()}
    stage = stage_of(lines)
    return Run(label, colour, stage, _about(folder, stage, lines), series, tuple(epochs), tuple(raised))


def _about(folder: Path, stage: str | None, lines: Sequence[Line]) -> str:
    """`GRPO, profile tiny, model M, torch; 120 steps, 2.1 h`."""
    import yaml

    parts = [{"sft": "SFT", "grpo": "GRPO"}.get(stage or "", "training")]
    try:
        told = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        model = Path(str(told["model"]["name"] or "a tiny random model")).name
        parts += [f"profile {told['profile']}", model, str(told["backend"])]
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        pass  # metrics alone can be drawn
    steps = [numbers(line) for line in lines if line["kind"] == "step"]
    seconds = sum(step.get("seconds", 0.0) for step in steps)
    took = f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
    last = int(max((step["step"] for step in steps), default=0))  # base training has a line every few steps
    return f"{', '.join(parts)}; {last:,} step{'' if last == 1 else 's'}, {took}"
