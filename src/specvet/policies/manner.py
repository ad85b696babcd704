"""How a model was trained to be asked: `specvet.json` in its folder.

A model that learnt from one figure and one wording is asked with these; nobody should have to know them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from specvet.policies.tokens import PolicyError
from specvet.tasks import Wording
from specvet.views import COMPACT_STYLE, REFERENCE_STYLE, Size, check_style, picture_size

FILE = "specvet.json"


class Manner(BaseModel):
    """What to show and how to ask. The defaults are those of the published models."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wording: Wording = "full"
    style: str = REFERENCE_STYLE
    size: str | None = None
    """Of the compact style: a name or `448x280`."""
    max_turns: int = Field(default=8, ge=1)
    turn_tokens: int = Field(default=2_048, ge=1)
    context: int = Field(default=16_384, ge=2)
    tasks: tuple[str, ...] = ()
    """Those that it was trained on; none: it reads what it is asked."""

    @model_validator(mode="after")
    def _drawable(self) -> Manner:
        object.__setattr__(self, "style", check_style(self.style, self.pixels))
        return self

    @property
    def pixels(self) -> Size:
        """`size` as figures take it."""
        return picture_size(self.size)


PUBLISHED = Manner()
NANO = Manner(
    wording="short",
    style=COMPACT_STYLE,
    size="tiny",
    max_turns=8,
    turn_tokens=160,
    context=2_048,
    tasks=("cc", "cv", "gm", "ss", "wd"),
)
"""The manner of `nano`."""


def manner_of(folder: str | Path | None) -> Manner | None:
    """What a model's folder says; None where it says nothing of it. Raises PolicyError for a damaged file."""
    file = None if folder is None else Path(folder) / FILE
    if file is None or not file.is_file():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        told = found.get("manner")
        return None if told is None else Manner.model_validate(told)
    except (OSError, ValueError, AttributeError, RecursionError) as e:  # pydantic's ValidationError is a ValueError
        raise PolicyError(f"{file}: says nothing that can be read of how the model is asked: {e}", fatal=True) from e


def settled(own: Manner | None, given: Mapping[str, Any], usual: Manner = PUBLISHED) -> Manner:
    """The manner to ask in: what was `given`, by field, goes before the model's `own`, and that before what is `usual`.

    None counts as not given. A size belongs to a style: with another style than the model's own its size goes, too.
    Raises ValueError for a style, size or number that there is not.
    """
    base = own or usual
    chosen = {name: value for name, value in given.items() if value is not None}
    if "style" in chosen and "size" not in chosen and check_style(chosen["style"]) != base.style:
        chosen["size"] = None
    return Manner.model_validate(base.model_dump() | chosen)
