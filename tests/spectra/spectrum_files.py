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


def spspec(
    n: int = 60, fluxes: np.ndarray | None = None, sigma: np.ndarray | None = None, rows: int = 5, **cards
) -> bytes:
    """SDSS-I/II: rows of flux 1..n, continuum-subtracted, error 0.5 (0 = bad), mask, sky; a line table and more."""
    data = np.zeros((rows, n), dtype=">f4")
    data[0] = np.arange(1.0, n + 1) if fluxes is None else fluxes
    data[1] = data[0] - 1.0
    data[2] = 0.5 if sigma is None else sigma
    data[3, 2] = 2**24
    given = {
        "TELESCOP": "SDSS 2.5-M",
        "RA": 150.09221,
        "DEC": 10.308277,
        "RAOBJ": 149.46417,
        "DECOBJ": 10.976277,
        "MJD": 52999,
        "PLATEID": 1307,
        "FIBERID": 323,
        "VACUUM": True,
        "VERS2D": "v5_3_12",
        "BUNIT": "1.0E-17 erg/cm/s/Ang",
        "CTYPE1": "LINEAR",
        "WAT1_001": "wtype=linear label=Wavelength units=Angstroms",
        "DC-FLAG": 1,
        "CRPIX1": 1,
        "CRVAL1": 3.5796,
        "CD1_1": 0.0001,
        "COEFF0": 3.5796,
        "COEFF1": 0.0001,
        "SPEC_CLN": 2,
        "PRIMTARG": 64,
        "Z": 0.0410313,
        "Z_ERR": 7.54e-5,
        "Z_STATUS": 3,
        "Z_WARNIN": 0,
        "OBJID": " 3630 20 5 221 125",
    }
    names = ("SPECTRUM", "CONTINUUM-SUBTRACTED SPECTRUM", "ERROR", "MASK")
    given |= {f"ARRAY{i + 1}": name for i, name in enumerate(names[:rows])}
    lines = fits.BinTableHDU.from_columns(
        [fits.Column(name, "E", array=np.array([6833.8])) for name in ("wave", "sigma", "height", "continuum", "z")]
    )
    masks = fits.BinTableHDU.from_columns(
        [fits.Column(name, "J", array=np.zeros(n)) for name in ("andMask", "orMask")]
        + [fits.Column("dispersion", "E", array=np.ones(n))]
    )
    return as_bytes(with_cards(fits.PrimaryHDU(data), given | cards), lines, masks)


def spplate(kinds: list[str], n: int = 40) -> bytes:
    """A plate of as many fibres as `kinds` (GALAXY, SKY, …); fibre i has flux i + 1 and ivar 4."""
    rows = len(kinds)
    flux = np.ones((rows, n)) * np.arange(1, rows + 1)[:, None]
    cards = {"COEFF0": 3.58, "COEFF1": 1e-4, "PLATEID": 266, "MJD": 51602, "TELESCOP": "SDSS 2.5-M", "FIBERID": 0}
    plugged = fits.BinTableHDU.from_columns(
        [
            fits.Column("OBJTYPE", "8A", array=np.array(kinds)),
            fits.Column("RA", "D", array=10.0 + np.arange(rows)),
            fits.Column("DEC", "D", array=-1.0 - np.arange(rows)),
            fits.Column("FIBERID", "J", array=1 + np.arange(rows)),
        ]
    )
    return as_bytes(
        with_cards(fits.PrimaryHDU(flux.astype(">f4")), cards),
        fits.ImageHDU(np.full((rows, n), 4.0, dtype=">f4")),
        fits.ImageHDU(np.full((rows, n), 8, dtype=">i4")),
        fits.ImageHDU(np.full((rows, n), 12, dtype=">i4")),
        plugged,
    )


def mwm(rows: dict[str, int], *, star: bool = False, n: int = 50, in_stack: list[bool] | None = None) -> bytes:
    """SDSS-V mwmVisit (or mwmStar): HDUs BOSS/APO, BOSS/LCO, APOGEE/APO, APOGEE/LCO with `rows` rows each.

    Flux of row i is i + 1; grids 10**(3.5523 + 1e-4 i) and 10**(4.179 + 6e-6 i) Å.
    """
    primary = with_cards(
        fits.PrimaryHDU(), {"SDSS_ID": 54392544, "V_ASTRA": "0.6.0", "RA": 120.5, "DEC": -3.25, "GAIA_DR3": 7}
    )
    primary.add_checksum()
    hdus = [primary]
    for name in ("BOSS/APO", "BOSS/LCO", "APOGEE/APO", "APOGEE/LCO"):
        count = rows.get(name, 0)
        first, step = (3.5523, 1e-4) if name.startswith("BOSS") else (4.179, 6e-6)
        flux = np.ones((count, n)) * np.arange(1, count + 1)[:, None]
        columns = [
            fits.Column("sdss_id", "K", array=np.full(count, 54392544)),
            fits.Column("telescope", "6A", array=np.array(["apo25m"] * count)),
            fits.Column("release", "5A", array=np.array(["sdss5"] * count)),
            fits.Column("snr", "E", array=np.full(count, 20.0)),
            fits.Column("flux", f"{n}E", array=flux),
            fits.Column("ivar", f"{n}E", array=np.full((count, n), 4.0)),
            fits.Column("pixel_flags", f"{n}K", array=np.full((count, n), 2**40)),
        ]
        if star:
            wave = np.ones((count, 1)) * 10.0 ** (first + step * np.arange(n))
            columns += [
                fits.Column("wavelength", f"{n}D", array=wave),
                fits.Column("min_mjd", "J", array=np.full(count, 59600)),
                fits.Column("max_mjd", "J", array=np.full(count, 59602)),
                fits.Column("v_rad", "E", array=np.full(count, -12.5)),
            ]
        else:
            columns += [
                fits.Column("mjd", "J", array=59600 + np.arange(count)),
                fits.Column("catalogid", "K", array=np.full(count, 4375786564)),
                fits.Column("in_stack", "L", array=np.array((in_stack or [True] * count)[:count])),
                fits.Column("xcsao_v_rad", "E", array=np.full(count, 20.0)),
            ]
        hdu = fits.BinTableHDU.from_columns(columns, name=name)
        with_cards(hdu, {"INSTRMNT": name.partition("/")[0], "CRVAL": first, "CDELT": step, "NPIXELS": n})
        hdu.add_checksum()
        hdus.append(hdu)
    return as_bytes(*hdus)


def multispec(specs: list[str], data: np.ndarray, **cards) -> bytes:
    """An IRAF multispec image; `specs` are the dispersions (`1 1 0 4000. 2. 100 0. 1. 2.`), one a line."""
    joined = "wtype=multispec " + " ".join(f'spec{i + 1} = "{spec}"' for i, spec in enumerate(specs))
    given = {
        "WCSDIM": 2,
        "CTYPE1": "MULTISPE",
        "CTYPE2": "MULTISPE",
        "CDELT1": 1.0,
        "CD1_1": 1.0,
        "LTM1_1": 1.0,
        "WAT0_001": "system=multispec",
        "WAT1_001": "wtype=multispec label=Wavelength units=angstroms",
    }
    for i in range(0, len(joined), 68):
        given[f"WAT2_{i // 68 + 1:03d}"] = joined[i : i + 68]
    return as_bytes(with_cards(fits.PrimaryHDU(data.astype(">f4")), given | cards))
