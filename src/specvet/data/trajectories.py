"""Demonstrations in bulk, SIMULATED: a teacher's trajectories about spectra that are not kept.

    FOLDER/trajectories.json       the settings
    FOLDER/trajectories.jsonl      the demonstrations, see `specvet.data.demonstrations`
    FOLDER/pictures/00000.pngs …   their pictures, one after the other; `pictures/00000.pngs#1200+2950` is one of them
    FOLDER/truth.csv               what only the simulator knows, and how many calls each has
    FOLDER/stats.json              counts: by task and answer, calls, drafts that the teacher refused by kind and reason

Demonstration i follows from the seed, the settings and i alone. They are made in slices of `SLICE`; a slice that is
there is not made again, and `trajectories.jsonl`, written last, says that all are. Tasks take turns, and so do surveys;
`COLDSTART_YES` of the answers are YES, members of a class have their kinds' shares, and the others are confusers for
the most part, as in SimVI. Half of the spectra are shown as published arrays hold them, without errors and joins, the
others as their native files are read. The objects have numbers of their own, so that none is in another set.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from specvet import __version__
from specvet.data.errors import InputError
from specvet.data.processes import cores, in_any_order
from specvet.data.simulate.observed import SURVEYS, Observed
from specvet.data.simulate.survey import kind_weights
from specvet.data.simulate.survey_files import templates_fingerprint
from specvet.data.simulate.templates import load_templates
from specvet.data.teacher import Taught
from specvet.data.trajectories_making import MAX_TURNS, MOST, VERSION, Settings, taught_at
from specvet.records import write_atomic
from specvet.records.files import TEMPORARY
from specvet.records.lock import FolderLock
from specvet.views import check_style, picture_size

__all__ = ["Settings", "Trajectories", "make_trajectories"]

SLICE = 200
"""Demonstrations that are made together, and share a file of pictures."""

RECEIPT, LINES, TRUTH, STATS = "trajectories.json", "trajectories.jsonl", "truth.csv", "stats.json"

COLUMNS = ("id", "object_id", "task", "answer", "kind", "subtype", "survey", "snr", "calls", "template")

_SLICES = ".slices"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Trajectories:
    """What lies in the folder."""

    folder: Path
    stats: Mapping[str, Any]
    """As in `stats.json`; empty where not all are made."""
    made: bool
    """Whether this call did anything."""
    finished: bool
    """False where it was asked to stop."""

    @property
    def path(self) -> Path:
        """The file of demonstrations."""
        return self.folder / LINES


def make_trajectories(
    folder: str | os.PathLike[str],
    n: int,
    settings: Settings,
    *,
    workers: int | None = None,
    progress: Progress = lambda doing, done, total: None,
    stop: threading.Event | None = None,
) -> Trajectories:
    """Write `n` demonstrations into `folder`, or go on with them; equal calls write equal bytes.

    More than one worker are new interpreters, so a script needs the usual `if __name__ == "__main__":`. Once `stop` is
    set, slices under way are finished and no more are begun. Raises InputError for settings that cannot be and for a
    folder that holds something else, RunLockedError where another process is at it, OSError.
    """
    _check(n, settings)
    place = Path(folder)
    _begin(place, n, settings)
    lock = FolderLock(place)
    try:
        if (place / LINES).is_file():
            return Trajectories(place, json.loads((place / STATS).read_text(encoding="utf-8")), False, True)
        for left in place.rglob(TEMPORARY):  # of a process that was killed
            left.unlink(missing_ok=True)
        (place / "pictures").mkdir(exist_ok=True)
        (place / _SLICES).mkdir(exist_ok=True)
        slices = range(-(-n // SLICE))
        missing = [i for i in slices if not _slice_file(place, i).is_file()]
        done = n - sum(_size(i, n) for i in missing)
        progress("trajectories", done, n)
        if settings.templates is not None:
            load_templates(settings.templates)  # once, into the cache that workers take them from
        work = partial(_make_slice, place, n, settings)
        for i in in_any_order(work, missing, min(workers or cores(), len(missing)), stop or threading.Event()):
            done += _size(i, n)
            progress("trajectories", done, n)
        if done < n:
            return Trajectories(place, {}, True, False)
        stats = _finish(place, slices)
    finally:
        lock.release()
    return Trajectories(place, stats, True, True)


def _check(n: int, settings: Settings) -> None:
    if not 1 <= n <= MOST or settings.seed < 0:
        raise InputError(f"n = {n}, seed = {settings.seed}: give 1 to {MOST:,} and a seed that is not negative")
    if not settings.surveys or set(settings.surveys) - set(SURVEYS):
        raise InputError(f"surveys {', '.join(settings.surveys)}: known are {', '.join(SURVEYS)}")
    if settings.snr is not None and not 0.0 < settings.snr[0] <= settings.snr[1] < np.inf:
        low, high = settings.snr
        raise InputError(f"S/N from {low:g} to {high:g}: give two positive numbers, as in 5-50")
    try:
        kind_weights(settings.kinds)
        check_style(settings.style, picture_size(settings.picture_size))
    except ValueError as e:
        raise InputError(str(e)) from None


def _begin(folder: Path, n: int, settings: Settings) -> None:
    """Make the folder, or see that it is one of these settings. Raises InputError."""
    wanted: dict[str, Any] = {"simulated": True, "version": VERSION, "n": n, "max_turns": MAX_TURNS, **asdict(settings)}
    wanted["templates"] = templates_fingerprint(settings.templates)
    wanted = json.loads(json.dumps(wanted))
    file = folder / RECEIPT
    if file.is_file():
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InputError(f"{file}: is damaged; remove the folder, or choose another")
        if other := [key for key, value in wanted.items() if found.get(key) != value]:
            raise InputError(
                f"{folder}: was begun with another {other[0]} ({found.get(other[0])}, not {wanted[other[0]]}); "
                "choose another folder, or remove it"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not empty and holds no trajectories; choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps(wanted | {"specvet": __version__}, indent=1) + "\n")


def _slice_file(folder: Path, i: int) -> Path:
    return folder / _SLICES / f"{i:05d}.json"


def _size(i: int, n: int) -> int:
    return min(SLICE, n - i * SLICE)


def _make_slice(folder: Path, n: int, settings: Settings, i: int) -> int:
    """Write the pictures of a slice, then its lines, which say that it is done; returns `i`."""
    pictures = io.BytesIO()
    name = f"pictures/{i:05d}.pngs"

    def put(png: bytes) -> str:
        start = pictures.tell()
        pictures.write(png)
        return f"{name}#{start}+{len(png)}"

    lines, truths = [], []
    refused: Counter[tuple[str, str]] = Counter()
    for number in range(i * SLICE, i * SLICE + _size(i, n)):
        taught, observed, of_row = taught_at(number, settings)
        refused += of_row
        lines.append(taught.recorded(taught.question.id, put).line())
        truths.append(_truth(taught, observed))
    write_atomic(folder / name, pictures.getvalue())
    told = {"lines": lines, "truth": truths, "refused": [[*key, count] for key, count in sorted(refused.items())]}
    write_atomic(_slice_file(folder, i), json.dumps(told, ensure_ascii=False))
    return i


def _truth(taught: Taught, observed: Observed) -> list[str]:
    source, question = observed.source, taught.question
    return [
        question.id,
        observed.object_id,
        question.task,
        str(question.answer),
        source.kind,
        source.subtype,
        observed.survey,
        f"{observed.snr:.2f}",
        str(taught.n_calls),
        source.template,
    ]


def _finish(folder: Path, slices: Iterable[int]) -> dict[str, Any]:
    """One file of each kind, from all slices."""
    found = [json.loads(_slice_file(folder, i).read_text(encoding="utf-8")) for i in slices]
    truth = [row for one in found for row in one["truth"]]
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(truth)
    write_atomic(folder / TRUTH, table.getvalue())
    stats = _stats([dict(zip(COLUMNS, row, strict=True)) for row in truth], found)
    write_atomic(folder / STATS, json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    write_atomic(folder / LINES, "".join(f"{line}\n" for one in found for line in one["lines"]))
    shutil.rmtree(folder / _SLICES)
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
        "kinds": dict(sorted(Counter(row["kind"] for row in rows).items())),
        "refused": {kind: refused[kind] for kind in sorted(refused)},
    }
