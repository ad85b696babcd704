"""Bad input and bad luck: typed errors for those concerned, and the engine goes on for the others."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch_lab import FAMILIES, GREEDY, FakeGraphs, observe, opening, picture, run, say, tiny

from specvet.chat import Image, ImageError, ImageGeometry, ImageSegment, Ledger, LedgerError, TextSegment
from specvet.policies.tokens import PolicyError, SamplingParams
from specvet.policies.torch import engine as engine_module

LONG = SamplingParams(3000, temperature=0.0)


def test_a_model_that_loops_or_never_ends_stops_at_its_limit_and_can_go_on() -> None:
    policy = tiny("qwen2_5_vl", stop_ids=())
    with torch.no_grad():
        policy.model.module.lm_head.weight.zero_()  # every id is as likely as any other: greedy repeats id 0

    async def work() -> None:
        ledger = opening(policy)
        sequence = (await policy.sample(ledger, 1, SamplingParams(300, 0.0))).sequences[0]
        assert sequence.ids == (0,) * 300
        assert sequence.stop == "length"
        say(ledger, sequence)
        observe(policy, ledger)
        assert (await policy.sample(ledger, 1, GREEDY)).cached_tokens == ledger.ends[-1] - sum(
            s.n_tokens for s in ledger.segments[ledger.segments.index(ledger.sampled[0]) + 1 :]
        ) - 1

    run(work, policy)


def test_a_turn_ends_at_the_end_token_which_is_part_of_it() -> None:
    policy = tiny("qwen3_vl", block=5)
    end = policy.format.stop_ids[0]

    async def work() -> None:
        for seed in range(40):
            params = SamplingParams(200, temperature=3.0, seed=seed)
            (sequence,) = (await policy.sample(opening(policy), 1, params)).sequences
            assert (sequence.stop == "end") == (sequence.ids[-1] in policy.format.stop_ids)
            assert not set(sequence.ids[:-1]) & set(policy.format.stop_ids)
            if sequence.ids[-1] == end:
                return
        raise AssertionError("no turn ended by itself")

    run(work, policy)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (SamplingParams(4000), r"a prompt of \d+ tokens and up to 4000 sampled ones, but the context is 4000: at most"),
        (SamplingParams(0), "both must be at least 1"),
        (SamplingParams(5, temperature=-1), "out of range"),
        (SamplingParams(5, top_p=0), "out of range"),
        (SamplingParams(5, top_k=-1), "out of range"),
    ],
)
def test_what_cannot_be_sampled_is_refused_with_numbers(params: SamplingParams, reason: str) -> None:
    policy = tiny("qwen2_5_vl", context=4000)
    with pytest.raises(LedgerError, match=reason):
        run(lambda: policy.sample(opening(policy), 1, params), policy)


def test_a_turn_fits_the_context_to_the_last_token() -> None:
    policy = tiny("qwen3_5", context=100, stop_ids=(), block=8)

    async def work() -> None:
        ledger = opening(policy)
        left = 100 - ledger.n_tokens
        sequence = (await policy.sample(ledger, 2, SamplingParams(left, 0.0))).sequences[1]
        assert len(sequence.ids) == left
        assert sequence.logprobs == pytest.approx(policy.recomputed_logprobs(say(ledger, sequence)), abs=1e-4)

    run(work, policy)


def test_ledgers_that_a_model_cannot_be_shown_are_refused() -> None:
    policy = tiny("qwen2_5_vl")

    async def refused(ledger: Ledger, error: type[Exception], reason: str) -> None:
        with pytest.raises(error, match=reason):
            await policy.sample(ledger, 1, GREEDY)

    async def work() -> None:
        await refused(Ledger.of_text("qwen2_5_vl"), LedgerError, "holds words only")
        await refused(policy.format.new_ledger(), LedgerError, "empty ledger")
        beyond = opening(policy)
        beyond.append_sampled([policy.model.n_ids], None, "length")
        await refused(beyond, LedgerError, rf"the token id {policy.model.n_ids} is beyond the model's")
        bare = Ledger.from_dict(opening(policy).to_dict())
        await refused(bare, LedgerError, "known by its hash only")
        odd = policy.format.new_ledger()
        odd.append([replace(s, rows=7) if isinstance(s, ImageSegment) else s for s in opening(policy)])
        await refused(odd, LedgerError, "counted as 7 x 2 tokens; this model makes 2 x 2")

    run(work, policy)


def test_a_damaged_picture_fails_its_own_request_only() -> None:
    policy = tiny("qwen2_5_vl")
    good = picture(1)
    cut = Image(good.png[:200], good.width, good.height, hashlib.sha256(good.png[:200]).hexdigest())

    async def work() -> None:
        asked = [policy.sample(opening(policy, "?", image), 2, GREEDY) for image in (picture(2), cut, picture(3))]
        one, two, three = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(two, ImageError)
        assert not isinstance(one, BaseException)
        assert not isinstance(three, BaseException)
        ledger = opening(policy, "?", cut)
        with pytest.raises(ImageError, match="damaged"):
            await policy.sample(ledger, 1, GREEDY)

    run(work, policy)


def vast() -> dict[str, Any]:
    """A PNG that says it is 60,000 pixels each way, which Pillow refuses with an error of its own."""
    png = picture(1).png
    header = b"IHDR" + struct.pack(">II", 60_000, 60_000) + png[24:29]
    png = png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]
    rows, columns = ImageGeometry(14, 2, 1, 1 << 20).grid(60_000, 60_000)
    size = {"width": 60_000, "height": 60_000, "rows": rows, "columns": columns}
    return {"png": png, "sha256": hashlib.sha256(png).hexdigest(), **size}


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"png": picture(7).png}, "has the bytes of another one"),
        ({"sha256": "0" * 64}, "has the bytes of another one"),
        ({"png": picture(7, 96, 64).png}, "has the bytes of another one"),
        ({"width": 63}, "has 64 x 64 pixels, its ledger says 63 x 64"),
        (vast(), "is damaged"),
    ],
)
def test_a_picture_that_is_not_what_its_ledger_says_is_never_shown(other: dict[str, Any], reason: str) -> None:
    policy = tiny("qwen2_5_vl")

    async def work() -> None:
        await policy.sample(opening(policy), 1, GREEDY)  # the true one has been seen
        changed = policy.format.new_ledger()
        changed.append(
            [replace(s, **other) if isinstance(s, ImageSegment) else s for s in opening(policy, "?", picture(5))]
        )
        beside, refused = await asyncio.gather(
            policy.sample(opening(policy), 1, GREEDY), policy.sample(changed, 1, GREEDY), return_exceptions=True
        )
        assert not isinstance(beside, BaseException)
        assert isinstance(refused, LedgerError | ImageError)
        assert re.search(reason, str(refused))

    run(work, policy)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"temperature": -0.1},
        {"top_p": math.nan},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": -1},
        {"top_k": 1 << 70},
    ],
)
def test_sampling_that_no_model_can_do_is_refused_and_harms_nobody_beside_it(params: dict[str, Any]) -> None:
    policy = tiny("qwen2_5_vl")

    async def work() -> None:
        ledger = opening(policy)
        beside, refused = await asyncio.gather(
            policy.sample(ledger, 1, GREEDY),
            policy.sample(ledger, 1, SamplingParams(8, **params)),
            return_exceptions=True,
        )
        assert not isinstance(beside, BaseException)
        assert isinstance(refused, LedgerError)
        assert "out of range" in str(refused)

    run(work, policy)


def test_logits_that_are_no_numbers_are_an_error_not_a_log_prob() -> None:
    policy = tiny("qwen2_5_vl")
    with torch.no_grad():
        policy.model.text.norm.weight.fill_(float("nan"))
    with pytest.raises(PolicyError, match="logits are not finite"):
        run(lambda: policy.sample(opening(policy), 1, GREEDY), policy)


@pytest.mark.parametrize(
    ("error", "reason", "fatal"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory"),
            r"out of memory on cpu with .* branches at a time \(now 16\)",
            True,
        ),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory on cpu", True),
        (ValueError("a bug"), "sampling failed: ValueError: a bug", False),
    ],
)
def test_an_error_of_the_engine_reaches_all_who_wait_and_the_next_request_works(
    error: Exception, reason: str, fatal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny("qwen3_5")
    stock = engine_module.prefill

    def fails(*given: Any) -> Any:
        raise error

    async def work() -> None:
        expected = await policy.sample(opening(policy), 2, GREEDY)
        monkeypatch.setattr(engine_module, "prefill", fails)
        asked = [policy.sample(opening(policy, "x" * i), 2, GREEDY) for i in range(1, 4)]
        for said in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(said, PolicyError)
            assert said.fatal == fatal
            with pytest.raises(PolicyError, match=reason):
                raise said
        monkeypatch.setattr(engine_module, "prefill", stock)
        again = await policy.sample(opening(policy), 2, GREEDY)
        assert again.cached_tokens == 0
        assert [s.ids for s in again.sequences] == [s.ids for s in expected.sequences]

    run(work, policy)


def test_a_call_that_is_called_off_frees_its_rows_and_disturbs_nobody() -> None:
    policy = tiny("qwen2_5_vl", branches=4, stop_ids=())

    async def work() -> None:
        slow = asyncio.ensure_future(policy.sample(opening(policy, "slow"), 3, LONG))
        waiting = asyncio.ensure_future(policy.sample(opening(policy, "waits"), 4, LONG))
        other = await policy.sample(opening(policy, "quick"), 1, GREEDY)
        slow.cancel()
        waiting.cancel()
        for task in (slow, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len((await policy.sample(opening(policy, "next"), 4, GREEDY)).sequences) == 4
        assert len(other.sequences[0].ids) == 8

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_whose_turn_was_called_off_is_continued_as_if_nothing_had_been_said(family: str) -> None:
    policy, fresh = tiny(family, stop_ids=()), tiny(family, stop_ids=())

    async def work() -> None:
        ledger = opening(policy)
        asked = asyncio.ensure_future(policy.sample(ledger, 1, LONG))
        await policy.sample(opening(policy, "meanwhile"), 1, SamplingParams(20))
        asked.cancel()
        ledger.append([TextSegment((65, 66, 67), "user")])
        mine, theirs = await asyncio.gather(policy.sample(ledger, 1, GREEDY), fresh.sample(ledger, 1, GREEDY))
        assert mine.sequences[0].ids == theirs.sequences[0].ids
        assert mine.sequences[0].logprobs == pytest.approx(theirs.sequences[0].logprobs, abs=1e-4)

    run(work, policy, fresh)


def test_closing_fails_what_is_in_flight_and_what_comes_later_and_may_be_done_twice() -> None:
    policy = tiny("qwen2_5_vl", stop_ids=())

    async def work() -> None:
        asked = [asyncio.ensure_future(policy.sample(opening(policy, "x" * i), 8, LONG)) for i in range(1, 5)]
        await policy.sample(opening(policy), 1, SamplingParams(1))
        await policy.aclose()
        for said in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(said, PolicyError)
        with pytest.raises(PolicyError, match="closed"):
            await policy.sample(opening(policy), 1, GREEDY)
        policy.release(opening(policy))

    run(work, policy)


def test_weights_may_not_change_under_a_turn() -> None:
    policy = tiny("qwen2_5_vl", stop_ids=())

    async def work() -> None:
        asked = asyncio.ensure_future(policy.sample(opening(policy), 1, LONG))
        await policy.sample(opening(policy, "?"), 1, SamplingParams(1))
        with pytest.raises(PolicyError, match="weights may change between turns only"):
            policy.weights_changed()
        asked.cancel()

    run(work, policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_stand_still_in_a_step_keep_what_they_hold(family: str) -> None:
    """Rounded sizes and blocks step idle, parked and ended rows too; none of them may change."""
    policy = FakeGraphs.in_place_of(tiny(family, block=16, branches=6))

    async def work() -> None:
        ledgers = [opening(policy, f"{i}", picture(i)) for i in range(5)]
        for turn in range(3):
            limits = [SamplingParams(2 + 5 * ((i + turn) % 3), seed=i) for i in range(5)]
            order = list(range(5))[turn:] + list(range(turn))
            for i in order[:2]:
                say(ledgers[i], (await policy.sample(ledgers[i], 1, limits[i])).sequences[0])
            rest = await asyncio.gather(*(policy.sample(ledgers[i], 1, limits[i]) for i in order[2:]))
            for i, samples in zip(order[2:], rest, strict=True):
                say(ledgers[i], samples.sequences[0])
            for i in range(5):
                observe(policy, ledgers[i], seed=10 * turn + i)
        for ledger in ledgers:
            said = [x for s in ledger.sampled if s.logprobs is not None for x in s.logprobs]
            assert said == pytest.approx(list(policy.recomputed_logprobs(ledger)), abs=1e-4)
        assert policy.usage.prefilled_tokens / policy.usage.unique_tokens <= 1.2

    run(work, policy)
