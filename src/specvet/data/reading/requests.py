"""What is asked of a picture, and what stands there: numbers of two significant digits, heights and shapes in percent.

Heights, ratios, zero and the axis teach what named lines rest on: which column is which wavelength, and which row which
flux. No reply names a class of objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specvet.data.reading.catalogue import catalogue
from specvet.data.reading.chance import drawn
from specvet.data.reading.pictures import Picture
from specvet.data.reading.reader import Reader, features
from specvet.data.teacher.figures import number, two_digits
from specvet.spectra.index_kinds import Range

MOST_ASKED = 3
"""Names and places that one request holds."""

MOST_PEAKS = 4

UNSEEN = 0.1
"""How often a line or band that is not there is asked for, beside a strong one."""

LEAST_RATIO, MOST_RATIO = 0.02, 50.0

FAR_BELOW = -200.0
"""Height below which zero is said to be far below."""

RATIO_COLUMNS = (5.0, 25.0)
"""Widths of the stretches of a ratio, in pixel columns, drawn log-uniformly."""

WIDEST_LABEL = 5
"""Characters of a label of the flux axis that surely fit beside the plot."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question about a picture and its answer."""

    kind: str
    """`whole.shape`, `window.read`, …; for counting."""
    ask: str
    reply: str


def requests(reader: Reader, picture: Picture, n: int) -> list[Request]:
    """Up to n different requests about a picture; fewer where there is nothing to say."""
    makers = _WHOLE if picture.whole else _WINDOW
    where = "whole" if picture.whole else "window"
    found = []
    for i in drawn(reader.rng, [share for share, _, _ in makers], n):
        _, name, make = makers[i]
        if made := make(reader, picture):
            found.append(Request(f"{where}.{name}", *made))
    return found


_Made = tuple[str, str] | None
"""Question and answer; None where there is nothing to ask."""


def _read(reader: Reader, picture: Picture) -> _Made:
    return "Read it.", reader.text(picture)


def _snr(reader: Reader, picture: Picture) -> _Made:
    return "S/N?", reader.snr(picture)


def _range(_: Reader, picture: Picture) -> _Made:
    return "Range?", f"{picture.low:.0f}-{picture.high:.0f} Å."


def _colour(reader: Reader, _: Picture) -> _Made:
    said = reader.colour()
    return ("Colour?", said) if said else None


def _shape(reader: Reader, picture: Picture) -> _Made:
    said = reader.shape(picture)
    return ("Shape?", f"{said}.") if said else None


def _peaks(_: Reader, picture: Picture) -> _Made:
    return "Peaks and dips?", features(picture, MOST_PEAKS) or "None."


def _slope(reader: Reader, picture: Picture) -> _Made:
    return "Slope?", reader.slope(picture) or "None."


def _heights(reader: Reader, picture: Picture) -> _Made:
    """Where the line stands at some places, from the lower edge (0) to the upper one (100)."""
    n, edge = int(reader.rng.integers(1, MOST_ASKED + 1)), 3.0 * picture.column
    places = reader.rng.uniform(picture.low + edge, picture.high - edge, n).tolist()
    places = sorted(picture.step * round(x / picture.step) for x in places)
    found = [picture.flux_at(place) for place in places]
    said = ["gap" if f is None else number(min(max(picture.height(f), 0.0), 100.0), 0) for f in found]
    return f"Height at {', '.join(map(str, places))} Å?", f"{', '.join(said)}."


def _ratio(reader: Reader, picture: Picture) -> _Made:
    """Mean flux of one stretch over that of another, as bands are measured."""
    low, high = np.log(RATIO_COLUMNS)
    wide, first, second = reader.rng.random(3).tolist()
    wide = float(np.exp(low + (high - low) * wide)) * picture.column
    room = picture.high - picture.low - 2.0 * wide
    if room <= 0.0:
        return None
    a, b = (picture.low + room * x for x in (first, second))
    a, b = (a, b + wide) if a < b else (a + wide, b)  # they do not overlap
    bands = [_on_steps((x, x + wide), picture.step) for x in (a, b)]
    above, below = (picture.mean(band) for band in bands)
    if above is None or below is None or below <= 0.0 or not LEAST_RATIO < above / below < MOST_RATIO:
        return None
    ratio = above / below
    names = " over ".join(f"{low}-{high}" for low, high in bands)
    return f"{names} Å?", f"Ratio {two_digits(ratio) if ratio >= 0.1 else number(ratio, 2)}."


def _axis(_: Reader, picture: Picture) -> _Made:
    """The labels of the flux axis, and how high zero stands."""
    labels, zero = picture.labels, picture.height(0.0)
    if max(map(len, labels.labels), default=WIDEST_LABEL + 1) > WIDEST_LABEL or zero > 100.0:
        return None
    said = " ".join((*labels.labels, labels.factor)).strip().replace("-", "−")
    if zero < FAR_BELOW:
        return "Axis?", f"{said}, zero far below."
    return "Axis?", f"{said}, zero at {number(zero, 0)}."


def _named(reader: Reader, picture: Picture) -> _Made:
    """Some lines and bands by name, seen or not."""
    known, within, strengths = catalogue(), reader.within(picture), reader.exposure.strengths
    weights = [known.weights[key] * (UNSEEN + strengths[key]) for key in within]
    chosen = drawn(reader.rng, weights, int(reader.rng.integers(1, MOST_ASKED + 1)))
    names, said = [], []
    for key in reader.shown([within[i] for i in sorted(chosen)]):
        name, what = known.quantities[key].names[0], known.roots[key][1]
        names.append(f"{name} FWHM" if what == "size" else name)
        said.append(reader.finding(key))
    return (f"{', '.join(names)}?", " ".join(said)) if names else None


def _on_steps(band: Range, step: int) -> tuple[int, int]:
    return step * round(band[0] / step), step * round(band[1] / step)


_Maker = tuple[float, str, Callable[[Reader, Picture], _Made]]

_WHOLE: tuple[_Maker, ...] = (
    (3.0, "read", _read), (0.6, "snr", _snr), (0.3, "range", _range), (1.0, "colour", _colour),
    (1.5, "shape", _shape), (1.0, "peaks", _peaks), (1.5, "heights", _heights), (1.5, "ratio", _ratio),
    (0.7, "axis", _axis),
)  # fmt: skip
_WINDOW: tuple[_Maker, ...] = (
    (3.0, "read", _read), (0.6, "snr", _snr), (0.7, "slope", _slope), (0.5, "shape", _shape), (1.0, "peaks", _peaks),
    (1.5, "heights", _heights), (1.5, "ratio", _ratio), (0.8, "axis", _axis), (4.0, "named", _named),
)  # fmt: skip
"""Requests by how often they are made."""
