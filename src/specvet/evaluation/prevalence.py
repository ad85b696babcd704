"""What a score means on a real list, where members are rarer than in any benchmark.

Benchmarks hold some 17 % members; LAMOST's Hα list holds about 0.2 %, SDSS-V's CNN list about 2 %. With prevalence π,

    precision of YES = π TPR / (π TPR + (1 − π) FPR)

and with L₁, L₀ the shares of members and others that go to a person (all but NO), looks per find are
(π L₁ + (1 − π) L₀) / (π L₁). Both are monotonic in two shares, which are counts: the bounds put each at that end of its
Clopper-Pearson interval that is worse (better), with half the error probability for each, so that both hold together in
at least 95 % of cases. Where no false alarm was seen, the precision is 1 and its lower bound says what is known.
"""

from __future__ import annotations

from typing import Any

from specvet.evaluation.counts import Sheet
from specvet.evaluation.intervals import EXACT, LEVEL, Bools, Interval, clopper_pearson, empty

PREVALENCES = (0.002, 0.02)
_EACH = 1 - (1 - LEVEL) / 2


def at_prevalences(sheet: Sheet) -> dict[str, dict[str, Any]]:
    """Prevalence → task → precision of YES, looks per find, looks among 1,000 spectra."""
    return {str(p): {task: _at(p, sheet, sheet.of(task)) for task in sheet.tasks} for p in PREVALENCES}


def precision(prevalence: float, hits: float, alarms: float) -> float | None:
    """Of YES, when the shares `hits` of members and `alarms` of the others get it; None when nothing does."""
    found, said = prevalence * hits, prevalence * hits + (1 - prevalence) * alarms
    return found / said if said else None


def _at(prevalence: float, sheet: Sheet, here: Bools) -> dict[str, Any]:
    said, looked = here & sheet.said_yes, here & ~sheet.said_no
    members, others = here & sheet.yes, here & ~sheet.yes
    n, m = int(members.sum()), int(others.sum())
    if not n or not m:
        return {name: empty(EXACT) for name in ("precision", "looks_per_find", "looks_per_1000")}
    hits, seen = int((said & members).sum()), int((looked & members).sum())
    alarms, idle = int((said & others).sum()), int((looked & others).sum())
    purity = _precision(prevalence, (hits, n), (alarms, m))
    of_looks = _precision(prevalence, (seen, n), (idle, m))
    ends = {"low": "high", "value": "value", "high": "low"}
    per_find = {end: 1 / of_looks[other] if of_looks[other] else None for end, other in ends.items()}
    shares = {"value": (seen / n, idle / m)}
    bounds = clopper_pearson(seen, n, _EACH), clopper_pearson(idle, m, _EACH)
    shares |= {end: (bounds[0][i], bounds[1][i]) for i, end in enumerate(("low", "high"))}
    looks = {end: 1_000 * (prevalence * a + (1 - prevalence) * b) for end, (a, b) in shares.items()}
    return {
        "precision": purity,
        "looks_per_find": {"value": per_find["value"], "low": per_find["low"], "high": per_find["high"]}
        | {"method": EXACT},
        "looks_per_1000": {"value": looks["value"], "low": looks["low"], "high": looks["high"], "method": EXACT},
    }


def _precision(prevalence: float, of_members: tuple[int, int], of_others: tuple[int, int]) -> Interval:
    """Of counts (k, n) of members and of others."""
    value = precision(prevalence, of_members[0] / of_members[1], of_others[0] / of_others[1])
    (worse, better), (fewer, more) = clopper_pearson(*of_members, _EACH), clopper_pearson(*of_others, _EACH)
    return {
        "value": value,
        "low": precision(prevalence, worse, more) if value is not None else None,
        "high": precision(prevalence, better, fewer) if value is not None else None,
        "method": EXACT,
    }
