"""Text of strangers made harmless to look at: what acts instead of showing is spelt out.

A model may say anything: terminal commands (ESC …), characters that turn the direction of writing round or that no eye
sees, bytes that are no text. Each becomes an escape as Python writes it: `\\x1b`, `\\u202e`, and `\\xe2` for a byte
that is no whole character. Line breaks and tabs stay apart, since both renderers show them and keep them.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["text", "newline", "tab", "escape"]


class Shown(NamedTuple):
    """A stretch of one kind; an escape is written out already, a newline is one `\\n`."""

    kind: Kind
    text: str


MAX_MARKS = 4
"""Combining marks on one letter that no script needs more of; a longer pile would paint over the lines around it."""

# Controls (Cc), formats (Cf), line and paragraph separators (Zl, Zp), surrogates (Cs), private use (Co), what Unicode
# asks to draw as nothing (Default_Ignorable_Code_Point), and blanks that pass for the space (NBSP, U+2000-200A, …).
_ACTS = (
    r"\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680"
    r"\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_MARK = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f]"
_UNSAFE = re.compile(rf"(\n)|(\t)|([{_ACTS}]+|{_MARK}{{{MAX_MARKS + 1},}})")
_KINDS: tuple[Kind, ...] = ("newline", "tab", "escape")


def shown(text: str | bytes) -> list[Shown]:
    """`text` in stretches that are safe to show. Bytes are read as UTF-8; those that are none become `\\xNN`."""
    raw = isinstance(text, bytes)
    words = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    out: list[Shown] = []
    at = 0
    for found in _UNSAFE.finditer(words):
        if found.start() > at:
            out.append(Shown("text", words[at : found.start()]))
        kind = _KINDS[(found.lastindex or 1) - 1]
        out.append(Shown(kind, "".join(_escape(c, raw) for c in found[0]) if kind == "escape" else found[0]))
        at = found.end()
    if at < len(words):
        out.append(Shown("text", words[at:]))
    return out


def plain(text: str | bytes) -> str:
    """`text` as one safe string, with its line breaks and tabs."""
    return "".join(part.text for part in shown(text))


def one_line(text: str | bytes, limit: int = 0) -> str:
    """The same on one line, with `…` where more than `limit` characters (0: none) were cut off."""
    words = " ".join(plain(text).split())
    return words if not limit or len(words) <= limit else words[: limit - 1] + "…"


def _escape(letter: str, raw: bool) -> str:
    code = ord(letter)
    if raw and 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape carried
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
