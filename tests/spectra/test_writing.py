"""`write` and `read`: a spectrum comes back equal from FITS, VOTable and ECSV, and other programs read it too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from astropy.table import Table

from specvet.records.tables import TableFormat
from specvet.spectra import Join, Redshift, Spectrum, SpectrumReadError, read, write

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
EXAMPLES = Path(__file__).parents[2] / "examples" / "spectra"
NAMES = ["s.fits", "s.fits.gz", "s.vot", "s.votable", "s.xml", "s.ecsv", "s.ecsv.gz"]
EVERY = pytest.mark.parametrize("name", NAMES)

NOT_KEPT = {"file", "row", "layout", "n_exposures"}
"""They say where a spectrum lies now; the header keeps where it came from."""


def different(a: Spectrum, b: Spectrum) -> list[str]:
    """Names of the fields in which two spectra differ."""
    out = []
    for f in fields(Spectrum):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            same = x.dtype == y.dtype and x.tobytes() == y.tobytes()
        else:
            same = bool(x is y or x == y)
        if not same and f.name not in NOT_KEPT:
            out.append(f.name)
    return out


def full() -> Spectrum:
    flux = np.array([1.0, np.nan, -2.5e-17, 1 / 3, 0.0])
    return Spectrum(
        np.array([3700.0001, 3701.1, 3702.3, 9000.123456789012, 9001.0]),
        flux,
        np.array([1.0, 0.0, 1e34, 1 / 7, 0.0]),
        np.array([0, 1, 2**40, 2**62 + 1, -1]),
        medium="air",
        flux_unit="1E-17 erg/cm^2/s/Ang",
        calibration="relative",
        resolution=1800.5,
        joins=(Join(5700.123456789012, 5900.0, "LAMOST blue/red"), Join(1.0, 2.0, "")),
        frame="heliocentric",
        mjd=55859.123456789,
        ra=123.45678901234567,
        dec=-1.2345678901234567e-05,
        redshift=Redshift(-0.0012345678901234567, 1.1e-05, "header Z", "ZWARNING=4 — 疑"),
        pipeline_class="STAR",
        pipeline_subclass="M0 Hα",
        id="007 «Å»",
        ids={"targetid": "39627612345678901", "obsid": "0042", "odd": "a=b \\ 'c' "},
        survey="LAMOST",
        release="DR7",
        reduction="v2.9.7",
        layout="lamost-lrs-image",
        file="folder/original.fits",
        row=3,
        warnings=("word " * 30 + "end", "no error array?"),
    )


@EVERY
def test_a_spectrum_comes_back_equal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    spectrum = full()
    write(spectrum, path)
    (back,) = read(path)
    assert different(spectrum, back) == []
    assert (back.file, back.row, back.layout) == (str(path), 0, "specvet")
    assert back.content_hash == spectrum.content_hash


@EVERY
def test_what_is_not_known_stays_unknown(tmp_path: Path, name: str) -> None:
    bare = Spectrum(np.array([4000.0, 4001.0]), np.array([1.0, 2.0]))
    write(bare, tmp_path / name)
    (back,) = read(tmp_path / name)
    assert different(bare, back) == []
    assert back.ivar is None
    assert back.mask is None


def real_files() -> Iterator[Path]:
    for pattern in ("lamost/dr7/*", "lamost/mrs_dr7/*", "sdss/*/*.fits*", "desi/coadd*", "mastar/*", "standards/*/*"):
        yield from sorted(SHARED.glob(pattern))[:1]


@pytest.mark.shared
@pytest.mark.parametrize("kind", ["fits", "votable", "ecsv"])
def test_real_spectra_come_back_equal(tmp_path: Path, kind: TableFormat) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real spectra are not there: {SHARED}")
    n = 0
    for file in real_files():
        try:
            spectra = read(file)
        except SpectrumReadError:
            continue
        for spectrum in spectra[:2]:
            write(spectrum, tmp_path / "out", kind)
            (back,) = read(tmp_path / "out")
            assert different(spectrum, back) == [], file
            n += 1
    assert n >= 5


def test_simulated_spectra_stay_simulated(tmp_path: Path) -> None:
    file = next(f for f in sorted(EXAMPLES.glob("*.fits*")) if "redrock" not in f.name)
    (spectrum, *_) = read(file)
    assert "SIMULATED spectrum" in spectrum.warnings
    for name in NAMES:
        write(spectrum, tmp_path / name)
        assert read(tmp_path / name)[0].warnings == spectrum.warnings


def test_other_programs_see_a_table_with_units_and_a_header(tmp_path: Path) -> None:
    for name, kind in (("s.fits", "fits"), ("s.vot", "votable"), ("s.ecsv", "ascii.ecsv")):
        write(full(), tmp_path / name)
        table = Table.read(tmp_path / name, format=kind)
        assert table.colnames == ["WAVELENGTH", "FLUX", "IVAR", "MASK"]
        assert table["WAVELENGTH"].unit == "Angstrom"
        assert table["FLUX"].unit == "1e-17 erg / (s cm2 Angstrom)", name
        assert table["IVAR"].unit == table["FLUX"].unit ** -2
        assert table["MASK"].tolist() == [0, 1, 2**40, 2**62 + 1, -1]
    header = fits.getheader(tmp_path / "s.fits", 1)
    assert header["RA"] == 123.45678901234567
    assert header["DEC"] == -1.2345678901234567e-05
    assert (header["OBJECT"], header["MEDIUM"], header["MJD-OBS"]) == ("007 \\xab\\xc5\\xbb", "air", 55859.123456789)
    assert (header["Z"], header["Z_SOURCE"]) == (-0.0012345678901234567, "header Z")
    assert (header["ORIGFILE"], header["ORIGROW"]) == ("original.fits", 3)


def test_a_flux_unit_that_no_program_reads_is_kept_in_words(tmp_path: Path) -> None:
    spectrum = full().replace(flux_unit="relative flux « Å »")
    for name in NAMES:
        write(spectrum, tmp_path / name)
        assert read(tmp_path / name)[0].flux_unit == "relative flux « Å »"
    assert "TUNIT2" not in fits.getheader(tmp_path / "s.fits", 1)


def test_what_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    for name in ("s.csv", "s", "s.gz"):
        with pytest.raises(ValueError, match="written as FITS, VOTable or ECSV"):
            write(full(), tmp_path / name)
    (tmp_path / "folder.fits").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        write(full(), tmp_path / "folder.fits")
    with pytest.raises(OSError, match=r"no/s\.fits"):
        write(full(), tmp_path / "no" / "s.fits")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.fits"]


def test_a_table_that_somebody_has_changed_is_repaired_or_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "s.ecsv"
    write(full(), path)
    text = path.read_text(encoding="utf-8")
    head, body = text.split("WAVELENGTH,FLUX,IVAR,MASK\n")
    rows = body.splitlines(keepends=True)
    path.write_text(head + "WAVELENGTH,FLUX,IVAR,MASK\n" + "".join(reversed(rows)), encoding="utf-8")
    (back,) = read(path)
    assert back.wavelength.tolist() == full().wavelength.tolist()
    for broken, said in (
        (text.replace("# datatype:", "# datatype"), "the ECSV header is no YAML"),
        (text.replace("3701.1,", "3701.1;"), "a row of the ECSV table cannot be read"),
        (text.replace("# - specvet_spectrum: 1", "# - specvet_spectrum: 2"), "written by a newer specvet"),
        (text.replace('name: "FLUX"', 'name: "DATA"'), "has no column FLUX"),
    ):
        assert broken != text
        path.write_text(broken, encoding="utf-8")
        with pytest.raises(SpectrumReadError, match=said):
            read(path)
