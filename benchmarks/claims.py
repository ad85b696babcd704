"""How well claims are checked: the teacher's own words (true), the same turned round (false), and the time it takes.

    python benchmarks/claims.py [--rows 300] [--json]

Demonstrations of the teacher about SIMULATED spectra, in both voices. What it says was measured, so that its claims
should be supported. Then each supported claim is said the other way: a line in emission as one in absorption, a band
that is there as none, a number three times as large. Those should be contradicted, as far as noise allows. Milliseconds
are CPU time of one trajectory with its measuring. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from typing import Any, get_args

from specvet.data.teacher import Taught, VoiceName
from specvet.data.trajectories_making import Settings, taught_at
from specvet.records.schema import ActionRecord, ObservationRecord, StopReason, TrajectoryRecord, TurnRecord, Verdict
from specvet.vetting.claims import Claim, check_claims


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300, help="demonstrations of each voice")
    parser.add_argument("--json", action="store_true", help="only the JSON line")
    options = parser.parse_args()
    result: dict[str, Any] = {"rows": options.rows}
    for voice in get_args(VoiceName):
        result[voice] = measured(voice, options.rows)
        if not options.json:
            print(voice, json.dumps(result[voice], indent=2))
    print(json.dumps(result))
    return 0


def measured(voice: VoiceName, rows: int) -> dict[str, Any]:
    true: Counter[str] = Counter()
    false: Counter[str] = Counter()
    by_kind: dict[str, Counter[str]] = {}
    seconds = 0.0
    settings = Settings(voice=voice, picture_size="tiny")
    for number in range(rows):
        taught, _, _ = taught_at(number, settings)
        record = recorded(taught)
        tick = time.process_time()
        claims = check_claims(record, taught.tool.spectrum, taught.task, taught.tool.frame.z)
        seconds += time.process_time() - tick
        true.update(claim.state for claim in claims)
        sentences = [(claim.says, said) for claim in claims if claim.state == "supported" and (said := turned(claim))]
        for says, sentence in sentences:
            found = check_claims(saying(record, sentence), taught.tool.spectrum, taught.task, taught.tool.frame.z)
            state = found[0].state if found else "not read"
            false[state] += 1
            by_kind.setdefault(says, Counter())[state] += 1
    return {
        "claims_a_trajectory": round(sum(true.values()) / rows, 1),
        "as_said": shares(true),
        "turned_round": shares(false),
        "turned_round_by_kind": {says: shares(counts) for says, counts in sorted(by_kind.items())},
        "ms_a_trajectory": round(1e3 * seconds / rows, 2),
    }


def shares(counts: Counter[str]) -> dict[str, float]:
    total = sum(counts.values())
    return {"n": total} | {state: round(n / total, 4) for state, n in sorted(counts.items())}


def turned(claim: Claim) -> str:
    """The claim said the other way; empty for one that has no other way."""
    name = claim.feature
    band = claim.measured is not None and not claim.measured.unit
    if claim.says == "emission":
        return f"{name} is in absorption."
    if claim.says == "absorption":
        return f"{name} is in emission."
    if claim.says in ("present", "strong") and band:
        return f"No {name} band."
    if claim.says == "absent":
        return f"{name} is strong."
    if claim.says in ("no emission", "narrow", "broad"):
        other = {"no emission": "in emission", "narrow": "broad", "broad": "narrow"}[claim.says]
        return f"{name} is {other}."
    if claim.says == "value" and claim.stated and claim.unit in ("Å", "km/s"):
        return f"{name} {'EW' if claim.unit == 'Å' else 'FWHM'} {3.0 * claim.stated:.1f} {claim.unit}."
    return ""


def recorded(taught: Taught) -> TrajectoryRecord:
    """A demonstration as a run keeps a trajectory."""
    turns = []
    for turn in taught.turns:
        if turn.observation is None or turn.arguments is None:
            turns.append(TurnRecord(action=ActionRecord(kind="answer", text=turn.thought), seconds=0.0))
            continue
        low, high = sorted(map(float, turn.arguments["wavelength_range"]))
        seen = turn.observation
        shown = ObservationRecord(kind=seen.kind, text=seen.text, window=(low, high) if seen.ok else None)
        call = ActionRecord(kind="call", tool=taught.tool.name, arguments=dict(turn.arguments), text=turn.thought)
        turns.append(TurnRecord(action=call, observation=shown, seconds=0.0))
    assert taught.question.answer is not None
    reason = re.sub(r"</?answer>|\\boxed\{\w+\}", "", taught.answer).strip()
    return TrajectoryRecord(
        question=taught.question,
        policy="teacher",
        task_hash="",
        spectrum_hash=None,
        opening=ObservationRecord(kind="view", text=taught.opening.text, frame=taught.tool.frame.text),
        turns=tuple(turns),
        stop=StopReason.ANSWERED,
        verdict=Verdict.model_validate({"answer": taught.question.answer, "reason": reason}),
        seconds=0.0,
        started="",
    )


def saying(record: TrajectoryRecord, sentence: str) -> TrajectoryRecord:
    """The same trajectory with one thought, and no other words."""
    turn = TurnRecord(action=ActionRecord(kind="answer", text=sentence), seconds=0.0)
    verdict = record.verdict.model_copy(update={"reason": ""})
    return record.model_copy(update={"turns": (turn,), "verdict": verdict})


if __name__ == "__main__":
    raise SystemExit(main())
