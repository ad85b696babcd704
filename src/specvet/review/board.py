"""`Board`: votes as columns beside the listing's, for the filters and orders of the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from specvet.review.assigning import assigned
from specvet.review.events import VERDICTS, Event
from specvet.review.listing import ANSWERS, Listing
from specvet.review.merging import Standing, merged
from specvet.review.votes import Votes

NO_VOTE = -1

STANDINGS: tuple[str, ...] = get_args(Standing)
"""`Ballots.standing` holds places in this tuple."""


@dataclass(frozen=True)
class Ballots:
    """The votes on one task's entries that have any, in the listing's order, at one moment."""

    places: NDArray[np.intp]
    """Of the entries in the listing, shape (n,)."""
    reviewers: tuple[str, ...]
    """Those with any vote here, by name."""
    votes: NDArray[np.int8]
    """Places in `VERDICTS`, or `NO_VOTE`; shape (n, reviewers)."""
    flagged: NDArray[np.bool_]
    """As `votes`."""
    third: NDArray[np.bool_]
    """Which of them are third looks, as `votes`."""
    standing: NDArray[np.int8]
    """Places in `STANDINGS`, shape (n,)."""
    verdict: NDArray[np.int8]
    """What they amount to, in `VERDICTS`, or `NO_VOTE`; shape (n,)."""


class _Column:
    """One reviewer's votes; arrays of shape (n,)."""

    def __init__(self, n: int) -> None:
        self.votes = np.full(n, NO_VOTE, np.int8)
        self.flagged = np.zeros(n, bool)
        self.third = np.zeros(n, bool)


class TaskBoard:
    """Of one task; arrays of shape (n,)."""

    def __init__(self, n: int) -> None:
        self.votes = np.zeros(n, np.int16)
        """How many people have a vote."""
        self.conflict = np.zeros(n, bool)
        """In conflict, and nobody has settled it."""
        self.flagged = np.zeros(n, bool)
        self._standing = np.full(n, STANDINGS.index("none"), np.int8)
        self._verdict = np.full(n, NO_VOTE, np.int8)
        self._columns: dict[str, _Column] = {}
        self._n = n

    def mine(self, reviewer: str | None) -> NDArray[np.int8]:
        """A reviewer's votes, as places in `VERDICTS`, or `NO_VOTE`."""
        if reviewer is None or reviewer not in self._columns:
            return np.full(self._n, NO_VOTE, np.int8)
        return self._columns[reviewer].votes

    def put(self, i: int, votes: dict[str, Event]) -> None:
        """Note the current votes on one entry."""
        found = merged(list(votes.values()))
        self.votes[i] = len(votes)
        self.flagged[i] = found.flagged
        self.conflict[i] = found.standing == "conflict"
        self._standing[i] = STANDINGS.index(found.standing)
        self._verdict[i] = NO_VOTE if found.verdict is None else VERDICTS.index(found.verdict)
        for column in self._columns.values():
            column.votes[i], column.flagged[i], column.third[i] = NO_VOTE, False, False
        for name, vote in votes.items():
            if name not in self._columns:
                self._columns[name] = _Column(self._n)
            column = self._columns[name]
            column.votes[i] = VERDICTS.index(str(vote.verdict))
            column.flagged[i], column.third[i] = vote.flagged, vote.third

    def ballots(self) -> Ballots:
        """A copy of all votes, which no later vote changes."""
        places = np.flatnonzero(self.votes)
        names = tuple(sorted(name for name, c in self._columns.items() if (c.votes != NO_VOTE).any()))

        def table(of: Callable[[_Column], NDArray[Any]], kind: type) -> NDArray[Any]:
            out: NDArray[Any] = np.zeros((len(places), len(names)), kind)
            for k, name in enumerate(names):
                out[:, k] = of(self._columns[name])[places]
            return out

        return Ballots(
            places,
            names,
            table(lambda c: c.votes, np.int8),
            table(lambda c: c.flagged, np.bool_),
            table(lambda c: c.third, np.bool_),
            self._standing[places],
            self._verdict[places],
        )


class Board:
    """Votes of all tasks of a listing."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._tasks = {t.key: TaskBoard(len(listing)) for t in listing.tasks}
        self._assigned: tuple[int, dict[str, NDArray[np.bool_]]] = (0, {})
        self.changes = 0
        """Rises with every event, for those who keep what follows from the board."""

    def task(self, key: str) -> TaskBoard:
        return self._tasks[key]

    def fill(self, votes: Votes) -> None:
        """Note all votes there are."""
        for key, board in self._tasks.items():
            for item, those in votes.voted(key).items():
                if (i := self._listing.place.get(item)) is not None:
                    board.put(i, those)
        self.changes += 1

    def update(self, event: Event, votes: Votes) -> None:
        """Note what an event changed, which `votes` has taken in already."""
        self.changes += 1
        place = self._listing.place.get(event.item)
        if place is not None and event.task in self._tasks:
            self._tasks[event.task].put(place, votes.of(event.item, event.task))

    def assigned_to(self, reviewer: str | None, assignment: Event | None) -> NDArray[np.bool_]:
        """Which entries are a reviewer's; all of them where nothing was assigned."""
        if assignment is None:
            return np.ones(len(self._listing), bool)
        number, masks = self._assigned
        if number != assignment.n:
            chosen = assigned(self._listing.items, assignment.reviewers, assignment.each or 1, assignment.seed)
            masks = {name: chosen[:, k] for k, name in enumerate(assignment.reviewers)}
            self._assigned = (assignment.n, masks)
        return masks.get(reviewer or "", np.zeros(len(self._listing), bool))

    def against_agent(self, key: str, reviewer: str | None) -> NDArray[np.bool_]:
        """Where a reviewer said YES to the agent's NO, or the other way round."""
        n = len(self._listing)
        verdicts = self._listing.verdicts.get(key)
        if verdicts is None:
            return np.zeros(n, bool)
        mine = self.task(key).mine(reviewer)
        yes, no = VERDICTS.index("YES"), VERDICTS.index("NO")
        said_yes, said_no = verdicts.answer == ANSWERS.index("YES"), verdicts.answer == ANSWERS.index("NO")
        against: NDArray[np.bool_] = ((mine == yes) & said_no) | ((mine == no) & said_yes)
        return against
