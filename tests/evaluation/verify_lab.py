"""A finished campaign about SIMULATED spectra, copied for each test, and the hands of whoever would change its results.

rehashed   the hashes in `cell.json` and the manifest are those of the changed files
remade     so are all numbers: whoever did it knows this code and has hidden what can be hidden
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from made import make_campaign

from specvet.evaluation.cells import CELL, Cell
from specvet.evaluation.folder import MANIFEST, SUMMARY, CampaignFolder, manifest_of, open_campaign
from specvet.evaluation.rows import ROWS, read_rows, write_rows
from specvet.evaluation.sealing import metrics_of, metrics_text
from specvet.evaluation.summary import summarise
from specvet.evaluation.verify import Check, Verified, check_cell, verify
from specvet.evaluation.verify.inputs import Wanted, check_inputs
from specvet.evaluation.verify.receipts import check_receipt
from specvet.evaluation.verify.rows import check_rows
from specvet.evaluation.verify.turns import Vocabularies
from specvet.records import Decision, file_hash

TEXT = """
name: small
policies:
  line-indices: {policy: line-indices, label: Line indices}
  gambler: {policy: torch, model: gambler, revision: "1", label: Gambler}
sets:
  examples: {path: questions.jsonl, facts: facts.csv}
seeds: [42, 43]
settings: {style: compact, concurrency: 8}
replicates: 20
"""

Row = tuple[int, str, Decision]


def made(folder: Path) -> Path:
    """Six questions, three cells; as published, without their run databases."""
    campaign = folder / "campaign"
    make_campaign(campaign, TEXT, 6)
    published(campaign)
    return campaign


def published(campaign: Path) -> None:
    """Leave out what is left out of published results."""
    for cell in (campaign / "cells").iterdir():
        for name in ("run.db", "run.lock"):
            (cell / name).unlink(missing_ok=True)
        for name in ("trajectories", "images"):
            shutil.rmtree(cell / name, ignore_errors=True)


def copied(campaign: Path, folder: Path) -> Path:
    """The campaign and its inputs, beside each other as before."""
    shutil.copytree(campaign.parent, folder / "copy")
    return folder / "copy" / campaign.name


def cell_of(campaign: Path, name: str) -> Path:
    """The folder of the cell whose name begins so."""
    return next((campaign / "cells").glob(f"{name}*"))


def read_cell(campaign: Path, name: str) -> Cell:
    return next(cell for cell in open_campaign(campaign).cells if cell.name.startswith(name))


def change_rows(campaign: Path, name: str, change: Callable[[list[Row]], list[Row] | None]) -> None:
    """Rewrite the rows of a cell as a list that `change` has changed in place, or as what it returns."""
    file = cell_of(campaign, name) / ROWS
    rows = list(read_rows(file))
    given = change(rows)
    write_rows(file, rows if given is None else given)


def change_record(campaign: Path, name: str, n: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the trajectory of row `n`, and its verdict with it, as JSON."""

    def changed(rows: list[Row]) -> None:
        place, id, decision = rows[n]
        fields = decision.model_dump(mode="json")
        change(fields["trajectory"])
        fields["verdict"] = fields["trajectory"]["verdict"]
        rows[n] = place, id, Decision.model_validate(fields)

    change_rows(campaign, name, changed)


def change_json(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    fields = json.loads(file.read_text(encoding="utf-8"))
    change(fields)
    file.write_text(json.dumps(fields, indent=1), encoding="utf-8")


def rehash(campaign: Path) -> None:
    """Make every recorded hash of a file that of the file as it is."""
    names = {"rows": ROWS, "receipt": "receipt.json", "config": "config.yaml", "metrics": "metrics.json"}
    for cell in (campaign / "cells").iterdir():
        change_json(
            cell / CELL,
            lambda fields, cell=cell: fields.update({f"{k}_sha256": file_hash(cell / f) for k, f in names.items()}),  # type: ignore[misc]
        )
    current = json.loads((campaign / MANIFEST).read_text(encoding="utf-8"))["current"]
    (campaign / MANIFEST).write_text(json.dumps(manifest_of(campaign, current)), encoding="utf-8")


def remake(campaign: Path, name: str = "") -> None:
    """Make the numbers of a cell (by default of all, and the campaign's) anew from the rows as they are, then every
    hash."""
    for cell in open_campaign(campaign).cells:
        if not cell.name.startswith(name):
            continue
        numbers = metrics_of(cell)
        (cell.path / "metrics.json").write_text(metrics_text(numbers), encoding="utf-8")
        change_json(cell.path / CELL, lambda fields, n=numbers["machinery"]: fields.update(machinery=n))  # type: ignore[misc]
    if not name:
        numbers = summarise(open_campaign(campaign))
        (campaign / SUMMARY).write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    rehash(campaign)


def failed(campaign: Path | CampaignFolder, inputs: str = "skip") -> list[Check]:
    """What fails."""
    return verified(campaign, inputs).of("failed")


def wrong_in(campaign: Path, name: str) -> list[Check]:
    """What fails of one cell, its inputs left out."""
    return [check for check in check_cell(read_cell(campaign, name)) if check.state == "failed"]


def wrong_rows(campaign: Path, name: str) -> list[Check]:
    """What fails of a cell's rows and receipt, whatever hashes and numbers say."""
    cell = read_cell(campaign, name)
    checks, summed = check_rows(cell, Vocabularies())
    return [check for check in (*checks, *check_receipt(cell, summed)) if check.state == "failed"]


def inputs_of(campaign: Path, wanted: Wanted = "try", name: str = "") -> list[Check]:
    """All that is said of the set's inputs, and of what the cells (whose names begin so) saw of them."""
    folder = open_campaign(campaign)
    cells = [cell for cell in folder.cells if cell.name.startswith(name)]
    return list(check_inputs(folder, folder.sets["examples"], cells, wanted, lambda doing, done, total: None))


def verified(campaign: Path | CampaignFolder, inputs: str = "skip") -> Verified:
    folder = open_campaign(campaign) if isinstance(campaign, Path) else campaign
    return verify(folder, inputs=inputs)  # type: ignore[arg-type]


def told(checks: list[Check]) -> str:
    return "\n".join(f"{check.name} | {check.where} | {check.detail}" for check in checks)
