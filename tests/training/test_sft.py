"""SFT: what it logs, by hand; validation; checkpoints; and that it goes on after any kill."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from menu_lab import LOOK, MENU, NO, YES, MenuTrainer
from run_lab import (
    Fuse,
    Killed,
    Seen,
    assert_same_run,
    config,
    demonstrations,
    lines,
    receipt,
    trained,
    weights,
)

from specvet.cli.main import main
from specvet.records import RunFolder, RunMismatchError
from specvet.training.checkpoints import CheckpointError, checkpoints
from specvet.training.config import ModelConfig, OptimiserConfig, SftConfig
from specvet.training.identity import start_of_run
from specvet.training.sft import Kept
from specvet.training.trainer import NotFiniteError, TrainerError

TOLD = ("look yes", "yes", "look look yes", "no", "look yes", "look no", "yes")


def loop(**more: object) -> SftConfig:
    return SftConfig.model_validate({"epochs": 2, "batch": 3, "optimiser": OptimiserConfig(lr=0.1)} | more)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("data")
    return demonstrations(folder / "train.jsonl", *TOLD)[0], demonstrations(folder / "val.jsonl", *TOLD[:4])[0]


def loss_of(weights: np.ndarray, *turns: list[int]) -> float:
    """Mean over tokens: of a whole turn of the menu the log-probs of its tokens add up to that of its choice."""
    logs = weights - np.log(np.exp(weights).sum())
    return -sum(float(logs[MENU.index(turn)]) for turn in turns) / sum(map(len, turns))


def test_each_epoch_takes_every_demonstration_once_and_the_last_batch_what_is_left(tmp_path, data):
    trained(tmp_path / "run", config(loop()), *data)
    found = lines(tmp_path / "run")
    assert [(x["kind"], x["step"], x["epoch"], x["demonstrations"]) for x in found] == [
        ("step", 1, 1, 3),
        ("step", 2, 1, 3),
        ("step", 3, 1, 1),
        ("validation", 3, 1, 4),
        ("step", 4, 2, 3),
        ("step", 5, 2, 3),
        ("step", 6, 2, 1),
        ("validation", 6, 2, 4),
    ]
    of_epochs = [[x for x in found if x["epoch"] == epoch and x["kind"] == "step"] for epoch in (1, 2)]
    for steps in of_epochs:
        assert sum(x["tokens"] for x in steps) == sum(row.n_tokens for row in data[0])
        assert sum(x["active_tokens"] for x in steps) == sum(row.n_active for row in data[0])
    assert {x["lr"] for x in found if x["kind"] == "step"} == {0.1}


def test_a_datum_is_made_once_as_far_as_there_is_room_for_it(data):
    rows = data[0][:3]
    kept = Kept()
    first = kept.datums(rows)
    assert all(a is b for a, b in zip(first, kept.datums(rows), strict=True))
    size = 32 * first[0].n_tokens
    little = Kept(most=size)
    again = [little.datums(rows[:2]) for _ in range(2)]
    assert again[0][0] is again[1][0]
    assert again[0][1] is not again[1][1]
    assert again[0][1].chunks == again[1][1].chunks


def test_the_loss_is_the_mean_over_all_tokens_that_the_assistant_said(tmp_path, data):
    trained(tmp_path / "run", config(loop(batch=7)), *data)
    # At first each of five turns is as likely as any other; seven demonstrations have twelve turns.
    tokens = 5 * len(LOOK) + 5 * len(YES) + 2 * len(NO)
    first = lines(tmp_path / "run")[0]
    assert first["active_tokens"] == tokens
    assert first["loss"] == pytest.approx(12 * math.log(5) / tokens, rel=1e-6)


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_validation_is_the_mean_over_all_held_out_tokens_whatever_the_batches(tmp_path, data, batch):
    trainer = trained(tmp_path / "run", config(loop(batch=batch, epochs=1)), *data)
    expected = loss_of(trainer.weights, LOOK, YES, YES, LOOK, LOOK, YES, NO)
    (line,) = lines(tmp_path / "run", "validation")
    assert line["loss"] == pytest.approx(expected, rel=1e-5)
    assert line["active_tokens"] == 3 * len(LOOK) + 3 * len(YES) + len(NO)


def test_imitation_lowers_the_loss(tmp_path, data):
    trained(tmp_path / "run", config(loop(epochs=6)), *data)
    losses = [x["loss"] for x in lines(tmp_path / "run", "validation")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


def test_a_schedule_is_written_step_by_step(tmp_path, data):
    optimiser = OptimiserConfig(lr=0.1, schedule="linear", warmup=2.0)
    trained(tmp_path / "run", config(loop(optimiser=optimiser)), *data)
    rates = [x["lr"] for x in lines(tmp_path / "run", "step")]
    assert rates == pytest.approx([0.05, 0.1, 0.1, 0.075, 0.05, 0.025])


def test_weights_are_saved_at_the_ends_of_epochs_with_the_command_that_goes_on(tmp_path, data):
    seen = Seen()
    trained(tmp_path / "run", config(loop()), *data, watch=seen)
    assert list(weights(tmp_path / "run")) == ["epoch-01", "epoch-02"]
    folder = tmp_path / "run" / "checkpoints" / "epoch-02"
    assert seen.messages[-1] == (
        f"saved {folder}; to go on from it: specvet train grpo --profile test --backend torch --from {folder} "
        f"--out {tmp_path}/run-grpo"
    )


def test_fewer_epochs_may_be_saved_the_last_always_and_a_killed_run_goes_on_from_those(tmp_path, data):
    told = config(loop(epochs=5, save_epochs=2))
    trained(tmp_path / "whole", told, *data)
    assert [c.name for c in checkpoints(tmp_path / "whole")] == ["epoch-02", "epoch-04", "epoch-05"]
    with pytest.raises(Killed):
        trained(tmp_path / "run", told, *data, fuse=Fuse("logged", 11))
    trained(tmp_path / "run", told, *data)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_step_checkpoints_stand_between_and_none_beside_an_epochs_end(tmp_path, data):
    trained(tmp_path / "run", config(loop(save_every=1)), *data)
    assert list(weights(tmp_path / "run")) == [
        "epoch-01",
        "epoch-02",
        "step-000001",
        "step-000002",
        "step-000004",
        "step-000005",
    ]


@pytest.mark.parametrize("what", ["forward_backward", "logged", "saved_state", "placed"])
def test_a_run_killed_at_any_step_goes_on_as_if_it_had_not_been(tmp_path, data, what):
    told = config(loop(save_every=2))
    whole = Fuse()
    trained(tmp_path / "whole", told, *data, fuse=whole)
    for n in range(1, whole.happened[what] + 1):
        run = tmp_path / f"run-{n}"
        with pytest.raises(Killed):
            trained(run, told, *data, fuse=Fuse(what, n))
        trained(run, told, *data)
        assert_same_run(run, tmp_path / "whole")


def test_a_run_that_ends_between_epochs_trains_on_and_does_not_skip_the_next(tmp_path, data):
    # What many loops do wrong at the boundary: take no step, or the first epoch's order again.
    told = config(loop())
    trained(tmp_path / "whole", told, *data)
    with pytest.raises(Killed):
        trained(tmp_path / "run", told, *data, fuse=Fuse("placed", 1))
    seen = Seen()
    trained(tmp_path / "run", told, *data, watch=seen)
    assert seen.began == [3]
    assert [x["step"] for x in seen.lines] == [4, 5, 6, 6]
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_somebody_who_says_stop_gets_a_checkpoint_and_the_same_run_later(tmp_path, data):
    told = config(loop())
    trained(tmp_path / "whole", told, *data)
    trained(tmp_path / "run", told, *data, watch=Seen(stop_after=2))
    assert list(weights(tmp_path / "run")) == ["step-000002"]
    trained(tmp_path / "run", told, *data)
    assert [x["step"] for x in lines(tmp_path / "run", "step")] == [1, 2, 3, 4, 5, 6]
    both = weights(tmp_path / "run"), weights(tmp_path / "whole")
    assert both[0]["epoch-02"] == both[1]["epoch-02"]


def test_rejects_are_listed_and_counted_and_nothing_is_cut(tmp_path):
    rows, rejects = demonstrations(tmp_path / "d.jsonl", *TOLD, max_tokens=230)
    assert len(rejects) == 1
    trained(tmp_path / "run", config(loop(max_tokens=230)), rows, [], rejects)
    (told,) = [json.loads(line) for line in (tmp_path / "run" / "rejects.jsonl").read_text().splitlines()]
    assert told["id"] == "d2"
    assert told["n_tokens"] > 230
    assert receipt(tmp_path / "run")["training"]["rejected"] == 1
    assert lines(tmp_path / "run")[0]["demonstrations"] == 3


class Nan(MenuTrainer):
    """Its third batch has a loss that is no number."""

    def _pass(self, *given):
        step, gradient = super()._pass(*given)
        if self.usage.batches == 2:
            object.__setattr__(step, "loss", math.nan)
        return step, gradient


def test_a_loss_that_is_no_number_names_its_batch_and_leaves_the_checkpoint(tmp_path, data):
    with pytest.raises(NotFiniteError, match=r"step 3; .*failed_batch.json lists the batch\); the checkpoint step-0"):
        trained(tmp_path / "run", config(loop(save_every=2)), *data, made=Nan)
    told = json.loads((tmp_path / "run" / "failed_batch.json").read_text())
    assert (told["step"], told["epoch"], len(told["ids"])) == (3, 1, 1)
    assert list(weights(tmp_path / "run")) == ["step-000002"]
    assert [x["step"] for x in lines(tmp_path / "run")] == [1, 2]


def test_a_backend_that_drops_out_mid_step_stops_a_run_that_can_go_on(tmp_path, data):
    told = config(loop(save_every=2))
    trained(tmp_path / "whole", told, *data)

    class Dropping(MenuTrainer):
        def optim_step(self, adam):
            if self.usage.updates == 3:
                raise TrainerError("the backend is gone")
            return super().optim_step(adam)

    with pytest.raises(TrainerError, match="the backend is gone"):
        trained(tmp_path / "run", told, *data, made=Dropping)
    assert receipt(tmp_path / "run")["sessions"][0]["interrupted"] is True
    trained(tmp_path / "run", told, *data)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_other_data_are_another_run(tmp_path, data):
    trained(tmp_path / "run", config(loop()), *data)
    with pytest.raises(RunMismatchError, match=r"data = .* must equal one that never stopped"):
        trained(tmp_path / "run", config(loop()), data[0][:-1], data[1])
    other = demonstrations(tmp_path / "other.jsonl", *TOLD[:-1], "no")[0]
    assert [(row.id, row.n_tokens, row.n_active) for row in other] == [
        (row.id, row.n_tokens, row.n_active) for row in data[0]
    ]
    with pytest.raises(RunMismatchError, match=r"made with data = [0-9a-f]{12}, but now data = [0-9a-f]{12};"):
        trained(tmp_path / "run", config(loop()), other, data[1])


def test_other_held_out_demonstrations_or_none_are_another_run(tmp_path, data):
    trained(tmp_path / "run", config(loop()), *data)
    with pytest.raises(RunMismatchError, match=r"made with validation = [0-9a-f]{12}, but now validation = none;"):
        trained(tmp_path / "run", config(loop()), data[0], [])
    with pytest.raises(RunMismatchError, match=r"but now validation = [0-9a-f]{12};"):
        trained(tmp_path / "run", config(loop()), data[0], data[1][:-1])
    copy = demonstrations(tmp_path / "copy.jsonl", *TOLD[:4])[0]
    trained(tmp_path / "run", config(loop()), data[0], copy)  # the same elsewhere


def test_metrics_that_were_deleted_are_told_and_the_run_goes_on(tmp_path, data):
    trained(tmp_path / "run", config(loop(epochs=1)), *data)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    watch = Seen()
    trained(tmp_path / "run", config(loop(epochs=2)), *data, watch=watch)
    assert [x["step"] for x in lines(tmp_path / "run", "step")] == [4, 5, 6]
    assert watch.messages[0].startswith(f"{tmp_path / 'run' / 'metrics.jsonl'} is gone: the lines of the first 3 steps")
    with RunFolder.read(tmp_path / "run") as folder:
        assert [e.text for e in folder.events() if e.kind == "metrics"] == watch.messages[:1]


def test_a_start_is_what_its_checkpoint_holds_and_not_where_it_lies(tmp_path, data):
    trained(tmp_path / "sft", config(loop(epochs=2)), *data)
    first, second = (tmp_path / "sft" / "checkpoints" / name for name in ("epoch-01", "epoch-02"))
    trained(tmp_path / "run", config(loop(epochs=1), start=str(first)), *data)
    shutil.copytree(first, tmp_path / "copy")
    trained(tmp_path / "run", config(loop(epochs=1), start=str(tmp_path / "copy")), *data)
    for other in (str(second), None):
        with pytest.raises(RunMismatchError, match="made with start = "):
            trained(tmp_path / "run", config(loop(epochs=1), start=other), *data)
    shutil.rmtree(tmp_path / "sft")
    trained(tmp_path / "run", config(loop(epochs=2), start=str(first)), *data)  # it has checkpoints of its own
    with pytest.raises(CheckpointError, match="epoch-02: is neither a training run nor a checkpoint"):
        trained(tmp_path / "run", config(loop(epochs=2), start=str(second)), *data)


def test_a_run_that_is_named_again_as_the_start_is_the_checkpoint_that_it_was(tmp_path):
    stored = str(tmp_path / "sft" / "checkpoints" / "epoch-01")
    assert start_of_run(str(tmp_path / "sft"), stored) == stored == start_of_run(stored, stored)
    assert start_of_run(str(tmp_path / "sft" / "checkpoints" / "epoch-02"), stored) is None
    assert start_of_run(str(tmp_path / "grpo"), stored) is None
    assert start_of_run("trio://a", stored) is None


def test_the_receipt_says_what_was_used_and_saved(tmp_path, data):
    trained(tmp_path / "run", config(loop()), *data)
    told = receipt(tmp_path / "run")
    assert told["kind"] == "train"
    assert told["usage"]["trained_tokens"] == 2 * sum(row.n_tokens for row in data[0])
    assert told["usage"]["forward_tokens"] == 2 * sum(row.n_tokens for row in data[1])
    assert told["usage"]["updates"] == 6
    assert {k: told["training"][k] for k in ("epoch", "step", "update", "cursor")} == {
        "epoch": 2,
        "step": 6,
        "update": 6,
        "cursor": 0,
    }
    assert sorted(told["training"]["checkpoints"]) == ["epoch-01", "epoch-02"]
    assert told["settings"]["trainer"] == "menu"


def test_what_a_killed_session_used_is_on_disk_with_its_steps(tmp_path, data):
    with pytest.raises(Killed):
        trained(tmp_path / "run", config(loop()), *data, fuse=Fuse("logged", 2))
    trained(tmp_path / "run", config(loop()), *data)
    sessions = receipt(tmp_path / "run")["sessions"]
    assert [s["usage"]["updates"] for s in sessions] == [2, 6]
    assert Path(tmp_path / "run" / "metrics.jsonl").read_text().count('"kind": "step"') == 6


def test_a_run_that_is_over_says_where_its_data_could_not_be_compared(tmp_path, data, capsys):
    file, gone = tmp_path / "train.jsonl", str(tmp_path / "gone")
    rows = demonstrations(file, *TOLD)[0]
    told = config(loop(epochs=1, data=str(file)), model=ModelConfig(name=gone))
    trained(tmp_path / "run", told, rows, [])
    assert main(["train", "sft", "--config", str(tmp_path / "run"), "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert f"this run is over. It was made with the data {file}; the data were not compared: " in said
    assert gone in said
