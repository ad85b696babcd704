"""Catalogues as people have them: every format, every way to name a column, ids with all their digits."""

from __future__ import annotations

import gzip
from pathlib import Path

import astropy.units as u
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.table import MaskedColumn, Table

from specvet.catalogue.matching import read_table
from specvet.catalogue.matching.names import parsed_columns
from specvet.data.errors import InputError

IDS = [5853498713190525696, 4472832130942575872, 2306965202564506752]
"""Gaia DR3 ids of 19 digits, Proxima Centauri's first; none of them survives a float64."""

assert all(int(float(n)) != n for n in (IDS[0] + 1, IDS[1] + 1))

ODD = [n + 1 for n in IDS]


def gaia_like(ids: list[int] = ODD) -> Table:
    table = Table()
    table["source_id"] = np.array(ids, dtype=np.int64)
    table["ra"] = np.array([217.39, 269.45, 1.5]) * u.deg
    table["dec"] = np.array([-62.68, 4.74, -0.25]) * u.deg
    table["ref_epoch"] = np.array([2016.0, 2016.0, 2016.0])
    table["pmra"] = MaskedColumn([-3781.741, -801.551, np.nan], mask=[False, False, True], unit="mas / yr")
    table["pmdec"] = MaskedColumn([769.465, 10362.394, np.nan], mask=[False, False, True], unit="mas / yr")
    table["parallax"] = np.array([768.0665, 546.9759, 2.0]) * u.mas
    table["parallax_error"] = np.array([0.0499, 0.0401, 0.1]) * u.mas
    table["phot_g_mean_mag"] = np.array([8.9847, 8.1940, 15.0]) * u.mag
    table["bp_rp"] = np.array([3.7957, 2.8309, 0.5]) * u.mag
    table["ruwe"] = np.array([1.0, 1.1, 1.2])
    return table


def written(folder: Path, kind: str, table: Table) -> Path:
    suffix, options = {
        "csv": ("csv", {"format": "ascii.csv"}),
        "tsv": ("tsv", {"format": "ascii.tab"}),
        "ecsv": ("ecsv", {"format": "ascii.ecsv"}),
        "ecsv with commas": ("ecsv", {"format": "ascii.ecsv", "delimiter": ","}),
        "fits": ("fits", {"format": "fits"}),
        "votable": ("vot", {"format": "votable"}),
        "votable of text": ("vot", {"format": "votable", "tabledata_format": "tabledata"}),
        "parquet": ("parquet", {}),
    }[kind]
    path = folder / f"gaia.{suffix}"
    if kind == "parquet":
        columns = {n: pa.array(table[n].tolist()) for n in table.colnames}
        pq.write_table(pa.table(columns), path)
    else:
        table.write(path, overwrite=True, **options)
    return path


FORMATS = ("csv", "tsv", "ecsv", "ecsv with commas", "fits", "votable", "votable of text", "parquet")


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_table_with_all_digits_of_its_ids(tmp_path: Path, kind: str) -> None:
    read = read_table(str(written(tmp_path, kind, gaia_like())))
    assert read.gaia
    assert read.name == "gaia"
    assert read.ids == [str(n) for n in ODD]
    assert read.ra == pytest.approx([217.39, 269.45, 1.5])
    assert read.dec == pytest.approx([-62.68, 4.74, -0.25])
    assert read.epoch.tolist() == [2016.0] * 3
    assert read.pmdec[:2] == pytest.approx([769.465, 10362.394])
    assert np.isnan(read.pmra[2])
    assert np.isnan(read.pmdec[2])
    assert read.values["parallax"] == pytest.approx([768.0665, 546.9759, 2.0])
    assert read.values["g"] == pytest.approx([8.9847, 8.1940, 15.0])
    assert read.values["bp_rp"] == pytest.approx([3.7957, 2.8309, 0.5])
    assert read.notices == ()


@pytest.mark.parametrize("kind", ["fits", "votable", "parquet"])
def test_an_integer_column_with_missing_values_loses_neither_digits_nor_rows(tmp_path: Path, kind: str) -> None:
    table = gaia_like()
    table["source_id"] = MaskedColumn(ODD, mask=[False, True, False], dtype=np.int64)
    assert read_table(str(written(tmp_path, kind, table))).ids == [str(ODD[0]), "", str(ODD[2])]


@pytest.mark.parametrize("kind", ["fits", "votable", "parquet"])
def test_ids_in_floating_point_are_not_taken_for_ids(tmp_path: Path, kind: str) -> None:
    table = gaia_like()
    table["source_id"] = np.array(ODD, dtype=np.float64)
    read = read_table(str(written(tmp_path, kind, table)))
    assert read.ids == []
    assert "source_id holds floating-point numbers, whose last digits are lost" in read.notices[0]


def test_ids_that_went_through_a_spreadsheet_are_told_of(tmp_path: Path) -> None:
    file = tmp_path / "gaia.csv"
    file.write_text("source_id,ra,dec,parallax,Gmag\n5.8535E+18,10,20,1,12\nGaia DR3 17,11,21,1,12\n")
    read = read_table(str(file))
    assert read.ids == ["", "17"]
    assert "1 values of source_id are no Gaia DR3 source ids" in read.notices[0]


@pytest.mark.parametrize(
    ("ra", "dec", "gaia", "epoch"),
    [
        ("ra", "dec", True, 2016.0),
        ("RA", "DEC", True, 2016.0),
        ("RA_ICRS", "DE_ICRS", True, 2016.0),
        ("RAJ2000", "DEJ2000", True, 2000.0),
        ("_RAJ2000", "_DEJ2000", True, 2000.0),
        ("ra", "dec", False, 2000.0),
        ("RAJ2000", "DEJ2000", False, 2000.0),
    ],
)
def test_columns_are_found_as_people_name_them_and_tell_the_epoch(
    tmp_path: Path, ra: str, dec: str, gaia: bool, epoch: float
) -> None:
    file = tmp_path / "some.csv"
    more = (",Plx,e_Plx,Gmag,BP-RP,RUWE", ",5,0.1,15.5,0.4,1.0") if gaia else ("", "")
    file.write_text(f"{ra},{dec},pmRA,pmDE{more[0]}\n10.5,-20.5,3,4{more[1]}\n")
    read = read_table(str(file))
    assert (read.gaia, read.name) == (gaia, "gaia" if gaia else "some")
    assert (read.ra[0], read.dec[0], read.pmra[0], read.pmdec[0]) == (10.5, -20.5, 3.0, 4.0)
    assert read.epoch.tolist() == [epoch]
    assert f"states no epoch; positions were taken to be of {epoch:g}" in read.notices[0]
    if gaia:
        assert {n: v[0] for n, v in read.values.items()} == {
            "parallax": 5.0, "parallax_error": 0.1, "ruwe": 1.0, "g": 15.5, "bp_rp": 0.4
        }  # fmt: skip


def test_the_users_word_for_a_column_goes_before_the_usual_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("ra,dec,alpha,delta,label,P\n1,2,30,40,V1,0.07\n")
    read = read_table(
        str(file), columns=parsed_columns("ra=ALPHA, dec=delta,name=label,ref_epoch=1991.25"), keep=("P",)
    )
    assert (read.ra[0], read.dec[0], read.epoch[0]) == (30.0, 40.0, 1991.25)
    assert read.names == ["V1"]
    assert read.kept == {"P": ["0.07"]}


def test_gaias_magnitude_is_told_from_sloans_by_its_capital_letter(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("ra,dec,plx,gmag,rmag,Gmag\n1,2,3,19,18,17\n")
    assert read_table(str(file)).values["g"].tolist() == [17.0]
    file.write_text("ra,dec,plx,gmag,rmag\n1,2,3,19,18\n")
    assert not read_table(str(file)).gaia


def test_a_colour_is_made_of_two_magnitudes_where_the_table_has_only_these(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("ra,dec,plx,Gmag,BPmag,RPmag\n1,2,3,17,17.5,16.25\n")
    assert read_table(str(file)).values["bp_rp"].tolist() == [1.25]


def test_units_of_a_table_are_turned_into_ours(tmp_path: Path) -> None:
    table = Table(
        {"ra": [0.5] * u.rad, "dec": [0.1] * u.rad, "pmra": [1.5] * u.arcsec / u.yr, "pmdec": [0.25] * u.arcsec / u.yr}
    )
    table.write(tmp_path / "t.fits")
    read = read_table(str(tmp_path / "t.fits"))
    assert read.ra[0] == pytest.approx(np.degrees(0.5))
    assert read.dec[0] == pytest.approx(np.degrees(0.1))
    assert (read.pmra[0], read.pmdec[0]) == pytest.approx((1500.0, 250.0))


def test_right_ascension_in_hours_and_units_that_nobody_reads(tmp_path: Path) -> None:
    fields = [("ra", "h"), ("dec", "deg"), ("pmra", "furlong/fortnight"), ("pmdec", "mas/yr")]
    told = "".join(f"<FIELD name='{n}' datatype='double' unit='{unit}'/>" for n, unit in fields)
    cells = "".join(f"<TD>{v}</TD>" for v in (1.5, 10, 3, 4))
    (tmp_path / "t.vot").write_text(
        "<VOTABLE version='1.4' xmlns='http://www.ivoa.net/xml/VOTable/v1.3'><RESOURCE><TABLE>"
        f"{told}<DATA><TABLEDATA><TR>{cells}</TR></TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>"
    )
    read = read_table(str(tmp_path / "t.vot"))
    assert (read.ra[0], read.pmra[0]) == (22.5, 3.0)
    assert "pmra is in 'furlong / fortnight', which was taken for mas / yr" in read.notices[0]


def test_sexagesimal_positions_are_hours_and_degrees(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("name,ra,dec\nU Gem,07 55 05.23,+22 00 05.1\nBarnard,17:57:48.5,-04:41:36\nlost,,\n")
    read = read_table(str(file))
    assert read.ra[:2] == pytest.approx([118.771792, 269.452083], abs=1e-6)
    assert read.dec[:2] == pytest.approx([22.001417, -4.693333], abs=1e-6)
    assert np.isnan(read.ra[2])
    assert read.notices == (f"{file}: 1 of 3 rows have no position",)


@pytest.mark.parametrize(
    "text",
    [
        "# VizieR\n#Name\n_RAJ2000;_DEJ2000;Name;Type\ndeg;deg;;\n-------;-------;----;---\n 10.5;-20.5;U Gem;UGSS\n",
        "_RAJ2000\t_DEJ2000\tName\tType\ndeg\tdeg\t\t\n------\t------\t---\t---\n10.5\t-20.5\tU Gem\tUGSS\n",
        "# ra dec name type\n10.5  -20.5 U_Gem UGSS\n",
        "ra,dec,name,type\r\n10.5,-20.5,U Gem,UGSS\r\n",
        "\ufeffra|dec|name|type\n10.5|-20.5|U Gem|UGSS\n",
        "ra,dec,name,type\n# the first star\n10.5,-20.5,U Gem,UGSS\n\n# the end\n",
        'ra,dec,"name","type"\n"10.5","-20.5","U Gem","UGSS"\n',
    ],
    ids=[
        "vizier with semicolons",
        "vizier with tabs",
        "commented header",
        "windows",
        "byte order mark",
        "comments between",
        "quoted",
    ],
)
def test_text_is_read_however_it_is_laid_out(tmp_path: Path, text: str) -> None:
    file = tmp_path / "vsx.txt"
    file.write_text(text, encoding="utf-8")
    read = read_table(str(file))
    assert (read.ra.tolist(), read.dec.tolist()) == ([10.5], [-20.5])
    assert [name.replace("_", " ") for name in read.names] == ["U Gem"]
    assert read.types == ["UGSS"]


def test_a_packed_table_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "VSX Part-1.csv.gz"
    file.write_bytes(gzip.compress(b"ra,dec,name\n1,2,A\n"))
    read = read_table(str(file))
    assert (read.name, read.names) == ("vsx_part-1", ["A"])


PACKED = gzip.compress(b"ra,dec\n" + b"".join(b"%d,%d\n" % (i, i * i % 89) for i in range(360)), mtime=0)

REFUSED = b"""<?xml version='1.0'?>
<VOTABLE><RESOURCE type='results'><INFO name='QUERY_STATUS' value='ERROR'/></RESOURCE></VOTABLE>"""
"""What a TAP service sends instead of a table."""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"x,y\n1,2\n", "no column of ra and dec: looked for ra, ra_icrs, radeg"),
        (b"ra,y\n1,2\n", "no column of dec: looked for dec, de_icrs"),
        (b"ra,dec,parallax\n1,2,3\n1,2,three\n", "row 2: parallax is 'three', which is no number"),
        (b"ra,dec\n1,2\n1,2,3\n", "cannot be read as a table"),
        (b"ra dec\n1 2\n1 2 3\n", "line 3: 3 values, 2 columns in the header"),
        (b"ra,dec,ra\n1,2,3\n", "column names repeat: ra"),
        (b"", "is an empty file"),
        (b"# nothing\n\n", "holds no table"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is no table"),
        (PACKED[:600], "a damaged gzip file"),
        (b"PAR1 and then nothing", "a damaged Parquet file"),
        (b"SIMPLE  =                    T" + b" " * 50 + b"BITPIX", "cannot be read as a table"),
        (REFUSED, "a VOTable without a table"),
        (b"<html><body>Internal Server Error</body></html>", "no column of ra and dec"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_told_with_its_file_and_field(tmp_path: Path, text: bytes, says: str) -> None:
    file = tmp_path / "t.dat"
    file.write_bytes(text)
    with pytest.raises(InputError) as error:
        read_table(str(file))
    assert str(error.value).startswith(str(file))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("ra=nowhere", "no column 'nowhere' for ra; columns: ra, dec"),
        ("right=ra", "--columns right=ra: right is no meaning; choose from ra, dec, source_id"),
        ("ra", "--columns ra: write MEANING=COLUMN"),
        ("ref_epoch=12", "no column '12' for ref_epoch"),
    ],
)
def test_a_column_that_is_named_and_not_there_is_an_error(tmp_path: Path, columns: str, says: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text("ra,dec\n1,2\n")
    with pytest.raises(InputError, match=r"column|meaning|MEANING") as error:
        read_table(str(file), columns=parsed_columns(columns))
    assert says in str(error.value)


def test_motions_faster_than_any_star_and_places_off_the_sky_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("ra,dec,pmra,pmdec,ref_epoch\n1,2,1e20,0,2016\n400,2,0,0,2016\n-10,2,0,0,2016\n3,95,0,0,2016\n")
    read = read_table(str(file))
    assert np.isnan(read.pmra[0])
    assert np.isnan(read.ra[1])
    assert read.ra[2] == 350.0
    assert np.isnan(read.dec[3])
    assert len(read.notices) == 2


def test_a_table_of_ids_alone_is_enough_for_gaia(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"source_id,parallax,Gmag\n{ODD[0]},5,15\n")
    read = read_table(str(file))
    assert read.ids == [str(ODD[0])]
    assert np.isnan(read.ra[0])
