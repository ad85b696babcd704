"""SAMP, with a hub and programs that really speak it, on this machine alone."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from astropy.samp import SAMPHubServer, SAMPIntegratedClient, conf
from astropy.table import Table

from specvet.catalogue.samp import SKY, SPECTRUM, TABLE, SampError, connected, lock_file, lock_path
from specvet.cli.main import main
from specvet.spectra import read

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module", autouse=True)
def offline() -> Iterator[None]:
    with conf.set_temp("use_internet", False):
        yield


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lock"
    monkeypatch.setenv("HOME", str(tmp_path))  # astropy tidies up there
    monkeypatch.setenv("SAMP_HUB", f"std-lockurl:{path.as_uri()}")
    return path


@pytest.fixture
def hub(lock: Path) -> Iterator[SAMPHubServer]:
    server = SAMPHubServer(addr="127.0.0.1", lockfile=str(lock), web_profile=False)
    server.start()
    yield server
    server.stop()


class Program:
    """One that takes messages, such as TOPCAT is."""

    def __init__(self, hub: SAMPHubServer, name: str, mtypes: tuple[str, ...], error: str = "") -> None:
        self.client = SAMPIntegratedClient(name=name, addr="127.0.0.1")
        self.client.connect(hub=hub)
        self.taken: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.error = error
        for mtype in mtypes:
            self.client.bind_receive_call(mtype, self._take)

    def _take(
        self, key: str, sender: str, message: str, mtype: str, params: dict[str, Any], extra: dict[str, Any]
    ) -> None:
        self.taken.put((mtype, params))
        if self.error:
            self.client.ereply(message, "samp.error", error={"samp.errortxt": self.error})
        else:
            self.client.ereply(message, "samp.ok", result={})

    def next(self) -> tuple[str, dict[str, Any]]:
        return self.taken.get(timeout=30)


@pytest.fixture
def topcat(hub: SAMPHubServer) -> Iterator[Program]:
    program = Program(hub, "topcat", (TABLE, SKY))
    yield program
    program.client.disconnect()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SIMULATED examples, vetted."""
    out = tmp_path_factory.mktemp("samp") / "RUN"
    listed = str(EXAMPLES / "list.csv")
    assert main(["vet", listed, "--task", "cv,wd", "--policy", "line-indices", "--out", str(out), "--quiet"]) == 0
    return out


def path_of(url: str) -> Path:
    assert url.startswith("file:///")
    return Path(unquote(urlsplit(url).path))


def test_a_program_gets_the_very_table_that_export_writes(run: Path, topcat: Program, tmp_path: Path) -> None:
    assert main(["samp", str(run), "--task", "cv", "--answer", "YES,UNSURE"]) == 0
    mtype, params = topcat.next()
    assert (mtype, params["name"]) == (TABLE, "specvet RUN")
    assert params["table-id"] == f"specvet:{params['url']}"
    exported = tmp_path / "same.vot"
    assert main(["export", str(run), "--out", str(exported), "--task", "cv", "--answer", "YES,UNSURE"]) == 0
    got, wanted = (Table.read(file, format="votable") for file in (path_of(params["url"]), exported))
    assert got.colnames == wanted.colnames
    assert len(got) == len(wanted) == 3
    for name in ("file", "id", "task", "answer", "reason"):
        assert [str(v) for v in got[name]] == [str(v) for v in wanted[name]]
    np.testing.assert_array_equal(np.asarray(got["ra"], float), np.asarray(wanted["ra"], float))
    assert topcat.taken.empty()


def test_a_spectrum_and_its_place_go_to_those_who_show_them(
    run: Path, hub: SAMPHubServer, topcat: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    splat = Program(hub, "splat", (SPECTRUM,))
    try:
        capsys.readouterr()
        assert main(["samp", str(run), "--rows", "9000007-58342-0713", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["sent"]
        assert [(s["program"], s["mtype"], s["ok"]) for s in told] == [("splat", SPECTRUM, True), ("topcat", SKY, True)]
        _, place = topcat.next()
        assert (float(place["ra"]), float(place["dec"])) == pytest.approx((225.143891, 55.507573), abs=1e-5)
        _, params = splat.next()
        assert params["meta"]["Access.Format"] == "application/fits"
        (got,) = read(path_of(params["url"]))
        (own,) = read(EXAMPLES / "spectra" / "spec-SIMULATED-9000007-58342-0713.fits")
        np.testing.assert_array_equal(got.flux, own.flux)
        assert got.id == own.id
    finally:
        splat.client.disconnect()


def test_a_row_can_be_named_by_its_file_and_row(run: Path, topcat: Program) -> None:
    files = [str(EXAMPLES / "spectra" / "coadd-SIMULATED-0-9000000.fits#1")]
    assert main(["samp", str(run), "--rows", *files]) == 0
    assert topcat.next()[0] == SKY


def test_several_programs_all_get_the_table_and_one_that_fails_is_named(
    run: Path, hub: SAMPHubServer, topcat: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Program(hub, "broken", (TABLE,), error="no memory")
    try:
        assert main(["samp", str(run)]) == 0
        said = capsys.readouterr().err
        assert "topcat took table.load.votable" in said
        assert "broken refused table.load.votable: no memory" in said
        assert path_of(topcat.next()[1]["url"]) == path_of(broken.next()[1]["url"])
    finally:
        broken.client.disconnect()


def test_a_hub_without_a_program_says_what_to_open(
    run: Path, hub: SAMPHubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["samp", str(run)]) == 1
    assert "no program that takes a table (table.load.votable) is connected to it" in capsys.readouterr().err


def test_without_a_hub_it_says_how_to_start_one(run: Path, lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["samp", str(run)]) == 1
    said = capsys.readouterr().err
    assert "no SAMP hub is running" in said
    assert "start TOPCAT (Interop menu, Start Hub)" in said


def test_a_hub_that_died_and_left_its_lock_file_is_told_from_one_that_runs(lock: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    lock.write_text(f"# SAMP\nsamp.secret=x\nsamp.hub.xmlrpc.url=http://127.0.0.1:{port}/\n", encoding="utf-8")
    with pytest.raises(SampError, match=rf"no SAMP hub answers at http://127\.0\.0\.1:{port}/"), connected():
        pass


@pytest.mark.parametrize("host", ["198.51.100.7", "hub.example.org", "127.0.0.1.example.org"])
def test_a_hub_elsewhere_is_refused_before_a_word_is_sent(lock: Path, host: str) -> None:
    lock.write_text(f"samp.secret=x\nsamp.hub.xmlrpc.url=http://{host}:2112/xmlrpc\n", encoding="utf-8")
    with pytest.raises(SampError, match="speaks to hubs on this machine alone"):
        lock_file(lock_path())


def test_a_lock_file_that_is_none_and_a_place_that_is_no_file_are_said(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.write_text("hello\n", encoding="utf-8")
    with pytest.raises(SampError, match="is not the lock file of a SAMP hub"):
        lock_file(lock_path())
    monkeypatch.setenv("SAMP_HUB", "std-lockurl:http://example.org/.samp")
    with pytest.raises(SampError, match="on this machine"):
        lock_path()
    monkeypatch.setenv("SAMP_HUB", "std-lockurl:file:///tmp/a%20lock")
    assert lock_path() == Path("/tmp/a lock")
    monkeypatch.delenv("SAMP_HUB")
    assert lock_path() == lock.parent / ".samp"


def test_the_program_is_unregistered_whatever_happens(hub: SAMPHubServer, topcat: Program) -> None:
    with pytest.raises(KeyError), connected():
        raise KeyError
    names = [topcat.client.get_metadata(c).get("samp.name") for c in topcat.client.get_registered_clients()]
    assert "specvet" not in names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rows", "nobody"], "--rows nobody: no spectrum of"),
        (["--rows", str(EXAMPLES / "spectra" / "coadd-SIMULATED-0-9000000.fits")], "4 spectra are called so; name one"),
        (["--task", "gm"], "asked cv, wd"),
        (["--answer", "MAYBE"], "--answer MAYBE"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    arguments: list[str], said: str, run: Path, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["samp", str(run), *arguments]) == 2
    assert said in capsys.readouterr().err
