"""What a column is, judged by its name; what unit its wavelengths are in. Shared by tables, text and NPZ files."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.spectrum import FloatArray, Medium

Role = Literal["wavelength", "loglam", "flux", "ivar", "sigma", "variance", "mask"]

_UNIT_TAIL = r"(?:air|vac(?:uum)?|obs|aa?|ang(?:stroms?)?|nm|nanomet(?:er|re)s?|um|microns?|in)"
_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("loglam", re.compile(r"(?:log(?:10)?_?(?:lam|lambda|wave|wavelength)|loglam)")),
    (
        "wavelength",
        re.compile(
            rf"(?:{_UNIT_TAIL}_)?(?:wave(?:length)?s?|wvl?|wl|lam(?:bda)?|λ|spectral_axis|angstroms?)(?:_?{_UNIT_TAIL})*"
        ),
    ),
    ("ivar", re.compile(r"(?:flux_)?(?:ivar|invvar|inv_var|inverse_?var(?:iance)?)(?:_flux)?|inverse")),
    (
        "sigma",
        re.compile(
            r"(?:flux_?)?(?:err(?:ors?)?|sig(?:ma)?|unc(?:ert(?:ainty|ainties)?)?|std(?:_?dev)?|noise|standard_deviation)"
            r"(?:_?flux)?|[ed]_?flux|ferr"
        ),
    ),
    ("variance", re.compile(r"(?:flux_)?var(?:iance)?(?:_flux)?")),
    ("mask", re.compile(r"(?:and_?|or_?|pix_?)?mask|flags?|dq")),
    (
        "flux",
        re.compile(
            r"(?:norm(?:ali[sz]ed)?_)?(?:flux(?:es)?|f|fl|f_?lam(?:bda)?|flux_?(?:lambda|density|norm)|"
            r"intensity|counts|spec(?:trum)?)(?:_norm(?:ali[sz]ed)?)?"
        ),
    ),
)
_PER_UNIT = {"angstrom": 1.0, "nm": 10.0, "um": 1e4, "mm": 1e7, "cm": 1e8, "m": 1e10}
_UNIT_NAMES = {
    **dict.fromkeys(("a", "aa", "å", "ang", "angs", "angstrom", "angstroms", "0.1nm"), "angstrom"),
    **dict.fromkeys(("nm", "nanometer", "nanometers", "nanometre", "nanometres"), "nm"),
    **dict.fromkeys(("um", "µm", "μm", "micron", "microns", "micrometer", "micrometers", "micrometre"), "um"),
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), "m"),
    "mm": "mm",
    "cm": "cm",
}


def column_role(name: str) -> Role | None:
    """What a column named `name` holds, or None where the name does not say."""
    plain = re.sub(r"\s*[(\[].*$", "", name).strip().strip("\"'").lower()
    plain = re.sub(r"[\s.\-]+", "_", plain)
    return next((role for role, pattern in _ROLES if pattern.fullmatch(plain)), None)


def roles(names: list[str]) -> dict[Role, int]:
    """Role → index of the first column that has it."""
    out: dict[Role, int] = {}
    for index, name in enumerate(names):
        role = column_role(name)
        if role is not None:
            out.setdefault(role, index)
    return out


_MEDIUM_WORDS = re.compile(r"(?:in\s+)?(?:air|vac(?:uum)?)", re.IGNORECASE)


def unit_in_name(name: str) -> str:
    """The unit in `Wave (Angstrom)`, `wave[nm]` or `wavelength_nm`; empty where there is none."""
    brackets: list[str] = re.findall(r"[(\[]\s*([^)\]]*?)\s*[)\]]", name)
    units = [b for b in brackets if not _MEDIUM_WORDS.fullmatch(b)]  # `wavelength in Angstrom (vacuum)`
    if units:
        return next((u for u in units if u.lower() in _UNIT_NAMES), units[0])
    tail = re.split(r"[\s_]+", name.strip().strip("\"'"))[-1]
    return tail if tail.lower() in _UNIT_NAMES and column_role(name) == "wavelength" and tail != name else ""


def medium_in(words: str) -> Medium:
    """Air or vacuum, where exactly one of them is named in `words`."""
    lowered = words.lower()
    air = bool(re.search(r"(?<![a-z])air(?![a-z])|awav", lowered))
    vacuum = bool(re.search(r"(?<![a-z])vac(?:uum)?(?![a-z])", lowered))
    if air == vacuum:
        return "unknown"
    return "air" if air else "vacuum"


def from_log10(values: ArrayLike, file: str) -> FloatArray:
    """Wavelengths in Å from their decadic logarithm. Raises `SpectrumReadError` where that cannot be what they are."""
    loglam = np.asarray(values, dtype=np.float64)
    finite = loglam[np.isfinite(loglam)]
    if finite.size and not 2.5 < float(np.median(finite)) < 6.0:
        problem = f"loglam runs from {finite.min():g} to {finite.max():g}, which is no log10 of Å"
        raise SpectrumReadError(file, f"{problem}; give log10 of the wavelength in Å")
    return np.asarray(10.0**loglam)


def in_angstrom(wavelength: FloatArray, unit: str, file: str) -> FloatArray:
    """Wavelengths in Å from the stated `unit`; without one they must be plausible as Å, since a guess would be silent.

    Raises `SpectrumReadError` for units that are no wavelength and for values that may be nm or µm.
    """
    stated = re.sub(r"[\s.]+$", "", unit.strip().lower())
    if stated:
        if stated not in _UNIT_NAMES:
            raise SpectrumReadError(file, f"wavelengths in {unit!r} are not understood; use Angstrom, nm or um")
        return wavelength * _PER_UNIT[_UNIT_NAMES[stated]]
    finite = wavelength[np.isfinite(wavelength)]
    if finite.size == 0:
        raise SpectrumReadError(file, "no wavelength is finite")
    top = float(finite.max())
    if top < 1200.0:
        hint = "name the unit in the header, such as 'wavelength (nm)'" if top > 0.1 else "is this column a wavelength?"
        low = float(finite.min())
        raise SpectrumReadError(
            file, f"values {low:g} to {top:g} without a unit are not plausible wavelengths in Å; {hint}"
        )
    if float(np.median(finite)) > 1e7:
        raise SpectrumReadError(file, f"values up to {top:g} are not plausible wavelengths in Å; state the unit")
    return wavelength
