"""What the commands that make sets in bulk share: how spectra are drawn, and how such a command runs and ends."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli.console import print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.data.drawing import Container
    from specvet.data.sliced import Made

Out = Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder, or one that an earlier call began.")]
Yes = Annotated[float, typer.Option("--yes", min=0.0, max=1.0, help="Share of the answers that are YES.")]
Cross = Annotated[
    float, typer.Option("--cross", min=0.0, max=1.0, help="Share of the NO that are members of the other classes.")
]
Kinds = Annotated[
    str | None, typer.Option("--kinds", metavar="KIND,…", help="As in cv,wd.DA,m_dwarf; all if not given.")
]
Snr = Annotated[
    str | None, typer.Option("--snr", metavar="LOW-HIGH", help="As in 3-60; as the survey has it if not given.")
]
Surveys = Annotated[str, typer.Option("--surveys", metavar="SURVEY,…", help="Taken in turn.")]
Containers = Annotated[
    str,
    typer.Option(
        "--containers",
        metavar="NAME,…",
        help="How spectra are told: all, or some of published, native, bare, harmonised, library.",
    ),
]
Templates = Annotated[
    str | None,
    typer.Option("--templates", metavar="PLACE", help="Real spectra that seed some sources: a folder or a file."),
]
Fold = Annotated[
    str | None,
    typer.Option("--fold", metavar="K/N", help="Real objects of this part seed nothing, as in 2/5; none: all do."),
]
Seeded = Annotated[
    float, typer.Option("--seeded", min=0.0, max=1.0, help="With --fold: share of sources that they seed.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed makes others.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores if not given.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def drawn(kinds: str | None, snr: str | None, surveys: str, containers: str, templates: str | None) -> dict[str, Any]:
    """These options as `specvet.data.drawing.Draws` takes them."""
    from specvet.cli.data_simulate import read_range, read_words

    return {
        "kinds": None if kinds is None else tuple(read_words(kinds, "--kinds")),
        "snr": read_range(snr),
        "surveys": tuple(read_words(surveys, "--surveys")),
        "containers": read_containers(containers),
        "templates": None if templates is None else os.path.abspath(templates),
    }


def read_containers(text: str) -> tuple[Container, ...]:
    """`all`, or names."""
    from specvet.cli.data_simulate import read_words
    from specvet.data.drawing import CONTAINERS

    if text.strip() == "all":
        return CONTAINERS
    return cast("tuple[Container, ...]", tuple(read_words(text, "--containers")))


def made_in_bulk(make: Callable[..., Made], quiet: bool, json: bool, summary: Callable[[Made], None]) -> int:
    """Run `make(progress=, stop=)`, tell what came of it, and give the command's exit code."""
    from specvet.data.errors import InputError
    from specvet.records.errors import RunError

    with (
        failing(USAGE, InputError),
        failing(CANNOT_WRITE, OSError, RunError),
        shown_steps(quiet) as progress,
        stopped_by_signals(_stopping) as stop,
    ):
        made = make(progress=progress, stop=stop)
    if json:
        told = {"simulated": True, "folder": str(made.folder), "made": made.made, "finished": made.finished}
        print_json(told | {"stats": dict(made.stats)})
    if not made.finished:
        if not quiet:
            say(f"stopped; what is done is kept. To go on: {shlex.join(['specvet', *sys.argv[1:]])}")
        return INTERRUPTED
    if not quiet and not json:
        summary(made)
    return DONE


def _stopping() -> None:
    # A handler must not enter a stream that is being written.
    os.write(2, b"specvet: finishing what is under way; Ctrl-C again aborts\n")
