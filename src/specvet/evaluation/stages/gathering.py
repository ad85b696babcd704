"""The folder of a table of stages: made from campaigns, and checked from itself alone.

    README.md                    the tables in words
    stages.json                  every number, how each model was asked, and what is missing
    stages.yaml                  the plan (`specvet.evaluation.stages.plan`)
    answers/SET/questions.parquet, answers/SET/MODEL.parquet      what the numbers are made of (`answers`)
    runs/RUN/                    config.yaml, receipt.json and metrics.jsonl of each training run
    pipeline.json                which stages were run, and how long they took
    *.png                        figures
    manifest.json                SHA-256 of all of these

Trajectories stay in the campaigns; `specvet eval publish` copies those of one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import CAMPAIGN, MANIFEST, open_campaign
from specvet.evaluation.outcomes import Outcome
from specvet.evaluation.stages.answers import ASKED, read_answers, write_answers, write_questions
from specvet.evaluation.stages.numbers import stage_numbers
from specvet.evaluation.stages.page import page
from specvet.evaluation.stages.plan import StagesPlan, read_stages
from specvet.evaluation.stages.plots import figures
from specvet.records import file_hash, versions, write_atomic

NUMBERS, PLAN, README, ANSWERS, RUNS = "stages.json", "stages.yaml", "README.md", "answers", "runs"
OF_RUNS = ("config.yaml", "receipt.json", "metrics.jsonl")
PIPELINE = "pipeline.json"
REPLICATES = 2_000

Say = Callable[[str], None]


def gather(file: Path, out: Path, say: Say = lambda text: None, replicates: int = REPLICATES) -> dict[str, Any]:
    """Make the folder `out` from the plan in `file` and what lies beside it; returns what `stages.json` says.

    Models that were not asked yet are left out and listed. What an earlier call made in `out` is made anew; other files
    stay. Raises InputError for a plan that cannot be read, nothing to tell of, or models that were asked different
    questions; OSError.
    """
    plan, root = read_stages(file), file.parent
    before = set(_manifest(out))
    found = dict(_cells(plan, root))
    if not found:
        raise InputError(f"{file}: none of its models was asked anything yet: {root / plan.campaigns} has no such cell")
    for (asked, model), cell in found.items():
        say(f"{model} on {asked}")
        _keep(out / ANSWERS / asked, model, cell.outcomes())
    told = {
        "schema_version": 1,
        "name": plan.name,
        "about": plan.about,
        "seeds": list(plan.seeds),
        "replicates": replicates,
        "missing": [f"{m} on {s}" for s in plan.sets for m in plan.models if (s, m) not in found],
        "sets": _numbers(plan, out, list(found), replicates),
        "cells": [_provenance(asked, cell) for (asked, _), cell in found.items()],
        "minutes": _minutes(root / PIPELINE),
        "versions": versions(),
    }
    runs = list(_copied_runs(plan, root, out))
    write_atomic(out / PLAN, plan.text())
    drawn = list(figures(plan, told, {name: [out / RUNS / run for run in runs_of] for name, runs_of in runs}))
    for name, _, png in drawn:
        write_atomic(out / name, png)
    write_atomic(out / NUMBERS, _json(told))
    write_atomic(out / README, page(plan, told, [(name, words) for name, words, _ in drawn]))
    made = {NUMBERS, PLAN, README, *(name for name, _, _ in drawn), *_kept(out, found)}
    made |= {f"{RUNS}/{run}/{part}" for _, runs_of in runs for run in runs_of for part in OF_RUNS}
    if _copied(root / PIPELINE, out / PIPELINE, root):
        made.add(PIPELINE)
    hashes = {name: file_hash(out / name) for name in sorted(made) if (out / name).is_file()}
    write_atomic(out / MANIFEST, _json({"schema_version": 1, "files": hashes}))
    for stale in before - set(hashes):
        (out / stale).unlink(missing_ok=True)
    return told


def remade(folder: Path) -> list[str]:
    """What does not hold in a folder that `gather` made: files that were changed, numbers that come out differently.

    Raises InputError for a folder that is none, or whose answers cannot be read.
    """
    files = _manifest(folder)
    if not files:
        raise InputError(f"{folder}: was not made by specvet eval stages (it holds no {MANIFEST})")
    wrong = [f"{name} is not there" for name in files if not (folder / name).is_file()]
    wrong += [
        f"{name} is not what the manifest names"
        for name, sha in files.items()
        if (folder / name).is_file() and file_hash(folder / name) != sha
    ]
    plan = read_stages(folder / PLAN)
    told = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    there = [(cell["set"], cell["model"]) for cell in told["cells"]]
    again = _numbers(plan, folder, there, told["replicates"])
    return wrong + [f"stages.json: {where} comes out differently" for where in _differing(told["sets"], again)]


def _cells(plan: StagesPlan, root: Path) -> Iterator[tuple[tuple[str, str], Cell]]:
    """(set, model) → the cell that counts. Raises InputError, OSError."""
    for model in plan.models:
        folder = root / plan.campaigns / model
        if (folder / CAMPAIGN).is_file() and (folder / MANIFEST).is_file():
            for cell in open_campaign(folder).current():
                if cell.record.policy == model and cell.record.set in plan.sets:
                    yield (cell.record.set, model), cell


def _keep(folder: Path, model: str, outcomes: list[Outcome]) -> None:
    """Write a model's answers, and the questions where they are not there yet or are others."""
    asked = folder / "questions.parquet"
    write_answers(folder / f"{model}.parquet", outcomes)
    try:
        kept = read_answers(asked, folder / f"{model}.parquet")
    except (InputError, FileNotFoundError):
        kept = []
    names = [name for name in ASKED if name != "snr"]  # of which fewer digits are kept
    if [[getattr(o, name) for name in names] for o in kept] != [[getattr(o, name) for name in names] for o in outcomes]:
        write_questions(asked, outcomes)


def _kept(out: Path, found: Any) -> set[str]:
    """The files of answers, from `out`."""
    return {f"{ANSWERS}/{asked}/{name}.parquet" for asked, model in found for name in ("questions", model)}


def _numbers(plan: StagesPlan, folder: Path, there: list[tuple[str, str]], replicates: int) -> dict[str, Any]:
    """From the answers as they are kept. Raises InputError, OSError."""
    answered: dict[str, dict[str, list[Outcome]]] = {asked: {} for asked in plan.sets if asked in dict(there)}
    for asked, model in there:
        place = folder / ANSWERS / asked
        answered[asked][model] = read_answers(place / "questions.parquet", place / f"{model}.parquet")
    try:
        return stage_numbers(plan, answered, replicates)
    except ValueError as e:
        raise InputError(f"{folder}: {e}; ask them again with one version of the set") from None


def _provenance(asked: str, cell: Cell) -> dict[str, Any]:
    """How a model was asked, and the hashes of what its answers were read from."""
    record = cell.record
    return {
        "set": asked,
        "model": record.policy,
        "cell": cell.name,
        "rows_sha256": record.rows_sha256,
        "questions_sha256": cell.set.record.questions_sha256,
        "weights": cell.policy.fingerprint,
        "rule": record.rule,
        "settings": record.settings.model_dump(mode="json", exclude_defaults=True),
        "seconds": round(record.seconds, 1),
        "tokens_in": record.tokens_in,
        "tokens_out": record.tokens_out,
    }


def _copied_runs(plan: StagesPlan, root: Path, out: Path) -> Iterator[tuple[str, list[str]]]:
    """Each figure's runs that there are, once their files are copied."""
    for name, folders in plan.runs.items():
        there = [run for run in folders if (root / run / "metrics.jsonl").is_file()]
        for run in there:
            for part in OF_RUNS:
                _copied(root / run / part, out / RUNS / run / part, root)
        if there:
            yield name, there


def _copied(source: Path, target: Path, root: Path) -> bool:
    """Copy a text, with the folders of this machine taken out of it; False where there is none."""
    if not source.is_file():
        return False
    text = source.read_text(encoding="utf-8")
    for place, stands in ((root.resolve(), "OUT"), (Path.cwd(), "."), (Path.home(), "~")):
        if len(place.parts) > 1:
            text = text.replace(f"{place}{os.sep}", f"{stands}/")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, text)
    return True


def _minutes(file: Path) -> dict[str, float]:
    """Stage of a pipeline → how long it took; empty without a pipeline."""
    if not file.is_file():
        return {}
    told = json.loads(file.read_text(encoding="utf-8"))
    return {name: round(of["seconds"] / 60, 2) for name, of in told["stages"].items()}


def _manifest(folder: Path) -> dict[str, str]:
    """File → SHA-256; empty where there is none. Raises InputError for a damaged one."""
    try:
        files: dict[str, str] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError) as e:
        raise InputError(f"{folder / MANIFEST}: is damaged ({e}); remove it") from None
    return files


def _differing(told: Any, again: Any, where: str = "") -> Iterator[str]:
    """Where two trees of numbers differ."""
    if isinstance(told, dict) and isinstance(again, dict) and told.keys() == again.keys():
        for key in told:
            yield from _differing(told[key], again[key], f"{where}.{key}".lstrip("."))
    elif isinstance(told, list) and isinstance(again, list) and len(told) == len(again):
        for i, (one, other) in enumerate(zip(told, again, strict=True)):
            yield from _differing(one, other, f"{where}.{i}")
    elif told != again:
        yield where


def _json(what: Any) -> str:
    return json.dumps(what, indent=1, ensure_ascii=False) + "\n"
