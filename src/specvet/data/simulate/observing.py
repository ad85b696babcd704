"""Observing a source: what the dust, the air, the spectrograph, the detector and the pipeline make of it.

`observe` follows the light: Doppler shift, foreground reddening, the air (whose absorption pipelines take out, but not
quite), resolution, pixels, photons, sky, detector, flux calibration, and what the pipeline then says. Everything out
of the ordinary is named in `Observed.defects`. Every draw comes from the generator that is passed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from specvet.data.simulate import defects
from specvet.data.simulate.defects import Pixels
from specvet.data.simulate.instruments import instrument
from specvet.data.simulate.observed import Arm, Observed, SurveyName
from specvet.data.simulate.observing_exposure import exposed, light
from specvet.data.simulate.observing_pipeline import fit
from specvet.data.simulate.physics import truncated_normal
from specvet.data.simulate.source import Source

if TYPE_CHECKING:
    from specvet.spectra.spectrum import Spectrum

_FIBRES: dict[SurveyName, int] = {"lamost": 250, "sdss": 640, "boss": 1000, "desi": 5000}
_NIGHTS: dict[SurveyName, tuple[int, int]] = {
    "lamost": (55_858, 60_100),
    "sdss": (51_600, 54_660),
    "boss": (55_180, 58_540),
    "desi": (59_200, 60_480),
}
"""First and last MJD of the survey."""
_FOOTPRINT: dict[SurveyName, tuple[float, float, float, float]] = {
    "lamost": (0.0, 360.0, -10.0, 60.0),
    "sdss": (112.0, 262.0, -4.0, 66.0),
    "boss": (112.0, 262.0, -4.0, 66.0),
    "desi": (0.0, 360.0, -18.0, 78.0),
}
"""Least and greatest right ascension and declination (degrees), roughly."""
_ZERO_POINT = 21.13
"""AB magnitude of 1e-17 erg/s/cm²/Å at 6200 Å; 1 of LAMOST's relative flux comes near it (MAG of real headers)."""
FIRST_RELEASE_SHARE = 0.4
"""Of LAMOST spectra, as DR1 gives them. More than the survey has, so that both habits are met often."""
EPOCHS = 10
"""Epochs of one object that surely lie in different nights."""


def observe(
    source: Source,
    survey: SurveyName,
    rng: np.random.Generator,
    *,
    snr: float | None = None,
    object_number: int = 0,
    epoch: int = 0,
    position: tuple[float, float] | None = None,
) -> Observed:
    """One spectrum of `source` as `survey` would release it.

    `snr` is the wanted median of the stated S/N a pixel in the survey's `SNR_WINDOWS`; None draws from its habits.
    `position` is (RA, Dec) in degrees; None draws one of the survey's footprint. Raises KeyError for a survey that
    there is not, ValueError for a source without light where the S/N is meant.
    """
    spectrograph = instrument(survey, survey == "lamost" and rng.random() < FIRST_RELEASE_SHARE)
    habits = spectrograph.habits
    if snr is None:
        low, high = np.log(habits.snr_range)
        snr = float(np.exp(truncated_normal(rng, np.log(habits.snr_median), habits.snr_sigma, low, high)))
    exposure = exposed(spectrograph, light(source, habits, rng), snr, rng)
    said = [*exposure.defects]
    for spoil in (
        defects.first_release,
        defects.ragged_end,
        defects.cosmic_rays,
        defects.dead_pixels,
        defects.gap,
        defects.dead_arm,
    ):
        said.append(spoil(spectrograph, exposure.pixels, rng))
    arms = tuple(_released(one, survey) for one in exposure.pixels)
    measured = _median_snr(arms)
    stated = fit(source, survey, measured, rng)
    ra, dec = _position(survey, rng) if position is None else position
    first, last = _NIGHTS[survey]
    slot = (last - first) // EPOCHS
    night = first + slot * ((7 * object_number + epoch) % EPOCHS) + int(rng.integers(slot - 30))
    return Observed(
        source=source,
        survey=survey,
        arms=arms,
        object_number=object_number,
        epoch=epoch,
        ra=round(ra, 6),
        dec=round(dec, 6),
        mjd=night,
        fibre=int(rng.integers(1, _FIBRES[survey] + 1)),
        magnitude_r=round(_ZERO_POINT - 2.5 * float(np.log10(exposure.level)) + float(rng.normal(0.0, 0.1)), 2),
        snr=measured,
        pipeline_class=stated.spectral_class,
        pipeline_subclass=stated.subclass,
        pipeline_z=_as_stored(stated.z, survey),
        pipeline_z_error=_as_stored(stated.z_error, survey),
        pipeline_z_warning=stated.z_warning,
        defects=tuple(dict.fromkeys([one for one in said if one] + list(stated.defects))),
    )


def spectrum(observed: Observed) -> Spectrum:
    """What `specvet.read` gives of the native file of `observed` (LAMOST: the DR9 table), without writing one.

    `file` is empty and `row` 0, as only a file can tell them.
    """
    from specvet.data.simulate.observing_reading import as_read

    return as_read(observed)


def _released(pixels: Pixels, survey: SurveyName) -> Arm:
    """The arrays as a release stores them."""
    camera = pixels.camera
    has_sky = survey in ("sdss", "boss")
    return Arm(
        name=camera.name,
        wavelength=camera.wavelength,
        flux=pixels.flux.astype(np.float32),
        ivar=pixels.ivar.astype(np.float32),
        and_mask=pixels.and_mask,
        or_mask=pixels.or_mask,
        sky=pixels.sky.astype(np.float32) if has_sky else None,
        dispersion=camera.dispersion.astype(np.float32) if has_sky else None,
    )


def _median_snr(arms: tuple[Arm, ...]) -> float:
    flux = np.concatenate([arm.flux for arm in arms])
    ivar = np.concatenate([arm.ivar for arm in arms])
    good = ivar > 0.0
    return float(np.median(flux[good] * np.sqrt(ivar[good]))) if good.any() else 0.0


def _position(survey: SurveyName, rng: np.random.Generator) -> tuple[float, float]:
    west, east, south, north = _FOOTPRINT[survey]
    sine = rng.uniform(np.sin(np.radians(south)), np.sin(np.radians(north)))
    return float(rng.uniform(west, east)), float(np.degrees(np.arcsin(sine)))


def _as_stored(value: float | None, survey: SurveyName) -> float | None:
    """LAMOST writes eight decimals, SDSS and BOSS float32, redrock float64."""
    if value is None or survey == "desi":
        return value
    return round(value, 8) if survey == "lamost" else float(np.float32(value))
