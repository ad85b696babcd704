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
    ("loglam", re.compile(r"log(?:10)?_?(?:lam|lambda|wave|wavelength|wl)")),
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
    ("mask", re.compile(r"(?:and_?|or_?|pix_?|bit_?|pixel_)?mask|(?:pixel_?)?flags?|dq|qual(?:ity)?")),
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
    plain = _plain(name)
    return next((role for role, pattern in _ROLES if pattern.fullmatch(plain)), None)


def _plain(name: str) -> str:
    """In lower case, without what stands in brackets, words joined by `_`."""
    plain = re.sub(r"\s*[(\[].*$", "", name).strip().strip("\"'").lower()
    return re.sub(r"[\s.\-]+", "_", plain)


_FLUX_RANKS = (
    re.compile(r"flux(?:es)?"),
    re.compile(r"f_?lam(?:bda)?|flux_?(?:lambda|density)"),
    re.compile(r"f|fl"),
    re.compile(r"norm.*|.*norm(?:ali[sz]ed)?"),
    re.compile(r"intensity|spec(?:trum)?"),
)
"""Names of fluxes, the surest first; raw counts come behind all of them."""

_OTHER_AXIS = re.compile(
    r"(?:time|date|day|b?jd|[hbm]jd|phase|(?:obs_?)?date|freq(?:uency)?|nu|wave_?numbers?|vel(?:ocity)?|rv|energy|"
    r"ra|dec|ra_?j?2000|de(?:c)?_?j?2000|glon|glat|[lb]|teff|t_eff|log_?g|(?:fe_?h|m_?h|feh|metallicity)|id|"
    r"(?:source|object|target|obj|obs|spec)_?id|plate|fiber(?:id)?|mag(?:nitude)?|pix(?:el)?s?|index|row|order|"
    r"parallax|redshift|bp_?rp)"
    r"(?:_?(?:s|sec|d|days?|hz|[kmgt]hz|cm_?1|km_?s_?1?|[kmg]?ev|deg|k|mas|utc|tdb|bjd|mjd|jd))*"
)
_QUANTITY = re.compile(
    r"(?:[ugrizyjhkbv]_?)?(?:mag(?:nitude)?)(?:_?err(?:or)?)?|e_?[ugrizyjhkbv]?mag|(?:mag|rv|vel)_?err(?:or)?"
)
_NO_NAME = re.compile(r"|[a-z]|(?:col(?:umn)?|c|unnamed|field|var|v)[_: ]*\d+")
"""`x`, `y` and `col1` say nothing of what a column holds."""


def roles(names: list[str]) -> dict[Role, int]:
    """Role → index of the column that has it: of several fluxes the one whose name is surest, else the first."""
    out: dict[Role, int] = {}
    for index, name in enumerate(names):
        role = column_role(name)
        if role is not None and (role not in out or flux_rank(name) < flux_rank(names[out[role]])):
            out[role] = index
    return out


def flux_rank(name: str) -> int:
    """How sure it is that a column of this name is the flux: 0 for `flux`; the same for all that are no flux."""
    plain = _plain(name)
    return next((rank for rank, pattern in enumerate(_FLUX_RANKS) if pattern.fullmatch(plain)), len(_FLUX_RANKS))


def other_quantity(name: str) -> bool:
    """Whether a column of this name holds what is neither wavelength nor flux: a time, a frequency, a position …"""
    plain = _plain(name)
    return _OTHER_AXIS.fullmatch(plain) is not None or _QUANTITY.fullmatch(plain) is not None


def says_nothing(name: str) -> bool:
    """Whether a name leaves open what the column holds."""
    return _NO_NAME.fullmatch(_plain(name)) is not None


_NOT_FLUX = re.compile(
    r"(?:.*_)?(?:sky|lsf|models?|fit|best_?fit|cont(?:inuum)?|resol?(?:ution)?|w?disp(?:ersion)?|fwhm|templates?|"
    r"tell(?:uric)?s?|trans(?:mission)?|resp(?:onse)?|sens(?:func)?|arc|flat|back(?:ground)?|bkg|blaze|residuals?|"
    r"throughput|exptime|snr?|s2n|npix|nexp|rms)(?:_?\d+|_.*)?"
)


def not_flux(name: str) -> bool:
    """Whether an image of this name is beside a flux and none itself: the sky, a model, a line spread function …"""
    return _NOT_FLUX.fullmatch(_plain(name)) is not None


_UNIT_INSIDE = re.compile(
    r"(?:^|_|waves?|wavelengths?|lam|lambda|wl|wvl?)"
    r"(nm|nanomet(?:er|re)s?|um|microns?|angstroms?|angs?|aa)(?=_|$)"
)
_MEDIUM_WORDS = re.compile(r"(?:in\s+)?(?:air|vac(?:uum)?)", re.IGNORECASE)


def _plain_unit(unit: str) -> str:
    """In lower case, without blanks (`0.1 nm`) and the full stop of an abbreviation."""
    return re.sub(r"\s+", "", unit.lower()).rstrip(".")


def angstroms_per(unit: str) -> float | None:
    """Å in one `unit`, or None where it is no unit of wavelength that is known here."""
    name = _UNIT_NAMES.get(_plain_unit(unit))
    return None if name is None else _PER_UNIT[name]


def unit_in_name(name: str) -> str:
    """The unit in `Wave (Angstrom)`, `wave[nm]` or `wavelength_nm`; empty where there is none."""
    brackets: list[str] = re.findall(r"[(\[]\s*([^)\]]*?)\s*[)\]]", name)
    units = [b for b in brackets if not _MEDIUM_WORDS.fullmatch(b)]  # `wavelength in Angstrom (vacuum)`
    if units:
        return next((u for u in units if u.lower() in _UNIT_NAMES), units[0])
    if column_role(name) != "wavelength":
        return ""
    plain = _plain(name)
    tail = plain.rpartition("_")[2]
    if tail in _UNIT_NAMES and tail != plain:
        return tail
    inside = _UNIT_INSIDE.search(plain)  # `wavelength_nm_air`, `lambdanm`
    return inside[1] if inside else ""


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
    try:
        loglam = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpectrumReadError(file, "loglam holds no numbers; give log10 of the wavelength in Å") from None
    if loglam.size and loglam.min() > 2.5 and loglam.max() < 6.0:
        return np.asarray(10.0**loglam)
    finite = loglam[np.isfinite(loglam)]
    if finite.size and not 2.5 < float(np.median(finite)) < 6.0:
        problem = f"loglam runs from {finite.min():g} to {finite.max():g}, which is no log10 of Å"
        raise SpectrumReadError(file, f"{problem}; give log10 of the wavelength in Å")
    return np.asarray(10.0**loglam)


def in_angstrom(wavelength: FloatArray, unit: str, file: str, notes: list[str] | None = None) -> FloatArray:
    """Wavelengths in Å from the stated `unit`; without one they must be plausible as Å, since a guess would be silent.

    What may be nanometres all the same is said in `notes`. Raises `SpectrumReadError` for units that are no wavelength,
    for values that can only be nm or µm, and for plain numbers of pixels.
    """
    stated = _plain_unit(unit)
    if re.fullmatch(r"(?:dex|log(?:10)?)\s*[(\[]?\s*(?:a|å|ang|angstroms?)?\s*[)\]]?", stated):
        return from_log10(wavelength, file)
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
    if is_count(wavelength):
        problem = f"the wavelengths are {wavelength[0]:g}, {wavelength[1]:g}, … {wavelength[-1]:g}: numbers of pixels"
        raise SpectrumReadError(file, f"{problem}; name the column of wavelengths, or calibrate the spectrum")
    low = float(finite.min())
    if notes is not None and low >= _NEAR_INFRARED_NM[0] and top <= _NEAR_INFRARED_NM[1]:
        notes.append(f"wavelengths {low:g} to {top:g} without a unit taken for Å; if they are nm, state the unit")
    return wavelength


def is_count(values: FloatArray) -> bool:
    """Whether `values` are 0, 1, 2, … or 1, 2, 3, …, as a column that numbers the rows holds them."""
    flat = np.asarray(values).reshape(-1)
    if flat.size < 2 or flat[0] not in (0.0, 1.0):
        return False
    return bool(np.array_equal(flat, np.arange(flat.size) + flat[0]))


_NEAR_INFRARED_NM = (900.0, 2600.0)
"""Where spectra from Y to K lie in nm; in Å it is the far ultraviolet, where few are."""
