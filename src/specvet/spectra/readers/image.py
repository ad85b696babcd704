"""One-dimensional FITS images with a wavelength scale in the header: MILES, STELIB, IRAF products (`image-1d`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_float, build, ivar_from_sigma
from specvet.spectra.readers.columns import column_role, in_angstrom, medium_in
from specvet.spectra.readers.fitsfile import FitsInput, card, is_table
from specvet.spectra.readers.values import FRAMES, degrees, identifiers, mjd_of, number, stem, text
from specvet.spectra.spectrum import FloatArray, Medium, Spectrum

_STELIB_CARDS = {"STARIDEN", "SPECTYPE", "ISEXTINC"}
"""Cards that only STELIB writes together (Le Borgne et al. 2003, A&A 402, 433)."""


def one_dimensional(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `image-1d`: the first 1-D image with CRVAL1 and a step.

    The scale is linear, or log10 where DC-FLAG is 1 or COEFF0 stands there; other scales are refused by name. Further
    images of the same length are taken as ivar or error only if EXTNAME says so.
    """
    images = [hdu for hdu in fits.hdus if not is_table(hdu) and _length(hdu)]
    if not images or (len(fits.primary_shape) != 1 and fits.primary_shape):
        return None
    hdu = images[0]
    header = hdu.header
    n = _length(hdu)
    wavelength = _scale(fits, header, n)
    if wavelength is None:
        return None
    ivar, notes = _errors(fits, [other for other in images[1:] if _length(other) == n])
    flux = as_float(fits.image(hdu)).reshape(-1)
    return [
        build(
            fits.file,
            wavelength,
            flux,
            ivar=ivar,
            warnings=notes,
            layout="image-1d",
            flux_unit=text(card(header, "BUNIT")),
            **_about(fits, header, wavelength),
        )
    ]


def _length(hdu: Any) -> int:
    """Pixels of a 1-D image (or one of shape 1 x N); 0 for others."""
    shape = tuple(hdu.shape or ())
    return int(shape[-1]) if shape and all(axis == 1 for axis in shape[:-1]) else 0


def _scale(fits: FitsInput, header: Any, n: int) -> FloatArray | None:
    first, reference = number(card(header, "CRVAL1")), number(card(header, "CRPIX1", 1.0))
    step = number(card(header, "CDELT1")) or number(card(header, "CD1_1"))
    kind = text(card(header, "CTYPE1")).upper()
    logarithmic = number(card(header, "DC-FLAG")) == 1 or kind.startswith("LOG") or "COEFF0" in header
    if "COEFF0" in header:
        first, step, reference = number(card(header, "COEFF0")), number(card(header, "COEFF1")), 1.0
    if first is None or not step or reference is None:
        return None
    if kind.endswith(("-LOG", "-TAB", "-GRI", "-GRA", "-F2W", "-V2W")) or kind[:4] in ("FREQ", "ENER", "VELO", "WAVN"):
        raise SpectrumReadError(fits.file, f"the scale CTYPE1={kind} is left to a later version: save it as a table")
    axis: FloatArray = np.asarray(first + step * (np.arange(1, n + 1) - reference), dtype=np.float64)
    if logarithmic:
        if not 2.0 < first < 6.0:
            problem = f"a logarithmic scale that starts at {first:g} is no log10 of Å; left to a later version"
            raise SpectrumReadError(fits.file, problem)
        return np.asarray(10.0**axis)
    return in_angstrom(axis, text(card(header, "CUNIT1")), fits.file)


def _errors(fits: FitsInput, others: list[Any]) -> tuple[FloatArray | None, list[str]]:
    """ivar from the images that say they hold it, and notes on those that hold something else."""
    unnamed = [hdu for hdu in others if not hdu.name.strip()]
    if unnamed:
        raise SpectrumReadError(
            fits.file,
            f"{len(unnamed) + 1} images of the same length, and which is the error is not stated (no EXTNAME); "
            "left to a later version: save wavelength, flux and error as a table",
        )
    for hdu in others:
        role = column_role(hdu.name)
        if role in ("ivar", "sigma"):
            values = as_float(fits.image(hdu)).reshape(-1)
            return (values if role == "ivar" else ivar_from_sigma(values)), []
    return None, [f"image {hdu.name} ignored" for hdu in others]


def _about(fits: FitsInput, header: Any, wavelength: FloatArray) -> dict[str, Any]:
    stelib = all(key in header for key in _STELIB_CARDS)
    miles = text(card(header, "TPLLIB")).upper() == "MILES"
    kind = text(card(header, "CTYPE1")).upper()
    medium: Medium = "unknown"
    if card(header, "VACUUM") is True or kind == "WAVE":
        medium = "vacuum"
    elif card(header, "VACUUM") is False or kind == "AWAV" or stelib or miles:
        # Both libraries are in air: Falcon-Barroso et al. 2011, A&A 532, A95; Le Borgne et al. 2003.
        medium = "air"
    else:
        medium = medium_in(f"{text(card(header, 'AIRORVAC'))} {text(card(header, 'WAT1_001'))}")
    name = text(card(header, "OBJECT"))
    fwhm = number(card(header, "FWHM")) if miles else None
    equinox = number(card(header, "EQUINOX", 2000.0)) or number(text(card(header, "EQUINOX")).lstrip("BJ"))
    # STELIB writes right ascensions in radians and for B1950; only J2000 sexagesimal ones can be trusted.
    usable = equinox == 2000.0 and not (stelib and number(card(header, "RA")) is not None)
    julian = number(card(header, "JD")) or number(card(header, "HJD"))
    return {
        "medium": medium,
        "calibration": "relative" if miles else "unknown",
        "resolution": float(np.median(wavelength)) / fwhm if fwhm else None,
        # MILES spectra are corrected for the radial velocity of the star (Sanchez-Blazquez et al. 2006).
        "frame": "rest" if miles else FRAMES.get(text(card(header, "SPECSYS")), "unknown"),
        "mjd": number(card(header, "MJD-OBS")) or (julian - 2400000.5 if julian else mjd_of(card(header, "DATE-OBS"))),
        "ra": degrees(card(header, "RA"), hours=True) if usable else None,
        "dec": degrees(card(header, "DEC"), hours=False) if usable else None,
        "id": name or stem(fits.file),
        "ids": identifiers(object=name),
        "survey": "MILES" if miles else "STELIB" if stelib else "unknown",
    }
