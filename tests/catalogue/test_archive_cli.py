"""`specvet match --archive`, its names and addresses, against services on 127.0.0.1 over a SIMULATED sky."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_services import Services
from archive_sky import Star
from match_lab import write_run

from specvet.catalogue.archive import ArchiveError, Catalogue, addresses, named
from specvet.catalogue.archive.settings import ADDRESSES
from specvet.catalogue.matching import read_about, read_matches
from specvet.cli.main import main

# The stars of `match_lab`'s run: the white dwarf was seen in 2000, 8″ from where Gaia has it.
STARS = [
    Star(
        4611686018427387905,
        10.0,
        20.0 - 8.0 / 3600,
        0.0,
        -500.0,
        10.0,
        18.0,
        simbad="SIM DC",
        otype="WD*",
        cv="SIM fast",
    ),
    Star(2, 11.0, 21.0, 0.0, 0.0, 10.0, 13.8, vsx="SIM V2", vsx_type="LB"),
    Star(3, 12.0, 22.0, 0.0, 0.0, 1.0, 9.0),
    Star(4, 13.0, 23.0, None, None, 0.1, 18.0),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Services]:
    pytest.importorskip("pyvo", reason="needs the archive extra")
    with Services(STARS) as made:
        yield made


@pytest.fixture
def services(running: Services, monkeypatch: pytest.MonkeyPatch) -> Services:
    running.asked.clear()
    running._faults.clear()
    for name, address in running.addresses.items():
        monkeypatch.setenv(f"SPECVET_{name.upper()}_URL", address)
    return running


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


@pytest.mark.parametrize("how", ["gaia,simbad,vsx:Period", "gaia@tap,simbad@tap,vsx:Period@tap"])
def test_a_run_is_matched_with_archives_and_gets_its_verdicts_with_gaia(
    services: Services, run: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", str(run), "--archive", how]) == 0
    shown = capsys.readouterr()
    assert "6 spectra, 5 with a position\ngaia: 4 found\nsimbad: knows 1\nvsx: knows 1\nnew: 3\n" in shown.out
    assert "wd with Gaia: 1 UNSURE → YES" in shown.out
    found = read_matches(run)
    star = found["dc.fits", 0]
    assert star.gaia is not None
    assert (star.gaia.source_id, star.gaia.parallax) == ("4611686018427387905", 10.0)
    assert star.gaia_separation_arcsec == pytest.approx(0.0, abs=0.01)
    assert [(k.catalogue, k.name, k.type) for k in star.known] == [("simbad", "SIM DC", "WD*")]
    (known,) = found["dwarf.fits", 0].known
    assert (known.name, known.type, known.columns) == ("SIM V2", "LB", (("Period", "0.06"),))
    assert found["alone.fits", 0].asked == ("gaia", "simbad", "vsx")
    assert found["alone.fits", 0].gaia is None
    assert ("lost.fits", 0) not in found
    about = read_about(run)
    assert about is not None
    assert {s["service"] for s in about["sources"].values()} <= set(services.addresses.values())
    asked = len(services.asked)
    assert main(["match", str(run), "--archive", how]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert len(services.asked) == asked


def test_a_dead_archive_is_told_and_asked_again_by_the_same_command(
    services: Services, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    services.fault("simbad", "403")
    command = ["match", str(run), "--archive", "gaia", "--archive", "simbad@tap", "--json"]
    assert main(command) == 3
    shown = capsys.readouterr()
    assert "specvet: simbad is not asked any more: " in shown.err
    assert shown.err.endswith("specvet: simbad: not all was answered; the same command goes on where it stopped\n")
    assert json.loads(shown.out)["gaia"] == 4
    assert read_matches(run)["dc.fits", 0].asked == ("gaia",)
    asked = services.count("xmatch")
    assert main(command) == 0
    found = read_matches(run)["dc.fits", 0]
    assert (found.asked, found.notes, found.known[0].name) == (("gaia", "simbad"), (), "SIM DC")
    assert services.count("xmatch") == asked


def test_what_an_archive_said_stands_while_it_is_away(
    services: Services, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["match", str(run), "--archive", "gaia@tap,simbad@tap"]
    assert main([*command, "--quiet"]) == 0
    later = {"file": "later.fits", "task": "wd", "answer": "UNSURE", "ra": 11.0, "dec": 21 + 1 / 3600, "mjd": 57388.5}
    write_run(run, [later])
    services.fault("simbad", "403")
    assert main(command) == 3
    assert "simbad: knows 1" in capsys.readouterr().out
    found = read_matches(run)
    assert [k.name for k in found["dc.fits", 0].known] == ["SIM DC"]
    assert found["later.fits", 0].asked == ("gaia",)
    assert main([*command, "--quiet"]) == 0
    assert read_matches(run)["later.fits", 0].asked == ("gaia", "simbad")
    # Nothing is taken over that is farther than the radius of the day.
    services.fault("gaia", "403")
    assert main([*command, "--radius", "0.5"]) == 3
    found = read_matches(run)
    assert [(found[f, 0].gaia is None) for f in ("dc.fits", "later.fits")] == [False, True]


def test_a_fast_star_without_gaias_motion_is_looked_up_again_once_gaia_is_back(
    services: Services, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = {"file": "later.fits", "task": "wd", "answer": "UNSURE", "ra": 10.0, "dec": 20 - 10 / 3600, "mjd": 58849.5}
    write_run(run, [later])
    command = ["match", str(run), "--archive", "gaia@tap,moving=J/TEST/1/cvs"]
    services.fault("gaia", "403")
    assert main(command) == 3
    assert "gaia, moving: not all was answered" in capsys.readouterr().err
    assert read_matches(run)["later.fits", 0].known == ()
    assert main([*command, "--quiet"]) == 0
    assert [k.name for k in read_matches(run)["later.fits", 0].known] == ["SIM fast"]
    assert services.count("xmatch") == 1


def test_an_address_on_the_command_line_goes_before_the_environment(
    services: Services, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVET_XMATCH_URL", "http://127.0.0.1:9/nobody")
    address = services.addresses["xmatch"]
    assert main(["match", str(run), "--archive", "gaia", "--service", f"xmatch={address}", "--quiet"]) == 0
    assert services.count("xmatch") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--archive", "ned"], "--archive ned: ned is not known here; say which table of VizieR it is: ned=TABLE"),
        (["--archive", "gaia,gaia"], "--archive gaia: gaia is there twice"),
        (["--archive", "gaia=I/345/gaia2"], "gaia is I/355/gaiadr3; give another table a name of your own"),
        (["--archive", " , "], "--archive: name one or more of gaia, simbad, vsx, NAME=VIZIER_TABLE"),
        (["--archive", "a=B/x/y@ftp://x"], "after @ comes xmatch, tap, or the address of a TAP service"),
        (
            ["--archive", "gaia", "--service", "cds=http://x"],
            "--service cds=http://x: give one of xmatch, gaia, simbad",
        ),
        (["--archive", "gaia", "--service", "xmatch=here"], "--service xmatch=here: that is no address"),
        (["--archive", "gaia", "--timeout", "0"], "--timeout 0: give seconds"),
        (["--archive", "gaia", "--radius", "61"], "--radius 61: archives are asked within at most 60″"),
    ],
)
def test_a_wrong_command_is_told_what_is_wrong_and_nothing_is_asked(
    services: Services, run: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", str(run), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert services.asked == []


def test_names_tell_tables_and_services() -> None:
    assert named("gaia, vsx:Period:max,hsd=J/A+A/662/A40/knownhsd") == (
        Catalogue("gaia", "I/355/gaiadr3"),
        Catalogue("vsx", "B/vsx/vsx", keep=("Period", "max")),
        Catalogue("hsd", "J/A+A/662/A40/knownhsd"),
    )
    assert named("gaia@tap,simbad@tap,vsx@tap,o=ivoa.obscore:s_ra@https://dc.example/tap/") == (
        Catalogue("gaia", "gaiadr3.gaia_source", "gaia"),
        Catalogue("simbad", "basic", "simbad"),
        Catalogue("vsx", "B/vsx/vsx", "vizier"),
        Catalogue("o", "ivoa.obscore", "https://dc.example/tap", ("s_ra",)),
    )


def test_addresses_come_from_the_command_then_the_environment_then_the_archives() -> None:
    assert addresses(environment={}) == ADDRESSES
    environment = {"SPECVET_GAIA_URL": "http://a/tap/", "SPECVET_SIMBAD_URL": "http://b/tap"}
    found = addresses(["simbad=http://c/tap"], environment)
    assert (found["gaia"], found["simbad"], found["vizier"]) == ("http://a/tap", "http://c/tap", ADDRESSES["vizier"])
    with pytest.raises(ArchiveError, match="SPECVET_GAIA_URL=nowhere: that is no address"):
        addresses(environment={"SPECVET_GAIA_URL": "nowhere"})


def test_without_the_extra_the_command_says_what_to_install(run: Path) -> None:
    code = "import sys; sys.modules['pyvo'] = None; from specvet.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "match", str(run), "--archive", "gaia"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'specvet[archive]'" in done.stderr
    assert not (run / "match").exists()
