"""What can be wrong with an expression."""

from __future__ import annotations

from typing import Literal

ErrorKind = Literal["syntax", "unsupported", "too_large", "timeout", "memory", "domain", "internal"]
"""`syntax`: not an expression; `unsupported`: not in the grammar; `too_large`: refused for its size; `timeout`,
`memory`: stopped while it ran; `domain`: no such value (division by zero, unequal dimensions, singular matrix);
`internal`: SymPy or the tool failed."""


class GrammarError(ValueError):
    """An expression that was refused. `kind` is one of `ErrorKind`, `message` one line that says what to write."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind: ErrorKind = kind
        self.message = message


def syntax(message: str) -> GrammarError:
    return GrammarError("syntax", message)


def unsupported(message: str) -> GrammarError:
    return GrammarError("unsupported", message)


def too_large(message: str) -> GrammarError:
    return GrammarError("too_large", message)


def domain(message: str) -> GrammarError:
    return GrammarError("domain", message)
