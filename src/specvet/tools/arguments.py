"""What models hand to tools, made harmless: arguments may be of any type, size and depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

MAX_DEPTH = 8
MAX_ITEMS = 1_000
MAX_TEXT = 20_000
"""Beyond these an argument is no argument; what is kept of it is cut."""


def plain(value: object, depth: int = 0) -> Any:
    """`value` as JSON knows it: texts that UTF-8 can hold, numbers, lists, and objects with texts as keys.

    NumPy's numbers and arrays become Python's; what has no such form, is too deep or too long, becomes a text that
    shows its beginning.
    """
    if value is None or isinstance(value, bool | float):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, int):
        return value if value.bit_length() <= 1_024 else one_line(value)
    if isinstance(value, str):
        return value[:MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, np.generic | np.ndarray) and value.size <= MAX_ITEMS and depth < MAX_DEPTH:
        return plain(float(value) if isinstance(value, np.floating) else value.tolist(), depth + 1)
    if depth < MAX_DEPTH and isinstance(value, list | tuple | Mapping) and len(value) <= MAX_ITEMS:
        if isinstance(value, Mapping):
            return {plain(k) if isinstance(k, str) else one_line(k): plain(v, depth + 1) for k, v in value.items()}
        items = [plain(v, depth + 1) for v in value]
        return tuple(items) if isinstance(value, tuple) else items
    return one_line(value)


def one_line(value: object, limit: int = 80) -> str:
    """`value` as a text of one line, of at most `limit` printable characters; never raises."""
    if isinstance(value, int) and value.bit_length() > 1_024:
        return f"a number of {value.bit_length() * 3 // 10} digits"
    try:
        text = value[: 4 * limit] if isinstance(value, str) else str(value)
    except Exception:  # a circle, a depth, or a __str__ that fails
        return f"a {type(value).__name__}"
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
