"""Near-duplicates: problems whose word 5-grams overlap, found exactly, in a matrix of who shares how many.

Jaccard's index of two texts is the share of their different 5-grams that both have. Published audits of physics sets
take 0.4 as the limit. All pairs are compared, by sparse products of a block of rows with all rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.records.problems import Problem

LIMIT = 0.4
GRAM = 5
_BLOCK = 256
_WORD = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*")
_CHOICE = re.compile(r"^\s*\(?[A-J][.):]\s.*$", re.MULTILINE)

Floats = NDArray[np.float64]


def words(problem: Problem, numbers: bool = True) -> tuple[str, ...]:
    """The words of a question in lower case, without its choices; with `numbers` off each number is `#`, so that the
    same question with other numbers is the same."""
    text = _CHOICE.sub("", problem.problem) if problem.gold.kind == "mcq" else problem.problem
    found = _WORD.findall(text.lower())
    return tuple(found if numbers else ("#" if word[0].isdigit() else word for word in found))


class Grams:
    """The 5-grams of many texts as columns of one vocabulary, so that sets of texts can be compared."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, ...], int] = {}

    def rows(self, texts: Iterable[Sequence[str]]) -> list[NDArray[np.int32]]:
        """The different grams of each text; one shorter than five words is one gram, an empty one has none."""
        return [np.unique(np.fromiter(self._grams(text), dtype=np.int32)) for text in texts]

    def _grams(self, text: Sequence[str]) -> Iterator[int]:
        for at in range(max(1, len(text) - GRAM + 1) if text else 0):
            yield self._columns.setdefault(tuple(text[at : at + GRAM]), len(self._columns))

    def matrix(self, rows: Sequence[NDArray[np.int32]]) -> Any:
        """Sparse, shape (rows, grams), 1 where a text has a gram."""
        from scipy.sparse import csr_matrix

        ends = np.cumsum([0, *(row.size for row in rows)])
        columns = np.concatenate([*rows, np.zeros(0, dtype=np.int32)])
        ones = np.ones(columns.size, dtype=np.int32)
        return csr_matrix((ones, columns, ends), shape=(len(rows), len(self._columns) or 1))


def duplicates(texts: Sequence[Sequence[str]], limit: float = LIMIT) -> dict[int, int]:
    """Texts to leave out → the earlier text that is kept and near each: a text is kept unless it is near a kept one."""
    grams = Grams()
    rows = grams.rows(texts)
    kept = np.ones(len(texts), dtype=bool)
    found: dict[int, int] = {}
    for i, others in _near(grams, rows, rows, limit):
        earlier = others[others < i]
        earlier = earlier[kept[earlier]]
        if earlier.size:
            kept[i] = False
            found[i] = int(earlier[0])
    return found


def contaminated(
    texts: Sequence[Sequence[str]], others: Sequence[Sequence[str]], limit: float = LIMIT
) -> dict[int, int]:
    """Texts that are near one of `others` → the first of these."""
    grams = Grams()
    ours, theirs = grams.rows(texts), grams.rows(others)
    return {i: int(near[0]) for i, near in _near(grams, ours, theirs, limit) if near.size}


def _near(
    grams: Grams, ours: list[NDArray[np.int32]], theirs: list[NDArray[np.int32]], limit: float
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """For each of our rows: theirs with an index of at least `limit`, in order."""
    if not ours or not theirs:
        return
    a, b = grams.matrix(ours), grams.matrix(theirs).T.tocsr()
    sizes = np.array([row.size for row in theirs])
    for start in range(0, len(ours), _BLOCK):
        shared = (a[start : start + _BLOCK] @ b).tocsr()
        for i in range(shared.shape[0]):
            part = slice(shared.indptr[i], shared.indptr[i + 1])
            columns, both = shared.indices[part], shared.data[part]
            union = ours[start + i].size + sizes[columns] - both
            yield start + i, np.sort(columns[both >= limit * union])
