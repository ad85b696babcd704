"""The figure of a triage: reliability, recall against looks, and the evidence of this list between its thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from specvet.vetting.triage.bands import lower_bound, upper_bound

if TYPE_CHECKING:
    from specvet.vetting.triage.calibration import Calibration, Floats
    from specvet.vetting.triage.settings import Settings
    from specvet.vetting.triage.sorting import Triage

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe & Ito's, which people who see few colours tell apart."""
LINES = ("-", "--", "-.", ":")
GREY = "#777777"
SHOWN = 8
"""Tasks that have a panel of their own."""
_TAIL = 0.025


def figure(triage: Triage, settings: Settings, calibration: Calibration | None) -> Any:
    """A matplotlib Figure; without a calibration only what the policy's probabilities are."""
    from matplotlib.figure import Figure

    tasks = [t for t, count in triage.tasks.items() if t != "*" and count.n][:SHOWN]
    rows = -(-len(tasks) // 4) if tasks else 0
    above = 1 if calibration is not None else 0
    drawn = Figure(figsize=(10.5, 4.2 * above + 2.3 * max(rows, 1)), layout="constrained")
    grid = drawn.add_gridspec(above + rows or 1, 4, height_ratios=[1.7] * above + [1.0] * max(rows, 1 - above))
    if calibration is not None:
        _reliability(drawn.add_subplot(grid[0, :2]), calibration)
        _recall(drawn.add_subplot(grid[0, 2:]), triage, calibration, tasks)
    for i, task in enumerate(tasks):
        _spread(drawn.add_subplot(grid[above + i // 4, i % 4]), triage, task, calibrated=calibration is not None)
    return drawn


def _reliability(axes: Any, calibration: Calibration) -> None:
    told = calibration.measured.get("all", {})
    axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.8, linestyle=(0, (1, 2)))
    for part in told.get("reliability", ()):
        k, n, x = part["yes"], part["n"], 100 * part["p"]
        low, high = 100 * lower_bound(k, n, _TAIL), 100 * upper_bound(k, n, _TAIL)
        axes.plot([x, x], [low, high], color=COLOURS[0], linewidth=0.9)
        axes.plot(x, 100 * k / n, "o", color=COLOURS[0], markersize=4)
    fit = told.get("calibrated", {})
    ece = "" if fit.get("ece") is None else f"; ECE {100 * fit['ece']:.1f} %, Brier {fit['brier']:.4f}"
    whose = "SIMULATED " if calibration.simulated == calibration.cases else ""
    axes.set_title(f"Calibration set: {calibration.cases:,} {whose}cases{ece}", fontsize=9, loc="left")
    axes.set_xlabel("calibrated probability of YES, % (cross-fitted)", fontsize=8)
    axes.set_ylabel("of these, members, %", fontsize=8)
    axes.set_xlim(-2, 102)
    axes.set_ylim(-2, 102)
    _tidy(axes)


def _recall(axes: Any, triage: Triage, calibration: Calibration, tasks: list[str]) -> None:
    for i, task in enumerate(t for t in tasks if t in calibration.tasks):
        prevalence = triage.tasks[task].prevalence
        assert prevalence is not None  # a calibrated task has one
        found, looks = recall_and_looks(
            np.array(calibration.tasks[task].members), np.array(calibration.tasks[task].others), prevalence.value
        )
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)], "linewidth": 1.3}
        axes.plot(100 * looks, 100 * found, drawstyle="steps-post", label=task, **style)
    axes.set_xscale("log")
    axes.set_title("What looks buy at this list's prevalence", fontsize=9, loc="left")
    axes.set_xlabel("of the decided cases looked at, most likely first, %", fontsize=8)
    axes.set_ylabel("of the members found, %", fontsize=8)
    axes.set_ylim(0, 102)
    if axes.lines:
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    _tidy(axes)


def recall_and_looks(members: Floats, others: Floats, prevalence: float) -> tuple[Floats, Floats]:
    """Share of members found, and of a list of this prevalence looked at (0-1), for each threshold, rising."""
    if not members.size or not others.size:
        return np.zeros(0), np.zeros(0)
    thresholds = np.unique(np.concatenate([members, others]))[::-1]
    found = 1.0 - np.searchsorted(np.sort(members), thresholds, side="left") / members.size
    alarms = 1.0 - np.searchsorted(np.sort(others), thresholds, side="left") / others.size
    looks = np.maximum(prevalence * found + (1 - prevalence) * alarms, 1e-6)
    return found, looks


def _spread(axes: Any, triage: Triage, task: str, *, calibrated: bool) -> None:
    """Histogram of a task's evidence, or of what the policy gave, by band."""
    rows = [r for r in triage.rows if r.case.task == task]
    values = [(r.evidence if calibrated else r.probability, r.band) for r in rows]
    known = np.array([v for v, _ in values if v is not None])
    lost = len(rows) - known.size
    without = f", {lost:,} without {'evidence' if calibrated else 'p(YES)'}" if lost else ""
    axes.set_title(f"{task}: {len(rows):,} cases{without}", fontsize=8, loc="left")
    if known.size:
        edges = (
            np.linspace(min(known.min(), -1e-9), max(known.max(), 1e-9), 41) if calibrated else np.linspace(0, 1, 41)
        )
        bands = ("reject", "look", "accept")
        parts = [[v for v, band in values if v is not None and band == b] for b in bands]
        axes.hist(parts, bins=edges, stacked=True, color=["#bbbbbb", COLOURS[0], COLOURS[2]], label=bands)
        axes.set_yscale("symlog", linthresh=1)
        promise = triage.tasks[task].promise
        for threshold in () if promise is None else (promise.reject_below, promise.accept_from):
            if threshold is not None:
                axes.axvline(threshold, color="black", linewidth=0.8, linestyle="--")
        axes.legend(fontsize=6, frameon=False)
    axes.set_xlabel("evidence for YES (ln of likelihood ratio)" if calibrated else "p(YES) of the policy", fontsize=7)
    _tidy(axes)


def _tidy(axes: Any) -> None:
    axes.tick_params(labelsize=7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
