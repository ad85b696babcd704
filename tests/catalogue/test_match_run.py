"""`specvet match` over run folders: written, resumed, added to, exported, reported; killed, damaged, renamed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from match_lab import GAIA, STARS, WD_ID, write_csv, write_run

from specvet.catalogue.matching import (
    Place,
    TableSource,
    WithGaia,
    match_run,
    read_about,
    read_answers,
    read_matches,
    read_table,
    write_matches,
)
from specvet.catalogue.sighting import Gaia, Known, Match, Sighting
from specvet.cli.main import main
from specvet.cli.match import paired
from specvet.data.errors import InputError
from specvet.records import RunFolder
from specvet.vetting import write_report
from specvet.vetting.columns import MATCH_COLUMNS

VSX = [
    {"Name": "Z Cam", "RAJ2000": 11.0, "DEJ2000": 21.0, "Type": "UGZ", "Period": 0.29},
    {"Name": "far", "RAJ2000": 13.5, "DEJ2000": 23.5, "Type": "M", "Period": 300},
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "RUN")


@pytest.fixture
def gaia(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "gaia.csv")


@pytest.fixture
def vsx(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "vsx.csv", VSX)


def matched(run: Path, *sources: Any, radius: float = 2.0, told: list[str] | None = None) -> Any:
    with RunFolder.read(run) as folder:
        return match_run(folder, sources, radius, tell=(told if told is not None else []).append)


def exported(run: Path) -> dict[str, dict[str, str]]:
    out = run.parent / "out.csv"
    assert main(["export", str(run), "--out", str(out)]) == 0
    with open(out, encoding="utf-8", newline="") as f:
        return {row["file"]: row for row in csv.DictReader(f)}


def test_a_run_is_matched_with_gaia_and_a_list_of_variables_from_the_command_line(
    run: Path, gaia: Path, vsx: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = exported(run)
    assert (
        main(["match", str(run), "--table", str(gaia), "--table", str(vsx), "--as", "variables", "--keep", "Period"])
        == 0
    )
    out = capsys.readouterr().out
    assert "6 spectra, 5 with a position\ngaia: 4 found\nvariables: knows 1\nnew: 3\n" in out
    assert "gm with Gaia: 1 YES → NO\nwd with Gaia: 1 UNSURE → YES\n" in out
    rows = exported(run)
    names = [column.name for column in MATCH_COLUMNS]
    assert list(rows["dc.fits"])[-len(names) :] == names
    mine = {*names, "object"}  # a star's Gaia id names it, once that is known
    same = [{f: {n: v for n, v in r.items() if n not in mine} for f, r in of.items()} for of in (rows, before)]
    assert same[0] == same[1]
    dc, dwarf, giant, bad, alone, lost = (rows[star["file"]] for star in STARS)
    assert dc["gaia_source_id"] == WD_ID
    assert float(dc["gaia_separation"]) == pytest.approx(0.0, abs=0.01)
    assert (dc["answer"], dc["answer_with_gaia"], dc["used"]) == ("UNSURE", "YES", "spectrum, gaia")
    assert (float(dc["m_g"]), float(dc["m_g_error"])) == (13.0, pytest.approx(0.0217, abs=1e-4))
    assert dc["why_with_gaia"].startswith("M_G = 13.00 ± 0.02, BP−RP = 0.30: on the white-dwarf sequence")
    assert (dwarf["answer"], dwarf["answer_with_gaia"], dwarf["known_as"]) == ("YES", "NO", "variables: Z Cam (UGZ)")
    assert (giant["answer_with_gaia"], giant["known_as"], giant["m_g"]) == ("YES", "new", "-1.0")
    assert (bad["answer_with_gaia"], bad["used"], bad["m_g"]) == ("UNSURE", "spectrum", "")
    assert (alone["gaia_source_id"], alone["answer_with_gaia"], alone["why_with_gaia"]) == (
        "",
        "YES",
        "no Gaia source was found",
    )
    assert (lost["known_as"], lost["answer_with_gaia"]) == ("", "NO_DATA")
    assert dc["known_as"] == ""  # two variables a degree away do not reach there


def test_the_receipt_says_what_was_asked_and_the_files_are_those_it_names(run: Path, gaia: Path) -> None:
    import hashlib

    matched(run, TableSource(read_table(str(gaia))), radius=1.5)
    about = read_about(run)
    assert about is not None
    assert about["radius_arcsec"] == 1.5
    assert about["sources"]["gaia"]["sha256"] == hashlib.sha256(gaia.read_bytes()).hexdigest()
    assert (about["sources"]["gaia"]["rows"], about["sources"]["gaia"]["file"]) == (4, "gaia.csv")
    assert about["counts"] == {"spectra": 6, "with_position": 5, "gaia": 4, "known": {}, "new": 0, "with_notes": 0}
    assert about["changed"] == {"gm": {"YES → NO": 1}, "wd": {"UNSURE → YES": 1}}
    for name, sha in about["files"].items():
        assert hashlib.sha256((run / "match" / name).read_bytes()).hexdigest() == sha
    assert str(gaia.parent) not in (run / "match" / "match.json").read_text()


def test_matches_and_answers_read_back_as_they_were_written(run: Path) -> None:
    full = Gaia(WD_ID, 1.5, -2.5, 2016.0, 1.0, -2.0, 3.0, 0.1, 1.02, 15.25, -0.125)
    known = (Known("vsx", "U Gem", "UGSS", 0.25, (("Period", "0.1769"), ("Ω", ""))), Known("mine", ""))
    matches = [
        Match(("a.fits", 0), full, 0.123, known, ("gaia", "vsx"), ("odd: “2″”",)),
        Match(("a.fits", 1), Gaia("", 0.0, 0.0)),
        Match(("ü b.fits", 0), asked=("gaia",)),
    ]
    answers = {
        Place("a.fits", 0, "wd"): WithGaia("UNSURE", "YES", "spectrum, gaia", "M_G = 1"),
        Place("a.fits", 0, "wd", 1): WithGaia("NO", "NO", "spectrum", ""),
    }
    write_matches(run, matches, answers, {"note": 1})
    assert list(read_matches(run).values()) == matches
    assert read_answers(run) == answers
    assert (read_about(run) or {})["note"] == 1


def test_a_run_that_was_not_matched_has_nothing_to_read(run: Path) -> None:
    assert (read_matches(run), read_answers(run), read_about(run)) == ({}, {}, None)
    assert "answer_with_gaia" not in exported(run)["dc.fits"]


class Counting:
    """A source that counts how often it is asked, and may fail or not come to an end."""

    def __init__(self, name: str = "counting", version: int = 1, fails: bool = False, complete: bool = True) -> None:
        self.name, self.told, self.complete = name, {"version": version}, complete
        self.asked, self._fails = 0, fails

    def matches(self, sightings: Sequence[Sighting], radius_arcsec: float, progress: Any) -> Iterator[Match]:
        self.asked += 1
        for i, sighting in enumerate(sightings):
            if self._fails and i == 2:
                raise KeyboardInterrupt
            yield Match(sighting.key, known=(Known(self.name, f"{self.name} {i}"),), asked=(self.name,))


def test_the_same_tables_again_do_nothing_and_others_join(run: Path, gaia: Path, vsx: Path) -> None:
    matched(run, TableSource(read_table(str(gaia))))
    written = {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in (run / "match").rglob("*.[pj]*")}
    again = matched(run, TableSource(read_table(str(gaia))))
    assert (again.done, again.asked, again.kept) == (False, [], ["gaia"])
    assert {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in (run / "match").rglob("*.[pj]*")} == written
    more = matched(run, TableSource(read_table(str(vsx))))
    assert (more.done, more.asked, more.kept, more.gaia, more.known) == (True, ["vsx"], ["gaia"], 4, {"vsx": 1})
    assert read_matches(run)["dwarf.fits", 0].asked == ("gaia", "vsx")


def test_a_source_is_asked_again_when_it_the_radius_or_the_spectra_have_changed(run: Path) -> None:
    source = Counting()
    for radius, asked in ((2.0, 1), (2.0, 1), (3.0, 2)):
        matched(run, source, radius=radius)
        assert source.asked == asked
    write_run(run, [STARS[0] | {"file": "late.fits"}])
    matched(run, source, radius=3.0)
    assert source.asked == 3
    newer = Counting(version=2)
    matched(run, newer, radius=3.0)
    assert newer.asked == 1
    unfinished = Counting("archive", complete=False)
    matched(run, unfinished)
    matched(run, unfinished)
    assert unfinished.asked == 2


def test_ctrl_c_in_one_source_keeps_what_another_said(run: Path) -> None:
    first, second = Counting("first"), Counting("second", fails=True)
    with pytest.raises(KeyboardInterrupt):
        matched(run, first, second)
    assert read_matches(run) == {}
    assert not list((run / "match").rglob("*.tmp"))
    found = matched(run, first, Counting("second"))
    assert (first.asked, found.asked, found.known) == (1, ["second"], {"first": 6, "second": 6})


def test_verdicts_that_came_since_get_theirs_without_a_table(
    run: Path, gaia: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matched(run, TableSource(read_table(str(gaia))))
    write_run(run, [STARS[0] | {"task": "cc", "answer": "YES"}])
    late = {(r["file"], r["task"]): r for r in _rows(run)}["dc.fits", "cc"]
    assert (late["answer_with_gaia"], late["gaia_source_id"]) == ("", WD_ID)
    assert main(["match", str(run)]) == 0
    assert "cc with Gaia: 1 YES → NO" in capsys.readouterr().out
    late = {(r["file"], r["task"]): r for r in _rows(run)}["dc.fits", "cc"]
    assert late["answer_with_gaia"] == "NO"  # Swan bands on the white-dwarf sequence: a DQ


def _rows(run: Path) -> list[dict[str, str]]:
    out = run.parent / "rows.csv"
    assert main(["export", str(run), "--out", str(out)]) == 0
    with open(out, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def test_a_table_under_the_name_of_an_earlier_one_takes_its_place(run: Path, gaia: Path, tmp_path: Path) -> None:
    matched(run, TableSource(read_table(str(gaia))))
    moved = write_csv(tmp_path / "dr4.csv", [row | {"phot_g_mean_mag": 12.0} for row in GAIA])
    found = matched(run, TableSource(read_table(str(moved), "gaia")))
    assert (found.asked, found.kept) == (["gaia"], [])
    assert {m.gaia.g for m in read_matches(run).values() if m.gaia} == {12.0}


@pytest.mark.parametrize("name", ["matches.parquet", "answers.parquet", "match.json"])
def test_a_damaged_file_is_told_and_matching_again_repairs_it(
    run: Path, gaia: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    matched(run, TableSource(read_table(str(gaia))))
    whole = (run / "match" / name).read_bytes()
    (run / "match" / name).write_bytes(whole[: len(whole) // 2])
    if name != "match.json":
        assert main(["export", str(run), "--out", str(run.parent / "x.csv")]) == 2
        assert re.search(rf"{name}: cannot be read .*; run specvet match again", capsys.readouterr().err)
    else:
        with pytest.raises(InputError, match=r"match\.json: cannot be read .*; run specvet match again"):
            read_about(run)
    assert main(["match", str(run), "--table", str(gaia), "--quiet"]) == 0
    again = (run / "match" / name).read_bytes()
    assert again == whole or (name == "match.json" and json.loads(again).keys() == json.loads(whole).keys())


def test_what_a_source_said_and_that_was_damaged_is_asked_again(run: Path, gaia: Path, vsx: Path) -> None:
    told: list[str] = []
    matched(run, TableSource(read_table(str(gaia))), TableSource(read_table(str(vsx))))
    file = run / "match" / "sources" / "vsx.parquet"
    file.write_bytes(b"PAR1")
    found = matched(run, told=told)
    assert (found.gaia, found.known) == (4, {})
    assert "what vsx said cannot be read and was left out; name it again" in told[0]
    assert matched(run, TableSource(read_table(str(vsx)))).known == {"vsx": 1}


def test_an_older_radius_of_another_source_is_told(run: Path, gaia: Path, vsx: Path) -> None:
    told: list[str] = []
    matched(run, TableSource(read_table(str(gaia))))
    matched(run, TableSource(read_table(str(vsx))), radius=5.0, told=told)
    assert told == ["gaia was asked with another radius, or before spectra joined the run; name it again to ask anew"]


def test_a_file_states_its_gaia_id_and_that_goes_first(tmp_path: Path, gaia: Path) -> None:
    stars = [
        STARS[1] | {"file": "a.fits", "ids": {"gaia_dr3": WD_ID}},
        STARS[1] | {"file": "b.fits", "id": f"Gaia DR3 {WD_ID}"},
    ]
    run = write_run(tmp_path / "RUN", stars)
    matched(run, TableSource(read_table(str(gaia))))
    assert {m.gaia.source_id for m in read_matches(run).values() if m.gaia} == {WD_ID}


def test_the_report_shows_the_star_in_the_diagram_and_both_verdicts(run: Path, gaia: Path, vsx: Path) -> None:
    matched(run, TableSource(read_table(str(gaia))), TableSource(read_table(str(vsx))))
    page = write_report(run).read_text(encoding="utf-8")
    assert page.count('<svg class="cmd"') == 4  # bad.fits: an arrow from the limit of its magnitude
    assert 'With Gaia: <span class="chip YES"><b>YES</b></span> instead of UNSURE' in page
    assert "used: spectrum, gaia; the verdict above rests on the spectrum alone" in page
    assert f"{WD_ID} at 0.00″, G 18.00, BP−RP 0.30, parallax 10.000 ± 0.100 mas, RUWE 1.00, M_G 13.00 ± 0.02" in page
    assert "vsx: Z Cam (UGZ)" in page
    plain = run.parent / "PLAIN"
    assert '<svg class="cmd"' not in write_report(write_run(plain)).read_text(encoding="utf-8")


NONE = ["--as", "", "--columns", "", "--keep", ""]


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (["R", "--table", "a"], ["R", "--table", "a", *NONE]),
        (["--table=a", "--as=x", "R", "-q"], ["--table", "a", "R", "-q", "--as", "x", "--columns", "", "--keep", ""]),
        (
            ["--table", "a", "--table", "b", "--as", "y"],
            ["--table", "a", *NONE, "--table", "b", "--as", "y", "--columns", "", "--keep", ""],
        ),
        (["R"], ["R"]),
        (["R", "--table"], ["R", "--table"]),
        (["--table", "a", "--", "--as"], ["--table", "a", *NONE, "--", "--as"]),
    ],
)
def test_names_and_columns_stay_with_the_table_before_them(given: list[str], becomes: list[str]) -> None:
    assert paired(given) == becomes


HOSTILE = "<script>alert(1)</script>\"'&"


def test_a_hostile_name_in_a_table_stays_a_word_on_the_page_and_a_cell_in_the_table(run: Path, tmp_path: Path) -> None:
    evil = write_csv(tmp_path / "evil.csv", [{"name": HOSTILE, "ra": 11.0, "dec": 21.0, "type": "=1+1"}])
    matched(run, TableSource(read_table(str(evil))))
    page = write_report(run).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "evil: &lt;script&gt;alert(1)" in page
    assert exported(run)["dwarf.fits"]["known_as"] == f"evil: {HOSTILE} (=1+1)"


@pytest.mark.parametrize("suffix", ["fits", "vot", "ecsv", "parquet"])
def test_every_format_of_an_export_has_the_columns_with_units_and_whole_ids(run: Path, gaia: Path, suffix: str) -> None:
    from astropy.table import Table

    matched(run, TableSource(read_table(str(gaia))))
    out = run.parent / f"out.{suffix}"
    assert main(["export", str(run), "--out", str(out)]) == 0
    if suffix == "parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(out).to_pylist()
        assert (rows[0]["gaia_source_id"], rows[0]["m_g"], rows[4]["m_g"]) == (WD_ID, 13.0, None)
        return
    table = Table.read(out)
    assert str(table["gaia_source_id"][0]) == WD_ID
    assert table["m_g"][0] == pytest.approx(13.0)
    assert str(table["parallax"].unit) == "mas"
    assert str(table["answer_with_gaia"][0]) == "YES"


def test_the_columns_have_words_of_the_controlled_vocabulary() -> None:
    from astropy.io.votable.ucd import check_ucd

    for column in MATCH_COLUMNS:
        assert check_ucd(column.ucd, check_controlled_vocabulary=True), column.name
        assert column.says


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--as", "x", "--table", "{gaia}"], "--as x: belongs behind the --table that it is about"),
        (["--table", "{gaia}", "--as", "x", "--as", "y"], "--as y: is given twice for one --table"),
        (["--table", "nowhere.csv"], "--table nowhere.csv: no such file"),
        (["--table", "{gaia}", "--table", "{gaia}"], "a second table is called gaia; tell them apart with --as"),
        (["--table", "{gaia}", "--as", "../x"], "is no name for a catalogue"),
        (["--table", "{gaia}", "--radius", "0"], "--radius 0: give arcseconds"),
        (["--table", "{gaia}", "--columns", "ra=nope"], "no column 'nope' for ra; columns: source_id, ra, dec"),
        (["--table", "{gaia}", "--keep", "nope"], "no column nope to keep"),
        ([], "nothing to match with; give a catalogue, as in --table gaia.csv"),
    ],
)
def test_a_wrong_command_is_told_what_is_wrong(
    run: Path, gaia: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", str(run), *(a.format(gaia=gaia) for a in arguments)]) == 2
    assert says in capsys.readouterr().err
    assert not (run / "match" / "match.json").exists()


def test_what_is_no_run_is_told(tmp_path: Path, gaia: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", str(tmp_path / "nowhere"), "--table", str(gaia)]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_result_is_one_json_object(run: Path, gaia: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", str(run), "--table", str(gaia), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["gaia"], found["asked"], found["changed"]["wd"]) == (4, ["gaia"], {"UNSURE → YES": 1})


def test_names_of_sources_are_file_names_and_nothing_else(run: Path) -> None:
    for name in ("../x", "a/b", "", ".hidden", "x\0"):
        with pytest.raises(InputError, match="is no name for a catalogue"):
            matched(run, Counting(name))
