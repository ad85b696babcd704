"""What the agent said of one spectrum, as the page shows it: its looks, words, measurements and checked claims."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from specvet.records import WHOLE_FILE, Decision, RunFolder
from specvet.records.schema import Answer, EvidenceItem, Measurement, TrajectoryRecord
from specvet.review.listing import Listing
from specvet.review.spectra import Spectra, UnreadableError
from specvet.tasks import Task, TaskError

if TYPE_CHECKING:
    from specvet.vetting.claims import Claim

_KEPT = 512


class EvidenceReader:
    """Evidence of a listing's entries, read when it is asked for. Any thread may use it."""

    def __init__(self, listing: Listing, spectra: Spectra) -> None:
        self._listing, self._spectra = listing, spectra
        self._lock = threading.Lock()
        self._run = RunFolder.read(listing.run) if listing.run is not None else None
        self._kept: OrderedDict[tuple[int, str], dict[str, Any]] = OrderedDict()

    def of(self, i: int, task: Task) -> dict[str, Any]:
        """What docs/review.md says of `/api/evidence`; without an agent nothing but nulls."""
        with self._lock:
            key = (i, task.key)
            if key not in self._kept:
                self._kept[key] = self._made(i, task)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

    def close(self) -> None:
        if self._run is not None:
            self._run.close()

    def _made(self, i: int, task: Task) -> dict[str, Any]:
        decision = self._decision(i, task.key)
        if decision is None:
            return {"verdict": None, "p": None, "confidence": None, "band": None, "reason": "", "steps": []}
        from specvet.vetting.claims import check_decision  # takes a while to load, and no start waits for it

        verdicts = self._listing.verdicts[task.key]
        p = float(verdicts.p[i])
        claims: tuple[Claim, ...] = ()
        if decision.trajectory is not None:
            with suppress(UnreadableError, TaskError):
                claims = check_decision(decision, self._spectra.spectrum(i), task)
        verdict = decision.verdict
        return {
            "verdict": str(verdict.answer),
            "p": None if math.isnan(p) else round(p, 4),
            "confidence": verdict.confidence,
            "band": verdicts.band_word(i),
            "calibrated": verdicts.calibrated and verdicts.band_word(i) is not None,  # rows since triage are not
            "reason": verdict.reason,
            "likelier": verdict.likelier_class,
            "policy": decision.trajectory.policy if decision.trajectory else None,
            "stop": str(decision.trajectory.stop) if decision.trajectory else "unreadable",
            "frame": decision.frame,
            "z": decision.z or 0.0,
            "warnings": list(decision.warnings),
            "steps": _steps(decision, task, claims),
            "contrary": [_measured(e) for e in verdict.evidence if _speaks_against(e, verdict.answer)],
            "samples_differ": bool(verdicts.samples_differ[i]),
        }

    def _decision(self, i: int, task: str) -> Decision | None:
        if self._run is None:
            return None
        return self._run.decision(self._listing.files[i], self._listing.rows[i], (task, WHOLE_FILE))


def _steps(decision: Decision, task: Task, claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """One a turn, and one for what was measured or claimed in none of them."""
    trajectory = decision.trajectory
    if trajectory is None:
        return []
    items: list[EvidenceItem | Measurement] = list(decision.verdict.evidence)
    known = {e.measurement.index for e in decision.verdict.evidence}
    items += [m for m in trajectory.measurements if m.index not in known]
    homes = [_home(item, trajectory, task) for item in items]
    steps: list[dict[str, Any]] = []
    for n, turn in enumerate(trajectory.turns, start=1):
        seen = turn.observation
        steps.append(
            {
                "n": n,
                "kind": turn.action.kind,
                "text": turn.action.text or (decision.verdict.reason if turn.action.kind == "answer" else ""),
                "window": list(seen.window) if seen is not None and seen.window else _asked(turn.action.arguments),
                "trouble": "" if seen is None or seen.kind == "view" else seen.text,
                "claims": [_claim(c) for c in claims if c.turn == n],
                "measured": [_measured(item) for item, home in zip(items, homes, strict=True) if home == n],
            }
        )
    rest = [_measured(item) for item, home in zip(items, homes, strict=True) if home == 0]
    if rest:
        steps.append(
            {"n": len(steps) + 1, "kind": "measured", "text": "", "window": None, "trouble": "", "claims": []}
            | {"measured": rest}
        )
    return steps


def _asked(arguments: dict[str, Any] | None) -> list[float] | None:
    """The window of a call that gave no view."""
    window = (arguments or {}).get("wavelength_range")
    with suppress(TypeError, ValueError):
        low, high = (float(x) for x in window)  # type: ignore[union-attr]
        if low < high < float("inf"):
            return [low, high]
    return None


def _home(item: EvidenceItem | Measurement, trajectory: TrajectoryRecord, task: Task) -> int:
    """Number of the turn whose window a measurement belongs to, the narrowest that holds it; 0 for none."""
    place = (item.measurement if isinstance(item, EvidenceItem) else item).window
    if place is None and isinstance(item, EvidenceItem):
        place = next((w.range for w in task.windows if w.key == item.window), None)
    if place is None:
        return 0
    middle = (place[0] + place[1]) / 2
    looks = [(t.observation.window, n) for n, t in enumerate(trajectory.turns, 1) if t.observation is not None]
    holding = [(w[1] - w[0], n) for w, n in looks if w is not None and w[0] <= middle <= w[1]]
    return min(holding)[1] if holding else 0


def _measured(item: EvidenceItem | Measurement) -> dict[str, Any]:
    m = item.measurement if isinstance(item, EvidenceItem) else item
    said = {"says": item.says, "log_odds": item.log_odds} if isinstance(item, EvidenceItem) else {"says": ""}
    return {
        "name": m.name,
        "value": m.value,
        "error": m.error,
        "unit": m.unit,
        "window": list(m.window) if m.window else None,
        "note": m.note,
        **said,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    measured = None if claim.measured is None else _measured(claim.measured)
    return claim.as_dict() | {"measured": measured}


def _speaks_against(item: EvidenceItem, answer: Answer) -> bool:
    return (answer == Answer.YES and item.log_odds < 0) or (answer == Answer.NO and item.log_odds > 0)


def finite(value: Any) -> Any:
    """As JSON can hold it: NaN and infinities become null."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)
