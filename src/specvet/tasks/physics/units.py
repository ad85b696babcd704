r"""Units as people write them, and numbers from one unit into another, by pint.

pint's own parser is not used: it evaluates `9**9**9`, reads `Nm` as number·metre, `AU` as absorbance and knows no
`kgm/s`. Here a unit is read by a small grammar into names and powers, each name is looked up alone, and quantities are
built from number and unit, so that offset temperatures are right. In compounds (`J/(kg °C)`) degrees are differences.
A unit written `delta_degC` or `delta_K` says that both sides are differences of temperatures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from threading import Lock
from typing import Any

from specvet.tasks.physics.plain import plain
from specvet.tasks.physics.reasons import Reason, UnreadError

LONGEST_UNIT = 80
_LARGEST_POWER = 12

_NAMES = {
    **dict.fromkeys(("Ω", "ohms", "Ohm", "Ohms"), "ohm"),
    **dict.fromkeys(("°", "deg", "degs"), "degree"),
    **dict.fromkeys(("°C", "degC", "celsius", "Celsius"), "degree_Celsius"),
    **dict.fromkeys(("°F", "degF", "fahrenheit", "Fahrenheit"), "degree_Fahrenheit"),
    **dict.fromkeys(("K", "°K", "Kelvin"), "kelvin"),
    **dict.fromkeys(("%", "pct"), "percent"),
    **dict.fromkeys(("s", "sec", "secs", "Sec"), "second"),
    **dict.fromkeys(("A", "amp", "amps"), "ampere"),
    **dict.fromkeys(("h", "hr", "hrs"), "hour"),
    **dict.fromkeys(("u", "amu", "Da"), "unified_atomic_mass_unit"),
    **dict.fromkeys(("D", "diopter", "diopters", "dioptre", "dioptres"), "lens_diopter"),
    **dict.fromkeys(("Kg", "KG", "kgs"), "kilogram"),
    **dict.fromkeys(("hz", "HZ"), "hertz"),
    **dict.fromkeys(("AU", "au"), "astronomical_unit"),
    **dict.fromkeys(("rev", "revs"), "revolution"),
    **dict.fromkeys(("kmh", "kph"), "kilometer_per_hour"),
    **dict.fromkeys(("dB", "decibel", "decibels"), "sound_decibel"),
    **dict.fromkeys(("Msun", "M_sun"), "solar_mass_unit"),
    **dict.fromkeys(("Rsun", "R_sun"), "solar_radius_unit"),
    **dict.fromkeys(("Lsun", "L_sun"), "solar_light_unit"),
    "m": "meter", "g": "gram", "V": "volt", "W": "watt", "N": "newton", "J": "joule", "C": "coulomb", "F": "farad",
    "H": "henry", "T": "tesla", "S": "siemens", "L": "liter", "l": "liter", "d": "day", "c": "speed_of_light",
    "e": "elementary_charge", "G": "lab_gauss", "M": "molar", "P": "poise", "b": "barn", "t": "metric_ton", "B": "byte",
    "ev": "electron_volt", "pc": "parsec", "ft": "foot", "in": "inch", "cc": "centimeter**3", "mmHg": "millimeter_Hg",
    "cmHg": "centimeter_Hg", "rads": "radian", "lbs": "pound", "lbf": "force_pound", "Cal": "kilocalorie",
    "St": "stokes", "arcsec": "arcsecond", "Å": "angstrom",
}  # fmt: skip
"""What a name means before pint is asked; single letters stand here or mean nothing."""

_SECOND = {
    "C": "degree_Celsius", "F": "degree_Fahrenheit", "g": "standard_gravity", "°": "degree_Celsius",
    "degree": "degree_Celsius", "degrees": "degree_Celsius", "D": "debye", "M": "solar_mass_unit", "y": "year",
}  # fmt: skip
"""What a name may also mean, where its first meaning has another dimension than the right answer."""

_SPLIT = {"ms": ("meter", "second"), "kms": ("kilometer", "second"), "cms": ("centimeter", "second")}
"""`5 ms^{-1}` can be m/s written without a space."""

_SWAPPED = {"gauss": "lab_gauss"}
"""pint's gauss is of the Gaussian system, in which it is no tesla."""

_COUNTED = frozenset(
    each + ending
    for each in ("electron", "photon", "particle", "atom", "molecule", "node", "antinode", "fringe", "image", "time")
    for ending in ("", "s")
)
_GLUED = ("kg", "mol", "Wb", "Pa", "Hz", "cm", "mm", "km", "eV", *"NmsJVAWCTKFH")
"""What people write together: `Nm`, `kgm/s`."""
_POWER = re.compile(
    r" ?\^ ?(?:\{ ?([+-]?\d+(?:/\d+)?) ?\}|\( ?([+-]?\d+(?:/\d+)?) ?\)|([+-]?\d+))"
    r"|([+-]?\d+)(?!\d)"  # `s-1`, `m2`
)
_ATOM = re.compile(r"°[CFK](?![A-Za-z])|[A-Za-zµΩÅ]+(?:_[A-Za-z0-9]+)*|[°%‰]")
_TEMPERATURES = {"kelvin", "degree_Celsius", "degree_Fahrenheit", "degree_Rankine", "degree_Reaumur"}
_CONSTANTS = re.compile(r"_constant|^(?:pi|ln10|wien_|tansec|eulers|mag|count)|_mass$|_magneton$|_ratio$|_factor$")

_CYCLES = frozenset({"revolution", "turn", "cycle", "revolutions_per_minute", "revolutions_per_second", "rpm"})
_ANGLES = frozenset({"radian", "degree", "arcminute", "arcsecond", "milliarcsecond", "grade"})


@dataclass(frozen=True, slots=True)
class Unit:
    """Powers of pint's names, in order of name; empty for a pure number."""

    powers: tuple[tuple[str, Fraction], ...]
    difference: bool = False
    """A difference of temperatures."""
    ambiguous: bool = False
    """Read otherwise than its first meaning."""


class OtherDimensionError(ValueError):
    """Two units that measure different things; `angle` where only radians for cycles stand between them."""

    def __init__(self, angle: bool = False) -> None:
        super().__init__("other dimension")
        self.angle = angle


@lru_cache(maxsize=1024)
def readings(text: str) -> tuple[Unit, ...]:
    """All that a unit's text can mean, the usual first. Raises UnreadError (`unit_unknown`)."""
    found: list[Unit] = []
    tidied = _tidied(text)
    doubtful = [name for name in dict.fromkeys(_ATOM.findall(tidied)) if name in _SECOND or name in _SPLIT]
    choices = [frozenset[str](), *(frozenset((name,)) for name in doubtful[:4]), frozenset(doubtful)]
    for wide in (False, True):
        for second in choices:
            unit = _Reader(tidied, wide=wide, second=second).unit()
            if all(unit.powers != other.powers for other in found):
                found.append(Unit(unit.powers, unit.difference, bool(found)))
    return tuple(found)


def converted(number: float, unit: Unit, into: Unit) -> float:
    """The number in another unit. Raises OtherDimensionError."""
    registry = _registry()
    difference = unit.difference or into.difference
    _check_cycles(unit, into)
    ours, theirs = _cycles_alike(unit, into)
    source, target = _container(ours, difference), _container(theirs, difference)
    import pint

    try:
        return float(registry.Quantity(float(number), source).to(target).magnitude)
    except pint.DimensionalityError:
        raise OtherDimensionError from None
    except (pint.OffsetUnitCalculusError, pint.UndefinedUnitError):
        raise OtherDimensionError from None


def is_pure(unit: Unit) -> bool:
    """Whether it has no dimension: nothing, %, rad, degrees of angle."""
    return bool(_registry().Quantity(1.0, _container(unit, True)).dimensionless)


def _check_cycles(a: Unit, b: Unit) -> None:
    """Hz is no rad/s, though pint gives both 1/s."""
    for one, other in ((a, b), (b, a)):
        if any(name.endswith("hertz") for name, _ in one.powers) and any(name in _ANGLES for name, _ in other.powers):
            raise OtherDimensionError(angle=True)


def _cycles_alike(a: Unit, b: Unit) -> tuple[Unit, Unit]:
    """With revolutions beside hertz, a revolution is one cycle and not 2π."""
    names = {name for unit in (a, b) for name, _ in unit.powers}
    if any(name.endswith("hertz") for name in names) and names & _CYCLES:
        return _uncycled(a), _uncycled(b)
    return a, b


def _uncycled(unit: Unit) -> Unit:
    swap = {"revolutions_per_minute": "cycle_per_minute", "rpm": "cycle_per_minute", "revolutions_per_second": "hertz"}
    swap |= dict.fromkeys(("revolution", "turn", "cycle"), "one_cycle")
    return Unit(tuple((swap.get(name, name), power) for name, power in unit.powers), unit.difference)


def _container(unit: Unit, difference: bool) -> Any:
    """pint's unit; degrees in compounds are differences, for pint cannot multiply what has an offset."""
    alone = len(unit.powers) == 1 and unit.powers[0][1] == 1 and not difference
    powers: dict[str, Any] = {}
    for name, power in unit.powers:
        if not alone and name.startswith("degree_") and name in _TEMPERATURES:
            name = "delta_" + name  # noqa: PLW2901
        powers[name] = int(power) if power.denominator == 1 else float(power)
    registry = _registry()
    return registry.Unit(registry.UnitsContainer(powers))


def _tidied(text: str) -> str:
    """The text with the spellings of several words made one name."""
    text = plain(text)
    if len(text) > LONGEST_UNIT:
        raise UnreadError(Reason.UNIT_UNKNOWN)
    text = re.sub(r"\\mu ?(?=[A-Za-z\\])", "µ", text)
    text = re.sub(r"(?<![A-Za-z])([kKMGTmnµ]?) ?\\Omega", lambda m: f" {'k' if m[1] == 'K' else m[1]}Ω ", text)
    text = (
        re.sub(r"°(?! ?[CFK](?![A-Za-z]))", " ° ", text).replace("° C", "°C").replace("° F", "°F").replace("° K", "K")
    )
    text = re.sub(r"(?i)\bdeg(?:rees?|s)?\.? ?(?:C\b|celsius)", "degC", text)
    text = re.sub(r"(?i)\bdeg(?:rees?|s)?\.? ?(?:F\b|fahrenheit)", "degF", text)
    text = re.sub(r"(?:\\Delta ?|delta_)(?:°|deg(?:ree)?_?)C(?:elsius)?", "delta_degC", text)
    text = re.sub(r"\b(mm|cm) ?(?:of )?(?:Hg|mercury)\b", r"\1Hg", text)
    text = re.sub(r"\b(?:meters?|metres?) per second squared\b", "m/s^2", text)
    text = re.sub(r"\b(?:square|sq\.?) ([A-Za-z]+)", r"\1^2", text)
    text = re.sub(r"\bcubic ([A-Za-z]+)", r"\1^3", text)
    text = re.sub(r"([A-Za-z]) squared\b", r"\1^2", text)
    text = re.sub(r"([A-Za-z]) cubed\b", r"\1^3", text)
    text = re.sub(r"\brev(?:olution)?s? ?(?:/|per) ?min(?:ute)?\b", "rpm", text)
    text = re.sub(r"\blight[- ]years?\b", "light_year", text)
    text = re.sub(r"\b([MRL]) ?_ ?\{? ?(?:\\odot|☉|⊙|sun) ?\}?", r"\1_sun", text)
    text = re.sub(r"\bsolar mass(?:es)?\b", "M_sun", text)
    text = re.sub(r"\\frac ?\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\} ?\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", r"(\1)/(\2)", text)
    return re.sub(r"(?i) per ", " / ", text).strip().removeprefix("*").rstrip(".,; ")


class _Reader:
    """Factors, `*`, `/`, blanks, parentheses and powers."""

    def __init__(self, text: str, *, wide: bool, second: frozenset[str]) -> None:
        self.text, self.wide, self.second = text, wide, second
        self.at = self.depth = 0
        self.difference = False

    def unit(self) -> Unit:
        powers: dict[str, Fraction] = {}
        for name, power in self._product() if self.text else ():
            powers[name] = powers.get(name, Fraction(0)) + power
        if self._peek() or any(abs(power) > _LARGEST_POWER for power in powers.values()):
            raise UnreadError(Reason.UNIT_UNKNOWN)
        return Unit(tuple(sorted((name, power) for name, power in powers.items() if power)), self.difference)

    def _product(self) -> list[tuple[str, Fraction]]:
        self.depth += 1
        if self.depth > 6:
            raise UnreadError(Reason.UNIT_UNKNOWN)
        found: list[tuple[str, Fraction]] = []
        below = False
        if re.match(r"1 ?/", self.text[self.at : self.at + 3]):
            self.at += 1
        elif self._peek() != "/":
            found += self._factor()
        while (sign := self._peek()) and sign != ")":
            if sign in "*/":
                self.at += 1
                below = sign == "/" or (below and self.wide)
            elif not self.wide:
                below = False
            found += [(name, -power if below else power) for name, power in self._factor()]
        self.depth -= 1
        return found

    def _factor(self) -> list[tuple[str, Fraction]]:
        if self._peek() == "(":
            self.at += 1
            inside = self._product()
            if self._peek() != ")":
                raise UnreadError(Reason.UNIT_UNKNOWN)
            self.at += 1
        else:
            atom = _ATOM.match(self.text, self.at)
            if atom is None:
                raise UnreadError(Reason.UNIT_UNKNOWN)
            self.at = atom.end()
            inside = self._atom(atom[0])
            if len(inside) > 1:  # of `kgm^2` the power is that of the metre
                (name, each) = inside.pop()
                return [*inside, (name, each * self._power())]
        power = self._power()
        return [(name, each * power) for name, each in inside]

    def _power(self) -> Fraction:
        found = _POWER.match(self.text, self.at)
        if found is None:
            return Fraction(1)
        self.at = found.end()
        digits = next(part for part in found.groups() if part is not None)
        if len(digits) > 6 or digits.endswith("/0"):
            raise UnreadError(Reason.UNIT_UNKNOWN)
        return Fraction(digits)

    def _atom(self, name: str) -> list[tuple[str, Fraction]]:
        if name in ("delta_degC", "delta_K", "delta_kelvin"):
            self.difference = True
            name = "kelvin"
        if name in self.second and name in _SPLIT:
            return [(known, Fraction(1)) for known in _SPLIT[name]]
        known = _SECOND[name] if name in self.second else _known(name)
        if known:
            base, _, cubed = known.partition("**")
            return [(base, Fraction(cubed or 1))] if known != "one" else []
        for first in _GLUED:
            rest = name.removeprefix(first)
            if rest != name and rest in _GLUED:
                return [(_known(first), Fraction(1)), (_known(rest), Fraction(1))]
        raise UnreadError(Reason.UNIT_UNKNOWN)

    def _peek(self) -> str:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        return self.text[self.at : self.at + 1]


@lru_cache(maxsize=4096)
def _known(name: str) -> str:
    """pint's name of a unit; empty where there is none."""
    if name in _NAMES:
        return _NAMES[name]
    if name in _COUNTED:
        return "one"
    if name in ("Nm", "Ns", "Js", "Vm", "Cm", "As", "Vs") or len(name) > 30 or len(name) == 1:
        return ""
    for spelled in (name, name.lower()) if len(name) > 4 else (name,):
        for prefix, unit, _ in _registry().parse_unit_name(spelled):
            if not _CONSTANTS.search(unit) and (prefix or len(spelled) > 1):
                return str(prefix + _SWAPPED.get(unit, unit))
    return ""


_lock = Lock()


def _registry() -> Any:
    with _lock:
        return _made()


@lru_cache(maxsize=1)
def _made() -> Any:
    import pint

    registry: Any = pint.UnitRegistry(cache_folder=None)
    registry.define("lens_diopter = 1 / meter")
    registry.define("sound_decibel = [sound_level]")
    registry.define("lab_gauss = 1e-4 * tesla")
    registry.define("one_cycle = []")
    registry.define("cycle_per_minute = 1 / minute")
    registry.define("solar_mass_unit = 1.98841e30 * kilogram")  # IAU 2015 nominal GM and CODATA 2018 G
    registry.define("solar_radius_unit = 6.957e8 * meter")  # IAU 2015 B3
    registry.define("solar_light_unit = 3.828e26 * watt")  # IAU 2015 B3
    return registry
