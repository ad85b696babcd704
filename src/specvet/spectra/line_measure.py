"""`measure_line`: what one spectral line measures, every number with its 1σ, or None with the reason.

Nothing is fitted: the equivalent width is an integral over a band against a straight continuum, width and centre come
from crossings of half the peak. Which feature of a band is the line, and which of its peaks belong to it, says
`specvet.spectra.line_shape`. Errors follow to first order from the spectrum's own errors (or from the scatter between
pixels, and the note says so); that they are right is tested against simulated noise. Beyond noise they hold:

- crowding: what the side bands scatter about the straight continuum beyond their noise, taken to be of one piece over 4
  resolution elements (3 pixels each where the resolution is unknown), in the equivalent width, the peak, the centre and
  the width; detection at 4σ of noise also needs 2.5 (absorption) or 4 (emission) times that scatter, or as much of a
  rise from right beside the line;
- placement: how far the stretches between band and sides lie off the straight continuum, in the equivalent width;
- medium: half of the difference between air and vacuum in centre and velocity, where the medium is unknown.

Where crowding or placement is more than noise, the note of the value says how much it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specvet.records.schema import Measurement
from specvet.spectra.continuum import continuum, equivalent_width, error_of, joined, line_quality, too_narrow
from specvet.spectra.half_maximum import HalfMaximum
from specvet.spectra.index_kinds import LineIndex, Range, in_band
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.line_list import SpectralLine, lines_between, range_around, spectral_line
from specvet.spectra.line_shape import Shape, line_shape, structure
from specvet.spectra.lines import SKY_LINES_AIR, in_medium
from specvet.spectra.pixels import Pixels
from specvet.spectra.resolution import instrument_fwhm, intrinsic_fwhm
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Medium, Spectrum

HALF_BAND, SIDE = 700.0, 1000.0
"""km/s: half of a line's band, and the length of each continuum band beyond, where no built-in index has windows."""

MIN_CORE_COVERAGE = 0.5
"""Least share of the middle third of a band that good pixels must cover: no line is measured through a hole."""

MIN_EW_SNR = 2.0
"""Least emission of the band over its error: a bump in a band that holds none is not called the line."""

MIN_WIDTH = 0.5
"""Resolution elements; what is narrower is a bad pixel."""

PARTED = 2.0
"""Resolution elements between two lines from which on each has a place of its own."""

UNKNOWN_MEDIUM = "air or vacuum unknown"

SKY_REACH = 3.0
"""Å; a line whose half maximum comes so near to a line of the night sky may hold its residual."""


@dataclass(frozen=True, slots=True)
class LineMeasurement:
    """One line of one spectrum, in the spectrum's medium and frame. A value is None where its note says why."""

    line: SpectralLine
    band: Range
    """Å."""
    sides: tuple[Range, Range]
    """Å, where the continuum was taken."""
    equivalent_width: Measurement
    """Å, positive in absorption, negative in emission; as observed, so larger by 1 + z than at rest."""
    peak: Measurement
    """Flux over continuum, less 1, at the strongest point: 0.5 is half a continuum above, −0.3 three tenths below."""
    centre: Measurement
    """Å, half-way between the crossings of half the peak."""
    velocity: Measurement
    """km/s of `centre` from the line's own place (at `z`, where one was given); positive when receding."""
    fwhm: Measurement
    """Å, as observed."""
    fwhm_km_s: Measurement
    intrinsic: Measurement
    """Å, with the instrument's width removed in quadrature; an upper limit (2σ) where the line is not resolved."""
    intrinsic_km_s: Measurement
    resolved: bool | None
    """None where the resolution or the width is not known."""
    note: str
    """What should be known of all of them: joins, tellurics, blends, sky lines."""

    def __str__(self) -> str:
        """`Hα 6563: EW -51.71 ± 0.34 Å (emission), velocity 184 ± 4 km/s, FWHM 21.7 ± 0.3 Å = …`, in one line."""
        ew = self.equivalent_width
        same = -(ew.value or 0.0) if self.kind == "emission" else ew.value or 0.0
        told = same > MIN_EW_SNR * (ew.error or 0.0)
        says = [f"EW {_said(ew)}" + (f" ({self.kind}{'' if told else ' in the core alone'})" if self.kind else "")]
        says += [f"velocity {_said(self.velocity)}", f"FWHM {_said(self.fwhm)}"]
        if self.fwhm.value is not None:
            says[-1] += f" = {_said(self.fwhm_km_s)}"
            inner = self.intrinsic_km_s
            limit = self.resolved is False and inner.value is not None
            says.append(f"intrinsic {f'< {inner.value:.0f} {inner.unit}' if limit else _said(inner)}")
        return f"{self.line.name}: {', '.join(says)}" + (f"; {self.note}" if self.note else "")

    @property
    def kind(self) -> str:
        """`emission` or `absorption`, by the peak; empty where no line was found."""
        return "" if self.peak.value is None else "emission" if self.peak.value > 0 else "absorption"

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All of them, for tables."""
        return (
            self.equivalent_width, self.peak, self.centre, self.velocity,
            self.fwhm, self.fwhm_km_s, self.intrinsic, self.intrinsic_km_s,
        )  # fmt: skip


def measure_line(
    spectrum: Spectrum,
    line: SpectralLine | str | float,
    z: float = 0.0,
    *,
    band: Range | None = None,
    sides: tuple[Range, Range] | None = None,
    medium: Medium | None = None,
    resolution: float | None = None,
) -> LineMeasurement:
    """Measure `line` in `spectrum`.

    Args:
        spectrum: with wavelengths as observed or at rest; they are taken as they are.
        line: one of `LINES`, its name (`Hα`, `He II 4686`), or a wavelength in Å in `medium`; a wavelength near no
            line of the list is measured all the same.
        z: redshift at which to look for the line. Windows move with it.
        band: (low, high) in Å, in `medium`, over which the line is integrated; else that of the built-in index of the
            line, or ±700 km/s (twice the resolution element where that is more).
        sides: two ranges in Å, in `medium`, one on each side, for the continuum; else those of the index, or
            1,000 km/s beyond the band.
        medium: of `band`, `sides` and a wavelength given as `line`; the spectrum's own where None. It also settles
            what the spectrum is in, where the spectrum's own medium is unknown.
        resolution: resolving power λ/Δλ; the spectrum's nominal one where None.

    Raises:
        ValueError: no line has that name; z is not above −1; band or sides are not ranges around the line.
    """
    if not z > -1.0 or not np.isfinite(z):
        raise ValueError(f"z = {z}: a redshift must be a finite number above -1")
    if spectrum.medium == "unknown" and medium is not None:
        spectrum = spectrum.replace(medium=medium)
    given: Medium = medium or spectrum.medium
    which = _line(line, given)
    if resolution is not None:
        spectrum = spectrum.replace(resolution=resolution)
    band, sides = _windows(which, spectrum, z, band, sides, given)
    with np.errstate(all="ignore"):  # what overflows is not finite, and said to be not measurable
        return _measured(Pixels(spectrum), which, band, sides, z)


def _said(m: Measurement) -> str:
    """`184 ± 4 km/s`, or why not; the error has two digits, and the value as many decimals."""
    if m.value is None:
        return f"not measurable ({m.note})"
    if m.error is None or not 0 < m.error < np.inf:
        return f"{m.value:.4g} {m.unit}".rstrip()
    decimals = max(0, 1 - int(np.floor(np.log10(m.error))))
    return f"{m.value:.{decimals}f} ± {m.error:.{decimals}f} {m.unit}".rstrip()


def _line(line: SpectralLine | str | float, medium: Medium) -> SpectralLine:
    if isinstance(line, SpectralLine):
        return line
    try:
        return spectral_line(line, medium)
    except ValueError:
        if isinstance(line, str) or not line > 0:
            raise
        air = in_medium(float(line), medium, "air")
        return SpectralLine(f"{line:g} Å", "", air, "either", source="given by the user")


def _windows(
    line: SpectralLine,
    s: Spectrum,
    z: float,
    band: Range | None,
    sides: tuple[Range, Range] | None,
    given: Medium,
) -> tuple[Range, tuple[Range, Range]]:
    """Band and sides in the spectrum's medium."""
    index = BUILTIN_INDICES.get(line.index)

    def own(r: Range) -> Range:
        low, high = in_band(r, "air", s.medium)
        return low * (1.0 + z), high * (1.0 + z)

    if band is not None:
        band = in_band((float(band[0]), float(band[1])), given, s.medium)
    elif isinstance(index, LineIndex):
        band = own(index.band)
    else:
        element = 0.0 if s.resolution is None or not s.resolution > 0 else SPEED_OF_LIGHT_KM_S / s.resolution
        reach = max(HALF_BAND, 2.0 * element)
        band = range_around(line, s.medium, -reach, reach, z)
    if sides is not None:
        blue, red = (in_band((float(a), float(b)), given, s.medium) for a, b in sides)
    elif isinstance(index, LineIndex) and band == own(index.band):
        blue, red = (own(side) for side in index.sides)
    else:
        length = SIDE / SPEED_OF_LIGHT_KM_S * line.wavelength(s.medium, z)
        blue, red = (band[0] - length, band[0]), (band[1], band[1] + length)
    for name, (low, high) in (("band", band), ("sides", blue), ("sides", red)):
        if not 0 < low < high < float("inf"):
            raise ValueError(f"{name}: ({low:g}, {high:g}) must be (low, high) in Å with 0 < low < high")
    if not sum(blue) < sum(band) < sum(red):
        raise ValueError(f"sides: one must lie on each side of the band {band[0]:.1f}-{band[1]:.1f} Å")
    return band, (blue, red)


def _measured(p: Pixels, line: SpectralLine, band: Range, sides: tuple[Range, Range], z: float) -> LineMeasurement:
    quality, note = line_quality(p, band, sides)
    at = line.wavelength(p.spectrum.medium, z)
    level = continuum(p, band, sides)
    third = (band[1] - band[0]) / 3.0
    if not isinstance(level, str) and p.coverage((band[0] + third, band[1] - third)) < MIN_CORE_COVERAGE:
        level = f"good pixels are missing in the middle of {band[0]:.0f}-{band[1]:.0f} Å"

    def made(key: str, what: str, unit: str, value: float | None, error: float, says: str) -> Measurement:
        good = value is not None and bool(np.isfinite(value)) and bool(np.isfinite(error))
        return Measurement(
            index=f"{line.name}/{key}",
            name=f"{line.name} {what}",
            value=value if good else None,
            error=error if good and error > 0 else None,
            unit=unit,
            window=band,
            quality=quality if good else 0.0,
            note=says if good or value is None else "the value is not finite",
        )

    width: tuple[float | None, float, str]
    shape: Shape | str
    if isinstance(level, str):
        width, shape = (None, 0.0, level), level
    else:
        around = structure(p, band, sides, level)
        value, parts = equivalent_width(p, band, level)
        own, crowding = error_of(parts), math.hypot(around.ew_error(band, sides), around.offset * (band[1] - band[0]))
        note = joined(note, too_narrow(p, (band, *sides)), _blend(p.spectrum.medium, line, band, z))
        note = joined(note, UNKNOWN_MEDIUM if p.spectrum.medium == "unknown" else "")
        crowded = f"crowded continuum: ±{crowding:.2g} Å of the error" if crowding > own else ""
        width = (value, math.hypot(own, crowding), joined(crowded, note))
        shape = _clear(
            line_shape(p, band, sides, level, at, around),
            p,
            band,
            value / math.hypot(own, around.ew_error(band, sides)),
        )
    ew = made("ew", "EW", "Å", *width)
    if isinstance(shape, str):
        missing = {
            key: made(key, what, unit, None, 0.0, shape)
            for key, what, unit in (
                ("peak", "peak", ""), ("centre", "centre", "Å"), ("velocity", "velocity", "km/s"),
                ("fwhm", "FWHM", "Å"), ("fwhm_km_s", "FWHM", "km/s"),
                ("intrinsic", "intrinsic FWHM", "Å"), ("intrinsic_km_s", "intrinsic FWHM", "km/s"),
            )
        }  # fmt: skip
        return LineMeasurement(line, band, sides, equivalent_width=ew, **missing, resolved=None, note=note)
    half = shape.half
    limit = "a lower limit: cut by the edge" if half.cut else ""
    if shape.fraction > 0.5:
        limit = f"a lower limit: a neighbour merges below {100 * shape.fraction:.0f} % of the peak"
    note = joined(limit, note, _sky(p.spectrum, half))
    scale = SPEED_OF_LIGHT_KM_S / at
    crowded = ""
    if shape.crowding > half.middle_error:
        crowded = f"crowded continuum: ±{shape.crowding:.2g} Å of the error of the centre"
    says_centre = joined(crowded, note)
    centre_error = math.hypot(shape.middle_error, _medium_error(p.spectrum.medium, at))
    mixed = _mixed(p.spectrum, line, half, z)
    instrument = instrument_fwhm(p.spectrum, at)
    if instrument is None:
        inner, inner_error, resolved = None, 0.0, None
        says = "the resolution is not known; give resolution=λ/Δλ"
    else:
        inner, inner_error, resolved = intrinsic_fwhm(half.fwhm, shape.fwhm_error, instrument)
        says = joined("" if resolved else "not resolved: an upper limit", note)
    return LineMeasurement(
        line,
        band,
        sides,
        equivalent_width=ew,
        peak=made("peak", "peak", "", half.peak, shape.peak_error, note),
        centre=made("centre", "centre", "Å", half.middle, centre_error, says_centre),
        velocity=made(
            "velocity",
            "velocity",
            "km/s",
            None if mixed else scale * (half.middle - at),
            scale * centre_error,
            mixed or says_centre,
        ),
        fwhm=made("fwhm", "FWHM", "Å", half.fwhm, shape.fwhm_error, note),
        fwhm_km_s=made("fwhm_km_s", "FWHM", "km/s", scale * half.fwhm, scale * shape.fwhm_error, note),
        intrinsic=made("intrinsic", "intrinsic FWHM", "Å", inner, inner_error, says),
        intrinsic_km_s=made(
            "intrinsic_km_s",
            "intrinsic FWHM",
            "km/s",
            None if inner is None else scale * inner,
            scale * inner_error,
            says,
        ),
        resolved=resolved,
        note=note,
    )


def _clear(shape: Shape | str, p: Pixels, band: Range, ew_snr: float) -> Shape | str:
    """The shape, or why it is no line of this band, whose equivalent width is `ew_snr` times its error."""
    if isinstance(shape, str):
        return shape
    half = shape.half
    if not band[0] + half.pixel < half.at_peak < band[1] - half.pixel:
        return "the strongest point lies at the edge of the band: another line, or the continuum's slope"
    instrument = instrument_fwhm(p.spectrum, half.at_peak)
    if instrument is not None and half.fwhm < MIN_WIDTH * instrument:
        return f"the strongest point is narrower than the resolution element of {instrument:.1f} Å"
    if half.emission and not shape.narrow and -ew_snr < MIN_EW_SNR:
        return f"the equivalent width is no emission at {MIN_EW_SNR:g}σ; give a narrower band=(low, high) for a core"
    return shape


def _medium_error(medium: Medium, at: float) -> float:
    """Å; half of the difference between air and vacuum where it is unknown which of both the spectrum is in."""
    return 0.5 * (at - in_medium(at, "vacuum", "air")) if medium == "unknown" else 0.0


def _mixed(s: Spectrum, line: SpectralLine, half: HalfMaximum, z: float) -> str:
    """Why a line has no velocity of its own: one of its species lies within it, or too near for the instrument."""
    at = line.wavelength(s.medium, z)
    near = PARTED * (instrument_fwhm(s, at) or 0.0)
    others = [
        other.name
        for other, _ in lines_between(min(half.left, at - near), max(half.right, at + near), s.medium, z)
        if other is not line and other.species == line.species
    ]
    return f"not parted from {', '.join(others)}: no velocity of its own" if others else ""


def _blend(medium: Medium, line: SpectralLine, band: Range, z: float) -> str:
    others = [other.name for other, _ in lines_between(*band, medium, z) if other is not line]
    return f"in the band too: {', '.join(others[:4])}" if others else ""


def _sky(s: Spectrum, half: HalfMaximum) -> str:
    """Sky lines stay where the air is; in a spectrum said to be at rest nobody knows where that is."""
    if s.frame == "rest":
        return ""
    names = [
        f"{name} {at:.0f}"
        for name, at in SKY_LINES_AIR
        if half.left - SKY_REACH <= in_medium(at, "air", s.medium) <= half.right + SKY_REACH
    ]
    return f"at the night-sky line {', '.join(names)}" if names else ""
