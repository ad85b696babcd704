"""`specvet pipeline`: from nothing to a model, stage by stage."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specvet.cli.console import console, print_json, say
from specvet.cli.failure import CANNOT_WRITE, DONE, INTERRUPTED, NOTHING_VETTED, USAGE, CommandError, failing
from specvet.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from specvet.training.pipeline.stages import Stage

app = typer.Typer(help="From nothing to a model, stage by stage.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _pipeline() -> None:
    pass


@app.command()
def nano(
    *,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Everything lies there; an earlier call's goes on.")],
    scale: Annotated[
        Literal["full", "tiny"],
        typer.Option("--scale", help="tiny: every stage with small numbers, in minutes on two cores; a rehearsal."),
    ] = "full",
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="N,…", help="Of SFT and GRPO, side by side; 0,1,2 (tiny: 0,1).")
    ] = None,
    size: Annotated[
        Literal["full", "small", "tiny"] | None,
        typer.Option("--size", help="Of SimVI; full is the published size."),
    ] = None,
    templates: Annotated[
        str | None,
        typer.Option("--templates", metavar="DIR", help="Real spectra with a manifest.csv that seed some sources."),
    ] = None,
    base_seconds: Annotated[
        float | None,
        typer.Option("--base-seconds", min=1, metavar="S", help="How long the base model learns to read; 300."),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, metavar="N", help="Of GRPO; 3.")] = None,
    parts: Annotated[
        str | None,
        typer.Option("--parts", metavar="val,test", help="Of SimVI, to measure on; test is for the end of all tuning."),
    ] = None,
    demonstrations: Annotated[
        int | None,
        typer.Option("--demonstrations", min=0, metavar="N", help="Of the release; 0 packs the first seed's model."),
    ] = None,
    release_epochs: Annotated[
        int | None,
        typer.Option("--release-epochs", min=1, metavar="N", help="How often the release learns from them; 4."),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SETTING=VALUE", help="Of the training stages, as grpo.lr=1e-5 or sft.epochs=4."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="STAGE", help="Only this stage or kind (sft, grpo-0, …); may be repeated."),
    ] = None,
    parallel: Annotated[
        int | None, typer.Option("--parallel", min=1, metavar="N", help="Stages at a time; one for every two cores.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.1, metavar="M", help="Stop after so long; the same command goes on."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="STAGE=M", help="Stop a stage (or each of a kind) after so many minutes."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")] = "auto",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes of a stage that simulate or make batches.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the stages and what they take; run none.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")] = False,
) -> int:
    """Make nano and measure it: SIMULATED spectra, a base model that reads plots, SFT and GRPO with several seeds,
    peers that see the whole view only, all of them on SimVI's val and test questions, tables, and a release.

    Every stage is a command of specvet, which is printed first and can be called by itself. What is done is not done
    again; after Ctrl-C, a kill or a failure the same command goes on. DIR/results holds the tables, the figures, and
    what they rest on.

    \b
      specvet pipeline nano --out runs/nano --dry-run
      specvet pipeline nano --out runs/nano --parts val --demonstrations 0 --parallel 8
      specvet pipeline nano --out runs/try --scale tiny --parallel 2 --device cpu

    \b
    Exit codes:
      0    all stages are done
      1    a stage failed; its log says why
      2    the command is wrong
      4    the folder cannot be written
      130  interrupted, or --minutes are over; the same command goes on
    """
    from specvet.data.processes import cores
    from specvet.records import RunError
    from specvet.training.config import ConfigError
    from specvet.training.pipeline import nano_stages, plan_of
    from specvet.training.pipeline.running import Limits, PipelineFolder, StageError, run_stages
    from specvet.training.pipeline.stages import chosen

    at_once = parallel or max(1, cores() // 2)
    plan = plan_of(
        scale,
        Path(out),
        set or (),
        seeds=None if seeds is None else _seeds(seeds),
        size=size,
        templates=templates,
        base_seconds=base_seconds,
        epochs=epochs,
        parts=None if parts is None else _parts(parts),
        demonstrations=demonstrations,
        release_epochs=release_epochs,
        device=device,
        workers=workers,
        at_once=at_once,
    )
    with failing(USAGE, ConfigError):
        every = nano_stages(plan)
        stages = chosen(every, only or [])
    limits = Limits(minutes, _limits(limit or [], every))
    folder = PipelineFolder(plan.out)
    with failing(USAGE, ConfigError):
        done = {stage.name: folder.done(stage) for stage in stages}
    if json and dry_run:
        print_json({"stages": [_fields(stage, done[stage.name]) for stage in stages]})
        return DONE
    if not quiet and not json:
        _print_plan(stages, done, at_once, commands=dry_run)
    if dry_run:
        return DONE
    with (
        failing(CANNOT_WRITE, OSError, RunError),
        failing(USAGE, ConfigError),
        failing(NOTHING_VETTED, StageError),
        stopped_by_signals(lambda: say("stopping the stages under way; Ctrl-C again aborts them")) as stop,
        folder,
    ):
        told = (lambda stage, line: None) if quiet else _said
        finished = run_stages(folder, stages, stop=stop, told=told, at_once=at_once, limits=limits)
    if json:
        print_json(
            {
                "folder": str(plan.out),
                "finished": finished,
                "stages": {name: asdict(of) for name, of in folder.records().items()},
            }
        )
    if not finished and not quiet:
        say("stopped; the same command goes on")
    return DONE if finished else INTERRUPTED


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if len({*parts}) < len(parts) or not {*parts} <= {"val", "test"}:
        raise CommandError(f"--parts {text}: val, test, or both with a comma between", USAGE)
    return parts


def _limits(texts: list[str], stages: list[Stage]) -> dict[str, float]:
    known = {name for stage in stages for name in (stage.name, stage.kind)}
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if name not in known or not 0 < found[name] < float("inf"):
            raise CommandError(f"--limit {text}: write it as STAGE=MINUTES, as in grpo=12", USAGE)
    return found


def _seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise CommandError(f"--seeds {text}: whole numbers with commas, as in 0,1,2", USAGE) from None
    if len({*numbers}) < len(numbers) or min(numbers) < 0:
        raise CommandError(f"--seeds {text}: each once, and none below 0", USAGE)
    return numbers


def _said(stage: str, line: str) -> None:
    """A line of a stage, on stderr."""
    if line:
        say(f"[{stage}] {line.removeprefix('specvet: ')}")


def _print_plan(stages: list[Stage], done: dict[str, bool], at_once: int, *, commands: bool) -> None:
    from rich.table import Table

    from specvet.training.pipeline.stages import expected_minutes

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage")
    for name in ("GPU min", "core min", "disk MB"):
        table.add_column(name, justify="right")
    table.add_column("")
    for stage in stages:
        numbers = (stage.gpu_minutes, stage.core_minutes, stage.disk_mb)
        told = [f"{n:,.1f}" if 0 < n < 10 else f"{n:,.0f}" if n else "" for n in numbers]
        table.add_row(stage.name, *told, "done" if done[stage.name] else "alone" if stage.alone else "")
    left = [stage for stage in stages if not done[stage.name]]
    out = console()
    out.print(table)
    gpu, core, disk = (sum(getattr(s, name) for s in left) for name in ("gpu_minutes", "core_minutes", "disk_mb"))
    out.print(
        f"{len(left)} of {len(stages)} stages to run, at most {at_once} at a time. One after the other: some {gpu:.0f} "
        f"minutes of one H200 and {core:.0f} of one core; side by side {expected_minutes(left, at_once):.0f} minutes, "
        f"if none is slower for those beside it; {disk / 1e3:.1f} GB on disk",
        soft_wrap=True,
    )
    for stage in left if commands else ():
        out.print(f"\n{stage.name}:\n  {shlex.join(('specvet', *stage.line))}", soft_wrap=True)


def _fields(stage: Stage, done: bool) -> dict[str, object]:
    names = ("name", "needs", "alone", "gpu_minutes", "core_minutes", "disk_mb")
    fields: dict[str, object] = {name: getattr(stage, name) for name in names}
    return fields | {"command": list(stage.line), "makes": str(stage.makes), "done": done}
