"""Charges on a line, and charged particles in a magnetic field."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q, sensible

COULOMB = 8.988e9
"""N m²/C²."""
E = 1.602e-19
"""C."""


def charges(draw: Draw) -> Situation:
    """Two charges on a line: the force on a third, the field between them, the point without field."""
    q1, q2, q3 = draw.number(1, 12, 0.5), draw.number(1, 12, 0.5), draw.number(0.5, 5, 0.5)
    d = draw.number(20, 120, 5)
    x = draw.number(5, d - 5, 1)
    if abs(q1 - q2) < 0.4:
        raise Degenerate("equal charges meet in the middle")
    k = COULOMB * 1e-12
    near, far = k * q1 * q3 / (x / 100) ** 2, k * q2 * q3 / ((d - x) / 100) ** 2
    force = near - far
    if abs(force) < 0.05 * max(near, far):
        raise Degenerate("the forces cancel")
    point = d * math.sqrt(q1) / (math.sqrt(q1) + math.sqrt(q2))
    potential = COULOMB * 1e-6 * (q1 / (x / 100) + q2 / ((d - x) / 100)) / 1e3
    return Situation(
        (
            f"Two small positive charges of {q(q1, 'uC')} (at x = 0) and {q(q2, 'uC')} (at x = {q(d, 'cm')}) are fixed "
            f"on the x axis, in vacuum.",
            f"In vacuum a point charge of {q(q1, 'uC')} sits at the origin, and another of {q(q2, 'uC')} on the x axis "
            f"at {q(d, 'cm')}; neither can move.",
            f"The ends of a thin insulating rod of length {q(d, 'cm')} carry charges: {q(q1, 'uC')} where x = 0, and "
            f"{q(q2, 'uC')} at the other end. Treat both as points in empty space.",
            f"Glue a charge of {q(q1, 'uC')} to the zero of a ruler, and a second one, {q(q2, 'uC')}, to its "
            f"{q(d, 'cm')} mark (call the direction x); the air has no influence.",
        ),
        {"q1": (q1, "uC"), "q2": (q2, "uC"), "q3": (q3, "uC"), "d": (d, "cm"), "x": (x, "cm")},
        (
            Target(
                "force",
                (
                    f"What force acts on a third charge of {q(q3, 'uC')} at x = {q(x, 'cm')}? Positive means towards "
                    "larger x.",
                    f"Find the signed force (positive along +x) on {q(q3, 'uC')} placed at x = {q(x, 'cm')}.",
                ),
                (
                    Step(
                        "Coulomb's law: the first charge pushes forwards, the second one back.",
                        f"N(8.988*10**9*{plain(q3)}*10**(-12)*({plain(q1)}/{x / 100:.6g}**2 - "
                        f"{plain(q2)}/{(d - x) / 100:.6g}**2), 6)",
                    ),
                ),
                force,
                "N",
                mistakes=(
                    near + far,
                    -force,
                    k * q3 * (q1 / (x / 100) - q2 / ((d - x) / 100)),
                    k * q3 * (q1 + q2) / (d / 100) ** 2,
                ),
            ),
            Target(
                "zero",
                ("At which x between them is the field zero?", "Find the point x between both where no field remains."),
                (
                    Step(
                        "The fields cancel where q1/x^2 = q2/(d - x)^2; take the root between both.",
                        f"N(solve(Eq({plain(q1)}*({plain(d)} - x)**2, {plain(q2)}*x**2), x), 6)",
                    ),
                ),
                point,
                "cm",
                mistakes=(d - point, d * q1 / (q1 + q2), d / 2, d * q2 / (q1 + q2)),
                hard=True,
            ),
            Target(
                "potential",
                (
                    f"What is the electric potential at x = {q(x, 'cm')}, relative to infinity?",
                    f"Find the potential at the point x = {q(x, 'cm')} (zero far away).",
                ),
                (
                    Step(
                        "Potentials add: k q/r of each, in kV.",
                        f"N(8.988*10**9*10**(-6)*({plain(q1)}/{x / 100:.6g} + "
                        f"{plain(q2)}/{(d - x) / 100:.6g})/1000, 6)",
                    ),
                ),
                potential,
                "kV",
                mistakes=(
                    abs(q1 / x - q2 / (d - x)) * COULOMB * 1e-7,
                    COULOMB * 1e-7 * (q1 + q2) / d,
                    potential / 10,
                    COULOMB * 1e-5 * (q1 / x**2 + q2 / (d - x) ** 2),
                ),
            ),
        ),
    )


_PARTICLES = {"proton": (1.6726e-27, 1), "deuteron": (3.3436e-27, 1), "alpha particle": (6.6447e-27, 2)}
"""kg, elementary charges."""


def magnetic(draw: Draw) -> Situation:
    """A particle is accelerated by a voltage and bent by a magnetic field."""
    name = draw.one(tuple(_PARTICLES))
    mass, number = _PARTICLES[name]
    charge = number * E
    kv, b = draw.number(0.5, 60, 0.5), draw.number(0.05, 1.2, 0.01)
    v = math.sqrt(2 * charge * kv * 1e3 / mass)
    r = sensible(mass * v / (charge * b) * 100, 0.5, 300, "radius")
    period = 2 * math.pi * mass / (charge * b) * 1e9
    mantissa, _, power = f"{mass:.4e}".partition("e")
    m_text, q_text = f"{mantissa}*10**({int(power)})", f"{number}*1.602*10**(-19)"
    fast = Step(
        "Energy: m v^2/2 = q U; v in km/s.", f"N(sqrt(2*{q_text}*{plain(kv)}*1000/({m_text}))/1000, 6)"
    )  # the mass and charge of the particle are what everybody can look up
    return Situation(
        (
            f"A {name} (mass {mantissa} × 10^{int(power)} kg, charge {number} e) starts at rest, is accelerated by a "
            f"voltage of {q(kv, 'kV')} and enters a uniform magnetic field of {q(b, 'T')} at a right angle.",
            f"After falling through a potential difference of {q(kv, 'kV')} from rest, a {name} with m = {mantissa} × "
            f"10^{int(power)} kg and q = {number} e flies perpendicular to the lines of a homogeneous field B = "
            f"{q(b, 'T')}.",
            f"In a spectrometer, ions gain speed between plates at {q(kv, 'kV')} (initially they do not move) before a "
            f"magnet of {q(b, 'T')} bends them; each one is a {name}: {mantissa} × 10^{int(power)} kg, {number} e, "
            "moving across the field.",
            f"Let a {name} (its mass is {mantissa} × 10^{int(power)} kg and it carries {number} e) leave a source with "
            f"negligible speed; {q(kv, 'kV')} then drives it into a region with B = {q(b, 'T')} normal to its path.",
        ),
        {"m": (mass, "kg"), "n": (number, ""), "U": (kv, "kV"), "B": (b, "T")},
        (
            Target(
                "speed",
                ("With what speed does it enter the field?", "How fast is it when the acceleration is over?"),
                (fast,),
                v / 1e3,
                "km/s",
                mistakes=(v / 1e3 / math.sqrt(2), v / 1e3 * math.sqrt(2), v / 1e3 / math.sqrt(1000), v / 500),
            ),
            Target(
                "radius",
                ("What is the radius of its circular path?", "How large is the radius of the circle that it follows?"),
                (
                    fast,
                    Step(
                        "The magnetic force keeps it on a circle: r = m v/(q B), in cm.",
                        f"N(100*{m_text}*{v:.7g}/({q_text}*{plain(b)}), 6)",
                    ),
                ),
                r,
                "cm",
                mistakes=(r / math.sqrt(2), r * 2, r * number * 1.5, r * b),
                hard=True,
            ),
            Target(
                "period",
                ("How long does one revolution take?", "What is the period of its circular motion?"),
                (
                    Step(
                        "The period T = 2 pi m/(q B) does not depend on the speed, in ns.",
                        f"N(10**9*2*pi*{m_text}/({q_text}*{plain(b)}), 6)",
                    ),
                ),
                period,
                "ns",
                mistakes=(period / (2 * math.pi), period / 2, period * b * b, period * 2),
            ),
        ),
    )
