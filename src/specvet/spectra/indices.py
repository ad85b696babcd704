"""Line indices: what a line or band measures, with its error, or why it cannot be measured.

Four kinds, all from flux and good pixels only:

- `LineIndex`: equivalent width in Å, positive in absorption, against a straight continuum between two side bands;
- `WidthIndex`: full width at half maximum (or half depth) of the feature in a line index, in km/s;
- `RatioIndex`: mean flux in a band over mean flux in a reference;
- `FormulaIndex`: arithmetic on other indices.

Bands are stated in air or vacuum and converted to the spectrum's own medium. A pixel that a band edge cuts counts by
the part inside, so that coarse spectra measure the same as fine ones. Errors come from `ivar`; without one, from the
scatter between neighbouring pixels, and the note says so. Nothing is returned rather than something false: too few
good pixels or a continuum that is not detected give `value=None` and a note.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from specvet.records.schema import Measurement
from specvet.spectra.formulas import formula_names, formula_value
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, Range, RatioIndex, WidthIndex, in_band
from specvet.spectra.lines import in_medium
from specvet.spectra.pixels import Pixels
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Spectrum

__all__ = [
    "FormulaIndex",
    "Index",
    "LineIndex",
    "Range",
    "RatioIndex",
    "WidthIndex",
    "formula_names",
    "in_band",
    "measure",
]

MIN_BAND_COVERAGE = 0.75
"""Least share of a band that must be good for a value."""
MIN_SIDE_COVERAGE = 0.4
"""Least share of a continuum band."""
MIN_CONTINUUM_SNR = 2.0
"""Least continuum over its own error: below, an equivalent width means nothing."""
MIN_PEAK_SNR = 4.0
"""Least peak over its error for a width."""
MIN_PEAK = 1e-3
"""Least peak over continuum for a width: what is weaker, also where a model has no noise, is no line."""
MAX_FORMULA_DEPTH = 20
"""Formulas that rest on formulas, at most."""


def measure(
    names: Iterable[str],
    spectrum: Spectrum,
    indices: Mapping[str, Index],
    known: Mapping[str, Measurement] | None = None,
    z: float = 0.0,
) -> dict[str, Measurement]:
    """The named indices, and those that their formulas need, of one spectrum.

    What is `known` already (measured in another window) is taken as it is. `z` is the redshift that was taken out of
    the spectrum's wavelengths, since the air's own bands do not move with a star. Raises KeyError for a name that
    `indices` does not hold, and ValueError for a formula that is not one.
    """
    pixels = Pixels(spectrum, z)
    done: dict[str, Measurement] = dict(known or {})

    def one(name: str, above: tuple[str, ...] = ()) -> Measurement:
        if name in above:
            raise ValueError(f"index {name!r} refers to itself: {' -> '.join((*above, name))}")
        if len(above) > MAX_FORMULA_DEPTH:
            raise ValueError(f"index {above[0]!r}: more than {MAX_FORMULA_DEPTH} formulas rest on one another")
        if name not in done:
            index = indices[name]
            if isinstance(index, FormulaIndex):
                parts = {n: one(n, (*above, name)) for n in formula_names(index.formula)}
                done[name] = _formula(index, parts)
            elif isinstance(index, LineIndex):
                done[name] = _equivalent_width(index, pixels)
            elif isinstance(index, WidthIndex):
                done[name] = _width(index, pixels)
            else:
                done[name] = _ratio(index, pixels)
        return done[name]

    with np.errstate(all="ignore"):  # what overflows is not finite, and said to be not measurable
        for name in names:
            one(name)
    return done


class _Continuum:
    """A straight line between the levels of two side bands."""

    def __init__(self, p: Pixels, sides: Iterable[Range]) -> None:
        (self._x0, self._y0, self._e0), (self._x1, self._y1, self._e1) = (p.level(side) for side in sides)

    def at(self, wavelength: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._y0 + (self._y1 - self._y0) * self._share(wavelength)

    def level_at(self, wavelength: float) -> float:
        return float(self.at(np.array([wavelength]))[0])

    def error_at(self, wavelength: float) -> float:
        t = float(self._share(np.array([wavelength]))[0])
        return math.hypot((1 - t) * self._e0, t * self._e1)

    def detected(self, band: Range) -> bool:
        """Whether both levels stand out of their errors, and the line between stays above 0 all over `band`."""
        levels = ((self._y0, self._e0), (self._y1, self._e1))
        return all(y > 0 and y > MIN_CONTINUUM_SNR * e for y, e in levels) and bool((self.at(np.array(band)) > 0).all())

    def _share(self, wavelength: NDArray[np.float64]) -> NDArray[np.float64]:
        """0 at the blue level, 1 at the red one; half-way everywhere where both lie at one wavelength."""
        if self._x0 == self._x1:
            return np.full(wavelength.shape, 0.5)
        return (wavelength - self._x0) / (self._x1 - self._x0)


def _line(line: LineIndex, p: Pixels) -> tuple[Range, tuple[Range, Range], _Continuum | str]:
    """A line's band and sides in the spectrum's medium, and its continuum or why there is none."""
    band, blue, red = (p.convert(r, line.medium) for r in (line.band, *line.sides))
    missing = _missing(p, band, (blue, red))
    if missing:
        return band, (blue, red), missing
    continuum = _Continuum(p, (blue, red))
    return band, (blue, red), continuum if continuum.detected(band) else "the continuum is not detected"


def _line_quality(p: Pixels, band: Range, sides: tuple[Range, Range]) -> tuple[float, str]:
    """A line is as good as its band or its continuum, whichever is worse."""
    quality, note = p.quality((band,))
    below, below_note = p.quality(sides, "continuum ")
    return min(quality, below), _joined(note, below_note)


def _equivalent_width(index: LineIndex, p: Pixels) -> Measurement:
    band, sides, continuum = _line(index, p)
    if isinstance(continuum, str):
        return _not_measurable(index, band, continuum)
    pixels, weight = p.weights(band)
    used = weight > 0
    level = continuum.at(p.wavelength[pixels])
    scale = (band[1] - band[0]) / weight.sum()
    value = float((weight * (1.0 - p.flux[pixels] / level))[used].sum() * scale)
    noise = float(np.sqrt(((weight * p.errors(pixels) / level)[used] ** 2).sum()) * scale)
    middle = 0.5 * (band[0] + band[1])
    of_level = abs(band[1] - band[0] - value) * continuum.error_at(middle) / continuum.level_at(middle)
    return _measurement(index, band, value, math.hypot(noise, of_level), _line_quality(p, band, sides))


def _width(index: WidthIndex, p: Pixels) -> Measurement:
    band, sides, continuum = _line(index.line, p)
    if isinstance(continuum, str):
        return _not_measurable(index, band, continuum)
    (_, low), (high, _) = sorted(sides)
    pixels, weight = p.weights((min(band[0], low), max(band[1], high)))
    keep = weight > 0
    w = p.wavelength[pixels][keep]
    inside = (w >= band[0]) & (w <= band[1])
    if w.size < 5 or not inside.any():
        return _not_measurable(index, band, "fewer than 5 pixels")
    level = continuum.at(w)
    depth = p.flux[pixels][keep] / level - 1.0
    smooth = np.convolve(np.pad(depth, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
    excess = float((depth[inside] * np.gradient(w)[inside]).sum())
    sign = 1.0 if excess > 0 else -1.0
    profile = sign * smooth
    peak = float(profile[inside].max())
    noise = 0.61 * float(np.median(p.errors(pixels)[keep] / level))  # of the 1-2-1 mean
    if not peak > max(MIN_PEAK, MIN_PEAK_SNR * noise):
        return _not_measurable(index, band, "the line is not detected at 4σ")
    left, right, cut = _half_maximum(w, profile, inside, peak, noise)
    centre = in_medium(index.centre, index.medium, p.spectrum.medium)
    per_angstrom = SPEED_OF_LIGHT_KM_S / centre
    found = right - left if index.of == "width" else 0.5 * (left + right) - centre
    error = math.hypot(float(np.median(np.diff(w))), (right - left) * noise / peak)
    quality, note = _line_quality(p, band, sides)
    note = _joined("emission" if sign > 0 else "absorption", "a lower limit: cut by the edge" if cut else "", note)
    return _measurement(index, (left, right), per_angstrom * found, per_angstrom * error, (quality, note))


def _half_maximum(
    w: NDArray[np.float64], profile: NDArray[np.float64], inside: NDArray[np.bool_], peak: float, noise: float
) -> tuple[float, float, bool]:
    """The outermost crossings (Å) of half the peak, and whether one of them is the end of the data.

    A pixel counts from 3σ on: in a faint line, noise alone reaches half the peak somewhere in the window.
    """
    half = 0.5 * peak
    counts = inside & (profile >= max(half, 3.0 * noise))
    first, last = np.flatnonzero(counts)[[0, -1]]
    left, cut_left = _crossing(w, profile, int(first), -1, half)
    right, cut_right = _crossing(w, profile, int(last), 1, half)
    return left, right, cut_left or cut_right


def _crossing(
    w: NDArray[np.float64], y: NDArray[np.float64], start: int, step: int, level: float
) -> tuple[float, bool]:
    """Wavelength at which `y` falls below `level` when walking outward from `start`, and whether it never does."""
    i = start
    while 0 <= i + step < w.size and y[i + step] >= level:
        i += step
    j = i + step
    if not 0 <= j < w.size:
        return float(w[i]), True
    return float(w[i] + (w[j] - w[i]) * (y[i] - level) / (y[i] - y[j])), False


def _ratio(index: RatioIndex, p: Pixels) -> Measurement:
    band = p.convert(index.band, index.medium)
    references = [p.convert(r, index.medium) for r in index.reference]
    missing = _missing(p, band, references)
    if missing:
        return _not_measurable(index, band, missing)
    top, top_error = p.mean(band)
    means = [p.mean(r) for r in references]
    middles = [0.5 * (a + b) for a, b in references]
    if len(means) == 2 and min(middles) < 0.5 * sum(band) < max(middles):
        t = (0.5 * sum(band) - middles[0]) / (middles[1] - middles[0])
        shares = [1 - t, t]
    else:
        shares = [1 / len(means)] * len(means)
    below = sum(x * m for x, (m, _) in zip(shares, means, strict=True))
    below_error = math.sqrt(sum((x * e) ** 2 for x, (_, e) in zip(shares, means, strict=True)))
    if not (below > 0 and below > MIN_CONTINUUM_SNR * below_error):
        return _not_measurable(index, band, "the reference is not detected")
    value = top / below
    error = math.hypot(top_error, value * below_error) / below
    return _measurement(index, band, value, error, p.quality((band, *references)))


def _formula(index: FormulaIndex, parts: Mapping[str, Measurement]) -> Measurement:
    values: dict[str, float] = {}
    for name, part in parts.items():
        if part.value is None:
            return _not_measurable(index, None, f"{name}: {part.note}")
        values[name] = part.value
    try:
        value = formula_value(index.formula, values)
        # Each part is moved by its own error, both ways, since `min` and `max` may only feel one; parts are taken to
        # be independent.
        errors = [
            max(abs(formula_value(index.formula, {**values, n: values[n] + e}) - value) for e in (p.error, -p.error))
            for n, p in parts.items()
            if p.error
        ]
    except ZeroDivisionError:
        return _not_measurable(index, None, "division by zero")
    quality = min((p.quality for p in parts.values()), default=1.0)
    return _measurement(index, None, value, math.hypot(*errors), (quality, _joined(*(p.note for p in parts.values()))))


def _measurement(
    index: Index, window: Range | None, value: float, error: float, worth: tuple[float, str]
) -> Measurement:
    """`worth` is the quality and its note."""
    if not math.isfinite(value):
        return _not_measurable(index, window, "the value is not finite")
    if not math.isfinite(error):
        return _not_measurable(index, window, "its error is not finite")
    return Measurement(
        index=index.key,
        name=index.name,
        value=value,
        error=error if error > 0 else None,
        unit=index.unit,
        window=window,
        quality=max(0.0, min(1.0, worth[0])),
        note=worth[1],
    )


def _not_measurable(index: Index, window: Range | None, why: str) -> Measurement:
    return Measurement(index=index.key, name=index.name, unit=index.unit, window=window, quality=0.0, note=why)


def _missing(p: Pixels, band: Range, sides: Iterable[Range]) -> str:
    covered = p.coverage(band)
    if covered < MIN_BAND_COVERAGE:
        return f"good pixels cover {100 * covered:.0f} % of {band[0]:.0f}-{band[1]:.0f} Å"
    for side in sides:
        covered = p.coverage(side)
        if covered < MIN_SIDE_COVERAGE:
            return f"good pixels cover {100 * covered:.0f} % of the continuum at {side[0]:.0f}-{side[1]:.0f} Å"
    return ""


def _joined(*notes: str) -> str:
    """Notes in one line, each said once."""
    return "; ".join(dict.fromkeys(part for note in notes for part in note.split("; ") if part))
