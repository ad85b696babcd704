"""Tools: what an agent may call. In come a call's arguments; out comes an `Observation`, never an exception."""

from specvet.tools.arguments import one_line, plain
from specvet.tools.observation import Observation, Tool, WindowData
from specvet.tools.zoom import MIN_POINTS, TOOL_NAME, ZoomTool, shift

__all__ = ["MIN_POINTS", "TOOL_NAME", "Observation", "Tool", "WindowData", "ZoomTool", "one_line", "plain", "shift"]
