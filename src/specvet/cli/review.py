"""`specvet review`: the page where people look and decide, and what becomes of their decisions."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from specvet.cli import review_outputs
from specvet.cli.console import say
from specvet.cli.failure import CANNOT_WRITE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.review import Desk, Listing
    from specvet.review.guard import Access

OPEN = "open"


class _Group(TyperGroup):
    """`specvet review RUN` is `specvet review open RUN`: what is no command is a run or a list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [OPEN, *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=_Group,
    help="Look at a run or a list in the browser and decide: specvet review RUN.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command(name="page")(review_outputs.page)
app.command(name="labels")(review_outputs.labels)

Inputs = Annotated[
    list[str], typer.Argument(metavar="RUN|LIST...", help="A run folder; or files, folders, globs and lists.")
]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd. A list is asked all of them.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FILE|postgresql://...",
        help="Where decisions are kept; by default review.db in the run, or LIST.review.db beside the list.",
    ),
]
RootOption = Annotated[str | None, typer.Option("--root", help="Folder that a list's paths start from.")]


@app.command(name=OPEN)
def open_page(
    inputs: Inputs,
    *,
    task: TaskOption = None,
    reviewer: Annotated[str | None, typer.Option("--reviewer", metavar="NAME", help="Who decides.")] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Hide what the agent and other people said until one has decided.")
    ] = False,
    store: StoreOption = None,
    assign: Annotated[
        str | None, typer.Option("--assign", metavar="A,B,...", help="Share the list out among these reviewers.")
    ] = None,
    each: Annotated[int, typer.Option("--each", min=1, metavar="N", help="How many of them get every item.")] = 1,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65_535, help="Default: 8765, or a free one.")] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to answer at; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option("--token", help="Who comes must show it; `new` makes one. Seen by others in ps.")
    ] = None,
    token_file: Annotated[str | None, typer.Option("--token-file", help="Its first line is the token.")] = None,
    origin: Annotated[
        str | None, typer.Option("--origin", metavar="URL", help="As a proxy makes it known: https://vi.example.org.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    root: RootOption = None,
    path_column: Annotated[str | None, typer.Option("--path-column", help="The list's column of paths.")] = None,
    z_column: Annotated[str | None, typer.Option("--z-column", help="The list's column of your own redshifts.")] = None,
) -> None:
    """Look at spectra in the browser, and decide with one key each.

    Every decision is on disk before the next spectrum shows; nothing is asked of the network. Ctrl-C ends it, and the
    same command goes on where it stopped. ? shows the keys.
    """
    from specvet.review.guard import Access, AccessError
    from specvet.review.serving import bound_socket, serve

    name = _name(reviewer)
    secret_word = _token(token, token_file)
    with failing(USAGE, AccessError):
        Access(host, port or 0, secret_word, b"", origin)  # told before a long list is read
    listing = opened(inputs, task, root=root, path_column=path_column, z_column=z_column)
    desk = desk_of(listing, inputs, store, blind=blind)
    try:
        if assign is not None:
            _assign(desk, name, assign, each)
        with failing(CANNOT_WRITE, AccessError):
            bound = bound_socket(host, port)
        with failing(USAGE, AccessError):
            access = Access(host, bound.getsockname()[1], secret_word, desk.store.secret, origin)
        for notice in listing.notices:
            say(notice)
        if desk.store.readonly:
            say(f"{desk.store.name} cannot be written: look, export and count agreement; nothing can be decided")
        # Ctrl-C is its usual end; uvicorn passes it on when every request is answered.
        with suppress(KeyboardInterrupt):
            serve(desk, access, bound, reviewer=name, ready=lambda: _ready(desk, access, no_browser))
        say(f"ended; {_kept(desk)}")
    finally:
        desk.store.close()


@app.command(name="agreement")
def agreement(
    inputs: Inputs,
    *,
    task: TaskOption = None,
    store: StoreOption = None,
    root: RootOption = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a task, with the conflicts.")] = False,
) -> None:
    """How well reviewers agree beyond chance, and which spectra wait for a third look.

    Conflicts follow DESI's rules: other verdicts or classes, qualities 2 apart, redshifts 0.0033 (1 + z) apart. A third
    person who has not voted settles them: specvet review RUN, filter "third look".
    """
    from specvet.cli.review_agreement import print_agreement

    listing = opened(inputs, task, root=root)
    desk = desk_of(listing, inputs, store)
    try:
        print_agreement(desk, as_json=json)
    finally:
        desk.store.close()


@app.command(name="desi-vi")
def desi_vi(
    inputs: Inputs,
    *,
    out: Annotated[str | None, typer.Option("--out", metavar="FOLDER", help="Write a file for each reviewer.")] = None,
    take: Annotated[
        list[str] | None, typer.Option("--import", metavar="FILE", help="Take in a VI file; may be repeated.")
    ] = None,
    fits: Annotated[bool, typer.Option("--fits", help="Write FITS (ASCII) instead of CSV (UTF-8).")] = False,
    task: TaskOption = None,
    reviewer: Annotated[
        str | None, typer.Option("--reviewer", metavar="NAME", help="Who made the imported file, if not VI_scanner.")
    ] = None,
    store: StoreOption = None,
    root: RootOption = None,
) -> None:
    """Visual inspections in DESI's form (prospect's CSV): to colleagues, and from them.

    Importing a file twice changes nothing. A file of prospect's own says no task: name it with --task.
    """
    from pathlib import Path

    from specvet.review.desi_vi import DesiViError, read_desi_vi, write_desi_vi
    from specvet.review.store import StoreError

    if (out is None) == (not take):
        raise CommandError("give --out FOLDER to write, or --import FILE to read", USAGE)
    listing = opened(inputs, task, root=root)
    desk = desk_of(listing, inputs, store)
    try:
        if out is not None:
            with failing(CANNOT_WRITE, OSError):
                for path in write_desi_vi(desk, Path(out), fits=fits):
                    print(path)
            return
        asked = listing.tasks[0].key if len(listing.tasks) == 1 else None
        for file in take or ():
            with failing(USAGE, DesiViError, OSError), failing(CANNOT_WRITE, StoreError):
                events = read_desi_vi(desk, Path(file), task=asked, reviewer=reviewer, tell=say)
                new = desk.take_in(events)
            say(f"{file}: {new:,} of {len(events):,} inspections are new")
    finally:
        desk.store.close()


def opened(inputs: list[str], task: str | None, **how: str | None) -> Listing:
    """The listing that a command's arguments name."""
    from specvet.data.errors import InputError
    from specvet.records import RunError
    from specvet.review.source import open_source
    from specvet.tasks import TaskError

    with failing(USAGE, InputError, RunError, TaskError), failing(CANNOT_WRITE, OSError):
        return open_source(inputs, tasks=task, **how)


def desk_of(listing: Listing, inputs: list[str], store: str | None, *, blind: bool = False) -> Desk:
    """The desk on a listing, its store where `--store` or custom says."""
    from specvet.review.desk import Desk
    from specvet.review.store import StoreError, open_store

    with failing(CANNOT_WRITE, StoreError, OSError):
        kept = open_store(store or _beside(listing, inputs))
        try:
            return Desk(listing, kept, blind=blind)
        except StoreError:
            kept.close()
            raise


def _beside(listing: Listing, inputs: list[str]) -> str:
    if listing.run is not None:
        return str(listing.run / "review.db")
    if len(inputs) != 1 or not os.path.exists(inputs[0].removeprefix("@")):
        raise CommandError("several inputs: say where decisions are kept, as in --store review.db", USAGE)
    return os.path.normpath(inputs[0].removeprefix("@")) + ".review.db"


def _name(reviewer: str | None) -> str | None:
    from specvet.review.events import reviewer_name

    if reviewer is None:
        return None
    with failing(USAGE, ValueError):
        return reviewer_name(reviewer)


def _token(token: str | None, file: str | None) -> str | None:
    import secrets

    if token is not None and file is not None:
        raise CommandError("--token and --token-file: give one of them", USAGE)
    if file is not None:
        with failing(USAGE, OSError, UnicodeDecodeError), open(file, encoding="utf-8") as f:
            return f.readline().strip()
    return secrets.token_urlsafe(24) if token == "new" else token


def _assign(desk: Desk, by: str | None, names: str, each: int) -> None:
    import secrets

    from specvet.review.desk import DeskError

    reviewers = [desk.spelling(n.strip()) for n in names.split(",") if n.strip()]
    before = desk.assignment()
    if before is not None and (list(before.reviewers), before.each) == (reviewers, each):
        return
    with failing(USAGE, DeskError):
        desk.assign(by or "specvet review", f"assign-{secrets.token_hex(8)}", reviewers, each)
    say(f"every item goes to {each} of {', '.join(reviewers)}")


def _ready(desk: Desk, access: Access, no_browser: bool) -> None:
    import webbrowser

    say(f"{desk.listing.title}: {len(desk.listing):,} spectra; {_kept(desk)}; Ctrl-C ends")
    print(access.url(), flush=True)
    if not no_browser:
        webbrowser.open(access.url())


def _kept(desk: Desk) -> str:
    people = desk.reviewers()
    votes, who = sum(people.values()), sum(n > 0 for n in people.values())
    by = f" by {who} {'person' if who == 1 else 'people'}" if votes else ""
    return f"{votes:,} {'vote' if votes == 1 else 'votes'}{by} in {desk.store.name}"
