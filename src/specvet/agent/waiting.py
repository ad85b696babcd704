"""Waiting no longer than a trajectory's own time allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class OutOfTimeError(TimeoutError):
    """The trajectory's own time is over, not that of the policy's request."""


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What `work` gives. Raises OutOfTimeError after so many seconds."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise OutOfTimeError from None
        raise


def is_being_cancelled() -> bool:
    """Whether the task that asks is, and not a request that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
