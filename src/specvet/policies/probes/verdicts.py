"""Verdicts that probes of ids and of words share."""

from __future__ import annotations

from specvet.policies.probes import scene
from specvet.policies.probes.report import Probe, equal, skipped


def seeded(repeats: bool, varies: bool, sure: bool) -> Probe:
    """The probe `seed`, from whether a seed repeats and another varies; `sure` where nothing is left to chance."""
    if not repeats:
        return Probe("seed", False, detail="the same seed gave two different samples: rollouts cannot be repeated")
    if varies:
        return Probe("seed", True, detail="a seed repeats its sample, and another gives another")
    if sure:
        return skipped("seed", "the model is so sure of its words that another seed changes nothing")
    return Probe(
        "seed", False, detail="two seeds gave the same sample at temperature 1: does the backend sample at all?"
    )


def orientation(said: dict[scene.Side, scene.Side | None]) -> Probe:
    """The probe `orientation` from where a model says the square is, by where it is."""
    if any(answer is None for answer in said.values()) or len(set(said.values())) < 3:
        return skipped("orientation", "this model does not say where a red square is")
    right = sum(side == answer for side, answer in said.items())
    wrong = ", ".join(f"{answer} for {side}" for side, answer in said.items() if answer != side)
    return equal("orientation", right, 4, "sides named rightly" + (f"; it says {wrong}" if wrong else ""))
