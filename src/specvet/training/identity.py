"""What a run was made of, by what it holds and not by where it lies: its data, and the weights it began from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specvet.data.errors import InputError
from specvet.records import file_hash, text_hash
from specvet.training.checkpoints import FILE, FOLDER, SCHEMES, CheckpointError, resolve_start

if TYPE_CHECKING:
    from specvet.data.asking import Questions
    from specvet.data.demonstrations import SftRow

NONE = "none"
"""Of held-out data, or of a start, that a run has not."""


def of_demonstrations(rows: Sequence[SftRow]) -> str:
    """SHA-256 of what is learnt: each row's id, tools and messages, and the bytes of its pictures. Raises InputError
    for a picture that is gone."""
    return text_hash("\n".join(row.content() for row in rows)) if rows else NONE


def of_questions(questions: Questions | None) -> str:
    """SHA-256 of the questions and of the bytes of their spectrum files. Raises InputError for a file that is gone."""
    if questions is None:
        return NONE
    try:
        files = {file: file_hash(Path(file)) for file in {one.file for one in questions.asked}}
    except OSError as e:
        raise InputError(f"{e.filename}: cannot be read: {e.strerror}") from e
    lines = [json.dumps([one.question.model_dump(mode="json"), files[one.file]]) for one in questions.asked]
    return text_hash("\n".join(lines))


def of_start(start: str | None) -> str:
    """The address of a state, or the SHA-256 of a checkpoint's description, which holds those of all its files.

    Raises CheckpointError.
    """
    if start is None:
        return NONE
    if start.startswith(SCHEMES):
        return start
    found = resolve_start(start).checkpoint
    assert found is not None
    return file_hash(found.folder / FILE)


def start_of_run(given: str, stored: str | None) -> str | None:
    """The checkpoint that a run began from, where `given` names it again: that folder, or the run that it belongs to,
    which may have gained others since, or be gone. Else None."""
    if stored is None or given.startswith(SCHEMES):
        return None
    place, then = Path(given).absolute(), Path(stored).absolute()
    return stored if place == then or (then.parent.name == FOLDER and place == then.parents[1]) else None


def same_start(given: str | None, stored: str | None, identity: str) -> str:
    """The identity of `given`; where its folder is gone and the run was made with that very folder, the `identity` that
    the run has kept. Raises CheckpointError."""
    try:
        return of_start(given)
    except CheckpointError:
        if given is not None and not Path(given).exists() and start_of_run(given, stored):
            return identity
        raise
