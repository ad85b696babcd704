"""Which feature of a band is the line, where it ends, and what crowded surroundings add to its errors.

`half_maximum` serves the line indices: it measures whatever stands in a band. Here one line is sought:

- Absorption is one connected dip: the minimum with the most depth for its distance from the line's place, down from
  its own shoulders to its own half depth. A neighbour beyond a rise above half depth is not part of it. Where a
  neighbour's shoulder does not rise so far, both crossings are taken deeper, a quarter of the way from that shoulder.
- Emission is what lies around the highest peak, together with further peaks above half of it which belong to the same
  disc: those that a bridge above a quarter of the peak connects, or those that lie on the other side of the line's
  place so that the whole is centred better on it than the highest peak alone.
- A narrow feature is also a line where it rises from what lies right beside it, within the length of the structure, by
  more than the side bands scatter about straight lines of their own: an emission core on the edge of a molecule's band.
- The integral over the band says which of both comes first. Where that one does not stand clear of its surroundings
  (a bent pseudo-continuum makes broad emission of the space between two bands of molecules), the other is tried.

Side bands that scatter more about the straight continuum than their noise are crowded: `Structure`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.continuum import Continuum
from specvet.spectra.half_maximum import (
    KERNEL_SHARE,
    MIN_PEAK,
    MIN_PEAK_SNR,
    NARROWEST,
    NARROWEST_KERNEL,
    Answer,
    HalfMaximum,
    Profile,
    crossing,
    gaussian_weights,
    profile_of,
    smoothed,
)
from specvet.spectra.index_kinds import Range
from specvet.spectra.pixels import MEDIAN_SCATTER, Pixels
from specvet.spectra.resolution import instrument_fwhm
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S

CORRELATION = 4.0
"""Resolution elements over which what crowds a continuum counts as one: about the width of a blend of lines."""
ELEMENT_PIXELS = 3.0
"""Pixels of a resolution element where the resolution is not known."""
CLEAR = 2.0
"""Structure counts from so many σ of its variance on: noise alone seldom makes any."""
EMISSION_CLEAR, ABSORPTION_CLEAR = 4.0, 2.5
"""Least peak over the structure of the side bands. That structure is mostly absorption, which emission must not be."""
NEAR_KM_S = 300.0
"""A dip so far from the line's place counts half: few stars of the disc move faster, and `z` says where to look."""
RISE = 2.0
"""σ by which a rise must pass the level of the crossings to end a dip."""
DOUBT = 4.5
"""σ by which a shoulder must stand out between two dips: noise over some thirty pixels reaches 4."""
SHOULDER = 0.1
"""Share of the depth by which it must do so."""
FAINT = 5.0
"""Peak over its error at which errors of centre and width are √2 times those of first order: simulated lines."""
ABOVE = 0.25
"""Of the way from such a shoulder to the peak, where the crossings are taken: the shoulder itself has no slope."""
BRIDGE = 0.25
"""Share of the peak above which a bridge makes two peaks one line."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Structure:
    """What the side bands hold beyond noise, relative to the continuum."""

    scatter: float
    """Standard deviation about the straight continuum, less the noise; 0 where noise explains it."""
    fine: float
    """The same about a straight line through each side band of its own: what narrow features must stand out of."""
    length: float
    """Å over which it is taken to be of one piece: `CORRELATION` resolution elements."""
    offset: float
    """How far the stretches between the band and its sides lie off the straight continuum by the median, less 1σ, and
    positive above it: the continuum bends, or the line's wings reach beyond the band."""

    def ew_error(self, band: Range, sides: tuple[Range, Range]) -> float:
        """1σ (Å) that it adds to an equivalent width: in the band itself, and through both levels of the continuum."""
        width = band[1] - band[0]
        middle = 0.5 * sum(band)
        centres = [0.5 * sum(side) for side in sides]
        share = (middle - centres[0]) / (centres[1] - centres[0])
        levels = [
            factor * width * MEDIAN_SCATTER * math.sqrt(min(1.0, self.length / (side[1] - side[0])))
            for factor, side in zip((1.0 - share, share), sides, strict=True)
        ]
        return self.scatter * math.hypot(width * math.sqrt(min(1.0, self.length / width)), *levels)


def structure(p: Pixels, band: Range, sides: tuple[Range, Range], level: Continuum) -> Structure:
    """The structure of the side bands: the scatter of means over resolution elements, less what noise makes of it."""
    offset = _offset(p, band, sides, level)
    squares: list[float] = []
    of_fine: list[float] = []
    noises: list[float] = []
    length = 0.0
    for side in sides:
        pixels, weight = p.weights(side)
        good = weight > 0
        w = p.wavelength[pixels][good]
        if w.size < 2:
            continue
        step = float(np.median(np.diff(w)))
        element = instrument_fwhm(p.spectrum, 0.5 * sum(side)) or ELEMENT_PIXELS * step
        n = max(1, min(round(element / step), w.size))
        length = max(length, CORRELATION * max(element, step))
        below = level.at(w)
        off, sigma = p.flux[pixels][good] / below - 1.0, p.errors(pixels)[good] / below
        starts = range(0, w.size - n + 1, n)
        means = np.array([off[i : i + n].mean() for i in starts])
        squares += (means**2).tolist()
        noises += [float((sigma[i : i + n] ** 2).sum()) / n**2 for i in starts]
        if means.size > 2:
            x = np.arange(means.size) - 0.5 * (means.size - 1)
            rest = means - means.mean() - x * float(x.dot(means) / x.dot(x))
            of_fine += (rest**2 * (means.size / (means.size - 2))).tolist()
    if not squares:
        return Structure(0.0, 0.0, length, offset)
    variance, noise = float(np.mean(squares)), float(np.mean(noises))
    excess = variance - noise
    clear = excess > CLEAR * math.sqrt(2.0 / len(squares)) * noise
    fine = math.sqrt(max(0.0, float(np.mean(of_fine)) - noise)) if of_fine else math.inf
    return Structure(math.sqrt(excess) if clear and math.isfinite(excess) else 0.0, fine, length, offset)


def _offset(p: Pixels, band: Range, sides: tuple[Range, Range], level: Continuum) -> float:
    blue, red = sorted(sides)
    offs, noises = [np.empty(0)], [np.empty(0)]
    for low, high in ((blue[1], band[0]), (band[1], red[0])):
        if low < high:
            pixels, weight = p.weights((low, high))
            good = weight > 0
            below = level.at(p.wavelength[pixels][good])
            offs.append(p.flux[pixels][good] / below - 1.0)
            noises.append(p.errors(pixels)[good] / below)
    off, noise = np.concatenate(offs), np.concatenate(noises)
    if off.size < ELEMENT_PIXELS:
        return 0.0
    # The median, so that a narrow neighbour there is not taken for a bent continuum.
    middle = float(np.median(off))
    found = abs(middle) - MEDIAN_SCATTER * math.sqrt(float((noise**2).sum())) / off.size
    return math.copysign(found, middle) if math.isfinite(found) and found > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A line, and what its surroundings add to the errors."""

    half: HalfMaximum
    fraction: float
    """Of the peak, where the crossings lie: 0.5, or more where a neighbour's shoulder does not fall so low."""
    peak_error: float
    """1σ, with the structure of the surroundings, as the others."""
    middle_error: float
    fwhm_error: float
    crowding: float
    """Å; the share of the surroundings in `middle_error`."""
    narrow: bool
    """Whether it stands out of what lies right beside it, whatever the band as a whole holds."""


def line_shape(
    p: Pixels, band: Range, sides: tuple[Range, Range], level: Continuum, at: float, around: Structure
) -> Shape | str:
    """The line of the band whose place is `at` (Å), or why there is none."""
    profile = profile_of(p, band, sides, level)
    if isinstance(profile, str):
        return profile
    inside = profile.inside
    above = float((profile.depth * profile.steps)[inside].sum()) > 0
    first = _in_sign(profile, level, at, around, 1.0 if above else -1.0)
    if not isinstance(first, str):
        return first
    other = _in_sign(profile, level, at, around, -1.0 if above else 1.0)
    return first if isinstance(other, str) else other


def _in_sign(profile: Profile, level: Continuum, at: float, around: Structure, sign: float) -> Shape | str:
    y = sign * profile.depth
    typical = float(np.median(profile.noise))
    seen = np.where(profile.inside, y, -np.inf)
    pixel = float(profile.steps[int(seen.argmax())])
    weights, smoothing = NARROWEST, NARROWEST_KERNEL * pixel
    found = _bounds(profile, smoothed(y, weights), _noise(typical, weights), at, around, sign)
    if isinstance(found, str):
        return found
    wanted = KERNEL_SHARE * found.own
    if wanted > smoothing and profile.kernel_fits(pixel):
        broad = gaussian_weights(wanted / pixel, y.size)
        finer = _bounds(profile, smoothed(y, broad), _noise(typical, broad), at, around, sign)
        if not isinstance(finer, str):
            found, weights, smoothing = finer, broad, wanted
    answer = Answer(profile, level, weights, found.smooth, found.at, sign, found.fraction)
    half = HalfMaximum(
        left=found.left,
        right=found.right,
        own=found.own,
        peak=sign * float(found.smooth[found.at]),
        peak_error=answer.peak_error,
        at_peak=float(profile.w[found.at]),
        smoothing=smoothing,
        pixel=pixel,
        cut=found.cut,
        left_parts=answer.moved(found.left),
        right_parts=answer.moved(found.right),
    )
    moves = [around.scatter / abs(s) if s else 0.0 for s in (answer.slope(half.left), answer.slope(half.right))]
    both = math.hypot(*moves)
    # First-order errors fall short near the limit of detection, where noise may turn the slopes.
    faint = math.sqrt(1.0 + (FAINT * half.peak_error / abs(half.peak)) ** 4)
    return Shape(
        half,
        found.fraction,
        math.hypot(half.peak_error, around.scatter),
        math.hypot(faint * half.middle_error, 0.5 * both),
        math.hypot(faint * half.fwhm_error, both),
        0.5 * both,
        found.narrow,
    )


def _noise(typical: float, weights: _Floats) -> float:
    return typical * math.sqrt(float(weights.dot(weights)))


@dataclass(frozen=True, slots=True)
class _Bounds:
    left: float
    right: float
    own: float
    at: int
    cut: bool
    fraction: float
    smooth: _Floats
    narrow: bool


def _bounds(
    profile: Profile, smooth: _Floats, noise: float, at: float, around: Structure, sign: float
) -> _Bounds | str:
    w, inside = profile.w, profile.inside
    weight = np.ones(w.size) if sign > 0 else 1.0 / (1.0 + ((w / at - 1.0) * SPEED_OF_LIGHT_KM_S / NEAR_KM_S) ** 2)
    top = int(np.where(inside, smooth * weight, -np.inf).argmax())
    # The weight moves the place of the maximum a little: from there up to the dip's own.
    while sign < 0:
        i = max((j for j in (top - 1, top, top + 1) if 0 <= j < w.size and inside[j]), key=lambda j: float(smooth[j]))
        if i == top:
            break
        top = i
    peak = float(smooth[top])
    if not peak > max(MIN_PEAK, MIN_PEAK_SNR * noise):
        return "the line is not detected at 4σ"
    clear = EMISSION_CLEAR if sign > 0 else ABSORPTION_CLEAR
    bend = max(0.0, around.offset) if sign > 0 else 0.0
    clears = peak - bend > math.hypot(MIN_PEAK_SNR * noise, clear * around.scatter)
    narrow = _stands_out(profile, smooth, top, noise, clear, around)
    if not clears and not narrow:
        off = max(around.scatter, bend)
        return f"the line is not clear of its surroundings, which lie off the straight continuum by {off:.2g} of it"
    half = 0.5 * peak
    if sign > 0:
        own = [crossing(w, smooth, top, step, half) for step in (-1, 1)]
        (left, cut_left), (right, cut_right) = _disc(profile, smooth, top, half, noise, at, own)
        single = own[1][0] - own[0][0]
        return _Bounds(left, right, single, top, cut_left or cut_right, 0.5, smooth, narrow)
    own = [_walk(w, smooth, top, step, half, noise) for step in (-1, 1)]
    shoulder = max(half, *(_shoulder(smooth, top, step, half, noise) for step in (-1, 1)))
    if shoulder > half:
        shoulder += ABOVE * (peak - shoulder)
        own = [crossing(w, smooth, top, step, shoulder) for step in (-1, 1)]
    (left, cut_left), (right, cut_right) = own
    return _Bounds(left, right, right - left, top, cut_left or cut_right, shoulder / peak, smooth, narrow)


def _stands_out(profile: Profile, y: _Floats, top: int, noise: float, clear: float, around: Structure) -> bool:
    """Whether a narrow feature rises from what lies beside it more than the fine structure of the side bands does."""
    near = np.abs(profile.w - profile.w[top]) <= around.length
    left, right = y[: top + 1][near[: top + 1]], y[top:][near[top:]]
    contrast = float(y[top] - max(left.min(), right.min()))
    return contrast > math.hypot(MIN_PEAK_SNR * math.sqrt(2.0) * noise, clear * around.fine)


def _walk(w: _Floats, y: _Floats, top: int, step: int, level: float, noise: float) -> tuple[float, bool]:
    """The crossing of `level` on one side: the last before `y` is clearly below it, so that noise does not decide."""
    beyond = y[top + 1 :] if step > 0 else y[:top][::-1]
    clear = np.flatnonzero(beyond < level - RISE * noise)
    last = int(clear[0]) if clear.size else beyond.size
    still = np.flatnonzero(beyond[:last] >= level)
    return crossing(w, y, top + step * (int(still[-1]) + 1 if still.size else 0), step, level)


def _shoulder(y: _Floats, top: int, step: int, half: float, noise: float) -> float:
    """The level of the shoulder towards a neighbour on one side that is not parted at `half`; `half` if there is none.

    `y` counts depth, so that a shoulder is a minimum of it, behind which `y` grows again.
    """
    beyond = y[top:] if step > 0 else y[: top + 1][::-1]
    below = np.flatnonzero(beyond < half - RISE * noise)
    connected = beyond[: int(below[0])] if below.size else beyond
    least = np.minimum.accumulate(connected)
    margin = max(DOUBT * noise, SHOULDER * float(y[top]))
    grown = np.flatnonzero((connected - least > margin) & (y[top] - least > margin))
    return half if not grown.size else max(half, float(least[grown[0]]))


def _disc(
    profile: Profile,
    y: _Floats,
    top: int,
    half: float,
    noise: float,
    at: float,
    own: list[tuple[float, bool]],
) -> list[tuple[float, bool]]:
    """The outermost crossings among the peaks that belong to the line of the highest."""
    w = profile.w
    # A pixel counts from 3σ on: in a faint line, noise alone reaches half the peak somewhere in the window.
    counts = np.flatnonzero(profile.inside & (y >= max(half, 3.0 * noise)))
    ends = list(own)
    for which, step, outer in ((0, -1, int(counts[0])), (1, 1, int(counts[-1]))):
        end, cut = crossing(w, y, outer, step, half)
        if step * (end - ends[which][0]) <= 0:
            continue
        a, b = sorted((top, outer))
        joined = float(y[a : b + 1].min()) >= BRIDGE * y[top]
        whole = 0.5 * (end + ends[1 - which][0])
        alone = 0.5 * (own[0][0] + own[1][0])
        if joined or abs(whole - at) < abs(alone - at):
            ends[which] = end, cut
    return ends
