"""What is asked of a triage, as it is kept with its result."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Settings(BaseModel):
    """How a list is sorted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prevalence: dict[str, Share] = {}
    """Share of members (0-1) by task, `*` for all others; it is estimated where none is given."""
    max_lost: float = Field(default=0.02, gt=0, lt=1)
    """Of the true objects, that may be rejected."""
    max_false: float = Field(default=0.05, gt=0, lt=1)
    """Of the accepted, that may be wrong."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """Of each of the two promises, for each task."""
    audit: float = Field(default=0.05, ge=0, le=1)
    """Share of the rejected that a person looks at all the same."""
    seed: int = 0
    """Of the audit, and of the draws behind the interval of a prevalence."""
