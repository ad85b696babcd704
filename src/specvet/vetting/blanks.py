"""The finds of a run asked about once more, with the features taken out: who still says YES is flagged.

    RUN → its YES rows → the same question about blanked spectra → RUN/blank/smooth, RUN/blank/level → blank.json

Each way of blanking (`specvet.vetting.blanking`) makes a run of its own inside the run, which goes on where it stopped
and can be read like any other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specvet.agent import Budget
from specvet.records import RunError, RunFolder, write_atomic
from specvet.records.schema import Answer
from specvet.vetting.blanking import Blank, blanking
from specvet.vetting.items import Item
from specvet.vetting.rows import is_users_z
from specvet.vetting.runner import vet

if TYPE_CHECKING:
    from specvet.agent import Engine
    from specvet.data.asking import TitleMode
    from specvet.policies import Policy
    from specvet.spectra import FrameMode
    from specvet.tasks import Task
    from specvet.vetting.watch import Progress
    from specvet.views import Size

FOLDER, FILE = "blank", "blank.json"

Place = tuple[str, int, str]
"""(file, row, task)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How spectra that were altered, or put in, are asked about: as the run itself was."""

    policy: Policy | Engine
    frame_mode: FrameMode
    budget: Budget
    style: str
    size: Size
    title: TitleMode | None
    concurrency: int = 16

    def vet(self, items: Sequence[Item], task: Task, run: RunFolder, **more: Any) -> None:
        """`specvet.vetting.runner.vet` of one task as the run was asked; `more` goes to it as it is."""
        vet(
            items,
            [task],
            self.policy,
            run,
            frame_mode=self.frame_mode,
            budget=self.budget,
            style=self.style,
            size=self.size,
            title=self.title,
            concurrency=self.concurrency,
            **more,
        )


@dataclass(frozen=True, slots=True)
class BlankCount:
    """What became of the finds of one task, blanked one way."""

    task: str
    way: Blank
    finds: int
    """YES rows of the run that were asked about."""
    answers: dict[str, int]
    flagged: int
    """Of them, those that are YES still."""


def finds_of(run: RunFolder, limit: int | None = None) -> dict[str, list[Item]]:
    """The YES rows of a run as list entries, by task; the first `limit` of each task."""
    found: dict[str, list[Item]] = {}
    for d in run.decisions(answers=[Answer.YES]):
        items = found.setdefault(d.task, [])
        if d.sample == 0 and (limit is None or len(items) < limit):
            # A redshift of the user's own was applied as given, and is again.
            z = d.z if is_users_z(d.frame) else None
            items.append(Item(d.file, row=d.row, id=d.id, ra=d.ra, dec=d.dec, z=z))
    return found


def blank_finds(
    folder: Path,
    finds: Mapping[str, Sequence[Item]],
    tasks: Mapping[str, Task],
    ways: Sequence[Blank],
    opened: Callable[[RunFolder], Asked],
    *,
    seed: int = 0,
    shared: bool = False,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> list[BlankCount]:
    """Ask about each find once more for each way of blanking; the counts of what is there, also when it was stopped.

    `opened` makes the policy for a run, which must end with the caller; `shared` lets other processes do so at the
    same time, each of which counts what all have made. Writes `RUN/blank/blank.json`.
    """
    counts: list[BlankCount] = []
    flags: list[dict[str, Any]] = []
    for way in ways:
        config = {"blank": way, "seed": seed}
        with RunFolder.open(folder / FOLDER / way, kind="vet", config=config, shared=shared) as run:
            asked = opened(run)
            for key, items in finds.items():
                if stop is not None and stop.is_set():
                    break
                asked.vet(
                    items,
                    tasks[key],
                    run,
                    change=blanking(way, seed),
                    settings={"blank": f"{way}, seed {seed}"},
                    progress=progress,
                    stop=stop,
                )
            for key, items in finds.items():
                wanted = {(item.file, item.row) for item in items}
                made = [d for d in run.decisions(tasks=[key]) if (d.file, d.row) in wanted]
                still = [d for d in made if d.verdict.answer is Answer.YES]
                answers: dict[str, int] = {}
                for d in made:
                    answers[str(d.verdict.answer)] = answers.get(str(d.verdict.answer), 0) + 1
                counts.append(BlankCount(key, way, len(made), answers, len(still)))
                flags += [
                    {"file": d.file, "row": d.row, "task": d.task, "id": d.id, "way": way, "p_yes": d.verdict.p_yes,
                     "reason": d.verdict.reason}
                    for d in still
                ]  # fmt: skip
    told = {
        "seed": seed,
        "counts": [
            {"task": c.task, "way": c.way, "finds": c.finds, "answers": c.answers, "flagged": c.flagged} for c in counts
        ],
        "flags": flags,
    }
    write_atomic(folder / FOLDER / FILE, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return counts


def flagged_in(folder: Path) -> dict[Place, tuple[Blank, ...]]:
    """The rows of a run that stayed YES with their features taken out, and which way; empty where nobody has asked.

    Raises `RunError` where that cannot be read, since what was flagged must be looked at.
    """
    file = folder / FOLDER / FILE
    found: dict[Place, tuple[Blank, ...]] = {}
    try:
        for flag in json.loads(file.read_text(encoding="utf-8"))["flags"]:
            place = flag["file"], flag["row"], flag["task"]
            found[place] = (*found.get(place, ()), flag["way"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise RunError(f"{file}: cannot be read ({e!r}); run specvet triage blank again") from None
    return found


def note_flags(folder: Path, counts: Sequence[BlankCount], *, shared: bool = False) -> None:
    """Keep what came of it as events of the run itself, each text once."""
    texts = [f"{c.task}: {c.flagged} of {c.finds} finds are YES still with features gone ({c.way})" for c in counts]
    with RunFolder.read(folder) as run:
        kind, known = run.kind, {e.text for e in run.events() if e.kind == "blank"}
    if new := [text for text in texts if text not in known]:
        with RunFolder.open(folder, kind=kind, shared=shared) as run:
            for text in new:
                run.event("blank", text)
