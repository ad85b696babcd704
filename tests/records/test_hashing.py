"""Hashes that two machines agree on."""

from __future__ import annotations

import numpy as np

from specvet.records import array_hash, bytes_hash, file_hash, text_hash
from specvet.records.hashing import rounded


def test_last_bits_do_not_change_the_hash():
    flux = np.linspace(1e-17, 5e-17, 3000)
    assert array_hash(flux) == array_hash(flux * (1 + 4 * np.finfo(float).eps))


def test_a_change_of_two_in_ten_thousand_changes_the_hash():
    flux = np.array([1.0, 2.0, 3.0])
    assert array_hash(flux) != array_hash(flux * [1, 1.0002, 1])


def test_rounding_moves_no_value_by_more_than_1e_5_relative():
    values = np.concatenate([np.geomspace(1e-300, 1e300, 5001), -np.geomspace(1e-300, 1e300, 5001)])
    assert np.max(np.abs(rounded(values) / values - 1)) <= 1e-5


def test_rounding_twice_is_rounding_once():
    values = np.random.default_rng(1).normal(size=10_000)
    assert np.array_equal(rounded(rounded(values)), rounded(values))


def test_minus_zero_is_zero():
    assert array_hash(np.array([0.0, 1.0])) == array_hash(np.array([-0.0, 1.0]))


def test_every_nan_is_one_nan_and_differs_from_infinity_and_zero():
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000123], dtype=np.uint64).view(np.float64)
    assert array_hash(odd) == array_hash(np.array([np.nan, np.nan]))
    assert len({array_hash(np.array([x])) for x in (np.nan, np.inf, -np.inf, 0.0)}) == 4


def test_shape_counts():
    values = np.arange(6.0)
    assert len({array_hash(values), array_hash(values.reshape(2, 3)), array_hash(values.reshape(3, 2))}) == 3
    assert array_hash(values[:3], values[3:]) != array_hash(values)


def test_type_and_byte_order_do_not_count():
    values = np.arange(1.0, 9.0)
    big_endian = values.astype(">f8")
    assert (
        array_hash(values) == array_hash(big_endian) == array_hash(values.astype(np.float32)) == array_hash(values[:])
    )


def test_float32_and_float64_of_one_spectrum_agree():
    flux = np.array([0.5, 0.25, 3.0, 7.5])
    assert array_hash(flux.astype(np.float32)) == array_hash(flux)


def test_hashing_does_not_change_its_argument():
    values = np.array([np.pi, -0.0, np.nan])
    before = values.tobytes()
    array_hash(values)
    assert values.tobytes() == before


def test_text_is_hashed_as_utf_8(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("Hα 6563 Å".encode())
    assert text_hash("Hα 6563 Å") == bytes_hash("Hα 6563 Å".encode()) == file_hash(path)


def test_the_grid_is_that_of_a_mantissa_of_18_bits_rounded_to_even():
    bits = np.random.default_rng(3).integers(0, 2**64, 100_000, dtype=np.uint64)
    values = np.concatenate(
        [bits.view(np.float64), [0.0, 1.0, 1 + 2.0**-18, 1 + 3 * 2.0**-18, -1 - 2.0**-18, 2 - 2.0**-19]]
    )
    values = values[np.isfinite(values) & (np.abs(values) > 1e-307) & (np.abs(values) < 1e308)]
    mantissa, exponent = np.frexp(values)
    assert np.array_equal(rounded(values), np.ldexp(np.round(mantissa * 2.0**18) / 2.0**18, exponent))


def test_the_hash_of_a_spectrum_stays_what_it_was():
    wavelength, flux = (
        np.linspace(3700, 9100, 11),
        np.array([1e-17, -2.5, np.nan, np.inf, 0.0, -0.0, 1 / 3, 7, 8, 9, 1e300]),
    )
    assert array_hash(wavelength, flux) == "4bd90fc894ba72e5e48600d4290a18bcde1c70203cadff2dbb8853b72958ad93"
