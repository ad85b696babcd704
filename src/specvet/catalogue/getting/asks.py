"""`Ask`: one spectrum that somebody wants, by the survey's own identifiers and the places where its file may lie."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Row = Mapping[str, str]
"""A row of a list: column in lower case → value as text."""


class AskError(ValueError):
    """What cannot be asked for; the message says what is wrong with it and what is needed."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One spectrum that is wanted."""

    survey: str
    """`sdss`, `desi`, `lamost` or `sparcl`."""
    id: str
    """As the survey writes it: `0266-51602-0013`, a TARGETID, an obsid."""
    asked: str
    """As the user wrote it."""
    ids: tuple[tuple[str, str], ...]
    """(name, value) of `Spectrum.ids` that what comes back must have; numbers without leading zeros."""
    paths: tuple[str, ...] = ()
    """Below the address of the service, the likeliest first; below the folder too where the address is a layout."""
    otherwise: tuple[tuple[str, str], ...] = ()
    """The same of a file that states none of `ids`; empty where that is not known."""
    beside: tuple[str, ...] = ()
    """Paths of files that belong to it and that it is readable without, as a redrock catalogue."""
    release: str = ""

    @property
    def key(self) -> str:
        """By which it is known in a folder; two ways to write one id have one key."""
        return f"{self.survey} {self.id} {self.paths[0] if self.paths else self.release}"


@dataclass(frozen=True, slots=True)
class Asks:
    """What is wanted, each once, and what of the user's list could not be understood."""

    asks: tuple[Ask, ...]
    duplicates: int = 0
    """Entries that ask for what another has asked for."""
    problems: tuple[tuple[str, str], ...] = field(default=())
    """(as written, what is wrong with it)."""


def gathered(entries: Iterable[tuple[str, Ask | AskError]]) -> Asks:
    """Each ask once, in the order of their first; `entries` are (as written, ask or what is wrong)."""
    asks: dict[str, Ask] = {}
    problems: list[tuple[str, str]] = []
    duplicates = 0
    for written, ask in entries:
        if isinstance(ask, AskError):
            problems.append((written, str(ask)))
        elif ask.key in asks:
            duplicates += 1
        else:
            asks[ask.key] = ask
    return Asks(tuple(asks.values()), duplicates, tuple(problems))


def understood(
    given: Iterable[tuple[str, str | Row]],
    from_text: Callable[[str], Sequence[Ask]],
    from_row: Callable[[Row], Sequence[Ask]],
) -> Asks:
    """What is wanted by ids and rows of lists, as a survey understands them."""

    def entries() -> Iterator[tuple[str, Ask | AskError]]:
        for written, one in given:
            try:
                for ask in from_text(one) if isinstance(one, str) else from_row(one):
                    yield written, ask
            except AskError as error:
                yield written, error

    return gathered(entries())


def whole(text: str, what: str, *, signed: bool = False) -> int:
    """A whole number, also where a table made it `266.0`. Raises `AskError`."""
    if text.isascii() and text.isdecimal():
        return int(text)
    found = re.fullmatch(r"([+-]?\d+)(\.0*)?", text.strip())
    if re.fullmatch(r"[+-]?\d(\.\d+)?[eE]\+?\d+", text.strip()):
        raise AskError(f"{what} is {text}: a float, which has lost digits; save ids as text or integers")
    if found is None or (text.strip().startswith("-") and not signed):
        raise AskError(f"{what} is {text!r}, a whole number is needed" if text.strip() else f"{what} is empty")
    return int(found[1])


def word(text: str, what: str) -> str:
    """Text that can be part of a path, and cannot lead out of a folder. Raises `AskError`."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.+-]{0,99}", text.strip()):
        raise AskError(
            f"{what} is {text[:100]!r}, which cannot be part of an address" if text.strip() else f"{what} is empty"
        )
    return text.strip()


def value(row: Row, *names: str) -> str:
    """The first of these columns that says something; empty where none does."""
    nulls = ("", "nan", "null", "none", "--", "masked")
    return next((row[name].strip() for name in names if row.get(name, "").strip().lower() not in nulls), "")
