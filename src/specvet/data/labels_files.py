"""Files of a set that is made bit by bit: a journal of what is done, copies of spectra, and texts written once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from specvet.records.files import write_atomic


def copy_spectrum(file: str, target: Path) -> None:
    """With the redrock catalogues beside it, without which a DESI spectrum has no redshift."""
    target.parent.mkdir(parents=True, exist_ok=True)
    name = os.path.basename(file)
    beside = [name]
    if name.startswith(("coadd", "spectra")):
        own = name.split("-", 1)[-1]
        others = sorted(os.listdir(os.path.dirname(file) or "."))
        beside += [n for n in others if ("redrock" in n or "zbest" in n) and n.split("-", 1)[-1] == own]
    for one in beside:
        source, copy = Path(os.path.dirname(file), one), target.with_name(one)
        if not copy.is_file() or (copy.stat().st_size, copy.stat().st_mtime_ns) != (
            source.stat().st_size,
            source.stat().st_mtime_ns,
        ):
            half = copy.with_name(f".specvet-{one}.tmp")
            shutil.copy2(source, half)
            os.replace(half, copy)


def relative(file: str, folder: Path) -> str:
    try:
        return os.path.relpath(os.path.realpath(file), os.path.realpath(folder))
    except ValueError:  # another drive
        return os.path.abspath(file)


def put(path: Path, text: str) -> None:
    """Write a file, unless it holds just that."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    write_atomic(path, text)


def read_journal(path: Path) -> dict[str, dict[str, Any]]:
    """By key, the last of each; a line that a kill cut short is as if it were not."""
    found: dict[str, dict[str, Any]] = {}
    try:
        data = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    if data and not data.endswith("\n"):
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n")
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            found[entry["key"]] = entry
    return found


def state_of(file: str) -> str:
    """Size and time of change; a file that has either changed is read again."""
    try:
        status = os.stat(file)
    except OSError:
        return "gone"
    return f"{status.st_size} {status.st_mtime_ns}"
