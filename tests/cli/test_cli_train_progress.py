"""How far training has come, in lines: what is counted, from where a run goes on, and what a step gave."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specvet.cli.train_progress import TrainProgress, Watched, note, training_line
from specvet.cli.train_summary import count_text
from specvet.training.order import Position


class Lines:
    """Whoever is shown: keeps what was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, int]] = []

    def __call__(self, progress: TrainProgress) -> None:
        self.told.append((progress.done, progress.batch_done, progress.batch))

    def stopping(self) -> None: ...


def standing(at: Position) -> Any:
    return SimpleNamespace(position=at)


def test_a_line_of_sft_says_steps_rate_loss_and_time_left() -> None:
    p = TrainProgress("sft", 848, 2, 424, step=12, done=12, before=2, note="loss 0.521", seconds=20.0)
    assert training_line(p) == "12 of 424 steps done, 0.5 a second, loss 0.521, about 14 min left"
    assert training_line(TrainProgress("sft", 8, 1, 2)) == "0 of 2 steps done"


def test_a_line_of_grpo_counts_trajectories_and_the_dev_questions() -> None:
    p = TrainProgress("grpo", 3_108, 1, 389, group=8, step=11, done=768, before=704, note="reward 0.6", seconds=32.0)
    assert training_line(p) == (
        "768 of 24,864 trajectories done (step 12 of 389), 2 a second, reward 0.6, about 3 h 21 min left"
    )
    p.dev, p.dev_total = 12, 256
    assert "12 of 256 dev questions answered" in training_line(p)


def test_a_run_that_ends_after_some_steps_counts_the_trajectories_of_those() -> None:
    def total(steps: int) -> int:
        return TrainProgress("grpo", 10, 2, steps, group=4, questions=8).total

    assert [total(steps) for steps in (1, 2, 3, 4)] == [32, 40, 72, 80]  # 8, 2, 8 and 2 questions
    assert TrainProgress("grpo", 10, 2, 4, group=4).total == 80


def test_a_watch_counts_from_where_the_run_goes_on() -> None:
    shown, stop = Lines(), threading.Event()
    progress = TrainProgress("grpo", 10, 2, 10, group=4)
    watch = Watched(progress, shown, stop, quiet=True)
    watch.started(None, standing(Position(epoch=1, cursor=2, step=6)))  # type: ignore[arg-type]
    assert (progress.before, progress.done, progress.step) == (48, 48, 6)
    watch.batch(8)
    watch.trajectory()
    watch.trajectory()
    watch.batch(4)  # refilled
    assert shown.told[-1] == (50, 2, 12)
    watch.step({"kind": "step", "step": 7, "reward_mean": 0.5, "accuracy": 0.75, "loss": None})
    assert (progress.step, progress.batch, progress.note) == (7, 0, "reward 0.500, right 0.750")
    watch.dev(1, 2)
    assert (progress.dev, progress.dev_total) == (1, 2)
    watch.dev(2, 2)
    assert progress.dev_total == 0
    assert not watch.stopping
    watch.stopping = True
    assert stop.is_set()
    watch.stopping = False
    assert not watch.stopping
    sft = Watched(TrainProgress("sft", 8, 1, 4), shown, stop, quiet=True)
    sft.started(None, standing(Position(step=1)))  # type: ignore[arg-type]
    sft.step({"kind": "step", "step": 2, "loss": 0.25})
    assert shown.told[-1] == (2, 0, 0)


def test_messages_are_said_unless_quiet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for quiet in (False, True):
        Watched(TrainProgress("sft", 1, 1, 1), Lines(), threading.Event(), quiet).message(f"saved {tmp_path}")
    assert capsys.readouterr().err == f"specvet: saved {tmp_path}\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"kind": "step", "loss": 0.5213}, "loss 0.521"),
        ({"kind": "validation", "loss": 0.4}, "validation loss 0.400"),
        ({"kind": "dev", "accuracy": 0.5, "macro_f1": 0.25}, "dev right 0.500, dev macro F1 0.250"),
        ({"kind": "step"}, ""),
        ({"kind": "other", "loss": 1.0}, ""),
    ],
)
def test_what_a_step_gave_is_said_in_words(line: dict[str, Any], says: str) -> None:
    assert note(line) == says


def test_counts_of_tokens_are_whole_until_they_are_large() -> None:
    assert [count_text(n) for n in (0, 4_096, 99_999, 2_312_345)] == ["0", "4,096", "99,999", "2.31 M"]
