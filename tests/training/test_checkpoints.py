"""Checkpoints are there in full or not at all, and a damaged one says so."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from menu_lab import MenuTrainer
from run_lab import config, grpo_loop

from specvet.records import DiskFullError
from specvet.training.checkpoints import (
    CheckpointError,
    checkpoints,
    latest,
    read_checkpoint,
    remove_drafts,
    resolve_start,
    weights_of,
    write_checkpoint,
)
from specvet.training.order import Position
from specvet.training.trainer import TrainerError

CONFIG = config(grpo_loop())
HERE, THERE, END = Position(0, 8, 1, 1), Position(0, 16, 2, 2), Position(1, 0, 3, 2)


def saved(run: Path, at: Position = THERE, trainer: MenuTrainer | None = None) -> Path:
    return asyncio.run(write_checkpoint(trainer or MenuTrainer(), run, at, CONFIG)).folder


def listing(run: Path) -> list[str]:
    return sorted(p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file())


def test_a_checkpoint_says_where_it_stands_and_what_it_holds(tmp_path):
    folder = saved(tmp_path)
    assert listing(tmp_path) == [
        "checkpoints/step-000002/checkpoint.json",
        "checkpoints/step-000002/step-000002-sampler/menu.npy",
        "checkpoints/step-000002/step-000002-state/menu.npz",
    ]
    told = json.loads((folder / "checkpoint.json").read_text())
    assert {k: told[k] for k in ("name", "stage", "step", "epoch", "update", "cursor", "state", "sampler")} == {
        "name": "step-000002",
        "stage": "grpo",
        "step": 2,
        "epoch": 0,
        "update": 2,
        "cursor": 16,
        "state": "step-000002-state",
        "sampler": "step-000002-sampler",
    }
    assert sorted(told["files"]) == ["step-000002-sampler/menu.npy", "step-000002-state/menu.npz"]
    assert told["trainer"]["model"]["dtype"] == "auto"
    found = read_checkpoint(folder)
    assert found.position == THERE
    assert found.where(found.state) == str(folder / "step-000002-state")


def test_the_newest_is_the_one_with_the_most_steps_whatever_its_name(tmp_path):
    for at in (THERE, END, HERE):
        saved(tmp_path, at)
    assert [c.name for c in checkpoints(tmp_path)] == ["step-000001", "step-000002", "epoch-01"]
    newest = latest(tmp_path)
    assert newest is not None
    assert newest.name == "epoch-01"


def test_before_the_first_checkpoint_there_is_none(tmp_path):
    assert latest(tmp_path) is None


def test_saving_a_name_again_replaces_it(tmp_path):
    saved(tmp_path)
    trainer = MenuTrainer()
    trainer.weights = trainer.weights + 1.0
    folder = saved(tmp_path, trainer=trainer)
    assert MenuTrainer(str(folder / "step-000002-state")).weights.tolist() == [1.0] * 5
    assert len(listing(tmp_path)) == 3


def test_an_address_of_a_service_stays_one(tmp_path):
    class Remote(MenuTrainer):
        async def save_state(self, name: str, folder: Path) -> str:
            return f"trio://run/weights/{name}"

        def save_sampler(self, name: str, folder: Path) -> str:
            return f"trio://run/sampler_weights/{name}"

    folder = saved(tmp_path, trainer=Remote())
    assert listing(tmp_path) == ["checkpoints/step-000002/checkpoint.json"]
    start = resolve_start(str(folder))
    assert (start.state, start.sampler) == (
        "trio://run/weights/step-000002",
        "trio://run/sampler_weights/step-000002",
    )


@pytest.mark.parametrize("method", ["save_state", "saved_state", "save_sampler"])
def test_a_save_that_fails_leaves_nothing_and_the_one_before_stays(tmp_path, method):
    saved(tmp_path, HERE)
    before, trainer = listing(tmp_path), MenuTrainer()

    def fail(name: str) -> None:
        if name == method:
            raise TrainerError("the backend is gone")

    trainer.before = fail
    with pytest.raises(TrainerError, match="the backend is gone"):
        saved(tmp_path, THERE, trainer)
    assert listing(tmp_path) == before
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-000001"]
    newest = latest(tmp_path)
    assert newest is not None
    assert newest.position == HERE


@pytest.mark.parametrize(
    "said",
    [
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("I/O error: Disk quota exceeded (os error 122)"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_full_disk_is_one_however_a_library_says_it(tmp_path, said):
    trainer = MenuTrainer()

    def fail(name: str) -> None:
        if name == "saved_state":
            try:
                raise said
            except Exception as e:
                raise TrainerError("weights could not be written") from e

    trainer.before = fail
    with pytest.raises(DiskFullError, match="step-000002: the disk is full"):
        saved(tmp_path, THERE, trainer)
    assert listing(tmp_path) == []


FULL = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from menu_lab import MenuTrainer
from test_checkpoints import HERE, THERE, latest, saved
run, trainer = Path(sys.argv[2]), MenuTrainer()
saved(run, HERE, trainer)
trainer.moments = np.zeros((2, 100_000))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    saved(run, THERE, trainer)
except Exception as e:
    print(type(e).__name__, e)
print(latest(run).name, [p.name for p in (run / "checkpoints").iterdir()])
"""


def test_a_disk_that_fills_while_saving_costs_that_checkpoint_only(tmp_path):
    command = [sys.executable, "-c", FULL, str(Path(__file__).parent), str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[0].startswith(f"DiskFullError {tmp_path}/checkpoints/step-000002: the disk is full")
    assert out[1] == "step-000001 ['step-000001']"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda f: (f / "step-000002-state/menu.npz").write_bytes(b"x"), "step-000002-state/menu.npz: is damaged"),
        (lambda f: (f / "step-000002-sampler/menu.npy").unlink(), "step-000002-sampler/menu.npy: is missing"),
    ],
)
def test_a_damaged_checkpoint_names_the_file_and_the_one_to_go_back_to(tmp_path, harm, said):
    saved(tmp_path, HERE)
    folder = saved(tmp_path)
    harm(folder)
    with pytest.raises(CheckpointError, match=said) as caught:
        latest(tmp_path)
    assert f"remove the folder {folder}, and the same command goes on from step-000001" in str(caught.value)


def test_the_first_checkpoint_damaged_goes_back_to_the_beginning(tmp_path):
    folder = saved(tmp_path)
    (folder / "step-000002-state/menu.npz").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="the same command goes on from the beginning"):
        latest(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "step-000002"}'])
def test_a_damaged_description_is_named(tmp_path, text):
    folder = saved(tmp_path)
    (folder / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"step-000002/checkpoint.json: is damaged"):
        latest(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("step", "two", "step: input should be a valid integer"),
        ("step", -1, "step: input should be greater than or equal to 0"),
        ("files", [], "files: input should be a valid dictionary"),
        ("trainer", {"model": []}, "trainer: model holds no settings"),
        ("state", "../../elsewhere", "state: must be a name in the folder, or an address that begins with trio://"),
        ("sampler", "/etc", "sampler: must be a name in the folder"),
        ("state", "http://a/b", "state: must be a name in the folder"),
        ("state", "..", "state: must be a name in the folder"),
    ],
)
def test_a_description_of_another_shape_names_the_field(tmp_path, field, value, says):
    folder = saved(tmp_path)
    told = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps(told | {field: value}))
    with pytest.raises(CheckpointError, match=r"checkpoint.json: is damaged") as caught:
        latest(tmp_path)
    assert f"({says}" in str(caught.value)


def test_a_folder_without_its_description_is_no_checkpoint(tmp_path):
    saved(tmp_path, HERE)
    folder = saved(tmp_path)
    (folder / "checkpoint.json").unlink()
    newest = latest(tmp_path)
    assert newest is not None
    assert newest.name == "step-000001"
    with pytest.raises(CheckpointError, match="was its saving cut short"):
        read_checkpoint(folder)


def test_what_a_killed_process_left_half_written_is_no_checkpoint_and_goes(tmp_path):
    folder = saved(tmp_path)
    folder.rename(folder.with_name(".specvet-0123456789abcdef.tmp"))
    assert latest(tmp_path) is None
    remove_drafts(tmp_path)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_one_begins_from_a_run_a_checkpoint_or_an_address(tmp_path):
    saved(tmp_path, HERE)
    folder = saved(tmp_path)
    (tmp_path / "run.db").touch()
    for given in (tmp_path, folder):
        start = resolve_start(str(given))
        assert start.state == str(folder / "step-000002-state")
        assert start.sampler == str(folder / "step-000002-sampler")
        assert start.method["rank"] == 32
        assert start.model["name"] is None
    address = resolve_start("tinker://r/weights/a")
    assert (address.state, address.sampler, dict(address.model)) == ("tinker://r/weights/a", None, {})


def test_a_new_run_opens_with_the_weights_of_from_and_one_that_goes_on_with_its_own(tmp_path):
    folder = saved(tmp_path / "sft")
    first, told = str(folder / "step-000002-state"), config(grpo_loop(), start=str(folder))
    new = {"state": first, "with_optimizer": False, "reference_state": None}
    assert weights_of(told, None) == new
    assert weights_of(CONFIG, None) == new | {"state": None}
    own = read_checkpoint(saved(tmp_path / "run", HERE))
    assert weights_of(told, own) == new | {
        "state": str(own.folder / "step-000001-state"),
        "with_optimizer": True,
    }


def test_a_penalty_stays_with_the_weights_of_from_when_the_run_goes_on(tmp_path):
    folder, own = saved(tmp_path / "sft"), read_checkpoint(saved(tmp_path / "run", HERE))
    told = config(grpo_loop(kl=0.1), start=str(folder))
    assert weights_of(told, own)["reference_state"] == str(folder / "step-000002-state")
    assert weights_of(config(grpo_loop(kl=0.1)), own)["reference_state"] is None


def test_what_one_cannot_begin_from_says_why(tmp_path):
    with pytest.raises(CheckpointError, match="neither a training run nor a checkpoint"):
        resolve_start(str(tmp_path))
    (tmp_path / "run.db").touch()
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        resolve_start(str(tmp_path))
