"""Demonstrations in bulk: a slice at a time, read back as a trainer reads them."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from specvet.chat import ImageError
from specvet.data import trajectories
from specvet.data.demonstrations import read_demonstrations
from specvet.data.errors import InputError
from specvet.data.pictures import picture, picture_bytes, picture_size
from specvet.data.simulate.kinds import KINDS, TASKS
from specvet.data.sliced import Made
from specvet.data.trajectories import Settings, make_trajectories
from specvet.tasks import strict_answer

TERSE = Settings(seed=4, voice="terse", wording="short", picture_size="tiny")
N = 10


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trajectories, "SLICE", 4)
        return make_trajectories(tmp_path_factory.mktemp("bulk") / "set", N, TERSE, workers=1)


def truth(folder: Path) -> list[dict[str, str]]:
    with open(folder / "truth.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_demonstration_ends_with_the_answer_of_its_kind(made: Made) -> None:
    rows = {row["id"]: row for row in truth(made.folder)}
    found = read_demonstrations(str(made.path))
    assert [one.id for one in found] == list(rows)
    for one in found:
        row = rows[one.id]
        said = "".join(part for part in one.messages[-1].content if isinstance(part, str))
        assert strict_answer([f"<think>{one.messages[-1].reasoning}</think>\n{said}"]) == row["answer"]
        assert KINDS[row["kind"]].answer(row["task"]) == row["answer"]
        assert sum(bool(m.calls) for m in one.messages) == int(row["calls"])
        assert one.tools == ()


def test_tasks_and_surveys_take_turns(made: Made) -> None:
    rows = truth(made.folder)
    assert [row["task"] for row in rows] == 2 * list(TASKS)
    assert [row["survey"] for row in rows] == 5 * ["lamost"] + 5 * ["sdss"]
    assert all(row["object_id"].startswith("SIMULATED-1000000") for row in rows)


def test_pictures_lie_in_one_file_a_slice_and_are_whole(made: Made) -> None:
    assert sorted(p.name for p in (made.folder / "pictures").iterdir()) == ["00000.pngs", "00001.pngs", "00002.pngs"]
    paths = [path for one in read_demonstrations(str(made.path)) for path in one.pictures]
    assert {picture_size(path) for path in paths} == {(224, 168), (252, 196)}
    shown = picture(paths[-1])
    assert (shown.width, shown.height) in {(224, 168), (252, 196)}
    assert sum(len(picture_bytes(p)) for p in dict.fromkeys(paths)) == sum(
        p.stat().st_size for p in (made.folder / "pictures").iterdir()
    )


def test_a_picture_beyond_the_end_of_its_file_is_told(made: Made) -> None:
    with pytest.raises(ImageError, match="not a PNG"):
        picture_size(f"{made.folder}/pictures/00000.pngs#999999999+10")
    with pytest.raises(ImageError, match="no such picture"):
        picture_bytes(f"{made.folder}/pictures/00009.pngs#0+10")


def test_an_interrupted_call_goes_on_and_equals_an_uninterrupted_one(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectories, "SLICE", 4)
    real = trajectories._make_slice

    def fails(*args: object) -> int:
        if args[-1] == 1:
            raise OSError("no space left")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(trajectories, "_make_slice", fails)
    with pytest.raises(OSError, match="no space"):
        make_trajectories(tmp_path / "set", N, TERSE, workers=1)
    assert not (tmp_path / "set" / "trajectories.jsonl").exists()
    asked = []

    def counts(*args: object) -> int:
        asked.append(args[-1])
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(trajectories, "_make_slice", counts)
    make_trajectories(tmp_path / "set", N, TERSE, workers=1)
    assert asked == [1, 2]
    for file in made.folder.rglob("*"):
        if file.is_file() and file.name != "run.lock":
            assert (tmp_path / "set" / file.relative_to(made.folder)).read_bytes() == file.read_bytes(), file


def test_what_is_there_is_not_made_again_and_other_settings_are_refused(made: Made) -> None:
    again = make_trajectories(made.folder, N, TERSE)
    assert not again.made
    assert again.stats == made.stats == json.loads((made.folder / "stats.json").read_text(encoding="utf-8"))
    assert again.stats["demonstrations"] == N
    for n, settings, says in ((N, replace(TERSE, voice="full"), "voice"), (N + 1, TERSE, "another n")):
        with pytest.raises(InputError, match=says):
            make_trajectories(made.folder, n, settings)


def test_a_folder_of_before_there_were_containers_and_folds_is_gone_on_with(made: Made, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(made.folder, old)
    told = json.loads((old / "trajectories.json").read_text(encoding="utf-8"))
    for name in ("yes", "cross", "containers", "fold", "seeded"):
        del told[name]
    (old / "trajectories.json").write_text(json.dumps(told), encoding="utf-8")
    assert not make_trajectories(old, N, TERSE).made
    with pytest.raises(InputError, match="another containers"):
        make_trajectories(old, N, replace(TERSE, containers=("bare",)))


def test_without_zoom_the_whole_view_is_answered_at_once(tmp_path: Path) -> None:
    made = make_trajectories(tmp_path / "whole", 2, replace(TERSE, zoom=False), workers=1)
    for one in read_demonstrations(str(made.path)):
        assert [m.role for m in one.messages] == ["system", "user", "assistant"]
        assert "You have 1 turn." in str(one.messages[1].content[1])
        assert len(one.pictures) == 1


def test_kinds_and_s_n_can_be_chosen(tmp_path: Path) -> None:
    settings = replace(TERSE, kinds=("a_star", "gm.giant"), snr=(20.0, 30.0), surveys=("desi",))
    made = make_trajectories(tmp_path / "some", 3, settings, workers=1)
    rows = truth(made.folder)
    assert {row["kind"] for row in rows} <= {"a_star", "gm.giant"}
    assert {row["survey"] for row in rows} == {"desi"}
    assert {row["answer"] for row in rows[:2]} == {"NO"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kinds": ("nova",)}, "no kind 'nova'"),
        ({"surveys": ("gaia",)}, "known are lamost"),
        ({"snr": (0.0, 5.0)}, "two positive numbers"),
        ({"picture_size": "huge"}, "unknown"),
        ({"seed": -1}, "not negative"),
    ],
)
def test_settings_that_cannot_be_are_told(tmp_path: Path, change: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make_trajectories(tmp_path / "set", 2, replace(TERSE, **change))
    assert not (tmp_path / "set").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no trajectories"):
        make_trajectories(tmp_path, 2, TERSE)
