"""`specvet triage`: a run sorted into accept, look and reject, and what may be expected of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from specvet.cli.console import print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, CommandError, failing
from specvet.cli.triage_calibrate import Processes, calibrate, indices_run, label_truths
from specvet.cli.triage_check import blank, prefilter

if TYPE_CHECKING:
    from specvet.records import RunFolder

SORT = "sort"


class _Group(TyperGroup):
    """`specvet triage RUN` is `specvet triage sort RUN`: what is no command is a run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [SORT, *args]
        return list(super().parse_args(ctx, args))


app = typer.Typer(
    cls=_Group,
    help="Sort a run into accept, look and reject: specvet triage RUN --calibration C.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command(name="calibrate")(calibrate)
app.command(name="blank")(blank)
app.command(name="prefilter")(prefilter)


@app.command(name=SORT)
def sort(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet or rollout made.")],
    *,
    calibration: Annotated[
        str | None, typer.Option("--calibration", metavar="C", help="Of this policy: specvet triage calibrate.")
    ] = None,
    prevalence: Annotated[
        str | None,
        typer.Option(
            "--prevalence", metavar="P", help="Share of members in the list, as in 0.002 or cv=0.002,wd=0.01."
        ),
    ] = None,
    max_lost: Annotated[
        float, typer.Option("--max-lost", metavar="X", help="Share of the true objects that may be rejected.")
    ] = 0.02,
    max_false: Annotated[
        float, typer.Option("--max-false", metavar="X", help="Share of the accepted that may be wrong.")
    ] = 0.05,
    confidence: Annotated[float, typer.Option("--confidence", metavar="X", help="Of each promise.")] = 0.95,
    audit: Annotated[
        float, typer.Option("--audit", metavar="X", help="Share of the rejected that a person looks at all the same.")
    ] = 0.05,
    seed: Annotated[int, typer.Option("--seed", help="Of the audit's draw, and of intervals.")] = 0,
    indices: Annotated[
        str | None,
        typer.Option("--indices", metavar="RUN", help="A run of line-indices over the same list, for its evidence."),
    ] = None,
    processes: Processes = 1,
    checked: Annotated[
        str | None,
        typer.Option("--checked", metavar="L", help="Labels of people who looked at the audit: what it found."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The result as one JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Neither progress nor a summary.")] = False,
) -> int:
    """Sort a run: which verdicts to accept, which spectra to look at, which to reject.

    With a calibration each spectrum and task gets a calibrated probability at this list's own prevalence, which is
    estimated or given. Rejected is what may be rejected so that, with the stated confidence, at most --max-lost of the
    true objects are lost; accepted is what is wrong in at most --max-false of cases. Where too few labels make a
    promise impossible, that is said, with how many would do. UNSURE, NO_DATA, FAILED and ERROR are always looked at,
    and so is a random share of the rejected, to check the promise: --checked then says what was found there.

    \b
      specvet triage calibrate LABELLED --labels labels.csv --out cv.json
      specvet triage RUN --calibration cv.json
      specvet triage RUN --calibration cv.json --prevalence 0.002 --max-lost 0.05

    Writes RUN/triage/: rows.parquet, triage.json and page.html. specvet export and report then show probability and
    band, and the review page its queue by them.

    \b
    Exit codes: 0 sorted, 2 wrong command, or a calibration that is not for this run, 4 cannot write.
    """
    from specvet.records import RunError, RunFolder
    from specvet.vetting.triage import TriageError
    from specvet.vetting.triage.run import audit_of

    settings = _settings(prevalence, max_lost, max_false, confidence, audit, seed)
    with failing(USAGE, RunError, TriageError):
        folder = RunFolder.read(run)
    try:
        if checked is not None:
            with failing(USAGE, RunError, TriageError):
                audits = audit_of(folder, label_truths(folder, checked, None, quiet)[0])
            from specvet.cli.triage_summary import json_audit, print_audit

            print_json(json_audit(audits)) if json else print_audit(audits)
            return DONE
        return _sorted(folder, calibration, settings, indices, processes, json, quiet)
    finally:
        folder.close()


def _sorted(
    folder: RunFolder,
    calibration: str | None,
    settings: Any,
    indices: str | None,
    processes: int,
    json: bool,
    quiet: bool,
) -> int:
    from specvet.cli.data_progress import shown_steps
    from specvet.cli.triage_summary import print_triage
    from specvet.records import RunError
    from specvet.vetting.triage import TriageError, read_about, read_calibration, write_triage
    from specvet.vetting.triage.page import write_page
    from specvet.vetting.triage.run import sort_run

    file = None if calibration is None else Path(calibration)
    if file is not None and not file.is_file():
        raise CommandError(f"--calibration {file}: no such file; make one with specvet triage calibrate", USAGE)
    with failing(USAGE, RunError, TriageError, OSError), indices_run(indices) as measured:
        known = None if file is None else read_calibration(file)
        with shown_steps(quiet) as progress:
            found = sort_run(folder, known, settings, indices=measured, processes=processes, progress=progress)
    with failing(CANNOT_WRITE, OSError):
        target = write_triage(folder, found, settings, known, file)
        write_page(target / "page.html", folder.path.resolve().name, found, settings, known)
    if json:
        print_json(read_about(folder.path))
    elif not quiet:
        print_triage(os.fspath(folder.path), found, settings, known)
    return DONE


def _settings(
    prevalence: str | None, max_lost: float, max_false: float, confidence: float, audit: float, seed: int
) -> Any:
    from pydantic import ValidationError

    from specvet.vetting.triage import Settings

    asked: dict[str, Any] = {
        "max_lost": max_lost,
        "max_false": max_false,
        "confidence": confidence,
        "audit": audit,
        "seed": seed,
    }
    try:
        return Settings(prevalence=_prevalences(prevalence), **asked)
    except ValidationError as e:
        name = str(e.errors()[0]["loc"][0])
        raise CommandError(f"--{name.replace('_', '-')} {asked[name]}: {e.errors()[0]['msg']}", USAGE) from None


def _prevalences(text: str | None) -> dict[str, float]:
    """`0.002`, or `cv=0.002,wd=0.01`."""
    if text is None:
        return {}
    from specvet.tasks import TaskError, load_task
    from specvet.vetting.triage.sorting import EVERY

    found = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, number = part.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not 0 < share < 1:
            raise CommandError(f"--prevalence {part}: give a share between 0 and 1, as in 0.002 or cv=0.002", USAGE)
        try:
            key = load_task(name).key if name else EVERY
        except TaskError:
            key = name
        found[key] = share
    return found
