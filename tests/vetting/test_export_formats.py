"""A run as FITS, VOTable and ECSV: every cell as in Parquet, read back by astropy, and where the table comes from.

The nasty cases are those of reports on astropy: masks lost in FITS (astropy#19215), a column of nulls in a VOTable
(astropy#8995), text beyond ASCII (astropy#3497, fitsio#179).
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from astropy.io.votable.ucd import check_ucd
from astropy.table import MaskedColumn, Table

from specvet import __version__
from specvet.records import Decision, DiskFullError, RunFolder
from specvet.records.schema import Answer, EvidenceItem, Measurement, Verdict
from specvet.records.tables import unescaped
from specvet.vetting.columns import COLUMNS
from specvet.vetting.export import ExportError, export

NAMES = ["out.fits", "out.fits.gz", "out.vot", "out.xml", "out.ecsv"]
TEXTS = [name for name, column in COLUMNS.items() if column.kind is str]


def decision(file: str, id: str, answer: Answer, reason: str, **rest: Any) -> Decision:
    measured = Measurement(index="halpha", name="Hα EW", value=-23.14, error=0.82, unit="Å", window=(6540.0, 6590.0))
    evidence = (EvidenceItem(says="Hα in emission", measurement=measured, log_odds=2.0),)
    verdict = Verdict(answer=answer, confidence=0.97, p_yes=0.03, reason=reason, evidence=evidence)
    return Decision(file=file, row=999999, task="cv", id=id, verdict=verdict, **rest)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    settings = {"policy": "line-indices", "tasks": {"cv": "c0" * 32}}
    with RunFolder.open(tmp_path / "RÚN", config=settings) as folder:
        folder.record(
            decision("光谱/星 1.fits", "0042", Answer.YES, "Hα −1 Å, «双星»\nand \\more", n_pix=999999, ra=0.1)
        )
        folder.record(decision("b.fits", "39627612345678901", Answer.NO, "", snr=12.5, frame="as observed", dec=-90.0))
        unreadable = Verdict(answer=Answer.ERROR, reason="empty file")
        folder.record(Decision(file="c.fits", row=0, task="*", id="", verdict=unreadable))
    return tmp_path / "RÚN"


def read_back(path: Path) -> Table:
    kind = {".fits": "fits", ".ecsv": "ascii.ecsv"}.get(path.suffixes[0], "votable")
    return Table.read(path, format=kind)


def rows(table: Table) -> list[dict[str, Any]]:
    """Cells as Python has them, None where masked; FITS texts as they were before they were escaped."""
    columns = []
    for name in table.colnames:
        data, masked = table[name].data, isinstance(table[name], MaskedColumn)
        mask = np.ma.getmaskarray(data) if masked else np.zeros(len(table), bool)
        values = [unescaped(v.decode()) if isinstance(v, bytes) else v for v in np.ma.getdata(data).tolist()]
        columns.append([None if m else v for v, m in zip(values, mask, strict=True)])
    return [dict(zip(table.colnames, row, strict=True)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_as_in_parquet(run: Path, tmp_path: Path, name: str) -> None:
    assert export(run, tmp_path / name) == export(run, tmp_path / "out.parquet") == 3
    table = read_back(tmp_path / name)
    expected = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert table.colnames == list(COLUMNS)
    got = rows(table)
    if "ecsv" not in name:  # neither FITS nor astropy's VOTable tells an empty text from a missing one
        expected = [{k: v or "" if k in TEXTS else v for k, v in row.items()} for row in expected]
        got = [{k: v or "" if k in TEXTS else v for k, v in row.items()} for row in got]
    assert got == expected
    assert [row["answer"] for row in got] == ["YES", "NO", "ERROR"]
    assert [row["id"] for row in got] == ["0042", "39627612345678901", None if "ecsv" in name else ""]
    assert [row["n_pix"] for row in got] == [999999, None, None]


@pytest.mark.parametrize("name", NAMES)
def test_columns_have_units_and_the_header_says_where_the_table_comes_from(
    run: Path, tmp_path: Path, name: str
) -> None:
    export(run, tmp_path / name, tasks=["cv"], answers=["YES", "NO"])
    table = read_back(tmp_path / name)
    assert [str(table[c].unit) for c in ("wave_min", "wave_max", "ra", "dec")] == ["Angstrom", "Angstrom", "deg", "deg"]
    receipt = hashlib.sha256((run / "receipt.json").read_bytes()).hexdigest()
    with RunFolder.read(run) as folder:
        made = folder.receipt()
    wanted = {
        ("CREATOR", "creator"): f"specvet {__version__}",
        ("RUN", "run"): "RÚN",
        ("RUNVERS", "run_version"): __version__,
        ("POLICY", "policy"): "line-indices",
        ("RECEIPT", "receipt_sha256"): receipt,
        ("SETHASH", "settings_hash"): made.settings_hash,
        ("INPHASH", "inputs_hash"): made.inputs.hash if made.inputs else "",
        ("TASK1", "task_1"): f"cv {'c0' * 32}",
        ("DATE", "date"): (made.ended or "").removesuffix("+00:00"),
        ("ONLYTASK", "only_tasks"): "cv",
        ("ONLYANSW", "only_answers"): "YES, NO",
    }
    if "vot" in name or "xml" in name:
        text = (tmp_path / name).read_text(encoding="utf-8")
        for (_, info), value in wanted.items():
            assert f'<INFO name="{info}" value="{value}"' in text
        assert table["answer"].description == COLUMNS["answer"].says
        assert 'ucd="meta.id;meta.main"' in text
        return
    for (card, entry), value in wanted.items():
        found = table.meta[entry if "ecsv" in name else card]
        assert (found if "ecsv" in name else unescaped(found)) == value
    if "ecsv" in name:
        assert table["answer"].description == COLUMNS["answer"].says


def test_parquet_has_units_and_provenance_in_its_metadata(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "out.parquet")
    schema = pq.read_schema(tmp_path / "out.parquet")
    assert schema.field("wave_min").metadata[b"unit"] == b"Angstrom"
    assert schema.metadata[b"run"] == "RÚN".encode()
    assert len(schema.metadata[b"receipt_sha256"]) == 64


def test_the_same_run_gives_the_same_bytes(run: Path, tmp_path: Path) -> None:
    for suffix in ("fits", "vot", "ecsv", "fits.gz"):
        for name in ("a", "b"):
            export(run, tmp_path / f"{name}.{suffix}")
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_what_a_format_cannot_hold_is_told_once(run: Path, tmp_path: Path) -> None:
    told: dict[str, list[str]] = {}
    for name in ("out.csv", "out.parquet", "out.fits", "out.vot", "out.ecsv"):
        export(run, tmp_path / name, tell=told.setdefault(name, []).append)
    assert told == {
        "out.csv": [],
        "out.parquet": [],
        "out.ecsv": [],
        "out.fits": [
            "FITS tables hold ASCII only, so file, reason, evidence, object are escaped (Hα is H\\u03b1); "
            "the header says how"
        ],
        "out.vot": [],
    }


def test_a_run_without_decisions_is_a_table_without_rows(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "RUN", config={}):
        pass
    for name in NAMES:
        assert export(tmp_path / "RUN", tmp_path / name) == 0
        table = read_back(tmp_path / name)
        assert (len(table), table.colnames) == (0, list(COLUMNS))


def test_every_ucd_is_in_the_controlled_vocabulary() -> None:
    for column in COLUMNS.values():
        assert check_ucd(column.ucd, check_controlled_vocabulary=True), column


@pytest.mark.parametrize("name", ["out.fits", "out.vot", "out.ecsv.gz"])
def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    run: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="the disk is full"):
        export(run, tmp_path / name)
    assert (tmp_path / name).read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["RÚN", name])


def test_only_csv_goes_to_standard_output(run: Path) -> None:
    for kind in ("fits", "votable", "ecsv", "parquet"):
        with pytest.raises(ExportError, match=f"name a file for {kind}"):
            export(run, "-", kind)  # type: ignore[arg-type]
