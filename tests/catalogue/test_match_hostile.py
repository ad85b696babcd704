"""Tables and processes that are not as they should be: what stands for nothing becomes no star, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from match_lab import GAIA, WD_ID, write_csv, write_run

from specvet.catalogue.archive.errors import AnswerError
from specvet.catalogue.archive.votable import read_sheet
from specvet.catalogue.matching import TableSource, match_run, read_answers, read_matches, read_table, table
from specvet.catalogue.plausible import is_source_id, moves, plausible, went_through_floats
from specvet.cli.main import main
from specvet.data.errors import InputError
from specvet.records import RunFolder, RunLockedError
from specvet.spectra.readers.votables import DataElsewhereError, parsed_votable

# Numbers that stand for nothing --------------------------------------------------------------------------------------


FILLS = ["99.99", "99", "-99", "-999", "-9999", "1e20", "inf", "-inf", "999999", "1e300"]


@pytest.mark.parametrize(
    ("column", "fill"),
    [(column, fill) for column in ("phot_g_mean_mag", "bp_rp") for fill in FILLS]
    + [(column, fill) for column in ("parallax_error", "ruwe", "parallax") for fill in FILLS[3:]],
)
def test_a_number_that_stands_for_none_makes_no_verdict(column: str, fill: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = write_csv(tmp_path / "gaia.csv", [dict(GAIA[0]) | {column: fill}])
    read = read_table(os.fspath(file))
    assert any(f"of {column}, as " in notice and "left out" in notice for notice in read.notices)
    assert all(np.isnan(read.values[m][0]) == (c == column) for m, c in read.columns.items() if m in read.values)
    with RunFolder.read(run) as folder:
        match_run(folder, [TableSource(read)])
    answer = next(a for place, a in read_answers(run).items() if place.file == "dc.fits")
    if column == "ruwe":  # without one nothing speaks against the star, as for a table without the column
        assert answer.answer_with_gaia == "YES"
    else:
        assert (answer.answer_with_gaia, answer.used) == ("UNSURE", "spectrum")
    assert main(["report", os.fspath(run)]) == 0


@pytest.mark.parametrize("fill", [-9999, -999, 9999, 99999, 1e20, "inf"])
def test_a_motion_that_stands_for_none_moves_no_star(fill: Any, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "g.csv", [dict(GAIA[1]) | {"pmra": fill, "pmdec": fill}])
    read = read_table(os.fspath(file))
    assert np.isnan(read.pmra[0])
    assert np.isnan(read.pmdec[0])
    assert any("motion was left out" in notice for notice in read.notices)


def test_the_stars_at_the_ends_of_gaia_are_plausible() -> None:
    barnard, proxima, ross = (-801.55, 10362.39), (-3781.74, 769.47), (-999.0, 12.0)
    assert all(moves(*motion) for motion in (barnard, proxima, ross, (0.0, 0.0)))
    assert plausible("parallax", 768.07)
    assert plausible("parallax", -187.0)
    assert plausible("g", 1.73)
    assert plausible("g", 22.9)
    assert not plausible("g", np.nan)


# Ids -----------------------------------------------------------------------------------------------------------------

TRUE_IDS = [4_700_000_000_000_000_000 + 128 * k for k in (3, 5, 9, 11, 77, 1003, 20_001, 400_003)]
"""Multiples of 128, as Gaia's are; most are no multiples of 1024, which floats of that size are."""


def test_ids_that_went_through_floats_are_told_from_ids_that_did_not(tmp_path: Path) -> None:
    rounded = [int(float(n)) for n in TRUE_IDS]
    assert not went_through_floats(map(str, TRUE_IDS))
    assert went_through_floats(map(str, rounded))
    assert not went_through_floats(["1", "2", "", "3"] * 50), "small numbers are held exactly"
    assert not went_through_floats(map(str, rounded[:3])), "three may be so by chance"
    rows = [dict(GAIA[1]) | {"source_id": n} for n in rounded]
    read = read_table(os.fspath(write_csv(tmp_path / "g.csv", rows)))
    assert read.ids == []
    assert any("went through floating-point numbers" in notice for notice in read.notices)
    read = read_table(os.fspath(write_csv(tmp_path / "t.csv", [dict(GAIA[1]) | {"source_id": n} for n in TRUE_IDS])))
    assert read.ids == list(map(str, TRUE_IDS))


@pytest.mark.parametrize("text", ["٤٦١١", "9" * 40, "9223372036854775808", "-5", "1e18", "²", "1 2", "+7", "0x1f"])
def test_what_is_no_source_id_is_none(text: str, tmp_path: Path) -> None:
    assert not is_source_id(text)
    read = read_table(os.fspath(write_csv(tmp_path / "g.csv", [dict(GAIA[0]) | {"source_id": text}])))
    assert read.ids == [""]
    assert any("are no Gaia DR3 source ids" in notice for notice in read.notices)
    assert is_source_id(WD_ID)


# Files ---------------------------------------------------------------------------------------------------------------


def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_csv(tmp_path / "g.csv")
    plain = table.read_columns

    def changed(path: str, wanted: Any) -> Any:
        columns = plain(path, wanted)
        write_csv(file, GAIA[:1])
        return columns

    monkeypatch.setattr(table, "read_columns", changed)
    with pytest.raises(InputError, match="changed while it was read"):
        read_table(os.fspath(file))


ELSEWHERE = (
    '<?xml version="1.0"?>{doctype}<{v}VOTABLE version="1.3"{ns}><{v}RESOURCE type="results"><{v}INFO '
    'name="QUERY_STATUS" value="OK"/><{v}TABLE><{v}FIELD name="ra" datatype="double"/><{v}FIELD name="dec" '
    'datatype="double"/><{v}DATA><{v}BINARY2>{stream}</{v}BINARY2></{v}DATA></{v}TABLE></{v}RESOURCE></{v}VOTABLE>'
)


@pytest.mark.parametrize("where", ["http", "file"])
@pytest.mark.parametrize("kind", ["plain", "prefix", "entity", "utf-16"])
def test_a_votable_whose_rows_lie_elsewhere_opens_no_other_place(where: str, kind: str, tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bytes(17))

    secret = tmp_path / "secret"
    secret.write_bytes(bytes(17))
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        href = secret.as_uri() if where == "file" else f"http://127.0.0.1:{server.server_port}/rows"
        prefix = "v:" if kind == "prefix" else ""
        stream, doctype = f'<{prefix}STREAM href="{href}"/>', ""
        if kind == "entity":  # the words are put together by the parser
            doctype = f"<!DOCTYPE VOTABLE [<!ENTITY s \"<STR&#69;AM h&#114;ef='{href}'/>\">]>"
            stream = "&s;"
        text = ELSEWHERE.format(doctype=doctype, v=prefix, ns=' xmlns:v="u"' if prefix else "", stream=stream)
        content = text.replace("1.0", '1.0" encoding="utf-16').encode("utf-16") if kind == "utf-16" else text.encode()
        (tmp_path / "t.vot").write_bytes(content)
        for source in (content, os.fspath(tmp_path / "t.vot"), tmp_path / "t.vot"):
            with pytest.raises(DataElsewhereError, match="rows lie elsewhere"):
                parsed_votable(source)
        with open(tmp_path / "t.vot", "rb") as stream_, pytest.raises(DataElsewhereError):
            parsed_votable(stream_)
        if kind != "utf-16":  # which neither takes for a VOTable
            with pytest.raises(AnswerError, match="rows lie elsewhere"):
                read_sheet(content, "", "http://127.0.0.1")
            with pytest.raises(InputError):
                read_table(os.fspath(tmp_path / "t.vot"))
        server.shutdown()
    assert asked == []


def test_a_votable_with_its_rows_in_it_is_read_with_streams_too(tmp_path: Path) -> None:
    from astropy.table import Table

    Table({"ra": [1.5, 2.5]}).write(tmp_path / "t.vot", format="votable", tabledata_format="binary2")
    assert parsed_votable(tmp_path / "t.vot").get_first_table().array["ra"].tolist() == [1.5, 2.5]
    with open(tmp_path / "t.vot", "rb") as stream:
        assert parsed_votable(stream).get_first_table().array["ra"].tolist() == [1.5, 2.5]


def test_entities_that_grow_are_refused(tmp_path: Path) -> None:
    grown = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 9))
    doctype = f'<!DOCTYPE VOTABLE [<!ENTITY a0 "{"A" * 100}">{grown}]>'
    text = ELSEWHERE.format(doctype=doctype, v="", ns="", stream="&a8;")
    (tmp_path / "t.vot").write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        read_table(os.fspath(tmp_path / "t.vot"))


# Processes -----------------------------------------------------------------------------------------------------------


class Waiting(TableSource):
    """A table that is asked until it may go on."""

    __slots__ = ()
    entered, go_on = threading.Event(), threading.Event()

    def matches(self, *args: Any) -> Any:
        self.entered.set()
        self.go_on.wait(30)
        return TableSource.matches(self, *args)


def test_of_two_matches_of_one_run_at_once_the_second_is_told_to_wait(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    gaia = TableSource(read_table(os.fspath(write_csv(tmp_path / "g.csv"))))
    vsx = read_table(os.fspath(write_csv(tmp_path / "vsx.csv", [{"name": "V1", "ra": 10.0, "dec": 20.0}])))
    first = threading.Thread(target=lambda: match_run(RunFolder.read(run), [Waiting(vsx)]))
    first.start()
    Waiting.entered.wait(30)
    with RunFolder.read(run) as folder, pytest.raises(RunLockedError, match="has already opened"):
        match_run(folder, [gaia])
    Waiting.go_on.set()
    first.join()
    with RunFolder.read(run) as folder:
        match_run(folder, [gaia])
    found = read_matches(run)["dc.fits", 0]
    assert found.gaia is not None
    assert [known.name for known in found.known] == ["V1"]


def test_a_match_that_was_killed_is_made_by_the_same_command(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    table_ = write_csv(tmp_path / "g.csv")
    command = [sys.executable, "-m", "specvet", "match", os.fspath(run), "--table", os.fspath(table_)]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (run / "match").exists() and killed.poll() is None:
        time.sleep(0.001)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert main([*command[3:]]) == 0
    found = read_matches(run)["dc.fits", 0].gaia
    assert found is not None
    assert found.source_id == WD_ID
