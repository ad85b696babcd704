"""Collisions, and the work of a force that depends on position."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q


def collision(draw: Draw) -> Situation:
    """Two bodies on a line: elastic, or with part of the relative speed kept."""
    m1, m2 = draw.number(0.2, 6, 0.1), draw.number(0.2, 6, 0.1)
    v1, v2 = draw.number(1, 9, 0.1), draw.number(-6, 0.5, 0.1)
    e = draw.one((1.0, 1.0, draw.number(0.3, 0.9, 0.05)))
    if v1 - v2 < 1 or abs(m1 - m2) < 0.15:
        raise Degenerate("hardly a collision")
    u1 = (m1 * v1 + m2 * v2 - m2 * e * (v1 - v2)) / (m1 + m2)
    u2 = u1 + e * (v1 - v2)
    together = (m1 * v1 + m2 * v2) / (m1 + m2)
    lost = 0.5 * m1 * m2 / (m1 + m2) * (1 - e * e) * (v1 - v2) ** 2
    if min(abs(u1), abs(u2)) < 0.2:
        raise Degenerate("one body rests afterwards")
    kind = "perfectly elastic" if e == 1 else f"partly inelastic, with a coefficient of restitution of {plain(e)}"
    pair = Step(
        "Momentum is conserved, and the relative velocity turns round, e times as large (e = 1 if elastic).",
        f"N(solve([Eq({plain(m1)}*u1 + {plain(m2)}*u2, {plain(m1)}*{plain(v1)} + {plain(m2)}*({plain(v2)})), "
        f"Eq(u2 - u1, {plain(e)}*({plain(v1)} - ({plain(v2)})))], [u1, u2]), 6)",
    )
    swapped = (m1 * v1 + m2 * v2 + m1 * e * (v1 - v2)) / (m1 + m2)
    targets = [
        Target(
            "u1",
            (
                "What is the velocity of the first body afterwards?",
                "Find the first body's signed velocity after the impact.",
            ),
            (pair,),
            u1,
            "m/s",
            mistakes=(-u1, together, -v1, u1 - v2, (m1 * v1 - m2 * v2) / (m1 + m2)),
            hard=True,
        ),
        Target(
            "u2",
            (
                "What is the velocity of the second body afterwards?",
                "Find the second body's signed velocity after the impact.",
            ),
            (pair,),
            u2,
            "m/s",
            mistakes=(-u2, together, v1, -v2 if v2 else v1 / 2, swapped + v1),
            hard=True,
        ),
    ]
    if e < 1:
        targets.append(
            Target(
                "lost",
                ("How much kinetic energy is lost?", "By how many joules does the kinetic energy decrease?"),
                (
                    pair,
                    Step(
                        "The loss is the difference of the kinetic energies.",
                        f"N({plain(m1)}*({plain(v1)}**2 - ({u1:.7g})**2)/2 + "
                        f"{plain(m2)}*(({plain(v2)})**2 - ({u2:.7g})**2)/2, 6)",
                    ),
                ),
                lost,
                "J",
                mistakes=(lost * 2, lost / (1 - e * e), lost * e * e / (1 - e * e), 0.5 * m1 * v1 * v1 * (1 - e * e)),
                hard=True,
            )
        )
    names = draw.one((("cart", "cart"), ("puck", "puck"), ("glider", "glider"), ("ball", "ball")))
    return Situation(
        (
            f"A {names[0]} of {q(m1, 'kg')} (the first) with velocity {q(v1, 'm/s')} meets a second {names[1]} of "
            f"{q(m2, 'kg')} with velocity {q(v2, 'm/s')} on a straight frictionless track. The collision is {kind}.",
            f"On a line, the first {names[0]} ({q(m1, 'kg')}) runs at {q(v1, 'm/s')} into the second one "
            f"({q(m2, 'kg')}), whose velocity was {q(v2, 'm/s')}. What happens is {kind}; nothing else acts.",
            f"Positive velocities point to the right. A first {names[0]}, mass {q(m1, 'kg')}, goes {q(v1, 'm/s')}; a "
            f"second, mass {q(m2, 'kg')}, goes {q(v2, 'm/s')}. They hit head-on and the impact is {kind}.",
            f"In a head-on crash experiment with masses {q(m1, 'kg')} for the first {names[0]} and {q(m2, 'kg')} for "
            f"the second, a camera measured {q(v1, 'm/s')} and {q(v2, 'm/s')}, respectively, just before contact, "
            f"which was {kind}.",
        ),
        {"m1": (m1, "kg"), "m2": (m2, "kg"), "v1": (v1, "m/s"), "v2": (v2, "m/s"), "e": (e, "")},
        tuple(targets),
    )


def work_energy(draw: Draw) -> Situation:
    """A force that depends on position: work is an integral, speed follows from it."""
    a, b = draw.number(2, 40, 0.5), draw.number(0.5, 9, 0.1)
    n = draw.one((2, 3))
    s, m, v0 = draw.number(0.5, 4, 0.1), draw.number(0.5, 8, 0.1), draw.number(0, 5, 0.5)
    work = a * s + b * s ** (n + 1) / (n + 1)
    v = math.sqrt(v0 * v0 + 2 * work / m)
    power = "²" if n == 2 else "³"
    force = f"{plain(a)} + {plain(b)}*x**{n}"
    integral = Step("Work is the integral of the force over the path.", f"N(integrate({force}, (x, 0, {plain(s)})), 6)")
    begin = f"with {q(v0, 'm/s')}" if v0 else "at rest"
    end_force = a + b * s**n
    return Situation(
        (
            f"A body of {q(m, 'kg')} at x = 0 starts {begin} and is pushed along x by the force "
            f"F(x) = {plain(a)} + {plain(b)} x{power} (newtons, x in metres) up to x = {q(s, 'm')}, without friction.",
            f"Without friction, a machine exerts F(x) = {plain(a)} + {plain(b)} x{power} (SI units) on a sledge of "
            f"mass {q(m, 'kg')} in the direction of motion; at the origin the sledge is {begin}, and the push ends at "
            f"{q(s, 'm')}.",
            f"Along a smooth rail a magnet pulls a {q(m, 'kg')} slider so that the force at position x, in SI units, "
            f"is {plain(a)} + {plain(b)} x{power}. It passes x = 0 {begin} in the positive direction; consider the "
            f"stretch to x = {q(s, 'm')}.",
            f"The position-dependent thrust on a model boat ({q(m, 'kg')}, drag is neglected) was fitted by "
            f"{plain(a)} + {plain(b)} x{power} newtons when x is in metres. It is {begin} at x = 0 and observed until "
            f"it has covered {q(s, 'm')}.",
        ),
        {"a": (a, "N"), "b": (b, f"N/m**{n}"), "n": (n, ""), "s": (s, "m"), "m": (m, "kg"), "v0": (v0, "m/s")},
        (
            Target(
                "work",
                ("How much work does the force do?", "What work is done on it over this path?"),
                (integral,),
                work,
                "J",
                mistakes=(end_force * s, a * s, end_force * s / 2, a * s + b * s**n / n),
            ),
            Target(
                "speed",
                ("What is its speed at the end?", "How fast is it at the end of the path?"),
                (
                    integral,
                    Step(
                        "The work changes the kinetic energy: m v^2/2 = m v0^2/2 + W.",
                        f"N(sqrt({plain(v0)}**2 + 2*{work:.7g}/{plain(m)}), 6)",
                    ),
                ),
                v,
                "m/s",
                mistakes=(
                    v0 + math.sqrt(2 * work / m) if v0 else math.sqrt(work / m),
                    math.sqrt(v0 * v0 + 2 * end_force * s / m),
                    math.sqrt(2 * work / m) if v0 else 2 * v,
                    math.sqrt(v0 * v0 + work / (2 * m)),
                ),
                hard=True,
            ),
            Target(
                "potential",
                (
                    "Give the work W(x) done from 0 to x as an expression in x (SI units).",
                    "Express the work W done up to position x as a function of x, in SI units.",
                ),
                (
                    Step(
                        "W(x) is the integral of the force from 0 to x.",
                        f"integrate({plain(a)} + {plain(b)}*s**{n}, (s, 0, x))",
                    ),
                ),
                symbolic=f"{plain(a)}*x + {plain(b)}*x**{n + 1}/{n + 1}",
                asked="W",
            ),
        ),
    )
