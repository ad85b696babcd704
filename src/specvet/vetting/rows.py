"""What a decision row says: about a spectrum that was vetted, and about an entry that could not be."""

from __future__ import annotations

import math
from typing import Any

from specvet.data.files import failure, printable
from specvet.records import WHOLE_FILE, Decision
from specvet.records.schema import Answer, TrajectoryRecord, Verdict
from specvet.spectra import Frame, Spectrum
from specvet.vetting.items import Item

_LARGEST_ROW = 2**62
_LONGEST_REASON = 600


def asked_row(item: Item) -> int | None:
    """The row that an entry asks for; None for all, and for a number that no file can have."""
    return item.row if item.row is not None and abs(item.row) < _LARGEST_ROW else None


def error_id(item: Item) -> str:
    """What tells an entry of an unreadable file from the others: the user's id, else the identifiers, else nothing."""
    return printable(item.id or selection(item))


def selection(item: Item) -> str:
    """The identifiers that select targets, as text; empty where an entry asks for the whole file."""
    return printable(" ".join(f"{name}={value}" for name, value in item.ids))


def error_row(item: Item, row: int, reason: str) -> Decision:
    """An ERROR row: the file, or one row of it, cannot be vetted for any task."""
    return Decision(
        file=printable(item.file),
        row=row,
        task=WHOLE_FILE,
        id=error_id(item),
        ra=item.ra,
        dec=item.dec,
        ids={"gaia_dr3": item.gaia} if item.gaia else {},
        verdict=Verdict(answer=Answer.ERROR, reason=one_line(reason)),
    )


def description(item: Item, spectrum: Spectrum, frame: Frame) -> dict[str, Any]:
    """The fields of a `Decision` that all tasks share; what the user's list says goes before what the file says."""
    fields = {
        "file": item.file,
        "row": spectrum.row,
        "id": item.id or spectrum.id,
        "survey": spectrum.survey,
        "layout": spectrum.layout,
        "n_pix": spectrum.n_pix,
        "wave_min": _finite(spectrum.wave_min),
        "wave_max": _finite(spectrum.wave_max),
        "medium": spectrum.medium,
        "snr": _finite(spectrum.snr),
        "ra": _finite(spectrum.ra if item.ra is None else item.ra),
        "dec": _finite(spectrum.dec if item.dec is None else item.dec),
        "z": frame.z if frame.name == "rest" else None,
        "z_file": _finite(spectrum.redshift.value),
        "frame": frame.text,
        "pipeline_class": " ".join(c for c in (spectrum.pipeline_class, spectrum.pipeline_subclass) if c),
        "mjd": _finite(spectrum.mjd),
        "release": spectrum.release,
        "reduction": spectrum.reduction,
        "n_exposures": spectrum.n_exposures,
    }
    ids = {printable(name): printable(value) for name, value in spectrum.ids.items()}
    ids |= {"gaia_dr3": item.gaia} if item.gaia else {}
    warnings = tuple(printable(w) for w in spectrum.warnings)
    return {
        **{k: printable(v) if isinstance(v, str) else v for k, v in fields.items()},
        "ids": ids,
        "warnings": warnings,
    }


def is_users_z(frame: str) -> bool:
    """Whether the words of a frame (`Frame.text`) say that its redshift was the user's own."""
    return frame.endswith("given by the user)")


def decided(described: dict[str, Any], task: str, outcome: TrajectoryRecord | Exception) -> Decision:
    """The row for one task; an exception becomes a FAILED verdict that names it."""
    if isinstance(outcome, Exception):
        verdict = Verdict(answer=Answer.FAILED, reason=one_line(f"deciding failed: {failure(outcome)}"))
        return Decision(**described, task=task, verdict=verdict)
    return Decision(**described, task=task, verdict=outcome.verdict, trajectory=outcome)


def rated(decision: Decision) -> Decision:
    """A model's YES or NO with the probability of the word that it gave, read from its ledger: raw, not calibrated.

    The trajectory keeps the verdict as it was said. Any other decision is returned as it is.
    """
    record, verdict = decision.trajectory, decision.verdict
    if record is None or record.ledger is None or verdict.answer not in (Answer.YES, Answer.NO):
        return decision
    # Imported here, since it loads tokenizers, which measuring does not need.
    from specvet.agent.readings import p_yes_of
    from specvet.chat import LedgerError

    try:
        p = p_yes_of(record)
    except LedgerError:
        return decision
    if p is None:
        return decision
    confidence = p if verdict.answer is Answer.YES else 1.0 - p
    return decision.model_copy(
        update={"verdict": verdict.model_copy(update={"p_yes": round(p, 6), "confidence": round(confidence, 6)})}
    )


def one_line(text: str) -> str:
    """`text` on one line and not endless."""
    line = " ".join(printable(text).split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
