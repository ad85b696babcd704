"""A `Calibration`: what turns the features of a case into evidence, and what it was found on. A plain JSON file.

Evidence is the natural logarithm of a likelihood ratio, p(features | YES) / p(features | NO): the calibrated log-odds
less those of the prevalence in the calibration set. It is the same whatever share of a list are members, so that

    log-odds of YES = evidence + log-odds of the list's prevalence

gives the probability in any list whose members, and whose others, look like those of the calibration set (label shift;
Saerens, Latinne & Decaestecker 2002, Neural Computation 14, 21). Applying it needs numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from specvet.vetting.triage.cases import FEATURES, Case

Floats = npt.NDArray[np.float64]

VERSION = 1

DIGITS = 5
"""Behind the point, of what is kept of the calibration set."""


class TriageError(ValueError):
    """Something that triage cannot do as asked; the message says why and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Feature(_Part):
    """How a feature is scaled."""

    name: str
    mean: float
    scale: float = Field(gt=0)
    missing: bool
    """Whether some cases lacked it, so that lacking it has a weight of its own."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in FEATURES:
            raise ValueError(f"there is no feature {name!r}")
        return name


Spread = dict[Literal["YES", "NO"], tuple[float, ...]]
"""The 0, 5, 10, … 100 % points of a feature among members and others; empty where fewer than two had it."""


class Weights(_Part):
    """A logistic model: log-odds = intercept + weights · scaled features."""

    intercept: float
    weights: tuple[float, ...]
    """Of `Calibration.features`, in their order, then of lacking each that may be missing."""


class TaskCalibration(_Part):
    """What was found for one task."""

    model: Weights
    log_odds: tuple[float, ...] = ()
    """Knots of the monotone curve that the model's log-odds are mapped by, rising; empty: they stay."""
    mapped: tuple[float, ...] = ()
    """Calibrated log-odds at the knots."""
    prior: float = Field(gt=0, lt=1)
    """Share of members among the scored cases."""
    members: tuple[float, ...] = ()
    """Evidence of the members that the policy answered YES or NO, each by a model that had not seen its object; sorted.
    """
    others: tuple[float, ...] = ()
    """The same of the others."""
    spread: dict[str, Spread] = {}
    """Of each feature, by name."""
    surveys: dict[str, int] = {}
    """Cases by survey."""
    undecided: dict[Literal["YES", "NO"], int] = {}
    """Cases that the policy decided not, of members and others: they go to a person and are never lost."""

    @model_validator(mode="after")
    def _in_order(self) -> TaskCalibration:
        """Thresholds are read off by rank, so that a promise hangs on the order."""
        for name in ("members", "others", "log_odds", "mapped"):
            values = getattr(self, name)
            if any(a > b for a, b in pairwise(values)):
                raise ValueError(f"{name} are not in rising order")
        if len(self.log_odds) != len(self.mapped):
            raise ValueError("log_odds and mapped are not of one length")
        return self


class Calibration(_Part):
    """All that `specvet triage` needs of a labelled run."""

    schema_version: int = VERSION
    made: str
    """UTC, ISO 8601."""
    policy: str
    fingerprint: str = ""
    """Of the policy's weights or thresholds."""
    settings: dict[str, str | int | float | bool | None] = {}
    """What else can change a verdict of the run, by name."""
    simulated: int
    """Cases whose spectra are SIMULATED."""
    cases: int
    surveys: dict[str, int]
    features: tuple[Feature, ...]
    tasks: dict[str, TaskCalibration]
    pooled: Weights
    """For a task that was not calibrated; nothing is promised of it."""
    measured: dict[str, Any] = {}
    """Cross-fitted numbers: how well the probabilities fit and rank, raw and calibrated."""
    labels: dict[str, Any] = {}
    """Where the labels came from: file, its SHA-256, how many were used and left out."""
    versions: dict[str, str] = {}

    @model_validator(mode="after")
    def _fits(self) -> Calibration:
        if len({f.name for f in self.features}) != len(self.features):
            raise ValueError("a feature stands there twice")
        wanted = len(self.features) + sum(f.missing for f in self.features)
        for model in (self.pooled, *(task.model for task in self.tasks.values())):
            if len(model.weights) != wanted:
                raise ValueError(f"a model has {len(model.weights)} weights where {wanted} are wanted")
        return self

    def scaled(self, cases: Sequence[Case]) -> Floats:
        """Features as the models take them, (cases, weights)."""
        return scaled(self.features, features_of(cases))

    def evidence(self, cases: Sequence[Case]) -> Floats:
        """Evidence for YES of each case, (cases,); NaN of those that are not scored."""
        found = np.full(len(cases), np.nan)
        columns = self.scaled(cases)
        tasks = np.array([c.task for c in cases], dtype=object)
        scored = np.array([c.scored for c in cases], dtype=bool)
        for task in set(tasks[scored]):
            here = scored & (tasks == task)
            if task in self.tasks:
                found[here] = evidence_of(self.tasks[task], columns[here])
            else:
                every = self.tasks.values()
                prior = sum(t.prior for t in every) / len(every) if every else 0.5
                found[here] = log_odds_of(self.pooled, columns[here]) - _logit(prior)
        return found

    def write(self, path: Path) -> None:
        from specvet.records import write_atomic

        write_atomic(path, self.model_dump_json(indent=1) + "\n")


def read_calibration(path: Path) -> Calibration:
    """What `Calibration.write` wrote. Raises `TriageError`, `OSError`."""
    try:
        found = Calibration.model_validate_json(path.read_bytes())
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise TriageError(
            f"{path}: not a calibration that this specvet reads ({where}: {first['msg']}); make one with "
            "`specvet triage calibrate`"
        ) from None
    if found.schema_version != VERSION:
        raise TriageError(f"{path}: has layout {found.schema_version}, this specvet reads {VERSION}; make it again")
    return found


def features_of(cases: Sequence[Case]) -> Floats:
    """(cases, `FEATURES`), NaN where not known."""
    rows = [[c.features.get(name, math.nan) for name in FEATURES] for c in cases]
    return np.array(rows, dtype=np.float64).reshape(len(cases), len(FEATURES))


def scaled(features: Sequence[Feature], values: Floats) -> Floats:
    """Scaled by mean and deviation, 0 where missing, then a column for lacking each that may be missing."""
    columns, lacking = [], []
    for feature in features:
        x = values[:, FEATURES.index(feature.name)]
        gone = np.isnan(x)
        columns.append(np.where(gone, 0.0, (x - feature.mean) / feature.scale))
        if feature.missing:
            lacking.append(gone.astype(np.float64))
    every = [*columns, *lacking]
    return np.stack(every, axis=1) if every else np.zeros((len(values), 0))


def log_odds_of(model: Weights, columns: Floats) -> Floats:
    """The model's log-odds of YES, (cases,)."""
    return np.asarray(model.intercept + columns @ np.array(model.weights), dtype=np.float64)


def evidence_of(task: TaskCalibration, columns: Floats) -> Floats:
    """Evidence for YES, (cases,)."""
    return mapped(log_odds_of(task.model, columns), task.log_odds, task.mapped) - _logit(task.prior)


def mapped(log_odds: Floats, knots: Sequence[float], values: Sequence[float]) -> Floats:
    """Along the monotone curve; beyond its ends it goes on with slope 1, so that nothing that differs becomes equal."""
    if not knots:
        return log_odds
    inside = np.interp(log_odds, knots, values)
    beyond = np.minimum(log_odds - knots[0], 0.0) + np.maximum(log_odds - knots[-1], 0.0)
    return np.asarray(inside + beyond, dtype=np.float64)


def probability(evidence: Floats, prevalence: float) -> Floats:
    """Of YES at a prevalence (0-1), (cases,)."""
    if prevalence <= 0 or prevalence >= 1:
        return np.where(np.isnan(evidence), np.nan, float(prevalence >= 1))
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(evidence + _logit(prevalence), -700, 700))))


def _logit(p: float) -> float:
    return math.log(p / (1.0 - p))
