"""Heat: gases, mixing and melting, engines."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q, sensible

R = 8.314
"""J/(mol K)."""
ZERO = 273.15
"""K, of 0 °C."""

_GASES = {"helium": 5 / 3, "argon": 5 / 3, "neon": 5 / 3, "nitrogen": 7 / 5, "oxygen": 7 / 5, "dry air": 7 / 5}
"""The adiabatic exponent."""


def ideal_gas(draw: Draw) -> Situation:
    """A gas in a cylinder: state, isothermal work, adiabatic change."""
    name = draw.one(tuple(_GASES))
    gamma = _GASES[name]
    litres, p, celsius = draw.number(2, 40, 0.5), draw.number(80, 600, 5), draw.number(-20, 180, 1)
    ratio = draw.one((0.25, 0.3, 0.4, 0.5, 0.6, 1.5, 2.0, 2.5, 3.0, 4.0))
    end = float(f"{litres * ratio:.4g}")
    kelvin = celsius + ZERO
    moles = p * litres / (R * kelvin)
    work = p * litres * math.log(end / litres)
    hot = kelvin * (litres / end) ** (gamma - 1)
    fraction = "5/3" if gamma > 1.5 else "7/5"
    side = "compressed" if ratio < 1 else "expanded"
    return Situation(
        (
            f"A cylinder holds {q(litres, 'L')} of {name} (an ideal gas with γ = {fraction}) at {q(p, 'kPa')} and "
            f"{q(celsius, 'degC')}. A piston then changes its volume to {q(end, 'L')}.",
            f"At {q(celsius, 'degC')} and a pressure of {q(p, 'kPa')}, {name} fills {q(litres, 'L')}; treat it as "
            f"ideal with heat capacity ratio {fraction}. It is {side} to {q(end, 'L')}.",
            f"Behind a movable wall is {name}: volume {q(litres, 'L')}, temperature {q(celsius, 'degC')}, pressure "
            f"{q(p, 'kPa')}, ideal behaviour, c_p/c_v = {fraction}. The wall is moved slowly until the volume is "
            f"{q(end, 'L')}.",
            f"In a pump the working medium is {name} (γ equal to {fraction}, ideal gas law). From {q(p, 'kPa')}, "
            f"{q(litres, 'L')} and {q(celsius, 'degC')} the volume goes reversibly to {q(end, 'L')}.",
        ),
        {"V": (litres, "L"), "p": (p, "kPa"), "T": (celsius, "degC"), "V2": (end, "L"), "gamma": (gamma, "")},
        (
            Target(
                "moles",
                ("How many moles of gas are there?", "What amount of substance, in mol, does it hold?"),
                (
                    Step(
                        "p V = n R T with T in kelvin and R = 8.314 J/(mol K); kPa times L are J.",
                        f"N(solve(Eq({plain(p)}*{plain(litres)}, n*{R}*({plain(celsius)} + 273.15)), n), 6)",
                    ),
                ),
                moles,
                "mol",
                mistakes=(
                    p * litres / (R * celsius) if celsius > 1 else moles * 3,
                    moles * 1000,
                    moles / 10,
                    litres / 22.4 * 1.5,
                ),
            ),
            Target(
                "work",
                (
                    "How much work does the gas do if its temperature stays constant (negative if work is done on it)?",
                    "For an isothermal change, find the signed work done by the gas.",
                ),
                (
                    Step(
                        "The work is the integral of p dV with p = p1 V1/V; kPa times L are J.",
                        f"N(integrate({plain(p)}*{plain(litres)}/V, (V, {plain(litres)}, {plain(end)})), 6)",
                    ),
                ),
                work,
                "J",
                mistakes=(-work, p * (end - litres), work / math.log(10), work * celsius / kelvin),
                hard=True,
            ),
            Target(
                "hot",
                (
                    "What is the final temperature in °C if no heat is exchanged?",
                    "For an adiabatic change, find the final temperature in degrees Celsius.",
                ),
                (
                    Step(
                        "T V^(gamma - 1) is constant, with T in kelvin.",
                        f"N(({plain(celsius)} + 273.15)*({plain(litres)}/{plain(end)})**({fraction} - 1) - 273.15, 6)",
                    ),
                ),
                _temperature(hot - ZERO),
                "degC",
                mistakes=(
                    kelvin * (end / litres) ** (gamma - 1) - ZERO,
                    celsius * (litres / end) ** (gamma - 1) if abs(celsius) > 3 else hot,
                    kelvin * litres / end - ZERO,
                    kelvin * (litres / end) ** gamma - ZERO,
                ),
                tolerance=0.02,
                hard=True,
            ),
            Target(
                "pressure",
                (
                    "What is the final pressure if no heat is exchanged?",
                    "For an adiabatic change, find the pressure at the end.",
                ),
                (
                    Step(
                        "p V^gamma is constant.",
                        f"N({plain(p)}*({plain(litres)}/{plain(end)})**({fraction}), 6)",
                    ),
                ),
                p * (litres / end) ** gamma,
                "kPa",
                mistakes=(
                    p * litres / end,
                    p * (end / litres) ** gamma,
                    p * (litres / end) ** (gamma - 1),
                    p * (litres / end) ** (1 / gamma),
                ),
            ),
        ),
    )


def _temperature(celsius: float) -> float:
    if abs(celsius) < 8:
        raise Degenerate("a temperature near 0 °C has no sensible relative tolerance")
    return celsius


_METALS = {"copper": 385, "aluminium": 897, "iron": 449, "brass": 380, "lead": 129, "silver": 235, "nickel": 444}
"""J/(kg K)."""


def calorimetry(draw: Draw) -> Situation:
    """Hot metal into water in a calorimeter: temperature, unknown heat capacity, ice."""
    name = draw.one(tuple(_METALS))
    c = float(_METALS[name])
    m, hot = draw.number(50, 900, 10), draw.number(70, 250, 5)
    water, cold, cup = draw.number(100, 900, 10), draw.number(8, 30, 1), draw.number(20, 150, 5)
    c_w = 4186.0
    system = water / 1000 * c_w + cup
    t = (m / 1000 * c * hot + system * cold) / (m / 1000 * c + system)
    if not cold + 1.5 < t < 95:
        raise Degenerate("the water hardly warms up, or boils")
    given = m / 1000 * c * (hot - t)
    ice = m / 1000 * c * hot / 3.34e5 * 1000
    balance = Step(
        "What the metal gives is what water and vessel take.",
        f"N(solve(Eq({m / 1000:.6g}*{plain(c)}*({plain(hot)} - T), "
        f"({water / 1000:.6g}*4186 + {plain(cup)})*(T - {plain(cold)})), T), 6)",
    )
    return Situation(
        (
            f"A piece of {name} (specific heat {plain(c)} J/(kg K)) with a mass of {q(m, 'g')} at {q(hot, 'degC')} is "
            f"dropped into a calorimeter of heat capacity {plain(cup)} J/K that holds {q(water, 'g')} of water at "
            f"{q(cold, 'degC')}; water has 4186 J/(kg K).",
            f"An insulated vessel (heat capacity {plain(cup)} J/K) contains {q(water, 'g')} of water, "
            f"c = 4186 J/(kg K), and both have {q(cold, 'degC')}. Somebody adds {q(m, 'g')} of {name} heated to "
            f"{q(hot, 'degC')}, with c = {plain(c)} J/(kg K).",
            f"To {q(water, 'g')} of water (4186 J/(kg K)) in a thermos whose own heat capacity is {plain(cup)} J/K, "
            f"all at {q(cold, 'degC')}, a hot lump of {name} is given: {q(m, 'g')}, {q(hot, 'degC')}, {plain(c)} J/(kg "
            "K). No heat is lost.",
            f"After lying in an oven at {q(hot, 'degC')}, {q(m, 'g')} of {name}, for which tables list {plain(c)} "
            f"J/(kg K), sink into a beaker ({plain(cup)} J/K for the glass) with {q(water, 'g')} of water that had "
            f"{q(cold, 'degC')} like the glass; take 4186 J/(kg K) for water and neglect losses.",
        ),
        {
            "m": (m, "g"),
            "c": (c, "J/(kg*K)"),
            "hot": (hot, "degC"),
            "water": (water, "g"),
            "cold": (cold, "degC"),
            "cup": (cup, "J/K"),
        },
        (
            Target(
                "final",
                ("What is the final temperature in °C?", "At what temperature (°C) does everything settle?"),
                (balance,),
                t,
                "degC",
                mistakes=(
                    (hot + cold) / 2,
                    (m * hot + water * cold) / (m + water),
                    (m * c * hot + water * c_w * cold) / (m * c + water * c_w) + 1.8,
                    t - cold,
                ),
                hard=True,
            ),
            Target(
                "heat",
                (
                    "How much heat does the metal give off until all have the same temperature?",
                    "Find the heat that flows out of the metal, in kJ.",
                ),
                (
                    balance,
                    Step("Then Q = m c (T1 - T), in kJ.", f"N({m / 1e6:.6g}*{plain(c)}*({plain(hot)} - {t:.8g}), 6)"),
                ),
                given / 1e3,
                "kJ",
                mistakes=(
                    m / 1e6 * c * hot,
                    m / 1e6 * c * (hot - cold),
                    m / 1e6 * c_w * (hot - t),
                    m / 1e6 * c * t,
                ),
                hard=True,
            ),
            Target(
                "ice",
                (
                    "How much ice at 0 °C would the same piece of metal melt instead, if it cooled to 0 °C in a large "
                    "amount of ice (latent heat 334 kJ/kg)?",
                    "Suppose that the hot metal is put on plenty of ice at 0 °C instead (334 kJ/kg to melt). What mass "
                    "of ice melts?",
                ),
                (
                    Step(
                        "m c T = L m_ice, in g.",
                        f"N(1000*{m / 1000:.6g}*{plain(c)}*{plain(hot)}/334000, 6)",
                    ),
                ),
                ice,
                "g",
                mistakes=(
                    ice * (hot + ZERO) / hot,
                    ice * (hot - t) / hot,
                    ice * c_w / c,
                    ice / 10,
                ),
            ),
        ),
    )


def carnot(draw: Draw) -> Situation:
    """A reversible engine between two temperatures, also run backwards."""
    hot, cold = draw.number(120, 650, 5), draw.number(-10, 60, 1)
    heat, seconds = draw.number(0.5, 40, 0.5), draw.number(0.5, 8, 0.5)
    th, tc = hot + ZERO, cold + ZERO
    eta = 1 - tc / th
    better = draw.number(2, 15, 1)
    need = tc / (1 - eta - better / 100) - ZERO
    sensible(need, hot + 5, 2500, "temperature")
    work = heat * eta
    rate = Step(
        "Carnot: 1 - Tc/Th with temperatures in kelvin.",
        f"N(1 - ({plain(cold)} + 273.15)/({plain(hot)} + 273.15), 8)",
    )
    return Situation(
        (
            f"A Carnot engine works between reservoirs at {q(hot, 'degC')} and {q(cold, 'degC')}. In each cycle of "
            f"{q(seconds, 's')} it takes in {q(heat, 'kJ')} of heat from the hot one.",
            f"Between a boiler at {q(hot, 'degC')} and surroundings at {q(cold, 'degC')} runs a reversible heat "
            f"engine; one cycle lasts {q(seconds, 's')} and absorbs {q(heat, 'kJ')} at the upper temperature.",
            f"An ideal (reversible) machine draws {q(heat, 'kJ')} per cycle out of a bath kept at {q(hot, 'degC')} and "
            f"gives its waste heat to another of {q(cold, 'degC')}. It needs {q(seconds, 's')} for every cycle.",
            f"Every {q(seconds, 's')} a power plant of the best possible (Carnot) kind completes a cycle. Steam at "
            f"{q(hot, 'degC')} delivers {q(heat, 'kJ')} to it each time, while cooling water has {q(cold, 'degC')}.",
        ),
        {
            "hot": (hot, "degC"),
            "cold": (cold, "degC"),
            "Q": (heat, "kJ"),
            "t": (seconds, "s"),
            "better": (better, "percent"),
        },
        (
            Target(
                "efficiency",
                ("What is its efficiency in percent?", "Which percentage of the heat becomes work?"),
                (
                    Step(
                        "Carnot: 1 - Tc/Th with temperatures in kelvin, in percent.",
                        f"N(100*(1 - ({plain(cold)} + 273.15)/({plain(hot)} + 273.15)), 6)",
                    ),
                ),
                100 * eta,
                "percent",
                mistakes=(
                    100 * (1 - cold / hot),
                    100 * tc / th,
                    100 * (th - tc) / tc if th < 2 * tc else 50 * eta,
                    100 * cold / hot if cold > 1 else 25 * eta,
                ),
            ),
            Target(
                "power",
                ("What mechanical power does it deliver?", "Find its mean mechanical power in kW."),
                (rate, Step("Work per cycle over its time, in kW.", f"N({plain(heat)}*{eta:.8g}/{plain(seconds)}, 6)")),
                work / seconds,
                "kW",
                mistakes=(
                    heat / seconds,
                    heat * (1 - cold / hot) / seconds,
                    heat * tc / th / seconds,
                    work * seconds if abs(seconds - 1) > 0.1 else work * 3,
                ),
                hard=True,
            ),
            Target(
                "better",
                (
                    f"To what temperature (°C) must the hot reservoir be raised so that the efficiency grows by "
                    f"{plain(better)} percentage points?",
                    f"Which temperature in °C of the hot side would make the efficiency {plain(better)} percentage "
                    "points higher?",
                ),
                (
                    rate,
                    Step(
                        "Solve for the temperature x of the hot side, in °C.",
                        f"N(solve(Eq(1 - ({plain(cold)} + 273.15)/(x + 273.15), {eta:.8g} + {plain(better)}/100), "
                        "x), 6)",
                    ),
                ),
                need,
                "degC",
                mistakes=(
                    hot * (1 + better / 100),
                    need + ZERO,
                    th / (1 - better / 100) - ZERO,
                    cold / (1 - eta - better / 100) if cold > 5 else need * 2,
                ),
                hard=True,
            ),
        ),
    )
