"""Pictures and conversations for tests: invented, and random ones for properties."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from PIL import Image as Pillow

from specvet.chat import Image, Message, ToolCall
from specvet.chat.messages import assistant, system, tool, user

FORMATS = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_thinking", "qwen3_5")
GOLDEN = Path(__file__).parent / "golden"

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Draws a window of the spectrum; “λ” in Å.",
        "parameters": {
            "type": "object",
            "properties": {"window": {"type": "array", "items": {"type": "number"}}, "label": {"type": "string"}},
            "required": ["window"],
        },
    },
}


@cache
def picture(width: int = 448, height: int = 280, seed: int = 0) -> Image:
    """An opaque PNG of that size; `seed` makes it another picture."""
    out = io.BytesIO()
    Pillow.new("RGB", (width, height), (seed % 256, seed // 256 % 256, 200)).save(out, "PNG")
    return Image.of(out.getvalue())


def golden_messages(entries: list[dict[str, Any]], pictures: list[Image] | None = None) -> list[Message]:
    """Messages as OpenAI's API has them (golden files) as ours; pictures in their order, else small grey ones."""
    shown = iter(pictures or [])
    messages = []
    for entry in entries:
        content = entry.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = [next(shown, None) or picture() if p["type"] == "image" else p["text"] for p in parts]
        calls = [ToolCall(c["function"]["name"], c["function"]["arguments"]) for c in entry.get("tool_calls", ())]
        words = tuple(x for x in said if x != "")
        messages.append(Message(entry["role"], words, entry.get("reasoning_content") or "", tuple(calls)))
    return messages


def golden_cases() -> dict[str, dict[str, Any]]:
    """The repository's own golden conversations, by name."""
    return json.loads((GOLDEN / "conversations.json").read_text(encoding="utf-8"))


# What honest people write: any letters, with newlines and tags that are no control tokens.
WORDS = st.text(
    st.sampled_from("abc XYZ019.,;:!?'\"()[]{}<>/|\\=_-+λÅαé漢字🌟\u0301\t\n ") | st.characters(codec="utf-8"),
    max_size=40,
)
SHORT = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=20)
NUMBERS = st.integers(-10_000, 10_000) | st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def pictures(draw: st.DrawFn) -> Image:
    return picture(draw(st.integers(28, 700)), draw(st.integers(28, 500)), draw(st.integers(0, 65535)))


@st.composite
def conversations(draw: st.DrawFn, max_turns: int = 4, max_images: int = 6) -> list[Message]:
    """System, question with 0 or 1 pictures; then turns: a call and its observation, or words and a new question."""
    left = draw(st.integers(0, max_images))
    messages = [system(draw(WORDS))] if draw(st.booleans()) else []

    def said(words: str) -> tuple[str | Image, ...]:
        nonlocal left
        shown = left > 0 and draw(st.booleans())
        left -= shown
        return (draw(pictures()), words) if shown else (words,)

    messages.append(user(*said(draw(WORDS))))
    for _ in range(draw(st.integers(0, max_turns))):
        thought, words = draw(SHORT), draw(SHORT)
        if draw(st.booleans()):
            arguments = draw(st.dictionaries(SHORT, WORDS | NUMBERS | st.lists(NUMBERS, max_size=3), max_size=3))
            messages.append(assistant(words if draw(st.booleans()) else "", thought, [ToolCall("look", arguments)]))
            messages.append(tool(*said(draw(WORDS))))
        else:
            messages.append(assistant(words, thought))
            messages.append(user(*said(draw(WORDS))))
    return messages
