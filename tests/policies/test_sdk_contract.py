"""The contract with the SDKs: the real pytrio and tinker clients, unmodified, on loopback services that speak their
wire protocols, with a tiny real torch model behind. The real services are closed and may differ in what they answer.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from remote_lab import Lab, branches, direct, opening, params, picture, reread, same, sampled
from services.backing import SEED

from specvet.agent.talk import TokenDriftError, TokenTalk
from specvet.chat import ImageSegment, LedgerError, rl_datum
from specvet.chat.messages import tool
from specvet.policies.options import ModelOptions
from specvet.policies.probes import probe
from specvet.policies.remote import wire_seed
from specvet.policies.tokens import PolicyError, Samples

TRIO = pytest.mark.parametrize("here", ["trio"], indirect=True)
TINKER = pytest.mark.parametrize(
    "here", [pytest.param("tinker", marks=pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))], indirect=True
)
PROBES = ("token_count", "determinism", "swap_image", "later_image")


# --- what is recorded is what the model said


def test_a_recorded_trajectory_is_the_models_own_and_reads_back_bit_for_bit(here: Lab) -> None:
    policy = here.open()
    compared = []

    def check(ledger: Any, n: int, asked: Any, got: Samples) -> None:
        wanted = direct(here.backing, ledger, n, asked)
        assert len(got.sequences) == n
        compared.extend(same(a, b) for a, b in zip(got.sequences, wanted, strict=True))
        assert got.prompt_tokens == ledger.n_tokens

    async def run() -> list[Any]:
        ledgers = await branches(policy, n=3, turns=3, check=check)
        await policy.aclose()
        return ledgers

    ledgers = asyncio.run(run())
    assert compared == [True] * (3 + 3 * 2)
    assert len({ledger.digest for ledger in ledgers}) == 3
    for ledger in ledgers:
        again = reread(ledger)
        assert again == ledger
        assert again.digest == ledger.digest
        for ours, theirs in zip(again.sampled, ledger.sampled, strict=True):
            assert ours.logprobs is not None
            assert theirs.logprobs is not None
            assert ours.logprobs.tobytes() == theirs.logprobs.tobytes()
        datum = rl_datum(again, 1.0)
        assert datum.n_learnt == ledger.n_sampled
        assert len(datum.images) == 3


def test_an_independent_engine_reads_the_same_logprobs_in_a_recorded_trajectory(here: Lab) -> None:
    from specvet.policies.torch import open_policy

    policy = here.open()
    engine = open_policy(ModelOptions(format=policy.format.name, device="cpu", seed=SEED))  # the same tiny weights

    async def run() -> None:
        # Not resized in either family: both would resize a picture, but not by the same code.
        for ledger in await branches(policy, n=2, turns=2, size=(448, 224)):
            said = np.concatenate([s.logprobs for s in ledger.sampled if s.logprobs is not None])
            again = await asyncio.to_thread(engine.recomputed_logprobs, ledger)
            np.testing.assert_allclose(said, again, atol=1e-4)
        await engine.aclose()

    asyncio.run(run())


def test_every_request_carries_the_ledger_its_pictures_and_their_counts(here: Lab) -> None:
    format = here.backing.format
    ledger = opening(format, picture(1), picture(2, 112, 224))
    ledger.append_sampled([5, 6, format.stop_ids[0]], [-1.0, -2.0, -0.5], "end")
    ledger.append(format.observation(ledger, tool("Here.", picture(3))))
    sampled(here, 2, ledger=ledger, max_tokens=3, temperature=0.7, top_p=0.9, top_k=40)
    (body,) = here.service.sampled()
    ids: list[int] = []
    pictures = []
    for chunk in body["prompt"]["chunks"]:
        if chunk["type"] == "image":
            pictures.append((base64.b64decode(chunk["data"]), chunk["format"], chunk["expected_tokens"]))
            ids += [ledger.images[0].pad_id] * chunk["expected_tokens"]
        else:
            ids += chunk["tokens"]
    assert ids == ledger.ids().tolist()
    assert pictures == [(s.png, "png", s.n_tokens) for s in ledger.images]
    assert body["num_samples"] == 2
    told = body["sampling_params"]
    assert told["seed"] == wire_seed(params().seed)
    assert told.get("stop_token_ids", told.get("stop")) == list(format.stop_ids)
    assert (told["max_tokens"], told["temperature"], told["top_p"], told["top_k"]) == (3, 0.7, 0.9, 40)


@pytest.mark.parametrize(
    "asked",
    [{"temperature": 0.0}, {"temperature": 0.5, "top_k": 5}, {"top_p": 0.3}, {"max_tokens": 1}],
    ids=["greedy", "top_k", "top_p", "one token"],
)
def test_sampling_is_done_as_asked(here: Lab, asked: dict[str, Any]) -> None:
    ledger = opening(here.backing.format)
    wanted = direct(here.backing, ledger, 2, params(**asked))
    got = sampled(here, 2, ledger=ledger, **asked)
    assert [same(a, b) for a, b in zip(got.sequences, wanted, strict=True)] == [True, True]


def test_another_later_picture_moves_what_is_sampled(here: Lab) -> None:
    policy = here.open()
    heard = []
    for seed in (7, 8):
        ledger = opening(policy.format)
        ledger.append_sampled([5, 6, policy.format.stop_ids[0]], [-1.0, -2.0, -0.5], "end")
        ledger.append(policy.format.observation(ledger, tool("Here.", picture(seed))))
        heard.append(asyncio.run(policy.sample(ledger, 1, params(temperature=0.0))).sequences[0])
    assert not np.array_equal(heard[0].logprobs, heard[1].logprobs)


def ending(here: Lab, policy: Any, ledger: Any) -> int:
    """Make the third token that the model says an end token; gives its place among the sampled ids, from 1."""
    ids = direct(here.backing, ledger, 1, params())[0].ids
    policy.format.stop_ids = (ids[2],)
    return ids.index(ids[2]) + 1


def test_a_turn_that_ends_holds_its_end_token(here: Lab) -> None:
    policy = here.open()
    ledger = opening(policy.format)
    place = ending(here, policy, ledger)
    (one,) = asyncio.run(policy.sample(ledger, 1, params())).sequences
    assert one.stop == "end"
    assert len(one.ids) == place
    assert one.ids[-1] == policy.format.stop_ids[0]
    assert policy.usage.notes == {}
    (cut,) = asyncio.run(policy.sample(ledger, 1, params(max_tokens=place))).sequences
    assert (cut.ids, cut.stop) == (one.ids, "end")
    (cut,) = asyncio.run(policy.sample(ledger, 1, params(max_tokens=place - 1))).sequences
    assert (cut.ids, cut.stop) == (one.ids[:-1], "length")


def test_a_service_that_keeps_end_tokens_is_read_truly_and_counted(here: Lab) -> None:
    policy = here.open()
    here.faults.leave_out_end = True
    ledger = opening(policy.format)
    place = ending(here, policy, ledger)
    (one,) = asyncio.run(policy.sample(ledger, 1, params())).sequences
    assert (len(one.ids), one.stop) == (place - 1, "end")
    assert one.logprobs is not None
    assert one.logprobs.shape == (place - 1,)
    assert policy.usage.notes == {"end_tokens_left_out": 1}


# --- what is counted


def test_usage_counts_prompts_pictures_and_what_was_cached(here: Lab) -> None:
    policy = here.open()
    ledgers = asyncio.run(branches(policy, n=2, turns=2))
    usage, bodies = policy.usage, here.service.sampled()
    assert usage.requests == len(bodies) == 3
    assert usage.images == sum(c["type"] == "image" for b in bodies for c in b["prompt"]["chunks"]) == 5
    lengths = [
        sum(c["expected_tokens"] if c["type"] == "image" else len(c["tokens"]) for c in b["prompt"]["chunks"])
        for b in bodies
    ]
    assert usage.prompt_tokens == sum(lengths)
    assert usage.sampled_tokens == sum(ledger.n_sampled for ledger in ledgers)
    reread = sum(
        ledger.sampled[0].n_tokens - 1 for ledger in ledgers
    )  # but the last of each turn was read when sampled
    assert usage.unique_tokens == lengths[1] + lengths[2] - lengths[0] - reread
    assert usage.seconds > 0
    assert usage.cost == 0
    if here.name == "trio":  # says nothing of its cache
        assert usage.prefilled_tokens == usage.prompt_tokens
    else:
        assert usage.unique_tokens <= usage.prefilled_tokens < usage.prompt_tokens


def test_what_was_cached_is_passed_on_where_the_service_says_it(here: Lab) -> None:
    policy = here.open()
    ledger = opening(policy.format)
    first, again = (asyncio.run(policy.sample(ledger, 1, params())).cached_tokens for _ in range(2))
    assert (first, again) == ((None, None) if here.name == "trio" else (0, ledger.n_tokens // 16 * 16))


def test_a_picture_whose_count_is_wrong_is_found_out(here: Lab) -> None:
    right = opening(here.backing.format)
    wrong = here.backing.format.new_ledger()
    wrong.append(replace(s, rows=s.rows + 1) if isinstance(s, ImageSegment) else s for s in right)
    if here.name == "trio":  # counts for itself and says what it came to
        got = sampled(here, ledger=wrong)
        assert got.prompt_tokens == right.n_tokens != wrong.n_tokens
    else:  # refuses
        with pytest.raises(PolicyError, match=r"expected_tokens is 72.*refused this request") as caught:
            sampled(here, ledger=wrong)
        assert not caught.value.fatal


def test_a_service_that_counts_otherwise_is_found_out(here: Lab) -> None:
    here.faults.miscount = 2
    ledger = opening(here.backing.format)
    assert sampled(here, ledger=ledger).prompt_tokens == ledger.n_tokens + 2

    async def run() -> None:
        policy = here.open()
        talk = TokenTalk(policy, ledger, 4096)
        with pytest.raises(TokenDriftError):
            await talk.next(params())

    asyncio.run(run())


@TINKER
def test_an_older_tinker_is_sampled_from_without_its_count(here: Lab) -> None:
    here.service.old = True
    policy = here.open()
    first, again = (asyncio.run(policy.sample(opening(policy.format), 1, params())) for _ in range(2))
    assert (first.prompt_tokens, again.prompt_tokens) == (None, None)
    assert first.sequences[0].ids == again.sequences[0].ids
    assert len(here.service.sampled()) == 3  # asked twice only once


def test_the_probes_of_a_runs_start_pass(here: Lab) -> None:
    report = asyncio.run(probe(here.open(), fast=True))
    assert {p.name: p.ok for p in report.probes} == dict.fromkeys(PROBES, True)


@TRIO
def test_the_probes_of_a_runs_start_find_a_blind_service(here: Lab) -> None:
    here.faults.blind = True
    report = asyncio.run(probe(here.open(), fast=True))
    blind = {"swap_image": False, "later_image": False}
    assert {p.name: p.ok for p in report.probes} == dict.fromkeys(PROBES, True) | blind


def test_a_service_that_loses_a_logprob_is_found_out(here: Lab) -> None:
    here.faults.lose_logprobs = True
    with pytest.raises(LedgerError, match="gave 4 log-probs for 5 sampled tokens"):
        sampled(here)


# --- manners


def test_nothing_is_told_to_anybody_else(here: Lab, only_loopback: list[str]) -> None:
    sampled(here)
    gc.collect()
    assert only_loopback == []
    assert [p for p in here.service.paths() if "telemetry" in p] == []


def test_nothing_is_printed_or_warned_of(here: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if here.name == "tinker":  # never closes the connection that fetched its settings
            warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        sampled(here)
        here.faults.statuses = [500]
        sampled(here, max_tokens=1)
    assert capfd.readouterr() == ("", "")


@TINKER
def test_tinkers_own_transport_in_rust_works_as_well(here: Lab) -> None:
    here.service.rust = True
    ledger = opening(here.backing.format)
    (wanted,) = direct(here.backing, ledger, 1, params())
    assert same(sampled(here, ledger=ledger).sequences[0], wanted)


@TRIO
def test_pytrio_settings_and_hooks_are_left_as_they_were(here: Lab) -> None:
    from pytrio.config.config import configuration

    before, hook = configuration.model_dump(), sys.excepthook
    here.open()
    assert configuration.model_dump() == before
    assert sys.excepthook is hook


PROGRAM = """
import asyncio, sys
from specvet.chat.messages import user
from specvet.policies import {name} as module
from specvet.policies.options import ModelOptions
from specvet.policies.probes import probe
from specvet.policies.tokens import SamplingParams
options = ModelOptions(model={model!r}, tokenizer={tokenizer!r}, base_url={url!r}, timeout_s=20)
closed, forgotten = module.open_policy(options), module.open_policy(options)
async def run():
    for policy in (closed, forgotten):
        ledger = policy.format.new_ledger()
        ledger.append(policy.format.opening([user("Is it?")]))
        await policy.sample(ledger, 1, SamplingParams(max_tokens=1))
    await closed.aclose()
asyncio.run(run())
print(sys.excepthook is sys.__excepthook__)
"""


def test_a_program_ends_cleanly_whether_or_not_it_closes(here: Lab) -> None:
    code = PROGRAM.format(
        name=here.name, model=here.options.model, tokenizer=here.options.tokenizer, url=here.options.base_url
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"True\n", b"")
