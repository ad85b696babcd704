"""`make_simvi`: the folder of SimVI.

    FOLDER/simvi.json                                 the settings, and whether it is complete
    FOLDER/truth.csv                                  what only the simulator knows: kind, sub-type, S/N, defects
    FOLDER/bench/benchmark/data/{train,val,test}_{cc,cv,gm,ss,wd}.parquet
    FOLDER/coldstart/train_sharegpt.json, images/     both as published
    FOLDER/sft/, FOLDER/rl/                           as `specvet data coldstart` and `bench` prepare them

A Parquet file or trajectory file is there whole or not at all; what is there is not made again.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from specvet.data.errors import InputError
from specvet.data.processes import cores, worker_pool
from specvet.data.published.bench import prepare_bench
from specvet.data.published.coldstart import prepare_coldstart
from specvet.data.published.writing import BenchRow, write_bench, write_coldstart
from specvet.data.simulate.kinds import TASKS
from specvet.data.simulate.survey_files import templates_fingerprint
from specvet.data.simulate.templates import load_templates
from specvet.data.simvi.making import TRUTH_COLUMNS, VERSION, Draft, Settings, Truth, bench_rows, draft
from specvet.data.simvi.plan import PARTS, Part, Row, Size, coldstart_rows, member_shares, plan, rows_of, spare
from specvet.data.sliced import begin
from specvet.data.teacher import VoiceName
from specvet.records import write_atomic
from specvet.records.files import TEMPORARY
from specvet.records.lock import FolderLock
from specvet.tasks import Wording

CHUNK = 10
"""Rows that a worker makes at a time: half a second of work, a megabyte to send."""

NAME = "SimVI (SIMULATED)"
RECEIPT = "simvi.json"

_README = """\
# SimVI: a SIMULATED benchmark

No telescope has seen any of this: every spectrum, label, question and trajectory here was SIMULATED by specvet
(`specvet data simvi`; the settings are in `simvi.json`). `truth.csv` tells what each spectrum is.

- `bench/`, `coldstart/`: in the layout of the published sets SpecVI-Bench and Spec-o3-ColdStartSFT
- `rl/`, `sft/`: the same, prepared as questions and demonstrations
"""

_TOLD: dict[str, str | None] = {"voice": "full", "wording": "full", "picture_size": None}
"""Settings of the trajectories that a receipt names only where they are others than these."""

SPARE = 1_000
"""Objects to try beyond those of train before giving up on a task."""

TRIES = 6
"""Drafts to try for each that is wanted of a kind."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SimVI:
    """A finished set."""

    folder: Path
    rows: dict[str, int]
    """Questions a part."""
    refused: dict[str, int]
    """Drafts of the teacher that were not good enough, by reason."""
    made: bool
    """False where all of it was there already."""


def make_simvi(
    folder: str | os.PathLike[str],
    size: Size = "small",
    *,
    seed: int = 0,
    style: str = "reference",
    templates: str | None = None,
    voice: VoiceName = "full",
    wording: Wording = "full",
    picture_size: str | None = None,
    workers: int | None = None,
    progress: Callable[[str, int, int], None] = lambda doing, done, total: None,
) -> SimVI:
    """Write SimVI into `folder`, or go on where an earlier call stopped; equal calls write equal bytes.

    `voice`, `wording` and `picture_size` are those of the trajectories (see `specvet.data.teacher.Teacher`); questions
    are published the same whatever these are.

    `progress(doing, done, total)` is told of every chunk. A script needs the usual `if __name__ == "__main__":`, since
    workers are new processes. Raises InputError where the folder holds another set or something else, and for a folder
    of templates that is none; RunLockedError where another process is at it.
    """
    folder = Path(folder)
    templates = None if templates is None else os.path.abspath(templates)
    settings = Settings(seed, style, templates, voice, wording, picture_size)
    wanted = {"simulated": True, "set": NAME, "size": size, "version": VERSION, "seed": seed, "style": style}
    wanted["templates"] = templates_fingerprint(templates)
    wanted |= {key: value for key in _TOLD if (value := getattr(settings, key)) != _TOLD[key]}
    begin(folder, RECEIPT, wanted, _TOLD, "SimVI")
    receipt = json.loads((folder / RECEIPT).read_text(encoding="utf-8"))
    lock = FolderLock(folder)
    try:
        if "refused" in receipt and _complete(folder):
            return SimVI(folder, _sizes(size), receipt["refused"], _prepare(folder, seed))
        for left in (folder / "bench", folder / "coldstart"):
            for file in left.rglob(TEMPORARY):  # of a process that was killed
                file.unlink(missing_ok=True)
        rows = {(part, task): plan(size, part, task, seed) for part in PARTS for task in TASKS}
        if settings.templates is not None:
            load_templates(settings.templates)  # once, into the cache that workers take them from
        with worker_pool(workers or cores()) as pool:
            tell = _Counted("spectra", sum(map(len, rows.values())), progress)
            for (part, task), planned in rows.items():
                _bench(folder, part, task, planned, settings, pool, tell)
            refused = _coldstart(folder, size, rows, settings, pool, progress)
        _truth(folder)
        _prepare(folder, seed)
        write_atomic(folder / "README.md", _README)
        write_atomic(folder / RECEIPT, json.dumps(receipt | {"refused": refused}, indent=1) + "\n")
    except BrokenProcessPool as e:
        raise OSError("a worker process died (out of memory?); the same call goes on, fewer workers need less") from e
    finally:
        lock.release()
    return SimVI(folder, _sizes(size), refused, made=True)


def _complete(folder: Path) -> bool:
    """Whether what is published is there."""
    files = [_parquet(folder, part, task) for part in PARTS for task in TASKS]
    return all(f.is_file() for f in (*files, folder / "truth.csv", folder / "coldstart" / "train_sharegpt.json"))


def _parquet(folder: Path, part: Part, task: str) -> Path:
    return folder / "bench" / "benchmark" / "data" / f"{part}_{task}.parquet"


def _sizes(size: Size) -> dict[str, int]:
    sizes = {part: sum(rows_of(size, part, task) for task in TASKS) for part in PARTS}
    return sizes | {"coldstart": sum(sum(n.values()) for n in coldstart_rows(size).values())}


def _bench(
    folder: Path, part: Part, task: str, rows: Sequence[Row], settings: Settings, pool: Executor, tell: _Counted
) -> None:
    """One Parquet file, and beside it, until all are there, the truth of its rows."""
    file = _parquet(folder, part, task)
    pieces = folder / ".truth" / f"{part}_{task}.csv"
    if file.is_file() and (pieces.is_file() or (folder / "truth.csv").is_file()):
        tell(len(rows))
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    truths: list[Truth] = []

    def published() -> Iterator[BenchRow]:
        for made in _mapped(pool, partial(bench_rows, settings=settings), _chunks(rows)):
            for row, truth in made:
                truths.append(truth)
                yield row
            tell(len(made))

    write_bench(file, published(), about="SIMULATED by specvet: no telescope has seen this")
    _write_csv(pieces, truths)


def _coldstart(
    folder: Path,
    size: Size,
    rows: dict[tuple[Part, str], list[Row]],
    settings: Settings,
    pool: Executor,
    progress: Callable[[str, int, int], None],
) -> dict[str, int]:
    """The published cold-start file; returns how many drafts were refused, by reason.

    Members are wanted of every kind, as it has its share: of train's rows, then of spare objects. Where a kind gives
    too few good drafts in `TRIES` times as many (kinds that the task's evidence hardly finds), others take its places.
    """
    wanted = coldstart_rows(size)
    total = sum(sum(n.values()) for n in wanted.values())
    school = _School(pool, settings, _Counted("trajectories", total, progress))
    for task in TASKS:
        train, n, seed = rows["train", task], wanted[task], settings.seed
        members = [row for row in train if row.answer == "YES"]
        missing = n["YES"]
        for kind, share in member_shares(task, n["YES"]).items():
            of_kind = [row for row in members if row.kind == kind] + spare(task, "YES", seed, TRIES * share, kind)
            missing -= school.teach(of_kind[: TRIES * share], share)
        left = [row for row in members if row.key not in school.tried]
        missing -= school.teach(left + spare(task, "YES", seed, SPARE), missing)
        others = [row for row in train if row.answer == "NO"]
        missing += n["NO"] - school.teach(others + spare(task, "NO", seed, SPARE), n["NO"])
        if missing:
            raise InputError(f"cold start, {task}: {missing} good drafts are missing; choose another --seed")
    _write_csv(folder / ".truth" / "spare.csv", [made.truth for made in school.kept if made.row.part == "spare"])
    write_coldstart(folder / "coldstart", (made.written for made in school.kept if made.written is not None))
    return dict(sorted(school.refused.items(), key=lambda item: (-item[1], item[0])))


@dataclass(slots=True)
class _School:
    """The teacher's drafts, made in the workers and taken in the order of the rows."""

    pool: Executor
    settings: Settings
    tell: _Counted
    kept: list[Draft] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    tried: set[tuple[int, int]] = field(default_factory=set)

    def teach(self, candidates: Sequence[Row], n: int) -> int:
        """Keep the first `n` good drafts about the candidates, or as many as there are; returns how many."""
        good = 0
        drafts = _mapped(self.pool, partial(draft, settings=self.settings), candidates if n else ())
        for made in drafts:
            self.tried.add(made.row.key)
            if made.written is None:
                reason = made.refused.partition(" (")[0].partition(":")[0]
                self.refused[reason] = self.refused.get(reason, 0) + 1
                continue
            self.kept.append(made)
            self.tell(1)
            good += 1
            if good == n:
                break
        drafts.close()
        return good


def _prepare(folder: Path, seed: int) -> bool:
    """Prepare what is published in the folder, or what is missing or damaged of it; whether anything was done."""
    with open(folder / "truth.csv", encoding="utf-8", newline="") as table:
        objects = {row["name"]: row["object_id"] for row in csv.DictReader(table)}
    trajectories = prepare_coldstart(folder / "coldstart", folder, objects=objects, seed=seed, dataset=NAME)
    questions = prepare_bench(
        folder / "bench", folder, objects=objects, seed=seed, label_source="simulated", dataset=NAME
    )
    return trajectories.made or questions.made


def _truth(folder: Path) -> None:
    """All truths in one table, `truth.csv`."""
    pieces = folder / ".truth"
    if pieces.is_dir() and not (folder / "truth.csv").is_file():
        lines: list[str] = []
        names = [*(f"{part}_{task}" for part in PARTS for task in TASKS), "spare"]
        for file in (pieces / f"{name}.csv" for name in names):
            head, *rest = file.read_text(encoding="utf-8").splitlines()
            lines += [*([] if lines else [head]), *rest]
        write_atomic(folder / "truth.csv", "\n".join(lines) + "\n")
    shutil.rmtree(pieces, ignore_errors=True)


@dataclass(slots=True)
class _Counted:
    doing: str
    total: int
    progress: Callable[[str, int, int], None]
    done: int = 0

    def __call__(self, more: int) -> None:
        self.done += more
        self.progress(self.doing, self.done, self.total)


def _mapped(pool: Executor, work: Callable[[T], R], tasks: Sequence[T]) -> Generator[R]:
    """The results in their order, with a few tasks ahead of the one that is waited for; closing it cancels those."""
    waiting: list[Future[R]] = []
    rest = iter(tasks)
    try:
        waiting = [pool.submit(work, task) for task in islice(rest, 8)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [pool.submit(work, task) for task in islice(rest, 1)]
    finally:
        for future in waiting:
            future.cancel()


def _chunks(rows: Sequence[Row]) -> list[list[Row]]:
    return [list(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]


def _write_csv(path: Path, rows: Sequence[Truth]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=TRUTH_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, text.getvalue())
