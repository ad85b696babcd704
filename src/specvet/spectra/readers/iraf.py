"""IRAF: many spectra in one image, each with its own dispersion (`multispec`) or all with the same (`equispec`).

After Valdes 1993, "The IRAF/NOAO Spectral World Coordinate Systems" (`help specwcs`). The third axis holds bands of
the same spectra, named BANDIDn: the first is the spectrum, one called sigma its error.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.readers.building import as_float, build, ivar_from_sigma
from specvet.spectra.readers.columns import in_angstrom
from specvet.spectra.readers.fitsfile import FitsInput, card
from specvet.spectra.readers.image import about
from specvet.spectra.readers.scale import Scale, medium_of, wavelength_scale
from specvet.spectra.readers.values import number, stem, text
from specvet.spectra.spectrum import FloatArray, Spectrum

MAX_APERTURES = 5000
MAX_COEFFICIENTS = 1000


def multispec(fits: FitsInput) -> list[Spectrum] | None:
    """Layout `iraf-multispec` or `iraf-equispec`: one entry an aperture, in the order of the image's lines."""
    header, shape = fits.primary.header, fits.primary_shape
    attributes = wat(header, 2)
    system = text(card(header, "WAT0_001")).lower()
    is_multispec = text(card(header, "CTYPE1")).upper().startswith("MULTISPE") and "spec1" in attributes
    is_equispec = "equispec" in system or (len(shape) in (2, 3) and "APNUM1" in header)
    if not shape or not (is_multispec or is_equispec) or (len(shape) == 1 and not is_multispec):
        return None
    if len(shape) > 3:
        raise SpectrumReadError(fits.file, f"an IRAF image of {len(shape)} axes; at most three are read")
    data = fits.image(fits.primary).astype(np.float64)
    cube = data.reshape((1,) * (3 - data.ndim) + data.shape)
    bands, lines, n = cube.shape
    if cube.size == 0:
        raise SpectrumReadError(fits.file, f"an IRAF image of shape {shape} has no pixels; damaged header?")
    if lines > MAX_APERTURES:
        raise SpectrumReadError(fits.file, f"{lines} apertures in one image, {MAX_APERTURES} at most")
    flux_band, sigma_band, notes = _bands(header, bands)
    scales = _Scales(fits, attributes, n) if is_multispec else None
    same = None if is_multispec else wavelength_scale(header, n, fits.file)
    if scales is None and same is None:
        return None
    if same is not None:
        same.wavelength.flags.writeable = False  # one grid, shared by all lines
    out: list[Spectrum] = []
    for line in range(lines):
        scale = same if scales is None else scales.of(line + 1)
        assert scale is not None
        pixels = slice(0, scale.wavelength.size)
        flux = as_float(cube[flux_band, line, pixels])
        ivar = None if sigma_band is None else ivar_from_sigma(cube[sigma_band, line, pixels])
        fields = about(fits, header, scale)
        aperture = text(card(header, f"APNUM{line + 1}")).split(" ")[0] if scales is None else scales.aperture(line + 1)
        title = text(card(header, f"APID{line + 1}"))
        name = fields["ids"].get("object") or stem(fits.file)
        fields["ids"] |= {key: value for key, value in (("aperture", aperture), ("title", title)) if value}
        fields["id"] = name if lines == 1 else title or f"{name} aperture {aperture or line + 1}"
        out.append(
            build(
                fits.file,
                scale.wavelength,
                flux,
                ivar=ivar,
                warnings=[*notes, *scale.notes],
                keep_dead=lines > 1,
                layout="iraf-multispec" if is_multispec else "iraf-equispec",
                row=line,
                flux_unit=text(card(header, "BUNIT")),
                **fields,
            )
        )
    return out


def wat(header: Any, axis: int) -> dict[str, str]:
    """The attributes `name = value` of an axis, joined from the cards WATi_001, WATi_002, …

    A card's value has 68 characters; blanks at the end of one that is continued belong to it, but FITS drops them.
    """
    parts = []
    for index in range(1, 10_000):
        value = card(header, f"WAT{axis}_{index:03d}")
        if value is None:
            break
        parts.append(str(value))
    joined = "".join(part.ljust(68) for part in parts[:-1]) + (parts[-1] if parts else "")
    found = re.findall(r"\b(\w+)\s*=\s*(?:\"([^\"]*)(?:\"|$)|(\S+))", joined)
    return {name.lower(): quoted or plain for name, quoted, plain in found}


def _bands(header: Any, bands: int) -> tuple[int, int | None, list[str]]:
    """Which band is the spectrum, which its error (None), and a note on what is left out."""
    named = [text(card(header, f"BANDID{band + 1}")) for band in range(bands)]
    sigma = next((b for b, name in enumerate(named) if re.match(r"sigma|error|uncertainty", name, re.I)), None)
    flux = next((b for b, name in enumerate(named) if b != sigma and re.match(r"spectrum|flux", name, re.I)), 0)
    left_out = [f"band {b + 1} ({named[b] or 'not named'}) ignored" for b in range(bands) if b not in (flux, sigma)]
    return flux, sigma, left_out


class _Scales:
    """The dispersion functions `specN` of a multispec image."""

    def __init__(self, fits: FitsInput, attributes: dict[str, str], n: int) -> None:
        self.file, self.attributes, self.n = fits.file, attributes, n
        header = fits.primary.header
        self.unit = wat(header, 1).get("units", "")
        self.medium = medium_of(header)
        # Physical pixel p of logical pixel l: p = (l - LTV1) / LTM1_1.
        shift, zoom = number(card(header, "LTV1")) or 0.0, number(card(header, "LTM1_1")) or 1.0
        self.physical = (np.arange(1, n + 1, dtype=np.float64) - shift) / zoom
        self.offset = int(number(card(header, "LTV2")) or 0.0)
        self.one_line = len(fits.primary_shape) == 1
        if self.one_line:
            # One line taken out of an image: WAXMAP01 = '1 0 0 k' says that it was line k + 1.
            taken = re.fullmatch(r"1 0 0 (\d+)( .*)?", text(card(header, "WAXMAP01")))
            self.offset = -int(taken[1]) if taken else 0

    def _fields(self, line: int) -> list[float]:
        name = f"spec{line - self.offset}"
        specs = [key for key in self.attributes if re.fullmatch(r"spec\d+", key)]
        if self.one_line and name not in self.attributes and len(specs) == 1:
            name = specs[0]
        if name not in self.attributes:
            raise SpectrumReadError(self.file, f"the header has no dispersion {name} (IRAF multispec); damaged header?")
        try:
            fields = [float(word) for word in self.attributes[name].split()]
        except ValueError:
            raise SpectrumReadError(self.file, f"the dispersion {name} holds no numbers; damaged?") from None
        if len(fields) < 7:
            raise SpectrumReadError(self.file, f"the dispersion {name} has {len(fields)} fields, 9 expected")
        return fields

    def aperture(self, line: int) -> str:
        return str(int(self._fields(line)[0]))

    def of(self, line: int) -> Scale:
        fields = self._fields(line)
        kind, first, step, valid, z = int(fields[2]), fields[3], fields[4], int(fields[5]), fields[6]
        if kind == -1:
            problem = f"line {line} has no wavelengths (dtype -1, not dispersion calibrated); calibrate it first"
            raise SpectrumReadError(self.file, problem)
        physical = self.physical[: valid if 2 <= valid < self.n else self.n]
        if kind in (0, 1):
            values = first + step * (physical - 1.0)
            if kind == 1:
                with np.errstate(over="ignore"):
                    values = 10.0**values
            values = values / (1.0 + z)
        elif kind == 2:
            values = self._nonlinear(fields[9:], physical, line) / (1.0 + z)
        else:
            raise SpectrumReadError(self.file, f"line {line} has the dispersion type {kind}; IRAF knows -1, 0, 1 and 2")
        notes = (f"IRAF moved the wavelengths by 1/(1 + {z:g})",) if z else ()
        said = list(notes)
        return Scale(in_angstrom(np.asarray(values), self.unit, self.file, said), self.medium, tuple(said))

    def _nonlinear(self, fields: list[float], physical: FloatArray, line: int) -> FloatArray:
        total, weights = np.zeros_like(physical), 0.0
        while fields:
            if len(fields) < 6:
                raise SpectrumReadError(self.file, f"the dispersion function of line {line} is cut off; damaged?")
            weight, zero, kind = fields[0], fields[1], int(fields[2])
            values, used = self._function(kind, fields[3:], physical, line)
            total, weights = total + weight * (zero + values), weights + weight
            fields = fields[3 + used :]
        # IRAF's own code (noao/onedspec, smw/wfmspec.x) divides by the sum of the weights, which its help leaves out.
        return total / weights if weights else total

    def _function(self, kind: int, fields: list[float], p: FloatArray, line: int) -> tuple[FloatArray, int]:
        """Values of one function at the physical pixels `p`, and how many fields it took."""
        if kind in (5, 6):
            return self._samples(kind, fields, p, line)
        name = {1: "Chebyshev polynomial", 2: "Legendre polynomial", 3: "cubic spline", 4: "linear spline"}
        if kind not in name:
            problem = f"line {line} has a dispersion function of the unknown kind {kind}; linearise it (IRAF dispcor)"
            raise SpectrumReadError(self.file, problem)
        order, low, high = int(fields[0]), fields[1], fields[2]
        extra = {1: 0, 2: 0, 3: 3, 4: 1}[kind]
        coefficients = np.array(fields[3 : 3 + order + extra])
        if not 1 <= order <= MAX_COEFFICIENTS or coefficients.size != order + extra or high <= low:
            raise SpectrumReadError(self.file, f"the {name[kind]} of line {line} is cut off or damaged")
        if kind in (1, 2):
            n = (p - 0.5 * (high + low)) / (0.5 * (high - low))
            polynomial = np.polynomial.chebyshev.chebval if kind == 1 else np.polynomial.legendre.legval
            return np.asarray(polynomial(n, coefficients)), 3 + order
        s = (p - low) / (high - low) * order
        j = np.clip(np.floor(s), 0, order - 1).astype(np.intp)
        b = s - j
        a = 1.0 - b
        if kind == 4:
            return np.asarray(a * coefficients[j] + b * coefficients[j + 1]), 3 + order + extra
        basis = (a**3, 1 + 3 * a * (1 + a * b), 1 + 3 * b * (1 + a * b), b**3)
        return np.asarray(sum(coefficients[j + i] * x for i, x in enumerate(basis))), 3 + order + extra

    def _samples(self, kind: int, fields: list[float], p: FloatArray, line: int) -> tuple[FloatArray, int]:
        """A wavelength for each pixel (5), or pairs of pixel and wavelength (6), joined by straight lines."""
        n, start, width = int(fields[0]), (1 if kind == 5 else 2), (1 if kind == 5 else 2)
        values = np.array(fields[start : start + n * width])
        if n < 2 or values.size != n * width:
            raise SpectrumReadError(self.file, f"the table of wavelengths of line {line} is cut off or damaged")
        pixels, wavelengths = (np.arange(1.0, n + 1), values) if kind == 5 else (values[0::2], values[1::2])
        if not bool(np.all(np.diff(pixels) > 0)):
            raise SpectrumReadError(self.file, f"the pixels of the wavelength table of line {line} do not increase")
        return np.interp(p, pixels, wavelengths, left=np.nan, right=np.nan), start + n * width
