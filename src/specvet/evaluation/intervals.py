"""95 % intervals: a bootstrap that draws objects, and Clopper-Pearson for counts.

One star may have several spectra, and one spectrum several questions; they succeed and fail together. So a resample
draws as many objects as there are, with replacement, and takes all questions of each as often as it was drawn (a
cluster bootstrap; Davison & Hinkley 1997, section 3.8). The interval is what lies between the 2.5th and the 97.5th
percentile of a statistic over the resamples in which it is defined.

An interval is `{"value", "low", "high", "method"}`. `low` and `high` are None where nothing can be said: no resamples
were asked for, or all of them gave the same, as those of a single object do. A share of 0 or 1 has no spread either,
but a bound: that of Clopper & Pearson (1934, Biometrika 26, 404) with the number of objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Interval = dict[str, Any]

LEVEL = 0.95
BOOTSTRAP = "bootstrap by object"
EXACT = "Clopper-Pearson"
_CELLS = 1_000_000
"""Numbers that are weighed at a time: 8 MB."""
_DIGITS = 6
_NO_SPREAD = 1e-12
"""What sums of floats in another order may differ by."""


class Resamples:
    """How often each object is drawn in each resample.

    The draws are made of the raw words of a Philox generator, a stream that numpy promises not to change, so that
    the same outcomes and seed have the same intervals under every version of it.
    """

    def __init__(self, object_ids: Sequence[str], replicates: int, seed: int) -> None:
        """`object_ids` has one for each outcome, in their order."""
        names, codes = np.unique(np.asarray(object_ids, dtype=str), return_inverse=True)
        self.objects: Ints = codes.astype(np.int64)
        """Shape (outcomes,): which object each belongs to."""
        self.n_objects = len(names)
        self._drawn = _drawn(self.n_objects, replicates if self.n_objects > 1 else 0, seed)

    def sums(self, columns: npt.ArrayLike) -> Floats:
        """Sums over the outcomes: `columns` (outcomes, k) → (1 + replicates, k). Row 0 is the sample itself.

        Whole numbers are summed without error, whatever the machine.
        """
        values = np.asarray(columns, dtype=np.float64)
        by_object = np.zeros((self.n_objects, values.shape[1]))
        np.add.at(by_object, self.objects, values)
        parts = [by_object.sum(axis=0, keepdims=True)]
        parts += [part.astype(np.float64) @ by_object for part in self._parts(self.n_objects)]
        return np.concatenate(parts)

    def each(self, chosen: Ints, statistics: Callable[[Floats], Floats]) -> Floats:
        """What `statistics` gives, (resamples, k), for the weights (resamples, chosen) of the outcomes `chosen`.

        Returns (1 + replicates, k); row 0 is the sample itself, where every weight is 1.
        """
        objects = self.objects[chosen]
        parts = [statistics(np.ones((1, len(chosen))))]
        parts += [statistics(part[:, objects].astype(np.float64)) for part in self._parts(len(chosen))]
        return np.concatenate(parts)

    def _parts(self, width: int) -> Iterator[npt.NDArray[np.uint8]]:
        step = max(1, _CELLS // max(1, width))
        return (self._drawn[i : i + step] for i in range(0, len(self._drawn), step))


def bootstrap(draws: Floats) -> Interval:
    """Of a statistic, (1 + replicates,), whose first is the value of the sample; NaN where it is not defined."""
    value, rest = float(draws[0]), draws[1:][np.isfinite(draws[1:])]
    if not math.isfinite(value):
        return empty(BOOTSTRAP)
    if not rest.size or np.ptp(rest) < _NO_SPREAD:
        return {"value": value, "low": None, "high": None, "method": BOOTSTRAP}
    low, high = np.percentile(rest, (50 * (1 - LEVEL), 50 * (1 + LEVEL)))
    return {"value": value, "low": float(low), "high": float(high), "method": BOOTSTRAP}


def share(draws: Floats, objects: int) -> Interval:
    """Of a share: `bootstrap`, but Clopper-Pearson with `objects` trials where it is 0 or 1."""
    if objects and draws[0] in (0.0, 1.0):
        return proportion(int(draws[0]) * objects, objects)
    return bootstrap(draws)


def proportion(k: int, n: int) -> Interval:
    """Of a count: k of n, by Clopper-Pearson; None of no trial."""
    if not n:
        return empty(EXACT)
    low, high = clopper_pearson(k, n)
    return {"value": k / n, "low": low, "high": high, "method": EXACT}


def clopper_pearson(k: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact two-sided interval of a binomial share; (0, 1) of no trial."""
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return low, high


def empty(method: str) -> Interval:
    """Of nothing that could be measured."""
    return {"value": None, "low": None, "high": None, "method": method}


def tidy(value: Any) -> Any:
    """The same as JSON has it: floats with six digits behind the point, None for what is not finite, keys as text.

    Sums of floats differ between machines in the last bits, and six digits do not.
    """
    if isinstance(value, dict):
        return {str(key): tidy(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(part) for part in value]
    if isinstance(value, np.generic):
        return tidy(value.item())
    if isinstance(value, float):
        return round(value, _DIGITS) + 0.0 if math.isfinite(value) else None
    return value


def _drawn(objects: int, replicates: int, seed: int) -> npt.NDArray[np.uint8]:
    """(replicates, objects): how often each was drawn; nothing is drawn 256 times."""
    drawn = np.zeros((replicates, objects), dtype=np.uint8)
    raw = np.random.Philox(seed)
    for row in drawn:
        words = raw.random_raw(objects) >> np.uint64(32)
        chosen = (words * np.uint64(objects)) >> np.uint64(32)
        row[:] = np.bincount(chosen.astype(np.int64), minlength=objects)
    return drawn
