"""LAMOST low-resolution files: a table of one row (DR9 and later) or an image of five (DR2 to DR8).

Layouts: LAMOST release documents (dr5, dr9 at lamost.org, "FITS file") and real files; cards that nobody could know of
a simulation (weather, lamps, fluxes of standard stars) are left out.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from specvet.data.simulate.layouts.common import LABEL, ORIGIN, day, filled, median_snr, sexagesimal
from specvet.data.simulate.layouts.fitsbytes import card, comment, primary, table
from specvet.data.simulate.observed import Arm, Observed

IMAGE_RELEASES = tuple(f"dr{n}" for n in range(2, 9))
TABLE_RELEASES = ("dr9", "dr10", "dr11")
RELEASES = (*IMAGE_RELEASES, *TABLE_RELEASES)

FIRST_OBSID = 9_000_000_000
"""Numbers of spectra start here; those of real ones have nine or ten digits and stay below 2,000,000,000."""
SPECTROGRAPHS, FIBRES = 16, 250
"""Of the telescope, and fibres of each spectrograph (Cui et al. 2012, RAA 12, 1197)."""

_FILTERS = (("U", 3620.0, 4000.0), ("G", 4000.0, 5500.0), ("R", 5600.0, 6900.0), ("I", 6900.0, 8200.0), ("Z", 8200.0, 9100.0))  # fmt: skip  # noqa: E501
"""Where the S/N of a filter is measured, Å."""


def obsid(observed: Observed) -> int:
    """The number of a spectrum; epochs of one object follow each other."""
    return FIRST_OBSID + 10 * observed.object_number + observed.epoch


def plan(observed: Observed) -> str:
    """The plan of an observation: one for each object, so that no two files have one name."""
    return f"SIMULATED{observed.object_number:06d}"


def file_name(observed: Observed) -> str:
    """`spec-55859-SIMULATED000123_sp01-001.fits`: as LAMOST names files, by local MJD, plan, spectrograph and fibre."""
    return f"spec-{observed.mjd + 1}-{plan(observed)}_sp{_spectrograph(observed):02d}-{_fibre(observed):03d}.fits"


def content(observed: Observed, release: str = "dr9") -> bytes:
    """The file. Raises ValueError for a release that has neither layout."""
    if release not in RELEASES:
        raise ValueError(f"LAMOST release {release!r}: its layout is not written; there are {', '.join(RELEASES)}")
    (arm,) = observed.arms
    if release in TABLE_RELEASES:
        n = arm.wavelength.size
        row = np.empty(1, dtype=_row(n))
        for name, values in zip(_COLUMNS, (*_arrays(arm), np.float32(-9999.0)), strict=True):
            row[name] = values
        return primary(_cards(observed, arm, release)) + table("COADD", row)
    return primary(_cards(observed, arm, release), np.stack(_arrays(arm)))


_COLUMNS = ("FLUX", "IVAR", "WAVELENGTH", "ANDMASK", "ORMASK", "NORMALIZATION")
"""NORMALIZATION is -9999 everywhere, as in many real files."""


@lru_cache(maxsize=8)
def _row(n_pix: int) -> np.dtype[np.void]:
    return np.dtype([(name, ">f4", (n_pix,)) for name in _COLUMNS])


def _arrays(arm: Arm) -> tuple[np.ndarray[tuple[int], np.dtype[np.float32]], ...]:
    # Masks are stored as floats, which are exact up to 2^24.
    return tuple(
        values.astype(np.float32) for values in (arm.flux, arm.ivar, arm.wavelength, arm.and_mask, arm.or_mask)
    )


def _spectrograph(observed: Observed) -> int:
    return observed.object_number % SPECTROGRAPHS + 1


def _fibre(observed: Observed) -> int:
    return (observed.fibre - 1) % FIBRES + 1


def _cards(observed: Observed, arm: Arm, release: str) -> list[bytes]:
    as_table = release in TABLE_RELEASES
    start, step = np.log10(arm.wavelength[0]), np.log10(arm.wavelength[-1] / arm.wavelength[0])
    coeff0, coeff1 = round(float(start), 6), round(float(step) / (arm.wavelength.size - 1), 8)
    moment = day(observed.mjd).isoformat()
    cards = [
        *LABEL,
        comment("--------FILE INFORMATION"),
        card("FILENAME", file_name(observed)),
        card("OBSID", obsid(observed), "Unique number ID of this spectrum"),
        card("AUTHOR", ORIGIN, "Who compiled the information"),
        card("DATA_V", f"SIMULATED {release.upper()}", "Data release version"),
    ]
    if as_table:
        cards += [card("N_EXTEN", 2, "The amount of extension"), card("NORM", 0, "1 if there is a normalized spectrum")]
    else:
        cards += [card("EXTEN0", "Flux, Inverse, Wavelength, Andmask, Ormask"), card("N_EXTEN", 1)]
        cards += [card("EXTNAME", "Flux", "The extension name")]
    cards += [
        *_TELESCOPE,
        card("DATE-OBS", f"{moment}T16:00:00", "The observation median UTC"),
        card("LMJD", observed.mjd + 1, "Local Modified Julian Day"),
        card("MJD", observed.mjd, "Modified Julian Day"),
        card("PLANID", plan(observed), "Plan ID in use"),
        card("RA", observed.ra, "[deg] Right ascension of object"),
        card("DEC", observed.dec, "[deg] Declination of object"),
        card("DESIG", f"SIMULATED {sexagesimal(observed)}", "Designation of LAMOST target"),
        card("FIBERID", _fibre(observed), "Fiber ID of Object"),
        card("OBJNAME", observed.object_id, "Name of object"),
        card("OBJTYPE", "Star", "Object type from input catalog"),
        card("TSOURCE", "SIMULATED", "Name of input catalog"),
    ]
    if as_table:
        cards += [card("FIB_TYPE", "Obj", "Fiber type of object"), card("FIB_MASK", 0, "0 means good")]
        cards += [card("MAG_PS_R", observed.magnitude_r, "[mag] Magnitude of object", decimals=2)]
    else:
        cards += [card("FIBERTYP", "Obj", "Fiber type of object"), card("FIBERMAS", 0, "0 means all is well")]
        cards += [card("MAGTYPE", "r", "Magnitude type of object")]
        cards += [card("MAG1", observed.magnitude_r, "[mag] Mag1 of object", decimals=2)]
    cards += [
        *_OBSERVATION,
        card("SPID", _spectrograph(observed), "Spectrograph ID"),
        *_REDUCTION,
        card("COEFF0", coeff0, "Central wavelength (log10) of first pixel"),
        card("COEFF1", coeff1, "Log10 dispersion per pixel"),
        *_AXIS,
        card("CRVAL1", coeff0, "Central wavelength (log10) of first pixel"),
        card("CD1_1", coeff1, "Log10 dispersion per pixel"),
        comment("--------SPECTRA ANALYSIS RESULTS"),
        card("VERSPIPE", "SIMULATED", "Version of Pipeline"),
        card("CLASS", observed.pipeline_class, "Class of object"),
        card("SUBCLASS", observed.pipeline_subclass or "Non", "Subclass of object"),
        card("Z", filled(observed.pipeline_z), "Redshift of object", decimals=8),
        card("Z_ERR", filled(observed.pipeline_z_error), "Redshift error of object", decimals=8),
        card("ZFLAG", "PIPELINE", "Which method computes the redshift"),
    ]
    for name, low, high in _FILTERS:
        snr = median_snr(arm, low, high)
        cards.append(card(f"SNR{name}", snr, f"SNR of {name.lower()} filter", decimals=2))
    return cards


_TELESCOPE = (
    comment("--------TELESCOPE PARAMETERS"),
    card("TELESCOP", "LAMOST", "GuoShouJing Telescope (here: simulated)"),
    card("LONGITUD", 117.58, "[deg] Longitude of site", decimals=2),
    card("LATITUDE", 40.39, "[deg] Latitude of site", decimals=2),
    comment("--------OBSERVATION PARAMETERS"),
)
_OBSERVATION = (
    card("OBS_TYPE", "OBJ", "The type of target (OBJ, FLAT, ARC or BIAS)"),
    card("RADECSYS", "FK5", "Equatorial coordinate system"),
    card("EQUINOX", 2000.0, "Equinox in years", decimals=2),
    card("NEXP", 3, "Number of valid exposures"),
    card("EXPTIME", 5400.0, "[s] Minimum of exposure time for all cameras", decimals=2),
    comment("--------SPECTROGRAPH PARAMETERS"),
)
_REDUCTION = (
    card("SLIT_MOD", "x2/3", "Slit mode, x1, x2/3 or x1/2"),
    comment("--------DATA REDUCTION PARAMETERS"),
    card("HELIO", True, "Heliocentric correction"),
    card("VACUUM", True, "Wavelengths are in vacuum"),
    card("NWORDER", 2, "Number of linear-log10 coefficients"),
    card("WFITTYPE", "LOG-LINEAR", "Linear-log10 dispersion"),
)
_AXIS = (
    card("CRPIX1", 1, "Starting pixel (1-indexed)"),
    card("CTYPE1", "LINEAR"),
    card("DC-FLAG", 1, "Log-linear flag"),
)
