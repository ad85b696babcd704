"""Single exposures as entries of their own: `vet --exposures`.

A file that holds single exposures beside its spectra (see `specvet.spectra.exposures`) gets an entry for each of them
behind its own. The exposure is written as a spectrum file into the run, `exposures/STEM-HASH-r0-EXPOSURE-ARM.fits`,
with its own MJD and identifiers, so that whatever reads a run finds it as any other spectrum. Files of which each row
is an exposure or visit already need none of this.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from specvet.spectra import Spectrum, SpectrumReadError, write
from specvet.spectra import exposures as exposures_of
from specvet.vetting.items import Item

FOLDER = "exposures"

_ROWS_ARE_EXPOSURES = ("desi-spectra", "sdss-mwm-visit")


def with_exposures(items: Iterable[Item], run: Path) -> Iterator[Item]:
    """Each entry, and behind it one for each single exposure of its file. Raises `OSError` where one cannot be written.

    A file that cannot be read has no exposures; its own entry says why.
    """
    for item in items:
        yield item
        if not item.problem:
            yield from exposure_items(item, run)


def exposure_items(item: Item, run: Path) -> Iterator[Item]:
    """The entries of an entry's single exposures, written into `run` where they are not there yet."""
    try:
        found = exposures_of(item.file)
    except SpectrumReadError:
        return
    for one in found:
        if one.layout in _ROWS_ARE_EXPOSURES or not _asked(item, one):
            continue
        name = exposure_name(item.file, one)
        file = run / FOLDER / name
        id = " ".join(part for part in (item.id or one.id, one.ids.get("exposure"), one.ids.get("arm")) if part)
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            write(one.replace(id=id), file)
        yield Item(str(file), row=0, id=id, ra=item.ra, dec=item.dec, z=item.z, gaia=item.gaia)


def exposure_name(file: str, exposure: Spectrum) -> str:
    """A name that no other exposure has, also of a file of the same name elsewhere."""
    stem = PurePath(file).name.split(".")[0]
    mark = hashlib.sha256(file.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    parts = (stem, mark, f"r{exposure.row}", exposure.ids.get("exposure", ""), exposure.ids.get("arm", ""))
    return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(part for part in parts if part)) + ".fits"


def _asked(item: Item, one: Spectrum) -> bool:
    if item.row is not None:
        return one.row == item.row
    return all(one.ids.get(name) in (None, value) for name, value in item.ids)
