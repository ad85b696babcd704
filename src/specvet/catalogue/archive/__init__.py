"""What archives say of a list of places: CDS XMatch and TAP, asked in pieces, checked, kept on disk.

In come sightings and the names of catalogues; out come `Match` records, one a sighting. Only positions are sent.
Needs the `archive` extra (pyvo), which is imported when something is asked.
"""

from __future__ import annotations

from specvet.catalogue.archive.asking import asked
from specvet.catalogue.archive.cache import Cache
from specvet.catalogue.archive.errors import ArchiveError
from specvet.catalogue.archive.names import Catalogue, named
from specvet.catalogue.archive.settings import Settings, addresses, installed
from specvet.catalogue.archive.sources import archive_sources

__all__ = [
    "ArchiveError",
    "Cache",
    "Catalogue",
    "Settings",
    "addresses",
    "archive_sources",
    "asked",
    "installed",
    "named",
]
