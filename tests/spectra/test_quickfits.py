"""FITS files read from their bytes: card by card, value by value and spectrum by spectrum what astropy gives."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spectrum_files as make
from astropy.io import fits
from fuzz_lab import same

from specvet.spectra import SpectrumReadError, exposures, read, readers
from specvet.spectra.opening import opened
from specvet.spectra.readers import fitsfile
from specvet.spectra.readers.quickfits import quick_hdus
from specvet.spectra.readers.quickheader import NotPlainError

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
EXAMPLES = Path(__file__).parents[2] / "examples" / "spectra"
real = pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")

SYNTHETIC = {
    "lamost-image": make.lamost_image(),
    "lamost-image of doubles": make.lamost_image(dtype=">f8", BUNIT="it's", Z=-1e-5, HELIO=False),
    "lamost-table": make.lamost_table(),
    "sdss": make.sdss(target=make.SPECOBJ),
    "sdss in capitals": make.sdss(upper=True, target={**make.SPECOBJ, "SPECOBJID": np.uint64(2**63 + 5)}),
    "desi": make.desi([1, 2, -3], redshifts=make.redrock([(1, 0.1, 0, "STAR"), (2, 0.2, 4, "QSO")])),
    "image": make.image(CRVAL1=4000.0, CDELT1=1.0, CTYPE1="WAVE", CUNIT1="Angstrom", BUNIT="Jy"),
    "spspec": make.spspec(),
    "spplate": make.spplate(["GALAXY", "SKY"]),
    "mwm": make.mwm({"BOSS/APO": 2, "APOGEE/LCO": 1}),
    "multispec": make.multispec(["1 1 0 4000. 2. 60 0. 1. 2."], np.ones((1, 60))),
}


def files() -> Iterator[tuple[str, bytes]]:
    yield from SYNTHETIC.items()
    for path in sorted(EXAMPLES.glob("*.fits*")):
        with opened(path) as plain:
            yield path.name, plain.stream.read()


def not_astropys(data: bytes) -> list[str]:
    """Where a file's quick HDUs and those of astropy differ; raises `NotPlainError` where there are none."""
    quick = quick_hdus(io.BytesIO(data), len(data))
    out = []
    with warnings.catch_warnings(), fits.open(io.BytesIO(data), memmap=False) as hdus:
        warnings.simplefilter("ignore")
        if len(hdus) != len(quick):
            return [f"{len(quick)} HDUs, {len(hdus)}"]
        for number, (ours, theirs) in enumerate(zip(quick, hdus, strict=True)):
            out += [f"HDU {number}: {what}" for what in _differences(ours, theirs)]
    return out


def _differences(ours, theirs) -> Iterator[str]:
    packed = type(theirs).__name__.startswith("CompImage")
    if ours.name != theirs.name or ours.is_table != isinstance(theirs, fits.BinTableHDU):
        yield f"{ours.name}, {ours.is_table}"
    if ours.fileinfo()["datLoc"] != theirs.fileinfo()["datLoc"] or (not packed and ours.size != theirs.size):
        yield f"data at {ours.fileinfo()}, {ours.size} bytes"
    for key in theirs.header:
        if key not in ("COMMENT", "HISTORY", "") and "." not in key:
            try:
                value = ours.header.get(key)
            except NotPlainError:
                continue
            expected = theirs.header.get(key)
            if type(value) is not type(expected) or (value != expected and value == value):
                yield f"{key} = {value!r}, {expected!r}"
    if not ours.is_table:
        if ours.shape != tuple(theirs.shape or ()):
            yield f"shape {ours.shape}"
        try:
            image, expected = ours.data, theirs.data
        except NotPlainError:
            return
        if (image is None) != (expected is None):
            yield "an image and none"
        elif image is not None and not (image.dtype.kind == expected.dtype.kind and same(image, expected)):
            yield "other pixels"


@pytest.mark.parametrize(("name", "data"), list(files()), ids=lambda value: value if isinstance(value, str) else "")
def test_cards_and_pixels_of_synthetic_files_are_those_of_astropy(name, data):
    assert not_astropys(data) == []


@pytest.mark.shared
@real
def test_cards_and_pixels_of_real_files_are_those_of_astropy():
    plain, others = 0, []
    for path in sorted(p for p in SHARED.rglob("*") if p.is_file()):
        with opened(path) as file:
            data = file.stream.read() if file.head(9) == b"SIMPLE  =" else b""
        if data:
            try:
                assert (path.name, not_astropys(data)) == (path.name, [])
                plain += 1
            except NotPlainError:
                others.append(path.name)
    assert plain > 200
    # BITPIX in free format.
    assert set(others) == {"m2.all.na.k.fits", "m4.all.na.k.fits"}


def through_astropy(monkeypatch, reader, source) -> list:
    """What a reader gives, or how it refuses, where no file is plain."""

    def never(*_):
        raise NotPlainError("test")

    with monkeypatch.context() as patch:
        patch.setattr(fitsfile, "quick_hdus", never)
        return spectra_or_refusal(reader, source)


def spectra_or_refusal(reader, source) -> list:
    try:
        return reader(source)
    except SpectrumReadError as error:
        return [str(error)]


def assert_same_both_ways(monkeypatch, source) -> None:
    for reader in (read, exposures):
        ours, theirs = spectra_or_refusal(reader, source), through_astropy(monkeypatch, reader, source)
        assert len(ours) == len(theirs)
        for one, two in zip(ours, theirs, strict=True):
            assert same(one, two), (one, two)


@pytest.mark.parametrize(("name", "data"), list(files()), ids=lambda value: value if isinstance(value, str) else "")
def test_synthetic_spectra_are_the_same_both_ways(monkeypatch, name, data):
    assert_same_both_ways(monkeypatch, data)


@pytest.mark.shared
@real
def test_real_spectra_are_the_same_both_ways(monkeypatch):
    seen: set[Path] = set()
    for path in sorted(p for p in SHARED.rglob("*.fits*") if p.is_file()):
        if sum(p.parent == path.parent for p in seen) < 4:  # some of each folder
            seen.add(path)
            assert_same_both_ways(monkeypatch, path)
    assert len(seen) > 40


@pytest.mark.parametrize("data", [make.lamost_image(), make.lamost_table(), make.sdss(target=make.SPECOBJ)])
def test_survey_files_need_no_astropy(monkeypatch, data):
    monkeypatch.setattr(fitsfile, "astropy_fits", None)
    assert len(read(data)) == 1


def with_card(card: str, n: int = 20, place: str = "CDELT1") -> bytes:
    """An image with a card of 80 characters in place of one that it has."""
    data = make.image(n, CRVAL1=4000.0, CDELT1=1.0, CTYPE1="WAVE", XXX=1.0)
    start = data.index(place.ljust(8).encode() + b"=")
    return data[:start] + card.encode("latin-1").ljust(80)[:80] + data[start + 80 :]


IMAGE = make.image(20, CRVAL1=4000.0, CDELT1=1.0, CTYPE1="WAVE")

NOT_PLAIN = {
    "a cut file": IMAGE[:-1],
    "bytes behind": IMAGE + b"\0" * 2880,
    "no END": IMAGE.replace(b"END     ", b"ENDE    "),
    "text behind END": IMAGE.replace(b"END     ", b"END x   "),
    "BITPIX in free format": with_card("BITPIX  = -32", place="BITPIX"),
    "an unknown BITPIX": with_card("BITPIX  =                   24", place="BITPIX"),
    "no pixels": with_card("NAXIS1  =                    0", place="NAXIS1"),
    "a negative axis": with_card("NAXIS1  =                   -5", place="NAXIS1"),
    "not SIMPLE": with_card("SIMPLE  =                    F", place="SIMPLE"),
    "a heap": make.as_bytes(
        fits.PrimaryHDU(),
        fits.BinTableHDU.from_columns(
            [fits.Column("flux", "PE()", array=np.array([np.ones(3), np.ones(4)], dtype=object))]
        ),
    ),
    "an ASCII table": make.as_bytes(fits.PrimaryHDU(), fits.TableHDU.from_columns([fits.Column("a", "I5", array=[1])])),
    "a compressed image": make.as_bytes(
        fits.PrimaryHDU(), fits.CompImageHDU(np.ones((4, 9), dtype="i4"), compression_type="RICE_1")
    ),
}


@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_left_to_astropy(data):
    with pytest.raises(NotPlainError):
        quick_hdus(io.BytesIO(data), len(data))


@pytest.mark.parametrize(
    "card",
    [
        "HIERARCH ESO DET = 5",
        "xxx     =                  1.0",
        "CRVAL1  =                 4001.0",  # repeated
        "COMMENTé",
    ],
)
def test_headers_with_such_cards_are_left_to_astropy(card):
    data = with_card(card, place="XXX")
    header = quick_hdus(io.BytesIO(data), len(data))[0].header
    for ask in (lambda: header.get("CRVAL1"), lambda: "CRVAL1" in header):
        with pytest.raises(NotPlainError):
            ask()


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("XXX     = 'it''s'               / quoted", "it's"),
        ("XXX     = '  a /b  '            / blanks in front stay", "  a /b"),
        ("XXX     = ''", ""),
        ("XXX     =                    T", True),
        ("XXX     =                    F / false", False),
        ("XXX     = +007", 7),
        ("XXX     = -1.5D2 / a double", -150.0),
        ("XXX     = .5", 0.5),
        ("XXX     = 1e3", 1000.0),
        ("XXX     =                       / no value", None),
        ("XXX     = 2015-01-01", NotPlainError),
        ("XXX     = (1.0, 2.0)", NotPlainError),
        ("XXX     = 'AXIS.1: 2'           / record-valued", NotPlainError),
        ("XXX     = 'open", NotPlainError),
        ("XXX     = 'a' b", NotPlainError),
        ("XXX       7", NotPlainError),
    ],
)
def test_a_card_has_astropys_value_or_is_left_to_it(card, expected):
    data = with_card(card, place="XXX")
    header = quick_hdus(io.BytesIO(data), len(data))[0].header
    if expected is NotPlainError:
        with pytest.raises(NotPlainError):
            header.get("XXX")
        return
    value = header.get("XXX")
    assert (type(value), value) == (type(expected), expected)
    assert fits.Header.fromstring(header.raw).get("XXX") == expected


@pytest.mark.parametrize("kind", ["i2", "i4", "u2", "u4", "u1"])
def test_masks_in_gzipped_tiles_are_read_as_desi_packs_them(kind):
    values = (np.arange(2 * 300).reshape(2, 300) % 7).astype(kind)
    data = make.as_bytes(fits.PrimaryHDU(), fits.CompImageHDU(values, compression_type="GZIP_1", name="B_MASK"))
    hdu = quick_hdus(io.BytesIO(data), len(data))[1]
    assert (hdu.name, hdu.is_table, hdu.shape) == ("B_MASK", False, (2, 300))
    assert np.array_equal(hdu.data, values)
    for start in range(data.index(b"\x1f\x8b"), len(data), 40):  # damage never gives other pixels
        damaged = data[:start] + bytes([data[start] ^ 0xFF]) + data[start + 1 :]
        try:
            pixels = quick_hdus(io.BytesIO(damaged), len(damaged))[1].data
        except NotPlainError:
            continue
        assert np.array_equal(pixels, values)


def test_a_table_whose_cards_only_astropy_can_read_is_read():
    data = make.sdss(target=make.SPECOBJ).replace(b"TTYPE1  = 'flux    '", b"TTYPE1  =  'flux'   ")
    assert read(data)[0].flux[0] == 1.0
    data = data.replace(b"TFORM1  = 'E       '", b"TZERO1  = (1.0, 2.0)")
    with pytest.raises(SpectrumReadError):
        read(data)


def test_a_reader_of_ones_own_may_ask_for_all_that_astropy_has(monkeypatch):
    asked: list[list[str]] = []

    def mine(file):
        asked.append([])
        asked[-1] += [repr(card) for card in file.primary.header.cards]
        return

    monkeypatch.setattr(readers, "FITS_READERS", [mine, *readers.FITS_READERS])
    assert read(make.lamost_image())[0].survey == "LAMOST"
    assert [len(cards) > 10 for cards in asked] == [False, True]
