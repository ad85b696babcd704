"""Which simulated object is asked about, and how it comes to be seen: of demonstrations and questions in bulk.

Row i follows from the seed, the settings and i alone. Tasks take turns, and so do surveys; members of a class have
their kinds' shares, the others are for the most part what experts confuse with it, as in SimVI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from specvet.data.errors import InputError
from specvet.data.realvi import harmonised
from specvet.data.simulate.kinds import KINDS, TASKS, make
from specvet.data.simulate.libraries import observe_by_library
from specvet.data.simulate.observed import SURVEYS, SurveyName
from specvet.data.simulate.observing import observe, spectrum
from specvet.data.simulate.source import Source
from specvet.data.simulate.survey import SnrRange, kind_weights
from specvet.data.simulate.templates import Templates, load_templates, make_seeded, read_fold
from specvet.data.simvi.making import as_published, part_templates
from specvet.data.simvi.plan import COLDSTART_YES, HARD, YesNo
from specvet.spectra import Spectrum
from specvet.spectra.reading import SIMULATED

Container = Literal["published", "native", "bare", "harmonised", "library"]
CONTAINERS: tuple[Container, ...] = ("published", "native", "bare", "harmonised", "library")
"""How a spectrum is told: as arrays with a redshift; as its survey's file is read; as two columns of text; as
`specvet data realvi --harmonise` writes it; as seen by another instrument, see `specvet.data.simulate.libraries`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """What objects and spectra follow from, besides their number."""

    seed: int = 0
    yes: float = COLDSTART_YES
    """Share of the answers that are YES."""
    cross: float = 0.0
    """Share of the NO that are members of other classes: whoever asks all tasks about a list meets these often."""
    kinds: tuple[str, ...] | None = None
    """As `specvet.data.simulate.survey.kind_weights` takes them; None takes all."""
    snr: SnrRange | None = None
    """Drawn log-uniformly between two values; None draws it as each survey has it."""
    surveys: tuple[SurveyName, ...] = SURVEYS
    containers: tuple[Container, ...] = ("published", "native")
    """Each as often as the others."""
    templates: str | None = None
    """Folder or file of real spectra that may seed sources."""
    fold: str | None = None
    """Which of the real objects seed nothing: `2/5`, or `none`. None leaves those that may seed SimVI's train."""
    seeded: float = 0.5
    """With a fold: share of the sources that real spectra seed, where there are enough of their kind."""

    def check(self) -> None:
        """Raises InputError for what cannot be drawn from."""
        if self.seed < 0:
            raise InputError(f"seed = {self.seed}: give one that is not negative")
        if not self.surveys or set(self.surveys) - set(SURVEYS):
            raise InputError(f"surveys {', '.join(self.surveys)}: known are {', '.join(SURVEYS)}")
        if not self.containers or set(self.containers) - set(CONTAINERS):
            raise InputError(f"containers {', '.join(self.containers)}: known are {', '.join(CONTAINERS)}")
        if self.snr is not None and not 0.0 < self.snr[0] <= self.snr[1] < np.inf:
            low, high = self.snr
            raise InputError(f"S/N from {low:g} to {high:g}: give two positive numbers, as in 5-50")
        shares = {"YES": self.yes, "members of other classes": self.cross, "seeded sources": self.seeded}
        if wrong := [f"{name} ({share:g})" for name, share in shares.items() if not 0.0 <= share <= 1.0]:
            raise InputError(f"share of {wrong[0]}: give 0 to 1")
        if self.fold is not None and self.templates is None:
            raise InputError(f"fold {self.fold} of no real spectra: give --templates as well")
        try:
            kind_weights(self.kinds)
            if self.fold is not None:
                read_fold(self.fold)
        except ValueError as e:
            raise InputError(str(e)) from None


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of random numbers of one set; other sets have others."""

    version: int
    """Of the draws: another version makes others."""
    row: int
    source: int
    observation: int
    first: int
    """Number of the first object, so that none is in another set."""


@dataclass(frozen=True, slots=True)
class Row:
    """One spectrum to be, and what is asked about it."""

    number: int
    task: str
    answer: YesNo
    survey: SurveyName
    container: Container


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A SIMULATED spectrum, as whoever is asked gets it, and what only the simulator knows."""

    source: Source
    spectrum: Spectrum
    container: Container
    survey: str
    """`library` where no survey saw it."""
    snr: float
    """Median a pixel."""
    number: int
    """Of the object."""

    @property
    def name(self) -> str:
        """Its own for each, and says nothing of what it is: `SIMULATED-desi-10000123-0`."""
        return f"SIMULATED-{self.survey}-{self.number:06d}-0"

    @property
    def object_id(self) -> str:
        return f"SIMULATED-{self.number:06d}"


def planned(number: int, draws: Draws, streams: Streams) -> Row:
    """What is asked about object `number` of the set."""
    rng = np.random.default_rng([draws.seed, streams.version, streams.row, number, 0])
    task = TASKS[number % len(TASKS)]
    answer: YesNo = "YES" if rng.random() < draws.yes else "NO"
    if not _kinds(task, answer, draws.kinds):  # of the kinds asked for, none has this answer
        answer = "NO" if answer == "YES" else "YES"
    survey = draws.surveys[number // len(TASKS) % len(draws.surveys)]
    return Row(number, task, answer, survey, draws.containers[int(rng.random() * len(draws.containers))])


def kinds_drawn(row: Row, draws: Draws, streams: Streams, attempts: int, same: int) -> Iterator[str]:
    """The kind of each attempt at a row: one for the first `same`, then each its own."""
    kinds = _kinds(row.task, row.answer, draws.kinds)
    rng = np.random.default_rng([draws.seed, streams.version, streams.row, row.number, 1])
    kind = ""
    for attempt in range(attempts):
        if attempt == 0 or attempt >= same:
            crossing = draws.cross > 0.0 and row.answer == "NO" and rng.random() < draws.cross
            members = _members_of_others(row.task, draws.kinds) if crossing else {}
            kind = _drawn(members or kinds[rng.random() >= HARD and len(kinds) > 1], rng)
        yield kind


def see(row: Row, kind: str, attempt: int, draws: Draws, streams: Streams) -> Seen | str:
    """An object of this kind as the row has it seen, or why its container cannot hold it."""
    rng = np.random.default_rng([draws.seed, streams.version, streams.source, row.number, attempt])
    source = _source(kind, rng, draws)
    rng = np.random.default_rng([draws.seed, streams.version, streams.observation, row.number, attempt])
    snr = None if draws.snr is None else float(np.exp(rng.uniform(*np.log(draws.snr))))
    number = streams.first + row.number
    if row.container == "library":
        shown = observe_by_library(source, rng, snr)
        return Seen(source, shown, row.container, "library", shown.snr or 0.0, number)
    observed = observe(source, row.survey, rng, snr=snr, object_number=number)
    told = _told(spectrum(observed), row.container, rng)
    return told if isinstance(told, str) else Seen(source, told, row.container, row.survey, observed.snr, number)


def templates_of(draws: Draws) -> Templates | None:
    """The real spectra that may seed these draws; kept by the process. Raises ValueError."""
    if draws.templates is None:
        return None
    return part_templates(draws.templates, "train") if draws.fold is None else _of_fold(draws.templates, draws.fold)


@lru_cache(maxsize=2)
def _of_fold(templates: str, fold: str) -> Templates:
    return load_templates(templates, fold=read_fold(fold))


def _source(kind: str, rng: np.random.Generator, draws: Draws) -> Source:
    templates = templates_of(draws)
    if templates is None:
        return make(kind, rng)
    if draws.fold is None:
        return templates.seed(make(kind, rng), rng)
    return make_seeded(kind, rng, templates, draws.seeded)


def _told(seen: Spectrum, container: Container, rng: np.random.Generator) -> Spectrum | str:
    """A survey's spectrum in another container."""
    if container == "published":
        return as_published(seen)
    if container == "bare":  # two columns that somebody wrote: in erg/s/cm²/Å, over the median, or as they were
        finite = seen.flux[np.isfinite(seen.flux)]
        middle = float(np.median(np.abs(finite))) if finite.size else 0.0
        scale = (1e-17, 1.0 / middle if middle > 0.0 else 1.0, 1.0)[int(rng.integers(3))]
        return Spectrum(seen.wavelength, seen.flux * scale, layout="text", warnings=("no error array", SIMULATED))
    if container == "harmonised":
        plain = harmonised(seen)
        if isinstance(plain, str):
            return plain
        wavelength, flux = plain
        return Spectrum(wavelength, flux.astype(np.float64), medium="vacuum", layout="npz", warnings=(SIMULATED,))
    return seen


@lru_cache(maxsize=32)
def _kinds(task: str, answer: YesNo, kinds: tuple[str, ...] | None) -> tuple[dict[str, float], ...]:
    """Weights of kinds, for each way of drawing: of a class's members; of others those taken for it, and all."""
    allowed = [KINDS[key] for key in kind_weights(kinds)]
    members = {kind.key: kind.positive for kind in allowed if task in kind.yes}
    strangers = [kind for kind in allowed if task not in kind.yes]
    taken = {kind.key: kind.confuses.get(task, 0.0) for kind in strangers}
    ways = (members,) if answer == "YES" else (taken, {kind.key: kind.weight for kind in strangers})
    return tuple(way for way in ways if sum(way.values()) > 0.0)


@lru_cache(maxsize=32)
def _members_of_others(task: str, kinds: tuple[str, ...] | None) -> dict[str, float]:
    """Weights of kinds that belong to other tasks' classes, as they have their shares there."""
    allowed = [KINDS[key] for key in kind_weights(kinds)]
    return {kind.key: kind.positive for kind in allowed if kind.yes and kind.positive and task not in kind.yes}


def _drawn(weights: Mapping[str, float], rng: np.random.Generator) -> str:
    shares = np.array(list(weights.values()))
    return list(weights)[int(rng.choice(shares.size, p=shares / shares.sum()))]
