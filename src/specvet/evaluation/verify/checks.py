"""What a check says, and how several findings become one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from specvet.records.receipt import versions

State = Literal["ok", "failed", "not present", "not checked"]
"""`not present`: what it needs is not here (the spectra of a set). `not checked`: it was made by another version of a
library, so that a difference proves nothing."""

UNREADABLE = "cannot be read"

SHOWN = 3
"""Findings of one check that are told in full; the others are counted."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    where: str
    """The cell, set or file; empty for the campaign."""
    state: State
    detail: str = ""


@dataclass(slots=True)
class Findings:
    """What was found wrong in one place, by check."""

    where: str
    names: tuple[str, ...]
    """Of the checks that were made, in the order in which they are told."""
    looked: str = ""
    """At how many of what, for those that are well."""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    drifted: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, problems: Iterable[str], drift: str = "") -> None:
        """Note problems; with `drift` (which versions differ) they prove nothing."""
        for problem in problems:
            if drift:
                self.drifted.setdefault(name, []).append(f"{problem} ({drift})")
            else:
                self.wrong.setdefault(name, []).append(problem)

    def checks(self) -> list[Check]:
        """One a name."""
        out = []
        for name in self.names:
            if wrong := self.wrong.get(name):
                out.append(Check(name, self.where, "failed", listed(wrong)))
            elif drifted := self.drifted.get(name):
                out.append(Check(name, self.where, "not checked", listed(drifted)))
            else:
                out.append(Check(name, self.where, "ok", self.looked))
        return out


def listed(problems: list[str]) -> str:
    """The first few in full."""
    more = len(problems) - SHOWN
    return "; ".join(problems[:SHOWN]) + (f"; … and {more:,} more" if more > 0 else "")


def tried(name: str, where: str, look: Callable[[], Iterable[Check]]) -> list[Check]:
    """What `look` finds. Whatever it raises is a failed check: a damaged file may make a reader fail in any way."""
    try:
        return list(look())
    except MemoryError:
        raise
    except Exception as e:
        return [Check(name, where, "failed", f"{UNREADABLE}: {type(e).__name__}: {' '.join(str(e).split())[:300]}")]


def drift(then: Mapping[str, str], *packages: str) -> str:
    """Which of these packages had another version then, in words; empty where none had."""
    here = versions()
    return ", ".join(
        f"made by {package} {then.get(package, 'of no version')}, this is {here.get(package, 'without it')}"
        for package in packages
        if then.get(package) != here.get(package)
    )


def differing(name: str, then: object, now: object) -> list[str]:
    """`[name: … is recorded, … is found]` where the two differ."""
    return [] if then == now else [f"{name}: {_short(then)} is recorded, {_short(now)} is found"]


def _short(value: object) -> str:
    text = str(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"{text[:12]}…"  # enough to see that it is another hash
    return text if len(text) <= 80 else f"{text[:77]}…"
