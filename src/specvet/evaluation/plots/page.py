"""The page that a figure is drawn on: title, a line about the data, panels placed in inches, notes at the foot."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COLOURS = ("#0072B2", "#E69F00", "#000000", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito's palette, which people with any colour vision tell apart; the first ones differ most in grey."""
LINES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)), (0, (8, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "++++")
INK, GREY, FAINT = "#333333", "#777777", "#E6E6E6"
SMALL, NORMAL = 7.5, 8.5
"""Sizes of type, in points."""
MARGIN = 0.2
"""About the page, in inches."""
LINE = 0.165
"""From one line of small type to the next, in inches."""
FORMATS = ("png", "pdf", "svg")


@dataclass(frozen=True, slots=True)
class Look:
    """How a policy is drawn, in every figure."""

    colour: str
    line: Any
    marker: str
    hatch: str
    filled: bool
    """Whether its markers are; open ones tell a second round through the seven from the first."""

    @property
    def tint(self) -> str:
        """The colour on which a hatch in the colour itself shows: two thirds of the way to white."""
        parts = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return "#" + "".join(f"{round(part + (255 - part) * 0.65):02X}" for part in parts)

    @property
    def points(self) -> dict[str, Any]:
        """Keywords of its markers."""
        face = self.colour if self.filled else "white"
        return {"marker": self.marker, "markerfacecolor": face, "markeredgecolor": self.colour, "markeredgewidth": 0.9}

    @property
    def bar(self) -> dict[str, Any]:
        """Keywords of its bars."""
        return {"facecolor": self.tint, "edgecolor": self.colour, "hatch": self.hatch, "linewidth": 0.9}


OTHERS = Look("#777777", "-", "o", "///////", filled=False)
"""What others published: no colour, and a hatch that no policy of ours has."""


def look(place: int) -> Look:
    """That of the policy at this place of the campaign."""
    i = place % len(COLOURS)
    line = LINES[place % len(LINES)]
    return Look(COLOURS[i], line, MARKERS[i], HATCHES[i], filled=place // len(COLOURS) % 2 == 0)


class Page:
    """A figure of a given width whose height follows from its body. All lengths are in inches, from the top left."""

    def __init__(self, width: float, body: float, title: str, about: Sequence[str], notes: Sequence[str]) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        letters = int((width - 2 * MARGIN) / 0.062)
        heads = [line for text in about for line in textwrap.wrap(text, int(letters * 0.9))]
        feet = [line for text in notes for line in textwrap.wrap(text, letters)]
        self.top = MARGIN + 0.3 + 0.19 * len(heads) + 0.12
        self.width, self.height = width, self.top + body + LINE * len(feet) + 2 * MARGIN
        self.figure = Figure(figsize=(self.width, self.height), facecolor="white")
        FigureCanvasAgg(self.figure)
        size = min(13.0, (width - 2 * MARGIN) / (0.0096 * len(title)))  # of a line that fits
        self.text(MARGIN, MARGIN - 0.04 - self.top, title, fontsize=size, fontweight="bold", va="top", color="black")
        for i, line in enumerate(heads):
            self.text(MARGIN, MARGIN + 0.28 + 0.19 * i - self.top, line, fontsize=9, va="top")
        for i, line in enumerate(feet):
            y = body + MARGIN + LINE * i
            self.text(MARGIN, y, line, fontsize=SMALL, va="top", color="#555555")

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        """Axes whose upper left corner lies there, below the head."""
        top = top + self.top
        box = (
            left / self.width,
            1 - (top + height) / self.height,
            width / self.width,
            height / self.height,
        )
        axes = self.figure.add_axes(box)
        dress(axes)
        return axes

    def text(self, left: float, top: float, text: str, **how: Any) -> None:
        """Words there, below the head; a dollar is a dollar."""
        how = {"fontsize": NORMAL, "color": INK, "va": "center", **how}
        self.figure.text(left / self.width, 1 - (top + self.top) / self.height, text, parse_math=False, **how)

    def legend(self, left: float, top: float, handles: Sequence[Any], labels: Sequence[str], columns: int) -> None:
        """A legend whose upper left corner lies there."""
        drawn = self.figure.legend(
            handles,
            labels,
            loc="upper left",
            bbox_to_anchor=(left / self.width, 1 - (top + self.top) / self.height),
            ncols=columns,
            fontsize=NORMAL,
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            handlelength=3.2,
            columnspacing=1.6,
            labelcolor=INK,
        )
        for text in drawn.get_texts():
            text.set_parse_math(False)


def dress(axes: Any) -> None:
    """The look of all panels."""
    axes.tick_params(labelsize=8, length=3, color=GREY, labelcolor=INK)
    axes.grid(True, color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)


def titled(axes: Any, title: str, below: str = "", rise: float = 0.0) -> None:
    """The title of a panel, and a smaller line between it and the panel, `rise` points above their usual place."""
    pad = (18 if below else 6) + rise
    axes.set_title(title, fontsize=9.5, loc="left", pad=pad, color="black", parse_math=False)
    if below:
        axes.annotate(
            below, (0, 1), (0, 5 + rise), xycoords="axes fraction", textcoords="offset points", fontsize=SMALL,
            color=GREY, va="bottom", parse_math=False,
        )  # fmt: skip


def wrapped(text: str, letters: int = 26) -> str:
    """A label on two lines at most."""
    lines = textwrap.wrap(text, letters) or [""]
    return "\n".join(
        lines if len(lines) <= 2 else [lines[0], textwrap.shorten(" ".join(lines[1:]), letters, placeholder="…")]
    )


def style() -> Any:
    """Settings of matplotlib under which figures are made and saved, whatever the user's own are."""
    return {
        "font.family": "DejaVu Sans",
        "hatch.linewidth": 0.6,
        "svg.hashsalt": "specvet",
        "svg.fonttype": "path",
        "pdf.fonttype": 42,
        "text.usetex": False,
    }


def figure_bytes(figure: Any, form: str) -> bytes:
    """A figure as `png` (150 dots an inch), `pdf` or `svg`; without the time, so that the same numbers give the same
    file."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form)
    with mpl.rc_context(style()), warnings.catch_warnings():
        # A label in letters that the typeface lacks is drawn as boxes, which needs no page of warnings.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()
