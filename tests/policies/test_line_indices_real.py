"""`line-indices` on real stars of known class. Expected answers are those of ../shared/spectra/labels.csv."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from policy_lab import vetted

import specvet
from specvet.policies import policy
from specvet.records.schema import Answer, Verdict
from specvet.spectra import Redshift, Spectrum
from specvet.tasks import builtin_tasks
from specvet.tools import ZoomTool, shift

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}"),
]

SDSS_CV, MILES = "sdss/cv_ascii/spec-{}-catB.dat", "templates/miles/MILES_res2.50_star_{}V.fits"
OKE, HST = "standards/esookestan/f{}.dat", "standards/esohststan/f{}.dat"

YES = {
    "cv": [SDSS_CV.format(x) for x in ("0335-52000-0085", "0564-52224-0197", "1409-52824-0339", "2334-53713-0581")]
    + ["other/ugem/txhugem4004"],
    "gm": [MILES.format("m0271"), MILES.format("m0674"), "templates/pickles/m5iii.dat",
           "templates/stelib/STELIB_v3.2_HD148783.fits"],
    "ss": [MILES.format("m0053"), MILES.format("m0177")],
    "wd": [OKE.format("hz4"), HST.format("hz2"), HST.format("lb227"), "sdss/spec/spec-0266-51602-0031.fits"],
}  # fmt: skip

NO = {
    # M dwarfs are no giants, and giants no S stars; a white dwarf is no CV, nor is a galaxy with emission lines.
    "gm": ["templates/pickles/m2v.dat", "templates/pickles/m5v.dat", MILES.format("m0690"), MILES.format("m0183"),
           "other/kast/kastRED_G233-42_20210925.txt", OKE.format("hz4")],
    "ss": ["templates/pickles/m5iii.dat", MILES.format("m0674"), OKE.format("hz4")],
    "cc": [MILES.format("m0674"), "templates/pickles/m2v.dat", OKE.format("hz4"), SDSS_CV.format("1409-52824-0339")],
    "cv": [OKE.format("hz4"), OKE.format("feige34"), "templates/pickles/m5v.dat", MILES.format("m0890"),
           "desi/coadd-4-80613-thru20210324.fits", "sdss/spec/spec-0332-52367-0639.fits"],
    # Hot subdwarfs, above all Feige 34 and Feige 67, which older lists call DA.
    "wd": [OKE.format(x) for x in ("feige34", "feige67", "bd28d4211", "gd108", "hd93521")]
    + [HST.format("agk81d266"), "templates/pickles/m2v.dat", SDSS_CV.format("1409-52824-0339")],
}  # fmt: skip


def first(path: str | Path) -> Spectrum:
    return specvet.read(SHARED / path)[0]


def verdict(task: str, s: Spectrum) -> Verdict:
    return vetted(builtin_tasks()[task], s).verdict


@pytest.mark.parametrize(("task", "path"), [(t, p) for t, paths in YES.items() for p in paths])
def test_well_known_stars_are_found(task: str, path: str) -> None:
    v = verdict(task, first(path))
    assert v.answer is Answer.YES, v.reason
    assert v.evidence
    assert v.likelier_class is None


@pytest.mark.parametrize(("task", "path"), [(t, p) for t, paths in NO.items() for p in paths])
def test_clear_confusers_are_not(task: str, path: str) -> None:
    v = verdict(task, first(path))
    assert v.answer is Answer.NO, v.reason
    assert v.likelier_class != builtin_tasks()[task].name


@pytest.mark.parametrize(
    ("file", "task", "names"),
    [
        ("53054", "cc", {"Carbon", "Carbon_lines"}),
        ("53054", "wd", {"CarbonWD", "WD", "WDmagnetic"}),
        ("55734", "cc", {"Carbon"}),
        ("55734", "wd", {"CalciumWD", "WDcooler", "WDhotter", "WDmagnetic"}),
    ],
)
def test_of_the_mean_stars_of_sdss_only_those_of_the_class_are_found(file: str, task: str, names: set[str]) -> None:
    stars = specvet.read(SHARED / f"templates/sdss_idlspec2d/spEigenStar-{file}.fits")
    assert {s.id for s in stars if verdict(task, s).answer is Answer.YES} == names


def test_the_expected_answers_are_those_of_the_labels() -> None:
    with (SHARED / "labels.csv").open(newline="", encoding="utf-8") as stream:
        labels = {row["path"]: row for row in csv.DictReader(stream)}
    for answer, table in (("YES", YES), ("NO", NO)):
        assert {labels[p][t] for t, paths in table.items() for p in paths} == {answer}


@pytest.mark.parametrize(
    ("task", "path", "name"),
    [
        ("gm", "templates/pickles/m2v.dat", "M dwarf"),
        ("gm", MILES.format("m0690"), "M dwarf"),
        ("ss", MILES.format("m0674"), "M giant"),
        ("cv", OKE.format("hz4"), "white dwarf"),
        ("wd", OKE.format("feige34"), "hot subdwarf or O star"),
        ("gm", SDSS_CV.format("1409-52824-0339"), "cataclysmic variable"),
    ],
)
def test_a_no_names_what_the_star_is(task: str, path: str, name: str) -> None:
    v = verdict(task, first(path))
    assert (v.answer, v.likelier_class) == (Answer.NO, name)
    assert f"Likelier: {name}" in v.reason


def test_a_featureless_continuum_is_undecided_and_a_parallax_is_asked_for() -> None:
    v = verdict("wd", first(OKE.format("g193_74")))  # G 193-74, a DC
    assert v.answer is Answer.UNSURE
    assert "parallax" in v.reason


@pytest.mark.parametrize(
    ("task", "path"),
    [("cv", SDSS_CV.format("1409-52824-0339")), ("wd", OKE.format("hz4")), ("gm", "templates/pickles/m2v.dat")],
)
def test_the_files_name_and_place_do_not_matter(task: str, path: str, tmp_path: Path) -> None:
    moved = tmp_path / "carbon star" / "QSO_NO_12.txt"
    moved.parent.mkdir()
    shutil.copy(SHARED / path, moved)
    assert verdict(task, specvet.read(moved)[0]) == verdict(task, first(path))


def test_the_pipelines_class_does_not_matter_where_the_frame_stays() -> None:
    path = next((SHARED / "lamost" / "dr8").glob("*.fits.gz"))
    s = first(path)
    assert s.redshift.value is not None
    still = s.replace(redshift=Redshift())
    for task in builtin_tasks():
        answers = {
            verdict(task, still.replace(pipeline_class=name, pipeline_subclass=sub)).model_dump_json()
            for name, sub in (("STAR", "F0"), ("QSO", "BROADLINE"), ("WD", "DA"), ("", "CV"), ("GALAXY", "Carbon"))
        }
        assert len(answers) == 1


def test_a_cataclysmic_variable_called_a_quasar_is_found() -> None:
    s = first(SDSS_CV.format("1409-52824-0339"))
    called = s.replace(pipeline_class="QSO", redshift=Redshift(2.1, source="header Z"))
    assert verdict("cv", called) == verdict("cv", s)
    published = vetted(builtin_tasks()["cv"], called, "published")
    assert published.verdict.answer is not Answer.YES  # lines divided by 3.1: what the published tool would show


def test_the_same_star_in_another_medium_and_grid_gets_the_same_answer() -> None:
    import numpy as np

    from specvet.spectra.lines import air_to_vacuum

    for task, path in (
        ("wd", OKE.format("hz4")),
        ("gm", "templates/pickles/m5iii.dat"),
        ("cv", SDSS_CV.format("1409-52824-0339")),
    ):
        s = first(path)
        if s.medium == "air":
            s = s.replace(wavelength=np.asarray(air_to_vacuum(s.wavelength)), medium="vacuum")
        grid = 10 ** np.arange(np.log10(s.wave_min), np.log10(s.wave_max), 1e-4)
        bare = Spectrum(grid, np.interp(grid, s.wavelength[s.good], s.flux[s.good]), medium="vacuum")
        assert verdict(task, bare).answer is Answer.YES


def test_checks_pass_and_the_tools_data_are_what_is_measured() -> None:
    for task in builtin_tasks().values():
        policy("line-indices").check(task)
    s = first(next((SHARED / "lamost" / "dr8").glob("*.fits.gz")))
    tool = ZoomTool(s)
    seen = tool({"wavelength_range": [6400, 6700]})
    assert seen.data is not None
    shifted = shift(s, tool.frame)
    inside = (shifted.wavelength >= 6400) & (shifted.wavelength <= 6700)
    assert seen.data.spectrum.flux.tolist() == shifted.flux[inside].tolist()
