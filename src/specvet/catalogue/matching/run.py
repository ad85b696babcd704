"""Matching a run: each source is asked once, what it says is kept, and all of it makes the verdicts with Gaia."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specvet.agent import task_hash
from specvet.catalogue.matching.answers import WithGaia, with_gaia
from specvet.catalogue.matching.folder import (
    FOLDER,
    Place,
    intact,
    read_about,
    read_source,
    sources_of,
    write_matches,
    write_source,
)
from specvet.catalogue.matching.motion import sightings_in, still_epoch, with_moved
from specvet.catalogue.matching.quantities import APPROXIMATION
from specvet.catalogue.matching.sources import GAIA, Progress, Source, TableSource, known_as, merged
from specvet.catalogue.sighting import Key, Match, Sighting
from specvet.catalogue.sightings import sightings_of
from specvet.data.errors import InputError
from specvet.records import WHOLE_FILE, Decision, RunFolder, text_hash
from specvet.records.lock import FolderLock
from specvet.tasks import Task, TaskError, builtin_tasks, load_task

RADIUS_ARCSEC = 2.0
"""Usual: fibres and Gaia agree within some 0.5″, and few stars have a neighbour within 2″ that Gaia separates."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What matching a run came to."""

    spectra: int
    placed: int
    """With a position."""
    asked: list[str]
    """Sources that were asked in this call."""
    kept: list[str]
    """Sources whose earlier answers stand."""
    gaia: int
    """Spectra with a Gaia source."""
    known: dict[str, int]
    """By catalogue: spectra that it knows."""
    new: int
    """Spectra that no catalogue knows, though one was asked."""
    changed: dict[str, dict[str, int]]
    """By task: `UNSURE → YES` and how often."""
    notes: int
    """Spectra with something to say of their match."""
    beyond: int = 0
    """Spectra with a place where no catalogue of names reaches, if any was asked: their `known_as` stays empty."""
    done: bool = True
    """False where nothing had to be written."""
    answers: Mapping[Place, WithGaia] = field(default_factory=dict)


def match_run(
    run: RunFolder,
    sources: Sequence[Source],
    radius_arcsec: float = RADIUS_ARCSEC,
    *,
    progress: Progress = lambda doing, done, total: None,
    tell: Callable[[str], None] = lambda text: None,
) -> Matched:
    """Match the spectra of a run with some sources and write `match/` in its folder.

    A source that was asked about these very spectra before, with the same content and radius, is not asked again; what
    earlier calls asked stays, also when a call names no source: then only verdicts that came since are added.

    Raises `InputError` (two sources of one name, a name that is none), `RunLockedError` where another process matches
    the run, what sources raise, `OSError`.
    """
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    lock = FolderLock(folder)  # two at once would each write what it knows, without what the other asked
    try:
        return _match_run(run, sources, radius_arcsec, progress, tell)
    finally:
        lock.release()


def _match_run(
    run: RunFolder,
    sources: Sequence[Source],
    radius_arcsec: float,
    progress: Progress,
    tell: Callable[[str], None],
) -> Matched:
    sightings = sightings_of(run.decisions())
    stamp = _stamp(sightings, radius_arcsec)
    found: dict[Key, Match] = {}
    told: dict[str, Any] = {}
    asked: list[str] = []
    for source in sorted(sources, key=_needs_gaia):
        moved = _moved(run.path, source, sightings, radius_arcsec)
        identity = {"source": source.told, "spectra": stamp, "complete": True}
        identity |= {"moved": _stamp(moved, radius_arcsec)} if moved else {}
        before = read_source(run.path, source.name)
        if before is None or before[1] != identity:
            said = list(source.matches(sightings, radius_arcsec, progress))
            if moved and isinstance(source, TableSource):
                said = with_moved(said, source, moved, radius_arcsec)
            write_source(run.path, source.name, said, identity | {"complete": source.complete})
            asked.append(source.name)
    here = {s.key for s in sightings}
    for name in sources_of(run.path):
        kept = read_source(run.path, name)
        if kept is None:
            tell(f"{run.path / FOLDER}: what {name} said cannot be read and was left out; name it again")
            continue
        if kept[1].get("spectra") != stamp:
            tell(f"{name} was asked with another radius, or before spectra joined the run; name it again to ask anew")
        told[name] = kept[1]["source"]
        for key, match in kept[0].items():
            if key in here:
                found[key] = merged(found.get(key), match)
    answers = answers_of(run.decisions(), found, run_tasks(run.path))
    result = _summed(sightings, found, answers, asked, [n for n in told if n not in asked])
    about = {
        "run": {"name": run.path.resolve().name, "decisions": run.last_number()},
        "radius_arcsec": radius_arcsec,
        "sources": told,
        "counts": {
            "spectra": result.spectra,
            "with_position": result.placed,
            "gaia": result.gaia,
            "known": result.known,
            "new": result.new,
            "with_notes": result.notes,
        },
        "changed": result.changed,
        "approximation": APPROXIMATION,
    }
    receipt = _receipt(run.path)
    if not asked and all(receipt.get(key) == value for key, value in about.items()) and intact(run.path, receipt):
        return dataclasses.replace(result, done=False)
    write_matches(run.path, found.values(), answers, about)
    return result


def _needs_gaia(source: Source) -> bool:
    """Whether it is asked after Gaia, whose motions it lacks."""
    return isinstance(source, TableSource) and still_epoch(source.table) is not None


def _moved(run: Path, source: Source, sightings: Sequence[Sighting], radius_arcsec: float) -> list[Sighting]:
    """The sightings that a table without motions is asked about at another place, by the Gaia sources found so far."""
    year = still_epoch(source.table) if isinstance(source, TableSource) else None
    if year is None:
        return []
    found: dict[Key, Match] = {}
    for name in sources_of(run):
        for key, match in (read_source(run, name) or ({},))[0].items():
            found[key] = merged(found.get(key), match)
    return sightings_in(year, sightings, {key: m.gaia for key, m in found.items() if m.gaia}, radius_arcsec)


def answers_of(
    decisions: Iterable[Decision], matches: Mapping[Key, Match], tasks: Mapping[str, Task]
) -> dict[Place, WithGaia]:
    """The answers with Gaia of those decisions whose task has rules for it."""
    found: dict[Place, WithGaia] = {}
    for d in decisions:
        task = tasks.get(d.task)
        if task is None or d.task == WHOLE_FILE:
            continue
        answer = with_gaia(d.verdict.answer, task, matches.get((d.file, d.row)), d.verdict.likelier_class)
        if answer is not None:
            found[Place(d.file, d.row, d.task, d.sample)] = answer
    return found


def run_tasks(run_path: Path | str) -> dict[str, Task]:
    """What a run asked, by key, as it kept it.

    A task that came with specvet and asks the same of spectra takes what the present one says of Gaia: a run need not
    be made again because regions were added.
    """
    builtin = builtin_tasks()
    found: dict[str, Task] = {}
    for file in sorted((Path(run_path) / "tasks").glob("*.yaml")):
        try:
            task = load_task(file)
        except (TaskError, OSError):
            continue
        ours = builtin.get(task.key)
        same = task.gaia is None and ours is not None and task_hash(ours) == task_hash(task)
        found[task.key] = ours if same and ours is not None else task
    return found


def _stamp(sightings: Sequence[Sighting], radius_arcsec: float) -> str:
    """A hash of all that matching looks at."""
    lines = (f"{s.key} {s.ra} {s.dec} {s.mjd} {s.gaia_id}" for s in sightings)
    return text_hash("\n".join([repr(radius_arcsec), *sorted(lines)]))


def _summed(
    sightings: Sequence[Sighting],
    found: Mapping[Key, Match],
    answers: Mapping[Place, WithGaia],
    asked: list[str],
    kept: list[str],
) -> Matched:
    known = Counter(name for m in found.values() for name in {k.catalogue for k in m.known})
    placed = sum(s.ra is not None and s.dec is not None for s in sightings)
    reached = sum(known_as(m) is not None for m in found.values())
    changed: dict[str, Counter[str]] = {}
    for place, a in answers.items():
        if a.answer != a.answer_with_gaia:
            changed.setdefault(place.task, Counter())[f"{a.answer} → {a.answer_with_gaia}"] += 1
    return Matched(
        spectra=len(sightings),
        placed=placed,
        asked=asked,
        kept=kept,
        gaia=sum(m.gaia is not None for m in found.values()),
        known=dict(sorted(known.items())),
        new=sum(known_as(m) == "new" for m in found.values()),
        changed={task: dict(sorted(counts.items())) for task, counts in sorted(changed.items())},
        notes=sum(bool(m.notes) for m in found.values()),
        beyond=placed - reached if any(set(m.asked) - {GAIA} for m in found.values()) else 0,
        answers=answers,
    )


def _receipt(run_path: Path) -> Mapping[str, Any]:
    try:
        return read_about(run_path) or {}
    except InputError:  # a damaged one is written anew
        return {}
