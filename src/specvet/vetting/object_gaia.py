"""What `specvet match` found of whole objects: one star's Gaia numbers, its names, and its verdicts with Gaia.

The verdict of an object over its epochs is held against Gaia by the rules of the task, as that of a spectrum is: what
follows is a second verdict beside it. Where several epochs have the object's Gaia source, the nearest match is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from specvet.catalogue.matching.answers import WithGaia, with_gaia
from specvet.catalogue.matching.folder import read_matches
from specvet.catalogue.matching.run import run_tasks
from specvet.records.tables import Column
from specvet.vetting.columns import MATCH_COLUMNS
from specvet.vetting.matched import is_matched, match_values

if TYPE_CHECKING:
    from specvet.catalogue.objects import Group
    from specvet.catalogue.sighting import Key, Match
    from specvet.records import RunFolder
    from specvet.tasks import Task
    from specvet.vetting.objects import ObjectVerdicts

_OF_OBJECTS = ("g_mag", "bp_rp", "parallax", "parallax_error", "ruwe", "m_g", "m_g_error", "known_as", "match_notes")

OBJECT_MATCH_COLUMNS = tuple(column for column in MATCH_COLUMNS if column.name in _OF_OBJECTS)
"""Behind the columns of an object where `specvet match` was run; its Gaia id is `gaia_id`."""


def object_match(found: Group, matches: Mapping[Key, Match]) -> Match | None:
    """The matches of an object's spectra as one; None where no spectrum of it was matched.

    Gaia is that of the object's own source. Each name that a catalogue has is kept once, of its nearest match.
    """
    its = [match for s in found.members if (match := matches.get(s.key)) is not None]
    if not its:
        return None
    gaia = min(
        (m for m in its if m.gaia is not None and m.gaia.source_id == found.gaia_id),
        key=lambda m: inf if m.gaia_separation_arcsec is None else m.gaia_separation_arcsec,
        default=None,
    )
    known = sorted(
        (k for m in its for k in m.known), key=lambda k: inf if k.separation_arcsec is None else k.separation_arcsec
    )
    asked = tuple(dict.fromkeys([name for m in its for name in m.asked] + [k.catalogue for k in known]))
    named = {(k.catalogue, k.name): k for k in reversed(known)}
    return replace(
        its[0],
        gaia=None if gaia is None else gaia.gaia,
        gaia_separation_arcsec=None if gaia is None else gaia.gaia_separation_arcsec,
        known=tuple(sorted(named.values(), key=lambda k: (asked.index(k.catalogue), k.name))),
        asked=asked,
        notes=tuple(dict.fromkeys(note for m in its for note in m.notes)),
    )


def object_with_gaia(one: ObjectVerdicts, task: Task | None, match: Match | None) -> WithGaia | None:
    """The verdict of an object with Gaia; None where the task says nothing of Gaia, or has no verdict."""
    said = None if task is None else one.verdicts.get(task.key)
    if task is None or said is None or match is None:
        return None
    return with_gaia(said.answer, task, match, said.likelier or None)


def object_match_cells(match: Match | None) -> dict[str, Any]:
    """The cells of `OBJECT_MATCH_COLUMNS`."""
    values = match_values(match)
    return {name: values[name] for name in _OF_OBJECTS}


def match_told(run: RunFolder) -> Callable[[ObjectVerdicts], dict[str, Any]]:
    """What gives `{match: cells, with_gaia: {task: {answer_with_gaia, why_with_gaia}}}` of an object; empty without a
    match. Raises `InputError` where what was matched cannot be read."""
    if not is_matched(run):
        return lambda one: {}
    matches, tasks = read_matches(run.path), run_tasks(run.path)

    def told(one: ObjectVerdicts) -> dict[str, Any]:
        match = object_match(one.group, matches)
        said = {task: object_with_gaia(one, tasks.get(task), match) for task in one.verdicts}
        with_gaia = {
            task: {"answer_with_gaia": w.answer_with_gaia, "why_with_gaia": w.why} for task, w in said.items() if w
        }
        return {"match": object_match_cells(match), "with_gaia": with_gaia}

    return told


def with_gaia_columns(stem: str, what: str) -> tuple[Column, ...]:
    """Of one task, behind its own; `stem` begins their names."""
    return (
        Column(f"{stem}_with_gaia", str, f"verdict on {what} over all epochs, with Gaia", ucd="meta.code.class"),
        Column(f"{stem}_why_with_gaia", str, "what follows from Gaia, or why nothing does", ucd="meta.note"),
    )


def with_gaia_cells(stem: str, said: WithGaia | None) -> dict[str, Any]:
    """The cells of `with_gaia_columns`."""
    return {
        f"{stem}_with_gaia": None if said is None else said.answer_with_gaia,
        f"{stem}_why_with_gaia": None if said is None else said.why,
    }
