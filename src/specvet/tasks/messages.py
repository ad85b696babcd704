"""Says in plain words what is wrong with a task file: one line an error, with its field and line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from specvet.tasks.errors import TaskError
from specvet.tasks.task import Task
from specvet.tasks.yaml_text import Path, YamlText

MAX_SHOWN = 5
"""Errors told at once; more would only bury the first."""

_NOT_FIELDS = ("<rival>", "<name>", "[key]")
"""Parts that pydantic adds to a place and no file holds."""


def task_error(error: ValidationError, source: YamlText, file: str) -> TaskError:
    """The TaskError that tells the first errors of a task file and where they stand."""
    found = error.errors(include_url=False)
    found.sort(key=lambda item: item["type"] == "missing")  # a misspelt field explains a missing one
    lines = []
    for item in found[:MAX_SHOWN]:
        path = tuple(part for part in item["loc"] if part not in _NOT_FIELDS)
        where = f"{field_name(path)}: " if path else ""
        stands = path[:-1] if item["type"] == "missing" else path
        line = f" (line {source.line(stands)})" if stands else ""
        lines.append(f"{file}: {where}{_problem(item, path)}{line}")
    if len(found) > MAX_SHOWN:
        lines.append(f"{file}: and {len(found) - MAX_SHOWN} more")
    return TaskError("\n".join(lines))


def field_name(path: Path) -> str:
    """`windows[1].range`, counting from 0."""
    name = ""
    for part in path:
        if not name:
            name = str(part)
        else:
            name += f"[{part}]" if isinstance(part, int) else f".{part}"
    return name


def suggestion(word: str, known: list[str]) -> str:
    """`did you mean `windows`?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""


def _problem(item: Any, path: Path) -> str:
    kind: str = item["type"]
    value, limits = item["input"], item.get("ctx", {})
    if kind == "missing":
        return _missing(path)
    if kind == "extra_forbidden":
        model = _model_at(path[:-1])
        known = list(model.model_fields) if model else []
        return f"there is no such field; {suggestion(str(path[-1]), known) or 'known are ' + ', '.join(known)}"
    if kind == "value_error":
        return str(limits["error"])
    if kind == "literal_error":
        words = limits["expected"].replace("'", "`")
        return f"{_shown(value)} is not {words}"
    if kind == "invalid_key":
        return "names of fields are words; put this one in quotes or correct it"
    if value is None:
        return "is left empty; fill it in or remove the line"
    if kind in ("tuple_type", "list_type"):
        return f"{_wanted_list(path)}, not {_shown(value)}"
    if kind in ("model_type", "dict_type", "mapping_type", "model_attributes_type"):
        return f"should be made of `field: value` lines, not {_shown(value)}"
    if kind == "string_type":
        quotes = f'; put it in quotes: "{value}"' if isinstance(value, (int, float)) else ""
        return f"should be a text, not {_shown(value)}{quotes}"
    if kind == "string_too_short":
        return "is an empty text; fill it in or remove the line"
    if kind == "string_pattern_mismatch":
        return f"{_shown(value)} should be made of small letters, digits and `_`, such as `halpha_2`"
    if kind in ("float_type", "float_parsing", "finite_number"):
        return f"should be a number, not {_shown(value)}"
    if kind in ("int_type", "int_parsing", "int_from_float", "int_parsing_size"):
        return f"should be a whole number, not {_shown(value)}"
    if kind in _BOUNDS:
        return f"{_shown(value)} should be {_BOUNDS[kind]} {next(iter(limits.values())):g}"
    if kind in ("too_long", "too_short"):
        return _length(kind, path, limits)
    return item["msg"].replace("Input should be", "should be")  # type: ignore[no-any-return]


_BOUNDS = {
    "greater_than": "greater than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
}


def _missing(path: Path) -> str:
    if isinstance(path[-1], int):
        return "is missing; a range is two numbers, [low, high] in Å"
    return "is missing; add it, `specvet tasks --template` shows an example"


def _length(kind: str, path: Path, limits: Mapping[str, Any]) -> str:
    actual = limits.get("actual_length")
    if _is_range(path):
        return f"holds {actual} numbers; a range is two, [low, high] in Å"
    if kind == "too_long":
        return f"holds {actual} entries, at most {limits['max_length']} are allowed; keep the most telling"
    return f"holds {actual or 'no'} entries; at least {limits['min_length']} is needed"


def _wanted_list(path: Path) -> str:
    if _is_range(path):
        return "should be two numbers, [low, high] in Å"
    return "should be a list, each entry on a line of its own that starts with `- `"


def _is_range(path: Path) -> bool:
    names = [part for part in path if isinstance(part, str)]
    return bool(names) and (names[-1] in ("range", "band") or (names[-1] == "reference" and isinstance(path[-1], int)))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"`{value if len(value) <= 40 else value[:37] + '…'}`"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "nothing" if value is None else f"`{str(value)[:40]}`"


def _model_at(path: Path) -> type[BaseModel] | None:
    """The model whose fields stand at `path` in a task file."""
    model: type[BaseModel] | None = Task
    names_follow = False
    for part in path:
        if names_follow or isinstance(part, int) or model is None:
            names_follow = False
            continue
        field = model.model_fields.get(part)
        if field is None:
            return None
        names_follow = get_origin(field.annotation) is dict
        model = _model_in(field.annotation)
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
