"""A real spectrum made fit to seed simulations: at rest, without its noise, its air's bands and its own blur.

Noise goes by thresholds on an à trous wavelet transform (Starck & Murtagh 1994, A&A 288, 342): what does not stand out
of the noise on its own scale is dropped, sharp band heads and lines stay as they are. What is left is sharpened until,
blurred once more by its own spectrograph, it looks as it did (van Cittert 1931, Z. Phys. 69, 298), since a simulated
spectrograph is going to blur it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import convolve1d, gaussian_filter1d, median_filter

from specvet.data.simulate.source import GRID, KM_S_PER_PIXEL, STEP, FloatArray

if TYPE_CHECKING:
    from specvet.spectra import Spectrum

MIN_SNR = 10.0
"""A pixel; what is noisier makes no template, since smoothing would take its features too."""

MIN_SNR_OF_MANY_LINES = 40.0
"""The same for cool stars, whose lines stand as close as the noise: smoothing takes them too."""

NEEDED = (5200.0, 7000.0)
"""Å at rest, that a template of a star must cover."""

WIDEST = (2000.0, 11_000.0)
"""Å at rest, kept of a template: what redshift can bring into view."""

SKY_LINES = ((5570.0, 5588.0), (6294.0, 6310.0), (6360.0, 6372.0))
"""Å in vacuum, observed frame: [O I] of the sky, whose remains are in every survey."""

OXYGEN = ((6864.0, 6950.0), (7592.0, 7692.0))
"""Å in vacuum, observed frame: bands of O2 in the air."""

WITHOUT_OXYGEN = {"SDSS", "MILES", "STELIB", "DESI", "MaStar"}
"""Surveys and libraries that took the air's bands out."""

MIN_PIXEL_SNR = 5.0
"""What is noisier counts as not seen: the remains of the sky's OH lines, and the blue of cool stars."""

SMOOTH = ("cv.", "wd.", "sd", "o_star", "b_star", "a_star", "be_star", "qso")
"""Kinds, by their beginning, whose noise can be told from the scatter of neighbouring pixels."""

_SCALES = 5
_KERNEL = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0
_SCATTER = (0.7235, 0.2854, 0.1779, 0.1222, 0.0858)
"""Of white noise of 1σ on each scale, for the B3 spline."""

_CUTS = (4.0, 3.0, 2.5, 2.5, 2.5)
"""σ on each scale, below which a coefficient is noise; single pixels are narrower than any line can be."""

_SHARPENINGS = 3
_WIDEST_BLUR_KM_S = 220.0
"""FWHM; what is coarser is sharpened by so much only."""


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """One real spectrum at rest, cleaned; its pixels are those of `GRID`, continued on both sides."""

    start: int
    """Of its first pixel, counted from that of `GRID`; may be negative."""
    flux: NDArray[np.float32]
    """Per Å, relative, median 1, positive. Shape (n_pix,)."""
    seen: NDArray[np.bool_]
    """Where it was really seen; elsewhere (gaps, bands of the air) `flux` only bridges. Shape (n_pix,)."""
    kinds: tuple[str, ...]
    """That it can seed."""
    subtype: str
    file: str
    """Relative to the folder's manifest, `path#name` for a row of many."""
    object_id: str
    label: str = ""
    """Class, as the manifest has it."""
    survey: str = ""
    """Survey or library, as the reader says."""


def cleaned(
    spectrum: Spectrum, kinds: tuple[str, ...], subtype: str, file: str, object_id: str, z: float, label: str = ""
) -> Template | str:
    """A template of a spectrum in vacuum with redshift `z` (0 where it is at rest), or why it makes none."""
    good = spectrum.good & (spectrum.wavelength > WIDEST[0] * (1 + z)) & (spectrum.wavelength < WIDEST[1] * (1 + z))
    if int(good.sum()) < 200:
        return "fewer than 200 good pixels"
    wavelength, flux = spectrum.wavelength, spectrum.flux
    if spectrum.ivar is not None or kinds[0].startswith(SMOOTH):  # not so libraries, where others did it with care
        for low, high in SKY_LINES + (() if spectrum.survey in WITHOUT_OXYGEN else OXYGEN):
            good &= (wavelength < low) | (wavelength > high)
    inside = slice(int(np.argmax(good)), int(good.size - np.argmax(good[::-1])))
    bridged = np.interp(wavelength, wavelength[good], flux[good])[inside]
    wavelength, good = wavelength[inside], good[inside]
    middle = float(np.median(bridged[good]))
    if not np.isfinite(middle) or middle <= 0:
        return "no light"
    flux = bridged / middle
    sigma = spectrum.sigma
    if sigma is not None:
        noise = np.where(np.isfinite(sigma[inside]), sigma[inside], 0.0) / middle
    else:  # third differences take the lines of cool stars for noise; without errors, these come from libraries
        noise = scatter(flux) if kinds[0].startswith(SMOOTH) else np.zeros_like(flux)
    snr = 1.0 / max(float(np.median(noise[good])), 1e-6)
    needed = MIN_SNR if kinds[0].startswith(SMOOTH) else MIN_SNR_OF_MANY_LINES
    if snr < needed:
        return f"S/N {snr:.1f} a pixel, {needed:g} needed"
    smooth = denoised(flux, median_filter(noise, 101, mode="nearest"))
    good &= np.convolve(noise, np.ones(9) / 9.0, mode="same") < smooth / MIN_PIXEL_SNR
    first, last = (round(np.log10(end / (1 + z) / GRID[0]) / STEP) for end in (wavelength[0], wavelength[-1]))
    at = GRID[0] * 10.0 ** (np.arange(first + 1, last) * STEP) * (1 + z)
    if not kinds[0].startswith(("qso", "galaxy")) and (at[0] > NEEDED[0] or at[-1] < NEEDED[1]):
        return f"covers {at[0]:.0f}-{at[-1]:.0f} Å, {NEEDED[0]:.0f}-{NEEDED[1]:.0f} needed"
    blur = 299_792.458 / (spectrum.resolution or 2000.0)
    sharp = sharpened(np.interp(at, wavelength, smooth), min(blur, _WIDEST_BLUR_KM_S))
    seen = np.interp(at, wavelength, good.astype(np.float64)) > 0.99
    flux32 = np.maximum(sharp, 1e-3).astype(np.float32)
    return Template(first + 1, flux32, seen, kinds, subtype, file, object_id, label, spectrum.survey)


def denoised(flux: FloatArray, sigma: FloatArray) -> FloatArray:
    """`flux` without what its noise of 1σ (white, the same unit) explains; both of shape (n_pix,)."""
    out = np.zeros_like(flux)
    rest = flux
    for scale in range(_SCALES):
        kernel = np.zeros(4 * 2**scale + 1)
        kernel[:: 2**scale] = _KERNEL
        smoother = convolve1d(rest, kernel, mode="nearest")
        detail, cut = rest - smoother, _CUTS[scale] * _SCATTER[scale] * sigma
        # The garrote of Gao 1998 (J. Comp. Graph. Stat. 7, 469): large coefficients stay, small ones leave no step.
        shrunk = 1.0 - (cut / np.maximum(np.abs(detail), 1e-30)) ** 2
        out += detail * np.maximum(shrunk, 0.0)
        rest = smoother
    return out + rest


def sharpened(flux: FloatArray, fwhm_km_s: float) -> FloatArray:
    """What, blurred by a Gaussian of this width, gives `flux`; on pixels of `GRID`."""
    sigma = fwhm_km_s / 2.3548 / KM_S_PER_PIXEL
    out = flux
    for _ in range(_SHARPENINGS):
        out = out + flux - gaussian_filter1d(out, sigma, mode="nearest")
    return np.asarray(out)


def scatter(flux: FloatArray) -> FloatArray:
    """1σ of the noise around each pixel from third differences, which are blind to shapes (DER_SNR, Stoehr 2008)."""
    wide = np.pad(flux, 2, mode="edge")
    third = np.abs(2.0 * wide[2:-2] - wide[:-4] - wide[4:])
    return np.asarray(0.6052697 * median_filter(third, 41, mode="nearest"))
