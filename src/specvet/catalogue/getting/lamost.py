"""LAMOST: one file an obsid, asked for by `RELEASE/VERSION/spectrum/fits/OBSID`, kept as the archive lays it out.

Addresses as LAMOST's own clients build them (`https://www.lamost.org/dr8/v2.0/spectrum/fits/OBSID?token=…`, medium
resolution `medspectrum`); folders and names from the data description of each release:
`fits/YYYYMMDD/PLANID/spec-LMJD-PLANID_spNN-FFF.fits.gz`, where LMJD is the day after the UT date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from specvet.catalogue.getting.asks import Ask, AskError, Row, value, whole, word
from specvet.catalogue.getting.checking import plain
from specvet.catalogue.getting.services import TOKEN
from specvet.spectra import Spectrum

RELEASE = "dr8/v2.0"


def from_text(text: str, *, release: str = RELEASE, medium: bool = False) -> Ask:
    """The ask of an obsid. Raises `AskError`."""
    if not re.fullmatch(r"dr\d{1,2}(/v\d+(\.\d+)*)?", release):
        raise AskError(f"--release {release}: a release of LAMOST is written dr8/v2.0")
    obsid = str(whole(text, "obsid"))
    kind = "medspectrum" if medium else "spectrum"
    return Ask("lamost", obsid, text, (("obsid", obsid),), (f"{release}/{kind}/fits/{obsid}",), release=release)


def from_row(row: Row, *, release: str = RELEASE, medium: bool = False) -> Ask:
    """The ask of a row of a list. Raises `AskError`."""
    ask = from_text(value(row, "obsid", "obs_id", "id", "name"), release=release, medium=medium)
    plan = {name: value(row, name, name.replace("id", "_id")) for name in ("lmjd", "planid", "spid", "fiberid")}
    return replace(ask, otherwise=tuple((n, plain(v)) for n, v in plan.items())) if all(plan.values()) else ask


def unnumbered(spectra: Sequence[Spectrum], ask: Ask) -> tuple[Spectrum | None, str]:
    """The spectrum of a file of DR1 or DR2, which states no OBSID, and what a person should know of that.

    None where the file states one, or is of another night, plan, spectrograph or fibre than the list says.
    """
    if len(spectra) != 1 or "obsid" in spectra[0].ids:
        return None, ""
    own = {name: plain(value) for name, value in spectra[0].ids.items()}
    if ask.otherwise:
        return (spectra[0] if all(own.get(n) == v for n, v in ask.otherwise) else None), ""
    note = "the file states no OBSID, so that it could not be compared with the one asked for; a list with "
    return spectra[0], note + "lmjd, planid, spid and fiberid beside obsid allows that"


def token_hint(given: bool) -> str:
    """What to do where LAMOST refuses, or shows a page instead."""
    return f"is {TOKEN} right, and does it hold for this release?" if given else f"set {TOKEN} to your account's token"


def place(ids: Mapping[str, str], release: str, *, packed: bool, medium: bool) -> str:
    """Where its file lies below a folder, by what the file says of itself. Raises `AskError` where it does not."""
    lmjd, plan = whole(ids.get("lmjd", ""), "LMJD"), word(ids.get("planid", ""), "PLANID")
    spectrograph, fibre = whole(ids.get("spid", ""), "SPID"), whole(ids.get("fiberid", ""), "FIBERID")
    day = (date(1858, 11, 17) + timedelta(days=min(lmjd, 99_999) - 1)).strftime("%Y%m%d")
    name = f"{'med' if medium else 'spec'}-{lmjd:05d}-{plan}_sp{spectrograph:02d}-{fibre:03d}.fits"
    return f"{release}/{'medfits' if medium else 'fits'}/{day}/{plan}/{name}{'.gz' if packed else ''}"
