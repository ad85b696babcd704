"""Broken symbols in texts: repaired where only one symbol can have been meant, marked where it cannot be told.

UTF-8 that was read as Windows-1252, Latin-1, MacRoman or GBK (once, or twice) leaves sequences that no English text
about spectra holds: `HÎ±`, `6563 Ã…`. Each is read back through a table that `mojibake.yaml` describes. Where a symbol
was lost for good (U+FFFD), a few rules tell it by its surroundings: `H� (4861 Å)` is Hβ. Anything else stays, and what
no text can mean (control characters, private letters, halves of sequences) becomes U+FFFD, so that people see it.

Text without broken symbols is never touched, and to repair a repaired text changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

LOST = "\ufffd"
"""Stands for a symbol that nobody can tell any more."""

UNRESOLVED = "unresolved"
"""The rule of changes that only mark."""

_ROUNDS = 8
"""A repair may complete what surrounds it; each round shortens the text or takes a mark from it."""

_BEFORE = 80
"""Letters."""

_PLACE = re.compile(f"{LOST}+")
_HALVES = re.compile(rf"(?:â€|[ÎÏÃÂâ])[{LOST}\x80-\x9f]+")
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff]+")


@dataclass(frozen=True, slots=True)
class Change:
    """One repair, or one mark."""

    offset: int
    """Characters before it in the text as it was given."""
    before: str
    after: str
    rule: str
    """`cp1252`, `cp1252 twice`, `mac_roman`, …, the name of a rule of `mojibake.yaml`, or `unresolved`."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A text, and what was changed in it."""

    text: str
    changes: tuple[Change, ...] = ()

    @property
    def unresolved(self) -> int:
        """Places in it (runs of U+FFFD) that nobody can read."""
        return len(_PLACE.findall(self.text))


@lru_cache(maxsize=4096)
def repaired(text: str) -> Repaired:
    """`text` with its broken symbols repaired or marked."""
    if text.isascii() and not _NO_TEXT.search(text):
        return Repaired(text)
    work = _Work(text)
    for _ in range(_ROUNDS):
        before = work.text
        work.replace(_table_pattern(), lambda found: _table()[found[0]])
        for rule in _rules():
            work.replace(rule.find, rule.read, "lost")
        work.replace(_HALVES, lambda _: (LOST, UNRESOLVED))
        work.replace(_NO_TEXT, lambda _: (LOST, UNRESOLVED))
        if work.text == before:
            break
    return Repaired(work.text, tuple(work.changes))


class _Work:
    """A text under repair; every letter knows where the text as given had it."""

    def __init__(self, text: str) -> None:
        self.given = self.text = text
        self.origin: list[int] | range = range(len(text) + 1)
        self.changes: list[Change] = []
        """By offset."""

    def replace(
        self, pattern: re.Pattern[str], put: Callable[[re.Match[str]], tuple[str, str] | None], group: int | str = 0
    ) -> None:
        """Put (text, rule) in place of each `group`; None leaves it."""
        pieces, origin, last = list[str](), list[int](), 0
        new: list[Change] = []
        for found in pattern.finditer(self.text):
            if (wanted := put(found)) is None:
                continue
            after, rule = wanted
            start, end = found.span(group)
            pieces += [self.text[last:start], after]
            origin += [*self.origin[last:start], *[self.origin[start]] * len(after)]
            new.append(Change(self.origin[start], self.given[self.origin[start] : self.origin[end]], after, rule))
            last = end
        if new:
            self.origin = [*origin, *self.origin[last:]]
            self.text = "".join([*pieces, self.text[last:]])
            self._keep(new)

    def _keep(self, new: list[Change]) -> None:
        """The last change of a place counts, as a mark may be read after all. Both lists go by offset."""
        kept, at = list[Change](), 0
        for change in self.changes:
            while at < len(new) and new[at].offset + len(new[at].before) <= change.offset:
                at += 1
            if at == len(new) or change.offset < new[at].offset:
                kept.append(change)
        self.changes = sorted([*kept, *new], key=lambda change: change.offset)


@dataclass(frozen=True, slots=True)
class Rule:
    """A symbol that its surroundings tell."""

    name: str
    find: re.Pattern[str]
    """Its group `lost` is replaced."""
    put: str
    example: tuple[str, str]
    """Before, after."""
    stays: str
    """A text like it that stays, since it could be meant otherwise."""
    unless: re.Pattern[str] | None = None
    """What must not stand in the `_BEFORE` letters before it."""

    def read(self, found: re.Match[str]) -> tuple[str, str] | None:
        """(symbol, name of the rule) of a match; None where its surroundings forbid it."""
        if self.unless is not None and self.unless.search(found.string, max(0, found.start() - _BEFORE), found.start()):
            return None
        return self.put, self.name


@cache
def _described() -> Mapping[str, Any]:
    import yaml

    text = resources.files("specvet.data").joinpath("mojibake.yaml").read_text(encoding="utf-8")
    described: Mapping[str, Any] = yaml.safe_load(text)
    return described


@cache
def _rules() -> tuple[Rule, ...]:
    described = _described()
    found = []
    for rule in described["rules"]:
        pattern = rule["find"]
        for name, part in described["parts"].items():
            pattern = pattern.replace(f"{{{name}}}", part)
        before, after = rule["example"]
        unless = re.compile(rule["unless"]) if "unless" in rule else None
        found.append(Rule(rule["name"], re.compile(pattern), rule["put"], (before, after), rule["stays"], unless))
    return tuple(found)


def rules() -> Sequence[Rule]:
    """The rules for symbols that only their surroundings tell."""
    return _rules()


@cache
def _table() -> Mapping[str, tuple[str, str]]:
    """Broken sequence → (symbol, wrong decoding); sequences that two symbols share are left out."""
    described = _described()
    symbols = "".join(described["symbols"].values())
    found: dict[str, tuple[str, str]] = {}
    shared: set[str] = set()
    for symbol, broken, how in (*_misread(symbols, macintosh=True), *_misread(described["accented"], macintosh=False)):
        if broken in shared or broken == symbol:
            continue
        if found.setdefault(broken, (symbol, how))[0] != symbol:
            del found[broken]
            shared.add(broken)
    return found


def table() -> Mapping[str, tuple[str, str]]:
    """The clear cases: broken sequence → (symbol, how it was misread)."""
    return _table()


@cache
def _table_pattern() -> re.Pattern[str]:
    return re.compile("|".join(re.escape(broken) for broken in sorted(_table(), key=lambda b: (-len(b), b))))


def _misread(symbols: str, *, macintosh: bool) -> Iterator[tuple[str, str, str]]:
    """(symbol, what it looks like, how it was misread) of each symbol and wrong decoding."""
    for symbol in symbols:
        for how, decode in _WRONG.items():
            if how == "mac_roman" and not macintosh:
                continue
            once = decode(symbol.encode())
            if not once.endswith(LOST):  # what is lost might have been five bytes; rules tell two of them
                yield symbol, once, how
            if how != "mac_roman" and LOST not in once:
                yield symbol, decode(once.encode()), f"{how} twice"
        if len(symbol.encode()) == 3:  # GBK pairs bytes: the third swallows a letter behind it
            for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
                try:
                    yield symbol + letter, (symbol + letter).encode().decode("gbk"), "gbk"
                except UnicodeDecodeError:
                    continue


def _windows(data: bytes, unknown: Callable[[int], str]) -> str:
    return "".join(unknown(b) if b in _NOT_IN_WINDOWS else bytes([b]).decode("cp1252") for b in data)


_NOT_IN_WINDOWS = (0x81, 0x8D, 0x8F, 0x90, 0x9D)
"""Bytes without a letter in Windows-1252: programs keep them as control characters, or lose them."""

_WRONG: Mapping[str, Callable[[bytes], str]] = {
    "cp1252": lambda data: _windows(data, chr),
    "cp1252, a byte lost": lambda data: _windows(data, lambda _: LOST),
    "latin-1": lambda data: data.decode("latin-1"),
    "mac_roman": lambda data: data.decode("mac_roman"),
}
