"""`specvet samp`: a run's table, or single spectra of it, to TOPCAT, Aladin and whatever else is open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specvet.cli.console import print_json, say
from specvet.cli.export import answer_words, task_keys
from specvet.cli.failure import CANNOT_WRITE, DONE, NOTHING_VETTED, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.catalogue.samp import Hub, Sent
    from specvet.records import Decision, RunFolder

FOLDER = "samp"


def samp(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    *,
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="ID|FILE#ROW", help="Spectra instead of the table; may be repeated."),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks: cv,wd.")] = None,
    answer: Annotated[str | None, typer.Option("--answer", help="Only these answers, as in YES,UNSURE.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Who took what, as one JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> int:
    """Send a run's table to the programs that are open, TOPCAT and Aladin for instance, through SAMP.

    Without --rows the verdicts go as a VOTable, as specvet export writes it. With --rows each spectrum goes to the
    programs that show spectra, and its place on the sky to those that show the sky (Aladin, TOPCAT's sky plots).

    \b
      specvet samp RUN
      specvet samp RUN --task cv --answer YES,UNSURE
      specvet samp RUN --rows spectra/spec-0266-51602-0031.fits#0

    A hub must be running on this machine: TOPCAT and Aladin bring one. Only this machine is spoken to. What was sent
    is read from RUN/samp/, so leave it there while the programs show it.

    \b
    Exit codes: 0 at least one program took it, 1 no hub, or none that takes it, 2 wrong command, 4 cannot write.
    """
    from specvet.catalogue.samp import SampError, connected
    from specvet.records import RunError, RunFolder

    answers = answer_words(answer)
    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        tasks = task_keys(task, run)
        chosen = None if not rows else _chosen(folder, rows)
        with failing(NOTHING_VETTED, SampError), connected() as hub:
            sent = _table(hub, folder, tasks, answers) if chosen is None else _spectra(hub, folder, chosen)
    finally:
        folder.close()
    if json:
        print_json({"sent": [{"program": s.program, "mtype": s.mtype, "ok": s.ok, "error": s.error} for s in sent]})
    return _told(sent, spectra=chosen is not None, quiet=quiet or json)


def _table(hub: Hub, folder: RunFolder, tasks: Sequence[str] | None, answers: Sequence[str] | None) -> list[Sent]:
    from specvet.vetting.export import ExportError, export

    name = folder.path.resolve().name
    file = folder.path / FOLDER / f"{'-'.join([name, *(tasks or ()), *(answers or ())])}.vot"
    with failing(CANNOT_WRITE, OSError), failing(USAGE, ExportError):
        file.parent.mkdir(exist_ok=True)
        export(folder.path, file, "votable", tasks=tasks, answers=answers)
    return hub.table(file, f"specvet {name}")


def _spectra(hub: Hub, folder: RunFolder, chosen: Sequence[Decision]) -> list[Sent]:
    from specvet.spectra import write
    from specvet.vetting.report.run import Spectra

    read = Spectra(folder.path)
    sent: list[Sent] = []
    for number, decision in enumerate(chosen):
        with failing(NOTHING_VETTED, ValueError, OSError):
            spectrum = read(decision.file, decision.row)
        if spectrum is None:
            raise CommandError(f"{decision.file} row {decision.row}: is not there any more", NOTHING_VETTED)
        file = folder.path / FOLDER / f"{Path(decision.file).name.partition('.')[0]}-{decision.row}.fits"
        with failing(CANNOT_WRITE, OSError):
            file.parent.mkdir(exist_ok=True)
            write(spectrum, file)
        name = decision.id or f"{decision.file}#{decision.row}"
        sent += hub.spectrum(file, name)
        if number == 0 and decision.ra is not None and decision.dec is not None:
            sent += hub.point_at(decision.ra, decision.dec)
    return sent


def _chosen(folder: RunFolder, rows: Sequence[str]) -> list[Decision]:
    """The first decision about each of the spectra, which are named by id or by file and row."""
    found: dict[str, dict[tuple[str, int], Decision]] = {name: {} for name in rows}
    for decision in folder.decisions():
        for name in {decision.id, f"{decision.file}#{decision.row}", decision.file} & found.keys():
            found[name].setdefault((decision.file, decision.row), decision)
    for name, places in found.items():
        if not places:
            raise CommandError(f"--rows {name}: no spectrum of {folder.path} has this id or is this FILE#ROW", USAGE)
        if len(places) > 1:
            which = ", ".join(f"{file}#{row}" for file, row in list(places)[:3])
            raise CommandError(f"--rows {name}: {len(places)} spectra are called so; name one of {which}", USAGE)
    return [next(iter(places.values())) for places in found.values()]


def _told(sent: Sequence[Sent], *, spectra: bool, quiet: bool) -> int:
    from specvet.data.files import printable

    if not sent:
        what = "a spectrum or a place on the sky" if spectra else "a table (table.load.votable)"
        raise CommandError(f"the SAMP hub runs, but no program that takes {what} is connected to it: open TOPCAT")
    for one in sent:
        if not one.ok:
            say(f"{printable(one.program)} refused {one.mtype}: {printable(one.error) or 'it does not say why'}")
        elif not quiet:
            say(f"{printable(one.program)} took {one.mtype}")
    return DONE if any(one.ok for one in sent) else NOTHING_VETTED
