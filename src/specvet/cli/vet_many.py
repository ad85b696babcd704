"""What `specvet vet` says of long lists: shards, processes that share a run, a prefilter before a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specvet.cli.failure import USAGE, CommandError, failing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specvet.records import RunFolder
    from specvet.tasks import Task
    from specvet.vetting.prefilter import Prefilter

SIMULATED_MEMBERS = "SIMULATED members, S/N from 5 on, all kinds alike"

Share = Annotated[
    bool,
    typer.Option("--share", help="Let other processes that say so too work on this run at the same time."),
]
Shard = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Only part I of N of the inputs, as in 3/16; may share a run."),
]
PrefilterFrom = Annotated[
    str | None,
    typer.Option(
        "--prefilter",
        metavar="indices|FILE",
        help="Measure first; what line-indices finds hopeless is a NO without asking the model. FILE is what specvet "
        "triage prefilter wrote: how it tells, and the recall on your own labels.",
    ),
]
PrefilterBelow = Annotated[
    float | None,
    typer.Option(
        "--prefilter-below",
        metavar="P",
        help="Hopeless is what measures below this probability of YES; by default what a class's own screen says.",
    ),
]


def shard_named(text: str | None) -> tuple[int, int] | None:
    """(part, parts) of `3/16`."""
    if text is None:
        return None
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise CommandError(f"--shard {text}: give the part and how many there are, as in 3/16 (the first is 1)", USAGE)
    return int(part), int(parts)


def opened_prefilter(
    given: str | None, below: float | None, tasks: Iterable[Task], is_model: bool
) -> tuple[Prefilter | None, dict[str, Any]]:
    """The prefilter, and what is known of it; None where none is wanted."""
    if given is None:
        if below is not None:
            raise CommandError("--prefilter-below: say --prefilter indices too", USAGE)
        return None, {}
    if not is_model:
        raise CommandError("--prefilter: this policy measures itself; a prefilter stands before a model", USAGE)
    from specvet.tasks import TaskError
    from specvet.vetting.prefilter import Prefilter, read_recalls
    from specvet.vetting.screen import recalls, screen_of

    tasks = list(tasks)
    about: dict[str, Any] = {}
    if given == "indices" and below is None:
        with failing(USAGE, ValueError):
            screened = {task.key for task in tasks if screen_of(task) is not None}
        about = {"recalls": [r for r in recalls() if r["task"] in screened], "labels": SIMULATED_MEMBERS}
    kept = None
    if given != "indices":
        if not Path(given).is_file():
            raise CommandError(f"--prefilter {given}: choose indices, or a file of specvet triage prefilter", USAGE)
        with failing(USAGE, OSError, ValueError):
            kept = read_recalls(given)
        about = kept.model_dump()
    stated = about.get("below")
    if below is not None and about and below != stated:
        how = "by screens" if stated is None else f"at {stated:g}"
        raise CommandError(f"--prefilter-below {below:g}: {given} states the recall {how}", USAGE)
    with failing(USAGE, TaskError, ValueError):
        prefilter = Prefilter(below if below is not None else stated)
        for task in tasks:
            prefilter.check(task)
        stale = kept is not None and not kept.is_of(prefilter, tasks)
    if stale:
        told = "tells of other thresholds, screens or evidence than are used here"
        raise CommandError(f"--prefilter {given}: {told}; run specvet triage prefilter again", USAGE)
    return prefilter, about


def prefilter_told(
    run: RunFolder, prefilter: Prefilter | None, about: dict[str, Any], keys: Iterable[str]
) -> list[str]:
    """What is to be said of a prefilter at the end; kept as an event of the run too."""
    if prefilter is None or not prefilter.asked:
        return []
    share = prefilter.left_out / prefilter.asked
    lines = [
        f"prefilter: {prefilter.left_out:,} of {prefilter.asked:,} questions ({100 * share:.0f} %) "
        + ("are screened out" if prefilter.below is None else f"measure below {prefilter.below:g}")
        + " and are a NO without asking the model"
    ]
    recalls = {one["task"]: one for one in about.get("recalls", ())}
    for key in keys:
        found = recalls.get(key)
        if found is None:
            lines.append(f"prefilter: what it costs in {key} is not known; specvet triage prefilter measures it")
            continue
        low, high = found["interval"]
        lines.append(
            f"prefilter: keeps {found['kept']} of {found['positives']} labelled {key} "
            f"({100 * found['recall']:.1f} %, 95 % interval {100 * low:.1f}-{100 * high:.1f} %) of {about['labels']}"
        )
    for line in lines:
        run.event("prefilter", line.removeprefix("prefilter: "))
    return lines
