"""`specvet vet`: files in, verdicts with evidence out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from specvet.cli import asking, models, vet_many
from specvet.cli.console import print_json, say
from specvet.cli.failure import (
    CANNOT_WRITE,
    DONE,
    ERRORS_WITH_STRICT,
    INTERRUPTED,
    NOTHING_VETTED,
    USAGE,
    CommandError,
    failing,
)
from specvet.cli.plot import frame_mode
from specvet.cli.signals import stopped_by_signals
from specvet.cli.time_split import time_split

if TYPE_CHECKING:
    from specvet.agent import Engine
    from specvet.agent.talk import ModelPolicy
    from specvet.policies import Policy
    from specvet.vetting.items import Item
    from specvet.vetting.watch import VetSummary


def vet(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT", help="Files, folders, quoted globs, lists; @FILE is a list for certain."),
    ],
    *,
    task: Annotated[
        list[str], typer.Option("--task", help="Tasks, as in cv,wd; all; or a YAML file of your own. May be repeated.")
    ],
    policy: models.PolicyNameOrDefault = None,
    model: models.Model = None,
    adapter: models.Adapter = None,
    base_url: models.BaseUrls = None,
    format: models.Format = None,
    tokenizer: models.Tokenizer = None,
    device: models.Device = "auto",
    dtype: models.Dtype = "auto",
    tools: models.Tools = "tools",
    out: Annotated[
        str | None, typer.Option("--out", metavar="RUN", help="Run folder; by default runs/ and the time.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="DIR", help="Where a list's paths start.")] = None,
    path_column: Annotated[
        str | None,
        typer.Option("--path-column", metavar="NAME", help="The list's column of paths, if unusual."),
    ] = None,
    z_column: Annotated[
        str | None,
        typer.Option("--z-column", metavar="NAME", help="The list's column of redshifts of your own."),
    ] = None,
    frame: Annotated[
        str,
        typer.Option(
            "--frame",
            metavar="MODE",
            help="careful: a file's redshift is taken out for stars only; published: always; observed: never.",
        ),
    ] = "careful",
    images: Annotated[bool, typer.Option("--images", help="Draw and keep the pictures of what was looked at.")] = False,
    wording: asking.Wording = None,
    style: asking.Style = None,
    size: asking.Size = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with a run that exists, or refuse to.")
    ] = True,
    title: models.Title = "plain",
    retry_errors: models.RetryErrors = False,
    retry_failed: models.RetryFailed = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N inputs.")] = None,
    exposures: Annotated[
        bool, typer.Option("--exposures", help="Vet each single exposure that a file holds too, as rows of their own.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON summary on stdout instead of the table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 when a file could not be read.")] = False,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="Spectra that a model is asked about at a time.")
    ] = 16,
    processes: models.Processes = 1,
    share: vet_many.Share = False,
    shard: vet_many.Shard = None,
    prefilter: vet_many.PrefilterFrom = None,
    prefilter_below: vet_many.PrefilterBelow = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, metavar="N", help="That a model may have for one turn; by default 2,048."),
    ] = None,
    probes: Annotated[
        bool | None,
        typer.Option(
            "--probes/--no-probes",
            help="Check first that pictures reach a model, and more; by default unless it is the embedded one.",
        ),
    ] = None,
) -> None:
    """Vet spectra: YES, NO, UNSURE or NO_DATA, with evidence.

    A list is a CSV with any delimiter, ECSV, FITS table, VOTable, Parquet, or one path a line. It needs a column of
    paths (path, file, filename, …), or a survey's own columns, from which paths are built below --root:

    \b
      LAMOST   lmjd planid spid fiberid
      SDSS     plate mjd fiberid
      SDSS-V   field mjd catalogid
      DESI     targetid healpix [survey program]

    Optional columns: id, row (counted from 0), ra, dec, z, gaia_dr3 (source id). Every verdict is on disk as soon as it
    is made: Ctrl-C finishes what is under way, and the same command goes on. What is finished is never done again: an
    entry whose file or z has changed since is named, and keeps its verdict.

    A model (embedded, torch, openai, …) is asked greedily, about many spectra at a time, and as its folder says that
    it is asked (specvet.json: wording, style, size, turns, tokens), but for what is said here.

    A long list may be worked on by several processes: the same command with --share, as often as you like, at any
    time; each takes what the others leave, and what one that dies had in hand is done by the others. --shard cuts it
    beforehand, also into runs of their own. --prefilter leaves out of a model's work what measures as hopeless.

    \b
    Exit codes:
      0    spectra were vetted
      1    nothing could be vetted
      2    the command is wrong
      3    with --strict: a file could not be read
      4    the disk is full, or the run folder cannot be written
      130  interrupted; what was decided is kept
    """
    mode = frame_mode(frame)
    part = vet_many.shard_named(shard)
    from itertools import islice

    from specvet.agent import Budget
    from specvet.policies import default_policy
    from specvet.policies.manner import PUBLISHED
    from specvet.policies.tokens import PolicyError
    from specvet.records import RunError, RunFolder, RunMismatchError
    from specvet.records.schema import Answer
    from specvet.tasks import TaskError, resolve_tasks
    from specvet.vetting.exposures import with_exposures
    from specvet.vetting.inputs import InputError, expand_inputs
    from specvet.vetting.runner import vet as vet_all
    from specvet.vetting.settings import vet_settings
    from specvet.vetting.sharing import shard_of

    with failing(USAGE, TaskError):
        tasks = resolve_tasks(task)
    keys = [one.key for one in tasks]
    if policy is None:
        if model is not None:
            raise CommandError("--model: say with --policy who runs it: embedded, torch, openai, trees, …", USAGE)
        with failing(USAGE, PolicyError):
            policy = default_policy(keys)
    titled = models.title_mode(title) if models.is_model(policy) else None
    addresses = models.servers(policy, base_url)
    given = {"wording": wording, "style": style, "size": size, "turn_tokens": max_tokens}
    manner, says = asking.manner_for(policy, model, given, PUBLISHED)
    drawn, pixels = manner.style, manner.pixels
    decider: Policy | ModelPolicy
    params = options = None
    with failing(USAGE, TaskError, InputError):
        if models.is_model(policy):
            from specvet.policies.options import ModelOptions
            from specvet.policies.tokens import SamplingParams

            params = SamplingParams(manner.turn_tokens, temperature=0.0)
            options = ModelOptions(
                model=model,
                adapter=adapter,
                format=format,
                tokenizer=tokenizer,
                **addresses,
                device=device,
                dtype=dtype,
                branches=concurrency,
                context=manner.context,
                tools=tools,
            )
            decider = models.open_model(policy, options)
        else:
            decider = models.open_measuring(policy, model)
            for asked in tasks:
                decider.check(asked)
        items = expand_inputs(inputs, root=root, path_column=path_column, z_column=z_column)
    before, kept = vet_many.opened_prefilter(prefilter, prefilter_below, tasks, params is not None)
    total = items.total
    if total == 0:
        raise CommandError(f"{', '.join(inputs)}: nothing to vet, no files or rows in it", NOTHING_VETTED)
    if limit is not None:
        total = limit if total is None else min(total, limit)
    if exposures:
        total = None  # what the files hold
    if part is not None and total is not None:
        total = None if total < 1000 else total // part[1]  # what the names of the entries make of it
    folder = out or os.path.join("runs", datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    if not resume and os.path.exists(os.path.join(folder, "run.db")):
        raise CommandError(
            f"{folder}: holds a run already; name another folder with --out, or leave out --no-resume", USAGE
        )
    budget = Budget(max_turns=manner.max_turns, turn_tokens=manner.turn_tokens, context=manner.context)
    config: dict[str, Any] = {"inputs": inputs, "root": root, "path_column": path_column, "z_column": z_column}
    config |= {"exposures": True} if exposures else {}
    config |= {"images": images, "style": drawn if images else None, "limit": limit}
    config |= {"model": model} if params or model else {}
    config |= models.identity_of(policy, model, adapter)
    config |= {"adapter": adapter, "base_url": base_url} if params else {}
    config |= {"shard": shard} if shard else {}
    config |= {"prefilter": prefilter} | before.settings if before else {}
    looks = (mode, budget, drawn, pixels, params, titled, manner.wording, params is not None)
    config |= vet_settings(tasks, decider, *looks)  # type: ignore[arg-type]
    told = len(items.notices)
    for notice in [*items.notices, says, asking.untrained(manner, keys)] if not quiet else ():
        if notice:
            say(notice)

    from specvet.cli.progress import shown_progress
    from specvet.cli.summary import print_summary

    with (
        failing(CANNOT_WRITE, OSError, RunError),
        failing(USAGE, RunMismatchError, InputError),
        failing(NOTHING_VETTED, *models.fatal_errors(policy)),
        RunFolder.open(folder, kind="vet", config=config, shared=share) as run,
        ExitStack() as stack,
    ):
        for answer in [*([Answer.ERROR] if retry_errors else []), *([Answer.FAILED] if retry_failed else [])]:
            run.retry(answer)
        whoever: Policy | Engine
        used: Callable[[], dict[str, float]] = dict
        if params is None:
            whoever = cast("Policy", decider)
        else:
            whoever = models.opened_engine(
                stack,
                cast("ModelPolicy", decider),
                run,
                budget,
                params,
                style=drawn,
                images=images,
                concurrency=concurrency,
                wording=manner.wording,
                guard=True,
                crew=models.opened_crew(stack, cast("ModelPolicy", decider), policy, options, processes),
            )
            probed = policy != "embedded" if probes is None else probes
            used = models.usage_of(whoever, models.probe_into(run, whoever, quiet) if probed else {})
        with shown_progress(total, quiet) as progress, stopped_by_signals(progress.stopping) as stop:
            entries: Iterator[Item] = islice(items, limit)
            entries = entries if part is None else shard_of(entries, *part)
            summary = vet_all(
                with_exposures(entries, Path(folder)) if exposures else entries,
                tasks,
                whoever,
                run,
                frame_mode=mode,  # type: ignore[arg-type]
                budget=budget,
                images=images,
                style=drawn,
                size=pixels,
                title=titled,
                usage=used,
                concurrency=concurrency,
                prefilter=before,
                progress=progress,
                stop=stop,
                total=total,
            )
        filtered = vet_many.prefilter_told(run, before, kept, keys)
        if not quiet:
            for notice in [*items.notices[told:], *_changed(summary), *filtered]:
                say(notice)
        counts = run.count()
        code = _exit_code(summary, counts, keys, strict)
        if json:
            print_json(_json_summary(folder, summary, counts, config, code))
        elif not quiet:
            print_summary(run, tasks, summary)
    if summary.interrupted and not quiet:
        say(f"stopped; every verdict so far is in {folder}. To go on: {same_command(folder, out)}")
    raise typer.Exit(code)


def _changed(summary: VetSummary) -> Iterator[str]:
    """What to say of entries whose old verdict was kept, though they are not what they were."""
    if summary.n_changed:
        yield from summary.changed
        more = summary.n_changed - len(summary.changed)
        entries = f"these and {more:,} more entries have" if more else "such an entry has"
        yield f"{entries} changed since; a finished row is never done again, so give another --out to have it done"


def _exit_code(summary: VetSummary, counts: dict[str, dict[str, int]], keys: list[str], strict: bool) -> int:
    if summary.interrupted:
        return INTERRUPTED
    errors = sum(of_task.get("ERROR", 0) for of_task in counts.values())
    if strict and errors:
        return ERRORS_WITH_STRICT
    vetted = sum(n for key in keys for answer, n in counts.get(key, {}).items() if answer not in ("ERROR", "FAILED"))
    return DONE if vetted else NOTHING_VETTED


def _json_summary(
    folder: str, summary: VetSummary, counts: dict[str, dict[str, int]], config: dict[str, Any], code: int
) -> dict[str, Any]:
    unreadable = sum(of_task.get("ERROR", 0) for of_task in counts.values())
    return {
        "run": folder,
        "tasks": list(config["tasks"]),
        "policy": config["policy"],
        "frame_mode": config["frame_mode"],
        "counts": {task: answers for task, answers in counts.items() if task != "*"},
        "errors": unreadable,
        "interrupted": summary.interrupted,
        "this_session": {
            "counts": summary.counts,
            "decided": summary.decided,
            "errors": summary.errors,
            "skipped": summary.skipped,
            "duplicates": summary.duplicates,
            "changed": summary.n_changed,
            "seconds": summary.seconds,
            "time": time_split(summary.usage),
        },
        "exit_code": code,
    }


def same_command(folder: str, out: str | None) -> str:
    """The command that goes on with this run."""
    given = [a for a in sys.argv[1:] if a not in ("--retry-errors", "--retry-failed")]
    return shlex.join(["specvet", *given, *([] if out else ["--out", folder])])
