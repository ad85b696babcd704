"""SAMP: a table, a spectrum or a place on the sky handed to the programs that are open, TOPCAT and Aladin among them.

Programs meet at a hub on this machine (IVOA Recommendation SAMP 1.3), which TOPCAT and Aladin bring along. It is found
by its lock file: what the variable SAMP_HUB names, else `~/.samp`. Nothing but this machine is ever spoken to, and a
lock file that names another one is refused.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import unquote, urlsplit

TABLE = "table.load.votable"
SPECTRUM = "spectrum.load.ssa-generic"
SKY = "coord.pointAt.sky"

TIMEOUT_S = 60
"""How long a program may take to load something."""

START = (
    "start TOPCAT (Interop menu, Start Hub), Aladin (which starts one by itself), or in another terminal samp_hub, "
    "which astropy brings; then say the same again"
)

_URL = "samp.hub.xmlrpc.url"


class SampError(RuntimeError):
    """Nothing could be sent; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one message at one program."""

    program: str
    """As it calls itself: `topcat`."""
    mtype: str
    ok: bool
    error: str = ""
    """What the program says went wrong."""


class Hub:
    """A connection to the hub; made by `connected`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def listening(self, mtype: str) -> dict[str, str]:
        """Name by id of the programs that take such a message."""
        ids = self._client.get_subscribed_clients(mtype)
        return {id: str(self._client.get_metadata(id).get("samp.name") or id) for id in ids}

    def send(self, mtype: str, parameters: Mapping[str, Any], timeout_s: int = TIMEOUT_S) -> list[Sent]:
        """Send to every program that takes such a message, one after the other, and wait until it has done."""
        from xmlrpc.client import Error

        SAMPProxyError = _samp().SAMPProxyError
        found = []
        for id, name in self.listening(mtype).items():
            try:
                reply = self._client.ecall_and_wait(id, mtype, str(timeout_s), **parameters)
            except (SAMPProxyError, Error, OSError) as e:
                found.append(Sent(name, mtype, False, str(getattr(e, "faultString", "") or e)))
                continue
            ok = reply.get("samp.status") in ("samp.ok", "samp.warning")
            found.append(Sent(name, mtype, ok, str((reply.get("samp.error") or {}).get("samp.errortxt", ""))))
        return found

    def table(self, file: Path, name: str) -> list[Sent]:
        """A VOTable; programs read the file themselves, so it must stay where it is."""
        url = file.resolve().as_uri()
        return self.send(TABLE, {"url": url, "table-id": f"specvet:{url}", "name": name})

    def spectrum(self, file: Path, name: str, format: str = "application/fits") -> list[Sent]:
        """A spectrum as a file; `format` is its MIME type."""
        url = file.resolve().as_uri()
        meta = {"Access.Reference": url, "Access.Format": format, "Target.Name": name}
        return self.send(SPECTRUM, {"url": url, "meta": meta, "spectrum-id": f"specvet:{url}", "name": name})

    def point_at(self, ra: float, dec: float) -> list[Sent]:
        """A place on the sky, degrees (ICRS)."""
        return self.send(SKY, {"ra": repr(float(ra)), "dec": repr(float(dec))})


@contextmanager
def connected() -> Iterator[Hub]:
    """Registered with the running hub as `specvet` while the block lasts. Raises `SampError` without one."""
    from xmlrpc.client import Error

    samp = _samp()
    parameters = lock_file(lock_path())
    # Without use_internet = False the client looks up a public web site to guess whether this machine has a name.
    with samp.conf.set_temp("use_internet", False):
        told = {"samp.name": "specvet", "samp.description.text": "vets rare-star candidates from their spectra"}
        client = samp.SAMPIntegratedClient(metadata=told, addr="127.0.0.1", callable=False)
        try:
            client.connect(hub_params=parameters, pool_size=2)
        except (samp.SAMPHubError, samp.SAMPProxyError, Error, OSError) as e:
            raise SampError(f"no SAMP hub answers at {parameters[_URL]} ({e}): {START}") from None
        try:
            yield Hub(client)
        finally:
            client.hub.unregister(client.get_private_key())
            client.hub.disconnect()


def _samp() -> ModuleType:
    """The SAMP client of pyvo where that is installed, else that of astropy, from which it was taken."""
    try:
        from pyvo import samp
    except ImportError:
        import warnings

        from astropy.utils.exceptions import AstropyDeprecationWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AstropyDeprecationWarning)  # astropy 8 says that it goes to pyvo
            from astropy import samp
    return cast(ModuleType, samp)


def lock_path() -> Path:
    """Where the hub's lock file is, by the standard profile. Raises `SampError` for a place that is no file here."""
    told = os.environ.get("SAMP_HUB", "")
    if not told:
        return Path.home() / ".samp"
    profile, _, place = told.partition(":")
    parts = urlsplit(place)
    if profile != "std-lockurl" or parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise SampError(f"SAMP_HUB={told}: give std-lockurl:file:///path/of/the/lock/file, on this machine")
    written = Path(parts.path)  # astropy's hub writes to the name with its % signs
    return written if written.exists() else Path(unquote(parts.path))


def lock_file(path: Path) -> dict[str, str]:
    """What a hub's lock file says. Raises `SampError` where there is no hub, or it is on another machine."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        raise SampError(f"no SAMP hub is running ({path} is not there): {START}") from None
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    found = {name.strip(): value.strip().replace("\\", "") for name, _, value in pairs if name.strip()}
    host = urlsplit(found.get(_URL, "")).hostname
    if host is None or "samp.secret" not in found:
        raise SampError(f"{path}: is not the lock file of a SAMP hub; remove it, and {START}")
    if not _is_here(host):
        raise SampError(f"{path}: names a hub on {host}, and specvet speaks to hubs on this machine alone; {START}")
    return found


def _is_here(host: str) -> bool:
    """Whether a name is this machine's, without asking any server."""
    own = socket.gethostname().lower()
    host = host.lower()
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", own, own.partition(".")[0])
