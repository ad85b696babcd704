"""What the simulated stars send: flux against wavelength, made from scratch, before any telescope.

Every model is a continuum, times exp(−τ) of lines and molecular bands, plus emission lines. Wavelengths of lines and
band heads are laboratory values in air; strengths were set by eye, beside plots of real MILES, Pickles and SDSS stars,
so that a model looks like its class at R ≈ 2000. No observed flux goes in. These are drawings for tests and tutorials,
not atmospheres: measure nothing astrophysical on them.

Heads: TiO, ZrO, LaO from Gray & Corbally 2009 (Stellar Spectral Classification, chapters 8-9) and Keenan & Boeshaar
1980 (ApJS 43, 379); C2 and CN from Barnbaum, Stone & Keenan 1996 (ApJS 105, 419). Atomic lines: NIST.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPEED_OF_LIGHT = 299_792.458
"""km/s"""
VACUUM: Array = 3400.0 * np.exp(5e-5 * np.arange(22_400))
"""Å; the fine grid (15 km/s) on which every model is made, 3400-10,420 Å."""


def air(vacuum: Array) -> Array:
    """Air wavelengths (Å) of vacuum wavelengths (Å): Morton 2000, ApJS 130, 403, equation 8."""
    s2 = (1e4 / vacuum) ** 2
    return vacuum / (1.0 + 8.34254e-5 + 2.406147e-2 / (130.0 - s2) + 1.5998e-4 / (38.9 - s2))


W: Array = air(VACUUM)
"""Å in air: the same grid, in which lines are written down."""

BALMER = (6562.8, 4861.3, 4340.5, 4101.7, 3970.1, 3889.1, 3835.4, 3797.9)
"""Å: Hα to H10."""

# (head in Å, optical depth, length in Å). TiO, ZrO and LaO bands are sharp in the blue and fade to the red.
TIO = (
    (4584, 0.15, 60), (4626, 0.10, 60), (4761, 0.40, 60), (4804, 0.18, 60), (4848, 0.15, 60), (4954.6, 0.72, 70),
    (4999, 0.10, 60), (5167, 0.80, 80), (5240, 0.12, 80), (5448, 0.50, 70), (5497, 0.22, 70), (5597, 0.20, 70),
    (5661, 0.14, 70), (5759, 0.16, 80), (5810, 0.20, 90), (5847, 0.36, 80), (5862, 0.22, 90), (6158.5, 0.46, 100),
    (6187, 0.34, 110), (6215, 0.16, 120), (6268, 0.10, 100), (6322, 0.08, 90), (6540, 0.10, 90), (6651, 0.22, 130),
    (6681, 0.26, 140), (6714, 0.28, 150), (7054.2, 0.56, 120), (7087.6, 0.50, 130), (7125.6, 0.46, 150),
    (7197, 0.10, 130), (7589, 0.40, 100), (7628, 0.24, 110), (7666, 0.22, 120), (7705, 0.20, 140), (7750, 0.08, 150),
    (8206, 0.10, 90), (8251, 0.08, 90), (8303, 0.06, 80), (8432, 0.26, 45), (8442, 0.12, 60), (8451, 0.12, 90),
    (8505, 0.08, 90), (8859, 0.18, 80), (8937, 0.10, 90), (9209, 0.20, 90),
)  # fmt: skip
ZRO = (
    (4620, 0.28, 22), (4641, 0.50, 28), (5305, 0.12, 30), (5379, 0.12, 30), (5551.7, 0.36, 30), (5629, 0.10, 30),
    (5718, 0.22, 35), (5748, 0.10, 30), (6229, 0.30, 25), (6261, 0.12, 25), (6293, 0.10, 25), (6344.9, 0.38, 25),
    (6378.3, 0.20, 25), (6473.7, 0.56, 35), (6495, 0.16, 35), (6508, 0.12, 35), (6543, 0.14, 40), (7380, 0.10, 15),
    (7403, 0.20, 25), (7876, 0.18, 25), (7910, 0.24, 35), (9300, 0.30, 50),
)  # fmt: skip
CN_RED = (
    (6206, 0.06, 40), (6332, 0.06, 40), (6478, 0.08, 40), (6631, 0.05, 40), (6925, 0.28, 70), (7088, 0.24, 75),
    (7259, 0.10, 50), (7437, 0.08, 50), (7873, 0.24, 80), (7920, 0.14, 70), (8067, 0.20, 80), (8271, 0.14, 70),
    (8485, 0.08, 60), (9148, 0.35, 90),
)  # fmt: skip
# Swan bands of C2 and violet CN are sharp in the red and fade to the blue.
SWAN = (
    (4737.1, 0.90, 60), (4715.2, 0.50, 55), (4697.6, 0.35, 60), (4383, 0.70, 60), (5165.2, 1.00, 75),
    (5129.3, 0.50, 85), (5097.7, 0.25, 110), (5635.5, 0.80, 75), (5585.5, 0.42, 80), (5540.7, 0.22, 90),
    (6191.3, 0.24, 50), (6122.1, 0.16, 60), (6059.7, 0.10, 60),
)  # fmt: skip
CN_VIOLET = ((3883.4, 1.0, 40), (3871.4, 0.4, 40), (4216.0, 0.7, 40), (4197.2, 0.3, 40), (4606.1, 0.12, 25))


def planck(temperature: float) -> Array:
    """Black body per Å, 1 at 6000 Å."""
    x = 1.4388e8 / temperature
    shape: Array = (6000.0 / W) ** 5 * np.expm1(x / 6000.0) / np.expm1(x / W)
    return shape


def bands(heads: tuple[tuple[float, float, float], ...], strength: float, fades: int = +1) -> Array:
    """Optical depth of band heads; `fades` is +1 for bands that fade to the red, −1 to the blue.

    Behind the head a band stays deep for a while: exp(−(x / length)^1.5) does that, an exponential does not.
    """
    tau = np.zeros_like(W)
    for head, depth, length in heads:
        x = fades * (W - head)
        edge = 0.5 * (1.0 + np.tanh(x / 1.5))
        tau += depth * edge * np.exp(-((np.clip(x, 0.0, None) / length) ** 1.5))
    return strength * tau


def line(centre: float, width: float, fwhm: float) -> Array:
    """Gaussian of area `width` (Å) at `centre` (Å, air): an optical depth, or emission over a continuum of 1."""
    sigma = fwhm / 2.3548
    profile: Array = width / (sigma * np.sqrt(2 * np.pi)) * np.exp(-0.5 * ((W - centre) / sigma) ** 2)
    return profile


def disc_line(centre: float, width: float, half_split: float = 500.0, spread: float = 390.0) -> Array:
    """Double-peaked emission of an accretion disc: peaks at ± `half_split`, each of σ = `spread`, km/s."""
    step = centre / SPEED_OF_LIGHT
    fwhm = 2.3548 * spread * step
    return line(centre - half_split * step, width / 2, fwhm) + line(centre + half_split * step, width / 2, fwhm)


def wings(centre: float, depth: float, half_width: float) -> Array:
    """Pressure-broadened absorption: a Lorentz profile of optical depth `depth` and half width `half_width` (Å)."""
    profile: Array = depth / (1.0 + ((W - centre) / half_width) ** 2)
    return profile


def metal_lines(strength: float, seed: int) -> Array:
    """Optical depth of thousands of weak lines, crowding towards the blue as iron does. The seed places them."""
    rng = np.random.default_rng(seed)
    spikes = rng.random(W.size) ** 12 * rng.gamma(1.2, size=W.size)
    kernel = np.exp(-0.5 * (np.arange(-24, 25) / 6.0) ** 2)
    crowd = np.convolve(spikes, kernel / kernel.sum(), mode="same")
    tau: Array = strength * (crowd / crowd.mean()) * (5000.0 / W) ** 4
    return tau


def cool_atoms(sodium: float, calcium: float, potassium: float) -> Array:
    """Optical depth of the atomic lines of a cool star, by the widths (Å) of Na D, Ca II 8542 and K I 7699."""
    tau = line(5890.0, 0.55 * sodium, 4.0) + line(5895.9, 0.45 * sodium, 4.0) + line(4226.7, 4.0, 7.0)
    tau += line(8498.0, 0.45 * calcium, 5.0) + line(8542.1, calcium, 6.0) + line(8662.1, 0.8 * calcium, 6.0)
    tau += line(7664.9, 1.1 * potassium, 4.0) + line(7699.0, potassium, 4.0)
    return tau + line(3933.7, 9.0, 14.0) + line(3968.5, 8.0, 14.0)


def m_giant() -> Array:
    """M4 III: deep TiO, hardly any CaH, a strong Ca II triplet, weak Na I 8190."""
    tau = bands(TIO, 1.15) + metal_lines(0.10, seed=31) + cool_atoms(sodium=3.0, calcium=4.2, potassium=0.7)
    tau += 0.06 * np.exp(-0.5 * ((W - 6830) / 40) ** 2) + line(8183.3, 0.2, 4.0) + line(8194.8, 0.3, 4.0)
    tau += line(6562.8, 1.0, 4.0) + line(6497.0, 0.9, 4.0) + 1.1 * np.clip((4600 - W) / 900, 0, None)
    return planck(3550.0) * np.exp(-tau)


def m_dwarf() -> Array:
    """Active M4 V: TiO, strong CaH, MgH, Na D, K I and Na I 8190, and narrow Balmer and Ca II emission."""
    tau = bands(TIO, 0.85) + metal_lines(0.10, seed=32) + cool_atoms(sodium=9.0, calcium=1.3, potassium=2.2)
    for centre, depth, sigma in ((6382, 0.25, 10), (6770, 0.16, 35), (6830, 0.42, 38), (6965, 0.32, 28)):  # CaH
        tau += depth * np.exp(-0.5 * ((W - centre) / sigma) ** 2)
    tau += bands(((5211.0, 0.75, 45.0), (4845.0, 0.25, 40.0), (4780.0, 0.35, 30.0)), 1.0, fades=-1)  # MgH
    tau += line(8183.3, 2.2, 5.0) + line(8194.8, 2.9, 5.0) + 0.25 * np.exp(-0.5 * ((W - 5540) / 25) ** 2)  # Na I, CaOH
    tau += wings(5892.9, 0.30, 35.0)
    flux = planck(3200.0) * np.exp(-tau)
    emission = line(6562.8, 5.5, 3.0) + line(4861.3, 6.0, 2.5) + line(4340.5, 6.5, 2.5) + line(4101.7, 6.5, 2.5)
    return flux * (1.0 + emission) + planck(3200.0) * (line(3933.7, 2.2, 2.0) + line(3968.5, 2.2, 2.0))


def carbon_star() -> Array:
    """C-N star: Swan bands with sharp red edges, CN, strong Na D, little light below 4400 Å."""
    tau = bands(SWAN, 1.05, fades=-1) + bands(CN_VIOLET, 1.3, fades=-1) + bands(CN_RED, 1.0)
    tau += metal_lines(0.09, seed=33)
    tau += cool_atoms(sodium=4.5, calcium=2.2, potassium=0.5) + 1.4 * np.clip((4700 - W) / 900, 0, None)
    tau += line(4554.0, 2.0, 4.0) + line(6141.7, 0.8, 4.0) + line(6496.9, 1.2, 4.0) + line(6562.8, 0.9, 4.0)
    return planck(3900.0) * np.exp(-tau)


def s_star() -> Array:
    """S star: ZrO and LaO stand out over moderate TiO; otherwise a cool giant."""
    tau = bands(TIO, 0.62) + bands(ZRO, 1.0) + metal_lines(0.12, seed=34)
    tau += cool_atoms(sodium=4.0, calcium=3.8, potassium=0.7) + 1.2 * np.clip((4700 - W) / 900, 0, None)
    tau += line(4607.3, 1.5, 3.5) + line(4554.0, 2.2, 4.0) + line(6496.9, 1.4, 4.0) + line(6562.8, 1.0, 4.0)
    return planck(3500.0) * np.exp(-tau)


def f_star() -> Array:
    """F5 V: Balmer lines of normal width, Ca II H and K, the G band, Mg b."""
    tau = metal_lines(0.035, seed=35) + line(3933.7, 6.0, 8.0) + line(3968.5, 5.0, 8.0) + line(4303.0, 1.9, 22.0)
    tau += line(4226.7, 0.6, 4.0) + line(5167.3, 0.5, 3.5) + line(5172.7, 0.6, 3.5) + line(5183.6, 0.7, 3.5)
    tau += line(5890.0, 0.5, 3.0) + line(5895.9, 0.4, 3.0)
    tau += line(8498.0, 0.9, 5.0) + line(8542.1, 2.2, 6.0) + line(8662.1, 1.8, 6.0)
    for centre, width in zip(BALMER, (3.6, 4.0, 4.2, 4.4, 4.4, 4.2, 4.0, 3.8), strict=True):
        tau += line(centre, 0.72 * width, 7.0) + wings(centre, 0.035, 14.0)
    jump = 0.45 / (1.0 + np.exp((W - 3780.0) / 25.0))
    return planck(6600.0) * np.exp(-tau - jump)


def da_white_dwarf(temperature: float, strength: float) -> Array:
    """DA: Balmer lines tens of Å wide that run together by H9; nothing else."""
    depths = (0.55, 0.80, 0.85, 0.80, 0.66, 0.42, 0.20, 0.06)
    half_widths = (20.0, 23.0, 22.0, 20.0, 16.0, 13.0, 11.0, 9.0)
    tau = np.zeros_like(W)
    for centre, depth, half_width in zip(BALMER, depths, half_widths, strict=True):
        tau += wings(centre, strength * depth, half_width) * (1.0 / (1.0 + (np.abs(W - centre) / 110.0) ** 3))
        tau += line(centre, strength * 0.9, 7.0)  # the core
    return planck(temperature) * np.exp(-tau)


def dc_white_dwarf() -> Array:
    """DC: no line at all."""
    return planck(9500.0)


def cataclysmic_variable(balmer: float = 1.0, helium_ii: float = 9.0) -> Array:
    """A dwarf nova in quiescence: blue disc, broad double-peaked H and He I, He II 4686, Balmer jump in emission."""
    emission = np.zeros_like(W)
    for centre, width in zip(BALMER, (85, 56, 42, 32, 22, 16, 11, 7), strict=True):
        emission += disc_line(centre, balmer * width)
    for centre, width in ((4026.2, 6), (4471.5, 12), (4921.9, 6), (5015.7, 5), (5875.6, 17), (6678.2, 9), (7065.2, 8)):
        emission += disc_line(centre, balmer * width)
    emission += disc_line(4685.7, helium_ii, 450.0, 420.0) + line(4645.0, 0.4 * helium_ii, 35.0)  # He II, Bowen
    for centre in (8498.0, 8542.1, 8662.1):
        emission += disc_line(centre, balmer * 9)
    for centre in (8750.5, 8862.8, 9014.9, 9229.0):
        emission += disc_line(centre, balmer * 5)  # Paschen 12 to 9
    jump = 0.35 / (1.0 + np.exp((W - 3700.0) / 25.0))
    return (6000.0 / W) ** 1.7 * (1.0 + emission + jump)


def quasar(z: float) -> Array:
    """Broad-lined QSO, already redshifted by z: power law, Fe II, C IV 1549, C III] 1909, Mg II 2799, [O II] 3728."""
    rest = VACUUM / (1.0 + z)
    iron = 0.16 * np.exp(-0.5 * ((rest - 2480) / 130) ** 2) + 0.08 * np.exp(-0.5 * ((rest - 3250) / 220) ** 2)
    flux = (rest / 2500.0) ** -1.4 * (1.0 + iron)
    for centre, width, fwhm in ((1549, 28, 32), (1909, 14, 36), (2326, 3, 40), (2799, 26, 38), (3728, 1.5, 4)):
        sigma = fwhm / 2.3548
        flux *= 1.0 + width / (sigma * 2.5066) * np.exp(-0.5 * ((rest - centre) / sigma) ** 2)
    return flux


def telluric(strength: float) -> Array:
    """Transmission of the Earth's air, observed frame: O2 B and A bands sharp in the blue, H2O as a forest."""
    tau = bands(((6867.0, 0.26, 14.0), (6879.0, 0.12, 38.0), (7593.5, 0.65, 24.0), (7606.0, 0.50, 50.0)), 1.0)
    forest = metal_lines(1.0, seed=36) * (W / 5000.0) ** 4
    for low, high, depth in ((7160.0, 7340.0, 0.07), (8100.0, 8340.0, 0.07), (8940.0, 9800.0, 0.22)):
        inside = 0.5 * (np.tanh((W - low) / 15.0) - np.tanh((W - high) / 15.0))
        tau += depth * inside * np.clip(forest, 0.0, 4.0)
    return np.exp(-strength * tau)


def observed(flux: Array, velocity: float, resolving_power: float, air_strength: float) -> Callable[[Array], Array]:
    """`flux` moved by `velocity` (km/s), seen through the air and blurred to R; a function of vacuum wavelength (Å)."""
    moved = np.interp(VACUUM / (1.0 + velocity / SPEED_OF_LIGHT), VACUUM, flux)
    sigma = 1.0 / (2.3548 * resolving_power * 5e-5)  # in steps of the logarithmic grid
    half = int(4 * sigma) + 1
    kernel = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    padded = np.pad(moved * telluric(air_strength), half, mode="edge")
    blurred = np.convolve(padded, kernel / kernel.sum(), mode="valid")
    return lambda vacuum: np.interp(vacuum, VACUUM, blurred)
