"""Where the surveys' archives are. Each address can be set, so that a mirror or a test takes its place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from specvet.catalogue.getting.asks import AskError

ADDRESSES: Mapping[str, str] = {
    "sdss": "https://data.sdss.org",
    "desi": "https://data.desi.lbl.gov",
    "lamost": "https://www.lamost.org",
    "sparcl": "https://astrosparcl.datalab.noirlab.edu",
}
"""Name → address below which the archive's paths begin."""

TOKEN = "LAMOST_TOKEN"
"""Environment variable that holds the token of a LAMOST account."""


def address(name: str, given: Iterable[str] = ()) -> str:
    """The address of a service: of `given` (`sdss=URL`), else of SPECVET_SDSS_URL and the like, else its own.

    Raises `AskError` for what is no address, and for one with a password in it: addresses are stored.
    """
    url = ADDRESSES[name]
    source = name
    if said := os.environ.get(f"SPECVET_{name.upper()}_URL"):
        url, source = said, f"SPECVET_{name.upper()}_URL"
    for one in given:
        known, _, said = one.partition("=")
        if known not in ADDRESSES or not said:
            raise AskError(f"--service {one}: give NAME=URL, with one of the names {', '.join(ADDRESSES)}")
        if known == name:
            url, source = said, f"--service {known}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise AskError(f"{source}: {url!r} is no address") from None
    if parts.username or parts.password:
        raise AskError(f"{source}: the address has a password in it, and addresses are stored; give it without")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise AskError(f"{source}: {url!r} is no address such as {ADDRESSES[name]}")
    return url.rstrip("/")


def token(base: str) -> str:
    """The LAMOST token, or empty. Raises `AskError` where it would travel to `base` for all to read."""
    found = os.environ.get(TOKEN, "").strip()
    if found and base.startswith("http:") and not is_loopback(base):
        raise AskError(f"{base}: the token ({TOKEN}) would travel unencrypted; give an https address, or unset it")
    return found


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine."""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
