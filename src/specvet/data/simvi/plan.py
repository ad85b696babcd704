"""Which objects SimVI asks about: sizes as published, positives near 17 %, negatives mostly hard.

Every row follows from the seed, its part, its task and its place alone, before anything is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from specvet.data.simulate.kinds import KINDS, TASKS

Size = Literal["full", "small", "tiny"]
Part = Literal["train", "test", "val", "spare"]
YesNo = Literal["YES", "NO"]
PARTS: tuple[Part, ...] = ("train", "test", "val")
"""Those that are asked about; `spare` objects serve for trajectories where those of train did not give enough."""

POSITIVE = 0.17
"""Share of YES in every part and task; inferred for the published benchmark, which does not print its own."""

HARD = 0.85
"""Share of the negatives that are what experts confuse with the class; the rest is what a list holds anyhow."""

REPEATED = 0.05
"""Share of the rows that are a second spectrum of another row's object, so that splitting by object has work to do."""

COLDSTART_YES = 0.4
"""Share of cold-start trajectories about members of the class; how published ones are shared is not known."""

_FULL: Mapping[Part, Mapping[str, int]] = MappingProxyType(
    {
        "train": {"cc": 671, "cv": 711, "gm": 658, "ss": 706, "wd": 618},
        "test": {"cc": 1321, "cv": 1458, "gm": 1321, "ss": 1442, "wd": 1212},
        "val": dict.fromkeys(TASKS, 400),
    }
)
_FULL_COLDSTART = 942

_PART_OF: Mapping[Size, int] = MappingProxyType({"full": 1, "small": 10, "tiny": 100})
"""How many times smaller than the published one a set is."""


_SPARE_BLOCK = 1_000
"""Numbers set apart for the spare objects of a kind; 100 blocks a task."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question to be: which object, seen when, asked what."""

    part: Part
    task: str
    number: int
    """Of the object; no two parts share one."""
    epoch: int
    kind: str
    answer: YesNo

    @property
    def key(self) -> tuple[int, int]:
        """Of its spectrum."""
        return self.number, self.epoch


def rows_of(size: Size, part: Part, task: str) -> int:
    """How many questions of a part ask about a task."""
    return round(_FULL[part][task] / _PART_OF[size])


def coldstart_rows(size: Size) -> dict[str, dict[YesNo, int]]:
    """How many cold-start trajectories: task → answer → number; shared among the tasks as train is."""
    total = round(_FULL_COLDSTART / _PART_OF[size])
    train = {task: rows_of(size, "train", task) for task in TASKS}
    exact = {task: total * n / sum(train.values()) for task, n in train.items()}
    shares = {task: int(x) for task, x in exact.items()}
    for task in sorted(TASKS, key=lambda t: (shares[t] - exact[t], t))[: total - sum(shares.values())]:
        shares[task] += 1
    return {task: {"YES": round(COLDSTART_YES * n), "NO": n - round(COLDSTART_YES * n)} for task, n in shares.items()}


def plan(size: Size, part: Part, task: str, seed: int) -> list[Row]:
    """The questions of a part about a task, in their order."""
    n = rows_of(size, part, task)
    rng = np.random.default_rng([seed, PARTS.index(part), TASKS.index(task), n])
    is_yes = rng.permutation(np.arange(n) < round(POSITIVE * n))
    kinds = [_member(task, rng) if yes else _other(task, rng) for yes in is_yes]
    first = _first(PARTS.index(part), task)
    rows = [
        Row(part, task, first + i, 0, kind, "YES" if yes else "NO")
        for i, (kind, yes) in enumerate(zip(kinds, is_yes, strict=True))
    ]
    for answer in ("YES", "NO"):
        of_answer = [i for i, row in enumerate(rows) if row.answer == answer]
        chosen = rng.permutation(of_answer)
        again = round(REPEATED * len(of_answer))
        for late, early in zip(chosen[:again], chosen[again : 2 * again], strict=True):
            rows[late] = Row(part, task, rows[early].number, 1, rows[early].kind, rows[early].answer)
    return rows


def member_shares(task: str, n: int) -> dict[str, int]:
    """How many of `n` members of a class each of its kinds should give, by the shares they have among the positives."""
    weights = {key: kind.positive for key, kind in KINDS.items() if task in kind.yes and kind.positive}
    exact = {key: n * weight / sum(weights.values()) for key, weight in weights.items()}
    shares = {key: int(x) for key, x in exact.items()}
    for key in sorted(shares, key=lambda k: (shares[k] - exact[k], k))[: n - sum(shares.values())]:
        shares[key] += 1
    return shares


def spare(task: str, answer: YesNo, seed: int, n: int, kind: str | None = None) -> list[Row]:
    """`n` more objects with this answer, of no part, of one kind or mixed; the first are the same whatever `n` is.

    Raises ValueError for more than 1,000.
    """
    if n > _SPARE_BLOCK:
        raise ValueError(f"{n} spare objects; a block of numbers has {_SPARE_BLOCK}")
    block = len(KINDS) + (answer == "YES") if kind is None else list(KINDS).index(kind)
    rng = np.random.default_rng([seed, len(PARTS), TASKS.index(task), block])
    first = 100_000 * TASKS.index(task) + _SPARE_BLOCK * block
    draw = _member if answer == "YES" else _other
    return [Row("spare", task, _shuffled(first + i), 0, kind or draw(task, rng), answer) for i in range(n)]


def _shuffled(place: int) -> int:
    """A number of its own for each of a million places; it stands in names, and must not tell kind or answer."""
    return 3_000_000 + (387_421 * place + 271_829) % 1_000_000


def _first(part: int, task: str) -> int:
    return 1_000_000 * part + 100_000 * TASKS.index(task)


def _member(task: str, rng: np.random.Generator) -> str:
    return _drawn({key: kind.positive for key, kind in KINDS.items() if task in kind.yes}, rng)


def _other(task: str, rng: np.random.Generator) -> str:
    others = {key: kind for key, kind in KINDS.items() if task not in kind.yes}
    if rng.random() < HARD:
        return _drawn({key: kind.confuses.get(task, 0.0) for key, kind in others.items()}, rng)
    return _drawn({key: kind.weight for key, kind in others.items()}, rng)


def _drawn(weights: Mapping[str, float], rng: np.random.Generator) -> str:
    keys = [key for key, weight in weights.items() if weight > 0.0]
    shares = np.array([weights[key] for key in keys])
    return keys[int(rng.choice(len(keys), p=shares / shares.sum()))]
