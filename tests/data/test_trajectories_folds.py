"""Demonstrations without the objects of a fold: cross-validation with one set."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from specvet.cli.main import main
from specvet.data.demonstrations import read_demonstrations
from specvet.data.errors import InputError
from specvet.data.simulate.source import GRID
from specvet.data.simulate.templates import NAMES, Fold, load_templates
from specvet.data.simulate.templates_file import write_template_file
from specvet.data.trajectories import Settings, make_trajectories
from specvet.data.trajectories_folds import with_folds

STARS = 12


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of smooth A stars, two spectra of each of six objects."""
    place = tmp_path_factory.mktemp("real")
    inside = slice(*np.searchsorted(GRID, (3700.0, 9000.0)))
    rows = ["path,class_label,subclass,object_id,medium"]
    for i in range(STARS):
        flux = np.random.default_rng(i).normal(1.0, 0.01, GRID[inside].size) * (GRID[inside] / 6000.0) ** -2
        np.savez(place / f"{i}.npz", wavelength=GRID[inside], flux=flux, ivar=np.full(flux.size, 1e4), medium="vacuum")
        rows.append(f"{i}.npz,A star,A3V,star {i % 6},vacuum")
    (place / "manifest.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_template_file(place, place / "seeds.npz")
    return place / "seeds.npz"


@pytest.fixture(scope="module")
def made(seeds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = Settings(
        seed=1, voice="terse", wording="short", picture_size="tiny", templates=str(seeds), fold="none", seeded=1.0,
        kinds=("a_star", "cv.nova_like", "wd.DA", "qso"), yes=0.2,
    )  # fmt: skip
    return make_trajectories(tmp_path_factory.mktemp("bulk") / "set", 40, settings, workers=1).folder


def test_each_file_holds_what_rests_on_none_of_the_objects_that_its_fold_keeps_back(made: Path, seeds: Path) -> None:
    objects = {one.file: one.object_id for one in load_templates(seeds, fold=Fold(0, 1)).templates}
    with (made / "truth.csv").open(encoding="utf-8", newline="") as file:
        truth = {row["id"]: row["template"] for row in csv.DictReader(file)}
    assert any(NAMES in names for names in truth.values())  # a neighbour that was mixed in counts as well
    found = with_folds(made, seeds, 3)
    assert list(found) == ["1/3", "2/3", "3/3"]
    for held, (path, n) in enumerate(found.values(), start=1):
        ids = [one.id for one in read_demonstrations(str(path))]
        assert len(ids) == n
        fold = Fold(held, 3)
        kept = [
            id for id, names in truth.items()
            if not any(fold.holds(objects[name]) for name in names.split(NAMES) if name)
        ]  # fmt: skip
        assert ids == kept
        assert 0 < n < len(truth)


def test_the_files_lie_beside_the_pictures_they_name(made: Path, seeds: Path) -> None:
    path, _ = with_folds(made, seeds, 2)["2/2"]
    assert path.parent == made
    assert all(
        Path(name.partition("#")[0]).is_file() for one in read_demonstrations(str(path)) for name in one.pictures
    )


def test_other_templates_and_other_folders_are_refused_by_name(made: Path, seeds: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    (few / "manifest.csv").write_text("path,class_label,object_id,medium\n0.npz,A star,star 0,vacuum\n")
    (few / "0.npz").write_bytes((seeds.parent / "0.npz").read_bytes())
    write_template_file(few, few / "seeds.npz")
    with pytest.raises(InputError, match="is not among the templates; give those that seeded the set"):
        with_folds(made, few / "seeds.npz", 3)
    with pytest.raises(InputError, match="holds no finished demonstrations"):
        with_folds(tmp_path, seeds, 3)
    with pytest.raises(InputError, match="give two or more"):
        with_folds(made, seeds, 1)


def test_the_command_says_how_many_each_holds(made: Path, seeds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "folds", str(made), "--templates", str(seeds), "--folds", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {name: len(Path(one["file"]).read_text().splitlines()) for name, one in told.items()} == {
        name: one["demonstrations"] for name, one in told.items()
    }
    assert main(["data", "folds", str(made / "pictures"), "--templates", str(seeds)]) == 2
