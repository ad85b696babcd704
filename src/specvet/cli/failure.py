"""What goes wrong in a way that a user can put right: one clear message and an exit code, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

DONE = 0
NOTHING_VETTED = 1
USAGE = 2
ERRORS_WITH_STRICT = 3
CANNOT_WRITE = 4
INTERRUPTED = 130
BROKEN_PIPE = 141


class CommandError(Exception):
    """Ends a command with `message` on stderr and the exit code `code`."""

    def __init__(self, message: str, code: int = NOTHING_VETTED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@contextmanager
def failing(code: int, *kinds: type[Exception]) -> Iterator[None]:
    """Turn exceptions of these kinds into a `CommandError` with that exit code and their own message.

    A reader of our output that has gone (`| head`) is no failure, though Python calls it an `OSError`.
    """
    try:
        yield
    except (BrokenPipeError, CommandError):
        raise
    except kinds as e:
        raise CommandError(_message(e), code) from e


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and not hasattr(error, "problem"):
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror and not hasattr(error, "problem"):
        return f"cannot write: {error.strerror}"
    return str(error)
