"""Expressions as small trees of plain data, and the names of symbols in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Number:
    value: Fraction
    rounded: bool = False
    """Written with a decimal point."""


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    """`v_0`, `theta`, `e`; `e` and `pi` are the constants."""


@dataclass(frozen=True, slots=True)
class Apply:
    op: str
    """`+ - * / ^`, `neg`, or a value of `FUNCTIONS`."""
    args: tuple[Expression, ...]


Expression = Number | Symbol | Apply


def symbols(tree: Expression) -> frozenset[str]:
    """Names in a tree, without the constants `e` and `pi`."""
    if isinstance(tree, Symbol):
        return frozenset() if tree.name in ("e", "pi") else frozenset((tree.name,))
    if isinstance(tree, Apply):
        return frozenset().union(*map(symbols, tree.args))
    return frozenset()


def rounded(tree: Expression) -> bool:
    """Whether a number with a decimal point stands in it."""
    if isinstance(tree, Apply):
        return any(map(rounded, tree.args))
    return isinstance(tree, Number) and tree.rounded


def canonical(base: str, subscript: str = "") -> str:
    """One name for `v0`, `v_0`, `v_{0}`, `v_{\\text{max}}`: base, underline, letters and digits of the subscript."""
    base = {"lamda": "lambda", "varepsilon": "epsilon", "ell": "l"}.get(base, base)
    below = re.sub(r"[^A-Za-z0-9']", "", subscript.replace("lamda", "lambda"))
    return f"{base}_{'0' if below in ('o', 'O') else below}" if below else base


def split_name(name: str) -> str:
    """The canonical name of an identifier: `v0` and `v_0` are `v_0`, `omega0` is `omega_0`."""
    base, _, below = name.partition("_")
    digits = re.fullmatch(r"([A-Za-z]+)(\d+)", base)
    return canonical(digits[1], digits[2] + below) if digits else canonical(base, below)


@dataclass(frozen=True)
class Vocabulary:
    """Names that are written with several letters and still are one symbol, as written → canonical."""

    written: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Canonical name → the name that the right answer uses."""
    letters: frozenset[str] = frozenset()
    """Single letters that the right answer uses: with m and u among them, `mu` is their product."""

    @classmethod
    def of(cls, names: Iterable[str], aliases: Mapping[str, str] | None = None) -> Vocabulary:
        names = set(names)
        written: dict[str, str] = {}
        for name in names:
            base, _, below = name.partition("_")
            written |= {name: name, base + below: name} if below else {base: base}
        other = {split_name(_bare(a)): split_name(_bare(b)) for a, b in (aliases or {}).items()}
        written |= {_bare(a): split_name(_bare(a)) for a in (aliases or {})}
        written = {text: name for text, name in written.items() if len(text) > 1}
        return cls(written, other, frozenset(name for name in names if len(name) == 1))


NO_NAMES = Vocabulary()


def _bare(name: str) -> str:
    return re.sub(r"[\\{} ]", "", name)
