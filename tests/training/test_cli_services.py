"""`specvet train` on a service, as it is typed: both stages, their cost, a service that is blind, one that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specvet.cli.main import main
from specvet.data.toy import make_toy
from specvet.records import RunFolder
from specvet.training.estimate import load_prices

pytest.importorskip("torch")

PROFILE = """
profile: mine
about: a tiny one
method: {kind: lora, rank: 4}
sft: {epochs: 1, batch: 2}
grpo:
  style: compact
  questions: 2
  group: 2
  budget: {max_turns: 1, turn_tokens: 8, context: 4096}
"""


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from service_lab import services

    with services("trio", tmp_path_factory.mktemp("home")) as made:
        yield made


def test_both_stages_run_on_a_service_by_their_commands(
    trio: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = trio.here.options
    toy = make_toy(tmp_path / "toy", sft_train=2, sft_val=2, rl_train=2, dev=2)
    (tmp_path / "mine.yaml").write_text(PROFILE)
    (prices := tmp_path / "prices.yaml").write_text(
        f"- {{backend: trio, model: {options.model}, currency: CNY, train: 4, source: me, date: 2026-09}}"
    )
    (price,) = load_prices(str(prices))
    common = ["--profile", str(tmp_path / "mine.yaml"), "--backend", "trio", "--model", options.model, "--base-url"]
    common += [options.base_url, "--tokenizer", options.tokenizer, "--prices", str(prices)]

    def here(*command: str) -> tuple[int, dict[str, Any], str]:
        code = main(["train", *command, "--json"])
        out, err = capsys.readouterr()
        return code, json.loads(out.splitlines()[-1]) if out else {}, err

    sft = ["sft", *common, "--data", toy.sft_train, "--out", str(tmp_path / "sft")]
    trio.faults.training_fails = "the machine burns"
    code, _, said = here(*sft)
    assert code == 1
    assert "the machine burns" in said
    assert f"what was saved by then is in {tmp_path}/sft. To go on: specvet" in said
    assert "Traceback" not in said
    trio.faults.training_fails = ""
    code, told, _ = here(*sft)
    assert (code, told["steps"], told["finished"]) == (0, 1, True)
    assert told["cost"] == pytest.approx(told["usage"]["trained_tokens"] * price.train / 1e6)  # type: ignore[operator]
    assert told["currency"] == "CNY"
    assert told["sampler"].startswith("trio://")
    assert f"--policy trio --model {options.model} --adapter {told['sampler']}" in told["next"][1]

    # Backend, address, model, tokenizer and rank come with the checkpoint.
    grpo = ["grpo", *common[:2], "--from", str(tmp_path / "sft"), "--prices", str(prices)]
    grpo += ["--data", toy.rl_train, "--out", str(tmp_path / "grpo")]
    trio.faults.blind = True
    code, _, said = here(*grpo)
    assert code == 1
    assert "the sampler of trio failed its probes: swap_image" in said
    assert "--no-probes goes on all the same" in said
    trio.faults.blind = False
    code, told, _ = here(*grpo)
    assert (code, told["steps"], told["finished"], told["model"]) == (0, 1, True, options.model)
    assert told["usage"]["prefilled_tokens"] > 0
    assert told["cost"] is None  # sampling has no price in that file
    with RunFolder.read(tmp_path / "grpo") as run:
        assert {p["name"]: p["ok"] for p in run.receipt().probes}["swap_image"] is True
        assert len(list(run.decisions())) == 4
