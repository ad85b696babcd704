"""Where a line falls to half of its peak: its width and its middle, with errors, and the instrument's share taken out.

The profile is flux over continuum, smoothed a little so that noise does not decide where it crosses: first by 1-2-1
pixels to find the line and its rough width, then by a Gaussian of a quarter of that width. What smoothing adds to the
width is taken out in quadrature. The outermost crossings of half the peak count, so a disc's two peaks are one line.

Errors are first-order: how each crossing moves with each pixel, with the peak and with the two levels of the
continuum, each by its own 1σ. Nothing is fitted, so nothing is assumed of the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.continuum import Continuum, Parts, Run, error_of, run_of
from specvet.spectra.index_kinds import Range
from specvet.spectra.pixels import Pixels

MIN_PEAK_SNR = 4.0
"""Least peak over its error: what is weaker is no line whose width could be told."""
MIN_PEAK = 1e-3
"""Least peak over continuum: what is weaker, also where a model has no noise, is no line."""
KERNEL_SHARE = 0.25
"""FWHM of the smoothing over that of the line: less noise, and 3 % of the width, which is taken out again."""
NARROWEST_KERNEL = math.sqrt(8.0 * math.log(2.0) * 0.5)
"""FWHM in pixels of the 1-2-1 mean, whose variance is half a pixel squared."""
NARROWEST = np.array([0.25, 0.5, 0.25])
"""The least smoothing."""
SAMPLING_ERROR = 0.1
"""1σ in pixels that straight lines between pixels leave in a crossing: simulated lines of three pixels and more."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HalfMaximum:
    """A line at half of its peak. Wavelengths in Å, in the spectrum's medium and frame."""

    left: float
    right: float
    peak: float
    """Over the continuum: 0.5 is half of it; negative in absorption."""
    peak_error: float
    at_peak: float
    """Å."""
    own: float
    """Å at half maximum of the higher peak alone; `right` − `left` where there is one peak."""
    smoothing: float
    """FWHM (Å) of the smoothing that `left`, `right` and `own` hold."""
    pixel: float
    """Å; the size of a pixel there."""
    cut: bool
    """Whether the line reaches the edge of what was looked at: its width is a lower limit."""
    left_parts: Parts
    right_parts: Parts

    @property
    def emission(self) -> bool:
        return self.peak > 0

    @property
    def fwhm(self) -> float:
        """Å, observed: with the instrument's width in it, without that of the smoothing."""
        if self.cut:
            return self.right - self.left
        return self.right - self.left - self.own + self._own_without_smoothing

    @property
    def fwhm_error(self) -> float:
        """1σ, Å."""
        parts = (*self.right_parts, *(part.times(-1.0) for part in self.left_parts))
        stretch = min(self.own / self._own_without_smoothing, 3.0)
        return stretch * math.hypot(error_of(parts), math.sqrt(2.0) * SAMPLING_ERROR * self.pixel)

    @property
    def _own_without_smoothing(self) -> float:
        return math.sqrt(max(self.own**2 - self.smoothing**2, (0.5 * self.pixel) ** 2))

    @property
    def middle(self) -> float:
        """Å, half-way between both crossings."""
        return 0.5 * (self.left + self.right)

    @property
    def middle_error(self) -> float:
        """1σ, Å."""
        parts = (*self.right_parts, *self.left_parts)
        # What straight lines leave is much the same on both sides, so the middle feels half of it.
        return math.hypot(0.5 * error_of(parts), 0.5 * SAMPLING_ERROR * self.pixel)


@dataclass(frozen=True, slots=True)
class Profile:
    """Good pixels around a line. All arrays have one length."""

    w: _Floats
    """Å."""
    depth: _Floats
    """Flux over continuum, less 1."""
    inside: NDArray[np.bool_]
    """Which lie in the band."""
    noise: _Floats
    """1σ of `depth`."""
    below: _Floats
    """The continuum."""
    steps: _Floats
    """Å from pixel to pixel."""
    keep: NDArray[np.bool_]
    """Which pixels of the spectrum, from number `start` on, these are."""
    start: int

    def kernel_fits(self, pixel: float) -> bool:
        """Weights count pixels: on a grid that is fine in the core and coarse in the wings they would mix both."""
        odd = np.count_nonzero((self.steps > 2.0 * pixel) | (self.steps < 0.5 * pixel))
        return bool(odd < 0.1 * self.steps.size)


def profile_of(p: Pixels, band: Range, sides: tuple[Range, Range], level: Continuum) -> Profile | str:
    """The profile from one continuum band to the other, or why there is none."""
    low, high = sorted(sides)
    pixels, weight = p.weights((min(band[0], low[1]), max(band[1], high[0])))
    keep = weight > 0
    w = p.wavelength[pixels][keep]
    inside = (w >= band[0]) & (w <= band[1])
    if w.size < 5 or not inside.any():
        return "fewer than 5 pixels"
    below = level.at(w)
    depth = p.flux[pixels][keep] / below - 1.0
    return Profile(w, depth, inside, p.errors(pixels)[keep] / below, below, np.gradient(w), keep, pixels.start)


def half_maximum(
    p: Pixels, band: Range, sides: tuple[Range, Range], level: Continuum, kernel: float | None = None
) -> HalfMaximum | str:
    """The line in `band` at half of its peak, or why it has no width.

    It is emission or absorption, whichever is more in the band; the peak lies in the band, the crossings may lie
    beyond, up to the continuum bands `sides`. `kernel` (Å) is the FWHM of the smoothing where the line's own width is
    not to decide.
    """
    profile = profile_of(p, band, sides, level)
    if isinstance(profile, str):
        return profile
    w, depth, inside, steps, noise = profile.w, profile.depth, profile.inside, profile.steps, profile.noise
    first, last = int(inside.argmax()), w.size - 1 - int(inside[::-1].argmax())
    sign = 1.0 if float(depth[first : last + 1].dot(steps[first : last + 1])) > 0 else -1.0
    y = sign * depth
    typical = float(np.median(noise))
    pixel = float(steps[first + int(y[first : last + 1].argmax())])
    weights, smoothing = NARROWEST, NARROWEST_KERNEL * pixel
    found = _crossings(profile, y, weights, typical)
    if isinstance(found, str):
        return found
    wanted = KERNEL_SHARE * found.own if kernel is None else kernel
    if wanted > smoothing and profile.kernel_fits(pixel):
        broad = gaussian_weights(wanted / pixel, w.size)
        finer = _crossings(profile, y, broad, typical)
        if not isinstance(finer, str):
            found, weights, smoothing = finer, broad, wanted
    answer = Answer(profile, level, weights, found.smooth, found.at, sign)
    return HalfMaximum(
        left=found.left,
        right=found.right,
        own=found.own,
        peak=sign * float(found.smooth[found.at]),
        peak_error=answer.peak_error,
        at_peak=float(w[found.at]),
        smoothing=smoothing,
        pixel=pixel,
        cut=found.cut,
        left_parts=answer.moved(found.left),
        right_parts=answer.moved(found.right),
    )


@dataclass(frozen=True, slots=True)
class _Crossings:
    """Where a smoothed profile falls below half of its peak, Å; `own` as in HalfMaximum."""

    left: float
    right: float
    own: float
    at: int
    cut: bool
    smooth: _Floats


def smoothed(y: _Floats, weights: _Floats) -> _Floats:
    """`y` smoothed by `weights`, as long as before: beyond the ends, the outermost value is repeated."""
    reach = weights.size // 2
    return np.convolve(np.concatenate([np.full(reach, y[0]), y, np.full(reach, y[-1])]), weights, "valid")


def _crossings(profile: Profile, y: _Floats, weights: _Floats, typical: float) -> _Crossings | str:
    """The outermost crossings of half the peak, with `y`, the profile in the line's own sign, smoothed by `weights`.

    A pixel counts from 3σ on: in a faint line, noise alone reaches half the peak somewhere in the window.
    """
    smooth = smoothed(y, weights)
    seen = np.where(profile.inside, smooth, -np.inf)
    at = int(seen.argmax())
    peak = float(smooth[at])
    noise = typical * math.sqrt(float(weights.dot(weights)))
    if not peak > max(MIN_PEAK, MIN_PEAK_SNR * noise):
        return "the line is not detected at 4σ"
    half = 0.5 * peak
    counts = np.flatnonzero(seen >= max(half, 3.0 * noise))
    left, cut_left = crossing(profile.w, smooth, int(counts[0]), -1, half)
    right, cut_right = crossing(profile.w, smooth, int(counts[-1]), 1, half)
    own = crossing(profile.w, smooth, at, 1, half)[0] - crossing(profile.w, smooth, at, -1, half)[0]
    return _Crossings(left, right, own, at, cut_left or cut_right, smooth)


def crossing(w: _Floats, y: _Floats, start: int, step: int, level: float) -> tuple[float, bool]:
    """Wavelength at which `y` falls below `level` when walking outward from `start`, and whether it never does."""
    beyond = y[start + 1 :] if step > 0 else y[:start][::-1]
    lower = np.flatnonzero(~(beyond >= level))
    if not lower.size:
        return float(w[-1] if step > 0 else w[0]), True
    i = start + step * int(lower[0])
    j = i + step
    return float(w[i] + (w[j] - w[i]) * (y[i] - level) / (y[i] - y[j])), False


def gaussian_weights(fwhm: float, n: int) -> _Floats:
    """Normalised Gaussian weights of `fwhm` pixels, odd in number, no longer than a profile of `n` pixels bears."""
    sigma = fwhm / math.sqrt(8.0 * math.log(2.0))
    reach = min(math.ceil(3.0 * sigma), (n - 1) // 2)
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class Answer:
    """How a crossing answers to pixels and continuum."""

    profile: Profile
    level: Continuum
    weights: _Floats
    smooth: _Floats
    """The smoothed profile, positive for the line's own sign."""
    at: int
    """Number of its peak."""
    sign: float
    """1 in emission, -1 in absorption."""
    fraction: float = 0.5
    """Of the peak, where the crossings lie."""

    @property
    def peak_error(self) -> float:
        """1σ of the smoothed peak, from the pixels' own errors."""
        return math.sqrt(float(((self.row(self.at) * self.profile.noise) ** 2).sum()))

    def slope(self, x: float) -> float:
        """Change of the smoothed profile per Å at `x`."""
        w, smooth = self.profile.w, self.smooth
        j = min(max(int(w.searchsorted(x)), 1), w.size - 1)
        return float((smooth[j] - smooth[j - 1]) / (w[j] - w[j - 1]))

    def row(self, i: int) -> _Floats:
        """What each pixel counts in the smoothed pixel `i`; beyond the ends, the outermost pixel is repeated."""
        n, reach = self.profile.w.size, self.weights.size // 2
        first, last = max(i - reach, 0), min(i + reach, n - 1)
        out = np.zeros(n)
        out[first : last + 1] = self.weights[first - i + reach : last - i + reach + 1]
        out[0] += self.weights[: first - i + reach].sum()
        out[-1] += self.weights[last - i + reach + 1 :].sum()
        return out

    def moved(self, x: float) -> Parts:
        """Parts of the crossing at `x`: it moves by −(change of profile − `fraction` of that of the peak) / slope."""
        w, smooth = self.profile.w, self.smooth
        j = min(max(int(w.searchsorted(x)), 1), w.size - 1)
        i = j - 1
        slope = self.slope(x)
        if slope == 0.0 or not math.isfinite(slope):
            return ()
        t = float((x - w[i]) / (w[j] - w[i]))
        change = (1 - t) * self.row(i) + t * self.row(j) - self.fraction * self.row(self.at)
        own = np.zeros(self.profile.keep.size)
        own[self.profile.keep] = -change * self.profile.noise / slope
        # A continuum that is higher by dc lowers flux/continuum by (1 + depth) dc / continuum, here and at the peak.
        here, peak = (1 - t) * smooth[i] + t * smooth[j], smooth[self.at]
        out = [Run(self.profile.start, own, float(np.sqrt(own.dot(own))))]
        share_x, share_peak = self.level.share(np.array([x, w[self.at]]))
        level_x, level_peak = self.level.at(np.array([x, w[self.at]]))
        for side, of_x, of_peak in (
            (self.level.blue, 1 - share_x, 1 - share_peak),
            (self.level.red, share_x, share_peak),
        ):
            by = (self.sign + here) * of_x / level_x - self.fraction * (self.sign + peak) * of_peak / level_peak
            out.append(run_of(side, float(by / slope)))
        return tuple(out)
