"""`verify`: a campaign's results, checked as a sceptic would: nothing is believed that can be made again.

    found = verify(open_campaign("results/baselines"))      # found.ok, found.checks

No model is asked. Hashes are held against files, rows against the set, every trajectory against itself, receipts
against rows, and all numbers are made again from raw trajectories; where the spectra are here (or come from a recipe),
every observation is made and every picture drawn again. All is held against what was recorded then: a difference that
another version of a library explains is told, and is no failure.

What cannot be found this way: a campaign that was made up as a whole, with ledgers, numbers and hashes that agree. The
SHA-256 of the manifest (`Verified.manifest`) stands for all of it: compare it with one that was published elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specvet.data.processes import cores, worker_pool
from specvet.evaluation.cells import Cell, read_record
from specvet.evaluation.descriptors import Descriptor, read_descriptor
from specvet.evaluation.folder import CELLS, MANIFEST, POLICIES, SETS, CampaignFolder
from specvet.evaluation.sets import QuestionSet, read_set
from specvet.evaluation.verify.checks import UNREADABLE, Check, State, tried
from specvet.evaluation.verify.files import check_coverage, check_descriptor, check_manifest, check_record, check_set
from specvet.evaluation.verify.inputs import Progress, Wanted, check_inputs
from specvet.evaluation.verify.numbers import check_numbers, check_summary
from specvet.evaluation.verify.receipts import check_receipt
from specvet.evaluation.verify.rows import check_rows, check_run
from specvet.evaluation.verify.turns import Vocabularies
from specvet.records import file_hash

__all__ = ["Check", "Progress", "State", "Verified", "Wanted", "check_cell", "verify"]

MANY = 1_000
"""Rows from which on other processes are worth their start."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and how it stood."""

    checks: tuple[Check, ...]
    manifest: str
    """SHA-256 of `manifest.json`, which holds those of all other files; empty where there is none."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed; what is not here or could not be checked is no failure."""
        return not self.of("failed")

    def of(self, state: State) -> list[Check]:
        return [check for check in self.checks if check.state == state]


def verify(
    folder: CampaignFolder,
    *,
    inputs: Wanted = "try",
    progress: Progress = lambda doing, done, total: None,
) -> Verified:
    """Check a campaign. Raises nothing for what is wrong with it: each damage is a failed check that says where.

    `inputs` `skip` leaves spectra and pictures out, `require` makes those that are not here a failure. Many questions
    are seen again in other processes, so a script needs the usual `if __name__ == "__main__":`.
    """
    manifest = folder.path / MANIFEST
    sha = file_hash(manifest) if manifest.is_file() else ""
    return Verified(tuple(_checks(folder, inputs, progress)), sha)


def _checks(folder: CampaignFolder, inputs: Wanted, progress: Progress) -> Iterator[Check]:
    path = folder.path
    yield from tried("manifest", MANIFEST, lambda: check_manifest(path))
    policies: dict[str, Descriptor] = {}
    sets: dict[str, QuestionSet] = {}
    cells: list[Cell] = []
    # Read one by one, so that what is damaged does not keep the rest from being checked.
    yield from _read(path, policies, sets, cells)
    broken = len(cells) < len(list((path / CELLS).glob("*--*/cell.json")))
    yield from tried("coverage", "", lambda: check_coverage(folder, cells))
    for slug, descriptor in policies.items():
        yield from tried("weights", f"policies/{slug}", lambda one=descriptor: check_descriptor(path, one))  # type: ignore[misc]
    for slug, asked in sets.items():
        yield from tried("questions kept", f"sets/{slug}", lambda one=asked: check_set(one))  # type: ignore[misc]
    of_cells = list(_cells(cells, progress))
    yield from of_cells
    unread = {check.where for check in of_cells if check.name == "rows" and check.detail.startswith(UNREADABLE)}
    if cells and not broken:
        yield from tried("summary", "metrics.json", lambda: check_summary(folder, _newest(cells)))
    for slug, asked in sets.items():
        meeting = [cell for cell in cells if cell.record.set == slug and cell.name not in unread]
        yield from tried(
            "inputs",
            f"sets/{slug}",
            lambda one=asked, meeting=meeting: check_inputs(folder, one, meeting, inputs, progress),  # type: ignore[misc]
        )


def _cells(cells: list[Cell], progress: Progress) -> Iterator[Check]:
    """The cells in their order; in other processes where there is much to read."""
    progress("cells", 0, len(cells))
    if len(cells) > 1 and cores() > 1 and sum(cell.record.questions for cell in cells) >= MANY:
        with worker_pool(min(cores(), len(cells))) as pool:
            for n, checks in enumerate(pool.map(check_at, [cell.path for cell in cells]), 1):
                yield from checks
                progress("cells", n, len(cells))
        return
    known = Vocabularies()
    for n, cell in enumerate(cells, 1):
        yield from check_cell(cell, known)
        progress("cells", n, len(cells))


def check_at(path: Path) -> list[Check]:
    """`check_cell` of the sealed cell in this folder of a campaign."""
    record, campaign = read_record(path), path.parent.parent
    assert record is not None
    policy, asked = read_descriptor(campaign / POLICIES, record.policy), _set(campaign / SETS, record.set)
    return list(check_cell(Cell(path, record, policy, asked)))


@lru_cache(maxsize=1)
def _set(folder: Path, slug: str) -> QuestionSet:
    """Cells of one set follow each other."""
    return read_set(folder, slug)


def check_cell(cell: Cell, known: Vocabularies | None = None) -> Iterator[Check]:
    """Everything about one sealed cell but its inputs; `known` are the tokens of the cells before it."""
    yield from tried("cell", cell.name, lambda: check_record(cell))

    def rows() -> Iterator[Check]:
        checks, summed = check_rows(cell, known or Vocabularies())
        yield from checks
        yield from tried("receipt", cell.name, lambda: check_receipt(cell, summed))

    yield from tried("rows", cell.name, rows)
    yield from tried("run", cell.name, lambda: check_run(cell))
    yield from tried("numbers", cell.name, lambda: check_numbers(cell))


def _read(
    path: Path, policies: dict[str, Descriptor], sets: dict[str, QuestionSet], cells: list[Cell]
) -> Iterator[Check]:
    """Read what there is into these, and tell of what cannot be."""

    def policy(slug: str) -> Iterator[Check]:
        policies[slug] = read_descriptor(path / POLICIES, slug)
        if policies[slug].slug != slug:
            yield Check("readable", f"policies/{slug}.json", "failed", f"describes {policies[slug].slug}")

    def question_set(slug: str) -> Iterator[Check]:
        sets[slug] = read_set(path / SETS, slug)
        if sets[slug].record.slug != slug:
            yield Check("readable", f"sets/{slug}.json", "failed", f"describes {sets[slug].record.slug}")

    def sealed(place: Path) -> Iterator[Check]:
        record = read_record(place)
        if record is not None and record.policy in policies and record.set in sets:
            cells.append(Cell(place, record, policies[record.policy], sets[record.set]))
        elif record is not None:
            missing = f"policies/{record.policy}" if record.policy not in policies else f"sets/{record.set}"
            yield Check("readable", f"cells/{place.name}", "failed", f"{missing}.json is not there or cannot be read")

    for file in sorted((path / POLICIES).glob("*.json")):
        yield from tried("readable", f"policies/{file.name}", lambda slug=file.stem: policy(slug))  # type: ignore[misc]
    for file in sorted((path / SETS).glob("*.json")):
        yield from tried("readable", f"sets/{file.name}", lambda slug=file.stem: question_set(slug))  # type: ignore[misc]
    for place in sorted((path / CELLS).glob("*--*")):
        yield from tried("readable", f"cells/{place.name}/cell.json", lambda place=place: sealed(place))  # type: ignore[misc]


def _newest(cells: list[Cell]) -> Mapping[str, str]:
    """The versions of whoever sealed the newest cell, and so wrote the summary."""
    return max(cells, key=lambda cell: cell.record.sealed).record.versions
