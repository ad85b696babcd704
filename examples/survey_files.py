"""How the surveys see and write a star: pixels, resolution, noise, sky and air, then the layout of their files.

Layouts as read from real files: LAMOST low-resolution images (DR1, DR5) and tables (DR10), SDSS `spec` lite, DESI
coadd with its redrock catalogue, two-column text. Left out are SDSS's line table (HDU 3), DESI's resolution matrices
and scores, and most header cards.
"""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from astropy.io import fits

import simulated_stars as stars
from simulated_stars import Array

NOTE = "SIMULATED"
"""Stands in every name, header and table."""


@dataclass(frozen=True)
class Target:
    """One spectrum of the examples and the right answers about it."""

    file: str
    row: int
    id: str
    ra: float
    dec: float
    kind: str
    yes: str = ""
    """The task whose answer is YES."""
    otherwise: str = "NO"
    """The answer to the other tasks."""
    special: tuple[tuple[str, str], ...] = ()
    """(task, answer) where it is neither."""

    def answer(self, task: str) -> str:
        return "YES" if task == self.yes else dict(self.special).get(task, self.otherwise)


OH_LINES = (
    7244.9, 7276.4, 7303.7, 7316.3, 7329.1, 7340.9, 7369.2, 7401.9, 7524.1, 7571.7, 7712.3, 7750.6, 7794.1, 7821.5,
    7853.2, 7913.7, 7949.2, 7964.6, 7993.3, 8014.1, 8025.7, 8062.2, 8288.6, 8298.1, 8344.6, 8353.1, 8382.4, 8399.2,
    8415.2, 8430.2, 8452.3, 8465.4, 8493.4, 8504.6, 8761.2, 8778.3, 8827.1, 8836.0, 8850.7, 8867.6, 8885.8, 8903.1,
    8919.6, 8943.4, 8958.1, 8988.4, 9001.6, 9038.1, 9049.2, 9313.1, 9337.9, 9375.4, 9419.7, 9439.7, 9476.9, 9505.1,
)  # fmt: skip
"""Å, air: the stronger OH lines of the night sky (Osterbrock et al. 1996, PASP 108, 277), rounded."""


def sky(vacuum: Array) -> Array:
    """Brightness of the night sky: 0.25 between the lines, tens in [O I] 5577."""
    w = stars.air(vacuum)
    glow = 0.25 + 0.10 * (w / 8000.0) ** 3
    for centre, peak in ((5577.3, 12.0), (5892.5, 1.2), (6300.3, 4.0), (6363.8, 1.4), *((oh, 2.2) for oh in OH_LINES)):
        glow = glow + peak * np.exp(-0.5 * ((w - centre) / 1.6) ** 2)
    return glow


def exposed(
    clean: Array, vacuum: Array, snr: float, efficiency: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """(flux, ivar): photon noise of star and sky for a median S/N of about `snr`, and imperfect sky subtraction."""
    level = float(np.median(clean))
    glow = sky(vacuum)
    variance = (level / snr) ** 2 * (np.clip(clean / level, 0.05, None) + glow) / (1.3 * efficiency)
    variance += (0.03 * level * np.clip(glow - 0.6, 0.0, None)) ** 2
    flux = clean + np.sqrt(variance) * rng.standard_normal(vacuum.size)
    return flux, 1.0 / variance


def blue_loss(vacuum: Array, at: float, scale: float) -> Array:
    """Efficiency of an instrument that goes blind in the blue and, slowly, beyond 8800 Å."""
    return 0.03 + 0.97 / (1 + np.exp((at - vacuum) / scale)) / (1 + np.exp((vacuum - 9300.0) / 250.0))


def saved(hdus: list[Any], path: Path, kind: str) -> None:
    """Mark the primary header as simulated and write the file; the same bytes every time, gzip included."""
    header = hdus[0].header
    header["OBJECT"] = f"SIMULATED {kind}"
    header["SIMULATE"] = (True, "SIMULATED data, not an observation")
    header["COMMENT"] = "SIMULATED: made by examples/simulate.py of specvet from analytic models."
    header["COMMENT"] = "No telescope has seen this. Not for science."
    buffer = io.BytesIO()
    fits.HDUList(hdus).writeto(buffer)
    content = buffer.getvalue()
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)


FILTERS = (("U", 3700, 4000), ("G", 4000, 5500), ("R", 5600, 7000), ("I", 7000, 8200), ("Z", 8200, 9000))


def lamost_cards(header: fits.Header, target: Target, cards: dict[str, Any]) -> None:
    """Cards of a LAMOST primary header, in its order."""
    name = target.file.removesuffix(".gz")
    parts = re.fullmatch(r"spec-(\d+)-(\w+)_sp(\d+)-(\d+)\.fits", name)
    assert parts, name
    lmjd, plan, spid, fiber = parts.groups()
    header["FILENAME"] = name
    if "DATA_V" in cards:
        header["OBSID"] = (int(target.id), "Unique number ID of this spectrum")
    header["AUTHOR"] = ("specvet simulation", "Who compiled the information")
    if "DATA_V" in cards:
        header["DATA_V"] = (cards["DATA_V"], "Data release version")
    for key in ("EXTEN0", "N_EXTEN", "EXTNAME"):
        if key in cards:
            header[key] = cards[key]
    header["TELESCOP"] = ("LAMOST", "GuoShouJing Telescope (here: simulated)")
    header["LMJD"] = (int(lmjd), "Local Modified Julian Day")
    header["MJD"] = (int(lmjd) - 1, "Modified Julian Day")
    header["PLANID"] = (plan, "Plan ID in use")
    header["RA"] = (target.ra, "[deg] Right ascension of object")
    header["DEC"] = (target.dec, "[deg] Declination of object")
    header["DESIG"] = (f"SIMULATED J{target.ra:08.4f}{target.dec:+08.4f}", "Designation of LAMOST target")
    header["FIBERID"] = (int(fiber), "Fiber ID of Object")
    header["OBJNAME"] = (f"SIMULATED-{target.id}", "Name of object")
    header["OBJTYPE"] = ("star", "Object type from input catalog")
    header["SPID"] = (int(spid), "Spectrograph ID")
    header["HELIO"] = (True, "Heliocentric correction")
    header["VACUUM"] = (True, "Wavelengths are in vacuum")
    header["NWORDER"] = (2, "Number of linear-log10 coefficients")
    header["WFITTYPE"] = ("LOG-LINEAR", "Linear-log10 dispersion")
    header["COEFF0"] = (3.5682, "Central wavelength (log10) of first pixel")
    header["COEFF1"] = (0.0001, "Log10 dispersion per pixel")
    header["CRVAL1"] = (3.5682, "Central wavelength (log10) of first pixel")
    header["CD1_1"] = (0.0001, "Log10 dispersion per pixel")
    header["CRPIX1"] = (1, "Starting pixel (1-indexed)")
    header["CTYPE1"] = "LINEAR"
    header["DC-FLAG"] = (1, "Log-linear flag")
    header["VERSPIPE"] = ("SIMULATED", "Version of Pipeline")
    header["CLASS"] = (cards["CLASS"], "Class of object")
    header["SUBCLASS"] = (cards["SUBCLASS"], "Subclass of object")
    header["Z"] = (cards["Z"], "Redshift of object")
    header["Z_ERR"] = (0.00002 if cards["Z"] > -9999 else -9999.0, "Redshift error of object")


def lamost(
    folder: Path, target: Target, clean: Array, *, velocity: float, snr: float, seed: int, release: int, **cards: Any
) -> None:
    """A LAMOST low-resolution file: 5-row image without (DR1) or with (DR5) wavelengths, or one-row table (DR10)."""
    n_pix = 3904 if release == 1 else 3908
    vacuum = 10.0 ** (3.5682 + 0.0001 * np.arange(n_pix))
    star = stars.observed(clean, velocity, 1800.0, air_strength=1.0)(vacuum)
    # The arms meet at 5700-5900 Å: little light, and a flux calibration that does not quite match.
    efficiency = blue_loss(vacuum, 4000.0, 140.0) * (1.0 - 0.75 * np.exp(-0.5 * ((vacuum - 5830.0) / 50.0) ** 2))
    star = star * 300.0 * (1.0 + 0.03 * np.tanh((vacuum - 5800.0) / 25.0) * np.exp(-np.abs(vacuum - 5800.0) / 300.0))
    flux, ivar = exposed(star, vacuum, snr, efficiency, np.random.default_rng(seed))
    gap = cards.pop("gap", None)
    andmask = np.zeros(n_pix)
    if gap:
        dead = (vacuum > gap[0]) & (vacuum < gap[1])
        flux[dead], ivar[dead], andmask[dead] = 0.0, 0.0, 2**5
    ormask = np.where(sky(vacuum) > 3.0, 2**4, andmask)
    cards.setdefault("Z", round(velocity / stars.SPEED_OF_LIGHT, 8))

    if release == 1:
        smooth = np.polynomial.Polynomial.fit(vacuum, flux, 5)(vacuum)
        rows = [flux, ivar, flux / smooth, andmask, ormask]
        primary = fits.PrimaryHDU(np.array(rows, dtype=np.float32))
        cards |= {"EXTEN0": "Flux Inverse Subcontinuum Andmask Ormask", "N_EXTEN": 1}
    elif release == 5:
        rows = [flux, ivar, vacuum, andmask, ormask]
        primary = fits.PrimaryHDU(np.array(rows, dtype=np.float32))
        cards |= {"EXTEN0": "Flux, Inverse, Wavelength, Andmask, Ormask", "N_EXTEN": 1, "EXTNAME": "Flux"}
        cards["DATA_V"] = "LAMOST DR5"
    else:
        primary = fits.PrimaryHDU()
        cards |= {"DATA_V": "LAMOST DR10", "N_EXTEN": 2}
    lamost_cards(primary.header, target, cards)
    for band, low, high in FILTERS:
        here = (vacuum > low) & (vacuum < high) & (ivar > 0)
        value = round(float(np.median(flux[here] * np.sqrt(ivar[here]))), 2)
        primary.header[f"SN_{band}" if release == 1 else f"SNR{band}"] = (value, f"SNR of {band.lower()} filter")
    hdus: list[Any] = [primary]
    if release == 10:
        norm = np.full(n_pix, -9999.0)
        names = ("FLUX", "IVAR", "WAVELENGTH", "ANDMASK", "ORMASK", "NORMALIZATION")
        columns = [
            fits.Column(name, f"{n_pix}E", array=values[None].astype(np.float32))
            for name, values in zip(names, (flux, ivar, vacuum, andmask, ormask, norm), strict=True)
        ]
        hdus.append(fits.BinTableHDU.from_columns(columns, name="COADD"))
    saved(hdus, folder / target.file, target.kind)


def sdss(folder: Path, target: Target, clean: Array, *, velocity: float, snr: float, seed: int, **said: Any) -> None:
    """An SDSS `spec` file, lite: COADD and SPECOBJ. `said` is what the pipeline claims: CLASS, SUBCLASS, Z."""
    plate, mjd, fiber = (int(part) for part in target.file.split("-")[1:4])
    loglam = (3.5797 + 0.0001 * np.arange(3846)).astype(np.float32)
    vacuum = 10.0 ** loglam.astype(np.float64)
    star = 22.0 * stars.observed(clean, velocity, 2000.0, air_strength=0.12)(vacuum)
    efficiency = blue_loss(vacuum, 3880.0, 90.0) * (1.0 - 0.4 * np.exp(-0.5 * ((vacuum - 6050.0) / 70.0) ** 2))
    flux, ivar = exposed(star, vacuum, snr, efficiency, np.random.default_rng(seed))
    bright = np.where(sky(vacuum) > 3.0, 2**23, 0)  # BRIGHTSKY
    model = np.polynomial.Polynomial.fit(vacuum, star, 5)(vacuum)
    arrays = (flux, loglam, ivar, bright, bright, np.full(vacuum.size, 1.05), 8.0 * sky(vacuum), model)
    names = ("flux", "loglam", "ivar", "and_mask", "or_mask", "wdisp", "sky", "model")
    coadd = [
        fits.Column(name, form, array=np.asarray(array, dtype=np.int32 if form == "J" else np.float32))
        for name, form, array in zip(names, "EEEJJEEE", arrays, strict=True)
    ]
    primary = fits.PrimaryHDU()
    for key, value, comment in (
        ("RA", round(target.ra + 0.4, 5), "Right ascension of telescope boresight (deg)"),
        ("DEC", round(target.dec - 0.3, 5), "Declination of telescope boresight (deg)"),
        ("MJD", mjd, "MJD of observation"),
        ("TELESCOP", "SDSS 2.5-M", "Sloan Digital Sky Survey (here: simulated)"),
        ("PLATEID", plate, "Plate Id"),
        ("VERS2D", "SIMULATED", "Version of idlspec2d for 2D reduction"),
        ("NWORDER", 2, "Linear-log10 coefficients"),
        ("WFITTYPE", "LOG-LINEAR", "Linear-log10 dispersion"),
        ("COEFF0", 3.5797, "Central wavelength (log10) of first pixel"),
        ("COEFF1", 0.0001, "Log10 dispersion per pixel"),
        ("DC-FLAG", 1, "Log-linear flag"),
        ("BUNIT", "1E-17 erg/cm^2/s/Ang", ""),
        ("PLUG_RA", target.ra, "RA of object [deg]"),
        ("PLUG_DEC", target.dec, "dec of object [deg]"),
        ("SPEC_ID", target.id, "Unique object identifier"),
        ("FIBERID", fiber, "Fiber number (1-640)"),
    ):
        primary.header[key] = (value, comment)
    columns = (
        ("SURVEY", "9A", NOTE), ("INSTRUMENT", "4A", "SDSS"), ("PROGRAMNAME", "9A", NOTE),
        ("SPECOBJID", "22A", target.id),
        ("RUN2D", "9A", NOTE), ("PLATE", "J", plate), ("MJD", "J", mjd), ("FIBERID", "J", fiber),
        ("PLUG_RA", "D", target.ra), ("PLUG_DEC", "D", target.dec), ("CLASS", "6A", said["CLASS"]),
        ("SUBCLASS", "21A", said["SUBCLASS"]), ("Z", "E", said["Z"]), ("Z_ERR", "E", said["Z_ERR"]),
        ("ZWARNING", "J", 0), ("SN_MEDIAN", "5E", [np.median(p) for p in np.array_split(flux * np.sqrt(ivar), 5)]),
    )  # fmt: skip
    row = [fits.Column(name, form, array=np.array([value])) for name, form, value in columns]
    tables = [fits.BinTableHDU.from_columns(coadd, name="COADD"), fits.BinTableHDU.from_columns(row, name="SPECOBJ")]
    tables[0].header["COMMENT"] = "Coadded spectrum"
    saved([primary, *tables], folder / target.file, target.kind)


def desi(
    folder: Path, targets: list[Target], clean: list[Array], *, snr: list[float], seed: int, fit: list[Any]
) -> None:
    """A DESI coadd with one row a target and its redrock catalogue beside it; `fit`: (SPECTYPE, SUBTYPE, z) a row."""
    rng = np.random.default_rng(seed)
    hdus: list[Any] = [fits.PrimaryHDU()]
    hdus[0].header.update({"SPGRP": "healpix", "HPXPIXEL": 99999, "HPXNSIDE": 64, "HPXNEST": "True"})
    hdus[0].header.update({"SURVEY": NOTE, "PROGRAM": "dark", "DEPNAM00": "SPECPROD", "DEPVER00": NOTE})
    ids = np.array([int(t.id) for t in targets])
    kinds = np.array(["TGT" if i > 0 else "SKY" for i in ids])
    n = len(targets)
    columns = (
        ("TARGETID", "K", ids), ("PETAL_LOC", "I", [3] * n), ("FIBER", "J", 1700 + np.arange(n)),
        ("COADD_FIBERSTATUS", "J", [0] * n), ("TARGET_RA", "D", [t.ra for t in targets]),
        ("TARGET_DEC", "D", [t.dec for t in targets]), ("OBJTYPE", "3A", kinds), ("MEAN_MJD", "D", [59300.2] * n),
        ("COADD_NUMEXP", "I", [2] * n), ("COADD_EXPTIME", "E", [1800.0] * n),
    )  # fmt: skip
    fibermap = [fits.Column(name, form, array=np.array(values)) for name, form, values in columns]
    hdus.append(fits.BinTableHDU.from_columns(fibermap, name="FIBERMAP"))
    columns = (("TARGETID", "K", ids), ("EXPID", "J", [990001] * n), ("MJD", "D", [59300.2] * n))
    exposures = [fits.Column(name, form, array=np.array(values)) for name, form, values in columns]
    hdus.append(fits.BinTableHDU.from_columns(exposures, name="EXP_FIBERMAP"))
    for arm, low, n_pix in (("B", 3600.0, 2751), ("R", 5760.0, 2326), ("Z", 7520.0, 2881)):
        vacuum = low + 0.8 * np.arange(n_pix)
        edges = np.clip(np.minimum(vacuum - vacuum[0], vacuum[-1] - vacuum) / 40.0, 0.05, 1.0)
        efficiency = edges * (blue_loss(vacuum, 3800.0, 80.0) if arm == "B" else 1.0)
        flux, ivar = np.zeros((n, n_pix)), np.zeros((n, n_pix))
        for row, model in enumerate(clean):
            star = stars.observed(model, 0.0, 3500.0, air_strength=0.1)(vacuum)
            flux[row], ivar[row] = exposed(star, vacuum, snr[row], efficiency, rng)
            if kinds[row] == "SKY":  # the noise of a sky fibre, and nothing else
                flux[row] -= star
        image = {"WAVELENGTH": ("Angstrom", vacuum), "FLUX": ("10**-17 erg/(s cm2 Angstrom)", flux.astype(np.float32)),
                 "IVAR": ("10**+34 (s2 cm4 Angstrom2) / erg2", ivar.astype(np.float32))}  # fmt: skip
        for name, (unit, data) in image.items():
            hdus.append(fits.ImageHDU(data, name=f"{arm}_{name}"))
            hdus[-1].header["BUNIT"] = unit
        hdus.append(fits.ImageHDU(np.zeros((n, n_pix), dtype=np.uint32), name=f"{arm}_MASK"))
    saved(hdus, folder / targets[0].file, "DESI targets")

    columns = (
        ("TARGETID", "K", ids), ("Z", "D", [f[2] for f in fit]), ("ZERR", "D", [2e-5] * n), ("ZWARN", "K", [0] * n),
        ("CHI2", "D", [8000.0] * n), ("NPIXELS", "K", [7900] * n), ("SPECTYPE", "6A", [f[0] for f in fit]),
        ("SUBTYPE", "20A", [f[1] for f in fit]), ("DELTACHI2", "D", [500.0] * n),
    )  # fmt: skip
    catalogue = [fits.Column(name, form, array=np.array(values)) for name, form, values in columns]
    primary = fits.PrimaryHDU()
    primary.header["RRVER"] = (NOTE, "Redrock version")
    tables = [fits.BinTableHDU.from_columns(catalogue, name="REDSHIFTS"), hdus[1].copy()]
    saved([primary, *tables], folder / targets[0].file.replace("coadd", "redrock"), "DESI redshifts")


def two_columns(folder: Path, target: Target, clean: Array, *, velocity: float, snr: float, seed: int) -> None:
    """A text file of wavelength and flux, as papers attach them: no errors, little header."""
    vacuum = 10.0 ** (3.5810 + 0.00018 * np.arange(2100))
    star = stars.observed(clean, velocity, 1400.0, air_strength=0.4)(vacuum)
    flux, _ = exposed(star, vacuum, snr, blue_loss(vacuum, 3850.0, 80.0), np.random.default_rng(seed))
    lines = [f"# SIMULATED {target.kind}: made by examples/simulate.py of specvet, not an observation",
             f"# OBJECT: {target.id}", f"# RA: {target.ra}", f"# DEC: {target.dec}", "# MEDIUM: vacuum",
             "# BUNIT: 1e-15 erg/s/cm2/A", "# WAVELENGTH FLUX"]  # fmt: skip
    lines += [f"{w:.2f} {f:.4f}" for w, f in zip(vacuum, flux, strict=True)]
    (folder / target.file).write_text("\n".join(lines) + "\n", encoding="utf-8")
