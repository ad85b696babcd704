"""`specvet data`: sets to learn from and to be asked about, published, simulated or one's own."""

from __future__ import annotations

import typer

app = typer.Typer(help="Prepare, simulate and convert data sets.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _data() -> None:
    pass


# Each command lives in its own module: app.command("simulate")(data_simulate.simulate)
