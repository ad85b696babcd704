"""FITS tables as lists: integers that are left out, TOPCAT's way to write, our own exports, and files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from astropy.table import MaskedColumn, Table

from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, Verdict
from specvet.vetting.export import export
from specvet.vetting.inputs import expand_inputs
from specvet.vetting.items import Item

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"
EXAMPLES = Path(__file__).parents[2] / "examples" / "spectra"


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "光 \\x.txt"):
        (tmp_path / name).write_text("4000 1\n4001 2\n")
    return tmp_path


def items(path: Path) -> list[Item]:
    return list(expand_inputs([str(path)]))


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint8])
def test_a_masked_integer_is_missing_and_the_same_number_in_another_column_is_not(stars: Path, kind: type) -> None:
    ids = MaskedColumn(np.array([7, 5], dtype=kind), mask=[False, True])
    Table({"file": ["a.txt", "b.txt"], "obsid": ids, "row": [0, 0]}).write(stars / "list.fits")
    assert [(i.id, i.row, i.problem) for i in items(stars / "list.fits")] == [("7", 0, ""), (None, 0, "")]


def test_a_masked_row_asks_for_every_target_and_never_for_number_999999(stars: Path) -> None:
    rows = MaskedColumn([0, 3], mask=[False, True])
    Table({"file": ["a.txt", "b.txt"], "row": rows}).write(stars / "list.fits")
    assert [i.row for i in items(stars / "list.fits")] == [0, None]


def test_an_unsigned_integer_is_missing_where_its_stored_value_is_tnull(stars: Path) -> None:
    column = fits.Column("targetid", "K", array=np.array([39627, 8], dtype=np.uint64), bzero=2**63, null=8 - 2**63)
    names = fits.Column("path", "5A", array=np.array(["a.txt", "b.txt"]))
    fits.BinTableHDU.from_columns([names, column]).writeto(stars / "list.fits")
    assert [i.id for i in items(stars / "list.fits")] == ["39627", None]


def test_a_table_that_topcat_wrote_is_a_list_though_its_primary_hdu_holds_bytes(stars: Path) -> None:
    primary = fits.PrimaryHDU(np.frombuffer(b"<VOTABLE/>", np.uint8))
    primary.header["VOTMETA"] = (True, "Table metadata in VOTable format")
    table = fits.BinTableHDU(Table({"path": ["a.txt", "b.txt"]}))
    fits.HDUList([primary, table]).writeto(stars / "list.fits")
    assert [i.file for i in items(stars / "list.fits")] == [str(stars / "a.txt"), str(stars / "b.txt")]


def test_the_export_of_a_run_is_a_list_for_the_next_whatever_letters_its_files_have(
    stars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stars)
    with RunFolder.open("RUN") as run:
        for name, id in (("光 \\x.txt", "α 007"), ("a.txt", "")):
            run.record(Decision(file=name, row=0, task="cv", id=id, verdict=Verdict(answer=Answer.UNSURE, reason="?")))
    for suffix in ("fits", "vot", "ecsv", "csv", "parquet"):
        export("RUN", f"list.{suffix}")
        found = items(Path(f"list.{suffix}"))
        assert [(i.file, i.id, i.row, i.problem) for i in found] == [
            ("光 \\x.txt", "α 007", 0, ""),
            ("a.txt", None, 0, ""),
        ], suffix


def test_spectra_named_one_by_one_are_no_lists(stars: Path) -> None:
    files = [f for f in sorted(EXAMPLES.glob("*.fits*")) if "redrock" not in f.name]
    assert [i.file for i in expand_inputs([str(f) for f in files])] == [str(f) for f in files]


@pytest.mark.shared
def test_real_spectra_named_one_by_one_are_no_lists() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real spectra are not there: {SHARED}")
    files = sorted(str(f) for f in SHARED.rglob("*.fits*"))
    assert [i.file for i in expand_inputs(files)] == files
