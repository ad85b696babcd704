"""Motion: plots of velocity and position (drawn), projectiles, and motion given as a function of time."""

from __future__ import annotations

import math
from itertools import pairwise

from specvet.data.physics.families.base import Degenerate, Draw, G, Situation, Step, Target, plain, q
from specvet.data.physics.figures import plot

_MOVERS = ("a cyclist", "a tram", "a delivery robot", "a runner", "a cable car", "a toy train", "a forklift")


def velocity_plot(draw: Draw) -> Situation:
    """A v–t plot of straight pieces: displacement is an area, acceleration a slope."""
    dt = draw.one((1, 2, 5))
    corners = draw.whole(4, 5)
    times = [0.0]
    for _ in range(corners - 1):
        times.append(times[-1] + dt * draw.whole(1, 3))
    grid = draw.one((1, 2, 5))
    speeds = [float(grid * draw.whole(-2, 6)) for _ in times]
    piece = draw.whole(0, corners - 2)
    t1, t2, v1, v2 = times[piece], times[piece + 1], speeds[piece], speeds[piece + 1]
    pieces = list(zip(times, times[1:], speeds, speeds[1:], strict=False))
    moved = sum((b - a) * (u + w) / 2 for a, b, u, w in pieces)
    distance = sum(_swept(b - a, u, w) for a, b, u, w in pieces)
    if v1 == v2 or abs(moved) < grid * dt / 2 or max(speeds) <= 0:
        raise Degenerate("flat or symmetric plot")
    areas = " + ".join(f"{plain(b - a)}*({plain(u)} + {_signed(w)})/2" for a, b, u, w in pieces)
    absolute = " + ".join(
        f"integrate(Abs({plain(u)} + {_signed(w - u)}*t/{plain(b - a)}), (t, 0, {plain(b - a)}))"
        for a, b, u, w in pieces
        if u * w < 0
    )
    swept = " + ".join(f"{plain(b - a)}*Abs({plain(u)} + {_signed(w)})/2" for a, b, u, w in pieces if u * w >= 0)
    who = draw.one(_MOVERS)
    read = "Corners read from the graph: " + ", ".join(
        f"({plain(t)} s, {plain(v)} m/s)" for t, v in zip(times, speeds, strict=True)
    )
    targets = [
        Target(
            "acceleration",
            (
                f"What is the acceleration between t = {plain(t1)} s and t = {plain(t2)} s?",
                f"Find the acceleration in the interval from {plain(t1)} s to {plain(t2)} s.",
            ),
            (Step(f"{read}. Acceleration is the slope.", f"N(({plain(v2)} - {_signed(v1)})/({plain(t2 - t1)}), 6)"),),
            (v2 - v1) / (t2 - t1),
            "m/s**2",
            mistakes=(v2 / (t2 or 1), (v2 + v1) / 2, (t2 - t1) / (v2 - v1), (v1 - v2) / (t2 - t1), v2 - v1),
            tolerance=0.02,
        ),
        Target(
            "displacement",
            (
                f"What is the displacement from t = 0 to t = {plain(times[-1])} s?",
                f"How far from its starting point is it at t = {plain(times[-1])} s? Give the signed displacement.",
            ),
            (Step(f"{read}. Displacement is the signed area under the graph.", f"N({areas}, 6)"),),
            moved,
            "m",
            mistakes=(distance, speeds[-1] * times[-1], max(speeds) * times[-1] / 2, moved / 2, -moved),
            tolerance=0.02,
        ),
    ]
    if distance - abs(moved) > 0.05 * distance:
        targets.append(
            Target(
                "distance",
                (
                    f"What total distance is travelled between t = 0 and t = {plain(times[-1])} s?",
                    f"How long is the whole path, forwards and back, covered up to t = {plain(times[-1])} s?",
                ),
                (
                    Step(
                        f"{read}. Distance is the area without its sign.",
                        f"N({' + '.join(filter(None, (swept, absolute)))}, 6)",
                    ),
                ),
                distance,
                "m",
                mistakes=(abs(moved), max(speeds) * times[-1], distance * 2, (distance + abs(moved)) / 2),
                tolerance=0.02,
                hard=True,
            )
        )
    return Situation(
        (
            f"The graph shows how the velocity of {who} along a straight track depends on time; forwards is positive, "
            "and the graph consists of straight pieces.",
            f"For {who} on a straight line, the figure gives velocity against time. Between the marked corners the "
            "velocity changes uniformly, and negative values mean backwards.",
            f"Somebody recorded the motion of {who} along a straight road and drew the velocity–time diagram that you "
            "see, in which neighbouring dots are joined by straight segments.",
            f"Look at the v–t diagram: it describes {who} moving in one dimension, with constant acceleration from "
            "each dot to the next one.",
        ),
        {f"t{i}": (t, "s") for i, t in enumerate(times)}
        | {f"v{i}": (v, "m/s") for i, v in enumerate(speeds)}
        | {"piece": (float(piece), "")},
        tuple(targets),
        plot(times, speeds, "time (s)", "velocity (m/s)"),
    )


def _swept(dt: float, u: float, w: float) -> float:
    """Distance of a piece in which the velocity goes from u to w."""
    return dt * (u * u + w * w) / (2 * (abs(u) + abs(w))) if u * w < 0 else dt * abs(u + w) / 2


def _signed(value: float) -> str:
    return f"({plain(value)})" if value < 0 else plain(value)


def position_plot(draw: Draw) -> Situation:
    """An x–t plot of straight pieces: velocity is a slope."""
    dt, dx = draw.one((1, 2, 5)), draw.one((1, 2, 5, 10))
    corners = draw.whole(4, 6)
    times = [0.0]
    for _ in range(corners - 1):
        times.append(times[-1] + dt * draw.whole(1, 3))
    places = [float(dx * draw.whole(0, 6)) for _ in times]
    piece = draw.whole(0, corners - 2)
    t1, t2, x1, x2 = times[piece], times[piece + 1], places[piece], places[piece + 1]
    path = sum(abs(b - a) for a, b in pairwise(places))
    moved = places[-1] - places[0]
    if x1 == x2 or moved == 0 or path == abs(moved):
        raise Degenerate("the object rests or never turns")
    speed = path / times[-1]
    who = draw.one(_MOVERS)
    read = "Corners read from the graph: " + ", ".join(
        f"({plain(t)} s, {plain(x)} m)" for t, x in zip(times, places, strict=True)
    )
    whole = " + ".join(f"Abs({plain(b)} - {plain(a)})" for a, b in pairwise(places))
    return Situation(
        (
            f"The figure shows the position of {who} on a straight track against time; it moves at constant velocity "
            "between neighbouring dots.",
            f"In the diagram you see where {who} was at each moment, as a distance from a marker on a straight line; "
            "the curve is made of straight segments.",
            f"A sensor logged the coordinate x of {who} while time passed, which gave the position–time graph drawn "
            "here with its corners marked as dots.",
            f"Consider the x–t graph of {who} in one-dimensional motion, where every stretch from dot to dot is a "
            "straight line.",
        ),
        {f"t{i}": (t, "s") for i, t in enumerate(times)}
        | {f"x{i}": (x, "m") for i, x in enumerate(places)}
        | {"piece": (float(piece), "")},
        (
            Target(
                "velocity",
                (
                    f"What is the velocity between t = {plain(t1)} s and t = {plain(t2)} s, with its sign?",
                    f"Find the signed velocity during the interval from {plain(t1)} s to {plain(t2)} s.",
                ),
                (Step(f"{read}. Velocity is the slope.", f"N(({plain(x2)} - {plain(x1)})/({plain(t2 - t1)}), 6)"),),
                (x2 - x1) / (t2 - t1),
                "m/s",
                mistakes=((x1 - x2) / (t2 - t1), x2 / t2, (t2 - t1) / (x2 - x1), (x2 + x1) / (t2 + t1), x2 - x1),
                tolerance=0.02,
            ),
            Target(
                "average_speed",
                (
                    "What is the average speed over the whole time that is shown?",
                    "Calculate the mean speed (path over time) for the complete graph.",
                ),
                (Step(f"{read}. Speed is the whole path over the whole time.", f"N(({whole})/{plain(times[-1])}, 6)"),),
                speed,
                "m/s",
                mistakes=(abs(moved) / times[-1], path / corners, speed / 2, max(places) / times[-1]),
                tolerance=0.02,
                hard=True,
            ),
            Target(
                "average_velocity",
                (
                    "What is the average velocity over the whole time that is shown?",
                    "Calculate the mean velocity (displacement over time) for the complete graph.",
                ),
                (
                    Step(
                        f"{read}. Average velocity is displacement over time.",
                        f"N(({plain(places[-1])} - {plain(places[0])})/{plain(times[-1])}, 6)",
                    ),
                ),
                moved / times[-1],
                "m/s",
                mistakes=(speed, -moved / times[-1], places[-1] / times[-1], moved / (2 * times[-1])),
                tolerance=0.02,
            ),
        ),
        plot(times, places, "time (s)", "position (m)"),
    )


def projectile(draw: Draw) -> Situation:
    """A throw from a height: when and where it lands, how high it gets, how fast it is at the end."""
    v, angle, h = draw.number(8, 40, 0.5), draw.number(15, 75, 1), draw.number(1, 60, 0.5)
    what = draw.one(("ball", "stone", "javelin", "water balloon", "flare", "arrow"))
    sin, cos = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    time = (v * sin + math.sqrt((v * sin) ** 2 + 2 * G * h)) / G
    reach, top, fast = v * cos * time, h + (v * sin) ** 2 / (2 * G), math.sqrt(v * v + 2 * G * h)
    rad = f"N({plain(angle)}*pi/180)"
    fall = Step(
        "The height is y = h + v sin(a) t - g t^2/2; it lands where y = 0, at the positive root.",
        f"N(solve(Eq({plain(h)} + {plain(v)}*sin({rad})*t - {G}*t**2/2, 0), t), 6)",
    )
    far = Step("The horizontal velocity stays, so x = v cos(a) t.", f"N({plain(v)}*cos({rad})*{time:.6g}, 6)")
    return Situation(
        (
            f"A {what} is launched at {q(v, 'm/s')} at {q(angle, 'deg')} above the horizontal from a point "
            f"{q(h, 'm')} above level ground. Neglect air resistance and take g = {G} m/s².",
            f"From the top of a wall {q(h, 'm')} high somebody throws a {what} upwards at an angle of "
            f"{q(angle, 'deg')} to the horizontal with a speed of {q(v, 'm/s')}. Use g = {G} m/s² without drag.",
            f"Standing on a platform {q(h, 'm')} over a flat field, an athlete releases a {what}; its initial "
            f"velocity has magnitude {q(v, 'm/s')} and points {q(angle, 'deg')} upwards (no air drag, g = {G} m/s²).",
            f"With an elevation of {q(angle, 'deg')} and a muzzle speed of {q(v, 'm/s')}, a machine on a cliff fires a "
            f"{what} towards the sea {q(h, 'm')} below. Air plays no role; gravity is g = {G} m/s².",
        ),
        {"v": (v, "m/s"), "angle": (angle, "deg"), "h": (h, "m")},
        (
            Target(
                "time",
                ("How long is it in the air?", "After what time does it reach the ground?"),
                (fall,),
                time,
                "s",
                mistakes=(2 * v * sin / G, v * sin / G, math.sqrt(2 * h / G), 2 * v / G),
            ),
            Target(
                "range",
                (
                    "How far away, measured horizontally, does it land?",
                    "What horizontal distance does it cover before it lands?",
                ),
                (fall, far),
                reach,
                "m",
                mistakes=(v * v * 2 * sin * cos / G, v * sin * time, v * time, v * cos * math.sqrt(2 * h / G)),
                hard=True,
            ),
            Target(
                "top",
                ("What is its greatest height above the ground?", "How high above the ground does it rise at most?"),
                (
                    Step(
                        "At the top the vertical velocity is zero: v_y^2 = 2 g (y - h).",
                        f"N(solve(Eq(({plain(v)}*sin({rad}))**2, 2*{G}*(y - {plain(h)})), y), 6)",
                    ),
                ),
                top,
                "m",
                mistakes=(top - h, h + v * v / (2 * G), h + (v * cos) ** 2 / (2 * G), h + (v * sin) ** 2 / G),
            ),
            Target(
                "impact",
                ("With what speed does it hit the ground?", "How fast is it just before it lands?"),
                (Step("Energy is conserved.", f"N(sqrt({plain(v)}**2 + 2*{G}*{plain(h)}), 6)"),),
                fast,
                "m/s",
                mistakes=(v, math.sqrt(2 * G * h), v + math.sqrt(2 * G * h), math.sqrt(v * v + G * h)),
            ),
        ),
    )


def motion_function(draw: Draw) -> Situation:
    """Position as a function of time: symbolic velocity and acceleration, the moment of rest."""
    a, b, c = draw.whole(1, 6), draw.whole(2, 15), draw.whole(3, 40)
    start = draw.whole(0, 12)
    inside = b * b - 3 * a * c / 2
    x = f"{a}*t**3 - {b}*t**2 + {c}*t + {start}"
    said = f"x(t) = {a} t³ − {b} t² + {c} t + {start}".replace("= 1 t³", "= t³").removesuffix(" + 0")
    when = draw.number(1, 9, 0.5)
    speed = 3 * a * when**2 - 2 * b * when + c
    at = f"t = {plain(when)} s"
    targets = [
        Target(
            "v",
            (
                "Find the velocity v(t) as an expression in t (SI units).",
                "Give v as a function of t, in SI units without writing them.",
            ),
            (Step("Velocity is the time derivative of position.", f"diff({x}, t)"),),
            symbolic=f"{3 * a}*t**2 - {2 * b}*t + {c}",
            asked="v",
        ),
        Target(
            "a",
            (
                "Find the acceleration a(t) as an expression in t (SI units).",
                "Give a as a function of t, in SI units without writing them.",
            ),
            (Step("Acceleration is the second derivative of position.", f"diff({x}, t, 2)"),),
            symbolic=f"{6 * a}*t - {2 * b}",
            asked="a",
        ),
    ]
    if abs(speed) > 0.1:
        targets.append(
            Target(
                "v_at",
                (f"What is the velocity at {at}?", f"Calculate the instantaneous velocity at the moment {at}."),
                (
                    Step("Velocity is the derivative of position.", f"diff({x}, t)"),
                    Step(
                        f"Insert {at}.",
                        f"N({3 * a}*{plain(when)}**2 - {2 * b}*{plain(when)} + {c}, 6)",
                    ),
                ),
                speed,
                "m/s",
                mistakes=(
                    a * when**2 - b * when + c,
                    (a * when**3 - b * when**2 + c * when + start) / when,
                    3 * a * when**2 + 2 * b * when + c,
                    6 * a * when - 2 * b,
                ),
            )
        )
    if inside > 0.5:
        first = (b - math.sqrt(b * b - 3 * a * c)) / (3 * a) if b * b > 3 * a * c + 0.5 else None
        if first is not None and first > 0.05:
            targets.append(
                Target(
                    "rest",
                    ("When does it come to rest for the first time?", "At what earliest time t is its velocity zero?"),
                    (
                        Step("The velocity is the derivative of x.", f"diff({x}, t)"),
                        Step(
                            "It rests where the velocity is zero; take the smaller root as a decimal number.",
                            f"N(({2 * b} - sqrt({2 * b}**2 - 4*{3 * a}*{c}))/(2*{3 * a}), 6)",
                        ),
                    ),
                    first,
                    "s",
                    mistakes=(
                        b / (3 * a),
                        (b + math.sqrt(b * b - 3 * a * c)) / (3 * a),
                        c / (2 * b),
                        b / a,
                    ),
                    hard=True,
                )
            )
    who = draw.one(("particle", "bead on a wire", "carriage", "drone"))
    return Situation(
        (
            f"A {who} moves along the x axis so that its position is {said}, with x in metres and t in seconds.",
            f"The coordinate of a {who} in straight-line motion obeys {said}, where t is counted in seconds and x in "
            "metres.",
            f"In SI units, {said} tells where on a line a {who} can be found after the clock was started.",
            f"Suppose that a laser follows a {who} on a rail and that a fit to its readings yields {said}; lengths are "
            "in m and times in s.",
        ),
        {"a": (a, "m/s**3"), "b": (b, "m/s**2"), "c": (c, "m/s"), "start": (start, "m"), "when": (when, "s")},
        tuple(targets),
    )
