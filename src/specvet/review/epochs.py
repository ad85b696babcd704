"""The object that a spectrum is of, as the page shows it: its epochs, who said what of each, and the combined verdict.

Votes stay with their spectra. What they amount to for the object follows the rule of the task, which is told with it;
who goes before whom about one epoch is as in the object table (`specvet.vetting.objects`): people, triage, the agent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.catalogue.objects import Vote, combine
from specvet.records.schema import Answer
from specvet.review.desk import Desk
from specvet.tasks import Task
from specvet.tasks.epochs import DEFAULT, RULES, Epochs
from specvet.vetting.objects import Decided, Said, vote_of

MOST_EPOCHS = 60
"""Listed around the one that is on."""

MOST_COMBINED = 500
"""Spectra of one star; more have a place in common that is none, such as 0, 0."""


def object_of(desk: Desk, item: str, task: Task, reviewer: str | None) -> dict[str, Any]:
    """What docs/review.md says of `/api/object`. While blind, nothing of epochs that this reviewer has not decided."""
    listing, grouped = desk.listing, desk.objects.grouped()
    place = listing.place[item]
    number = int(grouped.number[place])
    group, members = grouped.groups[number], grouped.members[number]
    about: dict[str, Any] = {"id": group.id, "gaia_id": group.gaia_id, "notes": list(group.notes), "n": len(members)}
    if len(members) == 1:
        return about | {"first": 0, "epochs": [], "combined": None}
    if crowd := len(members) > MOST_COMBINED:
        about["notes"].append(f"{len(members):,} spectra at one place are not combined; is the position right?")
    first = max(0, min(int(grouped.rank[place]) - MOST_EPOCHS // 2, len(members) - MOST_EPOCHS))
    shown = members[first : first + MOST_EPOCHS]
    asked = shown if crowd else members
    times = dict(zip(members, (s.mjd for s in group.members), strict=True))
    hidden = {i for i in asked if desk.hidden(listing.items[i], task.key, reviewer)}
    said = {i: None if i in hidden else _vote(desk, i, task.key, times[i]) for i in asked}
    epochs = [
        {
            "item": listing.items[i],
            "id": listing.ids[i],
            "mjd": times[i],
            "survey": listing.surveys[i],
            "snr": _known(listing.snr[i]),
            "says": None if (vote := said[i]) is None else str(vote.answer),
            "by": None if vote is None else vote.by,
            "mine": _mine(desk, listing.items[i], task.key, reviewer),
        }
        for i in shown
    ]
    votes = [vote for vote in said.values() if vote is not None]
    combined = None if crowd or hidden or not votes else _combined(votes, task.epochs)
    return about | {"first": first, "epochs": epochs, "combined": combined}


def _mine(desk: Desk, item: str, task: str, reviewer: str | None) -> str | None:
    vote = desk.votes(item, task).get(reviewer or "")
    return None if vote is None else vote.verdict


def _vote(desk: Desk, i: int, task: str, mjd: float | None) -> Vote | None:
    """What is said of one epoch by whoever has the most authority; None where nobody spoke."""
    listing = desk.listing
    key, snr = (listing.items[i], 0), _known(listing.snr[i])
    people, verdicts = desk.merged(listing.items[i], task), listing.verdicts.get(task)
    person = None
    if people.standing != "none":
        person = Decided(Answer(people.verdict or "UNSURE"), people.likelier or "")
    word = None if verdicts is None else verdicts.word(i)
    if verdicts is None or word is None:
        return vote_of(key, None, None, person, snr=snr, mjd=mjd)
    policy = Said(Answer(word), _known(verdicts.p[i]), verdicts.likelier[i])
    return vote_of(key, policy, verdicts.band_word(i), person, snr=snr, mjd=mjd)


def _combined(votes: list[Vote], rule: Epochs | None) -> dict[str, Any]:
    found, used = combine(votes, rule), rule or DEFAULT
    return {
        "answer": str(found.answer),
        "p": None if found.p_yes is None else round(found.p_yes, 4),
        "reason": found.reason,
        "conflict": found.conflict,
        "likelier": found.likelier,
        "by": found.by,
        "rule": found.rule,
        "says": RULES[used.rule],
        "why": used.why,
    }


def _known(value: np.floating[Any]) -> float | None:
    return float(value) if np.isfinite(value) else None
