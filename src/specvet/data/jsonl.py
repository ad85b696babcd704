"""JSON Lines: one object a line, read with the place of each, so that an error can name it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from specvet.data.errors import InputError


def json_lines(path: str, what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, fields) of each line that is not blank; `what` names the kind of file in errors. Raises InputError."""
    try:
        with open(path, encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                where = f"{path} line {number}"
                try:
                    fields = json.loads(line)
                except (ValueError, RecursionError) as e:
                    raise InputError(f"{where}: is no JSON ({e}); {what} has one object a line") from None
                if not isinstance(fields, dict):
                    raise InputError(f"{where}: holds a {type(fields).__name__}, not an object")
                if "\\ud" in line.lower() and not _is_text(fields):
                    raise InputError(
                        f"{where}: holds half a character (\\ud800 to \\udfff alone), which no file can keep"
                    )
                yield where, fields
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"{path}: cannot be read: {e}") from None


def _is_text(fields: Mapping[str, Any]) -> bool:
    """Whether UTF-8 can hold it: JSON's escapes can spell half a surrogate pair."""
    try:
        json.dumps(fields, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
