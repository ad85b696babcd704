"""`specvet export`: a run's verdicts, or a spectrum, in a format that other programs read."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from specvet.cli.console import say
from specvet.cli.failure import CANNOT_WRITE, USAGE, CommandError, failing
from specvet.cli.objects import Radius


def export(
    source: Annotated[
        str, typer.Argument(metavar="RUN|FILE", help="The run folder that vet made, or a spectrum file.")
    ],
    out: Annotated[str, typer.Option("--out", help="File to write; - writes a run's CSV to standard output.")],
    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="csv|parquet|fits|votable|ecsv", help="By default, as the suffix of --out says."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only these tasks of a run: cv,wd.")] = None,
    answer: Annotated[
        str | None,
        typer.Option("--answer", help="Only these answers of a run, as in YES,UNSURE."),
    ] = None,
    row: Annotated[
        int | None, typer.Option("--row", min=0, metavar="N", help="Which target of a spectrum file, from 0.")
    ] = None,
    objects: Annotated[
        bool, typer.Option("--objects", help="One row a star, over all its spectra, instead of one a spectrum.")
    ] = False,
    radius: Radius = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="What people decided in specvet review, of a run or a list.")
    ] = False,
    decision: Annotated[
        str | None, typer.Option("--decision", help="With --reviewed: only these of people; YES: what they accepted.")
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", help="With --reviewed: where decisions are kept, if not beside it.")
    ] = None,
) -> None:
    """Write a run's verdicts, or one spectrum, as a table.

    RUN: one row for each spectrum and task: file, row, id, task, answer, confidence, reason, then the probability of
    YES, a likelier class, the evidence with measured values, the windows looked at, what the file says of itself, and
    where the row comes from: model with hash, version of the task and of specvet, release, reduction, date.
    Answers are YES, NO, UNSURE, NO_DATA, FAILED or ERROR. Identifiers are text. An unreadable file is one row, of the
    task *.

    RUN or LIST with --reviewed: one row for each spectrum and task that somebody has decided, with decision, standing
    (single, agreed, conflict, settled), votes, quality, class, redshift, issues and comment of people beside the rest.

    RUN with --objects: one row for each star: id (Gaia DR3 or J and its place), mean place, number of spectra, first
    and last MJD, its spectra as FILE:ROW, and of each task the answer over all epochs, its rule, what each epoch said,
    and why. About one epoch a person (with --reviewed) goes before triage, triage before the policy: specvet objects.

    FILE: the pixels (WAVELENGTH, FLUX, IVAR, MASK) of one spectrum as FITS, VOTable or ECSV, with all that is known of
    it in the header; specvet reads the same spectrum back.

    \b
    Suffixes: .csv, .parquet; .fits, .vot (.votable, .xml), .ecsv, which .gz may follow.
    What a format cannot hold is said when it happens, and in the header of the file:
      CSV      no units, descriptions or provenance; null is an empty field without quotation marks
      FITS     text is ASCII, other letters are escaped so that they can be got back; an empty text and a missing one
               look alike to most programs; a number that is missing is NaN, an integer TNULL
      VOTable  all is kept (BINARY2); astropy shows an empty text and a missing one alike, NaN as missing
      ECSV     all is kept; a column NAME.mask tells an empty text from a missing one
    """
    if format not in (None, "csv", "parquet", "fits", "votable", "ecsv"):
        raise CommandError(f"--format {format}: choose csv, parquet, fits, votable or ecsv", USAGE)
    if objects:
        from specvet.cli.objects import export_objects

        if row is not None or decision is not None:
            raise CommandError("--row and --decision choose no objects; --task and --answer do", USAGE)
        wanted = answer_words(answer)
        export_objects(source, out, format, task=task, answers=wanted, radius=radius, reviewed=reviewed, store=store)
        return
    if reviewed:
        from specvet.cli.review_outputs import export_reviewed

        if radius is not None:
            raise CommandError("--radius belongs to the tables of a run and to --objects", USAGE)

        if row is not None:
            raise CommandError("--row chooses a target of a spectrum file; a review has no rows to choose so", USAGE)
        export_reviewed(source, out, format, task=task, answers=answer_words(answer), decision=decision, store=store)
        return
    if decision is not None or store is not None:
        raise CommandError("--decision and --store belong to --reviewed, which exports what people decided", USAGE)
    if os.path.isfile(source):
        if task is not None or answer is not None or radius is not None:
            raise CommandError(
                f"{source}: is no run folder; --task and --answer choose rows of a run, --radius its objects", USAGE
            )
        _export_spectrum(source, out, format, row)
        return
    if row is not None:
        raise CommandError(
            "--row chooses a target of a spectrum file; a run's rows are chosen by --task and --answer", USAGE
        )
    from specvet.cli.objects import radius_of
    from specvet.records import RunError
    from specvet.vetting.export import ExportError
    from specvet.vetting.export import export as write

    keys, answers, arcsec = task_keys(task, source), answer_words(answer), radius_of(radius)
    with failing(CANNOT_WRITE, OSError), failing(USAGE, ExportError, RunError):
        n = write(source, out, format, tasks=keys, answers=answers, radius_arcsec=arcsec, tell=say)  # type: ignore[arg-type]
    if out != "-":
        say(f"wrote {n:,} rows to {out}")


def _export_spectrum(file: str, out: str, format: str | None, row: int | None) -> None:
    from specvet.spectra import SpectrumReadError, read, write

    if os.path.exists(out) and os.path.samefile(file, out):
        raise CommandError(f"--out {out}: is the spectrum itself; name another file", USAGE)
    with failing(1, SpectrumReadError):
        spectra = read(file)
    if row is None and len(spectra) > 1:
        raise CommandError(
            f"{file}: holds {len(spectra)} targets; choose one with --row, 0 to {len(spectra) - 1}", USAGE
        )
    chosen = next((s for s in spectra if s.row == (row or 0)), None)
    if chosen is None:
        raise CommandError(f"{file}: there is no row {row}; it holds rows 0 to {len(spectra) - 1}", USAGE)
    with failing(CANNOT_WRITE, OSError), failing(USAGE, ValueError):
        notices = write(chosen, out, format)  # type: ignore[arg-type]
    for notice in notices:
        say(notice)
    say(f"wrote {chosen.n_pix:,} pixels to {out}")


def task_keys(names: str | None, run: str) -> list[str] | None:
    """Keys of tasks of a run as people write them; what is no built-in task may be a key of the user's own."""
    if names is None:
        return None
    from pathlib import Path

    from specvet.tasks import TaskError, load_task

    keys = []
    for name in filter(None, (n.strip() for n in names.split(","))):
        try:
            keys.append(load_task(name).key)
        except TaskError:
            keys.append(name)
    asked = {path.stem for path in Path(run, "tasks").glob("*.yaml")}
    if asked and (foreign := [key for key in keys if key not in asked]):
        raise CommandError(f"--task {','.join(foreign)}: {run} asked {', '.join(sorted(asked))}", USAGE)
    return keys


def answer_words(answers: str | None) -> list[str] | None:
    """The answers in `yes,UNSURE`."""
    from specvet.records.schema import Answer

    if answers is None:
        return None
    words = [a.strip().upper() for a in answers.split(",") if a.strip()]
    for word in words:
        if word not in list(Answer):
            raise CommandError(f"--answer {word}: choose from {', '.join(Answer)}", USAGE)
    return words
