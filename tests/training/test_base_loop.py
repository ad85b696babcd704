"""`specvet train base`, whole: it learns, what it writes loads everywhere, and it ends well however it ends."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from base_lab import small_folder  # noqa: E402
from bumps_lab import Bumps, Late  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from specvet.chat import Vocabulary  # noqa: E402
from specvet.cli.main import app  # noqa: E402
from specvet.policies.manner import NANO, manner_of  # noqa: E402
from specvet.policies.options import ModelOptions  # noqa: E402
from specvet.policies.torch.loading import load  # noqa: E402
from specvet.training.base import BaseConfig, loop  # noqa: E402
from specvet.training.base.feed import READY, WAITING_AT_MOST, FeedError  # noqa: E402
from specvet.training.base.loop import Progress, train_base  # noqa: E402
from specvet.training.trainer import TrainerError  # noqa: E402


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("start") / "model")


def config(start: Path, **more: Any) -> BaseConfig:
    told = {"documents": 160, "batch": 4, "held_out": 4, "workers": 1, "lr": 1e-2, "device": "cpu", "warmup": 5}
    return BaseConfig(start=str(start), **(told | more))


@pytest.fixture(scope="module")
def run(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[Progress]]:
    out = tmp_path_factory.mktemp("run") / "base"
    seen: list[Progress] = []
    patch = pytest.MonkeyPatch()
    patch.setattr(loop, "source_of", lambda config: Bumps())
    try:
        receipt = train_base(config(start), out, told=seen.append)
    finally:
        patch.undo()
    return out, receipt, seen


def test_the_loss_falls_and_held_out_replies_are_right(run: tuple[Path, dict[str, Any], list[Progress]]) -> None:
    out, receipt, _ = run
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step"]
    assert steps[-1]["loss"] < 1.2 < 3.0 < steps[0]["loss"]
    assert steps[-1]["ink_loss"] < steps[0]["ink_loss"]
    found = json.loads((out / "held_out.json").read_text())
    assert list(found) == ["all", "call", "peak", "seen"]
    assert found["all"]["replies"] == 12
    assert found["seen"]["right"] > 0.5
    assert lines[-1]["kind"] == "validation"
    assert receipt["held_out"] == found["all"]


def test_the_receipt_counts_what_was_done(run: tuple[Path, dict[str, Any], list[Progress]]) -> None:
    out, receipt, seen = run
    assert receipt["finished"]
    assert receipt["updates"] == 40
    assert receipt["documents"] == 160
    assert receipt["documents_repeated"] < 160
    assert receipt["left_out"] == {"too_long": 0, "failed": 0, "first_failure": "", "lost_producers": 0}
    assert 0.0 <= receipt["data_wait"] < 1.0
    assert list(receipt["files"]) == ["model.safetensors"]
    assert json.loads((out / "receipt.json").read_text()) == receipt
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (seen[-1].documents, seen[-1].share) == (160, 1.0)


def test_the_model_folder_loads_here_and_in_transformers(run: tuple[Path, dict[str, Any], list[Progress]]) -> None:
    folder = run[0] / "model"
    model, format = load(ModelOptions(model=str(folder), device="cpu"))
    assert format.name == "qwen2_5_vl"
    assert model.n_ids == 1_536
    stock: Any = transformers
    theirs = stock.AutoModelForImageTextToText.from_pretrained(folder)
    assert theirs.dtype == torch.bfloat16
    assert theirs.lm_head.weight is theirs.model.language_model.embed_tokens.weight
    words = stock.AutoTokenizer.from_pretrained(folder)
    text = "<|im_start|>user\nPeak?<|im_end|>\n<|im_start|>assistant\n<think>Peak 4500.</think>"
    assert words(text)["input_ids"] == Vocabulary.load(folder).encode(text)
    assert manner_of(folder) == NANO


def test_a_finished_run_is_left_as_it_is(run: tuple[Path, dict[str, Any], list[Progress]], start: Path) -> None:
    out, receipt, _ = run
    metrics = (out / "metrics.jsonl").read_bytes()
    assert train_base(config(start, workers=2), out) == receipt
    with pytest.raises(TrainerError, match="holds a finished run that was told something else"):
        train_base(config(start, lr=1e-4), out)
    assert (out / "metrics.jsonl").read_bytes() == metrics


def test_who_stops_it_gets_what_was_learnt(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "source_of", lambda config: Bumps())
    stop = threading.Event()

    def told(progress: Progress) -> None:
        if progress.documents >= 40:
            stop.set()

    receipt = train_base(config(start, seconds=600.0, documents=None), tmp_path / "run", told=told, stopping=stop)
    assert not receipt["finished"]
    assert receipt["documents"] == 40
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    assert receipt["held_out"] is None


def test_a_producer_that_starts_after_the_others_have_filled_what_waits_is_waited_for(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With large files and small batches the first would otherwise keep the last from ever being heard."""
    batch = 4
    made_by_the_first = (WAITING_AT_MOST + READY) * batch
    late = Late(str(tmp_path / "far"), far=2 * made_by_the_first)  # the two take turns, a stretch each
    monkeypatch.setattr(loop, "source_of", lambda config: late)
    receipt = train_base(config(start, documents=8, batch=batch, workers=2), tmp_path / "run")
    assert receipt["finished"]
    assert receipt["left_out"]["lost_producers"] == 0
    assert receipt["held_out"] is not None


def test_documents_that_cannot_be_made_end_it_with_the_reason(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "source_of", lambda config: Bumps(broken=True))
    with pytest.raises(FeedError, match="no bump can be made"):
        train_base(config(start), tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "seconds, documents or epochs"),
        (["--seconds", "5", "--documents", "5"], "seconds, documents or epochs"),
        (["--seconds", "5", "--batch", "0"], "--batch: Input should be greater than or equal to 1"),
        (["--seconds", "5", "--from", "m", "--vocabulary", "v"], "has its own"),
        (["--seconds", "5", "--data", "/no/such.jsonl"], "/no/such.jsonl"),
        (["--seconds", "5", "--vocabulary", "/no/such"], "no such file or folder"),
    ],
)
def test_the_command_says_what_is_wrong_with_it(options: list[str], words: str, tmp_path: Path) -> None:
    from specvet.cli.failure import USAGE, CommandError

    with pytest.raises(CommandError, match=words) as caught:
        CliRunner().invoke(
            app,
            ["train", "base", "--out", str(tmp_path / "run"), *options],
            standalone_mode=False,
            catch_exceptions=False,
        )
    assert caught.value.code == USAGE
