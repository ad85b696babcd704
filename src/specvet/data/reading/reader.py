"""`Reader`: one spectrum, measured as far as its pictures are read, and the sentences about it.

Sentences are the teacher's own in its terse voice (`data.teacher`), so that who learns them has its words already.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specvet.data.reading.catalogue import catalogue
from specvet.data.reading.pictures import Picture, median
from specvet.data.reading.strength import strengths
from specvet.data.teacher.figures import number, two_digits
from specvet.data.teacher.findings import CLEAR, DETECTED, LEAST_LINE, STEP, finding
from specvet.data.teacher.sight import ANCHOR_HALF, ANCHORS, Sight
from specvet.data.teacher.telling import BLUE, FACTOR, POOR, RED, SLOPE, slope
from specvet.data.teacher.words import Speaker
from specvet.records.schema import Measurement
from specvet.spectra import Spectrum
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import Pixels
from specvet.tools import WindowData, ZoomTool

MOST_TOLD = 5
"""Lines and bands that one reading of a window tells."""

NOISE_BLOCK = 64
"""Pixels over which noise is measured where the file states none."""

SHAPE_PARTS = 6
"""Equal stretches of a shape."""

LEAST_SNR = 0.5
"""Below, nothing is there."""

LEAST_GAP, LEAST_GAP_COLUMNS = 100.0, 6.0
"""Å of a gap that is told of the whole view; pixel columns of one that is told of a window."""

Floats = NDArray[np.float64]


class Exposure:
    """One spectrum as it is looked at, and what has been measured of it so far, whoever read it."""

    def __init__(self, tool: ZoomTool) -> None:
        """Raises ValueError for a spectrum that cannot be drawn."""
        self.tool = tool
        self.opening = Picture(tool.opening())
        self.data = data_of(self.opening)
        self.pixels = Pixels(self.data.spectrum, self.data.frame.z)
        if self.pixels.sigma is None:
            self.pixels.sigma = scatter(self.pixels.flux, self.pixels.good)
        self.snr = self.data.spectrum.snr
        self.strengths = strengths(self.pixels)
        self.meter = Meter(self.pixels)
        self.found: dict[str, Measurement] = {}
        self.sight = Sight(catalogue().plan, self.data, measured=self.found, _pixels=self.pixels)
        self.measure([key for key, strength in self.strengths.items() if strength > 0.0])

    def measure(self, keys: Sequence[str]) -> None:
        """Have these in `found`; widths only where their lines are plain. Many at once are much faster than singly."""
        known, meter = catalogue(), self.meter
        fresh = [key for key in keys if key not in self.found]
        plain = dict.fromkeys(known.line_of.get(key, key) for key in fresh)
        if missing := tuple(key for key in plain if key not in self.found):
            self.found |= meter.measure(missing, known.indices)
        if wide := tuple(key for key in fresh if key in known.line_of and self._plain(known.line_of[key])):
            self.found |= meter.measure(wide, known.indices)

    def _plain(self, line: str) -> bool:
        """Whether a line is strong enough to have a width."""
        m = self.found[line]
        return m.value is not None and abs(m.value) > max(CLEAR * (m.error or 0.0), 1.0)


class Reader:
    """Reads an exposure, picture by picture. Choices come from `rng`."""

    def __init__(self, exposure: Exposure, rng: np.random.Generator) -> None:
        self.exposure = exposure
        self.opening = exposure.opening
        self.data, self.pixels = exposure.data, exposure.pixels
        self.rng = rng
        self._found = exposure.found
        self._speaker = Speaker(rng, "terse")

    def say(self, key: str, **slots: str) -> str:
        """A sentence of the terse book."""
        return self._speaker.say(key, **slots)

    def text(self, picture: Picture) -> str:
        """All that is told of a picture when it is simply to be read."""
        return self.whole() if picture.whole else self.window(picture)

    def whole(self) -> str:
        """S/N, colour, shape, gap, and what stands out most."""
        said = [self.snr(self.opening), self.colour()]
        if shape := self.shape(self.opening):
            said.append(f"Shape {shape}.")
        said += [self.gap(self.opening, LEAST_GAP), features(self.opening, 1)]
        return " ".join(filter(None, said))

    def window(self, picture: Picture) -> str:
        """S/N, slope, the lines and bands that stand out; where none has a name, what stands out most."""
        told = [self.finding(key) for key in self.told(picture)]
        said = [self.snr(picture), self.slope(picture), *told]
        said.append(self.gap(picture, max(10.0, LEAST_GAP_COLUMNS * picture.column)))
        if not told:
            said.append(features(picture, 1) or "Nothing else.")
        return " ".join(filter(None, said))

    def snr(self, picture: Picture) -> str:
        """`S/N 12.`, and `Noisy.` where it is poor."""
        snr = self._snr(picture)
        if snr is None or snr < LEAST_SNR:
            return "No signal."
        said = self.say("opening.coverage", snr=two_digits(snr))
        return f"{said} {self.say('opening.poor')}" if snr < POOR else said

    def _snr(self, picture: Picture) -> float | None:
        """Median a pixel: of the whole view as the teacher tells it; of a window with the errors near there."""
        if picture.view.window is None:
            return self.exposure.snr
        assert self.pixels.sigma is not None
        inside = slice(*self.pixels.wavelength.searchsorted(picture.view.window))
        used = self.pixels.sigma[inside] > 0.0  # 0 at bad pixels
        ratios = self.pixels.flux[inside][used] / self.pixels.sigma[inside][used]
        return median(ratios) if ratios.size else None

    def colour(self) -> str:
        """The flux near the first over that near the second of the widest pair of places, or its inverse."""
        found = []
        for a, b in ANCHORS:
            bands = [(x - ANCHOR_HALF, x + ANCHOR_HALF) for x in (a, b)]
            if min(self.pixels.coverage(band) for band in bands) < 0.9:
                continue
            near = [self.pixels.mean(band) for band in bands]
            if all(level.value > 5.0 * level.error for level in near):
                found.append((b - a, near[0].value / near[1].value))
        if not found or not 1.0 / FACTOR < max(found)[1] < FACTOR:
            return ""
        ratio = max(found)[1]
        if ratio < RED:
            return self.say("opening.red", k=two_digits(1.0 / ratio))
        return self.say("opening.blue" if ratio > BLUE else "opening.flat", k=two_digits(ratio))

    def shape(self, picture: Picture) -> str:
        """Medians of equal stretches in percent of the highest of them; empty where that is not positive."""
        parts = picture.parts(SHAPE_PARTS)
        best = max((p for p in parts if p is not None), default=0.0)
        if best <= 0.0:
            return ""
        return " ".join("gap" if p is None else number(100.0 * p / best, 0) for p in parts)

    def gap(self, picture: Picture, least: float) -> str:
        """The widest stretch without good pixels inside the data, of at least so many Å; empty without one."""
        wavelength, good = self.pixels.wavelength, self.pixels.good
        if (window := picture.view.window) is not None:
            inside = slice(*wavelength.searchsorted(window))
            wavelength, good = wavelength[inside], good[inside]
        steps = np.diff(wavelength[good])
        if not steps.size or steps.max() < least:
            return ""
        at = int(steps.argmax())
        low, high = wavelength[good][at : at + 2].tolist()
        return self.say("opening.gap", low=f"{low:.0f}", high=f"{high:.0f}")

    def slope(self, picture: Picture) -> str:
        """The change from the first to the last sixth of a window; empty where it is small or noise hides it."""
        change = slope(spectrum_of(picture))
        if change is None or abs(change) < SLOPE:
            return ""
        return self.say("look.slope" if change < 0 else "look.slope_up", percent=two_digits(100.0 * abs(change)))

    # --- what has a name

    def within(self, picture: Picture) -> list[str]:
        """The quantities that a window shows all of."""
        assert picture.view.window is not None
        return catalogue().within(picture.view.window, self.data.spectrum.medium)

    def shown(self, keys: Sequence[str]) -> list[str]:
        """Those of the quantities that can be measured; a width only of a line that is plain."""
        self.exposure.measure(keys)
        return [key for key in keys if key in self._found and self._found[key].value is not None]

    def told(self, picture: Picture) -> list[str]:
        """What stands out of a window, the weightiest few, from the blue to the red."""
        known, chosen = catalogue(), dict[tuple[str, str], str]()
        likely = [key for key in self.within(picture) if self.exposure.strengths[key] > 0.0]
        scores = {key: known.weights[key] * self.clear(key) for key in self.shown(likely)}
        for key in sorted(scores, key=lambda key: (-scores[key], key)):
            if scores[key] > 0.0:
                chosen.setdefault(known.roots[key], key)
        spans = known.spans(self.data.spectrum.medium)
        return sorted([*chosen.values()][:MOST_TOLD], key=lambda key: (sum(spans[key]), key))

    def clear(self, key: str) -> float:
        """How clearly (0-1) a line or band is there."""
        m, kind = self._found[key], catalogue().quantities[key].kind
        if m.value is None:
            return 0.0
        error = m.error or 0.1 * abs(m.value)
        if kind == "width":
            seen = abs(m.value) > max(DETECTED * error, LEAST_LINE) and not (
                m.value < 0 and self.exposure.sight.crowded(key)
            )
            return min(1.0, abs(m.value) / (2.0 * CLEAR * error)) if seen else 0.0
        if kind in ("fwhm", "intrinsic"):
            return 1.0
        drop = 1.0 - m.value
        return min(1.0, drop / 0.3) if drop > max(STEP, DETECTED * error) else 0.0

    def finding(self, key: str) -> str:
        """The teacher's sentence about one quantity that was `shown`."""
        return finding(self.exposure.sight, catalogue().quantities[key], self._found[key], self._speaker)


def scatter(flux: Floats, good: NDArray[np.bool_]) -> Floats:
    """1σ of each pixel, 0 at bad ones, from the scatter of the stretch around it (DER_SNR, Stoehr et al. 2008, ASP
    Conf. 394, 505), shape (n_pix,): worked out once, where `Pixels` would do so for each band.
    """
    sigma = np.zeros(flux.size)
    used = flux[good]
    differences = np.abs(2.0 * used[2:-2] - used[:-4] - used[4:])
    n = differences.size // NOISE_BLOCK
    if n:
        blocks = np.partition(differences[: n * NOISE_BLOCK].reshape(n, NOISE_BLOCK), NOISE_BLOCK // 2, axis=1)
        middles = NOISE_BLOCK * (np.arange(n) + 0.5) + 2.0
        sigma[good] = np.interp(np.arange(used.size), middles, 0.6052697 * blocks[:, NOISE_BLOCK // 2])
    return sigma


def data_of(picture: Picture) -> WindowData:
    data = picture.observation.data
    assert data is not None
    return data


def spectrum_of(picture: Picture) -> Spectrum:
    return data_of(picture).spectrum


def features(picture: Picture, most: int) -> str:
    """The highest peaks and deepest dips, by wavelength: `Peaks 6563. Dips 5893, 6280.`"""
    step = picture.step
    found = picture.features[:most]
    said = []
    for word, sign in (("Peak", 1.0), ("Dip", -1.0)):
        places = sorted(step * round(place / step) for place, rise in found if sign * rise > 0)
        if places:
            said.append(f"{word} {', '.join(map(str, places))}.")
    return " ".join(said)
