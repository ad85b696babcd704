"""Lists: any delimiter, any table format, any survey's columns; identifiers stay as they were written."""

from __future__ import annotations

import gzip
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specvet.vetting.inputs import InputError, Inputs, expand_inputs
from specvet.vetting.items import Item


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "sub/c d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(f"{4000 + i} {1 + i % 3}\n" for i in range(50)))
    return tmp_path


def listed(folder: Path, text: str | bytes, name: str = "list.csv", **options: Any) -> list[Item]:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(inputs_of(path, **options))


def inputs_of(path: Path, **options: Any) -> Inputs:
    return expand_inputs([str(path)], **options)


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " ", "   "])
def test_a_list_with_any_delimiter_is_read(stars: Path, delimiter: str) -> None:
    rows = [
        ("path", "ID", "Ra", "DEC", "z", "row"),
        ("a.txt", "0042", "10.5", "-3.25", "0.0001", "0"),
        ("b.txt", "7", "1", "2", "-9999", "3"),
    ]
    a, b = listed(stars, "\n".join(delimiter.join(r) for r in rows) + "\n")
    assert a == Item(str(stars / "a.txt"), row=0, id="0042", ra=10.5, dec=-3.25, z=0.0001)
    assert b == Item(str(stars / "b.txt"), row=3, id="7", ra=1.0, dec=2.0, z=None)


@pytest.mark.parametrize(
    ("encoding", "newline"),
    [("utf-8", "\n"), ("utf-8-sig", "\n"), ("utf-8", "\r\n"), ("utf-8-sig", "\r\n"), ("utf-16", "\n"), ("utf-8", "\r")],
)
def test_byte_order_marks_and_line_ends_of_other_systems_are_read(stars: Path, encoding: str, newline: str) -> None:
    items = listed(stars, newline.join(["path,id", '"sub/c d.txt","x, y"', "a.txt,é"]).encode(encoding))
    assert [(i.file, i.id) for i in items] == [(str(stars / "sub/c d.txt"), "x, y"), (str(stars / "a.txt"), "é")]


def test_a_packed_list_is_read(stars: Path) -> None:
    assert [i.file for i in listed(stars, gzip.compress(b"path\na.txt\n"), "list.csv.gz")] == [str(stars / "a.txt")]


def test_blank_lines_and_comments_are_no_rows(stars: Path) -> None:
    items = listed(stars, "#Table1\n# made by hand\n\npath,id\n\na.txt,1\n# b.txt,2\n\nb.txt,3\n")
    assert [i.id for i in items] == ["1", "3"]


def test_a_commented_header_names_the_columns(stars: Path) -> None:
    items = listed(stars, "# path id z\na.txt 001 0.1\nb.txt 002 nan\n", "list.txt")
    assert [(i.id, i.z) for i in items] == [("001", 0.1), ("002", None)]


def test_ecsv_is_read(stars: Path) -> None:
    head = "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: filename, datatype: string}\n"
    head += "# - {name: targetid, datatype: int64}\n"
    items = listed(stars, head + 'filename targetid\na.txt 39627612345678901\n"sub/c d.txt" 5\n', "list.ecsv")
    assert [(i.file, i.id) for i in items] == [
        (str(stars / "a.txt"), "39627612345678901"),
        (str(stars / "sub/c d.txt"), "5"),
    ]


def test_one_path_a_line_is_a_list(stars: Path) -> None:
    assert [i.file for i in listed(stars, "a.txt\nsub/c d.txt\n\nb.txt\n", "paths.txt")] == [
        str(stars / "a.txt"),
        str(stars / "sub/c d.txt"),
        str(stars / "b.txt"),
    ]


def test_an_at_sign_forces_a_list(stars: Path) -> None:
    (stars / "odd").write_text("one\ntwo\n")
    items = list(expand_inputs([f"@{stars / 'odd'}"]))
    assert [i.problem for i in items] == [
        f"{stars}/odd line 1: no such file: {stars}/one (also tried one)",
        f"{stars}/odd line 2: no such file: {stars}/two (also tried two)",
    ]
    with pytest.raises(InputError, match="no such list"):
        expand_inputs([f"@{stars / 'missing.txt'}"])


def test_a_text_spectrum_with_a_header_is_not_a_list(stars: Path) -> None:
    spectrum = stars / "spectrum.csv"
    for header in ("wavelength,flux,ivar", "x,y,dy", "lambda,flux,file"):
        spectrum.write_text(header + "\n" + "".join(f"{4000 + i},{1 + i % 3},1\n" for i in range(50)))
        assert [i.file for i in inputs_of(spectrum)] == [str(spectrum)]


def test_rows_without_a_path_or_with_a_bad_value_are_items_with_a_problem(stars: Path) -> None:
    text = "path,id,row,z\na.txt,1,0,0\n,2,0,0\nb.txt,3,x,0\nb.txt,4,0,fast\nb.txt,5,0,-2\nhttp://x/y.fits,6,,\na.txt,7,1,0,9\nb.txt\n"
    items = listed(stars, text)
    where = f"{stars}/list.csv line"
    assert [(i.file, i.problem) for i in items] == [
        (str(stars / "a.txt"), ""),
        (f"{where} 3", f"{where} 3: the path is empty"),
        (f"{where} 4", f"{where} 4: row is 'x', a whole number counted from 0 is needed"),
        (f"{where} 5", f"{where} 5: z is 'fast', which is no number"),
        (f"{where} 6", f"{where} 6: z is -2; a redshift is a finite number above -1"),
        (f"{where} 7", f"{where} 7: http://x/y.fits is an address on the net; download it and list the file"),
        (f"{where} 8", f"{where} 8: 5 fields, 4 columns in the header"),
        (str(stars / "b.txt"), ""),
    ]
    assert [i.id for i in items[1:3]] == ["2", "3"]


def test_a_quotation_mark_that_is_never_closed_does_not_end_the_list(stars: Path) -> None:
    items = listed(stars, 'path,id\na.txt,1\n"b.txt,2\n' + "x" * 200_000 + "\n")
    assert items[0].file == str(stars / "a.txt")
    assert any("quotation mark" in i.problem for i in items[1:])


def test_bytes_that_are_not_utf_8_cost_their_row_only(stars: Path) -> None:
    items = listed(stars, b"path,id\n\xe9.txt,1\na.txt,\xe9\n")
    assert items[0].problem.endswith("line 2: the path is not UTF-8 text; save the list as UTF-8")
    assert (items[1].file, items[1].id, items[1].problem) == (str(stars / "a.txt"), "é", "")


def test_an_empty_list_and_a_header_alone_hold_no_items(stars: Path) -> None:
    assert listed(stars, "path,id\n") == []
    (stars / "empty").write_text("")
    assert list(expand_inputs([f"@{stars / 'empty'}"])) == []


def test_a_list_that_does_not_say_where_spectra_are_is_refused_with_its_columns(stars: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"Columns found: ra, dec, gmag\. A list needs a column path .*lmjd/planid/spid/fiberid \(LAMOST\)",
    ):
        listed(stars, "ra,dec,gmag\n1,2,15\n")
    with pytest.raises(InputError, match=r"no column 'nom' \(--path-column\); columns found: path, id"):
        listed(stars, "path,id\na.txt,1\n", path_column="nom")


def test_the_path_column_can_be_named(stars: Path) -> None:
    items = listed(stars, "path,nom\nold.fits,a.txt\n", path_column="NOM")
    assert [i.file for i in items] == [str(stars / "a.txt")]


def test_column_names_that_repeat_are_refused(stars: Path) -> None:
    with pytest.raises(InputError, match="column names repeat: path; rename one of each"):
        listed(stars, "path,path\na.txt,b.txt\n")


def test_relative_paths_start_at_the_root_else_at_the_list_else_here(
    stars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stars / "lists").mkdir()
    monkeypatch.chdir(stars / "sub")
    text = "path\nc d.txt\na.txt\n"
    here, missing = listed(stars / "lists", text)
    assert (here.file, here.problem) == ("c d.txt", "")
    assert missing.problem.endswith(f"no such file: {stars}/lists/a.txt (also tried a.txt)")
    missing, found = listed(stars / "lists", text, root=str(stars))
    assert (found.file, found.problem) == (str(stars / "a.txt"), "")
    assert missing.problem.endswith(f"no such file: {stars}/c d.txt")


def test_a_redshift_beside_a_pipelines_error_is_left_to_the_files_own_rule(stars: Path) -> None:
    (stars / "list.csv").write_text("path,z,z_err\na.txt,2.1,0.001\n")
    inputs = inputs_of(stars / "list.csv")
    assert [i.z for i in inputs] == [None]
    assert inputs.notices == [
        f"{stars}/list.csv: column z is left out; z_err makes it a pipeline's redshift; "
        "--z-column z applies it as your own"
    ]
    assert [i.z for i in inputs_of(stars / "list.csv", z_column="Z")] == [2.1]


def test_identifiers_of_binary_tables_keep_every_digit(stars: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from astropy.table import Table

    big = [np.uint64(18446744073709551615), np.uint64(7)]
    files = [b"a.txt  ", b"b.txt  "]
    table = Table({"PATH": np.array(files), "SPECOBJID": np.array(big, dtype=np.uint64), "Z": np.array([np.nan, 0.5])})
    table.write(stars / "list.fits")
    fits_items = list(inputs_of(stars / "list.fits"))
    columns = {
        "path": ["a.txt", "b.txt"],
        "targetid": pa.array([39627612345678901, None], pa.int64()),
        "z": [None, 0.5],
    }
    pq.write_table(pa.table(columns), stars / "list.parquet")
    parquet_items = list(inputs_of(stars / "list.parquet"))
    assert [(i.file, i.id, i.z) for i in fits_items] == [
        (str(stars / "a.txt"), "18446744073709551615", None),
        (str(stars / "b.txt"), "7", 0.5),
    ]
    assert [(i.file, i.id, i.z) for i in parquet_items] == [
        (str(stars / "a.txt"), "39627612345678901", None),
        (str(stars / "b.txt"), None, 0.5),
    ]
    assert inputs_of(stars / "list.fits").total == inputs_of(stars / "list.parquet").total == 2


def test_a_votable_is_read(stars: Path) -> None:
    from astropy.table import MaskedColumn, Table

    ids = MaskedColumn([39627612345678901, 5], mask=[False, True])
    Table({"file": ["a.txt", "b.txt"], "obsid": ids, "ra": [1.5, 2.5]}).write(stars / "list.vot", format="votable")
    assert [(i.file, i.id, i.ra) for i in inputs_of(stars / "list.vot")] == [
        (str(stars / "a.txt"), "39627612345678901", 1.5),
        (str(stars / "b.txt"), None, 2.5),
    ]


def test_a_binary_table_without_useful_columns_is_refused_with_its_columns(stars: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from astropy.table import Table

    pq.write_table(pa.table({"ra": [1.0]}), stars / "list.parquet")
    Table({"ra": [1.0]}).write(stars / "list.fits")
    Table({"ra": [1.0]}).write(stars / "list.vot", format="votable")
    for name in ("list.parquet", "list.fits", "list.vot"):
        with pytest.raises(InputError, match="Columns found: ra"):
            inputs_of(stars / name)
    (stars / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="a damaged Parquet file"):
        inputs_of(stars / "bad.parquet")


def test_a_million_rows_are_streamed_in_little_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "long.csv"
    with path.open("w") as f:
        f.write("path,id\n")
        f.writelines(f"/nowhere/{i}.fits,{i:08d}\n" for i in range(100_000))
    inputs = inputs_of(path)
    assert inputs.total == 100_000
    tracemalloc.start()
    last = deque(inputs, maxlen=1)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert last == Item("/nowhere/99999.fits", id="00099999")
    assert peak < 2_000_000
