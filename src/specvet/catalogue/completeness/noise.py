"""The noise of a spectrum without its signal: how large it really is, and errors that its own lines do not show in.

The true scatter is read off fourth differences, f(i-2) - 4 f(i-1) + 6 f(i) - 4 f(i+1) + f(i+2): no structure that a
spectrograph can resolve reaches them, as their weight lies at two pixels a wave, and noise does. In blocks, the median
of their size over what the stated errors predict says by how much the errors are too small or too large there; a
median, so that single lines and hits do not count. What is drawn is then Gaussian, with neighbours correlated as those
of the survey are (`specvet.data.simulate.instruments`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation, median_filter

from specvet.data.simulate.observed import SurveyName
from specvet.spectra.spectrum import FloatArray, Spectrum

_FOURTH = np.array([1.0, -4.0, 6.0, -4.0, 1.0])
_MAD = 0.67449
"""Median of the size of a standard normal deviate."""
BLOCK = 250
"""Good pixels of a block: some are of the forest of OH, some not."""
CONTINUUM = 201
"""Pixels of the running median that lines are told apart from."""
LINE = 0.25
"""Of the continuum: how far a line goes from it that can show in the stated errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Noise:
    """Of one spectrum; arrays have shape (n_pix,)."""

    sigma: FloatArray
    """As it scatters, 1σ, in the spectrum's unit; 0 at bad pixels."""
    ivar: FloatArray | None
    """As the file states it, 0 at bad pixels, where the host has strong lines that of its continuum; None without."""
    stated: FloatArray
    """1σ that goes with `ivar`, by which an S/N is meant; where nothing is stated, `sigma`. 0 at bad pixels."""
    correlation: float
    """Of neighbouring pixels."""

    def drawn(self, rng: np.random.Generator) -> FloatArray:
        """One draw of it, shape (n_pix,)."""
        from specvet.data.simulate.noise import correlated

        return self.sigma * correlated(rng, self.sigma.size, self.correlation)


def noise_of(spectrum: Spectrum) -> Noise:
    """The noise of a spectrum; raises ValueError with fewer than 50 good pixels."""
    from specvet.data.simulate.instruments import HABITS

    good = spectrum.good
    if int(good.sum()) < 50:
        raise ValueError(
            f"{spectrum.file} row {spectrum.row}: has {int(good.sum())} good pixels, too few for its noise"
        )
    correlation = HABITS[survey_of(spectrum)].correlation
    ivar = None if spectrum.ivar is None else _without_lines(spectrum, good)
    stated = np.zeros(spectrum.n_pix)
    stated[good] = 1.0 if ivar is None else 1.0 / np.sqrt(ivar[good])
    errors = spectrum.sigma
    own = np.ones(spectrum.n_pix) if errors is None else np.where(good, errors, 1.0)
    sigma = stated * _ratio(spectrum.flux, own, good, correlation)
    return Noise(sigma, ivar, sigma if ivar is None else stated, correlation)


def survey_of(spectrum: Spectrum) -> SurveyName:
    """The simulated survey whose habits come nearest."""
    if spectrum.survey == "LAMOST":
        return "lamost"
    if spectrum.survey == "DESI":
        return "desi"
    return "boss" if spectrum.wave_max > 9_400 else "sdss"


def normalised_scatter(flux: FloatArray, sigma: FloatArray, good: NDArray[np.bool_]) -> FloatArray:
    """Fourth differences over what `sigma` predicts of white noise, where all five pixels are good."""
    clean = np.convolve(good, np.ones(5), mode="valid") == 5
    filled = np.where(good, flux, 0.0)
    differences = np.convolve(filled, _FOURTH, mode="valid")[clean]
    predicted = np.sqrt(np.convolve(sigma**2, _FOURTH**2, mode="valid"))[clean]
    return np.asarray(differences / np.where(predicted > 0, predicted, 1.0))


def _ratio(flux: FloatArray, sigma: FloatArray, good: NDArray[np.bool_], correlation: float) -> FloatArray:
    """True over stated scatter, smooth, shape (n_pix,)."""
    places = np.flatnonzero(np.convolve(good, np.ones(5), mode="valid") == 5) + 2
    scatter = np.abs(normalised_scatter(flux, sigma, good))
    if scatter.size < 20:
        return np.ones(flux.size)
    blocks = np.array_split(np.arange(scatter.size), max(1, scatter.size // BLOCK))
    middles = [float(np.median(places[b])) for b in blocks]
    ratios = [float(np.median(scatter[b])) / _MAD for b in blocks]
    # Correlated neighbours have less at two pixels a wave than white noise of the same size: 70 - 2 · 56 ρ of 70.
    return np.asarray(np.interp(np.arange(flux.size), middles, ratios) / np.sqrt(1.0 - 1.6 * correlation))


def _without_lines(spectrum: Spectrum, good: NDArray[np.bool_]) -> FloatArray:
    """The stated inverse variance, without what the photons of the host's own strong lines add or take.

    Else a strong Hα of the host would show a policy that looks at errors where to look.
    """
    assert spectrum.ivar is not None
    ivar = np.where(good, spectrum.ivar, 0.0)
    places = np.flatnonzero(good)
    flux, variance = spectrum.flux[places], 1.0 / spectrum.ivar[places]
    level = median_filter(flux, CONTINUUM, mode="nearest")
    off = np.abs(median_filter(flux, 5, mode="nearest") - level)
    lines = binary_dilation((off > LINE * np.abs(level)) & (off > 5.0 * np.sqrt(variance)), iterations=3)
    if lines.any() and not lines.all():
        quiet = np.interp(places, places[~lines], variance[~lines])
        ivar[places[lines]] = 1.0 / quiet[lines]
    return ivar
