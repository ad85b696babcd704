"""DESI's VI files: written as prospect writes them, read back as the same votes, and read from prospect itself."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from review_lab import decision, draft, write_run

from specvet.records.schema import Answer
from specvet.review.desi_vi import DESI_COLUMNS, DesiViError, ascii_text, read_desi_vi, write_desi_vi
from specvet.review.desk import Desk
from specvet.review.source import of_run
from specvet.review.store import SqliteStore

# As desihub/prospect writes it (prospect/js/save_vi.js): its header, "--" for no issue, -1 for no quality.
PROSPECT = """TARGETID,EXPID,NIGHT,TILEID,Spec_version,Redrock_version,Template_version,Redrock_spectype,Redrock_z,\
Redrock_deltachi2,VI_scanner,VI_quality,VI_issue,VI_z,VI_spectype,VI_comment
39627000000000000,,,80605,andes,0.14,,STAR,0.0001,120.5,EJ,4,--,,CV,broad Ha
39627000000000001,,,80605,andes,0.14,,QSO,2.1,20.5,EJ,3,RC,2.1034,QSO,NA
39627000000000002,,,80605,andes,0.14,,STAR,0.0,9.5,EJ,-1,S,,,two objects; in spectrum
39627999999999999,,,80605,andes,0.14,,STAR,0.0,9.5,EJ,2,--,,,not ours
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desi")
    decisions = [
        decision(f"coadd-{i}.fits", Answer.NO, 0.2, id=str(39627000000000000 + i), z_file=0.5 * i, pipeline_class="QSO")
        for i in range(3)
    ]
    return write_run(folder / "run", decisions)


@pytest.fixture
def desk(run: Path, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(of_run(run), SqliteStore(tmp_path / "r.db"))
    yield desk
    desk.store.close()


def test_votes_are_written_one_file_a_person_in_desis_columns(desk: Desk, tmp_path: Path) -> None:
    first, second, _ = desk.listing.items
    desk.decide("Ann Lee", draft(first, "YES", quality=4, comment="双星, Hα\nbroad"))
    desk.decide("Ann Lee", draft(second, "NO", likelier="QSO", z=0.5123, issues="RC"))
    desk.decide("李四", draft(first, "UNSURE", flagged=True))
    files = write_desi_vi(desk, tmp_path / "vi")
    assert files[0].name == "desi-vi_run_AL.csv"
    assert len(files) == 2
    assert files[1].stem.startswith("desi-vi_run_")
    with open(files[0], encoding="utf-8", newline="") as f:
        reader = csv.DictReader(f)
        rows = list(reader)
    assert tuple(reader.fieldnames or ())[:16] == DESI_COLUMNS
    assert [r["TARGETID"] for r in rows] == ["39627000000000000", "39627000000000001"]
    yes, no = rows
    assert (yes["VI_quality"], yes["VI_issue"], yes["VI_z"]) == ("4", "--", "")
    assert (yes["VI_spectype"], yes["VI_comment"]) == ("cataclysmic variable", "双星, Hα broad")
    assert (no["VI_quality"], no["VI_issue"], no["VI_z"], no["VI_spectype"]) == ("-1", "RC", "0.5123", "QSO")
    assert (no["Redrock_spectype"], no["Redrock_z"], no["VI_scanner"]) == ("QSO", "0.5", "Ann Lee")


def test_what_was_written_reads_back_as_the_same_votes_and_twice_changes_nothing(
    desk: Desk, run: Path, tmp_path: Path
) -> None:
    first, second, _ = desk.listing.items
    desk.decide("Ann", draft(first, "YES", quality=4, comment="双星", flagged=True))
    desk.decide("Ann", draft(second, "NO", likelier="QSO", z=0.5123, issues="RC"))
    (file,) = write_desi_vi(desk, tmp_path / "vi")
    other = Desk(of_run(run), SqliteStore(tmp_path / "other.db"))
    assert other.take_in(read_desi_vi(other, file, task=None)) == 2  # it says of each row which task it is about
    assert other.take_in(read_desi_vi(other, file, task="cv")) == 0
    for item in (first, second):
        told, was = other.votes(item, "cv")["Ann"], desk.votes(item, "cv")["Ann"]
        for field in ("verdict", "quality", "likelier", "z", "issues", "comment", "flagged"):
            assert getattr(told, field) == getattr(was, field)
    assert len(other.store.since(0)) == 2
    other.store.close()


def test_ones_own_file_changes_nothing_in_the_store_that_wrote_it(desk: Desk, tmp_path: Path) -> None:
    first, second, third = desk.listing.items
    desk.decide("Ann", draft(first, "NO", quality=1))
    desk.decide(
        "Ann", draft(second, "YES", quality=4, likelier="WD+MS binary", comment=" two\n lines  双星 ", z=-0.0001)
    )
    desk.decide("Ann", draft(third, "UNSURE", likelier="QSO", issues="CS", flagged=True))
    (file,) = write_desi_vi(desk, tmp_path / "vi")
    before = desk.store.since(0)
    for _ in range(2):
        assert desk.take_in(read_desi_vi(desk, file, task=None)) == 0
    # An older file neither brings back what was changed since nor what was taken back.
    desk.decide("Ann", draft(first, "YES"))
    desk.undo("Ann", "undo-0001", "cv", second)
    assert desk.take_in(read_desi_vi(desk, file, task=None)) == 0
    assert desk.store.since(0)[:3] == before
    assert len(desk.store.since(0)) == 5
    assert desk.votes(first, "cv")["Ann"].verdict == "YES"
    assert desk.votes(second, "cv") == {}


def test_a_file_that_went_to_a_colleague_and_came_back_changes_nothing(desk: Desk, run: Path, tmp_path: Path) -> None:
    desk.decide("Ann", draft(desk.listing.items[0], "UNSURE", likelier="QSO"))
    (sent,) = write_desi_vi(desk, tmp_path / "sent")
    other = Desk(of_run(run), SqliteStore(tmp_path / "other.db"))
    assert other.take_in(read_desi_vi(other, sent, task=None)) == 1
    assert other.votes(other.listing.items[0], "cv")["Ann"].likelier == "QSO"
    (back,) = write_desi_vi(other, tmp_path / "back")
    assert desk.take_in(read_desi_vi(desk, back, task=None)) == 0
    other.store.close()


def test_a_colleagues_file_of_the_same_name_is_taken_in(desk: Desk, run: Path, tmp_path: Path) -> None:
    item = desk.listing.items[0]
    other = Desk(of_run(run), SqliteStore(tmp_path / "other.db"))
    desk.decide("Ann Lee", draft(item, "YES", quality=4))
    other.decide("Al Lund", draft(item, "YES", quality=4))
    (mine,), (theirs,) = write_desi_vi(desk, tmp_path / "a"), write_desi_vi(other, tmp_path / "b")
    assert mine.name == theirs.name
    assert desk.take_in(read_desi_vi(desk, theirs, task=None)) == 1
    assert set(desk.votes(item, "cv")) == {"Ann Lee", "Al Lund"}
    # The same initials and name, and another opinion.
    other.decide("ann lee", draft(item, "NO"))
    theirs = next(f for f in write_desi_vi(other, tmp_path / "b") if "Al" not in f.read_text(encoding="utf-8"))
    assert desk.take_in(read_desi_vi(desk, theirs, task=None)) == 1
    assert desk.votes(item, "cv")["Ann Lee"].verdict == "NO"
    other.store.close()


def test_a_file_without_times_is_new_only_where_it_says_something_else(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "vi.csv").write_text(PROSPECT, encoding="utf-8")
    desk.decide("EJ", draft(desk.listing.items[0], "YES", quality=4, comment="broad Ha"))
    desk.decide("EJ", draft(desk.listing.items[1], "NO", quality=2))
    assert desk.take_in(read_desi_vi(desk, tmp_path / "vi.csv", task="cv")) == 2
    assert desk.take_in(read_desi_vi(desk, tmp_path / "vi.csv", task="cv")) == 0


def test_people_whose_names_look_alike_have_a_file_each(desk: Desk, tmp_path: Path) -> None:
    names = ("Ann 王", "Ann 李", "AL", "Ann Lee", "Ann-Lee")
    for name in names:
        desk.decide(name, draft(desk.listing.items[0]))
    files = write_desi_vi(desk, tmp_path / "vi")
    assert len({file.name.casefold() for file in files}) == len(names)
    assert sorted(read_desi_vi(desk, file, task="cv")[0].reviewer for file in files) == sorted(names)


@pytest.mark.parametrize(("target", "quality"), [("39627000000000000", "inf"), ("39627000000000000", "nan"), ("", "4")])
def test_a_row_without_a_quality_or_a_target_is_left_out(desk: Desk, tmp_path: Path, target: str, quality: str) -> None:
    (tmp_path / "vi.csv").write_text(f"TARGETID,VI_scanner,VI_quality\n{target},Bo,{quality}\n", encoding="utf-8")
    desk.listing.ids[1] = ""
    told: list[str] = []
    assert read_desi_vi(desk, tmp_path / "vi.csv", task="cv", tell=told.append) == []
    assert "left out 1 rows" in told[0]


def test_a_file_of_prospect_itself_is_read_by_targetid_and_spectype(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "desi-vi_x_EJ.csv").write_text(PROSPECT, encoding="utf-8")
    told: list[str] = []
    events = read_desi_vi(desk, tmp_path / "desi-vi_x_EJ.csv", task="cv", tell=told.append)
    assert [(e.reviewer, e.verdict, e.quality, e.issues, e.z, e.likelier) for e in events] == [
        ("EJ", "YES", 4, "", None, None), ("EJ", "NO", 3, "RC", 2.1034, "QSO"), ("EJ", "UNSURE", None, "S", None, None),
    ]  # fmt: skip
    assert events[1].comment == "NA"
    assert told == [
        f"{tmp_path}/desi-vi_x_EJ.csv: left out 1 rows: line 5: TARGETID 39627999999999999 is no spectrum here"
    ]


def test_a_file_of_prospect_itself_does_not_say_its_task(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "vi.csv").write_text(PROSPECT, encoding="utf-8")
    with pytest.raises(DesiViError, match="line 2 says no task; name it with --task"):
        read_desi_vi(desk, tmp_path / "vi.csv", task=None)


def test_fits_holds_the_same_in_ascii(desk: Desk, tmp_path: Path) -> None:
    from astropy.table import Table

    desk.decide("Ann", draft(desk.listing.items[0], "YES", comment="Hα 双"))
    (file,) = write_desi_vi(desk, tmp_path / "vi", fits=True)
    table = Table.read(file)
    assert table["VI_comment"][0] == "Halpha \\u53cc"
    assert table["TARGETID"][0] == "39627000000000000"
    assert ascii_text("λ ≥ 5 Å") == "lambda >= 5 A"


@pytest.mark.parametrize(("content", "says"), [(b"a,b\n1,2\n", "no column TARGETID"), (b"\xff\xfe\x00", "UTF-8")])
def test_a_file_that_is_none_is_said_with_what_to_do(desk: Desk, tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "vi.csv").write_bytes(content)
    with pytest.raises(DesiViError, match=says):
        read_desi_vi(desk, tmp_path / "vi.csv", task="cv")
