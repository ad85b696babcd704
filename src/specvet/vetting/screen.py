"""Screens: which NO of `line-indices` is so clear, for a class, that a model need not be asked about it.

A probability of YES does not tell them: rules that were set to decide call a white dwarf without hydrogen a NO as
surely as a G star. So a screen weighs the same evidence with weights of its own, together with the class that the NO
names as likelier,

    score = Σ weight of the index × its log-odds + weight of the likelier class,

by a logistic model of members and others that are NO, and leaves out what scores below a threshold of members: fewer
than 1 % of the members lie there, with 95 % confidence (Wilks 1941, as in `triage.bands`). Weights, thresholds, and
what they keep of members drawn anew, stand in `screens.json`; all were found with SIMULATED spectra of S/N from 5 on,
every kind of a class as common as any other, by `python benchmarks/prefilter.py --fit`. A screen holds for the very
evidence that it was made with: a task whose evidence is another has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specvet.records import text_hash
from specvet.records.schema import Verdict
from specvet.tasks import Rival, Task, builtin_rivals

FILE = Path(__file__).with_name("screens.json")


class Screen(BaseModel):
    """Of one class."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    task: str
    evidence: str
    """Hash of the evidence that it was made with, see `evidence_hash`."""
    weights: dict[str, float]
    """Of each index, by its name for people."""
    rivals: dict[str, float]
    """Of the class that a NO names as likelier, `` where it names none."""
    below: float
    """Score below which a NO is hopeless."""
    fitted: dict[str, int] = Field(default_factory=dict)
    """SIMULATED spectra that the weights were fitted to, and members that the threshold was read off."""

    def score(self, verdict: Verdict) -> float:
        """How far the evidence of a NO speaks for the class all the same; higher is likelier."""
        said = sum(self.weights.get(item.measurement.name, 0.0) * item.log_odds for item in verdict.evidence)
        return said + self.rivals.get(verdict.likelier_class or "", 0.0)


def evidence_hash(task: Task) -> str:
    """Of all that `line-indices` weighs for a task: its evidence, prior, rivals and indices of its own."""
    named = builtin_rivals()
    told = {
        "evidence": [e.model_dump(mode="json") for e in task.evidence],
        "prior": task.prior,
        "undecided": task.undecided,
        "undecidable": [u.model_dump(mode="json") for u in task.undecidable],
        "rivals": [(r if isinstance(r, Rival) else named[r]).model_dump(mode="json") for r in task.rivals],
        "indices": {key: d.model_dump(mode="json") for key, d in task.indices.items()},
    }
    return text_hash(json.dumps(told, sort_keys=True))


def screen_of(task: Task) -> Screen | None:
    """The screen of a task; None where there is none for its evidence."""
    found = screens().get(task.key)
    return found if found is not None and found.evidence == evidence_hash(task) else None


class _File(BaseModel):
    """`screens.json`."""

    model_config = ConfigDict(frozen=True)

    screens: tuple[Screen, ...]
    recalls: tuple[dict[str, Any], ...]


@cache
def _file() -> _File:
    try:
        return _File.model_validate_json(FILE.read_bytes())
    except (OSError, ValidationError) as e:
        raise ValueError(f"{FILE}: is missing or damaged ({str(e).splitlines()[0]}); install specvet again") from None


def screens() -> Mapping[str, Screen]:
    """Those of the package, by task. Raises ValueError where its file is damaged."""
    return {one.task: one for one in _file().screens}


def recalls() -> Sequence[Mapping[str, Any]]:
    """What they keep of SIMULATED members that they were not made with, as `specvet.vetting.prefilter` tells it."""
    return _file().recalls


def fingerprint() -> str:
    """Of all screens."""
    return text_hash(json.dumps([one.model_dump(mode="json") for one in screens().values()], sort_keys=True))
