"""A SIMULATED member of a class where a star of the run stood: its light, the noise, pixels and gaps of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specvet.catalogue.completeness.noise import noise_of, survey_of
from specvet.spectra.spectrum import SPEED_OF_LIGHT_KM_S, FloatArray, Redshift, Spectrum

if TYPE_CHECKING:
    from specvet.data.simulate.observed import SurveyName
    from specvet.data.simulate.source import Source

RESOLUTION = 1800.0
"""Where a file does not say its own."""
TRIES = 5


def injected(host: Spectrum, kind: str, snr: float, rng: np.random.Generator, name: str = "SIMULATED") -> Spectrum:
    """A member of `kind` in the noise of `host`, as bright as gives the median S/N a pixel `snr`.

    Wavelengths, medium, mask, joins, bad pixels and stated errors are the host's own; of its flux nothing is left (a
    pixel without a number keeps none, zeros that fill a gap stay). The redshift is what a pipeline would have said of
    the member, wrong ones included. The member's own photons add no noise: where it outshines the host, S/N at its
    strong features is too good.

    Raises ValueError for a host with too few good pixels, and for a member without light there.
    """
    from specvet.data.simulate.observing_pipeline import fit

    survey, noise, good = survey_of(host), noise_of(host), host.good
    source, seen = _member(host, kind, survey, rng)
    if host.calibration == "normalised":
        seen = seen / _continuum(seen)
    level = float(np.median(seen[good] / noise.stated[good]))
    if not level > 0:
        raise ValueError(f"{kind}: has no light at the good pixels of {host.file} row {host.row}")
    flux = snr / level * seen
    flux[good] += noise.drawn(rng)[good]
    flux[~np.isfinite(host.flux)] = np.nan
    flux[~good & (host.flux == 0.0)] = 0.0
    stated = fit(source, survey, snr, rng)
    warned = f"ZWARNING={stated.z_warning}" if stated.z_warning else "" if stated.z is not None else "class Unknown"
    return host.replace(
        flux=flux,
        ivar=noise.ivar,
        redshift=Redshift(stated.z, stated.z_error, "SIMULATED pipeline" if stated.z is not None else "", warned),
        pipeline_class=stated.spectral_class,
        pipeline_subclass=stated.subclass,
        id=name,
        ids={"host": host.id} if host.id else {},
        ra=None,
        dec=None,
        n_exposures=0,
        warnings=(
            "SIMULATED spectrum",
            f"SIMULATED {kind} at S/N {snr:.3g} in the noise of {host.file} row {host.row}",
            *(w for w in host.warnings if "SIMULATED" not in w),
        ),
    )


def _member(host: Spectrum, kind: str, survey: SurveyName, rng: np.random.Generator) -> tuple[Source, FloatArray]:
    """One object of a kind, and its light on the host's pixels."""
    from specvet.data.simulate.instruments import HABITS
    from specvet.data.simulate.kinds import make
    from specvet.data.simulate.observing_exposure import light
    from specvet.data.simulate.physics import broadened
    from specvet.data.simulate.source import GRID

    for tried in range(TRIES):
        try:
            source = make(kind, rng)
            break
        except ValueError:  # a draw without light, once in thousands
            if tried == TRIES - 1:
                raise
    width = SPEED_OF_LIGHT_KM_S / (host.resolution or RESOLUTION)
    seen = np.interp(_in_vacuum(host), GRID, broadened(light(source, HABITS[survey], rng), width))
    return source, np.asarray(seen)


def _in_vacuum(host: Spectrum) -> FloatArray:
    """Its wavelengths in vacuum, Å; an unknown medium is taken half-way, as line lists are."""
    from specvet.spectra.lines import air_to_vacuum

    if host.medium == "vacuum":
        return host.wavelength
    vacuum = air_to_vacuum(host.wavelength)
    return np.asarray(vacuum if host.medium == "air" else 0.5 * (vacuum + host.wavelength))


def _continuum(flux: FloatArray) -> FloatArray:
    """What a normalised spectrum was divided by: a smooth curve through its upper envelope, in blocks."""
    blocks = np.array_split(np.arange(flux.size), max(4, flux.size // 150))
    levels = [float(np.quantile(flux[b], 0.8)) for b in blocks]
    x = [float(b.mean()) for b in blocks]
    degree = min(5, len(x) - 1)
    scaled = np.linspace(-1.0, 1.0, flux.size)
    fit = np.polynomial.Chebyshev.fit(np.interp(x, np.arange(flux.size), scaled), levels, degree, domain=[-1, 1])
    return np.maximum(np.asarray(fit(scaled)), 1e-3 * max(levels))
