"""`specvet transcript`: one trajectory or a list, in the terminal, as HTML, as JSON and as it was said."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from cli_lab import SCRIPT, Specvet, write_star

sys.path.append(str(Path(__file__).parents[1] / "vetting"))  # its lab makes runs with ledgers

from transcript_lab import HOSTILE, decided, star, write_run

from specvet.cli.main import main
from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, StopReason, Verdict
from specvet.vetting.transcript.raw import raw_text


@pytest.fixture
def specvet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Specvet:
    """The command in this process, which starts once: as the script of the other tests, in `tmp_path`."""
    monkeypatch.chdir(tmp_path)

    def told(*arguments: object) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        code = main([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return told


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Six rows: a star, two samples of another, one in words, one malformed, one unreadable file."""
    spectra = tmp_path / "spectra"
    failed = decided(star(str(spectra / "d.txt")), [])
    assert failed.trajectory is not None
    verdict = Verdict(answer=Answer.FAILED, reason="malformed turn")
    record = failed.trajectory.model_copy(update={"stop": StopReason.MALFORMED, "verdict": verdict})
    decisions = [
        decided(star(str(spectra / "a.txt")), [(6400, 6700)], thoughts=[HOSTILE + "\n</think>\n\n"]),
        decided(star(str(spectra / "b.txt")), group=2),
        decided(star(str(spectra / "b.txt")), [(4800, 4920)], group=2, sample=1),
        decided(star(str(spectra / "c.txt")), words=True),
        failed.model_copy(update={"verdict": verdict, "trajectory": record}),
        Decision(file="x.fits", row=0, task="*", id="", verdict=Verdict(answer=Answer.ERROR, reason="no FITS")),
    ]
    return write_run(tmp_path / "run", decisions)


def test_a_list_has_a_line_a_trajectory(specvet: Specvet, run: Path) -> None:
    done = specvet("transcript", run, "--list")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["n", "id", "task", "sample", "stop", "answer", "turns", "tokens"]
    assert [line[:6] for line in lines[1:6]] == [
        ["1", "a", "cv", "0", "answered", "YES"],
        ["2", "b", "cv", "0", "answered", "YES"],
        ["3", "b", "cv", "1", "answered", "YES"],
        ["4", "c", "cv", "0", "answered", "YES"],
        ["5", "d", "cv", "0", "malformed", "FAILED"],
    ]
    assert lines[6] == ["6", "x.fits", "*", "0", "ERROR"]
    rows = [json.loads(line) for line in specvet("transcript", run, "--list", "--json").stdout.splitlines()]
    assert [(r["n"], r["id"], r["turns"]) for r in rows] == [
        (1, "a", 2), (2, "b", 2), (3, "b", 2), (4, "c", 2), (5, "d", 1), (6, "", None)
    ]  # fmt: skip
    assert [r["tokens"] is None for r in rows] == [False, False, False, True, False, True]


@pytest.mark.parametrize(
    ("filters", "places"),
    [
        (["--answer", "YES"], ["1", "2", "3", "4"]),
        (["--stop", "malformed,max_turns"], ["5"]),
        (["--task", "cv", "--sample", "1"], ["3"]),
        (["--answer", "NO"], []),
    ],
)
def test_a_list_is_filtered(specvet: Specvet, run: Path, filters: list[str], places: list[str]) -> None:
    done = specvet("transcript", run, "--list", *filters)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == places
    assert done.returncode == 0


def test_one_is_chosen_by_id_file_place_or_sample(specvet: Specvet, run: Path) -> None:
    for choice in (["a"], ["a.txt"], [str(run.parent / "spectra" / "a.txt")], ["--n", "1"]):
        assert specvet("transcript", run, *choice).stdout.startswith("a · cv  YES 0.80\n")
    assert "sample         1, of 2 from 0" in specvet("transcript", run, "b", "--sample", "1").stdout


def test_where_several_fit_they_are_listed_and_none_is_taken(specvet: Specvet, run: Path) -> None:
    done = specvet("transcript", run, "b")
    assert done.returncode == 2
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["n", "2", "3"]
    assert "--n N" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "no trajectory called 'nobody'; specvet"),
        (["b.tx"], "no trajectory called 'b.tx'; did you mean 'b.txt'"),
        (["b", "--sample", "5"], "no sample 5: it has samples 0 and 1;"),
        (["a", "--sample", "1"], "no sample 1: it has sample 0 only;"),
        (["a", "--answer", "NO"], "no such trajectory of 'a';"),
        (["--n", "1", "--sample", "1"], "--n names one trajectory already; leave --sample away"),
        (["--n", "99"], "--list names them all"),
        (["a", "--turn", "7"], "Of the turns 0 to 2"),
        (["a", "--turn", "x"], "give turns such as"),
        (["a", "--color", "taste"], "role, weight or logprob"),
        (["a", "--paper", "pink"], "dark or light"),
        (["a", "--raw", "--json"], "choose one"),
        (["a", "--raw", "--turn", "1"], "--turn picks what the terminal or --html shows"),
        (["--stop", "bored"], "choose from answered"),
        (["--task", "wd"], "asked cv"),
    ],
)
def test_a_wrong_choice_says_what_there_is(specvet: Specvet, run: Path, arguments: list[str], said: str) -> None:
    done = specvet("transcript", run, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_an_unreadable_file_has_no_trajectory_and_says_why(specvet: Specvet, run: Path) -> None:
    done = specvet("transcript", run, "--n", "6")
    assert done.returncode == 1
    assert "there is no trajectory: no FITS" in done.stderr


def test_json_is_the_whole_record(specvet: Specvet, run: Path) -> None:
    record = json.loads(specvet("transcript", run, "--n", "3", "--json").stdout)
    assert record.pop("n") == 3
    with RunFolder.read(run) as folder:
        expected = list(folder.decisions(with_trajectories=True))[2]
    assert Decision.model_validate(record) == expected
    assert record["trajectory"]["ledger"]["segments"]


def test_the_page_is_written_and_named(specvet: Specvet, run: Path, tmp_path: Path) -> None:
    done = specvet("transcript", run, "a", "--html", "a.html", "--color", "weight", "--turn", "1")
    assert (done.returncode, done.stdout) == (0, "a.html\n")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert 'id="by-weight" checked' in text
    assert "only these are shown: 1." in text
    assert "<script" not in text
    lost = specvet("transcript", run, "a", "--html", "nowhere/a.html")
    assert lost.returncode == 4
    assert "nowhere/a.html" in lost.stderr


def test_a_pipe_gets_no_colours_and_no_commands(specvet: Specvet, run: Path) -> None:
    for arguments in (["a"], ["a", "--color", "logprob"], ["c"], ["d"]):
        assert "\x1b" not in specvet("transcript", run, *arguments).stdout


def test_a_vetted_run_is_told_from_wherever_one_stands(specvet: Specvet, tmp_path: Path) -> None:
    write_star(tmp_path / "night" / "s1.txt")
    specvet("vet", "night", "--task", "cv,wd", "--policy", "line-indices", "--out", "run", "--quiet")
    here = specvet("transcript", "run", "s1.txt", "--task", "cv")
    assert here.returncode == 0
    assert "This policy keeps no ledger" in here.stdout
    assert "── turn 1 · policy ─" in here.stdout
    assert "spectral_visualization_tool(wavelength_range=[6300, 6900]" in here.stdout
    assert "--html draws it again" in here.stdout
    page = specvet("transcript", "run", "--n", "1", "--html", "x.html")
    assert page.returncode == 0
    assert (tmp_path / "x.html").read_text(encoding="utf-8").count("drawn again: the same data, window and style") >= 2


def test_a_run_is_told_from_another_folder(specvet: Specvet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_star(tmp_path / "s1.txt")
    specvet("vet", "s1.txt", "--task", "cv", "--policy", "line-indices", "--out", "run", "--quiet")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with RunFolder.read(tmp_path / "run") as run:
        decision = next(run.decisions())
        assert run.trajectory(decision.file, 0, "cv") is None  # `s1.txt` of this folder would be another file
        found = run.trajectory_of(decision)
    assert found is not None
    assert found.question.task == "cv"
    assert "── turn 1 · policy ─" in specvet("transcript", "../run", "s1.txt").stdout


def test_the_script_writes_every_byte_to_a_pipe(run: Path) -> None:
    done = subprocess.run([SCRIPT, "transcript", run, "a", "--raw"], capture_output=True, check=True, timeout=300)
    with RunFolder.read(run) as folder:
        record = next(iter(folder.decisions(with_trajectories=True))).trajectory
    assert record is not None
    assert done.stdout == raw_text(record)
    assert b"\x1b[31mred" in done.stdout
    assert done.stdout.count(b"<|image_pad|>") == 2


def test_what_is_no_run_says_so(specvet: Specvet, tmp_path: Path) -> None:
    done = specvet("transcript", tmp_path)
    assert done.returncode == 2
    assert "not a specvet run" in done.stderr


def _on_a_terminal(*arguments: object) -> str:
    """What the script writes to a terminal."""
    here, there = pty.openpty()
    with subprocess.Popen([SCRIPT, *map(str, arguments)], stdout=there, stderr=there, stdin=there) as script:
        os.close(there)
        said = b""
        with suppress(OSError):  # Linux says that the other end is closed in this way
            while chunk := os.read(here, 65536):
                said += chunk
        assert script.wait(300) == 0
    os.close(here)
    return said.decode().replace("\r\n", "\n")


def test_nothing_exact_reaches_a_terminal(run: Path) -> None:
    raw = _on_a_terminal("transcript", run, "a", "--raw")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\xa0\u200b\u202a-\u202e]", raw)
    assert "\\x1b[31mred" in raw
    record = _on_a_terminal("transcript", run, "a", "--json")
    assert record.isascii()
    assert "\x1b" not in record
    assert json.loads(record)["id"] == "a"
