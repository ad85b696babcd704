"""The `Listing`: what is to be reviewed, as columns, so that 100,000 spectra open in a moment.

One entry is one spectrum: a file and a row of it. Its name, `item`, is a hash of both, the same in every session; what
an agent said of it stands in `Verdicts`, one for each task.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specvet.records.schema import Answer
from specvet.spectra import SIMULATED, Spectrum
from specvet.tasks import Task

ANSWERS: tuple[str, ...] = tuple(str(a) for a in Answer)
"""The six words; `Verdicts.answer` holds places in this tuple."""

BANDS = ("accept", "look", "reject")
"""What triage says; `Verdicts.band` holds places in this tuple."""

NOT_SAID = -1


def item_name(key: str, row: int) -> str:
    """The name of one spectrum: 16 hexadecimal digits. `key` is its file as the run or the list knows it."""
    return hashlib.blake2b(f"{key}\0{row}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass
class Verdicts:
    """What an agent said of each entry for one task; every array has shape (n,)."""

    answer: NDArray[np.int8]
    """Place in `ANSWERS`, or `NOT_SAID`."""
    p: NDArray[np.float32]
    """Probability of YES, calibrated where triage has been run; NaN where none was given."""
    band: NDArray[np.int8]
    """Place in `BANDS`, or `NOT_SAID`."""
    likelier: list[str]
    samples_differ: NDArray[np.bool_]
    """Whether samples of one question gave different answers."""
    calibrated: bool = False

    @classmethod
    def nothing(cls, n: int) -> Verdicts:
        """What there is before anything was said."""
        nan = np.full(n, np.nan, np.float32)
        unsaid = np.full(n, NOT_SAID, np.int8)
        return cls(unsaid, nan, unsaid.copy(), [""] * n, np.zeros(n, bool))

    def word(self, i: int) -> str | None:
        return ANSWERS[self.answer[i]] if self.answer[i] != NOT_SAID else None

    def band_word(self, i: int) -> str | None:
        return BANDS[self.band[i]] if self.band[i] != NOT_SAID else None


@dataclass(frozen=True)
class Agent:
    """Who looked before."""

    policy: str
    model: str


@dataclass
class Listing:
    """Everything that is to be reviewed; columns have n entries, in the order of the run or the list."""

    kind: str
    """`run` or `list`."""
    title: str
    tasks: tuple[Task, ...]
    items: list[str]
    files: list[str]
    """As the user wrote them, or as the run kept them."""
    rows: list[int]
    ids: list[str]
    surveys: list[str]
    snr: NDArray[np.float32]
    """NaN where not known before the file has been read."""
    ra: NDArray[np.float64]
    dec: NDArray[np.float64]
    pipeline_class: list[str]
    z_given: NDArray[np.float64]
    """A redshift of the user's own, of a list; NaN without."""
    look_z: NDArray[np.float64]
    """By what the agent's wavelengths were divided, less 1; NaN where nobody looked."""
    z_file: NDArray[np.float64]
    """As the file states it; NaN where not known."""
    simulated: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    """1 where the spectrum is SIMULATED, 0 where not, −1 where its file has not been asked."""
    stated: dict[int, tuple[float | None, dict[str, str]]] = field(default_factory=dict)
    """Of a list: time (MJD) and identifiers that a file states, by place, once it has been read."""
    problems: dict[int, str] = field(default_factory=dict)
    """Entries that cannot be shown, and why, by place."""
    selections: dict[int, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Identifiers by which a list chooses a target of a file instead of a row, by place."""
    verdicts: dict[str, Verdicts] = field(default_factory=dict)
    """By task; empty for a list."""
    agent: Agent | None = None
    run: Path | None = None
    notices: list[str] = field(default_factory=list)
    """What the reviewers should be told."""
    place: dict[str, int] = field(default_factory=dict)
    """Item → place."""

    def __post_init__(self) -> None:
        self.place = {item: i for i, item in enumerate(self.items)}
        if not self.simulated.size:
            self.simulated = np.full(len(self.items), -1, np.int8)

    def __len__(self) -> int:
        return len(self.items)

    def learn(self, i: int, spectrum: Spectrum) -> None:
        """Fill in what the list did not say and the file does."""
        if spectrum.id and self.ids[i] in ("", os.path.basename(self.files[i])):
            self.ids[i] = spectrum.id
        self.simulated[i] = any(SIMULATED in warning for warning in spectrum.warnings)
        self.stated[i] = spectrum.mjd, dict(spectrum.ids)
        self.surveys[i] = self.surveys[i] or (spectrum.survey if spectrum.survey != "unknown" else "")
        self.pipeline_class[i] = self.pipeline_class[i] or spectrum.pipeline_class
        for column, value in (
            (self.snr, spectrum.snr),
            (self.ra, spectrum.ra),
            (self.dec, spectrum.dec),
            (self.z_file, spectrum.redshift.value),
        ):
            if np.isnan(column[i]) and value is not None:
                column[i] = value

    def task(self, key: str) -> Task | None:
        return next((t for t in self.tasks if t.key == key), None)


def floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    """As an array, with NaN for None."""
    return np.array(values, dtype=np.float64)
