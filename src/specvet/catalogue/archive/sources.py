"""Archives as sources of a match: each catalogue is one `Source`, and all of them are asked together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specvet.catalogue.archive.asking import Tell, asked_apart
from specvet.catalogue.archive.cache import Cache
from specvet.catalogue.archive.errors import ArchiveError
from specvet.catalogue.archive.names import GAIA, Catalogue
from specvet.catalogue.archive.settings import Settings, installed
from specvet.catalogue.matching.sources import Progress
from specvet.catalogue.sighting import Key, Match, Sighting

WIDEST_ARCSEC = 60.0


def archive_sources(
    catalogues: Sequence[Catalogue],
    settings: Settings,
    cache: Cache,
    tell: Tell | None = None,
    earlier: Callable[[str], Mapping[Key, Match]] = lambda _: {},
) -> list[ArchiveSource]:
    """The sources for `specvet.catalogue.matching.match_run`. Raises `ArchiveError` where the extra is missing.

    `earlier` tells by a catalogue's name what it said before: that stands where a service does not answer.
    """
    installed()
    together = _Together(tuple(catalogues), settings, cache, tell)
    return [ArchiveSource(catalogue, together, earlier) for catalogue in catalogues]


@dataclass(slots=True)
class _Together:
    """All catalogues of one call: they are asked once, as those without motions are read by Gaia's."""

    catalogues: tuple[Catalogue, ...]
    settings: Settings
    cache: Cache
    tell: Tell | None
    _found: dict[float, list[dict[str, Match]]] = field(default_factory=dict)
    """By radius: of each sighting, what each catalogue says."""

    def said(self, sightings: Sequence[Sighting], radius_arcsec: float, progress: Progress) -> list[dict[str, Match]]:
        if radius_arcsec > WIDEST_ARCSEC:
            raise ArchiveError(f"--radius {radius_arcsec:g}: archives are asked within at most {WIDEST_ARCSEC:g}″")
        if radius_arcsec not in self._found:
            settings = self.settings.model_copy(update={"radius_arcsec": radius_arcsec})
            told = asked_apart(sightings, self.catalogues, settings, self.cache, progress, self.tell)
            self._found[radius_arcsec] = [said for _, said in told if said]
        return self._found[radius_arcsec]


@dataclass(slots=True)
class ArchiveSource:
    """One catalogue of an archive; see `specvet.catalogue.matching.Source`."""

    catalogue: Catalogue
    _together: _Together
    _earlier: Callable[[str], Mapping[Key, Match]]
    _complete: bool = True

    @property
    def name(self) -> str:
        return self.catalogue.name

    @property
    def told(self) -> dict[str, Any]:
        settings, c = self._together.settings, self.catalogue
        return {
            "archive": c.name,
            "table": c.table,
            "service": settings.addresses.get(c.service, c.service),
            "keep": list(c.keep),
            "fastest": settings.fastest,
            "with_motions_of_gaia": any(other.name == GAIA for other in self._together.catalogues),
        }

    @property
    def complete(self) -> bool:
        return self._complete

    def matches(self, sightings: Sequence[Sighting], radius_arcsec: float, progress: Progress) -> Iterator[Match]:
        """Of this catalogue alone. Spectra that it did not answer for come too, with a note that says why."""
        self._complete = True
        before = self._earlier(self.name)
        for said in self._together.said(sightings, radius_arcsec, progress):
            match = said[self.name]
            # Without Gaia's motions a fast star of VSX is missed: asked again, from the cache, once Gaia is back.
            self._complete &= bool(match.asked) and (GAIA not in said or bool(said[GAIA].asked))
            yield match if match.asked else _standing(before.get(match.key), radius_arcsec) or match


def _standing(before: Match | None, radius_arcsec: float) -> Match | None:
    """What was said before, if a service did answer then, and about a source within the radius."""
    if before is None or not before.asked:
        return None
    apart = [before.gaia_separation_arcsec, *(k.separation_arcsec for k in before.known)]
    return before if all(arcsec is None or arcsec <= radius_arcsec for arcsec in apart) else None
