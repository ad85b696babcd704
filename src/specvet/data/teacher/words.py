"""Words with alternatives: `phrases.yaml` and `phrases-terse.yaml`, and how one of their sentences is chosen."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np
import yaml

_SPACES = re.compile(r"\s+")
_BEFORE = re.compile(r"\s+([.,;:?])")


VoiceName = Literal["full", "terse"]
"""`full` talks as people do; `terse` in telegrams, for small models that pay for every token."""


@dataclass(frozen=True, slots=True)
class Voice:
    """How a teacher talks: its book of phrases, and how much of what could be said it says."""

    book: str
    errors: bool
    """Whether numbers have their errors, and as many digits as these allow; or two digits."""
    overview: bool
    """Whether lines, peaks and noise are told of the whole view; small ones show medians, which hide them."""
    features: int
    """That one plan names at most."""
    findings: int
    """Measurements that are told of one window at most."""
    fewer: float
    """Share of the windows of which one less is told."""
    slopes: float
    """Share of the windows with findings of which the slope is told too."""
    readings: bool
    """Whether a finding is put into the words of the evidence too."""
    leans: float
    """Share of the windows after which it is said which way they speak."""
    reasons: int
    """That an answer gives at most."""
    doubts: float
    """Share of the sure answers that name what speaks against them."""
    labels: float
    """Share of the calls that name what they look at."""


VOICES: Mapping[VoiceName, Voice] = {
    "full": Voice("phrases.yaml", True, True, 3, 3, 0.4, 0.12, True, 0.55, 3, 0.6, 0.55),
    "terse": Voice("phrases-terse.yaml", False, False, 1, 2, 0.0, 0.0, False, 1.0, 2, 0.0, 0.0),
}


@functools.cache
def phrases(voice: VoiceName = "full") -> Mapping[str, Any]:
    """What a voice's book holds: groups, their keys, and the sentences of each."""
    book = resources.files(__package__).joinpath(VOICES[voice].book)
    found: Mapping[str, Any] = yaml.safe_load(book.read_bytes())
    return found


class Speaker:
    """Chooses sentences with one generator, and says none twice while there are others."""

    def __init__(self, rng: np.random.Generator, voice: VoiceName = "full") -> None:
        self.rng = rng
        self.voice = VOICES[voice]
        self._book: VoiceName = voice
        self._said: dict[str, list[int]] = {}

    def say(self, key: str, **slots: str) -> str:
        """A sentence of `group.name`, with its slots filled in; `{Name}` is `{name}` with a capital letter."""
        sentences: list[str] = _sentences(self._book, key)
        said = self._said.setdefault(key, [])
        left = [i for i in range(len(sentences)) if i not in said]
        if not left:
            said.clear()
            left = list(range(len(sentences)))
        chosen = left[self.below(len(left))]
        said.append(chosen)
        filled = self._filled(sentences[chosen])
        for name, text in slots.items():
            filled = filled.replace("{" + name + "}", text)
            filled = filled.replace("{" + name[0].upper() + name[1:] + "}", capital(text))
        return _tidy(filled)

    def below(self, n: int) -> int:
        """A whole number from 0 to n − 1."""
        return int(self.rng.integers(n))

    def one(self, options: tuple[str, ...]) -> str:
        return options[self.below(len(options))] if len(options) > 1 else options[0]

    def sometimes(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _filled(self, text: str) -> str:
        parts = _parsed(text)
        return "".join(part if isinstance(part, str) else self._filled(self.one(part)) for part in parts)


@functools.cache
def _sentences(voice: VoiceName, key: str) -> list[str]:
    group, name = key.split(".")
    found: list[str] = phrases(voice)[group][name]
    return found


@functools.cache
def _parsed(text: str) -> tuple[str | tuple[str, ...], ...]:
    """Plain texts, and the alternatives of each outermost pair of brackets."""
    parts: list[str | tuple[str, ...]] = []
    depth, start, options = 0, 0, list[str]()
    for i, letter in enumerate(text):
        if letter == "[":
            depth += 1
            if depth == 1:
                parts.append(text[start:i])
                start, options = i + 1, []
        elif letter in "|]" and depth == 1:
            options.append(text[start:i])
            start = i + 1
            if letter == "]":
                parts.append(tuple(options))
                depth = 0
        elif letter == "]":
            depth -= 1
    parts.append(text[start:])
    return tuple(parts)


def capital(text: str) -> str:
    """With a capital letter, where it begins with a small Latin one."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def a(name: str) -> str:
    """`a carbon star`, `an M giant`, `an S-type star`: letters that are spoken with a vowel take `an`."""
    first = re.split(r"[\s+-]", name, maxsplit=1)[0]
    spelt = first.isupper() and len(first) <= 3
    vowel = first[:1] in "AEFHILMNORSX" if spelt else first[:1].lower() in "aeiou"
    return f"{'an' if vowel else 'a'} {name}"


def listed(names: list[str]) -> str:
    """`a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _tidy(text: str) -> str:
    """One space between words, none before a stop, and one stop at the end."""
    text = _BEFORE.sub(r"\1", _SPACES.sub(" ", text)).strip()
    return re.sub(r"([.?])\.$", r"\1", text)
