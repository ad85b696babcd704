"""Line indices: what a line or band measures, with its error, or why it cannot be measured.

Four kinds, all from flux and good pixels only:

- `LineIndex`: equivalent width in Å, positive in absorption, against a straight continuum between two side bands;
- `WidthIndex`: full width at half maximum (or half depth) of the feature in a line index, in km/s;
- `RatioIndex`: mean flux in a band over mean flux in a reference;
- `FormulaIndex`: arithmetic on other indices.

Bands are stated in air or vacuum and converted to the spectrum's own medium. A pixel that a band edge cuts counts by the
part inside, so that coarse spectra measure the same as fine ones. Errors come from `ivar`; without one, from the
scatter between neighbouring pixels, and the note says so. Nothing is returned rather than something false: too few good
pixels or a continuum that is not detected give `value=None` and a note.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.records.schema import Measurement
from specvet.spectra.lines import TELLURIC_BANDS_AIR, in_medium
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, Medium, Spectrum

Range = tuple[float, float]

MIN_BAND_COVERAGE = 0.75
"""Least share of a band that must be good for a value."""
MIN_SIDE_COVERAGE = 0.4
"""Least share of a continuum band."""
MIN_CONTINUUM_SNR = 2.0
"""Least continuum over its own error: below, an equivalent width means nothing."""
JOIN_QUALITY = 0.4
"""Quality of a band that lies wholly in an arm join; in proportion where it overlaps."""
TELLURIC_QUALITY = 0.5
"""The same for telluric bands."""


MAX_HALF_PIXEL = 5.0
"""Å; how far a pixel may reach towards a neighbour."""


@dataclass(frozen=True, slots=True)
class LineIndex:
    """Equivalent width (Å, positive in absorption) of `band` against the continuum between `sides`."""

    key: str
    name: str
    band: Range
    sides: tuple[Range, Range]
    medium: Medium = "air"
    unit = "Å"

    @property
    def span(self) -> Range:
        """All that must be seen to measure it, Å in `medium`."""
        return _span((self.band, *self.sides))


@dataclass(frozen=True, slots=True)
class WidthIndex:
    """Full width at half maximum (km/s) of the feature that `line` measures; emission and absorption alike.

    Double peaks count as one feature: the outermost half-maximum crossings are taken.
    """

    key: str
    name: str
    line: LineIndex
    centre: float
    """Å, in the medium of `line`: where velocities are zero."""
    unit = "km/s"

    @property
    def medium(self) -> Medium:
        return self.line.medium

    @property
    def span(self) -> Range:
        return self.line.span


@dataclass(frozen=True, slots=True)
class RatioIndex:
    """Mean flux in `band` over the mean in `reference`: one stretch, or two that are interpolated to the band's middle."""

    key: str
    name: str
    band: Range
    reference: tuple[Range, ...]
    medium: Medium = "air"
    unit = ""

    @property
    def span(self) -> Range:
        return _span((self.band, *self.reference))


@dataclass(frozen=True, slots=True)
class FormulaIndex:
    """Arithmetic on other indices: numbers, names, + − * /, brackets, `min(…)`, `max(…)`, `abs(…)`."""

    key: str
    name: str
    formula: str
    unit: str = ""


Index = LineIndex | WidthIndex | RatioIndex | FormulaIndex


def measure(
    names: Iterable[str],
    spectrum: Spectrum,
    indices: Mapping[str, Index],
    known: Mapping[str, Measurement] | None = None,
) -> dict[str, Measurement]:
    """The named indices, and those that their formulas need, of one spectrum.

    What is `known` already (measured in another window) is taken as it is. Raises KeyError for a name that `indices`
    does not hold, and ValueError for a formula that is not one.
    """
    sampled = _Sampled(spectrum)
    done: dict[str, Measurement] = dict(known or {})

    def one(name: str, above: tuple[str, ...] = ()) -> Measurement:
        if name in above:
            raise ValueError(f"index {name!r} refers to itself: {' -> '.join((*above, name))}")
        if name not in done:
            index = indices[name]
            if isinstance(index, FormulaIndex):
                parts = {n: one(n, (*above, name)) for n in formula_names(index.formula)}
                done[name] = _formula(index, parts)
            elif isinstance(index, LineIndex):
                done[name] = _equivalent_width(index, sampled)
            elif isinstance(index, WidthIndex):
                done[name] = _width(index, sampled)
            else:
                done[name] = _ratio(index, sampled)
        return done[name]

    for name in names:
        one(name)
    return done


class _Sampled:
    """A spectrum prepared for integration: pixel edges, good pixels, errors."""

    def __init__(self, spectrum: Spectrum) -> None:
        w = spectrum.wavelength
        self.spectrum = spectrum
        self.medium = spectrum.medium
        # A pixel reaches half-way to its neighbours, but not across a gap: at most `MAX_HALF_PIXEL`, unless the whole
        # spectrum is coarser than that.
        half = 0.5 * np.diff(w) if w.size > 1 else np.ones(1)
        half = np.minimum(half, max(MAX_HALF_PIXEL, 1.5 * float(np.median(half))))
        self.left = w - np.concatenate([half[:1], half])[: w.size]
        self.right = w + np.concatenate([half, half[-1:]])[: w.size]
        self.good = spectrum.good
        self.sigma = spectrum.sigma

    def convert(self, band: Range, medium: Medium) -> Range:
        return in_band(band, medium, self.medium)

    def weights(self, band: Range) -> tuple[slice, NDArray[np.float64]]:
        """Pixels that touch the band, and the length (Å) of each inside it; bad pixels have 0."""
        low = int(np.searchsorted(self.right, band[0], "right"))
        high = int(np.searchsorted(self.left, band[1], "left"))
        pixels = slice(low, max(low, high))
        inside = np.minimum(self.right[pixels], band[1]) - np.maximum(self.left[pixels], band[0])
        return pixels, np.where(self.good[pixels], np.clip(inside, 0.0, None), 0.0)

    def coverage(self, band: Range) -> float:
        return float(self.weights(band)[1].sum() / (band[1] - band[0]))

    def errors(self, pixels: slice) -> NDArray[np.float64]:
        """1σ of each pixel; without ivar, one value from the scatter of the stretch around."""
        if self.sigma is not None:
            return np.where(self.good[pixels], self.sigma[pixels], 0.0)
        n = self.good.size
        wide = slice(max(0, pixels.start - 30), min(n, pixels.stop + 30))
        flux = self.spectrum.flux[wide][self.good[wide]]
        noise = 0.0
        if flux.size >= 7:
            # Third differences, blind to smooth shapes (DER_SNR, Stoehr et al. 2008, ASP Conf. 394, 505).
            noise = 0.6052697 * float(np.median(np.abs(2 * flux[2:-2] - flux[:-4] - flux[4:])))
        return np.full(pixels.stop - pixels.start, noise)

    def mean(self, band: Range) -> tuple[float, float]:
        """Mean flux and its 1σ over the good part of a band."""
        pixels, weight = self.weights(band)
        total = weight.sum()
        flux = np.where(weight > 0, self.spectrum.flux[pixels], 0.0)
        return float((weight * flux).sum() / total), float(
            np.sqrt(((weight * self.errors(pixels)) ** 2).sum()) / total
        )

    def level(self, band: Range) -> tuple[float, float]:
        """Continuum level and its 1σ: the median where there are pixels enough, else the mean."""
        pixels, weight = self.weights(band)
        flux = self.spectrum.flux[pixels][weight > 0]
        if flux.size < 5:
            return self.mean(band)
        sigma = self.errors(pixels)[weight > 0]
        return float(np.median(flux)), float(1.2533 * np.sqrt((sigma**2).mean() / flux.size))

    def quality(self, bands: Iterable[Range]) -> tuple[float, str]:
        """0-1 and a note: good pixels, arm joins and tellurics, by the share of the bands they touch."""
        quality, notes = 1.0, []
        bands = list(bands)
        total = sum(b - a for a, b in bands)
        for join in self.spectrum.joins:
            share = sum(_overlap(band, (join.low, join.high)) for band in bands) / total
            if share > 0.05:
                quality *= 1.0 - share * (1.0 - JOIN_QUALITY)
                notes.append(f"in the {join.label} join")
        for name, low, high in TELLURIC_BANDS_AIR:
            band_low, band_high = self.convert((low, high), "air")
            share = sum(_overlap(band, (band_low, band_high)) for band in bands) / total
            if share > 0.05:
                quality *= 1.0 - share * (1.0 - TELLURIC_QUALITY)
                notes.append(f"in telluric {name}")
        covered = sum(self.coverage(band) * (band[1] - band[0]) for band in bands) / total
        if covered < 0.98:
            quality *= covered
            notes.append(f"{100 * covered:.0f} % of the pixels are good")
        if self.sigma is None:
            notes.append("error from pixel scatter")
        return quality, "; ".join(dict.fromkeys(notes))


def _equivalent_width(index: LineIndex, s: _Sampled) -> Measurement:
    band, blue, red = (s.convert(r, index.medium) for r in (index.band, *index.sides))
    missing = _missing(s, band, (blue, red))
    if missing:
        return _not_measurable(index, band, missing)
    continuum = _Continuum(s, blue, red)
    if not continuum.detected:
        return _not_measurable(index, band, "the continuum is not detected")
    pixels, weight = s.weights(band)
    w = s.spectrum.wavelength[pixels]
    c, dc = continuum.at(w), continuum.error_at(0.5 * (band[0] + band[1]))
    flux = np.where(weight > 0, s.spectrum.flux[pixels], 0.0)
    scale = (band[1] - band[0]) / weight.sum()
    value = float((weight * (1.0 - flux / c))[weight > 0].sum() * scale)
    noise = float(np.sqrt(((weight * s.errors(pixels) / c) ** 2).sum()) * scale)
    level = abs(band[1] - band[0] - value) * dc / continuum.middle
    quality, note = s.quality((band,))
    return _measurement(index, band, value, math.hypot(noise, level), quality, note)


class _Continuum:
    """A straight line between the levels of two side bands."""

    def __init__(self, s: _Sampled, blue: Range, red: Range) -> None:
        self.x = (0.5 * sum(blue), 0.5 * sum(red))
        (y0, e0), (y1, e1) = s.level(blue), s.level(red)
        self.y, self.e = (y0, y1), (e0, e1)
        self.middle = 0.5 * (y0 + y1)
        self.detected = all(y > MIN_CONTINUUM_SNR * e and y > 0 for y, e in zip(self.y, self.e, strict=True))

    def at(self, wavelength: NDArray[np.float64]) -> NDArray[np.float64]:
        slope = (self.y[1] - self.y[0]) / (self.x[1] - self.x[0])
        return self.y[0] + slope * (wavelength - self.x[0])

    def error_at(self, wavelength: float) -> float:
        t = (wavelength - self.x[0]) / (self.x[1] - self.x[0])
        return math.hypot((1 - t) * self.e[0], t * self.e[1])


def _width(index: WidthIndex, s: _Sampled) -> Measurement:
    line = index.line
    band, blue, red = (s.convert(r, line.medium) for r in (line.band, *line.sides))
    missing = _missing(s, band, (blue, red))
    if missing:
        return _not_measurable(index, band, missing)
    continuum = _Continuum(s, blue, red)
    if not continuum.detected:
        return _not_measurable(index, band, "the continuum is not detected")
    whole = (min(band[0], blue[1]), max(band[1], red[0]))
    pixels, weight = s.weights(whole)
    keep = weight > 0
    w = s.spectrum.wavelength[pixels][keep]
    if w.size < 5:
        return _not_measurable(index, band, "fewer than 5 pixels")
    depth = s.spectrum.flux[pixels][keep] / continuum.at(w) - 1.0
    sigma = s.errors(pixels)[keep] / continuum.at(w)
    smooth = np.convolve(np.pad(depth, 1, mode="edge"), [0.25, 0.5, 0.25], "valid")
    inside = (w >= band[0]) & (w <= band[1])
    excess = float((depth[inside] * np.gradient(w)[inside]).sum())
    sign = 1.0 if excess > 0 else -1.0
    profile = sign * smooth
    peak = float(profile[inside].max())
    noise = 0.61 * float(np.median(sigma))  # of the 1-2-1 mean
    if peak <= 0 or peak < 4.0 * noise:
        return _not_measurable(index, band, "the line is not detected at 4σ")
    above = np.flatnonzero(inside & (profile >= 0.5 * peak))
    left = _crossing(w, profile, int(above[0]), -1, 0.5 * peak)
    right = _crossing(w, profile, int(above[-1]), 1, 0.5 * peak)
    centre = in_medium(index.centre, line.medium, s.medium)
    value = SPEED_OF_LIGHT_KM_S * (right - left) / centre
    step = SPEED_OF_LIGHT_KM_S * float(np.median(np.diff(w))) / centre
    quality, note = s.quality((band,))
    note = "; ".join(x for x in ("emission" if sign > 0 else "absorption", note) if x)
    return _measurement(index, (left, right), value, math.hypot(step, value * noise / peak), quality, note)


def _crossing(w: NDArray[np.float64], y: NDArray[np.float64], start: int, step: int, level: float) -> float:
    """Wavelength at which `y` falls below `level` when walking outward from pixel `start`."""
    i = start
    while 0 <= i + step < w.size and y[i + step] >= level:
        i += step
    j = i + step
    if not 0 <= j < w.size or y[i] == y[j]:
        return float(w[i])
    return float(w[i] + (w[j] - w[i]) * (y[i] - level) / (y[i] - y[j]))


def _ratio(index: RatioIndex, s: _Sampled) -> Measurement:
    band = s.convert(index.band, index.medium)
    references = [s.convert(r, index.medium) for r in index.reference]
    missing = _missing(s, band, references)
    if missing:
        return _not_measurable(index, band, missing)
    top, top_error = s.mean(band)
    means = [s.mean(r) for r in references]
    middles = [0.5 * (a + b) for a, b in references]
    if len(means) == 2 and min(middles) < 0.5 * sum(band) < max(middles):
        t = (0.5 * sum(band) - middles[0]) / (middles[1] - middles[0])
        shares = [1 - t, t]
    else:
        shares = [1 / len(means)] * len(means)
    below = sum(x * m for x, (m, _) in zip(shares, means, strict=True))
    below_error = math.sqrt(sum((x * e) ** 2 for x, (_, e) in zip(shares, means, strict=True)))
    if below <= MIN_CONTINUUM_SNR * below_error or below <= 0:
        return _not_measurable(index, band, "the reference is not detected")
    value = top / below
    error = math.hypot(top_error, value * below_error) / below
    quality, note = s.quality((band, *references))
    return _measurement(index, band, value, error, quality, note)


_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}


def formula_names(formula: str) -> list[str]:
    """Names of the indices that a formula uses, in order; ValueError where it is not a formula."""
    names: dict[str, None] = {}

    def walk(node: ast.expr) -> None:
        match node:
            case ast.Constant(value=int() | float()):
                pass
            case ast.Name(id=name):
                names.setdefault(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                walk(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                walk(left)
                walk(right)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
                for arg in args:
                    walk(arg)
            case _:
                raise ValueError(
                    f"formula {formula!r}: {ast.unparse(node)!r} is not allowed; use numbers, index names, "
                    "+ - * /, brackets, min(), max(), abs()"
                )

    walk(_parsed(formula))
    return list(names)


def _parsed(formula: str) -> ast.expr:
    if len(formula) > 500:
        raise ValueError(f"formula of {len(formula)} characters: at most 500 are read")
    try:
        return ast.parse(formula, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"formula {formula!r} is not arithmetic, such as `cah2 + cah3 - 0.5 * tio5`") from None


def _formula(index: FormulaIndex, parts: Mapping[str, Measurement]) -> Measurement:
    for name, part in parts.items():
        if part.value is None:
            return _not_measurable(index, None, f"{name}: {part.note}")

    def value_of(shifted: str = "", by: float = 0.0) -> float:
        def walk(node: ast.expr) -> float:
            match node:
                case ast.Constant(value=value):
                    return float(value)  # type: ignore[arg-type]
                case ast.Name(id=name):
                    return float(parts[name].value or 0.0) + (by if name == shifted else 0.0)
                case ast.UnaryOp(operand=operand):
                    return -walk(operand)
                case ast.BinOp(left=left, op=op, right=right):
                    return _OPERATORS[type(op)](walk(left), walk(right))
                case ast.Call(func=ast.Name(id=name), args=args):
                    return _FUNCTIONS[name](*(walk(a) for a in args)) if len(args) > 1 else abs(walk(args[0]))
            raise AssertionError("formula_names lets nothing else through")

        return walk(_parsed(index.formula))

    try:
        value = value_of()
        errors = [value_of(n, p.error) - value for n, p in parts.items() if p.error]
    except ZeroDivisionError:
        return _not_measurable(index, None, "division by zero")
    quality = min((p.quality for p in parts.values()), default=1.0)
    notes = "; ".join(dict.fromkeys(n for p in parts.values() for n in p.note.split("; ") if n))
    return _measurement(index, None, value, math.sqrt(sum(e * e for e in errors)), quality, notes)


def _measurement(
    index: Index, window: Range | None, value: float, error: float, quality: float, note: str
) -> Measurement:
    if not math.isfinite(value):
        return _not_measurable(index, window, "the value is not finite")
    return Measurement(
        index=index.key,
        name=index.name,
        value=value,
        error=error if math.isfinite(error) else None,
        unit=index.unit,
        window=window,
        quality=max(0.0, min(1.0, quality)),
        note=note,
    )


def _not_measurable(index: Index, window: Range | None, why: str) -> Measurement:
    return Measurement(index=index.key, name=index.name, unit=index.unit, window=window, quality=0.0, note=why)


def _missing(s: _Sampled, band: Range, sides: Iterable[Range]) -> str:
    covered = s.coverage(band)
    if covered < MIN_BAND_COVERAGE:
        return f"good pixels cover {100 * covered:.0f} % of {band[0]:.0f}-{band[1]:.0f} Å"
    for side in sides:
        covered = s.coverage(side)
        if covered < MIN_SIDE_COVERAGE:
            return f"good pixels cover {100 * covered:.0f} % of the continuum at {side[0]:.0f}-{side[1]:.0f} Å"
    return ""


def in_band(band: Range, given: Medium, wanted: Medium) -> Range:
    """Both ends of a band (Å) converted from one medium to another."""
    return in_medium(band[0], given, wanted), in_medium(band[1], given, wanted)


def _overlap(a: Range, b: Range) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))


def _span(ranges: Iterable[Range]) -> Range:
    ranges = list(ranges)
    return min(a for a, _ in ranges), max(b for _, b in ranges)
