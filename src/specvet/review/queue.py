"""What comes next: filters and orders over a listing and its votes.

Everything is a column, so a queue of 100,000 is filtered and ordered in milliseconds. While a review is blind, nothing
here tells what the agent said of an entry before its reviewer has decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.review.assigning import shuffled
from specvet.review.board import NO_VOTE, Board
from specvet.review.events import VERDICTS, Event
from specvet.review.listing import ANSWERS, BANDS, Listing
from specvet.review.objects import Objects
from specvet.review.votes import Votes

Order = Literal["value", "list", "snr", "random", "object"]

ORDERS: tuple[Order, ...] = ("value", "list", "snr", "random", "object")

RANDOM_SHARE = 0.05
"""First of the order `value`: what is estimated from these holds for the whole list."""

COLUMNS = ("item", "id", "survey", "snr", "verdict", "p", "band", "mine", "others", "flagged")

MOST_ROWS = 500


class QueueError(ValueError):
    """A filter or order that cannot be used; the message says what can."""


class HiddenError(QueueError):
    """A filter that would tell what a blind review hides."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are wanted; the defaults want all."""

    unreviewed: bool = False
    open: bool = False
    mine: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    band: tuple[str, ...] = ()
    class_: str = ""
    survey: str = ""
    snr_min: float | None = None
    snr_max: float | None = None
    disagreement: bool = False
    third: bool = False
    flagged: bool = False
    assigned: bool = False
    several: bool = False
    """Of a star with several spectra here."""
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Filter:
        """From the parameters of a request. Raises `QueueError`."""
        values: dict[str, Any] = {}
        for f in fields(cls):
            given = query.get("class" if f.name == "class_" else f.name, "").strip()
            if not given:
                continue
            if f.type == "bool":
                if given.lower() not in ("0", "1", "true", "false"):
                    raise QueueError(f"{f.name}={given}: give 1 or 0")
                values[f.name] = given.lower() in ("1", "true")
            elif str(f.type).startswith("float"):
                values[f.name] = _number(f.name, given)
            elif str(f.type).startswith("tuple"):
                values[f.name] = _words(f.name, given)
            else:
                values[f.name] = given[:200]
        return cls(**values)

    @property
    def of_agent(self) -> bool:
        """Whether it asks for what the agent said."""
        return bool(self.verdict or self.band)


def _number(name: str, given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        raise QueueError(f"{name}={given}: give a number") from None
    if not np.isfinite(value):
        raise QueueError(f"{name}={given}: give a finite number")
    return value


_ALLOWED: dict[str, tuple[str, ...]] = {"mine": VERDICTS, "verdict": ANSWERS, "band": BANDS}


def _words(name: str, given: str) -> tuple[str, ...]:
    allowed = _ALLOWED[name]
    words = tuple(w.strip().lower() if name == "band" else w.strip().upper() for w in given.split(",") if w.strip())
    for word in words:
        if word not in allowed:
            raise QueueError(f"{name}={word}: choose from {', '.join(allowed)}")
    return words


class Queue:
    """The entries of a listing for one reviewer at a time."""

    def __init__(self, listing: Listing, board: Board, votes: Votes, objects: Objects, *, blind: bool = False) -> None:
        self._listing, self._board, self._votes, self._blind = listing, board, votes, blind
        self._objects = objects
        self._random = shuffled(listing.items, "order")
        self._shuffled = np.argsort(self._random, kind="stable")
        self._value: dict[str, tuple[str, NDArray[np.intp]]] = {}
        self._found: tuple[tuple[Any, ...], NDArray[np.intp]] | None = None

    def order_word(self, order: str) -> Order:
        """The order that is used when `order` is asked for. Raises `QueueError`."""
        if order not in ORDERS:
            raise QueueError(f"order={order}: choose from {', '.join(ORDERS)}")
        return "random" if order == "value" and (self._blind or not self._listing.verdicts) else order

    def entries(self, task: str, order: str, wanted: Filter, reviewer: str | None) -> NDArray[np.intp]:
        """Places of all that are wanted, in order. Raises `QueueError`, and `HiddenError` while blind."""
        stars = self._objects.grouped() if order == "object" or wanted.several else None
        key = (task, order, wanted, reviewer, self._board.changes, stars)
        if self._found is not None and self._found[0] == key:
            return self._found[1]
        places = self._ordered(task, self.order_word(order))
        found = places[self._mask(task, wanted, reviewer)[places]]
        self._found = (key, found)
        return found

    def after(
        self, task: str, order: str, wanted: Filter, reviewer: str | None, item: str | None, n: int, back: bool = False
    ) -> tuple[list[str], int]:
        """The `n` items that come after `item` in the order (before it with `back`), and how many there are.

        `item` itself need not be wanted: it may just have been decided. None begins at the first.
        """
        mask = self._mask(task, wanted, reviewer)
        places = self._ordered(task, self.order_word(order))
        if item is None:
            left = places[mask[places]]
        else:
            at = self._listing.place.get(item)
            if at is None:
                raise QueueError(f"after={item}: no such item")
            here = int(np.flatnonzero(places == at)[0])
            rest = places[:here][::-1] if back else places[here + 1 :]
            left = rest[mask[rest]]
        return [self._listing.items[i] for i in left[:n]], len(left)

    def row(self, i: int, task: str, reviewer: str | None) -> list[Any]:
        """One row of the queue, see `COLUMNS`."""
        listing, board = self._listing, self._board.task(task)
        verdicts = listing.verdicts.get(task)
        mine = int(board.mine(reviewer)[i])
        told = verdicts is not None and not (self._blind and mine == NO_VOTE)
        p = float(verdicts.p[i]) if verdicts is not None and told else np.nan
        snr = float(listing.snr[i])
        return [
            listing.items[i],
            listing.ids[i],
            listing.surveys[i],
            round(snr, 2) if np.isfinite(snr) else None,
            verdicts.word(i) if verdicts is not None and told else None,
            round(p, 4) if np.isfinite(p) else None,
            verdicts.band_word(i) if verdicts is not None and told else None,
            VERDICTS[mine] if mine != NO_VOTE else None,
            int(board.votes[i]) - (mine != NO_VOTE),
            bool(board.flagged[i]) and not (self._blind and mine == NO_VOTE),
        ]

    def reviewed(self, task: str, reviewer: str | None) -> int:
        """How many entries this reviewer has decided."""
        return int(np.count_nonzero(self._board.task(task).mine(reviewer) != NO_VOTE))

    def _mask(self, task: str, wanted: Filter, reviewer: str | None) -> NDArray[np.bool_]:
        listing, board = self._listing, self._board.task(task)
        verdicts = listing.verdicts.get(task)
        mine = board.mine(reviewer)
        decided = mine != NO_VOTE
        mask = np.ones(len(listing), bool)
        if self._blind and wanted.of_agent:
            raise HiddenError("a blind review cannot be filtered by what the agent said; leave out verdict and band")
        if wanted.unreviewed:
            mask &= ~decided
        if wanted.open:
            mask &= board.votes == 0
        if wanted.mine:
            mask &= np.isin(mine, [VERDICTS.index(w) for w in wanted.mine])
        if wanted.verdict:
            mask &= _among(verdicts.answer if verdicts else None, wanted.verdict, ANSWERS, len(listing))
        if wanted.band:
            mask &= _among(verdicts.band if verdicts else None, wanted.band, BANDS, len(listing))
        if wanted.snr_min is not None:
            mask &= listing.snr >= wanted.snr_min
        if wanted.snr_max is not None:
            mask &= listing.snr <= wanted.snr_max
        if wanted.disagreement:
            differ = board.conflict | self._board.against_agent(task, reviewer)
            mask &= differ & (decided if self._blind else True)
        if wanted.third:
            mask &= board.conflict & ~decided
        if wanted.flagged:
            mask &= board.flagged & (decided if self._blind else True)
        if wanted.assigned:
            mask &= self._board.assigned_to(reviewer, self._votes.assignment)
        if wanted.several:
            mask &= self._objects.grouped().size > 1
        if wanted.survey:
            mask &= _texts(listing.surveys, wanted.survey)
        if wanted.class_:
            fits = _texts(listing.pipeline_class, wanted.class_)
            if verdicts is not None and not self._blind:
                fits |= _texts(verdicts.likelier, wanted.class_)
            mask &= fits
        if wanted.text:
            mask &= self._with_text(wanted.text, task, reviewer)
        return mask

    def _with_text(self, text: str, task: str, reviewer: str | None) -> NDArray[np.bool_]:
        wanted = text.casefold()
        found = _texts(self._listing.ids, text) | _texts(self._listing.files, text)
        for item, votes in self._votes.voted(task).items():
            seen: list[Event] = list(votes.values())
            if self._blind:
                seen = [v for v in seen if v.reviewer == reviewer]
            if (i := self._listing.place.get(item)) is not None and any(wanted in v.comment.casefold() for v in seen):
                found[i] = True
        return found

    def _ordered(self, task: str, order: Order) -> NDArray[np.intp]:
        n = len(self._listing)
        if order == "list":
            return np.arange(n)
        if order == "snr":  # changes as files of a plain list are read
            return np.argsort(-np.nan_to_num(self._listing.snr, nan=-np.inf), kind="stable")
        if order == "random":
            return self._shuffled
        if order == "object":
            first = self.order_word("value") if self._listing.verdicts else "list"
            return self._objects.grouped().order(self._ordered(task, first))
        conflicts = self._board.task(task).conflict
        state = str(hash(conflicts.tobytes()))
        if self._value.get(task, ("",))[0] != state:
            self._value[task] = (state, self._by_value(task, conflicts))
        return self._value[task][1]

    def _by_value(self, task: str, conflicts: NDArray[np.bool_]) -> NDArray[np.intp]:
        """A random 5 %, likely finds, uncertain ones, disagreement (of people, samples, verdict and p), the rest."""
        verdicts = self._listing.verdicts[task]
        answer, band = verdicts.answer, verdicts.band
        p = np.where(np.isnan(verdicts.p), np.select([answer == ANSWERS.index("YES")], [1.0], 0.0), verdicts.p)
        yes, no = answer == ANSWERS.index("YES"), answer == ANSWERS.index("NO")
        random = self._random < np.uint64(int(RANDOM_SHARE * 2**64))
        disagree = conflicts | verdicts.samples_differ | (yes & (p < 0.5)) | (no & (p >= 0.5))
        uncertain = (~yes & ~no) | (band == BANDS.index("look")) | ((p > 0.1) & (p < 0.9))
        likely = yes | (p >= 0.5) | (band == BANDS.index("accept"))
        group = np.select([random, likely, uncertain, disagree], [0, 1, 2, 3], 4)
        within = np.select([group == 0, group == 2], [self._random / 2.0**64, np.abs(p - 0.5)], 1.0 - p)
        return np.lexsort((within, group))


def _among(codes: NDArray[np.int8] | None, words: tuple[str, ...], names: tuple[str, ...], n: int) -> NDArray[np.bool_]:
    return np.zeros(n, bool) if codes is None else np.isin(codes, [names.index(w) for w in words])


def _texts(values: list[str], wanted: str) -> NDArray[np.bool_]:
    wanted = wanted.casefold()
    return np.fromiter((wanted in v.casefold() for v in values), bool, len(values))
