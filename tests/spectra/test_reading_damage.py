"""Damaged, hostile and impossible input: always a `SpectrumReadError` that names the file, never anything else."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spectrum_files as make
from astropy.io import fits

from specvet.spectra import SpectrumReadError, astropy_home, exposures, read


def parquet_of(n: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(
        pa.table({"wavelength": [[4000.0 + i for i in range(n)]], "flux": [[1.0 + i for i in range(n)]]}), out
    )
    return out.getvalue()


def npz_of(n: int) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, wavelength=4000.0 + np.arange(n), flux=np.arange(float(n)))
    return out.getvalue()


def refused(source, reason: str, **options) -> SpectrumReadError:
    with pytest.raises(SpectrumReadError, match=reason) as caught:
        read(source, **options)
    return caught.value


def test_a_missing_file_is_named(tmp_path):
    error = refused(tmp_path / "gone.fits", "no such file")
    assert str(error) == f"{tmp_path / 'gone.fits'}: no such file; check the path"


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_impossible_paths_are_refused(path):
    refused(path, "no such file|cannot be opened")


def test_a_file_below_a_file_is_no_such_file(tmp_path):
    (tmp_path / "a").write_text("4000 1\n")
    refused(tmp_path / "a" / "b.fits", "no such file: a part of the path is not a folder")


def test_a_directory_is_refused(tmp_path):
    refused(tmp_path, "is a directory; give one of the files in it")


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "not a regular file")


def test_a_device_is_refused():
    refused("/dev/zero", "not a regular file")


def test_an_unreadable_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "closed.fits"
    path.write_bytes(make.lamost_image())

    def deny(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)
    refused(path, "permission denied; make it readable")


@pytest.mark.parametrize("source", [b"", bytearray(), io.BytesIO(b"")])
def test_no_bytes_are_refused_as_empty(source):
    refused(source, "empty: 0 bytes")


def test_an_empty_file_and_an_empty_gzip_are_refused(tmp_path):
    (tmp_path / "a.fits").write_bytes(b"")
    refused(tmp_path / "a.fits", r"empty file \(0 bytes\)")
    refused(gzip.compress(b""), "empty: the gzip stream holds 0 bytes")


def test_a_truncated_gzip_is_refused():
    refused(gzip.compress(make.lamost_image())[:-200], "gzip stream is truncated", name="a.gz")


@pytest.mark.parametrize(
    "data", [b"\x1f\x8b" + b"garbage" * 20, b"BZh9" + b"garbage" * 20, b"\xfd7zXZ\x00" + b"x" * 60]
)
def test_a_packed_stream_of_garbage_is_refused(data):
    refused(data, "stream is (damaged|truncated)")


def test_a_gzip_of_garbage_is_refused():
    refused(gzip.compress(bytes(range(256)) * 8), "binary data of no known format")


def test_packing_thrice_is_refused_and_twice_is_read():
    data = gzip.compress(gzip.compress(make.lamost_image()))
    assert len(read(data)) == 1
    refused(gzip.compress(data), "packed more than twice")


@pytest.mark.parametrize("build", [make.lamost_image, make.lamost_table, lambda: make.sdss(target=make.SPECOBJ)])
def test_a_truncated_fits_file_is_refused(build):
    data = build()
    for cut in (100, 2879, data.rindex(b"TFIELDS") if b"TFIELDS" in data else 2000, len(data) - 2880):
        refused(data[:cut], "truncated|damaged", name="cut.fits")


def test_a_header_that_claims_too_much_is_refused_before_memory_is_asked_for():
    data = make.lamost_image().replace(b"NAXIS1  =                   50", b"NAXIS1  =         990000000000"[:30])
    refused(data, "truncated|too large")


def test_one_pixel_is_refused():
    refused(make.image(1, CRVAL1=4000.0, CDELT1=1.0), "needs at least 2")
    refused(make.lamost_table(n=1), "needs at least 2")


def test_all_nan_flux_is_refused():
    rows = make.lamost_rows()
    rows[0] = np.nan
    refused(make.lamost_image(rows), "all NaN")


def test_all_zero_flux_is_read_with_a_warning():
    rows = make.lamost_rows()
    rows[:2] = 0
    (spectrum,) = read(make.lamost_image(rows))
    assert spectrum.warnings == ("all flux values are 0", "ivar is 0 everywhere: no good pixel")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89HDF\r\n\x1a\n" + b"x" * 50, "an HDF5 file, which is not read: export wavelength and flux"),
        (b"PAR1" + b"x" * 50, "the Parquet file is damaged"),
        (b"\x93NUMPY" + b"x" * 50, "bare .npy array"),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 50, "PNG image"),
        (b"%PDF-1.4\n", "PDF document"),
        ("# Flüsse\n4000 1\n".encode("latin-1"), "byte 4 is not UTF-8 text; save the file as UTF-8"),
        (b"\x00\x01\x02\x03" * 20, "binary data of no known format"),
    ],
)
def test_other_kinds_of_files_are_refused_by_name(data, reason):
    refused(data, reason, name="x")


def test_a_zip_of_something_else_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("star.fits", "x")
    refused(out.getvalue(), "a zip archive of star.fits, not an NPZ file")


@pytest.mark.parametrize("source", [None, 7, ["a.fits"], object()])
def test_what_is_no_file_is_refused(source):
    refused(source, "give a path, bytes, an open binary file or an HDUList")


def test_text_mode_and_closed_files_are_refused(tmp_path):
    path = tmp_path / "a.dat"
    path.write_text("4000 1\n4001 2\n")
    with open(path) as handle:
        refused(handle, r"open it in binary mode \('rb'\)")
    closed = open(path, "rb")  # noqa: SIM115
    closed.close()
    refused(closed, "is it closed")


def test_damaged_bytes_never_give_another_exception():
    """Seeded damage to each layout: cut, overwritten, or a piece taken out."""
    rng = np.random.default_rng(20240607)
    whole = [
        make.lamost_image(),
        make.lamost_table(),
        make.sdss(target=make.SPECOBJ),
        make.desi([7, 8], redshifts=make.redrock([(7, 0.1, 0, "STAR")])),
        make.image(40, CRVAL1=4000.0, CDELT1=2.0),
        b"# wavelength flux ivar\n" + b"4000.5 1.5 3\n4001.5 2.5 3\n" * 40,
        make.spspec(),
        make.spplate(["GALAXY", "SKY"]),
        make.mwm({"BOSS/APO": 2, "APOGEE/APO": 1}),
        make.multispec(["1 1 2 4380. 3.8 64 0. 1. 2. 1. 0. 1 3 1. 64. 4500. 120. -2."], np.ones((1, 64))),
        parquet_of(60),
        npz_of(60),
        b"# %ECSV 1.0\n# ---\n# datatype:\n# - {name: wavelength, unit: nm, datatype: float64}\n"
        b"# - {name: flux, datatype: float64}\n# schema: astropy-2.0\nwavelength flux\n" + b"400.5 1.5\n" * 40,
    ]
    outcomes = {"read": 0, "refused": 0}
    for data in whole:
        for _ in range(30):
            damaged = bytearray(data)
            at = int(rng.integers(len(damaged)))
            match int(rng.integers(3)):
                case 0:
                    del damaged[at:]
                case 1:
                    for place in rng.integers(0, len(damaged), 20):
                        damaged[place] = int(rng.integers(256))
                case 2:
                    del damaged[at : at + 700]
            for reader in (read, exposures):
                try:
                    reader(bytes(damaged))
                    outcomes["read"] += 1
                except SpectrumReadError:
                    outcomes["refused"] += 1
    assert sum(outcomes.values()) == 2 * 30 * len(whole)
    assert outcomes["refused"] > 200


def test_reading_closes_every_file_it_opened(tmp_path):
    good, bad = tmp_path / "good.fits.gz", tmp_path / "bad.fits"
    good.write_bytes(gzip.compress(make.sdss(target=make.SPECOBJ)))
    bad.write_bytes(make.lamost_image()[:3000])
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    read(good)
    refused(bad, "truncated|damaged")
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after == before


def test_the_callers_hdulist_is_left_as_it_was():
    hdus = fits.HDUList([make.with_cards(fits.PrimaryHDU(make.lamost_rows()[:, ::-1].copy()), make.LAMOST_CARDS)])
    before = hdus[0].data.copy()
    (spectrum,) = read(hdus)
    spectrum.flux[:] = 0
    np.testing.assert_array_equal(hdus[0].data, before)


def test_a_home_that_may_not_be_entered_is_no_obstacle(monkeypatch):
    """astropy looks below HOME while it is imported, and refuses where it may not."""
    real = os.stat

    def denying(path, *args, **options):
        if "locked" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args, **options)

    monkeypatch.setenv("HOME", "/locked/home")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/locked/config")
    monkeypatch.setattr(os, "stat", denying)
    with astropy_home.usable_home():
        inside = os.environ["HOME"]
        assert os.path.isdir(inside)
        assert "XDG_CONFIG_HOME" not in os.environ
    assert (os.environ["HOME"], os.environ["XDG_CONFIG_HOME"]) == ("/locked/home", "/locked/config")
    assert not os.path.exists(inside)
    monkeypatch.setenv("HOME", "/nowhere/at/all")
    with astropy_home.usable_home():
        assert os.environ["HOME"] == "/nowhere/at/all"  # a home that is missing is no trouble to astropy


def test_importing_the_room_does_not_import_astropy():
    code = "import sys, specvet.spectra; sys.exit('astropy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_table_that_claims_a_billion_columns_is_refused_at_once() -> None:
    """astropy would build them all: 69 kB of file, all of the memory."""
    good = make.desi([1])
    bad = good.replace(b"TFIELDS =                    5", b"TFIELDS =            999999999", 1)
    assert bad != good
    with pytest.raises(SpectrumReadError, match="999999999 columns, FITS allows 999"):
        read(bad)


def test_integer_nulls_are_no_flux_and_complex_flux_is_refused() -> None:
    columns = [fits.Column("wavelength", "D", array=np.linspace(4000.0, 5000.0, 60))]
    flux = np.arange(60, dtype=np.int32)
    flux[7] = -2147483648
    hdu = fits.BinTableHDU.from_columns([*columns, fits.Column("flux", "J", array=flux, null=-2147483648)])
    (spectrum,) = read(make.as_bytes(fits.PrimaryHDU(), hdu))
    assert np.flatnonzero(~np.isfinite(spectrum.flux)).tolist() == [7]
    hdu = fits.BinTableHDU.from_columns([*columns, fits.Column("flux", "M", array=flux + 1j)])
    with pytest.raises(SpectrumReadError, match="complex"):
        read(make.as_bytes(fits.PrimaryHDU(), hdu))


@pytest.mark.parametrize("loglam", [np.linspace(8.2, 9.1, 60), np.linspace(0.38, 0.92, 60)])
def test_a_logarithm_that_is_no_log10_of_angstrom_is_refused(loglam: np.ndarray) -> None:
    columns = [
        fits.Column(n, "D", array=a) for n, a in (("loglam", loglam), ("flux", np.ones(60)), ("ivar", np.ones(60)))
    ]
    with pytest.raises(SpectrumReadError, match="no log10 of Å"):
        read(make.as_bytes(fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns)))
