"""What `specvet match` found, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from specvet.catalogue.citing.facts import MatchFacts
from specvet.catalogue.sighting import Key, Match

GAIA = "gaia"


def match_facts(
    matches: Mapping[Key, Match],
    answers: Iterable[tuple[str, str]] = (),
    radius_arcsec: float | None = None,
) -> MatchFacts | None:
    """Counts over spectra; None where no catalogue answered about any.

    `answers` are pairs of a verdict from the spectrum and the one with Gaia.
    """
    asked: Counter[str] = Counter()
    known: Counter[str] = Counter()
    gaia = known_any = new = 0
    for match in matches.values():
        asked.update(set(match.asked))
        names = {k.catalogue for k in match.known}
        known.update(names)
        gaia += match.gaia is not None
        known_any += bool(names)
        new += not names and any(name != GAIA for name in match.asked)
    if not asked:
        return None
    pairs = list(answers)
    return MatchFacts(
        spectra=sum(bool(m.asked) for m in matches.values()),
        asked=dict(sorted(asked.items())),
        gaia=gaia,
        known=dict(sorted(known.items())),
        known_any=known_any,
        new=new,
        radius_arcsec=radius_arcsec,
        answers=len(pairs),
        changed=sum(spectrum != with_gaia for spectrum, with_gaia in pairs),
    )
