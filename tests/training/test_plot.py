"""The page of figures: which panels it has, and that what is drawn is what was measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from metrics_lab import Line, grpo_line, grpo_run, sft_line, sft_run, write_run
from PIL import Image

from specvet.training.plot import MetricsError, make_figure, plot_runs, read_runs, smoothed
from specvet.training.watch.drawing import RUN_COLOURS, power_text
from specvet.training.watch.metrics import METRICS
from specvet.training.watch.panels import PANELS


def figure_of(*folders: Path, window: int = 1) -> dict[str, Any]:
    """Title → axes."""
    figure = make_figure(read_runs(folders), None, window)
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def drawn(axes: Any, name: str) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.lines if line.get_gid() == name]
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def measured(lines: Iterable[Line], name: str, kind: str = "step") -> list[tuple[float, float]]:
    chosen = [line for line in lines if line["kind"] == kind and line.get(name) is not None]
    return [(float(line["step"]), pytest.approx(line[name])) for line in chosen]


def losses(n: int) -> list[Line]:
    """A run of a single panel, which is quickly drawn."""
    return [{"kind": "step", "step": s, "loss": 1 / s} for s in range(1, n + 1)]


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize(
    ("value", "says"), [(2e-3, "2e-3"), (1.5e-6, "1.5e-6"), (0.0, "0"), (1e-10, "1e-10"), (0.1, "1e-1")]
)
def test_rates_are_written_with_powers_of_ten(value: float, says: str) -> None:
    assert power_text(value) == says


def test_numbers_beside_the_axes_lie_on_the_page_even_where_ratios_hardly_differ(tmp_path: Path) -> None:
    lines = [grpo_line(step, ratio_mean=1 + 2e-7 * step, lr=2e-3 / step) for step in range(1, 7)]
    figure = make_figure(read_runs([write_run(tmp_path / "run", lines)]))
    axes = {a.get_title(loc="left"): a for a in figure.axes}
    figure.canvas.draw()
    assert all(a.get_tightbbox().x0 >= 0 for a in figure.axes)
    shown = {name: [t.get_text() for t in a.get_yticklabels()] for name, a in axes.items()}
    assert "1.0000" in shown["Ratio of new to old probability"]
    assert "1e-3" in shown["Learning rate"]


def test_an_sft_run_has_the_panels_of_sft_with_its_numbers(tmp_path: Path) -> None:
    lines = sft_run(60)
    panels = figure_of(write_run(tmp_path / "run", lines))
    assert list(panels) == ["Loss", "Gradient norm before clipping", "Learning rate", "Throughput", "Seconds a step"]
    assert drawn(panels["Loss"], "loss") == measured(lines, "loss")
    assert drawn(panels["Loss"], "validation/loss") == measured(lines, "loss", "validation")
    rates = [(x, pytest.approx(line["lr"])) for x, line in enumerate((x for x in lines if "lr" in x), 1)]
    assert drawn(panels["Learning rate"], "lr") == rates
    assert panels["Loss"].get_ylabel() == "nats a token"
    assert panels["Loss"].get_ylim()[0] == 0
    assert [t.get_text() for t in panels["Loss"].get_legend().get_texts()] == ["training", "validation"]
    assert panels["Seconds a step"].get_xlabel() == "update"


def test_a_grpo_run_has_the_panels_of_grpo_with_its_numbers(tmp_path: Path) -> None:
    lines = grpo_run(60)
    panels = figure_of(write_run(tmp_path / "run", lines))
    assert list(panels) == [
        "Reward (band: ± 1 s.d.)",
        "Accuracy and format",
        "Tool calls a trajectory",
        "Trajectories without a call, looping ones",
        "Length of a trajectory",
        "How trajectories ended",
        "Groups of equal rewards (skipped)",
        "Distances of the policy",
        "Tokens outside the clip range",
        "Ratio of new to old probability",
        "Entropy",
        "Policy loss",
        "Gradient norm before clipping",
        "Learning rate",
        "Throughput",
        "Seconds a step",
        "Cost so far",
    ]
    for title, name in (
        ("Reward (band: ± 1 s.d.)", "reward_mean"),
        ("Accuracy and format", "accuracy"),
        ("Accuracy and format", "format"),
        ("Tool calls a trajectory", "calls_mean"),
        ("Trajectories without a call, looping ones", "zero_call_share"),
        ("Length of a trajectory", "sampled_mean"),
        ("Distances of the policy", "drift_mean"),
        ("Distances of the policy", "kl_reference"),
        ("Tokens outside the clip range", "clip_share"),
        ("Policy loss", "loss"),
        ("Throughput", "tokens_per_second"),
    ):
        assert drawn(panels[title], name) == measured(lines, name)
    assert drawn(panels["Accuracy and format"], "dev/accuracy") == measured(lines, "accuracy", "dev")
    equal = [(float(x["step"]), x["groups_equal"] / 8) for x in lines if x["kind"] == "step"]
    assert drawn(panels["Groups of equal rewards (skipped)"], "equal_share") == equal


def test_the_band_about_the_reward_is_one_standard_deviation(tmp_path: Path) -> None:
    lines = [grpo_line(s, reward_mean=0.5, reward_std=0.1 * s) for s in range(1, 5)]
    axes = figure_of(write_run(tmp_path / "run", lines))["Reward (band: ± 1 s.d.)"]
    (band,) = [c for c in axes.collections if c.get_gid() == "reward_std"]
    corners = {(round(float(x)), round(float(y), 6)) for x, y in band.get_paths()[0].vertices}
    assert {(s, round(0.5 + sign * 0.1 * s, 6)) for s in range(1, 5) for sign in (-1, 1)} <= corners


def test_the_thick_line_is_the_running_mean_and_the_page_says_of_how_many_steps(tmp_path: Path) -> None:
    lines = grpo_run(60)
    runs = read_runs([write_run(tmp_path / "run", lines)])
    figure = make_figure(runs, None, 5)
    axes = figure.axes[1]
    y = np.array([line["accuracy"] for line in lines if line["kind"] == "step"])
    assert [v for _, v in drawn(axes, "accuracy")] == pytest.approx(smoothed(y, 5))
    assert [v for _, v in drawn(axes, "accuracy/each")] == pytest.approx(y)
    assert "Thick lines: running mean of 5 steps; thin: every step." in texts(figure)[-1]
    assert "Every step as it was." in texts(make_figure(runs, None, 1))[-1]


def test_a_running_mean_takes_what_there_is_at_the_ends() -> None:
    y = np.array([1.0, 2.0, 6.0, 4.0, 10.0])
    assert smoothed(y, 1).tolist() == y.tolist()
    assert smoothed(y, 3).tolist() == pytest.approx([1.5, 3.0, 4.0, 20 / 3, 7.0])
    assert smoothed(y, 99).tolist() == pytest.approx([4.6] * 5)
    assert smoothed(np.array([]), 3).size == 0


def test_stacks_hold_every_part_and_reasons_are_shares(tmp_path: Path) -> None:
    stops = {"answered": 4, "a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 0, "g": 1}
    panels = figure_of(write_run(tmp_path / "run", [grpo_line(s, stops=stops) for s in (1, 2, 3)]))
    ended = panels["How trajectories ended"]
    labels = [t.get_text() for t in ended.get_legend().get_texts()]
    assert len(labels) == 6
    assert labels[0] == "other"
    assert labels[-1] == "answered"
    tops = [float(area.get_paths()[0].vertices[:, 1].max()) for area in ended.collections]
    assert tops[0] == pytest.approx(0.4)
    assert tops[-1] == pytest.approx(1.0)
    seconds = panels["Seconds a step"]
    heights = [float(area.get_paths()[0].vertices[:, 1].max()) for area in seconds.collections]
    assert heights == pytest.approx([40.0, 58.0, 58.0])


def test_several_runs_differ_by_colour_and_are_named_once(tmp_path: Path) -> None:
    first, second = grpo_run(30), grpo_run(20, 1)
    folders = [write_run(tmp_path / "a" / "run", first), write_run(tmp_path / "b" / "run", second)]
    runs = read_runs(folders)
    assert [run.label for run in runs] == ["a/run", "b/run"]
    figure = make_figure(runs, "Two")
    assert texts(figure)[:3] == ["Two", "a/run: GRPO; 30 steps, 27.8 min", "b/run: GRPO; 20 steps, 18.3 min"]
    reward = figure.axes[0]
    assert reward.get_title(loc="left") == "Reward"  # bands would lie on each other
    lines = [line for line in reward.lines if line.get_gid() == "reward_mean"]
    assert [line.get_color() for line in lines] == list(RUN_COLOURS[:2])
    assert [len(line.get_xdata()) for line in lines] == [30, 20]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert "How trajectories ended" not in titles
    assert titles.count("Seconds a step") == 1


def test_sft_and_grpo_runs_share_a_page_and_not_their_losses(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / "sft", sft_run(20)), write_run(tmp_path / "grpo", grpo_run(20))]
    panels = figure_of(*folders)
    assert len(drawn(panels["Loss"], "loss")) == 20
    assert len(drawn(panels["Policy loss"], "loss")) == len(measured(grpo_run(20), "loss"))
    assert [line.get_gid() for line in panels["Learning rate"].lines] == ["lr", "lr"]
    assert panels["Cost so far"].get_xlabel() == "step"


def test_alarms_are_marked_where_they_belong_and_named_below(tmp_path: Path) -> None:
    figure = make_figure(read_runs([write_run(tmp_path / "run", grpo_run(160, 1, collapse_at=100))]))
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    marks = {
        line.get_gid(): float(line.get_xdata()[0])
        for line in panels["Trajectories without a call, looping ones"].lines
        if str(line.get_gid()).startswith("alarm/")
    }
    assert list(marks) == ["alarm/zero_calls", "alarm/looping"]
    assert f"▼: an alarm (zero_calls at {marks['alarm/zero_calls']:.0f}, looping at" in texts(figure)[-1]
    equal = [grpo_line(s, groups_equal=8, loss=None, datums=0) for s in range(1, 9)]
    axes = figure_of(write_run(tmp_path / "equal", equal))["Groups of equal rewards (skipped)"]
    assert [line.get_gid() for line in axes.lines if "alarm" in str(line.get_gid())] == ["alarm/equal_groups"]


def test_new_epochs_are_marked(tmp_path: Path) -> None:
    lines = [sft_line(s, epoch=1 + (s > 4)) for s in range(1, 9)]
    figure = make_figure(read_runs([write_run(tmp_path / "run", lines)]))
    verticals = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_gid() is None]
    assert verticals == [4.5]
    assert "a new epoch" in texts(figure)[-1]


def test_a_page_tells_profile_model_and_backend_of_a_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", sft_run(3))
    told = "kind: train\nprofile: spec-o3-3b-paper\nbackend: torch\nmodel: {name: models/Qwen2.5-VL-3B-Instruct}\n"
    (run / "config.yaml").write_text(told)
    assert read_runs([run])[0].about.startswith("SFT, profile spec-o3-3b-paper, Qwen2.5-VL-3B-Instruct, torch; 3 steps")
    for broken in ("profile: [", "just words", "profile: p\nmodel: 3\n"):
        (run / "config.yaml").write_text(broken)
        assert read_runs([run])[0].about.startswith("SFT; 3 steps")


def test_steps_are_counted_where_a_line_stands_for_several(tmp_path: Path) -> None:
    lines = [sft_line(step) for step in (10, 20, 25)]
    assert read_runs([write_run(tmp_path / "run", lines)])[0].about.startswith("SFT; 25 steps")


@pytest.mark.parametrize("lines", [[], grpo_run(1), sft_run(1), [{"kind": "dev", "step": 0, "accuracy": 0.5}]])
def test_runs_that_have_hardly_begun_are_drawn(tmp_path: Path, lines: list[Line]) -> None:
    out = plot_runs([write_run(tmp_path / "run", lines)], tmp_path / "page.png")
    with Image.open(out) as page:
        assert page.width == 1935


def test_values_that_are_missing_or_flat_or_zero_are_drawn(tmp_path: Path) -> None:
    gone = {"kl_reference": None, "entropy": None, "loss": None}
    lines = [grpo_line(s, drift_mean=0.0, clip_share=0.0, **gone) for s in (1, 2, 3)]
    panels = figure_of(write_run(tmp_path / "run", lines))
    assert "Entropy" not in panels
    assert "Policy loss" not in panels
    assert drawn(panels["Distances of the policy"], "drift_mean") == [(1, 0), (2, 0), (3, 0)]
    assert panels["Tokens outside the clip range"].get_ylim()[1] > 0


def test_the_same_metrics_give_the_same_file_in_every_format(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", losses(30))
    for suffix in ("png", "svg", "pdf"):
        first = plot_runs([run], tmp_path / f"a.{suffix}").read_bytes()
        assert plot_runs([run], tmp_path / f"b.{suffix}").read_bytes() == first
    with pytest.raises(ValueError, match=r"the figure is a \.png, \.pdf or \.svg; let the name of --out end so"):
        plot_runs([run], tmp_path / "page.docx")


def test_a_path_without_metrics_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(MetricsError, match="no run was given"):
        plot_runs([], tmp_path / "page.png")
    with pytest.raises(MetricsError, match=r"holds no metrics\.jsonl"):
        plot_runs([tmp_path], tmp_path / "page.png")
    assert not (tmp_path / "page.png").exists()


def test_drawing_needs_no_display_and_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", losses(3))
    code = (
        "import sys, matplotlib as m; m.rcParams['font.size'] = 7; was = dict.items(m.rcParams); before = dict(was)\n"
        f"from specvet.training.plot import plot_runs; plot_runs([{str(run)!r}], {str(tmp_path / 'p.png')!r})\n"
        "print(dict(dict.items(m.rcParams)) == before, 'matplotlib.pyplot' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]


def test_every_series_is_a_metric_that_is_explained() -> None:
    made = {"equal_share", "refilled_share"}
    for panel in PANELS:
        for name, _ in panel.series:
            assert name.rpartition("/")[2] in {*METRICS, *made, ""}
            assert name.rstrip("/").rpartition("/")[2] in {*METRICS, *made}
