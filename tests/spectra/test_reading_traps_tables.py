"""Parquet, NPZ, VOTable, records and specutils: names, masks, units and identifiers that are easily confused."""

from __future__ import annotations

import decimal
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy import units as u
from astropy.io import fits
from astropy.io.votable import from_table, tree
from astropy.table import MaskedColumn, Table

from specvet.spectra import Join, Redshift, Spectrum, SpectrumReadError, from_record, read
from specvet.spectra.units import flux_unit

N = 120
WAVE = 3800.0 + 2.0 * np.arange(N)
FLUX = 1.0 + 0.001 * np.arange(N)
SKY = 50.0 + 0.01 * np.arange(N)


def parquet(**columns) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def npz(**arrays) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def binary_table(**columns) -> bytes:
    out = io.BytesIO()
    fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU(Table(columns))]).writeto(out)
    return out.getvalue()


def csv(**columns) -> bytes:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(lines).encode()


def votable(**columns) -> bytes:
    out = io.BytesIO()
    from_table(Table(columns)).to_xml(out)
    return out.getvalue()


WRITERS = {"fits": binary_table, "parquet": parquet, "npz": npz, "csv": csv, "votable": votable}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("other", ["counts", "spec", "f", "flux_norm", "intensity"])
def test_every_reader_takes_the_column_named_flux(kind, other):
    (spectrum,) = read(WRITERS[kind](wavelength=WAVE, **{other: SKY}, flux=FLUX))
    np.testing.assert_array_equal(spectrum.flux, FLUX)
    np.testing.assert_array_equal(from_record({"wavelength": WAVE, other: SKY, "flux": FLUX}).flux, FLUX)


FIRST, SECOND = 4295806720000000001, 4295806720000000002


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("shift", [0.0, 0.3])
@pytest.mark.parametrize("mixed", [False, True])
def test_rows_of_two_stars_are_two_spectra(kind, shift, mixed):
    ids, waves = np.repeat([FIRST, SECOND], N), np.concatenate([WAVE, WAVE + shift])
    order = np.argsort(waves, kind="stable") if mixed else np.arange(2 * N)
    flux = np.concatenate([FLUX, 50 * FLUX])
    found = read(WRITERS[kind](source_id=ids[order], wavelength=waves[order], flux=flux[order]))
    assert [(s.id, s.row, s.ids["source_id"]) for s in found] == [
        (str(FIRST), 0, str(FIRST)),
        (str(SECOND), 1, str(SECOND)),
    ]
    np.testing.assert_allclose(found[1].wavelength, WAVE + shift)
    np.testing.assert_allclose(found[1].flux, 50 * FLUX)
    assert not [w for w in found[0].warnings if "sorted" in w or "repeated" in w]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_rows_of_two_stars_that_nothing_tells_apart_are_refused(kind, shift):
    waves, flux = np.concatenate([WAVE, WAVE + shift]), np.concatenate([FLUX, SKY])
    with pytest.raises(SpectrumReadError, match="start again over the same range"):
        read(WRITERS[kind](wavelength=waves, flux=flux))


@pytest.mark.parametrize("kind", WRITERS)
def test_lines_of_many_stars_and_broad_bands_are_no_spectra(kind):
    lines = {"wavelength": np.repeat([6562.8, 4861.3, 5006.8], 50), "flux": np.ones(150), "error": np.ones(150)}
    with pytest.raises(SpectrumReadError, match="147 of 150 wavelengths repeat"):
        read(WRITERS[kind](id=np.arange(150), **lines))
    with pytest.raises(SpectrumReadError, match="as far apart as photometric bands"):
        read(WRITERS[kind](wavelength=np.array([4400.0, 5500.0, 6600.0, 8000.0, 12500.0]), flux=np.ones(5)))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_column_that_counts_is_no_wavelength(kind):
    with pytest.raises(SpectrumReadError, match="numbers of pixels"):
        read(WRITERS[kind](wavelength=np.arange(1.0, 3001.0), flux=np.ones(3000)))


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["a", "b"]),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"], pa.string_view()),
        pa.array([b"a", b"b"]),
        pa.array([b"a", b"b"], pa.binary(1)),
    ],
    ids=lambda array: str(array.type)[:12],
)
def test_identifiers_of_every_arrow_type_are_read(ids):
    found = read(parquet(object_id=ids, wavelength=[WAVE] * 2, flux=[FLUX] * 2), name="stars.parquet")
    assert [(s.id, s.ids) for s in found] == [("a", {"object_id": "a"}), ("b", {"object_id": "b"})]


def test_decimal_identifiers_keep_their_digits():
    ids = pa.array([decimal.Decimal(12345678901234567890), decimal.Decimal(5)], pa.decimal128(20, 0))
    found = read(parquet(object_id=ids, wavelength=[WAVE] * 2, flux=[FLUX] * 2))
    assert [s.id for s in found] == ["12345678901234567890", "5"]


def test_z_beside_g_r_and_i_is_a_magnitude():
    bands = {"g": 17.5, "r": 17.0, "i": 16.8, "z": 0.4}
    cells = {band: [value] for band, value in bands.items()}
    for spectrum in (
        read(parquet(**cells, wavelength=[WAVE], flux=[FLUX]))[0],
        read(npz(**bands, wavelength=WAVE, flux=FLUX))[0],
        from_record(bands | {"wavelength": WAVE, "flux": FLUX}),
    ):
        assert spectrum.redshift == Redshift()
    both = from_record(bands | {"redshift": 0.1, "wavelength": WAVE, "flux": FLUX})
    assert (both.redshift.value, both.redshift.source) == (0.1, "redshift")
    assert from_record({"z": 0.4, "wavelength": WAVE, "flux": FLUX}).redshift.value == 0.4


def test_two_spectra_side_by_side_are_not_dropped_in_silence():
    struct = {"blue": [{"wavelength": WAVE, "flux": FLUX}], "red": [{"wavelength": WAVE + 5000, "flux": FLUX}]}
    assert read(parquet(**struct))[0].warnings[0] == "further spectra of each row ignored: red"
    file = tree.VOTableFile()
    file.resources.append(tree.Resource())
    for start in (0.0, 5000.0):
        part = from_table(Table({"wavelength": (WAVE + start) * u.AA, "flux": FLUX})).get_first_table()
        file.resources[0].tables.append(part)
    out = io.BytesIO()
    file.to_xml(out)
    (spectrum,) = read(out.getvalue())
    assert (spectrum.wave_min, spectrum.warnings[0]) == (3800.0, "further tables ignored: TABLE 2")


# Records


@pytest.mark.parametrize("wrap", [np.ma.array, lambda data, mask: MaskedColumn(data, mask=mask)])
def test_what_is_masked_in_a_record_is_a_bad_pixel(wrap):
    mask = np.arange(N) < 3
    values = np.where(mask, 1e20, FLUX)
    spectrum = from_record({"wavelength": WAVE, "flux": wrap(values, mask=mask), "ivar": wrap(values, mask=mask)})
    assert np.isnan(spectrum.flux[:3]).all()
    assert spectrum.good.tolist() == (~mask).tolist()
    assert spectrum.ivar[:3].tolist() == [0.0, 0.0, 0.0]


def test_masked_cells_of_a_record_say_nothing():
    record = {"wavelength": WAVE, "flux": FLUX, "targetid": np.ma.masked, "z": np.ma.masked, "ra": np.ma.masked}
    spectrum = from_record(record)
    assert (spectrum.id, spectrum.ids, spectrum.redshift.value, spectrum.ra) == ("", {}, None, None)


@pytest.mark.parametrize(("unit", "factor"), [(u.nm, 10.0), (u.um, 1e4), (u.AA, 1.0)])
def test_a_quantity_is_in_its_own_unit(unit, factor):
    spectrum = from_record({"wavelength": (WAVE / factor) * unit, "flux": FLUX * u.Jy})
    np.testing.assert_allclose(spectrum.wavelength, WAVE)
    assert spectrum.flux_unit == "Jy"


# Units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MJy", u.MJy),
        ("mJy", u.mJy),
        ("1e-17 erg / (Angstrom s cm2)", 1e-17 * u.erg / u.AA / u.s / u.cm**2),
        ("erg/(A s cm2)", u.erg / u.AA / u.s / u.cm**2),
        ("(1e-17 erg/s/cm2)/A", 1e-17 * u.erg / u.AA / u.s / u.cm**2),
        ("erg/s/(cm^2)/A", u.erg / u.AA / u.s / u.cm**2),
        ("10(-17) erg s(-1) cm(-2) A(-1)", 1e-17 * u.erg / u.AA / u.s / u.cm**2),
        ("erg s^(-1) cm^{-2} A^-1", u.erg / u.AA / u.s / u.cm**2),
        ("MJY", None),
        ("relative flux (Å)", None),
        ("Flux (Angstrom)", None),
    ],
)
def test_units_keep_their_size_and_their_brackets(text, expected):
    found = flux_unit(text)
    assert found is None if expected is None else (1 * found).to_value(expected) == pytest.approx(1.0)


# specutils


def native() -> Spectrum:
    return Spectrum(
        WAVE,
        FLUX,
        np.full(N, 4.0),
        np.arange(N),
        medium="vacuum",
        flux_unit="1e-17 erg / (Angstrom s cm2)",
        calibration="absolute",
        frame="heliocentric",
        redshift=Redshift(0.1, None, "header Z"),
        joins=(Join(3900.0, 3910.0, "blue/red"),),
    )


def test_a_slice_of_specutils_comes_back_with_its_own_mask():
    pytest.importorskip("specutils", reason="specutils is not installed (pip install specutils)")
    back = Spectrum.from_specutils(native().to_specutils()[10:20])
    assert back.mask.tolist() == list(range(10, 20))
    assert (back.frame, back.redshift.value, back.calibration, back.warnings) == ("heliocentric", 0.1, "absolute", ())


def test_a_unit_goes_through_specutils_and_back_twice():
    pytest.importorskip("specutils", reason="specutils is not installed (pip install specutils)")
    once = Spectrum.from_specutils(native().to_specutils())
    assert once.to_specutils().flux.unit == 1e-17 * u.erg / u.AA / u.s / u.cm**2


def test_shifted_wavelengths_leave_no_stale_frame_or_redshift():
    pytest.importorskip("specutils", reason="specutils is not installed (pip install specutils)")
    moved = native().to_specutils()
    moved.shift_spectrum_to(radial_velocity=1000 * u.km / u.s)
    back = Spectrum.from_specutils(moved)
    assert back.wave_min > 3805.0
    assert (back.frame, back.redshift, back.joins, back.mask) == ("unknown", Redshift(), (), None)
    assert "the wavelengths were changed since it was read" in back.warnings[-1]


def test_a_divided_flux_is_not_calibrated():
    pytest.importorskip("specutils", reason="specutils is not installed (pip install specutils)")
    one = native().to_specutils()
    back = Spectrum.from_specutils(one / (5 * one.flux.unit))
    assert (back.flux_unit, back.calibration) == ("", "unknown")
