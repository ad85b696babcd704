"""Lenses and mirrors: on a drawn bench, and two lenses in a row."""

from __future__ import annotations

from specvet.data.physics.families.base import Degenerate, Draw, Situation, Step, Target, plain, q, sensible
from specvet.data.physics.figures import bench

_KINDS = ("converging lens", "converging lens", "diverging lens", "concave mirror")


def lens_bench(draw: Draw) -> Situation:
    """One lens or mirror; focal length and distance of the object are read from a ruler."""
    kind = draw.one(_KINDS)
    step = draw.one((1.0, 2.0, 5.0))
    focal, at = step * draw.whole(2, 9), step * draw.whole(3, 20)
    tall = draw.number(1, 8, 0.5)
    if abs(at - focal) < 0.9 * step or at > 6 * focal:
        raise Degenerate("the image is at infinity or in the focus")
    f = -focal if kind == "diverging lens" else focal
    image = 1 / (1 / f - 1 / at)
    if abs(image) > 60 * step:
        raise Degenerate("the image is too far away")
    size = -image / at
    device = "mirror" if kind == "concave mirror" else "lens"
    thin = "spherical" if device == "mirror" else "thin"
    read = Step(
        f"From the ruler: the object is {q(at, 'cm')} away and |f| = {q(focal, 'cm')}; a {kind} has f = {plain(f)} cm.",
        f"N(solve(Eq(1/({plain(f)}), 1/{plain(at)} + 1/b), b), 6)",
    )
    sign = "behind the lens (the far side)" if device == "lens" else "in front of the mirror"
    wrong = 1 / (1 / -f - 1 / at) if abs(1 / f + 1 / at) > 1e-9 else 2 * image
    return Situation(
        (
            f"The figure shows an object in front of a {thin} {kind} on an optical axis. The ruler gives distances "
            f"from the {device} in cm, and F marks the focal points.",
            f"A {kind} ({thin}, seen from the side) and an upright object are drawn to scale along the axis; read the "
            f"position of F and of the object in centimetres from the scale below, which starts at the {device}.",
            f"On the optical bench that is sketched here, you find a {thin} {kind} at the zero of the ruler (unit: "
            "cm), its focus F, two of the rays, and the object as a thick arrow.",
            f"Use the scaled drawing of an imaging experiment: with a {kind}, {thin} by assumption, whose focal length "
            "follows from the point F, and with the arrow as the thing to be imaged (numbers in cm).",
        ),
        {"f": (f, "cm"), "g": (at, "cm"), "size": (tall, "cm")},
        (
            Target(
                "image",
                (
                    f"What is the image distance? Positive means {sign}.",
                    f"Where is the image? Give its signed distance from the {device}, positive {sign}.",
                ),
                (read,),
                image,
                "cm",
                mistakes=(-image, wrong, 1 / (1 / focal + 1 / at), at - focal, at + focal),
                tolerance=0.03,
            ),
            Target(
                "magnification",
                (
                    "What is the lateral magnification, with its sign (negative if inverted)?",
                    "Find the signed magnification of the image; inverted images count as negative.",
                ),
                (read, Step("The magnification is -b/g.", f"N(-({image:.7g})/{plain(at)}, 6)")),
                size,
                "",
                mistakes=(-size, 1 / size, -wrong / at, focal / at),
                tolerance=0.03,
                hard=True,
            ),
            Target(
                "height",
                (
                    f"The object is {q(tall, 'cm')} tall. How tall is the image (without sign)?",
                    f"How large does the image of a {q(tall, 'cm')} high object become? Give the absolute height.",
                ),
                (
                    read,
                    Step("Heights are as distances: |b|/g.", f"N({plain(tall)}*Abs({image:.7g})/{plain(at)}, 6)"),
                ),
                tall * abs(size),
                "cm",
                mistakes=(tall / abs(size), tall * abs(wrong) / at, tall * focal / at, abs(image)),
                tolerance=0.03,
                hard=True,
            ),
        ),
        bench(kind, focal, at),
    )


def two_lenses(draw: Draw) -> Situation:
    """The image of a first lens is the object of a second one."""
    f1, f2 = draw.number(5, 30, 1), draw.one((-1, 1, 1)) * draw.number(5, 40, 1)
    g1, d = draw.number(8, 90, 1), draw.number(10, 90, 1)
    if abs(g1 - f1) < 2:
        raise Degenerate("the first image is at infinity")
    b1 = f1 * g1 / (g1 - f1)
    g2 = d - b1
    if abs(g2) < 2 or abs(g2 - f2) < 2:
        raise Degenerate("the second image is at infinity or at its lens")
    b2 = f2 * g2 / (g2 - f2)
    sensible(abs(b2), 1, 500, "image")
    sensible(abs(b1), 1, 300, "first image")
    size = (b1 / g1) * (b2 / g2)
    sensible(abs(size), 0.01, 50, "magnification")
    both = Step(
        "Each lens has 1/f = 1/g + 1/b, and the second object distance is d - b1.",
        f"N(solve([Eq(1/{plain(f1)}, 1/{plain(g1)} + 1/b1), Eq(g2, {plain(d)} - b1), "
        f"Eq(1/({plain(f2)}), 1/g2 + 1/b2)], [b1, g2, b2]), 6)",
    )
    return Situation(
        (
            f"Two thin lenses share one axis, {q(d, 'cm')} apart. Their focal lengths are {q(f1, 'cm')} (the first) "
            f"and {q(f2, 'cm')} (the second; negative means diverging). An object stands {q(g1, 'cm')} in front of the "
            "first one.",
            f"Light from an object passes a lens with f = {q(f1, 'cm')} at a distance of {q(g1, 'cm')}, then, "
            f"{q(d, 'cm')} further on, a second thin lens with f = {q(f2, 'cm')} (a minus sign stands for a diverging "
            "one).",
            f"Build a system from a first lens of focal length {q(f1, 'cm')} and, {q(d, 'cm')} behind it, another of "
            f"{q(f2, 'cm')}, where diverging lenses have negative values; a slide is put {q(g1, 'cm')} ahead of the "
            "system.",
            f"In an instrument the objective ({q(f1, 'cm')}) looks at an insect {q(g1, 'cm')} away. A second lens, f = "
            f"{q(f2, 'cm')} and diverging if that is negative, follows coaxially at a spacing of {q(d, 'cm')}; all "
            "glass is thin.",
        ),
        {"f1": (f1, "cm"), "f2": (f2, "cm"), "g1": (g1, "cm"), "d": (d, "cm")},
        (
            Target(
                "b2",
                (
                    "Where is the final image? Give its signed distance from the second lens, positive beyond it.",
                    "How far behind the second lens is the final image (negative if it is in front)?",
                ),
                (both,),
                b2,
                "cm",
                mistakes=(
                    -b2,
                    f2 * g1 / (g1 - f2) if abs(g1 - f2) > 0.1 else b1,
                    b1,
                    f2 * (d + b1) / (d + b1 - f2) if abs(d + b1 - f2) > 0.1 else 2 * b2,
                ),
                hard=True,
            ),
            Target(
                "size",
                (
                    "What is the total magnification, with its sign (negative if inverted)?",
                    "Find the signed magnification of the whole system; inverted counts as negative.",
                ),
                (
                    both,
                    Step(
                        "The magnifications -b/g multiply.",
                        f"N(({b1:.7g})/{plain(g1)}*({b2:.7g})/({g2:.7g}), 6)",
                    ),
                ),
                size,
                "",
                mistakes=(-size, b2 / g1, b1 / g1, 1 / size),
                hard=True,
            ),
        ),
    )
