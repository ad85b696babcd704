"""`Desk`: a listing, its store, and what has been decided; the only place where events are made.

Any thread may use it. Before it answers or writes it takes in what other servers wrote into the same store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specvet.review.assigning import assigned
from specvet.review.board import Ballots, Board
from specvet.review.events import Draft, Event, reviewer_name
from specvet.review.listing import Listing
from specvet.review.merging import Merged, merged
from specvet.review.objects import Objects
from specvet.review.queue import Filter, Queue
from specvet.review.store import Store, StoreError, Writing
from specvet.review.votes import Votes


class DeskError(ValueError):
    """A decision that cannot be taken; `status` is that of the answer."""

    def __init__(self, message: str, remedy: str, status: int = 422) -> None:
        super().__init__(message)
        self.remedy, self.status = remedy, status


COPY_IT = "copy the store where it can be written, and give the copy to --store"


@dataclass(frozen=True, slots=True)
class Written:
    """An event that is on disk."""

    event: Event
    new: bool
    """False where the same had been sent before."""


class Desk:
    """Who opens it closes its store."""

    def __init__(self, listing: Listing, store: Store, *, blind: bool = False) -> None:
        """Raises `StoreError` where the store is about other spectra."""
        self.listing, self.store, self.blind = listing, store, blind
        self._lock = threading.RLock()
        events = store.since(0)
        self._votes = Votes(events)
        about = {e.item for e in events if e.item}
        if about and not any(item in listing.place for item in about):
            raise StoreError(
                f"{store.name}: holds decisions about {len(about):,} other spectra and none about these; "
                "give another --store"
            )
        self._board = Board(listing)
        self._board.fill(self._votes)
        self.objects = Objects(listing)
        self._queue = Queue(listing, self._board, self._votes, self.objects, blind=blind)
        self.elsewhere = sum(item not in listing.place for item in about)
        """Spectra that the store knows and this listing does not."""

    # --- asking

    def reviewers(self) -> dict[str, int]:
        """Who has decided or was assigned anything, and how many votes each has."""
        with self._lock:
            self._catch_up()
            return dict(self._votes.reviewers)

    def spelling(self, name: str) -> str:
        """A reviewer's name as the store has it, whatever the case of its letters; a new name as it is."""
        known = {other.casefold(): other for other in self.reviewers()}
        return known.get(name.casefold(), name)

    def assignment(self) -> Event | None:
        with self._lock:
            self._catch_up()
            return self._votes.assignment

    def page(
        self, task: str, order: str, wanted: Filter, reviewer: str | None, offset: int, limit: int
    ) -> dict[str, Any]:
        """A stretch of the queue, and how long it is."""
        self._need_objects(order, wanted)
        with self._lock:
            self._catch_up()
            found = self._queue.entries(task, order, wanted, reviewer)
            rows = [self._queue.row(int(i), task, reviewer) for i in found[offset : offset + limit]]
            return {
                "total": len(found),
                "reviewed": self._queue.reviewed(task, reviewer),
                "order": self._queue.order_word(order),
                "offset": offset,
                "rows": rows,
            }

    def after(
        self, task: str, order: str, wanted: Filter, reviewer: str | None, item: str | None, n: int, back: bool
    ) -> tuple[list[str], int]:
        """The items that come next, and how many are left; see `Queue.after`."""
        self._need_objects(order, wanted)
        with self._lock:
            self._catch_up()
            return self._queue.after(task, order, wanted, reviewer, item, n, back)

    def hidden(self, item: str, task: str, reviewer: str | None) -> bool:
        """Whether a blind review still hides the agent's answer, and what others said, from this reviewer."""
        if not self.blind:
            return False
        with self._lock:
            self._catch_up()
            return reviewer is None or reviewer not in self._votes.of(item, task)

    def votes(self, item: str, task: str) -> dict[str, Event]:
        with self._lock:
            self._catch_up()
            return self._votes.of(item, task)

    def history(self, item: str, task: str) -> list[Event]:
        with self._lock:
            self._catch_up()
            return self._votes.history(item, task)

    def merged(self, item: str, task: str) -> Merged:
        with self._lock:
            self._catch_up()
            return merged(list(self._votes.of(item, task).values()))

    def voted(self, task: str) -> dict[str, dict[str, Event]]:
        """Item → reviewer → vote, of every item of this listing with any vote, in the listing's order."""
        with self._lock:
            self._catch_up()
            found = self._votes.voted(task)
        return {item: found[item] for item in sorted(found.keys() & self.listing.place.keys(), key=self._place)}

    def ballots(self, task: str) -> Ballots:
        """All votes of a task as arrays, taken at one moment; whoever counts them keeps nobody waiting."""
        with self._lock:
            self._catch_up()
            return self._board.task(task).ballots()

    # --- writing

    def decide(self, reviewer: str, draft: Draft) -> Written:
        """Write a decision; on disk when this returns. Raises `DeskError`, `StoreError`."""
        place = self.listing.place.get(draft.item)
        if place is None:
            raise DeskError(f"no item {draft.item}", "reload the page", 404)
        if self.listing.task(draft.task) is None:
            raise DeskError(f"no task {draft.task!r} here", "reload the page", 404)
        event = Event(
            kind="decision",
            reviewer=reviewer,
            file=self.listing.files[place],
            row=self.listing.rows[place],
            id=self.listing.ids[place],
            agent=self._agent(place, draft.task),
            **draft.model_dump(),
        )

        def complete(event: Event) -> Event:
            others = self._votes.of(draft.item, draft.task)
            mine = others.pop(reviewer, None)
            settles = merged(list(others.values())).standing == "conflict" and (mine is None or mine.third)
            return event.model_copy(update={"third": settles or (mine is not None and mine.third)})

        return self._write(event, complete)

    def undo(self, reviewer: str, key: str, task: str, item: str | None = None) -> tuple[Written, Event]:
        """Take back a reviewer's newest decision of a task (of an item); the undo, and what it took back."""
        if self.listing.task(task) is None:
            raise DeskError(f"no task {task!r} here", "reload the page", 404)

        def complete(event: Event) -> Event:
            newest = self._votes.newest(reviewer, task, item, self.listing.place)
            if newest is None:
                raise DeskError("there is nothing to take back", "decide something first", 409)
            about = {f: getattr(newest, f) for f in ("item", "file", "row", "id")}
            return event.model_copy(update={"undoes": newest.n, **about})

        event = Event(key=key, kind="undo", reviewer=reviewer, task=task, item=item or "")
        written = self._write(event, complete)
        undone = self._votes.decision(written.event.undoes or 0)
        assert undone is not None
        return written, undone

    def assign(self, by: str, key: str, reviewers: Sequence[str], each: int, seed: int = 0) -> Written:
        """From now on every item goes to `each` of `reviewers`. Raises `DeskError`."""
        try:
            names = tuple(dict.fromkeys(self.spelling(reviewer_name(name)) for name in reviewers))
            assigned((), names, each, seed)
        except ValueError as e:
            raise DeskError(str(e), "give other reviewers, or another number of them for each item") from e
        event = Event(key=key, kind="assignment", reviewer=by, reviewers=names, each=each, seed=seed)
        return self._write(event, lambda e: e)

    def take_in(self, events: Iterable[Event]) -> int:
        """Write decisions that were made elsewhere (an imported file), all or none; how many were new.

        One that is here already, imported before or made here and exported, is not written again.
        """
        with self._lock:

            def do(store: Writing) -> list[Event]:
                self._catch_up(store)
                fresh = {(e.reviewer, e.key): e for e in events if not self._known(e)}
                return [store.insert(event) for event in fresh.values()]

            made = self.store.write(do)
            for event in made:
                self._take(event)
            return len(made)

    # --- inside

    def _need_objects(self, order: str, wanted: Filter) -> None:
        """Grouped before the lock is taken, since that may last for seconds."""
        if order == "object" or wanted.several:
            self.objects.grouped()

    def _known(self, event: Event) -> bool:
        return self._votes.with_key(event.reviewer, event.key) is not None or self._votes.holds(event)

    def _write(self, event: Event, complete: Callable[[Event], Event]) -> Written:
        if self.store.readonly:
            raise DeskError(f"nothing can be decided: {self.store.name} can only be read", COPY_IT, 403)
        with self._lock:
            existing: list[Event] = []

            def do(store: Writing) -> Event:
                self._catch_up(store)
                before = self._votes.with_key(event.reviewer, event.key)
                if before is not None:
                    existing.append(before)
                    return before
                return store.insert(complete(event))

            made = self.store.write(do)
            if existing:
                asked = _same_item(event, made)
                if not made.same_as(asked):
                    raise DeskError(
                        f"the key {event.key} was used for another decision", "send it again under a new key", 409
                    )
                return Written(made, new=False)
            self._take(made)
            return Written(made, new=True)

    def _catch_up(self, store: Writing | None = None) -> None:
        for event in (store or self.store).since(self._votes.last):
            self._take(event)

    def _take(self, event: Event) -> None:
        self._votes.take(event)
        self._board.update(event, self._votes)

    def _agent(self, place: int, task: str) -> dict[str, Any]:
        verdicts = self.listing.verdicts.get(task)
        if verdicts is None or self.listing.agent is None:
            return {}
        p = float(verdicts.p[place])
        said = {
            "policy": self.listing.agent.policy,
            "model": self.listing.agent.model,
            "verdict": verdicts.word(place),
            "p": None if np.isnan(p) else round(p, 4),
            "band": verdicts.band_word(place),
        }
        return {k: v for k, v in said.items() if v not in (None, "")}

    def _place(self, item: str) -> int:
        return self.listing.place[item]


def _same_item(event: Event, made: Event) -> Event:
    """An undo that is sent again asks for the item that it found the first time."""
    return event.model_copy(update={"item": made.item}) if event.kind == "undo" and not event.item else event


__all__ = ["Desk", "DeskError", "Written"]
