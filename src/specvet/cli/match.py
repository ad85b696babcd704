"""`specvet match`: what the user's tables say of a run's stars, and the verdicts with Gaia."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.catalogue.matching import Matched, Source

_OF_TABLE = ("--as", "--columns", "--keep")


class MatchCommand(TyperCommand):
    """`--as`, `--columns` and `--keep` belong to the `--table` before them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return list(super().parse_args(ctx, paired(args)))


def match(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet or rollout made.")],
    *,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="FILE", help="A catalogue: CSV, ECSV, FITS, VOTable, Parquet. May be repeated."
        ),
    ] = None,
    as_: Annotated[
        list[str] | None,
        typer.Option("--as", metavar="NAME", help="Of the --table before it: gaia, vsx, mine; by default its file's."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="M=C", help="Of the --table before it: ra=RA_NEW,ref_epoch=2000."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="C,C", help="Of the --table before it: columns to keep as text."),
    ] = None,
    archive: Annotated[
        list[str] | None,
        typer.Option("--archive", metavar="NAMES", help="Ask archives: gaia,simbad,vsx,NAME=VIZIER_TABLE."),
    ] = None,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", metavar="NAME=URL", help="Where xmatch, gaia, simbad or vizier is. May be repeated."),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", help="That one request may take.")] = 300.0,
    radius: Annotated[float, typer.Option("--radius", metavar="ARCSEC", help="Around each spectrum.")] = 2.0,
    json: Annotated[bool, typer.Option("--json", help="The result as one JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Neither progress nor a summary.")] = False,
) -> int:
    """Match a run with catalogues that you have or that archives have, and see what Gaia makes of its verdicts.

    A table with parallaxes and G magnitudes is Gaia's: it gives source id, G, BP-RP, parallax, RUWE and the absolute
    magnitude, and, by the rules of each task (specvet tasks NAME), a second verdict, answer_with_gaia. The verdict from
    the spectrum stays as it is. Any other table gives known_as: what it calls the star, or new where no table that was
    asked and that reaches there knows it.

    Rows are carried by their proper motion to the date of each spectrum. A Gaia id that the file states goes first,
    else the nearest row within --radius counts; what is ambiguous is noted.

    --archive asks CDS XMatch, or TAP with NAME@tap, for what they have near each position; nothing but positions is
    sent. Answers are kept in RUN/match/archive, so that a match that was stopped, or met a dead service, goes on.

    \b
      specvet match RUN --table gaia.csv
      specvet match RUN --table gaia.fits --table vsx.fits --as vsx --keep Period
      specvet match RUN --table mine.csv --as mine --columns ra=alpha,dec=delta,ref_epoch=2000
      specvet match RUN --archive gaia,simbad,vsx:Period,hsd=J/A+A/662/A40/knownhsd
      specvet match RUN --archive gaia@tap --service gaia=https://mirror.example/tap
      specvet match RUN

    Writes RUN/match/: matches.parquet, answers.parquet and match.json. specvet export and report then show them. The
    same tables again do nothing, other tables join; without --table, verdicts that came since get theirs.

    \b
    Exit codes: 0 matched, 2 wrong command, or a table that cannot be understood, 3 matched but an archive did not
    answer for all, 4 cannot write, 130 stopped.
    """
    from specvet.catalogue.matching import match_run
    from specvet.cli.data_progress import shown_steps
    from specvet.cli.match_archive import NOT_ALL_ANSWERED, archive_sources_of, unanswered
    from specvet.data.errors import InputError
    from specvet.records import RunError, RunFolder

    if not 0 < radius <= 3600:
        raise CommandError(f"--radius {radius:g}: give arcseconds, more than 0 and at most 3600", USAGE)
    with failing(USAGE, RunError, InputError, OSError):
        folder = RunFolder.read(run)
    try:
        with failing(USAGE, InputError, OSError):
            # Whoever else can say what is there joins this list: `specvet.catalogue.matching.sources.Source`.
            tables = table_sources(table or [], as_ or [], columns or [], keep or [], quiet)
            archives = archive_sources_of(archive or [], service or [], timeout, folder.path, say)
            sources: list[Source] = [*tables, *archives]
            if twice := {source.name for source in tables} & {source.name for source in archives}:
                raise CommandError(f"--archive {min(twice)}: a --table is called so; tell them apart with --as", USAGE)
        if not sources and not (folder.path / "match").is_dir():
            raise CommandError(
                "nothing to match with; give a catalogue, as in --table gaia.csv or --archive gaia", USAGE
            )
        with failing(USAGE, RunError, InputError), failing(CANNOT_WRITE, OSError), shown_steps(quiet) as progress:
            found = match_run(folder, sources, radius, progress=progress, tell=say)
    finally:
        folder.close()
    if json:
        print_json(_as_json(found))
    elif not quiet:
        _print(run, found)
    if text := unanswered(archives):
        say(text)
        return NOT_ALL_ANSWERED
    return DONE


def table_sources(
    files: Sequence[str], names: Sequence[str], columns: Sequence[str], keep: Sequence[str], quiet: bool
) -> list[Source]:
    """The tables of the command line, read. Raises `InputError`, `OSError`."""
    from specvet.catalogue.matching import TableSource, read_table
    from specvet.catalogue.matching.names import parsed_columns

    sources: list[Source] = []
    for file, name, given, kept in zip(files, names, columns, keep, strict=True):
        if not os.path.isfile(file):
            raise CommandError(f"--table {file}: no such file", USAGE)
        chosen = tuple(c.strip() for c in kept.split(",") if c.strip())
        read = read_table(file, name or None, parsed_columns(given), chosen)
        if any(source.name == read.name for source in sources):
            raise CommandError(
                f"--table {file}: a second table is called {read.name}; tell them apart with --as", USAGE
            )
        if not quiet:
            for notice in read.notices:
                say(notice)
        sources.append(TableSource(read))
    return sources


def paired(args: Sequence[str]) -> list[str]:
    """Arguments in which each `--table` is followed by one `--as`, `--columns` and `--keep`, empty where not given.

    So their lists have one length, and whatever was given stays with its table. Raises `CommandError` for one of them
    without a table before it, or given twice.
    """
    out: list[str] = []
    own: dict[str, str] | None = None
    rest = list(args)

    def close() -> None:
        if own is not None:
            for name in _OF_TABLE:
                out.extend((name, own.get(name, "")))

    while rest:
        argument = rest.pop(0)
        if argument == "--":  # whatever follows is no option
            rest.insert(0, argument)
            break
        name, equals, value = argument.partition("=")
        if name not in ("--table", *_OF_TABLE):
            out.append(argument)
            continue
        if not equals:
            if not rest:
                out.append(argument)  # typer says what is missing
                continue
            value = rest.pop(0)
        if name == "--table":
            close()
            own = {}
            out.extend((name, value))
        elif own is None:
            raise CommandError(f"{name} {value}: belongs behind the --table that it is about", USAGE)
        elif name in own:
            raise CommandError(f"{name} {value}: is given twice for one --table", USAGE)
        else:
            own[name] = value
    close()
    return [*out, *rest]


def _as_json(found: Matched) -> dict[str, Any]:
    import dataclasses

    return {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name != "answers"}


def _print(run: str, found: Matched) -> None:
    if not found.done:
        print(f"{run}: matched already with {', '.join(found.kept) or 'nothing'}; nothing to do")
        return
    print(f"{found.spectra:,} spectra, {found.placed:,} with a position")
    if "gaia" in {*found.asked, *found.kept} or found.gaia:
        print(f"gaia: {found.gaia:,} found")
    for name, n in found.known.items():
        print(f"{name}: knows {n:,}")
    if found.new or found.known:
        print(f"new: {found.new:,}")
    if found.beyond:
        print(f"neither: {found.beyond:,}, where these catalogues have no rows or did not answer; known_as stays empty")
    if found.notes:
        print(f"with notes: {found.notes:,} (column match_notes of specvet export)")
    for task, changes in found.changed.items():
        print(f"{task} with Gaia: " + ", ".join(f"{n:,} {what}" for what, n in changes.items()))
    print(
        f"wrote {os.path.join(run, 'match')}; table: specvet export {run} --out table.csv; page: specvet report {run}"
    )
