"""`specvet data`: sets to learn from and to be asked about, published, simulated or one's own. A module a command."""

from __future__ import annotations

import typer

from specvet.cli import (
    data_at_once,
    data_folds,
    data_labels,
    data_physics,
    data_published,
    data_questions,
    data_realvi,
    data_simulate,
    data_simvi,
    data_suite,
    data_templates,
    data_trajectories,
)

app = typer.Typer(help="Prepare, simulate and convert data sets.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _data() -> None:
    pass


app.command("coldstart")(data_published.coldstart)
app.command("bench")(data_published.bench)
app.command("simvi")(data_simvi.simvi)
app.command("simulate")(data_simulate.simulate)
app.command("suite")(data_suite.suite)
app.command("trajectories")(data_trajectories.trajectories)
app.command("folds")(data_folds.folds)
app.command("questions")(data_questions.questions)
app.command("templates")(data_templates.templates)
app.command("at-once")(data_at_once.at_once)
app.command("realvi")(data_realvi.realvi)
app.command("label-list")(data_labels.label_list)
app.command("physics")(data_physics.physics)
app.command("physics-audit")(data_physics.physics_audit)
