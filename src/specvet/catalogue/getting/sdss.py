"""SDSS: plates (plate-mjd-fiberid, specobjid) and SDSS-V fields (field-mjd-catalogid), and where their files lie.

Paths: data.sdss.org/datamodel (`spec`), the SDSS `tree` product (dr17 to dr20), and astroquery's `sdss` module, which
names `spectra/full` for reductions v5 and later and `spectro/sdss/redux` from DR18 on. `specobjid`: SDSS glossary, 14
bits plate, 12 fibre, 14 MJD − 50000, 14 reduction, 10 others, from the top.
"""

from __future__ import annotations

import re

from specvet.catalogue.getting.asks import Ask, AskError, Row, value, whole, word

RELEASE, RELEASE_V = "dr17", "dr19"
FIRST_BOSS_PLATE = 3510
"""Plates from here on were observed with the BOSS spectrographs."""
_LEGACY = ("26", "103", "104")
"""Reductions of plates of SDSS, of cluster plates and of SEGUE-2; which of them has a plate is tried out."""
_BOSS = {16: "v5_13_0", 17: "v5_13_2", 18: "v5_13_2", 19: "v5_13_2", 20: "v5_13_2"}
_FIELDS = {"dr18": "v6_0_4", "dr19": "v6_1_3"}
_RELEASE_OF = {"v6_0": "dr18", "v6_1": "dr19", "v6_2": "dr20"}


def from_text(text: str, *, release: str = "", run2d: str = "", full: bool = False) -> Ask:
    """The ask of `2108-53473-415`, `spec-0266-51602-0013.fits`, a specobjid or `015000-59146-4375924756`.

    Raises `AskError`.
    """
    name = re.sub(r"^.*/|^spec-|\.fits(\.gz)?$", "", text.strip())
    name = re.sub(r"^spec-", "", name)
    if re.fullmatch(r"-?\d{15,20}", name):
        return _of_specobjid(name, text, release, full)
    parts = re.fullmatch(r"(\d{1,6})-(\d{5})-(\w+)", name)
    if parts is None:
        raise AskError(f"{text!r} is no plate-mjd-fiberid (2108-53473-415), field-mjd-catalogid or specobjid of SDSS")
    first, mjd, last = parts.groups()
    if last.isdigit() and len(last) <= 4:
        return _plate(int(first), int(mjd), int(last), text, release, run2d, full)
    return _field(int(first), int(mjd), last, text, release, run2d, full)


def from_row(row: Row, *, release: str = "", run2d: str = "", full: bool = False) -> Ask:
    """The ask of a row of a list, by its columns. Raises `AskError`."""
    mjd, own = value(row, "mjd"), value(row, "run2d", "rerun") or run2d
    plate, fibre = value(row, "plate", "plateid"), value(row, "fiberid", "fiber", "fiber_id")
    field, catalogid = value(row, "field", "fieldid", "field_id"), value(row, "catalogid", "catalog_id")
    if field and mjd and catalogid:
        written = f"{field}-{mjd}-{catalogid}"
        return _field(whole(field, "field"), whole(mjd, "mjd"), catalogid, written, release, own, full)
    if plate and mjd and fibre:
        numbers = whole(plate, "plate"), whole(mjd, "mjd"), whole(fibre, "fiberid")
        return _plate(*numbers, f"{plate}-{mjd}-{fibre}", release, own, full)
    if specobjid := value(row, "specobjid", "specobj_id"):
        if "-" in specobjid[1:]:
            return from_text(specobjid, release=release, run2d=own, full=full)
        return _of_specobjid(str(whole(specobjid, "specobjid", signed=True)), specobjid, release, full)
    named = value(row, "id", "name", "spec", "file", "filename", "path", "object_id", "object")
    return from_text(named, release=release, run2d=own, full=full)


def specobjid(number: int) -> tuple[int, int, int, str]:
    """(plate, mjd, fiberid, run2d) of a specobjid; one that a table made negative (int64) is understood.

    Raises `AskError` for a number that is none.
    """
    bits = number % 2**64
    plate, fibre, mjd, reduction = bits >> 50, bits >> 38 & 0xFFF, (bits >> 24 & 0x3FFF) + 50000, bits >> 10 & 0x3FFF
    if not plate or not 1 <= fibre <= 1000 or bits & 0x3FF:
        raise AskError(f"{number} is no specobjid of SDSS: its bits give plate {plate} and fibre {fibre}")
    plain = str(reduction)
    if plain not in _LEGACY:
        plain = f"v{5 + reduction // 10000}_{reduction % 10000 // 100}_{reduction % 100}"
    return plate, mjd, fibre, plain


def _of_specobjid(digits: str, written: str, release: str, full: bool) -> Ask:
    plate, mjd, fibre, run2d = specobjid(int(digits))
    return _plate(plate, mjd, fibre, written, release, run2d, full)


def _plate(plate: int, mjd: int, fibre: int, written: str, release: str, run2d: str, full: bool) -> Ask:
    if not plate or not 1 <= fibre <= 1000 or not 10_000 <= mjd <= 99_999:
        raise AskError(f"{written!r}: plate {plate}, MJD {mjd}, fibre {fibre} are no spectrum of SDSS")
    release = release or RELEASE
    number = _number(release)
    boss = plate >= FIRST_BOSS_PLATE
    if not run2d and boss and number not in _BOSS:
        raise AskError(f"{written!r}: which reduction {release} has is not known; name it with --run2d, as in v5_13_2")
    reductions = (word(run2d, "run2d"),) if run2d else (_BOSS[number],) if boss else _LEGACY
    name = f"spec-{plate:04d}-{mjd:05d}-{fibre:04d}.fits"
    paths = []
    for reduction in reductions:
        versioned = reduction.startswith("v")
        bases: tuple[str, ...] = ("spectro/sdss/redux",) if number >= 18 else ("sdss/spectro/redux",)
        if versioned and number < 18:
            bases = (*bases, "eboss/spectro/redux")
        below = "spectra/lite" if not full else "spectra/full" if versioned and number > 15 else "spectra"
        paths += [f"sas/{release}/{base}/{reduction}/{below}/{plate:04d}/{name}" for base in bases]
    ids = (("plate", str(plate)), ("mjd", str(mjd)), ("fiberid", str(fibre)))
    return Ask("sdss", f"{plate:04d}-{mjd:05d}-{fibre:04d}", written, ids, tuple(paths), release=release)


def _field(field: int, mjd: int, catalogid: str, written: str, release: str, run2d: str, full: bool) -> Ask:
    catalogid = word(re.sub(r"^(\d+)\.0*$", r"\1", catalogid), "catalogid").lstrip("0")
    release = release or (_RELEASE_OF.get(run2d[:4], "") if run2d else RELEASE_V)
    run2d = word(run2d or _FIELDS.get(release, ""), f"run2d of {release or 'SDSS-V'} (--run2d, as in v6_1_3)")
    if not release:
        raise AskError(f"{written!r}: which release has {run2d} is not known; name it with --release")
    number, kind = _number(release), "full" if full else "lite"
    base = f"sas/{release}/spectro/boss/redux/{run2d}/spectra"
    name = f"spec-{field:06d}-{mjd:05d}-{catalogid}.fits"
    flat = f"{base}/{kind}/{field:06d}/{mjd:05d}/{name}"
    grouped = f"{base}/daily/{kind}/{field // 1000:03d}XXX/{field:06d}/{mjd:05d}/{name}"
    paths: tuple[str, ...] = (grouped, flat) if number >= 20 else (flat, grouped)
    if run2d.startswith("v6_0"):  # fields of plates, without zeros in front; the catalogid has eleven digits
        old = f"{kind}/{field}p/{mjd}/spec-{field}-{mjd}-{catalogid:0>11}.fits"
        paths = (f"{base}/{old}", f"sas/{release}/spectro/sdss/redux/{run2d}/spectra/{old}", flat)
    ids = (("field", str(field)), ("mjd", str(mjd)), ("catalogid", catalogid))
    return Ask("sdss", f"{field:06d}-{mjd:05d}-{catalogid}", written, ids, paths, release=f"{release} {run2d}")


def _number(release: str) -> int:
    if not (found := re.fullmatch(r"dr(\d{1,2})", release)):
        raise AskError(f"--release {release}: a release of SDSS is written dr17")
    return int(found[1])
