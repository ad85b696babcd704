"""Results made one harmless line: no breaks, no tags of the protocol, no more than the limit."""

from __future__ import annotations

import re
import unicodedata

LEFT, RIGHT = "<＜﹤‹〈⟨《«≪", ">＞﹥›〉⟩》»≫"
WORDS = (
    "tool_?result|tool_?call|tool_?response|tool_?use|tools?|answer|think(?:ing)?|image|function|system|user|assistant"
)
TAG = re.compile(rf"<([\s/|\\_-]*(?:{WORDS})(?![a-z0-9])[^<>]{{0,40}}?)(>|$)|<(\|[^<>|]{{0,40}}\|?)(>|$)")
MIN_PART = 20


def one_line(text: str, limit: int = 512) -> str:
    """`text` on one line, tags neutralised, its middle elided beyond `limit` characters with their count."""
    visible = (c for c in text if unicodedata.category(c) != "Cf")
    text = " ".join("".join(c if c.isprintable() else " " for c in visible).split())
    return elided(neutralised(text), limit)


def neutralised(text: str) -> str:
    """`text` with the angle brackets of protocol tags made square, in any case, with spaces, of any width.

    `<tool_result>`, `< / TOOL_Result >`, `＜tool＞` and `<|im_end|>` are tags no longer. Other brackets stay: `a < b`.
    """
    folded, places = _folded(text)
    characters = list(text)
    for match in TAG.finditer(folded):
        characters[places[match.start()]] = "["
        if match.group(2) or match.group(4):
            characters[places[match.end() - 1]] = "]"
    return "".join(characters)


def _folded(text: str) -> tuple[str, list[int]]:
    """`text` in lower case ASCII where it has such a form, without invisible characters; and where each came from."""
    folded, places = [], []
    for i, c in enumerate(text):
        if c in LEFT or c in RIGHT:
            plain = "<" if c in LEFT else ">"
        elif unicodedata.category(c) in ("Cf", "Mn", "Me"):
            continue
        else:
            plain = unicodedata.normalize("NFKC", c).lower()
        for each in plain:
            folded.append(each)
            places.append(i)
    return "".join(folded), places


def elided(text: str, limit: int) -> str:
    """`text`, or its beginning and end with the number of characters left out between: `12…[3456 characters]…78`."""
    if len(text) <= limit:
        return text
    kept = limit
    while True:
        mark = f"…[{len(text) - kept} characters]…"
        if kept + len(mark) <= limit or kept <= 2 * MIN_PART:
            break
        kept -= 1
    head = (kept + 1) // 2
    return text[:head] + mark + text[len(text) - (kept - head) :]
