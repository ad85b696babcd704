"""`specvet data label-list`: tables of every kind, what is said on the terminal, and what is refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from cli_lab import Specvet, write_star

from specvet.cli.main import main

QUICK = ("--style", "compact")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs a command in this process, in `tmp_path`: a twentieth of the time that a new one takes."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ran:
        code = main([*map(str, arguments)])
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    for i in range(3):
        write_star(tmp_path / "spectra" / f"cv{i}.txt", 5.0 + i)
        write_star(tmp_path / "spectra" / f"flat{i}.txt", 0.01 * i)
    return tmp_path / "spectra"


LONG = """file,row,task,answer,reviewer,comment,time
spectra/cv0.txt,0,cv,YES,wang,broad,2026-03-01
spectra/cv0.txt,0,CV,YES,li,,2026-03-01
spectra/cv1.txt,,cataclysmic variable,YES,wang,,2026-03-01
spectra/flat0.txt,,cv,NO,wang,"nothing, at all",2026-03-01
spectra/flat1.txt,,cv,YES,wang,,2026-03-01
spectra/flat1.txt,,cv,NO,li,,2026-03-02
spectra/flat2.txt,,cv,UNSURE,li,,2026-03-02
spectra/gone.txt,,cv,NO,li,,2026-03-02
spectra/cv2.txt,,quasar,NO,li,,2026-03-02
"""


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_table_of_reviews_becomes_a_set_and_what_is_left_out_is_told(
    specvet: Specvet, stars: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels.csv").write_text(LONG, encoding="utf-8")
    run = specvet("data", "label-list", "labels.csv", "--out", "mine", "--style", "compact", "--val-share", "0")
    assert run.returncode == 0, run.stderr
    assert [(q["id"], q["answer"]) for q in lines(tmp_path / "mine" / "questions.jsonl")] == [
        ("cv-cv0.txt", "YES"),
        ("cv-cv1.txt", "YES"),
        ("cv-flat0.txt", "NO"),
    ]
    assert lines(tmp_path / "mine" / "questions.jsonl")[0]["spectrum"] == {"path": "../spectra/cv0.txt", "row": 0}
    kinds = [left["kind"] for left in lines(tmp_path / "mine" / "rejects.jsonl") if left["kind"] != "draft"]
    assert sorted(map(str, kinds)) == ["contradiction", "no place", "set aside", "unknown task"]
    assert not (tmp_path / "mine" / "val.jsonl").exists()
    assert "3 questions about 3 spectra of 3 objects" in run.stdout
    assert "those who looked do not agree: wang says YES, li says NO" in run.stdout
    assert "made with" not in run.stdout
    assert "make it with --copy" in run.stdout
    assert "no such file: spectra/gone.txt; --root DIR says where the table's paths start" in " ".join(
        run.stdout.split()
    )
    assert "next: specvet train sft --profile tiny --set sft.max_tokens=8192 --data mine/sft_train.jsonl" in run.stdout
    assert "--validation" not in run.stdout


@pytest.mark.parametrize("share", ["0", "0.34"])
def test_the_command_that_is_printed_next_runs_as_it_is(
    here: Callable[..., Ran], stars: Path, tmp_path: Path, share: str
) -> None:
    rows = [f"spectra/{kind}{i}.txt,{answer}" for kind, answer in (("cv", "YES"), ("flat", "NO")) for i in range(3)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,cv", *rows]), encoding="utf-8")
    run = here("data", "label-list", "labels.csv", "--out", "my set", "--val-share", share, *QUICK)
    assert run.returncode == 0, run.stderr
    (printed,) = (line for line in run.stdout.splitlines() if line.startswith("next: specvet "))
    command = shlex.split(printed.removeprefix("next: specvet "))
    assert ("--validation" in command) == (share != "0")
    again = here(*command)
    assert again.returncode == 0, again.stderr
    assert "Nothing was trained" in again.stdout
    assert "longest" in again.stdout
    assert not (tmp_path / "RUN").exists()


def test_a_label_that_the_evidence_contradicts_is_told(here: Callable[..., Ran], stars: Path, tmp_path: Path) -> None:
    rows = "file,cv\nspectra/cv0.txt,NO\nspectra/cv1.txt,YES\nspectra/flat0.txt,YES\n"
    (tmp_path / "labels.csv").write_text(rows, encoding="utf-8")
    run = here("data", "label-list", "labels.csv", "--out", "mine", "--val-share", "0", *QUICK)
    told = " ".join(run.stdout.split())
    stats = json.loads((tmp_path / "mine" / "stats.json").read_text(encoding="utf-8"))
    listed = [one["where"] for one in stats["look_again"]]
    assert "labels.csv line 4" in listed
    assert f"labels to look at again: {len(listed)}, which stay in the questions" in told
    assert len(lines(tmp_path / "mine" / "train.jsonl")) == 3


def test_a_column_for_each_task_asks_about_each(here: Callable[..., Ran], stars: Path, tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(
        "path,class,CV,white dwarf\nspectra/cv0.txt,CV,YES,NO\nspectra/flat0.txt,?,NO,\n", encoding="utf-8"
    )
    run = here("data", "label-list", "wide.csv", "--out", "mine", "--no-drafts", "--json", "--quiet")
    assert run.returncode == 0, run.stderr
    stats = json.loads(run.stdout)
    assert (stats["questions"], stats["empty"], stats["left"]) == (3, 1, {})
    assert {q["task"] for q in lines(tmp_path / "mine" / "questions.jsonl")} == {"cv", "wd"}
    assert not (tmp_path / "mine" / "sft_train.jsonl").exists()


@pytest.mark.parametrize("kind", ["ecsv", "fits", "vot", "parquet"])
def test_tables_of_every_kind_are_read(here: Callable[..., Ran], stars: Path, tmp_path: Path, kind: str) -> None:
    from astropy.table import Table

    table = Table(
        {"file": ["spectra/cv0.txt", "spectra/flat0.txt"], "task": ["cv", "cv"], "answer": ["YES", "NO"], "row": [0, 0]}
    )
    path = tmp_path / f"labels.{kind}"
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: table[name].tolist() for name in table.colnames}), path)
    else:
        table.write(path, format={"ecsv": "ascii.ecsv", "vot": "votable"}.get(kind, kind))
    run = here("data", "label-list", path, "--out", "mine", "--no-drafts", "--quiet")
    assert run.returncode == 0, run.stderr
    assert [q["answer"] for q in lines(tmp_path / "mine" / "questions.jsonl")] == ["YES", "NO"]


OWN = """
key: emitter
name: Hα emitter
question: Does it show emission?
include: [Hα in emission]
exclude: [other stars]
guidance: Look at Hα.
windows:
  - {key: red, name: Hα, range: [6300, 6900], features: [{name: Hα, wavelength: 6562.8, kind: emission}], why: Strong.}
sources: [a test]
"""


def test_a_task_of_ones_own_comes_along(here: Callable[..., Ran], stars: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "emitter.yaml").write_text(OWN, encoding="utf-8")
    (tmp_path / "wide.csv").write_text("file,emitter\nspectra/cv0.txt,YES\nspectra/flat0.txt,NO\n", encoding="utf-8")
    command = ("data", "label-list", "wide.csv", "--out", "mine", "--tasks", "own", "--copy", *QUICK)
    run = here(*command)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "mine" / "tasks" / "emitter.yaml").read_text(encoding="utf-8") == OWN
    assert (tmp_path / "mine" / "spectra" / "cv0.txt").is_file()
    assert len(lines(tmp_path / "mine" / "sft_train.jsonl")) == 2
    again = here(*command)
    assert "0 tried now" in again.stdout
    assert "--copy" not in again.stdout


@pytest.mark.parametrize(
    ("table", "more", "code", "message"),
    [
        ("file,answer\na.txt,YES\n", (), 2, "has a column answer and none called task"),
        ("file,notes\na.txt,YES\n", (), 2, "no column says what was found"),
        ("notes,cv\na,YES\n", (), 2, "neither a spectrum nor a list"),
        ("file,cv\na.txt,YES\n", ("--tasks", "nowhere"), 2, "nowhere: no such folder"),
        ("file,cv\na.txt,YES\n", ("--val-share", "2"), 2, "a share from 0 to below 1"),
        ("file,cv\na.txt,YES\n", ("--style", "fancy"), 2, "fancy"),
        ("file,cv\na.txt,YES\n", (), 1, "no row could be used"),
        (None, (), 2, "no such file"),
    ],
)
def test_what_cannot_be_used_is_said_with_the_reason(
    here: Callable[..., Ran], tmp_path: Path, table: str | None, more: tuple[str, ...], code: int, message: str
) -> None:
    if table is not None:
        (tmp_path / "labels.csv").write_text(table, encoding="utf-8")
    run = here("data", "label-list", "labels.csv", "--out", "mine", "--quiet", *more)
    assert run.returncode == code, run.stderr
    assert message in run.stderr + run.stdout
    assert "Traceback" not in run.stderr


def test_a_table_of_both_forms_keeps_the_labels_of_both(here: Callable[..., Ran], stars: Path, tmp_path: Path) -> None:
    rows = "file,task,answer,cv,wd\nspectra/cv0.txt,gm,NO,YES,NO\nspectra/flat0.txt,,,NO,\nspectra/flat1.txt,wd,NO,,\n"
    (tmp_path / "both.csv").write_text(rows, encoding="utf-8")
    run = here("data", "label-list", "both.csv", "--out", "mine", "--no-drafts", *QUICK)
    assert run.returncode == 0, run.stderr
    assert sorted((str(q["id"]), q["answer"]) for q in lines(tmp_path / "mine" / "questions.jsonl")) == [
        ("cv-cv0.txt", "YES"),
        ("cv-flat0.txt", "NO"),
        ("gm-cv0.txt", "NO"),
        ("wd-cv0.txt", "NO"),
        ("wd-flat1.txt", "NO"),
    ]
    assert lines(tmp_path / "mine" / "rejects.jsonl") == []
