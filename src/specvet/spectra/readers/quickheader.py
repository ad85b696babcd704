"""Headers of FITS files that keep to the standard, read from their bytes; see `specvet.spectra.readers.quickfits`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

CARD = 80

_PRINTABLE = bytes(range(32, 127))
_IN_KEYWORDS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
_COMMENTARY = (b"        ", b"COMMENT ", b"HISTORY ", b"CONTINUE")
_VALUE = re.compile(
    rb" *(?:'((?:[^']|'')*)'|([TF])|([+-]?\d+)|([+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[EDe][+-]?\d+)?)|) *(?:/.*)?"
)
_AFTER = (b" ", b"/")
"""What stands behind a value."""


class NotPlainError(BaseException):
    """The file needs astropy. No `Exception`, so that a reader which tries what may fail cannot swallow it."""


class QuickHeader:
    """The cards of a header by keyword. A value is parsed when it is asked for, and is then what astropy gives."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @cached_property
    def _places(self) -> dict[bytes, int]:
        """Where the card of each keyword begins."""
        raw = self.raw
        if raw.translate(None, _PRINTABLE):
            raise NotPlainError("bytes that are no text")
        # Blanks at the end of S8 stay, so that keys keep their eight bytes.
        keys: list[bytes] = np.frombuffer(raw, "S80").astype("S8").tolist()
        places = {key.rstrip(): at for key, at in zip(keys, range(0, len(raw), CARD), strict=True)}
        if b"HIERARCH" in places or b"".join(places).translate(None, _IN_KEYWORDS):
            raise NotPlainError("a keyword of other characters")
        if len(keys) - len(places) != sum(max(keys.count(key) - 1, 0) for key in _COMMENTARY):
            raise NotPlainError("a repeated keyword")
        return places

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a card; `default` where there is none."""
        at = self._places.get(key.upper().encode())
        if at is None:
            return default
        raw = self.raw
        if (value := plain_string(raw, at)) is not None:
            return value
        if raw[at + 8 : at + 10] != b"= " or raw[at + CARD : at + CARD + 8] == b"CONTINUE":
            raise NotPlainError(key)
        found = _VALUE.fullmatch(raw, at + 10, at + CARD)
        if found is None:
            raise NotPlainError(key)
        text, truth, whole, number = found.groups()
        if text is not None:
            if b": " in text:
                raise NotPlainError(key)
            return text.replace(b"''", b"'").decode().rstrip()
        if truth is not None:
            return truth == b"T"
        if whole is not None:
            return int(whole)
        return None if number is None else float(number.replace(b"D", b"E"))

    def texts(self, stem: str, n: int) -> list[str]:
        """The strings of the cards `stem`1 to `stem`n, without blanks around them; empty where there is none."""
        quick = _plain_strings(self.raw, stem)
        if len(quick) == n and b"CONTINUE" not in self.raw:
            values = list(map(quick.get, range(1, n + 1)))
            if None not in values:
                return [value for value in values if value is not None]
        raw, places, out = self.raw, self._places, []
        for i in range(1, n + 1):
            at = places.get(f"{stem}{i}".encode())
            value = "" if at is None else plain_string(raw, at)
            if value is None:
                value = self.get(f"{stem}{i}", "")
                if not isinstance(value, str):
                    raise NotPlainError(f"{stem}{i}")
            out.append(value.strip())
        return out

    def whole(self, key: str) -> int:
        """The value of a card that must be a whole number."""
        value = self.get(key)
        if type(value) is not int:
            raise NotPlainError(key)
        return value

    def __getitem__(self, key: str) -> Any:
        if key.upper().encode() not in self._places:
            raise KeyError(key)
        return self.get(key)

    def __contains__(self, key: str) -> bool:
        if key.upper().encode() not in self._places:
            return False
        self.get(key)  # astropy does not hold a record-valued card under its plain keyword
        return True

    def __iter__(self) -> Iterator[str]:
        raise NotPlainError("iteration")

    def __len__(self) -> int:
        raise NotPlainError("length")

    def __getattr__(self, name: str) -> NoReturn:
        raise NotPlainError(name)


def place_of(raw: bytes, key: bytes, start: int = 0) -> int:
    """Where the first card of a keyword begins, from `start`; −1 without one."""
    at = raw.find(key, start)  # without its blanks: bytes.find is slow where the last byte is a common one
    while at >= 0 and (at % CARD or raw[at : at + 8] != key.ljust(8)):
        at = raw.find(key, at + 1)
    return at


def plain_string(raw: bytes, at: int) -> str | None:
    """The string of the card at `at`, without blanks behind it; None where it is no string, or none without ado."""
    end = raw.find(b"'", at + 11, at + CARD)
    if raw[at + 8 : at + 11] != b"= '" or end < 0 or raw[end + 1 : end + 2] not in _AFTER:
        return None
    if raw[at + CARD : at + CARD + 8] == b"CONTINUE" or raw[end + 1 : at + CARD].lstrip()[:1] not in (b"", b"/"):
        return None
    value = raw[at + 11 : end].decode("latin-1").rstrip()
    # `AXIS.1: 2` is a record-valued card (FITS Paper IV), which astropy takes apart.
    return value if value.isascii() and ": " not in value else None


def mandatory(raw: bytes, place: int, key: bytes) -> int:
    """The whole number of a mandatory card, which must be the one at `place`, in fixed format (FITS 4.0, 4.2.3)."""
    at = CARD * place
    if raw[at : at + 10] != key.ljust(8) + b"= " or raw[at + 30 : at + 31] not in _AFTER:
        raise NotPlainError(key.decode())
    digits = raw[at + 10 : at + 30].lstrip()
    if not (digits.isdigit() or (digits[:1] == b"-" and digits[1:].isdigit())):
        raise NotPlainError(key.decode())
    return int(digits)


def _plain_strings(raw: bytes, stem: str) -> dict[int, str]:
    """The plain strings among the cards `stem`n, by n and without blanks around them; none where an n repeats."""
    out: dict[int, str] = {}
    for found in re.finditer(stem.encode() + rb"(\d{1,3}) *= '([^']*)'[ /]", raw):
        start, number = found.start(), int(found[1])
        if start % CARD == 0 and found.start(2) == start + 11 and found.end() <= start + CARD:
            value = found[2].decode("latin-1").strip()
            if number in out or ": " in value or not value.isascii():
                return {}
            out[number] = value
    return out
