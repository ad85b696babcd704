"""Each family's answers a second time: from its givens as pint quantities, so that units and dimensions count too.

Numerical ways (sums over fine steps, bisection) stand beside closed forms that differ from those of the families.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pint

ureg = pint.UnitRegistry()
Q = ureg.Quantity
G = Q(9.81, "m/s**2")
K = Q(8.988e9, "N*m**2/C**2")
E, H, C = Q(1.602e-19, "C"), Q(6.626e-34, "J*s"), Q(2.998e8, "m/s")
R = Q(8.314, "J/(mol*K)")
WATER, MELTING = Q(4186, "J/(kg*K)"), Q(334, "kJ/kg")

Given = Mapping[str, Any]
Law = Callable[[Given], Any]


def quantities(givens: Mapping[str, tuple[float, str]]) -> dict[str, Any]:
    """Offset temperatures become kelvin."""
    found = {name: Q(value, unit) for name, (value, unit) in givens.items()}
    return {name: q.to("kelvin") if q.units == ureg.degC else q for name, q in found.items()}


def series(g: Given, letter: str) -> Any:
    return Q.from_list([g[f"{letter}{i}"] for i in range(sum(k.startswith(letter) and k[1:].isdigit() for k in g))])


def bisected(function: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """The root between two ends, one sign change."""
    at_low = function(low).m
    for _ in range(42):
        middle = (low + high) / 2
        low, high = (middle, high) if (function(middle).m > 0) == (at_low > 0) else (low, middle)
    return low


def summed(function: Callable[[Any], Any], low: Any, high: Any, n: int = 4001) -> Any:
    """The integral by the midpoint rule."""
    step = (high - low) / n
    return (function(low + (np.arange(n) + 0.5) * step) * step).sum()


def plot_integral(g: Given, absolute: bool) -> Any:
    t, v = series(g, "t"), series(g, "v")
    fine = np.linspace(0, t.m[-1], 20001)
    speed = np.interp((fine[1:] + fine[:-1]) / 2, t.m, v.m)
    return Q(float(np.sum(np.abs(speed) if absolute else speed) * (fine[1] - fine[0])), "s*m/s")


def slope(g: Given, letter: str) -> Any:
    i = int(g["piece"].m)
    return (g[f"{letter}{i + 1}"] - g[f"{letter}{i}"]) / (g[f"t{i + 1}"] - g[f"t{i}"])


def flight(g: Given) -> Any:
    up = g["v"] * np.sin(g["angle"])
    return bisected(lambda t: g["h"] + up * t - G * t**2 / 2, up / G, Q(60, "s"))


def pulled(g: Given) -> Any:
    drag = g["m"] * (np.sin(g["angle"]) + g["mu"] * np.cos(g["angle"]))
    return (g["M"] - drag) * G / (g["m"] + g["M"])


def amplitude(g: Given) -> Any:
    return np.sqrt(g["x"] ** 2 + g["m"] * g["v"] ** 2 / g["k"])


def banked(g: Given) -> Any:
    """tan of bank and friction angle together."""
    return np.sqrt(g["r"] * G * np.tan(g["angle"] + np.arctan(g["mu"]))).to("m/s")


def after(g: Given) -> tuple[Any, Any]:
    """In the frame of the centre of mass each velocity turns round, e times as large."""
    centre = (g["m1"] * g["v1"] + g["m2"] * g["v2"]) / (g["m1"] + g["m2"])
    return tuple(centre - g["e"] * (v - centre) for v in (g["v1"], g["v2"]))


def energy(g: Given, v1: Any, v2: Any) -> Any:
    return g["m1"] * v1**2 / 2 + g["m2"] * v2**2 / 2


def pushed(g: Given) -> Any:
    return summed(lambda x: g["a"] + g["b"] * x ** int(g["n"].m), 0 * g["s"], g["s"])


def network(g: Given) -> tuple[Any, Any]:
    """Total resistance, and the voltage across R2 by the divider."""
    pair = 1 / (1 / g["r2"] + 1 / (g["r3"] + g["r4"]))
    return g["r1"] + pair, g["V"] * pair / (g["r1"] + pair)


def loops(g: Given) -> Any:
    """(i1, i3) from the loop matrix."""
    r1, r2, r3 = (g[f"r{i}"].to("ohm").m for i in (1, 2, 3))
    i1, i2 = np.linalg.solve([[r1 + r3, r3], [r3, r2 + r3]], [g["e1"].to("V").m, g["e2"].to("V").m])
    return Q(i1, "V/ohm"), Q(i1 + i2, "V/ohm")


def charged(g: Given, t: Any) -> Any:
    tau = g["R"] * g["C"]
    return g["V"] + (g["V0"] - g["V"]) * np.exp(-(t / tau).to("").m)


def bent(g: Given) -> tuple[Any, Any]:
    q = g["n"] * E
    momentum = np.sqrt(2 * g["m"] * q * g["U"])
    return (momentum / g["m"]).to("m/s"), (momentum / (q * g["B"])).to("m")


def image(f: Any, g: Any) -> Any:
    """Newton: (g - f)(b - f) = f²."""
    return f + f**2 / (g - f)


def row_of_lenses(g: Given) -> tuple[Any, Any]:
    """Final image and magnification by ray matrices, lengths in cm."""
    f1, f2, at, d = (g[k].to("cm").m for k in ("f1", "f2", "g1", "d"))
    lens = lambda f: np.array([[1, 0], [-1 / f, 1]])  # noqa: E731
    gap = lambda x: np.array([[1, x], [0, 1]])  # noqa: E731
    whole = lens(f2) @ gap(d) @ lens(f1) @ gap(at)
    b = -whole[0, 1] / whole[1, 1]
    return Q(b, "cm"), Q((gap(b) @ whole)[0, 0], "")


def refracted(g: Given) -> Any:
    return np.arcsin(np.sin(g["angle"]) / g["n"])


def spot(g: Given, which: str) -> Any:
    """y/L of a maximum: s/sqrt(1 - s²)."""
    s = (g["order"] * g[which] * g["lines"]).to("").m
    return g["screen"] * s / math.sqrt(1 - s * s)


def mixed(g: Given) -> Any:
    hot, rest = g["m"] * g["c"], g["water"] * WATER + g["cup"]
    return bisected(lambda t: (hot * (g["hot"] - t) - rest * (t - g["cold"])).to("J"), g["cold"], g["hot"])


def adiabatic(g: Given, power: float) -> Any:
    return (g["V"] / g["V2"]).to("").m ** (g["gamma"].m + power)


def carnot(g: Given) -> Any:
    return (g["hot"] - g["cold"]) / g["hot"]


def driving(g: Given) -> tuple[Any, Any]:
    """Speed and own frequency: 1/f1 and 1/f2 have the mean 1/f."""
    own = 2 / (1 / g["f1"] + 1 / g["f2"])
    return g["c"] * (1 - own / g["f1"]), own


def freed(g: Given) -> Any:
    return H * C / g["wavelength"] - g["W"]


MASS = Q(9.109e-31, "kg")

LAWS: dict[tuple[str, str], Law] = {
    ("velocity-plot", "acceleration"): lambda g: slope(g, "v"),
    ("velocity-plot", "displacement"): lambda g: plot_integral(g, absolute=False),
    ("velocity-plot", "distance"): lambda g: plot_integral(g, absolute=True),
    ("position-plot", "velocity"): lambda g: slope(g, "x"),
    ("position-plot", "average_speed"): lambda g: np.abs(np.diff(series(g, "x"))).sum() / series(g, "t")[-1],
    ("position-plot", "average_velocity"): lambda g: (series(g, "x")[-1] - series(g, "x")[0]) / series(g, "t")[-1],
    ("motion-function", "v_at"): lambda g: 3 * g["a"] * g["when"] ** 2 - 2 * g["b"] * g["when"] + g["c"],
    ("motion-function", "rest"): lambda g: bisected(
        lambda t: 3 * g["a"] * t**2 - 2 * g["b"] * t + g["c"], Q(0, "s"), g["b"] / (3 * g["a"])
    ),
    ("projectile", "time"): flight,
    ("projectile", "range"): lambda g: g["v"] * np.cos(g["angle"]) * flight(g),
    ("projectile", "top"): lambda g: g["h"] + (g["v"] * np.sin(g["angle"])) ** 2 / (2 * G),
    ("projectile", "impact"): lambda g: np.hypot(
        g["v"] * np.cos(g["angle"]), g["v"] * np.sin(g["angle"]) - G * flight(g)
    ),
    ("incline", "acceleration"): pulled,
    ("incline", "tension"): lambda g: g["m"] * (
        pulled(g) + G * (np.sin(g["angle"]) + g["mu"] * np.cos(g["angle"]))
    ),
    ("incline", "speed"): lambda g: np.sqrt(2 * pulled(g) * g["s"]),
    ("oscillation", "period"): lambda g: 2 * math.pi / np.sqrt(g["k"] / g["m"]),
    ("oscillation", "amplitude"): amplitude,
    ("oscillation", "when"): lambda g: np.arccos((g["x"] / amplitude(g)).to("")).m / np.sqrt(g["k"] / g["m"]),
    ("oscillation", "fastest"): lambda g: amplitude(g) * np.sqrt(g["k"] / g["m"]),
    ("circular", "best"): lambda g: np.sqrt(g["r"] * G * np.tan(g["angle"])),
    ("circular", "most"): banked,
    ("circular", "normal"): lambda g: (
        g["m"] * G * np.cos(g["angle"]) + g["m"] * banked(g) ** 2 / g["r"] * np.sin(g["angle"])
    ),
    ("collision", "u1"): lambda g: after(g)[0],
    ("collision", "u2"): lambda g: after(g)[1],
    ("collision", "lost"): lambda g: energy(g, g["v1"], g["v2"]) - energy(g, *after(g)),
    ("work-energy", "work"): pushed,
    ("work-energy", "speed"): lambda g: np.sqrt(g["v0"] ** 2 + 2 * pushed(g) / g["m"]),
    ("resistors", "total"): lambda g: network(g)[0],
    ("resistors", "current"): lambda g: g["V"] / network(g)[0],
    ("resistors", "voltage"): lambda g: network(g)[1],
    ("resistors", "power"): lambda g: (network(g)[1] * g["r4"] / (g["r3"] + g["r4"])) ** 2 / g["r4"],
    ("kirchhoff", "i3"): lambda g: loops(g)[1],
    ("kirchhoff", "i1"): lambda g: loops(g)[0],
    ("kirchhoff", "uab"): lambda g: g["e1"] - g["r1"] * loops(g)[0],
    ("rc-circuit", "voltage"): lambda g: charged(g, g["t"]),
    ("rc-circuit", "when"): lambda g: bisected(
        lambda t: charged(g, t) - g["goal"], Q(0, "s"), 20 * (g["R"] * g["C"]).to("s")
    ),
    ("rc-circuit", "energy"): lambda g: g["C"] * charged(g, g["t"]) ** 2 / 2,
    ("charges", "force"): lambda g: K * g["q3"] * (g["q1"] / g["x"] ** 2 - g["q2"] / (g["d"] - g["x"]) ** 2),
    ("charges", "zero"): lambda g: bisected(
        lambda x: g["q1"] / x**2 - g["q2"] / (g["d"] - x) ** 2, g["d"] * 1e-3, g["d"] * 0.999
    ),
    ("charges", "potential"): lambda g: K * (g["q1"] / g["x"] + g["q2"] / (g["d"] - g["x"])),
    ("magnetic", "speed"): lambda g: bent(g)[0],
    ("magnetic", "radius"): lambda g: bent(g)[1],
    ("magnetic", "period"): lambda g: 2 * math.pi * bent(g)[1] / bent(g)[0],
    ("lens-bench", "image"): lambda g: image(g["f"], g["g"]),
    ("lens-bench", "magnification"): lambda g: g["f"] / (g["f"] - g["g"]),
    ("lens-bench", "height"): lambda g: g["size"] * abs(g["f"] / (g["f"] - g["g"])),
    ("two-lenses", "b2"): lambda g: row_of_lenses(g)[0],
    ("two-lenses", "size"): lambda g: row_of_lenses(g)[1],
    ("snell", "inside"): refracted,
    ("snell", "shift"): lambda g: g["d"] * np.sin(g["angle"]) * (
        1 - np.cos(g["angle"]) / np.sqrt(g["n"] ** 2 - np.sin(g["angle"]) ** 2)
    ),
    ("snell", "time"): lambda g: g["d"] * g["n"] ** 2 / (C * np.sqrt(g["n"] ** 2 - np.sin(g["angle"]) ** 2)),
    ("snell", "critical"): lambda g: np.arctan(1 / np.sqrt(g["n"] ** 2 - 1)),
    ("grating", "angle"): lambda g: np.arctan(spot(g, "wavelength") / g["screen"]),
    ("grating", "place"): lambda g: spot(g, "wavelength"),
    ("grating", "gap"): lambda g: abs(spot(g, "wavelength") - spot(g, "second")),
    ("grating", "most"): lambda g: Q(
        sum((m * g["wavelength"] * g["lines"]).to("").m < 1 for m in range(1, 60)), ""
    ),
    ("ideal-gas", "moles"): lambda g: g["p"] * g["V"] / (R * g["T"]),
    ("ideal-gas", "work"): lambda g: summed(lambda v: g["p"] * g["V"] / v, g["V"], g["V2"]),
    ("ideal-gas", "hot"): lambda g: g["T"] * adiabatic(g, -1),
    ("ideal-gas", "pressure"): lambda g: g["p"] * adiabatic(g, 0),
    ("calorimetry", "final"): mixed,
    ("calorimetry", "heat"): lambda g: (g["water"] * WATER + g["cup"]) * (mixed(g) - g["cold"]),
    ("calorimetry", "ice"): lambda g: g["m"] * g["c"] * (g["hot"] - Q(273.15, "K")) / MELTING,
    ("carnot", "efficiency"): carnot,
    ("carnot", "power"): lambda g: g["Q"] * carnot(g) / g["t"],
    ("carnot", "better"): lambda g: bisected(
        lambda t: ((t - g["cold"]) / t - carnot(g) - g["better"].to("")).to(""), g["hot"], Q(9000, "K")
    ),
    ("doppler", "speed"): lambda g: driving(g)[0],
    ("doppler", "own"): lambda g: driving(g)[1],
    ("doppler", "meets"): lambda g: g["f1"] * (1 + g["u"] / g["c"]),
    ("photoelectric", "stopping"): lambda g: freed(g) / E,
    ("photoelectric", "speed"): lambda g: np.sqrt(2 * freed(g) / MASS),
    ("photoelectric", "threshold"): lambda g: H * C / g["W"],
    ("photoelectric", "planck"): lambda g: (
        E * (g["u1"] - g["u2"]) / (C / g["wavelength"] - C / g["second"])
    ).to("J*s") / Q(1e-34, "J*s"),
    ("decay", "later"): lambda g: g["A"] * math.exp(-math.log(2) * (g["t"] / g["half"]).to("").m),
    ("decay", "wait"): lambda g: g["half"] * math.log2(1 / g["percent"].to("").m),
    ("decay", "nuclei"): lambda g: (g["A"] * g["half"] / math.log(2)).to("") / 1e9,
}  # fmt: skip
