"""Which catalogues are asked, and by which service: `gaia,simbad,vsx,hotsubdwarfs=J/A+A/662/A40/knownhsd`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specvet.catalogue.archive.errors import ArchiveError

GAIA = "gaia"
TABLES = {GAIA: "I/355/gaiadr3", "simbad": "simbad", "vsx": "B/vsx/vsx"}
"""What the known names are at CDS XMatch."""

TAP_TABLES = {GAIA: "gaiadr3.gaia_source", "simbad": "basic", "vsx": "B/vsx/vsx"}
TAP_SERVICES = {GAIA: "gaia", "simbad": "simbad"}
"""All others are asked at VizieR."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One catalogue and who is asked for it."""

    name: str
    """By which `Match.asked` and `Known.catalogue` call it."""
    table: str
    """As the service names it."""
    service: str = "xmatch"
    """`xmatch`, `gaia`, `simbad`, `vizier`, or the address of a TAP service."""
    keep: tuple[str, ...] = ()
    """Columns to keep as text of what is known."""

    @property
    def by_tap(self) -> bool:
        """Whether it is asked by ADQL; else by CDS XMatch."""
        return self.service != "xmatch"


def named(text: str) -> tuple[Catalogue, ...]:
    """The catalogues of `--archive`: names with commas between them, each `NAME[=TABLE][:COLUMN…][@SERVICE]`.

    `gaia`, `simbad` and `vsx` are known; for any other name, `=TABLE` tells the table of VizieR, as in
    `hsd=J/A+A/662/A40/knownhsd`. `:Period:max` keeps these columns. `@tap` asks the archive's own TAP service instead
    of CDS XMatch, `@https://…` any TAP service for the table. Raises `ArchiveError` for a name not known, or twice.
    """
    found: dict[str, Catalogue] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        catalogue = _catalogue(part)
        if catalogue.name in found:
            raise ArchiveError(f"--archive {part}: {catalogue.name} is there twice")
        found[catalogue.name] = catalogue
    if not found:
        raise ArchiveError("--archive: name one or more of gaia, simbad, vsx, NAME=VIZIER_TABLE")
    return tuple(found.values())


def _catalogue(part: str) -> Catalogue:
    said, _, service = part.partition("@")
    what, *keep = said.split(":")
    name, equals, table = what.partition("=")
    elsewhere = service.startswith(("http://", "https://"))
    if not _NAME.fullmatch(name) or (equals and not table) or not all(keep):
        raise ArchiveError(f"--archive {part}: give gaia, simbad, vsx, or NAME=VIZIER_TABLE, as in cvs=B/cb/cbdata")
    if name in TABLES and equals and not elsewhere:
        raise ArchiveError(f"--archive {part}: {name} is {TABLES[name]}; give another table a name of your own")
    if name not in TABLES and not table:
        raise ArchiveError(f"--archive {part}: {name} is not known here; say which table of VizieR it is: {name}=TABLE")
    if not service or service == "xmatch":
        return Catalogue(name, table or TABLES[name], keep=tuple(keep))
    if service == "tap":
        return Catalogue(name, table or TAP_TABLES[name], TAP_SERVICES.get(name, "vizier"), tuple(keep))
    if not elsewhere:
        raise ArchiveError(f"--archive {part}: after @ comes xmatch, tap, or the address of a TAP service")
    return Catalogue(name, table or TAP_TABLES[name], service.rstrip("/"), tuple(keep))
