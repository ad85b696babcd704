"""What tests of triage share: labelled cases whose evidence is known exactly, and runs of decisions about them.

A case's log-odds are drawn from normal distributions, of members around +d/2 and of others around −d/2 with variance d,
so that the log-odds themselves are the natural logarithm of the likelihood ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specvet.records import Decision, RunFolder
from specvet.records.schema import (
    ActionRecord,
    Answer,
    Question,
    SpectrumRef,
    StopReason,
    TrajectoryRecord,
    TurnRecord,
    Verdict,
)
from specvet.vetting.triage.calibration import Calibration, Feature, TaskCalibration, Weights
from specvet.vetting.triage.cases import Case
from specvet.vetting.triage.fitting import Labelled

APART = 9.0
"""d: members and others overlap in some 7 %."""


def drawn(
    n: int, members: int, seed: int = 0, apart: float = APART
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(log-odds, whether member) of `n` cases, the members first."""
    rng = np.random.default_rng(seed)
    yes = np.arange(n) < members
    return np.where(yes, apart / 2, -apart / 2) + math.sqrt(apart) * rng.normal(size=n), yes


def case(number: int, task: str, log_odds: float, answer: Answer | None = None, **rest: Any) -> Case:
    said = answer or (Answer.YES if log_odds > 0 else Answer.NO)
    features = {
        "policy": log_odds,
        "votes": 1.0 if said is Answer.YES else -1.0,
        "unsure": 0.0,
        "snr": 1.0 + number % 7 / 10,
    }
    fields = {"file": f"s{number:05d}.fits", "row": 0, "id": str(number), "survey": "LAMOST", "snr": 20.0}
    p = 1 / (1 + math.exp(-log_odds))
    return Case(
        **fields
        | {"task": task, "answer": said, "p_raw": p, "simulated": False, "samples": 1, "features": features}
        | rest
    )


def labelled(n: int, members: int, task: str = "cv", seed: int = 0, raw_scale: float = 1.0) -> list[Labelled]:
    """`raw_scale` times too certain, as raw models are."""
    log_odds, yes = drawn(n, members, seed)
    return [
        Labelled(case(seed * 100_000 + i, task, raw_scale * x), bool(y), f"object {seed} {i}")
        for i, (x, y) in enumerate(zip(log_odds, yes, strict=True))
    ]


def exact(task: str = "cv", members: int = 400, others: int = 1_600, seed: int = 5, **more: Any) -> Calibration:
    """A calibration that takes the policy's log-odds as evidence, with the evidence of cases drawn like `drawn`."""
    log_odds, yes = drawn(members + others, members, seed)
    prior = members / (members + others)
    known = TaskCalibration(
        model=Weights(intercept=math.log(prior / (1 - prior)), weights=(1.0,)),
        prior=prior,
        members=tuple(np.sort(log_odds[yes]).tolist()),
        others=tuple(np.sort(log_odds[~yes]).tolist()),
        spread={
            "policy": {
                "YES": tuple(np.quantile(log_odds[yes], np.linspace(0, 1, 21)).tolist()),
                "NO": tuple(np.quantile(log_odds[~yes], np.linspace(0, 1, 21)).tolist()),
            }
        },
        surveys={"LAMOST": members + others},
    )
    fields = {
        "made": "2026-01-01T00:00:00+00:00",
        "policy": "line-indices",
        "simulated": 0,
        "cases": members + others,
        "surveys": {"LAMOST": members + others},
        "features": (Feature(name="policy", mean=0.0, scale=1.0, missing=False),),
        "tasks": {task: known},
        "pooled": known.model,
    }
    return Calibration(**fields | more)


def decision(
    file: str, task: str, answer: Answer, p_yes: float | None, truth: bool | None = None, **rest: Any
) -> Decision:
    verdict = Verdict(answer=answer, confidence=None, p_yes=p_yes, reason="so it looks")
    known = None if truth is None else "YES" if truth else "NO"
    question = Question(id=f"{file}#0/{task}", task=task, spectrum=SpectrumRef(path=file), answer=known, object_id=file)
    record = TrajectoryRecord(
        question=question,
        policy="steady",
        task_hash="0" * 64,
        spectrum_hash=None,
        opening=None,
        turns=(TurnRecord(action=ActionRecord(kind="answer"), seconds=0.1),),
        stop=StopReason.ANSWERED,
        verdict=verdict,
        seconds=0.1,
        started="2026-01-01T00:00:00Z",
    )
    fields = {"file": file, "row": 0, "id": file, "survey": "LAMOST", "snr": 20.0, "trajectory": record}
    return Decision(**fields | {"task": task, "verdict": verdict} | rest)


def write_run(
    folder: Path,
    n: int,
    members: int,
    *,
    seed: int = 0,
    tasks: Sequence[str] = ("cv",),
    answered: bool = True,
    policy: str = "steady",
) -> Path:
    """A run over `n` spectra of which the first are members of every task; `answered`: its questions say which."""
    with RunFolder.open(folder, kind="rollout" if answered else "vet", config={"policy": policy}) as run:
        for number, task in enumerate(tasks):
            log_odds, yes = drawn(n, members, seed + number)
            rows = [
                decision(
                    f"s{i:05d}.fits",
                    task,
                    Answer.YES if x > 0 else Answer.NO,
                    1 / (1 + math.exp(-x)),
                    bool(y) if answered else None,
                )
                for i, (x, y) in enumerate(zip(log_odds, yes, strict=True))
            ]
            run.record_many(rows)
    return folder
