"""The campaign folder: what was asked of whom, and where the answers lie. It can be moved.

campaign.yaml      the campaign as resolved when it was last run
policies/*.json    model descriptors, immutable
sets/*.json, *.parquet      the questions
cells/…            see `specvet.evaluation.cells`
metrics.json       all cells side by side, means over seeds, paired differences
manifest.json      SHA-256 of every file above that a result rests on
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from specvet.data.errors import InputError
from specvet.evaluation.cells import Cell, read_record
from specvet.evaluation.descriptors import Descriptor, read_descriptor
from specvet.evaluation.plan import Campaign, parse_campaign
from specvet.evaluation.sets import QuestionSet, read_set
from specvet.records import file_hash

CAMPAIGN = "campaign.yaml"
SUMMARY = "metrics.json"
MANIFEST = "manifest.json"
POLICIES, SETS, CELLS = "policies", "sets", "cells"


@dataclass(eq=False)
class CampaignFolder:
    """A campaign on disk, read. Made by `open_campaign`."""

    path: Path
    campaign: Campaign

    @cached_property
    def policies(self) -> dict[str, Descriptor]:
        """Slug → descriptor, in the order of the campaign file; those of earlier versions of the file behind."""
        found = {p.stem: read_descriptor(self.path / POLICIES, p.stem) for p in (self.path / POLICIES).glob("*.json")}
        order = {slug: i for i, slug in enumerate(self.campaign.policies)}
        return dict(sorted(found.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))

    @cached_property
    def sets(self) -> dict[str, QuestionSet]:
        """Slug → set, likewise."""
        found = {p.stem: read_set(self.path / SETS, p.stem) for p in (self.path / SETS).glob("*.json")}
        order = {slug: i for i, slug in enumerate(self.campaign.sets)}
        return dict(sorted(found.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))

    @cached_property
    def cells(self) -> list[Cell]:
        """The sealed cells, by set, policy and seed. Raises OSError, ValueError for one that cannot be read."""
        found = []
        for folder in sorted((self.path / CELLS).glob("*--*")):
            record = read_record(folder)
            if record is not None:
                found.append(Cell(folder, record, self.policies[record.policy], self.sets[record.set]))
        sets, policies = list(self.sets), list(self.policies)
        return sorted(
            found,
            key=lambda c: (sets.index(c.record.set), policies.index(c.record.policy), c.record.seed or 0, c.name),
        )

    def current(self) -> list[Cell]:
        """Of the sealed cells those that the campaign file asks for as it stands now: one a policy, set and seed.

        Raises InputError where no cell has been sealed yet.
        """
        if not (self.path / MANIFEST).is_file():
            raise InputError(f"{self.path}: no cell of this campaign is finished; see specvet eval status {self.path}")
        wanted = set(json.loads((self.path / MANIFEST).read_text("utf-8"))["current"])
        return [cell for cell in self.cells if cell.name in wanted]

    def summary(self) -> dict[str, Any]:
        """`metrics.json`. Raises OSError where no cell has been sealed yet."""
        found: dict[str, Any] = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))
        return found


def open_campaign(path: str | Path) -> CampaignFolder:
    """A campaign folder to read. Raises InputError for one that is none."""
    folder = Path(path)
    file = folder / CAMPAIGN
    if not file.is_file():
        raise InputError(f"{folder}: is no campaign (it holds no {CAMPAIGN}); give the folder that eval run wrote")
    return CampaignFolder(folder, parse_campaign(file.read_text(encoding="utf-8"), str(file)))


def manifest_of(folder: Path, current: list[str]) -> dict[str, Any]:
    """What `manifest.json` says: the cells that count now, and the SHA-256 of every file that a result rests on."""
    files = [folder / CAMPAIGN, folder / SUMMARY]
    files += [p for part in (POLICIES, SETS) for p in (folder / part).glob("*") if p.suffix in (".json", ".parquet")]
    for cell in (folder / CELLS).glob("*--*"):
        if (cell / "cell.json").is_file():
            files += [p for p in cell.glob("*") if p.suffix in (".json", ".yaml", ".parquet")]
            files += (cell / "tasks").glob("*.yaml")
    hashes = {p.relative_to(folder).as_posix(): file_hash(p) for p in sorted(files) if p.is_file()}
    return {"schema_version": 1, "current": sorted(current), "files": hashes}
