"""Tables in FITS, VOTable and ECSV, read back by astropy: nothing lost that the format can hold, the rest said."""

from __future__ import annotations

import gzip
import math
import re
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from astropy.io import fits
from astropy.io.votable import parse_single_table, validate
from astropy.table import MaskedColumn, Table
from hypothesis import given, settings
from hypothesis import strategies as st

from specvet.records.tables import Column, Fact, Sheet, Spool, TableFormat, cells_of, escaped, unescaped, write_table
from specvet.records.tables.fits_table import NULL

SUFFIXES: dict[TableFormat, str] = {"fits": ".fits", "votable": ".vot", "ecsv": ".ecsv"}
EVERY = pytest.mark.parametrize("kind", list(SUFFIXES))

COLUMNS = (
    Column("id", str, "identifier, Å and all", ucd="meta.id;meta.main"),
    Column("comment", str, "a comment"),
    Column("n", int, "a count", ucd="meta.number"),
    Column("wave", float, "wavelength", "Angstrom", "em.wl"),
    Column("no_text", str),
    Column("no_int", int),
    Column("no_float", float),
)
CELLS: dict[str, list[Any]] = {
    "id": ["007", "39627612345678901", "NA", None],
    "comment": ["Hα −1 Å, «双星»", 'a "quote", \\n; end', None, "ok"],
    "n": [999999, None, 0, -(2**53) - 1],
    "wave": [6562.8012345678901, None, -0.0, math.inf],
    "no_text": [None] * 4,
    "no_int": [None] * 4,
    "no_float": [None] * 4,
}
FACTS = (
    Fact("creator", "CREATOR", "specvet 0.1.0", "who wrote it"),
    Fact("run", "RUN", "Läufe's \\ nächster"),
    Fact("receipt", "RECEIPT", "ab" * 32, "of the receipt"),
    Fact("z", "Z", -1.2345678901234567e-05, "redshift"),
    Fact("whole", "WHOLE", 12.0),
    Fact("count", "COUNT", 7),
    Fact("good", "GOOD", True),
    Fact("long", "LONGTEXT", "word " * 60 + "end"),
)
SHEET = Sheet("THINGS", "things with Å", COLUMNS, FACTS)


def write(path: Path, kind: TableFormat, cells: dict[str, list[Any]] = CELLS, sheet: Sheet = SHEET) -> list[str]:
    return write_table(path, kind, sheet, cells_of(sheet.columns, cells))


def back(path: Path, kind: TableFormat) -> Table:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*VOUnit.*")
        return Table.read(path, format={"ecsv": "ascii.ecsv"}.get(kind, kind))


def values(table: Table, name: str, kind: TableFormat) -> list[Any]:
    """Cells as Python has them, None where masked; FITS texts as they were before they were escaped."""
    column = table[name]
    mask = np.ma.getmaskarray(column.data) if isinstance(column, MaskedColumn) else np.zeros(len(table), bool)
    raw = np.ma.getdata(column.data).tolist()
    texts = (unescaped(v.decode()) if isinstance(v, bytes) else v for v in raw)
    return [None if m else v for v, m in zip(texts, mask, strict=True)]


@EVERY
def test_what_astropy_reads_back_is_what_was_written(tmp_path: Path, kind: TableFormat) -> None:
    path = tmp_path / f"t{SUFFIXES[kind]}"
    write(path, kind)
    table = back(path, kind)
    assert table.colnames == list(CELLS)
    for name, written in CELLS.items():
        got = values(table, name, kind)
        if kind == "votable" and name in ("id", "comment", "no_text"):
            written = ["" if v is None else v for v in written]  # noqa: PLW2901 - astropy masks no text of a VOTable
        assert got == written, name
    assert math.copysign(1, values(table, "wave", kind)[2]) == -1
    assert str(table["wave"].unit) == "Angstrom"


@EVERY
def test_a_column_keeps_its_type_when_all_of_it_is_missing_or_there_are_no_rows(
    tmp_path: Path, kind: TableFormat
) -> None:
    for n in (0, 1):
        path = tmp_path / f"{n}{SUFFIXES[kind]}"
        write(path, kind, {name: [None] * n for name in CELLS})
        table = back(path, kind)
        assert len(table) == n
        kinds = [table[name].dtype.kind for name in ("n", "wave", "no_int", "no_float")]
        assert kinds == ["i", "f", "i", "f"]
        assert all(table[name].dtype.kind in "SUO" for name in ("id", "comment", "no_text"))
        for name in ("n", "wave", "no_int", "no_float"):
            assert values(table, name, kind) == [None] * n


def test_fits_tells_missing_from_empty_text_in_its_bytes_and_says_that_readers_do_not(tmp_path: Path) -> None:
    columns = (Column("a", str), Column("b", str))
    cells = {"a": ["", None, "x "], "b": ["y", "y", "y"]}
    notices = write(tmp_path / "t.fits", "fits", cells, Sheet("T", "t", columns))
    with fits.open(tmp_path / "t.fits") as hdus:
        where = hdus[1].fileinfo()["datLoc"]
        assert hdus[1].header["TFORM1"] == "5A"
        comments = "\n".join(hdus[1].header["COMMENT"])
    data = (tmp_path / "t.fits").read_bytes()[where : where + 18]
    assert data == b"     y" + b"\0\0\0\0\0y" + b"x\\x20y"
    assert "unicode_escape" in comments
    assert "Most programs show both as empty" in comments
    assert notices == [
        "FITS tables hold ASCII only, so a are escaped (Hα is H\\u03b1); the header says how",
        "FITS readers show an empty text and a missing one alike: a",
    ]


def test_fits_gives_integers_a_tnull_that_no_number_is(tmp_path: Path) -> None:
    write(tmp_path / "t.fits", "fits")
    with fits.open(tmp_path / "t.fits") as hdus:
        header, data = hdus[1].header, hdus[1].data
        assert [header.get(f"TNULL{i}") for i in range(1, 8)] == [None, None, NULL, None, None, NULL, None]
        assert data["n"].tolist() == [999999, NULL, 0, -(2**53) - 1]
        assert header["TCOMM1"] == "identifier, \\xc5 and all"
        assert header["TUCD4"] == "em.wl"
        assert (header["EXTNAME"], header["NAXIS2"]) == ("THINGS", 4)
    assert (tmp_path / "t.fits").stat().st_size % 2880 == 0
    with fits.open(tmp_path / "t.fits") as hdus:
        hdus.verify("exception")


def test_votable_flags_every_null_and_keeps_empty_text_and_nan_apart_from_it(tmp_path: Path) -> None:
    columns = (Column("a", str, "Å <&> ]]>"), Column("x", float), Column("i", int))
    cells = {"a": ["", None, " 𠮷\x01 "], "x": [math.nan, None, 1.5], "i": [None, 5, NULL + 1]}
    notices = write(tmp_path / "t.vot", "votable", cells, Sheet("T", "t", columns))
    import base64
    import struct

    text = (tmp_path / "t.vot").read_text(encoding="utf-8")
    stream = re.search(r'base64">(.*?)</STREAM>', text, re.DOTALL)
    assert stream
    data = base64.b64decode(stream[1])
    rows = [
        b"\x20" + struct.pack(">I", 0) + struct.pack(">d", math.nan) + struct.pack(">q", NULL),
        b"\xc0" + struct.pack(">I", 0) + struct.pack(">d", math.nan) + struct.pack(">q", 5),
        b"\x00" + struct.pack(">I", 5) + " 𠮷\x01 ".encode("utf-16-be") + struct.pack(">dq", 1.5, NULL + 1),
    ]
    assert data == b"".join(rows)
    table = back(tmp_path / "t.vot", "votable")
    assert values(table, "a", "votable") == ["", "", " 𠮷\x01 "]
    assert table["a"].description == "Å <&> ]]>"
    assert notices == [
        "the VOTable tells an empty text from a missing one, astropy shows both as empty: a",
        "the VOTable tells NaN from missing, astropy shows both as missing: x",
    ]


def test_votable_is_valid_and_has_units_ucds_and_facts(tmp_path: Path) -> None:
    write(tmp_path / "t.vot", "votable")
    said = validate(str(tmp_path / "t.vot"), output=None)
    assert set(re.findall(r"\b[WE]\d\d\b", str(said))) <= {"W50"}, said  # W50: VOUnits would rather have 0.1nm
    table = parse_single_table(tmp_path / "t.vot")
    assert [f.ucd for f in table.fields[:4]] == ["meta.id;meta.main", None, "meta.number", "em.wl"]
    assert table.fields[3].description == "wavelength"
    text = (tmp_path / "t.vot").read_text(encoding="utf-8")
    assert '<INFO name="run" value="Läufe\'s \\ nächster"/>' in text
    assert '<INFO name="z" value="-1.2345678901234568e-05">redshift</INFO>' in text


def test_ecsv_keeps_empty_text_nan_and_line_breaks_apart_from_missing(tmp_path: Path) -> None:
    columns = (Column("a", str), Column("x", float), Column("b", str))
    cells = {"a": ["", None, "007", "new\nline"], "x": [math.nan, None, 1e-300, -math.inf], "b": [None, "x", "#", "x"]}
    assert write(tmp_path / "t.ecsv", "ecsv", cells, Sheet("T", "t", columns)) == []
    table = back(tmp_path / "t.ecsv", "ecsv")
    assert table.colnames == ["a", "x", "b"]
    assert values(table, "a", "ecsv") == ["", None, "007", "new\nline"]
    assert repr(values(table, "x", "ecsv")) == "[nan, None, 1e-300, -inf]"
    assert values(table, "b", "ecsv") == [None, "x", "#", "x"]
    ragged = write(tmp_path / "r.ecsv", "ecsv", {**cells, "b": [" x", "x", "x", "x"]}, Sheet("T", "t", columns))
    assert ragged == [
        "the ECSV holds blanks at the ends of texts, and control characters, but astropy's reader strips them: b"
    ]
    assert '," x"\n' in (tmp_path / "r.ecsv").read_text(encoding="utf-8")


@EVERY
def test_facts_come_back_with_all_their_digits_and_letters(tmp_path: Path, kind: TableFormat) -> None:
    path = tmp_path / f"t{SUFFIXES[kind]}"
    write(path, kind)
    if kind == "votable":
        infos = {i.name: i.value for r in [parse_single_table(path)._votable] for i in r.resources[0].infos}
        as_text = {True: "true"}
        assert infos == {
            f.name: f.value if isinstance(f.value, str) else as_text.get(f.value, repr(f.value)) for f in FACTS
        }
        return
    meta = back(path, kind).meta
    for fact in FACTS:
        got = meta[fact.card] if kind == "fits" else meta[fact.name]
        got = unescaped(got) if kind == "fits" and isinstance(got, str) else got
        assert (got, type(got)) == (fact.value, type(fact.value)), fact.name


@EVERY
def test_a_packed_table_is_the_same_table_and_always_the_same_bytes(tmp_path: Path, kind: TableFormat) -> None:
    write(tmp_path / "plain", kind)
    for name in ("one.gz", "two.gz"):
        write_table(tmp_path / name, kind, SHEET, cells_of(COLUMNS, CELLS), packed=True)
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()) == (tmp_path / "plain").read_bytes()
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@given(st.text())
def test_escaped_text_is_plain_ascii_without_blanks_at_its_end_and_comes_back(text: str) -> None:
    out = escaped(text)
    assert out.isascii()
    assert out.isprintable()
    assert not out.endswith(" ")
    assert unescaped(out) == text


TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGER = st.none() | st.integers(NULL + 1, 2**63 - 1)
FLOAT = st.none() | st.floats(allow_nan=False)
ROWS = st.lists(st.tuples(TEXT, INTEGER, FLOAT), max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
@pytest.mark.parametrize("kind", ["fits", "votable"])
def test_any_row_comes_back(
    tmp_path_factory: pytest.TempPathFactory, kind: TableFormat, rows: list[tuple[Any]]
) -> None:
    columns = (Column("a", str), Column("i", int), Column("x", float))
    cells = {c.name: [row[i] for row in rows] for i, c in enumerate(columns)}
    path = tmp_path_factory.mktemp("any") / f"t{SUFFIXES[kind]}"
    write(path, kind, cells, Sheet("T", "t", columns))
    table = back(path, kind)
    assert [v or "" for v in values(table, "a", kind)] == [v or "" for v in cells["a"]]
    assert values(table, "i", kind) == cells["i"]
    assert values(table, "x", kind) == cells["x"]


def test_a_spool_holds_what_it_was_given_and_leaves_no_file(tmp_path: Path) -> None:
    rows = [{c.name: CELLS[c.name][i % 4] for c in COLUMNS} for i in range(12_000)]
    with Spool(COLUMNS, iter(rows), tmp_path) as spool:
        got = [
            dict(zip(batch, row, strict=True)) for batch in spool.batches() for row in zip(*batch.values(), strict=True)
        ]
        assert spool.n == 12_000
        assert got == rows
        assert spool.seen["id"].null == 3000
        assert spool.seen["comment"].changed == 6000
    assert list(tmp_path.iterdir()) == []


@EVERY
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, kind: TableFormat) -> None:
    columns = (Column("a", str), Column("x", float))

    def rows(n: int) -> Iterator[dict[str, Any]]:
        yield from ({"a": f"{i:>200}", "x": float(i)} for i in range(n))

    def peak(n: int) -> int:
        tracemalloc.start()
        try:
            with Spool(columns, rows(n), tmp_path) as spool:
                write_table(tmp_path / f"{n}{kind}", kind, Sheet("T", "t", columns), spool)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)  # imports
    assert peak(60_000) < 1.5 * peak(10_000)
