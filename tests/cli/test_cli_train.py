"""`specvet train` and `specvet models merge` as they are typed, on tiny models."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from cli_lab import SCRIPT, Specvet

from specvet.cli.main import main
from specvet.cli.train_summary import rollout_command
from specvet.data.toy import Toy, make_toy
from specvet.records import RunFolder, file_hash
from specvet.training.checkpoints import checkpoints, latest
from specvet.training.profiles import profile_names, read_config, resolve

torch = pytest.importorskip("torch")

PROFILE = """
profile: mine
about: a tiny one
model: {format: qwen2_5_vl, device: cpu, dtype: float32}
method: {kind: lora, rank: 2}
sft: {epochs: 1, batch: 2, optimiser: {lr: 1e-3}}
grpo:
  style: compact
  questions: 1
  group: 2
  optimiser: {lr: 1e-3}
  budget: {max_turns: 1, turn_tokens: 8, context: 4096}
"""


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for each other on a busy machine take longer than a tiny model itself."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy") / "data", sft_train=4, sft_val=2, rl_train=2, dev=2)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.yaml").write_text(PROFILE)
    return str(tmp_path / "mine.yaml")


def here(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, dict[str, Any]]:
    """A command run in this process, where torch is loaded already: its exit code, and its JSON."""
    code = main([*command, "--json"])
    out, err = capsys.readouterr()
    assert out, err
    return code, json.loads(out.splitlines()[-1])


# --- settings


def test_print_config_resolves_everything_and_touches_nothing(tmp_path: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('a socket')\n"
        "socket.socket.connect = refuse\n"
        "from specvet.cli.main import main\n"
        "code = main(['train', 'grpo', '--profile', 'qwen3.5-4b-chapter', '--lr', '2e-6', '--set', 'grpo.kl=0.1',\n"
        "  '--from', 'trio://run/weights/x', '--backend', 'trio', '--data', 'gone.jsonl', '--print-config'])\n"
        "heavy = [m for m in ('torch', 'transformers', 'pytrio', 'tinker', 'matplotlib') if m in sys.modules]\n"
        "print(code, heavy, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.split("\n")[-2] == "0 []"
    assert list(tmp_path.iterdir()) == []
    told = read_config("printed", done.stdout)
    assert (told.stage, told.backend, told.start, told.seed) == ("grpo", "trio", "trio://run/weights/x", 42)
    assert told.model_dump()["loop"] | {"kl": 0.1, "data": "gone.jsonl"} == told.model_dump()["loop"]
    assert told.loop.optimiser.lr == 2e-6


def test_what_is_printed_can_be_piped_back(specvet: Specvet, tmp_path: Path) -> None:
    first = specvet("train", "sft", "--profile", "spec-o3-3b-paper", "--batch", "2", "--print-config")
    assert first.returncode == 0, first.stderr
    again = subprocess.run(
        [SCRIPT, "train", "sft", "--config", "-", "--epochs", "7", "--print-config"],
        input=first.stdout,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout == first.stdout.replace("epochs: 5", "epochs: 7")


def test_what_is_typed_wrong_is_told_with_what_to_do(
    tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    assert main(["train", "sft", "--profile", mine, "--print-config"]) == 0
    config.write_text(capsys.readouterr().out)
    profile = ["--profile", mine]
    for command, says in (
        (["sft"], f"--profile or --config: which settings? profiles are {profile_names()[0]}"),
        (["sft", *profile, "--config", str(config)], "--profile or --config: which settings? give one of them"),
        (["sft", "--profile", "tiny-one"], "there is no profile 'tiny-one'"),
        (["sft", *profile], "sft.data: what shall be learnt? Give --data FILE, or --data toy"),
        (["grpo", *profile], "grpo.data: what shall be asked?"),
        (["sft", *profile, "--data", "gone.jsonl"], "gone.jsonl: no such file"),
        (["grpo", "--config", str(config)], "config.yaml: holds settings of sft; use specvet train sft"),
        (["grpo", *profile, "--group", "1"], "grpo.group: must be greater than or equal to 2, not 1"),
        (
            ["sft", *profile, "--lr", "1e-3", "--set", "sft.optimiser.lr=1"],
            "there is an option for it, which says 0.001",
        ),
        (["sft", *profile, "--backend", "tpu"], "backend: must be 'torch', 'trio' or 'tinker', not 'tpu'"),
        (["sft", *profile, "--from", "gone"], "gone: is neither a training run nor a checkpoint"),
        (
            ["sft", *profile, "--from", "http://abc"],
            "no address of saved weights; those begin with trio:// or tinker://",
        ),
        (["grpo", *profile, "--data", mine, "--set", "grpo.style=nice"], "grpo.style: style 'nice' is unknown"),
        (["sft", *profile, "--from", str(tmp_path)], "is neither a training run nor a checkpoint"),
        (["sft", *profile, "--data", "toy", "--tracker", "swanlap"], "there is no tracker 'swanlap'"),
        (["sft", *profile, "--data", "toy", "--prices", "gone.yaml"], "gone.yaml: cannot be read"),
        (["sft", *profile, "--data", "toy", "--model", str(tmp_path / "gone")], "gone"),
        (["sft", *profile, "--data", "toy", "--dry-run", "--assume", "turn=1"], "did you mean 'turns'"),
    ):
        code = main(["train", *command, "--out", str(tmp_path / "run")])
        said = capsys.readouterr().err
        assert (code, says in said, "Traceback" in said) == (2, True, False), (command, said)
    assert not (tmp_path / "run").exists()
    assert main(["train"]) == 2
    assert capsys.readouterr().err.startswith("Usage: specvet train")


def test_options_and_help_need_no_heavy_library() -> None:
    code = (
        "import sys; from specvet.cli.main import main\n"
        "for command in (['train', '--help'], ['train', 'grpo', '--help'], ['models', 'merge', '--help']):\n"
        "    main(command)\n"
        "print([m for m in ('torch', 'numpy', 'astropy', 'matplotlib') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--questions" in done.stdout


# --- dry runs


def test_a_dry_run_of_sft_says_what_it_would_be_and_leaves_nothing(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--validation", toy.sft_val, "--dry-run"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "Nothing was trained." in said
    assert "2 an epoch" in said
    assert "no price of this backend and model" in said
    assert not (tmp_path / "run").exists()
    code, told = here(capsys, *command, "--epochs", "3", "--assume", "train_rate=1000")
    assert (code, told["demonstrations"]["n"], told["steps"], told["images"]) == (0, 4, 6, 8)
    trained = told["demonstrations"]["total"] * 3
    assert told["estimate"]["usage"]["trained_tokens"] == trained
    assert told["estimate"]["cost"] is None
    assert told["estimate"]["seconds"] == trained / 1000
    (prices := tmp_path / "prices.yaml").write_text(
        "- {backend: torch, model: FOLDER, currency: EUR, train: 2, source: me, date: 2026-09}"
    )
    from specvet.chat.tiny import write_tiny

    write_tiny("qwen2_5_vl", tmp_path / "folder")
    prices.write_text(prices.read_text().replace("FOLDER", str(tmp_path / "folder")))
    priced = [*command, "--model", str(tmp_path / "folder"), "--prices", str(prices)]
    _, told = here(capsys, *priced)
    assert told["estimate"]["cost"] == pytest.approx(trained / 3 * 2e-6)
    assert main(priced) == 0
    assert "EUR" in capsys.readouterr().out


def test_a_dry_run_of_grpo_states_what_it_assumes(toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "grpo", "--profile", mine, "--data", toy.rl_train, "--dev", toy.dev, "--dry-run"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "Assumed: 1 turn a trajectory, 8 tokens a turn" in said
    assert "2 toy" in said
    code, told = here(capsys, *command, "--assume", "turns=2", "--assume", "observed=50", "--group", "4")
    assert (code, told["trajectories"], told["dev_trajectories"], told["by_task"]) == (0, 8, 4, {"toy": 2})
    assert (told["assumed"]["turns"], told["assumed"]["sampled"], told["assumed"]["observed"]) == (2, 8, 50)
    assert told["estimate"]["usage"]["sampled_tokens"] == 12 * 16
    assert main([*command, "--set", "grpo.context=500"]) == 0
    assert "2 that cannot be asked, since their first prompt is too long:" in capsys.readouterr().out


# --- training


def test_sft_then_grpo_then_a_merged_model_each_by_the_command_that_the_one_before_says(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sft = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--validation", toy.sft_val]
    sft += ["--out", str(tmp_path / "sft")]
    assert main(sft) == 0
    out, err = capsys.readouterr()
    assert "sft of a tiny random model (LoRA of rank 2) on torch" in out
    assert "validation loss" in out
    assert f"specvet train grpo --profile {mine} --backend torch --from {tmp_path}/sft/checkpoints/epoch-01" in out
    assert "--data QUESTIONS.jsonl" in out  # the profile names none
    assert f"saved {tmp_path}/sft/checkpoints/epoch-01" in err
    code, told = here(capsys, *sft)
    assert (code, told["steps"], told["finished"], told["checkpoints"]) == (0, 2, True, ["epoch-01"])
    assert told["metrics"]["validation/loss"]["last"] > 0
    assert told["cost"] is None

    grpo = ["train", "grpo", "--profile", mine, "--from", str(tmp_path / "sft"), "--data", toy.rl_train]
    grpo += ["--dev", toy.dev, "--out", str(tmp_path / "grpo")]
    code, told = here(capsys, *grpo)
    assert (code, told["steps"], told["finished"]) == (0, 2, True)
    assert told["metrics"]["dev/questions"]["last"] == 2
    used = told["usage"]
    assert used["sampled_tokens"] > 0
    assert used["probes.sampled_tokens"] > 0
    with RunFolder.read(tmp_path / "grpo") as run:
        receipt = run.receipt()
        assert len(list(run.decisions())) == 4
    assert {p["name"]: p["ok"] for p in receipt.probes}["swap_image"] is True
    begun = tmp_path / "sft" / "checkpoints" / "epoch-01"
    assert receipt.settings["start"] == file_hash(begun / "checkpoint.json")
    with RunFolder.read(tmp_path / "grpo" / "dev" / "step-000002") as run:
        assert len(list(run.decisions(with_trajectories=True))) == 2
    repeated = ["train", "grpo", "--config", str(tmp_path / "grpo"), "--no-probes", "--quiet"]
    code, again = here(capsys, *repeated, "--out", str(tmp_path / "again"))
    assert code == 0
    for name in ("reward_mean", "loss", "sampled_mean", "dev/accuracy"):
        assert again["metrics"].get(name) == told["metrics"].get(name)

    merge = f"specvet models merge --adapter {tmp_path}/grpo/checkpoints/epoch-01 --out {tmp_path}/grpo-merged"
    assert told["next"][0] == merge  # adapters of a tiny random model, which lies in no folder
    assert main([*shlex.split(merge)[1:-1], str(tmp_path / "merged")]) == 0
    rollout = capsys.readouterr().out.splitlines()[-1].strip()
    budget = "--max-turns 1 --max-tokens 8 --context 4096"
    model = f"--policy torch --model {tmp_path}/merged"
    assert rollout == f"specvet rollout {toy.dev} {model} --style compact {budget}"
    answers(capsys, rollout, tmp_path / "answers", 2)
    assert (tmp_path / "merged" / "config.json").is_file()
    dry = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--model", str(tmp_path / "merged"), "--dry-run"]
    assert here(capsys, *dry)[1]["demonstrations"]["n"] == 4
    lora = latest(tmp_path / "grpo")
    assert lora is not None
    assert main(["models", "merge", "--adapter", lora.where(lora.sampler), "--out", str(tmp_path / "other")]) == 2
    assert "--model is missing" in capsys.readouterr().err
    assert main(["models", "merge", "--adapter", str(tmp_path / "sft"), "--out", str(tmp_path / "merged")]) == 2
    assert "is not empty" in capsys.readouterr().err


def answers(capsys: pytest.CaptureFixture[str], command: str, out: Path, n: int) -> None:
    """Run a `specvet rollout` that was printed: `n` trajectories, each ended by the model's own turn."""
    code, _ = here(capsys, *shlex.split(command)[1:], "--out", str(out), "--no-probes", "--quiet")
    assert code == 0
    with RunFolder.read(out) as run:
        made = [d.trajectory for d in run.decisions(with_trajectories=True) if d.trajectory is not None]
    assert len(made) == n
    assert {t.stop.value for t in made} <= {"answered", "truncated", "malformed", "max_turns", "image_ids"}
    assert all(len(t.turns) == 1 for t in made)


def test_all_weights_answer_by_the_command_that_training_says(
    tmp_path: Path, toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "grpo", "--profile", "tiny", "--data", toy.rl_train, "--dev", toy.dev, "--questions", "1"]
    command += ["--group", "2", "--set", "grpo.max_steps=1", "--set", "grpo.max_turns=1", "--set", "grpo.turn_tokens=8"]
    assert main([*command, "--no-probes", "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "1 step (epoch" in said
    (rollout,) = [line.strip() for line in said.splitlines() if "specvet rollout" in line]
    weights = tmp_path / "run" / "checkpoints" / "step-000001" / "step-000001-sampler"
    assert rollout == (
        f"specvet rollout {toy.dev} --policy torch --model {weights} --format qwen2_5_vl --style compact "
        "--top-p 0.98 --max-turns 1 --max-tokens 8 --context 2048"
    )
    answers(capsys, rollout, tmp_path / "answers", 2)


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_the_command_that_asks_a_trained_model_names_the_toy_set_that_lies_in_the_run(
    stage: Literal["sft", "grpo"], tmp_path: Path
) -> None:
    config = resolve(stage, "tiny")
    looks = "--model x --style compact --top-p 0.98 --max-turns 3 --max-tokens 64 --context 2048"
    assert rollout_command(["--model", "x"], tmp_path, config) == f"specvet rollout QUESTIONS {looks}"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dev.jsonl").touch()
    assert rollout_command(["--model", "x"], tmp_path, config) == f"specvet rollout {tmp_path}/data/dev.jsonl {looks}"
    assert rollout_command(["--model", "x y"], None, None) == "specvet rollout QUESTIONS --model 'x y'"


def test_data_of_ones_own_are_not_measured_by_the_toy_set_unless_asked_for(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stage, held, data in (("sft", "validation", toy.sft_train), ("grpo", "dev", toy.rl_train)):
        command = ["train", stage, "--profile", "tiny", "--print-config", "--data"]
        for given, kept, says in (
            ([data], None, f"to be measured by is left out; --{held} FILE names another\n"),
            ([data, "--quiet"], None, ""),
            ([data, f"--{held}", "toy"], "toy", ""),
            (["toy"], "toy", ""),
        ):
            assert main([*command, *given]) == 0
            out, err = capsys.readouterr()
            assert read_config("printed", out).model_dump()["loop"][held] == kept
            assert (err.endswith(says), err.count("\n")) == (True, says.count("\n"))
    assert main(["train", "sft", "--profile", "tiny", "--print-config"]) == 0
    (tmp_path / "config.yaml").write_text(capsys.readouterr().out)
    again = ["train", "sft", "--config", str(tmp_path / "config.yaml"), "--data", toy.sft_train, "--print-config"]
    assert main(again) == 0
    assert read_config("printed", capsys.readouterr().out).model_dump()["loop"]["validation"] is None


def test_a_run_that_is_over_compares_data_and_start_all_the_same(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sft = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--out", str(tmp_path / "sft")]
    grpo = ["train", "grpo", "--profile", mine, "--from", str(tmp_path / "sft"), "--data", toy.rl_train]
    grpo += ["--out", str(tmp_path / "grpo"), "--no-probes", "--set"]
    longer, grpo = [*grpo, "grpo.max_steps=2", "--quiet"], [*grpo, "grpo.max_steps=1"]
    assert main([*sft, "--quiet"]) == main([*grpo, "--quiet"]) == 0
    for command, says in (
        ([*sft, "--data", toy.sft_val], "this run was made with data = "),
        ([*sft, "--validation", toy.sft_val], "this run was made with validation = none, but now validation = "),
        ([*grpo, "--data", toy.dev], "this run was made with data = "),
        ([*grpo, "--dev", toy.dev], "this run was made with dev = none, but now dev = "),
    ):
        assert main(command) == 2, command
        assert says in capsys.readouterr().err

    assert main([*sft, "--quiet", "--epochs", "2"]) == 0
    assert main(grpo) == 0  # what --from names has gained a checkpoint: it began from the first
    assert "nothing was left to do: this run is over\n" in capsys.readouterr().err
    assert main([*grpo, "--from", str(tmp_path / "sft" / "checkpoints" / "epoch-02")]) == 2
    assert "this run was made with start = " in capsys.readouterr().err
    (tmp_path / "sft").rename(tmp_path / "moved")
    assert main(longer) == 0
    assert [c.name for c in checkpoints(tmp_path / "grpo")] == ["step-000001", "epoch-01"]


def test_a_folder_that_cannot_be_a_run_is_told_before_the_model_is_opened(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    command = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--model", str(tmp_path / "gone")]
    for out, says in ((mine, "is a file"), (f"{mine}/run", "a part of this path is a file"),
                      (str(tmp_path / "other"), "holds other files (notes.txt) and is no run")):  # fmt: skip
        assert main([*command, "--out", out]) == 4
        assert says in capsys.readouterr().err
    assert main(["models", "merge", "--adapter", "nope", "--out", str(tmp_path / "merged")]) == 2
    assert "nope: there is no such folder" in capsys.readouterr().err


def test_a_checkpoint_brings_its_model_and_its_rank_along(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sft = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--rank", "3", "--quiet", "--out"]
    assert main([*sft, str(tmp_path / "sft")]) == 0
    chapter = ["train", "grpo", "--profile", "qwen3.5-4b-chapter", "--from", str(tmp_path / "sft"), "--print-config"]
    assert capsys.readouterr().out == ""
    code, told = here(capsys, *chapter)
    assert code == 0
    assert (told["model"]["name"], told["model"]["format"], told["method"]["rank"]) == (None, "qwen2_5_vl", 3)
    assert told["start"] == str(tmp_path / "sft" / "checkpoints" / "epoch-01")
    _, told = here(capsys, *chapter, "--model", "mine")
    assert (told["model"]["name"], told["model"]["format"], told["method"]["rank"]) == ("mine", "qwen3_5", 3)
    _, told = here(capsys, *chapter, "--rank", "8")
    assert told["method"]["rank"] == 8


def test_settings_that_a_run_cannot_change_are_named_and_a_damaged_checkpoint_stops_it(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "sft", "--profile", mine, "--data", toy.sft_train, "--quiet", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    assert main([*command, "--lr", "5"]) == 2
    assert "this run was made with sft.optimiser.lr = 0.001" in capsys.readouterr().err
    (saved,) = checkpoints(tmp_path / "run")
    broken = saved.folder / next(iter(saved.files))
    broken.write_bytes(broken.read_bytes()[:-1])
    assert main([*command, "--epochs", "2"]) == 2
    said = capsys.readouterr().err
    assert f"{broken}: is damaged" in said
    assert "the same command goes on from the beginning" in said


def test_ctrl_c_ends_with_a_checkpoint_and_the_same_command_goes_on(
    tmp_path: Path, toy: Toy, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    many = tmp_path / "many.jsonl"
    lines = [json.loads(line) for line in Path(toy.sft_train).read_text().splitlines()]
    copies = [{**line, "id": f"{line['id']}-{i}"} for i in range(3) for line in lines]
    many.write_text("".join(json.dumps(line) + "\n" for line in copies))
    os.symlink(toy.folder / "images", tmp_path / "images")
    command = ["train", "sft", "--profile", mine, "--data", str(many), "--out", str(tmp_path / "run")]

    def interrupt() -> None:
        while not (tmp_path / "run" / "metrics.jsonl").exists():
            time.sleep(0.01)  # waits for another thread; nothing tells otherwise
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    code = main(command)
    thread.join()
    said, errors = capsys.readouterr()
    assert code == 130, errors
    assert "To go on: specvet" in errors
    assert "Checkpoints in" in said
    assert "Next:" not in said
    stopped = latest(tmp_path / "run")
    assert stopped is not None
    assert 1 <= stopped.step < 6
    code, told = here(capsys, *command, "--quiet")
    assert (code, told["steps"], told["finished"]) == (0, 6, True)
