"""Questions in bulk: how spectra are told, what is asked of them, and that a call goes on where another stopped."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specvet.cli.main import main
from specvet.data import question_sets
from specvet.data.asking import load_questions
from specvet.data.drawing import CONTAINERS, Draws, Streams, kinds_drawn, planned, see
from specvet.data.errors import InputError
from specvet.data.question_sets import make_question_set
from specvet.data.realvi import COVERAGE
from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.simulate.libraries import observe_by_library
from specvet.data.simulate.physics import normalised, power_law
from specvet.data.simulate.source import GRID, Source
from specvet.data.sliced import Made
from specvet.tools import ZoomTool

N = 20
DRAWS = Draws(seed=3, yes=0.5, containers=CONTAINERS)
STREAMS = Streams(version=1, row=51, source=52, observation=53, first=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_sets, "SLICE", 8)
        return make_question_set(tmp_path_factory.mktemp("asked") / "set", N, DRAWS, workers=1)


def facts(folder: Path) -> dict[str, dict[str, str]]:
    with open(folder / "facts.csv", encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def test_every_question_can_be_asked_and_has_the_answer_of_its_kind(made: Made) -> None:
    found = load_questions(str(made.path), style="compact")
    told = facts(made.folder)
    assert not found.rejects
    assert [one.question.task for one in found.asked] == 4 * list(TASKS)
    for one in found.asked:
        question = one.question
        known = told[question.name or ""]
        assert KINDS[known["kind"]].answer(question.task) == question.answer == known["answer"]
        assert known["kind"] not in (question.name or "")
    assert len({one.question.object_id for one in found.asked}) == N
    assert made.stats["questions"] == N
    assert 4 <= made.stats["yes"] <= 16
    assert made.stats["megabytes"] * 1e6 / N < 20_000


def test_spectra_are_told_as_their_containers_tell_them(made: Made) -> None:
    found = load_questions(str(made.path), style="compact")
    told = facts(made.folder)
    assert {row["container"] for row in told.values()} == set(CONTAINERS)
    for one in found.asked:
        posed = found.pose(one)
        spectrum, container = posed.tool.spectrum, told[one.question.name or ""]["container"]
        text = posed.tool.opening().text
        assert any("SIMULATED" in note for note in spectrum.warnings) or container == "published"
        assert (spectrum.ivar is not None) <= (container in ("native", "library"))
        if container == "native":
            assert spectrum.ivar is not None
            assert spectrum.joins
            assert spectrum.survey in ("LAMOST", "SDSS", "DESI")
        if container == "bare":
            assert "the file states no redshift" in text
            assert spectrum.medium == "unknown"
        if container == "harmonised":
            assert COVERAGE[0] < spectrum.wave_min < spectrum.wave_max < COVERAGE[1]
            assert np.median(spectrum.flux) == pytest.approx(1.0, abs=1e-3)
        if container == "library":
            assert "as released" in text or "states no redshift" in text


def test_an_interrupted_call_goes_on_and_equals_an_uninterrupted_one(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_sets, "SLICE", 8)
    real = question_sets._make_slice

    def fails(*args: object) -> int:
        if args[-1] == 1:
            raise OSError("no space left")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(question_sets, "_make_slice", fails)
    with pytest.raises(OSError, match="no space"):
        make_question_set(tmp_path / "set", N, DRAWS, workers=1)
    assert not (tmp_path / "set" / "questions.jsonl").exists()
    monkeypatch.setattr(question_sets, "_make_slice", real)
    make_question_set(tmp_path / "set", N, DRAWS, workers=1)
    for file in made.folder.rglob("*"):
        if file.is_file() and file.name != "run.lock":
            assert (tmp_path / "set" / file.relative_to(made.folder)).read_bytes() == file.read_bytes(), file
    again = make_question_set(made.folder, N, DRAWS)
    assert not again.made
    assert again.stats == made.stats
    with pytest.raises(InputError, match="another yes"):
        make_question_set(made.folder, N, replace(DRAWS, yes=0.4))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"containers": ("tape",)}, "known are published"),
        ({"fold": "2/5"}, "give --templates"),
        ({"fold": "9/5", "templates": "x"}, "as in 2/5"),
        ({"yes": 1.5}, "give 0 to 1"),
        ({"seed": -1}, "not negative"),
    ],
)
def test_draws_that_cannot_be_are_told(tmp_path: Path, change: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make_question_set(tmp_path / "set", 2, replace(DRAWS, **change))
    assert not (tmp_path / "set").exists()


def test_members_of_other_classes_are_asked_about_as_often_as_wanted() -> None:
    draws = replace(DRAWS, cross=0.5)
    rows = [planned(i, draws, STREAMS) for i in range(600)]
    kinds = [(row, next(kinds_drawn(row, draws, STREAMS, 1, 1))) for row in rows if row.answer == "NO"]
    assert all(KINDS[kind].answer(row.task) == "NO" for row, kind in kinds)
    members = [bool(KINDS[kind].yes) for _, kind in kinds]
    assert 0.5 < np.mean(members) < 0.75
    assert {KINDS[kind].yes[0] for row, kind in kinds if row.task == "wd" and KINDS[kind].yes} >= {"cv", "cc", "gm"}


def test_one_object_is_the_same_in_every_survey_container() -> None:
    draws = [replace(DRAWS, containers=(name,)) for name in ("published", "native", "bare")]
    seen = [see(planned(3, one, STREAMS), "cv.quiescence", 0, one, STREAMS) for one in draws]
    assert len({str(one.source.parameters) for one in seen if not isinstance(one, str)}) == 1
    tools = [ZoomTool(one.spectrum) for one in seen if not isinstance(one, str)]
    assert len({tool.spectrum.n_pix for tool in tools}) == 1


def test_a_library_blurs_samples_and_adds_the_noise_that_it_says() -> None:
    source = Source(normalised(power_law(0.0)), "a_star", velocity_km_s=300.0)
    seen = [observe_by_library(source, np.random.default_rng(i), snr=30.0) for i in range(40)]
    assert np.median([one.snr for one in seen]) == pytest.approx(30.0, rel=0.1)
    assert {one.frame for one in seen} == {"rest", "unknown"}
    assert {one.medium for one in seen} == {"air", "vacuum", "unknown"}
    assert 1 <= sum(one.ivar is not None for one in seen) <= 20
    assert all(one.wave_min > GRID[0] and one.wave_max < GRID[-1] for one in seen)
    assert max(one.n_pix for one in seen) > 5 * min(one.n_pix for one in seen)


def test_the_command_counts_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["data", "questions", "--n", "5", "--kinds", "a_star", "--out", str(tmp_path / "set"), "--workers", "1"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "5 SIMULATED questions, 0 seeded by real spectra" in said
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stats"]["tasks"] == {f"{task} NO": 1 for task in TASKS}
    assert main([*command[:3], "6", *command[4:]]) == 2
    assert "another n" in capsys.readouterr().err
