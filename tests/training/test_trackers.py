"""Trackers: the real packages, read back from what they wrote. Those that are not installed are skipped."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from metrics_lab import Line, grpo_line, sft_line
from tracker_lab import swanlab_run, swanlab_service, tensorboard_run, wandb_run

from specvet.training.watch import TrackerError, Trackers, check_trackers, open_trackers
from specvet.training.watch.trackers import installed, values_of

CONFIG = {"stage": "grpo", "profile": "tiny", "loop": {"optimiser": {"lr": 1e-6}, "clip": [0.8, 1.2], "dev": None}}


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed: pip install 'specvet[{package}]'")


@pytest.fixture(autouse=True)
def _no_account_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No login, no settings and no proxy of whoever runs the tests."""
    for name in ("WANDB_API_KEY", "SWANLAB_API_KEY", "WANDB_PROJECT", "WANDB_MODE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "NETRC", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "SWANLAB_ROOT"):
        monkeypatch.setenv(name, str(home / ".netrc" if name == "NETRC" else home))


def session(
    wanted: str, run: Path, kept: Sequence[Line], lines: Sequence[Line], error: BaseException | None = None
) -> list[str]:
    """One session of a run at one tracker; returns what was said."""
    run.mkdir(exist_ok=True)
    said: list[str] = []
    trackers = open_trackers([wanted], run, CONFIG, "first light", say=said.append)
    trackers.begin(kept)
    for line in lines:
        trackers.log(line)
        if line["step"] == 3 and line["kind"] == "step":
            trackers.note(3, "zero_calls: it answers blind")
    trackers.close(error)
    if wanted.startswith("wandb"):
        import wandb

        wandb.teardown()  # its files are written by a process of its own, for which the end of ours waits
    return said


def five_steps() -> list[Line]:
    lines = [grpo_line(s, reward_mean=s / 10, stops={"answered": 60 + s}) for s in range(1, 6)]
    dev = {"kind": "dev", "step": 5, "epoch": 1, "seconds": 4.0, "time": "", "accuracy": 0.75, "macro_f1": None}
    return [*lines, dev]


REWARDS = {s: pytest.approx(s / 10, abs=1e-7) for s in range(1, 6)}


# --- what needs no package


def test_values_are_named_by_kind_and_nested_ones_by_path() -> None:
    assert values_of({"kind": "dev", "step": 4, "accuracy": 0.5, "time": "…"}) == {"dev/accuracy": 0.5}
    assert values_of({"kind": "validation", "step": 4, "loss": 1.5}) == {"validation/loss": 1.5}
    told = values_of(grpo_line(3, kl_reference=None))
    assert told["stops/answered"] == 62.0
    assert told["reward_mean"] == 0.6
    assert "kl_reference" not in told
    assert "step" not in told


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["swanlap"], "there is no tracker 'swanlap'; there are swanlab, wandb, tensorboard; did you mean swanlab?"),
        (["wandb:local"], "wandb:local: there is no mode 'local'; wandb knows online, offline, disabled"),
        (["tensorboard:offline"], "tensorboard has no modes"),
        (["wandb:disabled", "wandb:offline"], "the tracker wandb is asked for twice"),
    ],
)
def test_a_tracker_that_there_is_not_says_which_there_are(wanted: list[str], message: str) -> None:
    with pytest.raises(TrackerError) as e:
        check_trackers(wanted)
    assert message in str(e.value)


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("specvet.training.watch.trackers.installed", lambda package: package != "wandb")
    with pytest.raises(TrackerError, match=r"wandb is not installed: pip install 'specvet\[wandb\]'"):
        open_trackers(["wandb:offline"], tmp_path, CONFIG)
    assert not (tmp_path / "trackers.json").exists()


def test_a_folder_that_has_a_packages_name_is_no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tracked_here").mkdir()  # as `./wandb` of an earlier run
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not installed("tracked_here")
    assert not installed("no_such_package_anywhere")
    assert installed("numpy")


def test_disabled_trackers_are_not_opened(tmp_path: Path) -> None:
    trackers = open_trackers(["swanlab:disabled", "wandb:disabled"], tmp_path, CONFIG)
    assert trackers.live == ()
    trackers.begin([])
    trackers.log(grpo_line(1))
    trackers.close()
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


class Failing:
    """A tracker whose service goes away after two steps."""

    where = "nowhere"

    def __init__(self) -> None:
        self.told: list[int] = []

    def begin(self, kept: Sequence[Line]) -> None:
        pass

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.told.append(step)
        if step > 2:
            raise OSError("the line\nis dead")

    def note(self, step: int, text: str) -> None:
        pass

    def close(self, error: BaseException | None) -> None:
        raise AssertionError("closed after it failed")


def test_a_tracker_that_fails_on_the_way_is_told_of_once_and_then_left_alone() -> None:
    failing, said = Failing(), list[str]()
    trackers = Trackers([("far", failing)], said.append)
    trackers.begin([])
    for step in range(1, 6):
        trackers.log(grpo_line(step))
    trackers.note(5, "still going")
    trackers.close()
    assert failing.told == [1, 2, 3]
    assert said == [
        "far: the line is dead; it is told nothing more in this session, metrics.jsonl has everything in any case"
    ]


# --- TensorBoard


@needs("tensorboard")
def test_tensorboard_gets_every_number_the_config_and_alarms(tmp_path: Path) -> None:
    said = session("tensorboard", tmp_path / "run", [], five_steps())
    assert said == [f"tensorboard: tensorboard --logdir {tmp_path / 'run' / 'tensorboard'}"]
    scalars, texts = tensorboard_run(tmp_path / "run" / "tensorboard")
    assert scalars["reward_mean"] == REWARDS
    assert scalars["stops/answered"] == {s: 60.0 + s for s in range(1, 6)}
    assert scalars["dev/accuracy"] == {5: 0.75}
    assert set(scalars) == {name for line in five_steps() for name in values_of(line)}
    assert texts["alarms/text_summary"] == [(3, "zero_calls: it answers blind")]
    ((step, config),) = texts["config/text_summary"]
    assert step == 0
    assert "    profile: tiny" in config


@needs("tensorboard")
def test_tensorboard_has_each_step_once_after_a_resume(tmp_path: Path) -> None:
    lines = five_steps()
    session("tensorboard", tmp_path / "run", [], [x | {"reward_mean": 0.9} if x["step"] > 2 else x for x in lines[:4]])
    session("tensorboard", tmp_path / "run", lines[:2], lines[2:])
    scalars, texts = tensorboard_run(tmp_path / "run" / "tensorboard")
    assert scalars["reward_mean"] == REWARDS
    assert scalars["dev/accuracy"] == {5: 0.75}
    assert texts["alarms/text_summary"] == [(3, "zero_calls: it answers blind")]
    assert len(texts["config/text_summary"]) == 1


@needs("tensorboard")
def test_tensorboard_asked_for_in_the_middle_of_a_run_gets_what_was_before(tmp_path: Path) -> None:
    lines = five_steps()
    session("tensorboard", tmp_path / "run", lines[:3], lines[3:])
    assert tensorboard_run(tmp_path / "run" / "tensorboard")[0]["reward_mean"] == REWARDS


@needs("tensorboard")
def test_tensorboard_forgets_a_first_session_that_never_saved(tmp_path: Path) -> None:
    session("tensorboard", tmp_path / "run", [], [sft_line(1, loss=9.0), sft_line(2, loss=9.0)])
    session("tensorboard", tmp_path / "run", [], [sft_line(1, loss=1.0)])
    scalars, texts = tensorboard_run(tmp_path / "run" / "tensorboard")
    assert scalars["loss"] == {1: 1.0}
    assert len(texts["config/text_summary"]) == 1


@needs("tensorboard")
def test_what_tensorboard_was_told_is_on_disk_at_once(tmp_path: Path) -> None:
    trackers = open_trackers(["tensorboard"], tmp_path, CONFIG, say=lambda _: None)
    trackers.begin([])
    trackers.log(sft_line(1, loss=0.5))
    assert tensorboard_run(tmp_path / "tensorboard")[0]["loss"] == {1: 0.5}  # before any close: a kill loses nothing
    trackers.close()


# --- Weights & Biases


def wandb_files(run: Path) -> list[Path]:
    return sorted((run / "wandb").glob("offline-run-*/run-*.wandb"))


@needs("wandb")
def test_wandb_offline_holds_rows_config_alarms_and_how_it_ended(tmp_path: Path) -> None:
    before = sys.excepthook, sys.exit, signal.getsignal(signal.SIGINT)
    said = session("wandb:offline", tmp_path / "run", [], five_steps(), RuntimeError("out of memory"))
    assert (sys.excepthook, sys.exit, signal.getsignal(signal.SIGINT)) == before
    (file,) = wandb_files(tmp_path / "run")
    assert said == [f"wandb: wandb sync {file.parent}"]
    found = wandb_run(file)
    assert (found["name"], found["project"]) == ("first light", "specvet")
    assert json.loads((tmp_path / "run" / "trackers.json").read_text()) == {"wandb": found["id"]}
    assert found["config"]["loop"]["optimiser"] == {"lr": 1e-6}
    rows = {row["_step"]: row for row in found["rows"]}
    assert {step: row["reward_mean"] for step, row in rows.items()} == REWARDS
    assert rows[5]["dev/accuracy"] == 0.75
    assert rows[2]["stops/answered"] == 62
    assert rows[3]["alarms"] == "zero_calls: it answers blind"
    assert found["alerts"] == [("first light: step 3", "zero_calls: it answers blind")]
    assert found["exit"] == 1


@needs("wandb")
def test_wandb_goes_on_under_its_id_with_all_steps_each_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = five_steps()
    session("wandb:offline", tmp_path / "run", [], lines[:4])
    session("wandb:offline", tmp_path / "run", lines[:2], lines[2:])
    assert capfd.readouterr() == ("", "")  # nothing tears the progress bars
    first, second = (wandb_run(file) for file in wandb_files(tmp_path / "run"))
    assert first["id"] == second["id"]
    assert {row["_step"]: row["reward_mean"] for row in second["rows"]} == REWARDS
    assert len(second["rows"]) == 5
    assert second["exit"] == 0


@needs("wandb")
def test_wandb_without_a_login_says_how_to_log_in_and_asks_nothing(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match=r"no API key was found. Run `wandb login` in a shell .* wandb:offline"):
        open_trackers(["wandb"], tmp_path, CONFIG)
    assert not (tmp_path / "trackers.json").exists()


# --- SwanLab


def swanlab_files(run: Path) -> list[Path]:
    return sorted((run / "swanlab").glob("run-*/run-*.swanlab"))


@needs("swanlab")
def test_swanlab_offline_holds_values_config_alarms_and_how_it_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sys.excepthook, sys.exit, signal.getsignal(signal.SIGINT)
    said = session("swanlab:offline", tmp_path / "run", [], five_steps(), RuntimeError("out of memory"))
    assert (sys.excepthook, sys.exit, signal.getsignal(signal.SIGINT)) == before
    assert capfd.readouterr() == ("", "")
    (file,) = swanlab_files(tmp_path / "run")
    assert said == [f"swanlab: swanlab sync {file.parent}"]
    found = swanlab_run(file)
    assert (found["name"], found["project"]) == ("first light", "specvet")
    assert json.loads((tmp_path / "run" / "trackers.json").read_text()) == {"swanlab": found["id"]}
    assert found["scalars"]["reward_mean"] == REWARDS
    assert found["scalars"]["stops/answered"][5] == 65
    assert found["scalars"]["dev/accuracy"] == {5: 0.75}
    assert found["texts"] == [("alarms", 3)]
    assert (found["state"], found["error"]) == ("RUN_STATE_CRASHED", "RuntimeError: out of memory")
    assert "profile" in (file.parent / "files" / "config.yaml").read_text()


@needs("swanlab")
def test_swanlab_offline_goes_on_under_its_id_with_all_steps(tmp_path: Path) -> None:
    lines = five_steps()
    session("swanlab:offline", tmp_path / "run", [], lines[:4], KeyboardInterrupt())
    session("swanlab:offline", tmp_path / "run", lines[:2], lines[2:])
    runs = [swanlab_run(file) for file in swanlab_files(tmp_path / "run")]
    assert [r["state"] for r in sorted(runs, key=lambda r: len(r["scalars"]["loss"]))] == [
        "RUN_STATE_ABORTED",
        "RUN_STATE_FINISHED",
    ]
    assert runs[0]["id"] == runs[1]["id"]
    assert max(runs, key=lambda r: len(r["scalars"]["loss"]))["scalars"]["reward_mean"] == REWARDS


@needs("swanlab")
@needs("swanboard")
def test_swanlab_local_writes_its_dashboard(tmp_path: Path) -> None:
    session("swanlab:local", tmp_path / "run", [], five_steps())
    logs = [f.read_text().splitlines() for f in sorted((tmp_path / "run" / "swanlab").glob("run-*/logs/*/1000.log"))]
    values = [[json.loads(text) for text in log] for log in logs]
    assert any([(v["index"], v["data"]) for v in log] == [(s, s / 10) for s in range(1, 6)] for log in values)


@needs("swanlab")
def test_swanlab_without_its_dashboard_or_a_login_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(TrackerError, match=r"no API key was found. Run `swanlab login` in a shell .* swanlab:offline"):
        open_trackers(["swanlab"], tmp_path, CONFIG)
    monkeypatch.setattr("specvet.training.watch.to_swanlab.installed", lambda package: False)
    with pytest.raises(TrackerError, match=r"pip install 'swanlab\[dashboard\]'"):
        check_trackers(["swanlab:local"])


@needs("swanlab")
def test_swanlab_online_has_each_step_once_after_a_resume(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = five_steps()
    with swanlab_service() as service:
        monkeypatch.setenv("SWANLAB_API_KEY", "k" * 21)
        monkeypatch.setenv("SWANLAB_API_HOST", service.url)
        said = session("swanlab", tmp_path / "run", [], lines[:4])
        session("swanlab", tmp_path / "run", lines[:2], lines[2:])
    assert said[0].startswith("swanlab: http://127.0.0.1")
    assert (service.created, service.resumed) == (1, 1)
    assert dict(service.values("reward_mean")) == REWARDS
    assert len(service.values("reward_mean")) == 5
    assert service.values("dev/accuracy") == [(5, 0.75)]
    assert service.states == ["FINISHED", "FINISHED"]
    assert service.configs[-1]["profile"]["value"] == "tiny"
    assert service.texts[0] == "zero_calls: it answers blind"


@needs("swanlab")
def test_a_swanlab_service_that_goes_away_holds_up_neither_steps_nor_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specvet.training.watch.to_swanlab.CLOSING_S", 0.5)
    with swanlab_service() as service:
        monkeypatch.setenv("SWANLAB_API_KEY", "k" * 21)
        monkeypatch.setenv("SWANLAB_API_HOST", service.url)
        said: list[str] = []
        trackers = open_trackers(["swanlab"], tmp_path, CONFIG, say=said.append)
        trackers.begin([])
        service.down = True
        for line in five_steps():
            trackers.log(line)
        trackers.close()
        assert len(said) == 2
        assert "swanlab: not everything was sent within 0 s; later: swanlab sync" in said[1]
        assert capfd.readouterr() == ("", "")
        service.down = False
    assert swanlab_run(swanlab_files(tmp_path)[0])["scalars"]["reward_mean"] == REWARDS
