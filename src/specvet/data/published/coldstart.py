"""The cold start, prepared: demonstrations to learn from and to validate on, cleaned and split by object.

    OUT/sft/sft_train.jsonl, sft_val.jsonl   demonstrations, see `specvet.data.demonstrations`
    OUT/sft/images/                          their pictures, as published
    OUT/sft/sft_cleaning.jsonl               every change to a text: id, message, offset, before, after, rule
    OUT/sft/sft_rejects.jsonl                rows that cannot be used, and why
    OUT/sft/sft_stats.json, sft_files.json   counts and settings; size and SHA-256 of each file

One tenth of the usable conversations (94 of 942) is kept for validation: whole objects, in the order of a hash of
(seed, object), in the shares of tasks and answers. See `specvet.data.splits`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from specvet.chat import ImageError
from specvet.data.demonstrations import Picture, problem_of
from specvet.data.errors import InputError
from specvet.data.mojibake import UNRESOLVED
from specvet.data.pictures import picture_bytes, picture_size
from specvet.data.published import objects as tables
from specvet.data.published.layout import COLDSTART, COLDSTART_USABLE, COLDSTART_VAL_SHARE, SHAREGPT
from specvet.data.published.naming import Ids
from specvet.data.published.outputs import Outputs, Prepared
from specvet.data.published.sharegpt import RowError, Trajectory, line_of, name_of, trajectory
from specvet.data.splits import Row, held_out, shares
from specvet.records.hashing import file_hash

VERSION = 1
"""Of the rules: another version prepares again."""

RULE = (
    f"{COLDSTART_VAL_SHARE:.0%} of the usable conversations, rounded, for validation; whole objects in the order of a "
    "hash of (seed, object), stratified by task and answer as far as objects allow"
)

Told = Callable[[int, int], None]
"""Hears (done, total)."""


def prepare_coldstart(
    source: str | Path,
    out: str | Path,
    *,
    objects: Mapping[str, str] | None = None,
    seed: int = 0,
    revision: str | None = None,
    dataset: str = COLDSTART,
    verify: bool = False,
    told: Told | None = None,
) -> Prepared:
    """Prepare the conversations of a local copy of the repository (`train_sharegpt.json`, `images/`) into `out`/sft.

    `objects` says which object each name shows; a name that it lacks is its own object. `revision` and `dataset` are
    noted. With `verify` a finished preparation is checked by hash, else by the size of its files. Raises InputError
    where the conversations are missing, cannot be read, or none can be used.
    """
    file = sharegpt_file(source)
    outputs = coldstart_outputs(out)
    settings = coldstart_settings(objects, seed, revision) | {SHAREGPT: file_hash(file), "dataset": dataset}
    if (stats := outputs.finished(settings, verify=verify)) is not None:
        return Prepared(stats, False)
    with outputs.begun():
        stats = _prepare(file, outputs, objects or {}, seed, settings, told)
    return Prepared(stats, True, tuple(outputs.repaired))


def coldstart_outputs(out: str | Path) -> Outputs:
    """Where they lie."""
    return Outputs(Path(out) / "sft", "sft_files.json", "sft_stats.json")


def coldstart_settings(objects: Mapping[str, str] | None, seed: int, revision: str | None) -> dict[str, Any]:
    """What a preparation depends on, besides its source."""
    return {"version": VERSION, "seed": seed, "objects": tables.fingerprint(objects), "revision": revision}


def sharegpt_file(source: str | Path) -> Path:
    """The conversations in a copy of the repository. Raises InputError where there are none, or several."""
    from specvet.data.published.tree import found_in

    found = [path for path in found_in(Path(source), COLDSTART) if path.name == SHAREGPT]
    if len(found) != 1:
        what = "there is no" if not found else f"there are {len(found)} files named"
        raise InputError(f"{source}: {what} {SHAREGPT}; give a copy of the data set {COLDSTART}")
    return found[0]


def coldstart_names(file: Path) -> set[str]:
    """The spectra of all published conversations, usable or not."""
    return {name for row in _rows(file) if (name := name_of(row))}


def _rows(file: Path) -> list[Any]:
    try:
        rows = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as e:
        if isinstance(e, json.JSONDecodeError) and e.msg == "Extra data" and e.doc.lstrip()[:1] == "{":
            raise InputError(f"{file}: has a row a line (JSON Lines); the published file is one JSON list") from None
        raise InputError(f"{file}: cannot be read ({e}); download it again") from None
    if not isinstance(rows, list):
        raise InputError(f"{file}: holds a {type(rows).__name__}, not a list of conversations")
    return rows


def _prepare(
    file: Path,
    outputs: Outputs,
    objects: Mapping[str, str],
    seed: int,
    settings: Mapping[str, Any],
    told: Told | None,
) -> dict[str, Any]:
    rows = _rows(file)
    used: list[Trajectory] = []
    rejects: list[dict[str, Any]] = []
    if not rows:
        raise InputError(f"{file}: holds no conversation (an empty list); get it again")
    for number, (id, row) in enumerate(zip(_ids(rows), rows, strict=True)):
        try:
            used.append(_usable(row, id, objects, file.parent, outputs))
        except RowError as e:
            reason, _, detail = str(e).partition(": ")
            rejects.append({"id": id, "name": name_of(row), "row": number, "reason": reason, "detail": detail})
        if told is not None:
            told(number + 1, len(rows))
    if not used:
        raise InputError(f"{file}: none of its {len(rows)} conversations can be used; the first: {rejects[0]}")
    wanted, val = _validation(used, seed)
    parts = {
        "train": [t for i, t in enumerate(used) if i not in val],
        "val": [t for i, t in enumerate(used) if i in val],
    }
    for part, trajectories in parts.items():
        outputs.put_lines(f"sft_{part}.jsonl", [t.demonstration.line() for t in trajectories])
    outputs.put_lines("sft_cleaning.jsonl", [line_of(t.demonstration.id, change) for t in used for change in t.changes])
    outputs.put_lines("sft_rejects.jsonl", [json.dumps(reject, ensure_ascii=False) for reject in rejects])
    stats = _stats(rows, used, rejects, parts, settings) | {
        "val_wanted": wanted,
        "val_missing": sum(wanted.values()) - len(val),
        "split": RULE,
        "settings": dict(settings),
    }
    outputs.finish(stats)
    return stats


def _ids(rows: list[Any]) -> Iterator[str]:
    """`0:spec-57391-…fits.gz`: the number and the name that the row was published with, each its own."""
    ids = Ids()
    for number, row in enumerate(rows):
        index = row.get("sample_index") if isinstance(row, Mapping) else None
        yield ids.unique(f"{number if index is None else index}:{name_of(row)}")


def _usable(row: Any, id: str, objects: Mapping[str, str], folder: Path, outputs: Outputs) -> Trajectory:
    """A row that can be learnt from, its pictures written. Raises RowError."""
    if not isinstance(row, Mapping):
        raise RowError("a row that is no object")
    name = name_of(row)
    try:
        made = trajectory(row, id, objects.get(name, name))
        if problem := problem_of(made.demonstration):
            raise RowError(f"no conversation that can be learnt: {problem}")
        f"{made.ground_truth}{made.demonstration.line()}".encode()
    except UnicodeEncodeError:
        raise RowError("half a character, which no file can keep") from None
    except RecursionError:
        raise RowError("JSON in it is nested too deeply") from None
    said = [part for message in made.demonstration.messages for part in message.content]
    paths = [part.path for part in said if isinstance(part, Picture)]
    for path in paths:
        try:
            picture_size(str(folder / path))
        except ImageError as e:
            raise RowError(f"a picture is missing or damaged: {str(e).replace(str(folder / path), path)}") from None
    for path in paths:
        outputs.put(path, picture_bytes(str(folder / path)))
    return made


def _validation(used: list[Trajectory], seed: int) -> tuple[dict[str, int], set[int]]:
    """How many of each task are wanted, and which rows are taken."""
    rows = [Row(str(t.demonstration.object_id), t.task, t.ground_truth) for t in used]
    tasks = dict(sorted(Counter(row.task for row in rows).items()))
    wanted = shares(tasks, round(len(rows) * COLDSTART_VAL_SHARE))
    return wanted, held_out(rows, wanted, seed)


def _stats(
    rows: list[Any],
    used: list[Trajectory],
    rejects: list[dict[str, Any]],
    parts: Mapping[str, list[Trajectory]],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    changes = [cleaned.change for t in used for cleaned in t.changes]
    sides = [{t.demonstration.object_id for t in part} for part in parts.values()]
    return {
        "set": "cold start",
        "dataset": settings["dataset"],
        "rows": len(rows),
        "usable": len(used),
        "usable_as_published": COLDSTART_USABLE,
        **{part: len(trajectories) for part, trajectories in parts.items()},
        "by_task": {part: _counted(t.task for t in trajectories) for part, trajectories in parts.items()},
        "by_answer": {part: _counted(t.ground_truth for t in trajectories) for part, trajectories in parts.items()},
        "objects": len(set().union(*sides)),
        "objects_on_both_sides": len(set.intersection(*sides)),
        "rejects": _counted(reject["reason"] for reject in rejects),
        "turns": sum(m.role == "assistant" for t in used for m in t.demonstration.messages),
        "calls": sum(len(m.calls) for t in used for m in t.demonstration.messages),
        "pictures": sum(len(t.demonstration.pictures) for t in used),
        "turns_kept_as_text": sum(t.kept_as_text for t in used),
        "answer_is_the_label": sum(t.answer == t.ground_truth for t in used),
        "without_an_answer": sum(not t.answer for t in used),
        "mojibake": {
            "repairs": sum(change.rule != UNRESOLVED for change in changes),
            "conversations_repaired": sum(any(c.change.rule != UNRESOLVED for c in t.changes) for t in used),
            "by_rule": _counted(change.rule for change in changes),
            "conversations_with_unresolved": sum(t.unresolved > 0 for t in used),
            "unresolved_places": sum(t.unresolved for t in used),
        },
    }


def _counted(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
