"""Mechanics: inclined planes, oscillations, circular motion."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, G, Situation, Step, Target, plain, q, sensible


def incline(draw: Draw) -> Situation:
    """A block on a rough ramp, pulled up by a hanging one over a pulley: two equations, two unknowns."""
    m, hanging = draw.number(1, 12, 0.5), draw.number(2, 30, 0.5)
    angle, mu = draw.number(10, 50, 1), draw.number(0.05, 0.5, 0.01)
    sin, cos = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    pull = hanging - m * (sin + mu * cos)
    a = sensible(pull * G / (m + hanging), 0.3, 9, "acceleration")
    tension = hanging * (G - a)
    s = draw.number(0.5, 4, 0.1)
    speed = math.sqrt(2 * a * s)
    rad = f"N({plain(angle)}*pi/180)"
    pair = Step(
        "Newton's second law along the string, for the hanging block and for the block on the ramp.",
        f"N(solve([Eq({plain(hanging)}*{G} - T, {plain(hanging)}*a), "
        f"Eq(T - {plain(m)}*{G}*sin({rad}) - {plain(mu)}*{plain(m)}*{G}*cos({rad}), {plain(m)}*a)], [T, a]), 6)",
    )
    return Situation(
        (
            f"A block of {q(m, 'kg')} lies on a ramp inclined at {q(angle, 'deg')}; the coefficient of kinetic "
            f"friction is {plain(mu)}. A light string over a frictionless pulley at the top ties it to a block of "
            f"{q(hanging, 'kg')} that hangs freely and pulls it up the ramp. Use g = {G} m/s².",
            f"Over an ideal pulley at the upper end of a slope ({q(angle, 'deg')}), a hanging mass of "
            f"{q(hanging, 'kg')} drags a crate of {q(m, 'kg')} upwards. Between crate and slope μ = {plain(mu)} for "
            f"sliding; the rope has no mass and g = {G} m/s².",
            f"Two bodies are joined by a massless cord: one of {q(hanging, 'kg')} falls vertically, the other of "
            f"{q(m, 'kg')} slides up a plane tilted by {q(angle, 'deg')} with kinetic friction coefficient "
            f"{plain(mu)}. The pulley turns freely, and g = {G} m/s².",
            f"On a plank that makes {q(angle, 'deg')} with the floor sits a box (mass {q(m, 'kg')}, sliding friction "
            f"{plain(mu)}). Its cable runs over a perfect roller to a counterweight of {q(hanging, 'kg')}, which sinks "
            f"while the box climbs; take g = {G} m/s².",
        ),
        {"m": (m, "kg"), "M": (hanging, "kg"), "angle": (angle, "deg"), "mu": (mu, ""), "s": (s, "m")},
        (
            Target(
                "acceleration",
                ("What is the acceleration of the blocks?", "Find the common acceleration of both bodies."),
                (pair,),
                a,
                "m/s**2",
                mistakes=(
                    pull * G / m,
                    (hanging - m * sin) * G / (m + hanging),
                    (hanging - m * (cos + mu * sin)) * G / (m + hanging),
                    (hanging - m * mu) * G / (m + hanging),
                ),
                hard=True,
            ),
            Target(
                "tension",
                ("What is the tension in the string?", "How large is the force in the string between them?"),
                (pair,),
                tension,
                "N",
                mistakes=(
                    hanging * G,
                    hanging * a,
                    m * G * (sin + mu * cos),
                    hanging * (G + a),
                ),
                hard=True,
            ),
            Target(
                "speed",
                (
                    f"They start from rest. How fast are they after moving {q(s, 'm')}?",
                    f"What speed have they reached when each has moved {q(s, 'm')} from rest?",
                ),
                (pair, Step("From rest, v^2 = 2 a s.", f"N(sqrt(2*{a:.6g}*{plain(s)}), 6)")),
                speed,
                "m/s",
                mistakes=(math.sqrt(a * s), 2 * a * s, math.sqrt(2 * G * s), a * s),
                hard=True,
            ),
        ),
    )


def oscillation(draw: Draw) -> Situation:
    """A mass on a spring that is pushed from a stretched position."""
    m, k = draw.number(0.1, 3, 0.05), draw.number(5, 200, 1)
    x, v = draw.number(2, 20, 0.5), draw.number(0.1, 2, 0.05)
    omega = math.sqrt(k / m)
    x_m = x / 100
    amplitude = math.sqrt(x_m**2 + (v / omega) ** 2)
    when = math.atan2(v, x_m * omega) / omega
    return Situation(
        (
            f"A mass of {q(m, 'kg')} on a frictionless table is tied to a wall by a spring of stiffness {q(k, 'N/m')}. "
            f"At t = 0 it is {q(x, 'cm')} from equilibrium and moves away from it at {q(v, 'm/s')}.",
            f"On an air track a glider ({q(m, 'kg')}) oscillates on a spring with k = {q(k, 'N/m')}. When the clock "
            f"starts the spring is stretched by {q(x, 'cm')}, and the glider is moving outwards with {q(v, 'm/s')}.",
            f"A spring (constant {q(k, 'N/m')}) drives a body of {q(m, 'kg')} back and forth without damping; "
            f"initially the displacement is {q(x, 'cm')} and the velocity {q(v, 'm/s')}, both in the same direction.",
            f"Without friction, a {q(m, 'kg')} puck performs harmonic motion under a restoring force of {q(k, 'N/m')} "
            f"times its displacement. It passes the point {q(x, 'cm')} beyond the centre at time zero, heading outward "
            f"with speed {q(v, 'm/s')}.",
        ),
        {"m": (m, "kg"), "k": (k, "N/m"), "x": (x, "cm"), "v": (v, "m/s")},
        (
            Target(
                "period",
                ("What is the period of the motion?", "How long does one full oscillation take?"),
                (Step("The period is T = 2 pi sqrt(m/k).", f"N(2*pi*sqrt({plain(m)}/{plain(k)}), 6)"),),
                2 * math.pi / omega,
                "s",
                mistakes=(
                    2 * math.pi * omega,
                    2 * math.pi * m / k,
                    math.sqrt(m / k),
                    math.pi * math.sqrt(m / k),
                ),
            ),
            Target(
                "amplitude",
                ("What is the amplitude of the motion?", "How far from equilibrium does it get at most?"),
                (
                    Step(
                        "Energy: k A^2/2 = k x^2/2 + m v^2/2, with A > 0.",
                        f"N(solve(Eq({plain(k)}*A**2/2, {plain(k)}*{x_m:.6g}**2/2 + {plain(m)}*{plain(v)}**2/2), "
                        "A), 6)",
                    ),
                    Step("In cm.", f"N(100*{amplitude:.7g}, 6)"),
                ),
                amplitude * 100,
                "cm",
                mistakes=(x, x + v / omega * 100, v / omega * 100, 100 * (x_m**2 + (v / omega) ** 2)),
                hard=True,
            ),
            Target(
                "when",
                (
                    "At what time does it first come to rest?",
                    "After how many seconds does it first reverse its motion?",
                ),
                (
                    Step(
                        "x(t) = x0 cos(w t) + (v0/w) sin(w t) has zero velocity where tan(w t) = v0/(w x0).",
                        f"N(atan({plain(v)}/({x_m:.6g}*sqrt({plain(k)}/{plain(m)})))/sqrt({plain(k)}/{plain(m)}), 6)",
                    ),
                ),
                when,
                "s",
                mistakes=(
                    math.pi / (2 * omega),
                    math.atan2(x_m * omega, v) / omega,
                    math.atan2(v, x_m * omega),
                    x_m / v,
                ),
                hard=True,
            ),
            Target(
                "fastest",
                ("What is its greatest speed?", "How fast is it when it passes the equilibrium position?"),
                (
                    Step(
                        "All energy is kinetic at the centre: m u^2 = k x^2 + m v^2, with u > 0.",
                        f"N(solve(Eq({plain(m)}*u**2, {plain(k)}*{x_m:.6g}**2 + {plain(m)}*{plain(v)}**2), u), 6)",
                    ),
                ),
                amplitude * omega,
                "m/s",
                mistakes=(x_m * omega, x_m * omega + v, amplitude * omega**2, v),
            ),
        ),
    )


def circular(draw: Draw) -> Situation:
    """A banked curve with friction: the speed at which a car does not slip."""
    r, angle, mu = draw.number(20, 200, 5), draw.number(5, 30, 1), draw.number(0.1, 0.6, 0.05)
    m = draw.number(600, 2400, 50)
    tan = math.tan(math.radians(angle))
    if mu * tan > 0.5:
        raise Degenerate("no highest speed")
    best = math.sqrt(r * G * tan)
    most = math.sqrt(r * G * (tan + mu) / (1 - mu * tan))
    normal = m * G / (math.cos(math.radians(angle)) - mu * math.sin(math.radians(angle)))
    rad = f"N({plain(angle)}*pi/180)"
    balance = Step(
        "At the limit, friction mu F acts down the slope. Vertical and radial balance, with w = v^2:",
        f"N(solve([Eq(F*cos({rad}) - {plain(mu)}*F*sin({rad}), {plain(m)}*{G}), "
        f"Eq(F*sin({rad}) + {plain(mu)}*F*cos({rad}), {plain(m)}*w/{plain(r)})], [F, w]), 6)",
    )
    return Situation(
        (
            f"A car of mass {q(m, 'kg')} drives around a curve of radius {q(r, 'm')} whose road is banked at "
            f"{q(angle, 'deg')}. The coefficient of static friction is {plain(mu)} and g = {G} m/s².",
            f"Engineers tilt a bend (radius {q(r, 'm')}) inwards by {q(angle, 'deg')}. On it, a vehicle with a mass of "
            f"{q(m, 'kg')} has tyres with μ = {plain(mu)} against slipping; g = {G} m/s².",
            f"On a racing track's turn, {q(r, 'm')} in radius, the surface rises outwards at {q(angle, 'deg')}. A van "
            f"({q(m, 'kg')}) goes round it; rubber and asphalt have a static friction coefficient of {plain(mu)}, with "
            f"g = {G} m/s².",
            f"Consider a banked roundabout, {q(angle, 'deg')} steep, in which a lorry cab weighing in at {q(m, 'kg')} "
            f"follows a horizontal circle of {q(r, 'm')} radius; μ between wheels and ground equals {plain(mu)} (use "
            f"g = {G} m/s²).",
        ),
        {"r": (r, "m"), "angle": (angle, "deg"), "mu": (mu, ""), "m": (m, "kg")},
        (
            Target(
                "best",
                (
                    "At what speed is no friction needed at all?",
                    "For which speed would it stay on the road even on ice?",
                ),
                (Step("Without friction tan(a) = v^2/(g r).", f"N(sqrt({plain(r)}*{G}*tan({rad})), 6)"),),
                best,
                "m/s",
                mistakes=(
                    math.sqrt(r * G * math.sin(math.radians(angle))),
                    math.sqrt(r * G / tan),
                    math.sqrt(r * G * mu),
                    r * G * tan,
                ),
            ),
            Target(
                "most",
                (
                    "What is the highest speed at which it does not slide outwards?",
                    "How fast can it go at most without slipping up the bank?",
                ),
                (balance, Step("The speed is the root of w.", f"N(sqrt({most**2:.6g}), 6)")),
                most,
                "m/s",
                mistakes=(best, math.sqrt(r * G * mu), math.sqrt(r * G * (tan + mu)), most * most),
                hard=True,
            ),
            Target(
                "normal",
                (
                    "What is the normal force on it at the highest speed without sliding outwards?",
                    "At the limit before slipping up the bank, how large is the road's normal force?",
                ),
                (balance,),
                normal,
                "N",
                mistakes=(
                    m * G,
                    m * G * math.cos(math.radians(angle)),
                    m * G / math.cos(math.radians(angle)),
                    m * G / (math.cos(math.radians(angle)) + mu * math.sin(math.radians(angle))),
                ),
                hard=True,
            ),
        ),
    )
