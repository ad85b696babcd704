"""What leaves a review: tables in every format, labels to train on, the page of one object as text."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from astropy.table import Table
from review_lab import decision, draft, write_run, write_spectra

from specvet.cli.main import main
from specvet.records import WHOLE_FILE, Decision
from specvet.records.schema import Answer, Verdict
from specvet.review.desi_vi import write_desi_vi
from specvet.review.desk import Desk
from specvet.review.outputs import REVIEW_COLUMNS, export_labels, export_reviewed
from specvet.review.page import bundle, render
from specvet.review.source import of_list, of_run
from specvet.review.store import SqliteStore
from specvet.vetting.export import ExportError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of four spectra that two people have looked at: agreed, in conflict, settled by a third, one vote."""
    files = write_spectra(tmp_path / "spectra", 4)
    run = write_run(tmp_path / "run", [decision(f, Answer.YES, 0.9, id=f"star {i}") for i, f in enumerate(files)])
    desk = Desk(of_run(run), SqliteStore(run / "review.db"))
    a, b, c, d = desk.listing.items
    desk.decide("Ann", draft(a, "YES", quality=4, comment="双峰 Hα", z=0.0001))
    desk.decide("Bo", draft(a, "YES", quality=3, flagged=True))
    desk.decide("Ann", draft(b, "YES"))
    desk.decide("Bo", draft(b, "NO", likelier="M dwarf", issues="SR"))
    desk.decide("Ann", draft(c, "NO"))
    desk.decide("Bo", draft(c, "YES"))
    desk.decide("Chen", draft(c, "NO", likelier="Be star"))
    desk.decide("Ann", draft(d, "YES"))
    desk.undo("Ann", "undo-of-d-0001", "cv", d)
    desk.store.close()
    return run


@pytest.fixture
def desk(run: Path):
    made = Desk(of_run(run), SqliteStore(run / "review.db"))
    yield made
    made.store.close()


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_a_row_says_what_the_votes_amount_to_beside_what_the_agent_said(desk, tmp_path):
    assert export_reviewed(desk, tmp_path / "r.csv") == 3
    agreed, conflict, settled = rows_of(tmp_path / "r.csv")
    assert (agreed["id"], agreed["answer"], agreed["p_yes"]) == ("star 0", "YES", "0.9")
    assert (agreed["decision"], agreed["standing"], agreed["n_votes"]) == ("YES", "agreed", "2")
    assert (agreed["votes"], agreed["quality"], agreed["flagged"]) == ("Ann YES (4); Bo YES (3)", "3.5", "1")
    assert (agreed["comment"], agreed["review_z"]) == ("Ann: 双峰 Hα", "0.0001")
    assert (conflict["decision"], conflict["standing"], conflict["issues"]) == ("", "conflict", "RS")
    assert (settled["decision"], settled["standing"], settled["review_class"]) == ("NO", "settled", "Be star")
    assert settled["votes"] == "Ann NO; Bo YES; Chen NO, third look"


def test_votes_on_a_file_that_the_run_could_not_read_are_exported_too(tmp_path):
    good, bad = write_spectra(tmp_path / "spectra", 2)
    error = Verdict(answer=Answer.ERROR, reason="no spectrum")
    unreadable = Decision(file=bad, row=0, task=WHOLE_FILE, id="bad", verdict=error)
    listing = of_run(write_run(tmp_path / "run", [decision(good, Answer.YES, 0.9), unreadable]))
    made = Desk(listing, SqliteStore(tmp_path / "r.db"))
    made.decide("Ann", draft(listing.items[1], "UNSURE"))
    assert export_reviewed(made, tmp_path / "r.csv") == export_reviewed(made, tmp_path / "r.fits") == 1
    (row,) = rows_of(tmp_path / "r.csv")
    assert (row["file"], row["task"], row["answer"], row["decision"]) == (bad, "cv", "", "UNSURE")
    made.store.close()


@pytest.mark.parametrize("suffix", ["parquet", "fits", "vot", "ecsv"])
def test_every_format_holds_the_accepted_ones_with_where_they_come_from(desk, tmp_path, suffix):
    out = tmp_path / f"accepted.{suffix}"
    assert export_reviewed(desk, out, decisions=["YES"]) == 1
    if suffix == "parquet":
        table = pq.read_table(out)
        facts = {k.decode(): v.decode() for k, v in table.schema.metadata.items()}
        row = table.to_pylist()[0]
        assert facts["review_store"] == "review.db"
        assert row["comment"] == "Ann: 双峰 Hα"
    else:
        table = Table.read(out, format={"vot": "votable", "ecsv": "ascii.ecsv"}.get(suffix))
        row = dict(zip(table.colnames, table[0], strict=True))
        if suffix == "fits":
            assert table.meta["ONLYDECI"] == "YES"
    assert [c.name for c in REVIEW_COLUMNS] == list(row)[-len(REVIEW_COLUMNS) :]
    assert (str(row["decision"]), int(row["n_votes"]), float(row["quality"])) == ("YES", 2, 3.5)


def test_a_quality_is_a_whole_number_as_people_gave_it_and_reads_back_in_every_format(tmp_path):
    write_spectra(tmp_path / "spectra", 5)
    desk = Desk(of_list([str(tmp_path / "spectra")], tasks="cv"), SqliteStore(tmp_path / "r.db"))
    for quality, item in enumerate(desk.listing.items):
        desk.decide("Ann", draft(item, quality=quality))
    desk.decide("Bo", draft(desk.listing.items[2], quality=3))
    desk.decide("Bo", draft(desk.listing.items[4]))
    for suffix in ("csv", "parquet", "fits", "vot", "ecsv"):
        assert export_reviewed(desk, tmp_path / f"r.{suffix}") == 5
    assert [row["quality"] for row in rows_of(tmp_path / "r.csv")] == ["0", "1", "2.5", "3", "4"]
    (file_of_ann, file_of_bo) = write_desi_vi(desk, tmp_path / "vi")
    assert [row["VI_quality"] for row in rows_of(file_of_ann)] == ["0", "1", "2", "3", "4"]
    assert [row["VI_quality"] for row in rows_of(file_of_bo)] == ["3", "-1"]
    tables = [pq.read_table(tmp_path / "r.parquet")["quality"].to_pylist()]
    tables += [
        list(Table.read(tmp_path / f"r.{suffix}", format=kind)["quality"])
        for suffix, kind in (("fits", "fits"), ("vot", "votable"), ("ecsv", "ascii.ecsv"), ("csv", "ascii.csv"))
    ]
    assert tables == [[0, 1, 2.5, 3, 4]] * 5
    desk.store.close()


def test_a_list_without_an_agent_is_exported_with_what_the_files_said(tmp_path):
    files = write_spectra(tmp_path / "spectra", 2)
    desk = Desk(of_list([str(tmp_path / "spectra")], tasks="cv,wd"), SqliteStore(tmp_path / "r.db"))
    item = desk.listing.items[1]
    desk.decide("Ann", draft(item, "YES"))
    assert export_reviewed(desk, tmp_path / "r.csv") == 1
    row = rows_of(tmp_path / "r.csv")[0]
    assert (row["file"], row["row"], row["task"], row["decision"]) == (files[1], "0", "cv", "YES")
    assert "answer" not in row
    with pytest.raises(ExportError, match=r"name it \.csv"):
        export_reviewed(desk, tmp_path / "r.xyz")
    desk.store.close()


def test_labels_become_questions_and_a_conflict_is_set_aside(run, tmp_path, capsys):
    labels = tmp_path / "labels.csv"
    assert main(["review", "labels", str(run), "--out", str(labels)]) == 0
    assert [(r["answer"], r["label_source"]) for r in rows_of(labels)] == [
        ("YES", "reviewed by Ann, Bo (agreed)"),
        ("UNSURE", "reviewed by Ann, Bo (conflict)"),
        ("NO", "reviewed by Ann, Bo, Chen (settled)"),
    ]
    made = tmp_path / "mine"
    assert main(["data", "label-list", str(labels), "--out", str(made), "--no-drafts", "--quiet"]) == 0
    questions = [json.loads(line) for line in (made / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted((Path(q["spectrum"]["path"]).name, q["answer"], q["label_source"]) for q in questions) == [
        ("s0000.txt", "YES", "reviewed by Ann, Bo (agreed)"),
        ("s0002.txt", "NO", "reviewed by Ann, Bo, Chen (settled)"),
    ]


def test_the_commands_write_what_people_decided_and_say_what_is_wrong(run, tmp_path, capsys):
    out = tmp_path / "accepted.csv"
    assert main(["export", str(run), "--reviewed", "--decision", "yes", "--out", str(out)]) == 0
    assert [row["id"] for row in rows_of(out)] == ["star 0"]
    assert main(["review", "page", str(run), "star 0", "--out", str(tmp_path / "one.html")]) == 0
    assert "star 0" in (tmp_path / "one.html").read_text(encoding="utf-8")
    capsys.readouterr()
    for command, problem in (
        (["review", "page", str(run), "star 9", "--out", "x.html"], "star 9: no spectrum of run has this id or file"),
        (["export", str(run), "--reviewed", "--decision", "maybe", "--out", "x.csv"], "choose from YES, NO, UNSURE"),
        (["export", str(run), "--decision", "YES", "--out", "x.csv"], "--decision and --store belong to --reviewed"),
    ):
        assert main(command) == 2
        assert problem in " ".join(capsys.readouterr().err.split())


def test_the_page_of_one_object_lets_no_text_out_of_its_place():
    hostile = "</script><img src=x onerror=alert(1)>"
    page = render(hostile, {"comment": hostile}, [("file", hostile)])
    assert hostile not in page
    policy = html.unescape(page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0])
    style = page.split("<style>")[1].split("</style>")[0]
    script = page.split("<script>")[1].split("</script>")[0]
    expected = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    assert policy == f"default-src 'none'; style-src 'sha256-{expected[0]}'; script-src 'sha256-{expected[1]}'"


def test_the_script_of_the_page_holds_every_module_once_and_no_import():
    script = bundle("one.js")
    assert script.count('modules["waves.js"] = ') == 1
    assert script.index('modules["waves.js"] = ') < script.index('modules["look.js"] = ')
    assert not [line for line in script.splitlines() if line.startswith(("import ", "export "))]


def test_labels_alone_are_what_the_reader_of_labels_takes(desk, tmp_path):
    assert export_labels(desk, tmp_path / "labels.parquet") == 3
    assert pq.read_table(tmp_path / "labels.parquet").column_names == [
        "file",
        "row",
        "task",
        "answer",
        "label_source",
        "comment",
        "time",
    ]
