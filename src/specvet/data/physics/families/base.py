"""What a family of problems draws: a situation with its numbers, and what may be asked about it.

A family is a function of a `Draw` (its source of random numbers) that returns a `Situation`, or raises `Degenerate`
where the numbers make no sensible problem; the generator then draws again. The numbers that a problem states are drawn
as they are written, so that nothing is lost by rounding.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

G = 9.81
"""m/s²; stated wherever it is used."""


class Degenerate(Exception):  # noqa: N818 - a draw that is no problem, not an error
    """These numbers make no sensible problem; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the worked solution: words, and what the tool is then asked."""

    say: str
    argument: str


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that may be asked."""

    key: str
    """Within the family: `range`."""
    asks: tuple[str, ...]
    """The question in several wordings."""
    steps: tuple[Step, ...]
    """The last result holds the answer."""
    value: float | None = None
    """In `unit`, from a closed form: not from what the tool says. None for a symbolic target."""
    unit: str = ""
    """As pint reads it."""
    mistakes: tuple[float, ...] = ()
    """What typical mistakes give; with three that differ the target can be multiple choice."""
    symbolic: str = ""
    """The answer as an expression in the grammar of the tool."""
    asked: str = ""
    """The symbol that a symbolic answer is for."""
    tolerance: float = 0.01
    hard: bool = False
    """Needs more than one law, or algebra that few do in the head."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is given."""

    texts: tuple[str, ...]
    """The same in four wordings; the last two are kept for validation and test, see `making`."""
    givens: Mapping[str, tuple[float, str]]
    """name → (value, unit): all that a second way to the answer needs."""
    targets: tuple[Target, ...]
    figure: bytes | None = field(default=None, repr=False)


Family = Callable[["Draw"], Situation]


class Draw:
    """Random numbers of one problem."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # a text seeds by its SHA-512: the same on every machine and version

    def number(self, low: float, high: float, step: float) -> float:
        """A multiple of `step` between both ends, exact in decimal."""
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return float(f"{self._random.randint(first, last) * step:.10g}")

    def whole(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def one(self, items: Sequence[T]) -> T:
        return items[self._random.randrange(len(items))]

    def some(self, items: Sequence[T], n: int) -> list[T]:
        return self._random.sample(list(items), n)

    def chance(self) -> float:
        return self._random.random()


_WRITTEN = {"ohm": "Ω", "degC": "°C", "deg": "°", "uC": "µC", "uF": "µF", "um": "µm", "us": "µs", "": ""}


def written(unit: str) -> str:
    """A unit as textbooks write it: `m/s**2` → `m/s²`, `kohm` → `kΩ`."""
    text = _WRITTEN.get(unit, unit).replace("**2", "²").replace("**3", "³").replace("*", " ")
    return text.replace("kohm", "kΩ").replace("ohm", "Ω")


def plain(value: float) -> str:
    """A number as it was drawn, without a needless `.0`."""
    return f"{value:.10g}"


def q(value: float, unit: str) -> str:
    """A quantity as textbooks write it: `12.5 m/s`, `30°`."""
    if unit == "deg":
        return f"{plain(value)}°"
    return f"{plain(value)} {written(unit)}".strip()


def shown(value: float, digits: int = 4) -> str:
    """A number of an answer: significant digits, powers of ten where they are needed."""
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    mantissa, _, power = text.partition("e")
    if 0 <= int(power) < 7:
        return str(int(float(text)))
    return rf"{mantissa} \times 10^{{{int(power)}}}"


def sensible(value: float, low: float, high: float, what: str) -> float:
    """The value itself. Raises Degenerate where it is not between both ends."""
    if not low <= value <= high:
        raise Degenerate(f"{what} out of range")
    return value
