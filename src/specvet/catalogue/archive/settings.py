"""How archives are asked, and where: addresses come from the command, the environment, or are those of the archives."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from specvet.catalogue.archive.errors import ArchiveError

ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        "xmatch": "http://cdsxmatch.u-strasbg.fr/xmatch/api/v1/sync",
        "gaia": "https://gea.esac.esa.int/tap-server/tap",
        "simbad": "https://simbad.cds.unistra.fr/simbad/sim-tap",
        "vizier": "https://tapvizier.cds.unistra.fr/TAPVizieR/tap",
    }
)
"""CDS XMatch, then the TAP services of the Gaia archive, SIMBAD and VizieR."""

VARIABLE = "SPECVET_{}_URL"
"""Of the environment: `SPECVET_XMATCH_URL=http://…`."""

LONGEST_ARCSEC = 180.0
"""CDS XMatch takes no larger radius."""


def addresses(given: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Where services are: `given` (`xmatch=URL`) before the environment before the archives' own.

    Raises `ArchiveError` for a service that there is not, and for what is no address.
    """
    variables = os.environ if environment is None else environment
    found = dict(ADDRESSES)
    for service in ADDRESSES:
        variable = VARIABLE.format(service.upper())
        if value := variables.get(variable):
            found[service] = _checked(f"{variable}={value}", value)
    for text in given:
        service, _, value = text.partition("=")
        if service not in ADDRESSES:
            raise ArchiveError(f"--service {text}: give one of {', '.join(ADDRESSES)} and its address: xmatch=URL")
        found[service] = _checked(f"--service {text}", value)
    return found


def _checked(said: str, address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ArchiveError(f"{said}: that is no address; give one that begins with http:// or https://")
    return address.rstrip("/")


class Settings(BaseModel):
    """How archives are asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    addresses: dict[str, str] = Field(default_factory=addresses)
    """By service: `xmatch`, `gaia`, `simbad`, `vizier`."""
    radius_arcsec: float = Field(default=3.0, gt=0, le=60)
    """Within which a source is the star, at the epoch of observation."""
    fastest: float = Field(default=1.0, ge=0, le=11)
    """Arcsec/yr: how fast a star may move and still be found. Archives are asked that much wider."""
    piece: int = Field(default=2000, ge=1, le=100_000)
    """Places a request."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that a request may take in all, from sending to the last byte; of a TAP job also waiting in the queue."""
    tries: int = Field(default=4, ge=1, le=20)
    """How often the same request is sent before the service is given up."""
    backoff_s: float = Field(default=2.0, ge=0)
    """Seconds before the second try; each further wait is twice as long, and at most two minutes."""
    poll_s: float = Field(default=1.0, ge=0)
    """Seconds between the first two looks at a TAP job; later ones are up to ten times as far apart."""
    most_rows: int = Field(default=1_000_000, ge=1)
    """Rows asked for at once (MAXREC); a piece with more is halved."""


def installed() -> None:
    """Raise `ArchiveError` unless the `archive` extra is there."""
    if any(importlib.util.find_spec(name) is None for name in ("pyvo", "requests")):
        raise ArchiveError("asking archives needs pyvo: pip install 'specvet[archive]'")
