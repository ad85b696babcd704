"""How much the questions of a task count, by their answer: where YES is rare, right NOs alone make a high reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from specvet.records.schema import Question

Weights = Mapping[tuple[str, str | None], float]
"""(task, answer) → what the advantages of such a question are multiplied by."""


def answer_weights(questions: Iterable[Question], balance: float) -> Weights:
    """Weights of share^−balance, with 1 for their mean over each task's questions.

    With `balance` 0 all are 1; with 1 the answers of a task count the same in all, which is what balanced accuracy
    rewards; in between the rare answer counts more than its share and less than the other.
    """
    counts = Counter((q.task, q.answer) for q in questions)
    weights: dict[tuple[str, str | None], float] = {}
    for task in {task for task, _ in counts}:
        own = {key: n for key, n in counts.items() if key[0] == task}
        total = sum(own.values())
        raw = {key: (n / total) ** -balance for key, n in own.items()}
        mean = sum(raw[key] * n for key, n in own.items()) / total
        weights |= {key: weight / mean for key, weight in raw.items()}
    return weights
