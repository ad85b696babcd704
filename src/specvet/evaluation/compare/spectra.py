"""The spectra of a campaign's questions, read again for their pictures, where they are here.

Rows name a spectrum's file relative to the question file of their set. That file may lie where the campaign file says,
seen from the campaign folder, from a folder above it or from here; a recipe's in the cache of sets; or somebody says
where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specvet.data.files import SelectionError, SpectrumFiles, row_of
from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import open_campaign
from specvet.evaluation.plan import Recipe
from specvet.evaluation.recipes import made_before
from specvet.records import Decision, ImageStore
from specvet.spectra import Spectrum
from specvet.vetting.transcript import Gallery

PARENTS = 4
"""How many folders above the campaign's a set is looked for in."""


@dataclass(frozen=True)
class CellPictures:
    """What a gallery wants to know of a cell: it may keep pictures, and says in which style they were drawn."""

    path: Path
    images: ImageStore
    config: Mapping[str, Any]

    @classmethod
    def of(cls, cell: Cell) -> CellPictures:
        settings = cell.record.settings
        return cls(cell.path, ImageStore(cell.path / "images"), {"style": settings.style, "size": settings.size})


@dataclass
class Spectra:
    """Reads (file, row) as rows name them. Files are kept while their neighbours are asked for."""

    folders: tuple[Path, ...]
    """Where the question file may lie."""
    _files: SpectrumFiles = field(default_factory=lambda: SpectrumFiles(kept=2))

    def __call__(self, file: str, row: int) -> Spectrum | None:
        """The spectrum; None where it is not here. Raises SpectrumReadError, OSError."""
        for folder in self.folders:
            place = folder / file
            if place.is_file():
                try:
                    return row_of(self._files.spectra(str(place)), str(place), row)
                except SelectionError:
                    continue
        return None


def spectra_of(cell: Cell, given: Iterable[Path] = ()) -> Spectra:
    """Those of a cell's set; `given` are folders to look in first. Nothing is made."""
    campaign = cell.path.resolve().parents[1]
    origin = cell.set.record.origin
    named = []
    if "path" in origin:
        plan = open_campaign(campaign).campaign.sets.get(cell.record.set)
        paths = dict.fromkeys(path for path in (plan.path if plan else None, origin["path"]) if path)
        bases = [campaign, Path(), *list(campaign.parents)[:PARENTS]]
        named = [base / Path(path).expanduser().parent for path in paths for base in bases]
    elif (made := made_before(Recipe.model_validate(origin["recipe"]))) is not None:
        named = [made.path.parent]
    return Spectra(tuple(dict.fromkeys([*given, *named])))


def gallery(cell: Cell, decision: Decision, spectra: Spectra) -> Gallery:
    """The pictures of one decision of a cell."""
    return Gallery(CellPictures.of(cell), decision, spectra)
