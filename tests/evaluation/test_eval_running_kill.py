"""Campaigns that are killed, stopped, moved and starved: a run that goes on equals one that never stopped."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import campaign_lab as lab
import pytest
from made import write_questions
from openai_lab import LoopbackServer

from specvet.cli.main import main as specvet
from specvet.records import RunFolder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with questions in it."""
    write_questions(tmp_path / "input")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Siege]:
    with lab.siege(tmp_path_factory.mktemp("siege") / "said.txt") as made:
        yield made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an uninterrupted run of both policies gives."""
    folder = tmp_path_factory.mktemp("whole")
    write_questions(folder / "input")
    with LoopbackServer(lab.replies) as server:
        file = lab.write_campaign(folder, {"good": server.url, "lines": "policy: line-indices"})
        assert lab.run(file, "--out", folder / "E") == 0
    return lab.everything(folder / "E")


def decided(folder: Path) -> int:
    """Rows on disk in all cells."""
    n = 0
    for cell in (folder / "cells").glob("*"):
        if (cell / "run.db").is_file() and (cell / "config.yaml").is_file():
            with RunFolder.read(cell) as run:
                n += sum(1 for _ in run.decisions())
    return n


def test_kills_at_random_moments_lose_nothing_and_the_result_is_that_of_an_uninterrupted_run(
    place: Path, siege: lab.Siege, whole: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    gate, moments, seen = lab.Gate(), random.Random(7), [0]
    with LoopbackServer(gate) as server:
        lab.write_campaign(place, {"good": server.url, "lines": "policy: line-indices"})
        # While files are put into place (settings, the first cell's run), then while the server is asked, then again
        # at files: shards, rows, numbers and seals.
        renames = [(1, 5), None, None, (4, 9)]
        for window in renames:
            if window is None:
                gate.hold_after(moments.randint(2, 4))
                siege.start("c.yaml", "--out", "E")
                gate.wait_for(siege)
                siege.signal(signal.SIGKILL)
                code = siege.end()
                gate.open()
            else:
                code = siege.run("c.yaml", "--out", "E", die_at=moments.randint(*window))
            assert code == -signal.SIGKILL, siege.said
            seen.append(decided(place / "E"))
            assert seen[-1] >= seen[-2]  # what was on disk stays
        assert lab.run("c.yaml", "--out", "E") == 0
    assert len(set(seen)) >= 3
    assert lab.everything(place / "E") == whole
    assert not list((place / "E").rglob("*.tmp"))
    assert specvet(["eval", "verify", "E", "--inputs", "skip"]) == 0, capsys.readouterr().out


def test_a_campaign_goes_on_after_it_and_its_questions_were_moved(
    place: Path, siege: lab.Siege, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = lab.Gate()
    with LoopbackServer(gate) as server:
        lab.write_campaign(place, {"good": server.url})
        gate.hold_after(6)
        siege.start("c.yaml", "--out", "E")
        gate.wait_for(siege)
        siege.signal(signal.SIGKILL)
        assert siege.end() == -signal.SIGKILL
        assert decided(place / "E") >= 2
        gate.open()
        gate.n = 0
        # The campaign goes one way, its questions another, and whoever goes on stands somewhere else.
        (place / "far" / "off").mkdir(parents=True)
        (place / "there").mkdir()
        for name in ("E", "c.yaml"):
            (place / name).rename(place / "far" / name)
        (place / "input").rename(place / "far" / "input")
        monkeypatch.chdir(place / "there")
        assert lab.run("../far/c.yaml", "--out", "../far/E") == 0
        once = sum(len(record["turns"]) for _, _, _, record in whole["good--q--s42"][0])
        assert gate.n < once  # nothing that was on disk is asked again
    assert lab.everything(place / "far" / "E") == {"good--q--s42": whole["good--q--s42"]}
    (cell,) = lab.cells(place / "far" / "E").values()
    with RunFolder.read(cell) as run:
        assert sum(1 for _ in run.decisions()) == 8
    monkeypatch.chdir(place / "far" / "off")
    assert specvet(["eval", "verify", "../E"]) == 0


def test_ctrl_c_keeps_what_is_over_and_says_how_to_go_on(place: Path, siege: lab.Siege, whole: dict[str, Any]) -> None:
    pressed: list[int] = []

    def pressing(asked: Any) -> Any:
        """Ctrl-C comes while the fourth request is answered."""
        if not pressed and gate.n == 4:
            pressed.append(siege.pid)
            siege.signal(signal.SIGINT)
        return lab.replies(asked)

    gate = lab.Gate(pressing)
    with LoopbackServer(gate) as server:
        lab.write_campaign(place, {"good": server.url, "lines": "policy: line-indices"})
        assert siege.run("c.yaml", "--out", "E", loud=True) == 130
        assert pressed
        first = decided(place / "E")
        assert 1 <= first < 8
        assert "To go on: " in siege.said
        assert list(lab.cells(place / "E")) == ["good--q--s42"]  # no other cell is begun
        # A server that is stalled is waited for at the first Ctrl-C, and not at the second.
        gate.hold_after(1)
        siege.start("c.yaml", "--out", "E", loud=True)
        gate.wait_for(siege)
        siege.signal(signal.SIGINT)
        while "again" not in siege.said and not siege.ended(0.02):
            pass
        siege.signal(signal.SIGINT)
        assert siege.end() == 130
        assert first <= decided(place / "E") < 8
        gate.open()
        assert lab.run("c.yaml", "--out", "E") == 0
    assert lab.everything(place / "E") == {name: whole[name] for name in lab.cells(place / "E")}


def test_a_full_disk_is_named_and_after_making_room_the_campaign_goes_on(
    place: Path, siege: lab.Siege, whole: dict[str, Any]
) -> None:
    with LoopbackServer(lab.replies) as server:
        lab.write_campaign(place, {"good": server.url})
        for most in (1_000, 30_000, 60_000, 100_000):
            code = siege.run("c.yaml", "--out", "E", file_size=most)
            assert code == 4, most
            assert "the disk is full" in siege.said
            assert "Traceback" not in siege.said
        assert lab.run("c.yaml", "--out", "E") == 0
    assert lab.everything(place / "E") == {name: whole[name] for name in lab.cells(place / "E")}
    assert not list((place / "E").rglob("*.tmp"))


def test_a_second_process_is_refused_and_the_first_is_not_disturbed(
    place: Path, siege: lab.Siege, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = lab.Gate()
    with LoopbackServer(gate) as server:
        lab.write_campaign(place, {"good": server.url})
        gate.hold_after(0)
        siege.start("c.yaml", "--out", "E")
        gate.wait_for(siege)
        assert lab.run("c.yaml", "--out", "E") == 4
        assert f"another process works on this run (pid {siege.pid} on" in capsys.readouterr().err
        assert specvet(["eval", "status", "E"]) == 0
        siege.signal(signal.SIGKILL)
        assert siege.end() == -signal.SIGKILL
        gate.open()
        assert lab.run("c.yaml", "--out", "E") == 0
