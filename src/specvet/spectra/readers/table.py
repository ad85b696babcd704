"""Other FITS tables that name their columns: vectors in rows (`table-vector`) or one row a pixel (`table`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_float, build, ivar_of
from specvet.spectra.readers.columns import Role, angstroms_per, from_log10, in_angstrom, medium_in, roles, unit_in_name
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.image import spectrum_length
from specvet.spectra.readers.scale import Scale, wavelength_scale
from specvet.spectra.readers.tidy import ID_NAMES, spectra_by_id
from specvet.spectra.readers.values import FRAMES, degrees, identifier, identifiers, mjd_of, number, stem, text
from specvet.spectra.spectrum import FloatArray, Medium, Spectrum

MAX_TABLES = 2000
"""Most tables of one file that are read as spectra."""


def spectra_in_table(fits: FitsInput) -> list[Spectrum] | None:
    """Layouts `table-vector` (one entry a row) and `table` (one entry), from every table whose columns are named so.

    A table with a flux and no wavelength column takes the scale of its header or of the primary one (CRVAL1, COEFF0).
    Tables beside an image that is the spectrum (of its lines, say) are left to the reader of images.
    """
    pixels = spectrum_length(fits)
    if pixels and not any(_as_long(fits, hdu, pixels) for _, hdu in fits.tables()):
        return None
    found: list[_Table] = []
    lacking = ""
    for number_, hdu in fits.tables():
        if len(found) == MAX_TABLES:
            raise SpectrumReadError(fits.file, f"more than {MAX_TABLES} tables with spectra; split the file")
        table = fits.table(hdu)
        names = list(table.names.values())
        has = roles(names)
        has_wavelength = "wavelength" in has or "loglam" in has
        if "flux" not in has and not has_wavelength:
            continue
        if "flux" in has and not has_wavelength:
            scale = _header_scale(fits, hdu, names[has["flux"]])
            if scale is not None:
                found.append(_Table(fits, hdu, names, has, scale))
                continue
        if "flux" in has and has_wavelength:
            if table.rows > 0:
                found.append(_Table(fits, hdu, names, has, None))
            else:
                lacking = lacking or f"HDU {number_} {hdu.name} has no rows"
            continue
        need = "wavelength" if "flux" in has else "flux"
        lacking = lacking or f"HDU {number_} {hdu.name} has no {need} column (it has: {', '.join(names)[:300]})"
    if not found:
        if lacking:
            raise SpectrumReadError(fits.file, lacking)
        return None
    out: list[Spectrum] = []
    for one in found:
        out += one.spectra(len(out), len(found) > 1)
    return out


def _as_long(fits: FitsInput, hdu: Any, pixels: int) -> bool:
    """Whether a table holds a spectrum of half as many pixels as the image, so that it is no list of its lines."""
    table = fits.table(hdu)
    found = roles(list(table.names.values()))
    if "flux" not in found or table.rows == 0:
        return False
    return int(np.size(fits.column(hdu, list(table.names.values())[found["flux"]]))) >= pixels / 2


def _header_scale(fits: FitsInput, hdu: Any, flux: str) -> Scale | None:
    """The scale that a header states for the pixels of a table's flux."""
    if fits.table(hdu).rows == 0:
        return None
    values = fits.column(hdu, flux)
    n = values.shape[1] if values.ndim == 2 else values.shape[0]
    own = wavelength_scale(hdu.header, n, fits.file)
    return own if own is not None else wavelength_scale(fits.primary.header, n, fits.file)


class _Table:
    def __init__(
        self, fits: FitsInput, hdu: Any, names: list[str], found: dict[Role, int], scale: Scale | None
    ) -> None:
        self.fits, self.hdu, self.names, self.found, self.scale = fits, hdu, names, found, scale
        if scale is not None:
            scale.wavelength.flags.writeable = False  # one grid, shared by all rows
        self.table = fits.table(hdu)
        self.columns = self.table.names
        self._decoded: dict[str, NDArray[Any]] = {}
        self.mastar = any(name.startswith("mangaid") for name in self.columns) and "mprocver" in self.columns

    def spectra(self, start: int, one_of_many: bool) -> list[Spectrum]:
        """Its spectra, numbered from `start`; a spectrum of one table among many says which."""
        rows = self.table.rows
        vector = np.ndim(self._column("flux")[0]) > 0
        many = one_of_many or (vector and rows > 1)
        if vector:
            out = [self._spectrum(row, "table-vector", many, start + row) for row in range(rows)]
        else:
            out = self._of_pixels(many, start)
        if not one_of_many:
            return out
        name = self.hdu.name.strip() or f"HDU {self.fits.number(self.hdu)}"
        return [s.replace(id=f"{s.id} {name}".strip(), ids=s.ids | {"hdu": name}) for s in out]

    def _of_pixels(self, many: bool, start: int) -> list[Spectrum]:
        """The spectrum of a table with a pixel a row, or the spectra that a column of identifiers tells apart."""
        axis = next((role for role in ("wavelength", "loglam") if role in self.found), None)
        ids = {name: self._named(name) for name in ID_NAMES if name in self.columns}
        told = spectra_by_id(ids, self._column(axis)) if axis is not None and ids else None
        if told is None:
            return [self._spectrum(None, "table", many, start)]
        whole, (name, parts) = dict(self._decoded), told
        out = []
        for place, (own, rows) in enumerate(parts):
            self._decoded = {key: values[rows] for key, values in whole.items()}
            for key in self.columns:
                if key not in self._decoded and len(column := self.fits.column(self.hdu, key)) == self.table.rows:
                    whole[key], self._decoded[key] = column, column[rows]
            one = self._spectrum(None, "table", True, start + place)
            out.append(one.replace(id=own, ids=one.ids | {name: own}) if own else one)
        self._decoded = whole
        return out

    def _column(self, role: Role) -> NDArray[Any]:
        return self._named(self.names[self.found[role]])

    def _named(self, name: str) -> NDArray[Any]:
        """A column, decoded once: every row asks for it."""
        name = name.lower()
        if name not in self._decoded:
            self._decoded[name] = self.fits.column(self.hdu, name)
        return self._decoded[name]

    def _values(self, role: Role, row: int | None) -> FloatArray | None:
        if role not in self.found:
            return None
        column = self._column(role)
        return as_float(column if row is None else column[row])

    def _bits(self, row: int | None) -> NDArray[Any] | None:
        """The mask as it stands: whole numbers of 64 bits do not survive as float64."""
        if "mask" not in self.found:
            return None
        column = self._column("mask")
        values = column if row is None else column[row]
        return values if values.dtype.kind in "iufb" else None

    def _unit(self, role: Role) -> str:
        return self.table.unit(self.names[self.found[role]]) if role in self.found else ""

    def _stated_unit(self) -> str:
        headers = (self.hdu.header, self.fits.primary.header)
        return next((unit for header in headers if (unit := text(card(header, "BUNIT")))), "")

    def _spectrum(self, row: int | None, layout: str, keep_dead: bool, place: int) -> Spectrum:
        wavelength = self._values("wavelength", row)
        notes = list(self.scale.notes) if self.scale is not None else []
        if self.scale is not None:
            wavelength = self.scale.wavelength
        elif wavelength is not None:
            unit = self._unit("wavelength") or unit_in_name(self.names[self.found["wavelength"]])
            wavelength = in_angstrom(wavelength, unit, self.fits.file, notes)
        else:
            factor = angstroms_per(self._unit("loglam")) or 1.0
            wavelength = from_log10(np.asarray(self._values("loglam", row)) + np.log10(factor), self.fits.file)
        ivar = ivar_of({role: self._values(role, row) for role in ("ivar", "sigma", "variance")})
        flux = self._values("flux", row)
        assert flux is not None
        return build(
            self.fits.file,
            wavelength,
            flux,
            ivar=ivar,
            mask=self._bits(row),
            warnings=notes,
            keep_dead=keep_dead,
            layout=layout,
            row=place,
            flux_unit=self._unit("flux") or self._stated_unit(),
            **self._about(row or 0),
        )

    def _cell(self, row: int, *names: str) -> Any:
        values = (self._named(name)[row] for name in names if name in self.columns)
        return next((v for v in values if np.ndim(v) == 0), None)

    def _about(self, row: int) -> dict[str, Any]:
        """Columns of the row, where rows are targets; else the header."""
        headers = (self.hdu.header, self.fits.primary.header)

        def stated(*keys: str) -> Any:
            return next((v for k in keys for h in headers if (v := card(h, k)) not in (None, "")), None)

        if self.mastar:
            # MaStar: vacuum, R 1800, flux-calibrated; Yan et al. 2019, ApJ 883, 175.
            ids = identifiers(
                mangaid=self._cell(row, "mangaid", "mangaid_1"),
                plate=self._cell(row, "plate"),
                ifudesign=self._cell(row, "ifudesign"),
                mjd=self._cell(row, "mjd"),
            )
            return {
                "medium": "vacuum",
                "calibration": "absolute",
                "resolution": 1800.0,
                "mjd": number(self._cell(row, "mjd")),
                "ra": number(self._cell(row, "ra")),
                "dec": number(self._cell(row, "dec")),
                "id": ids.get("mangaid", ""),
                "ids": ids,
                "survey": "MaStar",
                "reduction": text(self._cell(row, "mprocver")),
            }
        index = self.found.get("wavelength", self.found.get("loglam"))
        wavelength_name = "" if index is None else self.names[index]
        said = stated("VACUUM", "AIRORVAC")
        medium: Medium = "vacuum" if said is True else "air" if said is False else medium_in(text(said))
        if medium == "unknown" and self.scale is not None:
            medium = self.scale.medium
        if medium == "unknown":
            medium = medium_in(wavelength_name.replace("_", " "))
        own = identifier(self._cell(row, "object", "objname", "name", "targetid", "id", "source_id"))
        position = (("ra", "raj2000", "ra_deg", "target_ra"), ("dec", "dej2000", "decj2000", "dec_deg", "target_dec"))
        ra, dec = (number(self._cell(row, *names)) for names in position)
        mjd = next(
            (v for v in (number(self._cell(row, "mjd", "mean_mjd")), number(stated("MJD-OBS"))) if v is not None), None
        )
        name = own or text(stated("OBJECT", "OBJNAME"))
        return {
            "medium": medium,
            "calibration": {"ABSOLUTE": "absolute", "RELATIVE": "relative"}.get(text(stated("FLUXCAL")), "unknown"),
            "frame": FRAMES.get(text(stated("SPECSYS")), "unknown"),
            "mjd": mjd if mjd is not None else mjd_of(stated("DATE-OBS")),
            "ra": ra if ra is not None else degrees(stated("RA"), hours=True),
            "dec": dec if dec is not None else degrees(stated("DEC"), hours=False),
            "id": name or stem(self.fits.file),
            "ids": identifiers(object=name),
        }
