"""`transformers serve` as a real process with a tiny random model: a server that people really run."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from probe_lab import T, run
from serve_lab import serving

pytest.importorskip("torch")
pytest.importorskip("fastapi", reason="`transformers serve` needs fastapi")
pytest.importorskip("openai", reason="`transformers serve` needs openai")

from specvet.chat.formats import chat_format
from specvet.chat.messages import assistant, tool, user
from specvet.chat.tiny import tiny_vocabulary
from specvet.policies.openai import OpenAIPolicy, ServerError, open_policy
from specvet.policies.options import ModelOptions
from specvet.policies.probes import probe, scene
from specvet.policies.tokens import SamplingParams

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(base URL, model) of a server that is killed in the end: it does not always stop when it is asked to."""
    from specvet.policies.torch.tiny import save_tiny

    folder = save_tiny(tmp_path_factory.mktemp("served") / "tiny", "qwen2_5_vl", 0)
    settings = folder / "generation_config.json"  # without this the server is greedy at every temperature
    # A call that is no JSON is a status 500 there, and random weights write no other: they are kept from the tag.
    call = tiny_vocabulary("qwen2_5_vl").need("<tool_call>")
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_sample": True, "suppress_tokens": [call]}))
    with serving(folder) as base_url:
        yield base_url, str(folder)


def using(policy: OpenAIPolicy, work: Coroutine[Any, Any, T]) -> T:
    """Do the work and close the policy, in one event loop."""

    async def both() -> T:
        try:
            return await work
        finally:
            await policy.aclose()

    return run(both())


def opened(served: tuple[str, str], **options: Any) -> OpenAIPolicy:
    base_url, model = served
    # One request at a time: the server seeds torch when a request arrives, not when its turn to sample has come, so
    # that seeds hold only for a request that is alone.
    return open_policy(ModelOptions(**{"base_url": base_url, "model": model, "branches": 1, **options}), environment={})


@pytest.mark.parametrize("manner", [{"tools": "tools"}, {"tools": "text", "format": "qwen2_5_vl"}])
def test_pictures_reach_the_model_the_later_ones_too(served: tuple[str, str], manner: dict[str, str]) -> None:
    policy = opened(served, **manner)
    report = using(policy, probe(policy))
    assert report.ok, report.failed
    for name in ("token_count", "determinism", "swap_image", "later_image", "alpha", "seed"):
        assert report[name].ok, name
    assert report["n"].ok is None  # it ignores n
    assert policy.usage.notes == {"n_not_honoured": 1.0}


def test_in_our_own_words_the_server_counts_what_our_ledger_counts(served: tuple[str, str]) -> None:
    format = chat_format("qwen2_5_vl", tiny_vocabulary("qwen2_5_vl"))
    turn, reply = scene.CALL, tool(scene.noise(), "Here it is.")
    policy = opened(served, tools="text", format="qwen2_5_vl")

    async def counts() -> list[tuple[int | None, int]]:
        found = []
        for messages in (
            scene.question(),
            scene.question(scene.curve()),
            (*scene.question(scene.curve()), turn, reply),
            scene.question(scene.curve(), scene.noise(), scene.mirrored()),
        ):
            replies = await policy.reply(messages, [scene.TOOL], 1, GREEDY)
            ledger = format.new_ledger()
            ledger.append(format.opening(messages, [scene.TOOL]))
            found.append((replies.prompt_tokens, ledger.n_tokens))
        await policy.aclose()
        return found

    for server, ledger in run(counts()):
        assert server == ledger


def test_what_the_tiny_model_babbles_is_truncated_and_counted(served: tuple[str, str]) -> None:
    policy = opened(served)
    replies = using(
        policy, policy.reply([user("Is it?")], [scene.TOOL], 3, SamplingParams(max_tokens=7, temperature=1.0))
    )
    assert [r.stop for r in replies.replies] == ["length"] * 3
    assert [r.sampled_tokens for r in replies.replies] == [7] * 3
    assert len({r.text for r in replies.replies}) == 3
    assert policy.usage.sampled_tokens == 21


def test_a_whole_conversation_goes_back_and_forth(served: tuple[str, str]) -> None:
    async def talk() -> OpenAIPolicy:
        policy = opened(served)
        messages = [user(scene.curve(), "Is it?"), scene.CALL, tool(scene.noise(), "Here.")]
        for _ in range(2):
            reply = (await policy.reply(messages, [scene.TOOL], 1, GREEDY)).replies[0]
            messages += [reply.message, user("That was neither a call nor an answer.")]
        await policy.aclose()
        return policy

    policy = run(talk())
    assert policy.usage.requests == 2
    assert policy.usage.images == 4


def test_the_model_need_not_be_named_and_another_name_is_told_with_the_servers_own(served: tuple[str, str]) -> None:
    policy = opened(served, model=None)
    using(policy, policy.reply([user("Is it?")], [], 1, GREEDY))
    assert policy.model == served[1]
    other = opened(served, model="qwen")
    with pytest.raises(ServerError, match=f"no model named 'qwen'.*It has: {re.escape(served[1])}") as e:
        using(other, other.reply([user("Is it?")], [], 1, GREEDY))
    assert e.value.fatal


def test_a_parameter_it_does_not_know_is_explained(served: tuple[str, str]) -> None:
    policy = opened(served)
    params = SamplingParams(max_tokens=4, top_k=5)
    with pytest.raises(ServerError, match=r"status 422.*Unexpected fields.*top_k"):
        using(policy, policy.reply([user("Is it?")], [], 1, params))


def test_many_at_once_are_all_answered(served: tuple[str, str]) -> None:
    async def many() -> list[Any]:
        policy = opened(served, branches=4)
        calls = [policy.reply([user(f"Number {i}?"), assistant("Hm."), user("?")], [], 1, GREEDY) for i in range(12)]
        replies = await asyncio.gather(*calls)
        await policy.aclose()
        return replies

    assert len(run(many())) == 12


def test_the_doctor_probes_a_server_on_the_command_line(
    served: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from specvet.cli.main import main

    monkeypatch.setenv("SPECVET_API_KEY", "sk-very-secret-0123456789")
    base_url, model = served
    assert main(["doctor", "--policy", "openai", "--base-url", base_url, "--fast", "--json"]) == 0
    out = capsys.readouterr().out
    told = json.loads(out)
    assert out.count("\n") == 1
    assert told["model"] == model
    assert {p["name"]: p["ok"] for p in told["probes"]} == {
        "token_count": True,
        "determinism": True,
        "swap_image": True,
        "later_image": True,
    }
    assert "very-secret" not in out
