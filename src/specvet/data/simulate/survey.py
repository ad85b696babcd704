"""Drawing a survey: which objects it meets, how often it sees each, and how.

    for observed in draw(1000, seed=0, survey="lamost", kinds=["cv", "wd.DA", "m_dwarf"]):
        ...

Object i depends on the seed and i alone (and on what is drawn from): every part of it has a random stream of its own,
made of (seed, `VERSION`, i, part). Any slice, order and number of processes gives the same objects, and so does adding
a survey: object i is the same star for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from specvet.data.simulate.kinds import KINDS, make
from specvet.data.simulate.observed import SURVEYS, Observed, SurveyName
from specvet.data.simulate.source import Source

if TYPE_CHECKING:
    from specvet.data.simulate.templates import Templates

VERSION = 1
"""Of what is drawn: to be raised when the same seed gives other objects."""

SurveyChoice = SurveyName | Literal["all"]
"""`all` takes the surveys in turn, object by object."""

SnrRange = tuple[float, float]

EPOCHS = 0.05
"""Share of the objects with several spectra."""
MOST_EPOCHS = 4

_CHOICE, _SOURCE, _TEMPLATE, _OTHER_STATE, _OTHER_TEMPLATE, _FIRST_EPOCH = 0, 1, 2, 3, 4, 16
"""Streams of an object; epoch e has `_FIRST_EPOCH + e`."""

_STATES: Mapping[str, tuple[str, ...]] = {
    "cv.quiescence": ("cv.outburst",),
    "cv.double_peaked": ("cv.outburst",),
    "cv.outburst": ("cv.quiescence", "cv.double_peaked"),
}
"""Dwarf novae, and what a later spectrum may find them in."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that a survey is drawn with, besides the numbers of its objects."""

    seed: int
    survey: SurveyChoice
    shares: tuple[tuple[str, float], ...]
    """Kinds and their weights, in the order of `KINDS`; of `kind_weights`."""
    snr: SnrRange | None = None
    """S/N drawn log-uniformly between two values; None draws it as the survey has it."""
    epochs: float = EPOCHS
    templates: Templates | None = None


def draw(
    n: int,
    seed: int,
    survey: SurveyChoice,
    *,
    kinds: Mapping[str, float] | Iterable[str] | None = None,
    templates: Templates | None = None,
    start: int = 0,
    snr: SnrRange | float | None = None,
    epochs: float = EPOCHS,
) -> Iterator[Observed]:
    """The spectra of objects `start` to `start + n - 1`; all epochs of one object follow each other.

    Args:
        kinds: kind → weight, or names as `kind_weights` takes them; None takes all, as common as `KINDS` says.
        templates: real spectra that seed some of the sources.
        snr: median S/N that is aimed at, or a range that it is drawn from, log-uniformly; None takes the survey's own.
        epochs: share of the objects with 2 to 4 spectra. Dwarf novae change between quiescence and outburst, also into
            a kind that was not asked for; other objects stay what they are.

    Raises ValueError for unknown kinds and surveys, and for ranges that are none.
    """
    limits = (snr, snr) if isinstance(snr, int | float) else snr
    drawing = checked(Drawing(seed, survey, tuple(kind_weights(kinds).items()), limits, epochs, templates))
    for number in range(start, start + n):
        yield from epochs_of(number, drawing)


def checked(drawing: Drawing) -> Drawing:
    """The same. Raises ValueError for what cannot be drawn with."""
    if drawing.survey not in (*SURVEYS, "all"):
        raise ValueError(f"there is no survey {drawing.survey!r}; known are {', '.join(SURVEYS)} and all")
    if drawing.seed < 0:
        raise ValueError(f"seed = {drawing.seed}; seeds start at 0")
    if not 0.0 <= drawing.epochs <= 1.0:
        raise ValueError(f"epochs = {drawing.epochs} is a share of objects: give 0 to 1")
    if drawing.snr is not None and not 0.0 < drawing.snr[0] <= drawing.snr[1] < np.inf:
        raise ValueError(f"S/N from {drawing.snr[0]:g} to {drawing.snr[1]:g}: give two positive numbers, as in 5-50")
    return drawing


def kind_weights(kinds: Mapping[str, float] | Iterable[str] | None = None) -> dict[str, float]:
    """Weights of the kinds that are meant, in the order of `KINDS`, those of 0 left out.

    A name is a kind (`wd.DA`) or stands for all that begin with it (`cv`, `m_dwarf`). Names alone keep the kinds as
    common among themselves as `KINDS` has them; a weight in a mapping is that of all kinds of its name together.
    Raises ValueError for a name that stands for nothing, and for weights that are none.
    """
    if kinds is None:
        wanted: dict[str, float | None] = dict.fromkeys(KINDS)
    elif isinstance(kinds, Mapping):
        wanted = dict(kinds)
    else:
        wanted = dict.fromkeys(kinds)
    found: dict[str, float] = {}
    for name, weight in wanted.items():
        members = [key for key in KINDS if key == name or key.startswith(f"{name}.")]
        if not members:
            raise ValueError(f"there is no kind {name!r}; known are {known_kinds()}")
        if weight is not None and not (0.0 <= weight < np.inf):
            raise ValueError(f"the weight of {name} is {weight}; give a number that is not negative")
        total = sum(KINDS[key].weight for key in members)
        for key in members:
            share = KINDS[key].weight if weight is None else weight * KINDS[key].weight / total
            found[key] = share if weight is None else found.get(key, 0.0) + share
    shares = {key: found[key] for key in KINDS if found.get(key, 0.0) > 0.0}
    if not shares:
        raise ValueError(f"no kind is asked for; known are {known_kinds()}")
    return shares


def known_kinds() -> str:
    """All names of kinds in words: `cv (or cv.quiescence, …), …, k_giant, …`."""
    groups: dict[str, list[str]] = {}
    for key in KINDS:
        groups.setdefault(key.partition(".")[0], []).append(key)
    return ", ".join(
        name if members == [name] else f"{name} ({', '.join(members)})" for name, members in groups.items()
    )


def epochs_of(number: int, drawing: Drawing) -> list[Observed]:
    """All spectra of one object, in order of time."""
    from specvet.data.simulate.observing import observe

    rng = _stream(drawing, number, _CHOICE)
    survey: SurveyName = SURVEYS[number % len(SURVEYS)] if drawing.survey == "all" else drawing.survey
    kind = _chosen(rng, drawing.shares)
    n_epochs = int(rng.integers(2, MOST_EPOCHS + 1)) if rng.random() < drawing.epochs else 1
    spectra: list[Observed] = []
    for epoch, source in enumerate(_sources(number, drawing, kind, n_epochs, rng)):
        stream = _stream(drawing, number, _FIRST_EPOCH + epoch)
        snr = None if drawing.snr is None else float(np.exp(stream.uniform(*np.log(drawing.snr))))
        position = (spectra[0].ra, spectra[0].dec) if spectra else None
        spectra.append(observe(source, survey, stream, snr=snr, object_number=number, epoch=epoch, position=position))
    nights = sorted(one.mjd for one in spectra)  # which differ, as `observe` sees to
    return [replace(one, mjd=night) for one, night in zip(spectra, nights, strict=True)]


def _sources(number: int, drawing: Drawing, kind: str, n_epochs: int, rng: np.random.Generator) -> list[Source]:
    """What each epoch sees."""
    source = _made(number, drawing, kind, _SOURCE, _TEMPLATE)
    if n_epochs == 1 or kind not in _STATES:
        return [source] * n_epochs
    others = _STATES[kind]
    other = _made(number, drawing, others[int(rng.integers(len(others)))], _OTHER_STATE, _OTHER_TEMPLATE)
    # The same star behind the same dust, whatever its disc does.
    other = replace(other, velocity_km_s=source.velocity_km_s, ebv=source.ebv)
    later = [source if rng.random() < 0.5 else other for _ in range(n_epochs - 2)]
    return [source, other, *later]


def _made(number: int, drawing: Drawing, kind: str, stream: int, template_stream: int) -> Source:
    source = make(kind, _stream(drawing, number, stream))
    if drawing.templates is None:
        return source
    return drawing.templates.seed(source, _stream(drawing, number, template_stream))


def _chosen(rng: np.random.Generator, shares: tuple[tuple[str, float], ...]) -> str:
    sums = np.cumsum([weight for _, weight in shares])
    index = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    return shares[min(index, len(shares) - 1)][0]


def _stream(drawing: Drawing, number: int, part: int) -> np.random.Generator:
    return np.random.default_rng([drawing.seed, VERSION, number, part])
