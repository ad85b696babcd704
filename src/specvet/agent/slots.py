"""Which branches of a group run, and how many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


class Slots:
    """At most `n` branches at a time. A group takes its slots together, so that no two groups wait for each other."""

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"{n} branches at a time; at least 1 is needed")
        self.n = n
        self._free = asyncio.Semaphore(n)
        self._queue = asyncio.Lock()

    def some(self, wanted: int) -> Held:
        """Slots for a group of `wanted` branches: one for each, or all there are."""
        return Held(self, min(wanted, self.n), wanted)

    async def take(self, n: int) -> None:
        taken = 0
        try:
            async with self._queue:
                while taken < n:
                    await self._free.acquire()
                    taken += 1
        except BaseException:  # cancelled while it waited for the rest
            self.give(taken)
            raise

    def give(self, n: int) -> None:
        for _ in range(n):
            self._free.release()


class Held:
    """The slots of one group; each goes back as soon as the branches that remain need it no more."""

    def __init__(self, slots: Slots, held: int, branches: int) -> None:
        self._slots, self._held, self._left = slots, held, branches
        self._mine = asyncio.Semaphore(held)

    async def __aenter__(self) -> Held:
        await self._slots.take(self._held)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._slots.give(self._held)
        self._held = 0

    def one(self) -> _One:
        """One branch's turn."""
        return _One(self)


class _One:
    def __init__(self, held: Held) -> None:
        self._held = held

    async def __aenter__(self) -> None:
        await self._held._mine.acquire()

    async def __aexit__(self, *_: object) -> None:
        held = self._held
        held._mine.release()
        held._left -= 1
        if held._left < held._held:
            held._held -= 1
            held._slots.give(1)


def branches_of(n: int, only: Collection[int] | None) -> list[int]:
    """The branches of a group of `n` that are wanted, in order. Raises ValueError."""
    branches = sorted(set(range(n) if only is None else only))
    if not branches or branches[0] < 0 or branches[-1] >= n:
        raise ValueError(f"branches {branches} of a group of {n}; give some of 0 to {n - 1}")
    return branches
