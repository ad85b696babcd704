"""Words that sentences are made of."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

T = TypeVar("T")

DIGITS = 12
"""Of a SHA-256, in a text."""


def count(n: int, one: str, several: str = "") -> str:
    """`1 file`, `1,234 files`."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def spectra(n: int) -> str:
    """`1 spectrum`, `1,234 spectra`."""
    return count(n, "spectrum", "spectra")


def people(n: int) -> str:
    """`1 person`, `2 people`."""
    return count(n, "person", "people")


def were(n: int) -> str:
    return "was" if n == 1 else "were"


def listed(parts: Sequence[str], last: str = "and") -> str:
    """`a, b and c`; empty without parts."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}" if parts else ""


def a(name: str) -> str:
    """With the article that is spoken: `a white dwarf`, `an M giant`, `an S-type star`."""
    spelt = re.match(r"[AEFHILMNORSX](?![a-z])", name)
    return f"{'an' if spelt or name[:1].lower() in 'aeio' else 'a'} {name}"


def percent(share: float | None) -> str:
    """Three digits at most: `0.21%`, `95%`."""
    return "" if share is None else f"{100 * share:.3g}%"


def interval(low: float | None, high: float | None) -> str:
    """` (95% interval 0.71 to 0.96)`; empty where an end is not known."""
    return "" if low is None or high is None else f" (95% interval {low:.2f} to {high:.2f})"


def short(digest: str) -> str:
    """The first digits of a SHA-256."""
    return f"{digest[:DIGITS]}…"


def capital(sentence: str) -> str:
    """With a capital letter first."""
    return sentence[:1].upper() + sentence[1:]


def on_one_line(facts: T) -> T:
    """Facts whose every text can stand in a sentence.

    Names of models, surveys and releases are what files say. A line break would begin a heading or end a comment, and
    the brackets are those of citations.
    """
    return cast(T, _plain(facts))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        shown = "".join(c if c.isprintable() else " " for c in value)
        return " ".join(shown.translate({ord("⟦"): "[", ord("⟧"): "]"}).split())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(one) for one in value)
    return value
