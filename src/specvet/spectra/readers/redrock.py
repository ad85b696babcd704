"""Redrock catalogues: where DESI keeps class and redshift, joined by TARGETID, never by position.

The catalogue lies beside the coadd file. It is found by structure (an HDU REDSHIFTS with TARGETID and Z); names only
order the search, which opens few files and remembers them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from specvet.spectra.errors import SpectrumReadError
from specvet.spectra.opening import opened
from specvet.spectra.readers.fitsfile import FitsInput, is_table, with_fits
from specvet.spectra.readers.values import redshift, text
from specvet.spectra.spectrum import Redshift

MAX_OPENED = 24
"""Most files of a folder that one search opens."""

MAX_PACKED = 32 * 1024**2
"""Bytes of a packed file that are unpacked to look for a catalogue; of plain FITS only headers are read."""

MAX_ROWS = 1_000_000
"""A catalogue of more rows is no companion of one coadd file."""


@dataclass(frozen=True)
class Fit:
    """What redrock says of one target."""

    redshift: Redshift
    spectype: str
    subtype: str


def fits_in(fits: FitsInput) -> dict[int, Fit] | None:
    """TARGETID → `Fit` from the HDU REDSHIFTS of an open file; None where there is none.

    A TARGETID that stands there twice with different redshifts has none that could be trusted.
    """
    hdu = fits.named.get("REDSHIFTS")
    if hdu is None or not is_table(hdu):
        return None
    table = fits.table(hdu)
    if not {"targetid", "z"} <= table.names.keys() or table.rows > MAX_ROWS:
        return None

    def column(name: str, default: Any) -> Any:
        return fits.column(hdu, name) if name in table.names else [default] * table.rows

    out: dict[int, Fit] = {}
    columns = (column("zerr", None), column("zwarn", 0), column("spectype", ""), column("subtype", ""))
    for target, z, z_error, zwarn, spectype, subtype in zip(
        column("targetid", 0), column("z", 0), *columns, strict=True
    ):
        warning = f"ZWARN={int(zwarn)}" if zwarn else ""
        fit = Fit(redshift(z, z_error, "redrock Z", warning), text(spectype), text(subtype))
        key = int(target)
        if key in out and out[key].redshift.value != fit.redshift.value:
            fit = Fit(Redshift(warning="two redrock redshifts for one TARGETID"), "", "")
        out[key] = fit
    return out


def fits_beside(path: Path, wanted: set[int]) -> tuple[dict[int, Fit], str]:
    """TARGETID → `Fit` from catalogues in the folder of `path`, and a warning where targets stay without one."""
    found: dict[int, Fit] = {}
    sure: set[int] = set()
    folder = path.parent
    try:
        names = _names(str(folder), os.stat(folder).st_mtime_ns)
    except OSError:
        return {}, "the folder cannot be listed: redshift and class unknown"
    candidates = _in_order(names, path.name)
    for rank, name in islice(candidates, MAX_OPENED):
        if wanted <= (found.keys() if rank > _NAMED_SO else sure):
            return found, ""
        try:
            status = os.stat(folder / name)
        except OSError:
            continue
        catalogue = _catalogue(str(folder / name), status.st_mtime_ns, status.st_size)
        for target in wanted.intersection(catalogue or ()) - sure:
            fit = (catalogue or {})[target]
            if rank == 0:
                sure.add(target)
                found[target] = fit
                continue
            # Of another program or tile: the same target, but another spectrum; the reader is to see whose it is.
            if target in found and not _agree(found[target].redshift, fit.redshift):
                fit = Fit(Redshift(warning="redrock catalogues beside the file contradict each other"), "", "")
            elif target in found:
                continue
            elif fit.redshift.value is not None:
                fit = replace(fit, redshift=replace(fit.redshift, source=f"redrock Z of {name}"))
            found[target] = fit
    if wanted <= found.keys():
        return found, ""
    others = sum(map(len, names)) - 1
    searched = f" (looked into {MAX_OPENED} of {others} files)" if others > MAX_OPENED else ""
    return found, f"no redrock catalogue beside it holds this TARGETID{searched}: redshift and class unknown"


_NAMED_SO = 2
"""Ranks up to this are of files that are named for catalogues."""

_SAME_Z = 0.003
"""1000 km/s: fits of two exposures of one target that differ by more are not the same redshift."""


def _agree(one: Redshift, other: Redshift) -> bool:
    if one.value is None or other.value is None:
        return one.value is other.value
    return abs(one.value - other.value) <= _SAME_Z * (1.0 + abs(one.value))


def _in_order(names: tuple[tuple[str, ...], ...], own: str) -> Iterator[tuple[int, str]]:
    """(rank, name) of the files beside `own`, likely catalogues first; rank 0 is of the catalogue of its own name."""
    twin = own.partition("-")[2]
    twins = [name for name in names[0] if twin and name != own and name.partition("-")[2] == twin]
    yield from ((0, name) for name in twins)
    for rank, alike in enumerate(names, start=1):
        yield from ((rank, name) for name in alike if name != own and (rank > 1 or name not in twins))


def _kind(name: str) -> int:
    """Place in `_names`: named redrock, about redrock, FITS, any other."""
    lowered = name.lower()
    if lowered.startswith("redrock"):
        return 0
    if "redrock" in lowered or "zbest" in lowered:
        return 1
    return 2 if lowered.endswith((".fits", ".fits.gz", ".fit")) else 3


@lru_cache(maxsize=64)
def _names(folder: str, mtime_ns: int) -> tuple[tuple[str, ...], ...]:
    """Names of the files of a folder by `_kind`, sorted once: a folder may hold 100,000 files."""
    kinds: tuple[list[str], ...] = ([], [], [], [])
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                kinds[_kind(entry.name)].append(entry.name)
    return tuple(tuple(sorted(names)) for names in kinds)


@lru_cache(maxsize=512)
def _catalogue(path: str, mtime_ns: int, size: int) -> dict[int, Fit] | None:
    """The catalogue in a file; None where it is none or cannot be read."""
    try:
        with open(path, "rb") as handle:
            plain_fits = handle.read(9).startswith(b"SIMPLE  =")
        if not plain_fits and size > MAX_PACKED:
            return None
        with opened(path) as plain:
            if not plain.head(9).startswith(b"SIMPLE  ="):
                return None
            return with_fits(plain, lambda fits, _: _unless_spectra(fits))
    except (SpectrumReadError, OSError, ValueError, TypeError, KeyError):
        return None


def _unless_spectra(fits: FitsInput) -> dict[int, Fit] | None:
    """Spectra that carry their own REDSHIFTS speak for themselves only."""
    return None if any(name.endswith("_FLUX") for name in fits.named) else fits_in(fits)


def match(targets: np.ndarray[Any, Any], fits: FitsInput, wanted: set[int]) -> tuple[dict[int, Fit], str]:
    """Fits for `targets`: from the file itself, else from beside it."""
    own = fits_in(fits)
    if own is not None:
        missing = wanted - own.keys()
        return own, "not in REDSHIFTS of this file: redshift and class unknown" if missing else ""
    if not wanted:
        return {}, ""
    if fits.path is None:
        return {}, "no file path, so no redrock catalogue beside it: redshift and class unknown"
    return fits_beside(fits.path, wanted)
