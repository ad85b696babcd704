"""Drawing a survey and writing it: the same whoever makes it and however often it is interrupted, and true."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from specvet import read
from specvet.data.asking import load_questions
from specvet.data.errors import InputError
from specvet.data.questions import read_questions
from specvet.data.simulate import observing
from specvet.data.simulate.kinds import KINDS, TASKS, make
from specvet.data.simulate.observed import SURVEYS, Observed
from specvet.data.simulate.source import GRID
from specvet.data.simulate.survey import draw, kind_weights
from specvet.data.simulate.survey_files import BLOCK, TRUTH, Survey, write_survey
from specvet.records import file_hash

N = BLOCK + 10
FEW = ("cv.nova_like", "cc.N", "gm.giant", "wd.DC", "wd.DQ", "m_dwarf", "k_giant", "g_star", "qso", "bl_lac")
"""Kinds that need no model atmospheres, which each process would compute for itself."""


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Two blocks of all surveys, made by this process alone."""
    return write_survey(tmp_path_factory.mktemp("survey") / "SIM", N, "all", 7, kinds=FEW, epochs=0.1)


def again(folder: Path, **changes: object) -> Survey:
    """The same survey in another folder."""
    return write_survey(folder, N, "all", 7, **({"kinds": FEW, "epochs": 0.1} | changes))  # type: ignore[arg-type]


def hashes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): file_hash(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def truth(folder: Path) -> list[dict[str, str]]:
    with open(folder / "truth.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def equal(one: Observed, other: Observed) -> bool:
    arms = zip(one.arms, other.arms, strict=True)
    pixels = all(np.array_equal(a.flux, b.flux) and np.array_equal(a.ivar, b.ivar) for a, b in arms)
    said = (one.name, one.mjd, one.ra, one.fibre, one.pipeline_z, one.defects, one.source.kind)
    return pixels and said == (other.name, other.mjd, other.ra, other.fibre, other.pipeline_z, other.defects, other.source.kind)  # fmt: skip  # noqa: E501


def test_an_object_depends_on_seed_and_number_alone() -> None:
    whole = list(draw(12, 3, "lamost", kinds=FEW, epochs=0.3))
    part = list(draw(4, 3, "lamost", kinds=FEW, epochs=0.3, start=5))
    same = [one for one in whole if 5 <= one.object_number < 9]
    assert len(part) == len(same) >= 4
    assert all(map(equal, part, same))
    (other,) = draw(1, 4, "lamost", kinds=FEW, epochs=0.0, start=5)
    assert not np.array_equal(other.source.flux, part[0].source.flux)


def test_surveys_see_the_same_objects() -> None:
    seen = [next(draw(1, 3, survey, kinds=FEW, start=5)) for survey in SURVEYS]
    assert [one.survey for one in seen] == list(SURVEYS)
    assert len({one.object_id for one in seen}) == 1
    assert all(np.array_equal(one.source.flux, seen[0].source.flux) for one in seen)


def test_all_takes_the_surveys_in_turn() -> None:
    assert [one.survey for one in draw(6, 0, "all", kinds=["g_star"], epochs=0.0, start=3)] == [
        "desi",
        *SURVEYS,
        "lamost",
    ]


def test_names_of_kinds_stand_for_all_that_begin_with_them() -> None:
    assert list(kind_weights()) == list(KINDS)
    assert list(kind_weights(["wd.DA", "cv"])) == [*(k for k in KINDS if k.startswith("cv.")), "wd.DA"]
    assert kind_weights(["m_dwarf", "k_giant"]) == {"m_dwarf.quiet": 12.0, "m_dwarf.active": 5.0, "k_giant": 8.0}
    weighed = kind_weights({"m_dwarf": 1.7, "k_giant": 3, "qso": 0})
    assert weighed == pytest.approx({"m_dwarf.quiet": 1.2, "m_dwarf.active": 0.5, "k_giant": 3.0})
    assert list(kind_weights({"k_giant": 1, "cc.N": 1})) == list(kind_weights({"cc.N": 1, "k_giant": 1}))
    assert kind_weights(["cv", "cv.helium"]) == kind_weights(["cv.helium", "cv"]) == kind_weights(["cv"])


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["cv", "w"], r"there is no kind 'w'; known are cv \(cv.quiescence, .*, k_giant, .*galaxy.emission\)"),
        ({"cv": -1.0}, "the weight of cv is -1.0"),
        ({"cv": float("nan")}, "the weight of cv is nan"),
        ({"cv": 0.0}, "no kind is asked for"),
        ([], "no kind is asked for"),
    ],
)
def test_kinds_that_there_are_not_are_named(kinds: dict[str, float] | list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind_weights(kinds)


def test_weights_are_shares() -> None:
    kinds = [one.source.kind for one in draw(80, 1, "sdss", kinds={"f_star": 3.0, "wd.DC": 1.0}, epochs=0.0)]
    assert set(kinds) == {"f_star", "wd.DC"}
    assert 50 <= kinds.count("f_star") <= 70  # 60 ± 3.9


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="there is no survey 'gaia'; known are lamost, sdss, boss, desi and all"):
        next(draw(1, 0, "gaia"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed = -1"):
        next(draw(1, -1, "lamost"))
    with pytest.raises(ValueError, match="S/N from 50 to 5"):
        next(draw(1, 0, "lamost", snr=(50.0, 5.0)))
    with pytest.raises(ValueError, match="epochs = 5 is a share"):
        next(draw(1, 0, "lamost", epochs=5))


def test_epochs_are_of_one_star_at_different_times() -> None:
    spectra = list(draw(6, 0, "lamost", kinds=["k_giant", "wd.DC"], epochs=1.0))
    for number in range(6):
        epochs = [one for one in spectra if one.object_number == number]
        assert 2 <= len(epochs) <= 4
        assert [one.epoch for one in epochs] == list(range(len(epochs)))
        nights = [one.mjd for one in epochs]
        assert nights == sorted(set(nights))
        assert len({(one.ra, one.dec, one.object_id, id(one.source)) for one in epochs}) == 1
        assert not np.array_equal(epochs[0].arms[0].flux, epochs[1].arms[0].flux)


def test_dwarf_novae_change_their_state_between_epochs_and_stay_themselves() -> None:
    spectra = list(draw(12, 0, "lamost", kinds=["cv.quiescence", "cv.outburst", "cv.magnetic"], epochs=1.0))
    found = set()
    for number in range(12):
        epochs = [one for one in spectra if one.object_number == number]
        kinds = [one.source.kind for one in epochs]
        found.add(kinds[0])
        if kinds[0] == "cv.magnetic":
            assert set(kinds) == {"cv.magnetic"}
        else:
            assert len(set(kinds)) == 2
            assert (kinds[0] == "cv.outburst") != (kinds[1] == "cv.outburst")
        assert len({(one.source.velocity_km_s, one.source.ebv) for one in epochs}) == 1
    assert found == {"cv.quiescence", "cv.outburst", "cv.magnetic"}


def test_a_wanted_signal_to_noise_is_about_what_comes_out() -> None:
    for low, high in ((20.0, 20.0), (8.0, 80.0)):
        snr = [one.snr for one in draw(12, 0, "lamost", kinds=["g_star"], snr=(low, high), epochs=0.0)]
        assert 0.5 * low < min(snr)
        assert max(snr) < 1.5 * high
    assert max(snr) > 1.5 * min(snr)


def test_each_file_is_read_back_as_it_was_observed(tmp_path: Path, survey: Survey) -> None:
    rows = {row["name"]: row for row in truth(survey.folder)}
    for observed in draw(40, 7, "all", kinds=FEW, epochs=0.1):
        row = rows[observed.name]
        spectrum = read(survey.folder / row["file"])[int(row["row"])]
        expected = observing.spectrum(observed)
        for field in fields(spectrum):
            found, wanted = getattr(spectrum, field.name), getattr(expected, field.name)
            same = np.array_equal(found, wanted) if isinstance(found, np.ndarray) else found == wanted
            assert same or field.name in ("file", "row"), (observed.name, field.name, found, wanted)


def test_the_truth_is_that_of_the_files(survey: Survey) -> None:
    rows = truth(survey.folder)
    assert list(rows[0]) == list(TRUTH)
    assert survey == Survey(survey.folder, N, len(rows), survey.yes, made=True, finished=True)
    assert len({row["name"] for row in rows}) == len({(row["file"], row["row"]) for row in rows}) == len(rows) > N
    observed = {one.name: one for one in draw(N, 7, "all", kinds=FEW, epochs=0.1)}
    assert list(observed) == [row["name"] for row in rows]
    for row in rows:
        one, kind = observed[row["name"]], KINDS[row["kind"]]
        assert (row["kind"], row["object_id"], row["survey"]) == (one.source.kind, one.object_id, one.survey)
        assert [row[task] for task in TASKS] == [kind.answer(task) for task in TASKS]
        assert float(row["snr"]) == pytest.approx(one.snr, abs=6e-4)
        shift = (1 + one.source.redshift) * (1 + one.source.velocity_km_s / 299_792.458) - 1
        assert float(row["z_true"]) == pytest.approx(shift, abs=6e-9)
        assert row["z_pipeline"] == ("" if one.pipeline_z is None else f"{one.pipeline_z:.8f}")
        assert row["defects"] == "; ".join(one.defects)
        assert row["file"].startswith(f"spectra/{row['survey']}/0000/")
        assert "SIMULATED" in Path(row["file"]).name
    assert survey.yes == {task: sum(row[task] == "YES" for row in rows) for task in TASKS}


def test_every_spectrum_is_asked_every_task_and_can_be_asked(survey: Survey) -> None:
    asked = read_questions(str(survey.folder / "questions.jsonl"))
    rows = {row["name"]: row for row in truth(survey.folder)}
    assert len(asked) == len(rows) * len(TASKS)
    for one in asked:
        question, row = one.question, rows[one.question.name or ""]
        assert question.answer == row[question.task]
        assert (question.spectrum.path, question.spectrum.row) == (row["file"], int(row["row"]))
        assert (question.object_id, question.label_source) == (row["object_id"], "simulated")


def test_only_the_tasks_that_are_wanted_are_asked(tmp_path: Path) -> None:
    made = write_survey(tmp_path / "SIM", 3, "desi", tasks=("wd", "cv"), kinds=FEW, epochs=0.0)
    questions = load_questions(str(made.folder / "questions.jsonl"), style="compact")
    assert [one.question.task for one in questions.asked] == ["wd", "cv"] * 3
    assert questions.rejects == []
    assert questions.pose(questions.asked[3]).tool.opening().ok


def test_two_workers_write_what_one_writes(survey: Survey, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    made = again(tmp_path / "SIM", workers=2, progress=lambda *state: told.append(state))
    assert hashes(made.folder) == hashes(survey.folder)
    assert told[0] == ("objects", 0, N)
    assert told[-1] == ("objects", N, N)
    assert len(told) == 3


def test_a_finished_survey_is_left_alone_also_where_it_was_moved(survey: Survey, tmp_path: Path) -> None:
    moved = shutil.copytree(survey.folder, tmp_path / "elsewhere" / "MOVED")
    times = {path: path.stat().st_mtime_ns for path in moved.rglob("*")}
    found = again(moved)
    assert not found.made
    assert (found.spectra, found.yes) == (survey.spectra, survey.yes)
    assert {path: path.stat().st_mtime_ns for path in moved.rglob("*")} == times
    assert str(survey.folder) not in "".join(p.read_text() for p in moved.iterdir() if p.is_file())
    questions = read_questions(str(moved / "questions.jsonl"))
    assert read(questions[-1].file)[questions[-1].question.spectrum.row].n_pix > 1000


def test_a_survey_that_was_asked_to_stop_goes_on(survey: Survey, tmp_path: Path) -> None:
    stop = threading.Event()
    half = again(tmp_path / "SIM", stop=stop, progress=lambda _, done, __: stop.set() if done else None)
    assert (half.objects, half.finished) == (BLOCK, False)
    assert not (tmp_path / "SIM" / "truth.csv").exists()
    told: list[int] = []
    assert again(tmp_path / "SIM", progress=lambda _, done, __: told.append(done)).finished
    assert told == [BLOCK, N]
    assert hashes(tmp_path / "SIM") == hashes(survey.folder)


_CHILD = """
import sys
from specvet.data.simulate.survey_files import write_survey

def progress(doing, done, total):
    if done:
        print(done, flush=True)
        sys.stdin.read()  # until the parent has killed this process

if __name__ == "__main__":
    write_survey(sys.argv[1], int(sys.argv[2]), "all", 7, kinds=sys.argv[4:], epochs=0.1,
                 workers=int(sys.argv[3]), progress=progress)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_survey_goes_on_and_leaves_no_process_behind(survey: Survey, workers: int, tmp_path: Path) -> None:
    folder, script = tmp_path / "SIM", tmp_path / "child.py"
    script.write_text(_CHILD)
    command = [sys.executable, str(script), str(folder), str(N), str(workers), *FEW]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) > 0
        child.kill()
        assert child.stdout.read() == b""  # comes once the workers, who hold it too, have ended
    assert not (folder / "truth.csv").exists()
    if workers == 1:  # the second block is not done, and a kill may leave half of one of its files
        last = folder / truth(survey.folder)[-1]["file"]
        last.parent.mkdir(parents=True, exist_ok=True)
        last.write_bytes(b"SIMPLE  = half a fi")
    assert again(folder).made
    assert hashes(folder) == hashes(survey.folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 8}, r"was made with another seed \(7, not 8\); name a new folder"),
        ({"n": N + 1}, rf"was made with another n \({N}, not {N + 1}\)"),
        ({"kinds": ["cv"]}, r"was made with another kinds \(cv.nova_like, .*…, not cv.quiescence"),
        ({"release": "dr7"}, r"was made with another release \(dr9, not dr7\)"),
        ({"snr": (5.0, 50.0)}, r"was made with another snr \(None, not \[5.0, 50.0\]\)"),
        ({"tasks": ("cv",)}, r"was made with another tasks"),
    ],
)
def test_other_settings_are_refused_in_a_folder_that_is_there(
    survey: Survey, changes: dict[str, object], message: str
) -> None:
    settings: dict[str, object] = {"n": N, "survey": "all", "seed": 7, "kinds": FEW, "epochs": 0.1}
    with pytest.raises(InputError, match=message):
        write_survey(survey.folder, **(settings | changes))  # type: ignore[arg-type]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else than a simulated survey; name a new folder"):
        again(tmp_path)
    with pytest.raises(InputError, match="holds something else"):
        again(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "simulated.json").write_text("{")
    with pytest.raises(InputError, match=r"simulated.json: is damaged"):
        again(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": ["cat"]}, "there is no kind 'cat'"),
        ({"tasks": ("cv", "toy")}, "there is no answer to the task 'toy'; known are cc, cv, gm, ss, wd"),
        ({"release": "dr1"}, "the layout of LAMOST dr1 is not written"),
        ({"workers": 0}, "at least one object, one task and one worker"),
        ({"templates": "nowhere"}, r"nowhere: has no manifest\.csv; give a folder with one"),
    ],
)
def test_settings_that_cannot_be_make_no_folder(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        again(tmp_path / "SIM", **changes)
    assert not (tmp_path / "SIM").exists()


def test_real_spectra_seed_some_objects_and_the_truth_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = tmp_path / "real"
    real.mkdir()
    inside = slice(*np.searchsorted(GRID, (3700.0, 9100.0)))
    rows = ["path,class_label,subclass,object_id,medium"]
    for name in "cdef":
        flux = make("g_star", np.random.default_rng(ord(name))).flux[inside]
        np.savez(real / f"{name}.npz", wavelength=GRID[inside], flux=flux, ivar=flux * 0 + 1e4, medium="vacuum")
        rows.append(f"{name}.npz,G star,G5V,star {name},vacuum")
    (real / "manifest.csv").write_text("\n".join(rows) + "\n")
    made = write_survey(tmp_path / "SIM", 16, "lamost", kinds=["g_star"], templates=str(real), epochs=0.0)
    seeded = [row["template"] for row in truth(made.folder)]
    stars = {star for names in seeded if names for star in names.split("; ")}
    assert stars <= {f"{name}.npz" for name in "cdef"}
    assert 2 <= seeded.count("") <= 14
    moved = real.rename(tmp_path / "moved")
    found = write_survey(tmp_path / "SIM", 16, "lamost", kinds=["g_star"], templates=str(moved), epochs=0.0)
    assert not found.made
    with pytest.raises(InputError, match="was made with another templates"):
        write_survey(tmp_path / "SIM", 16, "lamost", kinds=["g_star"], epochs=0.0)


def test_no_header_and_no_name_tells_what_an_object_is(survey: Survey) -> None:
    rows = truth(survey.folder)
    cards: dict[str, set[tuple[str, ...]]] = {}
    for row in rows:
        path = survey.folder / row["file"]
        with fits.open(path) as hdus:
            keys = tuple(key for hdu in hdus for key in hdu.header)
            said = "".join(repr(hdu.header) for hdu in hdus)
        cards.setdefault(row["survey"], set()).add(keys)
        for secret in (row["kind"], row["defects"]):
            assert not secret or secret not in said + path.name
    assert {name: len(keys) for name, keys in cards.items()} == dict.fromkeys(SURVEYS, 1)


def test_drawing_and_writing_need_no_astropy(tmp_path: Path) -> None:
    code = (
        "import sys; from specvet.data.simulate.survey_files import write_survey; "
        f"write_survey({str(tmp_path / 'SIM')!r}, 4, 'all', kinds={FEW!r}, epochs=0.0); "
        "print(sorted({'astropy', 'torch', 'matplotlib', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout == "[]\n"


def test_settings_are_kept_in_words(survey: Survey) -> None:
    settings = json.loads((survey.folder / "simulated.json").read_text())
    assert settings["simulated"] is True
    assert (settings["n"], settings["seed"], settings["survey"], settings["release"]) == (N, 7, "all", "dr9")
    assert sorted(p.name for p in survey.folder.iterdir()) == [
        "questions.jsonl",
        "simulated.json",
        "spectra",
        "truth.csv",
    ]
