"""Inputs: question files, spectra and pictures, as far as they are here or can be made again."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from specvet import __version__
from specvet.data.asking import figure_title
from specvet.data.processes import cores, worker_pool
from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.plan import MEASURING, SetPlan
from specvet.evaluation.recipes import code_hash, make
from specvet.evaluation.sealing import receipt_of
from specvet.evaluation.sets import QuestionSet, load_set
from specvet.evaluation.verify.checks import Check, Findings, differing, drift
from specvet.evaluation.verify.replay import Job, Seen, Sight, replay, sight_of
from specvet.policies.line_indices import LineIndices
from specvet.records import RunError
from specvet.views import COMPACT_STYLE

Wanted = Literal["try", "skip", "require"]
Progress = Callable[[str, int, int], None]
"""What is done, how many of how many."""

CHUNK = 16
"""Questions that a process sees again at a time."""

ALONE = 200
"""Questions from which on other processes are worth their start."""


def check_inputs(
    folder: CampaignFolder, asked: QuestionSet, cells: list[Cell], wanted: Wanted, progress: Progress
) -> Iterator[Check]:
    """Whether a set is what its source gives, and trajectories saw what its spectra show."""
    where = f"sets/{asked.record.slug}"
    if wanted == "skip":
        yield Check("inputs", where, "not checked", "left out, as --inputs skip says")
        return
    here = _located(folder, asked, progress)
    if isinstance(here, str):
        yield Check("inputs", where, "failed" if wanted == "require" else "not present", here)
        return
    there, about = here
    found = Findings(where, ("question file",), f"{there.record.questions:,} questions")
    made = _other_making(asked) if about else ""
    for name in ("file_sha256", "questions_sha256", "tasks"):
        found.add("question file", differing(name, getattr(asked.record, name), getattr(there.record, name)), made)
    yield from _facts(folder, asked, about)
    yield from found.checks()
    if there.record.questions_sha256 != asked.record.questions_sha256:
        yield Check("spectra", where, "not checked", "the questions here are others")
        return
    yield from _seen_again(asked, there, cells, wanted, made, progress)


def _located(folder: CampaignFolder, asked: QuestionSet, progress: Progress) -> tuple[QuestionSet, Any] | str:
    """The set from its source and what a recipe made, or why it is not here."""
    record, made = asked.record, None
    plan = SetPlan(**{**record.origin, "unseen": record.unseen, "reference": record.reference})
    if plan.recipe is not None:
        try:
            made = make(plan.recipe, progress=progress)
        except (OSError, RunError) as e:
            return f"it cannot be made here: {e}"
        path = made.path
    else:
        path = folder.path / str(plan.path)
        if not path.is_file():
            return f"the question file {plan.path} is not here"
    return load_set(record.slug, plan, str(path)), made


def _facts(folder: CampaignFolder, asked: QuestionSet, made: Any) -> Iterator[Check]:
    """Whether the facts are those of their file; they stand in the set as well, under their hash."""
    slug = asked.record.slug
    plan = folder.campaign.sets.get(slug)
    given = None if plan is None or plan.facts is None else folder.path / plan.facts
    facts = made.facts if made is not None else given
    if facts is None or plan is None:
        return
    if not Path(facts).is_file():
        yield Check("facts", f"sets/{slug}", "not present", f"{facts} is not here")
        return
    path = made.path if made is not None else folder.path / str(plan.path)
    there = load_set(slug, plan, str(path), str(facts))
    found = Findings(f"sets/{slug}", ("facts",), f"{there.record.questions:,} questions")
    then = _other_making(asked) if made is not None else ""
    found.add("facts", differing("SHA-256 of the facts", asked.record.facts_sha256, there.record.facts_sha256), then)
    yield from found.checks()


def _seen_again(
    asked: QuestionSet, there: QuestionSet, cells: list[Cell], wanted: Wanted, made: str, progress: Progress
) -> Iterator[Check]:
    slug = asked.record.slug
    jobs, absent = _jobs(there, cells)
    if absent:
        told = f"{len(absent):,} of {len(absent) + len(jobs):,} spectra are not here, such as {absent[0]}"
        yield Check("spectra", f"sets/{slug}", "failed" if wanted == "require" else "not present", told)
    if not jobs:
        return
    seen = _replayed(jobs, f"{slug}: seen again", progress)
    for cell in cells:
        names = ["spectra", "descriptions", "views", "pictures"]
        again = cell.policy.policy == "line-indices"
        then = cell.record.versions
        # Only what was seen of the very same spectrum is looked at beyond it, whoever made that.
        excuses = {"spectra": made or drift(then, "specvet"), "views": drift(then, "specvet")}
        excuses["descriptions"] = drift(then, "specvet", "astropy", "numpy")
        excuses["pictures"] = _other_drawing(cell)
        if again:
            names.append("asked again")
            excuses["asked again"] = _other_indices(cell)
        found = Findings(cell.name, tuple(names), f"{len(jobs):,} questions")
        for name, kind, problem in seen.wrong:
            if name == cell.name:
                found.add(kind, [problem], excuses[kind])
        drawn = f"{seen.pictures.get(cell.name, 0):,} drawn again"
        for check in found.checks():
            yield replace(check, detail=drawn) if (check.name, check.state) == ("pictures", "ok") else check


def _jobs(there: QuestionSet, cells: list[Cell]) -> tuple[list[Job], list[str]]:
    """What is to be seen again, file by file; and the files that are not here."""
    sights: dict[int, list[Sight]] = {}
    for cell in cells:
        settings = cell.record.settings
        measuring = cell.policy.policy in MEASURING
        drawn = {
            "style": settings.style,
            "size": settings.pixels,
            "frame": settings.frame,
            "title": figure_title("file" if measuring else settings.title, settings.style),
        }
        for place, id, decision in cell.rows():
            record = decision.trajectory
            if record is not None and 0 <= place < len(there.questions):
                again = (record, cell.tasks[record.question.task], settings.max_turns)
                asked = again if cell.policy.policy == "line-indices" else None
                sight = sight_of(cell.name, id, decision, record, **drawn, asked=asked)
                sights.setdefault(place, []).append(sight)
    jobs, absent = [], []
    for place, seen in sights.items():
        one = there.questions[place]
        if Path(one.file).is_file():
            jobs.append(Job(one.file, one.question.spectrum.row, tuple(seen)))
        else:
            absent.append(one.question.spectrum.path or one.question.spectrum.array_file or "")
    jobs.sort(key=lambda job: (job.file, job.row))
    return jobs, absent


def _replayed(jobs: list[Job], doing: str, progress: Progress) -> Seen:
    all_of_it = Seen()
    chunks = [jobs[i : i + CHUNK] for i in range(0, len(jobs), CHUNK)]
    progress(doing, 0, len(jobs))

    def add(some: Seen) -> None:
        all_of_it.jobs += some.jobs
        all_of_it.wrong += some.wrong
        for cell, n in some.pictures.items():
            all_of_it.pictures[cell] = all_of_it.pictures.get(cell, 0) + n
        progress(doing, all_of_it.jobs, len(jobs))

    if len(jobs) < ALONE or cores() == 1:
        for chunk in chunks:
            add(replay(chunk))
        return all_of_it
    with worker_pool(cores()) as pool:
        for some in pool.map(replay, chunks):
            add(some)
    return all_of_it


def _other_making(asked: QuestionSet) -> str:
    """Why a recipe may make another set here."""
    about = asked.record.about
    other = drift(about.get("versions", {}), "specvet", "numpy", "scipy")
    if not other and about.get("code", code_hash()) != code_hash():
        other = f"made by other code, {about['code'][:12]}…, than that here, which calls itself specvet {__version__}"
    return other


def _other_drawing(cell: Cell) -> str:
    """Why a picture may have other bytes here."""
    versions = cell.record.versions
    if "ng" in zlib.ZLIB_RUNTIME_VERSION:
        return f"zlib here is {zlib.ZLIB_RUNTIME_VERSION}, which packs the same picture into other bytes"
    if cell.record.settings.style == COMPACT_STYLE:
        return drift(versions, "specvet")
    other = drift(versions, "specvet", "matplotlib", "pillow", "numpy")
    then = receipt_of(cell.path).platform
    if not other and not (platform.system() in then and platform.machine() in then):
        other = f"drawn on {then}"
    return other


def _other_indices(cell: Cell) -> str:
    settings = receipt_of(cell.path).settings
    other = drift(cell.record.versions, "specvet", "numpy", "scipy")
    if not other and settings.get("policy_fingerprint") != LineIndices().fingerprint:
        other = "asked by other line indices than those here"
    return other
