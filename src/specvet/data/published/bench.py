"""The benchmark, prepared: questions to learn from, to develop with and to be measured by, with their spectra.

    OUT/rl/bench_rl_train.jsonl, bench_dev.jsonl, bench_test.jsonl, (bench_val.jsonl)   questions
    OUT/rl/spectra/NAME.npz                      wavelength (Å, vacuum), flux, redshift, id
    OUT/rl/images/                               the pictures, as published
    OUT/rl/bench_cleaning.jsonl, bench_rejects.jsonl
    OUT/rl/bench_stats.json, bench_files.json    counts, leaks and settings; size and SHA-256 of each file

256 questions of the published train set are for development (`layout.BENCH_DEV`), of other sizes the same share of
each task: whole objects, in the order of a hash of (seed, object), in the shares of the answers, none of them in the
cold start. Test and validation sets stay whole; what they share with train is counted and listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from specvet.data.errors import InputError
from specvet.data.jsonl import json_lines
from specvet.data.published import objects as tables
from specvet.data.published.bench_rows import Collected
from specvet.data.published.layout import BENCH, BENCH_DEV, BENCH_FILES, BENCH_TRAIN, DEV_SHARE, part_and_task
from specvet.data.published.outputs import Outputs, Prepared
from specvet.data.published.parquet import n_rows, published_rows
from specvet.data.published.tree import found_in
from specvet.data.splits import Row, held_out
from specvet.records import text_hash
from specvet.records.hashing import file_hash

VERSION = 1
"""Of the rules: another version prepares again."""

RULE = (
    "of train for development: as many of each task as published (256), or that share of other sizes; whole objects "
    "in the order of a hash of (seed, object), stratified by answer as far as objects allow, none in the cold start"
)
PARTS = ("train", "val", "test")

Told = Callable[[int, int], None]
"""Hears (done, total)."""


def prepare_bench(
    source: str | Path,
    out: str | Path,
    *,
    objects: Mapping[str, str] | None = None,
    coldstart: Collection[str] | None = None,
    ignore_coldstart: bool = False,
    seed: int = 0,
    revision: str | None = None,
    label_source: str = "published",
    dataset: str = BENCH,
    verify: bool = False,
    told: Told | None = None,
) -> Prepared:
    """Prepare the Parquet files of a local copy of the repository (`train_cc.parquet`, …) into `out`/rl.

    `coldstart` are the names of spectra that must not be in dev; None takes them from `out`/sft. Where there is none
    either, or with `ignore_coldstart`, dev may hold any, which the statistics say (`cold_start_spectra` null).
    `objects` says which object each name shows; a name that it lacks is its own. `dataset` is what the statistics call
    the set. With `verify` a finished preparation is checked by hash, else by the size of its files. Parts may be
    missing; the statistics name them. Raises InputError for files that are missing or damaged, and where no row of
    train can be used.
    """
    files = bench_files(source)
    seen = names_in_sft(out) if coldstart is None else frozenset(coldstart)
    if ignore_coldstart:
        seen = None
    outputs = bench_outputs(out)
    settings = bench_settings(objects, seen, seed, revision) | {"label_source": label_source, "dataset": dataset}
    settings["files"] = {path.name: file_hash(path) for path in files}
    if (stats := outputs.finished(settings, verify=verify)) is not None:
        return Prepared(stats, False)
    with outputs.begun():
        stats = _prepare(files, outputs, objects or {}, seen, seed, settings, told)
    return Prepared(stats, True, tuple(outputs.repaired))


def bench_outputs(out: str | Path) -> Outputs:
    """Where they lie."""
    return Outputs(Path(out) / "rl", "bench_files.json", "bench_stats.json")


def bench_settings(
    objects: Mapping[str, str] | None, coldstart: Collection[str] | None, seed: int, revision: str | None
) -> dict[str, Any]:
    """What a preparation depends on, besides its source."""
    return {
        "version": VERSION,
        "seed": seed,
        "objects": tables.fingerprint(objects),
        "revision": revision,
        "coldstart": None if coldstart is None else text_hash("\n".join(sorted(coldstart))),
    }


def bench_files(source: str | Path) -> list[Path]:
    """The Parquet files of a copy: train, val, test, by task. Raises InputError where there are none, or one twice."""
    found: dict[tuple[int, str], Path] = {}
    for path in found_in(Path(source), BENCH):
        named = part_and_task(path.name)
        if named is None:
            continue
        other = found.setdefault((PARTS.index(named[0]), named[1]), path)
        if other != path:
            raise InputError(f"{path}: {other} is the same part; give a folder that holds one copy of {BENCH}")
    if not any(part == 0 for part, _ in found):
        raise InputError(f"{source}: there is no train_cc.parquet or the like; give a copy of the data set {BENCH}")
    return [found[key] for key in sorted(found)]


def missing_parts(files: Collection[Path]) -> list[str]:
    """Which of the ten published files these are not: `train_cc.parquet`, …"""
    there = {part_and_task(path.name) for path in files}
    return [name for name in BENCH_FILES if part_and_task(name) not in there]


def check_whole(source: str | Path) -> None:
    """Raises InputError for a copy that lacks some of the published files, and names them."""
    if missing := missing_parts(bench_files(source)):
        raise InputError(
            f"{source}: this copy of {BENCH} is not whole, it lacks {', '.join(missing)}; get these too, or go on with "
            "the part that is there: --partial"
        )


def names_in_sft(out: str | Path) -> frozenset[str] | None:
    """The names of all conversations in `out`/sft, those of rejects included; None where none were prepared."""
    folder = Path(out) / "sft"
    if not (folder / "sft_stats.json").is_file():
        return None
    names: set[str] = set()
    for file in ("sft_train.jsonl", "sft_val.jsonl", "sft_rejects.jsonl"):
        if (folder / file).is_file():
            names |= {str(fields["name"]) for _, fields in json_lines(str(folder / file), file) if fields.get("name")}
    return frozenset(names)


def dev_targets(train: Mapping[str, int], seen: Mapping[str, int] | None = None) -> dict[str, int]:
    """Questions for development of each task, for so many usable ones in train; `seen` counts rejects, too."""
    if as_published(train if seen is None else seen):
        return dict(BENCH_DEV)
    return {task: round(n * DEV_SHARE) for task, n in sorted(train.items())}


def as_published(train: Mapping[str, int]) -> bool:
    """Whether train has the published number of rows of each task."""
    return dict(train) == dict(BENCH_TRAIN)


def _prepare(
    files: list[Path],
    outputs: Outputs,
    objects: Mapping[str, str],
    seen: Collection[str] | None,
    seed: int,
    settings: Mapping[str, Any],
    told: Told | None,
) -> dict[str, Any]:
    total = sum(n_rows(file) for file in files)
    rows = Collected(outputs, objects, settings["label_source"])
    done = 0
    for file in files:
        part, _ = part_and_task(file.name) or ("", "")
        for number, row in enumerate(published_rows(file)):
            rows.add(part, file.name, number, row)
            done += 1
            if told is not None:
                told(done, total)
    if not rows.questions["train"]:
        first = rows.rejects[0] if rows.rejects else "they hold no row"
        raise InputError(f"{files[0].parent}: none of the rows of train can be used; the first: {first}")
    rows.join_objects()
    train = rows.questions["train"]
    sizes = dict(sorted(Counter(q.task for q in train).items()))
    targets = dev_targets(sizes, rows.seen["train"])
    room = {task: min(n, sizes.get(task, 0)) for task, n in targets.items()}
    barred = rows.objects_of(seen or ())
    dev = held_out([Row(str(q.object_id), q.task, str(q.answer)) for q in train], room, seed, barred)
    parts = {
        "rl_train": [q for i, q in enumerate(train) if i not in dev],
        "dev": [q for i, q in enumerate(train) if i in dev],
        "val": rows.questions["val"],
        "test": rows.questions["test"],
    }
    for part, questions in parts.items():
        if questions or part in ("rl_train", "dev"):
            lines = [q.model_copy(update={"split": part}).model_dump_json(exclude_none=True) for q in questions]
            outputs.put_lines(f"bench_{part}.jsonl", lines)
    outputs.put_lines("bench_cleaning.jsonl", rows.cleaning)
    outputs.put_lines("bench_rejects.jsonl", [json.dumps(reject, ensure_ascii=False) for reject in rows.rejects])
    shared = {part: rows.shared(part, seen or ()) for part in ("val", "test") if parts[part]}
    stats = {
        "set": "benchmark",
        "dataset": settings["dataset"],
        "rows": total,
        **{part: len(questions) for part, questions in parts.items()},
        "by_task": {part: _counted(q.task for q in questions) for part, questions in parts.items()},
        "by_answer": {part: _counted(f"{q.task} {q.answer}" for q in questions) for part, questions in parts.items()},
        "missing_parts": missing_parts(files),
        "dev_rule": "published counts" if as_published(rows.seen["train"]) else "share of each task",
        "dev_wanted": targets,
        "dev_missing": sum(targets.values()) - len(dev),
        "cold_start_spectra": None if seen is None else len(seen),
        "dev_in_cold_start": rows.n_of(parts["dev"], seen or ()),
        "objects": len({q.object_id for questions in rows.questions.values() for q in questions}),
        "spectra": rows.n_spectra,
        "same_flux_under_several_names": rows.twins,
        "rejects": _counted(reject["reason"] for reject in rows.rejects),
        "without_redshift": rows.without_redshift,
        "mojibake": rows.mojibake,
        "shared_with_train": shared,
        "split": RULE,
        "settings": dict(settings),
    }
    outputs.finish(stats)
    return stats


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
