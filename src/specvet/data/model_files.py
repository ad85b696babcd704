"""Getting models into the user's cache, from a hub, an address or a folder; every file's hash is checked or recorded.

A model is gathered in `.partial-NAME` and renamed when it is whole, so that what is listed is complete; what an
interrupted call left there is gone on with. Only weights as safetensors, text and pictures are taken: pickles and
Python files run code when they are loaded.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx

from specvet.data.published.download import LISTING, PIN, downloaded, endpoint
from specvet.policies.catalogue import (
    CARD,
    Manifest,
    Model,
    ModelError,
    cache_folder,
    files_of,
    folder_named,
    is_model_name,
    read_manifest,
    verify_model,
    write_model_manifest,
)
from specvet.policies.manner import FILE
from specvet.records import file_hash
from specvet.records.errors import naming_a_full_disk
from specvet.records.lock import FolderLock

TAKEN = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.md", "*.png", "LICENSE*", "NOTICE*")
"""Patterns of the files that make a model folder."""

LOCK = "run.lock"
_LARGEST_MANIFEST = 1_000_000
_ELSEWHERE = "Without a network, copy the folder here by other means and give that: specvet models fetch FOLDER"

Told = Callable[[str, int, int], None]
"""Hears (what is being done, bytes or files done, of how many)."""


def fetch_model(
    source: str,
    *,
    revision: str | None = None,
    name: str | None = None,
    cache: Path | None = None,
    told: Told = lambda doing, done, total: None,
) -> Model:
    """Put a model into the cache, under `name` or its own, and return it.

    `source` is a folder, the address of a folder with a `specvet.json`, or a hub id (`owner/name`, at `revision`). A
    folder that has a manifest must agree with it; for others one is written. What is there already, with the same
    files, is left as it is. Raises ModelError and DownloadError, which say what to do; OSError for a cache that cannot
    be written; RunLockedError where another process is at it.
    """
    if name is not None and not is_model_name(name):
        raise ModelError(f"--name {name}: give letters, digits, '.', '_', '+', '@' and '-'")
    folder = folder_named(source)
    if revision and (folder is not None or "://" in source):
        raise ModelError(f"{source}: --revision is of a hub id; leave it out")
    here = cache or cache_folder()
    here.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(here)
    try:
        if "://" in source:
            partial = _from_address(source, here, told)
        elif folder is not None:
            partial = _from_folder(folder, here, told)
        elif re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", source):
            partial = _from_hub(source, revision, here, here / (name or _slug(source)), told)
        else:
            raise ModelError(f"{source}: neither a folder, nor an address (https://…), nor a hub id (owner/name)")
        return _kept(partial, here, name)
    finally:
        lock.release()


def _kept(partial: Path, here: Path, name: str | None) -> Model:
    """Rename what was gathered to what it is called here, unless the same is there."""
    manifest = read_manifest(partial)
    place = here / (name or manifest.name)
    if not place.exists():
        os.replace(partial, place)
    elif _same(place, manifest):
        shutil.rmtree(partial)
    else:
        raise ModelError(f"{place}: is another model, or damaged; give this one another --name, or remove that folder")
    return Model(read_manifest(place), place, packaged=False)


def _same(place: Path, manifest: Manifest) -> bool:
    try:
        return read_manifest(place).digest == manifest.digest and verify_model(place).ok
    except ModelError:
        return False


def _partial(here: Path, name: str) -> Path:
    partial = here / f".partial-{name}"
    partial.mkdir(exist_ok=True)
    return partial


# --- a folder


def _from_folder(folder: Path, here: Path, told: Told) -> Path:
    manifest = _told_by(folder)
    names = [name for name in files_of(folder) if _taken(name)] if manifest is None else list(manifest.files)
    _check_is_model(names, str(folder))
    called = _slug(folder.resolve().name) if manifest is None else manifest.name
    shutil.rmtree(here / f".partial-{called}", ignore_errors=True)
    partial = _partial(here, called)
    for done, name in enumerate([*names, *([FILE] if (folder / FILE).is_file() else [])]):
        told("copying", done, len(names))
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: the file {name!r} is missing, which its manifest names; copy the whole folder")
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        with naming_a_full_disk(partial / name):
            shutil.copyfile(folder / name, partial / name)
    if manifest is not None:
        _check(partial, manifest, str(folder))
    else:
        write_model_manifest(partial, name=called, version="unknown", licence=_licence(partial), source=str(folder))
    return partial


def _told_by(folder: Path) -> Manifest | None:
    """The manifest of a folder; None of one that has none, or says only how the model is asked. Raises ModelError."""
    if not (folder / FILE).is_file():
        return None
    if '"files"' not in (folder / FILE).read_text(encoding="utf-8", errors="replace"):
        return None
    return read_manifest(folder)


# --- an address


def _from_address(address: str, here: Path, told: Told) -> Path:
    base = address.removesuffix(FILE).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ModelError(f"{address}: only http:// and https:// addresses can be fetched")
    with httpx.Client(follow_redirects=True, timeout=60.0) as client:
        said = b"".join(_pieces(client, f"{base}/{FILE}", _LARGEST_MANIFEST))
        try:
            manifest = Manifest.model_validate_json(said)
        except ValueError as e:
            raise ModelError(f"{base}/{FILE}: is no manifest of a model ({str(e).splitlines()[0]})") from None
        _check_is_model(list(manifest.files), base)
        partial = _partial(here, manifest.name)
        for done, (name, sha) in enumerate(manifest.files.items()):
            told("fetching", done, len(manifest.files))
            _get(client, f"{base}/{name}", partial / name, sha)
    for left in {*files_of(partial)} - set(manifest.files):  # of an earlier call
        (partial / left).unlink()
    (partial / FILE).write_bytes(said)
    return partial


def _get(client: httpx.Client, address: str, target: Path, sha: str) -> None:
    """One file, unless it is there."""
    if target.is_file() and file_hash(target) == sha:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        for piece in _pieces(client, address):
            file.write(piece)
    if file_hash(target) != sha:
        target.unlink()
        raise ModelError(f"{address}: is not the file that the manifest names (its SHA-256 differs); try again later")


def _pieces(client: httpx.Client, address: str, at_most: int | None = None) -> Iterator[bytes]:
    """What an address gives, piece by piece. Raises ModelError."""
    got = 0
    try:
        with client.stream("GET", address) as answer:
            if answer.status_code != 200:
                raise ModelError(f"{address}: the server answers HTTP {answer.status_code}; is this a model's folder?")
            for piece in answer.iter_bytes():
                got += len(piece)
                if at_most is not None and got > at_most:
                    raise ModelError(f"{address}: has more than {at_most:,} bytes, so it is no manifest")
                yield piece
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise ModelError(f"{address}: cannot be had ({str(e) or type(e).__name__}). {_ELSEWHERE}") from e


# --- a hub


def _from_hub(hub_id: str, revision: str | None, here: Path, before: Path, told: Told) -> Path:
    """`before` is where an earlier call put it; what has stayed the same is not sent again."""
    partial = _partial(here, _slug(f"{hub_id}@{revision or ''}"))
    for name in files_of(before):
        if not (partial / name).exists():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # a file system without links: it is sent again
                os.link(before / name, partial / name)

    def tell(done: int, total: int) -> None:
        told("fetching", done, total)

    found = downloaded(hub_id, partial, _taken, revision=revision, verify=True, told=tell, kind="model")
    for name in (LISTING, PIN, LOCK):
        (partial / name).unlink(missing_ok=True)
    _check_is_model(files_of(partial), hub_id)
    manifest = _told_by(partial)
    if manifest is not None:
        _check(partial, manifest, hub_id)
    else:
        write_model_manifest(
            partial,
            name=_slug(hub_id),
            version=found[:12],
            licence=_licence(partial),
            source=f"{endpoint()}/{hub_id}/tree/{found}",
        )
    return partial


def _licence(folder: Path) -> str:
    """What a model card's first lines say."""
    card = folder / CARD
    said = re.search(r"^license:\s*(\S+)\s*$", card.read_text("utf-8", "replace"), re.M) if card.is_file() else None
    return said[1] if said else "unknown"


# --- all


def _check(partial: Path, manifest: Manifest, source: str) -> None:
    """Remove what the manifest does not name, and hold the rest against it. Raises ModelError."""
    found = verify_model(partial, manifest)
    for extra in found.unlisted:
        (partial / extra).unlink()
    if wrong := (*found.altered, *found.missing):
        raise ModelError(f"{source}: {wrong[0]} is not the file that {FILE} names; get the whole folder again")


def _check_is_model(names: list[str], source: str) -> None:
    if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
        raise ModelError(f"{source}: is no model folder: it needs config.json and *.safetensors")
    if odd := sorted(name for name in names if not _taken(name)):
        raise ModelError(f"{source}: names {odd[0]!r}; such files are not taken, since they may run code when loaded")


def _taken(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/")) and any(
        fnmatch.fnmatch(name.rpartition("/")[2], pattern) for pattern in TAKEN
    )


def _slug(text: str) -> str:
    """`Qwen/Qwen2.5-VL-3B` → `Qwen--Qwen2.5-VL-3B`."""
    return re.sub(r"[^A-Za-z0-9._+@-]", "-", text.replace("/", "--")).lstrip("._+@-") or "model"
