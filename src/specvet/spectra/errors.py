"""What a reader says when it cannot read a file."""

from __future__ import annotations


class SpectrumReadError(ValueError):
    """A file that is not a readable spectrum. The message names the file, what is wrong and what to do."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}" if file else problem)
        self.file = file
        self.problem = problem
