"""Rescoring: old trajectories under another rule, beside the numbers that are there. Nothing is made or asked again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specvet.data.errors import InputError
from specvet.evaluation.cells import metrics_file
from specvet.evaluation.folder import MANIFEST, SUMMARY, CampaignFolder, manifest_of
from specvet.evaluation.rules import rule
from specvet.evaluation.sealing import metrics_of, metrics_text
from specvet.evaluation.summary import summarise
from specvet.records import write_atomic


@dataclass(frozen=True, slots=True)
class Rescored:
    """The campaign's numbers under two rules: each as its `metrics.json` says."""

    before: dict[str, Any]
    after: dict[str, Any]
    files: tuple[str, ...]
    """That were written, below the campaign's folder."""


def rescore(
    folder: CampaignFolder, name: str, *, progress: Callable[[str, int, int], None] = lambda doing, done, total: None
) -> Rescored:
    """Score every sealed cell by the rule `name` (without a version: its newest), from its raw trajectories.

    Writes `metrics.RULE.json` of each cell and of the campaign, and the manifest; the numbers under the campaign's own
    rule stay as they are. Raises UnknownRuleError, InputError, OSError, ValueError.
    """
    chosen = rule(name).name
    if not (folder.path / MANIFEST).is_file():
        raise InputError(f"{folder.path}: no cell is complete yet, so there is nothing to rescore")
    if chosen == rule(folder.campaign.rule).name:
        raise InputError(f"{folder.path}: is scored by {chosen} already; its numbers stand in {SUMMARY}")
    current = json.loads((folder.path / MANIFEST).read_text(encoding="utf-8"))["current"]
    cells, written = folder.cells, []
    for n, cell in enumerate(cells):
        progress("cells rescored", n, len(cells))
        file = cell.path / metrics_file(chosen, cell.record.rule)
        if cell.record.rule != chosen:
            write_atomic(file, metrics_text(metrics_of(cell, chosen)))
            written.append(file.relative_to(folder.path).as_posix())
    progress("cells rescored", len(cells), len(cells))
    after = summarise(folder, chosen)
    file = folder.path / metrics_file(chosen, folder.campaign.rule)
    write_atomic(file, _json(after))
    written.append(file.name)
    write_atomic(folder.path / MANIFEST, _json(manifest_of(folder.path, current)))
    return Rescored(folder.summary(), after, tuple(written))


def _json(what: dict[str, Any]) -> str:
    return json.dumps(what, indent=1, ensure_ascii=False) + "\n"
