"""Where surveys keep a spectrum: paths built from a catalogue's own identifiers.

For each survey the columns it needs and the paths, relative to a root, under which its files are usually kept: flat,
as people download them, and as the survey's own archive lays them out. The first that exists is taken. Sources:

- LAMOST: `spec-<lmjd>-<planid>_sp<spid>-<fiberid>.fits.gz` in `<obsdate>/<planid>/` (data description of every
  release; lmjd is the local MJD, one more than that of the UT date `obsdate`).
- SDSS: `spec-PLATE-MJD-FIBER.fits` in `spectra/lite/PLATE/`, before DR17 also `spectra/PLATE/`
  (data.sdss.org/datamodel, SPECTRO_REDUX/RUN2D).
- SDSS-V: `spec-FIELD-MJD-CATALOGID.fits` in `spectra/lite/FIELD/MJD/` (DR18), `spectra/daily/lite/015XXX/015143/MJD/`
  (DR19; idlspec2d `get_field_spec_dir`, `get_field_grp`).
- DESI: `healpix/<survey>/<program>/<healpix // 100>/<healpix>/coadd-<survey>-<program>-<healpix>.fits`
  (desidatamodel, SPECTRO_REDUX/SPECPROD).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

Values = Mapping[str, str]
"""What a list row says, by the names in `Survey.needs` and `Survey.may`; empty where it says nothing."""


Places = Sequence[tuple[str, tuple[str, ...]]]
"""Folders below a root, each with the names that a file may have there."""


class RowError(ValueError):
    """A row from which no path can be built; the message says why."""


class Tree:
    """A root folder, asked often which folders it holds: a list of a million rows names few of them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._known: dict[str, bool] = {}
        self._bases: dict[tuple[str, ...], list[str]] = {}
        self._programs: list[tuple[str, str]] | None = None

    def holds(self, folder: str) -> bool:
        """Whether this folder below the root exists; asked once."""
        if folder not in self._known:
            if len(self._known) > 100_000:
                self._known.clear()
            self._known[folder] = os.path.isdir(self.path(folder) or ".")
        return self._known[folder]

    def path(self, *below: str) -> str:
        """A path below the root, as a user would write it."""
        return os.path.join(self.root, *below)

    def find(self, places: Places) -> str | None:
        """The first file of `places` that exists, or None."""
        for folder, names in places:
            if self.holds(folder):
                for name in names:
                    path = self.path(folder, name)
                    if os.path.exists(path):
                        return path
        return None

    def bases(self, *tails: str) -> list[str]:
        """Which of `tails` are folders in the root or one level below it (a reduction such as `26`, `v5_13_2`)."""
        if tails not in self._bases:
            above = ["", *_folders(self.root)[:200]]
            self._bases[tails] = [b for b in (os.path.join(a, tail) for a in above for tail in tails) if self.holds(b)]
        return self._bases[tails]

    def desi_programs(self) -> list[tuple[str, str]]:
        """(survey, program) pairs of a DESI tree, main survey first."""
        if self._programs is None:
            tops = [self.path(top) for top in (*self.bases("healpix"), "")]
            pairs = {(s, p) for top in tops for s in _folders(top) for p in _folders(os.path.join(top, s))}
            known = re.compile(r"main|sv\d|cmx|special")
            self._programs = sorted((p for p in pairs if known.fullmatch(p[0])), key=lambda p: (p[0] != "main", p))
        return self._programs


@dataclass(frozen=True, slots=True)
class Survey:
    """A survey's identifiers and path rule."""

    name: str
    needs: Mapping[str, tuple[str, ...]]
    """Column → names it goes by, in lower case."""
    may: Mapping[str, tuple[str, ...]]
    """Columns that help when they are there."""
    places: Callable[[Values, Tree], Places]
    """Where its file may lie, the most canonical place first; raises `RowError`."""
    ids: tuple[str, ...] = ()
    """Columns that select a target inside the file."""


def _lamost(values: Values, tree: Tree) -> Places:
    lmjd, plan = _integer(values, "lmjd"), _word(values, "planid")
    name = f"spec-{lmjd:05d}-{plan}_sp{_integer(values, 'spid'):02d}-{_integer(values, 'fiberid'):03d}.fits"
    names = (f"{name}.gz", name)
    return [(folder, names) for folder in _lamost_folders(lmjd, plan, values.get("obsdate", ""))]


@lru_cache(maxsize=4096)
def _lamost_folders(lmjd: int, plan: str, obsdate: str) -> tuple[str, ...]:
    dates = [re.sub(r"\D", "", obsdate)[:8]]
    if len(dates[0]) != 8:
        dates = [_yyyymmdd(lmjd - 1), _yyyymmdd(lmjd)]
    return ("", *(f"{d}/{plan}" for d in dates), *(f"fits/{d}/{plan}" for d in dates), plan)


def _sdss(values: Values, tree: Tree) -> Places:
    plate = f"{_integer(values, 'plate'):04d}"
    name = f"spec-{plate}-{_integer(values, 'mjd'):05d}-{_integer(values, 'fiberid'):04d}.fits"
    folders = ["", plate]
    folders += [f"{base}/{plate}" for base in tree.bases("spectra/lite", "spectra/full", "spectra", "lite", "full")]
    return [(folder, (name,)) for folder in folders]


def _sdss_v(values: Values, tree: Tree) -> Places:
    number, mjd = _integer(values, "field"), f"{_integer(values, 'mjd'):05d}"
    field, group = f"{number:06d}", f"{number // 1000:03d}XXX"
    name = f"spec-{field}-{mjd}-{_word(values, 'catalogid')}.fits"
    folders = ["", field, f"{field}/{mjd}"]
    bases = tree.bases("spectra/daily/lite", "spectra/daily/full", "spectra/lite", "spectra/full", "lite", "full")
    folders += [f"{base}/{below}/{mjd}" for base in bases for below in (f"{group}/{field}", field, f"{field}p")]
    return [(folder, (name,)) for folder in folders]


def _desi(values: Values, tree: Tree) -> Places:
    _integer(values, "targetid", signed=True)
    pixel = _integer(values, "healpix")
    survey, program = values.get("survey", "").lower(), values.get("program", "").lower()
    pairs = [(survey, program)] if survey and program else []
    pairs = pairs or [p for p in tree.desi_programs() if survey in ("", p[0]) and program in ("", p[1])]
    pairs = pairs or [(survey or "main", program or "dark")]
    places: list[Places] = []
    for s, p in pairs:
        below = f"{s}/{p}/{pixel // 100}/{pixel}"
        folders = [*(f"{base}/{below}" for base in tree.bases("healpix") or ["healpix"]), below, ""]
        name = f"coadd-{s}-{p}-{pixel}.fits"
        places.append([(folder, (name, f"{name}.gz")) for folder in folders])
    found = [pair for pair, where in zip(pairs, places, strict=True) if tree.find(where)]
    if len(found) > 1:
        both = " and ".join("/".join(pair) for pair in found[:3])
        raise RowError(f"healpix {pixel} exists for {both}; the list needs the columns survey and program")
    return [place for where in places for place in where]


LAMOST = Survey(
    "LAMOST",
    {"lmjd": ("lmjd",), "planid": ("planid", "plan_id"), "spid": ("spid", "sp_id"), "fiberid": ("fiberid", "fiber_id")},
    {"obsdate": ("obsdate", "obs_date", "date_obs", "date")},
    _lamost,
)
SDSS = Survey(
    "SDSS",
    {"plate": ("plate", "plateid"), "mjd": ("mjd",), "fiberid": ("fiberid", "fiber", "fiber_id")},
    {},
    _sdss,
)
SDSS_V = Survey(
    "SDSS-V",
    {"field": ("field", "fieldid", "field_id"), "mjd": ("mjd",), "catalogid": ("catalogid", "catalog_id")},
    {},
    _sdss_v,
)
DESI = Survey(
    "DESI",
    {"targetid": ("targetid", "target_id"), "healpix": ("healpix", "hpxpixel", "hpix")},
    {"survey": ("survey",), "program": ("program", "faprgrm")},
    _desi,
    ids=("targetid",),
)
SURVEYS = (LAMOST, SDSS_V, SDSS, DESI)


def _integer(values: Values, column: str, signed: bool = False) -> int:
    """A whole number, also when it was saved as a float (`55859.0`)."""
    text = values[column]
    match = re.fullmatch(r"([+-]?\d+)(\.0*)?", text)
    if not match or (text.startswith("-") and not signed):
        raise RowError(f"{column} is {text!r}, a whole number is needed" if text else f"{column} is empty")
    return int(match[1])


def _word(values: Values, column: str) -> str:
    """An identifier as written, as long as it cannot lead out of the folder."""
    text = re.sub(r"(?<=^)(\d+)\.0*$", r"\1", values[column])
    if not re.fullmatch(r"[\w.+-]+", text) or text.startswith("."):
        raise RowError(f"{column} is {text!r}, which cannot be part of a file name" if text else f"{column} is empty")
    return text


def _yyyymmdd(mjd: int) -> str:
    try:
        return (date(1858, 11, 17) + timedelta(days=mjd)).strftime("%Y%m%d")
    except OverflowError:
        raise RowError(f"lmjd is {mjd}, which is no date") from None


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError:
        return []
