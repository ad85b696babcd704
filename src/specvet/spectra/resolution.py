"""The instrument's own width, and lines with it taken out."""

from __future__ import annotations

import math

from specvet.spectra.spectrum import Spectrum

NOMINAL_UNCERTAINTY = 0.15
"""1σ, relative: the width that a nominal resolving power gives. It changes by so much along the spectrum and from fibre
to fibre (SDSS: R 1,500 to 2,500, Smee et al. 2013, AJ 146, 32; LAMOST: about 1,800, Luo et al. 2015, RAA 15, 1095)."""

LIMIT = 2.0
"""Upper limits of what is not resolved are stated at so many σ, and a width is resolved from as many on."""


def instrument_fwhm(spectrum: Spectrum, wavelength: float) -> float | None:
    """FWHM (Å) of a line without width of its own at `wavelength` (Å), from the nominal resolving power.

    None where the spectrum does not state one. For a spectrum in its rest frame both scale alike.
    """
    resolution = spectrum.resolution
    if resolution is None or not math.isfinite(resolution) or resolution <= 0:
        return None
    return wavelength / resolution


def intrinsic_fwhm(
    seen: float, error: float, instrument: float, uncertainty: float = NOMINAL_UNCERTAINTY
) -> tuple[float, float, bool]:
    """Width with the instrument's taken out in quadrature, its 1σ, and whether the line is resolved.

    All in one unit. Where it is not resolved, the width is an upper limit: `LIMIT` σ above the best value of its
    square, and the error says by how much the limit would move with 1σ.
    """
    square = seen**2 - instrument**2
    of_square = 2.0 * math.hypot(seen * error, uncertainty * instrument**2)
    if square > LIMIT * of_square:
        width = math.sqrt(square)
        return width, 0.5 * of_square / width, True
    limit = math.sqrt(max(square, 0.0) + LIMIT * of_square)
    return limit, (0.5 * of_square / limit if limit > 0 else 0.0), False
