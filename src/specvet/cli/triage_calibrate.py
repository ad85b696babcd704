"""`specvet triage calibrate`: what a policy's probabilities are worth, from a labelled run."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.console import print_json
from specvet.cli.failure import CANNOT_WRITE, DONE, USAGE, CommandError, failing

if TYPE_CHECKING:
    from specvet.records import RunFolder
    from specvet.vetting.triage.run import Labels


Processes = Annotated[
    int,
    typer.Option(
        "--processes", min=1, metavar="P", help="That measure a model's spectra again; what was measured is kept."
    ),
]


def calibrate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of the policy over labelled spectra.")],
    *,
    out: Annotated[str, typer.Option("--out", metavar="C", help="The calibration to write, a JSON file.")],
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", metavar="L", help="Table of answers, or question file; by default the run's own questions."
        ),
    ] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="DIR", help="Where the table's paths start.")] = None,
    indices: Annotated[
        str | None,
        typer.Option("--indices", metavar="RUN", help="A run of line-indices over the same list, for its evidence."),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure", help="Read a model's spectra again for index evidence and claims to weigh."
        ),
    ] = True,
    processes: Processes = 1,
    seed: Annotated[int, typer.Option("--seed", help="Deals objects into folds.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="The cross-fitted numbers as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Neither progress nor a summary.")] = False,
) -> int:
    """Calibrate a policy on a labelled run.

    Labels are a table as `specvet data label-list` takes it (file, task, answer; or a column for each task), or a
    question file with answers. Weighed are the policy's log-odds of YES, the agreement of its samples, its looks, the
    evidence of measured indices, the claims that the spectrum supports or contradicts, and the signal to noise.
    A model's spectra are measured once: what was measured is kept in RUN/triage, and the same command goes on.
    Everything that is told of the calibration is cross-fitted by object. Needs scikit-learn
    (pip install 'specvet[triage]'); what it writes is applied without.

    \b
      specvet vet labelled/ --task cv --out L
      specvet triage calibrate L --labels labels.csv --out cv.json
    """
    from specvet.cli.data_progress import shown_steps
    from specvet.cli.triage_summary import print_calibration
    from specvet.records import RunError, RunFolder
    from specvet.vetting.triage import TriageError
    from specvet.vetting.triage.run import calibrate_run

    if not Path(out).parent.is_dir():
        raise CommandError(f"--out {out}: there is no folder {Path(out).parent}; make it first", USAGE)
    with failing(USAGE, RunError, TriageError):
        folder = RunFolder.read(run)
    try:
        given = None if labels is None else label_truths(folder, labels, root, quiet)
        told = {} if labels is None else {"file": os.path.basename(labels), "sha256": _sha256(labels)}
        try:
            with (
                failing(USAGE, RunError, TriageError, OSError),
                indices_run(indices) as other,
                shown_steps(quiet) as progress,
            ):
                made, matched = calibrate_run(
                    folder,
                    given,
                    indices=other,
                    measure=measure,
                    processes=processes,
                    told=told,
                    seed=seed,
                    progress=progress,
                )
        except ImportError as e:
            if e.name is None or not e.name.startswith("sklearn"):
                raise
            raise CommandError("calibrating needs scikit-learn: pip install 'specvet[triage]'", USAGE) from None
        with failing(CANNOT_WRITE, OSError):
            made.write(Path(out))
    finally:
        folder.close()
    if json:
        print_json({"calibration": out, "labels": made.labels, "measured": made.measured})
    elif not quiet:
        print_calibration(made, matched, f"specvet triage RUN --calibration {shlex.quote(out)}")
    return DONE


def label_truths(run: RunFolder, labels: str, root: str | None, quiet: bool) -> Labels:
    """The truths of a table or question file, by place in the run."""
    from specvet.cli.data_labels import known_tasks, label_rows
    from specvet.data.errors import InputError
    from specvet.data.labels import agreed
    from specvet.data.questions import is_question_file, read_questions
    from specvet.tasks import TaskError
    from specvet.vetting.triage.truths import truths_of_labels, truths_of_questions

    with failing(USAGE, InputError, TaskError):
        if is_question_file(labels):
            return truths_of_questions(run, read_questions(labels)), set()
        own = run.path / "tasks"
        known = known_tasks(None) | (known_tasks(os.fspath(own)) if any(own.glob("*.yaml")) else {})
        rows, names = label_rows(labels, root, None, known, quiet)
    return truths_of_labels(run, agreed(rows, {name: task.key for name, (task, _) in names.items()}).labels)


@contextmanager
def indices_run(path: str | None) -> Iterator[Any]:
    """The run of `line-indices`, open to read; None where none is named."""
    from specvet.records import RunError, RunFolder

    if path is None:
        yield None
        return
    with failing(USAGE, RunError):
        folder = RunFolder.read(path)
    try:
        yield folder
    finally:
        folder.close()


def _sha256(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
