"""Single exposures of coadded spectra: SDSS full spec files, LAMOST medium resolution, and files of visits.

Each function gets the opened file and returns the exposures, or None where the file is not its kind. An exposure is a
`Spectrum` of one arm with `ids["exposure"]`, `ids["arm"]` and its own MJD (start of the exposure, UTC); its `row` is
that of the spectrum it belongs to, whose identity, position and redshift it shares.
"""

from __future__ import annotations

import re
from typing import Any

from specvet.spectra.readers import desi, lamost, mwm, sdss
from specvet.spectra.readers.building import as_bits, as_float, build, clean_ivar
from specvet.spectra.readers.columns import from_log10
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.values import number, text
from specvet.spectra.spectrum import Spectrum

_TAI_MINUS_UTC = 37.0 / 86400
"""Days since 2017 (32 to 36 s before): good to 5 s for every SDSS exposure."""


def sdss_exposures(fits: FitsInput) -> list[Spectrum] | None:
    """The tables behind a full spec file's coadd: one exposure each, of one camera (to SDSS-IV) or both."""
    found = sdss.single_exposures(fits)
    parents = sdss.spec(fits)
    if parents is None:
        return None
    (parent,) = parents
    out = []
    for hdu in found:
        names = fits.table(hdu).names
        mask = next((name for name in ("mask", "pixmask", "or_mask", "and_mask") if name in names), None)
        camera, exposure = _sdss_name(hdu.name)
        out.append(
            _exposure(
                parent,
                build(
                    fits.file,
                    from_log10(fits.column(hdu, "loglam"), fits.file),
                    as_float(fits.column(hdu, "flux")),
                    ivar=clean_ivar(fits.column(hdu, "ivar")) if "ivar" in names else None,
                    mask=as_bits(fits.column(hdu, mask)) if mask else None,
                    keep_dead=True,
                    joins=(sdss.JOIN,) if camera == "b+r" else (),
                ),
                arm=camera,
                exposure=exposure,
                mjd=_tai_mjd(hdu.header),
            )
        )
    return out


def _sdss_name(name: str) -> tuple[str, str]:
    """Camera and exposure of an HDU: `B2-00014178-00014176-00014177` is one of b2, numbered as the telescope did;
    `MJD_EXP_05123-02` (SDSS-V, idlspec2d) the second of configuration 5123, both cameras joined."""
    old = re.fullmatch(r"([BR][12]?)-(\d{8})(?:-.*)?", name.strip().upper())
    if old:
        return old[1].lower(), old[2]
    return "b+r", name.strip().upper().removeprefix("MJD_EXP_")


def _tai_mjd(header: Any) -> float | None:
    """TAI-BEG, in seconds since MJD 0; else None."""
    seconds = number(card(header, "TAI-BEG"))
    return None if seconds is None or seconds <= 0 else seconds / 86400 - _TAI_MINUS_UTC


def lamost_exposures(fits: FitsInput) -> list[Spectrum] | None:
    """HDUs B-xxxx and R-xxxx of a medium-resolution file; xxxx is the local modified Julian minute (LMJM)."""
    hdus = lamost.single_exposures(fits)
    if not hdus:
        return [] if "COADD_B" in fits.named or "COADD_R" in fits.named else None
    parents = lamost.medium_resolution(fits, alone=True)
    parent = parents[0] if parents else None
    shared = lamost.header_fields(fits.primary.header)
    out = []
    for hdu in hdus:
        arm = lamost.arm_of(fits, hdu)
        one = build(
            fits.file,
            arm.wavelength,
            arm.flux[0],
            ivar=arm.ivar[0],
            mask=arm.mask[0],
            keep_dead=True,
            layout="lamost-mrs",
            resolution=lamost.MRS_RESOLUTION,
            **shared,
        )
        minute = text(card(hdu.header, "LMJM")) or hdu.name.strip()[2:]
        out.append(_exposure(parent or one, one, arm=arm.name, exposure=minute, mjd=_local_minute_mjd(minute)))
    return out


def _local_minute_mjd(minute: str) -> float | None:
    """MJD (UTC) of a local modified Julian minute: Beijing is 8 h ahead, all year."""
    value = number(minute)
    return None if value is None else value / 1440.0 - 8.0 / 24.0


def visits(fits: FitsInput) -> list[Spectrum] | None:
    """Files whose rows are exposures or visits already: DESI `spectra-*`, SDSS-V mwmVisit. Coadds have none."""
    for reader in (desi.coadd_or_spectra, mwm.mwm):
        found = reader(fits)
        if found:
            rows = [s for s in found if s.layout in ("desi-spectra", "sdss-mwm-visit")]
            return [
                s.replace(
                    ids=s.ids | {"exposure": s.ids.get("expid") or _visit(s), "arm": s.ids.get("arm") or _arms(s)}
                )
                for s in rows
            ]
    return None


def _arms(spectrum: Spectrum) -> str:
    """The arms of DESI that are joined in a row: `b+r+z`, without those that are said to be missing."""
    missing = {warning.split()[1] for warning in spectrum.warnings if re.match(r"arm [BRZ] missing", warning)}
    return "+".join(arm.lower() for arm in "BRZ" if arm not in missing)


def _visit(spectrum: Spectrum) -> str:
    return f"MJD {spectrum.mjd:g}" if spectrum.mjd is not None else f"row {spectrum.row}"


def _exposure(parent: Spectrum, one: Spectrum, *, arm: str, exposure: str, mjd: float | None) -> Spectrum:
    """`one`'s pixels with the identity of `parent`."""
    return parent.replace(
        wavelength=one.wavelength,
        flux=one.flux,
        ivar=one.ivar,
        mask=one.mask,
        joins=one.joins,
        warnings=one.warnings,
        mjd=mjd,
        ids=parent.ids | {"exposure": exposure, "arm": arm},
        n_exposures=0,
    )


EXPOSURE_READERS = (lamost_exposures, visits, sdss_exposures)
"""Tried in this order."""
