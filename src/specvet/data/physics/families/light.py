"""Light: refraction in a slab, diffraction gratings."""

from __future__ import annotations

import math

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q

_GLASSES = {"water": 1.33, "acrylic": 1.49, "crown glass": 1.52, "flint glass": 1.62, "sapphire": 1.77, "ice": 1.31}


def snell(draw: Draw) -> Situation:
    """A ray through a slab of glass: refraction, shift, total reflection."""
    name = draw.one(tuple(_GLASSES))
    n, angle, thick = _GLASSES[name], draw.number(15, 75, 1), draw.number(2, 30, 0.5)
    sin = math.sin(math.radians(angle))
    inside = math.asin(sin / n)
    shift = thick * math.sin(math.radians(angle) - inside) / math.cos(inside)
    time = thick / 100 * n / math.cos(inside) / 2.998e8 * 1e9
    rad = f"N({plain(angle)}*pi/180)"
    bend = Step("Snell's law, in degrees.", f"N(asin(sin({rad})/{plain(n)})*180/pi, 6)")
    beta = f"N({math.degrees(inside):.8g}*pi/180)"
    return Situation(
        (
            f"A ray of light in air falls on a plane slab of {name} (n = {plain(n)}), {q(thick, 'cm')} thick, at an "
            f"angle of incidence of {q(angle, 'deg')}, and leaves it on the other side.",
            f"From air, a laser beam meets a parallel plate of {name}, whose refractive index is {plain(n)} and whose "
            f"thickness is {q(thick, 'cm')}; between beam and normal there are {q(angle, 'deg')}.",
            f"Through a window of {name} with parallel faces, {q(thick, 'cm')} between them, goes a thin beam that "
            f"makes {q(angle, 'deg')} with the normal outside in air (index of the material: {plain(n)}).",
            f"At {q(angle, 'deg')} to the perpendicular, light strikes the flat top of a transparent block, made of "
            f"{name} with n = {plain(n)}. The bottom, {q(thick, 'cm')} deeper, is parallel to the top; air is all "
            "around.",
        ),
        {"n": (n, ""), "angle": (angle, "deg"), "d": (thick, "cm")},
        (
            Target(
                "inside",
                ("What is the angle of refraction inside?", "At what angle to the normal does it go on inside?"),
                (bend,),
                math.degrees(inside),
                "deg",
                mistakes=(
                    angle / n,
                    90 - math.degrees(inside),
                    angle - math.degrees(inside),
                    math.degrees(math.acos(math.cos(math.radians(angle)) / n)),
                ),
            ),
            Target(
                "shift",
                (
                    "By how much is the outgoing ray displaced sideways (perpendicular distance to the old line)?",
                    "Find the lateral displacement, measured at right angles to the ray.",
                ),
                (
                    bend,
                    Step(
                        "The path inside is d/cos(b), the displacement that times sin(a - b).",
                        f"N({plain(thick)}*sin({rad} - {beta})/cos({beta}), 6)",
                    ),
                ),
                shift,
                "cm",
                mistakes=(
                    thick * math.tan(inside),
                    thick * math.sin(math.radians(angle) - inside),
                    thick * (math.tan(math.radians(angle)) - math.tan(inside)),
                    thick / math.cos(inside),
                ),
                hard=True,
            ),
            Target(
                "time",
                (
                    "How long does the light take through the slab, in nanoseconds?",
                    "Find the time that the light spends inside, in ns.",
                ),
                (
                    bend,
                    Step(
                        "The path is d/cos(b), the speed c/n with c = 2.998e8 m/s, in ns.",
                        f"N(10**9*{thick / 100:.6g}*{plain(n)}/(cos({beta})*2.998*10**8), 6)",
                    ),
                ),
                time,
                "ns",
                mistakes=(
                    time / n,
                    time * math.cos(inside),
                    time / n**2,
                    time * math.cos(inside) / math.cos(math.radians(angle)),
                ),
                hard=True,
            ),
            Target(
                "critical",
                (
                    "What is the critical angle for total reflection inside this material (against air)?",
                    "From which angle on is light inside this material totally reflected at its border with air?",
                ),
                (Step("sin(c) = 1/n, in degrees.", f"N(asin(1/{plain(n)})*180/pi, 6)"),),
                math.degrees(math.asin(1 / n)),
                "deg",
                mistakes=(
                    math.degrees(math.acos(1 / n)),
                    math.degrees(math.atan(1 / n)),
                    math.degrees(math.atan(n)),
                    90 / n,
                ),
            ),
        ),
    )


def grating(draw: Draw) -> Situation:
    """Light of one wavelength on a grating: angles, orders, the distance of lines on a screen."""
    lines, wavelength = draw.number(100, 1200, 50), draw.number(405, 700, 5)
    order, screen = draw.whole(1, 3), draw.number(0.5, 4, 0.1)
    d = 1e6 / lines  # nm
    sin = order * wavelength / d
    if sin > 0.95:
        raise Degenerate("the order does not exist")
    angle = math.asin(sin)
    most = d / wavelength
    if abs(most - round(most)) < 0.02:
        raise Degenerate("the last order is at 90°")
    second = draw.number(405, 700, 5)
    sin2 = order * second / d
    if sin2 > 0.95 or abs(second - wavelength) < 15:
        raise Degenerate("the second line is missing or too close")
    gap = abs(math.tan(angle) - math.tan(math.asin(sin2))) * screen * 100
    turn = Step(
        "Maxima: d sin(a) = m lambda with d = 1 mm / lines; here in nm, the angle in degrees.",
        f"N(asin({order}*{plain(wavelength)}*{plain(lines)}/10**6)*180/pi, 6)",
    )
    ordinal = {1: "first", 2: "second", 3: "third"}[order]
    return Situation(
        (
            f"Light of wavelength {q(wavelength, 'nm')} falls at right angles on a grating with {plain(lines)} lines "
            f"per mm; a flat screen stands {q(screen, 'm')} behind it, parallel to it.",
            f"A diffraction grating ({plain(lines)} lines per millimetre) is lit perpendicularly by a laser of "
            f"{q(wavelength, 'nm')}, and maxima are seen on a parallel wall {q(screen, 'm')} away.",
            f"With {plain(lines)} slits on each millimetre, a transmission grating spreads a beam at normal incidence; "
            f"its wavelength is {q(wavelength, 'nm')}. The pattern is caught at a distance of {q(screen, 'm')} on a "
            "plane parallel to the grating.",
            f"Shine monochromatic light, {q(wavelength, 'nm')}, straight onto a ruled plate having {plain(lines)} "
            f"grooves in one mm and look at the bright spots thrown on paper that is held parallel "
            f"{q(screen, 'm')} further on.",
        ),
        {
            "lines": (lines, "1/mm"),
            "wavelength": (wavelength, "nm"),
            "second": (second, "nm"),
            "order": (order, ""),
            "screen": (screen, "m"),
        },
        (
            Target(
                "angle",
                (
                    f"At which angle is the {ordinal} order?",
                    f"Find the diffraction angle of the maximum of {ordinal} order.",
                ),
                (turn,),
                math.degrees(angle),
                "deg",
                mistakes=(
                    math.degrees(sin),
                    math.degrees(math.atan(sin)) * 0.8,
                    math.degrees(math.acos(sin)),
                    math.degrees(math.asin(sin / (order + 1))),
                ),
            ),
            Target(
                "place",
                (
                    f"How far from the central maximum is the {ordinal} order on the screen?",
                    f"What distance separates the zeroth from the {ordinal} order on the screen?",
                ),
                (
                    turn,
                    Step(
                        "On the screen that is L tan(a), in cm.",
                        f"N(100*{plain(screen)}*tan(pi*{math.degrees(angle):.8g}/180), 6)",
                    ),
                ),
                100 * screen * math.tan(angle),
                "cm",
                mistakes=(
                    200 * screen * math.tan(angle),
                    100 * screen * sin * 0.9,
                    100 * screen / math.tan(angle),
                    100 * screen * math.cos(angle),
                ),
                hard=True,
            ),
            Target(
                "gap",
                (
                    f"A second wavelength of {q(second, 'nm')} is added. How far apart are both lines of the {ordinal} "
                    "order on the screen?",
                    f"The light also has a component at {q(second, 'nm')}; find the distance on the screen between "
                    f"both maxima of {ordinal} order.",
                ),
                (
                    Step(
                        "Each line is at L tan(asin(m lambda/d)), in cm.",
                        f"N(100*{plain(screen)}*Abs(tan(asin({order}*{plain(wavelength)}*{plain(lines)}/10**6)) - "
                        f"tan(asin({order}*{plain(second)}*{plain(lines)}/10**6))), 6)",
                    ),
                ),
                gap,
                "cm",
                mistakes=(
                    100 * screen * abs(sin - sin2) * 0.85,
                    2 * gap,
                    gap / order if order > 1 else gap * 3,
                    gap / screen if abs(screen - 1) > 0.05 else gap / 2,
                ),
                hard=True,
            ),
            Target(
                "most",
                (
                    "How many orders (counted on one side, without the zeroth) can appear?",
                    "What is the number of the highest order that exists?",
                ),
                (
                    Step(
                        "sin(a) cannot exceed 1, so m is at most d/lambda, rounded down.",
                        f"floor(10**6/({plain(lines)}*{plain(wavelength)}))",
                    ),
                ),
                float(math.floor(most)),
                "",
                mistakes=(math.floor(most) + 1.0, 2 * math.floor(most) + 1.0, math.floor(most) + 2.0, 0.0),
                tolerance=1e-6,
            ),
        ),
    )
