"""The simulated examples: read as what they imitate, marked, reproducible, and vetted with the right answers."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from specvet.agent import run_agent
from specvet.policies import policy
from specvet.records.schema import Answer, Question, SpectrumRef, TrajectoryRecord
from specvet.spectra import Spectrum, read
from specvet.tasks import builtin_tasks
from specvet.tools import ZoomTool

EXAMPLES = Path(__file__).parents[2] / "examples"
SPECTRA = EXAMPLES / "spectra"
TASKS = ("cv", "cc", "ss", "gm", "wd")
DESI = "coadd-SIMULATED-0-9000000.fits"
REDROCK = "redrock-SIMULATED-0-9000000.fits"
MISNAMED = "spec-SIMULATED-9000007-58342-0713.fits"
DC = "spec-SIMULATED-9000006-52486-0609.fits"

LAYOUTS = {
    "spec-55913-SIMULATED000000_sp01-103.fits.gz": ("lamost-lrs-table", "LAMOST", 3909),
    "spec-59060-SIMULATED000001_sp02-106.fits.gz": ("lamost-lrs-table", "LAMOST", 3909),
    "spec-57732-SIMULATED000002_sp03-209.fits.gz": ("lamost-lrs-table", "LAMOST", 3909),
    "spec-56609-SIMULATED000003_sp04-097.fits.gz": ("lamost-lrs-image", "LAMOST", 3909),
    "spec-59301-SIMULATED000004_sp05-129.fits.gz": ("lamost-lrs-image", "LAMOST", 3909),
    "spec-SIMULATED-9000005-53257-0564.fits": ("sdss-spec", "SDSS", 3840),
    DC: ("sdss-spec", "SDSS", 3840),
    MISNAMED: ("sdss-spec", "SDSS", 4607),
    "spec-SIMULATED-9000008-57372-0429.fits": ("sdss-spec", "SDSS", 4607),
    DESI: ("desi-coadd", "DESI", 7781),
    "SIMULATED-dwarf-nova.txt": ("text", "unknown", 1920),
}


def rows(name: str) -> list[dict[str, str]]:
    with open(EXAMPLES / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


TRUTH = rows("truth.csv")


def spectrum(file: str, row: int) -> Spectrum:
    return read(EXAMPLES / file)[row]


def vetted(file: str, row: int, task: str) -> TrajectoryRecord:
    question = Question(id=f"{file}:{row}", task=task, spectrum=SpectrumRef(path=file, row=row))
    return run_agent(question, builtin_tasks()[task], ZoomTool(spectrum(file, row)), policy("line-indices"))


def test_every_file_is_known_and_all_are_small() -> None:
    assert {path.name for path in SPECTRA.iterdir()} == {*LAYOUTS, REDROCK}
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) < 1.5e6


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_reads_in_its_survey_s_layout_with_the_simulated_warning(name: str) -> None:
    layout, survey, n_pix = LAYOUTS[name]
    for s in read(SPECTRA / name):
        assert (s.layout, s.survey, s.n_pix, s.medium) == (layout, survey, n_pix, "vacuum")
        assert s.warnings.count("SIMULATED spectrum") == 1
        others = [w for w in s.warnings if w != "SIMULATED spectrum"]
        assert [w.partition(":")[0].partition(";")[0] for w in others] == (
            ["no error array"] if layout == "text" else []
        )


def test_every_file_says_simulated_in_name_and_header() -> None:
    for path in SPECTRA.iterdir():
        assert "SIMULATED" in path.name
        if path.suffix == ".txt":
            assert path.read_text(encoding="utf-8").startswith("# SIMULATED ")
            continue
        header = fits.getheader(path, 0)
        assert header["SIMULATE"] is True
        assert any("SIMULATED" in str(line) for line in header["COMMENT"])


def test_the_mark_must_be_true_to_warn(tmp_path: Path) -> None:
    with fits.open(SPECTRA / MISNAMED) as hdus:
        hdus[0].header["SIMULATE"] = False
        hdus.writeto(tmp_path / "a.fits")
        assert read(hdus)[0].warnings == ()
        hdus[0].header["SIMULATE"] = True
        assert read(hdus)[0].warnings == ("SIMULATED spectrum",)
    assert read(tmp_path / "a.fits")[0].warnings == ()
    (tmp_path / "b.txt").write_text("# not SIMULATED\n" + "\n".join(f"{5000 + i} {i % 7}.5" for i in range(50)))
    assert "SIMULATED spectrum" not in read(tmp_path / "b.txt")[0].warnings


def test_redrock_beside_the_coadd_gives_classes_and_redshifts() -> None:
    quasar, dwarf, white_dwarf, noise = read(SPECTRA / DESI)
    assert (quasar.pipeline_class, quasar.redshift.source) == ("QSO", "redrock Z")
    assert quasar.redshift.value == pytest.approx(1.967283, abs=1e-5)
    assert [s.pipeline_subclass for s in (dwarf, white_dwarf)] == ["M", "A"]
    assert np.median(noise.flux * np.sqrt(noise.ivar)) < 1.0


def test_every_class_has_a_member_and_every_survey_a_stranger() -> None:
    assert all(any(r[task] == "YES" for r in TRUTH) for task in TASKS)
    strangers = {Path(r["file"]).name for r in TRUTH if {r[task] for task in TASKS} == {"NO"}}
    assert {LAYOUTS[name][1] for name in strangers} == {"LAMOST", "SDSS", "DESI"}


def test_list_and_truth_name_every_spectrum_once() -> None:
    known = [(f"spectra/{name}", s.row) for name in LAYOUTS for s in read(SPECTRA / name)]
    for table, column in (("list.csv", "path"), ("truth.csv", "file")):
        assert sorted((r[column], int(r["row"])) for r in rows(table)) == sorted(known)
        assert {r["note"] for r in rows(table)} == {"SIMULATED"}
    for r in rows("list.csv"):
        s = spectrum(r["path"], int(r["row"]))
        assert s.ra == pytest.approx(float(r["ra"]))
        assert s.dec == pytest.approx(float(r["dec"]))


@pytest.mark.parametrize("truth", TRUTH, ids=lambda r: f"{Path(r['file']).name}:{r['row']}")
def test_line_indices_gives_the_truth(truth: dict[str, str]) -> None:
    file, row = truth["file"], int(truth["row"])
    for task in TASKS:
        verdict = vetted(file, row, task).verdict
        assert verdict.answer.value == truth[task], f"{task}: {verdict.answer} ({verdict.reason})"
        if verdict.answer is Answer.YES:
            assert verdict.evidence


def test_a_variable_that_the_pipeline_calls_a_quasar_is_found_in_the_observed_frame() -> None:
    s = read(SPECTRA / MISNAMED)[0]
    assert (s.pipeline_class, round(s.redshift.value or 0, 3), s.redshift.warning) == ("QSO", 2.933, "")
    record = vetted(f"spectra/{MISNAMED}", 0, "cv")
    assert record.verdict.answer is Answer.YES
    frames = {t.observation.frame for t in record.turns if t.observation}
    assert len(frames) == 1
    assert all(frame.startswith("observed frame (z = 2.933") for frame in frames)


def test_a_second_run_of_the_script_gives_the_same_files(tmp_path: Path) -> None:
    script = [sys.executable, "-W", "error", str(EXAMPLES / "simulate.py"), "--out", str(tmp_path)]
    subprocess.run(script, check=True, capture_output=True)
    for name in ("list.csv", "truth.csv"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / name).read_bytes()
    assert {p.name for p in (tmp_path / "spectra").iterdir()} == {p.name for p in SPECTRA.iterdir()}
    for name in LAYOUTS:
        for old, new in zip(read(SPECTRA / name), read(tmp_path / "spectra" / name), strict=True):
            np.testing.assert_allclose(new.wavelength, old.wavelength, rtol=1e-9)
            np.testing.assert_allclose(new.flux, old.flux, rtol=1e-4, atol=1e-4 * np.nanmedian(np.abs(old.flux)))
            if old.ivar is not None and new.ivar is not None:
                np.testing.assert_allclose(new.ivar, old.ivar, rtol=1e-4)
        if not name.endswith(".txt"):
            with fits.open(SPECTRA / name) as old_hdus, fits.open(tmp_path / "spectra" / name) as new_hdus:
                assert [h.header.tostring() for h in new_hdus] == [h.header.tostring() for h in old_hdus]
