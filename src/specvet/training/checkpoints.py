"""Checkpoints: what a run goes on from, there in full or not at all.

    RUN/checkpoints/epoch-01/checkpoint.json        where it stands, and the SHA-256 of every other file
    RUN/checkpoints/epoch-01/epoch-01-state/…       weights and optimiser, to train on from
    RUN/checkpoints/epoch-01/epoch-01-sampler/…     weights to sample with: a LoRA folder or a model folder

A service keeps its weights itself; then `checkpoint.json` stands alone and holds their addresses (`trio://…`).

A checkpoint is written under a temporary name, forced to disk, and renamed into place at once, `checkpoint.json` being
its last file: a folder without it is none. Saving a name again replaces it. None is ever removed here: a run's user
knows best which are wanted, and may remove any folder but the newest.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from specvet.policies.remote import off_loop, resolve
from specvet.records import DiskFullError, file_hash, text_hash, write_atomic
from specvet.records.errors import naming_a_full_disk
from specvet.records.files import TEMPORARY, sync_folder
from specvet.training.config import GrpoConfig, TrainConfig
from specvet.training.order import Position
from specvet.training.trainer import Trainer

FOLDER = "checkpoints"
FILE = "checkpoint.json"

SCHEMES = ("trio://", "tinker://")
"""How the addresses of weights begin that a service keeps."""

_FULL_WORDS = ("no space left on device", "disk quota exceeded", "file too large")
_FULL_NUMBERS = tuple(f"os error {n}" for n in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_ROOM = 1 << 20
"""Bytes below which a disk counts as full: whoever fails to write then fails for that, whatever it says."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used; the message names the file and says what to do."""


class Checkpoint(BaseModel):
    """What `checkpoint.json` says, and where it lies."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    name: str
    """`epoch-01`, `step-000100`."""
    stage: str
    step: int = Field(ge=0)
    epoch: int = Field(ge=0)
    """Epochs that were done."""
    update: int = Field(ge=0)
    cursor: int = Field(ge=0)
    """Rows that were done of the epoch after those."""
    state: str
    """Name below the folder, as the trainer gave it, or an address."""
    sampler: str
    """The same, of the weights to sample with."""
    files: dict[str, str] = {}
    """SHA-256 by path below the folder."""
    trainer: dict[str, Any] = {}
    """Name, chat format and fingerprint of the trainer, and the config's `model` and `method`."""
    config_hash: str
    created: str
    """UTC, ISO 8601."""
    folder: Path = Field(exclude=True)

    @field_validator("state", "sampler")
    @classmethod
    def _is_below(cls, saved: str) -> str:
        if not saved.startswith(SCHEMES) and not re.fullmatch(r"(?!\.)[^/\\:\0]+", saved):
            raise ValueError(f"must be a name in the folder, or an address that begins with {' or '.join(SCHEMES)}")
        return saved

    @field_validator("trainer")
    @classmethod
    def _has_sections(cls, told: dict[str, Any]) -> dict[str, Any]:
        for section in ("model", "method"):
            if not isinstance(told.get(section, {}), dict):
                raise ValueError(f"{section} holds no settings")
        return told

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.cursor, self.step, self.update)

    def where(self, saved: str) -> str:
        """`state` or `sampler` as the rest of the program takes it: a path from here, or an address."""
        return saved if "://" in saved else str(self.folder / saved)


# --- writing


async def write_checkpoint(trainer: Trainer, run: Path, at: Position, config: TrainConfig) -> Checkpoint:
    """Save the trainer's weights as the run's checkpoint of this position, `at.name`.

    Raises DiskFullError, and what the trainer raises; then nothing of it is left, and every other checkpoint is as it
    was.
    """
    folder, name = run / FOLDER, at.name
    draft = folder / f".specvet-{secrets.token_hex(8)}.tmp"
    try:
        draft.mkdir(parents=True)
        with _naming_a_full_disk(folder / name):
            state = str(await resolve(trainer.save_state(name, draft)))
            sampler = str(await resolve(trainer.save_sampler(name, draft)))
            told = Checkpoint(
                name=name,
                stage=config.stage,
                step=at.step,
                epoch=at.epoch,
                update=at.update,
                cursor=at.cursor,
                state=state,
                sampler=sampler,
                files=await off_loop(lambda: _secured(draft)),
                trainer=about(trainer, config),
                config_hash=config_hash(config),
                created=datetime.now(UTC).isoformat(timespec="milliseconds"),
                folder=folder / name,
            )
            write_atomic(draft / FILE, told.model_dump_json(indent=2) + "\n")
            _put_in_place(draft, folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return told


def about(trainer: Trainer, config: TrainConfig) -> dict[str, Any]:
    """What a checkpoint says of the trainer that made it."""
    return {
        "name": trainer.name,
        "format": trainer.format.name,
        "fingerprint": trainer.fingerprint,
        "model": config.model.model_dump(mode="json"),
        "method": config.method.model_dump(mode="json"),
    }


def config_hash(config: TrainConfig) -> str:
    """SHA-256 of a run's settings."""
    return text_hash(config.model_dump_json())


def remove_drafts(run: Path) -> None:
    """Remove what a killed process left half-written."""
    for draft in (run / FOLDER).glob(TEMPORARY):
        shutil.rmtree(draft, ignore_errors=True)


def _secured(draft: Path) -> dict[str, str]:
    """Force all files to disk; their hashes by path."""
    files = sorted(path for path in draft.rglob("*") if path.is_file())
    hashes = {}
    for path in files:
        with path.open("rb") as f:
            os.fsync(f.fileno())
        hashes[path.relative_to(draft).as_posix()] = file_hash(path)
    for folder in draft.rglob("*"):
        if folder.is_dir():
            sync_folder(folder)
    return hashes


def _put_in_place(draft: Path, target: Path) -> None:
    old = draft.with_name(f".specvet-{secrets.token_hex(8)}.tmp")
    if target.exists():
        target.rename(old)
    draft.rename(target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _naming_a_full_disk(path: Path) -> Iterator[None]:
    """As `naming_a_full_disk`, also for libraries that say it in words of their own (safetensors, torch)."""
    try:
        with naming_a_full_disk(path):
            yield
    except DiskFullError:
        raise
    except Exception as e:
        if _says_full(e) or shutil.disk_usage(path.parent).free < _ROOM:
            raise DiskFullError(path) from e
        raise


def _says_full(error: BaseException | None) -> bool:
    while error is not None:
        said = str(error).lower()
        if any(words in said for words in (*_FULL_WORDS, *_FULL_NUMBERS)):
            return True
        error = error.__cause__ or error.__context__
    return False


# --- reading


def read_checkpoint(folder: str | os.PathLike[str], *, verify: bool = True) -> Checkpoint:
    """The checkpoint in a folder; with `verify`, every file is held against its hash. Raises CheckpointError."""
    place = Path(folder)
    file = place / FILE
    try:
        found = Checkpoint.model_validate({**json.loads(file.read_bytes()), "folder": place})
    except FileNotFoundError:
        raise CheckpointError(f"{place}: is no checkpoint, since it has no {FILE}; was its saving cut short?") from None
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise CheckpointError(f"{file}: is damaged ({field}: {said[:1].lower()}{said[1:]})") from None
    except (OSError, ValueError, TypeError) as e:
        raise CheckpointError(f"{file}: is damaged ({str(e).splitlines()[0]})") from None
    if verify:
        for name, sha in found.files.items():
            path = place / name
            if not path.is_file():
                raise CheckpointError(f"{path}: is missing")
            if file_hash(path) != sha:
                raise CheckpointError(f"{path}: is damaged; it is not what {FILE} says was saved")
    return found


def checkpoints(run: str | os.PathLike[str]) -> list[Checkpoint]:
    """All checkpoints of a run in the order of their steps, their files not looked at. Raises CheckpointError."""
    folders = [file.parent for file in (Path(run) / FOLDER).glob(f"[!.]*/{FILE}")]
    return sorted((read_checkpoint(f, verify=False) for f in folders), key=lambda c: (c.step, c.epoch))


def latest(run: str | os.PathLike[str]) -> Checkpoint | None:
    """The newest checkpoint of a run, verified; None before the first.

    Raises CheckpointError for a damaged one, which says what to remove and where the run then goes on from: to go back
    is for its user to decide.
    """
    found = checkpoints(run)
    if not found:
        return None
    *before, newest = found
    try:
        return read_checkpoint(newest.folder)
    except CheckpointError as e:
        back = f"from {before[-1].name}" if before else "from the beginning"
        raise CheckpointError(
            f"{e}. Put the file back; or remove the folder {newest.folder}, and the same command goes on {back}"
        ) from None


@dataclass(frozen=True, slots=True)
class Start:
    """Weights to begin from."""

    state: str
    """Path or address of what `Trainer.save_state` gave."""
    sampler: str | None = None
    """Of the same weights, to sample with; None where only an address is known."""
    checkpoint: Checkpoint | None = None
    """None where only an address is known."""

    @property
    def model(self) -> Mapping[str, Any]:
        """The `model` settings of the run that made it; empty where they are not known."""
        return self.checkpoint.trainer.get("model", {}) if self.checkpoint else {}

    @property
    def method(self) -> Mapping[str, Any]:
        """Its `method` settings."""
        return self.checkpoint.trainer.get("method", {}) if self.checkpoint else {}


def resolve_start(given: str) -> Start:
    """What `--from` names: a run (its newest checkpoint), a checkpoint, or the address of a state (`trio://…`).

    Raises CheckpointError.
    """
    if given.startswith(SCHEMES):
        return Start(given)
    if "://" in given:
        raise CheckpointError(f"{given}: is no address of saved weights; those begin with {' or '.join(SCHEMES)}")
    folder = Path(given)
    if (folder / FILE).is_file():
        found: Checkpoint | None = read_checkpoint(folder)
    elif (folder / "run.db").is_file():
        found = latest(folder)
    else:
        raise CheckpointError(f"{given}: is neither a training run nor a checkpoint nor a model; name one of those")
    if found is None:
        raise CheckpointError(f"{given}: has no checkpoint yet; let that run go on, or begin from another")
    return Start(found.where(found.state), found.where(found.sampler), found)


def made_model(folder: str | os.PathLike[str]) -> Path | None:
    """The model that a folder is, or that a run has made in its `model/`; None for anything else."""
    place = Path(folder)
    return next((model for model in (place, place / "model") if (model / "config.json").is_file()), None)


def weights_of(config: TrainConfig, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """What `TrainerOptions` is told of the weights to train: those of the run's newest checkpoint with their optimiser,
    else those of `--from`, else none; and of those to stay near, where a KL penalty wants to know. Raises
    CheckpointError.
    """
    loop = config.loop
    penalty = isinstance(loop, GrpoConfig) and loop.kl > 0
    first = resolve_start(config.start).state if config.start and (penalty or checkpoint is None) else None
    return {
        "state": checkpoint.where(checkpoint.state) if checkpoint else first,
        "with_optimizer": checkpoint is not None,
        "reference_state": first if penalty else None,
    }
