"""Review: the page where people decide. In come a run or a list; out come events, votes and what they amount to.

`open_source` makes a `Listing`, `open_store` the append-only store, `Desk` holds both, `create_app` serves them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.review.app import create_app
    from specvet.review.desk import Desk
    from specvet.review.events import Event
    from specvet.review.listing import Listing
    from specvet.review.merging import Merged, merged
    from specvet.review.source import open_source
    from specvet.review.store import open_store

__all__ = ["Desk", "Event", "Listing", "Merged", "create_app", "merged", "open_source", "open_store"]

_HOME = {
    "Desk": "desk",
    "Event": "events",
    "Listing": "listing",
    "Merged": "merging",
    "create_app": "app",
    "merged": "merging",
    "open_source": "source",
    "open_store": "store",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"specvet.review.{_HOME[name]}"), name)
    raise AttributeError(f"module 'specvet.review' has no attribute {name!r}")
