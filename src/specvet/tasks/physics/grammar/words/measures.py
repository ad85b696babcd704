"""Units and physical constants.

A unit is a positive symbol of its own class with a factor to SI base units and a dimension; arithmetic, `solve` and
`integrate` treat it as any other factor. `convert` and `si` then compare dimensions and multiply factors. Names of
units are read as such only inside the three words below, and constants have long names, so that `m`, `h`, `c`, `G` and
`e` stay free as symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy

from specvet.tasks.physics.grammar.errors import domain
from specvet.tasks.physics.grammar.words.arguments import each, expression
from specvet.tasks.physics.grammar.words.register import word

MEASURES = "units"
BASE = ("m", "kg", "s", "A", "K", "mol", "cd")

Dimension = tuple[Any, ...]
"""Exponents of `BASE`."""

NONE: Dimension = (sympy.S.Zero,) * len(BASE)


class UnitSymbol(sympy.Symbol):  # type: ignore[misc]
    """A unit; equal to no symbol that a model can write."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unit:
    factor: Any
    """In SI base units, exact where it is defined."""
    dimension: Dimension


DEFINED: dict[str, Unit] = {}
"""Name as printed → its definition."""
UNITS: dict[str, Any] = {}
"""Name as written, also long ones → what it stands for."""

PREFIXES = {
    "f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "c": -2, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12,
}  # fmt: skip
LONG_PREFIXES = {
    "femto": "f",
    "pico": "p",
    "nano": "n",
    "micro": "u",
    "milli": "m",
    "centi": "c",
    "kilo": "k",
    "mega": "M",
    "giga": "G",
}

R = sympy.Rational


def _define(name: str, factor: Any, exponents: str, prefixes: str = "", *long: str) -> None:
    """`exponents` is written as "kg m s-2"."""
    found = dict.fromkeys(BASE, 0)
    for part in exponents.split():
        base = part.rstrip("-0123456789")
        found[base] = int(part[len(base) :] or 1)
    dimension = tuple(sympy.Integer(found[base]) for base in BASE)
    for prefix in ("", *prefixes):
        power = R(10) ** PREFIXES[prefix] if prefix else R(1)
        written = prefix + name
        DEFINED[written] = Unit(factor * power, dimension)
        UNITS[written] = UnitSymbol(written, positive=True)
        for each_long in long:
            of_prefix = next((p for p, short in LONG_PREFIXES.items() if short == prefix), None)
            if not prefix:
                UNITS[each_long] = UNITS[each_long + "s"] = UNITS[written]
            elif of_prefix:
                UNITS[of_prefix + each_long] = UNITS[of_prefix + each_long + "s"] = UNITS[written]


COMMON = "fpnumkMGT"
_define("m", R(1), "m", "fpnumck", "meter", "metre")
_define("g", R(1, 1000), "kg", "numk", "gram")
_define("s", R(1), "s", "fpnum", "second")
_define("A", R(1), "A", "pnumk", "ampere")
_define("K", R(1), "K", "num", "kelvin")
_define("mol", R(1), "mol", "numk", "mole")
_define("cd", R(1), "cd", "", "candela")
_define("Hz", R(1), "s-1", "mkMGT", "hertz")
_define("N", R(1), "kg m s-2", "numkM", "newton")
_define("J", R(1), "kg m2 s-2", "fpnumkMGT", "joule")
_define("W", R(1), "kg m2 s-3", "fpnumkMGT", "watt")
_define("Pa", R(1), "kg m-1 s-2", "mhkMG", "pascal")
_define("C", R(1), "A s", "pnum", "coulomb")
_define("V", R(1), "kg m2 s-3 A-1", "numkM", "volt")
_define("ohm", R(1), "kg m2 s-3 A-2", "mkM")
_define("F", R(1), "kg-1 m-2 s4 A2", "fpnum", "farad")
_define("H", R(1), "kg m2 s-2 A-2", "num", "henry")
_define("T", R(1), "kg s-2 A-1", "num", "tesla")
_define("Wb", R(1), "kg m2 s-2 A-1", "m", "weber")
_define("S", R(1), "kg-1 m-2 s3 A2", "m", "siemen")
_define("Bq", R(1), "s-1", "kMG", "becquerel")
_define("Gy", R(1), "m2 s-2", "m", "gray")
_define("min", R(60), "s", "", "minute")
_define("h", R(3600), "s", "", "hour")
_define("hr", R(3600), "s")
_define("day", R(86400), "s", "")
_define("yr", R(31557600), "s", "kMG", "year")
_define("rad", R(1), "", "m", "radian")
_define("deg", sympy.pi / 180, "", "", "degree")
_define("arcmin", sympy.pi / 10800, "")
_define("arcsec", sympy.pi / 648000, "", "m")
_define("rev", 2 * sympy.pi, "")
_define("rpm", sympy.pi / 30, "s-1")
_define("percent", R(1, 100), "")
_define("L", R(1, 1000), "m3", "m", "liter", "litre")
_define("bar", R(10**5), "kg m-1 s-2", "m")
_define("atm", R(101325), "kg m-1 s-2", "", "atmosphere")
_define("torr", R(101325, 760), "kg m-1 s-2")
_define("mmHg", R(133322387415, 10**9), "kg m-1 s-2")
_define("psi", R(44482216152605, 10**13) / R(254, 10**4) ** 2, "kg m-1 s-2")
_define("eV", R(1602176634, 10**28), "kg m2 s-2", "mkMGT", "electronvolt")
_define("cal", R(4184, 1000), "kg m2 s-2", "k", "calorie")
_define("Wh", R(3600), "kg m2 s-2", "kMG")
_define("erg", R(1, 10**7), "kg m2 s-2")
_define("dyn", R(1, 10**5), "kg m s-2", "", "dyne")
_define("gauss", R(1, 10**4), "kg s-2 A-1")
_define("u", sympy.Float(1.66053906660e-27), "kg", "", "dalton")
_define("tonne", R(1000), "kg")
_define("angstrom", R(1, 10**10), "m", "")
_define("AU", R(149597870700), "m", "")
_define("ly", R(9460730472580800), "m", "", "lightyear")
_define("pc", R(149597870700) * 648000 / sympy.pi, "m", "kMG", "parsec")
_define("inch", R(254, 10000), "m")
_define("ft", R(3048, 10000), "m")
_define("mile", R(1609344, 1000), "m")
_define("mph", R(1609344, 1000) / 3600, "m s-1")
_define("lb", R(45359237, 10**8), "kg")
_define("lbf", R(44482216152605, 10**13), "kg m s-2")
UNITS |= {
    "au": UNITS["AU"], "l": UNITS["L"], "days": UNITS["day"], "feet": UNITS["ft"], "foot": UNITS["ft"],
    "inches": UNITS["inch"], "miles": UNITS["mile"], "siemens": UNITS["S"], "ohms": UNITS["ohm"], "Ohm": UNITS["ohm"],
    "Omega": UNITS["ohm"], "angstroms": UNITS["angstrom"], "degrees": UNITS["deg"], "micron": UNITS["um"],
}  # fmt: skip

# CODATA 2018 (exact since the SI of 2019 where they have no uncertainty); nominal solar and terrestrial values of
# IAU 2015 resolution B3, with masses from its GM.
CONSTANTS: dict[str, tuple[Any, str, str]] = {
    "speed_of_light": (299792458, "m s-1", "c"),
    "gravitational_constant": (6.67430e-11, "m3 kg-1 s-2", "G"),
    "standard_gravity": (9.80665, "m s-2", "g"),
    "planck_constant": (6.62607015e-34, "kg m2 s-1", "h"),
    "reduced_planck_constant": (1.054571817646156e-34, "kg m2 s-1", "h/2pi"),
    "boltzmann_constant": (1.380649e-23, "kg m2 s-2 K-1", "k_B"),
    "elementary_charge": (1.602176634e-19, "A s", "e"),
    "avogadro_constant": (6.02214076e23, "mol-1", "N_A"),
    "gas_constant": (8.31446261815324, "kg m2 s-2 K-1 mol-1", "R"),
    "faraday_constant": (96485.33212331001, "A s mol-1", "F"),
    "stefan_boltzmann_constant": (5.670374419e-8, "kg s-3 K-4", "sigma"),
    "wien_constant": (2.897771955e-3, "m K", "b"),
    "electron_mass": (9.1093837015e-31, "kg", "m_e"),
    "proton_mass": (1.67262192369e-27, "kg", "m_p"),
    "neutron_mass": (1.67492749804e-27, "kg", "m_n"),
    "atomic_mass_constant": (1.66053906660e-27, "kg", "u"),
    "vacuum_permittivity": (8.8541878128e-12, "kg-1 m-3 s4 A2", "epsilon_0"),
    "vacuum_permeability": (1.25663706212e-6, "kg m s-2 A-2", "mu_0"),
    "coulomb_constant": (8.9875517923e9, "kg m3 s-4 A-2", "1/(4 pi epsilon_0)"),
    "fine_structure_constant": (7.2973525693e-3, "", "alpha"),
    "rydberg_constant": (10973731.568160, "m-1", "R_inf"),
    "bohr_radius": (5.29177210903e-11, "m", "a_0"),
    "bohr_magneton": (9.2740100783e-24, "m2 A", "mu_B"),
    "solar_mass": (1.988409870698051e30, "kg", "M_sun"),
    "solar_radius": (6.957e8, "m", "R_sun"),
    "solar_luminosity": (3.828e26, "kg m2 s-3", "L_sun"),
    "earth_mass": (5.972167867791379e24, "kg", "M_earth"),
    "earth_radius": (6.3781e6, "m", "R_earth"),
}
"""Name → value in SI base units, dimension, the sign it has in books."""


def constant(name: str) -> Any:
    """A physical constant as a number times SI units."""
    value, exponents, _ = CONSTANTS[name]
    units = []
    for part in exponents.split():
        base = part.rstrip("-0123456789")
        units.append(UNITS[base] ** int(part[len(base) :] or 1))
    return (sympy.Integer(value) if isinstance(value, int) else sympy.Float(value)) * sympy.Mul(*units)


def measured(value: Any) -> tuple[Any, Dimension]:
    """(number in SI base units, dimension) of an expression of numbers and units.

    Names that are no units are taken as numbers. Raises GrammarError (domain) for sums of unequal dimensions.
    """
    if isinstance(value, UnitSymbol):
        unit = DEFINED[value.name]
        return unit.factor, unit.dimension
    if not value.atoms(UnitSymbol):
        return value, NONE
    if value.is_Mul:
        parts = [measured(part) for part in value.args]
        total = tuple(sum(column, sympy.S.Zero) for column in zip(*(d for _, d in parts), strict=True))
        return sympy.Mul(*(factor for factor, _ in parts)), total
    if value.is_Add:
        parts = [measured(part) for part in value.args]
        first = parts[0][1]
        for _, other in parts[1:]:
            if other != first:
                raise domain(f"{text_of(first)} and {text_of(other)} are added")
        return sympy.Add(*(factor for factor, _ in parts)), first
    if value.is_Pow and value.exp.is_Rational:
        factor, dimension = measured(value.base)
        return factor**value.exp, tuple(n * value.exp for n in dimension)
    parts = [measured(part) for part in value.args if isinstance(part, sympy.Expr)]
    if len(parts) != len(value.args) or any(d != NONE for _, d in parts):
        raise domain("the argument of a function or an exponent has a unit")
    return value.func(*(factor for factor, _ in parts)), NONE


def text_of(dimension: Dimension) -> str:
    """`kg*m/s**2` of a dimension."""
    product = sympy.Mul(*(UNITS[base] ** n for base, n in zip(BASE, dimension, strict=True)))
    return "a number without unit" if product == 1 else str(product)


@word("unit(units)", "units as factors: 5*unit(km/h); names inside are units", "3*unit(km) + 200*unit(m)", MEASURES,
      plain=True, symbol_too=True, units=True)  # fmt: skip
def unit(value: Any) -> Any:
    return expression(value)


@word("convert(quantity, units)", "the quantity in other units; names inside are units and constants",
      "convert(72*km/h, m/s)", MEASURES, "convert_to", plain=True, units=True)  # fmt: skip
def convert(value: Any, target: Any) -> Any:
    wanted, dimension = measured(expression(target))
    if not expression(target).atoms(UnitSymbol):
        raise domain("the units to convert to are missing; write convert(72*km/h, m/s)")

    def converted(quantity: Any) -> Any:
        amount, found = measured(quantity)
        if found != dimension:
            raise domain(f"the quantity is {text_of(found)}, the units asked for are {text_of(dimension)}")
        return amount / wanted * target

    return each(value, converted)


@word("si(quantity)", "the bare number in SI base units", "si(2*unit(km/h))", MEASURES, plain=True, symbol_too=True,
      units=True)  # fmt: skip
def si(value: Any) -> Any:
    return each(value, lambda quantity: measured(quantity)[0])
