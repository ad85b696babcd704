"""What fuzzing has found stays found, and a few hundred damaged files keep every promise of `read`.

`benchmarks/fuzz_readers.py` goes on from here for as long as it is given; what it finds becomes a file of `corpus/`,
made by it from the files of these tests, or a case below.
"""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spectrum_files as make
from fuzz_lab import check, outcome, unforeseen
from mutation_lab import kind_of, mutated

from specvet.spectra import Join, Spectrum, SpectrumReadError, read, write

CORPUS = Path(__file__).parent / "corpus"


def npz(**arrays) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def ecsv(tmp_path: Path, **fields) -> bytes:
    write(Spectrum(np.arange(4000.0, 4060.0), np.ones(60), np.ones(60), **fields), tmp_path / "a.ecsv")
    return (tmp_path / "a.ecsv").read_bytes()


def with_axes(n: str, data: bytes) -> bytes:
    """The file with NAXIS = n in its last HDU."""
    start = data.rindex(b"NAXIS   =")
    return data[:start] + b"NAXIS   = " + n.rjust(20).encode() + data[start + 30 :]


FOUND = {
    "ecsv-not-utf8.ecsv": "byte 175 of the ECSV table is no UTF-8; export it again",
    "npz-header-open.npz": "the NPZ archive is damaged .*; save it again",
    "npz-loglam-of-records.npz": "loglam holds no numbers; give log10 of the wavelength in Å",
    "npz-wavelength-of-bytes.npz": r"holds values of type \|V4 where numbers are expected; save them as numbers",
    "npz-wavelength-of-records.npz": "holds values of type .* where numbers are expected; save them as numbers",
    "parquet-name-not-utf8.parquet": "the Parquet file is damaged .*; download it again",
    "parquet-one-name-twice.parquet": "a Parquet file with two columns .*; rename one",
    "parquet-path-not-utf8.parquet": "the Parquet file is damaged .*; download it again",
    "text-bars.txt": "a single column of numbers; a spectrum needs wavelength and flux",
    "text-infinite-flux.txt": "1 pixels with a wavelength; a spectrum needs at least 2",
    "text-numbers-that-are-no-columns.txt": "a table with words in its columns, not a spectrum",
    "votable-damaged.xml": "the VOTable cannot be read .*; it is damaged, export it again",
    "votable-none.xml": "the VOTable cannot be read .*; it is damaged, export it again",
    "votable-version.xml": "the VOTable cannot be read .*; it is damaged, export it again",
}
"""File of `corpus/` → how it is refused."""


@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_a_file_that_fuzzing_found_is_refused_with_a_reason(name):
    assert re.fullmatch(f"refused: {FOUND[name]}", outcome((CORPUS / name).read_bytes()), re.DOTALL)


@pytest.mark.parametrize("n", ["1000", "2147483648", "9223372036854775808", "99999999999999999999", "+4000000000"])
@pytest.mark.parametrize("file", ["image", "table", "second"])
def test_an_hdu_of_very_many_axes_is_refused_at_once(n, file):
    """astropy counts them one by one, for hours."""
    data = {
        "image": make.image(CRVAL1=4000.0, CDELT1=1.0),
        "table": make.lamost_table(),
        "second": make.desi([1, 2]),
    }[file]
    assert re.search(rf"an HDU claims {n.lstrip('+')} axes, FITS allows 999; damaged", outcome(with_axes(n, data)))


def test_a_catalogue_of_very_many_axes_beside_a_coadd_is_left_out(tmp_path):
    (tmp_path / "coadd-a.fits").write_bytes(make.desi([1]))
    damaged = with_axes("2147483648", make.as_bytes(make.fits.PrimaryHDU(), make.redrock([(1, 0.1, 0, "STAR")])))
    (tmp_path / "redrock-a.fits").write_bytes(damaged)
    assert read(tmp_path / "coadd-a.fits")[0].redshift.value is None


@pytest.mark.parametrize("shape", [(0, 5), (0, 0), (3, 0)])
def test_an_archive_of_no_spectra_is_refused(shape):
    said = outcome(npz(wavelength=np.arange(4000.0, 4030.0), flux=np.ones(shape)))
    assert said == f"refused: flux has shape {shape} and type float64; numbers (n_pix,) expected"


def test_arrays_of_an_archive_with_fewer_rows_than_its_flux_are_refused():
    said = outcome(npz(wavelength=np.ones((2, 30)) * np.arange(4000.0, 4030.0), flux=np.ones((3, 30))))
    assert said == "refused: wavelength has 2 rows, flux 3; give each its own"


def test_a_table_without_rows_is_refused(tmp_path):
    text = ecsv(tmp_path)
    end = text.index(b"\n", text.lower().index(b"\nwavelength") + 1)
    assert outcome(text[: end + 1]) == "refused: the ECSV table has no rows; export it again"


@pytest.mark.parametrize("n", [2_000, 60_000])
def test_a_message_is_no_longer_than_people_read(n):
    word = "x" * n
    for data in (
        f"4000 {word}\n4001 {word}\n".encode(),
        f"wavelength,{word}\n4000,1\n".encode(),
        gzip.compress(f"# wavelength flux\n4000 {word} 3\n4001 {word} 3\n".encode()),
        npz(**{word: np.ones(3)}),
    ):
        with pytest.raises(SpectrumReadError) as caught:
            read(data)
        assert 10 < len(str(caught.value)) <= 1000


@pytest.mark.parametrize("kind", ["V4", "S4", "U4", "M8[s]", "O"])
@pytest.mark.parametrize("role", ["wavelength", "flux", "ivar", "mask"])
def test_arrays_that_are_no_numbers_are_refused(role, kind):
    arrays = {"wavelength": np.arange(4000.0, 4030.0), "flux": np.ones(30), "ivar": np.ones(30), "mask": np.zeros(30)}
    arrays[role] = np.full(30, b"word" if kind == "S4" else None if kind == "O" else 0).astype(kind)
    arrays[role] = np.full(30, "word", dtype=kind) if kind in ("U4", "S4") else arrays[role]
    said = outcome(npz(**arrays))
    assert said.startswith(("refused: ", "1 spectra"))
    assert not unforeseen(said)


def parquet() -> bytes:
    out = io.BytesIO()
    rows = {
        "wavelength": [[4000.0 + i for i in range(30)]] * 2,
        "flux": [[1.0 + i for i in range(30)]] * 2,
        "ivar": [[4.0] * 30] * 2,
        "id": ["a", "b"],
        "z": [0.1, None],
    }
    pq.write_table(pa.table(rows), out)
    return out.getvalue()


def seeds(tmp_path: Path) -> list[bytes]:
    """A small file of every layout."""
    pixels = "\n".join(f"{4000 + i} {1 + i % 7} 0.5" for i in range(40))
    return [
        make.lamost_image(),
        make.lamost_table(),
        make.sdss(target=make.SPECOBJ),
        make.desi([1, 2], redshifts=make.redrock([(1, 0.1, 0, "STAR"), (2, 0.2, 4, "QSO")])),
        make.image(CRVAL1=4000.0, CDELT1=1.0, CTYPE1="WAVE", CUNIT1="Angstrom"),
        make.spspec(),
        make.spplate(["GALAXY", "SKY"]),
        make.mwm({"BOSS/APO": 2}),
        make.multispec(["1 1 0 4000. 2. 60 0. 1. 2."], np.ones((1, 60))),
        make.as_bytes(make.fits.PrimaryHDU(), make.mrs_table("COADD_B", np.arange(4900.0, 4950.0), old=True)),
        f"# wavelength flux error\n{pixels}\n".encode(),
        pixels.replace(" ", ",").encode(),
        b"wavelength (nm);flux\n" + b"\n".join(b"%d,5;1,2" % (400 + i) for i in range(20)),
        npz(wavelength=np.arange(4000.0, 4030.0), flux=np.ones((2, 30)), ivar=np.ones((2, 30)), z=np.array([0.1, 0.2])),
        parquet(),
        ecsv(tmp_path),
        gzip.compress(make.lamost_image(), 1),
        gzip.compress(pixels.encode(), 1),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_read_or_refused_and_nothing_else(tmp_path, seed):
    rng, files = Random(seed), seeds(tmp_path)
    said = {"read": 0, "refused": 0}
    for data in files * 5:
        damaged = mutated(data, rng, files)
        what = outcome(damaged)
        said["refused" if what.startswith("refused") else "read"] += 1
    assert min(said.values()) > 10  # the damage is neither harmless nor hopeless


def test_the_seeds_themselves_are_read(tmp_path):
    files = seeds(tmp_path)
    assert {kind_of(data) for data in files} == {"fits", "text", "zip", "parquet", "packed"}
    for data in files:
        for spectrum in read(data):
            check(spectrum)


SAID = {
    'medium: "air"': ("medium: 1e300", lambda s: s.medium == "unknown"),
    'calibration: "relative"': ("calibration: [1, 2]", lambda s: s.calibration == "unknown"),
    "mjd: 5.0": ("mjd: .nan", lambda s: s.mjd is None),
}


@pytest.mark.parametrize("words", SAID)
def test_a_fact_that_cannot_be_is_unknown(tmp_path, words):
    damaged, is_unknown = SAID[words]
    text = ecsv(tmp_path, medium="air", calibration="relative", mjd=5.0)
    assert words.encode() in text
    assert is_unknown(read(text.replace(words.encode(), damaged.encode()))[0])
    assert not is_unknown(read(text)[0])


@pytest.mark.parametrize("join", ["", "5 4 x", "nan 4 x", "x y z", "4"])
def test_a_join_that_cannot_be_is_refused(tmp_path, join):
    text = ecsv(tmp_path, joins=(Join(4.0, 5.0, "x"),)).replace(b'join_1: "4.0 5.0 x"', f'join_1: "{join}"'.encode())
    assert "what it says of the spectrum is damaged" in outcome(text)


@pytest.mark.parametrize("flux", [1e-320, 1e-160, 1e150, 1e300, 1.7e308])
@pytest.mark.parametrize("wavelength", [1e-310, 1e-10, 4000.0, 1e300])
def test_numbers_near_the_ends_of_what_there_is_give_no_warning(flux, wavelength):
    grid = wavelength * (1.0 + np.arange(40.0) / 1000)
    for values in (np.full(40, flux), np.linspace(-flux / 2, flux / 2, 40), flux * np.cos(np.arange(40.0))):
        for errors in ({}, {"ivar": np.full(40, 1e300)}, {"ivar": np.full(40, 1e-300)}):
            said = outcome(npz(wavelength_AA=grid, flux=values, **errors))
            assert said.startswith(("1 spectra", "refused: no flux value", "refused: values"))


def test_the_logarithm_of_a_wavelength_is_judged_in_every_layout():
    table = make.mrs_table("COADD_B", np.arange(4900.0, 4950.0), old=True)
    table.data["LOGLAM"] -= 310.0
    assert outcome(make.as_bytes(make.fits.PrimaryHDU(), table)).endswith("give log10 of the wavelength in Å")


def test_a_damaged_file_gives_the_same_from_disk_as_from_memory(tmp_path):
    """A negative length sends astropy to a place before the first byte, where a file and a buffer fail differently."""
    good = make.spspec()
    start = good.index(b"XTENSION", good.index(b"XTENSION") + 1)
    for key in ("NAXIS1", "NAXIS2", "PCOUNT", "GCOUNT"):
        at = good.index(key.ljust(8).encode() + b"=", start)
        for value in (-1, -5, -1000, -(10**9), 10**9):
            damaged = good[:at] + f"{key:8}= {value:20d}".encode() + good[at + 30 :]
            (tmp_path / "a.fits").write_bytes(damaged)
            assert from_disk(tmp_path / "a.fits") == outcome(damaged).partition(", layout")[0]


def from_disk(path: Path) -> str:
    try:
        return f"{len(read(path))} spectra"
    except SpectrumReadError as error:
        return f"refused: {error.problem}"


def test_an_hdu_of_negative_length_is_refused_at_once():
    """astropy goes back by that length, and reads the same HDUs for ever."""
    good = make.spspec()
    start = good.index(b"XTENSION", good.index(b"XTENSION") + 1)
    at = good.index(b"NAXIS2  =", start)
    said = [outcome(good[:at] + f"NAXIS2  = {-n:20d}".encode() + good[at + 30 :]) for n in (400, 1000, 1200, 1500)]
    assert set(said) == {"refused: HDU 2 states a negative length; download the file again"}


def test_an_iraf_image_without_lines_is_refused():
    data = make.multispec(["1 1 0 4000. 2. 60 0. 1. 2."], np.ones((1, 60)))
    at = data.index(b"NAXIS2  =")
    end = -(-data.index(b"END     ") // 2880) * 2880
    said = outcome(data[:at] + f"NAXIS2  = {0:20d}".encode() + data[at + 30 : end])
    assert said == "refused: an IRAF image of shape (0, 60) has no pixels; damaged header?"


def test_a_plate_that_is_no_number_is_no_name():
    spectrum = read(make.sdss(target=make.SPECOBJ | {"PLATE": "word"}))[0]
    assert (spectrum.id, spectrum.ids["plate"]) == ("299492975510054912", "word")


@pytest.mark.parametrize("key", ["BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "PCOUNT", "GCOUNT"])
def test_a_length_in_quotes_is_refused_at_once(key):
    """astropy multiplies with it, and Python repeats the text as often as the other lengths say."""
    data = make.lamost_table()
    at = data.rindex(key.ljust(8).encode() + b"=")
    said = outcome(data[:at] + f"{key:8}= '5       '".encode().ljust(80) + data[at + 80 :])
    assert said == f"refused: {key} is no number; the header is damaged, download it again"


def test_an_arm_of_other_shapes_is_refused():
    wave = np.arange(4900.0, 4950.0)
    columns = [make.fits.Column(n, "50D", array=np.ones((3, 50)) * wave) for n in ("FLUX", "IVAR", "WAVELENGTH")]
    table = make.fits.BinTableHDU.from_columns(columns, name="COADD_B")
    said = outcome(make.as_bytes(make.fits.PrimaryHDU(), table))
    assert said.startswith("refused: wavelength, flux, ivar and mask of HDU COADD_B have the shapes (3, 50)")


def test_templates_without_a_scale_are_refused():
    primary = make.with_cards(make.fits.PrimaryHDU(np.ones((2, 9))), {"RRTYPE": "STAR", "LOGLAM": True, "CRVAL1": 3.5})
    assert "templates without a wavelength scale" in outcome(make.as_bytes(primary))


def test_a_signalling_nan_is_hashed_in_silence():
    wave, flux = np.arange(4000.0, 4040.0), np.ones(40)
    flux.view(np.uint64)[3] = 0x7FF0000000000001
    assert outcome(npz(wavelength=wave, flux=flux)).startswith("1 spectra")
