"""What people decided of the spectra of a run, as the votes that the table of objects counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specvet.records.schema import Answer
from specvet.review.merging import merged
from specvet.vetting.objects import Decided

if TYPE_CHECKING:
    from specvet.review.desk import Desk
    from specvet.vetting.triage.cases import Place


def decided(desk: Desk) -> dict[Place, Decided]:
    """(file, row, task) → what the votes amount to; UNSURE while people are in conflict. Only what has a vote."""
    listing = desk.listing
    found: dict[Place, Decided] = {}
    for task in listing.tasks:
        for item, votes in desk.voted(task.key).items():
            if votes and item in listing.place:
                i, said = listing.place[item], merged(list(votes.values()))
                answer = Answer(said.verdict) if said.verdict else Answer.UNSURE
                found[listing.files[i], listing.rows[i], task.key] = Decided(answer, said.likelier or "")
    return found
