"""`Library`: the references of one text, each once, under keys of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from string import ascii_lowercase

from specvet.catalogue.citing.references import Reference, known
from specvet.catalogue.citing.rendering import cite


class Library:
    """Takes references in, and gives the citation that stands for them in a text."""

    def __init__(self) -> None:
        self.references: dict[str, Reference] = {}
        """By key, in the order in which they came."""

    def cite(self, *references: Reference | str) -> str:
        """`⟦Hou2020,Sun2021⟧` for references, and keys of known ones; empty without any."""
        return cite(*(self._key(known()[r] if isinstance(r, str) else r) for r in references))

    def of(self, keys: Iterable[str]) -> list[Reference]:
        """Those with these keys."""
        return [self.references[key] for key in keys]

    def _key(self, reference: Reference) -> str:
        """The key under which it is kept: its own, with a letter where another paper has that."""
        for letter in ["", *ascii_lowercase]:
            key = f"{reference.key}{letter}"
            kept = self.references.get(key)
            if kept is not None and not _same(kept, reference):
                continue
            if kept is None or (kept.verify and not reference.verify):
                self.references[key] = replace(reference, key=key)
            return key
        raise ValueError(f"more than {len(ascii_lowercase)} references of the key {reference.key}")


def _same(one: Reference, other: Reference) -> bool:
    if one.place or other.place:
        return one.place == other.place
    a, b = dict(one.fields), dict(other.fields)
    return all(a.get(name) == b.get(name) for name in ("title", "eprint", "author"))
