"""`specvet data simvi`: the simulated benchmark, with cold-start trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.data.simvi.building import SimVI


def simvi(
    *,
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="A new folder, or one that an earlier call began.")
    ],
    size: Annotated[
        Literal["full", "small", "tiny"],
        typer.Option("--size", help="full is the published size, small a tenth of it, tiny a hundredth."),
    ] = "small",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed is another set.")] = 0,
    style: Annotated[
        str, typer.Option("--style", help="Of the figures: reference (as published) or compact (fast, small).")
    ] = "reference",
    voice: Annotated[
        Literal["full", "terse"],
        typer.Option("--voice", help="Of the trajectories: full as people talk, terse for small models."),
    ] = "full",
    wording: Annotated[
        Literal["full", "short"],
        typer.Option("--wording", help="Of the trajectories' questions: full tells the task, short only names it."),
    ] = "full",
    picture_size: Annotated[
        str | None,
        typer.Option(
            "--picture-size", metavar="SIZE", help="Of the trajectories' compact figures: small, published, tiny, WxH."
        ),
    ] = None,
    templates: Annotated[
        str | None,
        typer.Option("--templates", metavar="FOLDER", help="Real spectra with a manifest.csv that seed some sources."),
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores if not given.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Make SimVI: 3,364 + 6,754 questions, 2,000 to tune on and 942 trajectories (full), all SIMULATED."""
    from specvet.data.errors import InputError
    from specvet.data.simvi.building import make_simvi
    from specvet.records.errors import RunError
    from specvet.views import check_style
    from specvet.views import picture_size as size_of

    try:
        check_style(style, size_of(picture_size))
    except ValueError as e:
        raise CommandError(str(e), USAGE) from e
    try:
        with failing(USAGE, InputError), failing(CANNOT_WRITE, OSError, RunError), shown_steps(quiet) as progress:
            made = make_simvi(
                out,
                size,
                seed=seed,
                style=style,
                templates=templates,
                voice=voice,
                wording=wording,
                picture_size=picture_size,
                workers=workers,
                progress=progress,
            )
    except KeyboardInterrupt:
        say("stopped; what is made is kept, and the same command goes on from there")
        return INTERRUPTED
    if json:
        print_json({"folder": str(made.folder), "made": made.made, "rows": made.rows, "drafts_refused": made.refused})
    elif not quiet:
        for line in _summary(made):
            console().print(line, soft_wrap=True)
    return DONE


def _summary(made: SimVI) -> list[str]:
    folder, rows = made.folder, made.rows
    return [
        f"{folder}: SIMULATED; {'made' if made.made else 'was made already, and is whole'}",
        f"  questions     {rows['train']:,} to train on, {rows['test']:,} to test on, {rows['val']:,} to tune on",
        f"  trajectories  {rows['coldstart']:,}; {sum(made.refused.values()):,} more drafts were refused",
        f"  as published  {folder}/bench, {folder}/coldstart",
        f"  prepared      {folder}/rl/*.jsonl, {folder}/sft/*.jsonl",
        "Next, what training on it would take (a real model: --profile qwen3.5-4b-chapter):",
        f"  specvet train sft --profile tiny --set sft.max_tokens=8192 --data {folder}/sft/sft_train.jsonl "
        f"--validation {folder}/sft/sft_val.jsonl --out RUN --dry-run",
    ]
