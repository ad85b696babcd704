"""`specvet get`: spectra by id or list from the archives of SDSS, DESI and LAMOST."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.console import print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, USAGE, CommandError, failing
from specvet.cli.get_summary import NONE_GOT, SOME_MISSING, as_json, plan_json, print_plan, print_summary

if TYPE_CHECKING:
    import threading

    from specvet.catalogue.getting import Asks, Folder, Outcome
    from specvet.catalogue.getting.running import Told

app = typer.Typer(
    help="Get spectra by id or list from SDSS, DESI or LAMOST: specvet get sdss 2108-53473-415.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to get into, new or of an earlier get.")]
Services = Annotated[
    list[str] | None,
    typer.Option("--service", metavar="NAME=URL", help="Another address of sdss, desi, lamost or sparcl: a mirror."),
]
Connections = Annotated[int, typer.Option("--connections", min=1, max=16, help="Files asked for at a time.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.01, help="Seconds without a byte until it is asked again.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be asked for; touch neither net nor disk.")]
Json = Annotated[bool, typer.Option("--json", help="The outcome as one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Neither progress nor a summary.")]


@dataclass(frozen=True, slots=True)
class _How:
    """What all surveys are asked alike with."""

    out: Path
    connections: int
    timeout: float
    dry: bool
    json: bool
    quiet: bool


@app.command()
def sdss(
    ids: Annotated[list[str], typer.Argument(metavar="ID|LIST...", help="Ids, or lists with such columns.")],
    *,
    out: Out = Path("spectra"),
    release: Annotated[
        str, typer.Option("--release", help="By default dr17 for plates; dr19, or as run2d says, for fields.")
    ] = "",
    run2d: Annotated[
        str, typer.Option("--run2d", help="Reduction, where the list has none: 26, v5_13_2, v6_1_3.")
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Files with single exposures, some ten times as large.")] = False,
    service: Services = None,
    connections: Connections = 4,
    timeout: Timeout = 30.0,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Get spectra of SDSS, BOSS, eBOSS (plates) and SDSS-V (fields).

    An id is plate-mjd-fiberid, a specobjid, or field-mjd-catalogid of SDSS-V. A LIST is CSV, FITS, VOTable, Parquet or
    text, with columns plate, mjd, fiberid; or field, mjd, catalogid; or specobjid; run2d beside them if it is known.

    \b
      specvet get sdss 2108-53473-415 0266-51602-0013 --out spectra
      specvet get sdss candidates.fits --out spectra
      specvet get sdss 015000-59146-4375924756 --run2d v6_1_3 --dry-run

    What comes is opened and compared with what was asked for; another object's file is refused. DIR/get.csv has a row
    for each spectrum asked for, with its file, hash and address, or why it is not there: specvet vet DIR/get.csv. The
    same command again gets what is missing or damaged, and nothing else.

    \b
    Exit codes: 0 all are there, 1 none is, 2 wrong command, 3 some are not, 4 cannot write, 130 stopped.
    """
    from specvet.catalogue.getting import lists, sdss
    from specvet.catalogue.getting.asks import AskError, understood
    from specvet.catalogue.getting.services import address

    with failing(USAGE, AskError):
        base = address("sdss", service or ())
        asks = understood(
            lists.given(ids),
            lambda text: [sdss.from_text(text, release=release, run2d=run2d, full=full)],
            lambda row: [sdss.from_row(row, release=release, run2d=run2d, full=full)],
        )
    return _files("sdss", asks, base, "", _How(out, connections, timeout, dry_run, json, quiet))


@app.command()
def lamost(
    ids: Annotated[list[str], typer.Argument(metavar="OBSID|LIST...", help="Obsids, or lists with a column obsid.")],
    *,
    out: Out = Path("spectra"),
    release: Annotated[str, typer.Option("--release", help="Release and version, as in dr8/v2.0.")] = "dr8/v2.0",
    medium: Annotated[bool, typer.Option("--medium", help="Of the medium-resolution survey.")] = False,
    service: Services = None,
    connections: Connections = 4,
    timeout: Timeout = 30.0,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Get spectra of LAMOST.

    The token of your account is taken from the environment variable LAMOST_TOKEN. It is sent to the archive alone, and
    is neither printed nor stored.

    \b
      LAMOST_TOKEN=… specvet get lamost 101001 101002 --release dr8/v2.0
      specvet get lamost obsids.csv --out spectra

    Files lie below DIR as the archive lays them out: dr8/v2.0/fits/20111024/F5902/spec-55859-F5902_sp01-001.fits.gz.
    DIR/get.csv, resuming and checks: see specvet get sdss --help.

    \b
    Exit codes: 0 all are there, 1 none is, 2 wrong command, 3 some are not, 4 cannot write, 130 stopped.
    """
    from specvet.catalogue.getting import lamost, lists
    from specvet.catalogue.getting.asks import AskError, understood
    from specvet.catalogue.getting.services import address, token

    with failing(USAGE, AskError):
        base = address("lamost", service or ())
        secret = token(base)
        asks = understood(
            lists.given(ids),
            lambda text: [lamost.from_text(text, release=release, medium=medium)],
            lambda row: [lamost.from_row(row, release=release, medium=medium)],
        )
    return _files("lamost", asks, base, secret, _How(out, connections, timeout, dry_run, json, quiet))


@app.command()
def desi(
    ids: Annotated[list[str], typer.Argument(metavar="TARGETID|LIST...", help="TARGETIDs, or lists of them.")],
    *,
    out: Out = Path("spectra"),
    source: Annotated[
        str, typer.Option("--from", metavar="files|sparcl", help="Public coadds, or NOIRLab's SPARCL.")
    ] = "files",
    zcat: Annotated[
        str | None,
        typer.Option("--zcat", metavar="FILE", help="zall-pix or zpix catalogue of yours: who lies in which coadd."),
    ] = None,
    release: Annotated[
        str, typer.Option("--release", help="dr1 or edr; with --from sparcl a data set, by default DESI-DR1.")
    ] = "",
    specprod: Annotated[str, typer.Option("--specprod", help="Production of another release, as in iron.")] = "",
    redrock: Annotated[
        bool, typer.Option("--redrock/--no-redrock", help="Redshifts and classes beside each coadd.")
    ] = True,
    service: Services = None,
    connections: Connections = 4,
    timeout: Timeout = 30.0,
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Get spectra of DESI: the coadds they lie in, or one by one from SPARCL.

    Which coadd a TARGETID lies in is told by the list (columns targetid, survey, program, healpix), by the id itself
    (SURVEY/PROGRAM/HEALPIX/TARGETID), or by a catalogue (--zcat). SPARCL (--from sparcl) needs none of these.

    \b
      specvet get desi main/dark/10378/39627652591521181 --dry-run
      specvet get desi targets.csv --zcat zall-pix-iron.fits --out spectra
      specvet get desi targets.csv --from sparcl --out spectra

    A coadd holds some hundred megabytes and many targets; it is got once. DIR/get.csv names file and row of each.

    \b
    Exit codes: 0 all are there, 1 none is, 2 wrong command, 3 some are not, 4 cannot write, 130 stopped.
    """
    from specvet.catalogue.getting import desi, lists
    from specvet.catalogue.getting.asks import AskError, understood
    from specvet.catalogue.getting.services import address
    from specvet.cli.data_progress import shown_steps

    if source not in ("files", "sparcl"):
        raise CommandError(f"--from {source}: choose files or sparcl", USAGE)
    if source == "sparcl":
        if zcat is not None:
            raise CommandError("--zcat says which coadd a target lies in; SPARCL needs no such thing", USAGE)
        return _sparcl(ids, service, release, _How(out, connections, timeout, dry_run, json, quiet))
    with failing(USAGE, AskError):
        base = address("desi", service or ())
        given = list(lists.given(ids))
        where: desi.Where = {}
        if zcat is not None:
            with shown_steps(quiet) as progress:
                targets = desi.targets_of(one for _, one in given)
                where = desi.coadds_of(zcat, targets, lambda done, total: progress("catalogue rows", done, total))
        options = {"release": release or desi.RELEASE, "specprod": specprod}
        asks = understood(
            given,
            lambda text: desi.from_text(text, where, redrock=redrock, **options),
            lambda row: desi.from_row(row, where, redrock=redrock, **options),
        )
    return _files("desi", asks, base, "", _How(out, connections, timeout, dry_run, json, quiet))


def _sparcl(ids: list[str], service: list[str] | None, release: str, how: _How) -> int:
    from specvet.catalogue.getting import lists, sparcl
    from specvet.catalogue.getting.asks import AskError, understood, value
    from specvet.catalogue.getting.desi import ID
    from specvet.catalogue.getting.services import address

    release = release or sparcl.RELEASE
    with failing(USAGE, AskError):
        base = address("sparcl", service or ())
        asks = understood(
            lists.given(ids),
            lambda text: [sparcl.from_text(text, release)],
            lambda row: [sparcl.from_text(value(row, *ID), release)],
        )

    def get(folder: Folder, tell: Told, stop: threading.Event) -> Outcome:
        return sparcl.get_sparcl(asks.asks, folder, base, tell=tell, stop=stop)

    return _got("sparcl", asks, base, get, how)


def _files(survey: str, asks: Asks, base: str, token: str, how: _How) -> int:
    from specvet.catalogue.getting.running import get as get_files

    def get(folder: Folder, tell: Told, stop: threading.Event) -> Outcome:
        n, seconds = how.connections, how.timeout
        return get_files(asks.asks, folder, base, token=token, connections=n, timeout=seconds, tell=tell, stop=stop)

    return _got(survey, asks, base, get, how)


def _got(survey: str, asks: Asks, base: str, get: Callable[[Folder, Told, threading.Event], Outcome], how: _How) -> int:
    """Show the plan, or carry it out and tell what came of it."""
    if not asks.asks:
        said = "\n".join(f"{written}: {problem}" for written, problem in asks.problems[:5])
        raise CommandError(said or "nothing is asked for: the list is empty", USAGE)
    if how.dry:
        print_json(plan_json(asks, base)) if how.json else print_plan(asks, base, how.out)
        return DONE
    from specvet.catalogue.getting import AskError, Folder
    from specvet.cli.data_progress import shown_steps
    from specvet.cli.signals import stopped_by_signals
    from specvet.records import RunLockedError

    with failing(CANNOT_WRITE, OSError), failing(USAGE, RunLockedError, AskError), closing(Folder(how.out)) as folder:
        folder.note_problems(survey, asks.problems)
        with shown_steps(how.quiet) as progress, stopped_by_signals(_stopping) as stop:
            outcome = get(folder, lambda done, total: progress("spectra", done, total), stop)
            stopped = stop.is_set()
    if how.json:
        print_json(as_json(asks, outcome, how.out))
    elif not how.quiet:
        print_summary(asks, outcome, how.out)
    if stopped:
        return INTERRUPTED
    if not outcome.there:
        return NONE_GOT
    return DONE if outcome.there == len(outcome.found) and not asks.problems else SOME_MISSING


def _stopping() -> None:
    os.write(2, b"specvet: finishing the files under way; Ctrl-C again aborts\n")
