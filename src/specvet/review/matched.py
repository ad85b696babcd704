"""What `specvet match` found about a spectrum's star, as the page shows it; nothing where it was not run.

Read when it is first asked for, and again where the run was matched anew.
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specvet.data.errors import InputError
from specvet.review.listing import Listing

if TYPE_CHECKING:
    from specvet.catalogue.matching import Place, WithGaia
    from specvet.catalogue.sighting import Gaia, Key, Match
    from specvet.tasks import Task

ABOUT = "match/match.json"
"""Written last, below the run."""


def match_stamp(listing: Listing) -> int:
    """When a run was matched (ns, by the clock of its file system), to notice that it was anew; 0 where it was not."""
    try:
        return 0 if listing.run is None else (listing.run / ABOUT).stat().st_mtime_ns
    except OSError:
        return 0


class Matched:
    """What a run was matched with. Any thread may use it."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._reading = threading.Lock()
        self._stamp = 0
        self._matches: dict[Key, Match] = {}
        self._answers: dict[Place, WithGaia] = {}
        self._tasks: dict[str, Task] = {}
        self._trouble = ""

    def of(self, i: int, task: str, *, hidden: bool) -> dict[str, Any] | None:
        """What docs/review.md says of `match`; `hidden` leaves out what others say of the star, and the answer."""
        self._read()
        if self._trouble:
            return {"trouble": self._trouble}
        key = self._listing.files[i], self._listing.rows[i]
        match = self._matches.get(key)
        if match is None:
            return None
        from specvet.catalogue.matching import Place, cmd_svg, known_as

        answer = self._answers.get(Place(*key, task))
        return {
            "asked": list(match.asked),
            "notes": list(match.notes),
            "gaia": None if match.gaia is None else _gaia(match.gaia) | {"separation": match.gaia_separation_arcsec},
            "cmd": str(cmd_svg(match, self._tasks.get(task))),
            "known_as": None if hidden else known_as(match),
            "known": [] if hidden else [asdict(k) for k in match.known],
            "with_gaia": None if hidden or answer is None else asdict(answer),
        }

    def _read(self) -> None:
        run = self._listing.run
        if run is None:
            return
        with self._reading:
            stamp = match_stamp(self._listing)
            if stamp == self._stamp:
                return
            self._stamp, self._matches, self._answers, self._trouble = stamp, {}, {}, ""
            if not stamp:
                return
            from specvet.catalogue.matching import read_answers, read_matches, run_tasks

            try:
                self._matches, self._answers, self._tasks = read_matches(run), read_answers(run), run_tasks(run)
            except InputError as e:
                self._trouble = str(e)


def _gaia(gaia: Gaia) -> dict[str, Any]:
    """Gaia's numbers, and what follows from them."""
    from specvet.catalogue.matching import luminous

    names = ("source_id", "g", "bp_rp", "parallax", "parallax_error", "ruwe", "pmra", "pmdec")
    return {name: getattr(gaia, name) for name in names} | asdict(luminous(gaia))
