"""The models that are here: those in the package and those that were fetched; what each one is, file by file.

A model folder says what it is in `specvet.json`, its manifest: name, version, licence, how it is asked
(`specvet.policies.manner`), the receipts of how it was made, and the SHA-256 of every other file. The package's own
models lie in `policies/embedded/models`, fetched ones in the user's cache, each in a folder of its name.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from specvet.policies.manner import FILE, Manner, manner_of
from specvet.policies.tokens import PolicyError
from specvet.records import file_hash, text_hash, write_atomic

SCHEMA_VERSION = 1

CARD, PICTURE = "README.md", "failures.png"
"""The model card, where hubs look for it, and the picture in it."""

PACKAGED = Path(__file__).parent / "embedded" / "models"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}")


class ModelError(PolicyError):
    """A model that is not here, or a folder that is no model or not the one that its manifest names."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fatal=True)


class Manifest(BaseModel):
    """`specvet.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    name: str
    version: str
    licence: str
    """Of the weights, as SPDX has it."""
    manner: Manner | None = None
    """How it was trained to be asked; None for a model of others."""
    source: str | None = None
    """Where it was fetched from: hub id with its commit, address or folder."""
    receipts: tuple[dict[str, Any], ...] = ()
    """How it was made, stage by stage, as who made it tells it."""
    files: dict[str, str] = Field(default_factory=dict)
    """Every other file of the folder, with `/` between folders → SHA-256."""

    @field_validator("schema_version")
    @classmethod
    def _known(cls, value: int) -> int:
        if value != SCHEMA_VERSION:
            raise ValueError(f"is {value}, this specvet reads {SCHEMA_VERSION}")
        return value

    @field_validator("name", "version")
    @classmethod
    def _short(cls, value: str) -> str:
        if not is_model_name(value):
            raise ValueError(f"{value!r} is not up to 100 letters, digits, '.', '_', '+', '@' and '-'")
        return value

    @field_validator("licence", "source")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError(f"{value!r} is not one line of text")
        return value

    @field_validator("files")
    @classmethod
    def _inside(cls, value: dict[str, str]) -> dict[str, str]:
        for name, sha in value.items():
            path = PurePosixPath(name)
            outside = path.is_absolute() or {"..", "."} & set(path.parts) or str(path) != name
            if outside or re.search(r"[\\:]", name) or not name.isprintable():
                raise ValueError(f"{name!r} is no path inside the folder")
            if not re.fullmatch(r"[0-9a-f]{64}", sha):
                raise ValueError(f"{name}: {sha!r} is no SHA-256")
        return value

    @property
    def digest(self) -> str:
        """SHA-256 over names and hashes of all files but the card's, so that words about a model do not change it."""
        return files_digest(self.files)


def files_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over names and hashes (name → SHA-256) of a model's files but the card's."""
    return text_hash("\n".join(f"{name} {sha}" for name, sha in sorted(files.items()) if name not in (CARD, PICTURE)))


@dataclass(frozen=True, slots=True)
class Model:
    """One that is here."""

    manifest: Manifest
    folder: Path
    packaged: bool

    @property
    def name(self) -> str:
        """What it is called here: a fetched one as its folder, so that two of one name can be told apart."""
        return self.folder.name

    @property
    def size(self) -> int:
        """Bytes on disk, manifest included."""
        return sum((self.folder / name).stat().st_size for name in files_of(self.folder)) + _size(self.folder / FILE)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a folder holds, against its manifest."""

    sound: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    """There, but not in the manifest."""

    @property
    def ok(self) -> bool:
        return not (self.altered or self.missing or self.unlisted)


def write_model_manifest(
    folder: str | Path,
    *,
    name: str,
    version: str,
    licence: str,
    manner: Manner | None = None,
    receipts: Iterable[Mapping[str, Any]] = (),
    source: str | None = None,
) -> Manifest:
    """Hash every file of a model folder into its `specvet.json`; the last thing that is written there.

    A `specvet.json` that is there is replaced; without `manner` its manner stays. `receipts` are objects such as
    `{"stage": "sft", "file": "results/nano/sft/receipt.json", "sha256": "…"}`, kept as they are given. Raises
    ModelError for a folder without files and a name that cannot be one, PolicyError for a damaged `specvet.json`,
    OSError.
    """
    place = Path(folder)
    manner = manner or manner_of(place)
    hashes = {found: file_hash(place / found) for found in files_of(place)}
    if not hashes:
        raise ModelError(f"{folder}: holds no files, so it is no model folder")
    try:
        manifest = Manifest(
            name=name,
            version=version,
            licence=licence,
            manner=manner,
            source=source,
            receipts=tuple(dict(r) for r in receipts),
            files=hashes,
        )
    except ValidationError as e:
        raise ModelError(f"{folder}: {_first(e)}") from None
    text = json.dumps(manifest.model_dump(mode="json", exclude_none=True), indent=1, ensure_ascii=False)
    write_atomic(place / FILE, text + "\n")
    return manifest


def read_manifest(folder: str | Path) -> Manifest:
    """What a model folder says of itself. Raises ModelError."""
    file = Path(folder) / FILE
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except OSError as e:
        raise ModelError(f"{folder}: has no manifest ({FILE}: {e.strerror}), so there is nothing to hold it against; "
                         "give a folder that specvet released or fetched") from None  # fmt: skip
    except ValidationError as e:
        raise ModelError(f"{file}: {_first(e)}") from None


def verify_model(folder: str | Path, manifest: Manifest | None = None) -> Verification:
    """Read and hash every file of a model folder. Raises ModelError for one without a manifest, OSError."""
    place = Path(folder)
    wanted = (manifest or read_manifest(place)).files
    there = files_of(place)
    sound = [name for name in there if name in wanted and file_hash(place / name) == wanted[name]]
    return Verification(
        sound=tuple(sound),
        altered=tuple(name for name in there if name in wanted and name not in sound),
        missing=tuple(sorted(set(wanted) - set(there))),
        unlisted=tuple(sorted(set(there) - set(wanted))),
    )


def models(cache: Path | None = None) -> tuple[list[Model], dict[str, str]]:
    """The models that are here, packaged ones first; and folders that hold none, with the reason."""
    found: list[Model] = []
    refused: dict[str, str] = {}
    for root, packaged in ((PACKAGED, True), (cache or cache_folder(), False)):
        folders = sorted(p for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
        for folder in folders:
            if folder.name.startswith((".", "__")):
                continue
            try:
                found.append(Model(read_manifest(folder), folder, packaged))
            except ModelError as e:
                refused[str(folder)] = str(e)
    return found, refused


def find_model(name: str | Path, cache: Path | None = None) -> Path:
    """The folder of a model by its name here, or a folder as it stands. Raises ModelError, which lists what is here."""
    here, _ = models(cache)
    for model in here:
        if model.name == str(name):
            return model.folder
    if (folder := folder_named(name)) is not None:
        return folder
    known = ", ".join(model.name for model in here) or "none"
    raise ModelError(f"{name}: neither a model that is here ({known}) nor a folder; `specvet models fetch` gets others")


def folder_named(name: str | Path) -> Path | None:
    """The folder of that path, `~` resolved; None where there is none."""
    with suppress(OSError, RuntimeError):  # too long for a name, or `~` of nobody
        if (folder := Path(name).expanduser()).is_dir():
            return folder
    return None


def is_model_name(name: str) -> bool:
    """Up to 100 letters, digits, `.`, `_`, `+`, `@` and `-`, beginning with a letter or digit: safe as a folder's."""
    return _NAME.fullmatch(name) is not None


def cache_folder() -> Path:
    """`specvet/models` in the user's cache folder (XDG_CACHE_HOME, or `.cache` at home)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specvet" / "models"


def files_of(folder: Path) -> list[str]:
    """Files below a model folder, with `/`, sorted; neither the manifest nor hidden ones."""
    named = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return sorted(p.as_posix() for p in named if p.as_posix() != FILE and not any(x.startswith(".") for x in p.parts))


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _first(error: ValidationError) -> str:
    """The first mistake, with the field it is in."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"{field}: {first['msg'].removeprefix('Value error, ')}" if field else str(first["msg"])
