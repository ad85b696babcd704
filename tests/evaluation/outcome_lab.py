"""Outcomes made by hand or by lot, for tests of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.evaluation.outcomes import Outcome

TASKS = ("cv", "cc", "ss", "gm", "wd")
WORD = {"Y": "YES", "N": "NO", "-": None}


def outcome(id: str, truth: str = "NO", said: str | None = "NO", task: str = "cv", **more: Any) -> Outcome:
    """One question of an object of its own, unless `object_id` says otherwise."""
    told: dict[str, Any] = {
        "verdict": said or "FAILED",
        "p_yes": None,
        "object_id": f"object of {id}",
        "format_ok": said is not None,
        "stop": "answered" if said else "max_turns",
    }
    return Outcome(id=id, task=task, truth=truth, said=said, **told | more)  # type: ignore[arg-type]


def outcomes(truth: str, said: str, **more: Any) -> list[Outcome]:
    """`outcomes("YYN", "Y-N")`: a letter each; lists in `more` hold one value each, others count for all."""
    found = []
    for i, (t, s) in enumerate(zip(truth, said, strict=True)):
        own = {name: value[i] if isinstance(value, list) else value for name, value in more.items()}
        found.append(outcome(f"q{i}", WORD[t] or "NO", WORD[s], **own))
    return found


def many(n: int, seed: int = 0, *, policy: int = 0) -> list[Outcome]:
    """`n` questions about some 0.6 n objects: ties in p_yes, a few without a probability, without an answer.

    `policy` gives other answers to the same questions.
    """
    world, luck = np.random.default_rng(seed), np.random.default_rng([seed, policy])
    found = []
    for i in range(n):
        truth = "YES" if world.random() < 0.25 else "NO"
        p = round(1 / (1 + float(np.exp(-luck.normal(1.2 if truth == "YES" else -1.2, 1.5)))), 2)
        said = None if luck.random() < 0.07 else "YES" if luck.random() < p else "NO"
        survey = str(world.choice(["LAMOST", "SDSS", "DESI"]))
        snr = float(world.uniform(2, 60))
        found.append(
            outcome(
                f"q{i}",
                truth,
                said,
                TASKS[i % 5],
                object_id=f"o{world.integers(0, n)}",
                p_yes=p if luck.random() < 0.95 else None,
                survey=survey,
                layout=f"{survey.lower()}-1",
                snr=snr,
                kind=str(world.choice(["member"] if truth == "YES" else ["K dwarf", "M dwarf", "quasar"])),
                calls=int(luck.integers(0, 4)),
                seconds=float(luck.uniform(0, 3)),
                metadata={"n_pix": float(world.integers(3_000, 4_000)), "snr": snr, "survey": survey, "z": None},
            )
        )
    return found
