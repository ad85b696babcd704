"""Folders that are made when they are first used: there whole or not at all, and made once."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RECEIPT = "made.json"


def made_once(folder: str | Path, settings: Mapping[str, Any], write: Callable[[Path], None]) -> Path:
    """The folder that `write` fills; it is filled in another place first, and renamed.

    A folder that was made with the same `settings` (JSON) is left as it is, also where another process was faster.
    Raises FileExistsError where the folder holds something else.
    """
    folder = Path(folder)
    receipt = json.dumps(settings, indent=1) + "\n"
    if not _is_made(folder, receipt):
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            building.chmod(0o755)
            write(building)
            (building / RECEIPT).write_text(receipt, encoding="utf-8")
            os.replace(building, folder)
        except OSError:
            if not (folder / RECEIPT).is_file() or not _is_made(folder, receipt):
                raise
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return folder


def _is_made(folder: Path, receipt: str) -> bool:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    made = folder / RECEIPT
    if made.is_file() and made.read_text(encoding="utf-8") == receipt:
        return True
    raise FileExistsError(f"{folder}: holds something else than what is to be made there; remove it or move it away")
