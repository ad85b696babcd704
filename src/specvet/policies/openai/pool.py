"""Several servers that have the same model, as one: requests are spread, and what one fails with another is asked.

A request goes to the server with the fewest under way. One that cannot be reached, breaks off, answers nonsense or
takes too long rests for a while, longer each time, and its request goes to the others; only when none of them answers,
round after round, is that everybody's trouble. What is the request's own fault is told at once, whoever says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from specvet.policies.openai.errors import Kind, ServerError
from specvet.policies.openai.patience import Clock, Patience
from specvet.policies.openai.server import Server
from specvet.policies.tokens import PolicyError, Usage

T = TypeVar("T")

REST_S, LONGEST_REST_S = 15.0, 600.0
"""Seconds that a server is left alone after it failed for its own sake, and at most after failing again and again."""

ITS_OWN: frozenset[Kind] = frozenset(("unreachable", "broken", "web_page", "bad_json", "bad_reply", "busy"))
"""Kinds of errors that another server may not have."""


@dataclass(slots=True)
class _Member:
    server: Server
    under_way: int = 0
    rests_until: float = 0.0
    failures: int = 0
    """In a row."""


class ServerPool:
    """Has what a `Server` has. The servers must share one `Usage` and one clock."""

    identity = "several servers"
    """What a run knows it by: which of them answered says nothing, and one may be replaced."""

    def __init__(self, servers: Sequence[Server], patience: Patience) -> None:
        """`patience` is for the whole: each server gets two attempts before another is asked."""
        self._members = [_Member(server) for server in servers]
        self._patience = patience
        self.patience = patience
        self.usage: Usage = servers[0].usage
        self.clock: Clock = servers[0].clock
        self.address = ", ".join(server.address for server in servers)

    @property
    def patience(self) -> Patience:
        return self._patience

    @patience.setter
    def patience(self, patience: Patience) -> None:
        self._patience = patience
        few = Patience(
            attempts=min(2, patience.attempts),
            attempts_at_500=min(2, patience.attempts_at_500),
            attempt_s=patience.attempt_s,
            connect_s=min(5.0, patience.connect_s),
            total_s=patience.total_s,
        )
        for member in self._members:
            member.server.patience = few

    async def post(self, path: str, body: Mapping[str, Any], model: str, read: Callable[[Any], T]) -> T:
        """As `Server.post`, of whichever server answers."""
        started, round = self.clock.now(), 0
        tried: set[int] = set()
        while True:
            member = self._next(tried)
            problem: Exception
            if member is not None:
                member.under_way += 1
                try:
                    answer = await member.server.post(path, body, model, read)
                except (ServerError, TimeoutError, PolicyError) as e:
                    if not _is_its_own(e):
                        raise
                    problem = e
                    tried.add(id(member))
                    self._rest(member)
                    if self._next(tried) is not None:
                        continue
                else:
                    member.failures, member.rests_until = 0, 0.0
                    return answer
                finally:
                    member.under_way -= 1
            wait = self._patience.wait(round, None, self.clock.chance())
            round += 1
            left = self._patience.total_s - (self.clock.now() - started)
            if round >= self._patience.attempts or wait >= left:
                raise self._nobody(problem, round)
            await self.clock.sleep(wait)
            tried.clear()

    async def models(self, *, needed: bool = False) -> list[dict[str, Any]]:
        """The list of the first server that gives one; with `needed`, why none does is raised."""
        problem: Exception | None = None
        for member in self._members:
            try:
                found = await member.server.models(needed=needed)
            except (PolicyError, TimeoutError) as e:
                problem = e
                self._rest(member)
                continue
            if found or needed:
                return found
        if needed and problem is not None:
            raise problem
        return []

    async def aclose(self) -> None:
        """Close all connections."""
        for member in self._members:
            await member.server.aclose()

    def _next(self, tried: set[int]) -> _Member | None:
        """The least busy that was not tried in this round; those that rest only when nobody else is left."""
        left = [m for m in self._members if id(m) not in tried]
        now = self.clock.now()
        return min(left, key=lambda m: (m.rests_until > now, m.under_way, m.failures), default=None)

    def _rest(self, member: _Member) -> None:
        if not member.failures:
            notes = self.usage.notes
            notes["servers_lost"] = notes.get("servers_lost", 0.0) + 1.0
        member.rests_until = self.clock.now() + min(LONGEST_REST_S, REST_S * 2.0**member.failures)
        member.failures = min(member.failures + 1, 10)

    def _nobody(self, problem: Exception, rounds: int) -> Exception:
        text = f"none of the {len(self._members)} servers answers ({rounds} rounds); the last: {problem}"
        if isinstance(problem, ServerError):
            return ServerError(text, problem.kind, status=problem.status, fatal=True, said=problem.said)
        return PolicyError(text, fatal=True)


def _is_its_own(error: Exception) -> bool:
    """Whether another server may not have the trouble."""
    if isinstance(error, ServerError):
        return error.kind in ITS_OWN
    # What `Server` gives up on after many timeouts is a plain fatal PolicyError.
    return isinstance(error, TimeoutError) or (type(error) is PolicyError and error.fatal)
