"""`specvet eval …`: results that a sceptic can check."""

from __future__ import annotations

import typer

from specvet.cli import (
    eval_compare,
    eval_goals,
    eval_plot,
    eval_publish,
    eval_report,
    eval_rescore,
    eval_run,
    eval_stages,
    eval_status,
    eval_verify,
)

app = typer.Typer(
    help="Measure policies on question sets: numbers with intervals, and every trajectory behind them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _eval() -> None:
    pass


app.command()(eval_run.run)
app.command()(eval_publish.publish)
app.command()(eval_stages.stages)
app.command()(eval_status.status)
app.command()(eval_plot.plot)
app.command()(eval_compare.compare)
app.command()(eval_report.report)
app.command()(eval_goals.goals)
app.command()(eval_verify.verify)
app.command()(eval_rescore.rescore)
