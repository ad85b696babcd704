"""Results that others printed (`published.yaml`), as data with their sources.

The chapter's five results come from the public reproduction of Spec-o3 with Qwen3.5, whose evaluation settings are the
defaults of `specvet eval run`; the paper's two come from its authors. Both were measured on questions of SpecVI-Bench.
Whoever shows them beside other numbers says so: `Published.caveat` has the words.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import yaml
from pydantic import Field, TypeAdapter

from specvet.evaluation.plan import Part
from specvet.tasks.yaml_text import StrictLoader

Percent = float
"""As printed, from 0 to 100."""


class PublishedResult(Part):
    """One row of somebody's table. What the source does not print is None, or not there."""

    model: str
    stage: str
    """`base`, `SFT epoch 2`, `RL epoch 3`."""
    macro_f1: Percent = Field(ge=0, le=100)
    accuracy: Percent | None = Field(default=None, ge=0, le=100)
    format: Percent | None = Field(default=None, ge=0, le=100)
    correct: int | None = Field(default=None, ge=0)
    """Questions."""
    max_tokens: int | None = None
    """Of one generation."""
    calls: int | None = None
    """Tool calls over all questions; every one succeeded."""
    tasks: dict[str, Percent] = Field(default_factory=dict)
    """Our task key → F1 of YES."""
    transfer: dict[str, Percent] = Field(default_factory=dict)
    """Average F1 on matched spectra by survey, and on classes not trained on (`unseen`)."""

    @property
    def label(self) -> str:
        return f"{self.model} {self.stage}"


class Published(Part):
    """One source, and the results that it prints on one set of questions."""

    key: str
    name: str
    """Short, for figures: `the Spec-o3 paper`."""
    source: str
    """Where it is printed."""
    set: str
    questions: int
    digits: int
    """Behind the point of its percentages."""
    questions_of: dict[str, int]
    """Our task key → questions."""
    settings: dict[str, float | int]
    """As far as printed, in the names of `plan.RunSettings`, and `seed`."""
    notes: tuple[str, ...]
    results: tuple[PublishedResult, ...]

    @property
    def where(self) -> str:
        """`256 dev questions of SpecVI-Bench`."""
        return f"{self.questions:,} {self.set}"

    def caveat(self, same: bool = False) -> str:
        """What has to stand where these results do; `same`: beside those on what may well be the same questions."""
        how = "as many of each task as here" if same else "other questions than ours"
        return f"Published by others ({self.name}): {self.where}, {how}."


@cache
def published() -> tuple[Published, ...]:
    """The chapter's results, then the paper's."""
    text = (files("specvet.evaluation") / "published.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Published, ...]).validate_python(yaml.load(text, Loader=StrictLoader))
