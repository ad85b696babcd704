"""A campaign's results as a small folder: every file that a number rests on, and nothing else.

Left out are run databases, pictures and checkpoints; what is copied verifies where the spectra are not.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from specvet.data.errors import InputError
from specvet.evaluation.folder import CELLS, MANIFEST, open_campaign
from specvet.evaluation.rows import ROWS, read_rows
from specvet.evaluation.sets import read_set
from specvet.records import file_hash


def publish(folder: Path, out: Path) -> int:
    """Copy the results of a campaign to `out`, a new folder; returns their bytes.

    Only the cells that the campaign asks for now are copied. Raises InputError for a campaign without results, for one
    whose files are no longer those of its manifest, where `out` holds something, and where a text names a folder of
    this machine.
    """
    open_campaign(folder)
    if not (folder / MANIFEST).is_file():
        raise InputError(f"{folder}: no cell is complete yet, so there are no results to publish")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: holds something already; give a new folder")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    current = set(manifest["current"])
    files = {
        name: sha
        for name, sha in manifest["files"].items()
        if not name.startswith(f"{CELLS}/") or name.split("/")[1] in current
    }
    for name, sha in files.items():
        if not (folder / name).is_file() or file_hash(folder / name) != sha:
            raise InputError(f"{folder / name}: is not the file that the manifest names; see specvet eval verify")
        _check_private(folder / name)
    out.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        building.chmod(0o755)
        for name in files:
            (building / name).parent.mkdir(parents=True, exist_ok=True)
            (building / name).write_bytes((folder / name).read_bytes())
        text = json.dumps(manifest | {"files": files}, indent=1, ensure_ascii=False) + "\n"
        (building / MANIFEST).write_text(text, encoding="utf-8")
        size = sum(file.stat().st_size for file in building.rglob("*") if file.is_file())
        os.replace(building, out)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return size


def _check_private(file: Path) -> None:
    """Whether a file names a folder of this machine: its user's, or the one that one works in."""
    private = [place for place in {str(Path.home()), os.getcwd(), tempfile.gettempdir()} if len(place) > 1]
    for text in _texts(file):
        if found := next((place for place in private if f"{place}{os.sep}" in text), None):
            raise InputError(
                f"{file}: names the folder {found}, which is nobody else's business; run the campaign with relative "
                "paths (they start at the campaign file), or from a recipe"
            )


def _texts(file: Path) -> Iterator[str]:
    if file.name == ROWS:
        yield from (decision.model_dump_json() for _, _, decision in read_rows(file))
    elif file.suffix == ".parquet":
        yield from (q.question.model_dump_json() for q in read_set(file.parent, file.stem).questions)
    elif file.suffix in (".json", ".yaml"):
        yield file.read_text(encoding="utf-8")
