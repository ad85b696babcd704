"""Sets made from their seed: once, whole, also where two processes want the same one or one is killed over it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specvet.data.questions import read_questions
from specvet.evaluation import recipes
from specvet.evaluation.plan import Recipe, SetPlan
from specvet.evaluation.recipes import Made, made_before, make
from specvet.evaluation.sets import load_set
from specvet.records import file_hash

SUITE = Recipe(suite="cross-task", n=6, seed=5)

CHILD = """
import sys
from pathlib import Path
from specvet.evaluation.plan import Recipe
from specvet.evaluation.recipes import make
if __name__ == "__main__":
    n, cache = int(sys.argv[1]), Path(sys.argv[2])
    print(make(Recipe(suite="cross-task", n=n, seed=5), cache, workers=1).path, flush=True)
"""


def child(tmp_path: Path, n: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(n), str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def hashes(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): file_hash(p) for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(SUITE, tmp_path_factory.mktemp("cache"), workers=1)


def test_a_set_is_made_once_and_says_that_it_is_simulated_and_by_what(suite: Made) -> None:
    cache = suite.path.parents[2]
    assert suite.about["simulated"] is True
    assert suite.about["set"] == "cross-task suite (SIMULATED)"
    assert (suite.about["n"], suite.about["seed"]) == (6, 5)
    assert suite.about["versions"].keys() == {"specvet", "numpy", "scipy"}
    told: list[str] = []
    assert make(SUITE, cache, lambda doing, done, total: told.append(doing)) == suite == made_before(SUITE, cache)
    assert told == []
    assert made_before(SUITE.model_copy(update={"n": 7}), cache) is None
    assert made_before(SUITE.model_copy(update={"seed": 6}), cache) is None
    assert made_before(Recipe(suite="cross-survey", n=6, seed=5), cache) is None


def test_a_set_of_a_campaign_takes_its_questions_and_facts(suite: Made) -> None:
    found = load_set("cross", SetPlan(recipe=SUITE), str(suite.path), str(suite.facts), suite.about)
    assert len(found.questions) == 6
    assert all(q.facts.keys() >= {"kind", "subtype", "snr", "survey"} for q in found.questions)
    assert {q.facts["survey"] for q in found.questions} == {"LAMOST"}
    assert found.record.about["simulated"] is True
    assert found.record.tasks.keys() == {"md", "be", "sd", "qso", "tts"}


def test_other_code_makes_a_set_of_its_own(suite: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_before(SUITE, suite.path.parents[2]) is not None
    monkeypatch.setattr(recipes, "code_hash", lambda: "another")
    assert made_before(SUITE, suite.path.parents[2]) is None


def test_the_cache_lies_in_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = make(Recipe(suite="cross-task", n=1), workers=1)
    assert made.path.is_relative_to(tmp_path / "specvet" / "recipes")


def test_two_processes_that_want_one_set_make_it_once(suite: Made, tmp_path: Path) -> None:
    both = [child(tmp_path, 6), child(tmp_path, 6)]
    said = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    place = Path(said[0][0].strip()).parents[1]
    assert sorted(p.name for p in place.iterdir()) == ["made.json", "run.lock", "set"]
    assert hashes(place / "set") == hashes(suite.path.parent)


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process as Unix does")
def test_what_a_killed_process_began_is_made_by_the_next(tmp_path: Path) -> None:
    process = child(tmp_path, 12)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/.set-*/spectra/*.npz")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    (place,) = tmp_path.iterdir()
    assert list(place.glob(".set-*"))
    assert not (place / "made.json").exists()
    made = make(Recipe(suite="cross-task", n=12, seed=5), tmp_path, workers=1)
    assert made.path.parents[1] == place
    assert sorted(p.name for p in place.iterdir()) == ["made.json", "run.lock", "set"]
    assert len(read_questions(str(made.path))) == 12


def test_a_set_with_a_hole_is_made_again(tmp_path: Path) -> None:
    recipe = Recipe(suite="cross-task", n=2)
    made = make(recipe, tmp_path, workers=1)
    before = hashes(made.path.parent)
    Path(read_questions(str(made.path))[1].file).unlink()
    assert made_before(recipe, tmp_path) is None
    assert make(recipe, tmp_path, workers=1) == made
    assert hashes(made.path.parent) == before


def test_simvi_is_made_as_its_command_makes_it_and_its_parts_share_a_place(tiny_simvi: Made, simvi_cache: Path) -> None:
    made, recipe = tiny_simvi, Recipe(simvi="tiny", part="val", seed=1)
    assert made.path.name == "bench_val.jsonl"
    assert made.about["simulated"] is True
    assert (made.about["set"], made.about["size"], made.about["part"]) == ("SimVI (SIMULATED)", "tiny", "val")
    asked = [one.question for one in read_questions(str(made.path))]
    assert len(asked) == 20
    with open(made.facts, encoding="utf-8", newline="") as table:
        told = {row["name"]: row for row in csv.DictReader(table)}
    assert {q.name for q in asked} <= told.keys()
    assert {row["survey"] for row in told.values()} == {"LAMOST"}
    settings = json.loads((made.path.parents[1] / "simvi.json").read_text("utf-8"))
    assert (settings["size"], settings["seed"], settings["style"]) == ("tiny", 1, "compact")
    for part, name in {"train": "bench_rl_train", "dev": "bench_dev", "test": "bench_test"}.items():
        other = made_before(recipe.model_copy(update={"part": part}), simvi_cache)
        assert other is not None
        assert other.path == made.path.with_name(f"{name}.jsonl")
        assert other.about["part"] == part
