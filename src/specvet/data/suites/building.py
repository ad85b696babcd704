"""`make_suite`: the folder of a suite.

    FOLDER/questions.jsonl     one question a spectrum
    FOLDER/facts.csv           what only the simulator knows of each: kind, sub-type, S/N, survey
    FOLDER/tasks/KEY.yaml      what is asked, where it is not built in (cross-task)
    FOLDER/spectra/            cross-survey: native files by survey; cross-task: arrays as SimVI has them
    FOLDER/made.json           the settings

The folder is there whole or not at all.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from specvet.data.errors import InputError
from specvet.data.making import made_once
from specvet.data.processes import cores, worker_pool
from specvet.data.questions import read_questions
from specvet.data.simulate import survey
from specvet.data.suites.classes import CLASSES, task_text
from specvet.data.suites.making import BLOCK, FACTS, VERSION, Made, make_block
from specvet.data.suites.plan import MOST, SUITES, SURVEYS, Row, Suite, plan
from specvet.records import write_atomic

QUESTIONS, FACTS_FILE = "questions.jsonl", "facts.csv"

Progress = Callable[[str, int, int], None]
"""What is done, how many of how many."""

_ABOUT: dict[Suite, str] = {
    "cross-survey": "the same objects as LAMOST, SDSS and DESI would show them, in files as each survey lays them out,"
    "\nasked about the built-in tasks",
    "cross-task": "objects as LAMOST would show them, in arrays as SimVI has them, asked about classes that no\n"
    "built-in task asks about (`tasks/`)",
}

_README = """\
# {suite}: a SIMULATED suite of questions

No telescope has seen any of this: every spectrum, label and question here was SIMULATED by specvet
(`specvet data suite {suite} --n {n} --seed {seed}`). It shows
{about}.

- `questions.jsonl`: one question a spectrum; spectra of one object share `object_id`
- `facts.csv`: what each spectrum is, which no policy is shown
- `spectra/`: the spectra; every name says SIMULATED, and none says what the object is
"""


@dataclass(frozen=True, slots=True)
class SuiteFolder:
    """A finished suite."""

    folder: Path
    suite: Suite
    objects: int
    questions: int
    yes: dict[str, int]
    """Task → spectra whose answer is YES."""
    made: bool
    """False where all of it was there already."""

    @property
    def path(self) -> Path:
        """The question file."""
        return self.folder / QUESTIONS

    @property
    def facts(self) -> Path:
        return self.folder / FACTS_FILE


def make_suite(
    folder: str | os.PathLike[str],
    suite: Suite,
    n: int = 1_000,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress = lambda doing, done, total: None,
) -> SuiteFolder:
    """Write a suite of `n` objects into `folder`, or find it there; equal calls write equal bytes.

    More than one worker are new interpreters, so a script needs the usual `if __name__ == "__main__":`. Raises
    InputError for a suite or number that cannot be, and where the folder holds something else; OSError.
    """
    if suite not in SUITES:
        raise InputError(f"there is no suite {suite!r}; known are {', '.join(SUITES)}")
    if not 1 <= n <= MOST or seed < 0:
        raise InputError(f"n = {n}, seed = {seed}: give 1 to {MOST:,} objects and a seed that is not negative")
    folder = Path(folder)
    settings = settings_of(suite, n, seed)
    wrote = False

    def write(place: Path) -> None:
        nonlocal wrote
        wrote = True
        _write(place, suite, n, seed, workers or cores(), progress)

    try:
        made_once(folder, settings, write)
    except FileExistsError as e:
        raise InputError(str(e)) from None
    except BrokenProcessPool as e:
        raise OSError("a worker process died (out of memory?); fewer workers need less") from e
    asked = [one.question for one in read_questions(str(folder / QUESTIONS))]
    yes = Counter(q.task for q in asked if q.answer == "YES")
    return SuiteFolder(
        folder, suite, len({q.object_id for q in asked}), len(asked), {t: yes[t] for t in SUITES[suite]}, wrote
    )


def settings_of(suite: Suite, n: int, seed: int) -> dict[str, object]:
    """What a suite depends on, beside the code."""
    return {
        "simulated": True,
        "set": f"{suite} suite (SIMULATED)",
        "version": VERSION,
        "survey_version": survey.VERSION,
        "n": n,
        "seed": seed,
    }


def _write(place: Path, suite: Suite, n: int, seed: int, workers: int, progress: Progress) -> None:
    blocks = list(_blocks(plan(suite, n, seed)))
    made: list[Made] = []
    progress("spectra", 0, n * len(SURVEYS[suite]))
    for block in _in_order(partial(make_block, seed=seed, folder=place), blocks, workers):
        made += block
        progress("spectra", len(made), n * len(SURVEYS[suite]))
    if suite == "cross-task":
        (place / "tasks").mkdir()
        for key in CLASSES:
            write_atomic(place / "tasks" / f"{key}.yaml", task_text(key))
    write_atomic(place / QUESTIONS, "".join(f"{one.question.model_dump_json(exclude_none=True)}\n" for one in made))
    table = io.StringIO()
    writer = csv.DictWriter(table, FACTS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(one.facts for one in made)
    write_atomic(place / FACTS_FILE, table.getvalue())
    write_atomic(place / "README.md", _README.format(suite=suite, n=n, seed=seed, about=_ABOUT[suite]))


def _blocks(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows of one task, `BLOCK` at a time."""
    for task in dict.fromkeys(row.task for row in rows):
        of_task = [row for row in rows if row.task == task]
        yield from (of_task[start : start + BLOCK] for start in range(0, len(of_task), BLOCK))


def _in_order(
    work: Callable[[Sequence[Row]], list[Made]], blocks: Sequence[list[Row]], workers: int
) -> Iterator[list[Made]]:
    if workers == 1 or len(blocks) == 1:
        yield from map(work, blocks)
        return
    with worker_pool(min(workers, len(blocks))) as pool:
        yield from pool.map(work, blocks)
