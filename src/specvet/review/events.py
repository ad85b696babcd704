"""What reviewers do, as events that are only ever added, and the votes that follow from them."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from specvet import __version__

Kind = Literal["decision", "undo", "assignment"]

VERDICTS = ("YES", "NO", "UNSURE")

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]

QUALITIES = {
    4: "confident: two secure features or more",
    3: "probable: one secure feature, or a continuum with many weak ones",
    2: "possible: one strong feature of unsure kind",
    1: "unlikely: a signal of unknown kind",
    0: "no signal",
}
"""As DESI's visual inspection defines them (Lan et al. 2023, ApJ 943, 68)."""


class Draft(BaseModel):
    """A decision as the page sends it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{8,80}$")]
    """Chosen by the sender, its own for each decision: what is sent twice counts once."""
    item: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    task: Annotated[str, StringConstraints(max_length=80)]
    verdict: Literal["YES", "NO", "UNSURE"]
    quality: Annotated[int, Field(ge=0, le=4)] | None = None
    likelier: Annotated[str, StringConstraints(max_length=200)] | None = None
    """For a NO: what it is instead."""
    z: Annotated[float, Field(gt=-1, lt=100, allow_inf_nan=False)] | None = None
    issues: str = ""
    """Letters of R (redshift), C (class) and S (spectrum), as in DESI's files."""
    comment: Annotated[str, StringConstraints(max_length=2_000)] = ""
    flagged: bool = False
    ms: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    """How long the spectrum was on the screen."""
    shown: dict[str, Any] = Field(default_factory=dict)
    """What the reviewer saw when they decided: agent shown or hidden, smoothing, frame, windows."""

    @field_validator("issues", mode="before")
    @classmethod
    def _letters(cls, value: object) -> str:
        letters = "".join(value) if isinstance(value, list) else value
        if not isinstance(letters, str) or set(letters.upper()) - set("RCS"):
            raise ValueError("issues are letters of R, C and S")
        return "".join(letter for letter in "RCS" if letter in letters.upper())

    @field_validator("shown")
    @classmethod
    def _kept(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "\\u0000" in json.dumps(value):
            raise ValueError("holds a NUL, which no database can hold")
        return value

    @field_validator("comment", "likelier")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        """Without what no database or CSV file can hold."""
        return None if value is None else value.replace("\0", "").encode("utf-8", "replace").decode().strip()


class Event(BaseModel):
    """One thing that somebody did; never changed, and undone only by another."""

    model_config = ConfigDict(frozen=True)

    n: int = 0
    """Its number in the store, from 1, rising in time."""
    key: str
    at: str = ""
    """UTC, ISO 8601."""
    kind: Kind
    reviewer: str
    item: str = ""
    task: str = ""
    file: str = ""
    row: int = 0
    id: str = ""
    verdict: Literal["YES", "NO", "UNSURE"] | None = None
    quality: int | None = None
    likelier: str | None = None
    z: float | None = None
    issues: str = ""
    comment: str = ""
    flagged: bool = False
    ms: int | None = None
    shown: dict[str, Any] = Field(default_factory=dict)
    third: bool = False
    """Whether it settles a conflict between others."""
    agent: dict[str, Any] = Field(default_factory=dict)
    """What the agent had said: policy, model, verdict, p, band."""
    undoes: int | None = None
    """Of an undo: the number of the decision that it takes back."""
    reviewers: tuple[str, ...] = ()
    """Of an assignment: among whom."""
    each: int | None = None
    """Of an assignment: how many of them get every item."""
    seed: int = 0
    specvet: str = __version__

    @property
    def decided_at(self) -> str:
        """When it was decided: of an imported decision, when its file says; empty where that is silent."""
        return str(self.shown.get("at") or "") if self.shown.get("imported") else self.at

    def said(self) -> tuple[object, ...]:
        """What was decided, as far as every file of inspections can hold it."""
        likelier = None if self.verdict == "YES" else self.likelier
        comment = " ".join(self.comment.split())
        return self.verdict, self.quality, likelier, self.z, self.issues, comment, self.flagged

    def same_as(self, other: Event) -> bool:
        """Whether both ask for one thing, as two with one key must."""
        decided = ("verdict", "quality", "likelier", "z", "issues", "comment", "flagged")
        fields = ("kind", "reviewer", "item", "task", *decided, "reviewers", "each", "seed")
        return all(getattr(self, f) == getattr(other, f) for f in fields)


def now() -> str:
    """UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def reviewer_name(text: object) -> str:
    """A reviewer's name as it is kept. Raises ValueError, which says what a name is."""
    # One form of letters with accents, whatever keyboard they come from.
    name = unicodedata.normalize("NFC", " ".join(text.split())) if isinstance(text, str) else ""
    if not name or len(name) > 80 or not name.isprintable():
        raise ValueError("a reviewer's name is 1 to 80 printable letters")
    return name
