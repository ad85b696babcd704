"""`vet`, `export`, `report`: the real script, from files to tables, with what can go wrong on the way."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest
from cli_lab import SCRIPT, Specvet, write_star

CV = ("--task", "cv", "--policy", "line-indices", "--out", "RUN")
"""Asked of the policy that measures: by default the packaged model would answer, where there is one."""


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    for i in range(3):
        write_star(tmp_path / "stars" / f"{i}.txt", peak=5.0 * i)
    (tmp_path / "stars" / "broken.fits").write_bytes(b"SIMPLE  = nonsense")
    return tmp_path / "stars"


def exported(specvet: Specvet, run: str, *options: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(specvet("export", run, "--out", "-", *options).stdout)))


def test_vet_gives_every_spectrum_and_task_one_row_and_every_bad_file_one(specvet: Specvet, stars: Path) -> None:
    done = specvet("vet", "stars", "--task", "CV,white dwarf", "--policy", "line-indices", "--out", "RUN")
    assert (done.returncode, done.stderr) == (0, "")
    rows = exported(specvet, "RUN")
    assert sorted((r["file"], r["task"]) for r in rows) == [
        *((f"stars/{i}.txt", task) for i in range(3) for task in ("cv", "wd")),
        ("stars/broken.fits", "*"),
    ]
    assert [r["answer"] for r in rows if r["task"] == "*"] == ["ERROR"]
    assert {r["answer"] for r in rows if r["task"] != "*"} <= {"YES", "NO", "UNSURE", "NO_DATA"}
    for said in ("cataclysmic variable", "1 could not be read (ERROR)", "stars/broken.fits", "specvet report RUN"):
        assert said in done.stdout


def test_the_summary_as_json_is_all_there_is_on_stdout(specvet: Specvet, stars: Path) -> None:
    summary = json.loads(specvet("vet", "stars", *CV, "--json").stdout)
    assert summary["run"] == "RUN"
    assert (summary["tasks"], summary["policy"], summary["frame_mode"]) == (["cv"], "line-indices", "careful")
    assert sum(summary["counts"]["cv"].values()) == 3
    assert (summary["errors"], summary["interrupted"], summary["exit_code"]) == (1, False, 0)
    assert summary["this_session"]["decided"] == 4


def test_quiet_says_nothing_but_errors(specvet: Specvet, stars: Path) -> None:
    done = specvet("vet", "stars", *CV, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = specvet("vet", "stars", "--task", "cw", "--policy", "line-indices", "--out", "RUN", "--quiet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("specvet: there is no task `cw`")


def test_a_rerun_makes_no_decision_again_and_another_task_joins(specvet: Specvet, stars: Path) -> None:
    specvet("vet", "stars", *CV)
    before = exported(specvet, "RUN")
    again = json.loads(specvet("vet", "stars", *CV, "--json").stdout)
    assert (again["this_session"]["decided"], again["this_session"]["skipped"], again["exit_code"]) == (0, 4, 0)
    assert exported(specvet, "RUN") == before
    more = json.loads(
        specvet("vet", "stars", "--task", "cv,wd", "--policy", "line-indices", "--out", "RUN", "--json").stdout
    )
    assert more["this_session"]["counts"].keys() == {"wd"}
    assert specvet("vet", "stars", *CV, "--no-resume").returncode == 2
    mismatch = specvet("vet", "stars", *CV, "--frame", "observed")
    assert mismatch.returncode == 2
    assert "frame_mode = careful" in mismatch.stderr


def test_errors_are_tried_again_when_asked(specvet: Specvet, stars: Path) -> None:
    assert specvet("vet", "stars", *CV, "--strict").returncode == 3
    write_star(stars / "broken.fits")
    assert specvet("vet", "stars", *CV, "--strict").returncode == 3
    assert specvet("vet", "stars", *CV, "--strict", "--retry-errors").returncode == 0
    assert len(exported(specvet, "RUN", "--answer", "ERROR")) == 0
    assert len(exported(specvet, "RUN")) == 4


def test_exit_codes_say_what_happened(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    vet = ("--task", "cv", "--policy", "line-indices", "--out")
    for arguments, code, said in (
        (("stars/broken.fits", *vet, "A"), 1, ""),
        (("empty", *vet, "A"), 1, "empty: nothing to vet, no files or rows in it"),
        (("nowhere", *vet, "B"), 2, "nowhere: no such file or folder"),
        (("stars", "--root", "nowhere", *vet, "B"), 2, "--root nowhere: no such folder"),
        (("stars", *vet, "B", "--policy", "oracle"), 2, "there is no policy named 'oracle'"),
        (("stars", "--frame", "mine", *vet, "B"), 2, "--frame mine: choose careful, published or observed"),
        (("stars", *vet, "file"), 4, "file"),
        (("stars", *vet, "/proc/specvet"), 4, "/proc/specvet"),
    ):
        done = specvet("vet", *arguments)
        assert done.returncode == code, arguments
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "B").exists()


def test_a_list_is_vetted_with_its_own_ids_rows_and_redshifts(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("file;ID;z\nstars/0.txt;007;0.001\nstars/gone.txt;8;\n;9;\nstars/1.txt;00;\n")
    done = specvet("vet", "list.csv", *CV)
    assert done.returncode == 0
    rows = {r["id"]: r for r in exported(specvet, "RUN")}
    assert {i: r["answer"] == "ERROR" for i, r in rows.items()} == {"007": False, "8": True, "9": True, "00": False}
    assert (rows["007"]["z"], rows["00"]["z"]) == ("0.001", "")
    assert rows["8"]["reason"].startswith("list.csv line 3: no such file: stars/gone.txt")
    assert rows["9"]["reason"] == "list.csv line 4: the path is empty"


def test_a_list_without_useful_columns_is_refused_before_a_run_is_made(specvet: Specvet, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("ra,dec\n1,2\n")
    done = specvet("vet", "list.csv", *CV)
    assert done.returncode == 2
    assert "Columns found: ra, dec. A list needs a column path" in done.stderr
    assert not (tmp_path / "RUN").exists()


def test_limit_takes_the_first_inputs(specvet: Specvet, stars: Path) -> None:
    specvet("vet", "stars", *CV, "--limit", "2")
    assert [r["file"] for r in exported(specvet, "RUN")] == ["stars/0.txt", "stars/1.txt"]


def test_without_out_the_run_lies_under_runs_and_its_name_is_printed(specvet: Specvet, stars: Path) -> None:
    done = specvet("vet", "stars", "--task", "cv", "--policy", "line-indices")
    (folder,) = re.findall(r"The run is in (runs/\d{8}T\d{6}Z)\. Next:", done.stdout)
    assert len(exported(specvet, folder)) == 4


def test_tables_and_reports_are_made_from_a_run(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    specvet("vet", "stars", *CV)
    done = specvet("export", "RUN", "--out", "out.parquet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "specvet: wrote 4 rows to out.parquet\n")
    for arguments, code in (
        (("export", "RUN", "--out", "out.xlsx"), 2),
        (("export", "stars", "--out", "out.csv"), 2),
        (("export", "RUN", "--out", "out.csv", "--answer", "MAYBE"), 2),
        (("export", "RUN", "--out", "out.csv", "--format", "xml"), 2),
        (("report", "stars"), 2),
    ):
        wrong = specvet(*arguments)
        assert (wrong.returncode, wrong.stdout) == (code, ""), arguments
        assert wrong.stderr.startswith("specvet: ")
    page = specvet("report", "RUN")
    assert page.stdout == "RUN/report.html\n"
    assert "stars/0.txt" in (tmp_path / "RUN" / "report.html").read_text(encoding="utf-8")


def test_a_report_can_show_a_choice(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    specvet("vet", "stars", "--task", "cv,wd", "--policy", "line-indices", "--out", "RUN")
    page = specvet("report", "RUN", "--task", "CV", "--answer", "error", "--limit", "5", "--out", "errors.html")
    assert (page.returncode, page.stdout) == (0, "errors.html\n")
    assert "broken.fits" in (tmp_path / "errors.html").read_text(encoding="utf-8")
    assert specvet("report", "RUN", "--answer", "perhaps").returncode == 2


def test_vet_on_a_disk_that_fills_up_keeps_what_it_has_and_goes_on_later(specvet: Specvet, tmp_path: Path) -> None:
    many(tmp_path / "stars", 100)
    command = f"ulimit -f 150; '{SCRIPT}' vet stars --task cv --policy line-indices --out RUN"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("specvet: RUN")
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert specvet("vet", "stars", *CV, "--quiet").returncode == 0
    assert len({r["file"] for r in exported(specvet, "RUN")}) == 101


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_exit_code_4(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    specvet("vet", "stars", *CV)
    command = [str(SCRIPT), "export", "RUN", "--out", "-"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr == "specvet: cannot write: No space left on device\n"


# Terminals and signals -----------------------------------------------------------------------------------------------


class Terminal:
    """The script on a pseudo terminal."""

    def __init__(self, arguments: Sequence[str], cwd: Path, columns: int = 80) -> None:
        self.output = ""
        pid, self._fd = pty.fork()
        if pid == 0:
            os.chdir(cwd)
            os.environ.pop("COLUMNS", None)
            os.environ["TERM"] = "xterm-256color"
            os.execv(SCRIPT, [str(SCRIPT), *arguments])
        self._pid = pid
        ioctl(self._fd, TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def until(self, pattern: str, seconds: float = 120.0) -> str:
        """Reads until `pattern` was written (escape sequences left out), or to the end for an empty one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (pattern and re.search(pattern, self.text)):
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    data = os.read(self._fd, 65536)
                except OSError:  # how Linux says that the other end has gone
                    break
                self.output += data.decode("utf-8", "replace")
        return self.text

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.output)

    def press_ctrl_c(self) -> None:
        os.write(self._fd, b"\x03")

    def exit_code(self) -> int:
        self.until("")
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_a_bar_with_rate_and_time_left_that_fits(stars: Path, tmp_path: Path, columns: int) -> None:
    for i in range(40):
        write_star(stars / f"more{i:02d}.txt")
    terminal = Terminal(["vet", "stars", *CV], tmp_path, columns)
    assert terminal.exit_code() == 0
    frames = [f for f in re.split(r"[\r\n]+", terminal.text) if f.startswith("vetting")]
    assert re.search(r" 0/44", frames[0])
    assert any(re.search(r"/44 +[\d.]+/s +\S+ (s|min) left", f) for f in frames)
    assert max(len(line) for line in re.split(r"[\r\n]+", terminal.text)) <= columns
    assert "need a person" in terminal.text or "YES, surest first" in terminal.text


def many(folder: Path, n: int) -> None:
    """A list of `n` rows of one spectrum under names of its own."""
    star = write_star(folder / "star.txt")
    for i in range(n):
        os.link(star, folder / f"link{i:04d}.txt")


def test_ctrl_c_finishes_the_spectrum_at_hand_and_the_same_command_goes_on(specvet: Specvet, tmp_path: Path) -> None:
    many(tmp_path / "stars", 150)
    terminal = Terminal(["vet", "stars", *CV], tmp_path)
    terminal.until(r" [1-9]\d*/151")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 130
    assert (
        "stopped; every verdict so far is in RUN. To go on: specvet vet stars --task cv --policy line-indices --out RUN"
        in re.sub(r"\r?\n", " ", terminal.text)
    )
    first = exported(specvet, "RUN")
    assert 0 < len(first) < 151
    done = json.loads(specvet("vet", "stars", *CV, "--json").stdout)
    assert done["this_session"]["skipped"] == len(first)
    assert done["this_session"]["decided"] == 151 - len(first)
    everything = exported(specvet, "RUN")
    assert everything[: len(first)] == first
    assert len({r["file"] for r in everything}) == 151


def test_sigint_and_sigterm_without_a_terminal_end_the_same_way(specvet: Specvet, tmp_path: Path) -> None:
    many(tmp_path / "stars", 300)
    decided = 0
    for number in (signal.SIGINT, signal.SIGTERM):
        command = [str(SCRIPT), "vet", "stars", *CV, "--json"]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        wait_for_decisions(tmp_path / "RUN", decided + 1)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 130
        summary = json.loads(out)
        assert (summary["interrupted"], summary["exit_code"]) == (True, 130)
        assert "Ctrl-C again aborts" in err
        assert "Traceback" not in err
        decided = sum(summary["counts"]["cv"].values())
        assert decided == len(exported(specvet, "RUN"))


def wait_for_decisions(run: Path, n: int) -> None:
    from specvet.records import RunError, RunFolder

    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            folder = RunFolder.read(run)
        except (RunError, OSError):
            continue
        found = sum(sum(answers.values()) for answers in folder.count().values())
        folder.close()
        if found >= n:
            return
    raise AssertionError(f"{n} decisions never came")


def test_a_log_file_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specvet.cli import progress
    from specvet.vetting.watch import Progress

    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.shown_progress(170_000, quiet=False) as shown:
        shown(Progress(1_200, 170_000, 2_400, 3, 0, "a.fits", 34.1))
    assert capsys.readouterr().err == (
        "specvet: 1,200 of 170,000 done, 35.2 a second, about 1 h 20 min left, 3 unreadable\n"
    )
    with progress.shown_progress(170_000, quiet=True) as shown:
        shown(Progress(1_200, 170_000, 2_400, 3, 0, "a.fits", 34.1))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (61, "1 min"), (3599, "60 min"), (4800, "1 h 20 min"), (180_000, "2 d 2 h")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    from specvet.cli.progress import duration

    assert duration(seconds) == text


def test_failed_rows_are_asked_again_when_asked_for(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    specvet("vet", "stars", *CV, "--quiet")
    db = sqlite3.connect(tmp_path / "RUN" / "run.db")
    with db:
        db.execute("UPDATE decisions SET answer = 'FAILED' WHERE task = 'cv'")
    db.close()
    for options, decided in (((), 0), (("--retry-errors",), 1), (("--retry-failed",), 3)):
        again = json.loads(specvet("vet", "stars", *CV, "--json", *options).stdout)
        assert again["this_session"]["decided"] == decided, options


def test_an_entry_that_has_changed_since_is_named_and_the_way_out_is_said(specvet: Specvet, stars: Path) -> None:
    specvet("vet", "stars", *CV, "--quiet")
    write_star(stars / "0.txt", peak=9.0)
    os.utime(stars / "0.txt", ns=(1, 1))
    again = specvet("vet", "stars", *CV, "--json")
    assert json.loads(again.stdout)["this_session"]["changed"] == 1
    assert again.stderr.splitlines() == [
        "specvet: stars/0.txt has another size or date than when it was vetted",
        "specvet: such an entry has changed since; a finished row is never done again, so give another --out to have "
        "it done",
    ]
    assert specvet("vet", "stars", *CV, "--quiet").stderr == ""


def test_compact_pictures_are_kept_when_asked_for(specvet: Specvet, stars: Path, tmp_path: Path) -> None:
    done = specvet("vet", "stars", *CV, "--images", "--style", "compact", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    pictures = list((tmp_path / "RUN" / "images").glob("*/*.png"))
    assert len(pictures) >= 3
    assert {struct.unpack(">II", p.read_bytes()[16:24]) for p in pictures} == {(448, 280), (308, 224)}
    wrong = specvet("vet", "stars", *CV, "--style", "oil")
    assert (wrong.returncode, wrong.stderr) == (2, "specvet: --style oil: choose reference or compact\n")


def test_a_report_of_a_long_run_shows_the_most_urgent_and_says_what_it_left_out(specvet: Specvet, stars: Path) -> None:
    specvet("vet", "stars", *CV, "--quiet")
    said = specvet("report", "RUN", "--limit", "1").stderr
    assert said.startswith("specvet: Only the first 1 of 3 spectra are shown, the most urgent. More: specvet report")
    assert specvet("report", "RUN", "--limit", "0").stderr == ""
    assert "300" in specvet("report", "--help").stdout
