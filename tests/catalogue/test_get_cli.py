"""`specvet get` from the command line, to `specvet vet` on what it got; also when it is killed in the middle."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import get_services as services
import pytest
from astropy.table import Table
from get_services import Archive, archive, sparcl_service
from get_spectra import desi_files, lamost_files, records, sdss_files, sdss_ids, target

import specvet
from specvet.catalogue.getting import Folder
from specvet.cli.main import main

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import get_services
get_services.only_loopback()
from specvet.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    undo = services.only_loopback()
    yield
    undo()


@pytest.fixture
def plates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    """An SDSS of three plates, named by the environment."""
    with archive(sdss_files()) as served:
        monkeypatch.setenv("SPECVET_SDSS_URL", served.url)
        yield served


def listed(out: Path) -> list[dict[str, str]]:
    with open(out / "get.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def plate_list(path: Path) -> Path:
    numbers = [tuple(map(int, id.split("-"))) for id in sdss_ids()]
    Table(rows=numbers, names=("plate", "mjd", "fiberid")).write(path)
    return path


def test_what_is_got_is_vetted_by_its_list_and_what_is_missing_is_an_error_row(
    plates: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, run = tmp_path / "spectra", tmp_path / "run"
    assert main(["get", "sdss", str(plate_list(tmp_path / "list.fits")), "266-51602-13", "--out", str(out)]) == 3
    said = capsys.readouterr().out
    assert f"3 of 4 spectra are in {out} (3 files came, " in said
    assert "1 is not there (1 absent)" in said
    assert f"Next: specvet vet {out}/get.csv" in said
    assert (
        main(["vet", str(out / "get.csv"), "--task", "wd", "--policy", "line-indices", "--out", str(run), "--quiet"])
        == 0
    )
    assert main(["export", str(run), "--out", str(tmp_path / "verdicts.csv")]) == 0
    with open(tmp_path / "verdicts.csv", newline="", encoding="utf-8") as file:
        verdicts = list(csv.DictReader(file))
    good = {row["id"]: row["answer"] for row in verdicts if row["answer"] != "ERROR"}
    assert set(good) == set(sdss_ids())
    assert good == dict.fromkeys(sdss_ids(), "YES"), "SIMULATED white dwarfs"
    (missing,) = (row for row in verdicts if row["answer"] == "ERROR")
    assert (missing["id"], missing["task"]) == ("0266-51602-0013", "*")
    assert missing["reason"].endswith("the path is empty")


def test_a_folder_of_all_surveys_is_one_list(
    plates: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "all")
    obsids = [path.rsplit("/", 1)[-1] for path in lamost_files()]
    (tmp_path / "targets.csv").write_text(f"TARGETID,survey,program,healpix\n{target(5)},main,dark,10378\n")
    Table({"TARGETID": [target(2)], "SURVEY": ["main"], "PROGRAM": ["dark"], "HEALPIX": [10378]}).write(
        tmp_path / "zall-pix-iron.fits"
    )
    zcat = ["--zcat", str(tmp_path / "zall-pix-iron.fits")]
    monkeypatch.setenv("LAMOST_TOKEN", "F00secret")
    with archive(lamost_files()) as lamost, archive(desi_files()) as desi, sparcl_service(records()) as sparcl:
        lamost.token = "F00secret"
        assert main(["get", "sdss", sdss_ids()[0], "--out", out, "--quiet"]) == 0
        assert main(["get", "lamost", *obsids[:2], "--out", out, "--service", f"lamost={lamost.url}", "--quiet"]) == 0
        where = ["--out", out, "--service", f"desi={desi.url}", "--service", f"sparcl={sparcl.url}"]
        assert main(["get", "desi", str(tmp_path / "targets.csv"), str(target(2)), *zcat, *where, "--quiet"]) == 0
        assert main(["get", "desi", str(target(1)), "--from", "sparcl", *where, "--quiet"]) == 0
    rows = listed(tmp_path / "all")
    assert [row["survey"] for row in rows] == ["sdss", "lamost", "lamost", "desi", "desi", "sparcl"]
    assert [row["row"] for row in rows] == ["0", "0", "0", "5", "2", "0"]
    for row in rows:
        spectrum = specvet.read(tmp_path / "all" / row["file"])[int(row["row"])]
        assert row["id"] in (spectrum.id, *spectrum.ids.values())
    run = tmp_path / "run"
    assert (
        main(["vet", f"{out}/get.csv", "--task", "wd", "--policy", "line-indices", "--out", str(run), "--quiet"]) == 0
    )
    capsys.readouterr()
    assert main(["export", str(run), "--out", "-"]) == 0
    verdicts = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in verdicts] == [row["id"] for row in rows]
    assert not [row for row in verdicts if row["answer"] == "ERROR"]


def test_a_dry_run_shows_addresses_and_counts_and_touches_neither_net_nor_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.txt").write_text("266-51602-13\n2108-53473-415\n0266-51602-0013\nnonsense\n")
    where = ["--run2d", "26", "--out", str(tmp_path / "out"), "--dry-run"]
    arguments = ["get", "sdss", str(tmp_path / "list.txt"), *where]
    assert main([*arguments, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    base = "https://data.sdss.org/sas/dr17/sdss/spectro/redux/26/spectra/lite"
    assert plan["addresses"] == [f"{base}/0266/spec-0266-51602-0013.fits", f"{base}/2108/spec-2108-53473-0415.fits"]
    assert (plan["spectra"], plan["files"], plan["duplicates"]) == (2, 2, 1)
    assert [p["asked"] for p in plan["problems"]] == ["list.txt line 4"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == plan["addresses"]
    assert "2 spectra in 2 files would go to" in said
    assert "1 asked for twice, 1 not understood" in said
    assert not (tmp_path / "out").exists()
    assert main(["get", "desi", "main/dark/10378/5", "sv3/dark/9/6", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 4, "with a redrock catalogue each"


def test_the_outcome_is_one_json_object_and_the_exit_code_says_how_it_went(
    plates: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x")
    assert main(["get", "sdss", *sdss_ids(), sdss_ids()[0], "--out", out, "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert {k: outcome[k] for k in ("asked", "there", "files_fetched", "duplicates", "missing", "given_up")} == {
        "asked": 3, "there": 3, "files_fetched": 3, "duplicates": 1, "missing": {}, "given_up": "",
    }  # fmt: skip
    assert main(["get", "sdss", "266-51602-13", "--out", out, "--json"]) == 1
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["missing"] == {"absent": 1}
    assert outcome["problems"][0]["asked"] == "266-51602-13"
    assert main(["get", "sdss", sdss_ids()[0], "nonsense", "--out", out, "--quiet"]) == 3
    assert [row["asked"] for row in listed(tmp_path / "x") if not row["file"]] == ["266-51602-13", "nonsense"]
    assert main(["get", "sdss", sdss_ids()[0], "--out", out, "--quiet"]) == 0
    assert "nonsense" not in (tmp_path / "x" / "get.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sdss", "nonsense"], "no plate-mjd-fiberid"),
        (["sdss", "@nowhere.csv"], "nowhere.csv: No such file"),
        (["sdss", "266-51602-13", "--service", "sdss=ftp://x"], "no address"),
        (["sdss", "266-51602-13", "--release", "17"], "is written dr17"),
        (["desi", "39627652591521181"], "--zcat"),
        (["desi", "39627652591521181", "--from", "elsewhere"], "choose files or sparcl"),
        (["desi", "main/dark/1/5", "--release", "dr9"], "--specprod"),
        (["desi", "5", "--from", "sparcl", "--zcat", "x.fits"], "SPARCL needs no such thing"),
        (["lamost", "x"], "a whole number is needed"),
        (["lamost", "1", "--service", "lamost=http://192.0.2.1"], "would travel unencrypted"),
        (["lamost", "1", "--release", "8"], "is written dr8/v2.0"),
    ],
)
def test_a_wrong_command_says_what_is_wrong_and_ends_with_2(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMOST_TOKEN", "F00secret")
    assert main(["get", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_ends_with_4_and_one_in_use_with_2(
    plates: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["get", "sdss", sdss_ids()[0], "--out", str(tmp_path / "file" / "x")]) == 4
    with closing(Folder(tmp_path / "used")):
        assert main(["get", "sdss", sdss_ids()[0], "--out", str(tmp_path / "used")]) == 2
    assert "already opened" in capsys.readouterr().err


def test_a_token_is_in_no_output_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAMOST_TOKEN", "F0secret1")
    obsid = next(iter(lamost_files())).rsplit("/", 1)[-1]
    with archive(lamost_files()) as served:
        served.token = "F0another"
        where = ["--out", str(tmp_path / "x"), "--service", f"lamost={served.url}"]
        for more in ([], ["--json"], ["--debug"], ["--dry-run"]):
            main(["get", "lamost", obsid, *where, *more])
    assert {"token": ["F0secret1"]} in served.queries
    said = capfd.readouterr()
    assert "LAMOST_TOKEN right" in said.out
    assert "F0secret1" not in said.out + said.err
    assert all(b"F0secret1" not in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def started(tmp_path: Path, url: str, *arguments: str) -> subprocess.Popen[bytes]:
    """The command in a process of its own, which can reach no other machine either."""
    environment = os.environ | {"SPECVET_SDSS_URL": url, "OMP_NUM_THREADS": "1"}
    program = PROGRAM.format(folder=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-c", program, "get", "sdss", *arguments, "--out", str(tmp_path), "--connections", "1"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_killed_command_leaves_no_half_file_and_the_next_goes_on_where_it_stopped(
    plates: Archive, tmp_path: Path
) -> None:
    paths = list(sdss_files())
    plates.faults[paths[1]] = [services.hold]
    with started(tmp_path, plates.url, *sdss_ids()) as process:
        assert plates.held.wait(60), "half of the second file has been sent"
        process.send_signal(signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
    there = [path for path in paths if (tmp_path / path).exists()]
    assert there == paths[:1]
    assert (tmp_path / paths[0]).read_bytes() == sdss_files()[paths[0]]
    plates.go_on.set()
    assert main(["get", "sdss", *sdss_ids(), "--out", str(tmp_path), "--quiet"]) == 0
    assert [plates.count(path) for path in paths] == [1, 2, 1]
    assert all((tmp_path / path).read_bytes() == sdss_files()[path] for path in paths)
    assert list((tmp_path / ".get" / "parts").iterdir()) == []
    assert [row["id"] for row in listed(tmp_path)] == sdss_ids()


def test_ctrl_c_finishes_the_file_under_way_and_says_how_far_it_came(plates: Archive, tmp_path: Path) -> None:
    paths = list(sdss_files())
    plates.faults[paths[0]] = [services.hold]
    with started(tmp_path, plates.url, *sdss_ids(), "--timeout", "60") as process:
        assert plates.held.wait(60)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert b"finishing the files under way" in process.stderr.readline()
        plates.go_on.set()  # the line ends
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"of 3 spectra are in" in out
    rows = listed(tmp_path)
    assert len(rows) == 3
    assert {row["problem"] for row in rows if not row["file"]} == {"not got: the command was stopped"}


@pytest.mark.parametrize("survey", ["sdss", "desi", "lamost"])
def test_help_names_examples_and_exit_codes(survey: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", survey, "--help"]) == 0
    said = capsys.readouterr().out
    assert f"specvet get {survey} " in said
    assert "Exit codes: 0 all are there, 1 none is, 2 wrong command" in said
