"""Labelled real spectra as questions: where a label goes, what is left out, and that containers tell nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from specvet.data.asking import load_questions
from specvet.data.questions import read_questions
from specvet.data.realvi import COVERAGE, harmonised, make_realvi, read_labels
from specvet.data.simulate.templates_manifest import Fold
from specvet.spectra import Spectrum, read
from specvet.spectra.lines import air_to_vacuum, vacuum_to_air

SHARED = Path(__file__).parents[2].parent / "shared" / "spectra"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two epochs of one star, a model, a borderline case, a file of two rows, and what cannot be read."""
    folder = tmp_path / "real"
    (folder / "sub").mkdir(parents=True)
    w = np.linspace(3700.0, 9000.0, 3000)
    rng = np.random.default_rng(0)
    for name in ("sub/a1.txt", "sub/a2.txt", "model.txt", "ms.txt"):
        np.savetxt(folder / name, np.column_stack([w, 100.0 + rng.normal(0, 3, w.size)]))
    np.savez(folder / "two.npz", wavelength=w, flux=np.ones((2, w.size)), ivar=np.ones((2, w.size)))
    (folder / "notes.txt").write_text("these are words")
    (folder / "manifest.csv").write_text(
        "path,class_label,object_id,label_source,medium\n"
        "sub/a1.txt,CV,star b / epoch 1,catalogue,vacuum\n"
        "sub/a2.txt,CV,star b / epoch 2,catalogue,vacuum\n"
        "model.txt,WD model (DA),,,air\n"
        "ms.txt,MS star,star c,atlas,air\n"
        "two.npz,mixed,,,\n"
        "notes.txt,list,,,\n",
        encoding="utf-8",
    )
    (folder / "labels.csv").write_text(
        "path,class_label,cv,ss,wd\n"
        "sub/a1.txt,CV,YES,NO,NO\n"
        "sub/a2.txt,CV,YES,,NO\n"
        "model.txt,WD model (DA),,,MODEL\n"
        "ms.txt,MS star,NO,BORDERLINE,\n"
        "two.npz,mixed,NO,NO,NO\n"
        "notes.txt,list,NO,,\n",
        encoding="utf-8",
    )
    return folder


def test_each_label_goes_to_its_file_with_all_that_a_report_needs(source: Path, tmp_path: Path) -> None:
    made = make_realvi(source, tmp_path / "out")
    asked = [a.question for a in read_questions(str(tmp_path / "out" / "realvi.jsonl"))]
    assert [(q.task, q.name, q.answer) for q in asked] == [
        ("cv", "sub/a1.txt", "YES"),
        ("ss", "sub/a1.txt", "NO"),
        ("wd", "sub/a1.txt", "NO"),
        ("cv", "sub/a2.txt", "YES"),
        ("wd", "sub/a2.txt", "NO"),
        ("cv", "ms.txt", "NO"),
    ]
    assert {q.object_id for q in asked[:5]} == {"star b"}
    assert {q.split for q in asked[:5]} == {"held-out"}
    assert asked[5].split == "seed"
    assert asked[0].label_source == "labels.csv: YES; catalogue"
    (borderline,) = read_questions(str(tmp_path / "out" / "realvi_borderline.jsonl"))
    assert (borderline.question.name, borderline.question.answer) == ("ms.txt", None)
    (model,) = read_questions(str(tmp_path / "out" / "realvi_model.jsonl"))
    assert (model.question.answer, model.question.label_source) == ("YES", "labels.csv: MODEL")
    assert made.counts["cv", "text without errors", "held-out", "YES"] == 2
    assert made.counts.total() == 8


def test_files_of_several_spectra_and_unreadable_ones_are_left_out_and_told(source: Path, tmp_path: Path) -> None:
    made = make_realvi(source, tmp_path / "out")
    assert made.left_out["two.npz"] == "holds 2 spectra, and the label is of the file"
    assert "not a spectrum" in made.left_out["notes.txt"]
    stats = json.loads((tmp_path / "out" / "realvi_stats.json").read_text(encoding="utf-8"))
    assert stats["left_out"] == made.left_out
    assert stats["tasks"]["ss"]["seed"]["text without errors"] == {"BORDERLINE": 1}


@pytest.mark.parametrize("how", ["copied", "harmonised"])
def test_a_set_with_its_spectra_can_be_moved(source: Path, tmp_path: Path, how: str) -> None:
    make_realvi(source, tmp_path / "out", how)  # type: ignore[arg-type]
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    shutil.rmtree(source)
    questions = load_questions(str(tmp_path / "elsewhere" / "realvi.jsonl"), style="compact")
    assert (len(questions.asked), questions.rejects) == (6, [])


def test_a_set_that_refers_to_its_spectra_finds_them_and_is_made_once(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    make_realvi(source, out)
    assert load_questions(str(out / "realvi.jsonl"), style="compact").rejects == []
    before = (out / "realvi.jsonl").stat().st_mtime_ns
    assert make_realvi(source, out).counts.total() == 8
    assert (out / "realvi.jsonl").stat().st_mtime_ns == before
    with pytest.raises(FileExistsError, match="holds something else"):
        make_realvi(source, out, "copied")


def test_harmonised_spectra_differ_in_flux_alone(source: Path, tmp_path: Path) -> None:
    make_realvi(source, tmp_path / "out", "harmonised")
    files = sorted((tmp_path / "out" / "spectra").iterdir())
    assert len(files) == 4
    found = [read(str(file))[0] for file in files]
    for s in found:
        assert (s.medium, s.ivar, s.redshift.value, s.flux_unit) == ("vacuum", None, None, "")
        np.testing.assert_array_equal(s.wavelength, found[0].wavelength)
        assert np.median(s.flux) == pytest.approx(1.0)
    assert found[0].wave_min == pytest.approx(COVERAGE[0], abs=1)
    assert found[0].wave_max == pytest.approx(COVERAGE[1], abs=3)
    assert not any(name in file.name for file in files for name in ("model", "ms", "a1"))


def test_harmonising_moves_air_to_vacuum_averages_fine_pixels_and_bridges_gaps() -> None:
    rng = np.random.default_rng(1)
    w = np.arange(3800.0, 7500.0, 0.1)
    line = 1 - 0.5 * np.exp(-0.5 * ((w - 6562.8) / 3) ** 2)
    fine = Spectrum(w, line + rng.normal(0, 0.1, w.size), medium="unknown")
    grid, flux = harmonised(fine, "air")
    near = np.abs(grid - 6564.6) < 6
    assert grid[near][np.argmin(flux[near])] == pytest.approx(float(air_to_vacuum(np.array([6562.8]))[0]), abs=1.6)
    assert np.std(flux[(grid > 5000) & (grid < 6000)]) < 0.04  # of 0.1: some 12 pixels each
    gap = Spectrum(w, np.where((w > 5650) & (w < 5950), 0.0, line), medium="vacuum")
    grid, flux = harmonised(gap)
    assert flux[(grid > 5650) & (grid < 5950)] == pytest.approx(1.0, abs=0.01)


def test_what_does_not_cover_the_common_range_is_not_harmonised() -> None:
    w = np.linspace(4100.0, 9000.0, 3000)
    assert harmonised(Spectrum(w, np.ones(w.size), medium="vacuum")) == "covers 91 % of 3850-7400 Å"
    w = np.linspace(6400.0, 6800.0, 3000)
    assert harmonised(Spectrum(w, np.ones(w.size), medium="vacuum")) == "covers 10 % of 3850-7400 Å"
    w = vacuum_to_air(np.linspace(3800.0, 7500.0, 900))
    assert harmonised(Spectrum(w, -np.ones(w.size), medium="air")) == "its median flux is not positive"


def test_labels_that_are_none_are_told_with_their_line(source: Path) -> None:
    labels = source / "labels.csv"
    labels.write_text(labels.read_text().replace("MODEL", "MAYBE"))
    with pytest.raises(ValueError, match=r"labels\.csv line 4: wd 'MAYBE' is none of YES, NO, BORDERLINE, MODEL"):
        read_labels(source)
    labels.write_text("path,novae\n")
    with pytest.raises(ValueError, match="needs a column path and at least one column named after a task"):
        read_labels(source)
    labels.unlink()
    with pytest.raises(ValueError, match=r"has no labels\.csv"):
        make_realvi(source, source.parent / "out")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the real spectra are not at {SHARED}")
def test_the_real_labels_are_all_asked_but_those_of_files_of_many(tmp_path: Path) -> None:
    made = make_realvi(SHARED, tmp_path / "out")
    by_label: dict[str, int] = {}
    for (_, _, _, label), n in made.counts.items():
        by_label[label] = by_label.get(label, 0) + n
    assert by_label == {"YES": 167, "NO": 1685, "BORDERLINE": 6, "MODEL": 15}
    assert made.left_out == {}
    objects: dict[str, set[str | None]] = {}
    for one in read_questions(str(tmp_path / "out" / "realvi.jsonl")):
        objects.setdefault(one.question.object_id or "", set()).add(one.question.split)
    assert all(len(splits) == 1 for splits in objects.values())


def test_what_labels_hold_beside_labels_is_told(source: Path, tmp_path: Path) -> None:
    (source / "labels.csv").write_text(
        "path,class_label,cv,wd,remark,who\n"
        "sub/a1.txt,CV,YES,,,\n"
        "sub/a1.txt,CV,YES,NO,,\n"
        "sub/typo.txt,CV,YES,,nice,li\n",
        encoding="utf-8",
    )
    made = make_realvi(source, tmp_path / "out")
    assert made.notes == [
        "labels.csv: 1 rows are about a file that has one before, such as sub/a1.txt",
        "labels.csv: columns without a meaning here: remark, who",
        "labels.csv: 1 labelled files do not stand in manifest.csv, such as sub/typo.txt",
    ]
    assert make_realvi(source, tmp_path / "out").notes == made.notes
    assert json.loads((tmp_path / "out" / "realvi_stats.json").read_text(encoding="utf-8"))["notes"] == made.notes
    assert made.counts.total() == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("path,cv\na,YES\na,NO\n", r"labels.csv line 3: a is NO for cv here and YES before"),
        ("path,class_label,cv\na,CV, bright,YES\n", r"labels.csv line 2: has more fields than there are columns"),
        ("path,cv,cv\na,YES,NO\n", r"labels.csv: has several columns called 'cv'"),
        ("path,cv\n,YES\n", r"labels.csv line 2: has labels and no path"),
    ],
)
def test_labels_that_can_be_read_in_two_ways_are_refused(source: Path, text: str, reason: str) -> None:
    (source / "labels.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=reason):
        read_labels(source)


def test_labels_in_another_encoding_are_refused_by_name(source: Path) -> None:
    (source / "labels.csv").write_text("path,cv\na,YES\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"labels\.csv: is not UTF-8 text; save it as CSV in UTF-8"):
        read_labels(source)


def test_a_fold_asks_about_its_own_objects_alone(source: Path, tmp_path: Path) -> None:
    asked = {}
    for k in (1, 2):
        make_realvi(source, tmp_path / f"f{k}", "harmonised", Fold(k, 2))
        questions = (tmp_path / f"f{k}" / "realvi.jsonl").read_text(encoding="utf-8").splitlines()
        asked[k] = {json.loads(line)["object_id"] for line in questions}
        assert all(json.loads(line)["split"] == "held-out" for line in questions)
        assert all(Fold(k, 2).holds(name) for name in asked[k])
    assert asked[1] | asked[2] == {"star b", "star c"}
    assert not asked[1] & asked[2]
    with pytest.raises(ValueError, match="keeps no object back"):
        make_realvi(source, tmp_path / "none", fold=Fold(0, 1))
