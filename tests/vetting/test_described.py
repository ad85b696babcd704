"""What a decision says of its observation: when, in which release and reduction, under which ids; Gaia ids of lists."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from specvet.catalogue.sightings import sighting_of
from specvet.records import Decision, RunFolder
from specvet.records.schema import Answer, Verdict
from specvet.spectra import choose_frame, read
from specvet.vetting.inputs import expand_inputs
from specvet.vetting.items import Item
from specvet.vetting.rows import description, error_row

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"


@pytest.mark.parametrize(
    ("name", "row", "mjd", "release", "reduction", "ids", "n_exposures"),
    [
        ("lamost/dr1/spec-55862-B6212_sp06-003.fits", 0, 55863.0, "", "v2.6.4", {"planid": "B6212", "fiberid": "3"}, 0),
        ("lamost/dr9/spec-55859-F5902_sp01-001.fits.gz", 0, 55858.0, "DR9", "v2.9.8", {"obsid": "101001"}, 0),
        (
            "lamost/mrs_dr7/med-58625-TD192102N424113K01_sp12-076.fits.gz",
            0,
            58624.0,
            "DR7",
            "",
            {"obsid": "744812076"},
            6,
        ),
        ("sdss/spec/spec-0266-51602-0013.fits", 0, 51602.0, "", "26", {"plate": "266", "fiberid": "13"}, 0),
        ("desi/coadd-4-80613-thru20210324.fits", 0, 59220.9211, "DR1", "iron", {"targetid": "39633345008634465"}, 0),
        ("desi/coadd-sv3-dark-26065.fits", 0, 59311.3464, "EDR", "fuji", {"healpix": "26065"}, 0),
        ("mastar/mastar_example_spectral_types.fits", 0, 58467.0, "", "v1_7_7", {"plate": "11607"}, 0),
        ("sdss/wd_ascii/1237656495115010166.spec", 0, None, "", "", {"pmj": "0752-52251-0221"}, 0),
    ],
)
def test_each_survey_says_when_and_in_which_release_it_was_observed(
    name, row, mjd, release, reduction, ids, n_exposures
):
    if not SHARED.is_dir():
        pytest.skip(f"the real spectra are not there: {SHARED}")
    spectrum = read(SHARED / name)[row]
    told = description(Item(name), spectrum, choose_frame(spectrum))
    assert told["mjd"] == (None if mjd is None else pytest.approx(mjd, abs=1e-3))
    assert (told["release"], told["reduction"], told["n_exposures"]) == (release, reduction, n_exposures)
    assert ids.items() <= told["ids"].items()


def test_a_run_written_before_reads_as_before(tmp_path: Path) -> None:
    verdict = Verdict(answer=Answer.NO, reason="no")
    with RunFolder.open(tmp_path / "RUN", kind="vet", config={}) as run:
        run.record(Decision(file="a.fits", row=0, task="cv", id="a", verdict=verdict))
    with sqlite3.connect(tmp_path / "RUN" / "run.db") as db:
        (rest,) = db.execute("SELECT rest FROM decisions").fetchone()
    assert json.loads(rest) == {"verdict": {"answer": "NO", "reason": "no"}}
    (kept,) = RunFolder.read(tmp_path / "RUN").decisions()
    assert (kept.mjd, kept.ids, kept.release, kept.reduction, kept.n_exposures) == (None, {}, "", "", 0)


def test_what_an_observation_says_is_kept_digit_for_digit(tmp_path: Path) -> None:
    ids = {"targetid": "39633345008634465", "name": "Hα 7"}
    verdict = Verdict(answer=Answer.NO, reason="no")
    made = Decision(
        file="a",
        row=0,
        task="cv",
        id="a",
        verdict=verdict,
        mjd=59220.921145047665,
        ids=ids,
        release="DR1",
        n_exposures=6,
    )
    with RunFolder.open(tmp_path / "RUN", kind="vet", config={}) as run:
        run.record(made)
    assert list(RunFolder.read(tmp_path / "RUN").decisions()) == [made]


def test_the_first_decision_about_each_row_is_read_once(tmp_path: Path) -> None:
    verdict = Verdict(answer=Answer.NO, reason="no")
    made = [
        Decision(file=file, row=row, task=task, id=f"{file}{row}", verdict=verdict, ra=1.5 + row, ids={"plate": "266"})
        for task in ("cv", "wd")
        for file in ("b.fits", "a.fits")
        for row in (1, 0)
    ]
    with RunFolder.open(tmp_path / "RUN", kind="vet", config={}) as run:
        run.record_many(made)
        assert list(run.first_decisions()) == made[:4]


GAIA = "4472832130942575872"


@pytest.mark.parametrize("column", ["gaia_dr3", "GAIA_SOURCE_ID", "dr3_source_id", "source_id", "gaia_id"])
@pytest.mark.parametrize("value", [GAIA, f"Gaia DR3 {GAIA}"])
def test_a_list_gives_the_gaia_id_of_each_spectrum(tmp_path: Path, column: str, value: str) -> None:
    (tmp_path / "a.txt").write_text("4000 1\n4001 1\n")
    (tmp_path / "list.csv").write_text(f"path,{column}\na.txt,{value}\na.txt,\n")
    first, second = expand_inputs([str(tmp_path / "list.csv")])
    assert (first.gaia, second.gaia) == (GAIA, "")
    assert sighting_of(error_row(first, 0, "gone")).gaia_id == GAIA


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("gaia_dr3", "4.472832130942576e+18", True),
        ("gaia_dr3", "Gaia DR2 4472832130942575872", True),
        ("gaia_dr3", "17", True),
        ("source_id", "17", False),  # anybody's numbering
        ("gaia_dr3", "nan", False),
    ],
)
def test_what_is_no_gaia_id_is_left_out(tmp_path: Path, column: str, value: str, told: bool) -> None:
    (tmp_path / "a.txt").write_text("4000 1\n4001 1\n")
    (tmp_path / "list.csv").write_text(f"path,{column}\na.txt,{value}\n")
    items = expand_inputs([str(tmp_path / "list.csv")])
    assert [item.gaia for item in items] == [""]
    assert any("no Gaia DR3 source id" in notice for notice in items.notices) is told
