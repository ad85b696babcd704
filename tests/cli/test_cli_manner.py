"""A model whose folder says how it is asked is asked so by vet, rollout and eval run, but for what the user says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_lab import write_star

from specvet.cli import asking
from specvet.cli.main import main
from specvet.policies.manner import NANO, PUBLISHED
from specvet.records import RunFolder
from specvet.records.schema import TrajectoryRecord
from specvet.tasks import SHORT_SYSTEM_TEXT, SYSTEM_TEXT

torch = pytest.importorskip("torch")

MANNER = NANO.model_copy(update={"max_turns": 3, "turn_tokens": 12, "context": 1_000, "tasks": ("cv", "wd")})
SAYS = "(short wording, compact-1 pictures (tiny), 3 turns, 12 tokens a turn, 1,000 in all)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model that says how it is asked."""
    from specvet.policies.torch.tiny import save_tiny

    place = save_tiny(tmp_path_factory.mktemp("models") / "small")
    (place / "specvet.json").write_text(json.dumps({"manner": MANNER.model_dump(mode="json")}))
    return place


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


@pytest.fixture
def star(tmp_path: Path) -> str:
    return str(write_star(tmp_path / "star.txt"))


def model(folder: Path) -> list[str]:
    return ["--policy", "torch", "--model", str(folder), "--device", "cpu", "--dtype", "float32", "--no-probes"]


def kept(run_folder: Path) -> tuple[dict[str, Any], TrajectoryRecord, dict[str, Any]]:
    """Settings of the receipt, one trajectory, and the config."""
    with RunFolder.read(run_folder) as run:
        (decision,) = run.decisions(with_trajectories=True)
        settings = dict(run.receipt().settings)
    assert decision.trajectory is not None
    return settings, decision.trajectory, yaml.safe_load((run_folder / "config.yaml").read_text())


def picture(record: TrajectoryRecord) -> tuple[int, int]:
    assert record.ledger is not None
    image = next(s["image"] for s in record.ledger["segments"] if "image" in s)
    return image["width"], image["height"]


SHORT = {
    "wording": "short",
    "style": "compact-1",
    "size": "tiny",
    "budget.max_turns": 3,
    "budget.turn_tokens": 12,
    "budget.context": 1_000,
}


@pytest.mark.parametrize("command", ["vet", "rollout"])
def test_the_folder_is_followed_and_what_the_user_says_goes_before_it(
    command: str, tmp_path: Path, folder: Path, star: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [command, star, "--task", "cv", *model(folder), "--out"]
    assert main([*asked, str(tmp_path / "A")]) in (0, 1)
    assert f"asked as the folder of small says {SAYS}\n" in capsys.readouterr().err
    settings, record, config = kept(tmp_path / "A")
    assert {name: settings[name] for name in SHORT} == SHORT
    assert (config["wording"], config["size"], config["budget"]["context"]) == ("short", "tiny", 1_000)
    assert picture(record) == (224, 168)
    more = ["--wording", "full", "--size", "small", "--max-tokens", "6"]
    assert main([*asked, str(tmp_path / "B"), *more]) in (0, 1)
    told = capsys.readouterr().err
    assert f"{SAYS}; otherwise as you said: --wording, --size, --max-tokens\n" in told
    settings, record, _ = kept(tmp_path / "B")
    assert (settings["wording"], settings["size"], settings["budget.turn_tokens"]) == ("full", "small", 6)
    assert settings["budget.max_turns"] == 3
    # The whole wording and its tools do not fit into the context that the folder names: the program says so itself.
    assert (record.stop, record.stop_detail) == ("context", "opening")
    assert main([*asked, str(tmp_path / "A"), "--wording", "full"]) == 2
    assert "wording = short, but now wording = full" in capsys.readouterr().err


def test_eval_run_writes_the_manner_into_the_campaign_and_verifies(
    tmp_path: Path, folder: Path, star: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    question = {"id": "q", "task": "cv", "spectrum": {"path": "star.txt"}, "answer": "YES"}
    own = {"prompt": "<image> Is it? Say YES or NO.", "system": "You are a judge."}
    (tmp_path / "q.jsonl").write_text(json.dumps(question | own) + "\n")
    command = ["eval", "run", "q.jsonl", *model(folder), "--out", "E", "--max-turns", "2"]
    assert main(command) == 0
    assert "small is asked as its folder says, where nothing else is said: short wording" in capsys.readouterr().err
    settings = yaml.safe_load(Path("E/campaign.yaml").read_text())["policies"]["small"]["settings"]
    assert settings == {
        "max_turns": 2,
        "device": "cpu",
        "dtype": "float32",
        "wording": "short",
        "style": "compact-1",
        "size": "tiny",
        "max_tokens": 12,
        "context": 1_000,
    }
    (cell,) = Path("E/cells").iterdir()
    told, record, _ = kept(cell)
    assert {name: told[name] for name in SHORT} == SHORT | {"budget.max_turns": 2}
    assert (record.question.prompt, record.question.system) == (None, None)  # the short wording asks without them
    assert main(["eval", "verify", "E"]) == 0, capsys.readouterr().out
    assert main(command) == 0
    assert "it is complete already" in capsys.readouterr().err
    assert main([*command[:-2], "--name", "whole", "--wording", "full", "--context", "4000", "--print-config"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)["policies"]["whole"]["settings"]
    assert (shown["wording"], shown["context"], shown["size"]) == ("full", 4_000, "tiny")


def test_a_campaign_file_is_asked_as_the_folders_say_but_for_a_policys_own_settings(
    tmp_path: Path, folder: Path, star: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "q", "task": "cv", "spectrum": {"path": "star.txt"}}) + "\n")
    campaign = {
        "name": "c",
        "sets": {"s": {"path": "q.jsonl"}},
        "policies": {
            "as-it-says": {"model": str(folder)},
            "otherwise": {"model": str(folder), "settings": {"style": "reference", "max_turns": 5}},
            "measures": {"policy": "line-indices"},
        },
        "settings": {"max_tokens": 900},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(campaign))
    assert main(["eval", "run", "c.yaml", "--print-config", "--context", "1200"]) == 0
    text = capsys.readouterr().out
    found = yaml.safe_load(text)["policies"]
    assert found["as-it-says"]["settings"] == {
        "wording": "short", "style": "compact-1", "size": "tiny", "max_turns": 3, "max_tokens": 12
    }  # fmt: skip
    assert (found["otherwise"]["settings"]["style"], found["otherwise"]["settings"]["max_turns"]) == (
        "spec-o3-reference-1",
        5,
    )
    assert found["otherwise"]["settings"]["size"] is None or "size" not in found["otherwise"]["settings"]
    assert "settings" not in found["measures"]
    assert yaml.safe_load(text)["settings"]["context"] == 1_200  # the command line, for all


def test_what_is_typed_wrong_is_told(tmp_path: Path, star: str, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "specvet.json").write_text('{"manner": {"wording": "long"}}')
    tiny = ["--policy", "torch"]
    for arguments, says in (
        (["vet", star, "--task", "cv", *tiny, "--wording", "long"], "--wording long: choose full or short"),
        (["vet", star, "--task", "cv", *tiny, "--style", "compact", "--size", "huge"], "huge"),
        (["vet", star, "--task", "cv", "--model", str(bad)], "--model: say with --policy who runs it"),
        (["rollout", star, "--task", "cv", *tiny, "--model", str(bad)], "specvet.json: says nothing that can be read"),
    ):
        code = main([*arguments, "--out", str(tmp_path / "run")])
        said = capsys.readouterr().err
        assert (code, says in said, "Traceback" in said) == (2, True, False), said
    assert not (tmp_path / "run").exists()


def test_a_model_is_not_asked_in_silence_about_what_it_was_not_trained_on(
    tmp_path: Path, folder: Path, star: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["rollout", star, "--task", "cv,gm", *model(folder), "--limit", "1", "--out", str(tmp_path / "A")]
    assert main(command) in (0, 1)
    assert (
        "the model was trained on cv, wd and not on gm: its answers about that mean little" in capsys.readouterr().err
    )


def test_the_wordings_differ_in_what_the_model_is_told(tmp_path: Path, folder: Path, star: str) -> None:
    asked = ["rollout", star, "--task", "cv", *model(folder), "--quiet", "--out"]
    assert main([*asked, str(tmp_path / "short")]) in (0, 1)
    assert main([*asked, str(tmp_path / "full"), "--wording", "full", "--context", "9000"]) in (0, 1)
    words = {}
    for name in ("short", "full"):
        record = kept(tmp_path / name)[1]
        assert record.ledger is not None
        words[name] = repr(record.ledger)
    assert SHORT_SYSTEM_TEXT in words["short"]
    assert "spectral_visualization_tool" not in words["short"]
    assert SYSTEM_TEXT[:40] in words["full"]
    assert "spectral_visualization_tool" in words["full"]


def test_where_no_model_is_named_it_is_said_that_random_weights_answer() -> None:
    told = [asking.manner_for(policy, model, {}, PUBLISHED)[1] for policy, model in (("torch", None), ("openai", None))]
    assert told == [asking.RANDOM_WEIGHTS, ""]
    assert "means nothing" in asking.RANDOM_WEIGHTS
