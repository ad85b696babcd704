"""Circuits: a drawn network, two drawn loops with batteries, a capacitor that is charged."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q
from specvet.data.physics.figures import network, two_loops

_OHMS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 20, 22, 24, 27, 30, 33, 36, 39, 40, 47, 50, 56, 60, 68, 75, 82, 100, 120)


def resistors(draw: Draw) -> Situation:
    """A drawn network: one resistor in series with two branches side by side."""
    volts = draw.number(3, 24, 0.5)
    r1, r2, r3, r4 = (float(draw.one(_OHMS)) for _ in range(4))
    branch = r3 + r4
    pair = r2 * branch / (r2 + branch)
    total = r1 + pair
    current = volts / total
    if not 0.05 < r1 / pair < 20:
        raise Degenerate("one resistor decides alone")
    u = current * pair
    resistance = Step(
        "R3 and R4 are in series, R2 is parallel to them, R1 in series with all.",
        f"N({plain(r1)} + 1/(1/{plain(r2)} + 1/({plain(r3)} + {plain(r4)})), 6)",
    )
    node = Step(
        "Let U be the voltage across R2. The current through R1 splits into both branches.",
        f"N(solve(Eq(({plain(volts)} - U)/{plain(r1)}, U/{plain(r2)} + U/({plain(r3)} + {plain(r4)})), U), 6)",
    )
    return Situation(
        (
            "The circuit in the figure consists of an ideal battery and four resistors whose values are written beside "
            "them; the wires have no resistance.",
            "In the diagram, four labelled resistors are connected to a battery without internal resistance. Read all "
            "values from it.",
            "A student soldered the network that is drawn here: one voltage source, considered ideal, and R1 to R4 "
            "with the resistances given at each symbol.",
            "Study the schematic, in which perfect wires join a source of constant voltage to R1, R2, R3 and R4; their "
            "sizes stand next to the boxes.",
        ),
        {"V": (volts, "V"), "r1": (r1, "ohm"), "r2": (r2, "ohm"), "r3": (r3, "ohm"), "r4": (r4, "ohm")},
        (
            Target(
                "total",
                ("What is the total resistance that the battery sees?", "Find the equivalent resistance of R1 to R4."),
                (resistance,),
                total,
                "ohm",
                mistakes=(
                    r1 + r2 + r3 + r4,
                    pair,
                    1 / (1 / r1 + 1 / r2 + 1 / branch),
                    r1 + 1 / (1 / r2 + 1 / r3 + 1 / r4),
                    r1 + r2 + branch / 2,
                ),
            ),
            Target(
                "current",
                ("What current does the battery deliver?", "How large is the current through R1?"),
                (resistance, Step("Ohm's law for the whole circuit.", f"N({plain(volts)}/{total:.7g}, 6)")),
                current,
                "A",
                mistakes=(volts / r1, volts / (r1 + r2 + branch), volts / pair, total / volts),
            ),
            Target(
                "voltage",
                ("What is the voltage across R2?", "Find the potential difference between the ends of R2."),
                (node,),
                u,
                "V",
                mistakes=(volts - u, volts, volts * r2 / (r1 + r2), volts * r2 / (r1 + r2 + branch)),
                hard=True,
            ),
            Target(
                "power",
                ("What power is turned into heat in R4?", "How many watts does R4 dissipate?"),
                (
                    node,
                    Step(
                        "R3 and R4 share the current U/(R3 + R4).",
                        f"N(({u:.7g}/({plain(r3)} + {plain(r4)}))**2*{plain(r4)}, 6)",
                    ),
                ),
                (u / branch) ** 2 * r4,
                "W",
                mistakes=(u * u / r4, current**2 * r4, volts**2 / r4, u * u / branch),
                hard=True,
            ),
        ),
        network(
            f"{plain(volts)} V",
            *(f"{name} {plain(r)} ohm" for name, r in zip(("R1", "R2", "R3", "R4"), (r1, r2, r3, r4), strict=True)),
        ),
    )


def kirchhoff(draw: Draw) -> Situation:
    """Two batteries in two loops (drawn): three equations for three currents."""
    e1, e2 = draw.number(2, 24, 0.5), draw.number(2, 24, 0.5)
    r1, r2, r3 = (float(draw.one(_OHMS[:20])) for _ in range(3))
    node = (e1 / r1 + e2 / r2) / (1 / r1 + 1 / r2 + 1 / r3)  # Millman's theorem
    i1, i2, i3 = (e1 - node) / r1, (e2 - node) / r2, node / r3
    if min(abs(i1), abs(i2)) < 0.02 * abs(i3) or i3 < 0.01:
        raise Degenerate("a current is nearly zero")
    loops = Step(
        "Currents I1 and I2 flow from the positive poles into node a, I3 leaves it through R3.",
        f"N(solve([Eq(i1 + i2, i3), Eq({plain(e1)}, {plain(r1)}*i1 + {plain(r3)}*i3), "
        f"Eq({plain(e2)}, {plain(r2)}*i2 + {plain(r3)}*i3)], [i1, i2, i3]), 6)",
    )
    alone = e1 / (r1 + r3)
    return Situation(
        (
            "The figure shows a circuit of two loops with two ideal batteries and three resistors; the longer plate of "
            "each battery is its positive pole.",
            "In the circuit diagram, both sources are ideal with their positive poles on top, and R1, R2 and R3 are "
            "labelled with their resistances.",
            "Two batteries without internal resistance, each with its plus side up, feed the network that you see; "
            "every resistance and voltage stands beside its symbol.",
            "Kirchhoff's laws govern the drawing: a left and a right voltage source (long plate means plus), one "
            "resistor above each mesh, another in the branch from a to b.",
        ),
        {"e1": (e1, "V"), "e2": (e2, "V"), "r1": (r1, "ohm"), "r2": (r2, "ohm"), "r3": (r3, "ohm")},
        (
            Target(
                "i3",
                ("What current flows through R3?", "How large is the current in the middle branch?"),
                (loops,),
                i3,
                "A",
                mistakes=(alone, e2 / (r2 + r3), (e1 + e2) / (r1 + r2 + r3), alone + e2 / (r2 + r3)),
                hard=True,
            ),
            Target(
                "i1",
                (
                    "What current flows through R1, counted positive if it leaves the positive pole of the left "
                    "battery?",
                    "Find the signed current of the left battery (positive: out of its positive pole).",
                ),
                (loops,),
                i1,
                "A",
                mistakes=(-i1, alone, i2, (e1 - e2) / (r1 + r2), e1 / r1),
                hard=True,
            ),
            Target(
                "uab",
                ("What is the voltage between a and b?", "Find the potential of node a relative to node b."),
                (loops, Step("The voltage between a and b is that of R3.", f"N({plain(r3)}*{i3:.7g}, 6)")),
                node,
                "V",
                mistakes=(e1 - e2 if e1 != e2 else e1, (e1 + e2) / 2, e1 * r3 / (r1 + r3), e2 * r3 / (r2 + r3)),
                hard=True,
            ),
        ),
        two_loops(
            f"{plain(e1)} V",
            f"R1 {plain(r1)} ohm",
            f"{plain(e2)} V",
            f"R2 {plain(r2)} ohm",
            f"R3 {plain(r3)} ohm",
        ),
    )


def rc_circuit(draw: Draw) -> Situation:
    """A capacitor that is charged through a resistor from a partly charged state."""
    volts, r, c = draw.number(5, 24, 0.5), draw.number(1, 100, 1), draw.number(10, 470, 5)
    start = draw.number(0, 4, 0.5)
    tau = r * 1e3 * c * 1e-6
    t = float(f"{tau * draw.number(0.3, 2.5, 0.05):.2g}")
    goal = float(f"{start + (volts - start) * draw.number(0.3, 0.9, 0.05):.2g}")
    if not start + 0.5 < goal < volts - 0.3:
        raise Degenerate("the voltage is not reached")
    u = volts - (volts - start) * math.exp(-t / tau)
    law = f"{plain(volts)} - ({plain(volts)} - {plain(start)})*exp(-t/{tau:.6g})"
    initial = f"holds {q(start, 'V')} already" if start else "is empty"
    return Situation(
        (
            f"A capacitor of {q(c, 'uF')} {initial} when, at t = 0, a switch connects it through a resistor of "
            f"{q(r, 'kohm')} to an ideal battery of {q(volts, 'V')}.",
            f"Through R = {q(r, 'kohm')} a {q(volts, 'V')} source charges a capacitor, C = {q(c, 'uF')}, from the "
            f"moment t = 0 on; just before, the capacitor {initial}.",
            f"At time zero somebody closes a series circuit of a constant supply ({q(volts, 'V')}), one resistor "
            f"({q(r, 'kohm')}) and one capacitor ({q(c, 'uF')}), which {initial}.",
            f"A timer uses the charging of a {q(c, 'uF')} capacitor over a {q(r, 'kohm')} resistor towards a supply "
            f"voltage of {q(volts, 'V')}. When it is started, at t = 0, the capacitor {initial}.",
        ),
        {
            "V": (volts, "V"),
            "R": (r, "kohm"),
            "C": (c, "uF"),
            "V0": (start, "V"),
            "t": (t, "s"),
            "goal": (goal, "V"),
        },
        (
            Target(
                "voltage",
                (
                    f"What is the voltage across the capacitor at t = {q(t, 's')}?",
                    f"To what voltage has the capacitor risen by t = {q(t, 's')}?",
                ),
                (
                    Step(
                        "u(t) = V - (V - u0) exp(-t/(R C)) with R C in seconds.",
                        f"N({plain(volts)} - ({plain(volts)} - {plain(start)})*exp(-{plain(t)}/"
                        f"({plain(r)}*1000*{plain(c)}/1000000)), 6)",
                    ),
                ),
                u,
                "V",
                mistakes=(
                    volts * math.exp(-t / tau),
                    volts * t / tau if t < tau else volts,
                    start + volts * (1 - math.exp(-t / tau)) if start else volts * (1 - math.exp(-tau / t)),
                    volts - u,
                ),
            ),
            Target(
                "when",
                (
                    f"When does the voltage across the capacitor reach {q(goal, 'V')}?",
                    f"After what time is the capacitor at {q(goal, 'V')}?",
                ),
                (
                    Step(
                        "Solve u(t) = V - (V - u0) exp(-t/(R C)) for t, starting near R C.",
                        f"nsolve(Eq({law}, {plain(goal)}), t, {tau:.3g})",
                    ),
                ),
                tau * math.log((volts - start) / (volts - goal)),
                "s",
                mistakes=(
                    tau * goal / volts,
                    tau * math.log(volts / goal),
                    tau * math.log10((volts - start) / (volts - goal)),
                    tau,
                ),
                hard=True,
            ),
            Target(
                "energy",
                (
                    f"How much energy does the capacitor hold at t = {q(t, 's')}?",
                    f"Find the energy stored in the capacitor at the time {q(t, 's')}.",
                ),
                (
                    Step("First the voltage.", f"N({law.replace('-t/', f'-{plain(t)}/')}, 6)"),
                    Step("Energy is C u^2/2, in mJ.", f"N(1000*{plain(c)}/1000000*{u:.7g}**2/2, 6)"),
                ),
                0.5 * c * 1e-6 * u * u * 1e3,
                "mJ",
                mistakes=(
                    0.5 * c * 1e-6 * volts**2 * 1e3,
                    c * 1e-6 * u * u * 1e3,
                    0.5 * c * 1e-6 * u * 1e3,
                    0.5 * c * 1e-6 * (volts - u) ** 2 * 1e3,
                ),
                hard=True,
            ),
            Target(
                "law",
                (
                    "Give the voltage u(t) across the capacitor as an expression in t (volts and seconds).",
                    "Express the capacitor's voltage u as a function of t, in volts and seconds.",
                ),
                (
                    Step("The time constant R C in seconds.", f"N({plain(r)}*1000*{plain(c)}/1000000, 6)"),
                    Step("u(t) = V - (V - u0) exp(-t/(R C)).", f"simplify({law})"),
                ),
                symbolic=law,
                asked="u",
            ),
        ),
    )
