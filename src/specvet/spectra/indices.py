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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from specvet.records.schema import Measurement
from specvet.spectra.continuum import (
    MIN_CONTINUUM_SNR,
    Continuum,
    Parts,
    continuum,
    equivalent_width,
    error_of,
    joined,
    line_quality,
    missing_pixels,
    run_of,
    too_narrow,
)
from specvet.spectra.formulas import formula_function, formula_names
from specvet.spectra.half_maximum import HalfMaximum, half_maximum
from specvet.spectra.index_kinds import FormulaIndex, Index, LineIndex, Range, RatioIndex, WidthIndex, in_band
from specvet.spectra.lines import in_medium
from specvet.spectra.pixels import Pixels
from specvet.spectra.resolution import instrument_fwhm, intrinsic_fwhm
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Spectrum

__all__ = [
    "FormulaIndex",
    "Index",
    "LineIndex",
    "Meter",
    "Range",
    "RatioIndex",
    "WidthIndex",
    "formula_names",
    "in_band",
    "measure",
]

MAX_FORMULA_DEPTH = 20
"""Formulas that rest on formulas, at most."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A measurement, and how it answers to single pixels where that is known."""

    measurement: Measurement
    parts: Parts | None = None


class Meter:
    """One spectrum, ready to be measured; what has been measured is remembered, whichever task asked.

    `z` is the redshift that was taken out of the spectrum's wavelengths, since the air's own bands do not move with a
    star. The spectrum's arrays are not to be changed in place.
    """

    def __init__(self, pixels: Pixels) -> None:
        self._pixels = pixels
        self._found: dict[Index, _Found] = {}
        self._ready: set[tuple[int, int]] = set()
        self._formulas: dict[tuple[FormulaIndex, tuple[int, ...]], _Found] = {}
        self._halves: dict[LineIndex, HalfMaximum | str] = {}

    def measure(
        self, names: Iterable[str], indices: Mapping[str, Index], known: Mapping[str, Measurement] | None = None
    ) -> dict[str, Measurement]:
        """The named indices, and those that their formulas need, by name.

        What is `known` already is taken as it is. Raises KeyError for a name that `indices` does not hold, and
        ValueError for a formula that is not one.
        """
        done = {name: _Found(m) for name, m in (known or {}).items()}

        def one(name: str, above: tuple[str, ...] = ()) -> _Found:
            if name in above:
                raise ValueError(f"index {name!r} refers to itself: {' -> '.join((*above, name))}")
            if len(above) > MAX_FORMULA_DEPTH:
                raise ValueError(f"index {above[0]!r}: more than {MAX_FORMULA_DEPTH} formulas rest on one another")
            if name not in done:
                index = indices[name]
                if isinstance(index, FormulaIndex):
                    parts = {n: one(n, (*above, name)) for n in formula_names(index.formula)}
                    done[name] = _formula(index, parts) if known else self._calculated(index, parts)
                else:
                    done[name] = self._plain(index)
            return done[name]

        names = tuple(names)  # the same object where it is a tuple
        self.prepare([(names, indices)])
        with np.errstate(all="ignore"):  # what overflows is not finite, and said to be not measurable
            for name in names:
                one(name)
        return {name: found.measurement for name, found in done.items()}

    def prepare(self, asked: Iterable[tuple[Iterable[str], Mapping[str, Index]]]) -> None:
        """Have the bands of all these indices (names, and what they name) worked out together, before they are asked.

        It changes no value: one pass over many bands is many times faster than a pass for each.
        """
        means: list[Range] = []
        levels: list[Range] = []
        p = self._pixels
        for names, indices in asked:
            key = id(names), id(indices)  # should one be another's by accident, its bands are worked out one by one
            if key in self._ready:
                continue
            self._ready.add(key)
            queue, seen = list(names), set[str]()
            while queue:
                name = queue.pop()
                index = indices.get(name)
                if index is None or name in seen:  # a name that is not there is told when it is asked for
                    continue
                seen.add(name)
                if isinstance(index, FormulaIndex):
                    queue += formula_names(index.formula)
                elif index in self._found:
                    continue
                elif isinstance(index, RatioIndex):
                    means += [p.convert(r, index.medium) for r in (index.band, *index.reference)]
                else:
                    line = index.line if isinstance(index, WidthIndex) else index
                    if line.follows is None:  # else where its bands lie is not known yet
                        means.append(p.convert(line.band, line.medium))
                        levels += [p.convert(side, line.medium) for side in line.sides]
        with np.errstate(all="ignore"):
            p.prepare(means, levels)

    def _calculated(self, index: FormulaIndex, parts: dict[str, _Found]) -> _Found:
        # What was measured stays in this meter, so its identity stands for it; names may mean other indices elsewhere.
        key = index, tuple(map(id, parts.values()))
        if key not in self._formulas:
            self._formulas[key] = _formula(index, parts)
        return self._formulas[key]

    def _plain(self, index: LineIndex | WidthIndex | RatioIndex) -> _Found:
        found = self._found.get(index)
        if found is None:
            if isinstance(index, LineIndex):
                velocity = self._plain(index.follows).measurement.value if index.follows else None
                found = _line(index, self._pixels, velocity or 0.0)
            elif isinstance(index, WidthIndex):
                found = self._width(index)
            else:
                found = _ratio(index, self._pixels)
            self._found[index] = found
        return found

    def _width(self, index: WidthIndex) -> _Found:
        p = self._pixels
        band, sides, level = _placed(index.line, p)
        if isinstance(level, str):
            return _Found(_not_measurable(index, band, level))
        line = self._halves.get(index.line)
        if line is None:
            line = self._halves[index.line] = half_maximum(p, band, sides, level)
        if isinstance(line, str):
            return _Found(_not_measurable(index, band, line))
        quality, note = line_quality(p, band, sides)
        centre = in_medium(index.centre, index.medium, p.spectrum.medium)
        value, error = line.fwhm, line.fwhm_error
        said = "a lower limit: cut by the edge" if line.cut else ""
        if index.of == "velocity":
            value, error = line.middle - centre, line.middle_error
        elif index.of == "intrinsic":
            instrument = instrument_fwhm(p.spectrum, centre)
            if instrument is None:
                said = joined(said, "the instrument's width is in it: the resolution is not known")
            else:
                value, error, resolved = intrinsic_fwhm(value, error, instrument)
                said = joined(said, "" if resolved else "not resolved: an upper limit")
        per_angstrom = SPEED_OF_LIGHT_KM_S / centre
        if "the instrument's width is in it" in said:
            index = replace(index, name=index.name.replace("instrument removed", "instrument not removed"))
        note = joined("emission" if line.emission else "absorption", said, note)
        window = (line.left, line.right)
        return _Found(_measurement(index, window, per_angstrom * value, per_angstrom * error, (quality, note)))


def measure(
    names: Iterable[str],
    spectrum: Spectrum,
    indices: Mapping[str, Index],
    known: Mapping[str, Measurement] | None = None,
    z: float = 0.0,
) -> dict[str, Measurement]:
    """The named indices, and those that their formulas need, of one spectrum; see `Meter`."""
    return Meter(Pixels(spectrum, z)).measure(names, indices, known)


def _placed(line: LineIndex, p: Pixels, scale: float = 1.0) -> tuple[Range, tuple[Range, Range], Continuum | str]:
    """A line's band and sides in the spectrum's medium, and its continuum or why there is none."""
    band, blue, red = (p.convert(r, line.medium) for r in (line.band, *line.sides))
    if scale != 1.0:
        band, blue, red = ((low * scale, high * scale) for low, high in (band, blue, red))
    return band, (blue, red), continuum(p, band, (blue, red))


def _line(index: LineIndex, p: Pixels, shift: float = 0.0) -> _Found:
    """`shift` is the velocity (km/s) at which the line is looked for."""
    band, sides, level = _placed(index, p, 1.0 + shift / SPEED_OF_LIGHT_KM_S)
    if isinstance(level, str):
        return _Found(_not_measurable(index, band, level))
    value, parts = equivalent_width(p, band, level)
    quality, note = line_quality(p, band, sides)
    note = joined(note, too_narrow(p, (band, *sides)))
    return _Found(_measurement(index, band, value, error_of(parts), (quality, note)), parts)


def _ratio(index: RatioIndex, p: Pixels) -> _Found:
    band = p.convert(index.band, index.medium)
    references = [p.convert(r, index.medium) for r in index.reference]
    missing = missing_pixels(p, band, references)
    if missing:
        return _Found(_not_measurable(index, band, missing))
    top, means = p.mean(band), [p.mean(r) for r in references]
    middles = [0.5 * (a + b) for a, b in references]
    if len(means) == 2 and min(middles) < 0.5 * sum(band) < max(middles):
        t = (0.5 * sum(band) - middles[0]) / (middles[1] - middles[0])
        shares = [1 - t, t]
    else:
        shares = [1 / len(means)] * len(means)
    below = sum(x * m.value for x, m in zip(shares, means, strict=True))
    of_below = tuple(run_of(m, x) for x, m in zip(shares, means, strict=True))
    if not (below > 0 and below > MIN_CONTINUUM_SNR * error_of(of_below)):
        return _Found(_not_measurable(index, band, "the reference is not detected"))
    value = top.value / below
    parts = (run_of(top, 1.0 / below), *(part.times(-value / below) for part in of_below))
    quality, note = p.quality((band, *references))
    note = joined(note, too_narrow(p, (band, *references)))
    return _Found(_measurement(index, band, value, error_of(parts), (quality, note)), parts)


def _formula(index: FormulaIndex, parts: Mapping[str, _Found]) -> _Found:
    values: dict[str, float] = {}
    for name, part in parts.items():
        if part.measurement.value is None:
            return _Found(_not_measurable(index, None, f"{name}: {part.measurement.note}"))
        values[name] = part.measurement.value
    try:
        of = formula_function(index.formula)
        value = of(values)
        slopes = {n: _slope(of, values, value, n, p.measurement.error or 0.0) for n, p in parts.items()}
    except ZeroDivisionError:
        return _Found(_not_measurable(index, None, "division by zero"))
    # Parts that share pixels (one reference under two bands, a core within its wings) move together, pixel by pixel.
    shared = tuple(part.times(slopes[n]) for n, p in parts.items() for part in p.parts or () if slopes[n])
    alone = [slopes[n] * (p.measurement.error or 0.0) for n, p in parts.items() if p.parts is None]
    error = math.hypot(*alone, error_of(shared) if shared else 0.0)
    quality = min((p.measurement.quality for p in parts.values()), default=1.0)
    note = joined(*(p.measurement.note for p in parts.values()))
    together = shared if not any(alone) else None
    return _Found(_measurement(index, None, value, error, (quality, note)), together)


def _slope(
    of: Callable[[Mapping[str, float]], float], values: dict[str, float], value: float, name: str, error: float
) -> float:
    """Change of the formula with one part, over the part's error: both ways, as `min` and `max` may feel only one."""
    if not error:
        return 0.0
    at = values[name]
    moved = []
    for e in (error, -error):
        values[name] = at + e
        moved.append((of(values) - value) / e)
    values[name] = at
    return max(moved, key=abs)


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
