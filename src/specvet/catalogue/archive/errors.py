"""What can go wrong with an archive, and whether asking again may help."""

from __future__ import annotations

from specvet.data.errors import InputError


class ArchiveError(InputError):
    """An archive cannot be asked as the user wishes; the message says what to do."""


class ServiceError(ArchiveError):
    """A service did not answer, or its answer cannot be used. The message holds the address."""

    again = True
    """Whether the same request may succeed later."""
    gone = False
    """Whether the whole service fails, whatever it is asked."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after
        """Seconds that the service wants to be left alone."""


class UnreachableError(ServiceError):
    """No connection, no answer in time, or an HTTP status of 5xx, 408 or 429."""

    gone = True


class AnswerError(ServiceError):
    """An answer that is not what was asked for: no VOTable, cut short, rows of others."""


class QuestionError(ServiceError):
    """The service says that the question is wrong: an unknown table, a column that is not there."""

    again = False


class PartialError(ServiceError):
    """More rows than the service gives at once: to be asked in smaller pieces."""

    again = False


class GivenUpError(ServiceError):
    """Not asked, as it failed before."""

    again = False
