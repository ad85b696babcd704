"""The `Task`: one question about a spectrum, as a YAML file says it.

A task file holds what an expert would tell a new colleague: what counts and what does not, where to look, what may
deceive there, and (optional) which measurements speak for or against. A new category needs a file, not code.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from specvet.tasks.epochs import Epochs
from specvet.tasks.evidence import Evidence, IndexDefinition, Range, Rival, Strict, Text, Undecidable
from specvet.tasks.luminosity import Luminosity

AIR_VACUUM_TOLERANCE = 3.0
"""Å; the two media differ by less below 1 µm (Morton 2000, ApJS 130, 403)."""


class Borderline(Strict):
    """A kind of object about which experts differ, and what this task says of it."""

    kind: Text
    """`AM CVn stars`, `WD+MS binaries`."""
    answer: Literal["YES", "NO"]
    why: Text


class Coverage(Strict):
    """A stretch of spectrum that the task needs to see."""

    range: Range
    """Å."""
    fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Least share of the range that must hold good pixels."""
    why: str = ""


class Requires(Strict):
    """What a spectrum must offer before this question can be asked of it; else the verdict is NO_DATA."""

    coverage: tuple[Coverage, ...] = ()
    """Stretches that matter, the most telling first."""
    at_least: Annotated[int, Field(ge=0)] = 1
    """How many of them must be covered."""
    min_snr: Annotated[float, Field(ge=0)] = 0.0
    """Least median signal-to-noise ratio a pixel; 0 asks nothing."""

    @model_validator(mode="after")
    def _possible(self) -> Requires:
        if self.coverage and self.at_least > len(self.coverage):
            raise ValueError(f"at_least is {self.at_least}, but only {len(self.coverage)} ranges are listed")
        return self


class Feature(Strict):
    """One spectral feature inside a key window."""

    name: Text
    """`Hα`, `C2 Swan (0,0)`."""
    wavelength: Annotated[float, Field(gt=0)]
    """Å, in `medium`."""
    medium: Literal["air", "vacuum"] = "air"
    kind: Literal["emission", "absorption", "either", "band head red-sharp", "band head blue-sharp"] = "either"
    """`red-sharp`: the sharp edge lies on the red side, the band fades to the blue (C2, CN violet); `blue-sharp`: the
    sharp edge lies on the blue side, the band fades to the red (TiO, ZrO, CN red)."""


class Contaminant(Strict):
    """Something in a key window that can pass for a feature or hide one."""

    name: Text
    range: Range | None = None
    """Å, where it acts; None when it acts all over the window."""
    effect: Text
    """What it does to the look of the window, and what to use instead."""


class KeyWindow(Strict):
    """A window that an expert would zoom into for this question."""

    key: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    name: Text
    """Short label, shown on the figure and in reports."""
    range: Range
    """Å, wide enough to show continuum on both sides."""
    features: tuple[Feature, ...] = ()
    contaminants: tuple[Contaminant, ...] = ()
    why: Text
    """What a look here can decide."""

    @model_validator(mode="after")
    def _holds_what_it_lists(self) -> KeyWindow:
        low, high = self.range
        for i, feature in enumerate(self.features):
            if not low - AIR_VACUUM_TOLERANCE <= feature.wavelength <= high + AIR_VACUUM_TOLERANCE:
                raise ValueError(
                    f"features[{i}]: {feature.name} at {feature.wavelength:g} Å lies outside range [{low:g}, {high:g}]"
                )
        for i, contaminant in enumerate(self.contaminants):
            if contaminant.range and (contaminant.range[1] < low or contaminant.range[0] > high):
                acts = f"[{contaminant.range[0]:g}, {contaminant.range[1]:g}]"
                raise ValueError(
                    f"contaminants[{i}]: {contaminant.name} at {acts} lies outside range [{low:g}, {high:g}]"
                )
        return self


def _rival_or_name(value: object) -> str:
    return "<rival>" if isinstance(value, (Rival, dict)) else "<name>"


RivalOrName = Annotated[
    Annotated[Rival, Tag("<rival>")] | Annotated[Text, Tag("<name>")],
    Discriminator(_rival_or_name),
]
"""A rival written out, or the name of a built-in one."""


class Task(Strict):
    """One question: a class of stars, how to tell it, and what the answers mean."""

    key: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
    """Short name on the command line: `cv`."""
    name: Text
    """The class, singular: `cataclysmic variable`."""
    aliases: tuple[Text, ...] = ()
    """What else people call it; matched without regard to case."""
    data_source: str = ""
    """The name the published benchmark uses; empty when it has none."""
    question: Text
    """The question as asked, to be answered YES or NO."""
    include: Annotated[tuple[Text, ...], Field(min_length=1)]
    """What counts as this class."""
    exclude: tuple[Text, ...]
    """What does not, and is often taken for it."""
    borderline: tuple[Borderline, ...] = ()
    requires: Requires = Requires()
    guidance: Text
    """What to look for and how to tell confusers, with wavelengths and their medium."""
    windows: Annotated[tuple[KeyWindow, ...], Field(min_length=1, max_length=7)]
    """Where to look closer, the most telling first; at most 7, since an agent has 8 turns and answers in the last."""
    indices: dict[str, IndexDefinition] = Field(default_factory=dict)
    """Measurements this task defines beyond the built-in ones, by name."""
    evidence: tuple[Evidence, ...] = ()
    """How measurements speak for or against; without any, `line-indices` answers UNSURE."""
    prior: float = 0.0
    """Log-odds before looking, for `line-indices`."""
    undecided: Annotated[float, Field(ge=0.5, lt=1)] = 0.6
    """`line-indices` says UNSURE while neither YES nor NO reaches this confidence."""
    undecidable: tuple[Undecidable, ...] = ()
    """Looks that stay UNSURE whatever the log-odds."""
    rivals: tuple[RivalOrName, ...] = ()
    """Likelier classes that a NO may name; a string refers to a built-in one."""
    epochs: Epochs | None = None
    """How verdicts over epochs of one star are combined; without it, as `specvet.tasks.epochs.DEFAULT` says. It alters
    no verdict of a spectrum."""
    gaia: Luminosity | None = None
    """What a parallax adds; without it there is no verdict with Gaia. It alters no verdict from the spectrum."""
    answers: tuple[Literal["YES"], Literal["NO"]] = ("YES", "NO")
    reward: Literal["default", "paper", "chapter"] = "default"
    """Which reward scores an answer in training."""
    sources: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Papers and survey documents that the above rests on."""

    @model_validator(mode="after")
    def _unique_windows(self) -> Task:
        keys = [w.key for w in self.windows]
        if len(set(keys)) != len(keys):
            repeated = ", ".join(sorted({k for k in keys if keys.count(k) > 1}))
            raise ValueError(f"windows: the key {repeated} stands more than once; give each window its own")
        return self

    def asked(self) -> str:
        """What a verdict from the spectrum hangs on, as JSON, which runs are held against: not `epochs`, not `gaia`."""
        return self.model_dump_json(exclude={"gaia", "epochs"})
