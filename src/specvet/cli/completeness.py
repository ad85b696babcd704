"""`specvet completeness`: what share of a class's members a run would have recovered."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli import models
from specvet.cli.asked_again import opened_as, urls_of
from specvet.cli.console import print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specvet.catalogue.completeness.making import Asked, Plan
    from specvet.records import RunFolder
    from specvet.vetting.completeness_counts import Row


def completeness(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run folder that vet made.")],
    *,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Tasks of the run, as in cv,wd; by default all it can be for.")
    ] = None,
    snr: Annotated[
        str | None, typer.Option("--snr", metavar="S,…", help="S/N a pixel to inject at; by default 2,3,5,8,12,20,40.")
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="M,…", help="Instead: magnitudes below the star whose place is taken."),
    ] = None,
    each: Annotated[
        int, typer.Option("--each", min=1, metavar="N", help="Injections for each task and each S/N or drop.")
    ] = 50,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of members, hosts and noise.")] = 0,
    calibration: Annotated[
        str | None, typer.Option("--calibration", metavar="C", help="That the run was sorted with, for its bands.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Folder; by default RUN/completeness.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="Who is asked; by default who made the run.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Its folder, where it has moved.")] = None,
    base_url: models.BaseUrls = None,
    device: models.Device = "auto",
    dtype: models.Dtype = "auto",
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="Spectra that a model is asked about at a time.")
    ] = 16,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, metavar="P", help="That make spectra (by default one a core) and ask."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The result as one JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> int:
    """Measure how complete a run is: the share of SIMULATED members that it would have recovered, by S/N.

    A member of the class is simulated and put where a star of the run stood: its light replaces the star's, at the
    wanted S/N, and everything else is the run's own, noise, wavelengths, gaps, arm joins and stated errors. The run's
    own policy is asked with the run's own settings. Recovered is a YES; UNSURE, NO_DATA and FAILED go to a person and
    are shown apart. Where the run was matched (specvet match) shares are told by Gaia G too, and where it was sorted
    (specvet triage) by what its bands would keep.

    \b
      specvet completeness RUN
      specvet completeness RUN --task cv --snr 3,5,10,20 --each 100
      specvet completeness RUN --drop 0,1,2,3 --calibration cv.json

    Writes RUN/completeness/: completeness.json and .csv (with 95 % intervals), injections.csv, the figure as PNG, SVG
    and PDF, spectra/ (what was asked about) and run/, a run like any other. The same command goes on where it stopped.

    \b
    Exit codes: 0 measured, 1 nothing could be, 2 wrong command, 4 cannot write, 130 interrupted.
    """
    from specvet.catalogue.completeness.making import CompletenessError
    from specvet.catalogue.completeness.members import NoMembersError
    from specvet.catalogue.completeness.plan import SNRS
    from specvet.records import RunError, RunFolder
    from specvet.vetting.completeness import FOLDER
    from specvet.vetting.triage import TriageError

    if snr is not None and drop is not None:
        raise CommandError("--snr and --drop: give one; in one spectrum they are the same", USAGE)
    levels = _numbers("--drop", drop) if drop is not None else _numbers("--snr", snr) if snr is not None else SNRS
    with failing(USAGE, RunError):
        folder = RunFolder.read(run)
    try:
        with failing(USAGE, CompletenessError, NoMembersError, TriageError, RunError):
            asked, notices = _asked(folder, task, levels, each, seed, "snr" if drop is None else "drop")
            calibrated = _calibration(folder, calibration, notices)
            target = Path(run, FOLDER) if out is None else Path(out)
            told = {"model": model or (folder.config.get("model") if policy is None else None)}
            told |= {"base_url": base_url or urls_of(folder.config.get("base_url")), "device": device, "dtype": dtype}
            told |= {"policy": policy or folder.config.get("policy"), "concurrency": concurrency}
            told |= {"processes": processes}
            return _measured(folder, target, asked, calibrated, told, notices, json=json, quiet=quiet)
    finally:
        folder.close()


def _measured(
    folder: RunFolder,
    target: Path,
    asked: Asked,
    calibrated: tuple[Any, Path | None] | None,
    told: Mapping[str, Any],
    notices: list[str],
    *,
    json: bool,
    quiet: bool,
) -> int:
    from specvet.catalogue.completeness.making import make_spectra, planned
    from specvet.cli.data_progress import shown_steps
    from specvet.cli.progress import shown_progress
    from specvet.data.processes import cores
    from specvet.records import RunError
    from specvet.vetting import completeness as measuring
    from specvet.vetting.report.run import PARENTS, definitions

    name = str(told["policy"] or "")
    if not name:
        raise CommandError(f"{folder.path}: its config names no policy; say --policy", USAGE)
    with failing(CANNOT_WRITE, OSError):
        try:
            plan = planned(target, asked, lambda: measuring.hosts_of(folder, measuring.magnitudes_of(folder.path)))
        except ValueError as e:
            raise CommandError(f"{folder.path}: {e}" if not str(e).startswith(str(target)) else str(e), USAGE) from None
    if not quiet:
        for notice in notices:
            say(notice)
    bases = [Path(), *folder.path.resolve().parents[:PARENTS]]
    with (
        failing(CANNOT_WRITE, OSError, RunError),
        failing(NOTHING_VETTED, *models.fatal_errors(name)),
        ExitStack() as stack,
    ):
        with shown_steps(quiet) as steps, stopped_by_signals(_stopping) as stop:
            refused = make_spectra(target, bases, told["processes"] or cores(), stop, steps)
        if not stop.is_set():
            opened = opened_as(stack, name, told, folder.config, told["concurrency"], told["processes"] or 1)
            left = len(plan.injections) - len(refused)
            with shown_progress(left, quiet) as progress, stopped_by_signals(progress.stopping) as stop:
                measuring.vet_injections(
                    target,
                    plan,
                    definitions(folder),
                    opened,
                    prefilter=measuring.prefilter_of(folder),
                    refused=refused,
                    progress=progress,
                    stop=stop,
                )
        if stop.is_set():
            if not quiet:
                say(f"stopped; what was made and decided is in {target}, and the same command goes on")
            return INTERRUPTED
        if calibrated is not None:
            from specvet.vetting.triage import read_about

            measuring.sorted_as_the_run(target, read_about(folder.path) or {}, *calibrated)
        differences = measuring.differences(folder, target)
        for difference in differences if not quiet else ():
            say(difference)
        notices += differences
        outcomes = measuring.outcomes_of(target, plan)
        if not outcomes:
            raise CommandError(f"{folder.path}: no injection could be made: {next(iter(refused.values()))}")
        rows, about = measuring.write_counts(target, folder, plan, outcomes, refused, notices)
        _draw(target, about, folder.path.resolve().name)
    if json:
        print_json(about | {"folder": str(target)})
    elif not quiet:
        _print(rows, plan, target, refused)
    return DONE


def _stopping() -> None:
    os.write(2, b"specvet: finishing the spectra in hand; Ctrl-C again aborts\n")


def _asked(
    folder: RunFolder, task: list[str] | None, levels: Sequence[float], each: int, seed: int, by: Any
) -> tuple[Asked, list[str]]:
    from specvet.catalogue.completeness.making import Asked, CompletenessError
    from specvet.catalogue.completeness.members import NoMembersError, members_of
    from specvet.cli.export import task_keys
    from specvet.vetting.report.run import definitions

    known = definitions(folder)
    if folder.kind != "vet" or not known:
        raise CompletenessError(f"{folder.path}: is no run of specvet vet, whose policy could be asked once more")
    wanted = task_keys(",".join(task), str(folder.path)) if task else None
    notices, keys = [], []
    for key in wanted or known:
        try:
            members_of(key)
            keys.append(key)
        except NoMembersError as e:
            if wanted:
                raise
            notices.append(str(e))
    if not keys:
        raise CompletenessError(notices[0])
    return Asked(tasks=tuple(keys), by=by, levels=tuple(levels), each=each, seed=seed), notices


def _calibration(folder: RunFolder, given: str | None, notices: list[str]) -> tuple[Any, Path | None] | None:
    """(calibration, its file) to sort the injections with; None where the run was not sorted, or that is not known."""
    from specvet.vetting.completeness import same_calibration
    from specvet.vetting.triage import read_about, read_calibration

    triaged = read_about(folder.path)
    if triaged is None:
        if given is not None:
            raise CommandError(f"{folder.path}: was not sorted yet; run specvet triage first", USAGE)
        return None
    if triaged["calibration"] is None:
        if given is not None:
            raise CommandError(f"--calibration {given}: {folder.path} was sorted without a calibration", USAGE)
        return None, None
    if given is None:
        file = triaged["calibration"]["file"]
        notices.append(f"the run was sorted with {file}; with --calibration {file} its bands are told as well")
        return None
    with failing(USAGE, OSError):
        same_calibration(triaged, Path(given))
        return read_calibration(Path(given)), Path(given)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """`3,5,10`, each once, rising."""
    import math

    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = []
    least = 0.0 if option == "--snr" else -15.0
    if not found or not all(math.isfinite(v) and least < v <= 1000.0 for v in found):
        raise CommandError(f"{option} {text}: give numbers such as 3,5,10", USAGE)
    return tuple(found)


def _draw(target: Path, about: Mapping[str, Any], name: str) -> None:
    from specvet.catalogue.completeness.drawing import FORMATS, figure, figure_bytes
    from specvet.records import write_atomic

    drawn = figure(about["rows"], name)
    for form in FORMATS:
        write_atomic(target / f"completeness.{form}", figure_bytes(drawn, form))


def _print(rows: Sequence[Row], plan: Plan, target: Path, refused: Mapping[int, str]) -> None:
    from rich import box
    from rich.table import Table

    from specvet.cli.console import console

    out = console()
    triaged = any(row.kept is not None for row in rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in ("task", "S/N" if plan.asked.by == "snr" else "drop"):
        table.add_column(column)
    for column in ("SIMULATED", "YES", "recovered, 95 %", "to people", "both, 95 %", *(["kept by triage"] * triaged)):
        table.add_column(column, justify="right")
    for row in rows:
        if row.kind != "all" or row.by not in (plan.asked.by, "magnitude"):
            continue
        level = f"G {row.low:g} to {row.high:g}" if row.by == "magnitude" else f"{row.low:g}"
        cells = [row.task, level, f"{row.n:,}", f"{row.yes:,}"]
        cells += [_share(row.recovered, row.recovered_low, row.recovered_high)]
        cells += [f"{row.unsure + row.no_data + row.failed:,}", _share(row.seen, row.seen_low, row.seen_high)]
        cells += ["" if row.kept is None else f"{100 * row.kept:.0f} %"] * triaged
        table.add_row(*cells)
    out.print(table)
    lost = [f"{row.kind} {row.yes:,} of {row.n:,}" for row in rows if row.by == "all" and row.kind != "all"]
    out.print(f"YES by kind, all together: {', '.join(lost)}", soft_wrap=True)
    if refused:
        out.print(f"{len(refused):,} could not be made: {next(iter(refused.values()))}", soft_wrap=True)
    out.print(f"{target}: completeness.json, .csv, .png, .svg, .pdf; injections.csv; SIMULATED spectra", soft_wrap=True)


def _share(value: float, low: float, high: float) -> str:
    return f"{100 * value:.0f} ({100 * low:.0f}-{100 * high:.0f}) %"
