"""The `Spectrum`: one observed spectrum of one target, native as released, with all that is needed to judge it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from specvet.records import array_hash

Medium = Literal["air", "vacuum", "unknown"]
"""What the wavelengths are measured in. Spectra stay native; line lists are converted instead."""

Calibration = Literal["absolute", "relative", "normalised", "unknown"]
"""Quality of the flux scale: `absolute` (spectrophotometry), `relative` (LAMOST), `normalised` (continuum removed)."""

FloatArray = NDArray[np.float64]

SPEED_OF_LIGHT_KM_S = 299_792.458


ZERO_RUN = 5
"""Exact zeros in a row that noise does not make."""


def zero_runs(flux: FloatArray) -> NDArray[np.bool_]:
    """Pixels that belong to at least `ZERO_RUN` exact zeros in a row, shape (n_pix,)."""
    zero = np.concatenate([[False], flux == 0.0, [False]])
    starts, ends = np.flatnonzero(zero[1:] & ~zero[:-1]), np.flatnonzero(~zero[1:] & zero[:-1])
    inside = np.zeros(flux.size, dtype=bool)
    for start, end in zip(starts, ends, strict=True):
        inside[start:end] = end - start >= ZERO_RUN
    return inside


@dataclass(frozen=True, slots=True)
class Join:
    """Where two arms of a spectrograph meet: the classic place of features that are not there."""

    low: float
    """Å, in the medium and frame of the spectrum."""
    high: float
    """Å."""
    label: str
    """Which arms, for people: `LAMOST blue/red`, `DESI b/r`."""


@dataclass(frozen=True, slots=True)
class Redshift:
    """A redshift as somebody stated it; `value` is None where they stated none (−9999, class Unknown)."""

    value: float | None = None
    error: float | None = None
    source: str = ""
    """Where it stands: `header Z`, `SPECOBJ Z`, `redrock Z`, `user`; empty when there is none."""
    warning: str = ""
    """Why the pipeline itself doubts it (`ZWARNING=4`); empty when it does not, or when it does not say."""

    @property
    def velocity_km_s(self) -> float | None:
        """c·z in km/s, or None."""
        return None if self.value is None else SPEED_OF_LIGHT_KM_S * self.value


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """One observed spectrum, sorted by wavelength, in native byte order.

    Arrays have shape (n_pix,). Pixels without a finite wavelength are dropped by the reader; pixels without a
    finite flux are kept, with `ivar` 0 where an `ivar` exists.
    """

    wavelength: FloatArray
    """Å, strictly increasing, in `medium`, in the frame `frame`."""
    flux: FloatArray
    """In `flux_unit`; may hold NaN."""
    ivar: FloatArray | None = None
    """Inverse variance of `flux`; 0 means bad. None where the file states no error."""
    mask: NDArray[np.int64] | None = None
    """The survey's bit mask, as released. A bit never makes a pixel bad by itself: see `good`."""
    medium: Medium = "unknown"
    flux_unit: str = ""
    """As the file writes it; empty when it does not."""
    calibration: Calibration = "unknown"
    resolution: float | None = None
    """Resolving power λ/Δλ, nominal for the instrument; None when not known."""
    joins: tuple[Join, ...] = ()
    frame: str = "unknown"
    """Velocity frame of the wavelengths: `heliocentric`, `barycentric`, `topocentric`, `rest` or `unknown`."""
    mjd: float | None = None
    ra: float | None = None
    """Degrees, ICRS as released."""
    dec: float | None = None
    """Degrees."""
    redshift: Redshift = field(default_factory=Redshift)
    pipeline_class: str = ""
    """What the survey's pipeline calls it (`STAR`, `QSO`), for the record: no verdict may rest on it."""
    pipeline_subclass: str = ""
    id: str = ""
    """The identifier that people quote; always a string."""
    ids: dict[str, str] = field(default_factory=dict)
    """Every identifier the file holds, as strings: `{"plate": "266", "targetid": "39627…"}`."""
    survey: str = "unknown"
    """`LAMOST`, `SDSS`, `DESI`, `MILES`, … or `unknown`."""
    release: str = ""
    reduction: str = ""
    """Version of the pipeline that reduced it, as the file states it."""
    layout: str = ""
    """Which reader recognised it: `lamost-lrs-image`, `sdss-spec`, `desi-coadd`, `text`, …"""
    file: str = ""
    """Where it came from, as the caller wrote it; empty for bytes and open files without a name."""
    row: int = 0
    """Which target of that file; (file, row) identifies a spectrum, since survey ids repeat."""
    n_exposures: int = 0
    """How many single exposures of it the file holds beside it; `specvet.exposures(file)` reads them."""
    warnings: tuple[str, ...] = ()
    """What a person should know before trusting it (`no error array`, `arm R missing`)."""

    def __post_init__(self) -> None:
        n = self.wavelength.shape
        for name in ("wavelength", "flux", "ivar", "mask"):
            array = getattr(self, name)
            if array is not None and (array.ndim != 1 or array.shape != n):
                raise ValueError(f"Spectrum.{name} has shape {array.shape}; wavelength has {n}")
        if not bool(np.isfinite(self.wavelength).all()):
            raise ValueError("Spectrum.wavelength holds values that are not finite; drop those pixels")
        if n[0] > 1 and not bool(np.all(np.diff(self.wavelength) > 0)):
            raise ValueError("Spectrum.wavelength must increase strictly")

    def __repr__(self) -> str:
        span = f"{self.wave_min:.1f}-{self.wave_max:.1f} Å" if self.n_pix else "no pixels"
        z = "None" if self.redshift.value is None else f"{self.redshift.value:.6f}"
        return f"<Spectrum {self.survey} {self.id or self.file!r} row {self.row}: {self.n_pix} pixels, {span}, z={z}>"

    @property
    def n_pix(self) -> int:
        return int(self.wavelength.size)

    @property
    def wave_min(self) -> float:
        """Å; NaN without pixels."""
        return float(self.wavelength[0]) if self.n_pix else float("nan")

    @property
    def wave_max(self) -> float:
        """Å; NaN without pixels."""
        return float(self.wavelength[-1]) if self.n_pix else float("nan")

    @property
    def good(self) -> NDArray[np.bool_]:
        """Pixels to be trusted: finite flux and, where errors exist, 0 < ivar < ∞. Mask bits do not count.

        Without errors, `ZERO_RUN` or more exact zeros in a row are a gap that was filled up, not a measurement.
        """
        good = np.isfinite(self.flux)
        if self.ivar is not None:
            return good & np.isfinite(self.ivar) & (self.ivar > 0)
        return good & ~zero_runs(self.flux)

    @property
    def sigma(self) -> FloatArray | None:
        """1σ error of the flux, inf where the pixel is bad; None where the file states no error."""
        if self.ivar is None:
            return None
        out = np.full(self.n_pix, np.inf)
        ok = np.isfinite(self.ivar) & (self.ivar > 0)
        out[ok] = 1.0 / np.sqrt(self.ivar[ok])
        return out

    @property
    def snr(self) -> float | None:
        """Median of flux/σ over good pixels, or an estimate from the scatter between pixels without errors."""
        good = self.good
        if int(good.sum()) < 5:
            return None
        flux = self.flux[good]
        with np.errstate(over="ignore", invalid="ignore"):  # fluxes near the largest number there is
            if self.ivar is not None:
                snr = float(np.median(flux * np.sqrt(self.ivar[good])))
            else:
                # DER_SNR (Stoehr et al. 2008, ASP Conf. 394, 505): noise from third differences, blind to shapes.
                noise = 0.6052697 * np.median(np.abs(2.0 * flux[2:-2] - flux[:-4] - flux[4:]))
                snr = float(np.median(flux) / noise) if noise > 0 else np.nan
        return snr if np.isfinite(snr) else None

    @property
    def coord(self) -> Any:
        """The position as an astropy `SkyCoord` (ICRS), or None without one."""
        if self.ra is None or self.dec is None:
            return None
        from astropy.coordinates import SkyCoord

        return SkyCoord(self.ra, self.dec, unit="deg", frame="icrs")

    def smoothed(self, sigma: float) -> Spectrum:
        """Convolved with a Gaussian of `sigma` pixels, with its errors; see `specvet.spectra.smoothing`."""
        from specvet.spectra.smoothing import smoothed

        return smoothed(self, sigma)

    def to_specutils(self) -> Any:
        """This spectrum as a `specutils.Spectrum`; see `specvet.spectra.interop`. Needs specutils (ImportError)."""
        from specvet.spectra.interop import to_specutils

        return to_specutils(self)

    @classmethod
    def from_specutils(cls, spectrum: Any) -> Spectrum:
        """A `Spectrum` from a one-dimensional `specutils.Spectrum`; see `specvet.spectra.interop`."""
        from specvet.spectra.interop import from_specutils

        return from_specutils(spectrum)

    @property
    def content_hash(self) -> str:
        """SHA-256 of wavelength and flux, rounded to 1e-5 relative."""
        return array_hash(self.wavelength, self.flux)

    def replace(self, **changes: object) -> Spectrum:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
