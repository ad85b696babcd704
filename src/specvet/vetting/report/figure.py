"""Pictures of a spectrum and its windows as inline SVG: the axes and the data once, a task's own marks on top.

Everything a person needs to judge a feature is drawn: errors, bad pixels, arm joins, what the air absorbs, the medium
and frame of the axis. Colours and fonts come from the page's style sheet, so that dark mode and print are free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from specvet.spectra.lines import SKY_LINES_AIR, TELLURIC_BANDS_AIR, in_medium
from specvet.spectra.spectrum import Spectrum
from specvet.vetting.report import svg

MAX_SPIKE_MARKS = 40

UNDERLINES = 0.09
"""Share of a zoom's height that is kept free below the flux, for bars along the bottom."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of one kind of picture, in half pixels."""

    width: int
    height: int
    left: int
    right: int
    bottom: int
    label_rows: int
    font: int
    x_labels: int
    """At most so many intervals between labels on the wavelength axis."""
    y_labels: int

    @property
    def top(self) -> int:
        return 14 + self.label_rows * (self.font + 4)


FULL = Size(width=1840, height=560, left=124, right=20, bottom=84, label_rows=3, font=24, x_labels=14, y_labels=5)
ZOOM = Size(width=1000, height=500, left=124, right=24, bottom=84, label_rows=2, font=24, x_labels=6, y_labels=5)


@dataclass(frozen=True, slots=True)
class Mark:
    """A feature to point at: where in the medium and frame of the picture (Å), and what it is called."""

    wavelength: float
    name: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range to underline, in the medium and frame of the picture (Å), and what it is."""

    low: float
    high: float
    name: str


@dataclass(frozen=True, slots=True)
class Base:
    """Axes and data of one picture: what all tasks that look at this window share."""

    size: Size
    plot: svg.Plot
    body: str
    """SVG elements."""
    title: str
    description: str


def base(spectrum: Spectrum, *, z: float, frame: str, window: tuple[float, float] | None, size: Size) -> Base | None:
    """Axes and data of `spectrum`, or of `window` of it; None with fewer than 2 finite pixels there.

    Args:
        spectrum: already in the frame to show: its wavelengths are on the axis as they are.
        z: what its wavelengths were divided by (1 + z), to put the bands of the air in their place.
        frame: name of the frame, for the axis: `rest frame`.
        window: (low, high) in Å; None for all.
        size: FULL or ZOOM.
    """
    inside = slice(None)
    if window is not None:
        inside = slice(*np.searchsorted(spectrum.wavelength, (window[0], np.nextafter(window[1], np.inf))).tolist())
    wavelength, flux = spectrum.wavelength[inside], spectrum.flux[inside]
    finite = np.flatnonzero(np.isfinite(flux))
    if finite.size < 2:
        return None
    good = spectrum.good[inside]
    sigma = None if spectrum.sigma is None else spectrum.sigma[inside]
    reach = (float(wavelength[finite[0]]), float(wavelength[finite[-1]]))
    if window is not None:  # what was asked for, where there are data: a missing half shows as such
        span = reach[1] - reach[0]
        reach = (max(window[0], reach[0] - span), min(window[1], reach[1] + span))
    low, high = svg.robust_range(flux, good, sigma)
    if window is not None:
        low -= UNDERLINES * (high - low)
    plot = svg.Plot(
        size.left,
        size.top,
        size.width - size.left - size.right,
        size.height - size.top - size.bottom,
        x=reach,
        y=(low, high),
    )
    data = _data(plot, wavelength, flux, good, sigma)
    parts = [_shading(spectrum, plot, z), *data, *_axes(spectrum, plot, size, frame)]
    where = "Whole spectrum" if window is None else f"Window {window[0]:g}-{window[1]:g} Å"
    bad = int(np.count_nonzero(~good))
    return Base(
        size,
        plot,
        "".join(parts),
        f"{where}, {_axis_words(spectrum, frame)}",
        f"{wavelength.size} pixels, {bad} of them bad; flux shown from {plot.y[0]:.3g} to {plot.y[1]:.3g}.",
    )


def picture(
    drawn: Base,
    marks: Iterable[Mark] = (),
    measured: Iterable[Stretch] = (),
    deceivers: Iterable[Stretch] = (),
    use: str = "",
) -> Markup:
    """A whole SVG element: `drawn`, or a reference to the element `use` that holds it, with marks on top."""
    size = drawn.size
    body = f'<use href="#{escape(use)}"/>' if use else drawn.body
    over = _marks(drawn, marks) + _underlines(drawn.plot, measured, deceivers)
    kind = "full" if size is FULL else "zoom"
    return Markup(
        f'<svg class="plot {kind}" viewBox="0 0 {size.width} {size.height}" role="img">'
        f"<title>{escape(drawn.title)}</title><desc>{escape(drawn.description)}</desc>{body}{over}</svg>"
    )


def definition(drawn: Base, name: str) -> str:
    """`drawn` as an element with the id `name`, for several pictures to `use`."""
    return f'<g id="{escape(name)}">{drawn.body}</g>'


def log_odds_bar(log_odds: float) -> Markup:
    """A bar from the middle: to the right for YES, to the left for NO; full at ±4, which is 55 to 1."""
    length = round(min(abs(log_odds), 4.0) * 10, 1)
    side = "yes" if log_odds > 0 else "no"
    bar = f'<rect class="{side}" x="{50 if log_odds > 0 else 50 - length:g}" y="2" width="{length:g}" height="8"/>'
    return Markup(f'<svg class="odds" viewBox="6 0 88 12" aria-hidden="true">{bar}<path d="M50 0v12"/></svg>')


def _axis_words(spectrum: Spectrum, frame: str) -> str:
    medium = "medium unknown" if spectrum.medium == "unknown" else spectrum.medium
    return f"Wavelength (Å, {medium}, {frame})"


def _shading(spectrum: Spectrum, plot: svg.Plot, z: float) -> str:
    """Telluric bands and sky lines (observed frame, air → the spectrum's medium and frame) and arm joins."""
    tellurics, words = [], []
    font_row = plot.top + 20
    for name, low, high in TELLURIC_BANDS_AIR:
        a, b = (in_medium(w, "air", spectrum.medium) / (1 + z) for w in (low, high))
        if b <= plot.x[0] or a >= plot.x[1]:
            continue
        left, right = plot.across(a), plot.across(b)
        tellurics.append((left, right))
        label = f"⊕ {name}"
        if right - left > svg.text_width(label, 18):
            words.append(f'<text x="{(left + right) / 2:.0f}" y="{font_row:.0f}" class="t">{label}</text>')
        elif right - left > 24:
            words.append(f'<text x="{(left + right) / 2:.0f}" y="{font_row:.0f}" class="t">⊕</text>')
    out = f'<path class="air" d="{svg.rectangles(tellurics, plot.top, plot.height)}"/>' if tellurics else ""
    sky = [in_medium(w, "air", spectrum.medium) / (1 + z) for _, w in SKY_LINES_AIR]
    sky = [plot.across(w) for w in sky if plot.x[0] < w < plot.x[1]]
    if sky:
        out += f'<path class="sky" d="{"".join(f"M{x:.0f} {plot.top:.0f}v12" for x in sky)}"/>'
    spans = []
    for join in spectrum.joins:
        if join.high <= plot.x[0] or join.low >= plot.x[1]:
            continue
        left, right = plot.across(join.low), plot.across(join.high)
        middle = (left + right) / 2
        spans.append((min(left, middle - 2), max(right, middle + 2)))
        text = f"join: {join.label}"
        half = svg.text_width(text, 18) / 2
        x = min(max(middle, plot.left + half), plot.right - half)
        words.append(f'<text x="{x:.0f}" y="{plot.bottom - 30:.0f}" class="t">{escape(text)}</text>')
    if spans:
        out += f'<path class="join" d="{svg.rectangles(spans, plot.top, plot.height)}"/>'
    return out + "".join(words)


def _data(
    plot: svg.Plot,
    wavelength: svg.FloatArray,
    flux: svg.FloatArray,
    good: svg.BoolArray,
    sigma: svg.FloatArray | None,
) -> list[str]:
    out: list[str] = []
    x, runs = plot.columns(wavelength), svg.segments(wavelength, flux)
    if not good.all():
        out.append(f'<path class="bad" d="{svg.rectangles(svg.stretches(~good, x), plot.top, plot.height)}"/>')
    if sigma is not None and bool(good.any()):
        safe = np.where(good, flux, 0.0)
        error = np.where(good, np.where(np.isfinite(sigma), sigma, 0.0), 0.0)
        both = np.where(good, runs, -1)
        area = svg.band(x, plot.rows(safe - error), plot.rows(safe + error), both)
        if area:
            out.append(f'<path class="sigma" d="{area}"/>')
    kept = svg.decimated(x, flux, runs)
    out.append(f'<path class="flux" d="{svg.polyline(x[kept], plot.rows(flux[kept]), runs[kept])}"/>')
    spikes = "".join(_spike_marks(plot, x, flux, good))
    if spikes:
        out.append(f'<path class="spike" d="{spikes}"/>')
    return out


def _spike_marks(plot: svg.Plot, x: svg.IntArray, flux: svg.FloatArray, good: svg.BoolArray) -> Iterable[str]:
    """Small triangles at the edge where good pixels are clipped."""
    for beyond, y, way in ((flux > plot.y[1], plot.top, 9), (flux < plot.y[0], plot.bottom, -9)):
        last = -100
        for place in x[np.flatnonzero(beyond & good)].tolist()[: 10 * MAX_SPIKE_MARKS]:
            if place - last >= 12:
                last = place
                yield f"M{place} {y:.0f}l-6 {way}h12z"


def _axes(spectrum: Spectrum, plot: svg.Plot, size: Size, frame: str) -> list[str]:
    path = [f"M{plot.left:.0f} {plot.top:.0f}h{plot.width:.0f}v{plot.height:.0f}H{plot.left:.0f}z"]
    step = svg.tick_step(plot.x[1] - plot.x[0], size.x_labels)
    words, fluxes = list[str](), list[str]()
    for value in svg.ticks(*plot.x, step):
        place, text = plot.across(value), svg.number(value, step)
        edge = size.width - svg.text_width(text, 22) / 2
        path.append(f"M{place:.0f} {plot.bottom:.0f}v-12")
        words.append(f'<text x="{min(place, edge):.0f}" y="{plot.bottom + 28:.0f}">{text}</text>')
    path += [f"M{plot.across(v):.0f} {plot.bottom:.0f}v-6" for v in svg.ticks(*plot.x, step / 5)]
    exponent = svg.common_exponent(*plot.y)
    low, high = (v / 10.0**exponent for v in plot.y)
    step = svg.tick_step(high - low, size.y_labels)
    for value in svg.ticks(low, high, step):
        place = plot.down(value * 10.0**exponent)
        path.append(f"M{plot.left:.0f} {place:.0f}h10")
        fluxes.append(f'<text x="{plot.left - 10:.0f}" y="{place + 8:.0f}">{svg.number(value, step)}</text>')
    unit = _unit(spectrum)
    flux = f"Flux ({unit})" if not exponent else f"Flux / 10{_superscript(exponent)} ({unit})"
    flux = svg.shortened(flux, int(1.4 * plot.height / svg.text_width("n", 22)))
    middle = plot.top + plot.height / 2
    centre = plot.left + plot.width / 2
    words += [
        f'<text x="{centre:.0f}" y="{size.height - 14}">{escape(_axis_words(spectrum, frame))}</text>',
        f'<text transform="translate(24 {middle:.0f})rotate(-90)">{escape(flux)}</text>',
    ]
    return [f'<path class="axis" d="{"".join(path)}"/>', *words, f'<g class="y">{"".join(fluxes)}</g>']


def _unit(spectrum: Spectrum) -> str:
    """The unit as people write it; what the file says when that is not one of the usual ways."""
    unit = spectrum.flux_unit.strip()
    if not unit:
        return {"relative": "relative", "normalised": "normalised"}.get(spectrum.calibration, "unit not stated")
    plain = re.sub(r"[\s*^()]", "", unit).lower()
    if re.fullmatch(r"(1e-17|10-17)?ergs?/(cm2/s|s/?cm2|scm2)/?(a|å|ang|angstroms?)", plain):
        return ("10⁻¹⁷ " if "17" in plain else "") + "erg s⁻¹ cm⁻² Å⁻¹"
    return unit


def _marks(drawn: Base, marks: Iterable[Mark]) -> str:
    """Dashed lines at features with names in rows above; a name without room keeps its line.

    In a full view the lines are short: dozens of them would hide the spectrum.
    """
    plot, size = drawn.plot, drawn.size
    rows = svg.LabelRows(plot.left, float(size.width), size.label_rows)
    foot = plot.top + 18 if size is FULL else plot.bottom
    lines, words, seen = [], [], list[float]()
    for mark in marks:
        if not plot.x[0] <= mark.wavelength <= plot.x[1]:
            continue
        x = plot.across(mark.wavelength)
        if any(abs(x - other) < 3 for other in seen):
            continue
        seen.append(x)
        name = mark.name if len(mark.name) <= 16 else re.sub(r" \([^()]*\)$", "", mark.name)
        name = svg.shortened(name, 24)
        placed = rows.place(x, svg.text_width(name, size.font) + 8)
        if placed is None:
            lines.append(f"M{x:.1f} {plot.top:.0f}V{foot:.0f}")
            continue
        row, middle = placed
        base_line = plot.top - 8 - row * (size.font + 4)
        lines.append(f"M{x:.1f} {base_line + 4:.0f}V{foot:.0f}")
        words.append(f'<text x="{middle:.0f}" y="{base_line:.0f}" class="f">{escape(name)}</text>')
    return (f'<path class="mark" d="{"".join(lines)}"/>' if lines else "") + "".join(words)


def _underlines(plot: svg.Plot, measured: Iterable[Stretch], deceivers: Iterable[Stretch]) -> str:
    """Bars along the bottom: what was measured, and above it what may deceive, with its name where it fits."""
    out = ""
    for kind, up, items in (("meas", 12, list(measured)), ("trap", 24, list(deceivers))):
        spans = []
        for item in items:
            if item.high <= plot.x[0] or item.low >= plot.x[1]:
                continue
            left, right = plot.across(item.low), plot.across(item.high)
            spans.append((left, max(right, left + 4)))
        if spans:
            out += f'<path class="{kind}" d="{svg.rectangles(spans, plot.bottom - up, 8)}"/>'
    return out


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
