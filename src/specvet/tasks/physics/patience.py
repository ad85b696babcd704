"""A deadline for pure Python code, in any thread: SymPy's algebra can take for ever on an innocent expression.

The interpreter calls a profile function at every call of a function; ours raises once the time is up. Unlike a signal
it works in every thread, and unlike a thread it ends what it watches. What runs inside C (large integers) is not
interrupted, so callers bound sizes first.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfPatience(BaseException):
    """The time is up. No `Exception`, so that no handler on the way takes it for a fault of its own."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Within: code that ends with OutOfPatience after so many seconds of this thread's CPU time."""
    end = time.thread_time() + seconds

    def watch(*_: Any) -> None:
        if time.thread_time() > end:
            raise OutOfPatience

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        end = math.inf
        sys.setprofile(before)
