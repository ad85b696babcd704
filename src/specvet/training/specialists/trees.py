"""Boosted trees on line indices: one model a task, all with as many trees as fit the validation questions best."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.policies.specialists.forest import Forest
from specvet.training.specialists.calibrating import log_loss
from specvet.training.specialists.examples import Examples


@dataclass(frozen=True, slots=True)
class TreesConfig:
    """Settings of scikit-learn's `HistGradientBoostingClassifier`, which four-fold cross-validation by object on the
    training questions of SimVI (simulated) preferred by a little to twice as large or many-leaved trees."""

    learning_rate: float = 0.05
    max_iter: int = 400
    max_leaf_nodes: int = 7
    min_samples_leaf: int = 15
    l2_regularization: float = 1.0
    max_features: float = 0.15


def fit_trees(
    training: Examples, validation: Examples, seed: int, config: TreesConfig | None = None
) -> tuple[dict[str, Forest], list[float]]:
    """A forest for each task, and the validation loss after each number of trees. Raises ModuleNotFoundError.

    The number of trees is one for all tasks, where the loss over all validation questions is least: those of a single
    task would be too few to choose by.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings = asdict(config or TreesConfig())
    models: dict[str, Any] = {}
    staged = np.empty((settings["max_iter"], len(validation)))
    for key in training.tasks:
        mine, held = training.of(key), validation.of(key)
        model = HistGradientBoostingClassifier(**settings, early_stopping=False, random_state=seed)
        models[key] = model.fit(_splittable(training.x[mine]), training.yes[mine])
        if held.any():
            for n, log_odds in enumerate(model.staged_decision_function(validation.x[held])):
                staged[n, held] = log_odds
    losses = [log_loss(log_odds, validation.yes) for log_odds in staged]
    best = int(np.argmin(losses)) + 1
    return {key: forest_of(model, best) for key, model in models.items()}, losses


def _splittable(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same features, but 0 where one was never measurable: scikit-learn cannot bin such, and no tree can split."""
    return np.where(np.isfinite(x).any(axis=0), x, 0.0)


def forest_of(model: Any, n_trees: int | None = None) -> Forest:
    """The first trees (all, where no number is given) of a fitted binary `HistGradientBoostingClassifier`."""
    # scikit-learn exports no trees: these are its own arrays, and a test holds the forest to its predictions.
    trees = [of_class.nodes for (of_class,) in model._predictors[:n_trees]]
    starts = np.cumsum([0, *(len(nodes) for nodes in trees)])
    nodes: NDArray[Any] = np.concatenate(trees)
    own, start = np.arange(len(nodes)), np.repeat(starts[:-1], [len(tree) for tree in trees])
    leaf = nodes["is_leaf"].astype(bool)
    if nodes["is_categorical"].any():
        raise ValueError("trees with categories cannot be exported")
    return Forest(
        baseline=np.array(float(np.ravel(model._baseline_prediction)[0])),
        roots=starts[:-1].astype(np.int32),
        feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int16),
        threshold=np.where(leaf, math.inf, nodes["num_threshold"]).astype(np.float64),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        left=np.where(leaf, own, nodes["left"] + start).astype(np.int32),
        right=np.where(leaf, own, nodes["right"] + start).astype(np.int32),
        value=np.where(leaf, nodes["value"], 0.0).astype(np.float64),
    )
