"""Small files of every layout, built in memory, with values that a test can state."""

from __future__ import annotations

import io

import numpy as np
from astropy.io import fits

LAMOST_CARDS = {
    "TELESCOP": "LAMOST",
    "OBSID": 101001,
    "DESIG": "LAMOST J220848.54-020324.3",
    "PLANID": "F5902",
    "LMJD": 55859,
    "MJD": 55858,
    "SPID": 1,
    "FIBERID": 7,
    "RA": 332.2,
    "DEC": -2.05,
    "HELIO": True,
    "VACUUM": True,
    "CLASS": "STAR",
    "SUBCLASS": "G7",
    "Z": -0.0001387,
    "Z_ERR": 0.00002,
    "COEFF0": 3.5682,
    "COEFF1": 0.0001,
}


def as_bytes(*hdus: object) -> bytes:
    """The bytes of a FITS file."""
    out = io.BytesIO()
    fits.HDUList(list(hdus)).writeto(out, output_verify="silentfix")
    return out.getvalue()


def with_cards(hdu, cards: dict):
    for key, value in cards.items():
        if value is not None:
            hdu.header[key] = value
    return hdu


def lamost_rows(n: int = 50, third: np.ndarray | None = None) -> np.ndarray:
    """The 5 rows of an old LAMOST image: flux 1..n, ivar 4, wavelength, masks."""
    wave = 10.0 ** (3.5682 + 1e-4 * np.arange(n))
    masks = np.zeros((2, n))
    masks[0, 3:4] = 5
    masks[1, 3:4] = 7
    return np.vstack([np.arange(1.0, n + 1), np.full(n, 4.0), wave if third is None else third, masks])


def lamost_image(rows: np.ndarray | None = None, dtype: str = ">f4", **cards) -> bytes:
    data = (lamost_rows() if rows is None else rows).astype(dtype)
    return as_bytes(with_cards(fits.PrimaryHDU(data), LAMOST_CARDS | cards))


def lamost_table(n: int = 50, drop: str = "", **cards) -> bytes:
    rows = lamost_rows(n)
    named = zip(("FLUX", "IVAR", "WAVELENGTH", "ANDMASK", "ORMASK"), rows, strict=True)
    columns = [fits.Column(name, f"{n}E", array=row[None, :]) for name, row in named if name != drop]
    table = fits.BinTableHDU.from_columns(columns, name="COADD")
    return as_bytes(with_cards(fits.PrimaryHDU(), LAMOST_CARDS | cards), table)


def mrs_table(name: str, wave: np.ndarray, *, old: bool) -> fits.BinTableHDU:
    n = wave.size
    values = {"FLUX": np.arange(float(n)), "IVAR": np.full(n, 2.0), "ORMASK": np.zeros(n)}
    values |= {"LOGLAM": np.log10(wave)} if old else {"WAVELENGTH": wave}
    columns = [
        fits.Column(key, "D", array=v) if old else fits.Column(key, f"{n}D", array=v[None, :])
        for key, v in values.items()
    ]
    return fits.BinTableHDU.from_columns(columns, name=name)


def sdss(n: int = 50, upper: bool = False, target: dict | None = None, drop: str = "", **cards) -> bytes:
    """A lite spec file; `target` are the columns of HDU 2, None for no HDU 2."""
    values = {
        "flux": np.arange(1.0, n + 1),
        "loglam": 3.58 + 1e-4 * np.arange(n),
        "ivar": np.full(n, 0.25),
        "and_mask": np.arange(n),
        "or_mask": np.full(n, 9),
    }
    columns = [
        fits.Column(key.upper() if upper else key, "J" if "mask" in key else "E", array=v)
        for key, v in values.items()
        if key != drop
    ]
    hdus = [with_cards(fits.PrimaryHDU(), {"RA": 1.0, "DEC": 2.0, "MJD": 51602, "PLATEID": 266, "FIBERID": 13} | cards)]
    hdus.append(fits.BinTableHDU.from_columns(columns, name="COADD"))
    if target is not None:
        cells = []
        for key, value in target.items():
            kind = f"{len(value)}A" if isinstance(value, str) else "K" if isinstance(value, int) else "D"
            bzero = {"bzero": 2**63} if isinstance(value, np.uint64) else {}
            kind = "K" if bzero else kind
            cells.append(fits.Column(key, kind, array=np.array([value]), **bzero))
        hdus.append(fits.BinTableHDU.from_columns(cells, name="SPECOBJ"))
    return as_bytes(*hdus)


SPECOBJ = {
    "PLATE": 266,
    "MJD": 51602,
    "FIBERID": 13,
    "SPECOBJID": "    299492975510054912",
    "CLASS": "STAR",
    "SUBCLASS": "WD",
    "Z": -0.00004,
    "Z_ERR": 0.0001,
    "ZWARNING": 4,
    "PLUG_RA": 146.9341,
    "PLUG_DEC": -0.6704,
}


def desi(
    targets: list[int],
    objtypes: list[str] | None = None,
    arms: str = "BRZ",
    redshifts: fits.BinTableHDU | None = None,
    shift_r: float = 0.0,
    **changes: np.ndarray,
) -> bytes:
    """A coadd file with arms of 11 pixels: B 100-108, R 106.4-114.4, Z 112.8-120.8 (+4000 Å), 0.8 Å apart.

    Flux is 1 in B, 3 in R, 5 in Z; ivar 1, 3 and 5. `changes` replaces single HDUs (`B_IVAR=…`).
    """
    n = len(targets)
    fibermap = fits.BinTableHDU.from_columns(
        [
            fits.Column("TARGETID", "K", array=np.array(targets)),
            fits.Column("OBJTYPE", "3A", array=np.array(objtypes or ["TGT"] * n)),
            fits.Column("TARGET_RA", "D", array=np.arange(n) + 10.0),
            fits.Column("TARGET_DEC", "D", array=np.arange(n) - 5.0),
            fits.Column("COADD_FIBERSTATUS", "J", array=np.zeros(n)),
        ],
        name="FIBERMAP",
    )
    hdus: list = [fits.PrimaryHDU(), fibermap]
    for start, value, name in ((4100.0, 1.0, "B"), (4106.4 + shift_r, 3.0, "R"), (4112.8, 5.0, "Z")):
        if name not in arms:
            continue
        parts = {
            f"{name}_WAVELENGTH": start + 0.8 * np.arange(11),
            f"{name}_FLUX": np.full((n, 11), value, dtype=">f4"),
            f"{name}_IVAR": np.full((n, 11), value, dtype=">f4"),
            f"{name}_MASK": np.full((n, 11), int(value), dtype=">i4"),
        }
        for key, array in parts.items():
            hdus.append(fits.ImageHDU(changes.get(key, array), name=key))
        hdus[-3].header["BUNIT"] = "10**-17 erg/(s cm2 Angstrom)"
    if redshifts is not None:
        hdus.append(redshifts)
    return as_bytes(*hdus)


def redrock(rows: list[tuple[int, float, int, str]]) -> fits.BinTableHDU:
    """REDSHIFTS of (targetid, z, zwarn, spectype)."""
    ids, z, zwarn, kinds = zip(*rows, strict=True)
    return fits.BinTableHDU.from_columns(
        [
            fits.Column("TARGETID", "K", array=np.array(ids)),
            fits.Column("Z", "D", array=np.array(z)),
            fits.Column("ZERR", "D", array=np.full(len(ids), 1e-5)),
            fits.Column("ZWARN", "K", array=np.array(zwarn)),
            fits.Column("SPECTYPE", "6A", array=np.array(kinds)),
            fits.Column("SUBTYPE", "4A", array=np.array(["M"] * len(ids))),
        ],
        name="REDSHIFTS",
    )


def image(n: int = 20, *others: object, **cards) -> bytes:
    """A 1-D image with flux 1..n and whatever cards are given."""
    given = {key.replace("__", "-"): value for key, value in cards.items()}
    return as_bytes(with_cards(fits.PrimaryHDU(np.arange(1.0, n + 1, dtype=">f4")), given), *others)
