r"""The `# Tools` block that published system texts end with, written and read; as Qwen2.5's own template has it.

You are …

# Tools
…
<tools>
{"type": "function", …}
</tools>
…
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_BEFORE = (
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_AFTER = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
_BLOCK = re.compile(r"\s*^# Tools\s*$.*?^<tools>\n(?P<tools>.*?)\n</tools>(?P<after>.*)\Z", re.DOTALL | re.MULTILINE)


def tool_block(tools: Sequence[Mapping[str, Any]]) -> str:
    """What follows the system text where there are tools."""
    return _BEFORE + "".join(f"\n{json.dumps(tool, ensure_ascii=False)}" for tool in tools) + _AFTER


class WithoutBlock(NamedTuple):
    """A system text without its block."""

    text: str
    tools: tuple[Mapping[str, Any], ...] = ()
    """The schemas that the block held."""
    joint: int = 0
    """From here on the text stood behind the block."""
    moved: int = 0
    """By so many letters."""

    def published(self, offset: int) -> int:
        """Where a letter of `text` stood in the text as published."""
        return offset + self.moved if offset >= self.joint else offset


def without_tool_block(text: str) -> WithoutBlock:
    """A system text without its block, and the schemas that the block held.

    Words after the block stay, behind a blank line. A block that is none (no JSON in it) stays too, with no schema.
    """
    found = _BLOCK.search(text)
    tools = None if found is None else _schemas(found["tools"])
    if found is None or not tools or not all(isinstance(tool, dict) for tool in tools):
        return WithoutBlock(text)
    rest = found["after"].rpartition("</tool_call>")[2]
    begins = len(text) - len(rest.lstrip())  # the block ends with the text
    rest = rest.strip()
    before = text[: found.start()]
    head = f"{before}\n\n" if before and rest else before
    return WithoutBlock(head + rest, tuple(tools), len(head), begins - len(head) if rest else 0)


def _schemas(inside: str) -> list[Any] | None:
    try:
        return [json.loads(line) for line in inside.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        pass
    try:  # one schema over several lines, or a list of them
        whole = json.loads(inside)
    except (ValueError, RecursionError):
        return None
    return whole if isinstance(whole, list) else [whole]
