"""Tools: what an agent may call. In come a call's arguments; out comes an `Observation`, never an exception.

The names below are loaded when they are first used: the server of `sympy_tool` is a package below this one and stays
small, with one thread, because it needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specvet.tools.arguments import one_line, plain
    from specvet.tools.observation import Observation, Tool, WindowData
    from specvet.tools.zoom import MIN_POINTS, TOOL_NAME, ZoomTool, shift

__all__ = ["MIN_POINTS", "TOOL_NAME", "Observation", "Tool", "WindowData", "ZoomTool", "one_line", "plain", "shift"]

_HOME = {
    "arguments": ("one_line", "plain"),
    "observation": ("Observation", "Tool", "WindowData"),
    "zoom": ("MIN_POINTS", "TOOL_NAME", "ZoomTool", "shift"),
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"specvet.tools.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'specvet.tools' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
