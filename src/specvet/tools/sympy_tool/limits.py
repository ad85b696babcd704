"""What a call and an episode may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the tool; sizes of expressions are `specvet.tasks.physics.grammar.Sizes`."""

    wall_s: float = 5.0
    """Of a call, from sending the line to the result."""
    cpu_s: int = 5
    """Of a call; the kernel ends the worker."""
    memory_mb: int = 512
    """Address space of a worker."""
    output: int = 512
    """Characters of a result."""
    calls: int = 6
    """Of an episode."""
    episode_s: float = 20.0
    """Tool time of an episode."""

    def __post_init__(self) -> None:
        if self.wall_s <= 0 or self.cpu_s < 1 or self.memory_mb < 64 or self.output < 64:
            raise ValueError(
                f"{self}: wall_s must be positive, cpu_s at least 1, memory_mb at least 64 and output at least 64"
            )
