"""`specvet review` as people start it: the address, Ctrl-C and a kill, its other commands, and mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from review_lab import decision, draft, unwritable, write_run, write_spectra

from specvet.cli.main import main
from specvet.records.schema import Answer
from specvet.review.desk import Desk
from specvet.review.source import of_run
from specvet.review.store import SqliteStore, open_store


@pytest.fixture
def run(tmp_path: Path) -> Path:
    names = write_spectra(tmp_path / "spectra", 2)
    return write_run(tmp_path / "run", [decision(names[0], Answer.YES, 0.9), decision(names[1], Answer.NO, 0.1)])


def served(run: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "specvet", "review", str(run), "--no-browser", "--port", "0", "--reviewer", "Ann"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def asked(address: str, path: str, csrf: str = "", cookie: str = "", body: object = None) -> tuple[dict, str]:  # type: ignore[type-arg]
    headers = {"Content-Type": "application/json", "X-CSRF-Token": csrf, "Cookie": cookie}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address + path, data, headers)) as reply:
        return json.load(reply), reply.headers.get("set-cookie", "").partition(";")[0]


def test_a_server_that_is_killed_has_kept_what_it_acknowledged_and_ctrl_c_ends_the_next(run: Path) -> None:
    with served(run) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().rstrip("/")
        told, cookie = asked(address, "/api/session")
        assert (told["reviewer"], told["items"]) == ("Ann", 2)
        item = asked(address, "/api/next?task=cv")[0]["items"][0]
        body = {"key": "tab-000001", "item": item, "task": "cv", "verdict": "NO"}
        assert asked(address, "/api/decisions", told["csrf"], cookie, body)[0]["event"]["n"] == 1
        os.kill(process.pid, signal.SIGKILL)
    store = open_store(run / "review.db")
    assert [(e.key, e.reviewer) for e in store.since(0)] == [("tab-000001", "Ann")]
    store.close()
    with served(run) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip().rstrip("/")
        # Who was known before the kill still is.
        assert asked(address, "/api/session", cookie=cookie)[0]["reviewers"] == ["Ann"]
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait() == 0
    assert "run: 2 spectra; 1 vote by 1 person in" in said
    assert "ended; 1 vote by 1 person in" in said
    assert "Traceback" not in said


def test_agreement_is_printed_for_people_and_for_programs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", "agreement", str(run)]) == 0
    assert "cv: nobody has decided anything yet" in capsys.readouterr().out
    desk = Desk(of_run(run), SqliteStore(run / "review.db"))
    for name, verdict in (("Ann", "YES"), ("Bo", "NO")):
        desk.decide(name, draft(desk.listing.items[0], verdict))
    desk.store.close()
    assert main(["review", "agreement", str(run)]) == 0
    said = capsys.readouterr().out
    assert "Ann, Bo" in said
    assert "1 of 1 spectra with two votes or more: 0 agreed, 1 in conflict, 0 settled" in said
    assert "s0000.txt" in said
    assert main(["review", "agreement", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["waiting"][0]["votes"] == {"Ann": "YES", "Bo": "NO"}
    assert told["waiting"][0]["why"] == "verdict: NO, YES"


def test_inspections_go_out_and_come_in(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk(of_run(run), SqliteStore(run / "review.db"))
    desk.decide("Ann", draft(desk.listing.items[0], "YES", comment="Hα"))
    desk.store.close()
    assert main(["review", "desi-vi", str(run), "--out", str(tmp_path / "vi")]) == 0
    file = capsys.readouterr().out.strip()
    assert file == str(tmp_path / "vi" / "desi-vi_run_A.csv")
    other = ["--store", str(tmp_path / "other.db")]
    assert main(["review", "desi-vi", str(run), "--import", file, *other, "--reviewer", "Bo"]) == 0
    assert "1 of 1 inspections are new" in capsys.readouterr().err
    store = open_store(tmp_path / "other.db")
    assert [(e.reviewer, e.verdict, e.comment) for e in store.since(0)] == [("Bo", "YES", "Hα")]
    store.close()


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--host", "0.0.0.0"], 2, "--token-file"),
        (["--token", "short"], 2, "16 printable letters"),
        (["--reviewer", " "], 2, "a reviewer's name"),
        (["--task", "wd"], 2, "was not asked 'wd'"),
        (["--store", "{tmp}"], 4, "is a folder"),
        (["--store", "mysql://x/y"], 4, "postgresql://"),
        (["--assign", "Ann,Bo", "--each", "3"], 2, "cannot go to 3 of 2 reviewers"),
        (["--token", "new", "--token-file", "x"], 2, "give one of them"),
        (["--token-file", "{tmp}/none"], 2, "none"),
        (["--origin", "vi.example.org"], 2, "https://vi.example.org"),
        (["--host", "203.0.113.7", "--token", "new"], 4, "another --port or --host"),
    ],
)
def test_a_mistake_is_said_with_what_to_do(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, says: str
) -> None:
    given = [word.replace("{tmp}", str(tmp_path)) for word in more]
    assert main(["review", str(run), "--no-browser", *given]) == code
    said = capsys.readouterr().err
    assert says in said
    assert "a fault in specvet" not in said


def test_several_inputs_need_to_say_where_decisions_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = write_spectra(tmp_path / "spectra", 2)
    assert main(["review", *names, "--task", "cv", "--no-browser"]) == 2
    assert "--store review.db" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.db"))


def test_a_review_on_media_that_cannot_be_written_is_exported_and_counted(run: Path, tmp_path: Path, capsys) -> None:
    desk = Desk(of_run(run), SqliteStore(run / "review.db"))
    for name, verdict in (("Ann", "YES"), ("Bo", "NO")):
        desk.decide(name, draft(desk.listing.items[0], verdict))
    desk.store.close()
    vi = tmp_path / "vi"
    with unwritable(run):
        assert main(["export", str(run), "--reviewed", "--out", str(tmp_path / "r.csv")]) == 0
        assert main(["review", "labels", str(run), "--out", str(tmp_path / "labels.csv")]) == 0
        assert main(["review", "desi-vi", str(run), "--out", str(vi)]) == 0
        capsys.readouterr()
        assert main(["review", "agreement", str(run), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["conflicts"] == 1
        mine = sorted(vi.iterdir())[0]
        mine.write_text(mine.read_text(encoding="utf-8").replace("YES", "UNSURE"), encoding="utf-8")
        assert main(["review", "desi-vi", str(run), "--import", str(mine)]) == 4
        assert "can only be read; copy it" in " ".join(capsys.readouterr().err.split())
    assert len((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()) == 2
