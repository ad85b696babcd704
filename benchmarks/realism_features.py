"""What `realism.py` measures of a spectrum, real or simulated alike: line indices, noise and quality, coarse flux."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import median_filter

from specvet.spectra import Spectrum, choose_frame
from specvet.spectra.index_kinds import RatioIndex, WidthIndex
from specvet.spectra.index_table import BUILTIN_INDICES
from specvet.spectra.indices import Meter
from specvet.spectra.pixels import Pixels

INDICES = tuple(key for key, index in BUILTIN_INDICES.items() if "_at_ha" not in key and key != "zeta")

_COOL = ("tio5", "tio_4954", "tio_5448", "tio_6158", "tio8432", "vo7434", "cah1", "cah2", "cah3", "cah_excess",
         "nai8190", "ki7699", "cat8542", "cat8662", "cai4227", "nad", "mgb", "ha", "zro_6474", "lao_7403")  # fmt: skip
_HOT = ("ha", "hb", "hg", "hb_wide", "hg_wide", "hb_core", "balmer_core", "hb_width", "hg_width", "hei4471", "hei5876",
        "heii4686", "cak", "cah3968", "gband", "mgb", "nad", "cat8542")  # fmt: skip
MAIN = {
    "gm": _COOL,
    "m_": _COOL,
    "k_": ("gband", "cai4227", "mgb", "nad", "cak", "hb", "hg", "hd", "ha", "cat8542", "cat8662", "tio5", "cah2",
           "cn_4215"),
    "ss": ("zro_6474", "zro_6345", "zro_6229", "zro_5551", "zro_5718", "zro_4640", "lao_7403", "tio5", "tio_5448",
           "tio_6158", "nad", "cai4227", "ha"),
    "cc": ("c2_5165", "c2_4737", "c2_5635", "cn_4215", "cn_6925", "cn_7910", "gband", "cai4227", "nad", "ha", "mgb",
           "tio5"),
    "": _HOT,
}  # fmt: skip
"""Beginning of a kind → indices that its class is told by."""

ARMS = {"blue": (4200.0, 5550.0), "red": (6000.0, 6800.0), "far red": (7750.0, 8900.0)}
"""Å, clear of joins and of the strongest bands of the air."""

SKY = {"5577": 5578.9, "6300": 6302.0, "5893": 5894.6}
"""Å, vacuum: lines of the sky that leave residuals."""

BINS = np.geomspace(3850.0, 8950.0, 37)


def indices(spectrum: Spectrum, z: float | None = None) -> dict[str, float]:
    """Every index that can be measured, NaN for the others, in the frame that the agent would look in."""
    shift = choose_frame(spectrum).z if z is None else z
    found = Meter(Pixels(spectrum, shift)).measure(INDICES, BUILTIN_INDICES)
    return {key: np.nan if found[key].value is None else float(found[key].value) for key in INDICES}


def main_indices(kind: str) -> tuple[str, ...]:
    """The indices that a kind is told by."""
    return next(names for start, names in MAIN.items() if kind.startswith(start))


def clipped(values: dict[str, float]) -> dict[str, float]:
    """Ratios and widths of next to nothing are as good as not measured."""
    out = dict(values)
    for key, value in values.items():
        index = BUILTIN_INDICES[key]
        limit = 5.0 if isinstance(index, RatioIndex) else 1e4 if isinstance(index, WidthIndex) else 1e3
        if not abs(value) < limit:
            out[key] = np.nan
    return out


def quality(s: Spectrum) -> dict[str, float]:
    """Noise and quality, without what only the container tells (pixel count, columns, names)."""
    out: dict[str, float] = {}
    good = s.good
    sigma = s.sigma
    w, f = s.wavelength, s.flux
    for arm, (low, high) in ARMS.items():
        pick = good & (w > low) & (w < high)
        if pick.sum() < 100:
            continue
        flux = f[pick]
        fast = flux - median_filter(flux, 7, mode="nearest")
        third = 2.0 * flux[2:-2] - flux[:-4] - flux[4:]
        noise = 0.6052697 * float(np.median(np.abs(third)))
        level = float(np.median(flux))
        out[f"{arm}: noise correlation, 1 pixel"] = _correlation(third, 1)
        out[f"{arm}: noise correlation, 3 pixels"] = _correlation(third, 3)
        out[f"{arm}: outliers"] = float(np.mean(np.abs(third) > 8.0 * noise))
        out[f"{arm}: skew of outliers"] = float(np.mean(fast > 4 * noise) - np.mean(fast < -4 * noise))
        out[f"{arm}: noise over level"] = noise / level if level > 0 else np.nan
        if sigma is not None:
            errors = sigma[pick]
            out[f"{arm}: scatter over stated error"] = noise / float(np.median(errors))
            out[f"{arm}: spread of stated errors"] = float(np.std(np.log(errors / median_filter(errors, 51))))
            out[f"{arm}: S/N over median S/N"] = float(np.median(flux / errors)) / max(s.snr or np.nan, 0.1)
            out[f"{arm}: residuals beyond 4 sigma"] = float(np.mean(np.abs(fast) > 4.0 * errors))
    if sigma is not None:
        out["bad pixels, blue end"] = float(np.mean(~good[w < 4000.0])) if (w < 4000.0).any() else np.nan
        out["bad pixels, join"] = float(np.mean(~good[(w > 5700.0) & (w < 5900.0)]))
        out["bad pixels, elsewhere"] = float(np.mean(~good[(w > 6000.0) & (w < 8900.0)]))
    if s.mask is not None:
        out["pixels with mask bits"] = float(np.mean(s.mask != 0))
    blue = (w < 4000.0) & np.isfinite(f)
    out["negative flux below 4000"] = float(np.mean(f[blue] < 0)) if blue.any() else np.nan
    for name, at in SKY.items():
        near, side = np.abs(w - at) < 6.0, (np.abs(w - at) > 15.0) & (np.abs(w - at) < 60.0)
        if near.any() and side.sum() > 10:
            middle = float(np.median(f[side]))
            out[f"sky line {name}"] = float(np.max(np.abs(f[near] - middle))) / (1.4826 * _mad(f[side]) + 1e-30)
    out["arm step"] = _step(w, f, good)
    for name, band, sides in (
        ("O2 A", (7620.0, 7660.0), (7560.0, 7590.0)),
        ("O2 B", (6884.0, 6898.0), (6850.0, 6864.0)),
    ):
        out[f"{name} over continuum"] = _mean(w, f, good, band) / _mean(w, f, good, sides)
    return out


def coarse(s: Spectrum) -> dict[str, float]:
    """Mean flux in 36 bins over its median."""
    z = choose_frame(s).z
    good = s.good
    w, f = s.wavelength[good] / (1 + z), s.flux[good]
    place = np.digitize(w, BINS) - 1
    means = [float(f[place == i].mean()) if (place == i).sum() > 5 else np.nan for i in range(BINS.size - 1)]
    middle = np.nanmedian(means)
    return {f"flux {low:.0f}-{high:.0f}": m / middle for low, high, m in zip(BINS[:-1], BINS[1:], means, strict=True)}


def _correlation(values: np.ndarray, lag: int) -> float:
    """Of third differences with those `lag` pixels on, each within ±4 of its own scale: white noise has −2/3 or so."""
    x = np.clip(values / (1.4826 * _mad(values) + 1e-30), -4.0, 4.0)
    return float(np.mean(x[lag:] * x[:-lag]) / np.mean(x * x))


def _mad(values: np.ndarray) -> float:
    return float(np.median(np.abs(values - np.median(values))))


def _mean(w: np.ndarray, f: np.ndarray, good: np.ndarray, band: tuple[float, float]) -> float:
    pick = good & (w > band[0]) & (w < band[1])
    return float(f[pick].mean()) if pick.sum() > 3 else np.nan


def _step(w: np.ndarray, f: np.ndarray, good: np.ndarray) -> float:
    """Size of the step at the join of LAMOST's arms: ln of the two sides, each carried on to 5800 Å by a line."""
    ends = []
    for low, high in ((5450.0, 5690.0), (5910.0, 6150.0)):
        pick = good & (w > low) & (w < high)
        if pick.sum() < 50 or np.median(f[pick]) <= 0:
            return np.nan
        _, level = np.polyfit(w[pick] - 5800.0, f[pick], 1)
        ends.append(level)
    return float(np.log(ends[1] / ends[0])) if min(ends) > 0 else np.nan
