"""Textbook problems in bulk, SIMULATED: drawn, asked, solved with the tool; three splits that share no wording.

    FOLDER/physics.json                the settings
    FOLDER/train.jsonl                 one `Problem` a line, with its solution; written last
    FOLDER/val.jsonl, test.jsonl
    FOLDER/images/train-000012.png     the figures
    FOLDER/stats.json                  counts, rejected draws with their reasons, near-duplicates between splits

Problem i of a split follows from the seed, the split and i alone, in any slice and any process. Families take turns.
Each situation has four wordings: training sets have the first two, validation and test one of the others each, so that
no question of theirs is a near-duplicate of one in training, even where all numbers count as equal; that is measured,
and a problem of `val` or `test` that is one nevertheless is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from specvet.data.errors import InputError
from specvet.data.physics.families import FAMILIES, Degenerate, Draw
from specvet.data.physics.near import contaminated, words
from specvet.data.physics.rows import line
from specvet.data.physics.solving import SolvingTool, asked, check_extra, patient_tool, solution
from specvet.data.sliced import SLICES, STATS, Made, Progress, Slices, begin, make_set
from specvet.records import text_hash, write_atomic
from specvet.records.problems import Figure, Problem

VERSION = 1
"""Of the draws and wordings: another version is another set."""

SPLITS: Mapping[str, tuple[int, ...]] = {"train": (0, 1), "val": (2,), "test": (3,)}
"""Which wordings each split has."""

MOST = 1_000_000
SLICE = 50
ATTEMPTS = 400
"""Draws of one problem before the family is thought to be at fault."""

SETTINGS, TRAIN = "physics.json", "train.jsonl"


def problem(
    number: int, split: str, seed: int, tool: SolvingTool, families: Sequence[str] = tuple(FAMILIES)
) -> tuple[Problem, bytes | None, Counter[str]]:
    """Problem `number` of a split: with its figure's bytes, and why earlier draws were rejected.

    The problem names its figure `images/SPLIT-NUMBER.png`. `tool` must be fresh: it is one episode.
    """
    name = _family(number, split, seed, families)
    subject, family = FAMILIES[name]
    rejected: Counter[str] = Counter()
    for attempt in range(ATTEMPTS):
        draw = Draw(f"{VERSION}:{seed}:{split}:{name}:{number}:{attempt}")
        try:
            situation = family(draw)
            question = asked(situation, draw, SPLITS[split])
            segments = solution(question, tool)
        except Degenerate as e:
            rejected[str(e)] += 1
            continue
        label = f"{split}-{number:06d}"
        made = Problem(
            id=label,
            problem=question.text,
            images=(Figure(path=f"images/{label}.png"),) if situation.figure else (),
            gold=question.gold,
            source=f"generated:{name}",
            subject=subject,
            difficulty=question.difficulty,
            split=split,
            segments=segments,
        )
        return made, situation.figure, rejected
    raise RuntimeError(f"{name}: {ATTEMPTS} draws made no problem: {dict(rejected)}")


def _family(number: int, split: str, seed: int, families: Sequence[str]) -> str:
    """Families take turns, in another order each round, so that small sets and slices hold all subjects."""
    turn, place = divmod(number, len(families))
    return Draw(f"{VERSION}:{seed}:{split}:turn {turn}").some(families, len(families))[place]


def make_physics(
    folder: str | os.PathLike[str],
    n: int,
    *,
    val: int | None = None,
    test: int | None = None,
    seed: int = 0,
    families: Sequence[str] = tuple(FAMILIES),
    workers: int | None = None,
    progress: Progress = lambda doing, done, total: None,
    stop: threading.Event | None = None,
) -> Made:
    """Write `n` problems to learn from and `val` and `test` others (a tenth of `n` each if not given), or go on.

    Equal calls write equal bytes, whatever the number of workers; a script needs the usual `if __name__ ==
    "__main__":`. Raises InputError, RunLockedError, OSError.
    """
    sizes = {
        "train": n,
        "val": max(1, n // 10) if val is None else val,
        "test": max(1, n // 10) if test is None else test,
    }
    if n < 1 or min(sizes.values()) < 0 or sum(sizes.values()) > MOST:
        raise InputError(f"{sizes}: give at least 1 problem to learn from, and at most {MOST:,} in all")
    if unknown := [name for name in families if name not in FAMILIES]:
        raise InputError(f"there is no family {unknown[0]}; families are {', '.join(FAMILIES)}")
    if not families:
        raise InputError(f"name at least one family: {', '.join(FAMILIES)}")
    check_extra()
    place = Path(folder)
    wanted = {"simulated": True, "version": VERSION, "seed": seed, "families": list(families), "sizes": sizes}
    begin(place, SETTINGS, wanted, {}, "set of physics problems")
    slices = Slices(place, sum(sizes.values()), SLICE)
    return make_set(
        slices, TRAIN, "problems", (place / "images").mkdir if not (place / "images").is_dir() else _nothing,
        partial(_make_slice, slices, sizes, seed, tuple(families)), partial(_finish, tuple(sizes)),
        workers=workers, progress=progress, stop=stop,
    )  # fmt: skip


def _nothing() -> None:
    pass


def _make_slice(slices: Slices, sizes: Mapping[str, int], seed: int, families: Sequence[str], i: int) -> int:
    """Write the figures of a slice, then its rows, which says that it is done; returns `i`."""
    rows: list[str] = []
    rejected: Counter[str] = Counter()
    for number in slices.numbers(i):
        split, within = _place(number, sizes)
        made, figure, why = problem(within, split, seed, patient_tool(), families)
        rejected.update({f"{made.source.partition(':')[2]}: {reason}": count for reason, count in why.items()})
        if figure is not None:
            write_atomic(slices.folder / made.images[0].path, figure)
        rows.append(line(made))
    slices.keep(i, {"rows": rows, "rejected": dict(sorted(rejected.items()))})
    return i


def _place(number: int, sizes: Mapping[str, int]) -> tuple[str, int]:
    """Split and number within it."""
    for split, size in sizes.items():
        if number < size:
            return split, number
        number -= size
    raise AssertionError("beyond the last split")


def _finish(splits: Sequence[str], slices: Slices) -> dict[str, Any]:
    """One file a split, without rows that repeat another; training last."""
    told = slices.told()
    problems = [Problem.model_validate_json(row) for one in told for row in one["rows"]]
    by_split = {split: [p for p in problems if p.split == split] for split in splits}
    repeated: dict[str, int] = {}
    for split, rows in by_split.items():
        by_split[split] = _without_repeats(rows, slices.folder)
        repeated[split] = len(rows) - len(by_split[split])
    near = leave_out_near(by_split)
    for split in reversed(splits):
        if split != "train":
            write_atomic(slices.folder / f"{split}.jsonl", "".join(f"{line(p)}\n" for p in by_split[split]))
    named = {figure.path for rows in by_split.values() for p in rows for figure in p.images}
    for file in (slices.folder / "images").glob("*.png"):
        if f"images/{file.name}" not in named:
            file.unlink()
    train = "".join(f"{line(p)}\n" for p in by_split["train"])
    stats = _stats(by_split, told, repeated, near) | {"train_sha256": text_hash(train)}
    write_atomic(slices.folder / STATS, json.dumps(stats, indent=1, ensure_ascii=False) + "\n")
    write_atomic(slices.folder / TRAIN, train)
    shutil.rmtree(slices.folder / SLICES)
    return stats


def _without_repeats(rows: Iterable[Problem], folder: Path) -> list[Problem]:
    """The first of those that ask the same, to the word and to the pixel."""
    kept: dict[tuple[str, bytes], Problem] = {}
    for one in rows:
        figure = (folder / one.images[0].path).read_bytes() if one.images else b""
        kept.setdefault((one.problem, figure), one)
    return list(kept.values())


def leave_out_near(by_split: dict[str, list[Problem]]) -> dict[str, int]:
    """Take from `by_split` what is near a question of an earlier split, numbers being equal; returns how many of each.

    Only questions without their choices are compared, see `near.words`.
    """
    left_out: dict[str, int] = {}
    earlier: list[tuple[str, ...]] = []
    for split, rows in by_split.items():
        texts = [words(p, numbers=False) for p in rows]
        found = contaminated(texts, list(dict.fromkeys(earlier)))
        by_split[split] = [p for i, p in enumerate(rows) if i not in found]
        left_out[split] = len(found)
        earlier += [text for i, text in enumerate(texts) if i not in found]
    return left_out


def _stats(
    by_split: Mapping[str, Sequence[Problem]],
    told: Sequence[Mapping[str, Any]],
    repeated: Mapping[str, int],
    near: Mapping[str, int],
) -> dict[str, Any]:
    rejected: Counter[str] = Counter()
    for one in told:
        rejected.update(one["rejected"])
    everything = [p for rows in by_split.values() for p in rows]

    def counted(what: Iterable[str]) -> dict[str, int]:
        return dict(sorted(Counter(what).items()))

    return {
        "simulated": True,
        "problems": {split: len(rows) for split, rows in by_split.items()},
        "families": counted(p.source.partition(":")[2] for p in everything),
        "kinds": counted(p.gold.kind for p in everything),
        "difficulties": counted(p.difficulty for p in everything),
        "with_figure": sum(bool(p.images) for p in everything),
        "calls": sum(segment.kind == "tool" for p in everything for segment in p.segments),
        "rejected_draws": dict(sorted(rejected.items())),
        "repeated_left_out": dict(repeated),
        "near_other_split_left_out": dict(near),
    }
