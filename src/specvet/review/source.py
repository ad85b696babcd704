"""From a run folder, or from files and lists, to a `Listing`.

Of a run, columns are read and no trajectories; what triage has written beside it is joined. Of a list, entries are read
and no spectra, except that a few files are opened to see how many targets they hold.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from specvet.data.errors import InputError
from specvet.records import WHOLE_FILE, RunError, RunFolder
from specvet.records.database import connect_to_read
from specvet.review.listing import ANSWERS, BANDS, NOT_SAID, Agent, Listing, Verdicts, floats, item_name
from specvet.spectra import SIMULATED, Spectrum
from specvet.tasks import Task, TaskError, builtin_tasks, load_task, resolve_tasks

if TYPE_CHECKING:
    from specvet.vetting import Item

COUNTED_FILES = 200
"""So many files of a list without rows are opened to count their targets; of a longer list each is taken as one."""


def open_source(
    inputs: Sequence[str],
    *,
    tasks: str | None = None,
    root: str | None = None,
    path_column: str | None = None,
    z_column: str | None = None,
) -> Listing:
    """The listing of a run folder, or of files, folders, globs and lists as `vet` takes them.

    `tasks` names those to be reviewed: of a run all that it asked by default, of a list all built-in ones. Raises
    `RunError`, `InputError` and `TaskError`, each with what to do.
    """
    if len(inputs) == 1 and os.path.isfile(os.path.join(inputs[0], "run.db")):
        return of_run(Path(inputs[0]), tasks)
    runs = [i for i in inputs if os.path.isfile(os.path.join(i, "run.db"))]
    if runs:
        raise InputError(f"{runs[0]}: is a run; review one run at a time, or files and lists without it")
    return of_list(inputs, tasks=tasks, root=root, path_column=path_column, z_column=z_column)


# Runs ----------------------------------------------------------------------------------------------------------------

_FIELDS = ("verdict.p_yes", "verdict.likelier_class", "survey", "snr", "ra", "dec", "z", "z_file", "pipeline_class")

_SQL = (
    "SELECT key, file, row, task, id, answer, "
    + ", ".join(f"json_extract(rest, '$.{field}')" for field in _FIELDS)
    + ", json_extract(rest, '$.frame') IS NOT NULL"
    + f", instr(rest, '\"{SIMULATED}\"') > 0 FROM decisions ORDER BY n"
)


def of_run(folder: Path, tasks: str | None = None) -> Listing:
    """The listing of a run. Raises `RunError`, also for a task that it did not ask."""
    run = RunFolder.read(folder)
    try:
        asked = run_tasks(run)
        config = run.config
        kind = run.kind
    finally:
        run.close()
    if kind == "train":
        raise RunError(f"{folder}: is a training run; give a run of vet, rollout or eval")
    chosen = _chosen(asked, tasks, folder)
    with closing(connect_to_read(folder / "run.db")) as db, _without_collecting():
        rows = db.execute(_SQL).fetchall()
        if not rows:
            raise RunError(f"{folder}: holds no decision yet; wait until vet has made some")
        listing = _columns(rows, chosen, folder, config)
    _join_triage(listing, folder)
    return listing


@contextmanager
def _without_collecting() -> Iterator[None]:
    """A million new objects, none of them garbage: looking for some takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def run_tasks(run: RunFolder) -> list[Task]:
    """What a run asked, as it kept it."""
    found = {}
    for file in sorted((run.path / "tasks").glob("*.yaml")):
        try:
            task = load_task(file)
        except (TaskError, OSError):
            continue
        found[task.key] = _rule_for_epochs(task)
    order = [key for key in (*run.config.get("tasks", ()), *found) if key in found]
    return [found[key] for key in dict.fromkeys(order)]


def _rule_for_epochs(task: Task) -> Task:
    """A task of an earlier version that asks the same of spectra takes the present rule for the epochs of a star."""
    ours = builtin_tasks().get(task.key) if task.epochs is None else None
    if ours is not None and ours.asked() == task.asked():
        return task.model_copy(update={"epochs": ours.epochs})
    return task


def _chosen(asked: list[Task], names: str | None, folder: Path) -> tuple[Task, ...]:
    if not asked:
        raise RunError(f"{folder}: its folder tasks/ holds no task that can be read; put the task files back")
    if names is None:
        return tuple(asked)
    keys = {t.key: t for t in asked}
    wanted = []
    for name in filter(None, (n.strip() for n in names.split(","))):
        try:
            key = name if name in keys else load_task(name).key
        except TaskError:
            key = name
        if key not in keys:
            raise RunError(f"{folder}: was not asked {name!r}; it asked {', '.join(keys)}")
        wanted.append(keys[key])
    return tuple({t.key: t for t in wanted}.values())


def _columns(rows: list[tuple[Any, ...]], tasks: tuple[Task, ...], folder: Path, config: dict[str, Any]) -> Listing:
    keys_of_tasks = {WHOLE_FILE, *(t.key for t in tasks)}
    if any(row[3] not in keys_of_tasks for row in rows):
        rows = [row for row in rows if row[3] in keys_of_tasks]
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True)) or [()] * (8 + len(_FIELDS))
    keys, files, numbers, asked, ids, answers, p, likelier, *about = columns
    files = tuple(key if file is None else file for key, file in zip(keys, files, strict=True))
    places: dict[tuple[str, int], int] = {}
    place = np.array([places.setdefault(pair, len(places)) for pair in zip(keys, numbers, strict=True)], np.int64)
    n = len(places)
    first = np.unique(place, return_index=True)[1].tolist()
    if n != len(rows):
        files, numbers, ids = (tuple(column[i] for i in first) for column in (files, numbers, ids))
        about = [tuple(column[i] for i in first) for column in about]
    surveys, snr, ra, dec, z, z_file, classes, framed, simulated = about
    look_z = [0.0 if value is None and known else value for value, known in zip(z, framed, strict=True)]
    listing = Listing(
        kind="run",
        title=folder.resolve().name,
        tasks=tasks,
        items=[item_name(key, row) for key, row in places],
        files=list(files),
        rows=list(numbers),
        ids=[id or os.path.basename(file) for id, file in zip(ids, files, strict=True)],
        surveys=[v or "" for v in surveys],
        snr=floats(snr).astype(np.float32),
        ra=floats(ra),
        dec=floats(dec),
        pipeline_class=[v or "" for v in classes],
        z_given=np.full(n, np.nan),
        look_z=floats(look_z),
        z_file=floats(z_file),
        simulated=np.array(simulated, np.int8),
        agent=_agent(config),
        run=folder,
    )
    code = {word: i for i, word in enumerate(ANSWERS)}
    answer = np.array([code[word] for word in answers], np.int8)
    task = np.array(asked, dtype=object)
    whole = task == WHOLE_FILE
    unreadable = "the file could not be read when the run was made"
    listing.problems = dict.fromkeys(place[whole].tolist(), unreadable)
    for key in (t.key for t in tasks):
        of_task = np.flatnonzero((task == key) | whole)
        verdicts = listing.verdicts[key] = Verdicts.nothing(n)
        # Of several samples the first counts, and whether others differ.
        where, index = np.unique(place[of_task], return_index=True)
        chosen = of_task[index]
        verdicts.answer[where] = answer[chosen]
        verdicts.p[where] = floats(p)[chosen]
        for i, j in zip(where.tolist(), chosen.tolist(), strict=True):
            if likelier[j]:
                verdicts.likelier[i] = likelier[j]
        differ = of_task[answer[of_task] != verdicts.answer[place[of_task]]]
        verdicts.samples_differ[place[differ]] = True
    return listing


def _agent(config: dict[str, Any]) -> Agent | None:
    policy = config.get("policy")
    if isinstance(policy, dict):
        policy = policy.get("name")
    model = config.get("model") or ""
    return Agent(str(policy or "unknown"), str(model))


def _join_triage(listing: Listing, folder: Path) -> None:
    """Calibrated probabilities and bands, where `specvet triage` has been run; a table that does not fit is told of."""
    if not (folder / "triage" / "rows.parquet").is_file():
        return
    from specvet.vetting.triage import TriageError, read_about, read_told

    try:
        told = read_told(folder)
        about = read_about(folder) if told else None
    except TriageError as e:
        listing.notices.append(str(e))
        return
    places = {(f, r): i for i, (f, r) in enumerate(zip(listing.files, listing.rows, strict=True))}
    code = {word: i for i, word in enumerate(BANDS)}
    for (file, row, task), (probability, band, _) in told.items():
        verdicts, place = listing.verdicts.get(task), places.get((file, row))
        if verdicts is None or place is None:
            continue
        verdicts.band[place] = code.get(band, NOT_SAID)
        if probability is not None:
            verdicts.p[place] = probability
            verdicts.calibrated = about is not None and about.get("calibration") is not None
    readable = np.ones(len(listing), bool)
    readable[list(listing.problems)] = False
    later = sum(
        int((readable & (v.answer != NOT_SAID) & (v.band == NOT_SAID)).sum()) for v in listing.verdicts.values()
    )
    if told and later:
        listing.notices.append(f"{later:,} answers are newer than the triage of this run; run specvet triage again")


# Lists ---------------------------------------------------------------------------------------------------------------


def of_list(
    inputs: Sequence[str],
    *,
    tasks: str | None = None,
    root: str | None = None,
    path_column: str | None = None,
    z_column: str | None = None,
) -> Listing:
    """The listing of files and lists. Raises `InputError`, `TaskError`."""
    from specvet.vetting import expand_inputs

    chosen = tuple(resolve_tasks(tasks or "all"))
    source = expand_inputs(inputs, root=root, path_column=path_column, z_column=z_column)
    with _without_collecting():
        return _listed(list(source), source.notices, inputs, chosen)


def _listed(entries: list[Item], notices: Sequence[str], inputs: Sequence[str], tasks: tuple[Task, ...]) -> Listing:
    whole = {e.file for e in entries if e.row is None and not e.ids and not e.problem}
    targets = {file: _targets(file) for file in whole} if len(whole) <= COUNTED_FILES else {}
    relative = _relative_to(_base(inputs))
    places: dict[str, int] = {}
    columns: list[tuple[str, int, str, float | None, float | None, float | None]] = []
    seen: dict[int, Spectrum] = {}
    problems: dict[int, str] = {}
    selections: dict[int, tuple[tuple[str, str], ...]] = {}
    repeated = 0
    for e in entries:
        chosen_by = "" if e.row is not None else " ".join(f"{a}={b}" for a, b in e.ids)
        held = targets.get(e.file) or {}
        for row in [e.row] if e.row is not None else list(held) or [0]:
            name = item_name(relative(e.file) + (f"\0{chosen_by}" if chosen_by else ""), row)
            if name in places:
                repeated += 1
                continue
            place = places[name] = len(columns)
            columns.append((e.file, row, e.id or "", e.ra, e.dec, e.z))
            if row in held:
                seen[place] = held[row]
            if e.problem:
                problems[place] = e.problem
            if chosen_by:
                selections[place] = e.ids
    n = len(columns)
    nan = np.full(n, np.nan)
    listing = Listing(
        kind="list",
        title=", ".join(os.path.basename(os.path.normpath(i)) for i in inputs[:3]) + (", …" if len(inputs) > 3 else ""),
        tasks=tasks,
        items=list(places),
        files=[c[0] for c in columns],
        rows=[c[1] for c in columns],
        ids=[c[2] or os.path.basename(c[0]) for c in columns],
        surveys=[""] * n,
        snr=nan.astype(np.float32),
        ra=floats([c[3] for c in columns]),
        dec=floats([c[4] for c in columns]),
        pipeline_class=[""] * n,
        z_given=floats([c[5] for c in columns]),
        look_z=nan.copy(),
        z_file=nan.copy(),
        problems=problems,
        selections=selections,
        notices=list(notices),
    )
    for place, spectrum in seen.items():
        listing.learn(place, spectrum)
    if repeated:
        listing.notices.append(f"{repeated:,} entries of the list name a spectrum that it names before; each is once")
    if len(whole) > COUNTED_FILES:
        listing.notices.append(
            f"{len(whole):,} files are listed without rows: each is taken as one spectrum, its row 0; a file that "
            "holds more says so when it is shown, and a column row in the list asks for them"
        )
    return listing


def _targets(file: str) -> dict[int, Spectrum]:
    """What a file holds, by row; empty where it cannot be read, which is told when it is shown."""
    from specvet.spectra import read

    try:
        return {s.row: s for s in read(file)}
    except Exception:  # whatever a broken file does to a reader
        return {}


def _base(inputs: Sequence[str]) -> str:
    """The folder that files of this list are named from, so that list and files can be moved together."""
    first = os.path.abspath(inputs[0].removeprefix("@"))
    return first if os.path.isdir(first) else os.path.dirname(first)


def _relative_to(base: str) -> Callable[[str], str]:
    """Files by their path below `base`, or else by their whole path; each folder is resolved once."""
    folders: dict[str, str] = {}

    def relative(file: str) -> str:
        folder, name = os.path.split(file)
        if folder not in folders:
            path = os.path.abspath(folder)
            inside = path == base or path.startswith(base + os.sep)
            folders[folder] = path[len(base) + 1 :] if inside else path
        return os.path.join(folders[folder], name)

    return relative


__all__ = ["of_list", "of_run", "open_source", "run_tasks"]
