"""What both kinds of probes share: requests that go out together, and what failed among them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Generic, TypeVar

from specvet.policies.probes.report import Probe, skipped
from specvet.policies.tokens import ContextLengthError, PolicyError

T = TypeVar("T")

ROUNDING_EXACT, ROUNDING = 1e-4, 1 / 256
"""How far rounding may move a log-prob where sums are taken in another order (another batch): in float32 on this
machine, and elsewhere (half a step of a logit between 1 and 2 in bfloat16). A difference counts when it is larger, and
larger than `NOISE_FACTOR` times what the same picture moves by when its file is another. Tiny random models move by
0.001 to 0.6 between the probes' pictures, trained ones by far more; a 16-bit random model may be too dull to tell."""
NOISE_FACTOR = 4.0
SAME_FACTOR = 8.0
"""Log-probs that should be the same may differ by so many times the rounding: in bfloat16, two whole steps."""


class Outcomes(Generic[T]):
    """Results of requests by name; asking for one that failed raises `NotAskedError` or `FailedError`."""

    def __init__(self, results: Mapping[str, T | BaseException]) -> None:
        self._results = results

    def __getitem__(self, name: str) -> T:
        result = self._results[name]
        if isinstance(result, ContextLengthError):
            raise NotAskedError(f"does not fit into the model's context: {result}")
        if isinstance(result, BaseException):
            raise FailedError(f"{type(result).__name__}: {result}")
        return result

    def __or__(self, more: Outcomes[T]) -> Outcomes[T]:
        return Outcomes({**self._results, **more._results})

    def error(self, name: str) -> BaseException | None:
        """What went wrong with one, if anything."""
        result = self._results[name]
        return result if isinstance(result, BaseException) else None


class NotAskedError(Exception):
    """A probe that cannot be asked; the message says why."""


class FailedError(Exception):
    """A probe whose request failed."""


async def outcomes(requests: Mapping[str, Coroutine[Any, Any, T]]) -> Outcomes[T]:
    """All of them at once. Raises a fatal PolicyError and what is no `Exception`; keeps every other."""
    given = await asyncio.gather(*requests.values(), return_exceptions=True)
    for result in given:
        if isinstance(result, PolicyError) and result.fatal:
            raise result
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
    return Outcomes(dict(zip(requests, given, strict=True)))


def judged(name: str, judge: Any) -> Probe:
    """The probe that `judge()` gives; a request of it that failed fails it."""
    try:
        found: Probe = judge()
    except NotAskedError as e:
        return skipped(name, str(e))
    except FailedError as e:
        return Probe(name, False, detail=str(e))
    return found
