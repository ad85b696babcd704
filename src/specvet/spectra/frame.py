"""Which frame a spectrum is looked at in: at rest only where the shift can be trusted, and always said.

A pipeline that calls a cataclysmic variable a quasar states a redshift of 2; dividing by 1 + z would then move every
line out of its place. So a pipeline's redshift is applied to stars only, within ±1,000 km/s and without a warning.
The published Spec-o3 tool divides by 1 + z whatever z is; that behaviour is the mode `published`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Spectrum

FrameMode = Literal["careful", "published", "observed"]

MAX_STAR_VELOCITY_KM_S = 1_000.0


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame to look in: wavelengths are divided by 1 + z."""

    z: float
    """Dimensionless; 0 leaves the wavelengths as they are."""
    name: Literal["rest", "observed"]
    why: str
    """For people: `z = 0.000123 from header Z (star)`, `z = 2.1 not applied: not a star`."""

    @property
    def text(self) -> str:
        """`rest frame (z = 0.000123 …)`."""
        return f"{self.name} frame ({self.why})"


def choose_frame(spectrum: Spectrum, mode: FrameMode = "careful", z: float | None = None) -> Frame:
    """The frame in which to look at `spectrum`.

    `z` is the user's own redshift and is applied as given (it must be finite and above −1, else ValueError). Otherwise
    the mode decides: `careful` as this module says; `published` applies any finite z of the file, even −9999 (only −1
    cannot be); `observed` applies none.
    """
    if z is not None:
        if not math.isfinite(z) or 1.0 + z <= 0.0:
            raise ValueError(f"z = {z}: a redshift must be a finite number above -1")
        return Frame(z, "rest", f"z = {z:.6f} given by the user")
    stated = spectrum.redshift
    if mode == "observed":
        return Frame(0.0, "observed", "as asked")
    if mode == "careful" and spectrum.frame == "rest":
        return Frame(0.0, "rest", "as released")
    if stated.value is None or not math.isfinite(stated.value):
        return Frame(0.0, "observed", "the file states no redshift")
    value, source = stated.value, stated.source or "the file"
    if 1.0 + value == 0.0:
        return Frame(0.0, "observed", f"z = {value:.6f} from {source} not applied: it leaves no wavelengths")
    if mode == "published":
        return Frame(value, "rest" if value else "observed", f"z = {value:.6f} from {source}, published behaviour")
    velocity = SPEED_OF_LIGHT_KM_S * value
    if stated.warning:
        return Frame(0.0, "observed", f"z = {value:.6f} from {source} not applied: {stated.warning}")
    if abs(velocity) >= MAX_STAR_VELOCITY_KM_S:
        return Frame(
            0.0, "observed", f"z = {value:.6f} from {source} not applied: cz = {velocity:.0f} km/s is no star's"
        )
    if spectrum.pipeline_class.strip() and spectrum.pipeline_class.strip().upper() not in {"STAR", "WD"}:
        name = spectrum.pipeline_class
        return Frame(
            0.0, "observed", f"z = {value:.6f} from {source} not applied: the pipeline says {name}, not a star"
        )
    return Frame(value, "rest", f"z = {value:.6f} from {source}")
