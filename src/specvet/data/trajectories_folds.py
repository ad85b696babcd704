"""Cross-validation with one set of demonstrations: for each fold those that rest on none of the objects it keeps back.

    with_folds("trajectories", "templates.npz", 3)  →  trajectories/fold-1-of-3.jsonl … fold-3-of-3.jsonl

A set that all real spectra may seed is made once; `truth.csv` names every star that went into a demonstration. The
files share the pictures of the set, so each takes a few kB a demonstration.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path

from specvet.data.errors import InputError
from specvet.data.simulate.templates import NAMES, Fold, load_templates
from specvet.data.trajectories import LINES, TRUTH
from specvet.records import write_atomic

ALL = Fold(0, 1)
"""Keeps no object back."""


def with_folds(
    folder: str | os.PathLike[str], templates: str | os.PathLike[str], folds: int
) -> dict[str, tuple[Path, int]]:
    """A file for each fold; returns by its name (`1/3`) the file and how many demonstrations it holds.

    `templates` is the folder or file of real spectra that seeded them. Raises InputError for a folder that holds no
    finished demonstrations, fewer than two folds, stars that `templates` does not know, and a fold that nothing is
    left for; OSError.
    """
    place = Path(folder)
    if folds < 2:
        raise InputError(f"{folds} folds: give two or more")
    try:
        lines = (place / LINES).read_text(encoding="utf-8").splitlines(keepends=True)
        with (place / TRUTH).open(encoding="utf-8", newline="") as file:
            seeds = [row["template"] for row in csv.DictReader(file)]
        objects = {one.file: one.object_id for one in load_templates(Path(templates), fold=ALL).templates}
    except (FileNotFoundError, KeyError) as e:
        raise InputError(
            f"{folder}: holds no finished demonstrations ({e}); make them: specvet data trajectories"
        ) from e
    except ValueError as e:
        raise InputError(str(e)) from e
    if len(seeds) != len(lines):
        raise InputError(f"{place / TRUTH}: has {len(seeds):,} rows for {len(lines):,} demonstrations")
    stars = [_objects(names, objects, place) for names in seeds]
    made = {}
    for fold in (Fold(held, folds) for held in range(1, folds + 1)):
        kept = [line for line, ids in zip(lines, stars, strict=True) if not any(map(fold.holds, ids))]
        if not kept:
            raise InputError(f"{folder}: every demonstration rests on an object of fold {fold}; take more folds")
        path = place / f"fold-{fold.held}-of-{fold.of}.jsonl"
        write_atomic(path, "".join(kept))
        made[str(fold)] = (path, len(kept))
    return made


def _objects(names: str, objects: dict[str, str], place: Path) -> Iterable[str]:
    """Of the stars that a demonstration rests on. Raises InputError for one that nobody knows."""
    files = names.split(NAMES) if names else []
    if unknown := [name for name in files if name not in objects]:
        raise InputError(f"{place / TRUTH}: {unknown[0]} is not among the templates; give those that seeded the set")
    return [objects[name] for name in files]
