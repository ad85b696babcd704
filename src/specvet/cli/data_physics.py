"""`specvet data physics` and `physics-audit`: problems of physics, made or checked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli import data_bulk as bulk
from specvet.cli.console import console, print_json, say
from specvet.cli.data_progress import shown_steps
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, failing

if TYPE_CHECKING:
    from specvet.data.sliced import Made


def physics(
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Problems to learn from.")],
    out: bulk.Out,
    val: Annotated[int | None, typer.Option("--val", min=0, help="Problems to choose by; N/10 if not given.")] = None,
    test: Annotated[int | None, typer.Option("--test", min=0, help="Problems to test by; N/10 if not given.")] = None,
    families: Annotated[
        str | None, typer.Option("--families", metavar="A,B", help="Of these families only; all 24 if not given.")
    ] = None,
    seed: bulk.Seed = 0,
    workers: bulk.Workers = None,
    quiet: bulk.Quiet = False,
    json: bulk.Json = False,
) -> int:
    """Make textbook problems of physics, all SIMULATED: with typed answers, drawn figures, and solutions by the tool.

    Each solution calls the sympy tool and holds its true results. train, val and test share no wording, and no question
    of one is a near-duplicate of another's. Equal commands write equal files, whatever the number of workers; Ctrl-C
    finishes what is under way, and the same command goes on. Needs: pip install 'specvet[physics]'

    \b
      specvet data physics --n 10000 --out PHYSICS
      specvet data physics --n 2000 --families lens-bench,kirchhoff --out FIGURES

    \b
    Exit codes:
      0    the problems are there
      2    the command is wrong, or the folder holds something else
      4    the disk is full, or the folder cannot be written
      130  interrupted; what is done is kept
    """
    from specvet.data.physics.families import FAMILIES
    from specvet.data.physics.making import make_physics

    names = [name.strip() for name in families.split(",")] if families else tuple(FAMILIES)
    make = partial(make_physics, out, n, val=val, test=test, seed=seed, families=names, workers=workers)
    return bulk.made_in_bulk(make, quiet, json, _print_summary)


def _print_summary(made: Made) -> None:
    stats = made.stats
    counts = ", ".join(f"{split} {count:,}" for split, count in stats["problems"].items())
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in stats["kinds"].items())
    out = console()
    out.print(
        f"{made.folder}: SIMULATED problems of {len(stats['families'])} families; "
        f"{'made' if made.made else 'were made already'}",
        soft_wrap=True,
    )
    out.print(f"  {counts}; {kinds}", soft_wrap=True)
    out.print(f"  {stats['with_figure']:,} with a figure, {stats['calls']:,} calls of the tool", soft_wrap=True)
    out.print("  train.jsonl, val.jsonl, test.jsonl; stats.json counts, also what was left out", soft_wrap=True)


def physics_audit(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Solved problems: JSONL or Parquet.", show_default=False)],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder.")],
    against: Annotated[
        list[str] | None,
        typer.Option("--against", metavar="FILE", help="Problems that no kept row may be near; may be repeated."),
    ] = None,
    limit: Annotated[
        float, typer.Option("--limit", min=0.05, max=1.0, help="Jaccard index of 5-grams that counts as near.")
    ] = 0.4,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Calls of the tool at a time.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Audit solved physics problems: make every stored call again, match the answers, find copies; drop what fails.

    Writes problems.jsonl (what is kept), rejects.jsonl (each dropped row with file, line and reason) and audit.json
    (counts, hashes, versions).

    \b
      specvet data physics-audit trajectories.parquet --against test.jsonl --out AUDITED

    \b
    Exit codes:
      0    audited, whatever was dropped
      2    the file cannot be read, or the folder is not empty
      4    the disk is full, or the folder cannot be written
      130  interrupted; nothing is written
    """
    from specvet.data.errors import InputError
    from specvet.data.physics.audit import audit_file

    try:
        with failing(USAGE, InputError), failing(CANNOT_WRITE, OSError), shown_steps(quiet) as progress:
            found = audit_file(file, out, against=against or [], limit=limit, workers=workers, progress=progress)
    except KeyboardInterrupt:
        say("stopped; nothing was written, so the same command begins again")
        return INTERRUPTED
    if json:
        print_json({"folder": out, "counts": found.counts})
    elif not quiet:
        counts = found.counts
        dropped = ", ".join(f"{name} {n:,}" for name, n in counts.items() if n and name not in ("kept", "calls"))
        console().print(f"{out}: {counts['kept']:,} kept; {counts['calls']:,} calls made again", soft_wrap=True)
        console().print(f"  dropped: {dropped or 'none'}", soft_wrap=True)
    return DONE
