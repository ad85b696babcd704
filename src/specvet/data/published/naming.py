"""Names for spectra, pictures and rows: safe as files on every system, and never one for two."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

_UNSAFE = re.compile(r"[^0-9A-Za-z._+@=,-]+")
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)")
MAX_LENGTH = 120


def safe_name(name: str) -> str:
    """`name` as a file name: other letters than ASCII, digits and `._+@=,-` are `_`; what had to change ends in a hash.

    A plain name stays as it is: `spec-57391-KP061029N225952V01_sp06-096.fits.gz`.
    """
    plain = _UNSAFE.sub("_", name).strip(".")
    if _RESERVED.match(plain) or not plain:
        plain = f"_{plain}"
    if plain == name and len(plain) <= MAX_LENGTH:
        return plain
    return f"{plain[:MAX_LENGTH]}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


class Names:
    """Names given so far; upper and lower case are one, since some systems cannot tell them apart."""

    def __init__(self) -> None:
        self._given: dict[str, tuple[str, str]] = {}

    def given(self, name: str, content: str) -> str:
        """The file name for this content (its hash); another content of the same name gets its hash appended."""
        plain = safe_name(name)
        if self._given.setdefault(plain.casefold(), (name, content)) == (name, content):
            return plain
        own = f"{plain}-{hashlib.sha256(f'{name}{content}'.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        self._given.setdefault(own.casefold(), (name, content))
        return own

    def first(self, name: str) -> str:
        """The plain file name of a name, where its first content has it."""
        plain = safe_name(name)
        return plain if self._given.get(plain.casefold(), ("", ""))[0] == name else ""


class Ids:
    """Ids given so far: one that is taken gets `:2`, `:3`, … appended, whatever else it was called like that."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._times: Counter[str] = Counter()

    def unique(self, wanted: str) -> str:
        """`wanted`, or what is appended to it, that nobody has yet."""
        id = wanted
        while id in self._taken:
            self._times[wanted] += 1
            id = f"{wanted}:{self._times[wanted] + 1}"
        self._taken.add(id)
        return id
