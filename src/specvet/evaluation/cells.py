"""A cell: one policy, one set, one seed. A run folder while it is being made, sealed when its last question is decided.

    cells/sft--simvi-val--s42--1a2b3c4d/
      config.yaml receipt.json run.db …      the run (may be left out when results are published)
      rows.parquet                           every trajectory with its decision, in the order of the set
      cell.json                              what it is, and the SHA-256 of the files above and below
      metrics.json                           its numbers under the campaign's rule; metrics.lenient-1.json of another

The eight digits are of the cell's contract: all that can alter a row. Where one of it changes, another folder is begun
and the old one stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from specvet.evaluation.descriptors import Descriptor
from specvet.evaluation.outcomes import Outcome, outcome_of
from specvet.evaluation.plan import HARMLESS, Part, RunSettings, read_part
from specvet.evaluation.rows import ROWS, read_rows
from specvet.evaluation.rules import STRICT, rule
from specvet.evaluation.sets import QuestionSet, SetRecord
from specvet.records import Decision, text_hash
from specvet.tasks import Task
from specvet.tasks.load import task_from_bytes

CELL = "cell.json"
METRICS = "metrics.json"


class CellRecord(Part):
    """`cell.json`: written when a cell is sealed."""

    schema_version: int = 1
    policy: str
    """Slug of the descriptor."""
    set: str
    """Slug of the question set."""
    seed: int | None
    contract: str
    """SHA-256 of `contract_of`."""
    settings: RunSettings
    questions: int
    rows_sha256: str
    receipt_sha256: str
    """Of the run's `receipt.json`."""
    config_sha256: str
    """Of the run's `config.yaml`."""
    rule: str
    """That `metrics.json` was made with."""
    replicates: int
    """Of its bootstraps."""
    basis: str = ""
    """Hash of what `metrics.json` rests on besides the rows: rule, replicates, facts, what counts as unseen."""
    metrics_sha256: str
    machinery: int
    """Questions that ended through no doing of the policy (a server, a file); they count as wrong."""
    seen_in_training: int | None = None
    """Questions about spectra that the policy says it was trained on or stopped by, counted when it was asked; None
    where it does not tell. As stated: it cannot be counted again without the policy."""
    seconds: float
    """Of all sessions."""
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    """As the service stated it; None where nothing was stated, which is not 0."""
    usage: dict[str, float] = Field(default_factory=dict)
    sealed: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    """Of the session that sealed it."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    """A cell as it is meant to be."""

    policy: Descriptor
    set: SetRecord
    seed: int | None
    settings: RunSettings

    @property
    def contract(self) -> str:
        return contract_of(self.policy, self.set, self.seed, self.settings)

    @property
    def name(self) -> str:
        """Of its folder."""
        seed = "any-seed" if self.seed is None else f"s{self.seed}"
        return f"{self.policy.slug}--{self.set.slug}--{seed}--{self.contract[:8]}"


def contract_of(policy: Descriptor, asked: SetRecord, seed: int | None, settings: RunSettings) -> str:
    """SHA-256 of all that can alter a row: weights, questions, tasks, seed, settings. No path, address or machine."""
    told = {
        "policy": policy.fingerprint,
        "set": asked.fingerprint,
        "seed": seed,
        # Only what differs from the defaults, so that a setting that comes later leaves old cells what they are.
        "settings": settings.model_dump(exclude=set(HARMLESS), exclude_defaults=True),
    }
    return text_hash(json.dumps(told, sort_keys=True))


@dataclass(eq=False)
class Cell:
    """A sealed cell, read."""

    path: Path
    record: CellRecord
    policy: Descriptor = field(repr=False)
    set: QuestionSet = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def label(self) -> str:
        return self.policy.label

    def rows(self) -> Iterator[tuple[int, str, Decision]]:
        """(place in the set, question id, decision with its trajectory). Raises ValueError, OSError, KeyError."""
        return read_rows(self.path / ROWS)

    def outcomes(self, name: str = STRICT) -> list[Outcome]:
        """What counts of each row under a rule, in the order of the set. Raises as `rows`, and LedgerError."""
        chosen = rule(name)
        asked = self.set.questions
        return [outcome_of(asked[place].question, d, chosen, asked[place].facts) for place, _, d in self.rows()]

    @cached_property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks as they were asked, from the run folder."""
        files = sorted((self.path / "tasks").glob("*.yaml"))
        found = (_task(file.read_bytes(), file.name) for file in files)
        return {task.key: task for task in found}

    def metrics(self, name: str | None = None) -> dict[str, Any]:
        """The numbers under the campaign's rule, or under another that it was rescored with. Raises OSError."""
        found: dict[str, Any] = json.loads((self.path / metrics_file(name, self.record.rule)).read_text("utf-8"))
        return found


@lru_cache(maxsize=64)
def _task(raw: bytes, name: str) -> Task:
    """A task file, read once for all cells that asked it."""
    return task_from_bytes(raw, name)


def metrics_file(name: str | None, main: str) -> str:
    """`metrics.json`, or `metrics.lenient-1.json` for another rule than the campaign's."""
    return METRICS if name is None or name == main else f"metrics.{name.replace('/', '-')}.json"


def read_record(path: Path) -> CellRecord | None:
    """`cell.json` of a folder; None for a cell that is not sealed. Raises InputError, OSError."""
    file = path / CELL
    return read_part(CellRecord, file) if file.is_file() else None
