"""Boosted trees as plain arrays: predicted with numpy, saved without pickles.

They say what scikit-learn's `HistGradientBoostingClassifier` said that they were taken from, to the last bit of the
log-odds: the same comparisons, and the same order of addition.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from specvet.policies.specialists.card import SpecialistError

_DTYPES: Mapping[str, Any] = {
    "baseline": np.float64,
    "roots": np.int32,
    "feature": np.int16,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
}


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of one task, node after node; a leaf is its own child. Node arrays have shape (n_nodes,)."""

    baseline: NDArray[np.float64]
    """Log-odds before any tree, shape ()."""
    roots: NDArray[np.int32]
    """First node of each tree, shape (n_trees,)."""
    feature: NDArray[np.int16]
    threshold: NDArray[np.float64]
    """What is at most this goes left."""
    missing_left: NDArray[np.bool_]
    """Whether NaN goes left."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    """Log-odds that a leaf adds."""

    @property
    def constant(self) -> bool:
        """Whether no tree splits, so that it says the same of everything."""
        return bool((self.left == np.arange(self.left.size)).all())

    def log_odds(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of YES, shape (n,), for features of shape (n, n_features) that may hold NaN."""
        rows = np.arange(len(x))[:, None]
        at = np.broadcast_to(self.roots, (len(x), self.roots.size))
        while True:
            of = x[rows, self.feature[at]]
            goes_left = np.where(np.isnan(of), self.missing_left[at], of <= self.threshold[at])
            down = np.where(goes_left, self.left[at], self.right[at])
            if np.array_equal(down, at):
                break
            at = down
        parts = np.concatenate([np.full((len(x), 1), self.baseline), self.value[at]], axis=1)
        total: NDArray[np.float64] = np.add.accumulate(parts, axis=1)[:, -1]  # one after the other, as scikit-learn
        return total


def forests_bytes(forests: Mapping[str, Forest]) -> bytes:
    """An `.npz` of the forests by task; the same forests give the same bytes."""
    arrays = {f"{task}.{name}": getattr(forest, name) for task, forest in forests.items() for name in _DTYPES}
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def read_forests(file: Path, tasks: Mapping[str, Any], n_features: int) -> dict[str, Forest]:
    """The forest of each task. Raises SpecialistError for a file that holds others or cannot be followed."""
    try:
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
            found = {task: Forest(**{f.name: arrays[f"{task}.{f.name}"] for f in fields(Forest)}) for task in tasks}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error) as e:
        raise SpecialistError(f"{file}: cannot be read as trees ({e})") from None
    for task, forest in found.items():
        if problem := _problem(forest, n_features):
            raise SpecialistError(f"{file}: the trees of {task} cannot be followed: {problem}")
    return found


def _problem(forest: Forest, n_features: int) -> str:
    """Why a forest could not be walked through; empty where it can. A child further on cannot lead in circles."""
    for name, dtype in _DTYPES.items():
        if getattr(forest, name).dtype != dtype:
            return f"{name} is of type {getattr(forest, name).dtype}"
    n = forest.value.size
    if forest.baseline.shape != () or not (np.isfinite(forest.baseline) and np.isfinite(forest.value).all()):
        return "log-odds that are no finite numbers"
    nodes = np.arange(n)
    if any(getattr(forest, name).shape != (n,) for name in _DTYPES if name not in ("baseline", "roots")):
        return "its arrays differ in length"
    leaf = (forest.left == nodes) & (forest.right == nodes)
    for child in (forest.left, forest.right):
        if not ((child < n) & (leaf | (child > nodes))).all():
            return "a child that lies before its parent"
    if forest.roots.ndim != 1 or ((forest.roots < 0) | (forest.roots >= n)).any():
        return "a root that is no node"
    if ((forest.feature < 0) | (forest.feature >= n_features)).any():
        return "an index that there is not"
    return ""
