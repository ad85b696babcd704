"""Where to look: key windows of all tasks, jittered as the teacher does, single features, and anywhere."""

from __future__ import annotations

import math

import numpy as np

from specvet.data.reading.catalogue import catalogue
from specvet.data.reading.chance import drawn
from specvet.data.reading.reader import Reader
from specvet.data.reading.requests import UNSEEN
from specvet.data.teacher.sight import MIN_WINDOW_SEEN
from specvet.spectra.index_kinds import Range

KEY_SHARE, FEATURE_SHARE = 0.6, 0.2
"""Of windows that are key windows of a task, and that hold little more than one line or band; others lie anywhere."""

ANYWHERE = (60.0, 1500.0)
"""Å: widths of the latter."""

EMPTY = 0.5
"""How often a key window that shows nothing is looked at, beside one that shows a strong line or band."""

TRIES = 12


def window_of(reader: Reader, rng: np.random.Generator) -> Range | None:
    """A window (low, high) in Å that good pixels fill for the greater part; None where chance finds none."""
    kind = rng.random()
    low, high = reader.opening.low, reader.opening.high
    for _ in range(TRIES):
        if kind < KEY_SHARE:
            found = _key_window(reader, rng)
        elif kind < KEY_SHARE + FEATURE_SHARE:
            found = _feature(reader, rng)
        else:
            wide = float(np.exp(rng.uniform(*np.log(ANYWHERE))))
            start = float(rng.uniform(low, max(high - wide, low + 1.0)))
            found = start, start + wide
        if reader.pixels.coverage(found) < MIN_WINDOW_SEEN:
            continue
        found = _rounded(*found, rng)
        found = max(found[0], float(math.ceil(low))), min(found[1], float(math.floor(high)))
        if found[1] - found[0] > 20.0:
            return found
    return None


def _key_window(reader: Reader, rng: np.random.Generator) -> Range:
    windows, strengths = catalogue().shown_by_windows(reader.data.spectrum.medium), reader.exposure.strengths
    weights = [EMPTY + sum(strengths[key] for key in keys) for _, keys in windows]
    low, high = windows[drawn(rng, weights, 1)[0]][0]
    span = high - low
    return low + (0.10 * rng.random() - 0.07) * span, high + (0.07 - 0.10 * rng.random()) * span


def _feature(reader: Reader, rng: np.random.Generator) -> Range:
    spans, strengths = catalogue().spans(reader.data.spectrum.medium), reader.exposure.strengths
    keys = list(spans)
    low, high = spans[keys[drawn(rng, [UNSEEN + strengths[key] for key in keys], 1)[0]]]
    pad = (0.1 + 0.4 * float(rng.random())) * (high - low)
    return low - pad, high + pad


def _rounded(low: float, high: float, rng: np.random.Generator) -> Range:
    """Outward to the steps that people take."""
    span = high - low
    steps = (50.0, 50.0, 25.0) if span > 400.0 else (10.0, 20.0, 25.0) if span > 120.0 else (5.0, 10.0)
    step = steps[int(rng.integers(len(steps)))]
    return step * math.floor(low / step), step * math.ceil(high / step)
