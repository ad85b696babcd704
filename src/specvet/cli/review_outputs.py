"""What leaves a review: `specvet review page`, `specvet review labels`, and `specvet export --reviewed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import say
from specvet.cli.failure import CANNOT_WRITE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.review.desk import Desk

Source = Annotated[str, typer.Argument(metavar="RUN|LIST", help="The run folder or list that was reviewed.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="FILE|postgresql://...", help="Where decisions are kept, if not beside the run or list."
    ),
]


def page(
    source: Source,
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id, its file (FILE, or FILE:ROW), or its item.")],
    *,
    out: Annotated[str, typer.Option("--out", metavar="FILE.html", help="The page to write.")],
    task: TaskOption = None,
    store: StoreOption = None,
) -> None:
    """Write one object as a self-contained HTML page, for a colleague.

    It holds the spectrum (zoom, smoothing, velocity, lines, masks), what the agent said and measured, and what people
    decided. It loads nothing and needs no server.
    """
    from pathlib import Path

    from specvet.review.page import write_object_page
    from specvet.review.spectra import UnreadableError

    with_desk = _Opened(source, task, store)
    with with_desk as desk:
        item = _item(desk, id)
        with failing(CANNOT_WRITE, OSError), failing(USAGE, UnreadableError):
            print(write_object_page(desk, item, desk.listing.tasks[0].key, Path(out)))


def labels(
    source: Source,
    *,
    out: Annotated[str, typer.Option("--out", help="File to write: .csv, .parquet, .fits, .vot or .ecsv.")],
    task: TaskOption = None,
    store: StoreOption = None,
) -> None:
    """Write what people decided as labels, to train on.

    One row a spectrum and task: what the votes amount to. Where people are in conflict and nobody has settled it, the
    answer is UNSURE, which sets the row aside.

    \b
      specvet review labels RUN --out labels.csv
      specvet data label-list labels.csv --out mine
    """
    from specvet.review.outputs import export_labels
    from specvet.vetting.export import ExportError

    with _Opened(source, task, store) as desk, failing(CANNOT_WRITE, OSError), failing(USAGE, ExportError):
        n = export_labels(desk, out)
    if out != "-":
        say(f"wrote {n:,} labels to {out}; next: specvet data label-list {out} --out FOLDER")


def export_reviewed(
    source: str,
    out: str,
    format: Any,
    *,
    task: str | None,
    answers: list[str] | None,
    decision: str | None,
    store: str | None,
) -> None:
    """`specvet export --reviewed`."""
    from specvet.review import outputs
    from specvet.review.events import VERDICTS
    from specvet.vetting.export import ExportError

    decisions = None if decision is None else [d.strip().upper() for d in decision.split(",") if d.strip()]
    for word in decisions or ():
        if word not in VERDICTS:
            raise CommandError(f"--decision {word}: choose from {', '.join(VERDICTS)}", USAGE)
    with _Opened(source, task, store) as desk, failing(CANNOT_WRITE, OSError), failing(USAGE, ExportError):
        if answers is not None and desk.listing.run is None:
            raise CommandError(f"{source}: no agent has answered; --answer chooses rows of a run", USAGE)
        n = outputs.export_reviewed(desk, out, format, answers=answers, decisions=decisions, tell=say)
    if out != "-":
        say(f"wrote {n:,} rows to {out}")


class _Opened:
    """A desk for the length of a block."""

    def __init__(self, source: str, task: str | None, store: str | None) -> None:
        from specvet.cli.review import desk_of, opened

        listing = opened([source], task)
        self._desk = desk_of(listing, [source], store)

    def __enter__(self) -> Desk:
        return self._desk

    def __exit__(self, *_: object) -> None:
        self._desk.store.close()


def _item(desk: Desk, wanted: str) -> str:
    """The item that somebody means by an id, a file or an item's name."""
    listing = desk.listing
    if wanted in listing.place:
        return wanted
    file, _, row = wanted.rpartition(":")
    found = [
        item
        for item, id, path, n in zip(listing.items, listing.ids, listing.files, listing.rows, strict=True)
        if wanted in (id, path) or (row == str(n) and file == path)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise CommandError(f"{wanted}: no spectrum of {listing.title} has this id or file", USAGE)
    first = listing.place[found[0]]
    raise CommandError(
        f"{wanted}: {len(found)} spectra of {listing.title} are called so; "
        f"name the file and row, as in {listing.files[first]}:{listing.rows[first]}",
        USAGE,
    )
