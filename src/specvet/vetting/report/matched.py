"""What `specvet match` found, as the page shows it: facts of the star, the verdict with Gaia and a picture a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from specvet.catalogue.matching import cmd_svg, known_as, luminous, read_answers, read_matches
from specvet.catalogue.matching.folder import Place
from specvet.catalogue.matching.run import run_tasks
from specvet.catalogue.sighting import Match
from specvet.data.errors import InputError
from specvet.records import Decision, RunError
from specvet.vetting.matched import still


@dataclass(frozen=True, slots=True)
class TaskWithGaia:
    """The verdict with Gaia on one task."""

    answer: str
    changed: bool
    used: str
    why: str
    picture: Markup


@dataclass(frozen=True, slots=True)
class Matched:
    """What catalogues say of one spectrum."""

    facts: list[tuple[str, str]]
    """(name, words) for people."""
    tasks: Mapping[str, TaskWithGaia] = field(default_factory=dict)


def matched_of(run: Path) -> Callable[[Sequence[Decision]], Matched] | None:
    """What gives `Matched` for the decisions of one spectrum; None where the run was not matched. Raises `RunError`."""
    try:
        matches, answers = read_matches(run), read_answers(run)
    except InputError as e:
        raise RunError(str(e)) from None
    if not matches:
        return None
    tasks = run_tasks(run)

    def matched(decisions: Sequence[Decision]) -> Matched:
        match = matches.get((decisions[0].file, decisions[0].row))
        if match is None:
            return Matched([])
        told = {}
        for d in decisions:
            answer = still(answers.get(Place(d.file, d.row, d.task, d.sample)), d)
            if answer is not None:
                changed = answer.answer != answer.answer_with_gaia
                picture = cmd_svg(match, tasks.get(d.task))
                told[d.task] = TaskWithGaia(answer.answer_with_gaia, changed, answer.used, answer.why, picture)
        return Matched(list(facts(match)), told)

    return matched


def facts(match: Match) -> list[tuple[str, str]]:
    """(name, words): the Gaia source with its numbers, what the star is known as, what is odd about the match."""
    found: list[tuple[str, str]] = []
    if match.gaia is not None:
        gaia, known = match.gaia, luminous(match.gaia)
        parts = [gaia.source_id or "without an id"]
        if match.gaia_separation_arcsec is not None:
            parts[0] += f" at {match.gaia_separation_arcsec:.2f}″"
        if gaia.g is not None:
            parts.append(f"G {gaia.g:.2f}")
        if gaia.bp_rp is not None:
            parts.append(f"BP−RP {gaia.bp_rp:.2f}")
        if gaia.parallax is not None:
            error = "" if gaia.parallax_error is None else f" ± {gaia.parallax_error:.3f}"
            parts.append(f"parallax {gaia.parallax:.3f}{error} mas")
        if gaia.ruwe is not None:
            parts.append(f"RUWE {gaia.ruwe:.2f}" + ("" if known.good_astrometry else " (poor fit)"))
        if known.m_g is not None and known.error is not None:
            parts.append(f"M_G {known.m_g:.2f} ± {known.error:.2f}")
        elif known.limit is not None:
            parts.append(f"M_G brighter than {known.limit:.1f}")
        found.append(("Gaia DR3", ", ".join(parts).replace(" -", " −")))
    elif "gaia" in match.asked:
        found.append(("Gaia DR3", "no source found"))
    if name := known_as(match):
        found.append(("Known as", name))
    if match.notes:
        found.append(("Match", "; ".join(match.notes)))
    return found
