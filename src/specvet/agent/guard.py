"""What the program says itself, so that a model need not be asked: UNSURE where nobody could decide.

A model answers whatever it is asked, also where there is nothing to see. The rules are those that `line-indices` holds
itself to: a look that the task calls undecidable, and key windows most of which hold no data. NO_DATA comes before, see
`specvet.agent.loop.missing_data`.
"""

from __future__ import annotations

from specvet.policies.line_indices import MIN_MEASURED_YES, MIN_WINDOW_SEEN, task_indices
from specvet.policies.scoring import fulfilled
from specvet.records.schema import Answer, Verdict
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import Pixels, pixels_of
from specvet.tasks import Task, Undecidable
from specvet.tools import Observation

GUARD = "guard-1"
"""The rules by name, as a run keeps it; others get another."""


def undecided(task: Task, opening: Observation) -> Verdict | None:
    """UNSURE with its reason where no look at this spectrum decides the task; None where a model may be asked."""
    data = opening.data
    if data is None:
        return None
    pixels = pixels_of(data.spectrum, data.frame.z)
    unseen = [w.name for w in task.windows if pixels.coverage(w.range) < MIN_WINDOW_SEEN]
    if task.windows and len(task.windows) - len(unseen) < MIN_MEASURED_YES * len(task.windows):
        held = f"{len(task.windows) - len(unseen)} of the {len(task.windows)} key windows"
        return _unsure(f"good pixels lie in {held} (not in {', '.join(unseen[:3])})")
    for rule in task.undecidable:
        if _holds(rule, task, pixels):
            return _unsure(rule.says)
    return None


def _holds(rule: Undecidable, task: Task, pixels: Pixels) -> bool:
    """Whether all conditions do; measured one by one, since the first fails for most spectra."""
    indices, meter = task_indices(task), Meter(pixels)
    return all(fulfilled((c,), meter.measure((c.index,), indices)) > 0.5 for c in rule.given)


def _unsure(reason: str) -> Verdict:
    return Verdict(answer=Answer.UNSURE, reason=f"{reason}; no model was asked")
