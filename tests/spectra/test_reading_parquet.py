"""Parquet spectra, SpecVI-Bench among them, and single records such as SPARCL's."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specvet import from_record
from specvet.spectra import SpectrumReadError, read
from specvet.spectra.readers import parquet

W = np.round(10.0 ** (3.5682 + 1e-4 * np.arange(300)), 3)
FLUX = np.arange(300.0)


def packed(table, **options) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def bench(redshifts: list[float | None], names: list[str] | None = None) -> bytes:
    """Rows as SpecVI-Bench has them."""
    rows = [
        {
            "images": [{"bytes": b"png", "path": None}],
            "data_source": "cv",
            "prompt": [{"role": "user", "content": "<image>\n"}],
            "reward_model": {"ground_truth": "YES", "type": "rule"},
            "agent_name": "tool_agent",
            "extra_info": {
                "index": f"0e7c-{row}",
                "name": (names or ["spec-57391-KP061029N225952V01_sp06-096.fits.gz"] * 9)[row],
                "tools_kwargs": {
                    "spectral_visualization_tool": {
                        "create_kwargs": {"wavelength": W.tolist(), "flux": (FLUX + row).tolist(), "redshift": z}
                    }
                },
            },
        }
        for row, z in enumerate(redshifts)
    ]
    return packed(pa.Table.from_pylist(rows))


def test_a_row_of_specvi_bench_is_a_lamost_spectrum_in_vacuum_with_its_name_and_redshift():
    first, second = read(bench([-0.00021, -9999.0]), name="test_cv.parquet")
    np.testing.assert_array_equal(first.wavelength, W)
    np.testing.assert_array_equal(second.flux, FLUX + 1)
    assert (first.id, first.ids["index"]) == ("spec-57391-KP061029N225952V01_sp06-096.fits.gz", "0e7c-0")
    assert (first.redshift.value, first.redshift.source) == (-0.00021, "SpecVI-Bench redshift")
    assert (second.redshift.value, second.redshift.source) == (None, "")
    assert (first.survey, first.medium, first.frame, first.release) == (
        "LAMOST",
        "vacuum",
        "heliocentric",
        "SpecVI-Bench",
    )
    assert first.joins == ()  # 3700 to 3964 Å does not reach the join
    assert [(s.row, s.layout) for s in (first, second)] == [(0, "parquet"), (1, "parquet")]


def test_a_bench_row_whose_name_is_none_of_lamosts_has_an_unknown_medium():
    (spectrum,) = read(bench([0.0], ["my star"]))
    assert (spectrum.survey, spectrum.medium, spectrum.id) == ("unknown", "unknown", "my star")


def test_rows_with_lists_are_entries_with_their_own_facts():
    table = pa.table(
        {
            "object_id": pa.array([2**63 + 5, 7], pa.uint64()),
            "ra": [10.5, 11.5],
            "dec": [-1.0, 2.0],
            "Z": [0.1, -9999.0],
            "ZWARN": [4, 0],
            "wavelength": [W.tolist(), W[:50].tolist()],
            "flux": pa.array([FLUX.tolist(), FLUX[:50].tolist()], pa.list_(pa.float32())),
            "ivar": [np.full(300, 4.0).tolist(), np.full(50, 1.0).tolist()],
            "mask": pa.array([[1] * 300, [2**40] * 50], pa.list_(pa.int64())),
        }
    )
    first, second = read(packed(table))
    assert (first.id, second.id) == ("9223372036854775813", "7")
    assert (first.redshift.value, first.redshift.warning) == (0.1, "z_warning=4")
    assert second.redshift.value is None
    assert (second.n_pix, second.ivar[0], second.mask[0]) == (50, 1.0, 2**40)
    assert (first.ra, first.dec) == (10.5, -1.0)
    assert first.flux.dtype == np.float64
    assert first.flux.flags.writeable


@pytest.mark.parametrize("kind", [pa.list_(pa.float64(), 3), pa.large_list(pa.float64())])
def test_lists_of_every_kind_are_read(kind):
    table = pa.table({"wave": pa.array([[4000.0, 4001.0, 4002.0]], kind), "flux": pa.array([[1.0, 2.0, 3.0]], kind)})
    (spectrum,) = read(packed(table), name="one.parquet")
    np.testing.assert_array_equal(spectrum.flux, [1.0, 2.0, 3.0])
    assert spectrum.id == "one"


def test_a_row_a_pixel_is_one_spectrum_and_nulls_are_bad():
    table = pa.table({"wave_nm": W / 10, "flux": [None, *FLUX[1:]], "err": np.full(300, 0.5)})
    (spectrum,) = read(packed(table), name="star.parquet")
    np.testing.assert_allclose(spectrum.wavelength, W)
    assert np.isnan(spectrum.flux[0])
    assert (spectrum.ivar[0], spectrum.ivar[1], spectrum.id) == (0.0, 4.0, "star")


def test_rows_come_in_the_order_of_the_file_across_batches_and_row_groups():
    n = 3 * parquet._BATCH + 5
    table = pa.table({"name": [f"s{i}" for i in range(n)], "wave": [W[:4].tolist()] * n})
    table = table.append_column("flux", pa.array([[float(i)] * 4 for i in range(n)]))
    found = read(packed(table, row_group_size=100))
    assert [(s.id, s.row, s.flux[0]) for s in found] == [(f"s{i}", i, float(i)) for i in range(n)]


def test_images_and_prompts_are_never_unpacked(monkeypatch):
    asked: list[list[str]] = []
    original = pq.ParquetFile.iter_batches

    def listening(self, *args, columns=None, **options):
        asked.append(columns)
        return original(self, *args, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", listening)
    read(bench([0.0]))
    assert not any(path.startswith(("images", "prompt")) for path in asked[0])


def test_values_never_become_python_numbers():
    """Lists of floats would take 32 bytes a value and more; arrays take 8."""
    n, rows = 5000, 100
    values = pa.array(np.random.default_rng(0).normal(4000.0, 1.0, n * rows))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, n * rows + 1, n, dtype=np.int32)), values)
    grid = pa.array([(4000.0 + np.arange(n)).tolist()] * rows)
    data = packed(pa.table({"wavelength": grid, "flux": lists}))
    read(packed(pa.table({"wavelength": [[4000.0, 4001.0]], "flux": [[1.0, 2.0]]})))
    tracemalloc.start()
    try:
        found = read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = sum(s.wavelength.nbytes + s.flux.nbytes for s in found)
    assert kept == 2 * 8 * n * rows
    assert peak < 2.5 * kept


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (
            pa.table({"flux": [[1.0]], "teff": [1.0]}),
            r"without columns of wavelength and flux side by side .*flux, teff",
        ),
        (pa.table({"path": ["a.fits"], "z": [0.1]}), "a Parquet list of files, not spectra"),
        (
            pa.table({"wave": pa.array([], pa.list_(pa.float64())), "flux": pa.array([], pa.list_(pa.float64()))}),
            "no rows",
        ),
        (
            pa.table({"wave": [[4000.0, 4001.0], None], "flux": [[1.0, 2.0], [1.0]]}),
            "row 1 has no wavelength or no flux",
        ),
        (pa.table({"wave": [[4000.0, 4001.0]], "flux": [[1.0, 2.0, 3.0]]}), "flux has shape"),
        (pa.table({"wave": [4000.0, 4001.0], "flux": ["a", "b"]}), "without columns of wavelength and flux"),
    ],
)
def test_a_parquet_file_that_is_no_spectra_is_refused_with_the_reason(table, reason):
    with pytest.raises(SpectrumReadError, match=reason) as caught:
        read(packed(table), name="x.parquet")
    assert str(caught.value).startswith("x.parquet: ")


def test_values_that_take_no_room_in_the_file_are_counted_before_they_are_unpacked(monkeypatch):
    zeros = pa.table({"wave": [[4000.0] * 5000] * 20, "flux": [[0.0] * 5000] * 20})
    data = packed(zeros, compression="zstd")
    assert len(data) < 20_000
    monkeypatch.setattr(parquet, "MAX_VALUES", 99_999)
    with pytest.raises(SpectrumReadError, match="100000 values in one column; 99999 are read, split it"):
        read(data)


def test_a_truncated_parquet_file_is_refused():
    data = bench([0.0, 0.0])
    for cut in (10, len(data) // 2, len(data) - 4):
        with pytest.raises(SpectrumReadError, match="damaged"):
            read(data[:cut])


# Records


SPARCL = {
    "sparcl_id": "00000f0b-07db-4234-892a-6e347db79c89",
    "specid": 299492975510054912,
    "targetid": 39627866878511337,
    "data_release": "DESI-EDR",
    "wavelength": W,
    "flux": FLUX.astype(">f4"),
    "ivar": np.r_[0.0, np.full(299, 4.0)],
    "mask": np.full(300, 3, dtype=">i4"),
    "redshift": -0.0003,
    "redshift_err": 1e-5,
    "redshift_warning": 0,
    "spectype": "STAR",
    "ra": 10.0,
    "dec": -5.0,
}


def test_a_sparcl_record_is_a_spectrum_with_whole_identifiers():
    spectrum = from_record(SPARCL)
    assert spectrum.id == "00000f0b-07db-4234-892a-6e347db79c89"
    assert spectrum.ids["specid"] == "299492975510054912"
    assert spectrum.ids["targetid"] == "39627866878511337"
    assert (spectrum.medium, spectrum.survey, spectrum.frame) == ("vacuum", "DESI", "barycentric")
    assert (spectrum.redshift.value, spectrum.redshift.error, spectrum.redshift.source) == (-0.0003, 1e-5, "redshift")
    assert (spectrum.pipeline_class, spectrum.mask[0], spectrum.good.sum()) == ("STAR", 3, 299)
    assert spectrum.flux.dtype.isnative


def test_a_record_of_boss_is_heliocentric_and_its_warning_is_kept():
    spectrum = from_record(SPARCL | {"data_release": "BOSS-DR16", "redshift_warning": 4}, file="sparcl", row=3)
    assert (spectrum.survey, spectrum.frame, spectrum.file, spectrum.row) == ("SDSS", "heliocentric", "sparcl", 3)
    assert spectrum.redshift.warning == "redshift_warning=4"


def test_a_record_may_have_log_wavelengths_and_errors_or_nothing_but_flux():
    spectrum = from_record({"loglam": np.log10(W), "flux": FLUX, "error": np.full(300, 2.0)})
    np.testing.assert_allclose(spectrum.wavelength, W)
    assert (spectrum.ivar[0], spectrum.medium, spectrum.redshift.value) == (0.25, "unknown", None)
    assert from_record({"wave": W, "flux": FLUX}).warnings == ("no error array",)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "needs wavelength and flux; it has: nothing"),
        ({"flux": FLUX, "redshift": 0.1}, "needs wavelength and flux; it has: flux, redshift"),
        ({"wavelength": W, "flux": FLUX[:9]}, "flux has shape"),
        ({"wavelength": W / 10, "flux": FLUX}, "not plausible wavelengths"),
    ],
)
def test_a_record_that_is_no_spectrum_is_refused(record, reason):
    with pytest.raises(SpectrumReadError, match=reason):
        from_record(record)
