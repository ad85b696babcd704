"""`specvet train plot`: a page of figures of one training run, or of several over each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specvet.cli.console import print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, failing


def plot(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", help="Run folders, or their metrics.jsonl.")],
    *,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FILE", help="A .png, .pdf or .svg; by default train.png, in the run if it is one."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="Over the page.")] = None,
    smooth: Annotated[
        int | None, typer.Option("--smooth", min=1, metavar="N", help="Steps of the running mean; 1 draws none.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the file, and first, last and best of every metric, as JSON.")
    ] = False,
) -> int:
    """Draw how training went: loss, reward, accuracy, format, calls, lengths, equal groups, KL, throughput.

    Works while a run is under way. Several runs are drawn over each other.
    """
    from specvet.training.plot import MetricsError, plot_runs, summary

    first = Path(runs[0])
    target = out or str(first / "train.png" if len(runs) == 1 and first.is_dir() else "train.png")
    with failing(CANNOT_WRITE, OSError), failing(USAGE, MetricsError, ValueError):
        made = plot_runs(runs, target, title=title, smooth=smooth)
        told = {run: summary(run) for run in runs} if json else {}
    if json:
        print_json({"out": str(made), "runs": told})
    else:
        print(made)
    return DONE
