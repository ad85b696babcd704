"""What can be guessed without looking at the flux: a classifier of the metadata alone.

A set in which members were taken from one release and the others from another can be solved by its file lengths. So
boosted trees get what is known beside the flux (pixels, range, survey, layout, S/N, redshift as stated) and are asked
the same questions. A policy is worth its difference from that, above all within one survey, where the release
gives nothing away.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from specvet.evaluation.counts import f1
from specvet.evaluation.intervals import Bools, Floats, Ints
from specvet.evaluation.outcomes import Fact, Outcome
from specvet.evaluation.ranking import areas, ranked

FOLDS = 5
TREES = 50
SEED = 0
METHOD = (
    f"{TREES} boosted trees (histogram gradient boosting, depth 3, 10 questions a leaf), a model for each task, out of"
    f" fold in {FOLDS} folds by object; accuracy of the likelier word, macro F1 with as many YES as members"
)
ABSENT = "not computed: needs scikit-learn (pip install 'specvet[eval]')"


class Known(NamedTuple):
    """What is known of a question without looking, and its answer."""

    task: str
    yes: bool
    object_id: str
    survey: str
    layout: str
    metadata: tuple[tuple[str, Fact], ...]


def metadata_only(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Accuracy, macro F1 and AUROC (mean of the tasks') of the trees, in all and within each survey and layout.

    The same outcomes and the same scikit-learn give the same. `{"note": …}` where it could not be asked.
    """
    try:
        import sklearn
    except ImportError:
        return {"note": ABSENT}
    known = (
        Known(o.task, o.truth == "YES", o.object_id, o.survey, o.layout, tuple(sorted(o.metadata.items())))
        for o in outcomes
    )
    return deepcopy(_guessed(tuple(known), str(sklearn.__version__)))


@lru_cache(maxsize=8)
def _guessed(known: tuple[Known, ...], version: str) -> dict[str, Any]:
    """Kept, since every policy on a set has the same to stand beside."""
    table = features([dict(one.metadata) for one in known])
    if not table.shape[1]:
        return {"note": "not computed: the metadata are the same for all"}
    task, yes = np.array([one.task for one in known]), np.array([one.yes for one in known])
    objects = np.unique([one.object_id for one in known], return_inverse=True)[1]
    p, said = np.full(len(known), np.nan), np.zeros(len(known))
    tasks = {key: task == key for key in sorted(set(task.tolist()))}
    for here in map(np.flatnonzero, tasks.values()):
        p[here] = _out_of_fold(table[here], yes[here], objects[here])
        said[here] = _highest(p[here], int(yes[here].sum()))
    left_out = [key for key, here in tasks.items() if not np.isfinite(p[here]).all()]
    tasks = {key: here for key, here in tasks.items() if key not in left_out}
    if not tasks:
        return {"note": "not computed: no task has two objects of each answer"}

    def numbers(chosen: Bools) -> dict[str, Any]:
        return _numbers(p, said, yes, [here & chosen for here in tasks.values()])

    return {
        "method": METHOD,
        "sklearn": version,
        "left_out": left_out,
        **numbers(np.ones(len(known), dtype=bool)),
        "tasks": {key: numbers(here) for key, here in tasks.items()},
        "within_survey": {name: numbers(here) for name, here in _parts([one.survey for one in known])},
        "within_layout": {name: numbers(here) for name, here in _parts([one.layout for one in known])},
    }


def features(metadata: Sequence[Mapping[str, Fact]]) -> Floats:
    """Metadata as numbers, (questions, features): a word becomes one column a value; NaN where nothing is told.

    Columns that are the same for all are left out."""
    columns: list[Floats] = []
    for name in sorted({name for one in metadata for name in one}):
        values = [one.get(name) for one in metadata]
        words = sorted({value for value in values if isinstance(value, str)})
        columns += [np.array([value == word for value in values], dtype=np.float64) for word in words]
        columns.append(np.array([value if _finite(value) else np.nan for value in values], dtype=np.float64))
    told = [column for column in columns if len(np.unique(column)) > 1]
    return np.stack(told, axis=1) if told else np.zeros((len(metadata), 0))


def _finite(value: Fact) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _out_of_fold(x: Floats, yes: Bools, objects: Ints) -> Floats:
    """p_yes by trees that were not shown the object; NaN where there are too few objects of an answer."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedGroupKFold

    p = np.full(len(yes), np.nan)
    folds = min(FOLDS, len(np.unique(objects[yes])), len(np.unique(objects[~yes])))
    if folds < 2:
        return p
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with few members: they are as they are
        for train, test in StratifiedGroupKFold(folds, shuffle=True, random_state=SEED).split(x, yes, objects):
            if len(np.unique(yes[train])) < 2:
                p[test] = float(yes[train][0])
                continue
            trees = HistGradientBoostingClassifier(
                max_iter=TREES, max_depth=3, min_samples_leaf=10, early_stopping=False, random_state=SEED
            )
            p[test] = np.round(trees.fit(x[train], yes[train]).predict_proba(x[test])[:, 1], 9)
    return p


def _highest(p: Floats, n: int) -> Floats:
    """How far each is among the `n` highest: 1 or 0, and in a tie that the end goes through its share of what is left.

    So trees that learnt nothing, and give all the same, have what guessing has and not a YES to everything.
    """
    order, starts = ranked(p)
    sizes = np.diff(np.append(starts, len(p)))
    above = len(p) - starts - sizes
    share = np.empty(len(p))
    share[order] = np.repeat(np.clip((n - above) / sizes, 0.0, 1.0), sizes)
    return share


def _numbers(p: Floats, said: Floats, yes: Bools, tasks: Sequence[Bools]) -> dict[str, Any]:
    """Over the tasks' outcomes; F1 and AUROC are means of those tasks that have one."""
    every = np.logical_or.reduce(tasks)
    scores, ranks = [], []
    for here in tasks:
        scores.append(_f1(said[here], yes[here]))
        if here.any():
            order, starts = ranked(p[here])
            ranks.append(float(areas(np.ones((1, len(order))), yes[here][order], starts)[0, 0]))
    return {
        "n": int(every.sum()),
        "accuracy": float(((p >= 0.5) == yes)[every].mean()) if every.any() else None,
        "macro_f1": _mean(scores),
        "auroc": _mean(ranks),
    }


def _f1(said: Floats, yes: Bools) -> float:
    """With `said` as shares of a YES."""
    return float(f1(*(np.array([x.sum()]) for x in (said[yes], said[~yes], 1 - said[yes])))[0])


def _mean(values: Sequence[float]) -> float | None:
    there = [value for value in values if np.isfinite(value)]
    return float(np.mean(there)) if there else None


def _parts(names: Sequence[str]) -> list[tuple[str, Bools]]:
    named = np.array(names, dtype=str)
    return [(name, named == name) for name in sorted(set(names)) if name]
