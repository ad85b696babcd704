"""The tool as an episode has it: calls, tool time, and what was asked before."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specvet.tasks.physics.grammar import SIZES
from specvet.tools.observation import Observation
from specvet.tools.sympy_tool.limits import Limits
from specvet.tools.sympy_tool.pool import Pool, shared_pool
from specvet.tools.sympy_tool.result import Result
from specvet.tools.sympy_tool.text import one_line


class SympyTool:
    """Evaluates physics expressions. One object is one episode; all share the pool of the process.

    `run`, `arun` and a call of the object never raise and take at most `limits.wall_s` and a little, waiting for a free
    worker aside.
    """

    name = "sympy"

    def __init__(self, limits: Limits | None = None, pool: Pool | None = None) -> None:
        self.limits = limits or Limits()
        self.pool = pool or shared_pool()
        self.deadline_s = self.limits.wall_s + 0.5
        self.calls = 0
        """Calls so far, repeated and refused ones too."""
        self.seconds = 0.0
        """Tool time so far."""
        self.repeated = 0
        """Calls that were answered from memory."""
        self.kinds: Counter[str] = Counter()
        """Errors so far, by kind."""
        self._known: dict[str, Result] = {}
        self._lock = threading.Lock()

    def schema(self) -> dict[str, Any]:
        """JSON schema as chat models are given it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": "Evaluates one line of mathematics: solve, integrate, diff, N, Matrix, convert, …",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "expression": {
                            "type": "string",
                            "description": "One expression, such as solve(2*x + 3 == 7, x). Every name is a symbol.",
                        }
                    },
                    "required": ["expression"],
                },
            },
        }

    def __call__(self, arguments: Mapping[str, Any] | str) -> Observation:
        """The result as an observation, of kind `result` or the kind of error. Never raises."""
        given = arguments.get("expression") if isinstance(arguments, Mapping) else arguments
        result = self.run(given)
        return Observation("result" if result.ok else result.kind, result.text)

    def run(self, argument: object) -> Result:
        """The result of one line, from any thread. Never raises."""
        key = " ".join(argument.split()) if isinstance(argument, str) else ""
        with self._lock:
            refused = self._refused(argument)
            known = self._known.get(key) if key else None
            self.calls += 1
            if refused is None and known is not None:
                self.repeated += 1
                refused = replace(known, seconds=0.0, repeated=True)
            left = self.limits.episode_s - self.seconds
        result = refused or self._asked(str(argument), left)
        with self._lock:
            self.seconds += result.seconds
            if result.kind:
                self.kinds[result.kind] += 1
            if key and result.kind not in ("timeout", "memory", "internal", "max_calls", "tool_budget"):
                self._known[key] = result
        return result

    async def arun(self, argument: object) -> Result:
        """`run` beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.pool.threads, self.run, argument)

    def _refused(self, argument: object) -> Result | None:
        """What needs no worker: an episode that is spent, and what is no line of text."""
        if self.calls >= self.limits.calls:
            return self._error(
                "max_calls", f"the limit of {self.limits.calls} calls is reached; answer without the tool"
            )
        if self.seconds >= self.limits.episode_s:
            return self._error(
                "tool_budget", f"the {self.limits.episode_s:g} s of tool time are spent; answer without it"
            )
        if not isinstance(argument, str):
            return self._error("syntax", "the expression must be a text")
        if len(argument) > SIZES.characters:
            return self._error(
                "too_large", f"the expression has {len(argument)} characters, at most {SIZES.characters} are read"
            )
        return None

    def _asked(self, argument: str, left_s: float) -> Result:
        limits = replace(self.limits, wall_s=min(self.limits.wall_s, left_s))
        try:
            kind, text, seconds = self.pool.call(argument, limits)
        except Exception:  # the server could not be started twice
            return self._error("internal", "the tool does not answer")
        return (
            self._error(kind, text, seconds) if kind else Result("ok", "", one_line(text, self.limits.output), seconds)
        )

    def _error(self, kind: str, message: str, seconds: float = 0.0) -> Result:
        return Result("error", kind, one_line(f"error: {kind}: {message}", self.limits.output), seconds)
