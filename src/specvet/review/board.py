"""`Board`: votes as columns beside the listing's, for the filters and orders of the queue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specvet.review.assigning import assigned
from specvet.review.events import VERDICTS, Event
from specvet.review.listing import ANSWERS, Listing
from specvet.review.merging import merged
from specvet.review.votes import Votes

NO_VOTE = -1


class TaskBoard:
    """Of one task; arrays of shape (n,)."""

    def __init__(self, n: int) -> None:
        self.votes = np.zeros(n, np.int16)
        """How many people have a vote."""
        self.conflict = np.zeros(n, bool)
        """In conflict, and nobody has settled it."""
        self.flagged = np.zeros(n, bool)
        self._mine: dict[str, NDArray[np.int8]] = {}
        self._n = n

    def mine(self, reviewer: str | None) -> NDArray[np.int8]:
        """A reviewer's votes, as places in `VERDICTS`, or `NO_VOTE`."""
        if reviewer is None:
            return np.full(self._n, NO_VOTE, np.int8)
        if reviewer not in self._mine:
            self._mine[reviewer] = np.full(self._n, NO_VOTE, np.int8)
        return self._mine[reviewer]

    def put(self, i: int, votes: dict[str, Event]) -> None:
        """Note the current votes on one entry."""
        self.votes[i] = len(votes)
        self.flagged[i] = any(v.flagged for v in votes.values())
        self.conflict[i] = len(votes) > 1 and merged(list(votes.values())).standing == "conflict"
        for column in self._mine.values():
            column[i] = NO_VOTE
        for name, vote in votes.items():
            self.mine(name)[i] = VERDICTS.index(str(vote.verdict))


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
