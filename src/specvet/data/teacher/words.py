"""Words with alternatives: `phrases.yaml`, and how one of its sentences is chosen and filled in."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
import yaml

_SPACES = re.compile(r"\s+")
_BEFORE = re.compile(r"\s+([.,;:?])")


@functools.cache
def phrases() -> Mapping[str, Any]:
    """What `phrases.yaml` holds: groups, their keys, and the sentences of each."""
    found: Mapping[str, Any] = yaml.safe_load(resources.files(__package__).joinpath("phrases.yaml").read_bytes())
    return found


class Speaker:
    """Chooses sentences with one generator, and says none twice while there are others."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self._said: dict[str, list[int]] = {}

    def say(self, key: str, **slots: str) -> str:
        """A sentence of `group.name`, with its slots filled in; `{Name}` is `{name}` with a capital letter."""
        sentences: list[str] = _sentences(key)
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
def _sentences(key: str) -> list[str]:
    group, name = key.split(".")
    found: list[str] = phrases()[group][name]
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
