"""One-dimensional FITS images with a wavelength scale in the header: MILES, STELIB, IRAF products (`image-1d`)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_float, build
from specvet.spectra.readers.columns import column_role, from_log10, in_angstrom, not_flux
from specvet.spectra.readers.companions import Companions, add
from specvet.spectra.readers.fitsfile import FitsInput, card, is_table, shape_of
from specvet.spectra.readers.scale import Scale, medium_of, wavelength_scale
from specvet.spectra.readers.values import FRAMES, degrees, identifiers, mjd_of, number, stem, text
from specvet.spectra.spectrum import Medium, Spectrum

MAX_ROWS = 20_000
"""Most spectra of one image."""

_STELIB_CARDS = {"STARIDEN", "SPECTYPE", "ISEXTINC"}
"""Cards that only STELIB writes together (Le Borgne et al. 2003, A&A 402, 433)."""


def one_dimensional(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `image-1d`: the first 1-D image with a wavelength scale, or with an image that holds the wavelengths.

    Further images of the same length are ivar, error or mask where EXTNAME says so, or where what they hold shows it;
    those with a wavelength scale of their own (arms of a spectrograph) are entries of their own. An image that is named
    for a sky, a model or a line spread function is never taken for the flux. A two-dimensional FLUX beside WAVELENGTH
    is one entry a row (`image-rows`).
    """
    images = [hdu for hdu in fits.hdus if not is_table(hdu) and _length(hdu)]
    if not images or (len(fits.primary_shape) != 1 and fits.primary_shape):
        return None
    hdu = _flux_image(images)
    own = None if hdu is None else _own_scale(fits, hdu, must=True)
    wide = _wide_flux(fits)
    if wide is not None and own is None and (hdu is None or column_role(hdu.name) != "flux"):
        return _rows_of(fits, wide, images)
    if hdu is None:
        return None
    arms = [(other, scale) for other in images if other is not hdu and (scale := _arm_scale(fits, other, own))]
    fluxes = [hdu, *(arm for arm, _ in arms)]
    rest = [image for image in images if all(image is not flux for flux in fluxes)]
    beside = [[image for image in rest if _belongs(image, flux, fluxes)] for flux in fluxes]
    scale = _named_scale(fits, beside[0]) or own
    if scale is None and hdu is not fits.primary:
        scale = wavelength_scale(fits.primary.header, _length(hdu), fits.file)
    if scale is None:
        return None
    notes = [
        f"table {number_} ({table.name.strip() or 'not named'}) beside the image ignored"
        for number_, table in fits.tables()
        if _has_wavelengths(fits, table)
    ]
    for image in [*rest, *([] if wide is None else [wide])]:
        if all(image is not used for group in beside for used in group):
            size = "x".join(map(str, shape_of(image)))
            notes.append(f"image {fits.number(image)} ({image.name.strip() or 'not named'}, {size} pixels) ignored")
    scales = [scale, *(its_scale for _, its_scale in arms)]
    together = enumerate(zip(fluxes, scales, beside, strict=True))
    return [
        _entry(fits, flux, its_scale, group, notes if row == 0 else [], row, fluxes)
        for row, (flux, its_scale, group) in together
    ]


def _arm_scale(fits: FitsInput, hdu: Any, first: Scale | None) -> Scale | None:
    """The scale of an image that is a spectrum of its own: not named for something else, and not on the `first`'s."""
    roles = {column_role(word) for word in (hdu.name, *_words(hdu.name))} - {None, "flux"}
    if first is None or roles or not_flux(hdu.name):
        return None
    scale = _own_scale(fits, hdu)
    return None if scale is None or _same(scale, first) else scale


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\s_\-]+", name.strip().upper()) if word]


def _arm_of(hdu: Any) -> list[str]:
    """The words of an image's name that say which arm it is: `BLUE` of `BLUE_FLUX`."""
    return [word for word in _words(hdu.name) if column_role(word) != "flux" and word != "PRIMARY"]


def _belongs(image: Any, flux: Any, fluxes: list[Any]) -> bool:
    """Whether an image is beside this flux: of its length, and by its name not beside another."""
    if _length(image) != _length(flux):
        return False
    words = set(_words(image.name))
    named = [other for other in fluxes if (arm := set(_arm_of(other))) and arm <= words]
    if named:
        return any(other is flux for other in named)
    return flux is next(other for other in fluxes if _length(other) == _length(image))


def _flux_image(images: list[Any]) -> Any | None:
    """The image that is named for a flux, else the first that is not named for something else."""
    named = next((hdu for hdu in images if column_role(hdu.name) == "flux"), None)
    if named is not None:
        return named
    return next((hdu for hdu in images if column_role(hdu.name) is None and not not_flux(hdu.name)), None)


def _entry(
    fits: FitsInput, hdu: Any, scale: Scale, others: list[Any], notes: list[str], row: int, fluxes: list[Any]
) -> Spectrum:
    """The spectrum of one image with `others` beside it; one of several says which."""
    many = len(fluxes) > 1
    flux = as_float(fits.image(hdu)).reshape(-1)
    found = Companions(notes=[*scale.notes, *notes])
    for other in others:
        label = f"image {fits.number(other)}"
        values = fits.image(other).reshape(-1)
        called = " ".join(word for word in _words(other.name) if word not in _arm_of(hdu)) or other.name.strip()
        add(found, label, called if column_role(called) else other.name.strip(), values, flux, scale.wavelength)
    fields = about(fits, hdu.header, scale)
    if many:
        name = hdu.name.strip() or f"HDU {fits.number(hdu)}"
        fields["id"], fields["ids"] = f"{fields['id']} {name}".strip(), fields["ids"] | {"hdu": name}
    return build(
        fits.file,
        scale.wavelength,
        flux,
        **found.fields,
        layout="image-1d",
        row=row,
        keep_dead=many,
        flux_unit=text(card(hdu.header, "BUNIT")),
        **fields,
    )


def _own_scale(fits: FitsInput, hdu: Any, *, must: bool = False) -> Scale | None:
    """The scale of an image's own header; with `must`, one that is no wavelength is an error, else it is none."""
    try:
        return wavelength_scale(hdu.header, _length(hdu), fits.file)
    except SpectrumReadError:
        if (
            must
            and _named_scale(fits, [i for i in fits.hdus if not is_table(i) and _length(i) == _length(hdu)]) is None
        ):
            raise
        return None


def _same(scale: Scale, other: Scale | None) -> bool:
    """Whether two scales are one."""
    if other is None:
        return False
    a, b = scale.wavelength, other.wavelength
    return a.size == b.size and bool(np.allclose(a, b, rtol=1e-6, atol=0.0))


def _has_wavelengths(fits: FitsInput, hdu: Any) -> bool:
    return any(column_role(name) in ("wavelength", "loglam") for name in fits.table(hdu).names)


def spectrum_length(fits: FitsInput) -> int:
    """Pixels of the primary 1-D image where it has a wavelength scale; 0 where it has none."""
    if len(fits.primary_shape) != 1:
        return 0
    try:
        scale = wavelength_scale(fits.primary.header, fits.primary_shape[0], fits.file)
    except SpectrumReadError:
        return 0
    return fits.primary_shape[0] if scale is not None else 0


_WIDE_NAMES = {"DATA", "SCI", "SCIENCE", "SPECTRA"}


def _wide_flux(fits: FitsInput) -> Any | None:
    """An image of two axes or more that is named for a flux; None without one."""
    return next(
        (
            hdu
            for hdu in fits.hdus
            if not is_table(hdu)
            and len(shape_of(hdu)) >= 2
            and not _length(hdu)
            and (column_role(hdu.name) == "flux" or hdu.name.strip().upper() in _WIDE_NAMES)
        ),
        None,
    )


def _rows_of(fits: FitsInput, hdu: Any, images: list[Any]) -> list[Spectrum]:
    """One entry a row of a two-dimensional flux over the wavelengths of a named image or of its own header."""
    shape, name = shape_of(hdu), hdu.name.strip()
    if len(shape) != 2 or shape[0] > MAX_ROWS:
        problem = f"image {fits.number(hdu)} ({name}) has shape {shape}: a cube or too many spectra"
        raise SpectrumReadError(fits.file, f"{problem}; save the spectra that you want by themselves")
    scale = _named_scale(fits, [i for i in images if _length(i) == shape[1]]) or wavelength_scale(
        hdu.header, shape[1], fits.file
    )
    if scale is None:
        problem = f"image {fits.number(hdu)} ({name}) of shape {shape} has no wavelengths of that length"
        raise SpectrumReadError(fits.file, f"{problem}; name an image WAVELENGTH")
    scale.wavelength.flags.writeable = False  # one grid, shared by all rows
    flux = as_float(fits.image(hdu))
    beside = [o for o in fits.hdus if o is not hdu and not is_table(o) and shape_of(o) == shape]
    arrays = [(fits.number(o), o.name.strip(), fits.image(o)) for o in beside if column_role(o.name)]
    out = []
    for row in range(shape[0]):
        found = Companions(notes=list(scale.notes))
        for number_, its_name, values in arrays:
            add(found, f"image {number_}", its_name, values[row], flux[row], scale.wavelength)
        fields = about(fits, fits.primary.header, scale)
        fields["id"] = f"{fields['id']} row {row + 1}".strip()
        out.append(
            build(
                fits.file,
                scale.wavelength,
                flux[row],
                **found.fields,
                layout="image-rows",
                row=row,
                keep_dead=True,
                flux_unit=text(card(hdu.header, "BUNIT")),
                **fields,
            )
        )
    return out


def _named_scale(fits: FitsInput, others: list[Any]) -> Scale | None:
    """Wavelengths from an image that is named so."""
    for hdu in others:
        role = column_role(hdu.name)
        if role in ("wavelength", "loglam"):
            values = as_float(fits.image(hdu)).reshape(-1)
            unit = text(card(hdu.header, "BUNIT")) or text(card(hdu.header, "CUNIT1"))
            notes: list[str] = []
            grid = from_log10(values, fits.file) if role == "loglam" else in_angstrom(values, unit, fits.file, notes)
            medium = medium_of(hdu.header)
            medium = medium if medium != "unknown" else medium_of(fits.primary.header)
            return Scale(grid, medium, tuple(notes))
    return None


def _length(hdu: Any) -> int:
    """Pixels of a 1-D image (or one of shape 1 x N); 0 for others."""
    shape = shape_of(hdu)
    return int(shape[-1]) if shape and all(axis == 1 for axis in shape[:-1]) else 0


def about(fits: FitsInput, header: Any, scale: Scale) -> dict[str, Any]:
    """What an image's header says of the target, shared by all image layouts."""
    stelib = all(key in header for key in _STELIB_CARDS)
    miles = text(card(header, "TPLLIB")).upper() == "MILES"
    # Both libraries are in air: Falcon-Barroso et al. 2011, A&A 532, A95; Le Borgne et al. 2003.
    medium: Medium = "air" if (stelib or miles) and scale.medium == "unknown" else scale.medium
    sdss = text(card(header, "TELESCOP")).upper().startswith("SDSS")
    name = text(card(header, "OBJECT"))
    fwhm = number(card(header, "FWHM")) if miles else None
    equinox = number(card(header, "EQUINOX", 2000.0)) or number(text(card(header, "EQUINOX")).lstrip("BJ"))
    # STELIB writes right ascensions in radians and for B1950; only J2000 sexagesimal ones can be trusted.
    # SDSS writes where the telescope looked, a plate's centre.
    usable = equinox == 2000.0 and not sdss and not (stelib and number(card(header, "RA")) is not None)
    julian = number(card(header, "JD")) or number(card(header, "HJD"))
    return {
        "medium": medium,
        "calibration": "relative" if miles else "unknown",
        "resolution": float(np.median(scale.wavelength)) / fwhm if fwhm else None,
        # MILES spectra are corrected for the radial velocity of the star (Sanchez-Blazquez et al. 2006).
        "frame": "rest" if miles else FRAMES.get(text(card(header, "SPECSYS")), "unknown"),
        "mjd": number(card(header, "MJD-OBS")) or (julian - 2400000.5 if julian else mjd_of(card(header, "DATE-OBS"))),
        "ra": degrees(card(header, "RA"), hours=True) if usable else None,
        "dec": degrees(card(header, "DEC"), hours=False) if usable else None,
        "id": name or stem(fits.file),
        "ids": identifiers(object=name),
        "survey": "MILES" if miles else "STELIB" if stelib else "SDSS" if sdss else "unknown",
    }
