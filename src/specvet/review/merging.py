"""When votes are in conflict, and what they amount to: the rules of DESI's visual inspection, for votes on a class.

DESI merges redshifts and qualities of two inspectors and hands to a third what differs too much (Lan et al. 2023, ApJ
943, 68, section 3.3; Alexander et al. 2023, AJ 165, 124): qualities by 2 or more, redshifts by |Δz|/(1+z) ≥ 0.0033,
spectral types at all. Here the type is the verdict with the likelier class of a NO.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from specvet.review.events import Event

QUALITY_RANGE = 2

DZ = 0.0033

Standing = Literal["none", "single", "agreed", "conflict", "settled"]


@dataclass(frozen=True, slots=True)
class Merged:
    """What the votes on one spectrum and task amount to."""

    standing: Standing
    """`single`: one vote; `agreed`: two or more without conflict; `settled`: a third look decided a conflict."""
    n: int
    """Votes, a third look included."""
    verdict: str | None
    """None in conflict and without a vote."""
    quality: float | None
    """The mean of those who agree; of the third look alone where it settled."""
    z: float | None
    """The mean, as far as redshifts agree."""
    likelier: str | None
    issues: str
    comment: str
    """Of all, each with its author where there are several."""
    flagged: bool
    reviewers: tuple[str, ...]
    why: str = ""
    """What the conflict is about."""


def conflict(votes: Collection[Event]) -> str:
    """What a set of votes (none of them a third look) disagrees about, in words; empty where they agree."""
    if len(votes) < 2:
        return ""
    found = []
    verdicts = {v.verdict for v in votes}
    if len(verdicts) > 1:
        found.append("verdict: " + ", ".join(sorted(map(str, verdicts))))
    classes = {_plain(v.likelier) for v in votes if v.likelier}
    if len(classes) > 1:
        found.append("class: " + ", ".join(sorted(classes)))
    qualities = [v.quality for v in votes if v.quality is not None]
    if qualities and max(qualities) - min(qualities) >= QUALITY_RANGE:
        found.append(f"quality: {min(qualities)} and {max(qualities)}")
    redshifts = [v.z for v in votes if v.z is not None]
    if redshifts and (max(redshifts) - min(redshifts)) / (1.0 + min(redshifts)) >= DZ:
        found.append(f"redshift: {min(redshifts):.4f} and {max(redshifts):.4f}")
    return "; ".join(found)


def merged(votes: Sequence[Event]) -> Merged:
    """What the current votes on one spectrum and task amount to, one vote a reviewer."""
    first = [v for v in votes if not v.third]
    thirds = sorted((v for v in votes if v.third), key=lambda v: v.n)
    # A third look that no longer settles anything, since a vote was taken back, is a vote like others.
    while thirds and not conflict(first):
        first.append(thirds.pop(0))
    why = conflict(first)
    standing: Standing
    if not votes:
        standing = "none"
    elif why:
        standing = "settled" if thirds else "conflict"
    else:
        standing = "single" if len(votes) == 1 else "agreed"
    decisive = [thirds[-1]] if standing == "settled" else list(votes) if not why else []
    qualities = [v.quality for v in decisive if v.quality is not None]
    redshifts = [v.z for v in decisive if v.z is not None]
    comments = [(v.reviewer, v.comment) for v in votes if v.comment]
    return Merged(
        standing,
        n=len(votes),
        verdict=decisive[0].verdict if decisive else None,
        quality=fmean(qualities) if qualities else None,
        z=fmean(redshifts) if redshifts else None,
        likelier=next((v.likelier for v in decisive if v.likelier), None),
        issues="".join(letter for letter in "RCS" if any(letter in v.issues for v in votes)),
        comment="; ".join(f"{who}: {text}" if len(votes) > 1 else text for who, text in comments),
        flagged=any(v.flagged for v in votes),
        reviewers=tuple(v.reviewer for v in votes),
        why=why,
    )


def _plain(name: str | None) -> str:
    return " ".join((name or "").casefold().split())
