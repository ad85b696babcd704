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
DESI = "coadd-SIMULATED-dark-99999.fits"
REDROCK = "redrock-SIMULATED-dark-99999.fits"
MISNAMED = "spec-9001-58000-0101-SIMULATED.fits"
DC = "spec-9001-58000-0202-SIMULATED.fits"

LAYOUTS = {
    "spec-56200-SIMULATED01_sp01-001.fits": ("lamost-lrs-image", "LAMOST", 3904),
    "spec-57300-SIMULATED02_sp05-042.fits.gz": ("lamost-lrs-image", "LAMOST", 3908),
    "spec-57301-SIMULATED02_sp09-111.fits.gz": ("lamost-lrs-image", "LAMOST", 3908),
    "spec-58800-SIMULATED03_sp03-007.fits.gz": ("lamost-lrs-table", "LAMOST", 3908),
    "spec-58801-SIMULATED03_sp12-180.fits.gz": ("lamost-lrs-table", "LAMOST", 3908),
    MISNAMED: ("sdss-spec", "SDSS", 3846),
    DC: ("sdss-spec", "SDSS", 3846),
    DESI: ("desi-coadd", "DESI", 7781),
    "SIMULATED-dwarf-nova.txt": ("text", "unknown", 2100),
}

# Where `line-indices` does not give the truth, and why. Answers here go to a person: none is a wrong YES or NO.
UNDECIDED = {
    (
        DC,
        0,
        "gm",
    ): "a smooth blue continuum has CaH2 + CaH3 over the dwarf-giant line, and the SDSS join weakens TiO 6158"
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
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) < 1.25e6


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_reads_in_its_survey_s_layout_with_the_simulated_warning(name: str) -> None:
    layout, survey, n_pix = LAYOUTS[name]
    for s in read(SPECTRA / name):
        assert (s.layout, s.survey, s.n_pix, s.medium) == (layout, survey, n_pix, "vacuum")
        assert s.warnings.count("SIMULATED spectrum") == 1
    expected = {
        "spec-56200-SIMULATED01_sp01-001.fits": "no wavelength row",
        "SIMULATED-dwarf-nova.txt": "no error array",
    }
    others = [w for w in read(SPECTRA / name)[0].warnings if w != "SIMULATED spectrum"]
    assert len(others) == (1 if name in expected else 0)
    assert all(w.startswith(expected[name]) for w in others)


def test_every_file_says_simulated_in_name_and_header() -> None:
    for path in SPECTRA.iterdir():
        assert "SIMULATED" in path.name
        if path.suffix == ".txt":
            assert path.read_text(encoding="utf-8").startswith("# SIMULATED ")
            continue
        header = fits.getheader(path, 0)
        assert header["SIMULATE"] is True
        assert header["OBJECT"].startswith("SIMULATED")
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
    quasar, sky, dwarf, white_dwarf = read(SPECTRA / DESI)
    assert (quasar.pipeline_class, quasar.redshift.value, quasar.redshift.source) == ("QSO", 1.42, "redrock Z")
    assert sky.id.startswith("-")
    assert any(w.startswith("not a target") for w in sky.warnings)
    assert [s.pipeline_subclass for s in (dwarf, white_dwarf)] == ["M", "WD"]


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
        allowed = {truth[task]} | ({"UNSURE"} if (Path(file).name, row, task) in UNDECIDED else set())
        assert verdict.answer.value in allowed, f"{task}: {verdict.answer} ({verdict.reason})"
        if verdict.answer is Answer.YES:
            assert verdict.evidence


def test_a_variable_that_the_pipeline_calls_a_quasar_is_found_in_the_observed_frame() -> None:
    s = read(SPECTRA / MISNAMED)[0]
    assert (s.pipeline_class, round(s.redshift.value or 0, 3), s.redshift.warning) == ("QSO", 2.139, "")
    record = vetted(f"spectra/{MISNAMED}", 0, "cv")
    assert record.verdict.answer is Answer.YES
    frames = {t.observation.frame for t in record.turns if t.observation}
    assert len(frames) == 1
    assert all(frame.startswith("observed frame (z = 2.139") for frame in frames)


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
