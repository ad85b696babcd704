"""Decisions and trajectories to put into runs."""

from __future__ import annotations

from specvet.records import WHOLE_FILE, Decision, text_hash
from specvet.records.schema import (
    ActionRecord,
    Answer,
    ObservationRecord,
    Question,
    SpectrumRef,
    StopReason,
    TrajectoryRecord,
    TurnRecord,
    Verdict,
)


def trajectory(file: str, row: int = 0, task: str = "cv", says: str = "Hα is broad") -> TrajectoryRecord:
    """One look at Hα, then YES."""
    verdict = Verdict(answer=Answer.YES, confidence=0.9, p_yes=0.9, reason=says)
    seen = ObservationRecord(kind="view", text="Hα", window=(6400.0, 6700.0), n_points=300, view_hash="ab" * 32)
    call = ActionRecord(kind="call", tool="zoom", arguments={"wavelength_range": [6400, 6700]}, text="Look at Hα.")
    return TrajectoryRecord(
        question=Question(id=f"{file}#{row}/{task}", task=task, spectrum=SpectrumRef(path=file, row=row)),
        policy="test",
        task_hash="cd" * 32,
        spectrum_hash=text_hash(f"{file}#{row}"),
        opening=seen.model_copy(update={"text": "everything"}),
        turns=(
            TurnRecord(action=call, observation=seen, seconds=0.1),
            TurnRecord(action=ActionRecord(kind="answer", text=says), seconds=0.2),
        ),
        stop=StopReason.ANSWERED,
        verdict=verdict,
        seconds=0.3,
        started="2026-01-01T00:00:00.000+00:00",
    )


def decision(file: str = "a.fits", row: int = 0, task: str = "cv", says: str = "Hα is broad") -> Decision:
    """A YES with its trajectory."""
    t = trajectory(file, row, task, says)
    return Decision(file=file, row=row, task=task, id=f"star {file}", verdict=t.verdict, snr=12.5, trajectory=t)


def error(file: str = "gone.fits", row: int = 0, id: str = "") -> Decision:
    """A file that could not be read."""
    verdict = Verdict(answer=Answer.ERROR, reason=f"{file}: no such file")
    return Decision(file=file, row=row, task=WHOLE_FILE, id=id, verdict=verdict)
