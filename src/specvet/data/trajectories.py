"""Demonstrations in bulk, SIMULATED: a teacher's trajectories about spectra that are not kept.

    FOLDER/trajectories.json       the settings
    FOLDER/trajectories.jsonl      the demonstrations, see `specvet.data.demonstrations`
    FOLDER/pictures/00000.pngs …   their pictures, one after the other; `pictures/00000.pngs#1200+2950` is one of them
    FOLDER/truth.csv               what only the simulator knows, and how many calls each has
    FOLDER/stats.json              counts: by task and answer, calls, drafts that the teacher refused by kind and reason

Demonstration i follows from the seed, the settings and i alone. They are made in slices of `SLICE`; a slice that is
there is not made again, and `trajectories.jsonl`, written last, says that all are. What they are about is told in
`specvet.data.drawing`. The objects have numbers of their own, so that none is in another set.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from specvet.data.drawing import Draws, Seen, templates_of
from specvet.data.errors import InputError
from specvet.data.simulate.survey_files import templates_fingerprint
from specvet.data.sliced import SLICES, STATS, Made, Progress, Slices, begin, make_set
from specvet.data.teacher import Taught
from specvet.data.trajectories_making import MAX_TURNS, MOST, VERSION, Settings, taught_at
from specvet.records import write_atomic
from specvet.views import check_style, picture_size

__all__ = ["Settings", "make_trajectories"]

SLICE = 200
"""Demonstrations that are made together, and share a file of pictures."""

RECEIPT, LINES, TRUTH = "trajectories.json", "trajectories.jsonl", "truth.csv"

COLUMNS = (
    "id", "object_id", "task", "answer", "kind", "subtype", "survey", "snr", "calls", "template", "container",
)  # fmt: skip

_SINCE = {name: getattr(Draws(), name) for name in ("yes", "cross", "containers", "fold", "seeded")}
"""Settings that folders made before there were such do not name."""


def make_trajectories(
    folder: str | os.PathLike[str],
    n: int,
    settings: Settings,
    *,
    workers: int | None = None,
    progress: Progress = lambda doing, done, total: None,
    stop: threading.Event | None = None,
) -> Made:
    """Write `n` demonstrations into `folder`, or go on with them; equal calls write equal bytes.

    More than one worker are new interpreters, so a script needs the usual `if __name__ == "__main__":`. Once `stop` is
    set, slices under way are finished and no more are begun. Raises InputError for settings that cannot be and for a
    folder that holds something else, RunLockedError where another process is at it, OSError.
    """
    _check(n, settings)
    place = Path(folder)
    told = {"simulated": True, "version": VERSION, "n": n, "max_turns": MAX_TURNS, **asdict(settings)}
    begin(place, RECEIPT, told | {"templates": templates_fingerprint(settings.templates)}, _SINCE, "trajectories")

    def prepare() -> None:
        (place / "pictures").mkdir(exist_ok=True)
        templates_of(settings)  # once, into the cache that workers take them from

    slices = Slices(place, n, SLICE)
    work = partial(_make_slice, slices, settings)
    return make_set(
        slices, LINES, "trajectories", prepare, work, _finish, workers=workers, progress=progress, stop=stop
    )


def _check(n: int, settings: Settings) -> None:
    if not 1 <= n <= MOST:
        raise InputError(f"n = {n}: give 1 to {MOST:,}")
    settings.check()
    try:
        check_style(settings.style, picture_size(settings.picture_size))
    except ValueError as e:
        raise InputError(str(e)) from None


def _make_slice(slices: Slices, settings: Settings, i: int) -> int:
    """Write the pictures of a slice, then its lines, which say that it is done; returns `i`."""
    pictures = io.BytesIO()
    name = f"pictures/{i:05d}.pngs"

    def put(png: bytes) -> str:
        start = pictures.tell()
        pictures.write(png)
        return f"{name}#{start}+{len(png)}"

    lines, truths = [], []
    refused: Counter[tuple[str, str]] = Counter()
    for number in slices.numbers(i):
        taught, seen, of_row = taught_at(number, settings)
        refused += of_row
        lines.append(taught.recorded(taught.question.id, put).line())
        truths.append(_truth(taught, seen))
    write_atomic(slices.folder / name, pictures.getvalue())
    told = {"lines": lines, "truth": truths, "refused": [[*key, count] for key, count in sorted(refused.items())]}
    slices.keep(i, told)
    return i


def _truth(taught: Taught, seen: Seen) -> list[str]:
    source, question = seen.source, taught.question
    return [
        question.id,
        seen.object_id,
        question.task,
        str(question.answer),
        source.kind,
        source.subtype,
        seen.survey,
        f"{seen.snr:.2f}",
        str(taught.n_calls),
        source.template,
        seen.container,
    ]


def _finish(slices: Slices) -> dict[str, Any]:
    """One file of each kind, from all slices."""
    found, folder = slices.told(), slices.folder
    truth = [row for one in found for row in one["truth"]]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(truth)
    write_atomic(folder / TRUTH, table.getvalue())
    stats = _stats([dict(zip(COLUMNS, row, strict=True)) for row in truth], found)
    write_atomic(folder / STATS, json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    write_atomic(folder / LINES, "".join(f"{line}\n" for one in found for line in one["lines"]))
    shutil.rmtree(folder / SLICES)
    return stats


def _stats(rows: Sequence[Mapping[str, str]], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    refused: dict[str, dict[str, int]] = {}
    for kind, reason, count in (item for one in found for item in one["refused"]):
        of_kind = refused.setdefault(kind, {})
        of_kind[reason] = of_kind.get(reason, 0) + count
    groups: dict[str, list[int]] = {}
    for row in rows:
        snr = float(row["snr"])
        bin = "S/N < 10" if snr < 10 else "S/N 10-25" if snr < 25 else "S/N > 25"
        for name in (f"{row['task']} {row['answer']}", bin):
            groups.setdefault(name, []).append(int(row["calls"]))
    calls = [int(row["calls"]) for row in rows]
    return {
        "demonstrations": len(rows),
        "yes": sum(row["answer"] == "YES" for row in rows),
        "calls": {str(n): count for n, count in sorted(Counter(calls).items())},
        "mean_calls": {name: round(float(np.mean(of)), 2) for name, of in sorted(groups.items())},
        "seeded": sum(bool(row["template"]) for row in rows),
        "kinds": dict(sorted(Counter(row["kind"] for row in rows).items())),
        "refused": {kind: refused[kind] for kind in sorted(refused)},
    }
