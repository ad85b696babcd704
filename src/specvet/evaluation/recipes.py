"""Question sets that are made from their seed wherever they are needed, and kept in the user's cache folder.

    made = make(Recipe(suite="cross-survey", n=300))      # made.path, made.facts, made.about

    CACHE/recipes/cross-survey-0123456789abcdef/
      set/          what `specvet data suite` or `specvet data simvi` writes
      facts.csv     name, kind, subtype, snr, survey (SimVI; suites bring their own)
      made.json     written last: versions of whoever made it
      run.lock      held while it is being made

A place is keyed by the recipe, by the code that makes sets, and by the versions of numpy and scipy, so that nothing
outdated is ever used. Processes that want the same set wait for the one that makes it; what a killed one left behind is
taken up (SimVI) or removed (suites) by the next. All parts of SimVI share a place.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from importlib.metadata import version
from pathlib import Path
from typing import Any

import specvet
from specvet.data.errors import InputError
from specvet.data.questions import read_questions
from specvet.data.simulate.templates_reading import cache_folder
from specvet.data.simvi import building as simvi
from specvet.data.simvi.making import VERSION as SIMVI_VERSION
from specvet.data.suites.building import FACTS_FILE, QUESTIONS, make_suite, settings_of
from specvet.evaluation.plan import Recipe
from specvet.records import text_hash, write_atomic
from specvet.records.errors import RunLockedError
from specvet.records.lock import FolderLock

RECEIPT = "made.json"

_MAKERS = (
    *("spectra", "views", "tools", "tasks"),
    *(f"data/{name}" for name in ("simulate", "simvi", "suites", "published", "teacher", "mojibake.yaml")),
    *(f"data/{name}.py" for name in ("demonstrations", "making", "mojibake", "pictures", "questions", "splits")),
)
"""Whose code decides what a set holds: folders, and single files."""

_PARTS = {"train": "bench_rl_train", "dev": "bench_dev", "val": "bench_val", "test": "bench_test"}

_WAIT_S = 0.5

Progress = Callable[[str, int, int], None]
"""What is done, how many of how many."""


@dataclass(frozen=True, slots=True)
class Made:
    """A set that lies in the cache."""

    path: Path
    """Question file."""
    facts: Path
    """CSV with what its spectra are."""
    about: dict[str, Any]
    """That it is simulated, by which versions, with which settings."""


def make(
    recipe: Recipe,
    cache: Path | None = None,
    progress: Progress = lambda doing, done, total: None,
    *,
    workers: int | None = None,
) -> Made:
    """The set of a recipe: found in `cache` (by default `specvet/recipes` in the user's cache folder), or made there.

    More than one worker (by default all cores) are new interpreters, so a script needs the usual
    `if __name__ == "__main__":`. Raises InputError for a recipe that cannot be, OSError, RunError.
    """
    place = _place(recipe, cache)
    found = _found(place, recipe)
    if found is None:
        place.mkdir(parents=True, exist_ok=True)
        with _alone(place, progress):
            found = _found(place, recipe)  # by now another process may have made it
            if found is None:
                about = _make(place, recipe, workers, progress)
                write_atomic(place / RECEIPT, json.dumps(about, indent=1) + "\n")
                found = _found(place, recipe)
    if found is None:
        raise OSError(f"{place}: files went missing while they were being made; does another program clean up there?")
    return found


def made_before(recipe: Recipe, cache: Path | None = None) -> Made | None:
    """The set of a recipe where `make` made it before; None where it would have to make it."""
    return _found(_place(recipe, cache), recipe)


def _place(recipe: Recipe, cache: Path | None) -> Path:
    """Where a set lies: named after what is made, and a hash of all that it depends on."""
    what = f"simvi-{recipe.simvi}" if recipe.simvi else f"{recipe.suite}"
    told = [_settings(recipe), code_hash(), version("numpy"), version("scipy")]
    name = f"{what}-{text_hash(json.dumps(told, sort_keys=True))[:16]}"
    return (cache_folder() / "recipes" if cache is None else cache) / name


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What the folder `set` depends on, beside the code."""
    if recipe.suite:
        return settings_of(recipe.suite, recipe.n, recipe.seed)
    return {
        "simulated": True,
        "set": simvi.NAME,
        "version": SIMVI_VERSION,
        "size": recipe.simvi,
        "seed": recipe.seed,
        "style": recipe.style,
    }


@once
def code_hash() -> str:
    """SHA-256 of the code that makes sets."""
    digest = hashlib.sha256()
    root = Path(specvet.__file__).parent
    for part in _MAKERS:
        files = [root / part] if (root / part).is_file() else (root / part).rglob("*")
        for file in sorted(p for p in files if p.is_file() and "__pycache__" not in p.parts):
            digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _found(place: Path, recipe: Recipe) -> Made | None:
    """The set, where it is there with all its spectra."""
    try:
        about = json.loads((place / RECEIPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if recipe.suite:
        path, facts = place / "set" / QUESTIONS, place / "set" / FACTS_FILE
    else:
        path, facts = place / "set" / "rl" / f"{_PARTS[recipe.part]}.jsonl", place / FACTS_FILE
        about = about | {"part": recipe.part}
    if not path.is_file() or not facts.is_file():
        return None
    try:
        asked = read_questions(str(path))
    except InputError:
        return None
    files = {one.file for one in asked}
    return Made(path, facts, about) if all(Path(file).is_file() for file in files) else None


def _make(place: Path, recipe: Recipe, workers: int | None, progress: Progress) -> dict[str, Any]:
    """Make the set; what is said of it."""
    folder = place / "set"
    if recipe.suite:
        for left in (folder, *place.glob(".set-*")):  # something is missing there, or its maker was killed
            shutil.rmtree(left, ignore_errors=True)
        make_suite(folder, recipe.suite, recipe.n, seed=recipe.seed, workers=workers, progress=progress)
    else:
        assert recipe.simvi is not None
        simvi.make_simvi(folder, recipe.simvi, seed=recipe.seed, style=recipe.style, workers=workers, progress=progress)
        _simvi_facts(folder / "truth.csv", place / FACTS_FILE)
    versions = {"specvet": specvet.__version__} | {name: version(name) for name in ("numpy", "scipy")}
    return _settings(recipe) | {"versions": versions, "code": code_hash()}


def _simvi_facts(truth: Path, facts: Path) -> None:
    """The truth of SimVI as facts; all of it is as LAMOST would have seen it."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("name", "kind", "subtype", "snr", "survey"))
    with open(truth, encoding="utf-8", newline="") as rows:
        writer.writerows((r["name"], r["kind"], r["subtype"], r["snr"], "LAMOST") for r in csv.DictReader(rows))
    write_atomic(facts, table.getvalue())


@contextmanager
def _alone(place: Path, progress: Progress) -> Iterator[None]:
    """Hold a place, once whoever holds it has let go."""
    while True:
        try:
            lock = FolderLock(place)
            break
        except RunLockedError:
            progress("waiting for another process that makes this set", 0, 1)
            time.sleep(_WAIT_S)
    try:
        yield
    finally:
        lock.release()
