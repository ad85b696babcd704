"""The `sympy` tool: a line of physics in, one line out, from a process that can be killed.

In comes an expression of `specvet.tasks.physics.grammar`; out comes a `Result`, never an exception:

    tool = SympyTool()                       # one episode: it counts calls and time
    tool.run("solve(2*x + 3 == 7, x)")       # Result(status="ok", text="[2]", …)
    await tool.arun("1/0")                   # text="error: domain: division by zero"

`pool` keeps a small server process that has SymPy loaded and forks a worker for each call before the call comes
(`server`, `worker`); `text` makes results one harmless line. Every call begins from the same state, so the same line
has the same result whatever was asked before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.tools.sympy_tool.limits import Limits
    from specvet.tools.sympy_tool.pool import Pool
    from specvet.tools.sympy_tool.result import Result
    from specvet.tools.sympy_tool.tool import SympyTool

__all__ = ["Limits", "Pool", "Result", "SympyTool"]

_MODULES = {"Limits": "limits", "Pool": "pool", "Result": "result", "SympyTool": "tool"}
"""Loaded when first used: the server needs none of them, and stays small."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"specvet.tools.sympy_tool.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'specvet.tools.sympy_tool' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
