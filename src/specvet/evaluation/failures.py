"""Where a policy fails: its worst errors on a set, a few of each task, and what they looked like."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from specvet.evaluation.cells import Cell
from specvet.evaluation.compare.meeting import badness, certainty
from specvet.evaluation.compare.spectra import Spectra, spectra_of
from specvet.evaluation.outcomes import Outcome
from specvet.records import Decision
from specvet.spectra import SpectrumReadError
from specvet.views import COMPACT_STYLE, full_view, picture_size

TILE = "448x280"
"""Size of a picture, in pixels."""
COLUMNS = 3
_MARGIN, _TITLE = 12, 44


@dataclass(frozen=True, slots=True)
class Failure:
    """One wrong answer."""

    outcome: Outcome
    decision: Decision

    @property
    def certainty(self) -> float | None:
        """With which it was given, 0-1; None where the policy states none, or gave no answer."""
        return certainty(self.outcome)

    @property
    def what(self) -> str:
        """What the object is, as far as the set tells, and its S/N."""
        o = self.outcome
        named = " ".join(part for part in (o.kind, f"({o.subtype})" if o.subtype else "") if part)
        noise = "" if o.snr is None else f"S/N {o.snr:.0f}"
        return ", ".join(part for part in (named, noise, o.survey) if part)


def failures(cell: Cell, n: int, rule: str) -> list[Failure]:
    """At most `n` of a cell's errors: the tasks in turn, of each the worst first (stated and most certain).

    Raises OSError, ValueError, KeyError, LedgerError for rows that cannot be read.
    """
    wrong: dict[str, list[tuple[Outcome, int]]] = {}
    for place, outcome in enumerate(cell.outcomes(rule)):
        if not outcome.right:
            wrong.setdefault(outcome.task, []).append((outcome, place))
    ordered = [sorted(of_task, key=lambda one: badness(one[0])) for _, of_task in sorted(wrong.items())]
    chosen = [one for one in chain.from_iterable(zip_longest(*ordered)) if one is not None][:n]
    wanted = {place for _, place in chosen}
    decisions = {i: decision for i, (_, _, decision) in enumerate(cell.rows()) if i in wanted}
    return [Failure(outcome, decisions[place]) for outcome, place in chosen]


def drawn(found: Iterable[Failure], cell: Cell, given: Iterable[Path] = ()) -> tuple[bytes | None, int]:
    """The whole spectra of failures on one sheet, as PNG, and how many are on it; None without a spectrum.

    Spectra are read from where the cell's set lies, or from the folders `given`; those that are not there are left out.
    """
    spectra = spectra_of(cell, given)
    tiles = [tile for place, failure in enumerate(found, 1) for tile in _tile(place, failure, spectra)]
    return (_sheet(tiles), len(tiles)) if tiles else (None, 0)


def _tile(place: int, failure: Failure, spectra: Spectra) -> Iterator[tuple[str, bytes]]:
    """Title and picture, if the spectrum is there."""
    d, o = failure.decision, failure.outcome
    try:
        spectrum = spectra(d.file, d.row)
        if spectrum is None:
            return
        png = full_view(spectrum, d.z or 0.0, None, COMPACT_STYLE, picture_size(TILE)).png
    except (SpectrumReadError, OSError, ValueError):  # what cannot be read or drawn was asked about all the same
        return
    yield f"{place}. {o.task}: is {o.truth}, said {o.said or o.verdict}\n{failure.what[:56]}", png


def _sheet(tiles: list[tuple[str, bytes]]) -> bytes:
    """Pictures in rows of three, each below its title."""
    from PIL import Image, ImageDraw, ImageFont

    pictures = [Image.open(io.BytesIO(png)).convert("L") for _, png in tiles]
    width, height = pictures[0].size
    rows = -(-len(tiles) // COLUMNS)
    across, down = width + _MARGIN, height + _TITLE + _MARGIN
    sheet = Image.new("L", (min(COLUMNS, len(tiles)) * across + _MARGIN, rows * down + _MARGIN), 255)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    for i, ((title, _), picture) in enumerate(zip(tiles, pictures, strict=True)):
        left, top = _MARGIN + (i % COLUMNS) * across, _MARGIN + (i // COLUMNS) * down
        pen.multiline_text((left, top), title, fill=0, font=font, spacing=4)
        sheet.paste(picture, (left, top + _TITLE))
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True)
    return out.getvalue()
