"""Splits by object: what is held out, so that no star is on both sides, in the same shares as the whole.

Objects come in the order of a hash of (seed, object), which no order of rows changes. Each is taken, with all its rows,
if every stratum it belongs to has room for them; strata are tasks and answers, with as many places as their share of
the target (largest remainders). Where objects of several rows leave places empty, a second pass fills them by task
alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Row:
    """One row to split."""

    object_id: str
    task: str
    answer: str


def shares(counts: Mapping[K, int], total: int) -> dict[K, int]:
    """`total` places by the share of each of `counts`; largest remainders get the last ones, the first of equals first.

    Raises ValueError for more places than there are rows.
    """
    n = sum(counts.values())
    if total > n:
        raise ValueError(f"{total} places for {n} rows")
    exact = {key: count * total / n if n else 0.0 for key, count in counts.items()}
    places = {key: int(value) for key, value in exact.items()}
    by_remainder = sorted(counts, key=lambda key: places[key] - exact[key])
    for key in by_remainder[: total - sum(places.values())]:
        places[key] += 1
    return places


def held_out(rows: Sequence[Row], targets: Mapping[str, int], seed: int, barred: Collection[str] = ()) -> set[int]:
    """Which rows are held out: of each task as many as `targets` says, or as near below as whole objects allow.

    Objects in `barred` never are. A task's places are shared among its answers as all its rows are.
    """
    of_object: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        of_object.setdefault(row.object_id, []).append(i)
    order = sorted((o for o in of_object if o not in set(barred)), key=lambda o: (_hash(seed, o), o))
    room: Counter[tuple[str, str]] = Counter()
    for task, places in targets.items():
        answers = Counter(row.answer for row in rows if row.task == task)
        room.update({(task, answer): n for answer, n in shares(dict(sorted(answers.items())), places).items()})
    chosen: set[int] = set()
    _take(order, of_object, rows, room, chosen, lambda row: (row.task, row.answer))
    left: Counter[str] = Counter()
    for (task, _), n in room.items():
        left[task] += n
    _take(order, of_object, rows, left, chosen, lambda row: row.task)
    return chosen


def linked(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names that stand together in a pair, at one remove or several → the least of their names."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for a, b in pairs:
        first, second = sorted((root(a), root(b)))
        parent[second] = first
    return {name: root(name) for name in parent}


def _take(
    order: Sequence[str],
    of_object: Mapping[str, Sequence[int]],
    rows: Sequence[Row],
    room: Counter[K],
    chosen: set[int],
    stratum: Callable[[Row], K],
) -> None:
    for name in order:
        own = of_object[name]
        if own[0] in chosen:
            continue
        needs = Counter(stratum(rows[i]) for i in own)
        if all(room[key] >= n for key, n in needs.items()):
            room.subtract(needs)
            chosen.update(own)


def _hash(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).digest()
