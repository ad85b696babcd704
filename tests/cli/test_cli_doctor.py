"""`specvet doctor`: what is installed, and whether a model sees what it is shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specvet.cli.main import main

sys.path.append(str(Path(__file__).parents[1] / "policies"))

from openai_lab import ANSWER, LoopbackServer, Said, completion, error
from probe_lab import Meddling, SeeingText, blank

from specvet.policies.options import ModelOptions


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


def test_without_a_policy_it_says_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    found = told(capsys)
    assert found["ok"] is True
    assert {"python", "specvet", "numpy", "matplotlib"} <= set(found["versions"])
    assert set(found["extras"]) == {"train", "trio", "tinker"}
    assert isinstance(found["fast_figure"], bool)
    assert "probes" not in found
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "specvet doctor --policy torch" in said
    assert f"torch {found['versions']['torch']}, transformers {found['versions']['transformers']}" in said


def test_torch_without_a_model_probes_a_tiny_random_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--policy", "torch", "--device", "cpu", "--json"]) == 0
    found = told(capsys)
    assert (found["policy"], found["format"], found["device"], found["dtype"]) == (
        "torch",
        "qwen2_5_vl",
        "cpu",
        "float32",
    )
    probes = {p["name"]: p for p in found["probes"]}
    assert {"token_count", "swap_image", "later_image", "alpha", "prefix", "recomputed_logprobs"} <= set(probes)
    assert all(p["ok"] or p["skipped"] for p in found["probes"])
    assert probes["recomputed_logprobs"]["value"] <= probes["recomputed_logprobs"]["bound"]
    assert found["requests"] <= 26
    assert len(found["fingerprint"]) == 64


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--policy", "torch", "--device", "cpu", "--fast"]) == 0
    out = capsys.readouterr().out
    assert "swap_image" in out
    assert "none failed (9 requests" in out


def test_a_blind_model_ends_with_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from specvet.cli import models

    opened = models.open_model
    monkeypatch.setattr(models, "open_model", lambda name, options: Meddling(opened(name, options), redraw=blank))
    assert main(["doctor", "--policy", "torch", "--device", "cpu", "--fast", "--json"]) == 1
    found = told(capsys)
    assert found["ok"] is False
    assert [p["name"] for p in found["probes"] if p["ok"] is False] == [
        "swap_image",
        "later_image",
        "recomputed_logprobs",
        "prefix",
    ]
    assert main(["doctor", "--policy", "torch", "--device", "cpu", "--fast"]) == 1
    assert "4 failed" in capsys.readouterr().out


def test_a_text_policy_says_what_cannot_be_probed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specvet.cli import models

    monkeypatch.setattr(models, "open_model", lambda name, options: SeeingText())
    assert main(["doctor", "--policy", "openai", "--json"]) == 0
    skipped = {p["name"]: p["skipped"] for p in told(capsys)["probes"] if p["ok"] is None}
    assert skipped["exact_ids"] == "a text policy has no ids"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "torhc"], "did you mean 'torch'"),
        (["--policy", "line-indices"], "nothing to probe"),
        (["--policy", "trees"], "nothing to probe"),
        (["--policy", "openai"], "--base-url http://localhost:8000/v1"),
        (["--policy", "openai", "--base-url", "http://127.0.0.1:1/v1", "--live"], "trio or tinker"),
        (["--policy", "torch", "--model", "no/such/folder"], "no/such/folder"),
        (["--model", "m"], "--model needs --policy"),
        (["--policy", "torch", "--format", "qwen4"], "there is no chat format 'qwen4'; known are qwen2_5_vl, qwen3_vl"),
        (["--policy", "torch", "--branches", "0"], "--branches"),
        (["--policy"], "--policy"),
    ],
)
def test_what_cannot_be_asked_ends_with_2_and_says_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["doctor", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_a_server_that_is_not_there_ends_with_1_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for model in (["--model", "m"], []):
        assert main(["doctor", "--policy", "openai", *model, "--base-url", "http://127.0.0.1:1/v1"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "is the server running" in said.err
        assert "tried" not in said.err


@pytest.mark.parametrize("model", [["--model", "m"], []])
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (error(502, "upstream"), "failed with status 502. The server says: upstream"),
        (error(503, "Loading model"), "The server says: Loading model"),
        (Said(b"<html><title>504</title></html>", 504, kind="text/html"), "the proxy answers, the model server behind"),
        (Said(b"who's there"), "no whole JSON"),
    ],
)
def test_a_server_in_trouble_ends_with_1_one_sentence_and_no_second_try(
    trouble: Said, words: str, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with LoopbackServer(trouble, models=trouble) as server:
        assert main(["doctor", "--policy", "openai", *model, "--base-url", server.url]) == 1
        assert len(server.posts) == len(model) / 2
    said = capsys.readouterr()
    assert (said.out, words in said.err) == ("", True), said


def test_a_server_that_works_without_a_list_of_models_is_probed(capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(completion(ANSWER), models=error(404, "no list")) as server:
        main(["doctor", "--policy", "openai", "--model", "m", "--fast", "--json", "--base-url", server.url])
        assert len(server.posts) == 7
    assert told(capsys)["requests"] == 6


@pytest.mark.parametrize(("service", "command"), [("trio", "trio login"), ("tinker", "tinker")])
def test_live_without_a_login_says_how_to_log_in(
    service: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTRIO_API_KEY", "TINKER_API_KEY", "PYTRIO_BASE_URL", "TINKER_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["doctor", "--live", "--policy", service, "--timeout", "20", "--json"]) == 1
    found = told(capsys)
    (account,) = found["live"]
    assert (account["service"], account["ok"]) == (service, False)
    assert command in account["detail"]
    assert "probes" not in found
    assert main(["doctor", "--live", "--policy", service, "--timeout", "20"]) == 1
    said = capsys.readouterr().out
    assert command in said
    assert f"{service}: {service}:" not in said


def test_the_options_reach_the_policy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from specvet.cli import models

    given: list[ModelOptions] = []

    def opened(name: str, options: ModelOptions) -> Any:
        given.append(options)
        return SeeingText()

    monkeypatch.setattr(models, "open_model", opened)
    server = ["--base-url", "http://x/v1", "--model", "m", "--tools", "text", "--format", "qwen3_5"]
    how = ["--tool-images", "user", "--branches", "3", "--timeout", "9", "--fast", "--json"]
    assert main(["doctor", "--policy", "openai", *server, *how]) == 0
    assert given == [
        ModelOptions(
            model="m",
            format="qwen3_5",
            base_url="http://x/v1",
            branches=3,
            tools="text",
            tool_images="user",
            timeout_s=9.0,
        )
    ]
    capsys.readouterr()
