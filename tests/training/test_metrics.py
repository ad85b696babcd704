"""Reading `metrics.jsonl`: what kills and resumes leave behind, and a run in short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from metrics_lab import grpo_line, grpo_run, sft_line, sft_run, write_run

from specvet.training.watch import METRICS, MetricsError, read_metrics, summary
from specvet.training.watch.metrics import numbers


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    file = write_run(tmp_path, [sft_line(1), sft_line(2)]) / "metrics.jsonl"
    whole = file.read_bytes()
    for cut in (1, 7, 40):
        file.write_bytes(whole[: len(whole) - cut])
        kept = read_metrics(tmp_path)
        assert [line["step"] for line in kept] == ([1, 2] if cut == 1 else [1])  # the last byte is only the line's end
    assert kept == [sft_line(1)]


def test_an_unreadable_line_in_the_middle_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    file = write_run(tmp_path, [sft_line(1), sft_line(2)]) / "metrics.jsonl"
    first, second, _ = file.read_bytes().split(b"\n")
    for broken in (first[:30] + second, b"\xff\x00{", b"[1]", b'{"kind": "step"}', b'{"kind": "other", "step": 1}'):
        file.write_bytes(b"\n".join([first, broken, second, b""]))
        with pytest.warns(UserWarning, match=r"metrics\.jsonl:2: not a line of metrics"):
            assert [line["step"] for line in read_metrics(file)] == [1, 2]


def test_repeated_steps_count_as_they_were_made_last(tmp_path: Path) -> None:
    first = [grpo_line(s, reward_mean=0.1) for s in range(1, 8)]
    first.insert(5, {"kind": "dev", "step": 5, "epoch": 1, "accuracy": 0.1})
    again = [grpo_line(s, reward_mean=0.9) for s in range(4, 6)]
    lines = read_metrics(write_run(tmp_path, [*first, *again]))
    # What the first session made after step 4 is over, its dev line of step 5 included.
    assert [(x["kind"], x["step"], x.get("reward_mean")) for x in lines] == [
        ("step", 1, 0.1),
        ("step", 2, 0.1),
        ("step", 3, 0.1),
        ("step", 4, 0.9),
        ("step", 5, 0.9),
    ]


def test_a_validation_before_the_first_step_and_after_the_last_are_kept(tmp_path: Path) -> None:
    held_out = {"kind": "validation", "epoch": 0, "loss": 2.0}
    lines = [held_out | {"step": 0}, sft_line(1), sft_line(2), held_out | {"step": 2, "loss": 1.5}]
    assert [(x["kind"], x["step"]) for x in read_metrics(write_run(tmp_path, lines))] == [
        ("validation", 0),
        ("step", 1),
        ("step", 2),
        ("validation", 2),
    ]


def test_a_folder_without_metrics_says_so(tmp_path: Path) -> None:
    with pytest.raises(MetricsError, match=r"it holds no metrics\.jsonl; give the folder that `specvet train"):
        read_metrics(tmp_path)
    with pytest.raises(MetricsError, match="nowhere: there is no such file or folder"):
        read_metrics(tmp_path / "nowhere")
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    assert read_metrics(tmp_path) == []


def test_nan_written_by_others_reads_as_none_and_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "step", "step": 1, "loss": NaN, "grad_norm": Infinity}\n')
    (line,) = read_metrics(tmp_path)
    assert line["loss"] is None
    assert numbers(line) == {"step": 1.0}
    assert numbers({"stops": {"answered": 3, "error": 1}, "kind": "step", "cost": None}) == {
        "stops/answered": 3.0,
        "stops/error": 1.0,
    }


def test_a_summary_tells_first_last_and_best_of_what_has_a_best(tmp_path: Path) -> None:
    lines = [grpo_line(1, reward_mean=0.2), grpo_line(2, reward_mean=0.9), grpo_line(3, reward_mean=0.9, epoch=2)]
    lines.append({"kind": "dev", "step": 3, "epoch": 2, "seconds": 5.0, "accuracy": 0.7, "macro_f1": 0.6})
    told = summary(write_run(tmp_path, lines))
    assert (told["stage"], told["steps"], told["epoch"], told["seconds"]) == ("grpo", 3, 2.0, 180.0)
    assert told["metrics"]["reward_mean"] == {"first": 0.2, "last": 0.9, "best": 0.9, "best_step": 2}
    assert told["metrics"]["dev/accuracy"] == {"first": 0.7, "last": 0.7, "best": 0.7, "best_step": 3}
    assert told["metrics"]["calls_mean"]["best"] is None
    assert told["metrics"]["loss"]["best"] is None  # a policy loss is no measure of quality
    assert told["metrics"]["stops/answered"]["last"] == 62.0
    assert json.loads(json.dumps(told)) == told


def test_the_best_loss_of_sft_is_the_lowest(tmp_path: Path) -> None:
    told = summary(write_run(tmp_path, sft_run(40)))
    losses = [line["loss"] for line in sft_run(40) if line["kind"] == "step"]
    assert told["stage"] == "sft"
    assert told["metrics"]["loss"]["best"] == min(losses)
    assert told["metrics"]["loss"]["best_step"] == losses.index(min(losses)) + 1
    assert told["metrics"]["validation/loss"]["best_step"] == 40


def test_a_run_without_a_step_has_an_empty_summary(tmp_path: Path) -> None:
    told = summary(write_run(tmp_path, []))
    assert told == {"stage": None, "steps": 0, "epoch": 0.0, "seconds": 0.0, "metrics": {}}


def test_every_name_that_a_run_writes_has_a_unit_and_a_meaning() -> None:
    labels = {"kind", "time"}
    for line in [*sft_run(4), *grpo_run(30)]:
        assert set(line) - labels <= set(METRICS)
    assert all(meaning and not meaning.endswith(".") for _, meaning in METRICS.values())
