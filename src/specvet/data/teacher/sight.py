"""What can be seen of one spectrum: measured once, believed as far as it has been looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from specvet.data.teacher.plans import Plan, worded
from specvet.policies.scoring import Weighed, fulfilled, weighed
from specvet.records.schema import Measurement
from specvet.spectra.index_kinds import LineIndex, Range
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import Pixels, pixels_of
from specvet.tasks import Evidence, KeyWindow
from specvet.tools import WindowData

MIN_WINDOW_SEEN = 0.5
"""Share of a key window that good pixels must cover before it is worth a look."""

ANCHORS: tuple[tuple[float, float], ...] = (
    (4200.0, 5600.0), (4500.0, 6700.0), (4500.0, 8600.0), (5000.0, 7500.0), (5300.0, 8700.0), (6000.0, 8600.0),
)  # fmt: skip
"""Pairs of wavelengths (Å, as the spectrum has them) at which the slope of a continuum is told."""

ANCHOR_HALF = 40.0
"""Å to each side over which the flux near an anchor is averaged."""

PEAK_RISE, PEAK_SIGMA = 0.2, 6.0
"""An emission line is told of the whole view when it rises by so much above all around it, and by so many errors."""

EMISSION = (4101.7, 4340.5, 4685.7, 4861.3, 4958.9, 5006.8, 5875.6, 6562.8, 6678.2)
"""Å in air: lines that stand in emission in many kinds of stars and galaxies (NIST)."""

NEAR_LINE, PEAK_ALONE = 30.0, 1.0
"""Å to one of them (±1,400 km/s at Hα); the rise from which on a peak elsewhere is told. Between the bands of M stars
the continuum rises by up to half of what the bands leave."""

PEAK_RING, PEAK_FOOT, PEAK_BLOCK, SMOOTHED = (40.0, 200.0), (20.0, 60.0), 100.0, 5
"""Å from a peak of what lies around it, and of its feet; Å of the blocks that are searched; pixels
of the running mean."""

HOLDS = 0.75
"""How far (0-1) the conditions of a piece of evidence must hold before its words are said."""

STRONG, STRONG_LINE, STRONG_BAND = 6.0, 5.0, 0.25
"""Errors, Å of equivalent width and share of the flux from which on a line or band is strong."""

CROWDED = 1.5
"""A line's mean depth over the relief of its sides below which the stretch is crowded."""

SKY_LINES, SKY_REACH = (5577.3, 5889.9, 5895.9, 6300.3, 6363.8, 4358.3, 5460.7), 0.002
"""Å in air, of the sky and of city light: their residuals are no lines of the object, at any velocity of a star."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What the whole view shows."""

    low: float
    high: float
    """Å: first and last good pixel."""
    snr: float | None
    colour: tuple[float, float, float] | None
    """Two wavelengths (Å), and the flux near the first over that near the second."""
    peak: float | None
    """Å of the strongest emission line, where one stands out."""
    gap: Range | None
    """The longest stretch without good pixels inside the data, Å, where it is a hundred wide."""


@dataclass(slots=True, eq=False)
class Sight:
    """One spectrum before one task."""

    plan: Plan
    data: WindowData
    """The whole spectrum in the tool's frame."""
    windows: tuple[KeyWindow, ...] = ()
    """Key windows that hold data."""
    measured: Mapping[str, Measurement] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    """Plain quantities that no key window shows: they are seen in the whole view or nowhere."""
    _pixels: Pixels | None = None
    _crowded: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, data: WindowData) -> Sight:
        pixels = pixels_of(data.spectrum, data.frame.z)
        windows = tuple(w for w in plan.task.windows if pixels.coverage(w.range) >= MIN_WINDOW_SEEN)
        measured = Meter(pixels).measure(plan.asked, plan.indices)
        medium = data.spectrum.medium
        shown = {key for w in windows for key in plan.within(w.range, medium)}
        return cls(plan, data, windows, measured, frozenset(plan.spans(medium)) - shown, pixels)

    def seen(self, looks: Iterable[Range]) -> frozenset[str]:
        """The quantities that these looks and the whole view show."""
        plain = set(self.whole)
        for window in looks:
            plain.update(self.plan.within(window, self.data.spectrum.medium))
        return frozenset(key for key, parts in self.plan.parts.items() if parts <= plain)

    def only(self, keys: Iterable[str]) -> dict[str, Measurement]:
        return {key: self.measured[key] for key in keys if key in self.measured}

    def believed(self, keys: Iterable[str], final: bool = False) -> Weighed:
        """How far what was seen speaks for the class. A piece whose conditions were not seen does not count yet.

        A group lists ways to be of the class: while some of them are still to be looked at, that others fail says only
        its share; in the end (`final`) it says all.
        """
        seen = frozenset(keys)
        counts = [e for e in self.plan.evidence if e.index in seen and all(c.index in seen for c in e.given)]
        found = weighed(counts, self.plan.prior, self.only(seen))
        missing = tuple(
            self.plan.quantities[e.index].names[0]
            for e in self.plan.evidence
            if e.essential and (e.index not in seen or self.measured[e.index].value is None)
        )
        if final:
            return replace(found, missing=missing)
        shares = self._shares(counts)
        counted = tuple(
            (worth * shares[e.group] if e.group and worth < 0 else worth, e, m, shows)
            for worth, e, m, shows in found.counted
        )
        log_odds = found.log_odds + sum(new[0] - old[0] for new, old in zip(counted, found.counted, strict=True))
        return replace(found, log_odds=log_odds, counted=counted, missing=missing)

    def _shares(self, counts: Sequence[Evidence]) -> dict[str, float]:
        """Of each group, how much of what can be measured has been looked at."""
        measurable = [e for e in self.plan.evidence if e.group and self.measured[e.index].value is not None]
        groups = {e.group for e in measurable}
        seen = {id(e) for e in counts}
        return {
            group: sum(id(e) in seen for e in measurable if e.group == group)
            / sum(e.group == group for e in measurable)
            for group in groups
        }

    def crowded(self, key: str) -> bool:
        """Whether a line is not clear of what stands beside it: its mean depth is about the sides' own relief."""
        if key not in self._crowded:
            self._crowded[key] = self._is_crowded(key)
        return self._crowded[key]

    def _is_crowded(self, key: str) -> bool:
        index, m, p = self.plan.indices[key], self.measured[key], self._pixels
        if not isinstance(index, LineIndex) or m.value is None or p is None:
            return False
        reliefs = []
        for side in index.sides:
            pixels, weight = p.weights(p.convert(side, index.medium))
            used = weight > 0
            flux, wavelength = p.flux[pixels][used], p.wavelength[pixels][used]
            if flux.size < 6:
                continue
            slope, middle = np.polyfit(wavelength - wavelength.mean(), flux, 1)
            rest = flux - middle - slope * (wavelength - wavelength.mean())
            noise = float(np.mean(p.errors(pixels)[used] ** 2))
            reliefs.append(np.sqrt(max(0.0, float(np.var(rest)) - noise)) / max(abs(float(middle)), 1e-30))
        depth = abs(m.value) / (index.band[1] - index.band[0])
        return bool(reliefs) and depth < CROWDED * max(reliefs)

    def strong(self, key: str) -> bool:
        """Whether a line or band is plain to anybody: `STRONG`, and so many errors from nothing."""
        m, q = self.measured[key], self.plan.quantities[key]
        if m.value is None or q.kind in ("value", "speed", "fwhm", "intrinsic"):
            return False
        size, least = (abs(m.value), STRONG_LINE) if q.kind == "width" else (1.0 - m.value, STRONG_BAND)
        return size > max(least, STRONG * (m.error or 0.0)) and not self.crowded(key)

    def reading(self, e: Evidence, m: Measurement, shows: bool) -> str:
        """What a piece of evidence says in words; nothing where that would say more than was seen.

        Its words hold only with its conditions ("Hα filled in although Hβ is broad"), and where only those of a way to
        be of the class fail, the line itself is there: strong Ca II in a K star is not "no Ca II of a DZ".
        """
        holds = not e.given or fulfilled(e.given, self.measured) >= HOLDS
        if not shows and e.group:
            holds = m.value is None or not (m.value > e.at if e.side == "above" else m.value < e.at)
        return worded(e.when if shows else e.otherwise, self.plan.voice) if holds else ""

    def undecidable(self) -> str:
        """Why no spectrum decides this look; empty where it might."""
        for rule in self.plan.task.undecidable:
            if fulfilled(rule.given, self.measured) > 0.5:
                return rule.says
        return ""

    def worths(self, seen: frozenset[str], leaning_yes: bool | None) -> dict[str, float]:
        """What a look at each quantity could move, in log-odds: at all, or against a lean.

        Evidence whose conditions have been seen to fail moves nothing.
        """
        measured = self.only(seen)
        found: dict[str, float] = {}
        for e in self.plan.evidence:
            m = self.measured[e.index]
            if m.value is None:
                continue
            gate = fulfilled(e.given, measured)
            could = max(abs(e.yes), abs(e.no)) if leaning_yes is None else _against(e, leaning_yes)
            worth = could * m.quality * min(1.0, 2.0 * gate)
            for key, part in ((e.index, 1.0), *((c.index, 0.5) for c in e.given if leaning_yes is None)):
                found[key] = max(found.get(key, 0.0), part * worth)
        return found

    def opened(self) -> Opened:
        """What the whole view shows at a glance. Raises ValueError without a good pixel."""
        s = self.data.spectrum
        good = s.wavelength[s.good]
        if not good.size:
            raise ValueError("no good pixel")
        assert self._pixels is not None
        return Opened(float(good[0]), float(good[-1]), s.snr, self._colour(self._pixels), self._peak(), _gap(good))

    def _colour(self, pixels: Pixels) -> tuple[float, float, float] | None:
        found = []
        for a, b in ANCHORS:
            bands = [(x - ANCHOR_HALF, x + ANCHOR_HALF) for x in (a, b)]
            if min(pixels.coverage(band) for band in bands) < 0.9:
                continue
            near = [pixels.mean(band) for band in bands]
            if all(level.value > 5.0 * level.error for level in near):
                found.append((b - a, (a, b, near[0].value / near[1].value)))
        return max(found)[1] if found else None

    def _peak(self) -> float | None:
        """The highest point that stands above all that lies around it, on both sides: between bands is no emission."""
        s = self.data.spectrum
        good = s.good.copy()
        sky = [(line * (1.0 - SKY_REACH), line * (1.0 + SKY_REACH)) for line in SKY_LINES]
        left_out = [*((j.low, j.high) for j in s.joins), *sky]
        for low, high in left_out:
            good &= (s.wavelength < low) | (s.wavelength > high)
        wavelength, flux = s.wavelength[good], s.flux[good]
        if flux.size < 200:
            return None
        smooth = np.convolve(flux, np.full(SMOOTHED, 1.0 / SMOOTHED), "same")
        noise = 0.6052697 * np.median(np.abs(2.0 * flux[2:-2] - flux[:-4] - flux[4:])) / np.sqrt(SMOOTHED)
        error = np.full(flux.size, noise) if s.ivar is None else 1.0 / np.sqrt(SMOOTHED * s.ivar[good])
        blocks = np.array_split(np.arange(flux.size), max(4, int((wavelength[-1] - wavelength[0]) / PEAK_BLOCK)))
        level = [float(np.median(smooth[block])) for block in blocks]
        best: tuple[float, float] | None = None
        for i in range(1, len(blocks) - 1):
            top = int(blocks[i][np.argmax(smooth[blocks[i]])])
            if smooth[top] <= (1.0 + PEAK_RISE) * max(level[i - 1], level[i + 1], 0.0):
                continue  # most blocks end here, cheaply
            if any(low - PEAK_FOOT[0] < wavelength[top] < high + PEAK_FOOT[0] for low, high in left_out):
                continue  # its top may lie in what was left out
            off = wavelength - wavelength[top]
            rings = [smooth[(sign * off > PEAK_RING[0]) & (sign * off < PEAK_RING[1])] for sign in (-1.0, 1.0)]
            near = smooth[np.abs(off) < PEAK_RING[0]]
            if min(ring.size for ring in rings) < 20 or smooth[top] < near.max():
                continue
            around = max(float(np.percentile(ring, 95.0)) for ring in rings)
            # A line falls off on both sides; what stands before a band head only on one.
            feet = [smooth[(sign * off > PEAK_FOOT[0]) & (sign * off < PEAK_FOOT[1])] for sign in (-1.0, 1.0)]
            if any(not foot.size or smooth[top] < (1.0 + PEAK_RISE) * float(np.median(foot)) for foot in feet):
                continue
            sigma = max(float(error[top]), float(noise))
            if around <= 3.0 * sigma:
                continue
            rise = smooth[top] / around - 1.0
            near_line = any(abs(wavelength[top] - line) < NEAR_LINE for line in EMISSION)
            if (
                rise > (PEAK_RISE if near_line else PEAK_ALONE)
                and smooth[top] - around > PEAK_SIGMA * sigma
                and (best is None or rise > best[0])
            ):
                best = float(rise), float(wavelength[top])
        return best[1] if best else None


def _against(e: Evidence, leaning_yes: bool) -> float:
    """How far a piece of evidence could move against a lean."""
    return max(0.0, -e.yes, -e.no) if leaning_yes else max(0.0, e.yes, e.no)


def _gap(good: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Range | None:
    steps = np.diff(good)
    if not steps.size:
        return None
    widest = int(np.argmax(steps))
    return (float(good[widest]), float(good[widest + 1])) if steps[widest] > 100.0 else None
