"""The drawn figures of problems: plots on a grid, circuits, lenses and mirrors on a ruler. PNG bytes, deterministic."""

from __future__ import annotations

from collections.abc import Sequence

from specvet.data.physics.canvas import Canvas, Point
from specvet.views.compact_axes import axis

WIDTH, HEIGHT = 360, 260


def plot(x: Sequence[float], y: Sequence[float], x_label: str, y_label: str) -> bytes:
    """Straight pieces between points, which are dots, over a grid whose lines are labelled."""
    canvas = Canvas(WIDTH, HEIGHT)
    left, right, top, bottom = 46, WIDTH - 14, 24, HEIGHT - 38
    low, high = min(0.0, *y), max(0.0, *y)
    margin = (high - low) * 0.08
    ends_x, ends_y = (min(x), max(x) * 1.02), (low - margin, high + margin)

    def at(u: float, v: float) -> Point:
        across = (u - ends_x[0]) / (ends_x[1] - ends_x[0])
        up = (v - ends_y[0]) / (ends_y[1] - ends_y[0])
        return left + across * (right - left), bottom - up * (bottom - top)

    ticks_x, ticks_y = axis(*ends_x, 12), axis(*ends_y, 10)
    for value, label in zip(ticks_x.major, ticks_x.labels, strict=True):
        column = round(at(value, 0)[0]) + 0.5
        canvas.line((column, top), (column, bottom), 1.0, 0.2)
        canvas.text(column, bottom + 11, label)
    for value, label in zip(ticks_y.major, ticks_y.labels, strict=True):
        row = round(at(0, value)[1]) + 0.5
        canvas.line((left, row), (right, row), 1.0, 0.2)
        canvas.text(left - 5, row, label, "r")
    for value in ticks_y.minor:
        row = round(at(0, value)[1]) + 0.5
        canvas.line((left, row), (right, row), 1.0, 0.07)
    for value in ticks_x.minor:
        column = round(at(value, 0)[0]) + 0.5
        canvas.line((column, top), (column, bottom), 1.0, 0.07)
    zero = round(at(0, 0)[1]) + 0.5
    canvas.line((left, zero), (right, zero), 1.0, 0.7)
    canvas.box(left, top, right, bottom)
    points = [at(u, v) for u, v in zip(x, y, strict=True)]
    canvas.path(points, 2.0)
    for point in points:
        canvas.circle(point, 1.6, 3.2)
    canvas.text((left + right) / 2, HEIGHT - 10, x_label)
    canvas.text(4, 11, y_label, "l")
    return canvas.png()


def _resistor(canvas: Canvas, start: Point, end: Point, label: str) -> None:
    """A box in the middle of a wire that runs straight across or down, with its label beside it."""
    (x0, y0), (x1, y1) = start, end
    mx, my = (x0 + x1) / 2, (y0 + y1) / 2
    if y0 == y1:
        canvas.line(start, (mx - 18, my))
        canvas.line((mx + 18, my), end)
        canvas.box(mx - 18, my - 6, mx + 18, my + 6)
        canvas.text(mx, my - 15, label)
    else:
        canvas.line(start, (mx, my - 18))
        canvas.line((mx, my + 18), end)
        canvas.box(mx - 6, my - 18, mx + 6, my + 18)
        canvas.text(mx + 11, my, label, "l")


def _battery(canvas: Canvas, top: Point, bottom: Point, label: str, anchor: str = "r") -> None:
    """A cell in a wire that runs down: the long plate, above, is the positive one."""
    x, my = top[0], (top[1] + bottom[1]) / 2
    canvas.line(top, (x, my - 4))
    canvas.line((x, my + 4), bottom)
    canvas.line((x - 13, my - 4), (x + 13, my - 4), 1.5)
    canvas.line((x - 6, my + 4), (x + 6, my + 4), 3.0)
    side = -17 if anchor == "r" else 17
    canvas.text(x + side, my, label, anchor)
    canvas.text(x + side / 1.6, my - 14, "+")


def network(volts: str, r1: str, r2: str, r3: str, r4: str) -> bytes:
    """A battery, R1 in series, then R2 beside R3 and R4, which are in series."""
    canvas = Canvas(WIDTH, 220)
    left, middle, right, top, bottom = 62.0, 172.0, 278.0, 40.0, 190.0
    _battery(canvas, (left, top), (left, bottom), volts)
    _resistor(canvas, (left, top), (middle, top), r1)
    canvas.line((middle, top), (right, top))
    half = (top + bottom) / 2
    _resistor(canvas, (middle, top), (middle, bottom), r2)
    _resistor(canvas, (right, top), (right, half), r3)
    _resistor(canvas, (right, half), (right, bottom), r4)
    canvas.line((left, bottom), (right, bottom))
    for dot in ((middle, top), (middle, bottom)):
        canvas.circle(dot, 1.5, 3.0)
    return canvas.png()


def two_loops(e1: str, r1: str, e2: str, r2: str, r3: str) -> bytes:
    """Two batteries with their series resistors, and R3 between both loops' common nodes."""
    canvas = Canvas(WIDTH, 220)
    left, middle, right, top, bottom = 62.0, 180.0, 298.0, 40.0, 190.0
    _battery(canvas, (left, top), (left, bottom), e1)
    _battery(canvas, (right, top), (right, bottom), e2, "l")
    _resistor(canvas, (left, top), (middle, top), r1)
    _resistor(canvas, (middle, top), (right, top), r2)
    _resistor(canvas, (middle, top), (middle, bottom), r3)
    canvas.line((left, bottom), (right, bottom))
    for dot, name, shift in (((middle, top), "a", -10), ((middle, bottom), "b", 12)):
        canvas.circle(dot, 1.5, 3.0)
        canvas.text(dot[0], dot[1] + shift, name)
    return canvas.png()


def bench(kind: str, focal: float, object_at: float) -> bytes:
    """An optical axis with a ruler in cm from the lens or mirror, its focal point, the object as an arrow, and rays.

    Args:
        kind: `converging lens`, `diverging lens` or `concave mirror`.
        focal: focal length (cm), positive.
        object_at: distance of the object (cm) to the left.
    """
    canvas = Canvas(420, 220)
    lens = kind != "concave mirror"
    reach = max(object_at, focal) * 1.12
    glass = 250.0 if lens else 385.0
    scale = (glass - 14) / reach
    y, tall, tip = 108.0, 46.0, 62.0
    canvas.line((6, y), (414, y), 1.0, 0.6)
    _ruler(canvas, glass, scale, 414)
    if lens:
        canvas.line((glass, y - 76), (glass, y + 76), 1.5)
        outwards = kind == "converging lens"
        for end, up in ((y - 76, -1), (y + 76, 1)):
            for side in (-6, 6):
                canvas.line((glass, end), (glass + side, end - up * 7 if outwards else end + up * 7), 1.5)
    else:
        arc = [(glass - (k * k) / 240.0, y + k) for k in range(-76, 77, 4)]
        canvas.path(arc, 2.0)
        for k in range(-72, 77, 12):
            canvas.line((glass - k * k / 240.0, y + k), (glass - k * k / 240.0 + 7, y + k + 5), 1.0, 0.5)
    for side in (-1, 1) if lens else (-1,):
        spot = glass + side * focal * scale
        if 6 < spot < 414:
            canvas.circle((spot, y), 1.6, 3.2)
            canvas.text(spot, y + 13, "F")
    x = glass - object_at * scale
    canvas.arrow((x, y), (x, y - tall), 2.0)
    canvas.text(x, y - tip, "object")
    _rays(canvas, kind, (x, y - tall), glass, focal * scale, y)
    return canvas.png()


def _ruler(canvas: Canvas, zero: float, scale: float, right: float) -> None:
    """Ticks below the figure: distances from the lens or mirror in cm, to the left and as far as there is room."""
    row = 196.0
    ticks = axis(0, (zero - 8) / scale, 8)
    canvas.line((6, row), (right, row))
    canvas.text(right, row - 12, "cm", "r")
    for side in (-1, 1):
        for value, label in zip(ticks.major, ticks.labels, strict=True):
            at = zero + side * value * scale
            if 4 < at < right and (side < 0 or value):
                canvas.line((at, row - 5), (at, row))
                canvas.text(at, row + 9, label)
        for value in ticks.minor:
            at = zero + side * value * scale
            if 4 < at < right:
                canvas.line((at, row - 3), (at, row), 1.0, 0.5)


def _rays(canvas: Canvas, kind: str, tip: Point, glass: float, focal: float, y: float) -> None:
    """The ray that arrives parallel to the axis; of a lens also the one through its centre."""
    canvas.line(tip, (glass, tip[1]), 1.0, 0.8)
    height = y - tip[1]
    if kind == "concave mirror":
        far = min(2.2 * focal, glass - 10)
        canvas.line((glass, tip[1]), (glass - far, tip[1] + height * far / focal), 1.0, 0.8)
        return
    far = 150.0
    slope = height / focal if kind == "converging lens" else -height / focal
    canvas.line((glass, tip[1]), (glass + far, tip[1] + slope * far), 1.0, 0.8)
    if kind == "diverging lens":
        canvas.dashed((glass, tip[1]), (glass - focal, y), ink=0.6)
    through = height / (glass - tip[0])
    canvas.line(tip, (glass + far, y + through * far), 1.0, 0.8)
