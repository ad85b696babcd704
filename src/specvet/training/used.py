"""What a session of training has used: samplers that come and go, and one trainer."""

from __future__ import annotations

from collections.abc import Mapping

from specvet.policies.tokens import TokenPolicy, usage_numbers
from specvet.training.trainer import Trainer

_RENAMED = {"images": "trained_images", "seconds": "train_seconds"}
"""Of the trainer's numbers, those whose names a policy's have too."""


class Used:
    """Adds up. Names are those of `specvet.policies.tokens.Usage` and `specvet.training.trainer.TrainUsage`."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.parts: dict[str, float] = {}
        """Seconds by part: `seconds.rollout`, `seconds.train`, `seconds.save`, `seconds.dev`, `seconds.validation`."""
        self._past: dict[str, float] = {}
        self._policy: TokenPolicy | None = None
        self._before: Mapping[str, float] = {}

    def sampling(self, policy: TokenPolicy) -> None:
        """From now on this policy samples; what it had used before is not counted."""
        self._past = added(self._past, self._of_policy())
        self._policy, self._before = policy, usage_numbers(policy.usage)

    def spent(self, part: str, seconds: float) -> None:
        """So long it took."""
        self.parts = added(self.parts, {f"seconds.{part}": seconds})

    def numbers(self) -> dict[str, float]:
        """Everything so far, by name."""
        sampled = added(self._past, self._of_policy())
        if sampled:
            sampled["cached_tokens"] = sampled["prompt_tokens"] - sampled["prefilled_tokens"]
        trained = {} if self.trainer is None else usage_numbers(self.trainer.usage)
        return added(sampled, {_RENAMED.get(name, name): n for name, n in trained.items()}, self.parts)

    def _of_policy(self) -> dict[str, float]:
        if self._policy is None:
            return {}
        now = usage_numbers(self._policy.usage)
        return {name: amount - self._before.get(name, 0.0) for name, amount in now.items()}


def added(*many: Mapping[str, float]) -> dict[str, float]:
    """All of them, added up by name."""
    total: dict[str, float] = {}
    for numbers in many:
        for name, amount in numbers.items():
            total[name] = total.get(name, 0.0) + amount
    return total
