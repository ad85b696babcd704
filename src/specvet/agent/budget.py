"""What one trajectory may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What one trajectory may use; tokens count for models only."""

    max_turns: int = 8
    """As published; a call in the last is not executed."""
    max_malformed: int = 0
    """Malformed turns that are answered with a reminder before the trajectory fails."""
    max_seconds: float = 600.0
    turn_tokens: int = 2_048
    """That a model may sample in one turn."""
    context: int = 16_384
    """Tokens of the whole trajectory, pictures included."""

    def settings(self, *, tokens: bool) -> Mapping[str, int | float]:
        """What of it can change a verdict, as a run's settings hold it; `tokens` for a policy that has any."""
        of_tokens = ("turn_tokens", "context")
        return {name: value for name, value in asdict(self).items() if tokens or name not in of_tokens}


DEFAULT_BUDGET = Budget()
