"""The report of a campaign as one HTML page that is complete in itself: no script, no network, no markup of strangers.

Figures are SVG pictures in `data:` addresses: as pictures they can run nothing, and their styles are their own.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import Markup

from specvet import __version__
from specvet.evaluation.cells import Cell
from specvet.evaluation.folder import CampaignFolder
from specvet.evaluation.plots import KINDS, figure_bytes, figures
from specvet.evaluation.plots.shown import Shown, measured_sets, shown
from specvet.evaluation.report import about, words
from specvet.evaluation.report.conduct import comparisons, conduct
from specvet.evaluation.report.rare import rare_table, readings
from specvet.evaluation.report.tables import Table, headline, tables_of
from specvet.vetting.templates import page_part, page_template
from specvet.vetting.transcript.page import security_policy
from specvet.vetting.transcript.safe import one_line


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, or why there is none."""

    kind: str
    source: str
    """`data:` address; empty where there is none."""
    alt: str
    why: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """One question set."""

    name: str
    simulated: bool
    about: str
    headline: Table
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]
    rare: Table | None
    readings: tuple[str, ...]
    """The same in sentences."""
    conduct: tuple[Table, ...]
    paired: Table | None
    missing: tuple[str, ...]


def page(
    folder: CampaignFolder,
    *,
    beside: bool = False,
    kinds: Sequence[str] = KINDS,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The page. `beside` draws published results beside ours; `kinds` of figures; `progress` is told (sets, of all).

    Raises InputError where nothing has been measured yet; OSError, ValueError for files that cannot be read.
    """
    names = measured_sets(folder)
    cells = folder.current()
    chapters = []
    for n, name in enumerate(names, start=1):
        chapters.append(_chapter(folder, name, cells, beside, kinds))
        if progress is not None:
            progress(n, len(names))
    simulated = [chapter.name for chapter in chapters if chapter.simulated]
    asked = [about.sets_table(folder, names, simulated), about.policies_table(folder), about.files_table(folder)]
    foundations = [*asked, *about.settings_table(cells), about.receipts_table(cells)]
    style = f"\n{_style()}\n"
    return str(
        page_template("specvet.evaluation.report", "report.html").render(
            campaign=folder.campaign,
            chapters=chapters,
            foundations=[table for table in foundations if table is not None],
            cells=len(cells),
            questions=sum(cell.record.questions for cell in cells),
            simulated=simulated,
            policy=security_policy(style),
            style=Markup(style),
            version=__version__,
            clean=one_line,
            plural=words.plural,
        )
    )


def _chapter(folder: CampaignFolder, name: str, cells: Sequence[Cell], beside: bool, kinds: Sequence[str]) -> Chapter:
    found = shown(folder, name)
    labels = {slug: descriptor.label for slug, descriptor in folder.policies.items()}
    return Chapter(
        name=name,
        simulated=found.simulated,
        about=found.about,
        headline=headline(found),
        pictures=tuple(_picture(drawn) for drawn in figures(folder, sets=[name], kinds=kinds, beside=beside)),
        tables=tuple(tables_of(found)),
        rare=rare_table(found),
        readings=tuple(readings(found)),
        conduct=tuple(conduct(found)),
        paired=comparisons(folder.summary(), labels, name),
        missing=tuple(about.missing(found, _open(folder, found, cells))),
    )


def _open(folder: CampaignFolder, found: Shown, cells: Sequence[Cell]) -> list[str]:
    """Policies and seeds that the campaign asks for on a set, and that are not complete."""
    there = {(cell.record.policy, cell.record.seed) for cell in cells if cell.record.set == found.set.slug}
    campaign = folder.campaign
    wanted = [(slug, seed) for slug in campaign.policies for seed in campaign.seeds_of(slug)]
    return [
        campaign.label(slug) + ("" if seed is None else f", seed {seed}")
        for slug, seed in wanted
        if (slug, seed) not in there
    ]


def _picture(drawn: Any) -> Picture:
    if drawn.figure is None:
        return Picture(drawn.kind, "", drawn.alt, drawn.why)
    data = base64.b64encode(figure_bytes(drawn.figure, "svg")).decode("ascii")
    return Picture(drawn.kind, f"data:image/svg+xml;base64,{data}", drawn.alt, "")


@cache
def _style() -> str:
    """That of a run's report, and this page's own."""
    return "\n".join(
        [page_part("specvet.vetting.report", "style.css"), page_part("specvet.evaluation.report", "report.css")]
    )
