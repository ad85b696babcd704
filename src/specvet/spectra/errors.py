"""What a reader says when it cannot read a file."""

from __future__ import annotations

MAX_LENGTH = 1000
"""Characters of a problem; a damaged file may hold a word of any length."""


class SpectrumReadError(ValueError):
    """A file that is not a readable spectrum. The message names the file, what is wrong and what to do."""

    def __init__(self, file: str, problem: str) -> None:
        problem = problem if len(problem) <= MAX_LENGTH else problem[: MAX_LENGTH - 1] + "…"
        super().__init__(f"{file}: {problem}" if file else problem)
        self.file = file
        self.problem = problem
