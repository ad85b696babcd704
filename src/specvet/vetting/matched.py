"""What `specvet match` found, joined to the decisions of its run: the cells of `MATCH_COLUMNS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from specvet.catalogue.matching.answers import WithGaia
from specvet.catalogue.matching.folder import FOLDER, MATCHES, Place, read_answers, read_matches
from specvet.catalogue.matching.quantities import luminous
from specvet.catalogue.matching.sources import known_as
from specvet.catalogue.sighting import Match
from specvet.data.errors import InputError
from specvet.records import RunError

if TYPE_CHECKING:
    from specvet.records import Decision, RunFolder


def is_matched(run: RunFolder) -> bool:
    """Whether `specvet match` was run, so that its columns join."""
    return (run.path / FOLDER / MATCHES).is_file()


def match_cells(run: RunFolder) -> Callable[[Decision], dict[str, Any]]:
    """What makes the cells of a decision; none where nothing was matched. Raises `RunError` for damaged files."""
    if not is_matched(run):
        return lambda decision: {}
    try:
        matches, answers = read_matches(run.path), read_answers(run.path)
    except InputError as e:
        raise RunError(str(e)) from None

    def cells(decision: Decision) -> dict[str, Any]:
        place = Place(decision.file, decision.row, decision.task, decision.sample)
        return _cells(matches.get(place[:2]), still(answers.get(place), decision))

    return cells


def still(answer: WithGaia | None, decision: Decision) -> WithGaia | None:
    """An answer with Gaia, unless the verdict from the spectrum has become another since."""
    return answer if answer is not None and answer.answer == str(decision.verdict.answer) else None


def _cells(match: Match | None, answer: WithGaia | None) -> dict[str, Any]:
    said = {
        "answer_with_gaia": None if answer is None else answer.answer_with_gaia,
        "used": None if answer is None else answer.used,
        "why_with_gaia": None if answer is None else answer.why,
    }
    return match_values(match) | said


def match_values(match: Match | None) -> dict[str, Any]:
    """The cells of `MATCH_COLUMNS` that a match alone tells."""
    gaia = None if match is None else match.gaia
    known = None if gaia is None else luminous(gaia)
    return {
        "gaia_source_id": None if gaia is None else gaia.source_id or None,
        "gaia_separation": None if match is None else match.gaia_separation_arcsec,
        "g_mag": None if gaia is None else gaia.g,
        "bp_rp": None if gaia is None else gaia.bp_rp,
        "parallax": None if gaia is None else gaia.parallax,
        "parallax_error": None if gaia is None else gaia.parallax_error,
        "ruwe": None if gaia is None else gaia.ruwe,
        "m_g": None if known is None or known.m_g is None else round(known.m_g, 4),
        "m_g_error": None if known is None or known.error is None else round(known.error, 4),
        "known_as": None if match is None else known_as(match),
        "match_notes": None if match is None else "; ".join(match.notes) or None,
    }
