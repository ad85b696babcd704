"""DESI: targets in coadds by (survey, program, healpix), and the catalogue that says which healpix a target is in.

Paths: desidatamodel.readthedocs.io, SPECTRO_REDUX/SPECPROD/healpix; public releases below `public/` of
data.desi.lbl.gov. A TARGETID alone does not name its file: the list, or a `zall-pix` or `zpix` catalogue, must.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from specvet.catalogue.getting.asks import Ask, AskError, Row, value, whole, word

RELEASE = "dr1"
SPECPROD = {"edr": "fuji", "dr1": "iron"}
ROWS_AT_ONCE = 500_000
ID = ("targetid", "target_id", "id", "name")
"""Columns of a list that hold a TARGETID."""


@dataclass(frozen=True, slots=True)
class Coadd:
    """Where spectra of a target were added up."""

    survey: str
    program: str
    healpix: int


Where = Mapping[int, tuple[Coadd, ...]]
"""TARGETID → its coadds."""


def from_text(
    text: str, where: Where, *, release: str = RELEASE, specprod: str = "", redrock: bool = True
) -> list[Ask]:
    """The asks of a TARGETID, or of `SURVEY/PROGRAM/HEALPIX/TARGETID`; one for each coadd. Raises `AskError`."""
    if parts := re.fullmatch(r"(\w+)/(\w+)/(\d+)/(\d+)", text.strip()):
        coadds: tuple[Coadd, ...] = (Coadd(parts[1].lower(), parts[2].lower(), int(parts[3])),)
        target = int(parts[4])
    else:
        target = whole(text, "targetid")
        coadds = where.get(target, ())
    if not coadds:
        raise AskError(
            f"{text}: in which coadd TARGETID {target} lies is not known; name a catalogue that says it (--zcat "
            "zall-pix-iron.fits), write SURVEY/PROGRAM/HEALPIX/TARGETID, give columns survey, program and healpix, or "
            "ask SPARCL (--from sparcl)"
        )
    return [_ask(target, coadd, text, release, specprod, redrock) for coadd in coadds]


def from_row(row: Row, where: Where, *, release: str = RELEASE, specprod: str = "", redrock: bool = True) -> list[Ask]:
    """The asks of a row of a list. Raises `AskError`."""
    text = value(row, *ID)
    pixel = value(row, "healpix", "hpxpixel", "hpix")
    if not pixel:
        return from_text(text, where, release=release, specprod=specprod, redrock=redrock)
    survey, program = value(row, "survey").lower(), value(row, "program", "faprgrm").lower()
    if not survey or not program:
        raise AskError(f"{text}: healpix {pixel} without survey and program names no coadd")
    coadd = Coadd(word(survey, "survey"), word(program, "program"), whole(pixel, "healpix"))
    return [_ask(whole(text, "targetid"), coadd, text, release, specprod, redrock)]


def _ask(target: int, coadd: Coadd, written: str, release: str, specprod: str, redrock: bool) -> Ask:
    production = specprod or SPECPROD.get(release, "")
    if not production:
        raise AskError(f"--release {release}: known are {', '.join(SPECPROD)}; name the production with --specprod")
    survey, program, pixel = coadd.survey, coadd.program, coadd.healpix
    base = f"public/{word(release, 'release')}/spectro/redux/{word(production, 'specprod')}/healpix"
    folder = f"{base}/{survey}/{program}/{pixel // 100}/{pixel}"
    beside = (f"{folder}/redrock-{survey}-{program}-{pixel}.fits",) if redrock else ()
    coadds = (f"{folder}/coadd-{survey}-{program}-{pixel}.fits",)
    return Ask("desi", str(target), written, (("targetid", str(target)),), coadds, beside=beside, release=release)


def targets_of(given: Iterable[str | Row]) -> set[int]:
    """The TARGETIDs among ids and rows of lists, to look up in a catalogue."""
    texts = (one if isinstance(one, str) else value(one, *ID) for one in given)
    return {int(text) for text in texts if re.fullmatch(r"\d{1,18}", text)}


def coadds_of(
    catalogue: str, targets: set[int], tell: Callable[[int, int], None] = lambda done, total: None
) -> dict[int, tuple[Coadd, ...]]:
    """In which coadds these targets lie, by a `zall-pix-…` or `zpix-…` catalogue that the user has.

    Where it has ZCAT_PRIMARY, the primary coadd of a target alone counts; else all of them do. A catalogue of tens of
    gigabytes is gone through by parts of `ROWS_AT_ONCE` rows; `tell` hears (rows done, rows). Raises `AskError`.
    """
    from astropy.io import fits

    wanted = np.fromiter(targets, dtype=np.int64, count=len(targets))
    found: dict[int, dict[Coadd, bool]] = {}
    try:
        with fits.open(catalogue, memmap=True) as hdus:
            hdu = next((h for h in hdus[1:] if "TARGETID" in getattr(h, "columns", fits.ColDefs([])).names), None)
            names = [] if hdu is None else hdu.columns.names
            pixel = next((n for n in ("HEALPIX", "HPXPIXEL") if n in names), None)
            if hdu is None or pixel is None:
                raise AskError(f"--zcat {catalogue}: has no TARGETID and HEALPIX; give a zall-pix or zpix file")
            named = re.search(r"zpix-(\w+)-(\w+)\.fits", catalogue)
            whole_file = (named[1], named[2]) if named else None
            for start in range(0, len(hdu.data), ROWS_AT_ONCE):
                rows = hdu.data[start : start + ROWS_AT_ONCE]
                for row in rows[np.isin(rows["TARGETID"], wanted)]:
                    coadd = Coadd(*_survey(row, names, whole_file, catalogue), int(row[pixel]))
                    primary = bool(row["ZCAT_PRIMARY"]) if "ZCAT_PRIMARY" in names else False
                    found.setdefault(int(row["TARGETID"]), {})[coadd] = primary
                tell(min(start + ROWS_AT_ONCE, len(hdu.data)), len(hdu.data))
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, AskError):
            raise
        raise AskError(f"--zcat {catalogue}: cannot be read ({error})") from None
    return {target: tuple(_chosen(coadds)) for target, coadds in found.items()}


def _survey(row: np.void, names: list[str], of_file: tuple[str, str] | None, catalogue: str) -> tuple[str, str]:
    if {"SURVEY", "PROGRAM"} <= set(names):
        survey, program = (str(row[name]).strip().lower() for name in ("SURVEY", "PROGRAM"))
        return word(survey, "SURVEY"), word(program, "PROGRAM")
    if of_file is None:
        raise AskError(f"--zcat {catalogue}: has no columns SURVEY and PROGRAM, and its name is no zpix-SURVEY-PROGRAM")
    return of_file


def _chosen(coadds: Mapping[Coadd, bool]) -> Iterator[Coadd]:
    primary = [coadd for coadd, is_primary in coadds.items() if is_primary]
    yield from primary or coadds
