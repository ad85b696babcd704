"""How far a campaign is: read from its folder while another process works on it, from the first moment on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from specvet.evaluation.cells import CellPlan, read_record
from specvet.evaluation.descriptors import Descriptor, read_descriptor
from specvet.evaluation.folder import CELLS, POLICIES, SETS, CampaignFolder
from specvet.evaluation.outcomes import POLICY_ENDS
from specvet.evaluation.sets import SetRecord
from specvet.records import RunFolder
from specvet.records.errors import RunError

WINDOW_S = 300.0
"""Rates are of so long."""

_NEWEST = 1_000
"""Rows whose times are looked at."""


@dataclass(frozen=True, slots=True)
class CellStatus:
    """One cell that the campaign file asks for."""

    policy: str
    set: str
    seed: int | None
    questions: int | None
    """None while the set has not been read or made yet."""
    rows: int = 0
    """Questions that are decided, on disk."""
    machinery: int = 0
    """Of them, those that something other than the policy ended; they count as wrong."""
    rate: float = 0.0
    """Rows a second, over the last five minutes in which its session ran."""
    newest: str = ""
    """When the newest row was over; UTC, ISO 8601."""
    seconds: float = 0.0
    """Of all sessions."""
    sealed: bool = False
    folder: str = ""
    """Name in `cells/`; empty where it has not begun."""
    problem: str = ""
    """Why its run cannot be read."""

    @property
    def left(self) -> int | None:
        return None if self.questions is None else max(0, self.questions - self.rows)


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """All cells that the campaign file asks for, in the order in which they are made."""

    name: str
    at: str
    cells: tuple[CellStatus, ...]

    @property
    def complete(self) -> bool:
        """Whether every cell is sealed."""
        return all(cell.sealed for cell in self.cells)

    @property
    def sealed(self) -> int:
        return sum(cell.sealed for cell in self.cells)

    @property
    def rows(self) -> int:
        return sum(cell.rows for cell in self.cells)

    @property
    def questions(self) -> int | None:
        """Of all cells; None while a set is not known."""
        counts = [cell.questions for cell in self.cells]
        return None if None in counts else sum(n for n in counts if n is not None)

    @property
    def machinery(self) -> int:
        return sum(cell.machinery for cell in self.cells)

    @property
    def rate(self) -> float:
        """Rows a second, now."""
        return round(sum(cell.rate for cell in self.cells if not cell.sealed), 6)

    @property
    def seconds_left(self) -> float | None:
        """At the rate of now; None where nothing moves or not all is known. Other cells may go faster or slower."""
        left = [0 if cell.sealed else cell.left for cell in self.cells]
        if None in left or self.rate <= 0:
            return 0.0 if self.complete else None
        return sum(n for n in left if n is not None) / self.rate


def status(folder: CampaignFolder, now: datetime | None = None) -> CampaignStatus:
    """How far a campaign is. Raises OSError, ValueError for a record in it that cannot be read."""
    at = now or datetime.now(UTC)
    return CampaignStatus(folder.campaign.name, at.isoformat(timespec="seconds"), tuple(_cells(folder, at)))


def _cells(folder: CampaignFolder, now: datetime) -> Iterator[CellStatus]:
    campaign = folder.campaign
    policies, sets = _descriptors(folder.path), _records(folder.path)
    for slug in campaign.policies:
        for asked in campaign.sets:
            record = sets.get(asked)
            for seed in campaign.seeds_of(slug):
                known = CellStatus(slug, asked, seed, None if record is None else record.questions)
                if record is None or slug not in policies:
                    yield known
                    continue
                plan = CellPlan(policies[slug], record, seed, campaign.settings_of(slug))
                yield _cell(folder.path, plan, known, now)


def _cell(folder: Path, plan: CellPlan, known: CellStatus, now: datetime) -> CellStatus:
    """What is there of one cell. A cell has a second folder where the first was begun with other libraries: of several
    the sealed one counts, else the last."""
    places = sorted((folder / CELLS).glob(f"{plan.name}*"))
    for place in places:
        record = read_record(place)
        if record is not None and record.contract == plan.contract:
            return replace(
                known,
                rows=record.questions,
                machinery=record.machinery,
                seconds=record.seconds,
                sealed=True,
                folder=place.name,
            )
    begun = [place for place in places if (place / "run.db").is_file()]
    if not begun:
        return known
    place = begun[-1]
    try:
        with RunFolder.read(place) as run:
            receipt = run.receipt()
            ends = run.newest_ends(_NEWEST)
    except RunError as e:
        return replace(known, folder=place.name, problem=str(e))
    stops: dict[str, int] = {}
    for of_task in receipt.stops.values():
        for stop, n in of_task.items():
            stops[stop] = stops.get(stop, 0) + n
    unreadable = receipt.decisions - sum(stops.values())
    machinery = unreadable + sum(n for stop, n in stops.items() if stop not in POLICY_ENDS)
    began = datetime.fromisoformat(receipt.sessions[-1].started) if receipt.sessions else now
    clock = now.timestamp()
    recent = [end for end in ends if end > clock - WINDOW_S]
    # Of a fast policy the newest rows reach back less far than the window, of a new session the session does.
    reach = clock - min(recent) if len(recent) == len(ends) == _NEWEST else WINDOW_S
    span = min(reach, clock - began.timestamp())
    return replace(
        known,
        rows=receipt.decisions,
        machinery=machinery,
        seconds=receipt.seconds,
        rate=round(len(recent) / span, 6) if recent and span > 0 else 0.0,
        newest=datetime.fromtimestamp(max(ends), UTC).isoformat(timespec="seconds") if ends else "",
        folder=place.name,
    )


def _descriptors(folder: Path) -> dict[str, Descriptor]:
    return {p.stem: read_descriptor(folder / POLICIES, p.stem) for p in (folder / POLICIES).glob("*.json")}


def _records(folder: Path) -> dict[str, SetRecord]:
    """The sets' records without their questions, which a look now and then need not read."""
    files = (folder / SETS).glob("*.json")
    return {p.stem: SetRecord.model_validate_json(p.read_text(encoding="utf-8")) for p in files}
