"""Names in tables without proper motions, looked for where Gaia's motion has the star at the table's epoch."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from match_lab import GAIA, STARS, WD_ID, write_csv, write_run

from specvet.catalogue.matching import TableSource, match_run, read_matches, read_table
from specvet.catalogue.matching.motion import sightings_in, still_epoch
from specvet.catalogue.sighting import Gaia, Sighting
from specvet.cli.main import main
from specvet.records import RunFolder

# dc.fits was observed in 2000.0; in 1990 the star was 5″ north of there (-500 mas/yr).
IN_1990 = {"Name": "LP 1", "RAJ2000": 10.0, "DEJ2000": 20.0 + 5.0 / 3600, "Type": "ZZ"}
FIELD = [{"Name": "far", "RAJ2000": 12.0, "DEJ2000": 22.5, "Type": "M"}]


def names(run: Path, *tables: str, **columns: str) -> dict[str, list[str]]:
    sources = [TableSource(read_table(table, columns=columns if "vsx" in table else None)) for table in tables]
    with RunFolder.read(run) as folder:
        match_run(folder, sources)
    return {file: [k.name for k in match.known] for (file, _), match in read_matches(run).items()}


@pytest.mark.parametrize("first", ["gaia", "vsx"])
def test_a_fast_star_is_known_where_it_was_at_the_tables_epoch_in_whatever_order_tables_are_named(
    tmp_path: Path, first: str
) -> None:
    run = write_run(tmp_path / "RUN")
    gaia, vsx = str(write_csv(tmp_path / "gaia.csv")), str(write_csv(tmp_path / "vsx.csv", [IN_1990, *FIELD]))
    tables = (gaia, vsx) if first == "gaia" else (vsx, gaia)
    assert names(run, *tables, ref_epoch="1990")["dc.fits"] == ["LP 1"]
    match = read_matches(run)["dc.fits", 0]
    assert match.known[0].separation_arcsec == pytest.approx(0.0, abs=0.01)
    assert match.notes == ("vsx has it where it was in 1990 by Gaia's motion",)
    with RunFolder.read(run) as folder:  # asked once: the same tables again do nothing
        again = [TableSource(read_table(gaia)), TableSource(read_table(vsx, columns={"ref_epoch": "1990"}))]
        assert match_run(folder, again).done is False


def test_without_gaia_it_is_new_and_a_table_named_again_beside_gaia_finds_it(tmp_path: Path) -> None:
    run, vsx = write_run(tmp_path / "RUN"), str(write_csv(tmp_path / "vsx.csv", [IN_1990, *FIELD]))
    assert names(run, vsx, ref_epoch="1990")["dc.fits"] == []
    assert names(run, vsx, str(write_csv(tmp_path / "gaia.csv")), ref_epoch="1990")["dc.fits"] == ["LP 1"]


def test_what_a_table_has_at_the_place_of_the_spectrum_stays(tmp_path: Path) -> None:
    run = write_run(tmp_path / "RUN")
    here = {"Name": "here", "RAJ2000": 10.0, "DEJ2000": 20.0, "Type": "UG"}
    vsx = str(write_csv(tmp_path / "vsx.csv", [IN_1990, here, *FIELD]))
    assert names(run, str(write_csv(tmp_path / "gaia.csv")), vsx, ref_epoch="1990")["dc.fits"] == ["here"]
    assert read_matches(run)["dc.fits", 0].notes == ()


def test_only_stars_that_moved_by_more_than_the_radius_are_looked_for_elsewhere() -> None:
    fast, slow = Gaia("1", 10.0, 20.0, pmra=0.0, pmdec=-500.0), Gaia("2", 11.0, 20.0, pmra=0.0, pmdec=-50.0)
    unknown = Gaia("3", 12.0, 20.0)
    seen = [Sighting((f"{n}.fits", 0), ra=10.0 + n, dec=20.0, mjd=57388.5) for n in range(4)]
    gaia = {s.key: source for s, source in zip(seen, (fast, slow, unknown), strict=False)}
    (moved,) = sightings_in(2000.0, seen, gaia, 2.0)
    assert (moved.key, moved.mjd) == (("0.fits", 0), None)
    assert moved.dec == pytest.approx(20.0 + 8.0 / 3600, abs=1e-7)


def test_gaias_table_a_table_with_motions_and_one_of_several_epochs_are_taken_as_they_are(tmp_path: Path) -> None:
    def epoch(rows: list[dict[str, object]], **columns: str) -> float | None:
        return still_epoch(read_table(str(write_csv(tmp_path / "t.csv", rows)), columns=columns))

    assert epoch(list(GAIA)) is None
    assert epoch([IN_1990 | {"pmra": 3.0, "pmdec": 4.0}]) is None
    assert epoch([IN_1990 | {"ref_epoch": 1990.0}, FIELD[0] | {"ref_epoch": 2000.0}]) is None
    assert epoch([IN_1990, *FIELD]) == 2000.0


def test_spectra_that_no_table_of_names_reaches_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, vsx = write_run(tmp_path / "RUN"), write_csv(tmp_path / "vsx.csv", FIELD)
    assert main(["match", str(run), "--table", str(vsx), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["placed"], told["known"], told["new"], told["beyond"]) == (5, {}, 2, 3)
    assert main(["match", str(write_run(tmp_path / "R2")), "--table", str(vsx)]) == 0
    assert "neither: 3, where these catalogues have no rows" in capsys.readouterr().out
    assert main(["match", str(write_run(tmp_path / "R3")), "--table", str(write_csv(tmp_path / "gaia.csv"))]) == 0
    assert "neither" not in capsys.readouterr().out


def test_an_object_has_the_gaia_numbers_names_and_verdicts_of_its_star(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two epochs of the white dwarf, of which one stands 5 years and 2.5″ on: Gaia's id makes them one.
    later = STARS[0] | {"file": "later.fits", "dec": 20.0 - 2.5 / 3600, "mjd": 51544.5 + 5 * 365.25, "answer": "NO"}
    run = write_run(tmp_path / "RUN", [*STARS, later])
    plain = _objects(run, tmp_path)
    assert "g_mag" not in next(iter(plain.values()))
    vsx = write_csv(tmp_path / "vsx.csv", [IN_1990, *FIELD])
    tables = ["--table", str(write_csv(tmp_path / "gaia.csv")), "--table", str(vsx), "--columns", "ref_epoch=1990"]
    assert main(["match", str(run), *tables, "--quiet"]) == 0
    dc = _objects(run, tmp_path)[f"Gaia DR3 {WD_ID}"]
    assert (dc["n_spectra"], dc["wd_epochs"]) == ("2", "UNSURE; NO")
    assert (dc["g_mag"], dc["bp_rp"], dc["m_g"], dc["known_as"]) == ("18.0", "0.3", "13.0", "vsx: LP 1 (ZZ)")
    assert dc["match_notes"] == "vsx has it where it was in 1990 by Gaia's motion"  # once, though of both epochs
    assert (dc["wd_answer"], dc["wd_with_gaia"]) == ("NO", "UNSURE")
    assert "although the spectrum was not taken for one" in dc["wd_why_with_gaia"]
    assert dc["notes"] == ""  # that it moved is nothing odd
    capsys.readouterr()
    assert main(["objects", str(run), "--task", "wd"]) == 0
    listing = capsys.readouterr().out
    assert "NO 0/1, Gaia UNSURE" in listing
    assert "Gaia YES: the verdict with Gaia, where it differs" in listing
    assert main(["objects", str(run), "--json"]) == 0
    told = {one["object"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}[f"Gaia DR3 {WD_ID}"]
    assert (told["match"]["m_g"], told["match"]["known_as"]) == (13.0, "vsx: LP 1 (ZZ)")
    assert told["verdicts"]["wd"]["answer_with_gaia"] == "UNSURE"
    dwarf = _objects(run, tmp_path)["Gaia DR3 2"]
    assert (dwarf["gm_answer"], dwarf["gm_with_gaia"], dwarf["wd_with_gaia"]) == ("YES", "NO", "")
    lost = _objects(run, tmp_path)["lost.fits:0"]
    assert (lost["g_mag"], lost["known_as"], lost["wd_answer"], lost["wd_with_gaia"]) == ("", "", "NO_DATA", "")


def _objects(run: Path, folder: Path) -> dict[str, dict[str, str]]:
    out = folder / "objects.csv"
    assert main(["export", str(run), "--objects", "--out", str(out)]) == 0
    with open(out, encoding="utf-8", newline="") as f:
        return {row["object"]: row for row in csv.DictReader(f)}
