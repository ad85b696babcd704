"""SDSS, BOSS, eBOSS and SDSS-V spec files, full and lite.

HDU 1 has one row a pixel (flux, loglam, ivar, and_mask, …), a later HDU one row about the target: SPECOBJ (legacy) or
SPALL (BOSS). Column names come in both letter cases. Data model: data.sdss.org/datamodel, `spec`.
"""

from __future__ import annotations

from typing import Any

from specvet.spectra.readers.building import build
from specvet.spectra.readers.columns import from_log10
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.values import identifiers, number, redshift, text
from specvet.spectra.spectrum import Join, Medium, Spectrum

_MARKS = {"and_mask", "or_mask", "wdisp", "wresl"}

JOIN = Join(5900.0, 6300.0, "SDSS blue/red")
_TARGET_IDS = (
    "plate",
    "mjd",
    "fiberid",
    "specobjid",
    "bestobjid",
    "fluxobjid",
    "thing_id",
    "field",
    "catalogid",
    "sdss_id",
)


def spec(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `sdss-spec`: columns that only SDSS has, or a table about the target.

    Missing redshift table: fields come from the header, the redshift stays None.
    """
    coadd = next(((n, hdu) for n, hdu in fits.tables() if {"loglam", "flux"} <= fits.table(hdu).names.keys()), None)
    if coadd is None or fits.table(coadd[1]).rows < 2:
        return None
    position, hdu = coadd
    names = fits.table(hdu).names
    wavelength = from_log10(fits.column(hdu, "loglam"), fits.file)
    if wavelength.ndim != 1 or not (_MARKS & names.keys() or _target(fits, position)):
        return None  # log wavelength, flux and ivar alone are anybody's
    flux, ivar = fits.column(hdu, "flux"), fits.column(hdu, "ivar")
    mask_name = next((n for n in ("and_mask", "or_mask", "mask") if n in names), None)
    mask = fits.column(hdu, mask_name) if mask_name else None

    header = fits.primary.header
    target = _target(fits, position)
    notes = [] if target else ["no SPECOBJ or SPALL table: redshift and class unknown"]
    ids = identifiers(**{key: target.get(key, card(header, key.upper())) for key in _TARGET_IDS})
    ids.setdefault("plate", identifiers(plate=card(header, "PLATEID")).get("plate", ""))
    ids = {key: value for key, value in ids.items() if value and not value.startswith("-")}
    zwarning = number(target.get("zwarning")) or 0
    warned = f"ZWARNING={int(zwarning)}" if zwarning else ""
    unit = text(card(header, "BUNIT")) or fits.table(hdu).unit("flux") or "1E-17 erg/cm^2/s/Ang"
    medium: Medium = "air" if card(header, "VACUUM") is False else "vacuum"
    return [
        build(
            fits.file,
            wavelength,
            flux,
            ivar=ivar,
            mask=mask,
            joins=(JOIN,),
            warnings=notes,
            medium=medium,
            flux_unit=unit,
            calibration="absolute",
            # R 1500 at 3800 Å to 2500 at 9000 Å: Smee et al. 2013, AJ 146, 32.
            resolution=2000.0,
            frame="heliocentric",
            mjd=number(target.get("mjd")) or number(card(header, "MJD")),
            ra=_angle(target, header, ("plug_ra", "racat", "fiber_ra"), "PLUG_RA"),
            dec=_angle(target, header, ("plug_dec", "deccat", "fiber_dec"), "PLUG_DEC"),
            redshift=redshift(target.get("z"), target.get("z_err"), f"{target.get('hdu', '')} Z".strip(), warned),
            pipeline_class=text(target.get("class")),
            pipeline_subclass=text(target.get("subclass")),
            id=plate_name(ids),
            ids=ids,
            survey="SDSS",
            reduction=text(target.get("run2d")) or text(card(header, "RUN2D")) or text(card(header, "VERS2D")),
            layout="sdss-spec",
            n_exposures=len(single_exposures(fits)),
        )
    ]


def single_exposures(fits: FitsInput) -> list[Any]:
    """The tables of single exposures in a full spec file: pixels like the coadd's, behind it."""
    spectra = [hdu for _, hdu in fits.tables() if {"loglam", "flux", "ivar"} <= fits.table(hdu).names.keys()]
    return [hdu for hdu in spectra[1:] if fits.table(hdu).rows > 1]


def _target(fits: FitsInput, after: int) -> dict[str, Any]:
    """The one row about the target, keys in lower case; empty where the file has none."""
    for position, hdu in fits.tables():
        table = fits.table(hdu)
        if position <= after or table.rows != 1:
            continue
        if {"class", "z"} <= table.names.keys():
            wanted = (*_TARGET_IDS, "class", "subclass", "z", "z_err", "zwarning", "run2d")
            angles = ("plug_ra", "plug_dec", "racat", "deccat", "fiber_ra", "fiber_dec")
            out = {key: fits.column(hdu, key)[0] for key in (*wanted, *angles) if key in table.names}
            return out | {"hdu": hdu.name.strip().upper() or f"HDU {position}"}
    return {}


def _angle(target: dict[str, Any], header: Any, columns: tuple[str, ...], key: str) -> float | None:
    # Never RA and DEC of the header: they are the telescope's.
    values = [number(target.get(column)) for column in columns] + [number(card(header, key))]
    return next((value for value in values if value is not None), None)


def plate_name(ids: dict[str, str]) -> str:
    """`0266-51602-0013`, or FIELD-MJD-CATALOGID for SDSS-V."""
    numbers = [ids.get(key, "") for key in ("plate", "mjd", "fiberid")]
    if all(value.isdecimal() for value in numbers):
        plate, mjd, fiber = map(int, numbers)
        return f"{plate:04d}-{mjd:05d}-{fiber:04d}"
    if {"field", "mjd", "catalogid"} <= ids.keys():
        return f"{ids['field']}-{ids['mjd']}-{ids['catalogid']}"
    return ids.get("specobjid") or ids.get("catalogid", "")
