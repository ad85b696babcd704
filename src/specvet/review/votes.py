"""`Votes`: what events amount to, kept up to date one event at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable

from specvet.review.events import Event


class Votes:
    """The state of a review. Not for several threads at once."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.last = 0
        """Number of the newest event that is taken in."""
        self.assignment: Event | None = None
        self.reviewers: dict[str, int] = {}
        """Who has done anything, with the number of their votes (over all tasks)."""
        self._by_key: dict[tuple[str, str], Event] = {}
        self._decisions: dict[int, Event] = {}
        self._stacks: dict[tuple[str, str], dict[str, list[Event]]] = {}
        self._voted: dict[str, dict[str, dict[str, Event]]] = defaultdict(dict)
        """Task → item → reviewer → vote. Votes of an item are replaced, never changed: a copy of the outside stays."""
        self._in_time: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self._history: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        """Take in the next event."""
        self.last = max(self.last, event.n)
        self._by_key[event.reviewer, event.key] = event
        self.reviewers.setdefault(event.reviewer, 0)
        if event.kind == "assignment":
            self.assignment = event
            for name in event.reviewers:
                self.reviewers.setdefault(name, 0)
            return
        place = (event.item, event.task)
        self._history[place].append(event)
        stack = self._stacks.setdefault(place, {}).setdefault(event.reviewer, [])
        line = self._in_time[event.reviewer, event.task]
        had = bool(stack)
        if event.kind == "decision":
            self._decisions[event.n] = event
            stack.append(event)
            line.append(event)
        else:
            stack[:] = [e for e in stack if e.n != event.undoes]
            # Nearly always the newest, so looked for from the end.
            for i in range(len(line) - 1, -1, -1):
                if line[i].n == event.undoes:
                    del line[i]
                    break
            if not stack:
                self._stacks[place].pop(event.reviewer)
        self.reviewers[event.reviewer] += bool(stack) - had
        if votes := {who: line[-1] for who, line in self._stacks[place].items() if line}:
            self._voted[event.task][event.item] = votes
        else:
            self._voted[event.task].pop(event.item, None)

    def with_key(self, reviewer: str, key: str) -> Event | None:
        """The event that was sent under this key."""
        return self._by_key.get((reviewer, key))

    def holds(self, event: Event) -> bool:
        """Whether an imported decision is one that is here: the same words at the same time, or in the current vote."""
        here = [
            e for e in self.history(event.item, event.task) if e.kind == "decision" and e.reviewer == event.reviewer
        ]
        if event.decided_at:
            return any(e.decided_at == event.decided_at and e.said() == event.said() for e in here)
        vote = self.of(event.item, event.task).get(event.reviewer)
        return vote is not None and vote.said() == event.said()

    def decision(self, n: int) -> Event | None:
        """A decision by its number, taken back or not."""
        return self._decisions.get(n)

    def of(self, item: str, task: str) -> dict[str, Event]:
        """Current votes by reviewer: the newest decision of each that was not taken back."""
        return dict(self._voted.get(task, {}).get(item, {}))

    def newest(self, reviewer: str, task: str, item: str | None, among: Container[str]) -> Event | None:
        """A reviewer's newest decision that was not taken back, of a task's items `among`, or of one item of it."""
        if item is not None:
            stack = self._stacks.get((item, task), {}).get(reviewer)
            return stack[-1] if stack else None
        line = self._in_time.get((reviewer, task), ())
        return next((e for e in reversed(line) if e.item in among), None)

    def history(self, item: str, task: str) -> list[Event]:
        """Everything done about an item, oldest first."""
        return list(self._history.get((item, task), ()))

    def voted(self, task: str) -> dict[str, dict[str, Event]]:
        """Item → current votes, of all items with any."""
        return dict(self._voted.get(task, {}))
