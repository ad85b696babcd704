"""Other FITS tables that name their columns: vectors in rows (`table-vector`) or one row a pixel (`table`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_float, build, ivar_from_sigma
from specvet.spectra.readers.columns import Role, from_log10, in_angstrom, medium_in, roles
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.values import FRAMES, degrees, identifiers, mjd_of, number, stem, text
from specvet.spectra.spectrum import FloatArray, Medium, Spectrum


def spectra_in_table(fits: FitsInput) -> list[Spectrum] | None:
    """Layouts `table-vector` (one entry a row) and `table`: the first table whose columns are named so."""
    for number_, hdu in fits.tables():
        names = list(fits.table(hdu).names.values())
        found = roles(names)
        has_wavelength = "wavelength" in found or "loglam" in found
        if "flux" not in found and not has_wavelength:
            continue
        if "flux" not in found or not has_wavelength:
            need = "wavelength" if "flux" in found else "flux"
            problem = f"HDU {number_} {hdu.name} has no {need} column (it has: {', '.join(names)[:300]})"
            raise SpectrumReadError(fits.file, problem)
        return _Table(fits, hdu, names, found).spectra()
    return None


class _Table:
    def __init__(self, fits: FitsInput, hdu: Any, names: list[str], found: dict[Role, int]) -> None:
        self.fits, self.hdu, self.names, self.found = fits, hdu, names, found
        self.table = fits.table(hdu)
        self.columns = self.table.names
        self.mastar = any(name.startswith("mangaid") for name in self.columns) and "mprocver" in self.columns

    def spectra(self) -> list[Spectrum]:
        rows = self.table.rows
        if rows == 0:
            raise SpectrumReadError(self.fits.file, f"HDU {self.hdu.name} has no rows")
        vector = np.ndim(self._column("flux")[0]) > 0
        if not vector:
            return [self._spectrum(None, "table", False)]
        return [self._spectrum(row, "table-vector", rows > 1) for row in range(rows)]

    def _column(self, role: Role) -> NDArray[Any]:
        return self.fits.column(self.hdu, self.names[self.found[role]])

    def _values(self, role: Role, row: int | None) -> FloatArray | None:
        if role not in self.found:
            return None
        column = self._column(role)
        return as_float(column if row is None else column[row])

    def _unit(self, role: Role) -> str:
        return self.table.unit(self.names[self.found[role]]) if role in self.found else ""

    def _spectrum(self, row: int | None, layout: str, keep_dead: bool) -> Spectrum:
        wavelength = self._values("wavelength", row)
        if wavelength is not None:
            wavelength = in_angstrom(wavelength, self._unit("wavelength"), self.fits.file)
        else:
            wavelength = from_log10(np.asarray(self._values("loglam", row)), self.fits.file)
        ivar = self._values("ivar", row)
        sigma, variance = self._values("sigma", row), self._values("variance", row)
        if ivar is None and sigma is not None:
            ivar = ivar_from_sigma(sigma)
        elif ivar is None and variance is not None:
            ivar = ivar_from_sigma(np.sqrt(np.maximum(variance, 0.0)))
        flux = self._values("flux", row)
        assert flux is not None
        return build(
            self.fits.file,
            wavelength,
            flux,
            ivar=ivar,
            mask=self._values("mask", row),
            keep_dead=keep_dead,
            layout=layout,
            row=row or 0,
            flux_unit=self._unit("flux"),
            **self._about(row or 0),
        )

    def _cell(self, row: int, *names: str) -> Any:
        values = (self.fits.column(self.hdu, name)[row] for name in names if name in self.columns)
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
        wavelength_name = self.names[self.found.get("wavelength", self.found.get("loglam", 0))]
        said = stated("VACUUM", "AIRORVAC")
        medium: Medium = "vacuum" if said is True else "air" if said is False else medium_in(text(said))
        if medium == "unknown":
            medium = medium_in(wavelength_name.replace("_", " "))
        own = text(self._cell(row, "object", "objname", "name", "targetid", "id", "source_id"))
        name = own or text(stated("OBJECT", "OBJNAME"))
        return {
            "medium": medium,
            "calibration": {"ABSOLUTE": "absolute", "RELATIVE": "relative"}.get(text(stated("FLUXCAL")), "unknown"),
            "frame": FRAMES.get(text(stated("SPECSYS")), "unknown"),
            "mjd": number(stated("MJD-OBS")) or number(self._cell(row, "mjd")) or mjd_of(stated("DATE-OBS")),
            "ra": number(self._cell(row, "ra")) or degrees(stated("RA"), hours=True),
            "dec": number(self._cell(row, "dec")) or degrees(stated("DEC"), hours=False),
            "id": name or stem(self.fits.file),
            "ids": identifiers(object=name),
        }
