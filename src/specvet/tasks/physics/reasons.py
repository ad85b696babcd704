"""Why an answer is right or wrong: one code a decision, and flags for what had to be assumed. See docs/physics.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """The code of a decision: right ones, wrong ones, and those that could not be judged (which score 0)."""

    SAME_TEXT = "same_text"
    """Letter for letter, after spaces and notation were made alike."""
    WITHIN_TOLERANCE = "within_tolerance"
    STRUCTURE = "structure"
    """Both expressions build the same tree."""
    ALGEBRA = "algebra"
    """Their difference expands or cancels to 0."""
    PROBED = "probed"
    """Equal at eight points."""
    LETTER = "letter"
    CHOICE_TEXT = "choice_text"
    """The text of the right choice and of no other, without its letter."""
    ALL_PARTS = "all_parts"

    NO_ANSWER = "no_answer"
    """Nothing was said, or only a result of the tool was."""
    UNREAD = "unread"
    """Neither a number nor an expression."""
    NUMBER_COMMA = "number_comma"
    """A comma that separates no thousands: `0,5`, `3,00`, `1, 2`."""
    TWO_SIGNS = "two_signs"
    """`±5` is two answers."""
    NOT_REAL = "not_real"
    TOO_LONG = "too_long"
    TOO_LARGE = "too_large"
    """A number or power beyond 10^±400, or nested too deeply; found before it is computed."""
    UNIT_UNKNOWN = "unit_unknown"
    """What follows the number is no unit."""
    UNIT_MISSING = "unit_missing"
    UNIT_EXTRA = "unit_extra"
    UNIT_DIMENSION = "unit_dimension"
    """Another dimension: `m` for `m/s`."""
    UNIT_ANGLE = "unit_angle"
    """rad/s for Hz: they differ by 2π, and only the dimension is the same."""
    SIGN = "sign"
    """Right but for its sign."""
    POWER_OF_TEN = "power_of_ten"
    """Right but for a power of ten, as by a wrong prefix of a unit."""
    VALUE = "value"
    OTHER_SYMBOLS = "other_symbols"
    """Not equal, and in other symbols than the right answer."""
    EXPRESSION = "expression"
    """An expression of another value."""
    ASKED_OTHER = "asked_other"
    """`y = …` where x was asked for."""
    SEVERAL = "several"
    """More than one answer: two letters, two boxes that differ."""
    NO_LETTER = "no_letter"
    OTHER_LETTER = "other_letter"
    LETTER_AND_TEXT = "letter_and_text"
    """A letter, with the text of another choice."""
    SOME_PARTS = "some_parts"
    NO_PARTS = "no_parts"
    PART_MISSING = "part_missing"
    PART_TWICE = "part_twice"
    OTHER_TEXT = "other_text"
    FLAGGED = "flagged"
    """Right by an assumption that the strict mode does not make; the flags say which."""

    UNDECIDED = "undecided"
    """No eight points where both expressions have a value."""
    TIMEOUT = "timeout"
    """Algebra took too long, and probing could not decide."""
    GOLD_UNREAD = "gold_unread"
    """The right answer cannot be read: a fault of the row."""


UNJUDGED = frozenset({Reason.UNDECIDED, Reason.TIMEOUT, Reason.GOLD_UNREAD})


class Flag(StrEnum):
    """What was assumed. In strict mode a right answer that rests on any of these but the last is wrong."""

    UNIT_MISSING = "unit_missing"
    """A bare number was taken to be in the right unit."""
    UNIT_EXTRA = "unit_extra"
    """A unit where the right answer has none."""
    UNIT_AMBIGUOUS = "unit_ambiguous"
    """`5 C` for 5 °C, `2 g` for 2 standard gravities, `J/kg K` for J/(kg K)."""
    FRACTION_AMBIGUOUS = "fraction_ambiguous"
    """`1/2π` for 1/(2π), `sin θ L` for sin(θ) L."""
    PARTS_BY_ORDER = "parts_by_order"
    """Parts without labels, as many as were asked for."""
    UNCERTAINTY = "uncertainty"
    """`5.0 ± 0.1`: the value counts, the error was not looked at."""


STRICT_REFUSES = frozenset(Flag) - {Flag.UNCERTAINTY}


@dataclass(frozen=True, slots=True)
class Matched:
    """A decision on one answer."""

    right: bool
    reason: Reason
    credit: float = -1.0
    """0-1: the share of parts that are right; of an answer without parts 1 or 0."""
    flags: frozenset[Flag] = frozenset()
    parts: dict[str, Matched] = field(default_factory=dict)
    """Of a multipart answer, by label."""

    def __post_init__(self) -> None:
        if self.credit < 0:
            object.__setattr__(self, "credit", float(self.right))

    @property
    def judged(self) -> bool:
        """False where the matcher could not decide; such answers score 0 and are to be counted."""
        return self.reason not in UNJUDGED and all(part.judged for part in self.parts.values())


class UnreadError(ValueError):
    """A text that cannot be read as what was looked for; `reason` is the code that a decision then has."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
