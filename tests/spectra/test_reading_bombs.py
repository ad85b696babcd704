"""Files that unpack to more than they look: memory stays small, and nothing stays on the disk."""

from __future__ import annotations

import bz2
import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import spectrum_files as make

from specvet.spectra import SpectrumReadError, opening, read
from specvet.spectra.readers import npz


def refused(source, reason: str) -> None:
    with pytest.raises(SpectrumReadError, match=reason):
        read(source)


def npz_of(n: int) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, wavelength=4000.0 + np.arange(n), flux=np.arange(float(n)))
    return out.getvalue()


def test_a_bomb_stops_at_the_limit(monkeypatch):
    monkeypatch.setattr(opening, "MAX_BYTES", 3 * 2**20)
    refused(gzip.compress(b" " * 10 * 2**20), "gives more than 3145728 bytes")
    refused(bz2.compress(b" " * 10 * 2**20), "gives more than 3145728 bytes")
    refused(io.BytesIO(b" " * 10 * 2**20), "gives more than 3145728 bytes")


def test_a_large_packed_file_lies_on_disk_and_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setattr(opening, "MAX_IN_MEMORY", 1000)
    monkeypatch.setattr(opening.tempfile, "tempdir", str(tmp_path))
    made: list[str] = []
    original = opening.tempfile.mkstemp

    def listening(**options):
        handle, name = original(**options)
        made.append(name)
        return handle, name

    monkeypatch.setattr(opening.tempfile, "mkstemp", listening)
    data = make.sdss(target=make.SPECOBJ)
    plain = read(data)[0].content_hash
    for source in (gzip.compress(data), io.BytesIO(data), io.BytesIO(bz2.compress(data))):
        assert read(source)[0].content_hash == plain
    refused(gzip.compress(data[:-3000]), "truncated")
    assert len(made) >= 4
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(opening, "MAX_IN_MEMORY", 1000)
    monkeypatch.setattr(opening.tempfile, "mkstemp", full)
    refused(gzip.compress(make.lamost_image()), "no room in .* to unpack it; unpack it yourself, or set TMPDIR")


def test_what_is_no_fits_file_may_be_no_larger_than_a_text(monkeypatch):
    monkeypatch.setattr(opening, "MAX_TEXT_BYTES", 2**21)
    refused(gzip.compress(b"4000 1\n" * 2**19), "gives more than 2097152 bytes of what is no FITS, NPZ or Parquet file")
    monkeypatch.setattr("specvet.spectra.readers.text.MAX_LINES", 100)
    refused(b"4000 1\n" * 300, "more than 100 lines are no text spectrum")


def test_an_array_that_claims_too_much_is_refused_before_memory_is_asked_for(monkeypatch):
    """numpy allocates what the header of an array claims before it reads a value."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("wavelength", "flux"):
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
            archive.writestr(f"{name}.npy", head.getvalue())
    refused(out.getvalue(), "its arrays take more than 536870912 bytes; split it")
    monkeypatch.setattr(npz, "MAX_NPZ_BYTES", 900)
    refused(npz_of(60), "its arrays take more than 900 bytes")


@pytest.mark.skipif(sys.platform == "win32", reason="the peak of memory is asked of POSIX")
def test_bombs_cost_no_memory(tmp_path):
    """A gzip of 256 MiB of blanks, and a FITS image of 2**27 bytes that would be 1 GiB as floats."""
    code = """
import gzip, resource, sys
import numpy as np
from astropy.io import fits
from specvet.spectra import SpectrumReadError, read
folder = sys.argv[1]
read(b"4000 1\\n4001 2\\n")
with gzip.open(folder + "/blanks.gz", "wb", 1) as out:
    for _ in range(32):
        out.write(b" " * 2**23)
header = fits.PrimaryHDU(np.zeros((2, 9), dtype="u1")).header
header["NAXIS1"] = 2**26
header["CRVAL1"], header["CDELT1"], header["ROW1"], header["ROW2"] = 4000.0, 1.0, "flux", "error"
with gzip.open(folder + "/image.gz", "wb", 1) as out:
    out.write(header.tostring().encode())
    for _ in range(17):
        out.write(bytes(2**23))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in ("blanks.gz", "image.gz"):
    try:
        read(folder + "/" + name)
        print(name, "was read")
    except SpectrumReadError as error:
        print(str(error).rpartition(name + ": ")[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    blanks, image, grown = done.stdout.strip().splitlines()
    assert blanks.startswith("gzip gives more than 67108864 bytes of what is no FITS")
    assert "too large for spectra" in image
    assert int(grown) < 250  # MB: 64 in memory before the rest goes to disk, and copies of that
