"""`export` to the formats of other programs: runs and spectra, and what is said about what they cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from astropy.table import Table
from cli_lab import Specvet, write_star


@pytest.fixture
def run(specvet: Specvet, tmp_path: Path) -> Path:
    write_star(tmp_path / "stars" / "a.txt")
    write_star(tmp_path / "stars" / "b.txt", peak=0.0)
    assert (
        specvet("vet", "stars", "--task", "cv", "--policy", "line-indices", "--out", "RUN", "--quiet").returncode == 0
    )
    return tmp_path / "RUN"


def test_a_run_goes_to_every_format_and_losses_are_said_once_on_stderr(
    specvet: Specvet, run: Path, tmp_path: Path
) -> None:
    for name, kind in (("t.fits", "fits"), ("t.vot", "votable"), ("t.ecsv", "ascii.ecsv"), ("t.fits.gz", "fits")):
        done = specvet("export", "RUN", "--out", name)
        assert (done.returncode, done.stdout) == (0, "")
        lines = done.stderr.splitlines()
        assert lines[-1] == f"specvet: wrote 2 rows to {name}"
        losses = [line for line in lines if "ASCII only" in line]
        assert len(losses) == ("fits" in name)
        table = Table.read(tmp_path / name, format=kind)
        assert len(table) == 2
    assert specvet("export", "RUN", "--out", "table", "--format", "votable").returncode == 0
    assert len(Table.read(tmp_path / "table", format="votable")) == 2


def test_a_spectrum_goes_to_every_format_and_is_shown_alike(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    for name in ("s.fits", "s.vot", "s.ecsv"):
        done = specvet("export", "star.txt", "--out", name)
        assert (done.returncode, done.stderr) == (0, f"specvet: wrote 2,700 pixels to {name}\n")
        assert "3800-9198 Å" in specvet("show", name).stdout


def test_what_export_cannot_do_is_said_with_the_fix(specvet: Specvet, run: Path, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    (tmp_path / "broken.fits").write_bytes(b"SIMPLE  = nonsense")
    for arguments, code, said in (
        (("RUN", "--out", "t.xlsx"), 2, "name it .csv, .parquet, .fits, .vot or .ecsv"),
        (("RUN", "--out", "t", "--format", "xlsx"), 2, "choose csv, parquet, fits, votable or ecsv"),
        (("RUN", "--out", "-", "--format", "fits"), 2, "name a file for fits"),
        (("RUN", "--out", "t.fits", "--row", "1"), 2, "--row chooses a target of a spectrum file"),
        (("RUN", "--out", "no/t.fits"), 2, "there is no folder no"),
        (("nowhere", "--out", "t.fits"), 2, "nowhere: not a specvet run"),
        (("star.txt", "--out", "t.csv"), 2, "written as FITS, VOTable or ECSV"),
        (("star.txt", "--out", "t.fits", "--row", "1"), 2, "star.txt: there is no row 1; it holds rows 0 to 0"),
        (("star.txt", "--out", "t.fits", "--task", "cv"), 2, "--task and --answer choose rows of a run"),
        (("star.txt", "--out", "./star.txt", "--format", "ecsv"), 2, "is the spectrum itself; name another file"),
        (("broken.fits", "--out", "t.fits"), 1, "broken.fits"),
        (("star.txt", "--out", "no/t.fits"), 4, "no/t.fits: No such file or directory"),
    ):
        done = specvet("export", *arguments)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("t*"))


def test_a_task_that_the_run_did_not_ask_is_refused_and_replaces_no_page(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "star.txt")
    assert specvet("vet", "star.txt", "--task", "cv,wd", "--policy", "line-indices", "--out", "run").returncode == 0
    assert specvet("report", "run").returncode == 0
    page = (tmp_path / "run" / "report.html").read_bytes()
    for command in (("report", "run", "--task", "foo"), ("export", "run", "--out", "t.csv", "--task", "cv,gm")):
        done = specvet(*command)
        assert done.returncode == 2
        assert "run asked cv, wd" in done.stderr
    assert (tmp_path / "run" / "report.html").read_bytes() == page
    assert not (tmp_path / "t.csv").exists()
    assert specvet("export", "run", "--out", "t.csv", "--task", "CV").returncode == 0
