"""What the documents show runs as it stands, and what they list is there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TRAINING = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rolled_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny model `FOLDER` and a rollout of it, `RUN`."""
    from specvet.cli.main import main
    from specvet.policies.torch.tiny import save_tiny

    folder = tmp_path_factory.mktemp("docs")
    save_tiny(folder / "FOLDER", "qwen2_5_vl", 0)
    spectrum = next((ROOT / "examples" / "spectra").glob("*dwarf-nova*"))
    asked = [str(spectrum), "--task", "cv", "--model", str(folder / "FOLDER"), "--max-tokens", "8", "--quiet"]
    assert main(["rollout", *asked, "--out", str(folder / "RUN"), "--device", "cpu"]) == 0
    return folder


def python_of(page: str, heading: str = "## In Python") -> str:
    """The indented code below a heading of a page."""
    section = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return textwrap.dedent("\n".join(line for line in section.splitlines() if line[:4] in ("", "    ")))


def test_the_python_of_the_page_on_models_reads_a_run_back(rolled_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = python_of("models.md")
    code = code[: code.index("policy.recomputed_logprobs")].replace(', adapter="LORA"', "")
    monkeypatch.chdir(rolled_out)
    names: dict[str, object] = {}
    exec(compile(code, "docs/models.md", "exec"), names)
    ledger, datum, policy = names["ledger"], names["datum"], names["policy"]
    assert ledger.n_sampled == datum.n_learnt > 0  # type: ignore[attr-defined]
    said = [x for s in ledger.sampled for x in s.logprobs.tolist()]  # type: ignore[attr-defined]
    assert policy.recomputed_logprobs(ledger) == pytest.approx(said, abs=1e-4)  # type: ignore[attr-defined]


def test_the_python_of_the_page_on_training_learns_from_a_run(
    rolled_out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    from specvet.policies.remote import resolve

    monkeypatch.chdir(rolled_out)
    names: dict[str, object] = {}
    exec(compile(python_of("training.md"), "docs/training.md", "exec"), names)
    step, update, trainer, datums = (names[name] for name in ("step", "update", "trainer", "datums"))
    assert step.loss == pytest.approx(-1, abs=1e-4)  # type: ignore[attr-defined]  # ratios of 1, advantages of 1
    assert step.n_active == sum(d.n_learnt for d in datums) > 0  # type: ignore[attr-defined]
    assert update.grad_norm > 0  # type: ignore[attr-defined]
    assert names["policy"] is trainer.sampler()  # type: ignore[attr-defined]
    asyncio.run(resolve(trainer.aclose()))  # type: ignore[attr-defined]


def test_the_python_of_the_page_on_training_writes_a_demonstration_that_can_be_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specvet.data.demonstrations import load_sft
    from specvet.data.toy import make_toy
    from specvet.training.opening import chat_format_of
    from specvet.training.profiles import resolve

    toy = make_toy(tmp_path / "toy", sft_train=2, sft_val=2, rl_train=2, dev=2)
    monkeypatch.chdir(tmp_path)
    code = python_of("training.md", "### Writing demonstrations").replace("QUESTIONS.jsonl", toy.rl_train)
    names: dict[str, object] = {}
    exec(compile(code, "docs/training.md", "exec"), names)
    rows, rejects = load_sft("demonstrations.jsonl", chat_format_of(resolve("sft", "tiny")), 2048)
    assert (len(rows), rejects) == (1, [])
    assert rows[0].datum().n_learnt > 0


def test_the_python_of_the_page_on_training_runs_both_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    monkeypatch.chdir(tmp_path)
    exec(compile(python_of("training.md", "## The loops in Python"), "docs/training.md", "exec"), {})
    for run, kinds in (("SFT", ["step", "validation"]), ("GRPO", ["step"])):
        found = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [line["kind"] for line in found] == kinds
        assert list(Path(run, "checkpoints").iterdir())


def test_the_page_on_training_lists_what_a_trainer_has_and_tests_that_there_are() -> None:
    from specvet.training.trainer import Trainer

    methods = [name for name, value in vars(Trainer).items() if callable(value) and name[0] != "_"]
    assert [name for name in methods if f"`{name}(" not in TRAINING] == []
    assert [name for name in Trainer.__annotations__ if f"`{name}`" not in TRAINING] == []
    named = set(re.findall(r"`((?:\w+/)*test_\w+\.py)`", TRAINING.partition("\n## Tests\n")[2]))
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_the_lines_of_the_loops_that_the_page_explains_stand_in_their_files() -> None:
    training = ROOT / "src" / "specvet" / "training"
    code = "".join((training / name).read_text(encoding="utf-8") for name in ("sft.py", "grpo.py", "groups.py"))
    shown = re.findall(r"```python\n(.*?)```", TRAINING, re.S)
    assert len(shown) >= 8
    assert [block for block in shown if block not in code] == []


def test_the_page_on_training_names_every_metric_alarm_loss_profile_and_backend() -> None:
    from typing import get_args

    from specvet.training.profiles import profile_names
    from specvet.training.registry import TRAINERS
    from specvet.training.trainer import LossName
    from specvet.training.watch import METRICS, RULES

    named = [*METRICS, *RULES, *get_args(LossName), *profile_names(), *TRAINERS]
    assert [name for name in named if f"`{name}`" not in TRAINING] == []


def test_every_option_on_the_page_on_training_exists(capsys: pytest.CaptureFixture[str]) -> None:
    from specvet.cli.main import main

    for command in (
        ["train", "base"],
        ["train", "sft"],
        ["train", "grpo"],
        ["train", "plot"],
        ["models", "merge"],
        ["pipeline", "nano"],
        ["rollout"],
    ):
        assert main([*command, "--help"]) == 0
    benchmark = (ROOT / "benchmarks" / "train_torch.py").read_text(encoding="utf-8")
    there = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out + benchmark))
    assert set(re.findall(r"--[a-z][a-z-]*", TRAINING)) - there == set()
