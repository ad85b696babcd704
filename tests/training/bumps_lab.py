"""Documents about bumps, for tests of base training; loads no torch, as producers do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np

from specvet.chat import Image, ToolCall
from specvet.chat.messages import Message, assistant, system, tool, user
from specvet.training.base.source import Document
from specvet.views.compact import SIZES, draw_compact

WHOLE, ZOOM = SIZES["tiny"]


def drawn(peak: float, size: tuple[int, int]) -> Image:
    """A line with one bump, as a grey PNG."""
    x = np.linspace(4000.0, 8000.0, 500)
    return Image.of(draw_compact(x, 1.0 + np.exp(-0.5 * ((x - peak) / 60.0) ** 2), size=size, rgb=False))


def messages(number: int) -> tuple[Message, ...]:
    """A conversation about a bump, with a whole view, a question, a call and a zoom."""
    peak = 4500 + 1000 * (number % 4)
    call = ToolCall("spectral_visualization_tool", {"wavelength_range": [peak - 200, peak + 200]})
    return (
        system("You vet spectra by eye."),
        user(drawn(peak, WHOLE), f"\nFull spectrum, {number}.\n\nPeak?"),
        assistant(f"Peak {peak}."),
        user("Show it."),
        assistant(reasoning="Red.", calls=[call]),
        tool(drawn(peak, ZOOM), "Generated."),
        assistant("Peak seen."),
    )


@dataclass(frozen=True, slots=True)
class Bumps:
    """A source of them; `broken` raises from the first on."""

    broken: bool = False

    def documents(self, start: int, n: int) -> Iterator[Document]:
        if self.broken:
            raise ValueError("no bump can be made")
        for number in range(start, start + n):
            yield Document(messages(number), ("peak", "call", "seen"))

    def held_out(self, start: int, n: int) -> Iterator[Document]:
        return self.documents(1_000 + start, n)


@dataclass(frozen=True, slots=True)
class Late:
    """Bumps of two producers; the second begins when the first has made `far` documents."""

    flag: str
    """A file that says so."""
    far: int

    def documents(self, start: int, n: int) -> Iterator[Document]:
        if start >= self.far:
            Path(self.flag).touch()
        return Bumps().documents(start, n)

    def held_out(self, start: int, n: int) -> Iterator[Document]:
        while start > 0 and not Path(self.flag).exists():
            Event().wait(0.01)
        return Bumps().held_out(start, n)
