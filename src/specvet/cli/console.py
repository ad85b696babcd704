"""Where text goes: results to stdout, everything else to stderr, in whatever encoding and width there is."""

from __future__ import annotations

import codecs
import io
import json
import math
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma", "Å": "A",
    "−": "-", "–": "-", "—": "-", "×": "x", "±": "+/-", "…": "...", "≥": ">=", "≤": "<=", "≈": "~", "·": ".", "•": "*",
    "→": "->", "’": "'", "Δ": "Delta", "²": "2", "°": "deg", "⊙": "sun",
}  # fmt: skip
"""How the letters of this field are written where the terminal has no Unicode."""

WIDTH_WITHOUT_TERMINAL = 120


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    out = ""
    for letter in error.object[error.start : error.end]:
        out += _PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode()
    return out, error.end


def prepare_streams() -> None:
    """Let stdout and stderr write anything: what their encoding lacks is spelt out (`Hα` as `Halpha`).

    One that the caller closed (`>&-`) wants nothing: it goes nowhere, so that no file of ours gets its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    codecs.register_error("specvet", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="specvet")


def console(stderr: bool = False) -> Console:
    """A rich console on stdout or stderr; plain and 120 columns wide where that is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def say(text: str) -> None:
    """A line on stderr for the user, under the program's name."""
    print(f"specvet: {text}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout; NaN and ±inf become null."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")
    print(json.dumps(_finite(value), ensure_ascii=not unicode, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    # A file name that is not UTF-8 comes with surrogates, which are no JSON.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
