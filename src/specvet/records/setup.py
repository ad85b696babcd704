"""Taking a folder for a run: what it may hold, who works on it, and what a killed process has left."""

from __future__ import annotations

import os
from pathlib import Path

from specvet.records.errors import RunError, naming_a_full_disk
from specvet.records.files import TEMPORARY
from specvet.records.lock import FolderLock
from specvet.records.shards import shard_path
from specvet.records.shared import SharedLock


def check_folder(folder: Path) -> None:
    """Whether a run can be made in this folder, as far as can be seen without making it. Raises `RunError`."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: is a file; --out needs the name of a folder")
    near = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not near.is_dir():
        raise RunError(f"{folder}: a part of this path is a file; --out needs the name of a folder")
    if os.statvfs(near).f_flag & os.ST_RDONLY:
        raise RunError(f"{folder}: lies on a read-only file system; give another --out")
    if not os.access(near, os.W_OK | os.X_OK):
        raise RunError(f"{folder}: may not be written; give another --out")
    if folder.is_dir():
        _refuse_strangers(folder)


def claim_folder(folder: Path, shared: bool = False) -> FolderLock | SharedLock:
    """Make the folder where it is missing and lock it, together with others where it is `shared`.

    Raises `RunError` for one that is something else.
    """
    try:
        check_folder(folder)
        with naming_a_full_disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if any((folder / "trajectories").glob("part-*.parquet")) and not _has_content(folder / "run.db"):
                raise RunError(f"{folder}: holds trajectories but no run.db; put it back, or give another --out")
            return SharedLock(folder) if shared else FolderLock(folder)
    except PermissionError as e:
        raise RunError(f"{folder}: may not be written ({e.strerror}); give another --out") from e
    except (FileExistsError, NotADirectoryError) as e:
        raise RunError(f"{folder}: a part of this path is a file; --out needs the name of a folder") from e
    except OSError as e:
        if e.errno is not None and "read-only" in (e.strerror or "").lower():
            raise RunError(f"{folder}: lies on a read-only file system; give another --out") from e
        raise


def _has_content(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


def remove_leftovers(folder: Path, parts: set[int]) -> None:
    """Remove what a killed process left: temporary files, and shards that were never counted."""
    for stale in folder.glob(TEMPORARY):
        stale.unlink(missing_ok=True)
    trajectories = folder / "trajectories"
    for stale in trajectories.glob(TEMPORARY):
        stale.unlink(missing_ok=True)
    counted = {shard_path(trajectories, part) for part in parts}
    for shard in trajectories.glob("part-*.parquet"):
        if shard not in counted:
            shard.unlink(missing_ok=True)
    for stale in (folder / "tasks").glob(TEMPORARY):
        stale.unlink(missing_ok=True)
    for stale in (folder / "images").glob(f"??/{TEMPORARY}"):
        stale.unlink(missing_ok=True)


def _refuse_strangers(folder: Path) -> None:
    names = sorted(p.name for p in folder.iterdir())
    # The lock is the first thing a run writes: a folder with it was ours, however early it was left. Both are looked
    # for in one listing, since another process may be making the run just now.
    if names and not {"run.lock", "run.db"}.intersection(names):
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        raise RunError(f"{folder}: holds other files ({some}) and is no run; give an empty or a new folder as --out")
