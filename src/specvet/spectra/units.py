"""Flux units as surveys write them: `1E-17 erg/cm^2/s/Ang`, `10**-17 erg/(s cm2 Angstrom)`, `Flux (10^-17 …/A)`.

astropy refuses most of these, and reads `A` as ampere without a word. `flux_unit` reads them all the same way.
"""

from __future__ import annotations

import re
from typing import Any

_SYMBOLS = {
    **dict.fromkeys(("erg", "ergs"), "erg"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    "cm": "cm",
    "m": "m",
    # In a flux density A is Å: nobody measures starlight by the ampere.
    **dict.fromkeys(("a", "aa", "å", "ang", "angs", "angstrom", "angstroms"), "Angstrom"),
    **dict.fromkeys(("nm", "nanometer", "nanometers"), "nm"),
    **dict.fromkeys(("um", "µm", "μm", "micron", "microns"), "um"),
    **dict.fromkeys(("hz", "hertz"), "Hz"),
    **dict.fromkeys(("jy", "jansky"), "Jy"),
    "mjy": "mJy",
    **dict.fromkeys(("ujy", "µjy", "μjy"), "uJy"),
    **dict.fromkeys(("w", "watt", "watts"), "W"),
    "j": "J",
    **dict.fromkeys(("adu", "adus"), "adu"),
    **dict.fromkeys(("count", "counts", "ct", "cts"), "ct"),
    **dict.fromkeys(("electron", "electrons", "e-"), "electron"),
    **dict.fromkeys(("photon", "photons", "ph"), "photon"),
    "nanomaggy": "nanomaggy",
    "dn": "DN",
}
_EXACT = {"MJy": "MJy", "Mjy": None, "MJY": None}
"""A mega is no milli; what may be either is not understood."""

_LENGTHS = {"Angstrom", "nm", "um", "cm", "m"}
_MAX_LENGTH = 200
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|(?P<word>[A-Za-zÅµμ]+)|(?P<sign>\*\*|[\^*/().{}·×+-]))"
)
_POWER = re.compile(
    r"(?:\s*(?:\*\*|\^)\s*(?:[({]\s*(?P<bracketed>[+-]?\d+(?:\.\d+)?)\s*[)}]|(?P<raised>[+-]?\d+(?:\.\d+)?))|"
    r"[({](?P<enclosed>[+-]?\d+)[)}]|(?P<adjacent>[+-]?\d+))"
)
"""`^-2`, `**(-2)`, or a number that touches what it raises: `cm2`, `s-1`, `10(-17)`."""
_IN_BRACKETS = re.compile(r"^[A-Za-z_ ]*flux[A-Za-z_ ]*[(\[](.+)[)\]]\s*$", re.IGNORECASE)


def flux_unit(text: str) -> Any | None:
    """The astropy unit that `text` means, or None where it means none (`relative flux`, empty) or is not understood.

    Powers may be written `cm2`, `cm^2`, `cm**2`, `cm-2`; scales `1E-17`, `10^-17`, `10**-17`; products with blanks,
    `*` or `.`; a quotient divides by what follows next, or by a bracket.
    """
    from astropy import units as u

    if len(text) > _MAX_LENGTH:
        return None
    plain = text.strip().strip("'\"").strip().translate(_SUPERSCRIPTS)
    inside = _IN_BRACKETS.match(plain)
    parser = _Parser(inside[1] if inside else plain)
    try:
        powers, scale = parser.product()
    except ValueError:
        return None
    if powers.keys() <= _LENGTHS and all(power > 0 for power in powers.values()):
        return None  # `relative flux (Å)`: what the wavelengths are in
    if parser.rest() or not powers or not 1e-60 < abs(scale) < 1e60:
        return None
    out: Any = u.dimensionless_unscaled
    for name, power in powers.items():
        symbol = {"nanomaggy": u.nmgy if hasattr(u, "nmgy") else None, "DN": u.DN}.get(name) or getattr(u, name, None)
        if symbol is None:
            return None
        out = out * symbol ** (int(power) if float(power).is_integer() else power)
    return u.Unit(scale * out) if scale != 1.0 else out


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def rest(self) -> str:
        return self.text[self.at :].strip()

    def product(self, depth: int = 0) -> tuple[dict[str, float], float]:
        """Unit → power, and the scale, up to a closing bracket or the end. Raises ValueError for what is no unit."""
        powers: dict[str, float] = {}
        scale, sign = 1.0, 1.0
        while self.rest() and self.rest()[0] not in ")}":
            found = _TOKEN.match(self.text, self.at)
            if found is None or depth > 4:
                raise ValueError(self.text)
            self.at = found.end()
            if found["sign"] in ("*", ".", "·", "×"):
                continue
            if found["sign"] == "/":
                sign = -1.0
                continue
            if found["sign"] in ("(", "{"):
                inner, factor = self.product(depth + 1)
                if not self.rest() or self.rest()[0] not in ")}":
                    raise ValueError(self.text)
                self.at = self.text.index(self.rest()[0], self.at) + 1
                power = self._power()
            elif found["number"]:
                power = 1.0
                if float(found["number"]) == 10.0:
                    # 10-17 occurs; a bare 10 is a factor.
                    power = self._power()
                inner, factor = {}, float(found["number"])
            elif found["word"]:
                name = _EXACT.get(found["word"], _SYMBOLS.get(found["word"].lower()))
                if name is None:
                    raise ValueError(found["word"])
                inner, factor, power = {name: 1.0}, 1.0, self._power()
            else:
                raise ValueError(self.text)
            for name, inner_power in inner.items():
                powers[name] = powers.get(name, 0.0) + sign * power * inner_power
            scale *= factor ** (sign * power)
            sign = 1.0
        return powers, scale

    def _power(self) -> float:
        found = _POWER.match(self.text, self.at)
        if found is None:
            return 1.0
        power = float(next(digits for digits in found.groups() if digits))
        if abs(power) > 40:
            raise ValueError(f"{found[0]} is no power of a unit")
        self.at = found.end()
        return power
