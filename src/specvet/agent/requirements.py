"""What a task needs to see, held against what a spectrum offers."""

from __future__ import annotations

import numpy as np

from specvet.spectra import Spectrum
from specvet.spectra.pixels import pixels_of
from specvet.tasks import Coverage, Requires
from specvet.tools import WindowData

MOST_ALIKE = 0.5
"""Share of good pixels that may hold one and the same number; text with few digits holds up to a third."""


def missing_requirement(requires: Requires, data: WindowData | None) -> str:
    """Why the spectrum cannot answer the task, in words; empty when it can."""
    if data is None:
        return "there is nothing to look at"
    spectrum = data.spectrum
    uncovered = [c for c in requires.coverage if covered_fraction(spectrum, c, data.frame.z) < c.fraction]
    covered = len(requires.coverage) - len(uncovered)
    if requires.coverage and covered < requires.at_least:
        reach = f"data reach from {spectrum.wave_min:.0f} to {spectrum.wave_max:.0f} Å"
        return f"{_not_covered(requires, uncovered)}; {reach}"
    snr = spectrum.snr
    if requires.min_snr and (snr is None or snr < requires.min_snr):
        return (
            f"median S/N {'unknown' if snr is None else f'{snr:.1f}'} a pixel, the task asks for {requires.min_snr:g}"
        )
    return _filled(spectrum)


def _not_covered(requires: Requires, uncovered: list[Coverage]) -> str:
    """Which ranges are missing, of how many, and how many the task needs."""
    total, covered = len(requires.coverage), len(requires.coverage) - len(uncovered)
    named = [f"{c.range[0]:.0f}-{c.range[1]:.0f} Å{f' ({c.why})' if c.why else ''}" for c in uncovered[:3]]
    if total == 1:
        return f"good pixels do not cover {named[0]}, which the task needs"
    more = f"; and {len(uncovered) - 3} more" if len(uncovered) > 3 else ""
    all_of_them = "both" if total == 2 else f"all {total}"
    needed = all_of_them if requires.at_least == total else f"at least {requires.at_least}"
    missing = "; ".join(named) + more
    return f"good pixels cover {covered or 'none'} of {total} ranges, the task needs {needed}; not {missing}"


def _filled(spectrum: Spectrum) -> str:
    """What a spectrum is that somebody filled with a number, in words; empty for one that was observed."""
    flux = spectrum.flux[spectrum.good]
    if not flux.size:
        return ""  # what has no good pixels covers nothing, which is told with the ranges
    middle = float(np.median(flux))
    share = np.count_nonzero(flux == middle) / flux.size
    if share <= MOST_ALIKE:
        return ""
    return f"{100 * share:.0f} % of the good pixels hold the very same number ({middle:g}), as no spectrum does"


def covered_fraction(spectrum: Spectrum, coverage: Coverage, z: float = 0.0) -> float:
    """Share (0-1) of the range that good pixels cover, in the spectrum's own medium; gaps are no coverage.

    `z` is the redshift that was taken out; the share does not depend on it, but a policy that measures next can use
    what was prepared for it.
    """
    return pixels_of(spectrum, z).coverage(coverage.range)
