"""How a branch ends that something went wrong in."""

from __future__ import annotations

import asyncio
from typing import Protocol

from specvet.agent.loop import policy_failure
from specvet.agent.talk import RequestCancelledError, TokenDriftError
from specvet.agent.waiting import OutOfTimeError, is_being_cancelled
from specvet.chat import LedgerError
from specvet.policies.tokens import ContextLengthError, PolicyError
from specvet.records.schema import StopReason


class Endable(Protocol):
    """A branch, as far as it can end."""

    def stopped(self, stop: StopReason, reason: str, detail: str = "") -> None: ...

    def out_of_time(self) -> None: ...


def end_with(branch: Endable, error: BaseException) -> None:
    """End a branch with what went wrong; raise what is not its own."""
    match error:
        case TokenDriftError():
            branch.stopped(StopReason.TOKEN_DRIFT, str(error), error.detail)
        case LedgerError():
            branch.stopped(StopReason.LEDGER, str(error))
        case ContextLengthError():
            branch.stopped(StopReason.CONTEXT, str(error), "backend")
        case PolicyError() if not error.fatal:
            branch.stopped(StopReason.POLICY_ERROR, policy_failure(error), type(error).__name__)
        case OutOfTimeError():
            branch.out_of_time()
        case TimeoutError():
            branch.stopped(StopReason.OUT_OF_TIME, policy_failure(error), "backend")
        case asyncio.CancelledError() if not is_being_cancelled():  # the request was, not we
            end_with(branch, RequestCancelledError.of(error))
        case asyncio.CancelledError() | PolicyError() | MemoryError():
            raise error
        case _:
            branch.stopped(StopReason.POLICY_ERROR, policy_failure(error), type(error).__name__)
